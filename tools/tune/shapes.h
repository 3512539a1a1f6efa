/* SPDX-License-Identifier: Apache-2.0
 *
 * Which forms of call are to be tuned: those of logs, those that were named, or ten usual ones.
 */
#ifndef FASHIM_TUNE_SHAPES_H
#define FASHIM_TUNE_SHAPES_H

#include "shim/gpu/call_form.h"

struct tune_shapes {
	struct call_form *forms; /* each once, as the call that it is rebuilt to has it */
	int count;
};

/* A form as text (call_form.h). 0, -EINVAL, -ENOTSUP for what cannot be rebuilt, -ENOMEM. */
int tune_shapes_add(struct tune_shapes *shapes, const char *text);

/* Every site of a log, or of the logs of a folder, in their order; what cannot be used is said on
 * stderr. 0 or -errno, then nothing could be read. */
int tune_shapes_add_log(struct tune_shapes *shapes, const char *path);

/* Text models, image models and decoding. 0 or -ENOMEM. */
int tune_shapes_add_usual(struct tune_shapes *shapes);

void tune_shapes_free(struct tune_shapes *shapes);

#endif
