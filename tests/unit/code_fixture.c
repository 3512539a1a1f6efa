/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of kernels' images share (code_fixture.h).
 */
#include "code_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* From the build, or else the test is left out. */
struct file file_read(const char *path)
{
	FILE *stream = fopen(path, "rb");
	struct file file = {0};

	if (!stream) {
		print_message("skipped: no %s (nvcc was not there)\n", path);
		skip();
	}
	assert_int_equal(fseek(stream, 0, SEEK_END), 0);
	file.bytes = (size_t)ftell(stream);
	rewind(stream);
	file.at = malloc(file.bytes);
	assert_non_null(file.at);
	assert_int_equal(fread(file.at, 1, file.bytes, stream), file.bytes);
	fclose(stream);
	return file;
}

struct file code_file(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", CODE_FOLDER, name);
	return file_read(path);
}

struct room room_make(size_t bytes)
{
	struct room room = {.page = (size_t)sysconf(_SC_PAGESIZE)};

	room.bytes = (bytes + room.page) / room.page * room.page;
	room.pages = mmap(NULL, room.bytes + room.page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(room.pages, MAP_FAILED);
	assert_int_equal(mprotect(room.pages + room.bytes, room.page, PROT_NONE), 0);
	return room;
}

unsigned char *room_last(const struct room *room, size_t bytes)
{
	return room->pages + room->bytes - bytes;
}

void room_free(struct room *room)
{
	munmap(room->pages, room->bytes + room->page);
}

static uint64_t seed = 88172645463325252ull;

uint32_t any(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % below;
}
