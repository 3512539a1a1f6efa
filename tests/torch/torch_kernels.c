/* SPDX-License-Identifier: Apache-2.0
 *
 *     torch_kernels LIBRARY [SM]
 *
 * Every kernel that a library (libtorch_cuda.so) has for one architecture, one a line: its name, a
 * tab, and its parameters as OFFSET:SIZE, ? where its image does not say. Nothing of it runs. SM:
 * 80 unless said; of the entries of a fat binary the newest that such a GPU runs is taken.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/code/kernel_code_parts.h"
#include "shim/code/unpack.h"

#define MAGIC 0xba55ed50u
#define CUBIN 2
#define LZ4   0x2000u
#define ZSTD  0x8000u

struct fatbin {
	uint32_t magic;
	uint16_t version, head_bytes;
	uint64_t bytes;
};

struct entry {
	uint16_t kind, version;
	uint32_t head_bytes;
	uint64_t bytes;
	uint32_t packed, options, format, sm, name, name_bytes;
	uint64_t flags, reserved, unpacked;
};

/* Names as the image has them, places as the shim's reader has them. */
static void print_cubin(const unsigned char *image, size_t bytes)
{
	const Elf64_Ehdr *head = (const void *)image;
	const Elf64_Shdr *section = (const void *)(image + head->e_shoff);
	struct code_table table = {.layouts = true};

	if (code_read_cubin(image, bytes, &table)) {
		fprintf(stderr, "an image is not understood\n");
		code_table_free(&table);
		return;
	}
	code_table_sort(&table);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		const Elf64_Sym *symbol = (const void *)(image + section[i].sh_offset);
		const char *strings = (const char *)image + section[section[i].sh_link].sh_offset;

		if (section[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < section[i].sh_size / sizeof(*symbol); k++) {
			const char *name = strings + symbol[k].st_name;
			struct code_layout layout;

			if (ELF64_ST_TYPE(symbol[k].st_info) != STT_FUNC ||
			    !(symbol[k].st_other & 0x10))
				continue;
			printf("%s\t", name);
			if (!code_table_layout(&table, name, &layout))
				printf("?");
			else
				for (unsigned p = 0; p < layout.count; p++)
					printf("%s%u:%u", p ? " " : "", layout.offset[p],
					       layout.size[p]);
			putchar('\n');
		}
	}
	code_table_free(&table);
}

static void print_entry(const struct entry *entry, const unsigned char *content)
{
	unsigned char *plain;

	if (!(entry->flags & (LZ4 | ZSTD))) {
		plain = malloc(entry->bytes);
		if (plain)
			print_cubin(memcpy(plain, content, entry->bytes), entry->bytes);
	} else {
		plain = malloc(entry->unpacked);
		if (plain && !(entry->flags & LZ4 ? unpack_lz4 : unpack_zstd)(
				     content, entry->packed, plain, entry->unpacked))
			print_cubin(plain, entry->unpacked);
		else
			fprintf(stderr, "an image could not be unpacked\n");
	}
	free(plain);
}

/* The best of one fat binary. */
static void print_fatbin(const unsigned char *at, const struct fatbin *head, unsigned sm)
{
	const unsigned char *best = NULL, *end = at + head->head_bytes + head->bytes;
	struct entry entry, chosen = {0};

	for (at += head->head_bytes; at + sizeof(entry) <= end;
	     at += entry.head_bytes + entry.bytes) {
		memcpy(&entry, at, sizeof(entry));
		if (entry.kind == CUBIN && entry.sm <= sm && entry.sm / 10 == sm / 10 &&
		    entry.sm > chosen.sm) {
			chosen = entry;
			best = at + entry.head_bytes;
		}
	}
	if (best)
		print_entry(&chosen, best);
}

int main(int argc, char **argv)
{
	const int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	const unsigned sm = argc > 2 ? (unsigned)atoi(argv[2]) : 80;
	const unsigned char *image = MAP_FAILED;
	const Elf64_Ehdr *head;
	const Elf64_Shdr *section;
	const char *names;
	struct stat status;

	if (file >= 0 && !fstat(file, &status) && status.st_size > (off_t)sizeof(*head))
		image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (image == MAP_FAILED || memcmp(image, ELFMAG, SELFMAG)) {
		fprintf(stderr, "usage: torch_kernels LIBRARY [SM]\n");
		return 2;
	}
	head = (const void *)image;
	section = (const void *)(image + head->e_shoff);
	names = (const char *)image + section[head->e_shstrndx].sh_offset;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		const unsigned char *at = image + section[i].sh_offset,
				    *end = at + section[i].sh_size;
		struct fatbin fatbin;

		if (strcmp(names + section[i].sh_name, ".nv_fatbin"))
			continue;
		while (at + sizeof(fatbin) <= end) {
			memcpy(&fatbin, at, sizeof(fatbin));
			if (fatbin.magic != MAGIC) {
				at += 8;
				continue;
			}
			print_fatbin(at, &fatbin, sm);
			at += fatbin.head_bytes + fatbin.bytes;
		}
	}
	return 0;
}
