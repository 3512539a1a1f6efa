/* SPDX-License-Identifier: Apache-2.0
 *
 * Hopper's copy engine and what goes with it: barriers in shared memory that count arrivals and
 * bytes, copies of boxes of a tensor, registers handed from one warpgroup to another, barriers of
 * part of a block. All as the PTX manual has them; addresses in shared memory are 32 bits.
 *
 * A barrier has phases. It completes one when as many arrivals came as it was set up for and all
 * bytes announced have arrived; `barrier_wait` with the parity of a phase returns once that phase
 * is complete. Parity 1 on a fresh barrier returns at once: "the phase before the first".
 */
#ifndef FASHIM_TMA_CUH
#define FASHIM_TMA_CUH

#include "kernels/device.cuh"

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
		     : "memory");
}

/* After all of a block's barrier_init, by the thread that did them, before the block's barrier. */
static __device__ __forceinline__ void barriers_ready(void)
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives and announces `bytes` that copies will deliver in this phase. */
static __device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{ .reg .pred p;"
		     "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
		     "@p bra done;"
		     "bra again;"
		     "done: }" ::"r"(barrier),
		     "r"(parity)
		     : "memory");
}

/* Orders what this thread has read of shared memory before copies that are started behind an
 * arrival of its warp: loads and copies are different ways to memory, which no barrier orders by
 * itself. */
static __device__ __forceinline__ void reads_before_copies(void)
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Copies the box at `column`, `row`, `head`, `batch` of the tensor that `map` (a CUtensorMap in
 * parameter memory) describes; what lies outside the tensor arrives as zeros, and is counted. */
static __device__ __forceinline__ void copy_box(uint32_t shared, const void *map, uint32_t barrier,
						int column, int row, int head, int batch)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
		     " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
		     "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
		     : "memory");
}

static __device__ __forceinline__ void prefetch_map(const void *map)
{
	asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Registers per thread of this warpgroup from here on; all its warps must come by. */
template <int REGISTERS> static __device__ __forceinline__ void take_registers(void)
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> static __device__ __forceinline__ void give_registers(void)
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* Barrier `id` (1 to 15) of `threads` threads: the others' arrivals are waited for, or not. */
static __device__ __forceinline__ void part_sync(int id, int threads)
{
	asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
static __device__ __forceinline__ void part_arrive(int id, int threads)
{
	asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif
