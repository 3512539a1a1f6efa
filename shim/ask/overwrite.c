/* SPDX-License-Identifier: Apache-2.0
 *
 * Two launches. In the scores' place lie first small numbers, then others, such as probabilities
 * may be: bytes that come out the same were overwritten, those that still differ were left alone,
 * and anything else that differs was made of what lay there.
 */
#include "shim/ask/overwrite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/ask/addresses.h"
#include "shim/chain/chain.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"
#include "shim/ask/mirror.h"
#include "shim/real/driver.h"

#define RESULTS	   128
#define FAILURES   4	       /* launches that could not be made, in a process */
#define MOST_BYTES (64u << 20) /* of all copies: each byte is looked at on the host */

static const unsigned char pattern[2] = {0x38, 0x3a};

static struct result {
	uint64_t key;
	uint64_t bytes; /* overwritten from the pointer on; 0: none, or it is not clear */
	bool stops;	/* and nothing behind */
} results[RESULTS];
static int result_count, failures;

struct trial {
	const struct sight *sight;
	struct mirrors mirrors;
	uint64_t begin, end;	/* of the scores */
	unsigned char *seen[2]; /* what each launch left there … */
	uint64_t rest[2];	/* … and, hashed, elsewhere */
	bool stops;
};

/* Memory of the device's, hashed or (`keep`) brought home. */
static bool look(const struct trial *trial, uint64_t from, uint64_t bytes, uint64_t *hash,
		 unsigned char *keep)
{
	const struct mirrors *mirrors = &trial->mirrors;

	for (uint64_t done = 0, more; done < bytes; done += more) {
		more = bytes - done < MIRROR_HOST ? bytes - done : MIRROR_HOST;
		if (driver.cuMemcpyDtoHAsync_v2(mirrors->host, (CUdeviceptr)(from + done), more,
						mirrors->stream) != CUDA_SUCCESS ||
		    !mirrors_await(mirrors))
			return false;
		if (keep)
			memcpy(keep + done, mirrors->host, more);
		else
			*hash = hash_bytes(*hash, mirrors->host, more);
	}
	return true;
}

/* What lies behind the scores in their allocation. */
static bool look_behind(const struct trial *trial, uint64_t *hash)
{
	const struct mirror *mirror = mirrors_find(&trial->mirrors, trial->begin);

	return look(trial, mirror->copy + (trial->end - mirror->begin), mirror->end - trial->end,
		    hash, NULL);
}

static bool look_elsewhere(const struct trial *trial, uint64_t *hash)
{
	const struct mirror *home = mirrors_find(&trial->mirrors, trial->begin);

	for (int i = 0; i < trial->mirrors.count; i++) {
		const struct mirror *mirror = &trial->mirrors.item[i];
		const uint64_t end = mirror == home ? trial->begin : mirror->end;

		if (!look(trial, mirror->copy, end - mirror->begin, hash, NULL))
			return false;
	}
	return true;
}

static bool run(struct trial *trial, int pass)
{
	const struct sight *sight = trial->sight;
	const uint64_t at = mirrors_place(&trial->mirrors, trial->begin, NULL);
	const uint64_t bytes = trial->end - trial->begin;
	uint64_t before = 0, after = 0;

	if (!mirrors_refresh(&trial->mirrors) ||
	    driver.cuMemsetD8Async((CUdeviceptr)at, pattern[pass], bytes, trial->mirrors.stream) !=
		    CUDA_SUCCESS ||
	    !look_behind(trial, &before) ||
	    !mirrors_launch(&trial->mirrors, sight->function, &sight->op->launch, sight->params) ||
	    !look_behind(trial, &after) || !look(trial, at, bytes, NULL, trial->seen[pass]))
		return false;
	trial->stops &= before == after;
	trial->rest[pass] = after;
	return look_elsewhere(trial, &trial->rest[pass]);
}

static void judge(const struct trial *trial, struct result *result)
{
	const uint64_t bytes = trial->end - trial->begin;
	uint64_t same = 0;

	while (same < bytes && trial->seen[0][same] == trial->seen[1][same])
		same++;
	for (uint64_t i = same; i < bytes; i++)
		if (trial->seen[0][i] != pattern[0] || trial->seen[1][i] != pattern[1])
			return;
	if (trial->rest[0] != trial->rest[1])
		return;
	result->bytes = same;
	result->stops = trial->stops;
}

/* 0, -EFBIG: too much to look at, -EAGAIN. */
static int copy_memory(struct trial *trial)
{
	const struct sight *sight = trial->sight;
	uint64_t word, begin, end, bytes = 0;
	unsigned at;

	if (!mirrors_begin(&trial->mirrors, sight->op->context, sight->op->stream))
		return -EAGAIN;
	for (unsigned i = 0; i < sight->function->param_count; i++)
		for_each_pointer_word(sight->function, i, at) {
			memcpy(&word, sight->params + at, 8);
			if (memory_reach(word, &begin, &end) && !mirrors_add(&trial->mirrors, word))
				return -EFBIG;
		}
	for (int i = 0; i < trial->mirrors.count; i++)
		bytes += trial->mirrors.item[i].end - trial->mirrors.item[i].begin;
	if (bytes > MOST_BYTES)
		return -EFBIG;
	if (!mirrors_make(&trial->mirrors) || !mirrors_refresh(&trial->mirrors))
		return -EAGAIN;
	return mirrors_self_contained(&trial->mirrors) ? 0
	       : trial->mirrors.hindrance	       ? -EFBIG
						       : -EAGAIN;
}

static int try(struct result *result, const struct sight *sight, uint64_t begin, uint64_t end)
{
	struct trial trial = {.sight = sight, .begin = begin, .end = end, .stops = true};
	struct driver_context here;
	int error = -EAGAIN;

	COST(PURPOSE_ASKING);
	if (!driver_enter(&here, sight->op->context))
		return error;
	trial.seen[0] = malloc(end - begin);
	trial.seen[1] = malloc(end - begin);
	if (trial.seen[0] && trial.seen[1])
		error = copy_memory(&trial);
	if (!error && !(run(&trial, 0) && run(&trial, 1)))
		error = -EAGAIN;
	if (!error)
		judge(&trial, result);
	mirrors_close(&trial.mirrors);
	free(trial.seen[0]);
	free(trial.seen[1]);
	driver_leave(&here);
	return error;
}

/* Where the scores end that a closed chain has there; 0: none begin there. */
static uint64_t end_of_scores(const struct op *op, uint64_t address)
{
	for_each_chain(chain)
	{
		if (!chain->closed || chain->context != op->context || address < chain->low ||
		    address >= chain->high)
			continue;
		for (int i = 0; i < chain->value_count; i++) {
			const struct value *value = &chain->values[i];

			if (value->begin == address && !value->provisional && !value->outside &&
			    range_set_touches(&value->live, address, address + 1))
				return value->end;
		}
	}
	return 0;
}

static const struct result *ask(const struct sight *sight, const struct access *access,
				uint64_t end)
{
	const uint64_t key =
		hash_mix(addresses_key(sight->function, &sight->op->launch, sight->params),
			 (uint64_t)access->where);
	struct ledger_entry entry;
	struct result *result;
	int error;

	for (int i = 0; i < result_count; i++)
		if (results[i].key == key)
			return &results[i];
	if (result_count == RESULTS || failures == FAILURES || !ledger_affords(LEDGER_OVERWRITE))
		return NULL;
	entry = ledger_begin(LEDGER_OVERWRITE);
	result = &results[result_count];
	*result = (struct result){.key = key};
	error = try(result, sight, access->pointer, end);
	ledger_end(entry);
	if (error == -EAGAIN) {
		failures++;
		return NULL;
	}
	result_count++;
	return result;
}

static bool may_launch(const struct sight *sight)
{
	const struct op_launch *launch = &sight->op->launch;

	return sight->params && !sight->function->rule && !launch->cooperative &&
	       !launch->peculiar &&
	       !mirrors_objection(sight->function, launch->grid, launch->block, sight->params);
}

void overwrite_refine(const struct sight *sight)
{
	const struct access_list *list = sight->list;

	if (list->opaque || config()->ask != ASK_ALL || config()->mode < MODE_COMPARE ||
	    !may_launch(sight))
		return;
	for (int i = 0; i < list->count; i++) {
		struct access *access = &sight->list->item[i];
		const uint64_t end = access->mode == ACCESS_UNKNOWN && !access->bounded
					     ? end_of_scores(sight->op, access->pointer)
					     : 0;
		const struct result *result = end ? ask(sight, access, end) : NULL;

		if (!result || !result->bytes || !result->stops)
			continue;
		access->mode = ACCESS_WRITE;
		access->begin = access->pointer;
		access->end = access->sure_end = access->begin + result->bytes;
		access->bounded = true;
		access->grade = GRADE_MEASURED;
	}
}
