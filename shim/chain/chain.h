/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain: the dataflow path that begins at one GEMM's output (the scores) and ends where another
 * GEMM contracts what became of them with V. It is recognised by which bytes are read and written,
 * never by a list of names.
 *
 * A chain's *values* are versions of memory: S, scaled S, P … each with the byte range that is
 * still its own. Its *inputs* are what its ops read from outside: Q, K, masks, and what lay in S's
 * memory before where GEMM1 adds to it. While the chain is open, ops that read a live value join it
 * as *steps*. It has three lives:
 *
 *   learning   the program's ops run; values are real. After the close they are watched on, so that
 *              whoever reads S or P later is noticed.
 *   deferred   a verified site: steps are kept, not executed; values are virtual: the memory holds
 *              something else. Any op that would see the difference makes them real first (held.h).
 *   closed     the fused kernel wrote O; values stay virtual until they are overwritten or freed.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_CHAIN_H
#define FASHIM_CHAIN_H

#include "kernels/complement.h"
#include "shim/op/access.h"
#include "shim/real/driver_context.h"
#include "shim/op/gemm.h"
#include "shim/log/log_format.h"
#include "shim/base/pitched.h"
#include "shim/base/range.h"
#include "shim/chain/relayout.h"
#include "shim/chain/step.h"

#define CHAIN_COUNT    48
#define CHAIN_STEPS    16
#define CHAIN_VALUES   16
#define CHAIN_INPUTS   12
#define CHAIN_PATIENCE 256 /* ops that may pass before an unclosed chain is given up */

struct site;
struct site_set;
struct timing;

struct value {
	uint64_t begin, end;   /* whole extent of this version */
	struct range_set live; /* what of it has not been overwritten or freed: inside these */
	uint64_t left;	  /* of some of its bytes it has nothing, as its access says (access.h) */
	bool provisional; /* a pointer of a kernel without a rule: output or input, of unknown
			     length,      until the close tells */
	bool used;	  /* a later op of the chain read it */
	bool outside;	  /* it turned out to be an input: an operand of the program's own */
};

struct input {
	uint64_t begin, end;
	struct pitched pitched;	  /* what of it is read */
	uint64_t since;		  /* chain_moment() when the chain became its reader */
	bool lost;		  /* overwritten before it could be saved */
	uint64_t snapshot;	  /* scratch address of a copy; 0: read in place */
	struct range_set unsaved; /* what is not in the copy, as nobody has overwritten it */
	uint64_t taken;		  /* chain_moment() of the copy */
	bool shared;		  /* another input may have the same snapshot */
	bool lent; /* the snapshot is a graph's, which makes it anew at each launch */
};

/* The first `width` of every `pitch` bytes there are what the program wrote since; those between
 * are the values' still, until it overwrites them as well. */
struct comb {
	uint64_t begin, end;
	uint32_t width, pitch; /* 0: there is none */
};

/* Where a closed chain can still be met (hazard/outline.h). */
#define OUTLINE_RANGES 4
struct outline {
	bool drawn;
	int kept_count, read_count;
	struct range kept[OUTLINE_RANGES]; /* its values */
	struct range read[OUTLINE_RANGES]; /* inputs that are not saved */
};

struct chain {
	bool used, closed, deferred;
	bool captured; /* deferred while a graph is recorded: run in place, or not at all */
	bool recorded; /* captured, only followed: its ops are recorded as the program gave them */
	enum reason unfit; /* why it can never be replaced, REASON_NONE while it can */
	CUcontext context; /* this and what follows, to `outline`, is read for every op */
	CUstream stream;
	struct site *site;  /* closed or deferred to one */
	uint64_t serial;    /* order of opening */
	uint64_t low, high; /* no value or input lies outside */
	unsigned age;	    /* ops since the last step */
	struct outline outline;
	bool gaps;	   /* a step leaves bytes of what it writes alone: never held back */
	bool timed;	   /* will be compared: its inputs are kept, its ops are timed */
	bool triangle;	   /* at close: of P nothing is written above the diagonal */
	bool measured;	   /* what its unknown kernels write was found out by launching them */
	bool softmax;	   /* a step is a softmax, or may be one */
	bool met;	   /* watched: an op would have had its scores made real … */
	bool perhaps_met;  /* … or will not any more, once more is known of it */
	bool suspected;	   /* an unknown kernel was handed its scores after the close */
	bool read;	   /* they were read after the close */
	char detail[96];   /* of `unfit` */
	const void *graph; /* closed in a graph whose launches make its values anew; NULL: not so */
	struct timing *timing;
	struct slopes_args slopes; /* of what is being launched (made_bias.h) */
	struct complement_args complement;
	bool made_stays; /* what is made for them stays where it is, for a graph of ours; and … */
	uint64_t room;	 /* … so does this scratch of the kernel's; 0: none */
	struct site_set *candidates;
	int step_count, value_count, input_count;
	int p_value;	  /* at close: which value GEMM2 contracts */
	int further;	  /* at close: columns of a row of P behind its keys: 1 for a sink */
	bool transposed;  /* at close: GEMM1 made S^T: its rows are queries, its columns keys */
	int preload;	  /* input that lies where S will: what GEMM1 adds to (beta); -1: none */
	struct comb comb; /* closed */
	struct op_gemm closer;
	/* Of a closer in parts (parts.h): how many were taken in and not run, what of, and where
	 * the second lies; the first is `closer` until there are all. */
	int closing, closing_value;
	struct op_gemm closer_second;
	/* Operands A and B of GEMM1, V, and what GEMM1 adds to. Deferred: inputs[relayed[n]] is
	 * what relay[n] would have copied; -1: no copy was held back. made_by: number of the copy
	 * that made them; 0: none. Deferred: not of V. */
	int relayed[RELAYOUT_OPERANDS];
	uint64_t made_by[RELAYOUT_OPERANDS];
	uint64_t cast_by[2]; /* number of the cast behind A and B of fp32, as cast[n] says; 0: none
			      */
	int narrow[2];	     /* at close: input of which operand n of GEMM1 was cast; -1: none */
	struct value values[CHAIN_VALUES];
	struct input inputs[CHAIN_INPUTS]; /* [0] A and [1] B of GEMM1; V is added at the close */
	struct step steps[CHAIN_STEPS];
	struct relayout relay[RELAYOUT_OPERANDS];
	struct relayout cast[2]; /* only described: no step is kept */
};

extern struct chain *chain_list[CHAIN_COUNT]; /* those in use, in no order */
extern int chain_live;			      /* how many */
extern int chain_open_count;		      /* of them, that are not closed */

/* The body may drop any chain, also this one; a chain may then be visited twice. */
#define for_each_chain(c)                                                                          \
	for (int c##_at = chain_live; c##_at-- > 0;)                                               \
		for (struct chain *c = c##_at < chain_live ? chain_list[c##_at] : NULL; c; c = NULL)

/* Where its work goes. */
static inline struct queue chain_queue(const struct chain *chain)
{
	return (struct queue){chain->context, chain->stream};
}

/* The chain wants to hear of the op once it ran. */
static inline void chain_watch(struct op *op, struct chain *chain)
{
	op->watcher = chain;
	op->watched = chain->serial;
}

/* A product of a kind that attention is made of? */
bool chain_plain_product(const struct op_gemm *op);

/* Could this GEMM be S = QK^T? Cheap; says nothing of what follows. */
bool chain_may_open(const struct op *op);

/* The value that holds the address, of a provisional one only where it begins; -1: none. */
int chain_value_at(const struct chain *chain, uint64_t address);

/* Starts a chain at a GEMM. NULL: no place. */
struct chain *chain_open(const struct op *op);

/* A further chain like this one. NULL: no place. */
struct chain *chain_again(const struct chain *from);

/* Registers memory that the chain reads from outside, all of it; its index, or -1. What was
 * overwritten since it was read is another input. */
int chain_add_input(struct chain *chain, uint64_t begin, uint64_t end);

/* Operand n (0 A, 1 B, 2 V) is read where a copy that is held back would have read it. false: too
 * many inputs. */
bool chain_relay(struct chain *chain, int n, const struct relayout *copy);

/* It can never be replaced, for this reason; the first one counts. */
void chain_unfit(struct chain *chain, enum reason reason, const char *detail);

/* Forgets a chain; held_drop() has released what it held. */
void chain_free(struct chain *chain);

/* The open chain on op's stream that the op reads from, or NULL. */
struct chain *chain_reader(const struct op *op, const struct access_list *list);

/* The next of the moments at which chains become readers and snapshots are taken. */
uint64_t chain_moment(void);

/* How many pointers of a kernel without a rule lead to none of the chain's values? */
int chain_new_pointers(const struct chain *chain, const struct access_list *list);

/* Where its pointers lead, as one number: to which values and how far into them, or to none. The
 * same of a step that was one. */
uint64_t chain_refs_of(const struct chain *chain, const struct access_list *list);
uint64_t chain_refs_of_step(const struct step *step);

/* Is all that the op reads of the chain's values still theirs? What was overwritten meanwhile is
 * somebody else's, and so would the result be. */
bool chain_takes_whole(const struct chain *chain, const struct access_list *list);

/* At the close: pointers of kernels without a rule that nobody read later were inputs. How many. */
int chain_settle_outside(struct chain *chain);

/* Adds a launch that reads the chain. When it cannot be understood the chain gets `unfit` and stays
 * watched. Overwritten parts of older values are cut. False: the launch could not be kept as a
 * step. */
bool chain_extend(struct chain *chain, const struct sight *sight);

/* One more step of a closed chain, as its kernel's rule has it (digest.h). false: there is no room,
 * and nothing is changed. */
bool chain_append(struct chain *chain, const struct sight *sight);

/* Does the GEMM contract a value of the chain over its last dimension? Fills closer, p_value. */
bool chain_close(struct chain *chain, const struct op *op);

/* P, `further` columns wider than the scores, as `p` of a product says it? */
bool chain_contracts_scores(const struct op_gemm *opener, const struct matrix *p, bool p_is_a,
			    int64_t batch, int64_t *further);

/* P at the close as square matrices of as many keys as queries, one behind the other; the patterns
 * and `second` are left out. false: it is nothing of the kind. */
bool chain_triangle(const struct chain *chain, struct triangle_args *args);

/* The length of a value that was a guess is known now. */
void chain_settle_length(struct chain *chain, int index, uint64_t end);

/* 0: the op does not close the chain; 1: it does, but between two dense layers there is no softmax;
 * 2: it does, and a softmax there is or may be. */
int chain_closeness(const struct chain *chain, const struct op *op);

/* Is a step surely one, or are some together? */
bool chain_has_softmax(const struct chain *chain);

/* Is this kernel, or step, a softmax, or may it be one? */
bool chain_kernel_may_be_softmax(const struct function *function);
bool chain_step_may_be_softmax(const struct step *step);

/* O was written: where it lies over scores, these are gone. */
void chain_cut_output(struct chain *chain);

/* The same, and from now on the chain is a closed one, of the site. */
void chain_end(struct chain *chain, struct site *site);

/* Is it known what a step computes? */
bool chain_has_meaning(const struct meaning *meaning);

/* Equal for launches of one kernel on one grid with the same constants; how many keys there are
 * does not count. */
uint64_t chain_launch_key(const struct op_gemm *opener, const struct sight *sight);

/* Equal for steps that are the same function of the chain's values. list: the step's accesses. */
uint64_t chain_sign(const struct op_gemm *opener, const struct step *step,
		    const struct access_list *list);

#endif
