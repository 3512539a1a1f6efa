/* SPDX-License-Identifier: Apache-2.0
 *
 * Many occurrences at once, open together, their scores kept.
 */
#include "fuzz.h"

enum { MOST = 56, MIDDLE = P - S + 1 };

void chain_many(struct chain *c)
{
	static __thread struct chain all[MOST];
	const size_t score = (score_bytes(c, W) + 511) & ~(size_t)511,
		     query = (queries_of(c) * width + 511) & ~(size_t)511,
		     each = MIDDLE * score + query;
	const int count = 44 + (int)below(&c->rng, MOST - 44);
	const bool abandoned = chance(&c->rng, 40);
	CUdeviceptr block;

	c->disturbances = 0;
	c->o_over_q = c->second_v = false;
	if (scores_of(c) > 2500 || c->site->placing == FRESH || c->site->placing == POOLED) {
		c->manner = ORDINARY;
		while (chain_step(c))
			;
		return;
	}
	chain_step(c);
	if (c->site->late_v)
		chain_input(c, V);
	block = allocate(each * (size_t)count);
	set_bytes(c->stream, block, 0, each * (size_t)count);
	trace("%d at once", count);
	for (int i = 0; i < count; i++) {
		all[i] = *c;
		for (int t = 0; t < MIDDLE; t++) {
			all[i].t[S + t] = block + each * (size_t)i + score * (size_t)t;
			all[i].bytes[S + t] = score_bytes(c, (enum tensor)(S + t));
		}
		all[i].t[O] = block + each * (size_t)i + MIDDLE * score;
		all[i].bytes[O] = queries_of(c) * width;
		chain_do(&all[i], SCORES);
	}
	for (int i = 0; i < count && !abandoned; i++)
		for (int step = SCALE; step <= CONTEXT; step++)
			if (step != LATE_V)
				chain_do(&all[i], (enum step)step);
	if (chance(&c->rng, 60))
		random_numbers(c->stream, c->t[Q], next(&c->rng), 1 + c->bytes[Q] / width / 3);
	if (chance(&c->rng, 60))
		random_numbers(c->stream, c->t[K], next(&c->rng), 1 + c->bytes[K] / width / 3);
	if (chance(&c->rng, 80))
		observe(c->stream, "many", block, each * (size_t)count);
	release(block, c->stream, false);
	chain_do(c, END);
}
