/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/wgmma.cuh for the host build. Each thread computes the part of the accumulator that it
 * holds when the instruction is started: earlier than a GPU may, so what is missing before a start
 * shows, and what is missing before a wait does not.
 */
#ifndef FASHIM_WGMMA_CUH
#define FASHIM_WGMMA_CUH

#include "kernels/device.cuh"
#include "kernels/tma.cuh"

/* The number at byte `at` of slabs that are swizzled. */
template <typename T> static inline float sim_element(uint32_t at)
{
	T x;

	memcpy(&x, sim_shared(at ^ (at >> 7 & 7) << 4), sizeof(x));
	return to_float<T>(x);
}

/* Row or column `n`, term `k` of the sum, of an operand as operand_at() describes it. */
template <typename T, bool DOWN> static inline float sim_operand(uint64_t operand, int n, int k)
{
	const uint32_t start = (uint32_t)(operand & 0x3fff) << 4;
	const uint32_t slab = (uint32_t)(operand >> 16 & 0x3fff) << 4;

	return sim_element<T>(DOWN ? start + n / 64 * slab + k * 128 + n % 64 * 2
				   : start + n * 128 + k * 2);
}

template <typename T, bool DOWN, int D>
static inline void sim_wgmma(float (&d)[D], const float (&a)[2][16], uint64_t b, int add)
{
	const int t = threadIdx.x % 4;

	for (int n = 0; n < D; n++) {
		const int column = n / 4 * 8 + 2 * t + n % 2;
		float sum = 0.0f;

		for (int k = 0; k < 16; k++)
			sum += a[n / 2 % 2][k] * sim_operand<T, DOWN>(b, column, k);
		d[n] = add ? d[n] + sum : sum;
	}
}

template <typename T, bool DOWN> struct wgmma_shared {
	template <int D> static inline void run(float (&d)[D], uint64_t a, uint64_t b, int add)
	{
		const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
		float left[2][16];

		for (int r = 0; r < 2; r++)
			for (int k = 0; k < 16; k++)
				left[r][k] = sim_operand<T, false>(a, row + 8 * r, k);
		sim_wgmma<T, DOWN>(d, left, b, add);
	}
};

template <typename T, bool DOWN> struct wgmma_registers {
	template <int D>
	static inline void run(float (&d)[D], const uint32_t (&a)[4], uint64_t b, int add = 1)
	{
		float left[2][16];

		for (int e = 0; e < 4; e++)
			for (int t = 0; t < 4; t++) {
				const int lane = threadIdx.x % 32 / 4 * 4 + t;
				const float2 two = unpack2<T>(__shfl_sync(WARP_ALL, a[e], lane));

				left[e % 2][e / 2 * 8 + 2 * t] = two.x;
				left[e % 2][e / 2 * 8 + 2 * t + 1] = two.y;
			}
		sim_wgmma<T, DOWN>(d, left, b, add);
	}
};

static inline void wgmma_begin(void)
{
}
static inline void wgmma_commit(void)
{
}
template <int PENDING> static inline void wgmma_wait(void)
{
}
template <int N> static inline void settle(float (&)[N])
{
}

/* Of a warp. */
static inline unsigned __reduce_max_sync(unsigned mask, unsigned x)
{
	for (int lanes = 1; lanes < 32; lanes *= 2)
		x = max(x, __shfl_xor_sync(mask, x, lanes));
	return x;
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned x)
{
	for (int lanes = 1; lanes < 32; lanes *= 2)
		x = min(x, __shfl_xor_sync(mask, x, lanes));
	return x;
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
	const uint64_t both = (uint64_t)y << 32 | x;
	unsigned result = 0;

	for (int n = 0; n < 4; n++)
		result |= (unsigned)(both >> (selector >> 4 * n & 7) * 8 & 0xff) << 8 * n;
	return result;
}

#endif
