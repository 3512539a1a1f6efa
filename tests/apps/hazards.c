/* SPDX-License-Identifier: Apache-2.0
 *
 *     hazards --list     names, one a line, with what each does
 *     hazards CASE       runs one
 */
#include "hazards.h"

#include <math.h>
#include <string.h>

enum { HEADS = 3, ROWS = 80, DEPTH = 32 };

static CUdeviceptr place(struct bench *b, enum placement placement, size_t *used, size_t elements)
{
	size_t bytes = (elements * 2 + 511) & ~(size_t)511;

	if (placement == APART)
		return app_alloc(bytes);
	*used += b->slack;
	*used += bytes;
	return b->arena + *used - bytes;
}

void bench_place(struct bench *b, enum placement placement)
{
	size_t used = 0, n, scores;

	b->shape = (struct app_shape){HEADS, ROWS, ROWS, DEPTH};
	b->n = n = (size_t)HEADS * ROWS * DEPTH;
	b->scores = scores = (size_t)HEADS * ROWS * ROWS;
	b->slack = 4096;
	if (placement == TOGETHER) {
		b->arena = app_alloc(2 << 20);
		CHECK(cuMemsetD8(b->arena, 0, 2 << 20));
	}
	/* Q's block is large enough for scores: an allocator gives it out again for those. */
	b->t.q = place(b, placement, &used, scores);
	b->t.k = place(b, placement, &used, n);
	b->t.v = place(b, placement, &used, n);
	b->t.s = place(b, placement, &used, scores);
	b->t.x = place(b, placement, &used, scores);
	b->t.p = place(b, placement, &used, scores);
	b->t.o = place(b, placement, &used, n);
	b->mask = place(b, placement, &used, (size_t)ROWS * ROWS);
	b->raw = place(b, placement, &used, n);
	b->spare = place(b, placement, &used, scores + 8192);
	b->t.m = b->t.s;
	app_upload_causal(b->mask, ROWS, ROWS);
}

void bench_open(struct bench *b, enum placement placement)
{
	memset(b, 0, sizeof(*b));
	app_open(&b->app, NULL);
	bench_place(b, placement);
}

void bench_close(struct bench *b)
{
	app_report(&b->report);
	app_close(&b->app);
}

void bench_inputs(struct bench *b, int repetition)
{
	uint64_t seed = 17 * (uint64_t)repetition + 1;

	app_upload_random(b->t.q, b->n, seed);
	app_upload_random(b->t.k, b->n, seed + 1);
	app_upload_random(b->t.v, b->n, seed + 2);
}

void chain_open(struct bench *b, const struct tensors *t)
{
	app_scores(&b->app, b->shape, t->q, t->k, t->s);
}

void chain_middle(struct bench *b, const struct tensors *t)
{
	size_t rows = (size_t)b->shape.heads * b->shape.rows;

	app_scale(&b->app, t->x, t->s, 2 / sqrtf((float)b->shape.depth), b->scores);
	app_add_mask(&b->app, t->m, t->x, b->mask, b->scores,
		     (size_t)b->shape.rows * b->shape.columns);
	app_softmax(&b->app, t->p, t->m, rows, b->shape.columns);
}

void chain_close(struct bench *b, const struct tensors *t)
{
	app_context(&b->app, b->shape, t->p, t->v, t->o);
}

void chain(struct bench *b, const struct tensors *t)
{
	chain_open(b, t);
	chain_middle(b, t);
	chain_close(b, t);
}

void observe_o(struct bench *b, const struct tensors *t, int repetition)
{
	app_observe(&b->report, "O", repetition, t->o, b->n);
}

void observe_p(struct bench *b, const struct tensors *t, int repetition)
{
	app_observe(&b->report, "P", repetition, t->p, b->scores);
}

static void run(const struct hazard *hazard)
{
	struct bench b;

	if (hazard->run) {
		hazard->run();
		return;
	}
	bench_open(&b, hazard->placement);
	for (int r = 0; r < REPETITIONS; r++)
		hazard->each(&b, r);
	bench_close(&b);
}

int main(int argc, char **argv)
{
	const struct hazard *groups[] = {
		hazards_alias,	    hazards_observe,	 hazards_order,
		hazards_stream,	    hazards_forms,	 hazards_arrays,
		hazards_copies,	    hazards_outputs,	 hazards_columns,
		hazards_masks,	    hazards_library,	 hazards_dense,
		hazards_values,	    hazards_casts,	 hazards_engines,
		hazards_graphs,	    hazards_graph_life,	 hazards_graph_threads,
		hazards_graph_hand, hazards_graph_nodes, hazards_graph_branches,
		hazards_memory,	    hazards_refused,	 hazards_parts,
		hazards_digests,    hazards_holes,	 hazards_again,
		hazards_image};

	for (unsigned g = 0; argc == 2 && g < sizeof(groups) / sizeof(*groups); g++)
		for (const struct hazard *h = groups[g]; h->name; h++) {
			if (!strcmp(argv[1], "--list")) {
				printf("%-22s %s\n", h->name, h->about);
			} else if (!strcmp(argv[1], h->name)) {
				run(h);
				return 0;
			}
		}
	if (argc == 2 && !strcmp(argv[1], "--list"))
		return 0;
	fprintf(stderr, "usage: hazards CASE | --list\n");
	return 64;
}
