/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variant a call gets, and its launch.
 */
#include "shim/gpu/fused.h"

#include <errno.h>
#include <string.h>

#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "kernels/launch.h"
#include "shim/gpu/looks.h"
#include "shim/gpu/prepared.h"
#include "shim/chain/relayout.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/operand_rows.h"
#include "shim/gpu/tuned.h"
#include "shim/gpu/fused_loaded.h"

#define SOMEWHERE 0x10000 /* as aligned as any scratch */

/* The variant for a call, and in *by what decided. */
static const struct attn_variant *choose(const struct loaded *slot, const struct attn_args *args,
					 const char **by)
{
	const struct attn_variant *variant = NULL;
	const char *name = config()->kernel;

	*by = "forced";
	if (name[0])
		return attn_select_from(args, slot->arch, name, slot->available);
	*by = "tuned";
	name = tuned_kernel(slot->tuned, args);
	if (name)
		variant = attn_select_from(args, slot->arch, name, slot->available);
	if (variant)
		return variant;
	*by = "built_in";
	return attn_select_from(args, slot->arch, NULL, slot->available);
}

/* Is it of those for any GPU and any layout? */
static int is_general(const struct attn_variant *v)
{
	return v->family == ATTN_WMMA || v->family == ATTN_MMA;
}

/* Where only the general kernels take operands as they lie, may another take them in rows, or they
 * read them faster so? Where none takes V as it is, it is cast. */
static const struct attn_variant *choose_for_rows(const struct loaded *slot,
						  const struct attn_args *args,
						  const struct attn_variant *found, const char **by)
{
	const bool cast = operand_rows_cast(args);
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid;

	if (!cast && (!found || !is_general(found)))
		return found;
	for (enum operand_rows which = ROWS_QUERY_VALUE; which <= ROWS_ALL; which++) {
		const struct attn_variant *variant;
		const char *why;

		if (!operand_rows_help(args, which))
			continue;
		operand_rows_lay(&laid, copies, args, which, SOMEWHERE);
		variant = choose(slot, &laid, &why);
		if (!variant || (found && is_general(variant) &&
				 (which != ROWS_ALL || cast || !operand_rows_scattered(args))))
			continue;
		*by = why;
		return variant;
	}
	return found;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = fused_of(context);
	const char *by;

	return slot ? choose_for_rows(slot, args, choose(slot, args, &by), &by) : NULL;
}

const char *fused_chosen_by(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = fused_of(context);
	const char *by = "built_in";

	if (slot)
		choose_for_rows(slot, args, choose(slot, args, &by), &by);
	return by;
}

/* A kernel that comes before another. */
static CUfunction step_function(struct loaded *slot, const char *symbol)
{
	CUfunction function;
	int at = 0;

	while (at < FUSED_STEPS && slot->steps[at].symbol &&
	       strcmp(slot->steps[at].symbol, symbol) != 0)
		at++;
	if (at < FUSED_STEPS && slot->steps[at].symbol)
		return slot->steps[at].function;
	if (fused_function(&function, slot, symbol))
		return NULL;
	if (at < FUSED_STEPS) {
		slot->steps[at].symbol = symbol;
		slot->steps[at].function = function;
	}
	return function;
}

/* What must come before a fused_launch, by kernels found as they are needed. */
static int launch_steps(struct loaded *slot, CUstream stream, const struct attn_launch *what)
{
	for (int i = 0; i < what->before_count; i++) {
		const struct attn_step *step = &what->before[i];
		const CUfunction function = step_function(slot, step->symbol);

		if (!function ||
		    fused_launch(function, stream, step->grid, step->threads, 0, &step->parameter))
			return -EIO;
	}
	return 0;
}

/* For what is captured, while it is: a launch that is replayed must not write where somebody else
 * does by then. */
static struct {
	uint64_t begin; /* 0: nothing is lent */
	uint64_t next;	/* for the call that is being made */
} lent;

static uint64_t take_lent(uint64_t bytes)
{
	const uint64_t address = lent.next;

	if (address)
		lent.next += (bytes + SOMEWHERE - 1) / SOMEWHERE * SOMEWHERE;
	return address;
}

void fused_lend(uint64_t address)
{
	lent.begin = address;
}

/* Memory for the steps before a launch. */
struct room {
	uint64_t address; /* 0: none */
	bool kept;	  /* by looks.h, or lent: not to be given back */
	bool looked;	  /* the only step was made before, its result lies there */
};

static struct room room_for(CUcontext context, CUstream stream, const struct attn_variant *variant,
			    const struct attn_args *args, const struct attn_device *device)
{
	const uint64_t bytes = attn_launch_scratch(variant, args, device);
	struct room room = {0};
	struct attn_look look;

	if (!bytes)
		return room;
	if (driver_may_capture(stream)) {
		room.address = take_lent(bytes);
		room.kept = room.address != 0;
		return room;
	}
	if (attn_launch_look(&look, variant, args, device))
		room.address = looks_get(context, stream, &look, &room.looked);
	room.kept = room.address != 0;
	if (!room.address)
		room.address = scratch_get(context, stream, bytes, false);
	return room;
}

bool fused_loaded(CUcontext context, const struct attn_variant *variant)
{
	const struct loaded *slot = fused_of(context);
	const int index = (int)(variant - attn_variants);

	return slot && slot->variants[index];
}

int fused_load(CUcontext context, const struct attn_variant *variant)
{
	struct loaded *slot = fused_of(context);
	const int index = (int)(variant - attn_variants);
	const CUclusterSchedulingPolicy policy = attn_launch_policy(variant);
	CUfunction function;
	int error;

	if (!slot)
		return -EIO;
	if (slot->variants[index])
		return 0;
	COST(PURPOSE_IMAGES);
	error = fused_function(&function, slot, variant->symbol);
	if (error)
		return error;
	if (variant->shared_bytes > 48 * 1024 &&
	    driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				      variant->shared_bytes) != CUDA_SUCCESS)
		return -EIO;
	if (policy != CU_CLUSTER_SCHEDULING_POLICY_DEFAULT) /* faster so, but not without */
		driver.cuFuncSetAttribute(function,
					  CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
					  (int)policy);
	/* otherwise some drivers only do so at its first fused_launch */
	if (driver.cuFuncLoad && driver.cuFuncLoad(function) != CUDA_SUCCESS)
		return -EIO;
	slot->variants[index] = function;
	return 0;
}

static int launch_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
			    const struct attn_args *args)
{
	struct loaded *slot = fused_of(context);
	const int index = (int)(variant - attn_variants);
	const struct attn_launch *what;
	struct room room;
	int error = -EIO;

	room = room_for(context, stream, variant, args, &slot->device);
	what = prepared_launch(variant, args, &slot->device, room.address);
	if (what && (room.looked || !launch_steps(slot, stream, what)))
		error = fused_launch(slot->variants[index], stream, what->grid, what->threads,
				     what->shared_bytes, &what->parameter);
	if (!room.kept)
		scratch_put(room.address, stream);
	else if (error)
		looks_forget();
	return error;
}

static bool takes(const struct loaded *slot, const struct attn_variant *variant,
		  const struct attn_args *args)
{
	return attn_possible(args) &&
	       attn_takes(variant, &(struct attn_call){.args = args,
						       .arch = slot->arch,
						       .available = slot->available});
}

/* Which operands are to be in rows before it reads them? */
static enum operand_rows rows_for(const struct loaded *slot, const struct attn_variant *variant,
				  const struct attn_args *args)
{
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid;

	if (is_general(variant) && operand_rows_scattered(args))
		return ROWS_ALL;
	if (!operand_rows_help(args, ROWS_ALL) || takes(slot, variant, args))
		return ROWS_NONE;
	operand_rows_lay(&laid, copies, args, ROWS_QUERY_VALUE, SOMEWHERE);
	return takes(slot, variant, &laid) ? ROWS_QUERY_VALUE : ROWS_ALL;
}

uint64_t fused_scratch(CUcontext context, const struct attn_variant *variant,
		       const struct attn_args *args)
{
	const struct loaded *slot = fused_of(context);
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid = *args;
	enum operand_rows which;
	uint64_t bytes;

	if (!slot)
		return 0;
	which = rows_for(slot, variant, args);
	operand_rows_lay(&laid, copies, args, which, SOMEWHERE);
	bytes = (operand_rows_bytes(args, which) + SOMEWHERE - 1) / SOMEWHERE * SOMEWHERE;
	return bytes + attn_launch_scratch(variant, &laid, &slot->device);
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args)
{
	struct loaded *slot = fused_of(context);
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid;
	enum operand_rows which;
	bool captured;
	uint64_t rows;
	int count, error = args->spec.mask_also.base ? -EINVAL : fused_load(context, variant);

	if (error)
		return error;
	lent.next = lent.begin;
	which = rows_for(slot, variant, args);
	if (which == ROWS_NONE)
		return launch_attention(context, stream, variant, args);
	captured = driver_may_capture(stream);
	rows = captured ? take_lent(operand_rows_bytes(args, which))
			: scratch_get(context, stream, operand_rows_bytes(args, which), false);
	if (!rows)
		return -EIO;
	count = operand_rows_lay(&laid, copies, args, which, rows);
	for (int n = 0; n < count && !error; n++)
		error = fused_lay_out(context, stream, &copies[n]);
	if (!error)
		error = launch_attention(context, stream, variant, &laid);
	if (!captured)
		scratch_put(rows, stream);
	return error;
}
