/* SPDX-License-Identifier: Apache-2.0
 *
 * Cubins (kernel_code_parts.h). A kernel's instructions lie in a section of their own, together
 * with the functions it calls; what lies elsewhere is named by a relocation. Addresses of variables
 * and of the driver's functions come through constant bank 4, which relocations fill; the program's
 * own constants are bank 3. All this holds for the encoding of sm_75 and later: 16 bytes, the
 * opcode in the lowest 12 bits, of which the upper three are the form of the operands.
 */
#include "shim/code/kernel_code_made.h"
#include "shim/code/kernel_code_parts.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CUBIN_MACHINE	   190
#define CUBIN_ABI	   8 /* of the CUDA 13 toolkits; the architecture lies elsewhere before */
#define ENTRY		   0x10 /* in st_other: a kernel */
#define INFO_SECTION	   0x70000000u
#define INFO_SIZED	   4	/* of an attribute's format: two bytes of size, then as many */
#define INFO_BRANCH_TABLES 0x34 /* the attribute that lists where BRX may go, */
#define INFO_PARAMETER	   0x17 /* that of one parameter, */
#define INFO_PARAMETERS	   0x19 /* and the size of all of them, in the attribute itself */
#define PARAMETER_BYTES	   12
#define INSTRUCTION	   16
#define NO_REGISTER	   0xff

enum code_class {
	CLASS_UNKNOWN,
	CLASS_BARRIER,	/* plain, and what looks like a constant operand in it is none */
	CLASS_PLAIN,	/* registers, shared and local memory, memory that a register points to */
	CLASS_LOAD,	/* from global memory; other blocks may be meant to write it meanwhile */
	CLASS_FENCE,	/* orders memory for some scope */
	CLASS_CONSTANT, /* a load from a constant bank, at an offset in bytes from bit 38 */
	CLASS_UNIFORM,	/* the same, from bit 37 */
	CLASS_CALL,	/* relative to itself, unless a register says where */
	CLASS_ABSOLUTE, /* a call or a jump to an address, perhaps one that a relocation names */
	CLASS_BRANCH,	/* to where a table says */
	CLASS_ATOMIC,
	CLASS_TEXTURE,
	CLASS_MAP,
	CLASS_TRAP,
};

/* By the lowest nine bits. */
static const uint8_t classes[512] = {
#define SASS(opcode, name, what, how, from, use, predicates) [opcode] = CLASS_##what,
#include "shim/code/kernel_code.def"
};

static const char *const tables[] = {
#define TABLE(name) #name,
#include "shim/code/kernel_code.def"
};

struct cubin {
	const unsigned char *image;
	size_t bytes;
	unsigned sm;
	const Elf64_Shdr *section;
	unsigned sections;
	const char *names;
	size_t names_bytes;
	const Elf64_Sym *symbol;
	size_t symbols;
	const char *strings;
	size_t strings_bytes;
	unsigned bank; /* .nv.constant4, 0: none */
	struct work {
		unsigned relocations[2], info; /* sections that tell of this one; 0: none */
		uint32_t deeds;		       /* of its own */
		bool looked_at;
		unsigned visit; /* the last walk that came by */
	} * work;		/* one per section */
	unsigned *queue, visit;
};

/* ---- the file -----------------------------------------------------------------------------------
 */

static const void *content(const struct cubin *cubin, unsigned index, size_t *bytes)
{
	const Elf64_Shdr *s = &cubin->section[index];

	*bytes = 0;
	if (s->sh_type == SHT_NOBITS || s->sh_offset > cubin->bytes ||
	    s->sh_size > cubin->bytes - s->sh_offset)
		return NULL;
	*bytes = s->sh_size;
	return cubin->image + s->sh_offset;
}

/* A string of a table, or "" */
static const char *string_at(const char *strings, size_t bytes, size_t at)
{
	return at < bytes && memchr(strings + at, 0, bytes - at) ? strings + at : "";
}

static const char *section_name(const struct cubin *cubin, unsigned index)
{
	return string_at(cubin->names, cubin->names_bytes, cubin->section[index].sh_name);
}

static const char *symbol_name(const struct cubin *cubin, const Elf64_Sym *symbol)
{
	return string_at(cubin->strings, cubin->strings_bytes, symbol->st_name);
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static int open_symbols(struct cubin *cubin)
{
	size_t bytes;

	for (unsigned i = 1; i < cubin->sections; i++) {
		const Elf64_Shdr *s = &cubin->section[i];

		if (s->sh_type == SHT_SYMTAB && s->sh_link < cubin->sections) {
			cubin->symbol = content(cubin, i, &bytes);
			cubin->symbols = bytes / sizeof(Elf64_Sym);
			cubin->strings = content(cubin, s->sh_link, &cubin->strings_bytes);
		} else if ((s->sh_type == SHT_REL || s->sh_type == SHT_RELA) &&
			   s->sh_info < cubin->sections) {
			unsigned *of = cubin->work[s->sh_info].relocations;

			/* With and without addends: older toolkits write both. */
			if (of[1])
				return -EINVAL;
			of[of[0] != 0] = i;
		} else if (s->sh_type == INFO_SECTION && s->sh_info &&
			   s->sh_info < cubin->sections) {
			cubin->work[s->sh_info].info = i;
		} else if (!strcmp(section_name(cubin, i), ".nv.constant4")) {
			cubin->bank = i;
		}
	}
	return cubin->symbol && cubin->strings && !((uintptr_t)cubin->symbol & 7) ? 0 : -EINVAL;
}

static int cubin_open(struct cubin *cubin, const unsigned char *image, size_t bytes)
{
	const Elf64_Ehdr *head = (const void *)image;

	*cubin = (struct cubin){.image = image, .bytes = bytes};
	if (bytes < sizeof(*head) || (uintptr_t)image & 7 || memcmp(image, ELFMAG, SELFMAG) ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != CUBIN_MACHINE ||
	    head->e_type != ET_EXEC || head->e_shentsize != sizeof(Elf64_Shdr) ||
	    head->e_shoff & 7 || head->e_shoff > bytes ||
	    bytes - head->e_shoff < sizeof(Elf64_Shdr))
		return -EINVAL;
	cubin->section = (const void *)(image + head->e_shoff);
	cubin->sections = head->e_shnum; /* 0: more than 16 bits can say, which is not looked at */
	if (!cubin->sections || cubin->sections > (bytes - head->e_shoff) / sizeof(Elf64_Shdr) ||
	    head->e_shstrndx >= cubin->sections)
		return -EINVAL;
	cubin->sm = head->e_ident[EI_ABIVERSION] >= CUBIN_ABI ? head->e_flags >> 8 & 0xff
							      : head->e_flags & 0xff;
	cubin->names = content(cubin, head->e_shstrndx, &cubin->names_bytes);
	if (!cubin->names)
		return -EINVAL;
	cubin->work = calloc(cubin->sections, sizeof(*cubin->work));
	cubin->queue = calloc(cubin->sections, sizeof(*cubin->queue));
	if (!cubin->work || !cubin->queue)
		return -ENOMEM;
	return open_symbols(cubin);
}

/* ---- what a name stands for ---------------------------------------------------------------------
 */

/* The symbol that relocation i of a section names, and where; relocations with addends begin as
 * those without do. false: there are no more. */
static bool relocation_of(const struct cubin *cubin, unsigned section, size_t i, uint64_t *offset,
			  size_t *symbol)
{
	for (unsigned list = 0; list < 2 && cubin->work[section].relocations[list]; list++) {
		const unsigned index = cubin->work[section].relocations[list];
		const size_t each = cubin->section[index].sh_type == SHT_RELA ? sizeof(Elf64_Rela)
									      : sizeof(Elf64_Rel);
		size_t bytes;
		const unsigned char *at = content(cubin, index, &bytes);
		Elf64_Rel one;

		if (i >= bytes / each) {
			i -= bytes / each;
			continue;
		}
		memcpy(&one, at + i * each, sizeof(one));
		*offset = one.r_offset;
		*symbol = ELF64_R_SYM(one.r_info);
		return true;
	}
	return false;
}

/* Is there room for an address in a variable? Not where a table's numbers are. */
static bool may_keep(const struct cubin *cubin, const Elf64_Sym *symbol, const char *name)
{
	size_t bytes;
	const unsigned char *all = content(cubin, symbol->st_shndx, &bytes);
	const uint64_t begin = symbol->st_value, size = symbol->st_size;
	uint64_t word;

	if (size < sizeof(word) || code_is_string(name, strlen(name)))
		return false;
	if (!all || begin > bytes || size > bytes - begin)
		return true;
	for (uint64_t at = (begin + 7) & ~7ull; at + sizeof(word) <= begin + size; at += 8) {
		memcpy(&word, all + at, sizeof(word));
		if (!word)
			return true;
	}
	return false;
}

/* What it is to name that symbol in the code of `section` (or in bank 4, then 0). *called: another
 * section whose code it leads to. */
static uint32_t deeds_of_symbol(const struct cubin *cubin, size_t index, unsigned section,
				unsigned *called)
{
	const Elf64_Sym *symbol = &cubin->symbol[index];
	const char *name, *where;
	unsigned type;

	if (index >= cubin->symbols)
		return DEED_UNKNOWN;
	name = symbol_name(cubin, symbol);
	type = ELF64_ST_TYPE(symbol->st_info);
	if (symbol->st_shndx == SHN_UNDEF) {
		if (begins(name, ".nv.reservedSmem"))
			return 0;
		return type == STT_FUNC ? DEED_LAUNCHES : DEED_GLOBALS | CODE_KEEPS;
	}
	if (symbol->st_shndx >= cubin->sections || (type > STT_FUNC && type != STT_SECTION))
		return type == STT_LOOS || type == STT_LOOS + 1 ? DEED_TEXTURES : DEED_UNKNOWN;
	where = section_name(cubin, symbol->st_shndx);
	if (begins(where, ".text.")) {
		if (symbol->st_shndx != section)
			*called = symbol->st_shndx;
		return 0;
	}
	if (begins(where, ".nv.constant") || begins(where, ".nv.shared"))
		return 0;
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		if (type == STT_OBJECT && !strcmp(name, tables[i]))
			return 0;
	if (!begins(where, ".nv.global"))
		return DEED_UNKNOWN;
	return DEED_GLOBALS | (may_keep(cubin, symbol, name) ? CODE_KEEPS : 0);
}

/* A word of bank 4 is read; offset -1: any. */
static uint32_t deeds_of_bank(const struct cubin *cubin, int64_t offset)
{
	uint32_t deeds = 0;
	bool found = false;
	unsigned called;
	uint64_t where;
	size_t named;

	for (size_t i = 0; cubin->bank && relocation_of(cubin, cubin->bank, i, &where, &named); i++)
		if (offset < 0 || where == ((uint64_t)offset & ~7ull)) {
			found = true;
			deeds |= deeds_of_symbol(cubin, named, 0, &called);
		}
	return found ? deeds : DEED_UNKNOWN;
}

/* ---- instructions -------------------------------------------------------------------------------
 */

/* Is it said of the branch at `at` where it may go, and is all of that in the section? */
static bool branch_is_known(const struct cubin *cubin, unsigned section, uint32_t at)
{
	const uint64_t code_bytes = cubin->section[section].sh_size;
	size_t bytes = 0, end, size;
	const unsigned char *info = cubin->work[section].info
					    ? content(cubin, cubin->work[section].info, &bytes)
					    : NULL;
	uint32_t head[3], target;

	for (size_t i = 0; info && i + 4 <= bytes; i += 4 + size) {
		size = info[i] == INFO_SIZED ? info[i + 2] | (size_t)info[i + 3] << 8 : 0;
		if (size > bytes - i - 4)
			return false;
		if (info[i] != INFO_SIZED || info[i + 1] != INFO_BRANCH_TABLES)
			continue;
		end = i + 4 + size;
		for (size_t j = i + 4; j + 12 <= end; j += 12 + 4 * (size_t)head[2]) {
			memcpy(head, info + j, sizeof(head));
			if (head[2] > (end - j - 12) / 4)
				return false;
			if (head[0] != at)
				continue;
			for (uint32_t k = 0; k < head[2]; k++) {
				memcpy(&target, info + j + 12 + 4 * (size_t)k, 4);
				if (target >= code_bytes)
					return false;
			}
			return head[2] > 0;
		}
	}
	return false;
}

/* Is the address in the instruction at `at` one that the loader puts there? Then what it leads to
 * is followed. */
static bool is_relocated(const struct cubin *cubin, unsigned section, uint64_t at)
{
	uint64_t where;
	size_t symbol;

	for (size_t i = 0; relocation_of(cubin, section, i, &where, &symbol); i++)
		if (where == at)
			return true;
	return false;
}

/* Of which bank an instruction with a constant operand reads, and what that means. */
static uint32_t deeds_of_constant(const struct cubin *cubin, uint64_t low, uint64_t high,
				  enum code_class class)
{
	const unsigned opcode = low & 0x1ff, form = low >> 9 & 7, bank = low >> 54 & 31;
	int64_t offset = class == CLASS_UNIFORM ? (int64_t)(low >> 37 & 0x1ffff)
						: (int64_t)(low >> 38 & 0xffff);

	/* Other forms, and that bit, name the bank by a register; of ULDC it is the offset. */
	if ((class == CLASS_UNIFORM && form != 3) || (class == CLASS_CONSTANT && form != 5) ||
	    (class != CLASS_UNIFORM && opcode != ULDC_INDEXED && high >> 27 & 1))
		return DEED_UNKNOWN;
	if (bank == 3)
		return DEED_CONSTANTS;
	if (bank < 3)
		return 0;
	if (bank > 4)
		return DEED_UNKNOWN;
	if (opcode == ULDC_INDEXED ||
	    ((class == CLASS_UNIFORM || opcode == LDC) && (low >> 24 & 0xff) != NO_REGISTER))
		offset = -1; /* and what the register holds */
	return deeds_of_bank(cubin, offset);
}

/* Loads that others' stores are to be seen by: what volatile, relaxed and acquire become, and
 * ld.global.cg. */
static bool is_strong(const struct cubin *cubin, uint64_t high)
{
	const unsigned order = high >> 13 & 15;

	if (cubin->sm < 80) /* two bits of scope, then two of order: strong or for devices */
		return order >> 2 >= 2 && (order & 3) >= 2;
	return order != 0 && order != 4 && order != 5; /* weak, constant, within the block */
}

static uint32_t deeds_of_code(const struct cubin *cubin, unsigned section, size_t bytes,
			      const unsigned char *code)
{
	uint32_t deeds = 0;

	for (size_t at = 0; at + INSTRUCTION <= bytes; at += INSTRUCTION) {
		uint64_t low, high;
		unsigned form;
		enum code_class class;

		memcpy(&low, code + at, 8);
		memcpy(&high, code + at + 8, 8);
		form = low >> 9 & 7;
		class = classes[low & 0x1ff];
		if (class == CLASS_CONSTANT || class == CLASS_UNIFORM ||
		    (class == CLASS_PLAIN && (form == 3 || form == 5)))
			deeds |= deeds_of_constant(cubin, low, high, class);
		switch (class) {
		case CLASS_BARRIER:
		case CLASS_PLAIN:
		case CLASS_CONSTANT:
		case CLASS_UNIFORM:
			break;
		case CLASS_UNKNOWN:
			deeds |= DEED_UNKNOWN;
			break;
		case CLASS_LOAD:
			deeds |= is_strong(cubin, high) ? DEED_ATOMICS : 0;
			break;
		case CLASS_FENCE:
			deeds |= (high >> 12 & 7) > 1 && (high >> 12 & 7) != 6 ? DEED_ATOMICS : 0;
			break;
		case CLASS_CALL:
			deeds |= form == 4 ? 0 : DEED_INDIRECT;
			break;
		case CLASS_ABSOLUTE:
			deeds |= form == 4 && is_relocated(cubin, section, at) ? 0 : DEED_INDIRECT;
			break;
		case CLASS_BRANCH:
			deeds |= branch_is_known(cubin, section, (uint32_t)at) ? 0 : DEED_INDIRECT;
			break;
		case CLASS_ATOMIC:
			deeds |= DEED_ATOMICS;
			break;
		case CLASS_TEXTURE:
			deeds |= DEED_TEXTURES;
			break;
		case CLASS_MAP:
			deeds |= DEED_MAPS;
			break;
		case CLASS_TRAP:
			deeds |= DEED_TRAPS;
			break;
		}
	}
	return deeds;
}

static uint32_t deeds_of_paths(const struct cubin *cubin, unsigned section)
{
	size_t bytes;
	const unsigned char *code = content(cubin, section, &bytes);

	switch (code ? code_reach_of(code, bytes, cubin->sm) : CODE_BY_VALUE) {
	case CODE_NEAR:
		return 0;
	case CODE_FOLLOWS:
		return DEED_FOLLOWS;
	default:
		return CODE_UNPROVEN;
	}
}

/* ---- parameters ---------------------------------------------------------------------------------
 */

/* An attribute of a parameter: an index, its number, its offset, and in the upper bits its size. */
static bool note_parameter(struct code_layout *layout, const unsigned char *at)
{
	uint16_t number, offset;
	uint32_t word;

	memcpy(&number, at + 4, 2);
	memcpy(&offset, at + 6, 2);
	memcpy(&word, at + 8, 4);
	if (number >= CODE_PARAMS || !word >> 18)
		return false;
	if (number >= layout->count)
		layout->count = number + 1u;
	layout->offset[number] = offset;
	layout->size[number] = (uint16_t)(word >> 18);
	return true;
}

/* What the section's attributes say of the parameters; more than there is room for where they say
 * nothing, or contradict themselves. */
static void read_layout(const struct cubin *cubin, unsigned section, struct code_layout *layout)
{
	size_t bytes = 0, size;
	unsigned all = 0, end = 0;
	const unsigned char *info = cubin->work[section].info
					    ? content(cubin, cubin->work[section].info, &bytes)
					    : NULL;

	*layout = (struct code_layout){0};
	for (size_t i = 0; info && i + 4 <= bytes; i += 4 + size) {
		size = info[i] == INFO_SIZED ? info[i + 2] | (size_t)info[i + 3] << 8 : 0;
		if (size > bytes - i - 4)
			info = NULL;
		else if (info[i + 1] == INFO_PARAMETERS && info[i] != INFO_SIZED)
			all = info[i + 2] | (unsigned)info[i + 3] << 8;
		else if (info[i + 1] == INFO_PARAMETER && info[i] == INFO_SIZED &&
			 (size != PARAMETER_BYTES || !note_parameter(layout, info + i + 4)))
			info = NULL;
	}
	for (unsigned i = 0; i < layout->count; i++) {
		if (!layout->size[i] || layout->offset[i] < end)
			info = NULL;
		end = layout->offset[i] + layout->size[i];
	}
	if (!info || end != all)
		layout->count = CODE_PARAMS + 1;
}

/* ---- kernels ------------------------------------------------------------------------------------
 */

/* The section's own deeds; sections that it leads to, and no walk has come by, are put in line. */
static uint32_t visit(struct cubin *cubin, unsigned section, unsigned *waiting)
{
	struct work *work = &cubin->work[section];
	uint32_t named = 0;
	uint64_t where;
	size_t symbol;

	if (!work->looked_at) {
		size_t bytes;
		const unsigned char *code = content(cubin, section, &bytes);

		work->looked_at = true;
		work->deeds =
			code && bytes ? deeds_of_code(cubin, section, bytes, code) : DEED_UNKNOWN;
	}
	for (size_t i = 0; relocation_of(cubin, section, i, &where, &symbol); i++) {
		unsigned called = 0;

		named |= deeds_of_symbol(cubin, symbol, section, &called);
		if (called && cubin->work[called].visit != cubin->visit) {
			cubin->work[called].visit = cubin->visit;
			cubin->queue[(*waiting)++] = called;
		}
	}
	return work->deeds | named;
}

/* traced: its addresses are. */
static uint32_t deeds_of_kernel(struct cubin *cubin, unsigned section, bool traced)
{
	unsigned waiting = 0;
	uint32_t deeds = traced ? 0 : CODE_UNREAD;

	cubin->work[section].visit = ++cubin->visit;
	cubin->queue[waiting++] = section;
	while (waiting) {
		const unsigned next = cubin->queue[--waiting];

		deeds |= visit(cubin, next, &waiting);
		if (traced)
			deeds |= deeds_of_paths(cubin, next);
		if (next != section) /* it is not known what that is called with */
			deeds |= CODE_UNPROVEN;
	}
	return deeds;
}

/* Where in bank 4 the linker has put a symbol, counted from 1; 0: nowhere. `bytes`: of it, here; 0:
 * it lies elsewhere. */
static uint32_t find_linked(const struct cubin *cubin, const char *name, uint64_t bytes)
{
	const unsigned bank = cubin->bank;
	uint64_t where;

	for (size_t i = 0, at; bank && relocation_of(cubin, bank, i, &where, &at); i++)
		if (at < cubin->symbols && cubin->symbol[at].st_size == bytes &&
		    (cubin->symbol[at].st_shndx == SHN_UNDEF) == !bytes &&
		    !strcmp(symbol_name(cubin, &cubin->symbol[at]), name))
			return where < UINT16_MAX ? (uint32_t)where + 1 : 0;
	return 0;
}

/* false: no memory. */
static bool keep_text(const struct cubin *cubin, unsigned section, struct code_text *text)
{
	struct code_text own = {.sm = cubin->sm,
				.asserts = find_linked(cubin, "__assertfail", 0),
				.turns = find_linked(cubin, "__cudart_i2opi_f", CODE_TURNS)};
	const unsigned char *code = content(cubin, section, &own.bytes);
	uint64_t where;

	if (!code || text->several)
		return true;
	if (!(own.code = malloc(own.bytes)))
		return false;
	memcpy(own.code, code, own.bytes);
	for (size_t i = 0, at; relocation_of(cubin, section, i, &where, &at); i++)
		own.several |= where > own.bytes || own.bytes - where < INSTRUCTION ||
			       !made_leave_open(own.code + where);
	code_text_put(text, &own);
	return true;
}

int code_read_cubin(const unsigned char *image, size_t bytes, struct code_table *table)
{
	struct code_layout layout;
	struct cubin cubin;
	int result = cubin_open(&cubin, image, bytes);

	result = !result && cubin.sm < 75 ? -EINVAL : result;
	for (size_t i = 0; !result && i < cubin.symbols; i++) {
		const Elf64_Sym *symbol = &cubin.symbol[i];
		const char *name = symbol_name(&cubin, symbol);
		uint32_t deeds;

		if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !(symbol->st_other & ENTRY) ||
		    !symbol->st_shndx || symbol->st_shndx >= cubin.sections)
			continue;
		if (table->layouts)
			read_layout(&cubin, symbol->st_shndx, &layout);
		deeds = deeds_of_kernel(&cubin, symbol->st_shndx,
					!table->wanted || !strcmp(name, table->wanted));
		if (symbol->st_value) /* paths are followed from where the section begins */
			deeds |= CODE_UNPROVEN;
		if (table->text && !symbol->st_value && !strcmp(name, table->wanted) &&
		    !keep_text(&cubin, symbol->st_shndx, table->text))
			result = -ENOMEM;
		if (!code_table_add(table, name, strlen(name), deeds) ||
		    (table->layouts && !code_table_place(table, &layout)))
			result = -ENOMEM;
	}
	free(cubin.work);
	free(cubin.queue);
	return result;
}
