/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the test programs: what an ordinary program puts between the two products of an
 * attention, one simple launch each. One source, compiled by nvcc for a GPU and by g++ for the
 * simulated one.
 *
 * Elementwise kernels take one element a thread, 256 threads a block; app_softmax_* one row a
 * block, 32 threads. Output first, then inputs, then numbers.
 */
#include "tests/apps/kernels.cuh"

/* out[i] = in[i] * factor */
extern "C" __global__ void app_scale_f16(__half *out, const __half *in, float factor, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] = __float2half_rn(__half2float(in[i]) * factor);
}
SIM_KERNEL(app_scale_f16)
SIM_NEAR(app_scale_f16)

/* The same by a factor that the program may set */
extern "C" {
CONSTANT float app_factor = 0.25f;
}
extern "C" __global__ void app_scale_constant_f16(__half *out, const __half *in, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] = __float2half_rn(__half2float(in[i]) * app_factor);
}
SIM_KERNEL(app_scale_constant_f16)
SIM_DEED(CONSTANTS, app_scale_constant_f16)

/* out[i] = in[i] + mask[i % period]: one mask for all heads */
extern "C" __global__ void app_add_mask_f16(__half *out, const __half *in, const __half *mask,
					    long long n, long long period)
{
	long long i = INDEX;

	if (i < n)
		out[i] = __float2half_rn(__half2float(in[i]) + __half2float(mask[i % period]));
}
SIM_KERNEL(app_add_mask_f16)
SIM_NEAR(app_add_mask_f16)

/* y = softmax of x, by 32 threads; the sum of exp(x - largest) */
static __device__ float softmax_row(__half *y, const __half *x, int columns)
{
	float most = -INFINITY, sum = 0;

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
	return sum;
}

/* out = softmax of each row of in, `columns` long; may be in place */
extern "C" __global__ void app_softmax_f16(__half *out, const __half *in, int columns)
{
	const long long row = (long long)blockIdx.x * columns;

	softmax_row(out + row, in + row, columns);
}
SIM_KERNEL(app_softmax_f16)
SIM_NEAR(app_softmax_f16)

/* The same, and sums[row] = sum of exp(in - largest): a second output */
extern "C" __global__ void app_softmax_sums_f16(__half *out, const __half *in, float *sums,
						int columns)
{
	const long long row = (long long)blockIdx.x * columns;
	const float sum = softmax_row(out + row, in + row, columns);

	if (threadIdx.x == 0)
		sums[blockIdx.x] = sum;
}
SIM_KERNEL(app_softmax_sums_f16)
SIM_NEAR(app_softmax_sums_f16)

/* The same of the first columns of each row, as many as a causal mask leaves; the others are not
 * touched */
extern "C" __global__ void app_softmax_lower_f16(__half *out, const __half *in, int rows,
						 int columns)
{
	const long long row = (long long)blockIdx.x * columns;

	softmax_row(out + row, in + row, blockIdx.x % rows + 1);
}
SIM_KERNEL(app_softmax_lower_f16)
SIM_NEAR(app_softmax_lower_f16)

/* out[i] = in[i] */
extern "C" __global__ void app_copy_f16(__half *out, const __half *in, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] = in[i];
}
SIM_KERNEL(app_copy_f16)
SIM_NEAR(app_copy_f16)

/* The same, of what a table in memory says: where to, where from */
extern "C" __global__ void app_copy_by_table_f16(__half *const *table, long long n)
{
	long long i = INDEX;

	if (i < n)
		table[0][i] = table[1][i];
}
SIM_KERNEL(app_copy_by_table_f16)
SIM_DEED(FOLLOWS, app_copy_by_table_f16)

/* The same by way of shared memory, where its code might have put the addresses itself. */
extern "C" __global__ void app_copy_staged_f16(__half *const *table, long long n)
{
	__shared__ __half *staged[2];
	long long i = INDEX;

	if (threadIdx.x < 2)
		staged[threadIdx.x] = table[threadIdx.x];
	__syncthreads();
	if (i < n)
		staged[0][i] = staged[1][i];
}
SIM_KERNEL(app_copy_staged_f16)

/* Such a table */
extern "C" __global__ void app_put_two(__half **table, __half *one, __half *other)
{
	table[0] = one;
	table[1] = other;
}
SIM_KERNEL(app_put_two)
SIM_NEAR(app_put_two)

/* out [heads,rows,depth] = in [rows,heads,depth], made contiguous */
extern "C" __global__ void app_split_heads_f16(__half *out, const __half *in, int rows, int heads,
					       int depth)
{
	long long i = INDEX, n = (long long)rows * heads * depth;
	long long d = i % depth, r = i / depth % rows, h = i / depth / rows;

	if (i < n)
		out[i] = in[(r * heads + h) * depth + d];
}
SIM_KERNEL(app_split_heads_f16)
SIM_NEAR(app_split_heads_f16)

/* out[i] = value */
extern "C" __global__ void app_fill_f16(__half *out, float value, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] = __float2half_rn(value);
}
SIM_KERNEL(app_fill_f16)
SIM_NEAR(app_fill_f16)

/* Addresses for both products of as many heads as there are threads: K, Q, S, V, P, O. `thin` and
 * `wide` are the bytes of a head; `shared` heads have one K and V. */
extern "C" __global__ void app_fill_addresses(char **to, char *k, char *q, char *s, char *v,
					      char *p, char *o, long long thin, long long wide,
					      int shared)
{
	const int i = threadIdx.x, all = blockDim.x;

	to[i] = k + i / shared * thin;
	to[all + i] = q + i * thin;
	to[2 * all + i] = s + i * wide;
	to[3 * all + i] = v + i / shared * thin;
	to[4 * all + i] = p + i * wide;
	to[5 * all + i] = o + i * thin;
}
SIM_KERNEL(app_fill_addresses)
SIM_NEAR(app_fill_addresses)

/* The same, but which K and V a head has is for a table in memory to say. */
extern "C" __global__ void app_look_up_addresses(char **to, char *k, char *q, char *s, char *v,
						 char *p, char *o, long long thin, long long wide,
						 const int *of)
{
	const int i = threadIdx.x, all = blockDim.x;

	to[i] = k + of[i] * thin;
	to[all + i] = q + i * thin;
	to[2 * all + i] = s + i * wide;
	to[3 * all + i] = v + of[i] * thin;
	to[4 * all + i] = p + i * wide;
	to[5 * all + i] = o + i * thin;
}
SIM_KERNEL(app_look_up_addresses)
SIM_NEAR(app_look_up_addresses)

/* out[i] = start + step * (i % 101): a tensor whose every element tells where it stands */
extern "C" __global__ void app_ramp_f16(__half *out, float start, float step, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] = __float2half_rn(start + step * (float)(i % 101));
}
SIM_KERNEL(app_ramp_f16)
SIM_NEAR(app_ramp_f16)

/* out[i] = mean over heads of in[h,i] */
extern "C" __global__ void app_mean_heads_f16(__half *out, const __half *in, int heads, long long n)
{
	long long i = INDEX;
	float sum = 0;

	if (i >= n)
		return;
	for (int h = 0; h < heads; h++)
		sum += __half2float(in[h * n + i]);
	out[i] = __float2half_rn(sum / (float)heads);
}
SIM_KERNEL(app_mean_heads_f16)
SIM_NEAR(app_mean_heads_f16)

/* out[i] += in[i], in float */
extern "C" __global__ void app_accumulate_f16(float *out, const __half *in, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] += __half2float(in[i]);
}
SIM_KERNEL(app_accumulate_f16)
SIM_NEAR(app_accumulate_f16)

/* out[i] = what a texture has there */
extern "C" __global__ void app_copy_texture_f16(__half *out, cudaTextureObject_t in, long long n)
{
	long long i = INDEX;

	if (i < n)
		out[i] = __ushort_as_half(tex1Dfetch<unsigned short>(in, (int)i));
}
SIM_KERNEL(app_copy_texture_f16)
SIM_DEED(TEXTURES, app_copy_texture_f16)
