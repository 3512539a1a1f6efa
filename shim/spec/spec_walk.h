/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk from S to P, between its files: spec.c takes steps that act on single scores,
 * spec_operand.c tells where their operands lie, spec_masks.c takes those that hide scores by a
 * boolean mask, spec_order.c those that lay scores out in another order, spec_rows.c those that
 * look at a whole row beside the softmax: was all of it hidden, what is its largest score, is there
 * one score more than keys. The latter leave *side* values behind, which are not the scores but
 * what is known of them.
 */
#ifndef FASHIM_SPEC_WALK_H
#define FASHIM_SPEC_WALK_H

#include "shim/chain/chain.h"

#include <stdio.h>
#include <string.h>

#define ANY_VALUE (-1) /* behind an unknown kernel: data will tell */

enum side {
	SIDE_NONE,
	SIDE_HIDDEN,  /* of each score: is it -inf? */
	SIDE_EMPTY,   /* of each row: are all? */
	SIDE_LARGEST, /* of each row: the largest */
	SIDE_SUM      /* of each row of weights: their sum */
};

/* Where scores lie, which are not in the order of [Z][Sq][Sk]: pieces of that, as memory has them
 * from the innermost on; none: they are. */
#define ORDER_PIECES 6
struct order {
	int count;
	struct order_piece {
		int64_t size, apart; /* elements, in [Z][Sq][Sk] */
	} piece[ORDER_PIECES];
};

struct walk {
	struct attn_args *args;
	const struct chain *chain;
	int64_t Z;	  /* batch entries of the GEMMs: B * H */
	int64_t H;	  /* 0: not settled by any broadcast operand */
	int64_t fold;	  /* the queries are heads times queries, this many of the inner; 0: not */
	bool inner_heads; /* and the inner are the heads */
	bool outer_o;	  /* which are the outer of O's rows */
	bool again;	  /* that was found on the way: begin anew */
	int64_t columns;  /* scores in a row: keys, and perhaps a sink */
	int value;	  /* the version the walk is at, or ANY_VALUE */
	int from;	  /* the one that the step at hand took */
	int scores;	  /* the one that softmax took */
	int dtype;	  /* of that the walk is at */
	bool softmax, tanh, masked, shifted, unknown;
	bool raised;	    /* e was raised to the scores: what is missing is their sum */
	int mask;	    /* the input that a fill took for one; -1: none did */
	int added;	    /* the one that was added last; -1: none was */
	int64_t turned;	    /* a copy of P put batches, so many, behind heads; 0: none did */
	const char *astray; /* a step that goes through the scores in another order; NULL: none */
	bool lowest;	    /* it filled in the lowest number that there is, or -inf */
	bool floored;	    /* nothing is below the lowest number any more */
	struct order order; /* of the version that the walk is at */
	bool reordered;	    /* it was another than GEMM1's */
	bool mixed;	    /* a bias was rounded to 16 bits, and one after it was not */
	struct {
		enum side what;
		int of; /* version of the scores */
	} sides[CHAIN_VALUES];
	char *detail;
};

static inline enum reason stop(struct walk *walk, enum reason reason, const char *detail)
{
	snprintf(walk->detail, 96, "%s", detail ? detail : "");
	return reason;
}

/* What a step reads by the pointer at `where`, or NULL. */
static inline const struct ref *ref_of(const struct step *step, int where)
{
	for (int i = 0; i < step->ref_count; i++)
		if (step->refs[i].where == where && step->refs[i].mode != ACCESS_WRITE)
			return &step->refs[i];
	return NULL;
}

/* Dimensions, and Q, K, V and O with H heads. */
void spec_set_operands(struct attn_args *args, const struct chain *chain, int64_t H);

/* A broadcast operand that follows the heads, once their number is known. */
void spec_settle_heads(struct attn_tensor *tensor, int64_t H);

/* GEMM1 added to what lay in its output: a bias with the scores' own layout. */
void spec_set_preload(struct walk *walk);

/* A number that is filled in, as scores of a type hold it: in 16 bits what is too large for them is
 * infinite. */
float spec_fill_stored(float value, int dtype);

/* What the chain rounds on its way, as a set of enum attn_round_s; 0 where kernels do not round
 * like that. */
int32_t spec_rounding(const struct walk *walk);

/* `overflow` of attention.h: q.k beyond this is an infinity once GEMM1 has stored it. */
float spec_overflow(const struct walk *walk);

/* Entries of a product that come in runs: these are the heads, and nothing else may be. */
enum reason spec_settle_runs(struct walk *walk);

/* Operands of B = Z batches, with as many heads as were found among the rows. */
enum reason spec_set_folded(struct walk *walk);

/* Heads are what was the inner part of S's rows, `heads` of them, and are the outer one of P's. */
enum reason spec_fold_turned(struct walk *walk, int64_t heads);

/* Heads are what was the inner part of S's entries, and V and O count them as P does: before the
 * operands are laid, and behind that. */
enum reason spec_settle_turned(struct walk *walk);
void spec_turn(struct attn_args *args, int64_t outer);

/* Describes an operand of a step that is broadcast over the scores, or with columns = 1 over their
 * rows. */
enum reason spec_set_tensor(struct walk *walk, const struct step *step, const struct view *view,
			    int64_t columns, struct attn_tensor *tensor, int index);

/* The same for one that is broadcast over the scores alone. */
static inline enum reason set_tensor(struct walk *walk, const struct step *step,
				     const struct view *view, struct attn_tensor *tensor, int index)
{
	const int64_t columns = walk->chain->transposed ? walk->args->Sq : walk->args->Sk;

	return spec_set_tensor(walk, step, view, columns, tensor, index);
}

static inline bool same_tensor(const struct attn_tensor *a, const struct attn_tensor *b)
{
	return a->base == b->base && a->dtype == b->dtype && a->batches == b->batches &&
	       a->columns == b->columns && !memcmp(a->stride, b->stride, sizeof(a->stride));
}

/* Is it the scores, and not what was found of them? */
static inline bool is_scores(const struct walk *walk, const struct ref *ref)
{
	return ref && ref->kind == REF_VALUE && walk->sides[ref->index].what == SIDE_NONE;
}

/* Steps with a mask: out = mask ? number : x, with the number in the step or (where) in memory, and
 * softmax's own mask. */
enum reason spec_apply_mask(struct walk *walk, const struct step *step);
enum reason spec_apply_where(struct walk *walk, const struct step *step);
enum reason spec_apply_softmax_mask(struct walk *walk, const struct step *step);

/* Does an element-wise step go through the scores as they lie, and store them so? Else what it says
 * of one would be taken for another's. */
bool rows_in_order(const struct walk *walk, const struct step *step);

/* Does a copy put P's entries in another order: what was the outer part of their number, so many
 * (*outer), the inner one? As einsum does where its second product counts them otherwise. */
bool rows_turned(const struct walk *walk, const struct step *step, int64_t *outer);

/* Are the scores in the order of [Z][Sq][Sk]? */
bool order_is_own(const struct walk *walk);

/* Are they but for the two parts of a row's number, of which the inner one came first? Its size;
 * 0: they are not. */
int64_t order_rows_turned(const struct walk *walk);

/* A copy of all scores, in any order: the one that they are in then. False: it is not such. */
bool order_copy(struct walk *walk, const struct step *step);

/* Tells the meaning of a step with scores in another order as if they were in their own. False: it
 * is none that could be told. */
bool order_tell(const struct walk *walk, struct step *step);

/* Does nobody read what the step makes of the scores, within the chain? */
bool rows_dead(const struct walk *walk, const struct step *step);

/* Does the step leave a side value? If so, *reason says whether it is one that is understood. */
bool rows_note_side(struct walk *walk, const struct step *step, enum reason *reason);

/* Is the operand the side value `what` of the version `of` of the scores, one number for a row? */
bool rows_is_side(const struct walk *walk, const struct step *step, const struct view *view,
		  enum side what, int of);

/* e to the power of scores of which the largest was taken off, and that divided by the sum of its
 * row: softmax, spelt out. */
enum reason rows_apply_exp(struct walk *walk, const struct step *step);
enum reason rows_apply_sum(struct walk *walk, const struct step *step);

/* P = where(all of the row was -inf, 0, P). False: the step is not that. */
bool rows_apply_safe(struct walk *walk, const struct step *step);

/* A sink: one more column behind the scores. */
enum reason rows_apply_cat(struct walk *walk, const struct step *step);

/* A copy of P without the sink's column, which is behind each row? The keys are left. */
bool rows_drop_sink(struct walk *walk, const struct step *step);

/* max(x, the lowest fp32): it makes a difference where a bias was -inf. Then only softmax may
 * follow.
 */
enum reason spec_apply_floor(struct walk *walk, const struct step *step);
bool spec_follows_floor(const struct walk *walk, const struct step *step);

#endif
