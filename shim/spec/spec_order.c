/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores in another order than GEMM1 left them: a copy put queries before heads, say, as einsum
 * does whose output a program names so, and another puts them back before GEMM2. What steps between
 * the two say is told anew, as of scores in the order of [Z][Sq][Sk].
 */
#include "shim/spec/spec_walk.h"

/* `size` elements of memory that lie `apart` there, as pieces of the scores' own order. False: they
 * go across its pieces, or there are too many. */
static bool follow_order(const struct order *order, int64_t size, int64_t apart,
			 struct order_piece *piece, int *count, int most)
{
	int64_t begin = 1; /* of a piece, in memory */

	for (int i = 0; i < order->count && size > 1; begin *= order->piece[i++].size) {
		const int64_t within = order->piece[i].size;
		int64_t from, take;

		if (apart >= begin * within)
			continue;
		if (apart % begin || within % (apart / begin))
			return false;
		from = apart / begin;
		take = size < within / from ? size : within / from;
		if (within / from % take || size % take || *count == most)
			return false;
		piece[(*count)++] =
			(struct order_piece){.size = take, .apart = order->piece[i].apart * from};
		size /= take;
		apart *= take;
	}
	return size == 1;
}

/* Pieces that go on where the one before ends are one. */
static void join_pieces(struct order *order)
{
	int count = 0;

	for (int i = 0; i < order->count; i++) {
		struct order_piece *last = count ? &order->piece[count - 1] : NULL;

		if (last && order->piece[i].apart == last->apart * last->size)
			last->size *= order->piece[i].size;
		else
			order->piece[count++] = order->piece[i];
	}
	order->count = count;
}

/* Is each score there once? */
static bool is_whole(const struct order *order, int64_t elements)
{
	int64_t known = 1;

	for (int left = order->count; left; left--) {
		int at = 0;

		while (at < order->count && order->piece[at].apart != known)
			at++;
		if (at == order->count)
			return false;
		known *= order->piece[at].size;
	}
	return known == elements;
}

bool order_is_own(const struct walk *walk)
{
	return walk->order.count <= 1;
}

int64_t order_rows_turned(const struct walk *walk)
{
	const struct order *order = &walk->order;
	const struct order_piece *keys = &order->piece[0], *outer = &order->piece[1],
				 *inner = &order->piece[2], *entries = &order->piece[3];
	const int64_t Sq = walk->args->Sq, Sk = walk->columns;

	return order->count >= 3 && order->count <= 4 && keys->apart == 1 && keys->size == Sk &&
			       inner->apart == Sk && outer->apart == inner->size * Sk &&
			       inner->size * outer->size == Sq &&
			       (order->count == 3 || entries->apart == Sq * Sk)
		       ? inner->size
		       : 0;
}

bool order_copy(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const struct view *in = &meaning->views[1];
	const struct ref *ref;
	struct order now = walk->order, next = {0};

	if (meaning->role != ROLE_COPY || meaning->view_count != 2 || walk->chain->transposed ||
	    walk->columns != walk->args->Sk || walk->unknown || walk->raised || walk->shifted ||
	    !view_in_order(meaning, &meaning->views[0]))
		return false;
	ref = ref_of(step, in->where);
	if (!is_scores(walk, ref) || ref->delta)
		return false;
	if (!now.count)
		now = (struct order){.count = 1,
				     .piece = {{.size = meaning->elements, .apart = 1}}};
	for (int d = 0; d < meaning->dims; d++) {
		const int64_t size = meaning->size[d];

		if (size > 1 && (in->stride[d] <= 0 || in->stride[d] % in->element ||
				 !follow_order(&now, size, in->stride[d] / in->element, next.piece,
					       &next.count, ORDER_PIECES)))
			return false;
	}
	join_pieces(&next);
	if (!is_whole(&next, meaning->elements))
		return false;
	walk->order = next;
	walk->reordered |= !order_is_own(walk);
	return true;
}

/* Softmax over the keys, which are of one piece. */
static bool softmax_in_order(const struct walk *walk, struct meaning *meaning)
{
	int64_t begin = 1;

	for (int i = 0; i < walk->order.count; begin *= walk->order.piece[i++].size)
		if (walk->order.piece[i].apart == 1) {
			const int64_t size = walk->order.piece[i].size;

			if (meaning->view_count != 2 || size % walk->columns ||
			    meaning->softmax_apart != begin)
				return false;
			meaning->softmax_apart = 1;
			return true;
		}
	return false;
}

/* What a step does to single scores, gone through in their own order. */
static bool in_own_order(const struct walk *walk, struct meaning *meaning)
{
	const struct meaning was = *meaning;
	struct order_piece piece[VIEW_DIMS];
	int from[VIEW_DIMS], count = 0, sorted = 0;
	int64_t begin = 1, within[VIEW_DIMS];

	for (int d = 0; d < was.dims; begin *= was.size[d++]) {
		int64_t inner = 1;
		int i = count;

		if (was.size[d] > 1 &&
		    !follow_order(&walk->order, was.size[d], begin, piece, &count, VIEW_DIMS))
			return false;
		for (; i < count; inner *= piece[i++].size) {
			from[i] = d;
			within[i] = inner;
		}
	}
	for (int64_t known = 1; sorted < count; sorted++) {
		int at = 0;

		while (at < count && piece[at].apart != known)
			at++;
		if (at == count)
			return false;
		meaning->size[sorted] = piece[at].size;
		for (int v = 0; v < was.view_count; v++)
			meaning->views[v].stride[sorted] =
				was.views[v].stride[from[at]] * within[at];
		known *= piece[at].size;
	}
	meaning->dims = count;
	return true;
}

/* Views of the scores themselves, which lie in order there, are in order here. */
static void straighten(const struct step *step, struct meaning *meaning)
{
	for (int v = 0; v < meaning->view_count; v++) {
		struct view *view = &meaning->views[v];
		const struct ref *ref = v ? ref_of(step, view->where) : NULL;
		int64_t apart = view->element;

		if (v && (!ref || ref->kind != REF_VALUE))
			continue;
		for (int d = 0; d < meaning->dims; apart *= meaning->size[d++])
			view->stride[d] = apart;
	}
}

/* Does it read what was found of scores that lay otherwise? */
static bool knows_rows(const struct walk *walk, const struct step *step)
{
	for (int i = 0; i < step->ref_count; i++)
		if (step->refs[i].kind == REF_VALUE &&
		    walk->sides[step->refs[i].index].what != SIDE_NONE)
			return true;
	return false;
}

bool order_tell(const struct walk *walk, struct step *step)
{
	struct meaning *meaning = &step->meaning;

	switch (meaning->role) {
	case ROLE_SOFTMAX:
		return softmax_in_order(walk, meaning);
	case ROLE_SCALE:
	case ROLE_ADD:
	case ROLE_ADD_SCALED:
	case ROLE_ADD_CONSTANT:
	case ROLE_TANH:
	case ROLE_SOFTCAP:
	case ROLE_MASKED_FILL:
	case ROLE_WHERE:
	case ROLE_MULTIPLY:
	case ROLE_DIVIDE:
		if (knows_rows(walk, step) || !rows_in_order(walk, step) ||
		    !in_own_order(walk, meaning))
			return false;
		straighten(step, meaning);
		return true;
	default:
		return false;
	}
}
