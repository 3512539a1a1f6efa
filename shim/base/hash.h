/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes for tables of our own: of words, one after the other, and of bytes.
 */
#ifndef FASHIM_HASH_H
#define FASHIM_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9fb21c651e98df25ull;
	hash ^= hash >> 32;
	hash *= 0xd6e8feb86659fd93ull;
	return hash ^ (hash >> 29);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	uint64_t word;

	for (; size >= 8; size -= 8, from += 8) {
		memcpy(&word, from, 8);
		hash = hash_mix(hash, word);
	}
	word = 0;
	memcpy(&word, from, size);
	return hash_mix(hash, word ^ (uint64_t)size << 56);
}

#endif
