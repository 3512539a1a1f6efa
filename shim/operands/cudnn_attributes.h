/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes of cuDNN's backend descriptors, by the numbers of cudnnBackendAttributeName_t, and
 * what each means for the memory that a call touches.
 */
#ifndef FASHIM_CUDNN_ATTRIBUTES_H
#define FASHIM_CUDNN_ATTRIBUTES_H

enum cudnn_meaning {
	PLAIN,
	READ,
	WHOLE,
	BLENDED,
	WRITTEN,
	UPDATED,
	BETA,
	OPERATIONS,
	GRAPH,
	TENSOR,
	PACK,
	UNHEARD /* not in the table */
};

enum cudnn_attribute {
#define ATTRIBUTE(name, number, meaning) name = (number),
#include "shim/operands/cudnn_attributes.def"
};

enum cudnn_meaning cudnn_meaning(int attribute);

#endif
