/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernel computes a call: the table of compiled variants and the choice among them.
 *
 * All variants of one width compute the same; they differ in how many blocks they make of the
 * work. Large row tiles read K and V least often, but a GPU of 100 and more multiprocessors
 * idles when the tiles are few. So: the largest tile that still fills FILL blocks, else the
 * smallest.
 *
 * A handful of queries goes to decode.cu, which splits the keys among blocks instead, as long as
 * blocks are too few and each still has more than one step to do.
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "kernels/wmma_variants.h"

#include <stddef.h>
#include <string.h>

/* Blocks that keep most multiprocessors of a large GPU busy. */
#define FILL 128

/* Queries up to which a row per block is best, and blocks that keep memory busy: two of decode.cu's
 * per multiprocessor. */
#define DECODE_QUERIES 4
#define DECODE_FILL    (2 * FILL)
#define DECODE_ARCH    80
#define CLUSTER_ARCH   90

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
	 WMMA_SHARED(rows, width, keys, groups),                                                   \
	 1},
#define ROW_F16(rows, width, keys, blocks, row_warps, groups, per_sm)                              \
	ROW("f16", 75, ATTN_F16, rows, width, keys, row_warps, groups)
#define ROW_BF16(rows, width, keys, blocks, row_warps, groups, per_sm)                             \
	ROW("bf16", 80, ATTN_BF16, rows, width, keys, row_warps, groups)

#define DECODE_ROW(type, dtype, width, parts)                                                      \
	{"decode_" type "_d" #width "_p" #parts,                                                   \
	 "fashim_decode_" type "_d" #width "_p" #parts,                                            \
	 (parts) > 1 ? CLUSTER_ARCH : DECODE_ARCH,                                                 \
	 dtype,                                                                                    \
	 width,                                                                                    \
	 1,                                                                                        \
	 DECODE_THREADS,                                                                           \
	 0,                                                                                        \
	 parts},
#define DECODE_ROW_F16(width, parts)  DECODE_ROW("f16", ATTN_F16, width, parts)
#define DECODE_ROW_BF16(width, parts) DECODE_ROW("bf16", ATTN_BF16, width, parts)

/* By dtype, then width, then rows falling or parts rising: the choice relies on the order. */
const struct attn_variant attn_variants[] = {
	WMMA_VARIANTS(ROW_F16) WMMA_VARIANTS(ROW_BF16)
	DECODE_VARIANTS(DECODE_ROW_F16) DECODE_VARIANTS(DECODE_ROW_BF16)};
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

static int is_decode(const struct attn_variant *v)
{
	return v->rows_per_block == 1;
}

/* The variant of decode.cu with as many parts as are of use. */
static const struct attn_variant *select_decode(const struct attn_args *args, int arch)
{
	int64_t rows = (int64_t)args->B * args->H * args->Sq;
	const struct attn_variant *best = NULL;

	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (!is_decode(v) || !fits(v, args, arch))
			continue;
		if (best && (best->max_d != v->max_d || rows * best->grid_x_factor >= DECODE_FILL ||
			     args->Sk <= best->grid_x_factor * DECODE_KEYS(v->max_d)))
			break;
		best = v;
	}
	return best;
}

const struct attn_variant *attn_select(const struct attn_args *args, int arch, const char *forced)
{
	const struct attn_variant *best = NULL;

	if (!possible(args))
		return NULL;
	if (!forced && args->Sq <= DECODE_QUERIES)
		best = select_decode(args, arch);
	if (best)
		return best;
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
		if (is_decode(v))
			continue;
		if (best && best->max_d != v->max_d)
			break;
		best = v;
		if (tiles * args->B * args->H >= FILL)
			break;
	}
	return best;
}
