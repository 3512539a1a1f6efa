/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of threads_bodies.h.
 */
#include <cassert>
#include <cstdint>
#include <cstdio>

typedef unsigned short half_bits;
typedef float2 vector8;
typedef float4 vector16;

#define TX threadIdx.x
#define TY threadIdx.y
#define TZ threadIdx.z
#define BX blockIdx.x
#define BY blockIdx.y
#define BZ blockIdx.z
#define DX blockDim.x
#define DY blockDim.y
#define DZ blockDim.z
#define GX gridDim.x
#define GY gridDim.y
#define GZ gridDim.z
#define LOAD(p, i) (p)[i]
#define STORE(p, i, v) (void)((p)[i] = (v))
#define LOAD_OWN LOAD
#define LOAD_ANY LOAD
#define STORE_ANY STORE
#define IS_ALIGNED(p, bytes) ((uintptr_t)(p) % (bytes) == 0)
#define CHECK(holds) assert(holds)
#define STOP() __trap()
#define PRINT(i) printf("%d", i)
#define SYNC() __syncthreads()
#define SYNC_WARP() __syncwarp()
#define WARP warpSize
#define ADD_ATOMIC(p, i) atomicAdd((p) + (i), 1)
#define SHARED_WORDS(name, count) __shared__ int name[count]

static __device__ float over_warp(float sum)
{
	for (int by = 16; by; by /= 2)
		sum += __shfl_xor_sync(0xffffffff, sum, by);
	return sum;
}
#define OVER_WARP(sum) over_warp(sum)

#define BODY(name, T, ...)                                                                         \
	extern "C" __global__ void name(T *o, const T *x, const T *y, int n, int m, long wide)     \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define LOOSE BODY
#define SPLIT BODY
#define OPAQUE BODY
#include "tests/unit/threads_bodies.h"
