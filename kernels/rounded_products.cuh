/* SPDX-License-Identifier: Apache-2.0
 *
 * The two products of rounded.cu, S = Q K^T and O += P V, on tiles that lie in slabs (slabs.cuh):
 * by the matrix instructions of a warp (mma.sync), or of a warpgroup on Hopper. Both leave an
 * accumulator in the same registers: lane 4g+t has in d[4n + 2r + e] row g + 8r of its warp's,
 * column 8n + 2t + e; and both take P as it comes of S, two numbers to a register.
 *
 * Q is read anew for each tile, or HELD in registers.
 */
#ifndef FASHIM_ROUNDED_PRODUCTS_CUH
#define FASHIM_ROUNDED_PRODUCTS_CUH

#include "kernels/slabs.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(FASHIM_HOPPER_HOST)
#define ROUNDED_HOPPER 1
#include "kernels/hopper.cuh"
#include "kernels/tma.cuh"
#else
#define ROUNDED_HOPPER 0
#endif

namespace rounded
{

/* Where this lane's addresses for load_matrix start: in Q and V, and in K. */
static __device__ __forceinline__ int rows_at(void)
{
	return slab_at(threadIdx.x % 16, threadIdx.x % 32 / 16, 0);
}
static __device__ __forceinline__ int keys_at(void)
{
	return slab_at(threadIdx.x % 32 / 16 * 8 + threadIdx.x % 8, threadIdx.x / 8 % 2, 0);
}

/* The left operand of Q: ROWS lines in all, those of this warp from `own` on. */
template <int WIDTH, int ROWS, bool HELD> struct queries {
	const unsigned char *own;
	uint32_t held[HELD ? WIDTH / 16 : 1][4];

	__device__ __forceinline__ void init(const unsigned char *tile, int row)
	{
		own = tile + row * 128;
		if (HELD)
#pragma unroll
			for (int d = 0; d < WIDTH / 16; d++)
				load_matrix(held[HELD ? d : 0],
					    own + slab_moved(rows_at(), d, ROWS));
	}
	__device__ __forceinline__ void get(uint32_t (&q)[4], int d) const
	{
		if (!HELD)
			load_matrix(q, own + slab_moved(rows_at(), d, ROWS));
		else
#pragma unroll
			for (int e = 0; e < 4; e++)
				q[e] = held[HELD ? d : 0][e];
	}
};

template <typename T, int WIDTH, int KEYS, int ROWS, bool HELD> struct warp_products {
	static constexpr int THREADS = 32; /* that must call this together */
	struct queries<WIDTH, ROWS, HELD> q;

	__device__ __forceinline__ void init(const unsigned char *tile, int row)
	{
		q.init(tile, row);
	}
	__device__ __forceinline__ void scores(float (&s)[KEYS / 2], const unsigned char *k) const
	{
#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			s[n] = 0.0f;
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++) {
			const unsigned char *const at = k + slab_moved(keys_at(), d, KEYS);
			uint32_t qf[4];

			q.get(qf, d);
#pragma unroll
			for (int n = 0; n < KEYS / 16; n++) {
				uint32_t kf[4];
				load_matrix(kf, at + n * 2048);
				multiply<T>(s + 8 * n, qf, kf[0], kf[1]);
				multiply<T>(s + 8 * n + 4, qf, kf[2], kf[3]);
			}
		}
	}
	__device__ __forceinline__ void values(float (&o)[WIDTH / 2],
					       const uint32_t (&p)[KEYS / 16][4],
					       const unsigned char *v) const
	{
#pragma unroll
		for (int j = 0; j < KEYS / 16; j++)
#pragma unroll
			for (int n = 0; n < WIDTH / 16; n++) {
				uint32_t vf[4];
				load_matrix_transposed(vf, v + slab_moved(rows_at(), n, KEYS) +
								   j * 2048);
				multiply<T>(o + 8 * n, p[j], vf[0], vf[1]);
				multiply<T>(o + 8 * n + 4, p[j], vf[2], vf[3]);
			}
	}
	__device__ __forceinline__ void ready(void) const
	{
	}
};

#if ROUNDED_HOPPER
template <typename T, int WIDTH, int KEYS, int ROWS, bool HELD> struct group_products {
	static constexpr int THREADS = 128;
	struct queries<WIDTH, ROWS, HELD> q;
	uint64_t operand; /* the warpgroup's rows of Q */

	__device__ __forceinline__ void init(const unsigned char *tile, int row)
	{
		operand = operand_at(shared_address(tile) + row / 64 * (64 * 128), 16);
		if (HELD)
			q.init(tile, row);
	}
	__device__ __forceinline__ void scores(float (&s)[KEYS / 2], const unsigned char *k) const
	{
		const uint64_t keys = operand_at(shared_address(k), 16);

		settle(s);
		wgmma_begin();
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++) {
			const uint64_t b = operand_moved(keys, d / 4 * (KEYS * 128) + d % 4 * 32);

			if constexpr (HELD)
				wgmma_registers<T, false>::run(s, q.held[d], b, d > 0);
			else
				wgmma_shared<T, false>::run(
					s,
					operand_moved(operand, d / 4 * (ROWS * 128) + d % 4 * 32),
					b, d > 0);
		}
		wgmma_commit();
		wgmma_wait<0>();
		settle(s);
	}
	__device__ __forceinline__ void values(float (&o)[WIDTH / 2],
					       const uint32_t (&p)[KEYS / 16][4],
					       const unsigned char *v) const
	{
		const uint64_t values = operand_at(shared_address(v), KEYS * 128);

		settle(o);
		wgmma_begin();
#pragma unroll
		for (int n = 0; n < KEYS / 16; n++)
			wgmma_registers<T, true>::run(o, p[n], operand_moved(values, n * 2048));
		wgmma_commit();
		wgmma_wait<0>();
		settle(o);
	}
	/* What this thread has copied may be read by products after a barrier. */
	__device__ __forceinline__ void ready(void) const
	{
		shared_for_wgmma();
	}
};
#endif

/* Whole warpgroups take Hopper's. */
template <bool GROUPED, typename T, int WIDTH, int KEYS, int ROWS, bool HELD> struct products_of {
	typedef warp_products<T, WIDTH, KEYS, ROWS, HELD> type;
};
#if ROUNDED_HOPPER
template <typename T, int WIDTH, int KEYS, int ROWS, bool HELD>
struct products_of<true, T, WIDTH, KEYS, ROWS, HELD> {
	typedef group_products<T, WIDTH, KEYS, ROWS, HELD> type;
};
#endif

} // namespace rounded

#endif
