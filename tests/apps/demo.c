/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention the way many programs still spell it: two cuBLAS products with a scale, a mask and a
 * softmax kernel in between, layer after layer, scores and probabilities written out each time.
 *
 *     demo [layers]
 *
 * B=1, H=4, S=256, D=64, fp16, causal. Prints the checksum and the mean of the sum of all layers'
 * outputs.
 */
#include "app.h"

#include <math.h>
#include <stdlib.h>

enum { HEADS = 4, ROWS = 256, DEPTH = 64, LAYERS = 24 };

int main(int argc, char **argv)
{
	int layers = argc > 1 ? atoi(argv[1]) : LAYERS;
	const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
	const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;
	struct app_report report = {0};
	struct app app;

	if (layers < 1)
		layers = LAYERS;
	app_open(&app, NULL);
	CUdeviceptr q = app_alloc(n * 2), k = app_alloc(n * 2), v = app_alloc(n * 2);
	CUdeviceptr o = app_alloc(n * 2), sum = app_alloc(n * 4);
	CUdeviceptr s = app_alloc(scores * 2), p = app_alloc(scores * 2);
	CUdeviceptr mask = app_alloc((size_t)ROWS * ROWS * 2);
	app_upload_causal(mask, ROWS, ROWS);
	CHECK(cuMemsetD32(sum, 0, n));
	for (int layer = 0; layer < layers; layer++) {
		long long count = (long long)n;
		app_upload_random(q, n, 3 * layer);
		app_upload_random(k, n, 3 * layer + 1);
		app_upload_random(v, n, 3 * layer + 2);
		app_scores(&app, shape, q, k, s);
		app_scale(&app, s, s, 1 / sqrtf(DEPTH), scores);
		app_add_mask(&app, p, s, mask, scores, (size_t)ROWS * ROWS);
		app_softmax(&app, s, p, (size_t)HEADS * ROWS, ROWS);
		app_context(&app, shape, s, v, o);
		app_launch(&app, app.accumulate, (unsigned)((n + 255) / 256), 256,
			   (void *[]){&sum, &o, &count});
	}
	float *result = malloc(n * 4);
	if (!result)
		return 2;
	CHECK(cuMemcpyDtoH(result, sum, n * 4));
	double total = 0;
	for (size_t i = 0; i < n; i++)
		total += result[i];
	printf("attention: %d layers of B=1 H=%d S=%d D=%d, fp16, causal\n", layers, HEADS, ROWS,
	       DEPTH);
	app_observe_f32(&report, "sum", layers, result, n);
	app_report(&report);
	printf("checksum %.4f mean %.6f\n", total, total / (double)n / layers);
	free(result);
	app_close(&app);
	return 0;
}
