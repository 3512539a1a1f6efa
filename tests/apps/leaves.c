/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that ends with its probabilities still to be read: an exit handler does, which was
 * registered before the first product, and so runs after whatever cuBLAS has to tear down.
 *
 *     leaves return|exit|error     the latter by glibc's error(), and nobody reads anything
 */
#include "app.h"

#include <error.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, ROWS = 48, DEPTH = 32, REPETITIONS = 12, STATUS = 3 };

static const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
static const struct app_shape other = {1, ROWS, ROWS, DEPTH}; /* of no attention */
static const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;

static struct app app;
static struct app_report report;
static CUdeviceptr q, k, v, o, s, p, rest;

static void read_late(void)
{
	app_observe(&report, "P", REPETITIONS, p, scores);
	app_report(&report);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "return";

	app_open(&app, NULL);
	if (strcmp(way, "error") != 0)
		atexit(read_late);
	q = app_alloc(n * 2), k = app_alloc(n * 2), v = app_alloc(n * 2);
	o = app_alloc(n * 2), s = app_alloc(scores * 2), p = app_alloc(scores * 2);
	rest = app_alloc((size_t)ROWS * ROWS * 2);
	for (int r = 0; r < REPETITIONS; r++) {
		app_upload_random(q, n, 3 * (uint64_t)r);
		app_upload_random(k, n, 3 * (uint64_t)r + 1);
		app_upload_random(v, n, 3 * (uint64_t)r + 2);
		app_scores(&app, shape, q, k, s);
		app_scale(&app, s, s, 1 / sqrtf(DEPTH), scores);
		app_softmax(&app, p, s, (size_t)HEADS * ROWS, ROWS);
		app_context(&app, shape, p, v, o);
		app_scores(&app, other, o, k, rest);
		app_observe(&report, "O", r, o, n);
	}
	if (!strcmp(way, "error")) {
		app_report(&report);
		fflush(stdout);
		error(STATUS, 0, "left by error()");
	}
	if (!strcmp(way, "exit"))
		exit(STATUS);
	return STATUS;
}
