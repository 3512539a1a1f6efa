/* SPDX-License-Identifier: Apache-2.0
 *
 * The fuzzer's kernels: under names that nobody has rules for, in three types; ATen's for fp16
 * come from tests/apps. Element-wise ones take 64 threads a block, softmaxes a row a block of 32.
 */
#include "tests/apps/kernels.cuh"
#include "tests/apps/aten.cu"

static __device__ float number(float x) { return x; }
static __device__ float number(__half x) { return __half2float(x); }
static __device__ float number(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ void store(float *p, float x) { *p = x; }
static __device__ void store(__half *p, float x) { *p = __float2half_rn(x); }
static __device__ void store(__nv_bfloat16 *p, float x) { *p = __float2bfloat16_rn(x); }

static __device__ unsigned hash(unsigned x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* y[0…end) = softmax of f(0…end), y[end…columns) = 0 unless it is left alone */
template <typename T, typename F>
static __device__ void softmax(T *y, int end, int columns, bool leave, F f)
{
	float most = -INFINITY, sum = 0;

	for (int j = threadIdx.x; j < end; j += 32)
		most = fmaxf(most, f(j));
	for (int lanes = 16; lanes; lanes /= 2)
		most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
	for (int j = threadIdx.x; j < end; j += 32)
		sum += expf(f(j) - most);
	for (int lanes = 16; lanes; lanes /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
	for (int j = threadIdx.x; j < (leave ? end : columns); j += 32)
		store(y + j, j < end ? expf(f(j) - most) / sum : 0.0f);
}

static __device__ int visible(int row, int rows, int columns)
{
	int end = row % rows + 1 + columns - rows;

	return end < 0 ? 0 : end < columns ? end : columns;
}

struct __attribute__((packed)) askew {
	char tag;
	void *at;
};

/* Of the kernels for bf16 the code shows that no part of an address comes from memory; of the others
 * nobody knows. */
#define NEAR_f16(kernel)
#define NEAR_f32(kernel)
#define NEAR_bf16(kernel) SIM_NEAR(kernel)
#define UNPROVEN(name, s, parameters, body)                                                        \
	extern "C" __global__ void fuzz_##name##_##s parameters { body }                           \
	SIM_KERNEL(fuzz_##name##_##s)
#define KERNEL(name, s, parameters, body)                                                          \
	UNPROVEN(name, s, parameters, body)                                                        \
	NEAR_##s(fuzz_##name##_##s)
#define INSIDE(body) long long i = INDEX; if (i < n) { body }
#define EACH(name, s, parameters, body) KERNEL(name, s, parameters, INSIDE(body))
#define EACH_OTHER(name, s, parameters, body) UNPROVEN(name, s, parameters, INSIDE(body))
#define ROW const long long at = (long long)blockIdx.x * columns; auto *y = out + at; auto *x = in + at
/* From scores of type A to a P of type B, with masks of type T. */
#define SOFTMAXES(more, A, B, T, s)                                                                \
	KERNEL(softmax##more, s, (B *out, const A *in, float f, int columns),                      \
	       ROW; softmax(y, columns, columns, false, [=](int j) { return f * number(x[j]); });) \
	KERNEL(causal##more, s, (B *out, const A *in, float f, int columns, int rows),             \
	       ROW; softmax(y, visible(blockIdx.x, rows, columns), columns, false, [=](int j) { return f * number(x[j]); });) \
	/* what lies beyond the diagonal is not written */                                         \
	KERNEL(lower##more, s, (B *out, const A *in, float f, int columns, int rows),              \
	       ROW; softmax(y, visible(blockIdx.x, rows, columns), columns, true, [=](int j) { return f * number(x[j]); });) \
	KERNEL(keys##more, s, (B *out, const A *in, const T *mask, float f, int columns),          \
	       ROW; softmax(y, columns, columns, false, [=](int j) { return f * number(x[j]) + number(mask[j]); });)

#define APARTS(how, T, s)                                                                          \
	EACH_OTHER(copy_halves_##how, s, (T *out, unsigned low, unsigned high, long long n),             \
	     out[i] = ((const T *)((unsigned long long)high << 32 | low))[i];)                     \
	EACH_OTHER(fill_halves_##how, s, (unsigned low, unsigned high, float v, long long n),            \
	     store((T *)((unsigned long long)high << 32 | low) + i, v);)                           \
	EACH_OTHER(copy_askew_##how, s, (T *out, struct askew p, long long n), out[i] = ((const T *)p.at)[i];) \
	EACH_OTHER(fill_askew_##how, s, (struct askew p, float v, long long n), store((T *)p.at + i, v);) \
	EACH_OTHER(copy_from_one_##how, s, (T *out, const T *in, long long n), out[i] = in[i + 1];)      \
	EACH_OTHER(fill_from_one_##how, s, (T *to, float v, long long n), store(to + i + 1, v);)

#define KERNELS(T, s)                                                                              \
	EACH(scale, s, (T *out, const T *in, float f, long long n), store(out + i, number(in[i]) * f);) \
	EACH(add, s, (T *out, const T *in, const T *mask, long long n, long long period),          \
	     store(out + i, number(in[i]) + number(mask[i % period]));)                            \
	SOFTMAXES(, T, T, T, s)                                                                    \
	EACH(copy, s, (T *out, const T *in, long long n), out[i] = in[i];)                         \
	EACH(fill, s, (T *out, float v, long long n), store(out + i, v);)                          \
	EACH(random, s, (T *out, unsigned state, long long n),                                     \
	     store(out + i, (float)(hash(state + (unsigned)i * 2654435761u) >> 8) * 0x1p-23f - 1.0f);) \
	/* reads what it writes: launched twice, it counts twice */                                \
	EACH(blend, s, (T *out, const T *in, long long n), store(out + i, 0.5f * number(out[i]) + 0.5f * number(in[i]));) \
	EACH(split, s, (T *out, const T *in, int rows, int heads, int depth, long long n),         \
	     long long d = i % depth; long long r = i / depth % rows; long long h = i / depth / rows; \
	     out[i] = in[(r * heads + h) * depth + d];)                                            \
	EACH(repeat, s, (T *out, const T *in, long long each, int times, long long n),             \
	     out[i] = in[i / each / times * each + i % each];)                                     \
	struct packed_##s { int pad; const T *in; T *out; int n; };                                \
	KERNEL(packed, s, (struct packed_##s p), long long i = INDEX; if (i < p.n) p.out[i] = p.in[i];) \
	/* given the address behind what it reads, or writes */                                    \
	EACH(copy_before, s, (T *out, const T *end, long long n), out[i] = end[i - n];)            \
	EACH(fill_before, s, (T *end, float v, long long n), store(end + i - n, v);)               \
	/* given an arena, and where in it by numbers */                                           \
	EACH(copy_offset, s, (T *out, const T *base, long long at, long long n), out[i] = base[at + i];) \
	EACH(fill_offset, s, (T *base, long long at, float v, long long n), store(base + at + i, v);) \
	/* given an address from which it writes, or reads, nothing for a while */                 \
	EACH(fill_after, s, (T *start, long long skip, float v, long long n), store(start + skip + i, v);) \
	EACH(copy_after, s, (T *out, const T *start, long long skip, long long n), out[i] = start[skip + i];) \
	/* every `step`th number only */                                                           \
	EACH(fill_some, s, (T *out, float v, int step, long long n), if (i % step == 0) store(out + i, v);) \
	/* the address lies in memory; a kernel whose code shows that, and one of which nobody knows */ \
	EACH_OTHER(copy_through, s, (T *out, const T *const *in, long long skip, long long n), out[i] = (*in)[skip + i];) \
	SIM_DEED(FOLLOWS, fuzz_copy_through_##s)                                                   \
	EACH_OTHER(copy_by_table, s, (T *out, const T *const *in, long long skip, long long n), out[i] = (*in)[skip + i];) \
	EACH_OTHER(fill_through, s, (T *const *to, long long skip, float v, long long n), store(*to + skip + i, v);) \
	SIM_DEED(FOLLOWS, fuzz_fill_through_##s)                                                   \
	EACH_OTHER(fill_by_table, s, (T *const *to, long long skip, float v, long long n), store(*to + skip + i, v);) \
	EACH_OTHER(copy_twice_through, s, (T *out, const T *const *const *in, long long skip, long long n), out[i] = (**in)[skip + i];) \
	SIM_DEED(FOLLOWS, fuzz_copy_twice_through_##s)                                             \
	/* puts an address there */                                                                \
	UNPROVEN(put, s, (void **cell, void *value), if (!INDEX) *cell = value;)                     \
	SIM_NEAR(fuzz_put_##s)                                                                     \
	/* the address in two numbers, behind a byte, or of the number before the first */         \
	APARTS(near, T, s)                                                                         \
	SIM_NEAR(fuzz_copy_halves_near_##s)                                                        \
	SIM_NEAR(fuzz_fill_halves_near_##s)                                                        \
	SIM_NEAR(fuzz_copy_askew_near_##s)                                                         \
	SIM_NEAR(fuzz_fill_askew_near_##s)                                                         \
	SIM_NEAR(fuzz_copy_from_one_near_##s)                                                      \
	SIM_NEAR(fuzz_fill_from_one_near_##s)                                                      \
	APARTS(any, T, s)

/* Between numbers of 16 bits scores or P in fp32. */
#define WIDE(T, s)                                                                                 \
	EACH(scale_wide, s, (float *out, const float *in, float f, long long n), out[i] = in[i] * f;) \
	EACH(add_wide, s, (float *out, const float *in, const T *mask, long long n, long long period), \
	     out[i] = in[i] + number(mask[i % period]);)                                           \
	EACH(narrow, s, (T *out, const float *in, long long n), store(out + i, in[i]);)            \
	SOFTMAXES(_ww, float, float, T, s)                                                         \
	SOFTMAXES(_wn, float, T, T, s)                                                             \
	SOFTMAXES(_nw, T, float, T, s)

WIDE(__half, f16)
WIDE(__nv_bfloat16, bf16)
KERNELS(__half, f16)
KERNELS(__nv_bfloat16, bf16)
KERNELS(float, f32)
