/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels would be tried, without a GPU.
 */
#ifndef FASHIM_TUNE_TRIALS_H
#define FASHIM_TUNE_TRIALS_H

#include "tools/base/format.h"
#include "tools/tune/shapes.h"

/* Prints every kernel of an architecture that takes a form, the built-in choice first. */
void tune_trials_print(const struct tune_shapes *shapes, int arch, enum format format);

#endif
