/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI between whoever launches attention and the kernels that compute it.
 *
 * Everything a kernel may be asked is in `struct attn_args`, passed by value as the only
 * parameter. It describes
 *
 *     t          = scale * scales[b,h,i,j], or scale / scales[b,h,i,j]; scale, where they are none
 *     x[b,h,i,j] = t * sum_d Q[b,h,i,d] K[b,h,j,d]                  if round_s == 0, else
 *     x[b,h,i,j] = round_2( t / alpha * round_1( alpha * sum_d Q[b,h,i,d] K[b,h,j,d] ) )
 *     where sum_d of either sign that is beyond `overflow` counts as infinite, if that is not 0
 *     x          = round_5( softcap * round_4( tanh( round_3( x / softcap ))))  if softcap != 0
 *     x          = round( x + bias_scale[n] * bias[n][b,h,i,j] )    for each bias in use
 *     x          = mask_value          where a boolean mask says so; before the late biases
 *     x          = window_value        where j lies outside the window of row i
 *     x          = -inf                where j >= lengths[b,h,i]
 *     x and sink = round_6( that - the largest of x[b,h,i,:] and sinks[b,h,i] )
 *     P[b,h,i,:] = softmax(x[b,h,i,:] and sinks[b,h,i], as one more score)
 *     O[b,h,i,:] = out_scale * sum_j round_p(P[b,h,i,j]) V[b,h,j,:]
 *
 * round_1 and round_2 round to the dtype of Q where `round_s` has ATTN_ROUND_PRODUCT and
 * ATTN_ROUND_SCALED, else they do nothing. They are what a program does that stores S = Q K^T in 16
 * bits, multiplies it in place, and adds a bias in place: x is then a number of 8 digits (bf16),
 * which says more of its O than all that happens afterwards. What happens afterwards is that P is
 * divided by its sum and rounded to `round_p`: where `round_s` has ATTN_ROUND_WEIGHTS it is, else
 * kernels round what is not divided yet. round_3 to round_5 are what a program does that divides by
 * the softcap, takes the tanh and multiplies in place: to the dtype of Q with ATTN_ROUND_CAPPED.
 * round_6 is what one does that takes the largest off before softmax, in place: ATTN_ROUND_LESS.
 *
 * The sink's own weight meets no V: it only makes the others smaller. Rows where all scores, the
 * sink's too, are -inf: `empty_row`.
 *
 * What is no number goes where the formula takes it: P = 0 times an infinity or NaN of V is NaN, an
 * infinite x makes its row NaN or hides its key. A kernel that computes all of this at once can
 * still differ in kind from the program that stores each step:
 *   - S that the program stores in fp16 as an infinity is one here from `overflow` on: a sum so
 *     near to it that another order of adding moves it across may be one on one side alone. With
 *     round_s it is where that is rounded to one. Where x is no more than q.k times a
 *     factor, all that is looked at is a score of the row that is about its largest: within 2^14,
 *     as P has it. And a row of which every S is beyond on the negative side is one of numbers.
 *   - Rows of P whose fp16 sum overflows are rows of numbers.
 *   - Keys outside a window whose value is -inf, past `lengths`, or hidden by a bias of -inf, or of
 *     the lowest number, from every row of a tile may be skipped altogether. Then a NaN or infinity
 *     in their V does not reach O, nor one in their K or S where a bias hides them (-inf plus NaN).
 *   - Which P are 0 differs at the edge: here those below 2^-25 (fp16) or 2^-126 of about the
 *     largest of the row, there what its own format rounds to 0 once divided by the sum. With an
 *     infinity in V such a key gives NaN on one side and an infinity on the other.
 *   - P is not yet divided by the sum when it meets V: sums overflow if V is within a factor of
 *     2^14 (fp32: 2^6) times the number of keys of what fp32 holds, and in fp32 on Hopper x does if
 *     numbers of K go beyond 2^115.
 *   - A row without keys, where it is to be 0 or the mean of V: NaN if V has what is no number.
 *
 * The names are the usual ones: B batches, H heads, Sq queries, Sk keys, D head dimension of
 * Q and K, Dv head dimension of V and O. Strides count elements, not bytes, and may be zero
 * (broadcast) or anything else a caller's GEMM could express; no alignment beyond that of the
 * element type is promised. The same header is read by C, by nvcc and by the host build of the
 * kernels, so it holds plain data only.
 */
#ifndef FASHIM_ATTENTION_H
#define FASHIM_ATTENTION_H

#include <stdint.h>

enum attn_dtype {
	ATTN_F16,
	ATTN_BF16,
	ATTN_F32,
	ATTN_BOOL, /* one byte, zero or not; masks only */
	ATTN_F64,  /* reference output only */
	ATTN_I32,  /* lengths only */
	ATTN_ONE,  /* one byte, one or not; what masks are made of (complement.h) only … */
	ATTN_I8,   /* … and one byte, above zero or not */
	ATTN_DTYPE_COUNT
};

/* For `round_x` alone: as ATTN_F16, and what is below its lowest number becomes that, as
 * torch.max(x, finfo.min) has it. */
#define ATTN_F16_FLOORED ATTN_DTYPE_COUNT
#define ATTN_F16_LOWEST	 -65504.0f

#ifdef __CUDACC__
#define ATTN_INLINE static inline __host__ __device__
#else
#define ATTN_INLINE static inline
#endif

ATTN_INLINE int attn_dtype_size(int dtype)
{
	return dtype == ATTN_F64					     ? 8
	       : dtype == ATTN_F32 || dtype == ATTN_I32			     ? 4
	       : dtype == ATTN_BOOL || dtype == ATTN_ONE || dtype == ATTN_I8 ? 1
									     : 2;
}

/* One operand, seen as [B,H,rows,cols] whatever its storage. */
struct attn_tensor {
	uint64_t base;	   /* device address of element [0,0,0,0]; 0: operand not in use.
			      by_array: device address of an array of B*H element addresses */
	int64_t stride[4]; /* elements, in the order b, h, row, column; by_array: 0 and 1 unused */
	int32_t dtype;	   /* enum attn_dtype */
	int32_t by_array;
	/* Biases, mask and scales that do not differ in all of b: n > 0: they come again every n
	 * batches, b % n stands in b's place (windows of images); n < 0: -n in a row share one,
	 * b / -n. 0: b itself. Of biases and scales the same with columns, the keys (those of the
	 * rows and of the columns of an image). */
	int32_t batches, columns;
};

/* What stands in n's place, `of` being one of the two above. */
ATTN_INLINE int32_t attn_place(int32_t n, int32_t of)
{
	const uint32_t size = (uint32_t)(of < 0 ? -of : of);
	const int32_t turn = of ? (int32_t)((uint32_t)n / size) : 0;

	return of < 0 ? turn : n - turn * of;
}

/* What becomes of a row whose every x is -inf (or masked with fill -inf). */
enum attn_empty_row {
	ATTN_EMPTY_NAN,	 /* what softmax itself gives: NaN (the usual case) */
	ATTN_EMPTY_ZERO, /* "safe softmax" and length masks: the row of O is 0 */
	ATTN_EMPTY_MEAN, /* uniform weights 1/Sk: O is the mean of V */
	ATTN_EMPTY_AGAIN /* NaN, but P of what the mask hides is 0 once more after softmax, so that
			    a row which it hides in all is 0: `hidden_value` */
};

/* Where a program rounds its scores to 16 bits, before a softmax reads them. */
enum attn_round_s {
	ATTN_ROUND_PRODUCT = 1, /* alpha * q.k: GEMM1 stores it */
	ATTN_ROUND_SCALED = 2,	/* that times what else `scale` holds */
	ATTN_ROUND_BIASED = 4,	/* after each bias, as `round_x` has it (which is then the dtype of
				   Q), where the bias is 0 too */
	ATTN_ROUND_WEIGHTS = 8, /* P, once it is divided by its sum: to `round_p`, not wider */
	ATTN_ROUND_CAPPED = 16, /* x / softcap, its tanh, and softcap times that; where there is a
				   softcap, and with ATTN_ROUND_WEIGHTS */
	ATTN_ROUND_LESS = 32	/* x less the largest of its row, and a sink less that: to the dtype
				   of Q; with ATTN_ROUND_WEIGHTS, by rounded.cu */
};

#define ATTN_MAX_BIAS  2
#define ATTN_NO_WINDOW INT32_MAX

struct attn_spec {
	float scale;   /* multiplies q.k; GEMM1's alpha is already folded in */
	float softcap; /* 0: none */
	float out_scale;
	int32_t round_x; /* dtype the app rounded x to after a bias (ATTN_F32: it stayed fp32). Only
			    there does it decide the outcome: a fill that swallows q.k leaves a
			    fully masked row uniform */
	int32_t round_p; /* dtype P is rounded to before P.V; kernels may use a wider one */
	int32_t empty_row;
	int32_t round_s; /* enum attn_round_s, or-ed: for Q in 16 bits, and with a softcap only if
			    that is rounded, too; with ATTN_ROUND_WEIGHTS done by rounded.cu,
			    rounded_decode.cu or twice.cu, without by all variants but those for
			    plain calls; 0: x stays fp32 up to the biases */
	float alpha;	 /* with round_s: the part of `scale` that q.k is multiplied by before
			    ATTN_ROUND_PRODUCT; not 0. The rest is t / alpha, in fp32 */
	struct attn_tensor scales; /* [B,H,Sq,Sk], F16/BF16/F32, of any sign, read when the kernel
				      runs; with round_s only one for all of [b,h] */
	int32_t scales_divide;	   /* 1: they divide, which is to be multiplied by 1 over them */

	float bias_scale[ATTN_MAX_BIAS];
	float overflow; /* above 0: q.k beyond this, of either sign, is infinite: S in fp16 cannot
			   hold it. 0: there is no such limit. Done where Q is fp16, but by
			   rounded*.cu, which have S itself in fp16, and by kernels/ladder */
	struct attn_tensor bias[ATTN_MAX_BIAS]; /* [B,H,Sq,Sk], F16/BF16/F32, added to x */

	struct attn_tensor mask; /* [B,H,Sq,Sk], ATTN_BOOL */
	int32_t mask_keeps;	 /* 1: nonzero means keep; 0: nonzero means replace by mask_value */
	float mask_value;
	float hidden_value; /* with ATTN_EMPTY_AGAIN, where mask_value is -inf: what the mask put in
			       a score's place, which counts in its row's sum of weights, and meets
			       no V. No window, lengths, sinks or biases after the mask then. Done
			       by mma.cu, f32.cu and f32_sm90.cu */
	struct attn_tensor mask_also; /* hides by the same number what it says. No kernel looks at
					 it: complement.h makes one of two */
	int32_t mask_also_keeps;
	int32_t late_biases; /* so many of bias[], the last ones, are added after the mask: 0: all
				before it, ATTN_MAX_BIAS: all after it */

	/* Key j takes part in row i iff  i + window_shift - window_left <= j <= i + window_shift
	 * + window_right. Causal with Sq == Sk: left = NO_WINDOW, right = 0, shift = 0; aligned to
	 * the last key: shift = Sk - Sq. Both NO_WINDOW: no window at all. */
	int32_t window_left, window_right, window_shift;
	float window_value; /* what x becomes outside: -inf, or finite; -inf without a window */

	struct attn_tensor lengths; /* [B,H,Sq,1], ATTN_I32; below 0 is as 0, beyond Sk as Sk */
	struct attn_tensor sinks;   /* [B,H,Sq,1], F16/BF16/F32, in the units of x */
};

/* Do scales differ within a head? */
ATTN_INLINE int attn_scales_each(const struct attn_spec *s)
{
	return s->scales.base && (s->scales.stride[2] || s->scales.stride[3]);
}

struct attn_args {
	struct attn_tensor q; /* [B,H,Sq,D] */
	struct attn_tensor k; /* [B,H,Sk,D] */
	struct attn_tensor v; /* [B,H,Sk,Dv] */
	struct attn_tensor o; /* [B,H,Sq,Dv], F16/BF16/F32. May be q's own memory with q's own
				 strides; must not overlap any other operand */
	int32_t B, H, Sq, Sk, D, Dv;
	struct attn_spec spec;
};

/* ---- kernels, found by name in the module; each takes one struct by value -------------- */

/* A CUtensorMap, for those who do not include cuda.h. */
struct attn_map {
#ifdef __cplusplus
	alignas(64)
#else
	_Alignas(64)
#endif
		uint64_t opaque[16];
};

enum attn_map_of { ATTN_MAP_Q, ATTN_MAP_K, ATTN_MAP_V, ATTN_MAP_BIAS, ATTN_MAP_COUNT };

/* What a mapped variant takes instead of struct attn_args, and a rounded one, for whose operands
 * there are no maps. Boxes of Q, K and V are 64 elements
 * wide, 128-byte swizzled; along a dimension of stride 0 a map has one element, and `step` is 0:
 * the coordinate for (h, b) is (h * step[..][0], b * step[..][1]). */
struct attn_mapped {
	struct attn_args attn;
	int32_t step[ATTN_MAP_COUNT][2];
	int32_t bias_rows; /* rows in a box of the bias: the block's, 1 where rows share it, 0
			      without any */
	int32_t section;   /* heads that are worked on at a time, so that their K and V fit the
			      second-level cache; over all of B*H */
	uint64_t ranges;   /* struct attn_range of each b and tile of rows; 0: none */
	uint64_t spans;	   /* struct attn_span of each b and row */
	int32_t range_step[2], span_step[2]; /* from one b, tile or row to the next; elements */
	struct attn_map map[ATTN_MAP_COUNT];
	struct attn_map second; /* a second bias: as map, step and bias_rows of the first */
	int32_t second_step[2], second_rows;
};

/* Of the tiles of keys, those that a tile of rows may see at all, and a run among them where the
 * bias or mask need not be read: it is zero (hides none) there or, if the run is all of them, zero
 * for the keys in the spans of the rows and a mask for the others. All from `begin` to `end` - 1.
 */
struct attn_range {
	int32_t begin, end, clear_begin, clear_end;
};

/* The keys that a row sees: from `first` to `last`. */
struct attn_span {
	int32_t first, last;
};

/* prepare.cu, what may be done before a mapped variant:
 *   kernel `fashim_repack(struct attn_repack)`: copies lines of 16-bit elements, REPACK_LINES
 *   a block; grid (blocks, H, B). To lines on 16 bytes, whole pieces of 16.
 *   kernel `fashim_ranges(struct attn_ranges)`: looks at a bias or mask that heads share; grid.x
 * = RANGES_CLUSTER * tiles of rows, grid.z = B. Its rows start on 16 bytes. */
#define REPACK_THREADS 128
#define REPACK_LINES   32
struct attn_repack {
	uint64_t from, to;
	int64_t from_stride[3], to_stride[3]; /* b, h, line; to_stride[2] a multiple of 8 */
	int32_t length, lines;
};

#define RANGES_THREADS 512
#define RANGES_CLUSTER 8
#define RANGES_TILES   1024 /* of keys, at most */
#define RANGES_ROWS    192  /* in a tile, at most */
struct attn_ranges {
	struct attn_tensor bias;  /* [B,1,Sq,Sk], F16 or BF16, or a mask, BOOL */
	struct attn_tensor other; /* [B,H,1,Sk]: what is added to x beside a bias; of its type */
	uint64_t out;		  /* struct attn_range[B][tiles of rows], struct attn_span[B][Sq] */
	float weight, other_weight; /* of biases */
	int32_t B, H;		    /* of the other */
	int32_t Sq, Sk, rows, keys;
	int32_t mask_keeps; /* of a mask, which hides by ATTN_MASKED or less */
};

/* From here on x brings no key back that a row sees beside others: fp16's least number is -65504,
 * bf16's and fp32's far below; a score would have to exceed the row's best by as much, where an
 * fp16 product is infinite already. -10000, which some programs use, is not enough for that. */
#define ATTN_MASKED (-60000.0f)

/* How to launch a variant: launch.h. */
struct attn_variant {
	const char *name;   /* also the selector's and the log's name, e.g. "wmma_f16_d64" */
	const char *symbol; /* kernel symbol in the module */
	int32_t min_arch;   /* compute capability * 10, e.g. 75 */
	int32_t dtype;	    /* dtype of Q, K and V */
	int32_t max_d;	    /* largest D and Dv it takes */
	int32_t rows_per_block;
	int32_t threads;
	int32_t shared_bytes;  /* dynamic shared memory */
	int32_t grid_x_factor; /* blocks that share the keys of a tile of rows: a cluster, if > 1;
				  0: as many blocks as fit the GPU, each taking tiles in turn */
	int32_t needs;	       /* enum attn_needs, or-ed */
	int32_t keys;	       /* in a tile, which a look at a bias goes by; 0: none does */
	int32_t family;	       /* enum attn_family: the file it comes from */
	int32_t most_keys;     /* that it has room for; 0: any number */
};

enum attn_family {
	ATTN_WMMA,
	ATTN_MMA,
	ATTN_ROUNDED,
	ATTN_ROUNDED_DECODE,
	ATTN_DECODE,
	ATTN_FEW,
	ATTN_F32_ANY,
	ATTN_TMA,
	ATTN_TWICE,
	ATTN_SPLIT,
	ATTN_SM90,
	ATTN_F32_SM90,
	ATTN_LADDER /* kernels/ladder: never chosen unless forced by name */
};

/* What a variant cannot do without. Those that need nothing are in the image of every
 * architecture from min_arch on. */
enum attn_needs {
	ATTN_NEEDS_ARCH = 1,	 /* exactly min_arch, and an image built for it, not from PTX */
	ATTN_NEEDS_PIECES = 2,	 /* D = Dv = max_d; Q, K, V without by_array, rows on 16 bytes */
	ATTN_NEEDS_PLAIN = 4,	 /* no bias, mask or softcap, scale > 0, -inf outside the window */
	ATTN_NEEDS_DOWN = 8,	 /* unit row stride in K, not unit column stride */
	ATTN_NEEDS_MAPS = 16,	 /* Q, K, V (and the bias) can be described by tensor maps */
	ATTN_NEEDS_BIAS = 32,	 /* no mask and at most one bias, 16-bit, in rows of 16 bytes */
	ATTN_NEEDS_MASK = 64,	 /* no bias, but a mask in rows of 16 bytes */
	ATTN_NEEDS_USUAL = 128,	 /* no lengths, no sinks, no bias after the mask */
	ATTN_NEEDS_SCORES = 256, /* room in memory for x, which a kernel before leaves there */
	ATTN_NEEDS_ROWS = 512,	 /* Q, K, V without by_array, rows on 16 bytes */
	ATTN_NEEDS_SHORT = 1024, /* few keys, and x in 16 bits: rounded_variants.h */
	ATTN_NEEDS_TWO = 2048,	 /* no mask, but two biases, 16-bit, in rows of 16 bytes */
	ATTN_NEEDS_IMAGE = 4096	 /* a bias with a number for several keys; else as USUAL has it */
};

/* First attn_variant_count variants that need nothing, then the others. */
extern const struct attn_variant attn_variants[];
extern const int attn_variant_count, attn_variant_total;

/* Picks the variant for a call, or NULL where none fits (the caller then declines, reason
 * `no_kernel`). forced: a variant name, or NULL. arch: compute capability * 10. */
const struct attn_variant *attn_select(const struct attn_args *args, int arch, const char *forced);

/* The same, where available[n] (of attn_variant_total) says whether attn_variants[n] is in the
 * image loaded. NULL: only the first attn_variant_count are. */
const struct attn_variant *attn_select_from(const struct attn_args *args, int arch,
					    const char *forced, const uint8_t *available);

/* reference.cu: double precision, plain loops, one block per sampled row.
 *   kernel `fashim_reference(struct reference_args)`, grid.x = rows, block.x = REFERENCE_THREADS,
 *   dynamic shared memory: 0 (x is kept in `scratch`, rows * Sk doubles).
 * Sampled row r of n stands for the flattened row index attn_sample_row(r, n, B*H*Sq). */
#define REFERENCE_THREADS 128
struct reference_args {
	struct attn_args attn;
	int32_t rows; /* number of sampled rows */
	int32_t pad;
	uint64_t scratch; /* device, double[rows][Sk] */
	uint64_t out;	  /* device, double[rows][Dv] */
	uint64_t largest; /* device, double, at least 0: the largest x of all rows if that is
			     larger; 0: nobody asks */
};

/* Which flattened row (b,h,i) sample r of n is: the first, the last, evenly spread between, with
 * a step that is rarely a multiple of Sq, so that i varies too. total = B*H*Sq, n >= 1. */
ATTN_INLINE int64_t attn_sample_row(int32_t r, int32_t n, int64_t total)
{
	return n > 1 ? (int64_t)r * (total - 1) / (n - 1) : 0;
}

/* drift.cu: compares the app's O with the fused O over all B*H*Sq*Dv elements.
 *   kernel `fashim_drift(struct drift_args)`, grid.x = drift_blocks(), block.x = DRIFT_THREADS;
 *   `result` must hold a zeroed struct drift_result.
 * and both with the double reference on sampled rows:
 *   kernel `fashim_drift_sampled(struct drift_sampled_args)`, grid.x = rows, block.x =
 *   DRIFT_THREADS; `result` zeroed beforehand.
 * A result is one only where its `blocks` are those of the grid: in memory that was not zeroed, or
 * is written to by others, some or all of them give up. */
#define DRIFT_THREADS 256
struct drift_result {
	double sum_diff2; /* sum (app - fused)^2 over finite pairs */
	double sum_app2;  /* sum app^2 */
	double sum_fused2;
	double sum_dot; /* sum app*fused */
	double max_abs; /* max |app - fused| */
	double max_app; /* max |app| */
	double worst_app, worst_fused;
	uint64_t worst_index;	     /* flattened b,h,i,d */
	uint64_t count;		     /* finite pairs */
	uint64_t nonfinite_mismatch; /* NaN/Inf on one side, or different ones */
	uint64_t beyond;	     /* |app - fused| > abs_tol + rel_tol * |app| */
	uint64_t blocks;	     /* that added their sums */
	uint64_t lock;		     /* the kernel's own */
};
struct drift_args {
	struct attn_tensor app, fused; /* [B,H,Sq,Dv], 16-bit or fp32 */
	int32_t B, H, Sq, Dv;
	double abs_tol, rel_tol;
	uint64_t result;
};

ATTN_INLINE uint32_t drift_blocks(const struct drift_args *args)
{
	const uint64_t elements =
		(uint64_t)args->B * (uint64_t)args->H * (uint64_t)args->Sq * (uint64_t)args->Dv;
	const uint64_t blocks = (elements + 8 * DRIFT_THREADS - 1) / (8 * DRIFT_THREADS);

	return blocks < 1 ? 1 : blocks > 1024 ? 1024 : (uint32_t)blocks;
}

struct drift_sampled_result {
	double sum_ref2;	     /* sum ref^2 */
	double sum_app2, sum_fused2; /* sum (app - ref)^2, sum (fused - ref)^2 */
	double max_app, max_fused;   /* max |app - ref|, max |fused - ref| */
	double max_ref;		     /* max |ref| */
	uint64_t count;
	uint64_t app_nonfinite, fused_nonfinite; /* finiteness differs from the reference's */
	uint64_t blocks, lock;			 /* as above */
};
struct drift_sampled_args {
	struct attn_tensor app, fused; /* fused.base may be 0: app only */
	int32_t B, H, Sq, Dv, rows, pad;
	uint64_t reference; /* double[rows][Dv] as reference.cu wrote it */
	uint64_t result;
};

/* inspect.cu: looks at memory. Any grid.x, block.x = INSPECT_THREADS; results are zero before.
 *   kernel `fashim_find_addresses(struct addresses_args)`: words at multiples of eight bytes in
 *   [base, base+bytes) that lie in [low, high).
 *   kernel `fashim_count_unwritten(struct unwritten_args)`: how many of `bytes` bytes hold
 *   first_pattern at `first` and second_pattern at `second`; uint64_t at `result`.
 *   kernel `fashim_count_triangle(struct triangle_args)`: of `matrices` square matrices, one behind
 *   the other, how many numbers on and below the diagonal were left alone in that sense; without a
 *   `second`, how many above it are not 0 at `first`. uint64_t at `result`. */
#define INSPECT_THREADS 256
#define ADDRESSES_FOUND 30
struct addresses_result {
	uint64_t count;
	uint64_t word[ADDRESSES_FOUND]; /* the first of them, in no order */
};
struct addresses_args {
	uint64_t base, bytes, low, high;
	uint64_t result; /* struct addresses_result */
};
struct unwritten_args {
	uint64_t first, second, bytes;
	uint64_t result;
	int32_t first_pattern, second_pattern;
};
struct triangle_args {
	uint64_t first, second, matrices;
	uint64_t result;
	int32_t rows, size;		       /* of a matrix; bytes of a number: 2 or 4 */
	int32_t first_pattern, second_pattern; /* bytes */
};

/* A slope is two to the power of this: ALiBi's own numbers, which programs compute when they have
 * no array of them. `first` heads come in one progression down to 2^-most, the others lie between.
 */
ATTN_INLINE float attn_slope_exponent(int32_t h, int32_t first, float most)
{
	return h < first ? -most * (float)(h + 1) / (float)first
			 : -most * ((float)(h - first) + 0.5f) / (float)first;
}

/* slopes.cu: one number for each head, times the distance of a key from `origin`.
 *   kernel `fashim_slopes(struct slopes_args)`, grid (Sk / SLOPES_THREADS rounded up, H, B). */
#define SLOPES_THREADS 256
struct slopes_args {
	struct attn_tensor slopes; /* [B,H,1,1], F16/BF16/F32; base 0: attn_slope_exponent() */
	uint64_t out;		   /* float[B][H][Sk]; 0: there are no slopes */
	int32_t B, H, Sk;	   /* B, H: 1 where all have the same slope */
	int32_t origin;
	int32_t first;
	float most;
};

/* lay_out.cu: `count` numbers one behind another at `to`: from[sum of stride[d] * index in d], the
 * first dimension the fastest. Strides in elements of 2, 4 or 16 bytes. Numbers of 16 bits at
 * `from` are made fp32 on the way where `cast` says of which type they are.
 *   kernel `fashim_lay_out(struct lay_out_args)`, any grid.x, block.x = LAY_OUT_THREADS. */
#define LAY_OUT_THREADS 256
#define LAY_OUT_DIMS	8
struct lay_out_args {
	uint64_t to, from;
	int64_t count;
	int32_t element, dims;
	int32_t cast; /* enum attn_dtype, and 1; 0: none */
	int64_t size[LAY_OUT_DIMS], stride[LAY_OUT_DIMS];
};

/* copy_rows.cu: rows of `width` at every `pitch`, all in 16-byte pieces, from `from` on, to the
 * same distances from `to`; `count` pieces in all, in whole rows, fewer than 2^31. kernel
 * `fashim_copy_rows(struct copy_rows_args)`, any grid.x, block.x = COPY_ROWS_THREADS. */
#define COPY_ROWS_THREADS 256
struct copy_rows_args {
	uint64_t to, from;
	uint64_t count;
	uint32_t width, pitch;
};

#endif
