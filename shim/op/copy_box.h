/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills in two and three dimensions as ops. What is not linear memory makes a copy one
 * that may do anything.
 */
#ifndef FASHIM_COPY_BOX_H
#define FASHIM_COPY_BOX_H

#include "shim/op/op.h"

void copy_box_2d(struct op *op, const CUDA_MEMCPY2D *copy);
void copy_box_3d(struct op *op, const CUDA_MEMCPY3D *copy);
void copy_box_3d_peer(struct op *op, const CUDA_MEMCPY3D_PEER *copy);

/* `height` rows of `width` bytes, `pitch` bytes apart. */
void fill_box(struct op *op, CUdeviceptr target, size_t pitch, size_t width, size_t height);

#endif
