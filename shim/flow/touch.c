/* SPDX-License-Identifier: Apache-2.0
 *
 * op → what it touches: what the call declares, else what a rule reads off its parameters, else
 * what was measured, else everything that it could reach.
 */
#include "shim/flow/touch.h"

#include <string.h>

#include "shim/ask/addresses.h"
#include "shim/ask/reach.h"
#include "shim/flow/capture.h"
#include "shim/gpu/late.h"
#include "shim/gpu/looks.h"
#include "shim/hazard/copies.h"
#include "shim/hazard/held.h"
#include "shim/op/gemm.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/rules/rules.h"

static void add_matrix(struct access_list *list, const struct matrix *matrix, int64_t batch,
		       enum access_mode mode, int where)
{
	struct access access = {.mode = mode, .where = where, .bounded = true};

	matrix_extent(matrix, batch, &access.begin, &access.end);
	access.sure_end = access.begin;
	if (mode == ACCESS_WRITE && matrix_dense(matrix, batch))
		access.sure_end = access.end;
	access_add(list, access);
}

/* Frameworks say with each product where it may work, and keep that apart: it is one access more
 * where anything lies near that somebody may want, or where nobody knows yet (a graph). */
static bool workspace_matters(const struct op_gemm *op)
{
	const uint64_t end = op->workspace + op->workspace_bytes;

	return op->workspace_bytes &&
	       (capture_under_way() || late_any() || held_near(op->workspace, end) ||
		copies_near(op->workspace, end));
}

/* The longest there is, a complex number of two doubles. */
static void add_scalar(struct access_list *list, uint64_t address)
{
	if (address)
		access_add(list, (struct access){.begin = address,
						 .end = address + 16,
						 .sure_end = address,
						 .mode = ACCESS_READ,
						 .bounded = true,
						 .where = 6});
}

static void of_operands(struct access_list *list, const struct op_operand *o, int count, int where)
{
	for (int i = 0; i < count; i++, o++)
		access_add(list, (struct access){.begin = o->begin,
						 .end = o->end,
						 .sure_end = o->whole ? o->end : o->begin,
						 .mode = (o->read ? ACCESS_READ : 0) |
							 (o->written ? ACCESS_WRITE : 0),
						 .bounded = true,
						 .where = where});
}

static void leave_unsure(struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		list->item[i].sure_end = list->item[i].begin;
}

static void of_gemm(struct access_list *list, const struct op_gemm *op)
{
	struct gemm gemm;
	bool reads_c = op->beta != 0 || op->scalars_on_device;

	if (op->by_array) {
		list->opaque = true;
		return;
	}
	gemm_from_op(&gemm, op);
	add_matrix(list, &gemm.a, gemm.batch, ACCESS_READ, 0);
	add_matrix(list, &gemm.b, gemm.batch, ACCESS_READ, 1);
	if (op->d && op->d != op->c) {
		struct matrix c = gemm.c;

		c.base = op->c;
		if (reads_c && c.base)
			add_matrix(list, &c, gemm.batch, ACCESS_READ, 4);
		reads_c = false;
	}
	add_matrix(list, &gemm.c, gemm.batch, reads_c ? ACCESS_UNKNOWN : ACCESS_WRITE, 2);
	if (workspace_matters(op)) /* behind the output, which is asked for first */
		access_add(list, (struct access){.begin = op->workspace,
						 .end = op->workspace + op->workspace_bytes,
						 .sure_end = op->workspace + op->workspace_bytes,
						 .mode = ACCESS_WRITE,
						 .bounded = true,
						 .where = 5});
	if (op->extra) /* an auxiliary output or a bias: either way it is touched */
		access_add(list, (struct access){.begin = op->extra,
						 .end = op->extra + op->extra_bytes,
						 .mode = ACCESS_UNKNOWN,
						 .bounded = true,
						 .where = 3});
	if (op->scalars_on_device) {
		add_scalar(list, op->alpha_at);
		add_scalar(list, op->beta_at);
	}
	of_operands(list, op->beside, op->beside_count, 6);
	if (op->may_fail)
		leave_unsure(list);
}

/* A call that is refused leaves alone what it would have overwritten: here, one that goes beyond
 * the memory where it begins, or begins in none, for all that is known … */
static bool succeeds(const struct op_range *range)
{
	return !range->bytes ||
	       (memory_lookup(range->base) && memory_holds(range->base, range->bytes));
}

/* Of what everybody may have no more is asked. */
static bool shared_fits(const struct op_launch *launch)
{
	int most;

	return launch->shared_bytes <= 48 << 10 ||
	       driver.cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					 launch->function) != CUDA_SUCCESS ||
	       (int64_t)launch->shared_bytes <= most;
}

/* … or asks for what no device has, or its kernel is not allowed. */
static bool may_run(const struct op_launch *launch)
{
	const unsigned *grid = launch->grid, *block = launch->block;

	return grid[0] && grid[1] && grid[2] && grid[0] <= INT32_MAX && grid[1] <= 65535 &&
	       grid[2] <= 65535 && block[0] && block[1] && block[2] && block[2] <= 64 &&
	       (uint64_t)block[0] * block[1] <= 1024 &&
	       (uint64_t)block[0] * block[1] * block[2] <= 1024 && shared_fits(launch);
}

static void add_range(struct access_list *list, const struct op_range *range, enum access_mode mode,
		      bool sure)
{
	uint64_t end = range->base + range->bytes;

	if (!range->bytes || !memory_find(range->base))
		return;
	access_add(list, (struct access){.begin = range->base,
					 .end = end,
					 .sure_end = sure ? end : range->base,
					 .mode = mode,
					 .bounded = true});
}

bool touch_frees(const struct op *op)
{
	const struct op_range *range = &op->alloc.range;
	const struct allocation *allocation = memory_find(range->base);
	const enum memory_kind kind = allocation ? allocation->kind : MEMORY_SHARED;

	if (kind == MEMORY_SHARED || op->alloc.kind == MEMORY_SHARED)
		return true;
	if (op->alloc.kind == MEMORY_DEVICE)
		return kind != MEMORY_HOST && kind != MEMORY_MAPPED;
	return op->alloc.kind == kind &&
	       (kind != MEMORY_MAPPED || range->bytes >= allocation->bytes);
}

/* What lay there is gone, in every mapping of the range; or is not, where the call does not go with
 * the memory. */
static void of_free(struct access_list *list, const struct op *op)
{
	const struct op_range *range = &op->alloc.range;
	const struct allocation *allocation = memory_find(range->base);
	const bool frees = touch_frees(op);
	uint64_t end = range->base + range->bytes;

	if (allocation && allocation->base == range->base && allocation->bytes > range->bytes)
		end = allocation->base + allocation->bytes;
	if (end > range->base)
		access_add(list, (struct access){.begin = range->base,
						 .end = end,
						 .sure_end = frees ? end : range->base,
						 .mode = frees ? ACCESS_WRITE : ACCESS_UNKNOWN,
						 .bounded = true});
}

static void add_pointer(struct access_list *list, const unsigned char *params, unsigned at)
{
	uint64_t word, begin, end;

	memcpy(&word, params + at, 8);
	if (memory_reach(word, &begin, &end))
		access_add(list, (struct access){.pointer = word,
						 .begin = begin,
						 .end = end,
						 .sure_end = begin,
						 .mode = ACCESS_UNKNOWN,
						 .grade = GRADE_UNKNOWN,
						 .where = (int)at});
}

/* Does anything lie there that must not be touched unseen? Of two numbers that happen to make an
 * address no more is asked. */
static bool leads_to_kept(uint64_t address)
{
	return memory_find(address) &&
	       (capture_under_way() || late_pending() || held_near(address, address + 1) ||
		copies_near(address, address + 1) || looks_near(address));
}

/* No rule: each 8-byte word of a parameter that is a device address may lead to any byte of its
 * allocation, for reading and writing. */
static void of_unknown_launch(const struct sight *sight)
{
	unsigned at;

	if (function_hides_address(sight->function, sight->params, leads_to_kept)) {
		sight->list->opaque = true;
		return;
	}
	for (unsigned i = 0; i < sight->function->param_count; i++)
		for_each_pointer_word(sight->function, i, at)
			add_pointer(sight->list, sight->params, at);
	if (!sight->list->count)
		sight->list->far = reach_besides(sight->function);
}

static void grade(struct access_list *list, enum access_grade grade)
{
	for (int i = 0; i < list->count; i++)
		list->item[i].grade = grade;
}

void touch_accesses(const struct sight *sight)
{
	struct access_list *list = sight->list;
	const struct op *op = sight->op;

	list->count = 0;
	list->opaque = list->far = list->unsettled = list->dear = false;
	switch (op->kind) {
	case OP_GEMM:
		of_gemm(list, &op->gemm);
		break;
	case OP_LAUNCH:
		if (!sight->params || !may_run(&op->launch))
			list->opaque = true;
		else if (rules_access(sight->function, &op->launch, sight->params, list,
				      sight->meaning))
			grade(list, GRADE_RULED);
		else if (addresses_access(sight))
			grade(list, GRADE_MEASURED);
		else
			of_unknown_launch(sight);
		break;
	case OP_COPY:
		add_range(list, &op->copy.source, ACCESS_READ, false);
		add_range(list, &op->copy.target, ACCESS_WRITE,
			  op->copy.exact && succeeds(&op->copy.source) &&
				  succeeds(&op->copy.target));
		break;
	case OP_FILL:
		add_range(list, &op->fill.target, ACCESS_WRITE,
			  op->fill.exact && succeeds(&op->fill.target));
		break;
	case OP_LIBRARY:
		of_operands(list, op->library->operand, op->library->count, 0);
		break;
	case OP_FREE:
		of_free(list, op);
		break;
	case OP_OPAQUE:
	case OP_GRAPH_LAUNCH:
	case OP_CAPTURE_BEGIN:
		list->opaque = true;
		break;
	default:
		break;
	}
}

const struct sight *touch_see(struct op *op)
{
	static unsigned char params[FUNCTION_MAX_BYTES]; /* flow lock */
	static struct access_list list;
	static struct meaning meaning;
	static struct sight sight;

	sight = (struct sight){.op = op, .list = &list, .who = op->name};
	if (op->kind == OP_LAUNCH)
		sight.function = function_get(op->launch.function);
	if (sight.function && function_read_params(sight.function, &op->launch, params)) {
		sight.params = params;
		sight.meaning = &meaning;
		sight.who = sight.function->name;
	}
	touch_accesses(&sight);
	return &sight;
}
