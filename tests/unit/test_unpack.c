/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoders, against what nvcc wrote packed and unpacked, and on input that is cut off or
 * changed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "code_fixture.h"
#include "shim/code/unpack.h"
#include "shim/code/unpacked.h"

/* ---- decoders -----------------------------------------------------------------------------------
 */

/* The next entry of a fat binary that is packed. */
static bool packed_next(const struct file *file, size_t *at, struct packed *packed)
{
	uint32_t head, size;
	uint64_t bytes, flags;

	while (*at + 64 <= file->bytes) {
		const unsigned char *entry = file->at + *at;

		memcpy(&head, entry + 4, 4);
		memcpy(&bytes, entry + 8, 8);
		memcpy(&size, entry + 16, 4);
		memcpy(&flags, entry + 40, 8);
		memcpy(&packed->bytes, entry + 56, 8);
		packed->content = entry + head;
		packed->size = size;
		packed->lz4 = flags & 0x2000;
		*at += head + bytes;
		if (packed->bytes)
			return true;
	}
	return false;
}

/* What comes out is one of the images that went in, byte for byte. */
static void test_decoders(void **state)
{
	static const char *const modes[] = {"default.fatbin", "size.fatbin", "speed.fatbin"};
	struct file none = code_file("none.fatbin");

	for (size_t i = 0; i < 3; i++) {
		struct file file = code_file(modes[i]);
		struct packed packed;
		unsigned entries = 0;

		for (size_t at = 16; packed_next(&file, &at, &packed); entries++) {
			struct room from = room_make(packed.size), to = room_make(packed.bytes);
			unsigned char *out = room_last(&to, packed.bytes);

			assert_int_equal(packed.lz4, i == 2);
			memcpy(room_last(&from, packed.size), packed.content, packed.size);
			assert_int_equal((packed.lz4 ? unpack_lz4
						     : unpack_zstd)(room_last(&from, packed.size),
								    packed.size, out, packed.bytes),
					 0);
			/* PTX is packed without the zero at its end or with it. */
			assert_non_null(memmem(none.at, none.bytes, out,
					       packed.bytes - (out[packed.bytes - 1] == 0)));
			room_free(&from);
			room_free(&to);
		}
		assert_int_equal(entries, 8);
		free(file.at);
	}
	free(none.at);
}

/* Whatever comes in: what is claimed to be made was made, and nothing else was touched. */
static void test_decoders_cut_and_changed(void **state)
{
	static const char *const modes[] = {"size.fatbin", "speed.fatbin"};
	unsigned refused = 0;

	for (unsigned round = 0; round < 3000; round++) {
		static struct file file[2];
		struct file *of = &file[round & 1];
		struct packed packed;
		struct room from, to;
		size_t at = 16, bytes;
		unsigned char *in;

		if (!of->at)
			*of = code_file(modes[round & 1]);
		for (unsigned entry = any(8) + 1; entry; entry--)
			assert_true(packed_next(of, &at, &packed));
		bytes = round % 3 ? packed.size : any((uint32_t)packed.size);
		from = room_make(bytes + 1);
		to = room_make(packed.bytes);
		in = room_last(&from, bytes);
		memcpy(in, packed.content, bytes);
		for (unsigned changes = round % 3 ? 1 + any(4) : 0; changes; changes--)
			in[any(any(2) ? 64 : (uint32_t)bytes)] ^= (unsigned char)(1 + any(255));
		refused += (packed.lz4 ? unpack_lz4 : unpack_zstd)(
				   in, bytes, room_last(&to, packed.bytes), packed.bytes) != 0;
		room_free(&from);
		room_free(&to);
	}
	/* Most cannot be right: a copy from before the beginning, or more or less than there is. */
	assert_true(refused > 1500);
}

/* Blocks of every kind, and two frames one after the other. */
static void test_small_frames(void **state)
{
	static const unsigned char raw[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 3,
					    0x19, 0,	0,    'a',  'b',  'c'},
				   again[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x2b, 0, 0, 'x'};
	unsigned char both[sizeof(raw) + sizeof(again)], out[8];

	memcpy(both, raw, sizeof(raw));
	memcpy(both + sizeof(raw), again, sizeof(again));
	assert_int_equal(unpack_zstd(both, sizeof(both), out, 8), 0);
	assert_memory_equal(out, "abcxxxxx", 8);
	assert_int_equal(unpack_zstd(both, sizeof(both), out, 7), -EINVAL);
	assert_int_equal(unpack_zstd(raw, sizeof(raw), out, 4), -EINVAL);
	/* The third byte of a match that leads to before the beginning. */
	assert_int_equal(unpack_lz4((const unsigned char[]){0x10, 'a', 1, 0}, 4, out, 5), 0);
	assert_memory_equal(out, "aaaaa", 5);
	assert_int_equal(unpack_lz4((const unsigned char[]){0x10, 'a', 2, 0}, 4, out, 5), -EINVAL);
	assert_int_equal(unpack_lz4((const unsigned char[]){0x10, 'a', 0, 0}, 4, out, 5), -EINVAL);
}

#define BLOCKS 136 /* of 128 KiB */

/* What is told apart is what it was unpacked from, not where that lies. */
static void test_kept(void **state)
{
	struct file file = code_file("size.fatbin");
	const unsigned char *plain, *again;
	unsigned char large[9 + 4 * BLOCKS] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0};
	struct packed packed;
	struct room copy;
	size_t at = 16;

	assert_true(packed_next(&file, &at, &packed));
	assert_int_equal(unpacked_get(&packed, &plain), 0);
	unpacked_done(plain);
	copy = room_make(packed.size);
	packed.content = memcpy(room_last(&copy, packed.size), packed.content, packed.size);
	assert_int_equal(unpacked_get(&packed, &again), 0);
	assert_ptr_equal(again, plain);
	unpacked_done(again);

	memset((void *)packed.content, 0, packed.size);
	assert_int_equal(unpacked_get(&packed, &again), -EINVAL);
	room_free(&copy);

	/* Others come, and what was used longest ago goes. */
	at = 16;
	for (uint8_t symbol = 0; symbol < 20; symbol++) {
		const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x2b, 0, 0, symbol};

		packed = (struct packed){frame, sizeof(frame), 5, false};
		assert_int_equal(unpacked_get(&packed, &again), 0);
		assert_int_equal(again[4], symbol);
		unpacked_done(again);
	}
	assert_true(packed_next(&file, &at, &packed));
	assert_int_equal(unpacked_get(&packed, &again), 0);
	unpacked_done(again);

	/* More than is kept at all: blocks of a byte again and again. */
	for (unsigned i = 0; i < BLOCKS; i++)
		memcpy(large + 9 + 4 * i,
		       (const unsigned char[]){(i == BLOCKS - 1) | 2, 0, 0x10, 'y'}, 4);
	packed = (struct packed){large, sizeof(large), (size_t)BLOCKS << 17, false};
	assert_int_equal(unpacked_get(&packed, &plain), 0);
	assert_int_equal(plain[packed.bytes - 1], 'y');
	unpacked_done(plain);
	free(file.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decoders),
		cmocka_unit_test(test_decoders_cut_and_changed),
		cmocka_unit_test(test_small_frames),
		cmocka_unit_test(test_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
