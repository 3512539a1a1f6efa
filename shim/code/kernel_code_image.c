/* SPDX-License-Identifier: Apache-2.0
 *
 * Images as the driver takes them (kernel_code_parts.h): a cubin, PTX, or a fat binary of several
 * of either, of which it runs the one that fits the GPU best. Which one that is need not be told
 * apart here: of all that fit, each must be harmless.
 *
 * A simulated GPU (tests/simgpu) takes shared objects of the host instead, whose kernels are the
 * symbols sim_kernel_NAME; what a kernel does beyond its parameters, the object says itself by
 * symbols sim_deed_DEED_NAME, and where its parameters lie, by sim_layout_NAME (struct
 * code_layout). No driver of a real GPU takes such an image.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"
#include "shim/code/unpacked.h"

#define WRAPPER_MAGIC  0x466243b1u
#define FATBIN_MAGIC   0xba55ed50u
#define FATBIN_KINDS   2
#define KIND_PTX       1
#define KIND_CUBIN     2
#define FLAG_LZ4       0x2000u
#define FLAG_ZSTD      0x8000u
#define FLAGS_SPECIFIC 0x300000u /* sm_90a, sm_100f: of an architecture or a family */

#define UNPACKED_MAX (256u << 20) /* of one image, and of all that one question unpacks */

struct wrapper {
	uint32_t magic, version;
	const void *image;
};

struct fatbin {
	uint32_t magic;
	uint16_t version, head_bytes;
	uint64_t bytes; /* behind the head */
};

struct entry {
	uint16_t kind, version;
	uint32_t head_bytes;
	uint64_t bytes;	 /* behind the head */
	uint32_t packed; /* of these, where it is packed */
	uint32_t options;
	uint32_t format, sm;
	uint32_t name, name_bytes;
	uint64_t flags, reserved;
	uint64_t unpacked; /* 0: it is not packed */
};

/* ---- fat binaries -------------------------------------------------------------------------------
 */

/* Which targets (a bit each) may run the entry: code runs on later GPUs of the same generation, PTX
 * on all that are not older. *sure: those that certainly can; code with features of one GPU alone
 * may be refused by another, as may what was made for a system on a chip (87, 88). */
static unsigned fits(const struct entry *entry, const struct code_targets *targets, unsigned *sure)
{
	unsigned fit = 0;

	*sure = 0;
	for (unsigned i = 0; i < targets->count; i++) {
		const unsigned sm = targets->sm[i];

		if (entry->sm > sm || (entry->kind == KIND_CUBIN && entry->sm / 10 != sm / 10))
			continue;
		fit |= 1u << i;
		if (entry->sm == sm ||
		    (!(entry->flags & FLAGS_SPECIFIC) && entry->sm != 87 && entry->sm != 88))
			*sure |= 1u << i;
	}
	return fit;
}

static int read_plain(unsigned kind, const unsigned char *image, size_t bytes,
		      struct code_table *table)
{
	return kind == KIND_PTX ? code_read_ptx((const char *)image, bytes, table)
				: code_read_cubin(image, bytes, table);
}

static int read_entry(const struct entry *entry, const unsigned char *content, size_t *budget,
		      struct code_table *table)
{
	const bool lz4 = entry->flags & FLAG_LZ4, zstd = entry->flags & FLAG_ZSTD;
	const struct packed packed = {content, entry->packed, entry->unpacked, lz4};
	const unsigned char *plain;
	int result;

	if (!entry->unpacked)
		return lz4 || zstd ? -EINVAL
				   : read_plain(entry->kind, content, entry->bytes, table);
	if (lz4 == zstd || entry->packed > entry->bytes)
		return -EINVAL;
	if (entry->unpacked > *budget)
		return -E2BIG;
	*budget -= entry->unpacked;
	result = unpacked_get(&packed, &plain);
	if (result)
		return result;
	result = read_plain(entry->kind, plain, entry->unpacked, table);
	unpacked_done(plain);
	return result;
}

/* The entries of one kind that fit one of `wanted`. *served: the targets that have one then. */
static int read_kind(const unsigned char *image, size_t bytes, unsigned kind,
		     const struct code_targets *targets, unsigned wanted, size_t *budget,
		     unsigned *served, struct code_table *table)
{
	struct fatbin head;
	struct entry entry;
	unsigned sure;
	int result = 0;

	memcpy(&head, image, sizeof(head));
	for (size_t at = head.head_bytes; at < bytes && !result;
	     at += entry.head_bytes + entry.bytes) {
		if (bytes - at < sizeof(entry))
			return -EINVAL;
		memcpy(&entry, image + at, sizeof(entry));
		if (entry.head_bytes < sizeof(entry) || entry.head_bytes > bytes - at ||
		    entry.bytes > bytes - at - entry.head_bytes)
			return -EINVAL;
		if (!entry.kind || entry.kind > FATBIN_KINDS) /* what may come of it is not known */
			return -EINVAL;
		if (entry.kind != kind || !(fits(&entry, targets, &sure) & wanted))
			continue;
		*served |= sure;
		result = read_entry(&entry, image + at + entry.head_bytes, budget, table);
	}
	return result;
}

/* PTX is compiled where no code fits, or where the user wants it so. */
static int read_fatbin(const unsigned char *image, size_t bytes, const struct code_targets *targets,
		       struct code_table *table)
{
	size_t budget = UNPACKED_MAX;
	const unsigned all = (1u << targets->count) - 1;
	unsigned served = 0, rest;
	int result = read_kind(image, bytes, KIND_CUBIN, targets, all, &budget, &served, table);

	rest = getenv("CUDA_FORCE_PTX_JIT") || getenv("CUDA_FORCE_JIT") ? all : all & ~served;
	if (!result && rest)
		result = read_kind(image, bytes, KIND_PTX, targets, rest, &budget, &served, table);
	return result;
}

/* ---- shared objects of the host -----------------------------------------------------------------
 */

static bool is_simulated(const Elf64_Ehdr *head)
{
	return head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_type == ET_DYN &&
	       (head->e_machine == EM_X86_64 || head->e_machine == EM_AARCH64);
}

static bool add_simulated(const char *symbol, struct code_table *table)
{
	static const struct {
		const char *beginning;
		uint32_t deeds;
	} rows[] = {
		{"sim_kernel_", CODE_UNPROVEN},
		{"sim_near_", CODE_SAYS_NEAR},
#define DEED(name, words) {"sim_deed_" #name "_", DEED_##name},
#include "shim/code/kernel_code.def"
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const size_t length = strlen(rows[i].beginning);

		if (!strncmp(symbol, rows[i].beginning, length))
			return code_table_add(
				table, symbol + length, strlen(symbol + length),
				rows[i].deeds | (rows[i].deeds & DEED_GLOBALS ? CODE_KEEPS : 0));
	}
	return true;
}

/* The symbol's bytes are in the file. */
static bool place_simulated(const unsigned char *image, size_t bytes, const Elf64_Sym *symbol,
			    const char *name, struct code_table *table)
{
	static const char beginning[] = "sim_layout_";
	const Elf64_Ehdr *head = (const void *)image;
	struct code_layout layout;
	Elf64_Shdr section;
	uint64_t at;

	if (!table->layouts || strncmp(name, beginning, sizeof(beginning) - 1) ||
	    symbol->st_shndx >= head->e_shnum || symbol->st_size != sizeof(layout))
		return true;
	memcpy(&section, image + head->e_shoff + symbol->st_shndx * sizeof(section),
	       sizeof(section));
	at = symbol->st_value - section.sh_addr + section.sh_offset;
	if (at > bytes || bytes - at < sizeof(layout))
		return true;
	memcpy(&layout, image + at, sizeof(layout));
	name += sizeof(beginning) - 1;
	return code_table_add(table, name, strlen(name), 0) && code_table_place(table, &layout);
}

static int read_simulated(const unsigned char *image, size_t bytes, struct code_table *table)
{
	const Elf64_Ehdr *head = (const void *)image;
	Elf64_Shdr section, strings;
	Elf64_Sym symbol;
	const char *name;

	if (head->e_shentsize != sizeof(section) || head->e_shoff > bytes ||
	    head->e_shnum > (bytes - head->e_shoff) / sizeof(section))
		return -EINVAL;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		memcpy(&section, image + head->e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_type != SHT_DYNSYM || section.sh_link >= head->e_shnum)
			continue;
		memcpy(&strings, image + head->e_shoff + section.sh_link * sizeof(section),
		       sizeof(strings));
		if (section.sh_offset > bytes || section.sh_size > bytes - section.sh_offset ||
		    strings.sh_offset > bytes || strings.sh_size > bytes - strings.sh_offset ||
		    !strings.sh_size || image[strings.sh_offset + strings.sh_size - 1])
			return -EINVAL;
		for (size_t at = 0; at + sizeof(symbol) <= section.sh_size; at += sizeof(symbol)) {
			memcpy(&symbol, image + section.sh_offset + at, sizeof(symbol));
			if (symbol.st_name >= strings.sh_size)
				return -EINVAL;
			name = (const char *)image + strings.sh_offset + symbol.st_name;
			if (symbol.st_shndx &&
			    (!add_simulated(name, table) ||
			     !place_simulated(image, bytes, &symbol, name, table)))
				return -ENOMEM;
		}
	}
	return 0;
}

/* ---- any image ----------------------------------------------------------------------------------
 */

static uint32_t magic_of(const void *image)
{
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	return magic;
}

static bool is_elf(const void *image)
{
	return !memcmp(image, ELFMAG, SELFMAG);
}

bool code_is_fatbin(const void *image)
{
	return magic_of(image) == FATBIN_MAGIC;
}

static size_t elf_bytes(const unsigned char *image)
{
	Elf64_Ehdr head;
	Elf64_Shdr section;
	Elf64_Phdr segment;
	uint64_t end;

	memcpy(&head, image, sizeof(head));
	end = head.e_shoff + (uint64_t)head.e_shnum * sizeof(section);
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || end > UNPACKED_MAX)
		return 0;
	for (unsigned i = 0; i < head.e_shnum; i++) {
		memcpy(&section, image + head.e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end)
			end = section.sh_offset + section.sh_size;
	}
	for (unsigned i = 0; i < head.e_phnum; i++) {
		memcpy(&segment, image + head.e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_offset + segment.p_filesz > end)
			end = segment.p_offset + segment.p_filesz;
	}
	return end;
}

size_t code_image_bytes(const void **image)
{
	struct wrapper wrapper;
	struct fatbin head;

	if (magic_of(*image) == WRAPPER_MAGIC) {
		memcpy(&wrapper, *image, sizeof(wrapper));
		*image = wrapper.image;
		/* The second version may list further images, linked before. */
		if (wrapper.version != 1 || !*image || !code_is_fatbin(*image))
			return 0;
	}
	if (code_is_fatbin(*image)) {
		memcpy(&head, *image, sizeof(head));
		return head.head_bytes + head.bytes;
	}
	return is_elf(*image) ? elf_bytes(*image) : strlen(*image);
}

int code_read_image(const unsigned char *image, size_t bytes, const struct code_targets *targets,
		    struct code_table *table)
{
	if (bytes > UNPACKED_MAX && !code_is_fatbin(image))
		return -E2BIG;
	if (bytes >= sizeof(struct fatbin) && code_is_fatbin(image))
		return read_fatbin(image, bytes, targets, table);
	if (bytes < sizeof(Elf64_Ehdr) || !is_elf(image))
		return code_read_ptx((const char *)image, bytes, table);
	return is_simulated((const void *)image) ? read_simulated(image, bytes, table)
						 : code_read_cubin(image, bytes, table);
}
