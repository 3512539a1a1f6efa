/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of random numbers, as far apart and as well aligned as the program's.
 */
#include "shim/act/trial.h"

#include <string.h>

#include "shim/ask/mirror.h"
#include "shim/gpu/scratch.h"

/* Numbers before they come again: a prime, so that no two rows or heads are alike. */
#define PERIOD_16 32749
#define PERIOD_32 16381
#define ALIGNED	  256

/* Bytes from the first element to behind the last; 0: the host cannot tell. */
static uint64_t span(const struct attn_tensor *tensor, const int64_t size[4])
{
	int64_t last = 0;

	if (tensor->by_array)
		return 0;
	for (int d = 0; d < 4; d++) {
		if (tensor->stride[d] < 0 && size[d] > 1)
			return 0;
		last += (size[d] - 1) * tensor->stride[d];
	}
	return (uint64_t)(last + 1) * (uint64_t)attn_dtype_size(tensor->dtype);
}

static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 9; /* the lower bits come again too soon */
}

/* Numbers from 1/8 to 1 with either sign. Bytes of them. */
static uint64_t make_numbers(unsigned char *host, int dtype, uint32_t *state)
{
	const int mantissa = dtype == ATTN_F16 ? 10 : dtype == ATTN_BF16 ? 7 : 23;
	const uint32_t bias = dtype == ATTN_F16 ? 15 : 127;
	const size_t size = dtype == ATTN_F32 ? 4 : 2;
	const int count = size == 4 ? PERIOD_32 : PERIOD_16;

	for (int i = 0; i < count; i++) {
		const uint32_t exponent = bias - 3 + next(state) % 3, sign = next(state) & 1;
		const uint32_t bits = sign << (size * 8 - 1) | exponent << mantissa |
				      (next(state) & ((1u << mantissa) - 1));

		memcpy(host + (size_t)i * size, &bits, size);
	}
	return (uint64_t)count * size;
}

static bool place(struct trial *trial, int n, struct attn_tensor *tensor, const int64_t size[4],
		  const struct mirrors *mirrors, uint32_t *state)
{
	const uint64_t bytes = span(tensor, size), ahead = tensor->base % ALIGNED;

	if (!bytes || tensor->dtype > ATTN_F32)
		return false;
	trial->block[n] = scratch_get(mirrors->context, mirrors->stream, ahead + bytes, false);
	tensor->base = trial->block[n] + ahead;
	return trial->block[n] && mirrors_fill(mirrors, trial->block[n], ahead + bytes,
					       make_numbers(mirrors->host, tensor->dtype, state));
}

bool trial_begin(struct trial *trial, const struct chain *chain, const struct attn_args *args)
{
	const int64_t queries[4] = {args->B, args->H, args->Sq, args->D};
	const int64_t keys[4] = {args->B, args->H, args->Sk, args->D};
	const int64_t values[4] = {args->B, args->H, args->Sk, args->Dv};
	struct mirrors mirrors;
	uint32_t state = 1;
	bool made;

	*trial = (struct trial){.args = *args, .stream = chain->stream};
	made = mirrors_begin(&mirrors, chain->context, chain->stream) &&
	       place(trial, 0, &trial->args.q, queries, &mirrors, &state) &&
	       place(trial, 1, &trial->args.k, keys, &mirrors, &state) &&
	       place(trial, 2, &trial->args.v, values, &mirrors, &state);
	mirrors_close(&mirrors);
	return made;
}

void trial_end(struct trial *trial)
{
	for (int n = 0; n < 3; n++)
		scratch_put(trial->block[n], trial->stream);
}
