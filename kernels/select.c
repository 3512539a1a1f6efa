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
#include "kernels/sm90_variants.h"
#include "kernels/wmma_variants.h"

#include <math.h>
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

/* Where sm90.cu is of use: enough blocks for its larger tiles, and more than one of them filled. */
#define SM90_ARCH    90
#define SM90_BLOCKS  64
#define SM90_QUERIES 64
#define SM90_STRIDE  (1 << 22) /* of rows: a tile of them is within reach of 31 bits */

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
	 1,                                                                                        \
	 0},
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
	 parts,                                                                                    \
	 0},
#define DECODE_ROW_F16(width, parts)  DECODE_ROW("f16", ATTN_F16, width, parts)
#define DECODE_ROW_BF16(width, parts) DECODE_ROW("bf16", ATTN_BF16, width, parts)

#define SM90_ROW(type, dtype, name, width, keys, groups, per_sm, plain, down)                      \
	{"sm90_" type "_" #name,                                                                   \
	 "fashim_sm90_" type "_" #name,                                                            \
	 SM90_ARCH,                                                                                \
	 dtype,                                                                                    \
	 width,                                                                                    \
	 64 * (groups),                                                                            \
	 128 * (groups),                                                                           \
	 SM90_SHARED(width, keys, groups),                                                         \
	 1,                                                                                        \
	 ATTN_NEEDS_ARCH | ATTN_NEEDS_PIECES | (plain)*ATTN_NEEDS_PLAIN | (down)*ATTN_NEEDS_DOWN},
#define SM90_ROW_F16(...)  SM90_ROW("f16", ATTN_F16, __VA_ARGS__)
#define SM90_ROW_BF16(...) SM90_ROW("bf16", ATTN_BF16, __VA_ARGS__)

/* By dtype, then width, then rows falling or parts rising: the choice relies on the order. Those
 * of sm90.cu that are plain come before those that are not. */
const struct attn_variant attn_variants[] = {
	WMMA_VARIANTS(ROW_F16) WMMA_VARIANTS(ROW_BF16) DECODE_VARIANTS(DECODE_ROW_F16)
		DECODE_VARIANTS(DECODE_ROW_BF16) SM90_VARIANTS(SM90_ROW_F16)
			SM90_VARIANTS(SM90_ROW_BF16)};
const int attn_variant_total = (int)(sizeof(attn_variants) / sizeof(attn_variants[0]));

#define ONE(...) +1
const int attn_variant_count = 2 * (0 WMMA_VARIANTS(ONE)) + 2 * (0 DECODE_VARIANTS(ONE));
#undef ONE

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

/* Do the rows of an operand start on 16 bytes, its columns (down: its rows) having stride 1? */
static int in_pieces(const struct attn_args *args, const struct attn_tensor *t, int down)
{
	const int64_t unit = t->stride[down ? 2 : 3], line = t->stride[down ? 3 : 2];

	return !t->by_array && unit == 1 && t->base % 16 == 0 && line % 8 == 0 && line >= 0 &&
	       line <= SM90_STRIDE && (args->B == 1 || t->stride[0] % 8 == 0) &&
	       (args->H == 1 || t->stride[1] % 8 == 0);
}

static int is_plain(const struct attn_spec *s)
{
	int window = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;

	return !s->bias[0].base && !s->bias[1].base && !s->mask.base && s->softcap == 0.0f &&
	       s->scale > 0.0f && (!window || s->window_value == -INFINITY);
}

/* Can an sm90.cu variant do it? */
static int fits_sm90(const struct attn_variant *v, const struct attn_args *args, int arch)
{
	return arch == v->min_arch && args->q.dtype == v->dtype && args->D == v->max_d &&
	       args->Dv == v->max_d && in_pieces(args, &args->q, 0) &&
	       in_pieces(args, &args->k, v->needs & ATTN_NEEDS_DOWN) &&
	       in_pieces(args, &args->v, 0) &&
	       (!(v->needs & ATTN_NEEDS_PLAIN) || is_plain(&args->spec));
}

static const struct attn_variant *select_sm90(const struct attn_args *args, int arch,
					      const char *forced, uint64_t available)
{
	for (int n = attn_variant_count; n < attn_variant_total; n++) {
		const struct attn_variant *v = &attn_variants[n];
		int64_t tiles = (args->Sq + v->rows_per_block - 1) / v->rows_per_block;

		if (!(available >> n & 1) || !fits_sm90(v, args, arch))
			continue;
		if (forced ? !strcmp(v->name, forced)
			   : args->Sq > SM90_QUERIES && tiles * args->B * args->H >= SM90_BLOCKS)
			return v;
	}
	return NULL;
}

const struct attn_variant *attn_select(const struct attn_args *args, int arch, const char *forced)
{
	return attn_select_from(args, arch, forced, 0);
}

const struct attn_variant *attn_select_from(const struct attn_args *args, int arch,
					    const char *forced, uint64_t available)
{
	const struct attn_variant *best = NULL;

	if (!possible(args))
		return NULL;
	best = select_sm90(args, arch, forced, available);
	if (best)
		return best;
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
