/* SPDX-License-Identifier: Apache-2.0
 *
 * The hazard zoo: programs that compute an attention in a loop and do, around it or in its midst,
 * what a shim that holds work back might get wrong. Each case prints all that it observes; a run
 * under a shim must print the same O within rounding, and the same P and tensors bit for bit.
 *
 * Most cases behave for the first repetitions, so that a shim has learned the site, and misbehave
 * in some of the later ones (late()).
 */
#ifndef FASHIM_HAZARDS_H
#define FASHIM_HAZARDS_H

#include "app.h"

enum { REPETITIONS = 12 };

/* The repetitions in which a case does its worst: 7, 9, 11. */
static inline bool late(int repetition)
{
	return repetition >= 7 && repetition % 2;
}

/* Addresses of one attention: S = QK^T, X = scale * S, M = X + mask, P = softmax(M), O = PV. */
struct tensors {
	CUdeviceptr q, k, v, s, x, m, p, o;
};

/* What a case works with. All tensors lie in one allocation, as under a caching allocator, each
 * with `slack` bytes of nobody's memory before it; or each in its own. */
struct bench {
	struct app app;
	struct app_shape shape;
	size_t n;      /* elements of Q, K, V, O */
	size_t scores; /* elements of S, P */
	size_t slack;
	CUdeviceptr arena;
	struct tensors t;
	CUdeviceptr mask;  /* [S,S], causal */
	CUdeviceptr raw;   /* [S,H,D]: input before it is made contiguous */
	CUdeviceptr spare; /* room for a further score-sized tensor */
	struct app_report report;
};

enum placement { TOGETHER, APART };

/* Fills everything of *b but app, which is open already. */
void bench_place(struct bench *b, enum placement placement);
/* bench_place in the primary context, on the default stream. */
void bench_open(struct bench *b, enum placement placement);
void bench_close(struct bench *b); /* prints the report */

/* New Q, K and V for a repetition. */
void bench_inputs(struct bench *b, int repetition);
void chain_open(struct bench *b, const struct tensors *t);
void chain_middle(struct bench *b, const struct tensors *t);
void chain_close(struct bench *b, const struct tensors *t);
void chain(struct bench *b, const struct tensors *t); /* the three above */
void observe_o(struct bench *b, const struct tensors *t, int repetition);
void observe_p(struct bench *b, const struct tensors *t, int repetition);

/* A case: all of it in `run`; or what `each` does REPETITIONS times with an open bench. */
struct hazard {
	const char *name;
	void (*run)(void);
	const char *about;
	void (*each)(struct bench *b, int r);
	enum placement placement;
};

#define ONCE(function, words)                                                                      \
	{                                                                                          \
		.name = #function, .run = function, .about = words                                 \
	}
#define EACH(function, words)                                                                      \
	{                                                                                          \
		.name = #function, .each = function, .about = words                                \
	}
#define EACH_APART(function, words)                                                                \
	{                                                                                          \
		.name = #function, .each = function, .about = words, .placement = APART            \
	}

/* The case of that name is a call of what many share. */
#define CASE(name, call)                                                                           \
	static void name(void)                                                                     \
	{                                                                                          \
		call;                                                                              \
	}

extern const struct hazard hazards_alias[], hazards_observe[], hazards_order[], hazards_stream[],
	hazards_forms[], hazards_arrays[], hazards_copies[], hazards_outputs[], hazards_columns[],
	hazards_masks[], hazards_library[], hazards_dense[], hazards_values[], hazards_casts[],
	hazards_engines[], hazards_graphs[], hazards_graph_life[], hazards_graph_threads[],
	hazards_graph_hand[], hazards_graph_nodes[], hazards_graph_branches[], hazards_memory[],
	hazards_refused[], hazards_parts[], hazards_digests[], hazards_holes[], hazards_again[],
	hazards_image[];

#endif
