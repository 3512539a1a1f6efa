/* SPDX-License-Identifier: Apache-2.0
 *
 * A product in a few words, and a table of those that were tried.
 */
#include "shim/site/opener.h"

#include <string.h>

#include "shim/base/hash.h"

/* How often 1 must be doubled to be as many: 17 … 32 are alike. */
static uint64_t doublings(uint64_t number)
{
	return (uint64_t)(64 - __builtin_clzll(number - 1));
}

/* Rows of scores, as far as they tell sites apart. A program whose sentences have other lengths in
 * each call attends with as many queries as keys: only what doubles makes another site, as kernels
 * differ for short and long rows. */
#define CLASS (1ull << 63)
#define SHORT 16
static uint64_t rows_class(const struct op_gemm *gemm)
{
	if (gemm->n != gemm->m || gemm->n <= SHORT)
		return (uint64_t)gemm->n;
	return CLASS | doublings((uint64_t)gemm->n);
}

/* The same of batches times heads: the last batch is smaller, beams end. */
#define FEW 4
static uint64_t batch_class(const struct op_gemm *gemm)
{
	const uint64_t batch = (uint64_t)gemm_part(gemm);

	return batch <= FEW ? batch : CLASS | doublings(batch);
}

uint64_t opener_signature(const struct op_gemm *gemm)
{
	uint64_t alpha, beta, hash = 1;

	memcpy(&alpha, &gemm->alpha, 8);
	memcpy(&beta, &gemm->beta, 8);
	hash = hash_mix(hash, (uint64_t)gemm->transa << 8 | (uint64_t)gemm->transb);
	hash = hash_mix(hash, rows_class(gemm));
	hash = hash_mix(hash, (uint64_t)gemm->k);
	hash = hash_mix(hash, batch_class(gemm));
	hash = hash_mix(hash, (uint64_t)gemm->atype << 32 | (uint64_t)gemm->ctype);
	hash = hash_mix(hash, (uint64_t)gemm->compute_type << 32 | (uint64_t)gemm->math_mode);
	return hash_mix(hash_mix(hash_mix(hash, alpha), beta), gemm->scalars_on_device);
}

/* ---- those that lead nowhere ---------------------------------------------------------------- */

#define OPENERS 512

/* A library that tries what is fastest issues one product again and again, and looks at what it
 * made. So many of these say nothing of the same product in the program. */
#define MOST_REPEATED 64

static struct opener {
	uint64_t key;
	uint32_t failures, skipped;
	uint32_t repeated; /* failures that were not counted, for … */
	bool again;	   /* … the product before was the same */
} openers[OPENERS];

/* How many rows there are does not count, but where it is a single one. In a batch of one, that of
 * dense layers, the other dimension tells their weights from one another, and these from the keys
 * of a single head. Of others the number in the batch tells attention, which has as many as there
 * are heads, from what Q is multiplied with besides: a table of relative positions has one for each
 * row of an image. */
static struct opener *opener_slot(const struct op_gemm *gemm)
{
	struct op_gemm shape = *gemm;
	uint64_t key;

	shape.n = gemm->n == 1;
	key = hash_mix(opener_signature(&shape), (uint64_t)gemm_part(gemm));
	if (gemm_part(gemm) == 1)
		key = hash_mix(key, (uint64_t)gemm->m);
	for (unsigned i = 0; i < 8; i++) {
		struct opener *slot = &openers[(key + i) % OPENERS];

		if (slot->key == key)
			return slot;
		if (!slot->key) {
			slot->key = key;
			return slot;
		}
	}
	openers[key % OPENERS] = (struct opener){.key = key};
	return &openers[key % OPENERS];
}

/* Tries become rarer as they fail, down to this of so many calls. What is done once for each head
 * or image is seldom a dense layer. */
static unsigned rarest(const struct op_gemm *gemm)
{
	return gemm->batch > 1 ? 16 : 256;
}

bool opener_promising(const struct op_gemm *gemm)
{
	static uint64_t latest; /* flow lock */
	struct opener *slot = opener_slot(gemm);
	unsigned every;

	slot->again = latest == slot->key;
	latest = slot->key;
	if (slot->failures < 4)
		return true;
	every = slot->failures < 10 ? 1u << (slot->failures - 2) : 256;
	if (every > rarest(gemm))
		every = rarest(gemm);
	return ++slot->skipped % every == 0;
}

void opener_result(const struct op_gemm *gemm, bool closed)
{
	struct opener *slot = opener_slot(gemm);

	if (closed)
		slot->failures = 0;
	else if (gemm->batch > 1 && slot->again && slot->repeated < MOST_REPEATED)
		slot->repeated++;
	else
		slot->failures++;
}
