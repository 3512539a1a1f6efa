/* SPDX-License-Identifier: Apache-2.0
 *
 * Device code of the compiled test programs: a softmax of their own, which no rule of the shim
 * knows, and a generator of inputs that depend on a seed alone.
 */
#ifndef APP_KERNELS_H
#define APP_KERNELS_H

#include <cuda_fp16.h>

#define SOFTMAX_THREADS 128

/* P[row,:] = softmax(scale * S[row,:]); one block a row; p may be s. */
extern "C" __global__ void own_softmax(const __half *s, __half *p, int columns, float scale)
{
	__shared__ float part[SOFTMAX_THREADS];
	const __half *x = s + (size_t)blockIdx.x * columns;
	__half *y = p + (size_t)blockIdx.x * columns;
	int me = threadIdx.x;
	float top = -INFINITY, sum = 0;

	for (int j = me; j < columns; j += SOFTMAX_THREADS)
		top = fmaxf(top, scale * __half2float(x[j]));
	part[me] = top;
	__syncthreads();
	for (int half = SOFTMAX_THREADS / 2; half > 0; half /= 2) {
		if (me < half)
			part[me] = fmaxf(part[me], part[me + half]);
		__syncthreads();
	}
	top = part[0];
	__syncthreads();
	for (int j = me; j < columns; j += SOFTMAX_THREADS)
		sum += expf(scale * __half2float(x[j]) - top);
	part[me] = sum;
	__syncthreads();
	for (int half = SOFTMAX_THREADS / 2; half > 0; half /= 2) {
		if (me < half)
			part[me] += part[me + half];
		__syncthreads();
	}
	sum = part[0];
	for (int j = me; j < columns; j += SOFTMAX_THREADS)
		y[j] = __float2half(expf(scale * __half2float(x[j]) - top) / sum);
}

/* count numbers of about unit variance, the same for the same seed. */
extern "C" __global__ void fill_inputs(__half *out, int count, unsigned seed)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned x = (unsigned)i * 2654435761u + seed * 40503u + 12345u;

	if (i >= count)
		return;
	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	x ^= x >> 16;
	out[i] = __float2half(((float)(x >> 8) / 8388608.0f - 1.0f) * 1.7f);
}

#endif
