/* SPDX-License-Identifier: Apache-2.0
 *
 * Building chains out of ops. Nothing here calls the driver: the same code replays a trace.
 */
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "site.h"

struct chain *chain_list[CHAIN_COUNT];
int chain_live;

static struct chain *chains; /* CHAIN_COUNT of them once the first was opened */

static uint64_t serial;

/* Largest head dimension that opens a chain: above it no kernel could take over, and projections of
 * a model's width would all be candidates. */
#define MAX_HEAD_DIM 512

uint64_t hash_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9fb21c651e98df25ull;
	hash ^= hash >> 32;
	hash *= 0xd6e8feb86659fd93ull;
	return hash ^ (hash >> 29);
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	uint64_t word;

	for (; size >= 8; size -= 8, from += 8) {
		memcpy(&word, from, 8);
		hash = hash_mix(hash, word);
	}
	word = 0;
	memcpy(&word, from, size);
	return hash_mix(hash, word ^ (uint64_t)size << 56);
}

static bool plain_product(const struct op_gemm *op)
{
	return op->plain && !op->by_array && !op->scalars_on_device && op->batch > 0 && op->m > 0 &&
	       op->n > 0 && op->k > 0 && dtype_of_cuda(op->atype) >= 0 && op->atype == op->btype &&
	       dtype_of_cuda(op->ctype) >= 0;
}

bool chain_may_open(const struct op *op)
{
	struct gemm gemm;

	if (!plain_product(&op->gemm) || op->gemm.k > MAX_HEAD_DIM || op->gemm.d)
		return false;
	gemm_from_op(&gemm, &op->gemm);
	return matrix_dense(&gemm.c, gemm.batch);
}

static void widen(struct chain *chain, uint64_t begin, uint64_t end)
{
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

int chain_add_input(struct chain *chain, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < chain->input_count; i++)
		if (chain->inputs[i].begin == begin && chain->inputs[i].end == end)
			return i;
	if (chain->input_count == CHAIN_INPUTS)
		return -1;
	widen(chain, begin, end);
	chain->inputs[chain->input_count] = (struct input){.begin = begin, .end = end};
	return chain->input_count++;
}

struct chain *chain_open(const struct op *op)
{
	struct chain *chain = NULL;
	struct step *step;
	struct gemm gemm;
	uint64_t begin, end;

	if (!chains) {
		chains = calloc(CHAIN_COUNT, sizeof(*chains));
		if (!chains)
			return NULL;
	}
	for (int i = 0; i < CHAIN_COUNT && !chain; i++)
		if (!chains[i].used)
			chain = &chains[i];
	if (!chain)
		return NULL;
	memset(chain, 0, offsetof(struct chain, values));
	chain->used = true;
	chain->context = op->context;
	chain->stream = op->stream;
	chain->serial = ++serial;
	chain->p_value = -1;
	chain->low = UINT64_MAX;
	chain_list[chain_live++] = chain;

	gemm_from_op(&gemm, &op->gemm);
	matrix_extent(&gemm.a, gemm.batch, &begin, &end);
	chain_add_input(chain, begin, end);
	matrix_extent(&gemm.b, gemm.batch, &begin, &end);
	if (chain_add_input(chain, begin, end) == 0) /* Q is K: still two operands */
		chain->inputs[chain->input_count++] = chain->inputs[0];
	matrix_extent(&gemm.c, gemm.batch, &begin, &end);
	add_value(chain, begin, end);

	step = &chain->steps[chain->step_count++];
	memset(step, 0, offsetof(struct step, params));
	step->kind = OP_GEMM;
	step->name = op->gemm.entry;
	step->gemm = op->gemm;
	step->ref_count = 0;
	step->meaning.role = ROLE_OPAQUE;
	if (op->gemm.beta != 0) {
		chain->unfit = REASON_BETA;
		snprintf(chain->detail, sizeof(chain->detail), "beta = %g", op->gemm.beta);
	}
	return chain;
}

void chain_free(struct chain *chain)
{
	for (int i = 0; i < chain_live; i++)
		if (chain_list[i] == chain) {
			chain_list[i] = chain_list[--chain_live];
			break;
		}
	chain->used = false;
}

/* The value that holds the address. Of a provisional one only the beginning is certain. */
static int value_at(const struct chain *chain, uint64_t address)
{
	for (int i = chain->value_count - 1; i >= 0; i--) {
		const struct value *value = &chain->values[i];

		if ((!value->provisional || value->begin == address) &&
		    range_set_touches(&value->live, address, address + 1))
			return i;
	}
	return -1;
}

struct chain *chain_reader(const struct op *op, const struct access_list *list)
{
	if (op->kind != OP_LAUNCH && op->kind != OP_GEMM && op->kind != OP_COPY)
		return NULL;
	if (op->kind == OP_COPY && (list->count != 2 || !strstr(op->name, "Async")))
		return NULL; /* to or from the host, or one that the host waits for */
	for_each_chain(chain)
	{
		if (chain->closed || chain->stream != op->stream || chain->context != op->context)
			continue;
		for (int i = 0; i < list->count; i++)
			if ((list->item[i].mode & ACCESS_READ) &&
			    value_at(chain, list->item[i].begin) >= 0)
				return chain;
	}
	return NULL;
}

static void unfit(struct chain *chain, enum reason reason, const char *detail)
{
	if (chain->unfit != REASON_NONE)
		return;
	chain->unfit = reason;
	snprintf(chain->detail, sizeof(chain->detail), "%s", detail);
}

static void add_ref(struct chain *chain, struct step *step, struct ref ref)
{
	if (step->ref_count == CHAIN_REFS)
		unfit(chain, REASON_UNACCOUNTED_POINTER, "too many pointers");
	else
		step->refs[step->ref_count++] = ref;
}

static void ref_value(struct chain *chain, struct step *step, int index,
		      const struct access *access)
{
	add_ref(chain, step,
		(struct ref){.kind = REF_VALUE,
			     .mode = access->mode,
			     .index = index,
			     .where = access->where,
			     .slot = index,
			     .delta = (int64_t)(access->begin - chain->values[index].begin)});
}

static void ref_input(struct chain *chain, struct step *step, const struct access *access)
{
	int index = chain_add_input(chain, access->begin, access->end);

	if (index < 0) {
		unfit(chain, REASON_UNACCOUNTED_POINTER, "too many inputs");
		return;
	}
	add_ref(chain, step,
		(struct ref){.kind = REF_INPUT,
			     .mode = access->mode,
			     .index = index,
			     .where = access->where,
			     .slot = -1});
}

/* A fresh version: everything older loses these bytes. A provisional one, whose length is a guess,
 * takes nothing away: what the kernel reads cannot be what it writes past its beginning. */
static void new_version(struct chain *chain, struct step *step, const struct access *access,
			uint64_t end, bool provisional)
{
	struct value *value;

	for (int i = 0; i < chain->value_count && !provisional; i++)
		if (range_set_cut(&chain->values[i].live, access->begin, end) < 0)
			unfit(chain, REASON_LAYOUT, "scores overwritten in too many pieces");
	value = add_value(chain, access->begin, end);
	if (!value) {
		unfit(chain, REASON_UNKNOWN_KERNEL, "too many intermediate values");
		return;
	}
	value->provisional = provisional;
	ref_value(chain, step, chain->value_count - 1, access);
}

/* With a rule the accesses say what is read and what is written. */
static void link_ruled(struct chain *chain, struct step *step, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];
		int value = value_at(chain, access->begin);

		if (access->mode == ACCESS_WRITE)
			continue;
		if (value >= 0) {
			chain->values[value].used = true;
			ref_value(chain, step, value, access);
		} else {
			ref_input(chain, step, access);
		}
	}
	for (int i = 0; i < list->count; i++)
		if (list->item[i].mode == ACCESS_WRITE)
			new_version(chain, step, &list->item[i], list->item[i].end, false);
}

void chain_narrow(const struct chain *chain, struct access_list *list)
{
	const struct site *model = chain->model;
	int slot = chain->value_count;

	for (int i = 0; i < list->count; i++) {
		struct access *access = &list->item[i];
		const int value = value_at(chain, access->begin);

		if (access->mode != ACCESS_UNKNOWN || access->bounded)
			continue;
		if (value >= 0) {
			if (!chain->values[value].provisional)
				access->end = chain->values[value].end;
			access->bounded = true;
			continue;
		}
		access->mode = ACCESS_WRITE;
		if (model && slot < model->value_count) {
			access->end = access->begin + model->values[slot].bytes;
			access->bounded = true;
			if (model->values[slot].outside)
				access->mode = ACCESS_READ;
			else
				access->sure_end = access->end;
		}
		slot++;
	}
}

/* A pointer that was an input when the site was learned: it keeps a value's place, so that
 * numbering and signature stay the same. */
static void outside_value(struct chain *chain, struct step *step, const struct access *access)
{
	struct value *value = add_value(chain, access->begin, access->end);
	const int input = chain_add_input(chain, access->begin, access->end);

	if (!value || input < 0) {
		unfit(chain, REASON_UNACCOUNTED_POINTER, step->name);
		return;
	}
	value->outside = true;
	value->live.count = 0;
	add_ref(chain, step,
		(struct ref){.kind = REF_INPUT,
			     .mode = ACCESS_WRITE,
			     .index = input,
			     .where = access->where,
			     .slot = chain->value_count - 1});
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
		const int value = value_at(chain, access->begin);

		if (value >= 0) {
			chain->values[value].used |= value < before;
			ref_value(chain, step, value, access);
		} else if (access->mode == ACCESS_READ) {
			outside_value(chain, step, access);
		} else {
			uint64_t end = access->begin + most;

			end = end < access->end ? end : access->end;
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
			unfit(chain, REASON_UNACCOUNTED_POINTER,
			      "an intermediate of unknown length");
		count += value->outside;
	}
	return count;
}

static uint64_t sign_meaning(uint64_t hash, const struct meaning *meaning)
{
	uint64_t scalar;

	memcpy(&scalar, &meaning->scalar, 8);
	hash = hash_mix(hash, scalar);
	hash = hash_mix(hash, (uint64_t)meaning->dims);
	for (int i = 0; i < meaning->view_count; i++) {
		hash = hash_mix(hash, (uint64_t)meaning->views[i].dtype);
		for (int d = 0; d < meaning->dims; d++)
			hash = hash_mix(hash, meaning->views[i].stride[d] == 0);
	}
	return hash;
}

/* Everything but the pointers: their words are read as zero. */
static uint64_t sign_params(uint64_t hash, const struct step *step, const struct access_list *list)
{
	unsigned char bytes[CHAIN_PARAM_BYTES];
	const uint64_t zero = 0;

	memcpy(bytes, step->params, step->function->bytes);
	for (int i = 0; i < list->count; i++)
		if ((unsigned)list->item[i].where + 8 <= step->function->bytes)
			memcpy(bytes + list->item[i].where, &zero, 8);
	hash = hash_bytes(hash, bytes, step->function->bytes);
	hash = hash_bytes(hash, step->grid, sizeof(step->grid));
	hash = hash_bytes(hash, step->block, sizeof(step->block));
	return hash_mix(hash, step->shared_bytes);
}

static bool has_meaning(const struct meaning *meaning)
{
	return meaning->role != ROLE_UNKNOWN && meaning->role != ROLE_OPAQUE;
}

static uint64_t sign(const struct step *step, const struct access_list *list)
{
	uint64_t hash = hash_mix(0x66617368696dull, step->meaning.role);

	if (has_meaning(&step->meaning)) {
		hash = hash_bytes(hash, step->function->name, strlen(step->function->name));
		hash = sign_meaning(hash, &step->meaning);
	} else {
		hash = hash_mix(hash, step->function->id);
		hash = sign_params(hash, step, list);
	}
	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *ref = &step->refs[i];

		hash = hash_mix(hash,
				(uint64_t)ref->mode << 16 |
					(uint64_t)(ref->slot >= 0 ? ref->slot : 256 + ref->index));
		hash = hash_mix(hash, (uint64_t)ref->where);
		hash = hash_mix(hash, ref->kind == REF_VALUE ? (uint64_t)ref->delta : 0);
	}
	return hash;
}

/* A copy of a whole value is a step like any other. */
static bool extend_by_copy(struct chain *chain, const struct op *op, const struct access_list *list)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const int from = value_at(chain, op->copy.source.base);
	struct step *step = &chain->steps[chain->step_count];

	if (chain->step_count == CHAIN_STEPS || !op->copy.exact || from < 0 ||
	    chain->values[from].begin != op->copy.source.base ||
	    chain->values[from].end != op->copy.source.base + op->copy.source.bytes ||
	    op->copy.source.bytes != op->copy.target.bytes) {
		unfit(chain, REASON_UNKNOWN_KERNEL, op->name);
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
	ref_value(chain, step, from, &list->item[0]);
	new_version(chain, step, &list->item[1], list->item[1].end, false);
	step->signature =
		hash_mix(hash_mix(0x636f7079, (uint64_t)from), (uint64_t)chain->value_count);
	return true;
}

bool chain_extend(struct chain *chain, const struct op *op, const struct access_list *list,
		  const struct function *function, const unsigned char *params)
{
	struct step *step;

	chain->age = 0;
	if (op->kind == OP_COPY)
		return extend_by_copy(chain, op, list);
	if (op->kind != OP_LAUNCH || !function || !params || list->opaque) {
		unfit(chain, REASON_UNKNOWN_KERNEL, op->name);
		return false;
	}
	if (chain->step_count == CHAIN_STEPS || function->bytes > CHAIN_PARAM_BYTES) {
		unfit(chain, REASON_UNKNOWN_KERNEL, function->name);
		return false;
	}
	step = &chain->steps[chain->step_count++];
	memset(step, 0, offsetof(struct step, params));
	step->kind = OP_LAUNCH;
	step->function = function;
	memcpy(step->grid, op->launch.grid, sizeof(step->grid));
	memcpy(step->block, op->launch.block, sizeof(step->block));
	step->shared_bytes = op->launch.shared_bytes;
	memcpy(step->params, params, function->bytes);
	step->ref_count = 0;
	rules_meaning(function, &op->launch, params, &step->meaning);
	step->name =
		has_meaning(&step->meaning) ? rules_role_name(step->meaning.role) : function->name;
	if (op->launch.cooperative || op->launch.attribute_count)
		unfit(chain, REASON_UNKNOWN_KERNEL, function->name);
	if (step->meaning.role != ROLE_UNKNOWN)
		link_ruled(chain, step, list);
	else
		link_unknown(chain, step, list);
	step->signature = sign(step, list);
	return true;
}

/* P seen as [Sq,Sk] must lie exactly as the opening GEMM laid S: keys fastest, queries next, batch
 * last. */
static bool contracts_scores(const struct op_gemm *opener, const struct matrix *p, bool p_is_a,
			     int64_t batch)
{
	int64_t keys = p_is_a ? p->cols : p->rows, queries = p_is_a ? p->rows : p->cols;
	int64_t key_stride = p_is_a ? p->col_stride : p->row_stride;
	int64_t query_stride = p_is_a ? p->row_stride : p->col_stride;

	return batch == opener->batch && keys == opener->m && queries == opener->n &&
	       (keys == 1 || key_stride == 1) && (queries == 1 || query_stride == keys) &&
	       (batch == 1 || p->batch_stride == keys * queries);
}

bool chain_close(struct chain *chain, const struct op *op)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	struct gemm gemm;
	int found = -1;

	if (!plain_product(&op->gemm))
		return false;
	gemm_from_op(&gemm, &op->gemm);
	for (int side = 0; side < 2; side++) {
		const struct matrix *p = side ? &gemm.b : &gemm.a;
		const struct matrix *v = side ? &gemm.a : &gemm.b;
		int at = value_at(chain, p->base);
		uint64_t begin, end;

		if (at < 0 || chain->values[at].begin != p->base ||
		    !contracts_scores(opener, p, side == 0, gemm.batch))
			continue;
		if (value_at(chain, v->base) >= 0) /* P times P: not ours */
			return false;
		matrix_extent(p, gemm.batch, &begin, &end);
		if (chain->values[at].provisional) {
			if (chain->values[at].end < end)
				return false;
			chain->values[at].end = end;
			range_set_cut(&chain->values[at].live, end, UINT64_MAX);
			for (int i = 0; i < chain->value_count; i++)
				if (i != at)
					range_set_cut(&chain->values[i].live, begin, end);
			chain->values[at].provisional = false;
		}
		if (!range_set_covers(&chain->values[at].live, begin, end))
			return false;
		found = at;
		break;
	}
	if (found < 0)
		return false;
	chain->p_value = found;
	chain->closer = op->gemm;
	return true;
}

const char *chain_step_name(const struct step *step)
{
	return step->name;
}
