/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of compiled variants: one row for each line of the *_variants.h, which the kernels
 * themselves are expanded from. select.c chooses among them.
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "kernels/f32_variants.h"
#include "kernels/few_variants.h"
#include "kernels/mma_variants.h"
#include "kernels/rounded_variants.h"
#include "kernels/sm90_variants.h"
#include "kernels/split_variants.h"
#include "kernels/takes.h"
#include "kernels/tma_variants.h"
#include "kernels/twice_variants.h"
#include "kernels/wmma_variants.h"

#define TURING 75
#define AMPERE 80
#define HOPPER 90

#define LADDER_WIDTH 64

/* A row in the order of struct attn_variant, the name being the symbol without its prefix. */
#define ROW(label, arch, dtype, family, width, rows, threads, shared, factor, needs, keys)         \
	SHORT_ROW(label, arch, dtype, family, width, rows, threads, shared, factor, needs, keys, 0)
#define SHORT_ROW(label, arch, dtype, family, width, rows, threads, shared, factor, needs, keys,   \
		  most)                                                                            \
	{label,	 "fashim_" label, arch,	   dtype,  width,    rows,  threads,                       \
	 shared, factor,	  (needs), (keys), (family), (most)},

#define WMMA_ROW(type, arch, dtype, rows, width, keys, row_warps, groups, any)                     \
	ROW("wmma_" type "_d" #width "_r" #rows, arch, dtype, ATTN_WMMA, width, rows,              \
	    32 * (row_warps) * (groups), WMMA_SHARED(rows, width, keys, groups), 1,                \
	    !(any)*ATTN_NEEDS_USUAL, 0)
#define WMMA_F16(rows, width, keys, blocks, row_warps, groups, per_sm, any)                        \
	WMMA_ROW("f16", TURING, ATTN_F16, rows, width, keys, row_warps, groups, any)
#define WMMA_BF16(rows, width, keys, blocks, row_warps, groups, per_sm, any)                       \
	WMMA_ROW("bf16", AMPERE, ATTN_BF16, rows, width, keys, row_warps, groups, any)

#define MMA_ROW(type, dtype, width, rows, kind, keys, slice, blocks, groups, kept, per_sm)         \
	ROW("mma_" type "_d" #width "_r" #rows #kind, AMPERE, dtype, ATTN_MMA, width, rows,        \
	    2 * (rows) / (blocks) * (groups), MMA_SHARED(rows, width, keys, groups), 1,            \
	    MMA_IS_PLAIN(kind) ? ATTN_NEEDS_PLAIN | ATTN_NEEDS_ROWS : 0, 0)
#define MMA_F16(...)  MMA_ROW("f16", ATTN_F16, __VA_ARGS__)
#define MMA_BF16(...) MMA_ROW("bf16", ATTN_BF16, __VA_ARGS__)

#define ROUNDED_ROW(type, dtype, rows, kind, width, keys, groups, stages, kept, held, parts, any,  \
		    per_sm)                                                                        \
	SHORT_ROW("rounded_" type "_d" #width "_r" #rows #kind, (parts) > 1 ? HOPPER : AMPERE,     \
		  dtype, ATTN_ROUNDED, width, rows, 2 * (rows) * (groups),                         \
		  ROUNDED_SHARED(rows, width, keys, groups, stages, kept, parts), parts,           \
		  ((kept) > 0) * ATTN_NEEDS_SHORT | !(any)*ATTN_NEEDS_USUAL,                       \
		  (rows) > ROUNDED_FEW_ROWS ? (keys) : 0,                                          \
		  (kept) > 0 ? (groups) * (kept) * (keys) : 0)
#define ROUNDED_F16(...)  ROUNDED_ROW("f16", ATTN_F16, __VA_ARGS__)
#define ROUNDED_BF16(...) ROUNDED_ROW("bf16", ATTN_BF16, __VA_ARGS__)

#define DECODE_ROW(type, dtype, width, parts)                                                      \
	ROW("decode_" type "_d" #width "_p" #parts, (parts) > 1 ? HOPPER : AMPERE, dtype,          \
	    ATTN_DECODE, width, 1, DECODE_THREADS, DECODE_SHARED, parts, 0, 0)
#define DECODE_F16(width, parts)  DECODE_ROW("f16", ATTN_F16, width, parts)
#define DECODE_BF16(width, parts) DECODE_ROW("bf16", ATTN_BF16, width, parts)
#define DECODE_F32(width, parts)  DECODE_ROW("f32", ATTN_F32, width, parts)

#define ROUNDED_DECODE_ROW(type, dtype, width, parts)                                              \
	SHORT_ROW("rounded_decode_" type "_d" #width "_p" #parts, (parts) > 1 ? HOPPER : AMPERE,   \
		  dtype, ATTN_ROUNDED_DECODE, width, 1, DECODE_THREADS, ROUNDED_DECODE_SHARED,     \
		  parts, 0, 0, ROUNDED_DECODE_KEYS)
#define ROUNDED_DECODE_F16(width, parts)  ROUNDED_DECODE_ROW("f16", ATTN_F16, width, parts)
#define ROUNDED_DECODE_BF16(width, parts) ROUNDED_DECODE_ROW("bf16", ATTN_BF16, width, parts)

#define FEW_ROW(type, dtype, width, parts)                                                         \
	ROW("few_" type "_d" #width "_p" #parts, (parts) > 1 ? HOPPER : AMPERE, dtype, ATTN_FEW,   \
	    width, FEW_ROWS, FEW_THREADS, FEW_SHARED, parts, 0, 0)
#define FEW_F16(width, parts)  FEW_ROW("f16", ATTN_F16, width, parts)
#define FEW_BF16(width, parts) FEW_ROW("bf16", ATTN_BF16, width, parts)

#define F32_ROW(width, keys, warps, per_sm, start, tile)                                           \
	ROW("f32_d" #width, AMPERE, ATTN_F32, ATTN_F32_ANY, width, 16 * (warps), 32 * (warps),     \
	    F32_SHARED(width, keys, warps), 1, 0, 0)

#define TMA_ROW(type, dtype, name, width, groups, keys, q_stages, stages, kind, down)              \
	ROW("tma_" type "_" #name, HOPPER, dtype, ATTN_TMA, width, 64 * (groups),                  \
	    TMA_THREADS(groups), TMA_SHARED(width, groups, keys, q_stages, stages, kind), 0,       \
	    ATTN_NEEDS_ARCH | ATTN_NEEDS_MAPS | ATTN_NEEDS_USUAL | (down)*ATTN_NEEDS_DOWN |        \
		    ((kind) == TMA_PLAIN  ? ATTN_NEEDS_PLAIN                                       \
		     : (kind) == TMA_BIAS ? ATTN_NEEDS_BIAS                                        \
		     : (kind) == TMA_TWO  ? ATTN_NEEDS_TWO                                         \
					  : ATTN_NEEDS_MASK),                                       \
	    keys)
#define TMA_F16(...)  TMA_ROW("f16", ATTN_F16, __VA_ARGS__)
#define TMA_BF16(...) TMA_ROW("bf16", ATTN_BF16, __VA_ARGS__)

#define TWICE_ROW(type, dtype, name, width, groups, keys, q_stages, stages, kind)                  \
	ROW("twice_" type "_" #name, HOPPER, dtype, ATTN_TWICE, width, 64 * (groups),              \
	    TMA_THREADS(groups), TMA_SHARED(width, groups, keys, q_stages, stages, kind), 0,       \
	    ATTN_NEEDS_ARCH | ATTN_NEEDS_MAPS | ATTN_NEEDS_USUAL |                                 \
		    ((kind) == TMA_TWO ? ATTN_NEEDS_TWO : ATTN_NEEDS_BIAS),                        \
	    keys)
#define TWICE_F16(...)	TWICE_ROW("f16", ATTN_F16, __VA_ARGS__)
#define TWICE_BF16(...) TWICE_ROW("bf16", ATTN_BF16, __VA_ARGS__)

#define SPLIT_ROW(type, dtype, name, width, parts, stages, per_sm, plain)                          \
	ROW("split_" type "_" #name, HOPPER, dtype, ATTN_SPLIT, width, SPLIT_ROWS,                 \
	    128 * SPLIT_GROUPS, SPLIT_SHARED(width, parts, stages), parts,                         \
	    ATTN_NEEDS_ARCH | ATTN_NEEDS_MAPS | ATTN_NEEDS_USUAL | (plain)*ATTN_NEEDS_PLAIN,       \
	    SPLIT_KEYS)
#define SPLIT_F16(...)	SPLIT_ROW("f16", ATTN_F16, __VA_ARGS__)
#define SPLIT_BF16(...) SPLIT_ROW("bf16", ATTN_BF16, __VA_ARGS__)

#define SM90_ROW(type, dtype, name, width, keys, groups, per_sm, down, any)                        \
	ROW("sm90_" type "_" #name, HOPPER, dtype, ATTN_SM90, width, 64 * (groups),                \
	    128 * (groups), SM90_SHARED(width, keys, groups), 1,                                   \
	    ATTN_NEEDS_ARCH | ATTN_NEEDS_PIECES | (down)*ATTN_NEEDS_DOWN |                         \
		    !(any)*ATTN_NEEDS_USUAL,                                                       \
	    0)
#define SM90_F16(...)  SM90_ROW("f16", ATTN_F16, __VA_ARGS__)
#define SM90_BF16(...) SM90_ROW("bf16", ATTN_BF16, __VA_ARGS__)

#define F32_SM90_ROW(name, width, keys, groups, stages, raws, parts, per_sm, kind, ahead, few,     \
		     many, start, tile)                                                            \
	ROW("sm90_f32_" #name, HOPPER, ATTN_F32, ATTN_F32_SM90, width, 64 * (groups),              \
	    128 * (groups) + 128, F32_SM90_SHARED(width, keys, groups, stages, raws), parts,       \
	    ATTN_NEEDS_ARCH | ((kind) == F32_PLAIN) * ATTN_NEEDS_PLAIN |                           \
		    ((kind) == F32_IMAGE ? ATTN_NEEDS_IMAGE : ATTN_NEEDS_USUAL) |                  \
		    !(raws)*ATTN_NEEDS_ROWS,                                                       \
	    0)

/* clang-format off */
#define LADDER(number, label, rows, threads, shared, grid, needs, l4, figure, adds) \
	{"ladder/" #label, "fashim_ladder_" #label, AMPERE, ATTN_F16, LADDER_WIDTH, rows, threads, \
	 shared, grid, ATTN_NEEDS_PLAIN | (needs), 0, ATTN_LADDER, 0},
/* clang-format on */

/* Within a family: by dtype, then width, then what a choice looks at in this order. Families that
 * need nothing come first. */
const struct attn_variant attn_variants[] = {
	/* clang-format off */
	WMMA_NARROW_VARIANTS(WMMA_F16)
	WMMA_VARIANTS(WMMA_F16)
	WMMA_VARIANTS(WMMA_BF16)
	MMA_VARIANTS(MMA_F16)
	MMA_VARIANTS(MMA_BF16)
	ROUNDED_VARIANTS(ROUNDED_F16)
	ROUNDED_VARIANTS(ROUNDED_BF16)
	ROUNDED_DECODE_VARIANTS(ROUNDED_DECODE_F16)
	ROUNDED_DECODE_VARIANTS(ROUNDED_DECODE_BF16)
	DECODE_VARIANTS(DECODE_F16)
	DECODE_VARIANTS(DECODE_BF16)
	DECODE_VARIANTS(DECODE_F32)
	FEW_VARIANTS(FEW_F16)
	FEW_VARIANTS(FEW_BF16)
	F32_VARIANTS(F32_ROW)
	SPLIT_VARIANTS(SPLIT_F16)
	SPLIT_VARIANTS(SPLIT_BF16)
	TMA_VARIANTS(TMA_F16)
	TMA_VARIANTS(TMA_BF16)
	TWICE_VARIANTS(TWICE_F16)
	TWICE_VARIANTS(TWICE_BF16)
	SM90_VARIANTS(SM90_F16)
	SM90_VARIANTS(SM90_BF16)
	F32_SM90_VARIANTS(F32_SM90_ROW)
#include "kernels/ladder/ladder.def"
	/* clang-format on */
};
_Static_assert(sizeof(attn_variants) / sizeof(attn_variants[0]) <= ATTN_VARIANTS_MOST,
	       "there is room for each");
const int attn_variant_total = (int)(sizeof(attn_variants) / sizeof(attn_variants[0]));

#define ONE(...) +1
const int attn_variant_count = (0 WMMA_NARROW_VARIANTS(ONE)) + 2 * (0 WMMA_VARIANTS(ONE)) +
			       2 * (0 MMA_VARIANTS(ONE)) + 2 * (0 ROUNDED_VARIANTS(ONE)) +
			       2 * (0 ROUNDED_DECODE_VARIANTS(ONE)) + 3 * (0 DECODE_VARIANTS(ONE)) +
			       2 * (0 FEW_VARIANTS(ONE)) + (0 F32_VARIANTS(ONE));
