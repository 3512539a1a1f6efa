/* SPDX-License-Identifier: Apache-2.0
 *
 * Textures of linear memory, as the simulated driver makes them (memory_calls.c).
 */
#ifndef FASHIM_CUDA_HOST_TEXTURE_H
#define FASHIM_CUDA_HOST_TEXTURE_H

#include <stdint.h>

/* Where a texture object leads. */
struct sim_texture {
	uint64_t base, bytes;
};

#ifdef __cplusplus
typedef unsigned long long cudaTextureObject_t;

/* Behind the end there are zeros. */
template <typename T> static inline T tex1Dfetch(cudaTextureObject_t object, int i)
{
	const struct sim_texture *texture = (const struct sim_texture *)object;

	if (i < 0 || (uint64_t)i >= texture->bytes / sizeof(T))
		return T(0);
	return ((const T *)texture->base)[i];
}
#endif

#endif
