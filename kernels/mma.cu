/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for any layout on the warp matrix instructions, from sm_80 on: rolling slices.
 *
 * What: as wmma.cu, a tile of query rows per block, 16 or 32 of them per warp, and tiles of keys
 * one after the other; S and P never leave the registers. But where wmma.cu computes all of S, then
 * all of P, then P V, here a warp goes through its tile in slices of 16 or 32 keys, and for each
 *
 *     P = exp2(x * exponent - reference)    of this tile, packed to 16 bits
 *     S = Q K^T                             of the NEXT tile, into the registers that x was in
 *     O += P V                              of this tile
 *
 * all in one basic block, so that what the exponentials, the additions, the loads from shared
 * memory and the tensor cores do overlaps within one warp.
 *
 * Why so, in the order in which it was decided:
 *   1. The maximum of a tile is known before its exponentials begin: it is taken of S as it arises.
 *      It needs no exchange between lanes: a row keeps its reference as long as no lane of the
 *      warp finds a score that is 2^13 times what it stands for (one vote a tile). Only then do
 *      lanes exchange maxima, and O and the sums are scaled: refresh().
 *   2. The loop knows nothing of biases, masks, windows and ends. Where a tile has any, the scores
 *      are put right between two turns of the loop: adapt().
 *   3. Two tiles each of K and V in shared memory, K a tile ahead of V, one barrier a tile.
 *   4. Rows padded by 16 bytes rather than swizzled: ldmatrix meets no bank twice, any multiple of
 *      16 is a width, and all addresses of a slice are one register and a constant.
 *   5. A slice's exponentials go with the products of the slice before, those of a tile's first
 *      slice with the last of the tile before: they are done on trust, and anew where the
 *      reference turns out to change.
 *   6. Sums of P by the tensor cores, as a column of O that V has all ones for. They are of P as
 *      rounded, so that a row with one key that counts is that key's V exactly, although its P is
 *      no power of two.
 *   7. A warp whose rows see no more keys (causal) only helps to load.
 *   8. With a window, blocks are in the order of their work, over all heads of a section whose K
 *      and V fit the second-level cache.
 *   9. What is the same for a block or warp lies in shared memory (block_view, warp_view); plain
 *      calls of well aligned operands have kernels of their own, in which nothing else holds
 *      registers (SIMPLE).
 *
 * Rules worth knowing: those of wmma.cu.
 *
 * What was tried, as a kernel of 60 lines without edges, H200, 32 heads, 4096 keys, of
 * FlashAttention-2's speed (300 TFLOP/s at D 64, 352 at D 128):
 *     D 64: 64 keys, two blocks                       1.08
 *           the same, exponentials a slice ahead      1.16
 *           32 keys, two blocks; the same             1.13
 *           32 keys, three blocks (168 registers)     1.01
 *           16 rows a warp, eight warps               1.01 to 1.07
 *           slices of 32 keys                         no difference
 *           slices kept apart by a branch that is never taken, so that each has its
 *           exponentials evenly among its products    1.12
 *     D 128: 32 keys, slices of 32, a quarter of Q in registers  0.97
 *           slices of 16, none of Q                   0.94
 *           slices of 32, none, or half of Q (spills) 0.92, 0.91
 *           16 rows a warp, 64 keys, all of Q         0.92
 *           kept apart as above                       0.82 to 0.92
 *           64 keys                                   0.78: spills
 * What ptxas makes of the order of instructions decides more than their number. Loading the first
 * tiles within the loop instead of before it spilled 600 bytes.
 *
 * Measured (H200, random data, kernel alone, beside FlashAttention-2 as PyTorch 2.11 launches it):
 *     2048 keys, 64 heads     full, causal    4096 keys, 32 heads     full, causal
 *     D 64                    1.00  1.03                              1.02  1.14
 *     D 128                   0.92  0.89                              0.92  0.88
 *     D 40                    1.29  1.40
 *     D 80                    1.14  1.23
 *     D 96                    0.84  0.83
 *     D 160                   0.84  1.18
 */
#include "kernels/rows_out.cuh"

/* A reference of a row that has met no key, as an exponent: below any other. */
#define FRESH -1e30f
/* By so many powers of two may P exceed what it is relative to: fp16 holds 2^15. */
#define ROOM 13.0f
/* References beyond this, as exponents, are taken from the scores before these are scaled: products
 * so large are too coarse. */
#define FAR 1048576.0f

/* What a warp works with: rows 16m+g and 16m+8+g of its own in [m][..][0..1] and [m][..][2..3]. */
template <int BLOCKS, int WIDTH, int KEYS> struct work {
	float s[KEYS / 16][BLOCKS][2]
	       [4]; /* q.k, x or x less the row's offset: of the tile to come */
	float o[BLOCKS][WIDTH / 8][4];
	float reference[BLOCKS][2]; /* P = 2^(x * exponent - reference) */
	float sum[BLOCKS][4];	    /* of P as rounded, as a column of O that V has all ones for */
	float top[BLOCKS][2];	    /* of s, over this lane's columns only */
};

/* What is the same for all of a block, or of a warp's rows, and is looked up rather than held in
 * registers, which are short. */
enum { PLAIN, SCALED, BIAS, MASK, ANY };
struct block_view {
	struct view w;
	int kind;    /* what adapt() has to do: one bias or mask in pairs of numbers, or more */
	float after; /* with round_s: what S is multiplied by once it is rounded */
	const void *k, *v; /* of the head */
	int k_pieces, v_pieces;
	int begin, end; /* tiles of keys */
};
struct warp_view {
	int first;	      /* row */
	int end;	      /* of its tiles of keys */
	int clean, clean_end; /* those of which x is q.k for all rows and keys; by is_plain() */
};

/* Single elements of an operand that a thread has under way: registers are short. */
#define AT_ONCE 2

/* ---- a tile of scores ------------------------------------------------------------------------ */

/* Can all rows be read in aligned pairs of elements? */
static __device__ __forceinline__ bool in_pairs(const struct attn_tensor &t, const char *at)
{
	const int pair_bytes = 2 * attn_dtype_size(t.dtype);

	return t.stride[3] == 1 && t.stride[2] % 2 == 0 && (uint64_t)at % pair_bytes == 0;
}

static __device__ __forceinline__ int kind_of(const struct attn_args &a, const struct view &w)
{
	const struct attn_spec &s = a.spec;

	if (w.plain)
		return PLAIN;
	if (s.softcap != 0.0f || s.bias[1].base)
		return ANY;
	if (!s.bias[0].base && !s.mask.base)
		return SCALED;
	if (s.bias[0].base && !s.mask.base)
		return in_pairs(s.bias[0], tensor_at(s.bias[0], w.b, w.h, a.H)) ? BIAS : ANY;
	if (s.mask.base && !s.bias[0].base)
		return in_pairs(s.mask, tensor_at(s.mask, w.b, w.h, a.H)) ? MASK : ANY;
	return ANY;
}

static __device__ __forceinline__ struct warp_view
warp_view_of(const struct attn_args &a, const struct view &w, int first, int rows, int keys)
{
	const int last = min(first + rows, a.Sq) - 1;
	struct warp_view own = {first, 0, INT32_MAX, 0};
	int begin;

	if (first >= a.Sq)
		return own;
	key_tiles(a, a.Sk, first, last, keys, &begin, &own.end);
	if (w.plain) {
		own.clean = (min(first_key(a.spec, last), a.Sk) + keys - 1) / keys;
		own.clean_end = (min(last_key(a.spec, first), a.Sk - 1) + 1) / keys;
	}
	return own;
}

/* x of row r, of those that a lane has. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ float &x_of(struct work<BLOCKS, WIDTH, KEYS> &u, int r, int k)
{
	return u.s[k / 4][r / 2][k / 2 % 2][r % 2 * 2 + k % 2];
}

/* S as a program has it that stores it in T: `alpha` and then, anew, `after`. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void round_scores(struct work<BLOCKS, WIDTH, KEYS> &u,
						    const struct attn_spec &s, float after)
{
	const bool product = s.round_s & ATTN_ROUND_PRODUCT, scaled = s.round_s & ATTN_ROUND_SCALED;

#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
		for (int k = 0; k < KEYS / 4; k += 2) {
			float2 x =
				make_float2(s.alpha * x_of(u, r, k), s.alpha * x_of(u, r, k + 1));
			if (product)
				x = unpack2<T>(pack2<T>(x.x, x.y));
			x.x *= after;
			x.y *= after;
			if (scaled)
				x = unpack2<T>(pack2<T>(x.x, x.y));
			x_of(u, r, k) = x.x;
			x_of(u, r, k + 1) = x.y;
		}
}

/* Scale alone. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void scale_scores(struct work<BLOCKS, WIDTH, KEYS> &u,
						    float scale)
{
#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
			x_of(u, r, k) *= scale;
}

/* Scale and bias, of a tile that has all its keys. */
template <typename E, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void add_pairs(struct work<BLOCKS, WIDTH, KEYS> &u,
						 const struct attn_args &a, const struct view &w,
						 float scale, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const struct attn_tensor &t = s.bias[0];
	const E *const base = (const E *)tensor_at(t, w.b, w.h, a.H) + j;

#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		const E *const at = base + min(i + 8 * r, a.Sq - 1) * t.stride[2];
#pragma unroll
		for (int k = 0; k < KEYS / 4; k += 2) {
			const pair<E> two = *(const pair<E> *)(at + key_of(k));
			float &low = x_of(u, r, k), &high = x_of(u, r, k + 1);
			low = fmaf(s.bias_scale[0], to_float<E>(two.low), low * scale);
			high = fmaf(s.bias_scale[0], to_float<E>(two.high), high * scale);
		}
	}
	if (s.round_x != ATTN_F32)
#pragma unroll
		for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				x_of(u, r, k) = s.round_x == ATTN_F16
							? round_to(x_of(u, r, k), ATTN_F16)
							: round_to(x_of(u, r, k), ATTN_BF16);
}

/* Scale and mask, of a tile that has all its keys. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void mask_pairs(struct work<BLOCKS, WIDTH, KEYS> &u,
						  const struct attn_args &a, const struct view &w,
						  float scale, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const char *const base = tensor_at(s.mask, w.b, w.h, a.H) + j;
	const bool keeps = s.mask_keeps != 0;

#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		const char *const at = base + min(i + 8 * r, a.Sq - 1) * s.mask.stride[2];
#pragma unroll
		for (int k = 0; k < KEYS / 4; k += 2) {
			const pair<char> two = *(const pair<char> *)(at + key_of(k));
			float &low = x_of(u, r, k), &high = x_of(u, r, k + 1);
			low = (two.low != 0) == keeps ? low * scale : s.mask_value;
			high = (two.high != 0) == keeps ? high * scale : s.mask_value;
		}
	}
}

/* The same whatever there is; for the sake of the code's size, one row after the other. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void modify_rows(struct work<BLOCKS, WIDTH, KEYS> &u,
						   const struct attn_args &a, const struct view &w,
						   float scale, int i, int j)
{
#pragma unroll 1
	for (int row = 0; row < 2 * BLOCKS; row++) {
		float x[KEYS / 4];

#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
#pragma unroll
			for (int r = 0; r < 2 * BLOCKS; r++)
				if (r == 0 || r == row)
					x[k] = x_of(u, r, k);
		modify_scaled<true>(x, a, w, scale, i + 8 * row, j);
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
#pragma unroll
			for (int r = 0; r < 2 * BLOCKS; r++)
				if (r == row)
					x_of(u, r, k) = x[k];
	}
}

/* From q.k to x, for the tile of keys from j0 on, and the lane's maxima anew. */
template <bool SIMPLE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void adapt(struct work<BLOCKS, WIDTH, KEYS> &u,
					     const struct attn_args &a, const struct block_view &b,
					     int first, int j0)
{
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);
	const struct view &w = b.w;

	if (!SIMPLE && b.kind != PLAIN) {
		const int bias_type = a.spec.bias[0].dtype;
		const float scale = a.spec.round_s ? 1.0f : a.spec.scale;

		if (a.spec.round_s)
			round_scores<T>(u, a.spec, b.after);
		if (b.kind == SCALED)
			scale_scores(u, scale);
		else if (b.kind == ANY || j0 + KEYS > a.Sk)
			modify_rows(u, a, w, scale, i, j);
		else if (b.kind == MASK)
			mask_pairs(u, a, w, scale, i, j);
		else if (bias_type == ATTN_F16)
			add_pairs<__half>(u, a, w, scale, i, j);
		else if (bias_type == ATTN_BF16)
			add_pairs<__nv_bfloat16>(u, a, w, scale, i, j);
		else
			add_pairs<float>(u, a, w, scale, i, j);
	}
#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		int length = a.Sk - j;

		if (w.window) {
			const int low = first_key(a.spec, i + 8 * r) - j;
			const int high = last_key(a.spec, i + 8 * r) - j;
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				if (key_of(k) < low || key_of(k) > high)
					x_of(u, r, k) = a.spec.window_value;
		}
		if (!SIMPLE && a.spec.lengths.base)
			length = length_of(a, w.b, w.h, min(i + 8 * r, a.Sq - 1)) - j;
		float top = -INFINITY;
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++) {
			if (key_of(k) >= length)
				x_of(u, r, k) = -INFINITY;
			top = fmaxf(top, x_of(u, r, k)); /* passes NaN by; exp2 brings it back */
		}
		u.top[r / 2][r % 2] = top;
	}
}

/* Where a row of Q lies in shared memory there is room behind it, for one float of each group: the
 * row's offset, which is 0 unless its scores are far from 0. */
template <typename T, int WIDTH>
static __device__ __forceinline__ float *offset_of(T *own, int row, int group)
{
	return (float *)(own + row * (WIDTH + PAD) + WIDTH) + group;
}

/* New references, of the scores to come; what was summed up so far is scaled to match. `slow`: some
 * row of the warp has an offset or none but its first reference. Returns that of now on. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ bool refresh(struct work<BLOCKS, WIDTH, KEYS> &u, T *own,
					       int group, bool slow, float exponent)
{
	const int g = threadIdx.x % 32 / 4;
	float offset[BLOCKS][2];
	bool still = false;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float old = u.reference[m][r];
			const float base =
				slow ? *offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, group) : 0.0f;
			float top = u.top[m][r], now = old;

			top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 1));
			top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 2));
			offset[m][r] = base;
			if (top != -INFINITY &&
			    (old == FRESH || !(fmaf(top - base, exponent, -old) <= 0.0f))) {
				const bool far = fabsf(top * exponent) > FAR && top != INFINITY;
				offset[m][r] = far ? top : 0.0f;
				now = far ? 0.0f : top * exponent;
			}
			/* never above 1, but for rows whose sums are 0 */
			const float factor = fminf(
				exp2_fast(fmaf(base - offset[m][r], exponent, old - now)), 1.0f);
			u.reference[m][r] = now;
			u.sum[m][2 * r] *= factor;
			u.sum[m][2 * r + 1] *= factor;
#pragma unroll
			for (int n = 0; n < WIDTH / 8; n++) {
				u.o[m][n][2 * r] *= factor;
				u.o[m][n][2 * r + 1] *= factor;
			}
			still = still || now == FRESH || offset[m][r] != 0.0f;
		}
	still = __any_sync(WARP_ALL, still);
	if (still || slow) {
		__syncwarp(); /* all have read the offsets of before */
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int r = 0; r < 2; r++) {
				*offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, group) = offset[m][r];
#pragma unroll
				for (int n = 0; n < KEYS / 8; n++) {
					u.s[n / 2][m][n % 2][2 * r] -= offset[m][r];
					u.s[n / 2][m][n % 2][2 * r + 1] -= offset[m][r];
				}
			}
		__syncwarp();
	}
	return still;
}

/* Would P of the tile to come be too large, relative to the references as they are? */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ bool is_beyond(const struct work<BLOCKS, WIDTH, KEYS> &u,
						 float exponent)
{
	bool beyond = false;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			beyond = beyond ||
				 !(fmaf(u.top[m][r], exponent, -u.reference[m][r]) <= ROOM);
	return __any_sync(WARP_ALL, beyond);
}

/* ---- products ------------------------------------------------------------------------------- */

/* The rows of Q a warp owns: so much of the width in registers, in sixteens; the rest is read again
 * for each slice. */
template <typename T, int BLOCKS, int WIDTH, int KEPT> struct queries {
	const T *at; /* this lane's address for load_matrix */
	uint32_t kept[KEPT ? BLOCKS : 1][KEPT ? KEPT : 1][4];

	__device__ __forceinline__ void read(void)
	{
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int d = 0; d < KEPT; d++)
				load_matrix(kept[KEPT ? m : 0][KEPT ? d : 0],
					    at + 16 * m * (WIDTH + PAD) + 16 * d);
	}
	__device__ __forceinline__ void get(uint32_t (&q)[4], int m, int d) const
	{
		if (d < KEPT) {
#pragma unroll
			for (int e = 0; e < 4; e++)
				q[e] = kept[KEPT ? m : 0][KEPT && d < KEPT ? d : 0][e];
		} else {
			load_matrix(q, at + 16 * m * (WIDTH + PAD) + 16 * d);
		}
	}
};

/* S = Q K^T for the n-th sixteen of keys and SLICE - 1 more, over the d-th sixteen of the width; k
 * is this lane's address for load_matrix in the tile of keys. */
template <int SLICE, typename T, int KEYS, int BLOCKS, int WIDTH, int KEPT>
static __device__ __forceinline__ void score_slice(struct work<BLOCKS, WIDTH, KEYS> &u,
						   const struct queries<T, BLOCKS, WIDTH, KEPT> &q,
						   const T *k, int n, int d)
{
	uint32_t qf[BLOCKS][4];

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
		q.get(qf[m], m, d);
#pragma unroll
	for (int b = n; b < n + SLICE; b++) {
		uint32_t kf[4];

		load_matrix(kf, k + 16 * b * (WIDTH + PAD) + 16 * d);
#pragma unroll
		for (int m = 0; m < BLOCKS; m++) {
			if (d == 0)
#pragma unroll
				for (int e = 0; e < 8; e++)
					u.s[b][m][e / 4][e % 4] = 0.0f;
			multiply<T>(u.s[b][m][0], qf[m], kf[0], kf[1]);
			multiply<T>(u.s[b][m][1], qf[m], kf[2], kf[3]);
		}
	}
}

/* P of a slice. */
template <int SLICE, int BLOCKS> struct weights {
	uint32_t p[SLICE][BLOCKS][4];
};

template <int SLICE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void weigh_slice(struct weights<SLICE, BLOCKS> &w,
						   const struct work<BLOCKS, WIDTH, KEYS> &u, int n,
						   float exponent)
{
#pragma unroll
	for (int b = 0; b < SLICE; b++)
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const float *x = &u.s[n + b][m][e / 2][e % 2 * 2];
				const float to = -u.reference[m][e % 2];
				w.p[b][m][e] = pack2<T>(exp2_fast(fmaf(x[0], exponent, to)),
							exp2_fast(fmaf(x[1], exponent, to)));
			}
}

/* The maxima of scores that are there. */
template <int SLICE, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void raise_top(struct work<BLOCKS, WIDTH, KEYS> &u, int n)
{
#pragma unroll
	for (int b = n; b < n + SLICE; b++)
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int e = 0; e < 8; e++)
				u.top[m][e / 2 % 2] =
					fmaxf(u.top[m][e / 2 % 2], u.s[b][m][e / 4][e % 4]);
}

/* O += P V for a slice, over the d-th sixteen of the width; v as k, above. */
template <int SLICE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void value_slice(struct work<BLOCKS, WIDTH, KEYS> &u,
						   const struct weights<SLICE, BLOCKS> &w,
						   const T *v, int n, int d)
{
	const uint32_t ones = pack2<T>(1.0f, 1.0f);

#pragma unroll
	for (int b = 0; b < SLICE; b++) {
		uint32_t vf[4];

		load_matrix_transposed(vf, v + 16 * (n + b) * (WIDTH + PAD) + 16 * d);
#pragma unroll
		for (int m = 0; m < BLOCKS; m++) {
			if (d == 0)
				multiply<T>(u.sum[m], w.p[b][m], ones, ones);
			multiply<T>(u.o[m][2 * d], w.p[b][m], vf[0], vf[1]);
			multiply<T>(u.o[m][2 * d + 1], w.p[b][m], vf[2], vf[3]);
		}
	}
}

/* One turn: this tile's x become P and meet V, and the next tile's scores take their place, with
 * their maxima. With several slices, a slice's exponentials go with the products of the one before:
 * `first` is P of this tile's first slice, and then of the next one's, by the references as they
 * are. */
template <int SLICE, typename T, int KEYS, int BLOCKS, int WIDTH, int KEPT>
static __device__ __forceinline__ void
turn(struct work<BLOCKS, WIDTH, KEYS> &u, struct weights<SLICE, BLOCKS> &first,
     const struct queries<T, BLOCKS, WIDTH, KEPT> &q, const T *k, const T *v, float exponent)
{
	constexpr int SLICES = KEYS / 16 / SLICE;
	struct weights<SLICE, BLOCKS> now = first, next;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
		u.top[m][0] = u.top[m][1] = -INFINITY;
	if (SLICES == 1)
		weigh_slice<SLICE, T>(now, u, 0, exponent);
#pragma unroll
	for (int n = 0; n < SLICES; n++) {
		if (n + 1 < SLICES)
			weigh_slice<SLICE, T>(next, u, (n + 1) * SLICE, exponent);
		else if (SLICES > 1)
			weigh_slice<SLICE, T>(next, u, 0, exponent);
		if (n > 0)
			raise_top<SLICE>(u, (n - 1) * SLICE);
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++) {
			score_slice<SLICE>(u, q, k, n * SLICE, d);
			value_slice<SLICE>(u, now, v, n * SLICE, d);
		}
		if (SLICES > 1)
			now = next;
	}
	raise_top<SLICE>(u, (SLICES - 1) * SLICE);
	first = now;
}

/* The last turn: no tile comes after this. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void last_turn(struct work<BLOCKS, WIDTH, KEYS> &u, const T *v,
						 float exponent)
{
#pragma unroll
	for (int n = 0; n < KEYS / 16; n++) {
		struct weights<1, BLOCKS> w;

		weigh_slice<1, T>(w, u, n, exponent);
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			value_slice<1>(u, w, v, n, d);
	}
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Each thread of the other groups leaves its sums in `room`, for its counterpart in group 0. The
 * row's offset and reference say what they are relative to. */
template <typename T, int KEYS, int BLOCKS, int WIDTH, int GROUPS, int THREADS>
static __device__ __forceinline__ void merge_groups(struct work<BLOCKS, WIDTH, KEYS> &u, T *own,
						    float *room, int group, int thread, bool slow,
						    float exponent)
{
	constexpr int NUMBERS = BLOCKS * (WIDTH / 2 + 6);
	const int g = threadIdx.x % 32 / 4;
	float offset[BLOCKS][2];

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			offset[m][r] =
				slow ? *offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, group) : 0.0f;
	__syncthreads();
	if (group > 0) {
		float *to = room + (group - 1) * NUMBERS * THREADS + thread;
#pragma unroll
		for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
			for (int r = 0; r < 2; r++, to += 3 * THREADS) {
				to[0] = u.reference[m][r];
				to[THREADS] = offset[m][r];
				to[2 * THREADS] = u.sum[m][2 * r];
			}
#pragma unroll
			for (int n = 0; n < WIDTH / 2; n++, to += THREADS)
				*to = u.o[m][n / 4][n % 4];
		}
	}
	__syncthreads();
	if (group > 0)
		return;
#pragma unroll 1
	for (int other = 1; other < GROUPS; other++) {
		const float *from = room + (other - 1) * NUMBERS * THREADS + thread;
#pragma unroll
		for (int m = 0; m < BLOCKS; m++) {
			float ours[2], theirs[2];
#pragma unroll
			for (int r = 0; r < 2; r++, from += 3 * THREADS) {
				/* by how many powers of two their reference is above ours */
				const float above = fmaf(from[THREADS] - offset[m][r], exponent,
							 from[0] - u.reference[m][r]);
				const bool take = from[0] != FRESH &&
						  (u.reference[m][r] == FRESH || above > 0.0f);
				ours[r] = take ? fminf(exp2_fast(-above), 1.0f) : 1.0f;
				theirs[r] = take ? 1.0f : fminf(exp2_fast(above), 1.0f);
				if (take) {
					u.reference[m][r] = from[0];
					offset[m][r] = from[THREADS];
				}
				u.sum[m][2 * r] =
					u.sum[m][2 * r] * ours[r] + from[2 * THREADS] * theirs[r];
			}
#pragma unroll
			for (int n = 0; n < WIDTH / 2; n++, from += THREADS)
				u.o[m][n / 4][n % 4] = u.o[m][n / 4][n % 4] * ours[n / 2 % 2] +
						       *from * theirs[n / 2 % 2];
		}
	}
#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			*offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, 0) = offset[m][r];
	__syncwarp();
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Counts the sink of row i, as one more score, into the sum of the row. Returns what the row's O is
 * to be multiplied by for it. */
static __device__ __forceinline__ float add_sink(float &sum, float reference, float offset,
						 const struct attn_args &a, const struct view &w,
						 int i)
{
	const struct attn_tensor &t = a.spec.sinks;
	const float sink =
		load_float(tensor_at(t, w.b, w.h, a.H), min(i, a.Sq - 1) * t.stride[2], t.dtype);
	const float above = fmaf(sink - offset, w.exponent, -reference);

	if (!(above > 0.0f)) {
		sum += exp2_fast(above);
		return 1.0f;
	}
	const float factor = exp2_fast(-above);
	sum = sum * factor + exp2_fast(sink - sink); /* 1, or NaN */
	return factor;
}

template <bool SIMPLE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void finish(struct work<BLOCKS, WIDTH, KEYS> &u, T *own,
					      const struct attn_args &a, const struct view &w,
					      bool slow, int first)
{
	const int g = threadIdx.x % 32 / 4;
	float sum[BLOCKS][2], weight[BLOCKS][2];

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const int row = 16 * m + 8 * r + g;

			sum[m][r] = u.sum[m][2 * r];
			weight[m][r] = a.spec.out_scale;
			if (!SIMPLE && a.spec.sinks.base)
				weight[m][r] *=
					add_sink(sum[m][r], u.reference[m][r],
						 slow ? *offset_of<T, WIDTH>(own, row, 0) : 0.0f, a,
						 w, first + row);
		}
	__syncwarp();
	divide_rows<T, BLOCKS, WIDTH>(u.o, sum, weight, own, a, w);
	store_rows<T, BLOCKS, WIDTH>(u.o, own, a, w, first);
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* K and V of so many heads at a time are to stay in the second-level cache; bytes. */
#define SECTION (20 << 20)

/* What the block is to do. With a window the tiles with the most keys come first, those of all
 * heads of a section before the next. */
static __device__ __forceinline__ struct view view_in_order(const struct attn_args &a, int rows)
{
	struct view w = view_of(a, rows);

	if (a.spec.window_right == ATTN_NO_WINDOW)
		return w;
	const int heads = gridDim.y * gridDim.z, tiles = gridDim.x;
	const int64_t bytes = (int64_t)a.Sk * (a.D + a.Dv) * 2;
	const int section = (int)max((int64_t)1, min(SECTION / bytes, (int64_t)heads));
	const int64_t block = blockIdx.x + (int64_t)tiles * (blockIdx.y + gridDim.y * blockIdx.z);
	const int before = (int)(block / ((int64_t)tiles * section)) * section;
	const int rest = (int)(block - (int64_t)before * tiles);
	const int wide = min(section, heads - before), head = before + rest % wide;

	w.first = (tiles - 1 - rest / wide) * rows;
	w.b = head / a.H;
	w.h = head % a.H;
	return w;
}

/* Barrier 0 is __syncthreads, at which other groups may wait already. */
template <int GROUPS> static __device__ __forceinline__ void group_barrier(int group, int threads)
{
	if (GROUPS == 1)
		__syncthreads();
	else
		barrier(1 + group, threads);
}

/* SIMPLE: a plain call (is_plain), of operands whose rows start on 16 bytes. */
template <bool SIMPLE, typename T, int WIDTH, int KEYS, int SLICE, int BLOCKS, int ROW_WARPS,
	  int GROUPS, int KEPT>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int ROWS = 16 * BLOCKS * ROW_WARPS, LINE = WIDTH + PAD;
	constexpr int GROUP_THREADS = 32 * ROW_WARPS, THREADS = GROUP_THREADS * GROUPS;
	static_assert((GROUPS - 1) * BLOCKS * (WIDTH / 2 + 6) * GROUP_THREADS * 2 <=
			      GROUPS * 4 * KEYS * LINE,
		      "the groups' sums fit where K and V were");
	static_assert(GROUPS <= 4, "a float for each group behind a row of Q");

	DYNAMIC_SHARED(T, shared);
	__shared__ struct block_view block;
	__shared__ struct warp_view views[ROW_WARPS];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int group = warp / ROW_WARPS, thread = threadIdx.x - group * GROUP_THREADS;
	const int row0 = warp % ROW_WARPS * 16 * BLOCKS;
	T *const own = shared + row0 * LINE;
	T *const k_tiles = shared + ROWS * LINE + group * 4 * KEYS * LINE;
	T *const v_tiles = k_tiles + 2 * KEYS * LINE;
	/* where this lane's addresses for load_matrix start: in Q and V, and in K */
	const int a_offset = (lane % 16) * LINE + lane / 16 * 8;
	const int k_offset = (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 8;

	float exponent;
	{
		const struct view w = view_in_order(a, ROWS);
		const T *const q = (const T *)tensor_at(a.q, w.b, w.h, a.H);

		load_tile<T, ROWS, WIDTH, THREADS, AT_ONCE>(
			shared, q, a.q, SIMPLE ? PIECES_ACROSS : pieces_of(a.q, q), w.first, a.Sq,
			a.D, threadIdx.x);
		if (threadIdx.x == 0) {
			key_tiles(a, SIMPLE ? a.Sk : shared_length(a, w, w.first), w.first,
				  min(w.first + ROWS, a.Sq) - 1, KEYS, &block.begin, &block.end);
			block.w = w;
			block.kind = SIMPLE ? PLAIN : kind_of(a, w);
			if (!SIMPLE)
				block.after = a.spec.scale / a.spec.alpha;
			block.k = tensor_at(a.k, w.b, w.h, a.H);
			block.v = tensor_at(a.v, w.b, w.h, a.H);
			block.k_pieces = pieces_of(a.k, block.k);
			block.v_pieces = pieces_of(a.v, block.v);
		}
		if (thread % 32 == 0 && group == 0)
			views[warp] = warp_view_of(a, w, w.first + row0, 16 * BLOCKS, KEYS);
		exponent = w.exponent;
	}
	__syncthreads();

	struct queries<T, BLOCKS, WIDTH, KEPT> queries;
	struct work<BLOCKS, WIDTH, KEYS> u;
	struct weights<SLICE, BLOCKS> weights = {
	};
	queries.at = own + a_offset;
	bool slow = true;
	int odd = 0; /* where this tile's V lies, and the next one's K does not */
#pragma unroll
	for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
		for (int n = 0; n < WIDTH / 2; n++)
			u.o[m][n / 4][n % 4] = 0.0f;
#pragma unroll
		for (int r = 0; r < 2; r++) {
			u.reference[m][r] = FRESH;
			u.sum[m][2 * r] = u.sum[m][2 * r + 1] = u.top[m][r] = 0.0f;
			*offset_of<T, WIDTH>(own, 16 * m + 8 * r + lane / 4, group) = 0.0f;
		}
	}

	auto load_v = [&](int at, int tile) {
		load_tile<T, KEYS, WIDTH, GROUP_THREADS, AT_ONCE>(
			v_tiles + at * KEYS * LINE, (const T *)block.v, a.v,
			SIMPLE ? PIECES_ACROSS : block.v_pieces, tile * KEYS, a.Sk, a.Dv, thread);
	};
	auto load_k = [&](int at, int tile) {
		load_tile<T, KEYS, WIDTH, GROUP_THREADS, AT_ONCE>(
			k_tiles + at * KEYS * LINE, (const T *)block.k, a.k,
			SIMPLE ? PIECES_ACROSS : block.k_pieces, tile * KEYS, a.Sk, a.D, thread);
	};
	const struct warp_view &view = views[warp % ROW_WARPS];
	int tile = block.begin + group;
	if (tile < block.end)
		load_k(0, tile);
	copy_commit();
	if (tile < block.end)
		load_v(0, tile);
	if (tile + GROUPS < block.end)
		load_k(1, tile + GROUPS);
	copy_commit();
	copy_wait_but<1>();
	__syncthreads(); /* Q and the first K are there */
	queries.read();
#pragma unroll
	for (int n = 0; n < KEYS / 16; n += SLICE)
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			score_slice<SLICE>(u, queries, k_tiles + k_offset, n, d);
#pragma unroll 1
	for (; tile < block.end; tile += GROUPS, odd ^= 1) {
		const T *const next = k_tiles + (odd ^ 1) * KEYS * LINE + k_offset;
		const T *const value = v_tiles + odd * KEYS * LINE + a_offset;

		if (tile < view.end) {
			bool anew = slow || tile < view.clean || tile >= view.clean_end;

			if (anew)
				adapt<SIMPLE, T>(u, a, block, view.first, tile * KEYS);
			if (is_beyond(u, exponent) || slow) {
				slow = refresh(u, own, group, slow, exponent);
				anew = true;
			}
			if (anew && KEYS > 16 * SLICE)
				weigh_slice<SLICE, T>(weights, u, 0, exponent);
		}
		copy_wait();
		group_barrier<GROUPS>(group, GROUP_THREADS); /* V and the next K are there */
		if (tile + GROUPS < block.end)
			load_v(odd ^ 1, tile + GROUPS);
		if (tile + 2 * GROUPS < block.end)
			load_k(odd, tile + 2 * GROUPS);
		copy_commit();
		if (tile + GROUPS < min(view.end, block.end))
			turn<SLICE>(u, weights, queries, next, value, exponent);
		else if (tile < view.end)
			last_turn(u, value, exponent);
	}

	const int first = views[warp % ROW_WARPS].first;
	if (GROUPS > 1)
		merge_groups<T, KEYS, BLOCKS, WIDTH, GROUPS, GROUP_THREADS>(
			u, own, (float *)(shared + ROWS * LINE), group, thread, slow, exponent);
	if (group > 0 || first >= a.Sq)
		return;
	finish<SIMPLE>(u, own, a, block.w, GROUPS > 1 || slow, first);
}

/* ---- the variants ---------------------------------------------------------------------------- */

/* Of D 128 ptxas keeps three sixteens of Q without a spill on sm_80, elsewhere two, and not two
 * there. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 800
#define KEPT_HERE(width, kept) ((width) == 128 && (kept) == 2 ? 3 : (kept))
#else
#define KEPT_HERE(width, kept) (kept)
#endif

#define VARIANT(symbol, T, width, keys, slice, blocks, row_warps, groups, kept, per_sm, simple)    \
	extern "C" __global__ void __launch_bounds__(32 * row_warps * groups, per_sm)              \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		attention<simple, T, width, keys, slice, blocks, row_warps, groups,                \
			  KEPT_HERE(width, kept)>(args);                                           \
	}                                                                                          \
	SIM_KERNEL(symbol)

#include "kernels/mma_variants.h"

#define MMA_F16(name, rows, width, ...) VARIANT(fashim_mma_f16_##name, __half, width, __VA_ARGS__)
#define MMA_BF16(name, rows, width, ...)                                                           \
	VARIANT(fashim_mma_bf16_##name, __nv_bfloat16, width, __VA_ARGS__)
EXPAND_TYPES(MMA_VARIANTS, MMA_F16, MMA_BF16)
