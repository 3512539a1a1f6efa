/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim bench: what is asked of a run, what is open during one, and how it becomes a document.
 */
#ifndef FASHIM_BENCH_H
#define FASHIM_BENCH_H

#include "tools/bench/blas.h"
#include "tools/bench/referee.h"
#include "tools/gpu/gpu_operands.h"

#include <jansson.h>

struct bench_options {
	struct gpu_shape shape;
	uint64_t seed;
	int rounds;	    /* 0: what suits the run */
	int cases;	    /* random ones, for correctness */
	const char *kernel; /* candidate of the gate; NULL: the one that would be chosen */
	const char *library, *cublas, *python, *script; /* files; NULL: found */
	bool no_python;
};

struct bench {
	const struct bench_options *options;
	struct gpu gpu;
	struct blas blas;
	struct referee referee;
	bool has_torch;
	struct gpu_operands *sets;
	int set_count;
};

/* A whole run: opens, calls `measure` with a document that says what is measured on what
 * ("format","version","machine","shape","seed","rounds","tolerance"), and closes. rounds: where the
 * options name none. The document, or NULL with one line on stderr. */
json_t *bench_run(const struct bench_options *options, const char *format, int rounds,
		  int (*measure)(struct bench *bench, json_t *document, int rounds));

#endif
