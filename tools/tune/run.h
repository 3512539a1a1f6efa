/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning on the GPU here: form by form, each result put into the cache as soon as it is known.
 */
#ifndef FASHIM_TUNE_RUN_H
#define FASHIM_TUNE_RUN_H

#include "tools/tune/print.h"
#include "tools/tune/shapes.h"

struct tune_settings {
	int top, rounds; /* as in struct sweep */
	uint64_t seed;
	const char *library; /* libfashim_kernels.so; NULL: the one beside the command */
	const char *cache;   /* its file; NULL: the machine's own */
};

struct tune_outcome {
	struct tune_section section;
	int failed; /* forms without a result, each with a line on stderr */
	int lost;   /* results that could not be put into the cache, likewise */
	bool interrupted, simulated;
};

/* Tunes all forms; SIGINT ends it with what there is. Progress on stderr. 0, or -errno with one
 * line on stderr where nothing could be begun; for tune_outcome_free() in any case. */
int tune_run(struct tune_outcome *outcome, const struct tune_shapes *shapes,
	     const struct tune_settings *settings);
void tune_outcome_free(struct tune_outcome *outcome);

#endif
