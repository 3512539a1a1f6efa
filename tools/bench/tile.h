/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest things that cuBLAS can be asked: single products of a tile's size, of small whole
 * numbers, which must come out exactly.
 */
#ifndef FASHIM_BENCH_TILE_H
#define FASHIM_BENCH_TILE_H

#include "tools/bench/blas.h"
#include "tools/gpu/gpu_timer.h"

/* C[m,n] = A[m,k] B[k,n], f16, row by row. */
struct tile {
	const struct blas *blas;
	int m, n, k;
	CUdeviceptr memory; /* A, B, C */
};

/* 0 or -errno with one line on stderr; for tile_free() in any case. */
int tile_make(struct tile *tile, const struct blas *blas, int m, int n, int k);
void tile_free(struct tile *tile);

/* What gpu_timer_make() takes. */
struct gpu_work tile_work(struct tile *tile);

/* Runs it once; *exact: is every element of C what whole numbers give? 0 or -errno with one line on
 * stderr. */
int tile_check(const struct tile *tile, bool *exact);

#endif
