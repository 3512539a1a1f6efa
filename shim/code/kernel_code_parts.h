/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of images share: cubins (kernel_code_cubin.c), PTX (kernel_code_ptx.c), fat
 * binaries, and what simulated GPUs load instead (kernel_code_image.c). Each adds to a table, for
 * every kernel of an image, what that kernel is not certain to leave alone. Images are whatever
 * lies in the program's memory: nothing outside the given bytes is read.
 */
#ifndef FASHIM_KERNEL_CODE_PARTS_H
#define FASHIM_KERNEL_CODE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/code/kernel_code.h"

/* What a kernel may do; 0: none of it. The rows stand in kernel_code.def, the gravest first. */
enum kernel_deed {
#define DEED(name, words) DEED_INDEX_##name,
#include "shim/code/kernel_code.def"
	DEEDS,
#define DEED(name, words) DEED_##name = 1 << DEED_INDEX_##name,
#include "shim/code/kernel_code.def"
};

/* Of code for that architecture (its major * 10 + minor), which begins with the kernel's own, as it
 * can be told by that alone (kernel_code_follows.c). */
enum code_reach code_reach_of(const unsigned char *code, size_t bytes, unsigned sm);

/* Beside its deeds: nothing is proven of where a kernel's addresses come from. */
#define CODE_UNPROVEN (1u << 30)

/* It was not looked into: only where the kernel that is asked about takes its addresses from is
 * found out (code_table.wanted). */
#define CODE_UNREAD (1u << 28)

/* Or what a simulated GPU runs says of itself that it is near. */
#define CODE_SAYS_NEAR (1u << 29)

/* Or a variable of its module may hold an address; compilers' own for strings hold none. */
#define CODE_KEEPS (1u << 27)

static inline bool code_is_string(const char *name, size_t length)
{
	return (length >= 4 && !memcmp(name, "$str", 4)) ||
	       (length >= 10 && !memcmp(name, "__unnamed_", 10));
}

/* The instructions of a kernel, and of the functions behind it in its section. */
struct code_text {
	unsigned char *code; /* to be freed; NULL: not to be had */
	size_t bytes;
	unsigned sm;
	bool several; /* there are, that differ, or the loader changes more than what is moved */
	/* Where in constant bank 4 these are, counted from 1; 0: nowhere, or not in the same place
	 * in all that there are: __assertfail, and a table of the compiler's, 2/pi in words. */
	uint32_t asserts, turns;
};

#define CODE_TURNS 24 /* bytes of it */

/* An image has the wanted kernel with that code, whose memory goes over. */
void code_text_put(struct code_text *text, const struct code_text *own);

/* Kernels by a hash of their name, sorted once they are all in. */
struct code_table {
	size_t count, room;
	struct code_row {
		uint64_t name;
		uint32_t deeds;
		uint32_t layout; /* where in `places` it begins, counted from 1; 0: not known */
	} * rows;
	bool layouts;		/* are wanted */
	const char *wanted;	/* the kernel whose addresses are traced; NULL: those of all */
	struct code_text *text; /* of the wanted kernel: it is put here; NULL: it is not */
	uint16_t *places; /* of each layout: how many parameters, then their offsets and sizes */
	size_t place_count, place_room;
};

/* Where a kernel's parameters lie. */
#define CODE_PARAMS 64
struct code_layout {
	unsigned count; /* more than there is room for: not known */
	uint16_t offset[CODE_PARAMS], size[CODE_PARAMS];
};

/* A kernel that is in there already has both deeds from then on. false: no memory. */
bool code_table_add(struct code_table *table, const char *name, size_t length, uint32_t deeds);

/* The layout of the kernel that was added last; nothing happens where it is not known, or none are
 * wanted. false: no memory. Two of a kernel that differ make it unknown. */
bool code_table_place(struct code_table *table, const struct code_layout *layout);

/* What two rows of one kernel say together. */
uint32_t code_layout_of_both(const struct code_table *table, uint32_t one, uint32_t other);

/* false: not known. */
bool code_table_layout(const struct code_table *table, const char *name,
		       struct code_layout *layout);

/* Before the first look. */
void code_table_sort(struct code_table *table);

/* NULL: it is not in there. */
struct code_row *code_table_row(const struct code_table *table, const char *name, size_t length);

/* DEED_UNKNOWN where it is not in there. */
uint32_t code_table_deeds(const struct code_table *table, const char *name);

void code_table_free(struct code_table *table);

/* 0, -EINVAL: not understood, -E2BIG: more than is looked at, -ENOMEM. */
int code_read_cubin(const unsigned char *image, size_t bytes, struct code_table *table);
int code_read_ptx(const char *text, size_t bytes, struct code_table *table);

/* The GPUs of this machine, major * 10 + minor. */
struct code_targets {
	unsigned count;
	uint16_t sm[16];
};

/* Any image as the driver takes it, whose kernels are to run on one of these. */
int code_read_image(const unsigned char *image, size_t bytes, const struct code_targets *targets,
		    struct code_table *table);

/* How many bytes an image says it has that the driver took; 0: it is none. A fat binary's wrapper
 * is not one itself: *image becomes what it leads to. */
size_t code_image_bytes(const void **image);

/* Is that image a fat binary? */
bool code_is_fatbin(const void *image);

#endif
