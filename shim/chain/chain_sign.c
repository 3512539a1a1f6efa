/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes two steps the same: code, constants and dataflow. Addresses do not count, nor do,
 * where there is a rule, bytes that it does not read, nor how many keys there are.
 */
#include "shim/chain/chain.h"

#include <string.h>

static uint64_t sign_meaning(uint64_t hash, const struct meaning *meaning)
{
	uint64_t scalar;

	memcpy(&scalar, &meaning->scalar, 8);
	hash = hash_mix(hash, scalar);
	hash = hash_bytes(hash, &meaning->factor, sizeof(meaning->factor));
	hash = hash_bytes(hash, &meaning->added, sizeof(meaning->added));
	hash = hash_mix(hash, (uint64_t)meaning->dims);
	for (int i = 0; i < meaning->view_count; i++) {
		hash = hash_mix(hash, (uint64_t)meaning->views[i].dtype);
		for (int d = 0; d < meaning->dims; d++)
			hash = hash_mix(hash, meaning->views[i].stride[d] == 0);
	}
	return hash;
}

/* The number of keys grows from call to call while a program decodes. A word that says how many
 * there are, or scores in a row, a head, or all, or how many blocks it takes to go through these,
 * is signed as what it says. Words up to SMALL say too many things at once. */
#define SMALL  4
#define COUNTS 4
#define SHIFTS 3 /* a number in elements of up to four bytes */

/* What such words are, of one opener: asked of each word of a launch's parameters. */
struct says {
	uint64_t count[COUNTS];
	uint64_t word[COUNTS * SHIFTS], least;
};

static void say(struct says *says, const struct op_gemm *opener)
{
	const uint64_t keys = (uint64_t)opener->m, rows = (uint64_t)opener->n;

	says->count[0] = keys;
	says->count[1] = rows * keys;
	says->count[2] = (uint64_t)opener->batch * keys;
	says->count[3] = (uint64_t)opener->batch * rows * keys;
	says->least = UINT64_MAX;
	for (unsigned i = 0; i < COUNTS * SHIFTS; i++) {
		says->word[i] = says->count[i / SHIFTS] << i % SHIFTS;
		if (says->word[i] < says->least)
			says->least = says->word[i];
	}
}

static uint64_t sign_count(uint64_t hash, unsigned count, unsigned shift)
{
	return hash_mix(hash, 0x6b657973ull << 32 | count << 8 | shift);
}

/* Which of them it is, or none: COUNTS * SHIFTS. */
static unsigned said_by(const struct says *says, uint32_t word)
{
	unsigned i = 0;

	if (word <= SMALL || word < says->least)
		return COUNTS * SHIFTS;
	while (i < COUNTS * SHIFTS && word != says->word[i])
		i++;
	return i;
}

static uint64_t sign_word(uint64_t hash, uint32_t word, unsigned said)
{
	return said < COUNTS * SHIFTS ? sign_count(hash, said / SHIFTS, said % SHIFTS)
				      : hash_mix(hash, word);
}

/* Two words next to each other: nearly all say nothing of the kind, and are signed at once. */
static uint64_t sign_pair(uint64_t hash, const struct says *says, const unsigned char *bytes)
{
	unsigned said[2];
	uint32_t word[2];

	memcpy(word, bytes, sizeof(word));
	for (int i = 0; i < 2; i++)
		said[i] = said_by(says, word[i]);
	if (said[0] == COUNTS * SHIFTS && said[1] == COUNTS * SHIFTS)
		return hash_mix(hash, (uint64_t)word[1] << 32 | word[0]);
	return sign_word(sign_word(hash, word[0], said[0]), word[1], said[1]);
}

static uint64_t sign_grid(uint64_t hash, const struct says *says, uint32_t blocks)
{
	for (unsigned i = 0; blocks > SMALL && i < COUNTS; i++)
		for (unsigned shift = 0; shift <= 12; shift++)
			if (blocks == (says->count[i] + (1u << shift) - 1) >> shift)
				return sign_count(hash, i, shift);
	return hash_mix(hash, blocks);
}

/* Everything but the pointers: their words are read as zero. */
static uint64_t sign_launch(uint64_t hash, const struct op_gemm *opener,
			    const struct function *function, const unsigned char *params,
			    const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
			    const struct access_list *list)
{
	unsigned char bytes[CHAIN_PARAM_BYTES + 8]; /* whole pairs of words */
	const uint64_t zero = 0;
	struct says says;

	say(&says, opener);
	memcpy(bytes, params, function->bytes);
	memset(bytes + function->bytes, 0, 8);
	for (int i = 0; i < list->count; i++)
		if ((unsigned)list->item[i].where + 8 <= function->bytes)
			memcpy(bytes + list->item[i].where, &zero, 8);
	for (unsigned at = 0; at < function->bytes; at += 8)
		hash = sign_pair(hash, &says, bytes + at);
	for (int i = 0; i < 3; i++)
		hash = sign_grid(hash, &says, grid[i]);
	hash = hash_bytes(hash, block, 3 * sizeof(*block));
	return hash_mix(hash, shared_bytes);
}

/* A step of so many products at once is no other's. */
static uint64_t of_parts(const struct op_gemm *opener)
{
	return opener->parts > 1 ? (uint64_t)opener->parts << 32 : 0;
}

uint64_t chain_launch_key(const struct op_gemm *opener, const struct sight *sight)
{
	const struct function *function = sight->function;
	const struct op_launch *launch = &sight->op->launch;

	return function->bytes > CHAIN_PARAM_BYTES
		       ? 0
		       : sign_launch(hash_mix(0x6c61756e6368ull + of_parts(opener), function->id),
				     opener, function, sight->params, launch->grid, launch->block,
				     launch->shared_bytes, sight->list);
}

bool chain_has_meaning(const struct meaning *meaning)
{
	return meaning->role != ROLE_UNKNOWN && meaning->role != ROLE_OPAQUE;
}

uint64_t chain_sign(const struct op_gemm *opener, const struct step *step,
		    const struct access_list *list)
{
	uint64_t hash = hash_mix(0x66617368696dull + of_parts(opener), step->meaning.role);

	/* What a rule has no words for is never replaced: it needs no telling apart by its
	 * constants. */
	if (step->meaning.role != ROLE_UNKNOWN) {
		hash = hash_mix(hash, step->function->name_hash);
		hash = sign_meaning(hash, &step->meaning);
	} else {
		hash = hash_mix(hash, step->function->id);
		hash = sign_launch(hash, opener, step->function, step->params, step->grid,
				   step->block, step->shared_bytes, list);
	}
	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *ref = &step->refs[i];

		hash = hash_mix(hash,
				(uint64_t)ref->mode << 16 |
					(uint64_t)(ref->slot >= 0 ? ref->slot : 256 + ref->index));
		hash = hash_mix(hash, (uint64_t)ref->where);
		hash = hash_mix(hash, ref->kind == REF_VALUE ? (uint64_t)ref->delta : 0);
	}
	return hash;
}
