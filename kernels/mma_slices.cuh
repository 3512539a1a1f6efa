/* SPDX-License-Identifier: Apache-2.0
 *
 * The turns of mma.cu's loop, slice by slice: exponentials of one tile among the products of that
 * tile with V and of the next one with Q.
 */
#ifndef FASHIM_MMA_SLICES_CUH
#define FASHIM_MMA_SLICES_CUH

#include "kernels/mma_work.cuh"

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
		if (KEPT > 0 && d < KEPT) {
#pragma unroll
			for (int e = 0; e < 4; e++)
				q[e] = kept[KEPT ? m : 0][d < KEPT ? d : 0][e];
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
 * their maxima. With several slices, P of the first one is there already: `first` is that of this
 * tile, and then of the next, by the references as they are.
 *
 * The order in which this is written decides what ptxas makes of it. ALL_SCORES: Q K^T of the whole
 * tile before any P V, which needs P of all of it. Else P and both products slice by slice, a
 * slice's exponentials with the products of the one before. */
template <bool ALL_SCORES, int SLICE, typename T, int KEYS, int BLOCKS, int WIDTH, int KEPT>
static __device__ __forceinline__ void
turn(struct work<BLOCKS, WIDTH, KEYS> &u, struct weights<SLICE, BLOCKS> &first,
     const struct queries<T, BLOCKS, WIDTH, KEPT> &q, const T *k, const T *v, float exponent)
{
	constexpr int SLICES = KEYS / 16 / SLICE;
	struct weights<SLICE, BLOCKS> p[SLICES];

	p[0] = first;
#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
		u.top[m][0] = u.top[m][1] = -INFINITY;
	if (SLICES == 1)
		weigh_slice<SLICE, T>(p[0], u, 0, exponent);
#pragma unroll
	for (int n = 0; n < SLICES; n++) {
		if (n + 1 < SLICES)
			weigh_slice<SLICE, T>(p[n + 1], u, (n + 1) * SLICE, exponent);
		else if (SLICES > 1)
			weigh_slice<SLICE, T>(first, u, 0, exponent);
		if (n > 0 && !ALL_SCORES)
			raise_top<SLICE>(u, (n - 1) * SLICE);
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++) {
			score_slice<SLICE>(u, q, k, n * SLICE, d);
			if (!ALL_SCORES)
				value_slice<SLICE>(u, p[n], v, n * SLICE, d);
		}
	}
	if (!ALL_SCORES) {
		raise_top<SLICE>(u, (SLICES - 1) * SLICE);
		return;
	}
#pragma unroll
	for (int n = 0; n < SLICES; n++) {
		raise_top<SLICE>(u, n * SLICE);
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			value_slice<SLICE>(u, p[n], v, n * SLICE, d);
	}
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

#endif
