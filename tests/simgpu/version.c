/* SPDX-License-Identifier: Apache-2.0
 *
 * Which CUDA the simulated driver is of. SIMGPU_DRIVER=12.2 makes it older than it is: what came
 * later is gone from its symbols as well as from cuGetProcAddress, since programs and the shim look
 * in either. That has to be before anybody does: when the library is loaded.
 */
#include "sim.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int sim_version = SIM_NEWEST;

bool sim_runs_nothing(void)
{
	const char *value = getenv("SIMGPU_RUN");

	return value && !strcmp(value, "none");
}

extern ElfW(Dyn) _DYNAMIC[];

/* The table has no length of its own: the strings lie behind it. */
static void hide_newer(ElfW(Sym) * symbols, const char *strings, ElfW(Addr) bias)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t first = (uintptr_t)symbols & ~(page - 1);
	const size_t bytes = (uintptr_t)strings - first;

	if (mprotect((void *)first, bytes, PROT_READ | PROT_WRITE))
		abort();
	for (ElfW(Sym) *s = symbols; (const char *)(s + 1) <= strings; s++)
		for (unsigned i = 0; i < sim_entry_count; i++)
			if (s->st_value &&
			    (uintptr_t)sim_entries[i].address == bias + s->st_value &&
			    sim_entries[i].version > sim_version) {
				s->st_value = 0;
				s->st_shndx = SHN_UNDEF;
			}
	if (mprotect((void *)first, bytes, PROT_READ))
		abort();
}

__attribute__((constructor)) static void choose_version(void)
{
	const char *text = getenv("SIMGPU_DRIVER");
	ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	Dl_info info;
	struct link_map *map;
	int major, minor;

	if (!text || sscanf(text, "%d.%d", &major, &minor) != 2 ||
	    !dladdr1((void *)choose_version, &info, (void **)&map, RTLD_DL_LINKMAP))
		return;
	sim_version = major * 1000 + minor * 10;
	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = (ElfW(Sym) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
	}
	if (symbols && (const char *)symbols < strings)
		hide_newer(symbols, strings, map->l_addr);
}
