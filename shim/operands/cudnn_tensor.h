/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in cuDNN's words: its element types, and the description that a backend descriptor is
 * given piece by piece.
 */
#ifndef FASHIM_CUDNN_TENSOR_H
#define FASHIM_CUDNN_TENSOR_H

#include "shim/operands/operands.h"

/* Bytes of one element of a cudnnDataType_t; 0 for types that come in vectors or bits. */
uint64_t cudnn_type_bytes(int type);

struct cudnn_tensor {
	struct tensor shape;
	int64_t id;
	bool is_virtual; /* no memory of the program's */
	bool by_value;	 /* one value in host memory */
	bool has_id, has_strides;
};

/* An attribute was set; the arguments are those of cudnnBackendSetAttribute. Returns whether what
 * it says is understood. */
bool cudnn_tensor_set(struct cudnn_tensor *tensor, int name, int type, int64_t count,
		      const void *array);

#endif
