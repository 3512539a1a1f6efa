/* SPDX-License-Identifier: Apache-2.0
 *
 * The launches of app.h in ATen's shape, on app->stream: same results, names and parameter blocks
 * that real programs show.
 */
#ifndef FASHIM_APP_ATEN_H
#define FASHIM_APP_ATEN_H

#include "app.h"

/* Finds the kernels of aten.cu in app->module. */
void aten_load_functions(struct app *app);
void aten_scale(struct app *app, CUdeviceptr out, CUdeviceptr in, float factor, size_t n);
void aten_add_mask(struct app *app, CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask, size_t n,
		   size_t period);
/* Of scores [heads,rows,columns], size[] in this order, what a mask of bytes hides that has such
 * strides in head and row, in place. The one of them that has no other shape. */
void aten_masked_fill(struct app *app, CUdeviceptr scores, CUdeviceptr mask, const unsigned size[3],
		      const unsigned stride[2], float value);
void aten_softmax(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t rows, int columns);
void aten_copy(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n);
void aten_split_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		      int depth);
void aten_repeat_head(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		      int depth);
/* To every other element from `out` on. */
void aten_interleave(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n);
void aten_fill(struct app *app, CUdeviceptr out, float value, size_t n);

#endif
