/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL. Outside of a group a collective is launched by its call; inside, by the end of the
 * outermost group, until when its operands are kept. NCCL's kernels find the program's buffers in
 * memory of their own, so a call that is not understood is not left to the launch hooks: before it
 * everything is made what the program believes it to be.
 */
#include "shim/hook/hook_library.h"

#include <stdlib.h>

#define TRANSFERS 256

/* One buffer of a collective. */
struct transfer {
	struct op_operand operand;
	CUstream stream;
	CUcontext context;
};

struct group {
	int count;
	struct transfer transfer[TRANSFERS];
};

/* Of this thread: how many groups are open, and, once something was called inside, what. */
static __thread int group_depth;
static __thread struct group *group;
static __thread bool group_unknown;

static uint64_t type_bytes(ncclDataType_t type)
{
	switch ((int)type) {
	case NCCL_INT8:
	case NCCL_UINT8:
	case NCCL_FLOAT8E4M3:
	case NCCL_FLOAT8E5M2:
		return 1;
	case NCCL_FLOAT16:
	case NCCL_BFLOAT16:
		return 2;
	case NCCL_INT32:
	case NCCL_UINT32:
	case NCCL_FLOAT32:
		return 4;
	case NCCL_INT64:
	case NCCL_UINT64:
	case NCCL_FLOAT64:
		return 8;
	default:
		return 0;
	}
}

/* A communicator of another device than the current one is not understood: what its kernels touch
 * must be guarded over there. */
static bool ask_comm(const struct library *library, ncclComm_t comm, int *rank, int *ranks)
{
	__typeof__(&ncclCommUserRank) get_rank = LIBRARY_ASK(library, ncclCommUserRank);
	__typeof__(&ncclCommCount) get_count = LIBRARY_ASK(library, ncclCommCount);
	__typeof__(&ncclCommCuDevice) get_device = LIBRARY_ASK(library, ncclCommCuDevice);
	CUdevice current;
	int device;

	*rank = *ranks = 0;
	return comm && get_rank && get_count && get_device && (int)get_rank(comm, rank) == 0 &&
	       (int)get_count(comm, ranks) == 0 && (int)get_device(comm, &device) == 0 &&
	       *ranks > 0 && driver_resolve() == 0 &&
	       driver.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device;
}

static void add(struct operands *operands, const void *address, size_t count, uint64_t element,
		enum operand_use use)
{
	uint64_t bytes;

	if (!element || __builtin_mul_overflow(count, element, &bytes))
		operands->unknown = true;
	else
		operands_add(operands, address, bytes, use);
}

/* ---- groups --------------------------------------------------------------------------------- */

/* A buffer that goes on where one of the same kind ends: a list of sends out of one buffer. */
static bool extend(const struct op_operand *operand, const struct op *op)
{
	for (struct transfer *t = group->transfer; t < group->transfer + group->count; t++) {
		if (t->stream != op->stream || t->context != op->context ||
		    t->operand.read != operand->read || t->operand.written != operand->written ||
		    t->operand.whole != operand->whole || t->operand.end != operand->begin)
			continue;
		t->operand.end = operand->end;
		return true;
	}
	return false;
}

/* Keeps a call's operands for the end of the group. */
static void keep(const struct library_call *call)
{
	const struct op_library *library = &call->operands.library;
	const bool fresh = !group;

	if (!group && !group_unknown)
		group = malloc(sizeof(*group));
	if (group && fresh)
		group->count = 0;
	if (!group || call->operands.unknown) {
		group_unknown = true;
		return;
	}
	for (int i = 0; i < library->count; i++) {
		if (extend(&library->operand[i], &call->op))
			continue;
		if (group->count == TRANSFERS) {
			group_unknown = true;
			return;
		}
		group->transfer[group->count++] =
			(struct transfer){library->operand[i], call->op.stream, call->op.context};
	}
}

static void forget_group(void)
{
	free(group);
	group = NULL;
	group_unknown = false;
}

/* What one call of the group reads, another may write: nothing of that is overwritten unread. */
static void settle_group(void)
{
	struct transfer *t = group->transfer;

	for (int i = 0; i < group->count; i++)
		for (int k = 0; k < group->count; k++)
			if (t[k].operand.read && t[i].operand.begin < t[k].operand.end &&
			    t[k].operand.begin < t[i].operand.end)
				t[i].operand.whole = false;
}

/* Offers the next op made of transfers of one stream, what they read first. false: none is left. */
static bool declare_some(struct library_call *call, const char *name)
{
	bool any = false;

	call->op = (struct op){.name = name};
	call->operands.unknown = false;
	call->operands.library.count = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < group->count; i++) {
			struct transfer *t = &group->transfer[i];

			if (t->operand.begin == t->operand.end || t->operand.read != (pass == 0) ||
			    (any &&
			     (t->stream != call->op.stream || t->context != call->op.context)) ||
			    call->operands.library.count == OPERANDS_MAX)
				continue;
			any = true;
			call->op.stream = t->stream;
			call->op.context = t->context;
			call->operands.library.operand[call->operands.library.count++] = t->operand;
			t->operand.end = t->operand.begin;
		}
	}
	return any && library_declare(call);
}

/* Before the end of the outermost group. Returns whether its kernels are declared. */
static bool declare_group(const char *name)
{
	struct library_call call;

	if (group_unknown) {
		flow_flush(name);
		return false;
	}
	if (!group)
		return true;
	settle_group();
	while (declare_some(&call, name))
		;
	return true;
}

LIBRARY_FUNCTION(ncclResult_t, ncclGroupStart, (void))
{
	ncclResult_t status;
	LIBRARY_REAL(ncclResult_t, ncclGroupStart, NULL, (), 3)

	if (hook_bypassed())
		return real();
	status = real();
	if ((int)status == 0)
		group_depth++;
	return status;
}

LIBRARY_FUNCTION(ncclResult_t, ncclGroupEnd, (void))
{
	ncclResult_t status;
	bool declared;
	LIBRARY_REAL(ncclResult_t, ncclGroupEnd, NULL, (), 3)

	if (hook_bypassed())
		return real();
	if (group_depth > 1) {
		group_depth--;
		return real();
	}
	group_depth = 0;
	declared = declare_group("ncclGroupEnd");
	hook_depth += declared;
	status = real();
	hook_depth -= declared;
	forget_group();
	return status;
}

/* Ends a group without launching anything. */
LIBRARY_FUNCTION(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * info))
{
	LIBRARY_REAL(ncclResult_t, ncclGroupSimulateEnd, NULL, (info), 3)

	if (hook_bypassed())
		return real(info);
	if (group_depth > 0 && --group_depth == 0)
		forget_group();
	return real(info);
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* The words of an operand list; counts are in elements. */
#define READ(address, elements)	   add(told, address, elements, element, OPERAND_READ);
#define WRITTEN(address, elements) add(told, address, elements, element, OPERAND_WRITTEN);
#define WHOLE(address, elements)   add(told, address, elements, element, OPERAND_WHOLE);
/* An operation of the program's own may read a factor from memory that is named elsewhere. */
#define BUILT_IN(operation)                                                                        \
	if ((unsigned)(operation) >= NCCL_OPERATIONS)                                              \
		told->unknown = true;

/* Returns whether the call's kernels, if any, are declared. */
static bool offer(struct library_call *call, bool *offered)
{
	*offered = false;
	if (group_depth > 0) {
		keep(call);
		return true;
	}
	if (!flow_watching())
		return true;
	*offered = library_declare(call);
	if (!*offered)
		flow_flush(call->op.name);
	return *offered;
}

#define NCCL(function, parameters, arguments, ...)                                                 \
	LIBRARY_FUNCTION(ncclResult_t, function, parameters)                                       \
	{                                                                                          \
		struct library_call call;                                                          \
		struct operands *const told = &call.operands;                                      \
		const uint64_t element = type_bytes(type);                                         \
		int rank = 0, ranks = 0;                                                           \
		ncclResult_t status;                                                               \
		bool offered, declared;                                                            \
		LIBRARY_REAL(ncclResult_t, function, comm, arguments, 3)                           \
                                                                                                   \
		if (hook_bypassed())                                                               \
			return real arguments;                                                     \
		call.op = (struct op){.name = #function,                                           \
				      .context = hook_context(),                                   \
				      .stream = hook_stream((CUstream)stream, false)};             \
		told->library.count = 0;                                                           \
		if (group_depth > 0 || flow_watching()) {                                          \
			hook_depth++;                                                              \
			told->unknown = !ask_comm(library, comm, &rank, &ranks);                   \
			hook_depth--;                                                              \
			__VA_ARGS__                                                                \
		}                                                                                  \
		declared = offer(&call, &offered);                                                 \
		hook_depth += declared;                                                            \
		status = real arguments;                                                           \
		hook_depth -= declared;                                                            \
		if (offered && (int)status == 0)                                                   \
			flow_after(&call.op);                                                      \
		return status;                                                                     \
	}
#include "shim/real/nccl_hooks.def"
