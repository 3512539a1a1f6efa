/* SPDX-License-Identifier: Apache-2.0
 *
 * The middle of an attention as PyTorch launches it: kernels under the mangled names of ATen's
 * families and with parameter blocks laid out as theirs, so that whoever knows those families meets
 * them here, on a simulated GPU as on a real one. What they compute is what attention.cu computes.
 */
#include "tests/apps/kernels.cuh"
#include "tests/apps/aten.h"


/* As SIM_KERNEL, for a name that is itself a macro. */
#define NAMED_KERNEL(name) SIM_KERNEL(name)

/* Contiguous element-wise kernels: four elements a thread. */
#define for_each_of_four(i, n)                                                                     \
	for (long long i = 4 * INDEX, end_ = i + 4 < (n) ? i + 4 : (n); i < end_; i++)

extern "C" __global__ void ATEN_SCALE(int n, struct aten_scalar_functor f, struct aten_pointers2 p)
{
	for_each_of_four(i, n)
		((__half *)p.at[0])[i] =
			__float2half_rn(__half2float(((const __half *)p.at[1])[i]) * f.scalar);
}
NAMED_KERNEL(ATEN_SCALE)

extern "C" __global__ void ATEN_COPY(int n, struct aten_empty_functor f, struct aten_pointers2 p)
{
	(void)f;
	for_each_of_four(i, n)
		((__half *)p.at[0])[i] = ((const __half *)p.at[1])[i];
}
NAMED_KERNEL(ATEN_COPY)

extern "C" __global__ void ATEN_FILL(int n, struct aten_fill_functor f, struct aten_pointers1 p)
{
	for_each_of_four(i, n)
		((unsigned short *)p.at[0])[i] = f.value;
}
NAMED_KERNEL(ATEN_FILL)

/* Byte offset of element i in operand `o` of `operands`. */
static __device__ long long offset_of(const struct aten_calculator *c, const unsigned *strides,
				      int operands, int o, long long i)
{
	long long offset = 0;

	for (int d = 0; d < c->dims; d++) {
		offset += i % c->size[d].divisor * strides[d * operands + o];
		i /= c->size[d].divisor;
	}
	return offset;
}

/* out = a + b, each with strides of its own: a mask is broadcast by a stride of zero */
extern "C" __global__ void ATEN_ADD_STRIDED(int n, struct aten_strided3 l)
{
	long long i = INDEX;

	if (i >= n)
		return;
	float a = __half2float(*(__half *)(l.at[1] + offset_of(&l.calculator, l.strides, 3, 1, i)));
	float b = __half2float(*(__half *)(l.at[2] + offset_of(&l.calculator, l.strides, 3, 2, i)));
	*(__half *)(l.at[0] + offset_of(&l.calculator, l.strides, 3, 0, i)) =
		__float2half_rn(a + l.factor * b);
}
NAMED_KERNEL(ATEN_ADD_STRIDED)

/* out = mask ? value : in, each with strides of its own */
extern "C" __global__ void ATEN_MASKED_FILL(int n, struct aten_filled l)
{
	long long i = INDEX;

	if (i < n)
		*(unsigned short *)(l.at[0] + offset_of(&l.calculator, l.strides, 3, 0, i)) =
			l.at[2][offset_of(&l.calculator, l.strides, 3, 2, i)]
				? l.value
				: *(unsigned short *)(l.at[1] +
						      offset_of(&l.calculator, l.strides, 3, 1, i));
}
NAMED_KERNEL(ATEN_MASKED_FILL)

/* out = in, each with strides of its own: what contiguous() launches */
extern "C" __global__ void ATEN_COPY_STRIDED(int n, struct aten_strided2 l)
{
	long long i = INDEX;

	if (i < n)
		*(__half *)(l.at[0] + offset_of(&l.calculator, l.strides, 2, 0, i)) =
			*(__half *)(l.at[1] + offset_of(&l.calculator, l.strides, 2, 1, i));
}
NAMED_KERNEL(ATEN_COPY_STRIDED)

/* softmax of each of `rows` rows; a warp a row, blockDim.y rows a block */
extern "C" __global__ void ATEN_SOFTMAX(__half *out, const __half *in, int rows, int stride,
					int columns, const bool *mask, int chunk, bool transformer)
{
	long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
	const __half *x = in + row * stride;
	__half *y = out + row * stride;
	float most = -INFINITY, sum = 0;

	(void)mask;
	(void)chunk;
	(void)transformer;
	if (row >= rows)
		return;
	for (int j = threadIdx.x; j < columns; j += 32)
		most = fmaxf(most, __half2float(x[j]));
	for (int lanes = 16; lanes; lanes /= 2)
		most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
	for (int j = threadIdx.x; j < columns; j += 32)
		sum += expf(__half2float(x[j]) - most);
	for (int lanes = 16; lanes; lanes /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
	for (int j = threadIdx.x; j < columns; j += 32)
		y[j] = __float2half_rn(expf(__half2float(x[j]) - most) / sum);
}
NAMED_KERNEL(ATEN_SOFTMAX)

/* softmax of [outer,columns,inner] over the columns; a block an outer one */
extern "C" __global__ void ATEN_SOFTMAX_SPATIAL(__half *out, const __half *in, int outer,
						int columns, int inner)
{
	const long long first = (long long)blockIdx.x * columns * inner;

	if ((int)blockIdx.x >= outer)
		return;
	for (int k = threadIdx.x; k < inner; k += blockDim.x) {
		const __half *x = in + first + k;
		__half *y = out + first + k;
		float most = -INFINITY, sum = 0;

		for (int j = 0; j < columns; j++)
			most = fmaxf(most, __half2float(x[(long long)j * inner]));
		for (int j = 0; j < columns; j++)
			sum += expf(__half2float(x[(long long)j * inner]) - most);
		for (int j = 0; j < columns; j++)
			y[(long long)j * inner] = __float2half_rn(
				expf(__half2float(x[(long long)j * inner]) - most) / sum);
	}
}
NAMED_KERNEL(ATEN_SOFTMAX_SPATIAL)

extern "C" __global__ void ATEN_SCALE_F32(int n, struct aten_scalar_functor f,
					  struct aten_pointers2 p)
{
	for_each_of_four(i, n)
		((float *)p.at[0])[i] = ((const float *)p.at[1])[i] * f.scalar;
}
NAMED_KERNEL(ATEN_SCALE_F32)

extern "C" __global__ void ATEN_COPY_STRIDED_F32(int n, struct aten_strided2 l)
{
	for (long long i = 2 * INDEX; i < n && i < 2 * INDEX + 2; i++)
		*(float *)(l.at[0] + offset_of(&l.calculator, l.strides, 2, 0, i)) =
			*(float *)(l.at[1] + offset_of(&l.calculator, l.strides, 2, 1, i));
}
NAMED_KERNEL(ATEN_COPY_STRIDED_F32)

/* out = in, of other types */
extern "C" __global__ void ATEN_CAST(int n, struct aten_empty_functor f, struct aten_pointers2 p,
				     struct aten_empty_functor in, struct aten_empty_functor out,
				     struct aten_cast load, struct aten_cast store)
{
	(void)f;
	(void)in;
	(void)out;
	for_each_of_four(i, n)
	{
		const float x = load.type == ATEN_FLOAT
					? ((const float *)p.at[1])[i]
					: __half2float(((const __half *)p.at[1])[i]);

		if (store.type == ATEN_FLOAT)
			((float *)p.at[0])[i] = x;
		else
			((__half *)p.at[0])[i] = __float2half_rn(x);
	}
}
NAMED_KERNEL(ATEN_CAST)

extern "C" __global__ void ATEN_SOFTMAX_F32(float *out, const float *in, int rows, int stride,
					    int columns, const bool *mask, int chunk,
					    bool transformer)
{
	long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
	const float *x = in + row * stride;
	float *y = out + row * stride;
	float most = -INFINITY, sum = 0;

	(void)mask;
	(void)chunk;
	(void)transformer;
	if (row >= rows)
		return;
	for (int j = threadIdx.x; j < columns; j += 32)
		most = fmaxf(most, x[j]);
	for (int lanes = 16; lanes; lanes /= 2)
		most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
	for (int j = threadIdx.x; j < columns; j += 32)
		sum += expf(x[j] - most);
	for (int lanes = 16; lanes; lanes /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
	for (int j = threadIdx.x; j < columns; j += 32)
		y[j] = expf(x[j] - most) / sum;
}
NAMED_KERNEL(ATEN_SOFTMAX_F32)
