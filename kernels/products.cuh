/* SPDX-License-Identifier: Apache-2.0
 *
 * The two products of a warp's rows on mma.sync, S = Q K^T and O += P V, with K and V as tile.cuh
 * lays them in shared memory, and the keys of a tile that a row may not see.
 */
#ifndef FASHIM_PRODUCTS_CUH
#define FASHIM_PRODUCTS_CUH

#include "kernels/scores.cuh"
#include "kernels/tile.cuh"

/* The rows of Q a warp owns: in registers where there is room, else read again for each tile. */
template <typename T, int BLOCKS, int WIDTH> struct queries {
	static constexpr bool KEPT = WIDTH * BLOCKS <= 128;
	const T *at; /* this lane's address for load_matrix */
	uint32_t kept[KEPT ? BLOCKS : 1][KEPT ? WIDTH / 16 : 1][4];

	__device__ __forceinline__ void init(const T *own)
	{
		at = own;
		if (KEPT) {
#pragma unroll
			for (int m = 0; m < BLOCKS; m++)
#pragma unroll
				for (int d = 0; d < WIDTH / 16; d++)
					load_matrix(kept[KEPT ? m : 0][KEPT ? d : 0],
						    at + 16 * m * (WIDTH + PAD) + 16 * d);
		}
	}
	__device__ __forceinline__ void get(uint32_t (&q)[4], int m, int d) const
	{
		if (KEPT) {
#pragma unroll
			for (int e = 0; e < 4; e++)
				q[e] = kept[KEPT ? m : 0][KEPT ? d : 0][e];
		} else {
			load_matrix(q, at + 16 * m * (WIDTH + PAD) + 16 * d);
		}
	}
};

/* S = Q K^T; k is this lane's address for load_matrix in the tile of keys. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void
score_tile(float (&s)[BLOCKS][KEYS / 8][4], const struct queries<T, BLOCKS, WIDTH> &q, const T *k)
{
#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				s[m][n][e] = 0.0f;
#pragma unroll
	for (int d = 0; d < WIDTH / 16; d++) {
		uint32_t qf[BLOCKS][4];
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
			q.get(qf[m], m, d);
#pragma unroll
		for (int n = 0; n < KEYS / 16; n++) {
			uint32_t kf[4];
			load_matrix(kf, k + 16 * n * (WIDTH + PAD) + 16 * d);
#pragma unroll
			for (int m = 0; m < BLOCKS; m++) {
				multiply<T>(s[m][2 * n], qf[m], kf[0], kf[1]);
				multiply<T>(s[m][2 * n + 1], qf[m], kf[2], kf[3]);
			}
		}
	}
}

/* O += P V; v is this lane's address for load_matrix_transposed in the tile. */
template <typename T, int KEYS, int WIDTH, int BLOCKS>
static __device__ __forceinline__ void value_tile(float (&o)[BLOCKS][WIDTH / 8][4],
						  const float (&p)[BLOCKS][KEYS / 8][4], const T *v)
{
#pragma unroll
	for (int j = 0; j < KEYS / 16; j++) {
		uint32_t pf[BLOCKS][4];
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				pf[m][e] = pack2<T>(p[m][2 * j + e / 2][e % 2 * 2],
						    p[m][2 * j + e / 2][e % 2 * 2 + 1]);
#pragma unroll
		for (int n = 0; n < WIDTH / 16; n++) {
			uint32_t vf[4];
			load_matrix_transposed(vf, v + 16 * j * (WIDTH + PAD) + 16 * n);
#pragma unroll
			for (int m = 0; m < BLOCKS; m++) {
				multiply<T>(o[m][2 * n], pf[m], vf[0], vf[1]);
				multiply<T>(o[m][2 * n + 1], pf[m], vf[2], vf[3]);
			}
		}
	}
}

/* x of the keys from j0 on outside the window of a row becomes the value there; -inf past the last
 * key and past the row's length. The warp's rows start at `first`, and x[r] is row first + 8r + the
 * lane's. */
template <bool ANY, int KEYS, int ROWS, int N>
static __device__ __forceinline__ void hide_tile(float (&x)[ROWS][N], const struct attn_args &a,
						 const struct view &w, int first, int j0)
{
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);

	if (w.window && (first_key(a.spec, first + 8 * ROWS - 1) > j0 ||
			 last_key(a.spec, first) < j0 + KEYS - 1)) {
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			const int low = first_key(a.spec, i + 8 * r) - j;
			const int high = last_key(a.spec, i + 8 * r) - j;
#pragma unroll
			for (int k = 0; k < N; k++)
				if (key_of(k) < low || key_of(k) > high)
					x[r][k] = a.spec.window_value;
		}
	}
	if (j0 + KEYS > a.Sk) {
#pragma unroll
		for (int k = 0; k < N; k++)
			if (key_of(k) >= a.Sk - j)
#pragma unroll
				for (int r = 0; r < ROWS; r++)
					x[r][k] = -INFINITY;
	}
	if (ANY && a.spec.lengths.base)
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			cut_row(x[r], a, w, i + 8 * r, j);
}

#endif
