/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernel computes a call.
 *
 * All variants of one width compute the same; they differ in what they demand of the operands
 * (takes.c), and in how many blocks they make of the work. Families are asked in the order of their
 * speed, each for its best variant that takes the call:
 *
 *   few.cu      a handful of queries, or of heads that share K and V
 *   decode.cu   one query or two, fp32 too; as in few.cu, the keys are split among blocks
 *   split.cu    Hopper, too few rows to fill the GPU: likewise
 *   tma.cu      Hopper, operands that tensor maps describe
 *   sm90.cu     Hopper, rows on 16 bytes
 *   mma.cu      anything, from sm_80 on
 *   wmma.cu     anything
 *   f32_sm90.cu, f32.cu  fp32: whichever takes least by their measured times
 *   rounded_decode.cu  a few queries, P rounded as the program does
 *   twice.cu    Hopper, P rounded as the program does: operands that tensor maps describe
 *   rounded.cu  whatever is to be rounded as the program does, and nothing else
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "kernels/f32_variants.h"
#include "kernels/few_variants.h"
#include "kernels/rounded_variants.h"
#include "kernels/split_variants.h"
#include "kernels/takes.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Blocks that keep most multiprocessors of a large GPU busy. */
#define FILL 128

/* A row of decode.cu reads K and V for itself. Up to this many queries of a head, or rows of heads
 * that share K and V, this costs less than few.cu's tile of 16 rows does; where few.cu has no
 * variant, up to as many queries as rows. The same of fp32, however many heads share K and V: there
 * decode.cu is as exact as a program's products of vectors, which the other fp32 kernels are not,
 * and with four queries still faster (H100: B1 H32, 2048 keys, D 128, 36 us for 73; B1 H20, 1500, D
 * 64, 14.5 for 17; B16 H8, 2048, D 64, 55 for 66). And of rounded_decode.cu beside rounded.cu
 * (H200, bf16, B1 H32, 1024 keys, D 128, four queries: 11.9 us for 17.7). */
#define DECODE_QUERIES 2
#define DECODE_ROWS    4

/* split.cu is faster than tma.cu, or than its variants for a bias or a mask, while the latter has
 * fewer blocks than that, of TMA_ROWS; measured: 5.5 us against 6.3 with 96 of them. */
#define SPLIT_BLOCKS	 100
#define SPLIT_ANY_BLOCKS 64

/* Up to so many queries of a plain call split.cu is for any number of blocks. f16, H200, us beside
 * the fastest of mma.cu: [128,12,32,32,64] 19.2 and 22.7, [16,8,32,32,64] 4.0 and 6.4,
 * [32,12,32,256,64] 10.5 and 11.1; [8,192,32,32,48] 19.0 and 18.2. */
#define SPLIT_QUERIES 32
#define TMA_ROWS      128

/* Of mma.cu's blocks whose warps have rows of their own, at least. */
#define MMA_ROWS 64

/* Hopper's kernels take many queries at a time: fewer leave most of a tile empty. */
#define FEW_QUERIES 64

/* Up to so many keys rounded.cu has a variant of one tile. */
#define TWICE_KEYS  64
#define SM90_BLOCKS 64

/* tma.cu with 128 rows a block against 192: time per row; measured, D 64, 512 to 4096 keys. With a
 * window the larger tiles waste more on its edge and pay later. */
#define TMA_SMALLER_COST     1.17
#define TMA_WINDOWED_QUERIES 3072

static int64_t blocks_of(const struct attn_variant *v, const struct attn_args *args)
{
	return (int64_t)(args->Sq + v->rows_per_block - 1) / v->rows_per_block * args->B * args->H;
}

/* The next variant of a family that takes the call, from `n` on. */
static const struct attn_variant *next_of(int family, const struct attn_call *call, int *n)
{
	while (*n < attn_variant_total) {
		const struct attn_variant *v = &attn_variants[(*n)++];

		if (v->family == family && attn_takes(v, call))
			return v;
	}
	return NULL;
}

/* Keys that a block works on at a time. */
static int keys_of(const struct attn_variant *v)
{
	switch (v->family) {
	case ATTN_DECODE:
	case ATTN_ROUNDED_DECODE:
		return DECODE_KEYS(v->max_d, attn_dtype_size(v->dtype));
	case ATTN_FEW:
		return FEW_KEYS(v->max_d);
	default:
		return SPLIT_GROUPS * SPLIT_KEYS;
	}
}

/* Of the narrowest width, and of variants for plain calls if there are: as many parts as `tiles` of
 * rows need to make `fill` blocks, each of which has keys to work on. */
static const struct attn_variant *choose_parts(const struct attn_call *call, int family,
					       int64_t tiles, int64_t fill)
{
	const struct attn_variant *best = NULL, *v;

	for (int n = 0; (v = next_of(family, call, &n)); best = v)
		if (best && (best->max_d != v->max_d || best->needs != v->needs ||
			     tiles * best->grid_x_factor >= fill ||
			     call->args->Sk <= best->grid_x_factor * keys_of(best)))
			break;
	return best;
}

static const struct attn_variant *choose_decode(const struct attn_call *call)
{
	const struct attn_args *args = call->args;

	if (args->Sq > DECODE_ROWS)
		return NULL;
	return choose_parts(call, ATTN_DECODE, (int64_t)args->B * args->H * args->Sq, FILL);
}

static const struct attn_variant *choose_rounded_decode(const struct attn_call *call)
{
	const struct attn_args *args = call->args;

	if (args->Sq > DECODE_ROWS)
		return NULL;
	return choose_parts(call, ATTN_ROUNDED_DECODE, (int64_t)args->B * args->H * args->Sq, FILL);
}

/* Two blocks fit a multiprocessor; wider ones do not, and wait for no second round. */
static const struct attn_variant *split_of(const struct attn_call *call)
{
	const struct attn_args *args = call->args;
	const int64_t heads = (int64_t)args->B * args->H;
	const int plain = attn_is_plain(&args->spec);
	const int limit = plain ? SPLIT_BLOCKS : SPLIT_ANY_BLOCKS;
	const int few = plain ? SPLIT_QUERIES : FEW_ROWS;
	const struct attn_variant *v;

	if (args->Sq > few && (args->Sq + TMA_ROWS - 1) / TMA_ROWS * heads >= limit)
		return NULL;
	v = choose_parts(call, ATTN_SPLIT, (args->Sq + SPLIT_ROWS - 1) / SPLIT_ROWS * heads,
			 2 * FILL);
	if (v && v->max_d > 64 && blocks_of(v, args) * v->grid_x_factor > FILL)
		return NULL;
	return v;
}

static const struct attn_variant *choose_split(const struct attn_call *call)
{
	return call->args->Sq > FEW_ROWS ? split_of(call) : NULL;
}

/* The narrowest width; there, the rows per block that cost least, blocks working in rounds. */
static const struct attn_variant *tma_of(const struct attn_call *call)
{
	const struct attn_args *args = call->args;
	const struct attn_tensor *bias = &args->spec.bias[0];
	/* a bias that rows do not share may be a causal mask */
	const int windowed =
		args->spec.window_right != ATTN_NO_WINDOW || (bias->base && bias->stride[2] != 0);
	const struct attn_variant *best = NULL, *v;
	double least = 0.0;

	for (int n = 0; (v = next_of(ATTN_TMA, call, &n));) {
		const int64_t rounds = (blocks_of(v, args) + FILL - 1) / FILL;
		double cost = (double)rounds * v->rows_per_block;

		if (best && (best->max_d != v->max_d ||
			     (best->needs & ATTN_NEEDS_PLAIN) != (v->needs & ATTN_NEEDS_PLAIN)))
			break;
		if (v->rows_per_block <= 128)
			cost *= TMA_SMALLER_COST;
		else if (windowed && args->Sq < TMA_WINDOWED_QUERIES)
			cost *= 2.0;
		if (!best || cost < least) {
			best = v;
			least = cost;
		}
	}
	return best;
}

static const struct attn_variant *choose_tma(const struct attn_call *call)
{
	return call->args->Sq > FEW_QUERIES ? tma_of(call) : NULL;
}

/* Tiles hold rows of several heads where these share K and V. Where none do, a plain call is faster
 * in tiles of which most rows stay empty: 15 to 35 % for 4 to 16 queries, 12 to 512 heads, D 64 and
 * 128 (H200, `fashim tune`). */
static const struct attn_variant *choose_few(const struct attn_call *call)
{
	const struct attn_args *args = call->args;
	const int one_kv =
		!args->k.stride[1] && !args->v.stride[1] && !args->k.by_array && !args->v.by_array;
	const int fit = one_kv && args->Sq < FEW_ROWS ? FEW_ROWS / args->Sq : 1;
	const int heads = fit < args->H ? fit : args->H;
	const struct attn_variant *v = NULL;

	if (args->Sq > FEW_ROWS || (args->Sq <= DECODE_QUERIES && args->Sq * heads <= DECODE_ROWS))
		return NULL;
	if (!one_kv && attn_is_plain(&args->spec))
		v = split_of(call);
	if (!v && !one_kv && attn_is_plain(&args->spec))
		v = tma_of(call);
	return v ? v
		 : choose_parts(call, ATTN_FEW, (int64_t)args->B * ((args->H + heads - 1) / heads),
				FILL);
}

/* Those that can do anything are for calls that need it. */
static const struct attn_variant *choose_sm90(const struct attn_call *call)
{
	const int needs = attn_is_usual(&call->args->spec) ? ATTN_NEEDS_USUAL : 0;
	const struct attn_variant *v;

	if (call->args->Sq <= FEW_QUERIES)
		return NULL;
	for (int n = 0; (v = next_of(ATTN_SM90, call, &n));)
		if ((v->needs & ATTN_NEEDS_USUAL) == needs &&
		    blocks_of(v, call->args) >= SM90_BLOCKS)
			return v;
	return NULL;
}

/* Large row tiles read K and V least often, but a GPU idles when tiles are few: the largest tile
 * that still fills FILL blocks, else the smallest. */
static const struct attn_variant *choose_rows(const struct attn_call *call, int family)
{
	const struct attn_variant *best = NULL, *v;

	for (int n = 0; (v = next_of(family, call, &n));) {
		if (best && best->max_d != v->max_d)
			break;
		best = v;
		if (blocks_of(v, call->args) >= FILL)
			break;
	}
	return best;
}

/* row_cost() of the widths that have registers for no more than eight warps a multiprocessor: what
 * counts is how many there are, in one block or two. Measured, f16, H200, 4096 keys: D 192, 128,
 * 112 and 64 rows: 718, 865 and 787 us, and 64 rows where one block fits (more shared memory was
 * asked for) 1025; D 256, 112 and 64 rows: 1249 and 940, and one block 1550 where two took 985. */
static double wide_row_cost(const struct attn_variant *v, int arch)
{
	const int two_fit = 2 * (v->shared_bytes + 2048) <= attn_shared_of(arch) + 1024;

	return v->rows_per_block >= 128 ? 1.0 : v->rows_per_block > 64 ? 1.2 : two_fit ? 1.1 : 1.45;
}

/* What a row costs in tiles of so many. Plain calls: fewer rows read K and V more often. With
 * biases and the like four warps of 32 rows wait for these longer than four of 16 do. Measured,
 * bf16, H100: D 64, 2048 keys, 128 and 64 rows: 259 and 293 us; with a bias, 459 and 369; D 128,
 * with a bias, 798 and 553. */
static double row_cost(const struct attn_variant *v, int arch)
{
	const int plain = v->needs & ATTN_NEEDS_PLAIN;

	if (v->max_d > 160)
		return wide_row_cost(v, arch);
	return v->rows_per_block >= 128	 ? (plain ? 1.0 : 1.4)
	       : v->rows_per_block >= 64 ? 1.12
					 : 1.3;
}

/* Warps of a block of fewer rows share the keys, which is for nothing where all queries fit it, so
 * that there are no more blocks, and these fill the GPU or have few keys. f16, H200, us by 32 and
 * by 64 rows: [8,192,32,32,48] 81 and 18, with a mask 97 and 34; [32,12,32,256,64] 26 and 11;
 * [16,8,32,32,64] 8.4 and 6.4. */
static int shares_in_vain(const struct attn_variant *v, const struct attn_args *args)
{
	return v->rows_per_block < MMA_ROWS && args->Sq <= v->rows_per_block &&
	       (blocks_of(v, args) > FILL || args->Sk <= MMA_ROWS);
}

/* Rows of tiles, full or not, times what one costs, times the width that is computed: the least of
 * it. A GPU takes as long for few blocks as for FILL. So 49 queries go to a tile of 64 rows, 512 of
 * eight heads to sixteen of 32 each. */
static const struct attn_variant *choose_mma(const struct attn_call *call)
{
	const struct attn_variant *best = NULL, *v;
	double least = 0.0;

	for (int n = 0; (v = next_of(ATTN_MMA, call, &n));) {
		const int64_t blocks = blocks_of(v, call->args);
		const int rows = shares_in_vain(v, call->args) ? MMA_ROWS : v->rows_per_block;
		const double cost = (double)(blocks > FILL ? blocks : FILL) * rows *
				    row_cost(v, call->arch) * v->max_d;

		if (!best || cost < least) {
			best = v;
			least = cost;
		}
	}
	return best;
}

static const struct attn_variant *choose_wmma(const struct attn_call *call)
{
	return choose_rows(call, ATTN_WMMA);
}

/* Where rounded.cu has x in its registers, it takes longer if there are blocks for all of the GPU:
 * 170 us for 104 of 512 keys (H100, bf16, B8 H16 D64 with a bias), 48.7 for 40.7 of 200, 30.1 for
 * 29.9 of 96, 31.3 for 23.6 of 128 (H200: patches, axial and brief of tests/gpu/rounded.py). Fewer
 * blocks were not compared. */
static const struct attn_variant *choose_twice(const struct attn_call *call)
{
	const struct attn_variant *v;
	int n = 0;

	if (call->args->Sq <= FEW_QUERIES || call->args->Sk <= TWICE_KEYS)
		return NULL;
	v = next_of(ATTN_TWICE, call, &n);
	return v && (call->args->Sk >= ROUNDED_SHORT_KEYS || blocks_of(v, call->args) >= FILL)
		       ? v
		       : NULL;
}

/* What rounded.cu takes where blocks of a cluster share the keys: so many clusters run at once, in
 * rounds of microseconds to begin and end, and for 1024 keys, which are to be multiplied where
 * elements of a bias or mask are read. And what it and twice.cu take in blocks by themselves, of 64
 * rows. Measured, bf16, H200, us by _r16_p4, _r64_p8, twice.cu (tests/gpu/rounded.py):
 * [2,256,4096,128] 49, 31, 129; [1,256,8192,64] 47, 39, 189; [8,100,1024,32] 14, 27, 33;
 * [6,32,1500,64] 14, 18, 40; [4,384,2048,64] with a bias of keys 81, 40, 67; [2,512,512,64] 20, 26,
 * 17; [2,1024,1024,128], causal, 38, 49, 37. */
static const struct parted_cost {
	int rows, width, at_once;
	double start, keys, read;
} parted_costs[] = {{16, 64, 59, 6.3, 5.0, 2.8},
		    {16, 128, 59, 6.3, 10.8, 2.8},
		    {64, 64, 15, 11.0, 3.5, 1.3},
		    {64, 128, 15, 11.0, 5.0, 1.3}};
#define ALONE_TILES	  (2 * FILL) /* of 64 rows, or fewer, at once */
#define ALONE_START	  4.0
#define ALONE_KEYS(width) ((width) > 64 ? 34.8 : 27.6)
#define PARTED_GAIN	  0.9 /* of what blocks by themselves take, at most */

static double parted_cost(const struct attn_variant *v, const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;
	const int reads = s->bias[0].base || s->bias[1].base || s->mask.base;
	const struct parted_cost *c = parted_costs;

	while (c->rows != v->rows_per_block || c->width != v->max_d)
		c++;
	return (double)((blocks_of(v, args) + c->at_once - 1) / c->at_once) *
	       (c->start + args->Sk / 1024.0 * c->keys * (reads ? c->read : 1.0));
}

static const struct attn_variant *choose_parted(const struct attn_call *call)
{
	const struct attn_args *args = call->args;
	const int64_t tiles = (int64_t)(args->Sq + 63) / 64 * args->B * args->H;
	const struct attn_variant *first = NULL, *best = NULL, *v;
	double least = 0.0, cost;

	for (int n = 0; (v = next_of(ATTN_ROUNDED, call, &n));) {
		if (first && first->max_d != v->max_d)
			break;
		if (!first)
			least = PARTED_GAIN * (double)((tiles + ALONE_TILES - 1) / ALONE_TILES) *
				(ALONE_START + args->Sk / 1024.0 * ALONE_KEYS(v->max_d));
		first = v;
		cost = v->grid_x_factor > 1 ? parted_cost(v, args) : least;
		if (cost < least) {
			best = v;
			least = cost;
		}
	}
	return best;
}

/* Is the variant, of rounded.cu, whose blocks share nothing, for so many queries, or so few blocks?
 */
static int suits_rounded(const struct attn_variant *v, const struct attn_args *args)
{
	if (v->grid_x_factor > 1)
		return 0;
	return v->rows_per_block == ROUNDED_FEW_ROWS ||
	       (args->Sq > ROUNDED_FEW_ROWS &&
		blocks_of(v, args) >= (v->rows_per_block > 64 ? FILL * 3 / 4 : FILL / 4));
}

/* Of the narrowest width, rows rising: the last that suits the call, but what walks over few keys
 * once comes before what walks over them twice. */
static const struct attn_variant *choose_rounded(const struct attn_call *call)
{
	const struct attn_variant *best = NULL, *v;

	for (int n = 0; (v = next_of(ATTN_ROUNDED, call, &n));) {
		if (best && (best->max_d != v->max_d || best->needs & ATTN_NEEDS_SHORT))
			break;
		if (!best || suits_rounded(v, call->args))
			best = v;
	}
	return best;
}

/* Multiprocessors that have blocks at a time, and where blocks come in clusters. */
#define F32_AT_ONCE   132
#define F32_CLUSTERED 119

/* What fp32 kernels take: blocks work in rounds, each the time that one takes to begin and end and
 * for its tiles of keys, of which a causal call has about half. A block of few rows costs what a
 * full one does. */
struct f32_cost {
	const char *symbol;
	int keys, per_sm;
	double start, tile;
};
#define F32_COST(width, keys, warps, per_sm, start, tile)                                          \
	{"fashim_f32_d" #width, keys, per_sm, start, tile},
#define F32_SM90_COST(name, width, keys, groups, stages, raws, parts, per_sm, kind, ahead, few,    \
		      many, start, tile)                                                           \
	{"fashim_sm90_f32_" #name, keys, per_sm, start, tile},
static const struct f32_cost f32_costs[] = {F32_VARIANTS(F32_COST)
						    F32_SM90_VARIANTS(F32_SM90_COST)};

static double f32_cost(const struct attn_variant *v, const struct attn_args *args)
{
	const struct f32_cost *c = f32_costs;
	const struct attn_spec *s = &args->spec;
	const int skips = s->window_right != ATTN_NO_WINDOW && s->window_value == -INFINITY;

	while (strcmp(c->symbol, v->symbol) != 0)
		c++;
	const int64_t parts = v->grid_x_factor;
	const int64_t at_once = c->per_sm * (parts > 1 ? F32_CLUSTERED : F32_AT_ONCE);
	const int64_t rounds = (blocks_of(v, args) * parts + at_once - 1) / at_once;
	const int64_t all = (args->Sk + c->keys - 1) / c->keys, tiles = skips ? (all + 1) / 2 : all;

	return (double)rounds * (c->start + c->tile * (double)((tiles + parts - 1) / parts));
}

/* The cheapest of both families. */
static const struct attn_variant *choose_f32(const struct attn_call *call)
{
	static const int families[] = {ATTN_F32_SM90, ATTN_F32_ANY};
	const struct attn_variant *best = NULL, *v;
	double least = 0.0;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
		for (int n = 0; (v = next_of(families[f], call, &n));) {
			const double cost = f32_cost(v, call->args);

			if (!best || cost < least) {
				best = v;
				least = cost;
			}
		}
	return best;
}

/* Is it the variant's name, or all of it up to an underscore (ladder/03)? */
static int is_named(const struct attn_variant *v, const char *name)
{
	const size_t length = strlen(name);

	return !strncmp(v->name, name, length) &&
	       (!v->name[length] || (v->family == ATTN_LADDER && v->name[length] == '_'));
}

const struct attn_variant *attn_select_from(const struct attn_args *args, int arch,
					    const char *forced, const uint8_t *available)
{
	static const struct attn_variant *(*const families[])(const struct attn_call *) = {
		choose_few,    choose_decode, choose_split,   choose_tma,
		choose_sm90,   choose_mma,    choose_wmma,    choose_rounded_decode,
		choose_parted, choose_twice,  choose_rounded, choose_f32};
	const struct attn_call call = {args, arch, available};
	const struct attn_variant *v = NULL;

	if (!attn_possible(args))
		return NULL;
	if (forced) {
		for (int n = 0; n < attn_variant_total; n++)
			if (is_named(&attn_variants[n], forced) &&
			    attn_takes(&attn_variants[n], &call))
				return &attn_variants[n];
		return NULL;
	}
	for (size_t n = 0; !v && n < sizeof(families) / sizeof(families[0]); n++)
		v = families[n](&call);
	return v;
}

const struct attn_variant *attn_select(const struct attn_args *args, int arch, const char *forced)
{
	return attn_select_from(args, arch, forced, NULL);
}