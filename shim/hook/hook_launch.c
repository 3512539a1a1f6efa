/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches. The busiest hooks: while nobody watches memory a launch costs two tests and a
 * jump.
 */
#include "shim/hook/hook_driver.h"

static bool has_cooperative(const CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
		    config->attrs[i].value.cooperative)
			return true;
	return false;
}

/* A kernel that may begin before the one ahead of it has ended waits for it by itself. */
static bool is_peculiar(const CUlaunchAttribute *attribute)
{
	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: /* told apart */
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return false;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		return attribute->value.clusterDim.x * attribute->value.clusterDim.y *
			       attribute->value.clusterDim.z !=
		       1;
	default:
		return true;
	}
}

static bool has_peculiar(const CUlaunchConfig *config)
{
	bool any = false;

	for (unsigned i = 0; i < config->numAttrs; i++)
		any |= is_peculiar(&config->attrs[i]);
	return any;
}

/* What the functions differ in, `...`, are further fields of struct op_launch. */
#define LAUNCH_HOOK(entry, per_thread, parameters, arguments, wanted, on, grid_, block_, bytes,    \
		    ...)                                                                           \
	DRIVER_HOOK(entry, parameters, arguments, wanted, op.kind = OP_LAUNCH;                     \
		    op.stream = hook_stream(on, per_thread);                                       \
		    op.launch = ((struct op_launch){.function = kernel,                            \
						    .grid = UNPACK grid_,                          \
						    .block = UNPACK block_,                        \
						    .shared_bytes = bytes,                         \
						    .params = params,                              \
						    __VA_ARGS__}))
#define UNPACK(...)                                                                                \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

#define DIMENSIONS                                                                                 \
	CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
		unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,        \
		void **params

#define LAUNCH(entry, per_thread, ...)                                                             \
	LAUNCH_HOOK(entry, per_thread, (DIMENSIONS, void **extra),                                 \
		    (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,      \
		     stream, params, extra),                                                       \
		    flow_watching(), stream, (grid_x, grid_y, grid_z),                             \
		    (block_x, block_y, block_z), shared_bytes, .extra = extra)
BOTH(LAUNCH, cuLaunchKernel, ptsz)

#define LAUNCH_COOPERATIVE(entry, per_thread, ...)                                                 \
	LAUNCH_HOOK(entry, per_thread, (DIMENSIONS),                                               \
		    (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,      \
		     stream, params),                                                              \
		    flow_watching(), stream, (grid_x, grid_y, grid_z),                             \
		    (block_x, block_y, block_z), shared_bytes, .cooperative = true)
BOTH(LAUNCH_COOPERATIVE, cuLaunchCooperativeKernel, ptsz)

#define LAUNCH_EX(entry, per_thread, ...)                                                          \
	LAUNCH_HOOK(                                                                               \
		entry, per_thread,                                                                 \
		(const CUlaunchConfig *config, CUfunction kernel, void **params, void **extra),    \
		(config, kernel, params, extra), config &&flow_watching(), config->hStream,        \
		(config->gridDimX, config->gridDimY, config->gridDimZ),                            \
		(config->blockDimX, config->blockDimY, config->blockDimZ), config->sharedMemBytes, \
		.extra = extra, .attributes = config->attrs,                                       \
		.attribute_count = config->attrs ? config->numAttrs : 0,                           \
		.peculiar = config->attrs && has_peculiar(config),                                 \
		.cooperative = config->attrs && has_cooperative(config))
BOTH(LAUNCH_EX, cuLaunchKernelEx, ptsz)
