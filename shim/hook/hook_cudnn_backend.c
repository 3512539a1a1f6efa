/* SPDX-License-Identifier: Apache-2.0
 *
 * cuDNN's backend: descriptors are noted as they are made (cudnn_graph.h), executing a plan is a
 * call with declared operands.
 */
#include "shim/operands/cudnn_attributes.h"
#include "shim/operands/cudnn_graph.h"
#include "shim/hook/hook_library.h"

/* A call that makes or changes a descriptor; `...` notes it when it succeeded. */
#define DESCRIPTOR_HOOK(function, parameters, arguments, ...)                                      \
	LIBRARY_FUNCTION(cudnnStatus_t, function, parameters)                                      \
	{                                                                                          \
		cudnnStatus_t status;                                                              \
		LIBRARY_REAL(cudnnStatus_t, function, NULL, arguments, 1)                          \
                                                                                                   \
		if (hook_bypassed())                                                               \
			return real arguments;                                                     \
		status = real arguments;                                                           \
		if ((int)status == 0) {                                                            \
			__VA_ARGS__;                                                               \
		}                                                                                  \
		return status;                                                                     \
	}

DESCRIPTOR_HOOK(cudnnBackendCreateDescriptor,
		(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor),
		(type, descriptor), cudnn_graph_created(*descriptor, (int)type))

DESCRIPTOR_HOOK(cudnnBackendSetAttribute,
		(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
		 cudnnBackendAttributeType_t type, int64_t count, const void *array),
		(descriptor, name, type, count, array),
		cudnn_graph_set(descriptor, (int)name, (int)type, count, array))

DESCRIPTOR_HOOK(cudnnBackendGetAttribute,
		(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
		 cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *array),
		(descriptor, name, type, wanted, count, array),
		int64_t given = count && *count < wanted ? *count : wanted;
		cudnn_graph_got(descriptor, (int)name, (int)type, given, array))

static int64_t ask_workspace(const struct library *library, cudnnBackendDescriptor_t plan)
{
	int (*get)(void *, int, int, int64_t, int64_t *, void *) =
		(int (*)(void *, int, int, int64_t, int64_t *, void *))library_getter(
			library, LIBRARY_GETTER_cudnnBackendGetAttribute);
	int64_t bytes = -1, count = 0;

	hook_depth++;
	if (!get || get(plan, EXECUTION_PLAN_WORKSPACE_SIZE, TYPE_INT64, 1, &count, &bytes) != 0 ||
	    count != 1)
		bytes = -1;
	hook_depth--;
	return bytes;
}

DESCRIPTOR_HOOK(cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor),
		if (cudnn_graph_is_plan(descriptor))
			cudnn_graph_workspace(descriptor, ask_workspace(library, descriptor)))

LIBRARY_FUNCTION(cudnnStatus_t, cudnnBackendDestroyDescriptor,
		 (cudnnBackendDescriptor_t descriptor))
{
	LIBRARY_REAL(cudnnStatus_t, cudnnBackendDestroyDescriptor, NULL, (descriptor), 1)

	/* Forgotten first: another thread may be given the same address as soon as it is free. */
	if (!hook_bypassed())
		cudnn_graph_destroyed(descriptor);
	return real(descriptor);
}

LIBRARY_HOOK(cudnnStatus_t, cudnnBackendExecute,
	     (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack),
	     (handle, plan, pack), handle, 1, {
		     LIBRARY_STREAM(call, library, cudnnGetStream, handle);
		     cudnn_graph_operands(plan, pack, &call.operands);
	     })
