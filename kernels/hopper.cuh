/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of shared memory that Hopper's warpgroup matrix instructions (wgmma.cuh) read.
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
#include "kernels/slabs.cuh"
#include "kernels/wgmma.cuh"

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
#ifdef __CUDACC__
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared),
		     "l"(__cvta_generic_to_global(from)), "r"(bytes)
		     : "memory");
#else
	sim_copy_async(sim_shared(shared), from, (unsigned)bytes, 16u - (unsigned)bytes);
#endif
}

/* What was written to shared memory before is seen by matrix instructions after a barrier. */
static __device__ __forceinline__ void shared_for_wgmma(void)
{
#ifdef __CUDACC__
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#endif
