/* SPDX-License-Identifier: Apache-2.0
 *
 * Building chains out of ops. Nothing here calls the driver: the same code replays a trace.
 */
#include "shim/chain/chain.h"
#include "shim/chain/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chain *chain_list[CHAIN_COUNT];
int chain_live, chain_open_count;

static struct chain *chains; /* CHAIN_COUNT of them once the first was opened */
static uint64_t serial;
static uint64_t moment; /* counts inputs and snapshots */

uint64_t chain_moment(void)
{
	return ++moment;
}

/* Largest head dimension that opens a chain: above it no kernel could take over, and projections of
 * a model's width would all be candidates. */
#define MAX_HEAD_DIM 512

bool chain_plain_product(const struct op_gemm *op)
{
	return op->plain && !op->by_array && op->batch > 0 && op->m > 0 && op->n > 0 && op->k > 0 &&
	       dtype_of_cuda(op->atype) >= 0 && op->atype == op->btype &&
	       dtype_of_cuda(op->ctype) >= 0;
}

bool chain_may_open(const struct op *op)
{
	struct gemm gemm;
	int64_t apart;

	if (!chain_plain_product(&op->gemm) || op->gemm.k > MAX_HEAD_DIM || op->gemm.d)
		return false;
	gemm_from_op(&gemm, &op->gemm);
	return matrix_dense(&gemm.c, gemm.batch) && matrix_even(&gemm.c, gemm.batch, &apart);
}

static void widen(struct chain *chain, uint64_t begin, uint64_t end)
{
	chain->outline.drawn = false;
	if (begin < chain->low)
		chain->low = begin;
	if (end > chain->high)
		chain->high = end;
}

static struct value *add_value(struct chain *chain, uint64_t begin, uint64_t end)
{
	struct value *value;

	if (chain->value_count == CHAIN_VALUES)
		return NULL;
	value = &chain->values[chain->value_count++];
	*value = (struct value){.begin = begin, .end = end};
	range_set_one(&value->live, begin, end);
	widen(chain, begin, end);
	return value;
}

static struct input *set_input(struct chain *chain, int index, uint64_t begin, uint64_t end)
{
	struct input *input = &chain->inputs[index];

	*input = (struct input){.begin = begin, .end = end, .since = chain_moment()};
	widen(chain, begin, end);
	return input;
}

int chain_add_input(struct chain *chain, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < chain->input_count; i++) {
		struct input *input = &chain->inputs[i];

		if (input->begin == begin && input->end == end && !input->snapshot &&
		    !input->lost) {
			input->pitched.pitch = 0;
			return i;
		}
	}
	if (chain->input_count == CHAIN_INPUTS)
		return -1;
	set_input(chain, chain->input_count, begin, end);
	return chain->input_count++;
}

/* An operand of GEMM1: A is input 0, B is input 1, also where they are the same. */
static void add_operand(struct chain *chain, const struct matrix *matrix, int64_t batch)
{
	int64_t size[MATRIX_DIMS], stride[MATRIX_DIMS];
	uint64_t begin, end;

	matrix_extent(matrix, batch, &begin, &end);
	matrix_dimensions(matrix, batch, size, stride);
	set_input(chain, chain->input_count++, begin, end)->pitched =
		pitched_of(MATRIX_DIMS, size, stride, matrix->element);
}

void chain_unfit(struct chain *chain, enum reason reason, const char *detail)
{
	if (chain->unfit != REASON_NONE)
		return;
	chain->unfit = reason;
	snprintf(chain->detail, sizeof(chain->detail), "%s", detail);
}

/* One that is free, not in use yet; NULL: none. */
static struct chain *free_chain(void)
{
	if (!chains)
		chains = calloc(CHAIN_COUNT, sizeof(*chains));
	for (int i = 0; chains && i < CHAIN_COUNT; i++)
		if (!chains[i].used)
			return &chains[i];
	return NULL;
}

struct chain *chain_again(const struct chain *from)
{
	struct chain *chain = free_chain();

	if (!chain)
		return NULL;
	*chain = *from;
	chain->used = true;
	chain->outline.drawn = false;
	chain->serial = ++serial;
	chain_list[chain_live++] = chain;
	chain_open_count += !chain->closed;
	return chain;
}

struct chain *chain_open(const struct op *op)
{
	struct chain *chain = free_chain();
	struct step *step;
	struct gemm gemm;
	uint64_t begin, end;

	if (!chain)
		return NULL;
	memset(chain, 0, offsetof(struct chain, values));
	chain->used = true;
	chain->context = op->context;
	chain->stream = op->stream;
	chain->serial = ++serial;
	chain->p_value = -1;
	chain->low = UINT64_MAX;
	for (int n = 0; n < RELAYOUT_OPERANDS; n++)
		chain->relayed[n] = -1;
	chain->narrow[0] = chain->narrow[1] = -1;
	chain_list[chain_live++] = chain;
	chain_open_count++;

	gemm_from_op(&gemm, &op->gemm);
	add_operand(chain, &gemm.a, gemm.batch);
	add_operand(chain, &gemm.b, gemm.batch);
	matrix_extent(&gemm.c, gemm.batch, &begin, &end);
	add_value(chain, begin, end);

	step = &chain->steps[chain->step_count++];
	memset(step, 0, offsetof(struct step, params));
	step->kind = OP_GEMM;
	step->name = op->gemm.entry;
	step->gemm = op->gemm;
	step->ref_count = 0;
	step->meaning.role = ROLE_OPAQUE;
	chain->preload = op->gemm.beta != 0 ? chain_add_input(chain, begin, end) : -1;
	if (op->gemm.scalars_on_device)
		chain_unfit(chain, REASON_SCALARS_ON_DEVICE, op->gemm.entry);
	return chain;
}

/* What a copy reads. */
static struct pitched pitched_of_copy(const struct relayout *copy)
{
	int64_t size[VIEW_DIMS], stride[VIEW_DIMS];

	for (int d = 0; d < copy->dims; d++) {
		size[d] = copy->dim[d].size;
		stride[d] = copy->dim[d].from;
	}
	return pitched_of(copy->dims, size, stride, attn_dtype_size(copy->source));
}

bool chain_relay(struct chain *chain, int n, const struct relayout *copy)
{
	int index = n == RELAYOUT_BIAS ? chain->preload : n;

	if (n == RELAYOUT_V)
		index = chain_add_input(chain, copy->in_begin, copy->in_end);
	else if (index >= 0)
		set_input(chain, index, copy->in_begin, copy->in_end)->pitched =
			pitched_of_copy(copy);
	if (index < 0)
		return false;
	chain->relayed[n] = index;
	relayout_copy(&chain->relay[n], copy);
	return true;
}

void chain_free(struct chain *chain)
{
	parts_end(chain);
	for (int i = 0; i < chain_live; i++)
		if (chain_list[i] == chain) {
			chain_list[i] = chain_list[--chain_live];
			break;
		}
	chain_open_count -= !chain->closed;
	chain->used = false;
}

int chain_value_at(const struct chain *chain, uint64_t address)
{
	for (int i = chain->value_count - 1; i >= 0; i--) {
		const struct value *value = &chain->values[i];

		if (address >= value->begin && address < value->end &&
		    (!value->provisional || value->begin == address) &&
		    range_set_touches(&value->live, address, address + 1))
			return i;
	}
	return -1;
}

static void add_ref(struct chain *chain, struct step *step, const struct access *access,
		    struct ref ref)
{
	ref.where = access->where;
	ref.bounded = access->bounded && access->grade <= GRADE_RULED;
	ref.first = (int64_t)(access->begin - access->pointer);
	ref.first = ref.first < 0 ? ref.first : 0;
	ref.beyond = (int64_t)(access->end - access->pointer);
	ref.beyond = ref.beyond > 1 ? ref.beyond : 1;
	if (step->ref_count == CHAIN_REFS)
		chain_unfit(chain, REASON_UNACCOUNTED_POINTER, "too many pointers");
	else
		step->refs[step->ref_count++] = ref;
}

static void ref_value(struct chain *chain, struct step *step, int index,
		      const struct access *access)
{
	add_ref(chain, step, access,
		(struct ref){.kind = REF_VALUE,
			     .mode = access->mode,
			     .index = index,
			     .slot = index,
			     .delta = (int64_t)(access->pointer - chain->values[index].begin)});
}

static void ref_input(struct chain *chain, struct step *step, const struct access *access)
{
	int index = chain_add_input(chain, access->pointer, access->end);

	if (index < 0) {
		chain_unfit(chain, REASON_UNACCOUNTED_POINTER, "too many inputs");
		return;
	}
	add_ref(chain, step, access,
		(struct ref){.kind = REF_INPUT, .mode = access->mode, .index = index, .slot = -1});
}

/* A fresh version: everything older loses these bytes. A provisional one, whose length is a guess,
 * takes nothing away: what the kernel reads cannot be what it writes past its beginning. */
static void new_version(struct chain *chain, struct step *step, const struct access *access,
			uint64_t end, bool provisional)
{
	struct value *value;

	for (int i = 0; i < chain->value_count && !provisional; i++)
		if (range_set_cut(&chain->values[i].live, access->pointer, end) < 0)
			chain_unfit(chain, REASON_LAYOUT, "scores overwritten in too many pieces");
	value = add_value(chain, access->pointer, end);
	if (!value) {
		chain_unfit(chain, REASON_UNKNOWN_KERNEL, "too many intermediate values");
		return;
	}
	value->provisional = provisional;
	value->left = access->left;
	ref_value(chain, step, chain->value_count - 1, access);
}

/* With a rule the accesses say what is read and what is written. */
static void link_ruled(struct chain *chain, struct step *step, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];
		int value = chain_value_at(chain, access->pointer);

		if (access->mode == ACCESS_WRITE)
			continue;
		if (value >= 0) {
			chain->values[value].used = true;
			ref_value(chain, step, value, access);
		} else {
			ref_input(chain, step, access);
		}
	}
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];

		if (access->mode != ACCESS_WRITE)
			continue;
		/* Bytes between would be made, which the program never wrote. */
		if (access->sure_end < access->end)
			chain->gaps = true;
		new_version(chain, step, access, access->end, false);
	}
}

/* A pointer that was an input when the site was learned: it keeps a value's place, so that
 * numbering and signature stay the same. */
static void outside_value(struct chain *chain, struct step *step, const struct access *access)
{
	struct value *value = add_value(chain, access->pointer, access->end);
	const int input = chain_add_input(chain, access->pointer, access->end);

	if (!value || input < 0) {
		chain_unfit(chain, REASON_UNACCOUNTED_POINTER, step->name);
		return;
	}
	value->outside = true;
	value->live.count = 0;
	add_ref(chain, step, access,
		(struct ref){.kind = REF_INPUT,
			     .mode = ACCESS_WRITE,
			     .index = input,
			     .slot = chain->value_count - 1});
}

/* One launch makes of several products' scores what as many products read: what it does besides
 * nobody would do in its place. */
static void check_within(struct chain *chain, const struct access *access, uint64_t begin,
			 uint64_t end)
{
	if (access->bounded && access->grade <= GRADE_RULED &&
	    (access->begin < begin || access->end > end))
		chain_unfit(chain, REASON_UNACCOUNTED_POINTER, "more than the scores");
}

/* Without a rule, pointers into live values may be read, written or both: the value keeps its
 * identity. Any other pointer becomes a value of unknown length; the close tells which it was,
 * output or input. */
static void link_unknown(struct chain *chain, struct step *step, const struct access_list *list)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const uint64_t most = (uint64_t)(opener->m * opener->n * opener->batch * 4);
	const int before = chain->value_count;

	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];
		const int value = chain_value_at(chain, access->pointer);

		if (value >= 0) {
			/* what was put there may end behind the value */
			if (access->pointer != chain->values[value].begin)
				chain_unfit(chain, REASON_UNACCOUNTED_POINTER,
					    "a pointer into the middle of scores");
			check_within(chain, access, chain->values[value].begin,
				     chain->values[value].end);
			chain->values[value].used |= value < before;
			ref_value(chain, step, value, access);
		} else if (access->mode == ACCESS_READ) {
			outside_value(chain, step, access);
		} else {
			uint64_t end = access->pointer + most;

			end = end < access->end ? end : access->end;
			check_within(chain, access, access->pointer, end);
			/* Nobody looks at what a graph leaves alone. */
			chain->gaps |= chain->recorded && access->bounded &&
				       access->sure_end < access->end;
			new_version(chain, step, access, end, !access->bounded);
		}
	}
}

int chain_settle_outside(struct chain *chain)
{
	int count = 0;

	for (int i = 1; i < chain->value_count; i++) {
		struct value *value = &chain->values[i];

		if (value->provisional && !value->used && i != chain->p_value)
			value->outside = true;
		else if (value->provisional && i != chain->p_value)
			chain_unfit(chain, REASON_UNACCOUNTED_POINTER,
				    "an intermediate of unknown length");
		count += value->outside;
	}
	return count;
}

/* A copy of a whole value is a step like any other. */
static bool extend_by_copy(struct chain *chain, const struct op *op, const struct access_list *list)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const int from = chain_value_at(chain, op->copy.source.base);
	struct step *step = &chain->steps[chain->step_count];

	if (chain->step_count == CHAIN_STEPS || !op->copy.exact || from < 0 ||
	    chain->values[from].begin != op->copy.source.base ||
	    chain->values[from].end != op->copy.source.base + op->copy.source.bytes ||
	    op->copy.source.bytes != op->copy.target.bytes) {
		chain_unfit(chain, REASON_UNKNOWN_KERNEL, op->name);
		return false;
	}
	chain->step_count++;
	memset(step, 0, offsetof(struct step, params));
	memset(&step->meaning, 0, sizeof(step->meaning));
	step->kind = OP_COPY;
	step->ref_count = 0;
	step->meaning.role = ROLE_COPY;
	step->meaning.elements = opener->m * opener->n * opener->batch;
	step->name = rules_role_name(ROLE_COPY);
	chain->values[from].used = true;
	ref_value(chain, step, from, &list->item[0]);
	new_version(chain, step, &list->item[1], list->item[1].end, false);
	step->signature =
		hash_mix(hash_mix(0x636f7079, (uint64_t)from), (uint64_t)chain->value_count);
	return true;
}

void step_keep(struct step *step, const struct sight *sight)
{
	const struct op_launch *launch = &sight->op->launch;

	step->kind = OP_LAUNCH;
	step->function = sight->function;
	memcpy(step->grid, launch->grid, sizeof(step->grid));
	memcpy(step->block, launch->block, sizeof(step->block));
	step->shared_bytes = launch->shared_bytes;
	memcpy(step->params, sight->params, sight->function->bytes);
}

static struct step *add_step(struct chain *chain, const struct sight *sight)
{
	struct step *step = &chain->steps[chain->step_count++];

	memset(step, 0, offsetof(struct step, params));
	step_keep(step, sight);
	step->first_value = chain->value_count;
	step->ref_count = 0;
	rules_meaning_seen(sight, &step->meaning);
	rules_settle_constant(&step->meaning);
	step->name = chain_has_meaning(&step->meaning) ? rules_role_name(step->meaning.role)
						       : sight->function->name;
	return step;
}

bool chain_append(struct chain *chain, const struct sight *sight)
{
	if (chain->step_count == CHAIN_STEPS || chain->value_count == CHAIN_VALUES ||
	    sight->function->bytes > CHAIN_PARAM_BYTES)
		return false;
	link_ruled(chain, add_step(chain, sight), sight->list);
	chain->outline.drawn = false;
	return true;
}

bool chain_extend(struct chain *chain, const struct sight *sight)
{
	const struct function *function = sight->function;
	const struct access_list *list = sight->list;
	const struct op *op = sight->op;
	struct step *step;

	chain->age = 0;
	if (op->kind == OP_COPY)
		return extend_by_copy(chain, op, list);
	if (!sight->params || list->opaque) {
		chain->softmax |= !function || chain_kernel_may_be_softmax(function);
		chain_unfit(chain, REASON_UNKNOWN_KERNEL, op->name);
		return false;
	}
	if (chain->step_count == CHAIN_STEPS || function->bytes > CHAIN_PARAM_BYTES) {
		chain->softmax |= chain_kernel_may_be_softmax(function);
		chain_unfit(chain, REASON_UNKNOWN_KERNEL, function->name);
		return false;
	}
	step = add_step(chain, sight);
	if (op->launch.cooperative || op->launch.peculiar)
		chain_unfit(chain, REASON_UNKNOWN_KERNEL, function->name);
	if (step->meaning.role != ROLE_UNKNOWN)
		link_ruled(chain, step, list);
	else
		link_unknown(chain, step, list);
	step->signature = chain_sign(&chain->steps[0].gemm, step, list);
	step->launch_key = step->meaning.role == ROLE_UNKNOWN /* only these are asked for it */
				   ? chain_launch_key(&chain->steps[0].gemm, sight)
				   : 0;
	chain->softmax = chain->softmax || chain_step_may_be_softmax(step);
	return true;
}
