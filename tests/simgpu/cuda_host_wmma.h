/* SPDX-License-Identifier: Apache-2.0
 *
 * nvcuda::wmma for the host build of cuda_host.h: 16x16x16 products of __half, summed in float.
 *
 * A fragment is spread over the lanes in a way that the CUDA manual leaves open, so programs may
 * only load, store and multiply it, or treat all its elements alike. Here lane l has half a row:
 * row l / 2, columns l % 2 * 8 on. As on a GPU, loads and stores are each lane's own: what another
 * lane wrote is there after a barrier only.
 */
#ifndef FASHIM_CUDA_HOST_WMMA_H
#define FASHIM_CUDA_HOST_WMMA_H

#include "tests/simgpu/cuda_host.h"

namespace nvcuda
{
namespace wmma
{

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
	static_assert(M == 16 && N == 16 && K == 16, "the one shape there is here");
	static constexpr int num_elements = 8;
	T x[num_elements];
};

typedef fragment<accumulator, 16, 16, 16, float> sim_sums;

/* Element e of this lane, in a matrix whose rows or columns lie `line` elements apart. */
static inline size_t sim_fragment_at(int e, unsigned line, bool columns)
{
	unsigned row = sim_current->lane / 2, column = sim_current->lane % 2 * 8 + (unsigned)e;

	return columns ? column * (size_t)line + row : row * (size_t)line + column;
}

/* What the manual asks of addresses and of distances. */
template <typename T> static inline void sim_fragment_check(const T *at, unsigned line)
{
	if ((uintptr_t)at % 32 || line * sizeof(T) % 16)
		__builtin_trap();
}

template <typename Use, typename T, typename Layout>
static inline void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout> &f, const T *at,
				    unsigned line)
{
	sim_fragment_check(at, line);
	for (int e = 0; e < f.num_elements; e++)
		f.x[e] = at[sim_fragment_at(e, line, std::is_same<Layout, col_major>::value)];
}

static inline void load_matrix_sync(sim_sums &f, const float *at, unsigned line, layout_t layout)
{
	sim_fragment_check(at, line);
	for (int e = 0; e < f.num_elements; e++)
		f.x[e] = at[sim_fragment_at(e, line, layout == mem_col_major)];
}

static inline void store_matrix_sync(float *at, const sim_sums &f, unsigned line, layout_t layout)
{
	sim_fragment_check(at, line);
	for (int e = 0; e < f.num_elements; e++)
		at[sim_fragment_at(e, line, layout == mem_col_major)] = f.x[e];
}

template <typename Fragment, typename T> static inline void fill_fragment(Fragment &f, const T &x)
{
	for (int e = 0; e < f.num_elements; e++)
		f.x[e] = x;
}

struct sim_product {
	const __half *a, *b; /* the lane's elements */
	const float *c;
	float *d;
};

static inline void sim_product_all(void *const *args, unsigned)
{
	float b[16][16], row[16];

	for (int k = 0; k < 16; k++)
		for (int n = 0; n < 16; n++)
			b[k][n] = __half2float(
				((const struct sim_product *)args[2 * k + n / 8])->b[n % 8]);
	for (int m = 0; m < 16; m++) {
		const struct sim_product *half[2] = {(const struct sim_product *)args[2 * m],
						     (const struct sim_product *)args[2 * m + 1]};
		memset(row, 0, sizeof(row));
		for (int k = 0; k < 16; k++) {
			const float a = __half2float(half[k / 8]->a[k % 8]);
			for (int n = 0; n < 16; n++)
				row[n] += a * b[k][n];
		}
		for (int n = 0; n < 16; n++)
			half[n / 8]->d[n % 8] = half[n / 8]->c[n % 8] + row[n];
	}
}

template <typename LayoutA, typename LayoutB>
static inline void mma_sync(sim_sums &d, const fragment<matrix_a, 16, 16, 16, __half, LayoutA> &a,
			    const fragment<matrix_b, 16, 16, 16, __half, LayoutB> &b,
			    const sim_sums &c)
{
	struct sim_product p = {a.x, b.x, c.x, d.x};

	sim_warp_meet(0xffffffffu, sim_product_all, &p);
}

} /* namespace wmma */
} /* namespace nvcuda */

#endif
