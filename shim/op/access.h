/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op touches: byte ranges, where the pointer to them came from, and by what we know it.
 *
 * A pointer gives a start, not a length, and nothing is guessed. There are four grades of
 * knowledge, and only the first three let anything of the program's stay virtual that the op might
 * touch:
 *
 *   declared   GEMMs, copies, fills, calls of libraries with descriptors: the call says it
 *   ruled      the launch's parameter block is understood and checked (rules.h), or the kernel's
 *              code was run for what it makes of it (extent.h)
 *   measured   this kernel, grid and constants were launched on copies (measure.h, addresses.h)
 *   unknown    every byte of each allocation that it holds a pointer into, from its base on, since
 *              kernels are given a middle and walk back, or a base and offsets: read and written
 */
#ifndef FASHIM_ACCESS_H
#define FASHIM_ACCESS_H

#include <string.h>

#include "shim/op/op.h"

#define ACCESS_MAX 64

enum access_mode {
	ACCESS_READ = 1,
	ACCESS_WRITE = 2,
	ACCESS_UNKNOWN = 3, /* may do either */
};

enum access_grade { GRADE_DECLARED, GRADE_RULED, GRADE_MEASURED, GRADE_UNKNOWN };

struct access {
	uint64_t pointer; /* where the op was told that it begins */
	uint64_t begin;	  /* first byte that it may touch: the pointer, where that is known */
	uint64_t end;	  /* beyond the last */
	uint64_t
		sure_end; /* writes: every byte of [begin, sure_end) is overwritten, none is read */
	uint32_t comb;	  /* writes: so many bytes, from `begin` on, … */
	uint32_t pitch; /* … of every so many, are overwritten and the others are left: every other
			   element, or part of each row; 0: not so. Nothing is sure then */
	uint64_t left;	/* writes: some bytes are left alone, and where this number and `begin` are
			   the same, the same ones; 0: that is not known. Nothing is sure then */
	enum access_mode mode;
	enum access_grade grade;
	bool bounded; /* end comes from a rule or an exact extent, not from the allocation */
	int where;    /* launch: byte offset of the pointer in the parameters; GEMM: 0 A, 1 B, 2 C,
			 3 extra, 4 C beside D, 5 workspace, 6 others; else 0 */
};

struct access_list {
	int count;
	bool opaque; /* more than the list can say: may touch anything */
	bool far;    /* an unknown kernel that may follow addresses in memory (reach.h): as opaque,
			but for the chain that it belongs to */
	bool unsettled; /* an answer is on its way that may say less of an unknown kernel, … */
	bool dear;	/* … or could be had from its code once that can be afforded */
	struct access item[ACCESS_MAX];
};

/* Adds one entry; a full list turns opaque. Without a pointer it is where the range begins. */
static inline void access_add(struct access_list *list, struct access access)
{
	if (access.begin >= access.end)
		return;
	if (list->count == ACCESS_MAX) {
		list->opaque = true;
		return;
	}
	if (!access.pointer)
		access.pointer = access.begin;
	list->item[list->count++] = access;
}

/* What is in the list, without the room that it has left. */
static inline void access_copy(struct access_list *to, const struct access_list *from)
{
	memcpy(to, from,
	       offsetof(struct access_list, item) + (size_t)from->count * sizeof(*from->item));
}

/* Is it unknown of any entry what is touched there? */
static inline bool access_any_unknown(const struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].grade == GRADE_UNKNOWN)
			return true;
	return false;
}

#endif
