/* SPDX-License-Identifier: Apache-2.0
 *
 * Hopper's warpgroup matrix instructions (sm_90a): d (+)= a b for 64 rows, N columns and 16 terms
 * of the sum, started here and finished at a wait. How operands lie in shared memory, hopper.cuh
 * says.
 *
 *   wgmma_shared<T, DOWN>      a and b in shared memory, a across, b across or DOWN
 *   wgmma_registers<T, DOWN>   a in registers, b DOWN (or across)
 *
 * Accumulator of thread 4g+t of warp w: d[4n + 2r + e] is row 16w + g + 8r, column 8n + 2t + e.
 * Left operand in registers: a[0..3] hold, two to a register, columns 2t+{0,1} of rows g and g+8,
 * then 2t+8+{0,1} of both: that is d[8m..8m+7] packed in pairs, for the m-th 16 columns.
 *
 * The lists of registers must be literal text in the instruction; the macros below spell them.
 */
#ifndef FASHIM_WGMMA_CUH
#define FASHIM_WGMMA_CUH

#include "kernels/device.cuh"

/* clang-format off */
#define WGMMA_D8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_D16 WGMMA_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_D24 WGMMA_D16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_D32 WGMMA_D24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_D36 WGMMA_D32 ", %32, %33, %34, %35"
#define WGMMA_D40 WGMMA_D32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_D48 WGMMA_D40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_D52 WGMMA_D48 ", %48, %49, %50, %51"
#define WGMMA_D56 WGMMA_D48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_D64 WGMMA_D56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_D72 WGMMA_D64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_D80 WGMMA_D72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_D88 WGMMA_D80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_D96 WGMMA_D88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_D104 WGMMA_D96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_D112 WGMMA_D104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_D120 WGMMA_D112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_D128 WGMMA_D120 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define WGMMA_O8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WGMMA_O16 WGMMA_O8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WGMMA_O24 WGMMA_O16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define WGMMA_O32 WGMMA_O24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WGMMA_O36 WGMMA_O32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define WGMMA_O40 WGMMA_O32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define WGMMA_O48 WGMMA_O40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define WGMMA_O52 WGMMA_O48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define WGMMA_O56 WGMMA_O48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define WGMMA_O64 WGMMA_O56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WGMMA_O72 WGMMA_O64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define WGMMA_O80 WGMMA_O72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define WGMMA_O88 WGMMA_O80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define WGMMA_O96 WGMMA_O88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WGMMA_O104 WGMMA_O96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define WGMMA_O112 WGMMA_O104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define WGMMA_O120 WGMMA_O112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define WGMMA_O128 WGMMA_O120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

/* N columns in D = N/2 registers; A0.. name the operands that follow these. */
#define WGMMA_SS(D, N, TYPE, DOWN, A0, A1, A2)                                                     \
	asm volatile("{ .reg .pred p; setp.ne.b32 p, " A2 ", 0;"                                   \
		     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE               \
		     " {" WGMMA_D##D "}, " A0 ", " A1 ", p, 1, 1, 0, " DOWN "; }"                  \
		     : WGMMA_O##D : "l"(a), "l"(b), "r"(add))
#define WGMMA_RS(D, N, TYPE, DOWN, A0, A1, A2, A3, A4, A5)                                         \
	asm volatile("{ .reg .pred p; setp.ne.b32 p, " A5 ", 0;"                                   \
		     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE               \
		     " {" WGMMA_D##D "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " A4 ", p, 1, 1, "      \
		     DOWN "; }"                                                                    \
		     : WGMMA_O##D : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
/* clang-format on */

template <typename T, bool DOWN> struct wgmma_shared;
template <typename T, bool DOWN> struct wgmma_registers;

#define WGMMA_RUN_SS(D, N, TYPE, DOWN, A0, A1, A2, A3, A4, A5)                                     \
	static __device__ __forceinline__ void run(float (&d)[D], uint64_t a, uint64_t b, int add) \
	{                                                                                          \
		WGMMA_SS(D, N, TYPE, DOWN, A0, A1, A2);                                            \
	}
#define WGMMA_RUN_RS(D, N, TYPE, DOWN, A0, A1, A2, A3, A4, A5)                                     \
	static __device__ __forceinline__ void run(float (&d)[D], const uint32_t (&a)[4],          \
						   uint64_t b, int add = 1)                        \
	{                                                                                          \
		WGMMA_RS(D, N, TYPE, DOWN, A0, A1, A2, A3, A4, A5);                                \
	}

/* The widths in use. */
#define WGMMA_WIDTHS(V, TYPE, DOWN)                                                                \
	V(16, 32, TYPE, DOWN, "%16", "%17", "%18", "%19", "%20", "%21")                           \
	V(32, 64, TYPE, DOWN, "%32", "%33", "%34", "%35", "%36", "%37")                           \
	V(36, 72, TYPE, DOWN, "%36", "%37", "%38", "%39", "%40", "%41")                           \
	V(40, 80, TYPE, DOWN, "%40", "%41", "%42", "%43", "%44", "%45")                           \
	V(48, 96, TYPE, DOWN, "%48", "%49", "%50", "%51", "%52", "%53")                           \
	V(52, 104, TYPE, DOWN, "%52", "%53", "%54", "%55", "%56", "%57")                          \
	V(56, 112, TYPE, DOWN, "%56", "%57", "%58", "%59", "%60", "%61")                          \
	V(64, 128, TYPE, DOWN, "%64", "%65", "%66", "%67", "%68", "%69")                          \
	V(72, 144, TYPE, DOWN, "%72", "%73", "%74", "%75", "%76", "%77")                          \
	V(80, 160, TYPE, DOWN, "%80", "%81", "%82", "%83", "%84", "%85")                          \
	V(88, 176, TYPE, DOWN, "%88", "%89", "%90", "%91", "%92", "%93")                          \
	V(96, 192, TYPE, DOWN, "%96", "%97", "%98", "%99", "%100", "%101")                        \
	V(112, 224, TYPE, DOWN, "%112", "%113", "%114", "%115", "%116", "%117")                   \
	V(128, 256, TYPE, DOWN, "%128", "%129", "%130", "%131", "%132", "%133")                  

#define WGMMA_TYPE(T, TYPE)                                                                        \
	template <> struct wgmma_shared<T, false> {                                                \
		WGMMA_WIDTHS(WGMMA_RUN_SS, TYPE, "0")                                              \
	};                                                                                         \
	template <> struct wgmma_shared<T, true> {                                                 \
		WGMMA_WIDTHS(WGMMA_RUN_SS, TYPE, "1")                                              \
	};                                                                                         \
	template <> struct wgmma_registers<T, false> {                                             \
		WGMMA_WIDTHS(WGMMA_RUN_RS, TYPE, "0")                                              \
	};                                                                                         \
	template <> struct wgmma_registers<T, true> {                                              \
		WGMMA_WIDTHS(WGMMA_RUN_RS, TYPE, "1")                                              \
	};
WGMMA_TYPE(__half, "f16")
WGMMA_TYPE(__nv_bfloat16, "bf16")

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

#endif
