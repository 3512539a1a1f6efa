/* SPDX-License-Identifier: Apache-2.0
 *
 * Small kernels that show whether the host build of CUDA C does what a GPU does.
 */
#include "tests/simgpu/cuda_host.h"
#include "tests/simgpu/cuda_host_wmma.h"

/* Sums of blocks of any size: shared memory, barriers, shuffles, several parameters. */
extern "C" __global__ void host_sum(const float *in, char unused, long n, float *out)
{
	__shared__ float part[32];
	float sum = 0;

	(void)unused;
	for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n;
	     i += (long)gridDim.x * blockDim.x)
		sum += in[i];
	for (int d = 16; d; d /= 2)
		sum += __shfl_down_sync(0xffffffffu, sum, d);
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = sum;
	__syncthreads();
	if (threadIdx.x)
		return;
	sum = 0;
	for (unsigned w = 0; w * 32 < blockDim.x; w++)
		sum += part[w];
	atomicAdd(out, sum);
}
SIM_KERNEL(host_sum)

/* Thread n stores what its neighbour left in dynamic shared memory, mirrored in 3-D. */
extern "C" __global__ void host_mirror(int *out)
{
	DYNAMIC_SHARED(int, kept);
	unsigned me = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
	unsigned threads = blockDim.x * blockDim.y * blockDim.z;
	unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);

	kept[me] = (int)(block * threads + me);
	__syncthreads();
	out[block * threads + me] = kept[threads - 1 - me];
}
SIM_KERNEL(host_mirror)

/* Half of the threads wait at a barrier that the others never reach, but return. */
extern "C" __global__ void host_early_return(int *out)
{
	if (threadIdx.x % 2)
		return;
	__syncthreads();
	atomicAdd(out, 1);
}
SIM_KERNEL(host_early_return)

/* Two groups wait at different barriers for more threads than will ever come. */
extern "C" __global__ void host_deadlock(int *out)
{
	sim_barrier(1 + threadIdx.x / 32, 33);
	out[threadIdx.x] = 1;
}
SIM_KERNEL(host_deadlock)

/* The second warp hands numbers to the first, which says when it may overwrite them. */
extern "C" __global__ void host_hand_over(int *out)
{
	__shared__ int box[32];
	const int lane = threadIdx.x % 32;

	if (threadIdx.x < 32)
		sim_barrier_arrive(1, 64);
	for (int n = 0; n < 3; n++) {
		if (threadIdx.x < 32) {
			sim_barrier(2, 64);
			out[32 * n + lane] = box[31 - lane];
			sim_barrier_arrive(1, 64);
		} else {
			sim_barrier(1, 64);
			box[lane] = 100 * n + lane;
			sim_barrier_arrive(2, 64);
		}
	}
}
SIM_KERNEL(host_hand_over)

/* out = in + left right, then left turned over times right; 16x16 each, lines of 16. */
extern "C" __global__ void host_wmma(float *out, const float *in, const __half *left,
				     const __half *right)
{
	using namespace nvcuda::wmma;
	fragment<matrix_a, 16, 16, 16, __half, row_major> a;
	fragment<matrix_a, 16, 16, 16, __half, col_major> turned;
	fragment<matrix_b, 16, 16, 16, __half, row_major> b;
	fragment<accumulator, 16, 16, 16, float> sum, other;

	load_matrix_sync(a, left, 16);
	load_matrix_sync(turned, left, 16);
	load_matrix_sync(b, right, 16);
	load_matrix_sync(sum, in, 16, mem_row_major);
	mma_sync(sum, a, b, sum);
	store_matrix_sync(out, sum, 16, mem_row_major);
	fill_fragment(other, 0.0f);
	mma_sync(other, turned, b, other);
	store_matrix_sync(out + 256, other, 16, mem_col_major);
}
SIM_KERNEL(host_wmma)

/* Votes and shuffles of parts of a warp; a copy that must be waited for. */
extern "C" __global__ void host_warp(unsigned *out, const uint4 *in)
{
	__shared__ uint4 kept[32];
	unsigned lane = threadIdx.x, low = 0x0000ffffu, high = 0xffff0000u;

	out[lane] =
		lane < 16 ? __ballot_sync(low, lane % 3 == 0) : __ballot_sync(high, lane % 3 == 0);
	out[32 + lane] = __shfl_sync(0xffffffffu, lane, 5, 8);
	out[64 + lane] = __shfl_xor_sync(0xffffffffu, lane, 3);
	out[96 + lane] = __shfl_up_sync(0xffffffffu, lane, 2);
	out[128 + lane] =
		__any_sync(0xffffffffu, lane == 7) + 2 * __all_sync(0xffffffffu, lane < 31);
	kept[lane] = make_uint4(1, 2, 3, 4);
	sim_copy_async(&kept[lane], &in[lane], 8, 8);
	sim_copy_commit();
	out[160 + lane] = kept[lane].y;
	sim_copy_wait(0);
	__syncwarp();
	out[192 + lane] = kept[31 - lane].y + kept[31 - lane].z;
}
SIM_KERNEL(host_warp)

/* Every 16-bit pattern to float and back. */
extern "C" __global__ void host_convert(float *half, float *bfloat, unsigned short *back)
{
	unsigned n = blockIdx.x * blockDim.x + threadIdx.x;

	half[n] = __half2float(__ushort_as_half(n));
	bfloat[n] = __bfloat162float(__ushort_as_bfloat16(n));
	back[n] = __half_as_ushort(__float2half_rn(half[n]));
	back[65536 + n] = __bfloat16_as_ushort(__float2bfloat16_rn(bfloat[n]));
}
SIM_KERNEL(host_convert)
