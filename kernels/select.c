/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernel computes a call: the table of compiled variants and the choice among them.
 *
 * All variants of one width compute the same; they differ in how many blocks they make of the
 * work. Large row tiles read K and V least often, but a GPU of 100 and more multiprocessors
 * idles when the tiles are few. So: the largest tile that still fills FILL blocks, else the
 * smallest.
 */
#include "kernels/attention.h"
#include "kernels/wmma_variants.h"

#include <stddef.h>
#include <string.h>

/* Blocks that keep most multiprocessors of a large GPU busy. */
#define FILL 128

/* What every GPU of an architecture lets one block have, in bytes. */
#define SHARED_TURING (64 * 1024)
#define SHARED_OTHER  (99 * 1024)

#define ROW(type, arch, dtype, rows, width, keys, row_warps, groups)                               \
	{"wmma_" type "_d" #width "_r" #rows,                                                      \
	 "fashim_wmma_" type "_d" #width "_r" #rows,                                               \
	 arch,                                                                                     \
	 dtype,                                                                                    \
	 width,                                                                                    \
	 rows,                                                                                     \
	 32 * (row_warps) * (groups),                                                              \
	 WMMA_SHARED(rows, width, keys, groups)},
#define ROW_F16(rows, width, keys, blocks, row_warps, groups, per_sm)                              \
	ROW("f16", 75, ATTN_F16, rows, width, keys, row_warps, groups)
#define ROW_BF16(rows, width, keys, blocks, row_warps, groups, per_sm)                             \
	ROW("bf16", 80, ATTN_BF16, rows, width, keys, row_warps, groups)

/* By dtype, then width, then rows falling: attn_select relies on the order. */
const struct attn_variant attn_variants[] = {WMMA_VARIANTS(ROW_F16) WMMA_VARIANTS(ROW_BF16)};
const int attn_variant_count = (int)(sizeof(attn_variants) / sizeof(attn_variants[0]));

static int fits(const struct attn_variant *v, const struct attn_args *args, int arch)
{
	int shared = arch < 80 ? SHARED_TURING : SHARED_OTHER;

	return arch >= v->min_arch && args->q.dtype == v->dtype && args->D <= v->max_d &&
	       args->Dv <= v->max_d && v->shared_bytes <= shared;
}

/* Are dimensions and dtypes such that any kernel here could do it? */
static int possible(const struct attn_args *args)
{
	if (args->B < 1 || args->H < 1 || args->Sq < 1 || args->Sk < 1 || args->D < 1 ||
	    args->Dv < 1 || args->B > 65535 || args->H > 65535)
		return 0;
	if (args->k.dtype != args->q.dtype || args->v.dtype != args->q.dtype)
		return 0;
	if (args->o.dtype != ATTN_F16 && args->o.dtype != ATTN_BF16 && args->o.dtype != ATTN_F32)
		return 0;
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (args->spec.bias[n].base && args->spec.bias[n].dtype > ATTN_F32)
			return 0;
	return !args->spec.mask.base || args->spec.mask.dtype == ATTN_BOOL;
}

const struct attn_variant *attn_select(const struct attn_args *args, int arch, const char *forced)
{
	const struct attn_variant *best = NULL;

	if (!possible(args))
		return NULL;
	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];
		int64_t tiles = (args->Sq + v->rows_per_block - 1) / v->rows_per_block;

		if (!fits(v, args, arch))
			continue;
		if (forced) {
			if (!strcmp(v->name, forced))
				return v;
			continue;
		}
		if (best && best->max_d != v->max_d)
			break;
		best = v;
		if (tiles * args->B * args->H >= FILL)
			break;
	}
	return best;
}
