/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA C on the host: one header that lets g++ compile a .cu file into ordinary machine code.
 *
 *     g++ -x c++ -std=gnu++17 -include tests/simgpu/cuda_host.h -c kernel.cu
 *
 * Every thread of a block is a fiber with a stack of its own; the blocks of a grid run one after
 * another on the calling thread, and grids launched by several threads one after another too. A
 * fiber runs until it meets a barrier, so the code between two barriers is never interleaved, but a
 * barrier that is missing still shows (a thread then reads what others have not yet written), as
 * does one that not every thread reaches (the launch fails). Warp-wide operations are true meetings
 * of the lanes in their mask: the last lane to arrive does the work for all.
 *
 * What a .cu file must do to compile both ways (nvcc may include this header too, it then defines
 * only these three macros):
 *   - name each kernel once at file scope:        SIM_KERNEL(my_kernel)
 *     which exports `const struct sim_kernel sim_kernel_my_kernel` (see sim_kernel.h);
 *   - say of each kernel that reaches more than its parameters lead to what that is, since nobody
 *     can read it off the host's code as it is read off a GPU's (shim/code/kernel_code.def has the
 *     words):                                     SIM_DEED(GLOBALS, my_kernel)
 *     and of one that takes no part of an address from memory:    SIM_NEAR(my_kernel)
 *   - declare dynamic shared memory inside the kernel as    DYNAMIC_SHARED(float, buffer);
 *     instead of `extern __shared__ float buffer[]`. Static `__shared__ T x[N]` works as it is,
 *     but is not shared between functions and not reset between blocks, as on a GPU.
 * The <<<>>> syntax is not available: launches go through the driver API. Kernels take parameters
 * of any trivially copyable type. Provided: threadIdx and its kin, vector types, __half and
 * __nv_bfloat16 with conversions, __sync*, __shfl_*_sync, votes, atomics, the common intrinsics.
 * nvcuda::wmma is in cuda_host_wmma.h, the PTX instructions we use in cuda_host_ptx.h.
 * Not provided: textures, cooperative groups, half arithmetic beyond conversion, printf buffers
 * (plain printf works).
 */
#ifndef FASHIM_CUDA_HOST_H
#define FASHIM_CUDA_HOST_H

#ifdef __CUDACC__

#define SIM_KERNEL(name)
#define SIM_DEED(what, name)
#define SIM_NEAR(name)
#define DYNAMIC_SHARED(type, name)                                                                 \
	extern __shared__ __align__(16) unsigned char fashim_dynamic_shared[];                     \
	type *name = (type *)fashim_dynamic_shared

#else

#define FASHIM_CUDA_HOST 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/simgpu/sim_kernel.h"

/* ---- the runtime, cuda_host.c: plain C ------------------------------------------------------ */

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_MAX_THREADS	 1024
#define SIM_SHARED_LIMIT (227 * 1024)
#define SIM_COPY_QUEUE	 128

struct sim_uint3 {
	unsigned x, y, z;
};

/* One fiber. The fields up to `lane` are what the code of a kernel reads. */
struct sim_thread {
	struct sim_uint3 thread_idx;
	unsigned lane;
	struct sim_block *block;
	struct sim_warp *warp;

	void *context;		 /* stack pointer, or a ucontext_t */
	struct sim_thread *next; /* in the run queue or in a barrier's list */
	unsigned char *stack;

	/* asynchronous copies: performed when they are waited for, as late as the rules allow */
	struct {
		void *to;
		const void *from;
		unsigned bytes, zero, group;
	} copy[SIM_COPY_QUEUE];
	unsigned copies, copy_group;
};

struct sim_block {
	struct sim_uint3 block_idx, block_dim, grid_dim;
	void *shared;
	unsigned live;
};

/* The fiber that runs. One grid at a time runs in a process, so it needs no thread-local storage.
 */
extern struct sim_thread *sim_current;

/* Waits for other grids to end, then runs `thread_main(params)` once per thread of the grid. 0, or
 * -1 when the shape is impossible or the threads of a block wait for each other for ever. */
int sim_run_grid(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
		 void (*thread_main)(void **params), void **params);

/* Barrier `id` (0..15) of the block; count 0: all threads that have not returned. */
void sim_barrier(unsigned id, unsigned count);

/* Counts as one of the `count` threads of barrier `id`, but goes on at once. */
void sim_barrier_arrive(unsigned id, unsigned count);

/* Lets all other fibers that can run go first: between two looks at memory that they change. */
void sim_yield(void);

/* A meeting of the lanes in `mask` (those of them that still run). The last to arrive calls
 * work(args, lanes), args[l] being what lane l passed, before any of them goes on; `lanes` holds
 * who came. work may be NULL. */
void sim_warp_meet(unsigned mask, void (*work)(void *const *args, unsigned lanes), void *arg);

/* cp.async, commit_group and wait_group: `bytes` are copied, then `zero` bytes cleared. */
void sim_copy_async(void *to, const void *from, unsigned bytes, unsigned zero);
void sim_copy_commit(void);
void sim_copy_wait(unsigned groups_left);

#ifdef __cplusplus
}
#endif

/* ---- the language, for the .cu files --------------------------------------------------------- */

#ifdef __cplusplus

#include <math.h>
#include <string.h>
#include <type_traits>
#include <utility>
#ifdef __F16C__
#include <immintrin.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__	static
#define __shared__	static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__	__attribute__((noinline))
#define __align__(n)	__attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict

#define threadIdx (sim_current->thread_idx)
#define blockIdx  (sim_current->block->block_idx)
#define blockDim  (sim_current->block->block_dim)
#define gridDim	  (sim_current->block->grid_dim)
#define warpSize  32

#define DYNAMIC_SHARED(type, name) type *name = (type *)sim_current->block->shared

#define SIM_DEED(what, name)                                                                       \
	extern "C" const char sim_deed_##what##_##name __attribute__((visibility("default")));     \
	const char sim_deed_##what##_##name = 1;

#define SIM_NEAR(name)                                                                             \
	extern "C" const char sim_near_##name __attribute__((visibility("default")));              \
	const char sim_near_##name = 1;

#define SIM_KERNEL(name)                                                                           \
	extern "C" const struct sim_kernel sim_kernel_##name                                       \
		__attribute__((visibility("default")));                                            \
	const struct sim_kernel sim_kernel_##name = sim_entry<decltype(&name), &name>::row(#name); \
	extern "C" const struct sim_layout sim_layout_##name                                       \
		__attribute__((visibility("default")));                                            \
	const struct sim_layout sim_layout_##name = sim_entry<decltype(&name), &name>::places();

/* Offsets and sizes of a kernel's parameters, and the call, from its signature. */
template <typename F, F f> struct sim_entry;
template <typename... A, void (*f)(A...)> struct sim_entry<void (*)(A...), f> {
	static constexpr unsigned count = sizeof...(A);
	struct layout {
		size_t offset[count + 1], size[count + 1];
	};
	static constexpr layout lay_out()
	{
		layout l = {};
		size_t sizes[] = {sizeof(A)..., 0}, aligns[] = {alignof(A)..., 1}, at = 0;
		for (unsigned i = 0; i < count; i++) {
			at = (at + aligns[i] - 1) / aligns[i] * aligns[i];
			l.offset[i] = at;
			l.size[i] = sizes[i];
			at += sizes[i];
		}
		return l;
	}
	static constexpr layout where = lay_out();
	template <size_t... i> static void call(void **params, std::index_sequence<i...>)
	{
		(void)params;
		f(*(typename std::remove_const<A>::type *)params[i]...);
	}
	static void thread_main(void **params)
	{
		call(params, std::index_sequence_for<A...>{});
	}
	static int run(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
		       void **params)
	{
		return sim_run_grid(grid, block, shared_bytes, thread_main, params);
	}
	static constexpr struct sim_layout places()
	{
		struct sim_layout l = {};
		l.count = count;
		for (unsigned i = 0; i < count && i < SIM_PARAMS; i++) {
			l.offset[i] = (unsigned short)where.offset[i];
			l.size[i] = (unsigned short)where.size[i];
		}
		return l;
	}
	static constexpr struct sim_kernel row(const char *name)
	{
		return {name, count, where.offset, where.size, run};
	}
};

/* vector types */
struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};
#define SIM_VECTOR(type, name, al2, al4)                                                           \
	struct alignas(al2) name##2                                                                \
	{                                                                                          \
		type x, y;                                                                         \
	};                                                                                         \
	struct name##3                                                                             \
	{                                                                                          \
		type x, y, z;                                                                      \
	};                                                                                         \
	struct alignas(al4) name##4                                                                \
	{                                                                                          \
		type x, y, z, w;                                                                   \
	};                                                                                         \
	static inline name##2 make_##name##2(type x, type y)                                       \
	{                                                                                          \
		return {x, y};                                                                     \
	}                                                                                          \
	static inline name##3 make_##name##3(type x, type y, type z)                               \
	{                                                                                          \
		return {x, y, z};                                                                  \
	}                                                                                          \
	static inline name##4 make_##name##4(type x, type y, type z, type w)                       \
	{                                                                                          \
		return {x, y, z, w};                                                               \
	}
SIM_VECTOR(int, int, 8, 16)
SIM_VECTOR(unsigned, uint, 8, 16)
SIM_VECTOR(short, short, 4, 8)
SIM_VECTOR(unsigned short, ushort, 4, 8)
SIM_VECTOR(float, float, 8, 16)
SIM_VECTOR(double, double, 16, 16)
SIM_VECTOR(long long, longlong, 16, 16)
SIM_VECTOR(unsigned long long, ulonglong, 16, 16)

/* synchronisation */
static inline void __syncthreads(void)
{
	sim_barrier(0, 0);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
	sim_warp_meet(mask, nullptr, nullptr);
}
static inline void __threadfence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block(void)
{
}
static inline void __nanosleep(unsigned)
{
}

/* shuffles and votes */
struct sim_exchange {
	uint64_t value, result;
	unsigned from;
};
static inline void sim_exchange_all(void *const *args, unsigned lanes)
{
	for (unsigned l = 0; l < 32; l++) {
		if (!(lanes >> l & 1))
			continue;
		struct sim_exchange *mine = (struct sim_exchange *)args[l];
		unsigned from = mine->from;
		/* a lane that is not there gives an undefined value: make it a loud one */
		mine->result = lanes >> from & 1 ? ((struct sim_exchange *)args[from])->value
						 : 0x7ff7dead7fc0deadull;
	}
}
template <typename T> static inline T sim_shuffle(unsigned mask, T value, unsigned from)
{
	static_assert(sizeof(T) <= 8, "shuffles move at most eight bytes");
	struct sim_exchange e = {0, 0, from & 31};
	memcpy(&e.value, &value, sizeof(T));
	sim_warp_meet(mask, sim_exchange_all, &e);
	memcpy(&value, &e.result, sizeof(T));
	return value;
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32)
{
	unsigned lane = sim_current->lane, first = lane & ~(unsigned)(width - 1);
	return sim_shuffle(mask, value, first + (from & (width - 1)));
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
	unsigned lane = sim_current->lane, from = lane ^ lanes;
	return sim_shuffle(mask, value, from / width > lane / width || from > 31 ? lane : from);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
	unsigned lane = sim_current->lane;
	return sim_shuffle(mask, value,
			   lane % width + delta < (unsigned)width ? lane + delta : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
	unsigned lane = sim_current->lane;
	return sim_shuffle(mask, value, lane % width >= delta ? lane - delta : lane);
}
static inline void sim_vote_all(void *const *args, unsigned lanes)
{
	unsigned votes = 0;
	for (unsigned l = 0; l < 32; l++)
		if ((lanes >> l & 1) && *(unsigned *)args[l])
			votes |= 1u << l;
	for (unsigned l = 0; l < 32; l++)
		if (lanes >> l & 1)
			*(unsigned *)args[l] = votes;
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
	unsigned vote = predicate != 0;
	sim_warp_meet(mask, sim_vote_all, &vote);
	return vote;
}
static inline int __any_sync(unsigned mask, int predicate)
{
	return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
	return __ballot_sync(mask, !predicate) == 0;
}

/* atomics: no other block runs at the same time, but the host may look on */
template <typename T> static inline T sim_atomic_cas(T *p, T expected, T value)
{
	__atomic_compare_exchange(p, &expected, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return expected;
}
#define SIM_ATOMIC(name, expression)                                                               \
	template <typename T, typename U> static inline T name(T *p, U value_)                     \
	{                                                                                          \
		T old, value = (T)value_, next;                                                    \
		__atomic_load(p, &old, __ATOMIC_SEQ_CST);                                          \
		do                                                                                 \
			next = expression;                                                         \
		while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_SEQ_CST,         \
						  __ATOMIC_SEQ_CST));                              \
		return old;                                                                        \
	}
SIM_ATOMIC(atomicAdd, old + value)
SIM_ATOMIC(atomicSub, old - value)
SIM_ATOMIC(atomicExch, value)
SIM_ATOMIC(atomicMax, old > value ? old : value)
SIM_ATOMIC(atomicMin, old < value ? old : value)
SIM_ATOMIC(atomicOr, old | value)
SIM_ATOMIC(atomicAnd, old &value)
template <typename T, typename U, typename V> static inline T atomicCAS(T *p, U expected, V value)
{
	return sim_atomic_cas<T>(p, (T)expected, (T)value);
}

/* arithmetic */
#define SIM_MINMAX(type)                                                                           \
	static inline type min(type a, type b)                                                     \
	{                                                                                          \
		return b < a ? b : a;                                                              \
	}                                                                                          \
	static inline type max(type a, type b)                                                     \
	{                                                                                          \
		return a < b ? b : a;                                                              \
	}
SIM_MINMAX(int)
SIM_MINMAX(unsigned)
SIM_MINMAX(long)
SIM_MINMAX(unsigned long)
SIM_MINMAX(long long)
SIM_MINMAX(unsigned long long)
static inline float min(float a, float b)
{
	return fminf(a, b);
}
static inline float max(float a, float b)
{
	return fmaxf(a, b);
}
static inline double min(double a, double b)
{
	return fmin(a, b);
}
static inline double max(double a, double b)
{
	return fmax(a, b);
}
template <typename To, typename From> static inline To sim_bits(From from)
{
	To to;
	static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
	memcpy(&to, &from, sizeof(to));
	return to;
}
#define __float_as_uint(f)	sim_bits<unsigned>((float)(f))
#define __float_as_int(f)	sim_bits<int>((float)(f))
#define __uint_as_float(u)	sim_bits<float>((unsigned)(u))
#define __int_as_float(i)	sim_bits<float>((int)(i))
#define __double_as_longlong(d) sim_bits<long long>((double)(d))
#define __longlong_as_double(l) sim_bits<double>((long long)(l))
#define __expf(x)		expf(x)
#define __logf(x)		logf(x)
#define __fdividef(a, b)	((float)(a) / (float)(b))
#define __frcp_rn(x)		(1.0f / (float)(x))
#define rsqrtf(x)		(1.0f / sqrtf(x))
#define __fmaf_rn(a, b, c)	fmaf(a, b, c)
#define __popc(x)		__builtin_popcount(x)
#define __umulhi(a, b)		((uint32_t)(((uint64_t)(uint32_t)(a) * (uint32_t)(b)) >> 32))
#define __ffs(x)		__builtin_ffs(x)
static inline int __clz(int x)
{
	return x ? __builtin_clz((unsigned)x) : 32;
}
template <typename T> static inline T __ldg(const T *p)
{
	return *p;
}

/* 16-bit floating point: storage and conversion, round to nearest even */
struct __half {
	uint16_t bits;
};
struct __nv_bfloat16 {
	uint16_t bits;
};
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;
struct alignas(4) __half2 {
	__half x, y;
};
struct alignas(4) __nv_bfloat162 {
	__nv_bfloat16 x, y;
};
typedef __half2 half2;

static inline float __half2float(__half h)
{
#ifdef __F16C__
	return _cvtsh_ss(h.bits);
#else
	uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, rest = h.bits & 0x7fff;
	if (rest >= 0x7c00)
		return sim_bits<float>(sign | 0x7f800000u | (rest & 0x3ff) << 13);
	float magnitude =
		rest < 0x400 ? (float)rest * 0x1p-24f : sim_bits<float>((rest << 13) + 0x38000000u);
	return sign ? -magnitude : magnitude;
#endif
}
static inline __half __float2half_rn(float f)
{
#ifdef __F16C__
	return {_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT)};
#else
	uint32_t u = sim_bits<uint32_t>(f), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
	if (rest > 0x7f800000)
		return {(uint16_t)(sign | 0x7fff)};
	if (rest >= 0x477ff000)
		return {(uint16_t)(sign | 0x7c00)};
	if (rest < 0x38800000) { /* subnormal: let the adder round at bit 2^-24 */
		float shifted = sim_bits<float>(rest) + 0.5f;
		return {(uint16_t)(sign | (sim_bits<uint32_t>(shifted) - 0x3f000000u))};
	}
	rest += 0xfff + (rest >> 13 & 1);
	return {(uint16_t)(sign | ((rest - 0x38000000u) >> 13))};
#endif
}
static inline float __bfloat162float(__nv_bfloat16 b)
{
	return sim_bits<float>((uint32_t)b.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
	uint32_t u = sim_bits<uint32_t>(f);
	if ((u & 0x7fffffff) > 0x7f800000)
		return {0x7fff};
	return {(uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
#define __float2half(f)		__float2half_rn(f)
#define __float2bfloat16(f)	__float2bfloat16_rn(f)
#define __half_as_ushort(h)	((h).bits)
#define __ushort_as_half(u)	(__half{(uint16_t)(u)})
#define __bfloat16_as_ushort(h) ((h).bits)
#define __ushort_as_bfloat16(u) (__nv_bfloat16{(uint16_t)(u)})
static inline __half2 __floats2half2_rn(float x, float y)
{
	return {__float2half_rn(x), __float2half_rn(y)};
}
static inline float2 __half22float2(__half2 h)
{
	return {__half2float(h.x), __half2float(h.y)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
	return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 b)
{
	return {__bfloat162float(b.x), __bfloat162float(b.y)};
}

#endif /* __cplusplus */
#endif /* !__CUDACC__ */
#endif
