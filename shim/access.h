/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op touches: byte ranges, how sure we are of them, and where the pointer came from.
 *
 * A pointer gives a start, not a length. GEMMs, copies and fills have exact extents, a rule gives
 * them for known kernels, and for any other kernel every byte from the pointer to the end of its
 * allocation may be touched, read and written.
 */
#ifndef FASHIM_ACCESS_H
#define FASHIM_ACCESS_H

#include "function.h"
#include "op.h"

#define ACCESS_MAX 64

enum access_mode {
	ACCESS_READ = 1,
	ACCESS_WRITE = 2,
	ACCESS_UNKNOWN = 3, /* may do either */
};

struct access {
	uint64_t begin;
	uint64_t end; /* beyond the last byte it may touch */
	uint64_t
		sure_end; /* writes: every byte of [begin, sure_end) is overwritten, none is read */
	enum access_mode mode;
	bool bounded; /* end comes from a rule or an exact extent, not from the allocation */
	int where;    /* launch: byte offset of the pointer in the parameters; GEMM: 0 A, 1 B, 2 C,
			 3 extra; else 0 */
};

struct access_list {
	int count;
	bool opaque; /* more than the list can say: may touch anything */
	struct access item[ACCESS_MAX];
};

/* params: the launch's parameters as function_read_params() copied them, NULL when unreadable;
 * ignored for other kinds. Flow lock held. */
void access_of_op(struct access_list *list, const struct op *op, const struct function *function,
		  const unsigned char *params);

/* Adds one entry; a full list turns opaque. */
void access_add(struct access_list *list, struct access access);

#endif
