/* SPDX-License-Identifier: Apache-2.0
 *
 * A few pieces, told apart by all that they were unpacked from: where that lay something else may
 * lie by now.
 */
#include "shim/code/unpacked.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "shim/base/hash.h"
#include "shim/code/unpack.h"

#define PIECES	  8
#define BYTES_ALL (16u << 20)

static struct piece {
	unsigned char *plain; /* NULL: free */
	uint64_t hash;	      /* of what it was unpacked from */
	struct packed packed;
	uint64_t used; /* the larger, the later */
} pieces[PIECES];
static size_t kept_bytes;

static void forget(struct piece *piece)
{
	kept_bytes -= piece->packed.bytes;
	free(piece->plain);
	piece->plain = NULL;
}

static struct piece *find(const struct packed *packed, uint64_t hash)
{
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].plain && pieces[i].hash == hash &&
		    pieces[i].packed.size == packed->size &&
		    pieces[i].packed.bytes == packed->bytes && pieces[i].packed.lz4 == packed->lz4)
			return &pieces[i];
	return NULL;
}

/* A place for it, and enough of all bytes left: those that were used longest ago go. */
static struct piece *make_room(size_t bytes)
{
	struct piece *oldest;

	do {
		oldest = &pieces[0];
		for (int i = 0; i < PIECES; i++)
			if (!pieces[i].plain || (oldest->plain && pieces[i].used < oldest->used))
				oldest = &pieces[i];
		if (oldest->plain)
			forget(oldest);
	} while (kept_bytes + bytes > BYTES_ALL);
	return oldest;
}

int unpacked_get(const struct packed *packed, const unsigned char **plain)
{
	static uint64_t uses;
	const uint64_t hash = hash_bytes(0, packed->content, packed->size);
	struct piece *piece = find(packed, hash);
	unsigned char *made;
	int error;

	if (piece) {
		piece->used = ++uses;
		*plain = piece->plain;
		return 0;
	}
	made = malloc(packed->bytes);
	if (!made)
		return -ENOMEM;
	error = (packed->lz4 ? unpack_lz4 : unpack_zstd)(packed->content, packed->size, made,
							 packed->bytes);
	if (error) {
		free(made);
		return error;
	}
	*plain = made;
	if (packed->bytes <= BYTES_ALL) {
		piece = make_room(packed->bytes);
		*piece = (struct piece){made, hash, *packed, ++uses};
		kept_bytes += packed->bytes;
	}
	return 0;
}

void unpacked_done(const unsigned char *plain)
{
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].plain == plain)
			return;
	free((unsigned char *)plain);
}
