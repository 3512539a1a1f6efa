/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernel computes a call.
 *
 * All variants of one width compute the same; they differ in what they demand of the operands, and
 * in how many blocks they make of the work. Families are asked in the order of their speed, each
 * for its best variant that takes the call:
 *
 *   few.cu      a handful of queries, or of heads that share K and V
 *   decode.cu   one query or two; as in few.cu, the keys are split among blocks
 *   split.cu    Hopper, too few rows to fill the GPU: likewise
 *   tma.cu      Hopper, operands that tensor maps describe
 *   sm90.cu     Hopper, rows on 16 bytes
 *   mma.cu      anything, from sm_80 on
 *   wmma.cu     anything
 *   f32_sm90.cu, f32.cu  fp32: whichever takes least by their measured times
 *   rounded.cu  whatever is to be rounded as the program does, and nothing else
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "kernels/f32_variants.h"
#include "kernels/few_variants.h"
#include "kernels/launch.h"
#include "kernels/rounded_variants.h"
#include "kernels/split_variants.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Blocks that keep most multiprocessors of a large GPU busy. */
#define FILL 128

/* A row of decode.cu reads K and V for itself. Up to this many queries of a head, or rows of heads
 * that share K and V, this costs less than few.cu's tile of 16 rows does; where few.cu has no
 * variant, up to as many queries as rows. */
#define DECODE_QUERIES 2
#define DECODE_ROWS    4

/* split.cu is faster than tma.cu, or than its variants for a bias or a mask, while the latter has
 * fewer blocks than that, of TMA_ROWS; measured: 5.5 us against 6.3 with 96 of them. */
#define SPLIT_BLOCKS	 100
#define SPLIT_ANY_BLOCKS 64
#define TMA_ROWS	 128

/* Hopper's kernels take many queries at a time: fewer leave most of a tile empty. */
#define FEW_QUERIES 64
#define SM90_BLOCKS 64
#define SM90_STRIDE (1 << 22) /* of rows: a tile of them is within reach of 31 bits */

/* tma.cu with 128 rows a block against 192: time per row; measured, D 64, 512 to 4096 keys. With a
 * window the larger tiles waste more on its edge and pay later. */
#define TMA_SMALLER_COST     1.17
#define TMA_WINDOWED_QUERIES 3072

/* What every GPU of an architecture lets one block have, in bytes. */
#define SHARED_TURING (64 * 1024)
#define SHARED_OTHER  (99 * 1024)

struct call {
	const struct attn_args *args;
	int arch;
	const uint8_t *available;
};

/* Does a number of a bias stand for several keys? */
static int is_folded(const struct attn_spec *s)
{
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (s->bias[n].base && s->bias[n].columns)
			return 1;
	return 0;
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
	if (args->spec.sinks.base && args->spec.sinks.dtype > ATTN_F32)
		return 0;
	if (args->spec.scales.base && (args->spec.scales.dtype > ATTN_F32 ||
				       (attn_scales_each(&args->spec) && args->spec.round_s)))
		return 0;
	if (args->spec.lengths.base && args->spec.lengths.dtype != ATTN_I32)
		return 0;
	if (args->spec.round_s &&
	    (args->q.dtype == ATTN_F32 || args->spec.softcap != 0.0f || args->spec.alpha == 0.0f ||
	     (args->spec.round_s & ATTN_ROUND_BIASED && args->spec.round_x != args->q.dtype)))
		return 0;
	return !args->spec.mask.base || args->spec.mask.dtype == ATTN_BOOL;
}

/* Does the variant round scores as `round_s` asks for? rounded.cu is for nothing else. */
static int rounds_scores(const struct attn_variant *v, int32_t round_s)
{
	if (v->family == ATTN_ROUNDED || round_s & ATTN_ROUND_WEIGHTS)
		return v->family == ATTN_ROUNDED && round_s & ATTN_ROUND_WEIGHTS;
	return !round_s || (v->family == ATTN_MMA && !(v->needs & ATTN_NEEDS_PLAIN));
}

/* Does a number of 16 bits hold this? */
static int is_narrow(float x, int dtype)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if (isinf(x))
		return 1;
	return dtype == ATTN_BF16 ? !(bits & 0xffff)
				  : !(bits & 0x1fff) && fabsf(x) <= 65504.0f &&
					    (fabsf(x) >= 0x1p-14f || x == 0.0f);
}

/* Is x, when it is stored for the last time, in 16 bits, but for a factor that the exponential may
 * take? rounding_of() of rounded_scores.cuh has the same rule. */
static int is_x_narrow(const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;
	const int biased = s->bias[0].base || s->bias[1].base;
	const int finite = (s->mask.base && !isinf(s->mask_value)) || !isinf(s->window_value);

	if (!is_narrow(s->mask.base ? s->mask_value : 0.0f, args->q.dtype) ||
	    !is_narrow(s->window_value, args->q.dtype))
		return 0;
	if (biased)
		return s->round_x == args->q.dtype;
	return s->round_s & ATTN_ROUND_SCALED ||
	       (s->round_s & ATTN_ROUND_PRODUCT && !s->scales.base &&
		(s->scale == s->alpha ||
		 (s->scale / s->alpha > 0.0f && !finite && !s->sinks.base)));
}

/* Are there no lengths, no sinks, no bias after the mask or for several keys, and one scale for all
 * of a head? */
static int is_usual(const struct attn_spec *s)
{
	return !s->sinks.base && !s->lengths.base && !(s->mask.base && s->late_biases) &&
	       !attn_scales_each(s) && !is_folded(s);
}

/* Does anything that belongs to the scores come again after some batches? */
static int is_of_batches(const struct attn_spec *s)
{
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (s->bias[n].base && s->bias[n].batches)
			return 1;
	return (s->mask.base && s->mask.batches) || (s->lengths.base && s->lengths.batches) ||
	       (s->sinks.base && s->sinks.batches);
}

/* Scales, and biases that stand for several keys, are understood by mma.cu and by those that turn
 * q.k into x by scores.cuh. few.cu and sm90.cu have no register for a batch of the bias's own. */
static int takes_scales(const struct attn_variant *v, const struct attn_spec *s)
{
	switch (v->family) {
	case ATTN_MMA:
	case ATTN_WMMA:
	case ATTN_ROUNDED:
	case ATTN_F32_ANY:
	case ATTN_F32_SM90:
	case ATTN_SPLIT:
		return 1;
	case ATTN_FEW:
	case ATTN_SM90:
		return !s->scales.base && !is_folded(s) && !is_of_batches(s);
	default:
		return !s->scales.base && !is_folded(s);
	}
}

static int is_plain(const struct attn_spec *s)
{
	int window = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;

	return !s->bias[0].base && !s->bias[1].base && !s->mask.base && s->softcap == 0.0f &&
	       !s->scales.base && s->scale > 0.0f && (!window || s->window_value == -INFINITY) &&
	       !s->round_s && is_usual(s);
}

/* Do the rows of an operand start on 16 bytes, its columns (down: its rows) having stride 1? */
static int in_pieces(const struct attn_args *args, const struct attn_tensor *t, int down)
{
	const int64_t unit = t->stride[down ? 2 : 3], line = t->stride[down ? 3 : 2];
	const int piece = 16 / attn_dtype_size(t->dtype);

	return !t->by_array && unit == 1 && t->base % 16 == 0 && line % piece == 0 && line >= 0 &&
	       line <= SM90_STRIDE && (args->B == 1 || t->stride[0] % piece == 0) &&
	       (args->H == 1 || t->stride[1] % piece == 0);
}

static int fits_sm90(const struct attn_variant *v, const struct attn_args *args)
{
	return args->D == v->max_d && args->Dv == v->max_d && in_pieces(args, &args->q, 0) &&
	       in_pieces(args, &args->k, v->needs & ATTN_NEEDS_DOWN) &&
	       in_pieces(args, &args->v, 0);
}

/* Do the rows of an operand start on 16 bytes, with any distance from one to the next? */
static int in_rows(const struct attn_args *args, const struct attn_tensor *t)
{
	const int piece = 16 / attn_dtype_size(t->dtype);

	return !t->by_array && t->stride[3] == 1 && t->base % 16 == 0 &&
	       t->stride[2] % piece == 0 && (args->B == 1 || t->stride[0] % piece == 0) &&
	       (args->H == 1 || t->stride[1] % piece == 0);
}

/* Can K be copied into rows that a map describes (launch.c does so)? */
static int can_repack(const struct attn_tensor *k, int down)
{
	const int64_t unit = k->stride[down ? 2 : 3], line = k->stride[down ? 3 : 2];

	return !k->by_array && unit == 1 && line > 0 && k->stride[0] >= 0 && k->stride[1] >= 0;
}

static int fits_tma(const struct attn_variant *v, const struct attn_args *args)
{
	const int down = v->needs & ATTN_NEEDS_DOWN;
	const struct attn_spec *s = &args->spec;
	const int windowed = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;
	const int emptied = windowed || s->bias[0].base || s->mask.base;

	if (emptied && s->empty_row == ATTN_EMPTY_MEAN)
		return 0;
	if (v->needs & ATTN_NEEDS_BIAS && (s->mask.base || s->bias[1].base))
		return 0;
	if (v->needs & ATTN_NEEDS_BIAS && s->bias[0].base &&
	    (s->bias[0].dtype != v->dtype || !attn_in_map(args, &s->bias[0], 0, 1) ||
	     (s->round_x != ATTN_F32 && s->round_x != v->dtype)))
		return 0;
	if (v->needs & ATTN_NEEDS_MASK && (!s->mask.base || s->bias[0].base || s->bias[1].base ||
					   !attn_in_map(args, &s->mask, 0, 1)))
		return 0;
	return attn_in_map(args, &args->q, 0, args->Sq) &&
	       attn_in_map(args, &args->v, 0, args->Sk) &&
	       (attn_in_map(args, &args->k, down, down ? args->D : args->Sk) ||
		can_repack(&args->k, down));
}

static int fits_split(const struct attn_args *args)
{
	return attn_in_map(args, &args->q, 0, args->Sq) &&
	       attn_in_map(args, &args->k, 0, args->Sk) && attn_in_map(args, &args->v, 0, args->Sk);
}

/* The kernels of kernels/ladder: f16 throughout, no row without a key that is to be a mean. */
static int fits_ladder(const struct attn_variant *v, const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;
	const int windowed = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;

	if (!is_plain(s) || args->o.dtype != ATTN_F16 ||
	    (windowed && s->empty_row == ATTN_EMPTY_MEAN))
		return 0;
	return !(v->needs & ATTN_NEEDS_PIECES) ||
	       (fits_sm90(v, args) && in_pieces(args, &args->o, 0));
}

/* f32_sm90.cu, where rows are read in pieces: of numbers that are all there. */
static int fits_f32_sm90(const struct attn_variant *v, const struct attn_args *args)
{
	return !(v->needs & ATTN_NEEDS_ROWS) || (args->D % 4 == 0 && args->Dv % 4 == 0);
}

/* Can the variant compute the call here? */
static int takes(const struct attn_variant *v, const struct call *call)
{
	const struct attn_args *args = call->args;
	const int index = (int)(v - attn_variants);
	const int shared = call->arch < 80 ? SHARED_TURING : SHARED_OTHER;

	if (args->q.dtype != v->dtype || args->D > v->max_d || args->Dv > v->max_d)
		return 0;
	if (!rounds_scores(v, args->spec.round_s) || !takes_scales(v, &args->spec))
		return 0;
	if (v->family == ATTN_LADDER)
		return call->arch >= v->min_arch && call->available && call->available[index] &&
		       fits_ladder(v, args);
	if (v->needs & ATTN_NEEDS_USUAL && !is_usual(&args->spec))
		return 0;
	if (v->needs & ATTN_NEEDS_PLAIN && !is_plain(&args->spec))
		return 0;
	if (v->needs & ATTN_NEEDS_SHORT && (args->Sk > ROUNDED_SHORT_KEYS || !is_x_narrow(args)))
		return 0;
	if (v->needs & ATTN_NEEDS_ROWS &&
	    !(in_rows(args, &args->q) && in_rows(args, &args->k) && in_rows(args, &args->v)))
		return 0;
	/* decode.cu has one limit for both */
	if (v->family == ATTN_DECODE && args->spec.lengths.base &&
	    args->spec.window_value != -INFINITY)
		return 0;
	if (!(v->needs & ATTN_NEEDS_ARCH))
		return call->arch >= v->min_arch && v->shared_bytes <= shared;
	if (call->arch != v->min_arch || !call->available || !call->available[index])
		return 0;
	if (v->family == ATTN_SPLIT)
		return fits_split(args);
	if (v->family == ATTN_F32_SM90)
		return fits_f32_sm90(v, args);
	return v->family == ATTN_TMA ? fits_tma(v, args) : fits_sm90(v, args);
}

static int64_t blocks_of(const struct attn_variant *v, const struct attn_args *args)
{
	return (int64_t)(args->Sq + v->rows_per_block - 1) / v->rows_per_block * args->B * args->H;
}

/* The next variant of a family that takes the call, from `n` on. */
static const struct attn_variant *next_of(int family, const struct call *call, int *n)
{
	while (*n < attn_variant_total) {
		const struct attn_variant *v = &attn_variants[(*n)++];

		if (v->family == family && takes(v, call))
			return v;
	}
	return NULL;
}

/* Keys that a block works on at a time. */
static int keys_of(const struct attn_variant *v)
{
	switch (v->family) {
	case ATTN_DECODE:
		return DECODE_KEYS(v->max_d);
	case ATTN_FEW:
		return FEW_KEYS(v->max_d);
	default:
		return SPLIT_GROUPS * SPLIT_KEYS;
	}
}

/* Of the narrowest width, and of variants for plain calls if there are: as many parts as `tiles` of
 * rows need to make `fill` blocks, each of which has keys to work on. */
static const struct attn_variant *choose_parts(const struct call *call, int family, int64_t tiles,
					       int64_t fill)
{
	const struct attn_variant *best = NULL, *v;

	for (int n = 0; (v = next_of(family, call, &n)); best = v)
		if (best && (best->max_d != v->max_d || best->needs != v->needs ||
			     tiles * best->grid_x_factor >= fill ||
			     call->args->Sk <= best->grid_x_factor * keys_of(best)))
			break;
	return best;
}

static const struct attn_variant *choose_decode(const struct call *call)
{
	const struct attn_args *args = call->args;

	if (args->Sq > DECODE_ROWS)
		return NULL;
	return choose_parts(call, ATTN_DECODE, (int64_t)args->B * args->H * args->Sq, FILL);
}

/* Two blocks fit a multiprocessor; wider ones do not, and wait for no second round. */
static const struct attn_variant *split_of(const struct call *call)
{
	const struct attn_args *args = call->args;
	const int64_t heads = (int64_t)args->B * args->H;
	const int limit = is_plain(&args->spec) ? SPLIT_BLOCKS : SPLIT_ANY_BLOCKS;
	const struct attn_variant *v;

	if (args->Sq > FEW_ROWS && (args->Sq + TMA_ROWS - 1) / TMA_ROWS * heads >= limit)
		return NULL;
	v = choose_parts(call, ATTN_SPLIT, (args->Sq + SPLIT_ROWS - 1) / SPLIT_ROWS * heads,
			 2 * FILL);
	if (v && v->max_d > 64 && blocks_of(v, args) * v->grid_x_factor > FILL)
		return NULL;
	return v;
}

static const struct attn_variant *choose_split(const struct call *call)
{
	return call->args->Sq > FEW_ROWS ? split_of(call) : NULL;
}

/* The narrowest width; there, the rows per block that cost least, blocks working in rounds. */
static const struct attn_variant *tma_of(const struct call *call)
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

static const struct attn_variant *choose_tma(const struct call *call)
{
	return call->args->Sq > FEW_QUERIES ? tma_of(call) : NULL;
}

/* Tiles hold rows of several heads where these share K and V. Where none do, a plain call is faster
 * in tiles of which most rows stay empty: 15 to 35 % for 4 to 16 queries, 12 to 512 heads, D 64 and
 * 128 (H200, `fashim tune`). */
static const struct attn_variant *choose_few(const struct call *call)
{
	const struct attn_args *args = call->args;
	const int one_kv =
		!args->k.stride[1] && !args->v.stride[1] && !args->k.by_array && !args->v.by_array;
	const int fit = one_kv && args->Sq < FEW_ROWS ? FEW_ROWS / args->Sq : 1;
	const int heads = fit < args->H ? fit : args->H;
	const struct attn_variant *v = NULL;

	if (args->Sq > FEW_ROWS || (args->Sq <= DECODE_QUERIES && args->Sq * heads <= DECODE_ROWS))
		return NULL;
	if (!one_kv && is_plain(&args->spec))
		v = split_of(call);
	if (!v && !one_kv && is_plain(&args->spec))
		v = tma_of(call);
	return v ? v
		 : choose_parts(call, ATTN_FEW, (int64_t)args->B * ((args->H + heads - 1) / heads),
				FILL);
}

/* Those that can do anything are for calls that need it. */
static const struct attn_variant *choose_sm90(const struct call *call)
{
	const int needs = is_usual(&call->args->spec) ? ATTN_NEEDS_USUAL : 0;
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
static const struct attn_variant *choose_rows(const struct call *call, int family)
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

/* What a row costs in tiles of so many. Plain calls: fewer rows read K and V more often. With
 * biases and the like four warps of 32 rows wait for these longer than four of 16 do. Measured,
 * bf16, H100: D 64, 2048 keys, 128 and 64 rows: 259 and 293 us; with a bias, 459 and 369; D 128,
 * with a bias, 798 and 553. */
static double row_cost(const struct attn_variant *v)
{
	const int plain = v->needs & ATTN_NEEDS_PLAIN;

	return v->rows_per_block >= 128	 ? (plain ? 1.0 : 1.4)
	       : v->rows_per_block >= 64 ? 1.12
					 : 1.3;
}

/* Rows of tiles, full or not, times what one costs, times the width that is computed: the least of
 * it. A GPU takes as long for few blocks as for FILL. So 49 queries go to a tile of 64 rows, 512 of
 * eight heads to sixteen of 32 each. */
static const struct attn_variant *choose_mma(const struct call *call)
{
	const struct attn_variant *best = NULL, *v;
	double least = 0.0;

	for (int n = 0; (v = next_of(ATTN_MMA, call, &n));) {
		const int64_t blocks = blocks_of(v, call->args);
		const double cost = (double)(blocks > FILL ? blocks : FILL) * v->rows_per_block *
				    row_cost(v) * v->max_d;

		if (!best || cost < least) {
			best = v;
			least = cost;
		}
	}
	return best;
}

static const struct attn_variant *choose_wmma(const struct call *call)
{
	return choose_rows(call, ATTN_WMMA);
}

/* Is the variant, of rounded.cu, for so many queries, or for so few blocks? */
static int suits_rounded(const struct attn_variant *v, const struct attn_args *args)
{
	const int few = args->Sq <= ROUNDED_FEW_ROWS;

	if (v->rows_per_block == ROUNDED_FEW_ROWS) {
		const int64_t blocks = blocks_of(v, args);

		return v->grid_x_factor == 1 ||
		       (few && blocks < FILL && args->Sk >= ROUNDED_PARTED_KEYS);
	}
	return !few && blocks_of(v, args) >= (v->rows_per_block > 64 ? FILL * 3 / 4 : FILL / 4);
}

/* Of the narrowest width, rows rising: the last that suits the call, but what walks over few keys
 * once comes before what walks over them twice. */
static const struct attn_variant *choose_rounded(const struct call *call)
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
#define F32_SM90_COST(name, width, keys, groups, stages, raws, parts, per_sm, plain, ahead, few,   \
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
static const struct attn_variant *choose_f32(const struct call *call)
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
	static const struct attn_variant *(*const families[])(const struct call *) = {
		choose_few, choose_decode, choose_split,   choose_tma, choose_sm90,
		choose_mma, choose_wmma,   choose_rounded, choose_f32};
	const struct call call = {args, arch, available};
	const struct attn_variant *v = NULL;

	if (!possible(args))
		return NULL;
	if (forced) {
		for (int n = 0; n < attn_variant_total; n++)
			if (is_named(&attn_variants[n], forced) && takes(&attn_variants[n], &call))
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
