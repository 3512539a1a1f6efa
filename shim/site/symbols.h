/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that addresses lie in, as dladdr() finds them, but for all addresses of an object
 * at once: it goes through every symbol for each, and a library like PyTorch's has a quarter of a
 * million.
 */
#ifndef FASHIM_SYMBOLS_H
#define FASHIM_SYMBOLS_H

#include "shim/real/image.h"

struct symbol_at {
	uintptr_t address;
	const char *name; /* NULL: no symbol that is exported has it; else as the object keeps it */
	uintptr_t begin;
};

/* Fills in what is asked of addresses in `image`, in the order of the addresses. false: the object
 * has no table that tells how many symbols there are. */
bool symbols_find(const struct image *image, struct symbol_at *asked, int count);

#endif
