/* SPDX-License-Identifier: Apache-2.0
 *
 * The kept parameters, with other words where the pointers stand (step_launch.h).
 */
#include "shim/gpu/step_launch.h"

#include <string.h>

#include "shim/real/driver.h"

uint64_t step_pointer(const struct chain *chain, const struct step *step, int i)
{
	const struct ref *ref = &step->refs[i];
	uint64_t word;

	if (step->kind == OP_COPY)
		return chain->values[ref->index].begin;
	memcpy(&word, step->params + ref->where, 8);
	return word;
}

int step_launch(CUstream stream, const struct step *step, const uint64_t *place)
{
	unsigned char params[CHAIN_PARAM_BYTES];
	void *pointers[FUNCTION_MAX_PARAMS];

	memcpy(params, step->params, step->function->bytes);
	for (int i = 0; i < step->ref_count; i++)
		memcpy(params + step->refs[i].where, &place[i], 8);
	for (unsigned i = 0; i < step->function->param_count; i++)
		pointers[i] = params + step->function->param_offset[i];
	return driver.cuLaunchKernel(step->function->handle, step->grid[0], step->grid[1],
				     step->grid[2], step->block[0], step->block[1], step->block[2],
				     step->shared_bytes, stream, pointers, NULL) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static int run_copy(const struct chain *chain, const struct step *step, const uint64_t *place)
{
	const struct value *to = &chain->values[step->refs[1].index];

	return driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)place[1], (CUdeviceptr)place[0],
					   to->end - to->begin, chain->stream) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

int step_run(const struct chain *chain, const struct step *step, const uint64_t place[CHAIN_REFS])
{
	return step->kind == OP_COPY ? run_copy(chain, step, place)
				     : step_launch(chain->stream, step, place);
}
