/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from -4 to 4: a sum of 64 products is at most 1024, and f16 holds whole numbers up to
 * 2048.
 */
#include "tools/bench/tile.h"
#include "tools/base/tool.h"

#include "tools/base/half.h"

#include <errno.h>
#include <stdlib.h>

static int value_of_a(int i, int l)
{
	return (i * 7 + l * 3) % 9 - 4;
}

static int value_of_b(int l, int j)
{
	return (l * 5 + j * 11 + l * j) % 9 - 4;
}

static int value_of_c(const struct tile *tile, int i, int j)
{
	int sum = 0;

	for (int l = 0; l < tile->k; l++)
		sum += value_of_a(i, l) * value_of_b(l, j);
	return sum;
}

static void write_matrix(uint16_t *to, int rows, int columns, int (*value)(int, int))
{
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
			*to++ = float_to_f16((float)value(i, j));
}

static size_t inputs_of(const struct tile *tile)
{
	return (size_t)tile->k * (size_t)(tile->m + tile->n);
}

static size_t outputs_of(const struct tile *tile)
{
	return (size_t)tile->m * (size_t)tile->n;
}

int tile_make(struct tile *tile, const struct blas *blas, int m, int n, int k)
{
	const struct gpu *gpu = blas->gpu;
	uint16_t *host;
	int result;

	*tile = (struct tile){blas, m, n, k, 0};
	host = malloc(inputs_of(tile) * sizeof(*host));
	if (!host) {
		complain("out of memory");
		return -ENOMEM;
	}
	write_matrix(host, m, k, value_of_a);
	write_matrix(host + m * k, k, n, value_of_b);
	result = gpu_check(
		gpu,
		gpu->driver.cuMemAlloc(&tile->memory,
				       (inputs_of(tile) + outputs_of(tile)) * sizeof(*host)),
		"allocating a tile");
	if (!result)
		result = gpu_check(gpu,
				   gpu->driver.cuMemcpyHtoD(tile->memory, host,
							    inputs_of(tile) * sizeof(*host)),
				   "filling a tile");
	free(host);
	return result;
}

void tile_free(struct tile *tile)
{
	if (tile->memory)
		tile->blas->gpu->driver.cuMemFree(tile->memory);
	tile->memory = 0;
}

static int enqueue_tile(void *subject, int n, CUstream stream)
{
	const struct tile *tile = subject;
	const CUdeviceptr second = tile->memory + 2 * (CUdeviceptr)(tile->m * tile->k);
	const struct blas_matrix a = {tile->memory, tile->k, 0, false};
	const struct blas_matrix b = {second, tile->n, 0, false};
	const struct blas_matrix c = {tile->memory + 2 * inputs_of(tile), tile->n, 0, false};

	(void)n;
	(void)stream; /* cuBLAS has it */
	return blas_product(tile->blas, &a, &b, &c, tile->m, tile->n, tile->k, 1, 1, ATTN_F16);
}

struct gpu_work tile_work(struct tile *tile)
{
	return (struct gpu_work){enqueue_tile, tile, 1};
}

static bool is_exact(const struct tile *tile, const uint16_t *c)
{
	for (int i = 0; i < tile->m; i++)
		for (int j = 0; j < tile->n; j++)
			if (f16_to_float(*c++) != (float)value_of_c(tile, i, j))
				return false;
	return true;
}

int tile_check(const struct tile *tile, bool *exact)
{
	const struct gpu *gpu = tile->blas->gpu;
	const size_t bytes = outputs_of(tile) * sizeof(uint16_t);
	uint16_t *c = malloc(bytes);
	int result = c ? enqueue_tile((void *)(uintptr_t)tile, 0, gpu->stream) : -ENOMEM;

	if (!c)
		complain("out of memory");
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuStreamSynchronize(gpu->stream), "a tile");
	if (!result)
		result = gpu_check(
			gpu, gpu->driver.cuMemcpyDtoH(c, tile->memory + 2 * inputs_of(tile), bytes),
			"reading a tile");
	*exact = !result && is_exact(tile, c);
	free(c);
	return result;
}
