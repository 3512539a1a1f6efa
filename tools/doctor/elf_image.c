/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is mapped once; every table is found through at(), which gives nothing that does not lie
 * inside the file, and every string through text_at(), which wants its end inside, too.
 */
#include "tools/doctor/elf_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* `count` things of `size` bytes at `offset`, or NULL. */
static const void *at(const struct elf_image *image, uint64_t offset, uint64_t count, uint64_t size)
{
	if (size && count > image->size / size)
		return NULL;
	if (offset > image->size || count * size > image->size - offset)
		return NULL;
	return image->bytes + offset;
}

static const char *text_at(const struct elf_image *image, uint64_t offset)
{
	const char *text = at(image, offset, 1, 1);

	if (!text || !memchr(text, '\0', image->size - offset))
		return NULL;
	return text;
}

/* Tables may lie at any address: they are copied out row by row. */
static bool row(const struct elf_image *image, uint64_t table, uint64_t index, void *out,
		size_t size)
{
	const void *bytes =
		index <= image->size / size ? at(image, table + index * size, 1, size) : NULL;

	if (bytes)
		memcpy(out, bytes, size);
	return bytes;
}

static Elf64_Ehdr header_of(const struct elf_image *image)
{
	Elf64_Ehdr header;

	memcpy(&header, image->bytes, sizeof(header));
	return header;
}

/* The `index`th segment of a type; its number, or -1. */
static int segment(const struct elf_image *image, uint32_t type, int from, Elf64_Phdr *out)
{
	const Elf64_Ehdr header = header_of(image);

	for (int i = from; i < header.e_phnum; i++)
		if (row(image, header.e_phoff, (uint64_t)i, out, sizeof(*out)) &&
		    out->p_type == type)
			return i;
	return -1;
}

/* Where the file holds what will be at that address; SIZE_MAX: nowhere. */
static uint64_t file_offset(const struct elf_image *image, uint64_t address)
{
	Elf64_Phdr load;

	for (int i = -1; (i = segment(image, PT_LOAD, i + 1, &load)) >= 0;)
		if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz)
			return load.p_offset + (address - load.p_vaddr);
	return SIZE_MAX;
}

static void read_dynamic(struct elf_image *image)
{
	uint64_t strings = SIZE_MAX;
	Elf64_Phdr dynamic;
	Elf64_Dyn entry;

	if (segment(image, PT_DYNAMIC, 0, &dynamic) < 0)
		return;
	for (uint64_t i = 0; row(image, dynamic.p_offset, i, &entry, sizeof(entry)) && entry.d_tag;
	     i++)
		if (entry.d_tag == DT_STRTAB)
			strings = file_offset(image, entry.d_un.d_ptr);
	image->truncated = strings == SIZE_MAX;
	if (image->truncated)
		return;
	for (uint64_t i = 0; row(image, dynamic.p_offset, i, &entry, sizeof(entry)) && entry.d_tag;
	     i++) {
		const char *text = text_at(image, strings + entry.d_un.d_val);

		if (entry.d_tag == DT_SONAME)
			image->soname = text;
		else if (entry.d_tag == DT_RPATH)
			image->rpath = text;
		else if (entry.d_tag == DT_RUNPATH)
			image->runpath = text;
		else if (entry.d_tag == DT_NEEDED && text && image->needed_count < ELF_NEEDED)
			image->needed[image->needed_count++] = text;
	}
}

int elf_open(struct elf_image *image, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), result = 0;
	struct stat info;
	Elf64_Phdr interpreter;
	void *bytes;

	memset(image, 0, sizeof(*image));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &info))
		result = -errno;
	else if (!S_ISREG(info.st_mode) || info.st_size < EI_NIDENT)
		result = -ENOEXEC;
	bytes = result ? MAP_FAILED
		       : mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (!result && bytes == MAP_FAILED)
		result = -errno;
	close(fd);
	if (result)
		return result;
	image->bytes = bytes;
	image->size = (size_t)info.st_size;
	if (memcmp(bytes, ELFMAG, SELFMAG) || image->size < sizeof(Elf32_Ehdr)) {
		elf_close(image);
		return -ENOEXEC;
	}
	memcpy(&image->machine, image->bytes + offsetof(Elf32_Ehdr, e_machine),
	       sizeof(image->machine));
	image->bits = image->bytes[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	if (image->bits == 32)
		return 0;
	image->truncated = image->size < sizeof(Elf64_Ehdr);
	if (!image->truncated) {
		const Elf64_Ehdr header = header_of(image);

		image->truncated = !at(image, header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr));
	}
	if (image->truncated)
		return 0;
	if (segment(image, PT_INTERP, 0, &interpreter) >= 0)
		image->interpreter = text_at(image, interpreter.p_offset);
	read_dynamic(image);
	return 0;
}

void elf_close(struct elf_image *image)
{
	if (image->bytes)
		munmap((void *)(uintptr_t)image->bytes, image->size);
	image->bytes = NULL;
}

bool elf_symbols(const struct elf_image *image,
		 bool (*each)(const struct elf_symbol *symbol, void *argument), void *argument)
{
	const Elf64_Ehdr header =
		image->bits == 64 && !image->truncated ? header_of(image) : (Elf64_Ehdr){0};
	Elf64_Shdr section, names;

	for (uint64_t i = 0; i < header.e_shnum; i++) {
		if (!row(image, header.e_shoff, i, &section, sizeof(section)) ||
		    (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_SYMTAB) ||
		    !row(image, header.e_shoff, section.sh_link, &names, sizeof(names)))
			continue;
		for (uint64_t k = 1; k < section.sh_size / sizeof(Elf64_Sym); k++) {
			struct elf_symbol symbol;
			Elf64_Sym entry;

			if (!row(image, section.sh_offset, k, &entry, sizeof(entry)))
				break;
			symbol.name = text_at(image, names.sh_offset + entry.st_name);
			symbol.defined = entry.st_shndx != SHN_UNDEF;
			symbol.function = ELF64_ST_TYPE(entry.st_info) == STT_FUNC;
			if (symbol.name && *symbol.name && each(&symbol, argument))
				return true;
		}
	}
	return false;
}

bool elf_has_text(const struct elf_image *image, const char *text)
{
	Elf64_Phdr load;

	if (image->bits != 64 || image->truncated)
		return false;
	for (int i = -1; (i = segment(image, PT_LOAD, i + 1, &load)) >= 0;) {
		const void *bytes = at(image, load.p_offset, load.p_filesz, 1);

		if (bytes && !(load.p_flags & PF_W) &&
		    memmem(bytes, load.p_filesz, text, strlen(text) + 1))
			return true;
	}
	return false;
}

const char *elf_machine_name(uint16_t machine, char *buffer, size_t size)
{
	static const struct {
		uint16_t machine;
		const char *name;
	} names[] = {{EM_X86_64, "x86-64"}, {EM_AARCH64, "AArch64"}, {EM_386, "i386"},
		     {EM_ARM, "ARM"},	    {EM_PPC64, "ppc64"},     {EM_RISCV, "RISC-V"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].machine == machine)
			return names[i].name;
	snprintf(buffer, size, "machine %u", machine);
	return buffer;
}
