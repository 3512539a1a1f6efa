/* SPDX-License-Identifier: Apache-2.0
 *
 * From the sizes and strides of a copy, and the strides in which a product reads what was copied,
 * to the strides in which it could have read the original; the same the other way round for what a
 * product wrote.
 */
#include "shim/chain/relayout.h"

#include <string.h>

/* ---- what a copy is ------------------------------------------------------------------------- */

/* By the stride of the output, ascending: then each dimension begins where the last one ended. */
static void sort_dims(struct relayout *r)
{
	for (int i = 1; i < r->dims; i++)
		for (int k = i; k > 0 && r->dim[k].to < r->dim[k - 1].to; k--) {
			const int64_t swap[3] = {r->dim[k].size, r->dim[k].to, r->dim[k].from};

			r->dim[k] = r->dim[k - 1];
			r->dim[k - 1].size = swap[0];
			r->dim[k - 1].to = swap[1];
			r->dim[k - 1].from = swap[2];
		}
}

/* Has the output no holes? */
static bool is_dense(const struct relayout *r)
{
	int64_t expected = 1;

	for (int d = 0; d < r->dims; d++) {
		if (r->dim[d].to != expected)
			return false;
		expected *= r->dim[d].size;
	}
	return r->dims > 0;
}

static bool set_dims(struct relayout *r, const struct meaning *meaning)
{
	const struct view *out = &meaning->views[0], *in = &meaning->views[1];

	r->dims = 0;
	for (int d = 0; d < meaning->dims; d++) {
		if (meaning->size[d] == 1)
			continue;
		if (out->stride[d] % out->element || in->stride[d] % in->element)
			return false;
		r->dim[r->dims].size = meaning->size[d];
		r->dim[r->dims].to = out->stride[d] / out->element;
		r->dim[r->dims++].from = in->stride[d] / in->element;
	}
	sort_dims(r);
	return is_dense(r);
}

static uint64_t sign(const struct relayout *r)
{
	uint64_t hash = hash_mix(0x72656c6179ull, r->step.function->id);

	hash = hash_mix(hash, (uint64_t)(r->dtype << 8 | r->source));

	for (int d = 0; d < r->dims; d++) {
		hash = hash_mix(hash, (uint64_t)r->dim[d].size);
		hash = hash_mix(hash, (uint64_t)r->dim[d].from);
	}
	return hash;
}

/* Are all numbers of the first type numbers of the second? */
static bool holds(int source, int dtype)
{
	return source == dtype ||
	       (dtype == ATTN_F32 && (source == ATTN_F16 || source == ATTN_BF16));
}

bool relayout_read(struct relayout *r, const struct sight *sight)
{
	const struct function *function = sight->function;
	const struct op_launch *launch = &sight->op->launch;
	const struct access_list *list = sight->list;
	struct step *step = &r->step;
	const struct meaning *meaning = &step->meaning;
	const struct access *out = NULL, *in = NULL;

	if (!sight->params || !function->rule || list->opaque ||
	    (function->functor.role != ROLE_UNKNOWN && function->functor.role != ROLE_COPY) ||
	    list->count != 2 || launch->cooperative || launch->peculiar ||
	    function->bytes > CHAIN_PARAM_BYTES ||
	    (sight->meaning && sight->meaning->role != ROLE_COPY))
		return false;
	for (int i = 0; i < 2; i++)
		if (list->item[i].mode == ACCESS_WRITE)
			out = &list->item[i];
		else if (list->item[i].mode == ACCESS_READ)
			in = &list->item[i];
	if (!out || !in || !in->bounded || out->sure_end != out->end ||
	    range_overlap(out->begin, out->end, in->begin, in->end))
		return false;
	rules_meaning_seen(sight, &step->meaning);
	if (meaning->role != ROLE_COPY || meaning->view_count != 2 || meaning->views[0].dtype < 0 ||
	    !holds(meaning->views[1].dtype, meaning->views[0].dtype) ||
	    meaning->views[0].element < 2)
		return false;
	step_keep(step, sight);
	step->name = function->name;
	step->ref_count = 2;
	step->refs[0] = (struct ref){.mode = ACCESS_WRITE, .where = out->where};
	step->refs[1] = (struct ref){.mode = ACCESS_READ, .where = in->where};
	r->out_begin = out->begin;
	r->out_end = out->end;
	r->in_begin = in->begin;
	r->in_end = in->end;
	r->dtype = meaning->views[0].dtype;
	r->source = meaning->views[1].dtype;
	if (!set_dims(r, meaning))
		return false;
	r->key = sign(r);
	return true;
}

void relayout_copy(struct relayout *to, const struct relayout *from)
{
	const size_t params = offsetof(struct relayout, step.params);
	const size_t behind = params + sizeof(from->step.params);

	memcpy(to, from, params + from->step.function->bytes);
	memcpy((char *)to + behind, (const char *)from + behind, sizeof(*from) - behind);
}

void relayout_gather(struct relayout *copy, const struct attn_tensor *from, uint64_t out, int dims,
		     const int64_t *size, const int64_t *stride)
{
	int64_t to = 1;

	memset(copy, 0, sizeof(*copy));
	copy->dtype = copy->source = from->dtype;
	copy->in_begin = from->base;
	copy->out_begin = out;
	for (int d = 0; d < dims; d++) {
		if (size[d] == 1)
			continue;
		copy->dim[copy->dims].size = size[d];
		copy->dim[copy->dims].to = to;
		copy->dim[copy->dims++].from = stride[d];
		to *= size[d];
	}
	copy->out_end = out + (uint64_t)(to * attn_dtype_size(copy->dtype));
}

bool relayout_casts(const struct relayout *r)
{
	return r->dtype != r->source;
}

/* Element n of out is element n of in. */
static bool keeps_order(const struct relayout *r)
{
	for (int d = 0; d < r->dims; d++)
		if (r->dim[d].from != r->dim[d].to)
			return false;
	return true;
}

bool relayout_join(struct relayout *joined, const struct relayout *cast,
		   const struct relayout *copy)
{
	const uint64_t wide = (uint64_t)attn_dtype_size(cast->dtype);
	const uint64_t first = copy->in_begin - cast->out_begin;
	const uint64_t narrow = (uint64_t)attn_dtype_size(cast->source);

	if (copy->source != cast->dtype || !keeps_order(cast) || copy->in_begin < cast->out_begin ||
	    copy->in_end > cast->out_end || first % wide)
		return false;
	relayout_copy(joined, copy);
	joined->source = cast->source;
	joined->in_begin = cast->in_begin + first / wide * narrow;
	joined->in_end = joined->in_begin + (copy->in_end - copy->in_begin) / wide * narrow;
	return true;
}

bool relayout_invert(struct relayout *inverse, const struct relayout *copy)
{
	if (relayout_casts(copy))
		return false;
	inverse->step.function = copy->step.function;
	inverse->dtype = inverse->source = copy->dtype;
	inverse->dims = copy->dims;
	inverse->out_begin = copy->in_begin;
	inverse->out_end = copy->in_end;
	inverse->in_begin = copy->out_begin;
	inverse->in_end = copy->out_end;
	inverse->key = hash_mix(copy->key, 0x696e76657273ull);
	for (int d = 0; d < copy->dims; d++) {
		inverse->dim[d].size = copy->dim[d].size;
		inverse->dim[d].to = copy->dim[d].from;
		inverse->dim[d].from = copy->dim[d].to;
	}
	sort_dims(inverse);
	return is_dense(inverse);
}

/* ---- reading the original instead ----------------------------------------------------------- */

/* The dimension of the copy in which a stride of its output falls. */
static int dim_of(const struct relayout *r, int64_t stride)
{
	int d = r->dims - 1;

	while (d > 0 && r->dim[d].to > stride)
		d--;
	return d;
}

/* `count` elements of the output, `stride` apart from its beginning on: how far apart are they in
 * the input? false: not evenly. *within: the first so many are. */
static bool follow(const struct relayout *r, int64_t stride, int64_t count, int64_t *from,
		   int64_t *within)
{
	int d = dim_of(r, stride);
	const int64_t step = stride / r->dim[d].to;
	int64_t reached;

	*from = 0;
	*within = count;
	if (count == 1)
		return true;
	if (stride <= 0 || stride % r->dim[d].to)
		return false;
	*from = step * r->dim[d].from;
	for (reached = r->dim[d].size / step; reached < count; reached *= r->dim[d].size) {
		/* to the end of this dimension, then on in the next one */
		if (r->dim[d].size % (d == dim_of(r, stride) ? step : 1) || ++d == r->dims) {
			*within = 0;
			return false;
		}
		if (r->dim[d].from != reached * *from) {
			*within = count % reached ? 0 : reached;
			return false;
		}
	}
	return true;
}

static bool split_tensor(struct attn_tensor *t, int64_t heads)
{
	if (t->by_array)
		return false;
	t->stride[0] = heads * t->stride[1];
	return true;
}

/* B = 1 and H heads become B = H / heads and `heads`: the same rows in the same order. */
static bool split(struct attn_args *args, int64_t heads)
{
	struct attn_tensor *const tensors[] = {&args->q,
					       &args->k,
					       &args->v,
					       &args->o,
					       &args->spec.bias[0],
					       &args->spec.bias[1],
					       &args->spec.scales,
					       &args->spec.mask,
					       &args->spec.sinks,
					       &args->spec.lengths};

	if (args->B != 1 || heads < 1 || args->H % heads)
		return false;
	for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
		if (tensors[i]->base && !split_tensor(tensors[i], heads))
			return false;
	args->B = (int32_t)(args->H / heads);
	args->H = (int32_t)heads;
	return true;
}

static bool read_original(struct attn_tensor *t, const struct relayout *r, uint64_t in,
			  const int64_t extent[4])
{
	int64_t within, from[4];

	if (t->dtype != r->dtype || t->by_array)
		return false;
	for (int i = 0; i < 4; i++)
		if (!follow(r, t->stride[i], extent[i], &from[i], &within))
			return false;
	memcpy(t->stride, from, sizeof(from));
	t->dtype = r->source;
	t->base = in;
	return true;
}

bool relayout_apply(struct attn_args *args, const struct relayout *const from[RELAYOUT_TENSORS],
		    const uint64_t in[RELAYOUT_TENSORS])
{
	struct attn_args found = *args;
	struct attn_tensor *const operand[RELAYOUT_TENSORS] = {[RELAYOUT_Q] = &found.q,
							       [RELAYOUT_K] = &found.k,
							       [RELAYOUT_V] = &found.v,
							       [RELAYOUT_BIAS] =
								       &found.spec.bias[0],
							       [RELAYOUT_O] = &found.o};
	int64_t heads = 0, within, stride;

	for (int n = 0; n < RELAYOUT_TENSORS && !heads; n++)
		if (from[n] && !follow(from[n], operand[n]->stride[1], found.H, &stride, &within))
			heads = within;
	if (heads && !split(&found, heads))
		return false;
	for (int n = 0; n < RELAYOUT_TENSORS; n++) {
		const bool by_key = n == RELAYOUT_K || n == RELAYOUT_V;
		const bool of_values = n == RELAYOUT_V || n == RELAYOUT_O;
		const int64_t extent[4] = {found.B, found.H, by_key ? found.Sk : found.Sq,
					   n == RELAYOUT_BIAS ? found.Sk
					   : of_values	      ? found.Dv
							      : found.D};

		if (from[n] && !read_original(operand[n], from[n], in[n], extent))
			return false;
	}
	/* fast kernels read rows of biases */
	if (from[RELAYOUT_BIAS] && found.Sk > 1 && found.spec.bias[0].stride[3] != 1)
		return false;
	*args = found;
	return true;
}
