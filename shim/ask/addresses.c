/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of known kernels, and the last few launches that may turn out to be of this kind.
 */
#include "shim/ask/addresses.h"

#include <errno.h>
#include <string.h>

#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"
#include "shim/base/message.h"
#include "shim/ask/mirror.h"
#include "shim/rules/shadow.h"

#define FILLERS	 64
#define RECENT	 8
#define THREADS	 65536 /* one for each word is plenty */
#define ATTEMPTS 3     /* to launch again, in a process */

static struct filler fillers[FILLERS];
static int filler_count, failures;

static struct filling recent[RECENT]; /* [recent_count - 1] is the latest, modulo RECENT */
static unsigned recent_count;

static uint64_t word_at(const unsigned char *params, unsigned at)
{
	uint64_t word;

	memcpy(&word, params + at, 8);
	return word;
}

static bool may_fill(const struct sight *sight)
{
	const struct function *function = sight->function;
	const struct op_launch *launch = &sight->op->launch;
	const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];

	return !function->rule && function->bytes >= 16 &&
	       function->bytes <= ADDRESSES_PARAM_BYTES && !launch->cooperative &&
	       !launch->peculiar && blocks * threads <= THREADS;
}

/* Where pointers lie does not matter, but how those of one allocation lie to one another does: of
 * these it is not known which one an address was made of. */
uint64_t addresses_key(const struct function *function, const struct op_launch *launch,
		       const unsigned char *params)
{
	uint64_t base[ADDRESSES_POINTERS], first[ADDRESSES_POINTERS];
	uint64_t key = hash_mix(function->id, launch->shared_bytes);
	int count = 0;

	key = hash_bytes(key, launch->grid, sizeof(launch->grid));
	key = hash_bytes(key, launch->block, sizeof(launch->block));
	for (unsigned at = 0; at < function->bytes; at += 8) {
		const struct allocation *allocation =
			at + 8 <= function->bytes ? memory_find(word_at(params, at)) : NULL;
		int same = 0;

		if (!allocation) {
			key = hash_bytes(key, params + at,
					 function->bytes - at < 8 ? function->bytes - at : 8);
			continue;
		}
		while (same < count && base[same] != allocation->base)
			same++;
		if (same == ADDRESSES_POINTERS)
			return 0;
		if (same == count) {
			base[count] = allocation->base;
			first[count++] = word_at(params, at);
		}
		key = hash_mix(hash_mix(key, (uint64_t)same), word_at(params, at) - first[same]);
	}
	return key;
}

static const struct filler *find(uint64_t key)
{
	for (int i = 0; key && i < filler_count; i++)
		if (fillers[i].key == key)
			return &fillers[i];
	return NULL;
}

static const struct filler *filler_of(const struct sight *sight)
{
	const struct filler *filler = NULL;

	if (filler_count && may_fill(sight))
		filler = find(addresses_key(sight->function, &sight->op->launch, sight->params));
	return filler && filler->array_count ? filler : NULL;
}

bool addresses_access(const struct sight *sight)
{
	const struct filler *filler = filler_of(sight);

	for (int i = 0; filler && i < filler->array_count; i++) {
		const struct address_array *array = &filler->array[i];
		const uint64_t begin = word_at(sight->params, (unsigned)array->where);
		const uint64_t end = begin + 8 * (uint64_t)array->count;

		access_add(sight->list, (struct access){.begin = begin,
							.end = end,
							.sure_end = end,
							.mode = ACCESS_WRITE,
							.bounded = true,
							.where = array->where});
	}
	return filler != NULL;
}

static void put_arrays(const struct filler *filler, const unsigned char *params)
{
	static uint64_t words[ADDRESSES_BYTES / 8];

	for (int i = 0; i < filler->array_count; i++) {
		const struct address_array *array = &filler->array[i];

		for (int k = 0; k < array->count; k++)
			words[k] = word_at(params, (unsigned)array->word[k].where) +
				   (uint64_t)array->word[k].distance;
		shadow_put(word_at(params, (unsigned)array->where), words,
			   8 * (uint64_t)array->count);
	}
}

void addresses_note(const struct sight *sight)
{
	const struct filler *filler;
	struct filling *filling;

	if (sight->op->kind == OP_FREE) /* other memory may come to lie there */
		addresses_forget_launches();
	if (!shadow_wanted() || !sight->params || !may_fill(sight))
		return;
	filler = filler_of(sight);
	if (filler) {
		put_arrays(filler, sight->params);
		return;
	}
	filling = &recent[recent_count++ % RECENT];
	filling->function = sight->function;
	filling->context = sight->op->context;
	filling->launch = sight->op->launch;
	memcpy(filling->params, sight->params, sight->function->bytes);
}

void addresses_forget_launches(void)
{
	recent_count = 0;
}

/* May the launch have written there? */
static bool reaches(const struct filling *filling, uint64_t address)
{
	const struct allocation *allocation = memory_find(address);

	for (unsigned at = 0; allocation && at + 8 <= filling->function->bytes; at += 8) {
		const uint64_t word = word_at(filling->params, at);

		if (word >= allocation->base && word <= address)
			return true;
	}
	return false;
}

static const struct filler *learn(const struct filling *filling, CUstream stream)
{
	const uint64_t key = addresses_key(filling->function, &filling->launch, filling->params);
	struct filler *filler = &fillers[filler_count];
	struct driver_context here;
	struct ledger_entry entry;
	int error;

	if (!key || find(key) || filler_count == FILLERS || failures >= ATTEMPTS ||
	    !ledger_affords(LEDGER_ADDRESSES) ||
	    mirrors_objection(filling->function, filling->launch.grid, filling->launch.block,
			      filling->params) ||
	    !driver_enter(&here, filling->context))
		return NULL;
	COST(PURPOSE_ASKING);
	entry = ledger_begin(LEDGER_ADDRESSES);
	memset(filler, 0, sizeof(*filler));
	error = addresses_probe(filler, filling, stream);
	ledger_end(entry);
	driver_leave(&here);
	if (error == -EAGAIN) {
		failures++;
		return NULL;
	}
	filler->key = key;
	filler_count++;
	message_info("%s %s", filling->function->name,
		     error ? "fills no arrays of addresses" : "fills arrays of addresses");
	return error ? NULL : filler;
}

/* The latest launch that may have filled the array did so, as far as anybody can tell. */
static const struct filling *filling_of(uint64_t array)
{
	for (unsigned age = 1; age <= RECENT && age <= recent_count; age++) {
		const struct filling *filling = &recent[(recent_count - age) % RECENT];

		if (reaches(filling, array))
			return filling;
	}
	return NULL;
}

bool addresses_identify(const struct op *op)
{
	const uint64_t array[3] = {op->gemm.a, op->gemm.b, op->gemm.c};
	bool learned = false;

	if (config()->mode < MODE_COMPARE)
		return false;
	for (int i = 0; i < 3; i++) {
		const struct filling *filling = filling_of(array[i]);
		const struct filler *filler = NULL;

		if (filling && filling->context == op->context)
			filler = learn(filling, op->stream);
		if (filler)
			put_arrays(filler, filling->params);
		learned |= filler != NULL;
	}
	return learned;
}
