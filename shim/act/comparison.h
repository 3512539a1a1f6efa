/* SPDX-License-Identifier: Apache-2.0
 *
 * One occurrence of a chain both ways: the program's own ops wrote O, the fused kernel writes to
 * scratch, and both are held against a double-precision reference on sampled rows. Here is what is
 * enqueued for that, and what the numbers that come back mean for the site; compare.h knows those
 * that are under way on a stream, graph_beside.h those of a graph's launches.
 *
 * All functions: flow lock held, the chain's context current.
 */
#ifndef FASHIM_COMPARISON_H
#define FASHIM_COMPARISON_H

#include "kernels/attention.h"
#include "shim/act/trial.h"
#include "shim/act/verdict.h"
#include "shim/chain/chain.h"
#include "shim/site/site.h"

struct comparison_result {
	struct drift_result drift;
	struct drift_sampled_result own, trial; /* of the program's call, of a trial */
	double largest; /* of the sampled rows' scores, as the softmax reads them; at least 0 */
};

struct comparison {
	struct site *site;
	uint64_t occurrence;
	bool in_graph;			  /* so that it can't be tried on numbers of ours */
	struct timing *timing;		  /* of the program's ops; NULL: none */
	CUevent first, begin, end, last;  /* of all of it first and last, of the fused kernel */
	struct comparison_result *result; /* pinned */
	int rows;
	uint32_t blocks; /* of the kernel that fills result->drift */
	bool tried;	 /* result->trial is of the kernel on numbers of ours */
	int32_t round_s; /* what the kernel rounded as the program does */
	struct rounding rounding;
	int64_t keys;
	char kernel[48];
};

/* Makes the events that it lacks. */
bool comparison_events(struct comparison *comparison);

/* The fused kernel called so for an occurrence of the site. */
void comparison_of(struct comparison *comparison, struct site *site, const struct chain *chain,
		   const struct attn_args *args, const struct attn_variant *variant);

/* All device memory of one comparison: where each lies, or how many bytes each takes. */
struct comparison_buffers {
	uint64_t output, reference, scores, result;
};
struct comparison_buffers comparison_bytes(const struct attn_args *args);

/* false: there is no room for all of them; what was had is to be given back as well. */
bool comparison_buffers_get(struct comparison_buffers *buffers,
			    const struct comparison_buffers *bytes, CUcontext context,
			    CUstream stream);
void comparison_buffers_put(const struct comparison_buffers *buffers, CUstream stream);

/* Enqueues it on the chain's stream, which may be captured; the numbers are then in
 * buffers->result. args->o is the program's O; the fused kernel's has order's strides, packed where
 * those are zero. trial: where it is tried. 0, or below. */
int comparison_enqueue(const struct comparison *comparison, const struct chain *chain,
		       const struct attn_args *args, const struct attn_tensor *order,
		       const struct attn_variant *variant, const struct comparison_buffers *buffers,
		       const struct trial *trial);

/* Records one of its events on the chain's stream, which may be captured. 0 or -EIO. */
int comparison_mark(CUevent event, const struct chain *chain);

/* The numbers are in *result, the events were passed: what that means for the site. Did the two
 * agree? *result is empty then, so that no numbers are taken for those of two comparisons. */
bool comparison_judge(const struct comparison *comparison);

/* One could not be made, or did not come to its end: a site is given up to which that happens again
 * and again, and what is said of it. */
void comparison_failed(struct site *site, const char *what);

/* How far may a kernel move O, of that type, before one is asked that rounds all that the program
 * does? As little as that does where the program chooses by what comes of it, or where some site's
 * scores are so large that whatever moves their operands makes them round otherwise; else INFINITY,
 * and struct rounding says it. */
double comparison_wanted(int dtype);

/* Why no site of that type may be replaced, however little its kernel moves O: the rounding of
 * scores decides whole rows of some site's. NULL: they may. */
const char *comparison_objection(int dtype);

/* Changes where one of these two does. */
unsigned comparison_strict(void);

#endif
