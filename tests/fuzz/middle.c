/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps between the two products: scale, mask and softmax, over scores of the program's type or
 * in fp32; a P in fp32 is made narrow again.
 */
#include "fuzz.h"

/* The kernel for scores of these types. */
static CUfunction kernel_over(const struct site *z, const char *name)
{
	char full[32];

	snprintf(full, sizeof(full), "%s%s", name,
		 z->wide_scores ? z->wide_p ? "_ww" : "_wn"
		 : z->wide_p	? "_nw"
				: "");
	return kernel(full);
}

void middle_scale(struct chain *c)
{
	CUdeviceptr to, from = c->t[S];
	size_t n = scores_of(c);

	if (c->site->x_in_place)
		chain_alias(c, X, S);
	else
		chain_place(c, X, score_bytes(c, X));
	to = c->t[X];
	if (c->site->aten) {
		aten_scale(c->stream, to, from, c->factor, n);
	} else if (c->site->wide_scores) {
		trace("scale in fp32 %llx <- %llx n=%zu by %g", to, from, n, (double)c->factor);
		launch(c->stream, kernel("scale_wide"), blocks_of(n, 64), 64, 1,
		       (void *[]){&to, &from, &c->factor, &n});
		mark_wide(to, score_bytes(c, X), depth_of(from, score_bytes(c, S)));
	} else {
		scale_numbers(c->stream, to, from, c->factor, n);
	}
	if (!c->site->x_in_place)
		chain_give(c, S);
}

void middle_mask(struct chain *c, enum tensor from)
{
	size_t n = scores_of(c), period = (size_t)c->rows * (size_t)c->columns;
	CUdeviceptr to, in = c->t[from], mask = c->site->mask;
	int depth, other;

	if (c->site->m_in_place)
		chain_alias(c, M, from);
	else
		chain_place(c, M, score_bytes(c, M));
	to = c->t[M];
	if (c->site->aten) {
		aten_add_mask(c->stream, to, in, mask, n, period);
	} else if (c->site->wide_scores) {
		trace("add in fp32 %llx <- %llx + %llx n=%zu", to, in, mask, n);
		launch(c->stream, kernel("add_wide"), blocks_of(n, 64), 64, 1,
		       (void *[]){&to, &in, &mask, &n, &period});
		depth = depth_of(in, score_bytes(c, from));
		other = depth_of(mask, (period < n ? period : n) * width);
		mark_wide(to, score_bytes(c, M), other > depth ? other : depth);
	} else {
		add_mask(c->stream, to, in, mask, n, period);
	}
	if (!c->site->m_in_place)
		chain_give(c, from);
}

static void narrow(struct chain *c)
{
	CUdeviceptr to = chain_place(c, P, score_bytes(c, P)), from = c->t[W];
	size_t n = scores_of(c);

	trace("narrow %llx <- %llx n=%zu", to, from, n);
	launch(c->stream, kernel("narrow"), blocks_of(n, 64), 64, 1, (void *[]){&to, &from, &n});
	mark(to, score_bytes(c, P), depth_of(from, score_bytes(c, W)) & ~DUMP_WIDE);
	chain_give(c, W);
}

void middle_softmax(struct chain *c, enum tensor from)
{
	const struct site *z = c->site;
	const enum tensor to = z->wide_p ? W : P;
	const size_t bytes = score_bytes(c, to), rows = (size_t)z->heads * (size_t)c->rows;
	float f = z->scaled_apart || z->scaled_in_product ? 1 : c->factor;
	CUdeviceptr mask = z->mask, in = c->t[from];
	int depth = depth_of(in, score_bytes(c, from)), written;

	if (z->p_in_place)
		chain_alias(c, P, from);
	else
		chain_place(c, to, bytes);
	if (z->masked == LOWER && z->placing != APART)
		set_bytes(c->stream, c->t[to], 0, bytes);
	if (z->aten) {
		hides_softmax(c, c->t[P], in);
		return;
	}
	trace("softmax %d %llx <- %llx rows=%zu columns=%d by %g", z->masked, c->t[to], in, rows,
	      c->columns, (double)f);
	if (z->masked == BY_KEYS) {
		launch(c->stream, kernel_over(z, "keys"), rows, 32, 1,
		       (void *[]){&c->t[to], &in, &mask, &f, &c->columns});
		written = depth_of(mask, z->mask_bytes);
		depth = written > depth ? written : depth;
	} else if (z->masked == CAUSAL || z->masked == LOWER) {
		launch(c->stream, kernel_over(z, z->masked == LOWER ? "lower" : "causal"), rows, 32,
		       1, (void *[]){&c->t[to], &in, &f, &c->columns, &c->rows});
	} else {
		launch(c->stream, kernel_over(z, "softmax"), rows, 32, 1,
		       (void *[]){&c->t[to], &in, &f, &c->columns});
	}
	if (z->masked == LOWER) {
		written = depth_of(c->t[to], bytes);
		depth = written > depth ? written : depth;
	}
	if (z->wide_p)
		mark_wide(c->t[W], bytes, depth);
	else
		mark(c->t[P], bytes, depth & ~DUMP_WIDE);
	if (!z->p_in_place)
		chain_give(c, from);
	if (z->wide_p)
		narrow(c);
}
