/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel under a name and with a signature that nobody has a rule for: scale and softmax in one,
 * the way somebody writes it at home, in fp32 and in fp16. 32 threads a row, one row a block.
 */
#include "tests/apps/kernels.cuh"

template <typename T> static __device__ float value_of(T x);
template <> __device__ float value_of<float>(float x)
{
	return x;
}
template <> __device__ float value_of<__half>(__half x)
{
	return __half2float(x);
}
static __device__ void put(float *to, float x)
{
	*to = x;
}
static __device__ void put(__half *to, float x)
{
	*to = __float2half_rn(x);
}

template <typename T>
static __device__ void softmax_row(const T *in, T *out, float scale, int rows, int cols)
{
	const T *x = in + (long long)blockIdx.x * cols;
	T *y = out + (long long)blockIdx.x * cols;
	float most = -INFINITY, sum = 0;

	if ((int)blockIdx.x >= rows)
		return;
	for (int j = threadIdx.x; j < cols; j += 32)
		most = fmaxf(most, scale * value_of(x[j]));
	for (int lanes = 16; lanes; lanes /= 2)
		most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
	for (int j = threadIdx.x; j < cols; j += 32)
		sum += expf(scale * value_of(x[j]) - most);
	for (int lanes = 16; lanes; lanes /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
	for (int j = threadIdx.x; j < cols; j += 32)
		put(y + j, expf(scale * value_of(x[j]) - most) / sum);
}

extern "C" __global__ void softmax(const float *in, float *out, float scale, int rows, int cols)
{
	softmax_row(in, out, scale, rows, cols);
}
SIM_KERNEL(softmax)

extern "C" __global__ void softmax16(const __half *in, __half *out, float scale, int rows, int cols)
{
	softmax_row(in, out, scale, rows, cols);
}
SIM_KERNEL(softmax16)
