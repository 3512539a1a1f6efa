/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that run at the same time on neighbouring multiprocessors and reach each other's shared
 * memory: clusters, from sm_90. Elsewhere FASHIM_CLUSTERS is 0 and all this does nothing.
 *
 * In order: cluster_here at the start, cluster_wait before the first store into another block. Then
 * either cluster_arrive after the last store_in_block, cluster_wait, and what was stored can be
 * read; or store_in, whose receiver waits at a barrier for so many bytes. Whole blocks take part in
 * each.
 */
#ifndef FASHIM_CLUSTER_CUH
#define FASHIM_CLUSTER_CUH

#include "kernels/device.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define FASHIM_CLUSTERS	  1
#define CLUSTER_OF(parts) CLUSTER_OF_##parts
#define CLUSTER_OF_1
#define CLUSTER_OF_2 __cluster_dims__(2, 1, 1)
#define CLUSTER_OF_4 __cluster_dims__(4, 1, 1)
#define CLUSTER_OF_8 __cluster_dims__(8, 1, 1)
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

#if FASHIM_CLUSTERS
/* What lies at `shared` here, in block `block` of the cluster. */
static __device__ __forceinline__ uint32_t address_in(uint32_t shared, int block)
{
	uint32_t there;

	asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(block));
	return there;
}

/* Stores four numbers in the shared memory of some block of the cluster; they count as 16 bytes
 * for `barrier`, of the same block. Both addresses come from address_in. */
static __device__ __forceinline__ void store_in(uint32_t at, float a, float b, float c, float d,
						uint32_t barrier)
{
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
		     " [%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
		     "f"(a), "f"(b), "f"(c), "f"(d), "r"(barrier)
		     : "memory");
}
#endif

/* *at = x in the shared memory of block `block` of the cluster. */
static __device__ __forceinline__ void store_in_block(float *at, int block, float x)
{
#if FASHIM_CLUSTERS
	asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(
			     address_in((uint32_t)__cvta_generic_to_shared(at), block)),
		     "f"(x)
		     : "memory");
#else
	(void)block;
	*at = x;
#endif
}

/* The same of four at a time. */
static __device__ __forceinline__ void store_in_block(float4 *at, int block, float4 x)
{
#if FASHIM_CLUSTERS
	asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(
			     address_in((uint32_t)__cvta_generic_to_shared(at), block)),
		     "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
		     : "memory");
#else
	(void)block;
	*at = x;
#endif
}

#endif
