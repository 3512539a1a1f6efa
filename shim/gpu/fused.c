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
#include "shim/gpu/image_rows.h"
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

/* The same where biases of images are laid out first. */
static const struct attn_variant *choose_laid(const struct loaded *slot,
					      const struct attn_args *args, const char **by)
{
	struct relayout copies[ATTN_MAX_BIAS];
	struct attn_args laid;

	if (image_rows_help(args)) {
		image_rows_lay(&laid, copies, args, SOMEWHERE);
		args = &laid;
	}
	return choose_for_rows(slot, args, choose(slot, args, by), by);
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = fused_of(context);
	const char *by;

	return slot ? choose_laid(slot, args, &by) : NULL;
}

const char *fused_chosen_by(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = fused_of(context);
	const char *by = "built_in";

	if (slot)
		choose_laid(slot, args, &by);
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

static uint64_t whole(uint64_t bytes)
{
	return (bytes + SOMEWHERE - 1) / SOMEWHERE * SOMEWHERE;
}

static uint64_t take_lent(uint64_t bytes)
{
	const uint64_t address = lent.next;

	if (address)
		lent.next += whole(bytes);
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

/* Of a call whose biases are laid out, if they are to be. */
static uint64_t rows_scratch(const struct loaded *slot, const struct attn_variant *variant,
			     const struct attn_args *args)
{
	const enum operand_rows which = rows_for(slot, variant, args);
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid;

	operand_rows_lay(&laid, copies, args, which, SOMEWHERE);
	return whole(operand_rows_bytes(args, which)) +
	       attn_launch_scratch(variant, &laid, &slot->device);
}

uint64_t fused_scratch(CUcontext context, const struct attn_variant *variant,
		       const struct attn_args *args)
{
	const struct loaded *slot = fused_of(context);
	struct relayout copies[ATTN_MAX_BIAS];
	struct attn_args laid;

	if (!slot)
		return 0;
	if (!image_rows_help(args))
		return rows_scratch(slot, variant, args);
	image_rows_lay(&laid, copies, args, SOMEWHERE);
	return whole(image_rows_bytes(args)) + rows_scratch(slot, variant, &laid);
}

/* Memory for copies of operands, until their call is enqueued. */
static uint64_t take_room(CUcontext context, CUstream stream, uint64_t bytes)
{
	return driver_may_capture(stream) ? take_lent(bytes)
					  : scratch_get(context, stream, bytes, false);
}

static void give_room(CUstream stream, uint64_t room)
{
	if (room < lent.begin || room >= lent.next)
		scratch_put(room, stream);
}

static int lay_out(CUcontext context, CUstream stream, const struct relayout *copies, int count)
{
	int error = 0;

	for (int n = 0; n < count && !error; n++)
		error = fused_lay_out(context, stream, &copies[n]);
	return error;
}

static int launch_in_rows(CUcontext context, CUstream stream, const struct attn_variant *variant,
			  const struct attn_args *args)
{
	const enum operand_rows which = rows_for(fused_of(context), variant, args);
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid;
	uint64_t room;
	int count, error;

	if (which == ROWS_NONE)
		return launch_attention(context, stream, variant, args);
	room = take_room(context, stream, operand_rows_bytes(args, which));
	if (!room)
		return -EIO;
	count = operand_rows_lay(&laid, copies, args, which, room);
	error = lay_out(context, stream, copies, count);
	if (!error)
		error = launch_attention(context, stream, variant, &laid);
	give_room(stream, room);
	return error;
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args)
{
	int count, error = args->spec.mask_also.base ? -EINVAL : fused_load(context, variant);
	struct relayout copies[ATTN_MAX_BIAS];
	struct attn_args laid;
	uint64_t room;

	if (error)
		return error;
	lent.next = lent.begin;
	if (!image_rows_help(args))
		return launch_in_rows(context, stream, variant, args);
	room = take_room(context, stream, image_rows_bytes(args));
	if (!room)
		return -EIO;
	count = image_rows_lay(&laid, copies, args, room);
	error = lay_out(context, stream, copies, count);
	if (!error)
		error = launch_in_rows(context, stream, variant, &laid);
	give_room(stream, room);
	return error;
}
