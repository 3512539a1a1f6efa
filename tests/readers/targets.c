/* SPDX-License-Identifier: Apache-2.0
 *
 * Each input is copied to memory of exactly its size, so that a sanitizer sees what is read beyond
 * it; readers of files are given one that lies in memory. What they say of it is not looked at:
 * they must come back, and have touched nothing but their own.
 */
#include "tests/readers/targets.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/code/kernel_code_parts.h"
#include "shim/code/unpack.h"
#include "shim/gpu/tuned_file.h"
#include "tools/doctor/elf_image.h"
#include "tools/read/kernel_name.h"
#include "tools/read/log_reader.h"

#define MADE_MOST (1 << 20) /* bytes that are unpacked */

/* Text ends in a NUL. */
static unsigned char *copy_of(const uint8_t *bytes, size_t size, bool text)
{
	unsigned char *copy = malloc(size + text);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, bytes, size);
	if (text)
		copy[size] = '\0';
	return copy;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void with_file(const uint8_t *bytes, size_t size, void (*read_file)(const char *path))
{
	const int fd = memfd_create("input", MFD_CLOEXEC);
	char path[40];

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_file(path);
	close(fd);
}

static void read_log(const char *path)
{
	struct log_set set = {0};

	log_read(&set, path, 1);
	log_set_free(&set);
}

static bool look_at(const struct elf_symbol *symbol, void *letters)
{
	*(size_t *)letters += strlen(symbol->name);
	return false;
}

static void read_elf(const char *path)
{
	struct elf_image image;
	size_t letters = 0;

	if (elf_open(&image, path))
		return;
	for (int i = 0; i < image.needed_count; i++)
		letters += strlen(image.needed[i]);
	elf_symbols(&image, look_at, &letters);
	elf_has_text(&image, "libcublas.so");
	elf_close(&image);
}

static void log_target(const uint8_t *bytes, size_t size)
{
	with_file(bytes, size, read_log);
}

static void elf_target(const uint8_t *bytes, size_t size)
{
	with_file(bytes, size, read_elf);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static void tune_target(const uint8_t *bytes, size_t size)
{
	char *text = (char *)copy_of(bytes, size, true);
	struct tuned_machine machine;
	struct tuned_line line;
	const char *rest = text;

	tuned_header(text, &machine, &rest);
	while (tuned_next(&rest, &line))
		;
	free(text);
}

static void name_target(const uint8_t *bytes, size_t size)
{
	char *text = (char *)copy_of(bytes, size, true), buffer[64];

	kernel_name(text, buffer, sizeof(buffer));
	free(text);
}

/* ---- images, in the program's memory -------------------------------------------------------- */

static void cubin_target(const uint8_t *bytes, size_t size)
{
	struct code_table table = {.layouts = true};
	unsigned char *image = copy_of(bytes, size, false);

	code_read_cubin(image, size, &table);
	code_table_free(&table);
	free(image);
}

static void ptx_target(const uint8_t *bytes, size_t size)
{
	struct code_table table = {.layouts = true};
	char *text = (char *)copy_of(bytes, size, false);

	code_read_ptx(text, size, &table);
	code_table_free(&table);
	free(text);
}

static void image_target(const uint8_t *bytes, size_t size)
{
	static const struct code_targets targets = {2, {80, 90}};
	struct code_table table = {.layouts = true};
	unsigned char *image = copy_of(bytes, size, false);
	struct code_layout layout;

	if (code_read_image(image, size, &targets, &table) == 0) {
		code_table_sort(&table);
		code_table_deeds(&table, "kernel");
		code_table_layout(&table, "kernel", &layout);
	}
	code_table_free(&table);
	free(image);
}

/* The first four bytes say how many must come out. */
static void unpack(const uint8_t *bytes, size_t size,
		   int (*with)(const unsigned char *, size_t, unsigned char *, size_t))
{
	uint32_t made;
	unsigned char *from, *to;

	if (size < sizeof(made))
		return;
	memcpy(&made, bytes, sizeof(made));
	made %= MADE_MOST;
	from = copy_of(bytes + sizeof(made), size - sizeof(made), false);
	to = malloc(made);
	if (to)
		with(from, size - sizeof(made), to, made);
	free(to);
	free(from);
}

static void lz4_target(const uint8_t *bytes, size_t size)
{
	unpack(bytes, size, unpack_lz4);
}

static void zstd_target(const uint8_t *bytes, size_t size)
{
	unpack(bytes, size, unpack_zstd);
}

/* ---- by name -------------------------------------------------------------------------------- */

const struct target *target_named(const char *name)
{
	static const struct target targets[] = {
		{"log", log_target},	 {"elf", elf_target},	  {"tune", tune_target},
		{"name", name_target},	 {"cubin", cubin_target}, {"ptx", ptx_target},
		{"image", image_target}, {"lz4", lz4_target},	  {"zstd", zstd_target},
	};

	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++)
		if (!strcmp(targets[i].name, name))
			return &targets[i];
	return NULL;
}
