/* SPDX-License-Identifier: Apache-2.0
 *
 * What every kernel here needs and CUDA C does not spell: the warp matrix instructions, copies
 * that do not wait, conversions by element type, the address of an operand.
 *
 * The matrix instructions are PTX's mma.sync and ldmatrix rather than nvcuda::wmma: the same
 * machine code, but with a register layout that the PTX manual documents, so that a tile of scores
 * becomes the left operand of the next product without leaving the registers. That layout, for
 * lane = 4g + t of the warp:
 *
 *     C[16x8]   c0,c1: row g, columns 2t,2t+1         c2,c3: row g+8
 *     A[16x16]  a0: row g, columns 2t,2t+1   a1: row g+8   a2,a3: the same, columns +8
 *     B[16x8]   b0: rows 2t,2t+1, column g   b1: rows +8
 * and of numbers of 32 bits
 *     A[16x8]   a0: row g, column t          a1: row g+8         a2,a3: the same, columns +4
 *     B[8x8]    b0: row t, column g          b1: row +4
 *
 * Everything has three bodies at most: sm_80 and later, sm_75, and the host build of
 * tests/simgpu/cuda_host.h.
 */
#ifndef FASHIM_DEVICE_CUH
#define FASHIM_DEVICE_CUH

#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define SIM_KERNEL(name)
#define DYNAMIC_SHARED(type, name)                                                                 \
	extern __shared__ __align__(16) unsigned char fashim_dynamic_shared[];                     \
	type *name = (type *)fashim_dynamic_shared
#else
#include "tests/simgpu/cuda_host.h"
#include "tests/simgpu/cuda_host_ptx.h"
#endif

#include "kernels/attention.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define FASHIM_TURING 1
#else
#define FASHIM_TURING 0
#endif

/* A family's variants of both 16-bit types; of one where a compilation is for that alone
 * (kernels.mk), and on sm_75, which knows one. */
#if defined(FASHIM_ONLY_BF16)
#define EXPAND_TYPES(VARIANTS, F16, BF16) VARIANTS(BF16)
#elif defined(FASHIM_ONLY_F16) || FASHIM_TURING
#define EXPAND_TYPES(VARIANTS, F16, BF16) VARIANTS(F16)
#else
#define EXPAND_TYPES(VARIANTS, F16, BF16) VARIANTS(F16) VARIANTS(BF16)
#endif

/* The same of a family that has variants of fp32, too. */
#if defined(FASHIM_ONLY_F32)
#define EXPAND_ALL_TYPES(VARIANTS, F16, BF16, F32) VARIANTS(F32)
#elif defined(FASHIM_ONLY_F16) || defined(FASHIM_ONLY_BF16)
#define EXPAND_ALL_TYPES(VARIANTS, F16, BF16, F32) EXPAND_TYPES(VARIANTS, F16, BF16)
#else
#define EXPAND_ALL_TYPES(VARIANTS, F16, BF16, F32) EXPAND_TYPES(VARIANTS, F16, BF16) VARIANTS(F32)
#endif

#define WARP_ALL 0xffffffffu
#define LOG2E	 1.4426950408889634f

/* ---- element types -------------------------------------------------------------------------- */

template <typename T> constexpr bool IS_F16 = false;
template <> constexpr bool IS_F16<__half> = true;
template <typename T> constexpr bool IS_F32 = false;
template <> constexpr bool IS_F32<float> = true;

template <typename T> static __device__ __forceinline__ float to_float(T x);
template <> __device__ __forceinline__ float to_float<__half>(__half x)
{
	return __half2float(x);
}
template <> __device__ __forceinline__ float to_float<__nv_bfloat16>(__nv_bfloat16 x)
{
	return __bfloat162float(x);
}
template <> __device__ __forceinline__ float to_float<float>(float x)
{
	return x;
}

template <typename T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ __half from_float<__half>(float x)
{
	return __float2half_rn(x);
}
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
	return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ float from_float<float>(float x)
{
	return x;
}

/* Two numbers side by side in a register, `low` in the lower half. */
template <typename T> static __device__ __forceinline__ uint32_t pack2(float low, float high);
template <> __device__ __forceinline__ uint32_t pack2<__half>(float low, float high)
{
	__half2 h = __floats2half2_rn(low, high);
	return *reinterpret_cast<uint32_t *>(&h);
}
template <> __device__ __forceinline__ uint32_t pack2<__nv_bfloat16>(float low, float high)
{
	__nv_bfloat162 h = __floats2bfloat162_rn(low, high);
	return *reinterpret_cast<uint32_t *>(&h);
}

/* These two again, as rounded. */
template <typename T> static __device__ __forceinline__ float2 unpack2(uint32_t word)
{
	union {
		uint32_t both;
		T one[2];
	} u;

	u.both = word;
	return make_float2(to_float<T>(u.one[0]), to_float<T>(u.one[1]));
}

/* The larger of each half; NaN if either is. */
#ifdef __CUDACC__
template <typename T> static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b);
template <> __device__ __forceinline__ uint32_t larger<__half>(uint32_t a, uint32_t b)
{
	uint32_t c;
	asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
	return c;
}
template <> __device__ __forceinline__ uint32_t larger<__nv_bfloat16>(uint32_t a, uint32_t b)
{
	uint32_t c;
	asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
	return c;
}
#else
template <typename T> static inline uint32_t larger(uint32_t a, uint32_t b)
{
	const float2 x = unpack2<T>(a), y = unpack2<T>(b);

	return pack2<T>(x.x != x.x || x.x > y.x ? x.x : y.x, x.y != x.y || x.y > y.y ? x.y : y.y);
}
#endif
template <typename T> static __device__ __forceinline__ float larger_half(uint32_t two)
{
	return fmaxf(unpack2<T>(two).x, unpack2<T>(two).y);
}

/* x as a tensor of `dtype` would have stored it. */
static __device__ __forceinline__ float round_to(float x, int dtype)
{
	if (dtype == ATTN_F16)
		return __half2float(__float2half_rn(x));
	if (dtype == ATTN_BF16)
		return __bfloat162float(__float2bfloat16_rn(x));
	if (dtype == ATTN_F16_FLOORED)
		return x < ATTN_F16_LOWEST ? ATTN_F16_LOWEST : __half2float(__float2half_rn(x));
	return x;
}

/* The same of all of x. FLOORS: to ATTN_F16_FLOORED, too. */
template <bool FLOORS, int N>
static __device__ __forceinline__ void round_all_to(float (&x)[N], int dtype)
{
	if (dtype == ATTN_F16) {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = round_to(x[k], ATTN_F16);
	} else if (dtype == ATTN_BF16) {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = round_to(x[k], ATTN_BF16);
	} else if (FLOORS && dtype == ATTN_F16_FLOORED) {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = round_to(x[k], ATTN_F16_FLOORED);
	}
}

/* Element `index` of an array of `dtype`, as a double. */
static __device__ __forceinline__ double load_double(const void *p, int64_t index, int dtype)
{
	switch (dtype) {
	case ATTN_F16:
		return __half2float(((const __half *)p)[index]);
	case ATTN_BF16:
		return __bfloat162float(((const __nv_bfloat16 *)p)[index]);
	case ATTN_F32:
		return ((const float *)p)[index];
	case ATTN_F64:
		return ((const double *)p)[index];
	case ATTN_I32:
		return ((const int32_t *)p)[index];
	default:
		return ((const unsigned char *)p)[index] != 0;
	}
}

/* The same as a float. */
static __device__ __forceinline__ float load_float(const void *p, int64_t index, int dtype)
{
	if (dtype == ATTN_F16)
		return to_float<__half>(((const __half *)p)[index]);
	if (dtype == ATTN_BF16)
		return to_float<__nv_bfloat16>(((const __nv_bfloat16 *)p)[index]);
	return ((const float *)p)[index];
}

/* Element `index` of an array of `dtype` becomes x. */
static __device__ __forceinline__ void store_to(char *at, int64_t index, int dtype, float x)
{
	if (dtype == ATTN_F16)
		((__half *)at)[index] = __float2half_rn(x);
	else if (dtype == ATTN_BF16)
		((__nv_bfloat16 *)at)[index] = __float2bfloat16_rn(x);
	else
		((float *)at)[index] = x;
}

/* So that it is read by LDG, not by generic LD. */
static __device__ __forceinline__ char *in_global(char *at)
{
#ifdef __CUDACC__
	__builtin_assume(__isGlobal(at));
#endif
	return at;
}

/* attn_place() of many n, with one division for all of them. */
struct places {
	uint32_t size, part; /* part: of 2^32, rounded down */
	bool turns;	     /* n % size, else n / size */
};

static __device__ __forceinline__ struct places places_by(int32_t of)
{
	const uint32_t size = (uint32_t)(of < 0 ? -of : of);

	return {size, UINT32_MAX / size, of > 0};
}

static __device__ __forceinline__ int32_t place_of(const struct places &p, uint32_t n)
{
	uint32_t turn = __umulhi(n, p.part), rest = n - turn * p.size; /* one turn short at most */

	if (rest >= p.size) {
		rest -= p.size;
		turn++;
	}
	return (int32_t)(p.turns ? rest : turn);
}

/* Where [b,h,0,0] of Q, K, V or O lies. */
static __device__ __forceinline__ char *matrix_at(const struct attn_tensor &t, int b, int h, int H)
{
	return in_global(t.by_array ? ((char *const *)t.base)[(int64_t)b * H + h]
				    : (char *)t.base + (b * t.stride[0] + h * t.stride[1]) *
							       attn_dtype_size(t.dtype));
}

/* The same of any operand. */
static __device__ __forceinline__ char *tensor_at(const struct attn_tensor &t, int b, int h, int H)
{
	return matrix_at(t, t.batches ? attn_place(b, t.batches) : b, h, H);
}

/* ---- instructions --------------------------------------------------------------------------- */

/* 2^x; about 2 ulp, subnormal results become 0 */
static __device__ __forceinline__ float exp2_fast(float x)
{
#ifdef __CUDACC__
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
#else
	return exp2f(x);
#endif
}

/* e^(x - base), for the weights of keys of type T: in fp32 to about a unit in the last place, which
 * takes what is lost of the difference, too; else as exact as fp32 has that times log2(e). */
template <typename T> static __device__ __forceinline__ float exp_of(float x, float base)
{
	const float less = x - base;

	if (!IS_F32<T>)
		return exp2_fast(less * LOG2E);
	const float power = expf(less), back = less - x;
	const float lost = (x - (less - back)) - (base + back);
	return fabsf(less) < INFINITY ? fmaf(power, lost, power) : power;
}

/* Waits for `count` threads of the block at barrier `id`. */
static __device__ __forceinline__ void barrier(int id, int count)
{
#ifdef __CUDACC__
	asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
#else
	sim_barrier(id, count);
#endif
}

/* Four 8x8 matrices of 16-bit elements; lane 8m+r gives the shared address of row r of matrix m,
 * on 16 bytes. Register m of lane 4g+t: row g, columns 2t,2t+1 of matrix m. */
static __device__ __forceinline__ void load_matrix(uint32_t r[4], const void *row)
{
#ifdef __CUDACC__
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
#else
	sim_ldmatrix_x4(r, row, false);
#endif
}

/* The same, each matrix transposed. */
static __device__ __forceinline__ void load_matrix_transposed(uint32_t r[4], const void *row)
{
#ifdef __CUDACC__
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
#else
	sim_ldmatrix_x4(r, row, true);
#endif
}

/* c += a b over 16 x 8 x 16 */
template <typename T>
static __device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], uint32_t b0,
						uint32_t b1);
#ifndef __CUDACC__
template <typename T>
static inline void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	sim_mma_m16n8k16<T>(c, a, b0, b1);
}
#else
template <>
__device__ __forceinline__ void multiply<__half>(float c[4], const uint32_t a[4], uint32_t b0,
						 uint32_t b1)
{
#if FASHIM_TURING
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
	    "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(b0));
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
	    "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[2]), "r"(a[3]), "r"(b1));
#else
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
	    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
#if !FASHIM_TURING
template <>
__device__ __forceinline__ void multiply<__nv_bfloat16>(float c[4], const uint32_t a[4],
							uint32_t b0, uint32_t b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
	    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
#endif

#if !FASHIM_TURING
/* The bits of the number of 11 digits (TF32) nearest to x. */
static __device__ __forceinline__ uint32_t round_tf32(float x)
{
#ifdef __CUDACC__
	uint32_t bits;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
	return bits;
#else
	return sim_round_tf32(x);
#endif
}

/* c += a b over 16 x 8 x 8, of numbers of 11 digits */
static __device__ __forceinline__ void multiply_tf32(float c[4], const uint32_t a[4], uint32_t b0,
						     uint32_t b1)
{
#ifdef __CUDACC__
	asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
	    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
	sim_mma_m16n8k8_tf32(c, a, b0, b1);
#endif
}
#endif

/* Starts copying BYTES (8 or 16) bytes to shared memory, of which the first `bytes` are read and
 * the rest cleared. Both addresses on BYTES; with 0 bytes nothing is read from anywhere. */
template <int BYTES>
static __device__ __forceinline__ void copy_piece(void *to, const void *from, int bytes)
{
	static_assert(BYTES == 8 || BYTES == 16, "sizes of a piece");
#ifndef __CUDACC__
	sim_copy_async(to, from, bytes, BYTES - bytes);
#elif FASHIM_TURING
	union {
		uint4 all;
		uint2 half;
		uint16_t one[8];
	} u;
	u.all = make_uint4(0, 0, 0, 0);
	if (bytes == BYTES && BYTES == 16)
		u.all = *(const uint4 *)from;
	else if (bytes == BYTES)
		u.half = *(const uint2 *)from;
	else
		for (int i = 0; i < BYTES / 2; i++)
			if (2 * i < bytes)
				u.one[i] = ((const uint16_t *)from)[i];
	if (BYTES == 16)
		*(uint4 *)to = u.all;
	else
		*(uint2 *)to = u.half;
#else
	const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	if (BYTES == 16)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at),
			     "l"(__cvta_generic_to_global(from)), "r"(bytes)
			     : "memory");
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at),
			     "l"(__cvta_generic_to_global(from)), "r"(bytes)
			     : "memory");
#endif
}

static __device__ __forceinline__ void copy16(void *to, const void *from, int bytes)
{
	copy_piece<16>(to, from, bytes);
}

static __device__ __forceinline__ void copy_commit(void)
{
#ifndef __CUDACC__
	sim_copy_commit();
#elif !FASHIM_TURING
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Starts copying BYTES (8 or 16) bytes, or clears them. Both addresses on BYTES. */
template <int BYTES>
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool there)
{
	copy_piece<BYTES>(to, from, there ? BYTES : 0);
}

/* Waits for this thread's copies, but for the last COUNT that were committed; others see them
 * after a barrier. */
template <int COUNT> static __device__ __forceinline__ void copy_wait_but(void)
{
#ifndef __CUDACC__
	sim_copy_wait(COUNT);
#elif !FASHIM_TURING
	asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
#endif
}

static __device__ __forceinline__ void copy_wait(void)
{
	copy_wait_but<0>();
}

/* The mean of a column of V, for rows that see every key alike. */
template <typename T>
static __device__ __forceinline__ float mean_of(const T *v, int64_t row_stride, int rows)
{
	float sum = 0.0f;

#pragma unroll 4
	for (int j = 0; j < rows; j++)
		sum += to_float<T>(v[j * row_stride]);
	return sum / rows;
}

#endif
