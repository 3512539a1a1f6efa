/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library's call declares to touch, collected while a hook reads its arguments: pointers
 * with sizes, and tensors with dimensions and strides. Whatever cannot be said exactly makes the
 * whole call unknown.
 */
#ifndef FASHIM_OPERANDS_H
#define FASHIM_OPERANDS_H

#include "shim/op/op.h"

#define TENSOR_RANK 12

struct tensor {
	int rank;
	int64_t dim[TENSOR_RANK], stride[TENSOR_RANK]; /* in elements; a stride may be negative */
	uint64_t element;			       /* bytes */
};

/* Bytes [*low, *high) around the first element's address; both 0 for an empty tensor. *dense: each
 * byte of them belongs to just one element. false: no such tensor fits into memory. */
bool tensor_extent(const struct tensor *tensor, int64_t *low, int64_t *high, bool *dense);

/* Bytes of one element, 0 for a type that is not known or does not fill whole bytes. */
uint64_t operands_type_bytes(cudaDataType type);

enum operand_use {
	OPERAND_READ = 1,
	OPERAND_WRITTEN = 2, /* some of it may be, and nothing is read */
	OPERAND_UPDATED = 3, /* may be read, may be written */
	OPERAND_WHOLE = 4,   /* all of it is overwritten unread, if it is dense */
	/* Room that the library asked for, to work in: what lies there before the call means
	 * nothing to it, what lies there afterwards to nobody, whichever bytes it used. So what was
	 * there is gone, as if all of it were overwritten. */
	OPERAND_SCRATCH = 6,
};

struct operands {
	struct op_library library;
	bool unknown;
};

/* An address of NULL and an empty range add nothing. */
void operands_add(struct operands *operands, const void *address, uint64_t bytes,
		  enum operand_use use);

/* The same for count * element bytes; a negative count makes the call unknown. */
void operands_add_array(struct operands *operands, const void *address, int64_t count,
			uint64_t element, enum operand_use use);

void operands_add_tensor(struct operands *operands, const void *address,
			 const struct tensor *tensor, enum operand_use use);

/* Call it last. Puts what is read first, and what overlaps something read is no longer whole.
 * Returns whether all is known. */
bool operands_settle(struct operands *operands);

#endif
