/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run of the fuzzer's program leaves behind: records of a header, a mark for every two bytes
 * (the number of attention outputs upstream) and the bytes, each padded to four.
 */
#ifndef FASHIM_FUZZ_DUMP_H
#define FASHIM_FUZZ_DUMP_H

#include <stdint.h>

/* In a mark: downstream of scores that a graph made, which FASHIM_GRAPHS=trust promises not to
 * read. */
#define DUMP_PROMISED 0x80
/* In fp32, where the program's numbers are of 16 bits, and downstream of an output: not compared.
 */
#define DUMP_WIDE  0x40
#define DUMP_FLAGS (DUMP_PROMISED | DUMP_WIDE)
#define DUMP_MAGIC 0xf0220002u

struct dump_header {
	uint32_t magic, type; /* enum type */
	int32_t lane, occurrence, step;
	uint32_t bytes;
	uint32_t offset; /* of the first byte in its allocation */
	char what[28];
};

/* Bytes of the marks, and of the data, in the file. */
static inline uint32_t dump_padded(uint32_t bytes)
{
	return (bytes + 3) & ~3u;
}

#endif
