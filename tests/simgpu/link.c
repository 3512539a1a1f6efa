/* SPDX-License-Identifier: Apache-2.0
 *
 * The linker: whatever it is given, its product is a cubin that stands, as any other does, for
 * fashim's own kernels (module.c).
 */
#include "sim.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

struct CUlinkState_st {
	bool filled;
	struct {
		Elf64_Ehdr header;
		char code[4096];
	} cubin;
};

CUresult CUDAAPI cuLinkCreate(unsigned int count, CUjit_option *options, void **values,
			      CUlinkState *out)
{
	SIM_ENTER_CONTEXT(" ");
	(void)ctx, (void)count, (void)options, (void)values;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = calloc(1, sizeof(**out));
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
			       const char *name, unsigned int count, CUjit_option *options,
			       void **values)
{
	SIM_ENTER(" type=%d size=%zu name=%s", type, size, name ? name : "");
	(void)count, (void)options, (void)values;
	if (!state || !data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	state->filled = true;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubin, size_t *size)
{
	SIM_ENTER(" ");
	if (!state || !state->filled || !cubin || !size)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(state->cubin.header.e_ident, ELFMAG, SELFMAG);
	state->cubin.header.e_ident[EI_CLASS] = ELFCLASS64;
	state->cubin.header.e_machine = 190; /* EM_CUDA */
	*cubin = &state->cubin;
	*size = sizeof(state->cubin);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state)
{
	SIM_ENTER(" ");
	free(state);
	return CUDA_SUCCESS;
}
