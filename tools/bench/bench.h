/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim bench: what is asked of a run, what is open during one, and the document of JSON that it
 * makes. Everything that is shown (table, CSV, picture, verdict) is made from such a document, so a
 * kept one can be shown again anywhere.
 */
#ifndef FASHIM_BENCH_H
#define FASHIM_BENCH_H

#include "tools/bench/blas.h"
#include "tools/bench/referee.h"
#include "tools/base/json_member.h"
#include "tools/gpu/gpu_operands.h"

#include <jansson.h>

/* A chain of calls that keeps scores and weights in 16 bits may be off by so many times what a
 * fused kernel may; one that is off by more does not compute attention. */
#define BENCH_CHAIN 16

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

/* ---- reading documents ---- */

/* A kept document, of that "format" and version 1; NULL with one line on stderr. */
json_t *bench_load(const char *path, const char *format);

/* "us" of a record: how many, sorted upwards, in *us for free(). */
size_t bench_times(const json_t *record, double **us);

/* Their median; NAN of none. half_range: half of what lies between the least and the most. */
double bench_median(const json_t *record, double *half_range);

/* A number member, NAN where there is none. */
double bench_number(const json_t *object, const char *key);

/* One line about machine and shape: "NVIDIA H200, driver …, B1 H8 …". */
void bench_print_head(FILE *out, const json_t *document);

#endif
