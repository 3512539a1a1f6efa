/* SPDX-License-Identifier: Apache-2.0
 *
 * Where Q, K, V, O and what is broadcast over the scores lie, by strides along batches, heads, rows
 * and columns; and how many of what there are heads.
 */
#include "shim/spec/spec.h"
#include "shim/spec/spec_walk.h"

/* ---- operands ------------------------------------------------------------------------------- */

/* One side of a product, its entries being batches of H heads; flip: its columns are the rows. */
static void lay_side(struct attn_tensor *tensor, uint64_t base, const struct matrix *matrix,
		     bool flip, int64_t H)
{
	const int64_t heads = matrix->run > 1 ? matrix->run_stride : matrix->batch_stride;

	tensor->base = base;
	tensor->dtype = matrix->dtype;
	tensor->by_array = 0;
	tensor->stride[0] = matrix->run == H ? matrix->batch_stride : heads * H;
	tensor->stride[1] = heads;
	tensor->stride[2] = flip ? matrix->col_stride : matrix->row_stride;
	tensor->stride[3] = flip ? matrix->row_stride : matrix->col_stride;
}

/* Where an input can be read now. */
static uint64_t address_now(const struct chain *chain, int index, uint64_t address)
{
	const struct input *input = &chain->inputs[index];

	return input->snapshot ? input->snapshot + (address - input->begin) : address;
}

void spec_set_operands(struct attn_args *args, const struct chain *chain, int64_t H)
{
	const struct op_gemm *closer = &chain->closer;
	const bool p_is_a = closer->a == chain->values[chain->p_value].begin;
	const uint64_t base = p_is_a ? closer->b : closer->a;
	uint64_t v = base, begin, end;
	struct gemm first, last;

	gemm_from_op(&first, &chain->steps[0].gemm);
	gemm_from_op(&last, closer);
	args->H = (int32_t)H;
	args->B = (int32_t)(first.batch / H);
	args->Sk = (int32_t)(chain->transposed ? first.b.cols : first.a.rows);
	args->Sq = (int32_t)(chain->transposed ? first.a.rows : first.b.cols);
	args->D = (int32_t)first.a.cols;
	args->Dv = (int32_t)(p_is_a ? last.c.cols : last.c.rows);
	lay_side(chain->transposed ? &args->q : &args->k, address_now(chain, 0, first.a.base),
		 &first.a, false, H);
	lay_side(chain->transposed ? &args->k : &args->q, address_now(chain, 1, first.b.base),
		 &first.b, true, H);
	matrix_extent(p_is_a ? &last.b : &last.a, last.batch, &begin, &end);
	for (int i = 2; i < chain->input_count; i++) /* V: what was there before is another input */
		if (chain->inputs[i].begin == begin && chain->inputs[i].end == end)
			v = address_now(chain, i, base);
	lay_side(&args->v, v, p_is_a ? &last.b : &last.a, !p_is_a, H);
	lay_side(&args->o, last.c.base, &last.c, !p_is_a, H);
}

/* ---- broadcast operands --------------------------------------------------------------------- */

/* Consecutive entries of a dimension that have one stride. */
#define PIECES 3
struct piece {
	int64_t size, stride;
};

static bool add_piece(struct piece piece[PIECES], int *count, int64_t size, int64_t stride)
{
	struct piece *last = *count ? &piece[*count - 1] : NULL;

	if (last && last->stride * last->size == stride) {
		last->size *= size;
		return true;
	}
	if (*count == PIECES)
		return false;
	piece[(*count)++] = (struct piece){size, stride};
	return true;
}

/* Two factors of which one varies: as attn_tensor.batches and .columns say it. */
static bool fold_pieces(const struct piece *inner, const struct piece *outer, int64_t *stride,
			int32_t *of)
{
	if ((inner->stride && outer->stride) || inner->size > INT32_MAX)
		return false;
	*stride = inner->stride ? inner->stride : outer->stride;
	*of = (int32_t)(inner->stride ? inner->size : *stride ? -inner->size : 0);
	return true;
}

/* Z as heads, and batches, which may themselves be of two factors: images and their windows. */
static bool split_batches(struct walk *walk, struct piece *piece, int pieces, int64_t stride[4],
			  int32_t *batches)
{
	stride[1] = pieces ? piece->stride : 0;
	stride[0] = -1; /* follows heads, once their number is known */
	if (pieces <= 1)
		return true;
	if (!walk->H)
		walk->H = piece->size;
	if (piece->size % walk->H)
		return false;
	if (piece->size > walk->H) { /* some of the batches in one piece with the heads */
		piece->size /= walk->H;
		piece->stride *= walk->H;
	} else {
		piece++;
		pieces--;
	}
	stride[0] = piece->stride;
	return pieces == 1 || (pieces == 2 && fold_pieces(&piece[0], &piece[1], stride, batches));
}

/* An element-wise launch walks its output in coalesced dimensions; this finds the strides of one
 * operand along keys, queries, heads and batches. The iteration space is [Z][Sq][Sk] in linear
 * order, and each of its dimensions is a product of pieces of those. Z may fall into pieces, heads
 * and batches, or the queries may, where heads are folded into them; all operands of a chain must
 * agree where. So may keys, those of an image in rows. */
static bool split(struct walk *walk, const struct meaning *meaning, const struct view *view,
		  int64_t columns, int64_t stride[4], struct attn_tensor *tensor)
{
	const bool transposed = walk->chain->transposed;
	const int64_t rows = transposed ? walk->args->Sk : walk->args->Sq;
	const int64_t inner = walk->fold ? walk->fold : rows;
	const int64_t target[4] = {columns, inner, rows / inner, walk->Z};
	int64_t along[3] = {0, 0, 0};		 /* columns, inner and outer part of the rows */
	struct piece piece[PIECES], key[PIECES]; /* of Z, of the columns */
	int pieces = 0, keys = 0, dim = 0;
	int64_t left = meaning->dims ? meaning->size[0] : 1; /* of the iteration dimension */
	int64_t step = meaning->dims ? view->stride[0] : 0;

	for (int t = 0; t < 4; t++) {
		int64_t need = target[t];

		while (need > 1) {
			int64_t take;

			while (left == 1 && dim + 1 < meaning->dims) {
				dim++;
				left = meaning->size[dim];
				step = view->stride[dim];
			}
			take = left < need ? left : need;
			if (take <= 1 || left % take || need % take)
				return false;
			if (t == 0 || t == 3) {
				if (!add_piece(t ? piece : key, t ? &pieces : &keys, take, step))
					return false;
			} else {
				const int64_t done = target[t] / need;

				if (done > 1 && step != along[t] * done) {
					if (t == 1 && !walk->fold && !transposed) {
						walk->fold = done;
						walk->inner_heads = along[1] == 0;
						walk->again = true;
					}
					return false;
				}
				if (done == 1)
					along[t] = step;
			}
			need /= take;
			left /= take;
			step *= take;
		}
	}
	along[0] = keys ? key[0].stride : 0;
	if (keys > 1 &&
	    (keys > 2 || transposed || !fold_pieces(&key[0], &key[1], &along[0], &tensor->columns)))
		return false;
	stride[3] = along[transposed];
	stride[2] = along[walk->fold && walk->inner_heads ? 2 : !transposed];
	if (walk->fold) {
		stride[1] = along[walk->inner_heads ? 1 : 2];
		stride[0] = pieces ? piece[0].stride : 0;
		return pieces <= 1;
	}
	return split_batches(walk, piece, pieces, stride, &tensor->batches);
}

enum reason spec_set_tensor(struct walk *walk, const struct step *step, const struct view *view,
			    int64_t columns, struct attn_tensor *tensor, int index)
{
	int64_t stride[4];

	tensor->batches = tensor->columns = 0;
	if (view->dtype < 0 || !split(walk, &step->meaning, view, columns, stride, tensor) ||
	    (view->dtype == ATTN_BOOL && tensor->columns))
		return stop(walk, REASON_MASK_FORM, step->name);
	tensor->base = address_now(walk->chain, index, view->base);
	tensor->dtype = view->dtype;
	tensor->by_array = 0;
	for (int i = 0; i < 4; i++) {
		if (stride[i] != -1 && stride[i] % view->element)
			return stop(walk, REASON_MASK_FORM, step->name);
		tensor->stride[i] =
			i == 0 && stride[0] == -1 ? INT64_MIN : stride[i] / view->element;
	}
	return REASON_NONE;
}

/* ---- heads ---------------------------------------------------------------------------------- */

void spec_settle_heads(struct attn_tensor *tensor, int64_t H)
{
	if (tensor->base && tensor->stride[0] == INT64_MIN)
		tensor->stride[0] = tensor->stride[1] * H;
}

/* Rows of Q and O (or of a preloaded bias) are heads and queries folded, so many of the inner. */
static void unfold(struct attn_tensor *tensor, int64_t count, bool inner_heads)
{
	const int64_t inner = tensor->stride[2], outer = inner * count;

	tensor->stride[0] = tensor->stride[1];
	tensor->stride[1] = inner_heads ? inner : outer;
	tensor->stride[2] = inner_heads ? outer : inner;
}

enum reason spec_set_folded(struct walk *walk)
{
	struct attn_args *args = walk->args;
	const int64_t outer = args->Sq / walk->fold;

	if (walk->H)
		return stop(walk, REASON_MASK_FORM, "heads folded twice");
	spec_set_operands(args, walk->chain, 1);
	args->H = (int32_t)(walk->inner_heads ? walk->fold : outer);
	args->Sq = (int32_t)(walk->inner_heads ? outer : walk->fold);
	unfold(&args->q, walk->fold, walk->inner_heads);
	unfold(&args->o, walk->outer_o ? outer : walk->fold, walk->inner_heads && !walk->outer_o);
	args->k.stride[1] = args->v.stride[1] = 0;
	if (walk->chain->preload >= 0)
		unfold(&args->spec.bias[0], walk->fold, walk->inner_heads);
	return REASON_NONE;
}

enum reason spec_fold_turned(struct walk *walk, int64_t heads)
{
	if (!heads || walk->chain->transposed || walk->H ||
	    (walk->fold && (!walk->inner_heads || walk->fold != heads)))
		return stop(walk, REASON_LAYOUT, "entries in another order");
	walk->fold = heads;
	walk->inner_heads = walk->outer_o = true;
	return REASON_NONE;
}

enum reason spec_settle_runs(struct walk *walk)
{
	const struct op_gemm *const product[2] = {&walk->chain->steps[0].gemm,
						  &walk->chain->closer};

	for (int i = 0; i < 2; i++) {
		if (product[i]->run <= 1)
			continue;
		if (walk->H && walk->H != product[i]->run)
			return stop(walk, REASON_LAYOUT, "entries in runs of different length");
		walk->H = product[i]->run;
	}
	return REASON_NONE;
}

enum reason spec_settle_turned(struct walk *walk)
{
	const int64_t heads = walk->Z / walk->turned;

	if (walk->fold || walk->unknown || walk->chain->transposed || walk->chain->closer.run > 1 ||
	    (walk->H && walk->H != heads))
		return stop(walk, REASON_LAYOUT, "entries in another order");
	walk->H = heads;
	return REASON_NONE;
}

void spec_turn(struct attn_args *args, int64_t outer)
{
	struct attn_tensor *const tensors[] = {&args->v, &args->o};

	for (int n = 0; n < 2; n++) {
		const int64_t next = tensors[n]->stride[1];

		tensors[n]->stride[0] = next;
		tensors[n]->stride[1] = next * outer;
	}
}

void spec_set_preload(struct walk *walk)
{
	const struct op_gemm *opener = &walk->chain->steps[0].gemm;
	struct attn_spec *spec = &walk->args->spec;
	struct gemm gemm;

	if (walk->chain->preload < 0)
		return;
	gemm_from_op(&gemm, opener);
	lay_side(&spec->bias[0], address_now(walk->chain, walk->chain->preload, gemm.c.base),
		 &gemm.c, !walk->chain->transposed, 1);
	spec->bias[0].stride[0] = INT64_MIN; /* follows heads, once H is known */
	spec->bias_scale[0] = (float)opener->beta;
	spec->round_x = gemm.c.dtype;
}

const struct meaning *spec_complement(const struct chain *chain)
{
	for (int i = 1; i < chain->step_count; i++) {
		const struct meaning *meaning = &chain->steps[i].meaning;

		if (meaning->role == ROLE_SOFTMAX && meaning->shown_by_ones)
			return meaning;
	}
	return NULL;
}

/* ---- floors ---------------------------------------------------------------------------------- */

/* May the bias be raised to the floor, or the kernels raise the sum? In bf16 and fp32 any number
 * and the floor make the floor. In fp16 the sum may be lower: it is -inf then. */
static bool floor_fits(struct walk *walk, double floor, int dtype)
{
	struct attn_spec *spec = &walk->args->spec;

	if (!spec->bias[0].base)
		return dtype != ATTN_F16;
	if (spec->bias[1].base || spec->round_x != dtype || floor != spec_lowest(dtype))
		return false;
	if (dtype == ATTN_F16)
		spec->round_x = ATTN_F16_FLOORED;
	return dtype == ATTN_F16 ||
	       (walk->chain->preload < 0 && spec->bias[0].dtype == dtype &&
		!spec->bias[0].batches && !spec->bias[0].columns && spec->bias_scale[0] == 1);
}

enum reason spec_apply_floor(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const bool bound = meaning->view_count == 2; /* the number is the functor's own */
	const int from = bound ? 1 : 3 - meaning->constant, dtype = meaning->views[0].dtype;
	const struct ref *scores;

	if (walk->softmax || walk->unknown || walk->masked || walk->floored ||
	    walk->columns != walk->args->Sk || (!bound && meaning->view_count != 3))
		return stop(walk, REASON_MASK_FORM, step->name);
	if (!bound && meaning->constant <= 0)
		return stop(walk,
			    meaning->constant ? REASON_SCALARS_ON_DEVICE : REASON_UNKNOWN_KERNEL,
			    step->name);
	scores = ref_of(step, meaning->views[from].where);
	if (!scores || scores->kind != REF_VALUE || walk->sides[scores->index].what != SIDE_NONE ||
	    dtype < 0 || dtype > ATTN_F32 || meaning->views[from].dtype != dtype ||
	    !(meaning->scalar <= spec_lowest(dtype)) || !floor_fits(walk, meaning->scalar, dtype))
		return stop(walk, REASON_MASK_FORM, step->name);
	walk->floored = true;
	return REASON_NONE;
}

bool spec_follows_floor(const struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;

	return !walk->floored || walk->softmax ||
	       (meaning->role == ROLE_COPY && meaning->views[0].dtype == ATTN_F32) ||
	       (meaning->role == ROLE_SOFTMAX && meaning->factor == 1 && meaning->view_count == 2);
}

bool spec_floors(const struct chain *chain)
{
	for (int i = 1; i < chain->step_count; i++)
		if (chain->steps[i].meaning.role == ROLE_MAXIMUM)
			return true;
	return false;
}
