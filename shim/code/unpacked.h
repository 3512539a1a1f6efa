/* SPDX-License-Identifier: Apache-2.0
 *
 * What was unpacked of images a moment ago. An image is read again for each of its kernels that is
 * asked about, and unpacking it takes longer than all that is read.
 *
 * All functions: one thread at a time.
 */
#ifndef FASHIM_UNPACKED_H
#define FASHIM_UNPACKED_H

#include <stdbool.h>
#include <stddef.h>

/* What `bytes` bytes are packed in. */
struct packed {
	const unsigned char *content;
	size_t size, bytes;
	bool lz4; /* else Zstandard */
};

/* Into *plain, until unpacked_done(). 0, or as unpack_lz4(). */
int unpacked_get(const struct packed *packed, const unsigned char **plain);

/* Whoever got it has read it. */
void unpacked_done(const unsigned char *plain);

#endif
