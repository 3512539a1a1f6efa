/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded ELF objects (image.h). A symbol is found as the loader finds it: through DT_GNU_HASH, or
 * through DT_HASH in objects too old or too odd to have the other.
 */
#include "shim/real/image.h"

#include <stddef.h>

#include "shim/base/locks.h"
#include "shim/base/word.h"

/* Dynamic entries are relocated in place by glibc on most machines, but not in the vDSO. */
const void *image_pointer(const struct image *image, ElfW(Addr) value)
{
	return (const void *)(value < image->bias ? image->bias + value : value);
}

/* What the dynamic section says. */
static bool read_dynamic(struct image *image)
{
	ElfW(Addr) soname = 0;
	bool has_soname = false;

	for (const ElfW(Dyn) *entry = image->dynamic; entry->d_tag != DT_NULL; entry++) {
		const void *pointer = image_pointer(image, entry->d_un.d_ptr);

		if (entry->d_tag == DT_SYMTAB) {
			image->symbols = pointer;
		} else if (entry->d_tag == DT_STRTAB) {
			image->strings = pointer;
		} else if (entry->d_tag == DT_GNU_HASH) {
			image->gnu_hash = pointer;
		} else if (entry->d_tag == DT_HASH) {
			image->sysv_hash = pointer;
		} else if (entry->d_tag == DT_SONAME) {
			soname = entry->d_un.d_val;
			has_soname = true;
		}
	}
	if (!image->symbols || !image->strings)
		return false;
	if (has_soname)
		image->soname = image->strings + soname;
	return true;
}

static bool image_read(const struct dl_phdr_info *info, struct image *image)
{
	*image = (struct image){
		.bias = info->dlpi_addr,
		.begin = UINTPTR_MAX,
		.path = info->dlpi_name ? info->dlpi_name : "",
		.segments = info->dlpi_phdr,
		.segment_count = info->dlpi_phnum,
	};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD) {
			if (begin < image->begin)
				image->begin = begin;
			if (begin + segment->p_memsz > image->end)
				image->end = begin + segment->p_memsz;
		} else if (segment->p_type == PT_DYNAMIC) {
			image->dynamic = (const ElfW(Dyn) *)begin;
		}
	}
	return image->dynamic && image->begin < image->end && read_dynamic(image);
}

extern struct r_debug _r_debug __attribute__((weak));

bool image_find_at_start(bool (*visit)(const struct image *image, void *data), void *data)
{
	if (!&_r_debug)
		return false;
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		struct image image = {
			.bias = map->l_addr,
			.path = map->l_name ? map->l_name : "",
			.dynamic = map->l_ld,
		};

		if (image.dynamic && read_dynamic(&image) && visit(&image, data))
			return true;
	}
	return false;
}

static int walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data)
{
	int result;

	locks_walk_begin();
	result = dl_iterate_phdr(visit, data);
	locks_walk_end();
	return result;
}

struct find {
	bool (*visit)(const struct image *image, void *data);
	void *data;
};

static int find_one(struct dl_phdr_info *info, size_t size, void *data)
{
	struct find *find = data;
	struct image image;

	(void)size;
	return image_read(info, &image) && find->visit(&image, find->data);
}

bool image_find(bool (*visit)(const struct image *image, void *data), void *data)
{
	struct find find = {visit, data};

	return walk(find_one, &find) != 0;
}

struct changes {
	unsigned long long adds, subs;
};

static int read_changes(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	struct changes *changes = data;

	*changes = (struct changes){info->dlpi_adds, info->dlpi_subs};
	return 1;
}

unsigned long long image_changes(unsigned long long *unloaded)
{
	struct changes changes = {0, 0};

	walk(read_changes, &changes);
	if (unloaded)
		*unloaded = changes.subs;
	return changes.adds + changes.subs;
}

struct by_address {
	uintptr_t address;
	struct image *image;
};

static int holds_address(struct dl_phdr_info *info, size_t size, void *data)
{
	struct by_address *by = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD &&
		    by->address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
			return image_read(info, by->image) ? 1 : -1;
	}
	return 0;
}

bool image_of(const void *address, struct image *image)
{
	struct by_address by = {(uintptr_t)address, image};

	return walk(holds_address, &by) > 0;
}

struct by_soname {
	const char *soname;
	bool prefix;
	struct image *image;
};

static bool has_soname(const struct image *image, void *data)
{
	struct by_soname *by = data;

	if (!image->soname)
		return false;
	if (by->prefix ? !word_begins(image->soname, by->soname)
		       : !word_same(image->soname, by->soname))
		return false;
	*by->image = *image;
	return true;
}

bool image_by_soname(const char *soname, bool prefix, struct image *image)
{
	struct by_soname by = {soname, prefix, image};

	return image_find(has_soname, &by);
}

static bool defines(const struct image *image, const ElfW(Sym) * symbol, const char *name)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
	       (type == STT_FUNC || type == STT_NOTYPE || type == STT_OBJECT) &&
	       word_same(image->strings + symbol->st_name, name);
}

static void *symbol_address(const struct image *image, const ElfW(Sym) * symbol)
{
	return (void *)(image->bias + symbol->st_value);
}

static void *gnu_lookup(const struct image *image, const char *name)
{
	const uint32_t *table = image->gnu_hash;
	uint32_t bucket_count = table[0], first = table[1], bloom_size = table[2];
	uint32_t shift = table[3], hash = 5381, i;
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)&table[4];
	const uint32_t *buckets = (const uint32_t *)&bloom[bloom_size];
	const uint32_t *chain = buckets + bucket_count;
	const unsigned bits = 8 * sizeof(ElfW(Addr));
	ElfW(Addr) word;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		hash = hash * 33 + *c;
	if (!bucket_count || !bloom_size)
		return NULL;
	word = bloom[(hash / bits) % bloom_size];
	if (!(word >> (hash % bits) & word >> ((hash >> shift) % bits) & 1))
		return NULL;
	i = buckets[hash % bucket_count];
	if (i < first)
		return NULL;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) &&
		    defines(image, &image->symbols[i], name))
			return symbol_address(image, &image->symbols[i]);
		if (chain[i - first] & 1)
			return NULL;
	}
}

static void *sysv_lookup(const struct image *image, const char *name)
{
	uint32_t bucket_count = image->sysv_hash[0], hash = 0;
	const uint32_t *buckets = &image->sysv_hash[2];
	const uint32_t *chain = buckets + bucket_count;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		hash = (hash << 4) + *c;
		hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
	}
	if (!bucket_count)
		return NULL;
	for (uint32_t i = buckets[hash % bucket_count]; i; i = chain[i])
		if (defines(image, &image->symbols[i], name))
			return symbol_address(image, &image->symbols[i]);
	return NULL;
}

void *image_symbol(const struct image *image, const char *name)
{
	if (image->gnu_hash)
		return gnu_lookup(image, name);
	return image->sysv_hash ? sysv_lookup(image, name) : NULL;
}

/* A program may have a function's address that others are to take for it: then it can be found,
 * too. A table in which there is nothing says nothing. */
size_t image_imports(const struct image *image)
{
	const uint32_t *table = image->gnu_hash, *buckets;

	if (!table || !image->path[0])
		return 0;
	buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(*table));
	for (uint32_t i = 0; i < table[0]; i++)
		if (buckets[i])
			return table[1];
	return 0;
}

bool image_needs(const struct image *image, const char *soname)
{
	for (const ElfW(Dyn) *entry = image->dynamic; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_NEEDED &&
		    word_same(image->strings + entry->d_un.d_val, soname))
			return true;
	return false;
}
