/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a tile of rows that lies in accumulators of mma.sync: the last division, rows without
 * a key, and O into memory, whatever its layout and dtype.
 */
#ifndef FASHIM_ROWS_OUT_CUH
#define FASHIM_ROWS_OUT_CUH

#include "kernels/scores.cuh"
#include "kernels/tile.cuh"

/* O = weight * o / sum, where a row has a sum; by their rule where all scores are -inf. `sum` and
 * `weight` are the rows' own, the same in all four lanes. The warp's rows start at `first`; `own`
 * is shared memory of it alone, 16*BLOCKS lines long. */
template <typename T, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void divide_rows(float (&o)[BLOCKS][WIDTH / 8][4],
						   const float (&sum)[BLOCKS][2],
						   const float (&weight)[BLOCKS][2], T *own,
						   const struct attn_args &a, const struct view &w)
{
	const int t = threadIdx.x % 4, lane = threadIdx.x % 32;
	bool empty = false;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
		for (int half = 0; half < 2; half++) {
			float by = weight[m][half] / sum[m][half];
			if (sum[m][half] == 0.0f) {
				empty = a.spec.empty_row == ATTN_EMPTY_MEAN;
				by = a.spec.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
			}
#pragma unroll
			for (int n = 0; n < WIDTH / 8; n++) {
				o[m][n][2 * half] *= by;
				o[m][n][2 * half + 1] *= by;
			}
		}
	}
	if (!__any_sync(WARP_ALL, empty))
		return;

	/* the mean of V, column by column, through shared memory */
	const T *v = (const T *)tensor_at(a.v, w.b, w.h, a.H);
	float *mean = (float *)own;
	for (int c = lane; c < WIDTH; c += 32) {
		float total = 0.0f;
		if (c < a.Dv)
			for (int j = 0; j < a.Sk; j++)
				total += to_float<T>(v[j * a.v.stride[2] + c * a.v.stride[3]]);
		mean[c] = a.spec.out_scale * total / a.Sk;
	}
	__syncwarp();
#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			if (sum[m][e / 2] == 0.0f)
#pragma unroll
				for (int n = 0; n < WIDTH / 8; n++)
					o[m][n][e] = mean[8 * n + 2 * t + e % 2];
	__syncwarp();
}

/* Writes the warp's rows, which start at row `first` of O, by way of `own`. */
template <typename T, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void store_rows(const float (&o)[BLOCKS][WIDTH / 8][4], T *own,
						  const struct attn_args &a, const struct view &w,
						  int first)
{
	constexpr int LINE = WIDTH + PAD, ROWS = 16 * BLOCKS;
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	char *const out = tensor_at(a.o, w.b, w.h, a.H);

	if (a.o.dtype == a.q.dtype && pieces_of(a.o, out) == PIECES_ACROSS && a.Dv % 8 == 0) {
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
				for (int half = 0; half < 2; half++)
					*(uint32_t *)(own + (16 * m + 8 * half + g) * LINE + 8 * n +
						      2 * t) =
						pack2<T>(o[m][n][2 * half], o[m][n][2 * half + 1]);
		__syncwarp();
#pragma unroll(at_once(4))
		for (int e = lane; e < ROWS * (WIDTH / 8); e += 32) {
			const int r = e / (WIDTH / 8), c = e % (WIDTH / 8) * 8;
			if (first + r < a.Sq && c < a.Dv)
				*(uint4 *)((T *)out + (first + r) * a.o.stride[2] + c) =
					*(const uint4 *)(own + r * LINE + c);
		}
		return;
	}
	/* any layout, any dtype: half of the columns at a time, as floats */
	float *const wide = (float *)own;
	const bool down = a.o.stride[2] < a.o.stride[3];
#pragma unroll
	for (int pass = 0; pass < 2; pass++) {
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int n = 0; n < WIDTH / 16; n++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					wide[(16 * m + e / 2 * 8 + g) * (LINE / 2) + 8 * n + 2 * t +
					     e % 2] = o[m][pass * (WIDTH / 16) + n][e];
		__syncwarp();
#pragma unroll 1
		for (int e = lane; e < ROWS * (WIDTH / 2); e += 32) {
			const int r = down ? e % ROWS : e / (WIDTH / 2);
			const int c = down ? e / ROWS : e % (WIDTH / 2), d = pass * (WIDTH / 2) + c;
			if (first + r < a.Sq && d < a.Dv)
				store_to(out, (first + r) * a.o.stride[2] + d * a.o.stride[3],
					 a.o.dtype, wide[r * (LINE / 2) + c]);
		}
		__syncwarp();
	}
}

#endif
