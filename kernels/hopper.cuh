/* SPDX-License-Identifier: Apache-2.0
 *
 * Hopper's warpgroup matrix instructions, and the layout of shared memory that they read.
 *
 * D += A B over 64 rows, N columns and 16 steps of the sum, by the four warps of a warpgroup
 * together. Warp w holds rows 16w .. 16w+15 of D, in the layout of device.cuh's C[16x8], 8 columns
 * after another; A from registers has the layout of A[16x16] there.
 *
 * An operand in shared memory is made of slabs 128 bytes wide, line after line, whose 16-byte
 * pieces are swapped so that no two lines of eight meet in a bank: piece c of line r lies at
 * c ^ r % 8. Its lines run along the sum ("across"), or the sum runs down the lines ("down"), which
 * is what a transposed operand is. Slabs start on 1024 bytes.
 */
#ifndef FASHIM_HOPPER_CUH
#define FASHIM_HOPPER_CUH

#include "kernels/device.cuh"

/* Where piece `piece` (16 bytes) of line `line` lies in slabs of `lines` lines; in bytes. */
static __device__ __forceinline__ int slab_at(int line, int piece, int lines)
{
	return piece / 8 * lines * 128 + line * 128 + (piece % 8 ^ line % 8) * 16;
}

/* How the instructions are told of an operand: at `shared` (bytes), slabs `slab` bytes apart. */
static __device__ __forceinline__ uint64_t operand_at(uint32_t shared, uint32_t slab)
{
	return (uint64_t)(shared >> 4 & 0x3fff) | (uint64_t)(slab >> 4) << 16 |
	       (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* The same, `bytes` further on. */
static __device__ __forceinline__ uint64_t operand_moved(uint64_t operand, int bytes)
{
	return operand + (uint32_t)(bytes >> 4);
}

/* Starts copying 16 bytes to `shared`, of which the first `bytes` are read, the rest cleared. */
static __device__ __forceinline__ void copy_piece(uint32_t shared, const void *from, int bytes)
{
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared),
		     "l"(__cvta_generic_to_global(from)), "r"(bytes)
		     : "memory");
}

/* What was written to shared memory before is seen by matrix instructions after a barrier. */
static __device__ __forceinline__ void shared_for_wgmma(void)
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_begin(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void wgmma_wait(void)
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keeps the compiler from using, or setting, these registers on the other side. */
template <int N> static __device__ __forceinline__ void settle(float (&d)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+f"(d[i])::"memory");
}

#define WGMMA_SHARED_64(TYPE, DOWN)                                                                \
	asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;"                                      \
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " "               \
		     "{%0, %1, %2, %3, %4, %5, %6, %7,"                                            \
		     " %8, %9, %10, %11, %12, %13, %14, %15,"                                      \
		     " %16, %17, %18, %19, %20, %21, %22, %23,"                                    \
		     " %24, %25, %26, %27, %28, %29, %30, %31}, "                                  \
		     "%32, %33, p, 1, 1, 0, " DOWN "; }"                                           \
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),     \
		       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),   \
		       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),            \
		       "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),            \
		       "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]),            \
		       "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])             \
		     : "l"(a), "l"(b), "r"(add))

#define WGMMA_REGISTERS_64(TYPE)                                                                   \
	asm volatile("{ .reg .pred p; setp.eq.u32 p, 1, 1;"                                        \
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " "               \
		     "{%0, %1, %2, %3, %4, %5, %6, %7,"                                            \
		     " %8, %9, %10, %11, %12, %13, %14, %15,"                                      \
		     " %16, %17, %18, %19, %20, %21, %22, %23,"                                    \
		     " %24, %25, %26, %27, %28, %29, %30, %31}, "                                  \
		     "{%32, %33, %34, %35}, %36, p, 1, 1, 1; }"                                    \
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),     \
		       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),   \
		       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),            \
		       "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),            \
		       "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]),            \
		       "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])             \
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#define WGMMA_SHARED_96(TYPE, DOWN)                                                                \
	asm volatile(                                                                              \
		"{ .reg .pred p; setp.ne.b32 p, %50, 0;"                                           \
		"wgmma.mma_async.sync.aligned.m64n96k16.f32." TYPE "." TYPE " "                    \
		"{%0, %1, %2, %3, %4, %5, %6, %7,"                                                 \
		" %8, %9, %10, %11, %12, %13, %14, %15,"                                           \
		" %16, %17, %18, %19, %20, %21, %22, %23,"                                         \
		" %24, %25, %26, %27, %28, %29, %30, %31,"                                         \
		" %32, %33, %34, %35, %36, %37, %38, %39,"                                         \
		" %40, %41, %42, %43, %44, %45, %46, %47}, "                                       \
		"%48, %49, p, 1, 1, 0, " DOWN "; }"                                                \
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),          \
		  "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),        \
		  "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),    \
		  "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),    \
		  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),    \
		  "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),    \
		  "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),    \
		  "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])     \
		: "l"(a), "l"(b), "r"(add))

#define WGMMA_SHARED_128(TYPE, DOWN)                                                               \
	asm volatile(                                                                              \
		"{ .reg .pred p; setp.ne.b32 p, %66, 0;"                                           \
		"wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " "                   \
		"{%0, %1, %2, %3, %4, %5, %6, %7,"                                                 \
		" %8, %9, %10, %11, %12, %13, %14, %15,"                                           \
		" %16, %17, %18, %19, %20, %21, %22, %23,"                                         \
		" %24, %25, %26, %27, %28, %29, %30, %31,"                                         \
		" %32, %33, %34, %35, %36, %37, %38, %39,"                                         \
		" %40, %41, %42, %43, %44, %45, %46, %47,"                                         \
		" %48, %49, %50, %51, %52, %53, %54, %55,"                                         \
		" %56, %57, %58, %59, %60, %61, %62, %63}, "                                       \
		"%64, %65, p, 1, 1, 0, " DOWN "; }"                                                \
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),          \
		  "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),        \
		  "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),    \
		  "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),    \
		  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),    \
		  "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),    \
		  "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),    \
		  "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),    \
		  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),    \
		  "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),    \
		  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                               \
		: "l"(a), "l"(b), "r"(add))

#define WGMMA_REGISTERS_128(TYPE)                                                                  \
	asm volatile(                                                                              \
		"{ .reg .pred p; setp.eq.u32 p, 1, 1;"                                             \
		"wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " "                   \
		"{%0, %1, %2, %3, %4, %5, %6, %7,"                                                 \
		" %8, %9, %10, %11, %12, %13, %14, %15,"                                           \
		" %16, %17, %18, %19, %20, %21, %22, %23,"                                         \
		" %24, %25, %26, %27, %28, %29, %30, %31,"                                         \
		" %32, %33, %34, %35, %36, %37, %38, %39,"                                         \
		" %40, %41, %42, %43, %44, %45, %46, %47,"                                         \
		" %48, %49, %50, %51, %52, %53, %54, %55,"                                         \
		" %56, %57, %58, %59, %60, %61, %62, %63}, "                                       \
		"{%64, %65, %66, %67}, %68, p, 1, 1, 1; }"                                         \
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),          \
		  "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),        \
		  "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),    \
		  "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),    \
		  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),    \
		  "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),    \
		  "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),    \
		  "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),    \
		  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),    \
		  "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),    \
		  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                               \
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/* d (+)= a b, both in shared memory, a across and b across or DOWN. */
template <typename T, bool DOWN> struct wgmma_shared;
/* d += a b, a in registers, b DOWN. */
template <typename T> struct wgmma_registers;

#define WGMMA_FORMS(T, TYPE)                                                                       \
	template <> struct wgmma_shared<T, false> {                                                \
		static __device__ __forceinline__ void run(float (&d)[32], uint64_t a, uint64_t b, \
							   int add)                                \
		{                                                                                  \
			WGMMA_SHARED_64(TYPE, "0");                                                \
		}                                                                                  \
		static __device__ __forceinline__ void run(float (&d)[48], uint64_t a, uint64_t b, \
							   int add)                                \
		{                                                                                  \
			WGMMA_SHARED_96(TYPE, "0");                                                \
		}                                                                                  \
		static __device__ __forceinline__ void run(float (&d)[64], uint64_t a, uint64_t b, \
							   int add)                                \
		{                                                                                  \
			WGMMA_SHARED_128(TYPE, "0");                                               \
		}                                                                                  \
	};                                                                                         \
	template <> struct wgmma_shared<T, true> {                                                 \
		static __device__ __forceinline__ void run(float (&d)[32], uint64_t a, uint64_t b, \
							   int add)                                \
		{                                                                                  \
			WGMMA_SHARED_64(TYPE, "1");                                                \
		}                                                                                  \
		static __device__ __forceinline__ void run(float (&d)[48], uint64_t a, uint64_t b, \
							   int add)                                \
		{                                                                                  \
			WGMMA_SHARED_96(TYPE, "1");                                                \
		}                                                                                  \
		static __device__ __forceinline__ void run(float (&d)[64], uint64_t a, uint64_t b, \
							   int add)                                \
		{                                                                                  \
			WGMMA_SHARED_128(TYPE, "1");                                               \
		}                                                                                  \
	};                                                                                         \
	template <> struct wgmma_registers<T> {                                                    \
		static __device__ __forceinline__ void run(float (&d)[32], const uint32_t (&a)[4], \
							   uint64_t b)                             \
		{                                                                                  \
			WGMMA_REGISTERS_64(TYPE);                                                  \
		}                                                                                  \
		static __device__ __forceinline__ void run(float (&d)[64], const uint32_t (&a)[4], \
							   uint64_t b)                             \
		{                                                                                  \
			WGMMA_REGISTERS_128(TYPE);                                                 \
		}                                                                                  \
	};
WGMMA_FORMS(__half, "f16")
WGMMA_FORMS(__nv_bfloat16, "bf16")

#endif
