/* SPDX-License-Identifier: Apache-2.0
 *
 * The image of f32_check: the fp32 kernels, the reference in double precision, and what they are to
 * be as exact as, a chain in fp32 arithmetic. That one adds in the order in which cuBLAS's SGEMM
 * does, one product after the other, and rounds wherever a chain of kernels would store.
 */
#define FASHIM_ONLY_F32
#include "kernels/decode.cu"
#include "kernels/f32.cu"
#include "kernels/f32_sm90.cu"
#include "kernels/reference.cu"
#include "tests/gpu/f32_chain.h"

/* As fashim_reference, with `scratch` for floats and `out` taking floats. No mask, softcap or empty
 * rows. */
extern "C" __global__ void fashim_f32_chain(const __grid_constant__ struct reference_args args)
{
	const struct attn_args &a = args.attn;
	const int64_t row = attn_sample_row(blockIdx.x, args.rows, (int64_t)a.B * a.H * a.Sq);
	const int b = row / a.Sq / a.H, h = row / a.Sq % a.H, i = row % a.Sq;
	const float *const q = (const float *)tensor_at(a.q, b, h, a.H) + i * a.q.stride[2];
	const float *const k = (const float *)tensor_at(a.k, b, h, a.H);
	const float *const v = (const float *)tensor_at(a.v, b, h, a.H);
	float *const x = (float *)args.scratch + (int64_t)blockIdx.x * a.Sk;
	__shared__ float part[REFERENCE_THREADS];
	float most = -INFINITY, sum = 0.0f;

	for (int j = threadIdx.x; j < a.Sk; j += REFERENCE_THREADS) {
		float s = 0.0f;
		for (int d = 0; d < a.D; d++)
			s = fmaf(q[d * a.q.stride[3]], k[j * a.k.stride[2] + d * a.k.stride[3]], s);
		s *= a.spec.scale;
		for (int n = 0; n < ATTN_MAX_BIAS; n++)
			if (a.spec.bias[n].base) {
				const struct attn_tensor &t = a.spec.bias[n];
				const float *const at = (const float *)tensor_at(t, b, h, a.H);
				s += a.spec.bias_scale[n] *
				     at[i * t.stride[2] + attn_place(j, t.columns) * t.stride[3]];
			}
		if (j > last_key(a.spec, i) || j < first_key(a.spec, i))
			s = a.spec.window_value;
		x[j] = s;
		most = fmaxf(most, s);
	}
	part[threadIdx.x] = most;
	__syncthreads();
	for (int n = 0; n < REFERENCE_THREADS; n++)
		most = fmaxf(most, part[n]);
	__syncthreads();
	for (int j = threadIdx.x; j < a.Sk; j += REFERENCE_THREADS)
		sum += x[j] = expf(x[j] - most);
	part[threadIdx.x] = sum;
	__syncthreads();
	sum = 0.0f;
	for (int n = 0; n < REFERENCE_THREADS; n++)
		sum += part[n];
	for (int j = threadIdx.x; j < a.Sk; j += REFERENCE_THREADS)
		x[j] /= sum;
	__syncthreads();
	for (int c = threadIdx.x; c < a.Dv; c += REFERENCE_THREADS) {
		float o = 0.0f;
		for (int j = 0; j < a.Sk; j++)
			o = fmaf(x[j], v[j * a.v.stride[2] + c * a.v.stride[3]], o);
		((float *)args.out)[(int64_t)blockIdx.x * a.Dv + c] = a.spec.out_scale * o;
	}
}

/* The softmax of f32_chain.h, in place: rows in registers, or read three times. */
extern "C" __global__ void __launch_bounds__(32 * F32_SOFTMAX_ROWS)
	fashim_f32_softmax_warp(const __grid_constant__ struct f32_softmax_args a)
{
	const int64_t row = (int64_t)blockIdx.x * F32_SOFTMAX_ROWS + threadIdx.x / 32;
	const int lane = threadIdx.x % 32;
	float x[F32_SOFTMAX_KEYS / 32], most = -INFINITY, sum = 0.0f;

	if (row >= a.rows)
		return;
	float *const at = a.scores + row * a.Sk;
	const float *const bias = a.bias ? a.bias + row % a.bias_rows * a.Sk : nullptr;
#pragma unroll
	for (int n = 0; n < F32_SOFTMAX_KEYS / 32; n++) {
		const int j = 32 * n + lane;
		x[n] = j < a.Sk ? at[j] + (bias ? bias[j] : 0.0f) : -INFINITY;
		most = fmaxf(most, x[n]);
	}
	for (int lanes = 1; lanes < 32; lanes *= 2)
		most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, lanes));
#pragma unroll
	for (int n = 0; n < F32_SOFTMAX_KEYS / 32; n++)
		sum += x[n] = 32 * n + lane < a.Sk ? expf(x[n] - most) : 0.0f;
	for (int lanes = 1; lanes < 32; lanes *= 2)
		sum += __shfl_xor_sync(WARP_ALL, sum, lanes);
#pragma unroll
	for (int n = 0; n < F32_SOFTMAX_KEYS / 32; n++)
		if (32 * n + lane < a.Sk)
			at[32 * n + lane] = x[n] / sum;
}

extern "C" __global__ void __launch_bounds__(256)
	fashim_f32_softmax_block(const __grid_constant__ struct f32_softmax_args a)
{
	const int64_t row = blockIdx.x;
	float *const at = a.scores + row * a.Sk;
	const float *const bias = a.bias ? a.bias + row % a.bias_rows * a.Sk : nullptr;
	__shared__ float part[2][8];
	float most = -INFINITY, sum = 0.0f;

	for (int j = threadIdx.x; j < a.Sk; j += 256)
		most = fmaxf(most, at[j] + (bias ? bias[j] : 0.0f));
	for (int lanes = 1; lanes < 32; lanes *= 2)
		most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, lanes));
	part[0][threadIdx.x / 32] = most;
	__syncthreads();
	for (int n = 0; n < 8; n++)
		most = fmaxf(most, part[0][n]);
	for (int j = threadIdx.x; j < a.Sk; j += 256)
		sum += expf(at[j] + (bias ? bias[j] : 0.0f) - most);
	for (int lanes = 1; lanes < 32; lanes *= 2)
		sum += __shfl_xor_sync(WARP_ALL, sum, lanes);
	part[1][threadIdx.x / 32] = sum;
	__syncthreads();
	sum = 0.0f;
	for (int n = 0; n < 8; n++)
		sum += part[1][n];
	for (int j = threadIdx.x; j < a.Sk; j += 256)
		at[j] = expf(at[j] + (bias ? bias[j] : 0.0f) - most) / sum;
}
