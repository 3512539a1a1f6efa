/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that take a form of call, made ready on a GPU to be checked and timed.
 */
#ifndef FASHIM_TUNE_CONTEST_H
#define FASHIM_TUNE_CONTEST_H

#include "kernels/takes.h"
#include "shim/gpu/call_form.h"
#include "tools/gpu/gpu_timer.h"
#include "tools/gpu/gpu_truth.h"
#include "tools/tune/sweep.h"

/* Of attn_variants: which are there. */
struct contest_kernels {
	uint8_t available[ATTN_VARIANTS_MOST];
	int arch;
};

/* Those of an architecture, with all of its own; without a look at any GPU. */
void contest_kernels_of(struct contest_kernels *kernels, int arch);

/* Those of libfashim_kernels.so. 0, or -ENOENT with one line on stderr where that is of another
 * version than this command. */
int contest_kernels_here(struct contest_kernels *kernels, const struct gpu *gpu);

/* Indices into attn_variants of those that take the call, at most `most`; the built-in choice comes
 * first. How many: 0 where none does. The ladder's are no candidates. */
int contest_candidates(const struct contest_kernels *kernels, const struct attn_args *args,
		       int *candidates, int most);

struct contest {
	const struct gpu *gpu;
	const int *variants; /* indices, one for each candidate */
	int count;
	struct gpu_operands memory;
	struct gpu_operands *sets; /* the same call on memory of its own each */
	int set_count;
	struct gpu_truth truth;
	CUevent begin, end;
	struct contestant {
		struct gpu_variant variant;
		struct gpu_timer timer;
		bool made, timed;
	} * contestants;
};

/* Makes operands for a form, normal numbers from the seed, and computes the truth. Few queries for
 * many keys find K and V cold, as they do in a program that decodes, all others find them in the
 * cache, as behind the projections. 0 or -errno with one line on stderr; for contest_free() in any
 * case. */
int contest_make(struct contest *contest, const struct gpu *gpu, const struct call_form *form,
		 const int *variants, int count, uint64_t seed);
void contest_free(struct contest *contest);

/* For sweep_run(). */
struct sweep_measure contest_measure(struct contest *contest);

#endif
