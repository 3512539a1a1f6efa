/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that run at the same time on neighbouring multiprocessors and reach each other's shared
 * memory: clusters, from sm_90. Elsewhere FASHIM_CLUSTERS is 0 and all this does nothing.
 *
 * In order: cluster_here at the start, cluster_wait before the first store_to_first, cluster_arrive
 * after the last; then the first block does cluster_wait and reads, the others may return. Whole
 * blocks take part in each.
 */
#ifndef FASHIM_CLUSTER_CUH
#define FASHIM_CLUSTER_CUH

#include "kernels/device.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define FASHIM_CLUSTERS	  1
#define CLUSTER_OF(parts) __cluster_dims__(parts, 1, 1)
#else
#define FASHIM_CLUSTERS 0
#define CLUSTER_OF(parts)
#endif

/* Each block says that it runs, so that others may write to its shared memory. */
static __device__ __forceinline__ void cluster_here(void)
{
#if FASHIM_CLUSTERS
	asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

/* What was stored before is seen by whoever waits. */
static __device__ __forceinline__ void cluster_arrive(void)
{
#if FASHIM_CLUSTERS
	asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void cluster_wait(void)
{
#if FASHIM_CLUSTERS
	asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* *at = x in the shared memory of the cluster's first block. */
static __device__ __forceinline__ void store_to_first(float *at, float x)
{
#if FASHIM_CLUSTERS
	asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, 0;"
		     "  st.shared::cluster.f32 [there], %1; }" ::"r"(
			     (uint32_t)__cvta_generic_to_shared(at)),
		     "f"(x)
		     : "memory");
#else
	*at = x;
#endif
}

#endif
