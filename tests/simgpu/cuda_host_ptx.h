/* SPDX-License-Identifier: Apache-2.0
 *
 * The few PTX instructions that our kernels write by hand, for the host build of cuda_host.h.
 *
 * ldmatrix and mma.sync are warp-wide: each lane brings its registers (or addresses), the last
 * lane to arrive computes for all 32 from the register layouts that the PTX manual documents.
 */
#ifndef FASHIM_CUDA_HOST_PTX_H
#define FASHIM_CUDA_HOST_PTX_H

#include "tests/simgpu/cuda_host.h"

struct sim_ldmatrix {
	const unsigned char *row; /* lane 8m+r: where row r of matrix m starts */
	uint32_t *to;
	bool transposed;
};

static inline void sim_ldmatrix_all(void *const *args, unsigned)
{
	for (int m = 0; m < 4; m++) {
		uint16_t element[8][8];
		for (int r = 0; r < 8; r++)
			memcpy(element[r], ((struct sim_ldmatrix *)args[8 * m + r])->row, 16);
		for (int l = 0; l < 32; l++) {
			struct sim_ldmatrix *a = (struct sim_ldmatrix *)args[l];
			int r = l / 4, c = 2 * (l % 4);
			a->to[m] = a->transposed
					   ? element[c][r] | (uint32_t)element[c + 1][r] << 16
					   : element[r][c] | (uint32_t)element[r][c + 1] << 16;
		}
	}
}

static inline void sim_ldmatrix_x4(uint32_t to[4], const void *row, bool transposed)
{
	struct sim_ldmatrix a = {(const unsigned char *)row, to, transposed};
	if ((uintptr_t)row % 16)
		__builtin_trap(); /* as the hardware does */
	sim_warp_meet(0xffffffffu, sim_ldmatrix_all, &a);
}

struct sim_mma {
	float *c;
	const uint32_t *a;
	uint32_t b[2];
};

/* D[16,8] += A[16,16] B[16,8]; `number` turns 16 stored bits into a float. */
template <typename T> static inline float sim_number(uint16_t bits);
template <> inline float sim_number<__half>(uint16_t bits)
{
	return __half2float(__half{bits});
}
template <> inline float sim_number<__nv_bfloat16>(uint16_t bits)
{
	return __bfloat162float(__nv_bfloat16{bits});
}

template <typename T> static inline void sim_mma_all(void *const *args, unsigned)
{
	float a[16][16], b[16][8];

	for (int l = 0; l < 32; l++) {
		const struct sim_mma *m = (const struct sim_mma *)args[l];
		int g = l / 4, t = 2 * (l % 4);
		for (int i = 0; i < 4; i++)
			for (int e = 0; e < 2; e++)
				a[g + (i & 1) * 8][t + (i >> 1) * 8 + e] =
					sim_number<T>((uint16_t)(m->a[i] >> 16 * e));
		for (int i = 0; i < 2; i++)
			for (int e = 0; e < 2; e++)
				b[t + i * 8 + e][g] = sim_number<T>((uint16_t)(m->b[i] >> 16 * e));
	}
	for (int g = 0; g < 16; g++) {
		float row[8] = {0, 0, 0, 0, 0, 0, 0, 0};
		for (int k = 0; k < 16; k++)
			for (int n = 0; n < 8; n++)
				row[n] += a[g][k] * b[k][n];
		for (int t = 0; t < 4; t++) {
			float *c = ((struct sim_mma *)args[g % 8 * 4 + t])->c + g / 8 * 2;
			c[0] += row[2 * t];
			c[1] += row[2 * t + 1];
		}
	}
}

template <typename T>
static inline void sim_mma_m16n8k16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	struct sim_mma m = {c, a, {b0, b1}};
	sim_warp_meet(0xffffffffu, sim_mma_all<T>, &m);
}

/* The nearest number with 10 bits after the point, ties away from 0; NaN and infinity stay. */
static inline uint32_t sim_round_tf32(float x)
{
	const uint32_t bits = sim_bits<uint32_t>(x);
	return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & ~0x1fffu;
}

/* D[16,8] += A[16,8] B[8,8], of whose bits the lowest 13 are not looked at. */
static inline void sim_mma_tf32_all(void *const *args, unsigned)
{
	float a[16][8], b[8][8];

	for (int l = 0; l < 32; l++) {
		const struct sim_mma *m = (const struct sim_mma *)args[l];
		for (int i = 0; i < 4; i++)
			a[l / 4 + (i & 1) * 8][l % 4 + (i >> 1) * 4] =
				sim_bits<float>(m->a[i] & ~0x1fffu);
		for (int i = 0; i < 2; i++)
			b[l % 4 + i * 4][l / 4] = sim_bits<float>(m->b[i] & ~0x1fffu);
	}
	for (int l = 0; l < 32; l++)
		for (int e = 0; e < 4; e++) {
			float *c = &((struct sim_mma *)args[l])->c[e], sum = 0.0f;
			for (int k = 0; k < 8; k++)
				sum += a[l / 4 + e / 2 * 8][k] * b[k][l % 4 * 2 + e % 2];
			*c += sum;
		}
}

static inline void sim_mma_m16n8k8_tf32(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	struct sim_mma m = {c, a, {b0, b1}};
	sim_warp_meet(0xffffffffu, sim_mma_tf32_all, &m);
}

#endif
