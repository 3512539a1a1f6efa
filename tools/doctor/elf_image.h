/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF file read without running or loading it: what the loader will do with it, and which
 * functions are inside. The file may be damaged or hostile; nothing outside it is ever read.
 */
#ifndef FASHIM_ELF_IMAGE_H
#define FASHIM_ELF_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_NEEDED 256

struct elf_image {
	const unsigned char *bytes; /* the whole file, mapped */
	size_t size;
	int bits;		 /* 32 or 64; of a 32-bit file nothing but `machine` is filled in */
	uint16_t machine;	 /* EM_* */
	bool truncated;		 /* its tables lie outside the file */
	const char *interpreter; /* NULL: the loader is not asked */
	const char *soname, *rpath, *runpath;
	const char *needed[ELF_NEEDED];
	int needed_count;
};

/* 0; -ENOEXEC when it is no ELF file; -errno when it cannot be read. */
int elf_open(struct elf_image *image, const char *path);
void elf_close(struct elf_image *image);

/* A symbol of the dynamic table, or of the full one where the file was not stripped. */
struct elf_symbol {
	const char *name;
	bool defined, function;
};

/* Calls `each` for every named symbol until it returns true; what the last call returned. */
bool elf_symbols(const struct elf_image *image,
		 bool (*each)(const struct elf_symbol *symbol, void *argument), void *argument);

/* Do the bytes of `text`, its NUL included, occur in the read-only data? */
bool elf_has_text(const struct elf_image *image, const char *text);

/* "x86-64", "AArch64", or "machine N" in `buffer`. */
const char *elf_machine_name(uint16_t machine, char *buffer, size_t size);

#endif
