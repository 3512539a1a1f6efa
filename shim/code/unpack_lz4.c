/* SPDX-License-Identifier: Apache-2.0
 *
 * One LZ4 block (unpack.h): a token with two lengths, literals, and how far back to copy from.
 */
#include "shim/code/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define SHORTEST_MATCH 4

/* A length of 15 goes on in further bytes, as long as they are 255. false: no end in sight. */
static bool length_of(const unsigned char **at, const unsigned char *end, size_t *length)
{
	unsigned char more = 255;

	if (*length < 15)
		return true;
	while (more == 255) {
		if (*at == end)
			return false;
		more = *(*at)++;
		*length += more;
	}
	return true;
}

int unpack_lz4(const unsigned char *from, size_t size, unsigned char *to, size_t made)
{
	const unsigned char *at = from, *end = from + size;
	size_t done = 0;

	while (at < end) {
		const unsigned token = *at++;
		size_t literals = token >> 4, match = token & 15, back;

		if (!length_of(&at, end, &literals) || literals > (size_t)(end - at) ||
		    literals > made - done)
			return -EINVAL;
		memcpy(to + done, at, literals);
		at += literals;
		done += literals;
		if (at == end) /* the last sequence has no match */
			break;
		if (end - at < 2)
			return -EINVAL;
		back = at[0] | (size_t)at[1] << 8;
		at += 2;
		if (!length_of(&at, end, &match))
			return -EINVAL;
		match += SHORTEST_MATCH;
		if (!back || back > done || match > made - done)
			return -EINVAL;
		for (; match; match--, done++) /* the two may overlap */
			to[done] = to[done - back];
	}
	return done == made ? 0 : -EINVAL;
}
