/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches. The busiest hooks: while nobody watches memory a launch costs two tests and a
 * jump.
 */
#include "shim/hook/hook_driver.h"

#define LAUNCH(entry, per_thread)                                                                  \
	EXPORT CUresult entry(CUfunction kernel, unsigned grid_x, unsigned grid_y,                 \
			      unsigned grid_z, unsigned block_x, unsigned block_y,                 \
			      unsigned block_z, unsigned shared_bytes, CUstream stream,            \
			      void **params, void **extra)                                         \
	{                                                                                          \
		DRIVER_HOOK_BODY(entry,                                                            \
				 (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,       \
				  shared_bytes, stream, params, extra),                            \
				 flow_watching(), op.kind = OP_LAUNCH;                             \
				 op.stream = hook_stream(stream, per_thread);                      \
				 op.launch = ((struct op_launch){                                  \
					 .function = kernel,                                       \
					 .grid = {grid_x, grid_y, grid_z},                         \
					 .block = {block_x, block_y, block_z},                     \
					 .shared_bytes = shared_bytes,                             \
					 .params = params,                                         \
					 .extra = extra,                                           \
				 }));                                                              \
	}

LAUNCH(cuLaunchKernel, LEGACY)
LAUNCH(cuLaunchKernel_ptsz, PER_THREAD)

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

#define LAUNCH_EX(entry, per_thread)                                                               \
	EXPORT CUresult entry(const CUlaunchConfig *config, CUfunction kernel, void **params,      \
			      void **extra)                                                        \
	{                                                                                          \
		DRIVER_HOOK_BODY(                                                                  \
			entry, (config, kernel, params, extra), config &&flow_watching(),          \
			op.kind = OP_LAUNCH;                                                       \
			op.stream = hook_stream(config->hStream, per_thread);                      \
			op.launch = ((struct op_launch){                                           \
				.function = kernel,                                                \
				.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},    \
				.block = {config->blockDimX, config->blockDimY,                    \
					  config->blockDimZ},                                      \
				.shared_bytes = config->sharedMemBytes,                            \
				.params = params,                                                  \
				.extra = extra,                                                    \
				.attributes = config->attrs,                                       \
				.attribute_count = config->attrs ? config->numAttrs : 0,           \
				.peculiar = config->attrs && has_peculiar(config),                 \
				.cooperative = config->attrs && has_cooperative(config),           \
			}));                                                                       \
	}

LAUNCH_EX(cuLaunchKernelEx, LEGACY)
LAUNCH_EX(cuLaunchKernelEx_ptsz, PER_THREAD)

#define LAUNCH_COOPERATIVE(entry, per_thread)                                                      \
	EXPORT CUresult entry(CUfunction kernel, unsigned grid_x, unsigned grid_y,                 \
			      unsigned grid_z, unsigned block_x, unsigned block_y,                 \
			      unsigned block_z, unsigned shared_bytes, CUstream stream,            \
			      void **params)                                                       \
	{                                                                                          \
		DRIVER_HOOK_BODY(entry,                                                            \
				 (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,       \
				  shared_bytes, stream, params),                                   \
				 flow_watching(), op.kind = OP_LAUNCH;                             \
				 op.stream = hook_stream(stream, per_thread);                      \
				 op.launch = ((struct op_launch){                                  \
					 .function = kernel,                                       \
					 .grid = {grid_x, grid_y, grid_z},                         \
					 .block = {block_x, block_y, block_z},                     \
					 .shared_bytes = shared_bytes,                             \
					 .params = params,                                         \
					 .cooperative = true,                                      \
				 }));                                                              \
	}

LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, LEGACY)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, PER_THREAD)
