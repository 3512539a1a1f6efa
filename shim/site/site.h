/* SPDX-License-Identifier: Apache-2.0
 *
 * Call sites: what is known of a chain that comes back. Same code, same constants, same dataflow
 * make the same function; addresses, buffer aliasing and the number of keys do not enter the key,
 * nor, by rule, but for their orders of magnitude, how many heads there are in all batches, and how
 * many queries where there are as many as keys.
 *
 *   learning → (FASHIM_LEARN good comparisons) → verified → declined, for a named reason, at any
 * time
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_SITE_H
#define FASHIM_SITE_H

#include "shim/chain/chain.h"
#include "shim/spec/identity.h"
#include "shim/log/log_format.h"

#define SITES LIVE_SITES

struct site {
	int number;	 /* from 1, never given twice */
	uint64_t latest; /* moment of its latest occurrence */
	enum site_state state;
	enum reason reason;
	char detail[96];
	uint64_t key;
	uint64_t opener, closer;
	int step_count;
	uint64_t steps[CHAIN_STEPS];
	uint64_t launch_keys[CHAIN_STEPS], launch_refs[CHAIN_STEPS];
	int first_values[CHAIN_STEPS + 1]; /* of each step */
	int value_count;
	struct { /* of each value */
		uint64_t bytes;
		int64_t keys; /* with so many keys; 0: they do not count */
		bool outside; /* an input in a value's place */
		bool left;    /* some of its bytes are left alone */
	} values[CHAIN_VALUES];
	bool by_data;		     /* some step has no rule: spec was identified from data */
	int64_t rows, batch;	     /* by_data: for so many, the batch of one part */
	int64_t keys[2];	     /* by_data: numbers of keys at which it was right; 0: none */
	bool measured;		     /* by_data: and its kernels were launched for it */
	bool triangle;		     /* by_data: of P they write no more than that */
	unsigned blind;		     /* occurrences of which nobody knew what they left alone */
	bool identified;	     /* by_data: identity below is settled */
	struct identity identity;    /* by_data only: scale, window … */
	unsigned questions;	     /* by_data: times its kernels were asked … */
	char unanswered[96];	     /* … and why that did not help */
	int64_t B, H, Sq, Sk, D, Dv; /* as last seen */
	int dtype;
	unsigned round;		  /* site_round_over()s before it was new */
	unsigned watches;	  /* undeferred occurrences it may still ask for */
	unsigned openers;	  /* while it is learned: products that could be its opening one,
				     since it came … */
	unsigned apart[2];	  /* … from one time to the next, latest first; 0: not known */
	bool patient;		  /* it asks for none sooner than that; every other time */
	unsigned passed, pending; /* comparisons that agreed; under way */
	unsigned met;		  /* occurrences whose scores would have been made real … */
	unsigned perhaps_met;	  /* … besides, those of which it is not settled yet … */
	char met_by[96];	  /* … for whom, latest */
	unsigned reads;		  /* occurrences whose scores somebody read … */
	unsigned readers;	  /* … or may have; of those that were not held back */
	uint64_t since_sample;
	uint64_t
		interval; /* occurrences between samples: FASHIM_SAMPLE, growing while they agree */
	unsigned broken;  /* deferred chains that turned out to be something else */
	unsigned excused; /* scores made after all for who may not need them (site_pause) */
	unsigned pause, pauses; /* occurrences that are passed on until the next try; tries */
	unsigned accidents;	/* chains that others spoilt before they closed */
	unsigned failed_compares;
	int32_t rounds;	 /* where the program rounds and a kernel can: enum attn_round_s … */
	int32_t round_s; /* … and what of that is asked of it (roundings.h) */
	unsigned uncast; /* occurrences whose operands were cast nobody knows from what */
	bool wide;	 /* Q and K are read as they are, in fp32, and V is cast */
	unsigned empty;	 /* comparisons in which there was nothing to see */
	bool announced;
	const char *kernel;	 /* that the site's record names */
	double app_us, fused_us; /* latest steady comparison */
	double own_error; /* largest of the program's own, of its largest number, where compared */
	double moved;	  /* most that a kernel moved O that does not round as the program does */
	bool decided;	  /* … and single numbers of it so far that they are another key's */
	unsigned samples; /* comparisons logged */
	struct live_site *live;
};

extern struct site sites[SITES];
extern int site_count;

/* The site of a chain that just closed; a new one is made (state learning), in a full table in
 * place of the one that has not come for the longest. NULL: there is no place for it now. */
struct site *site_of_chain(const struct chain *chain);

/* Is there one already? */
bool site_known(const struct chain *chain);

/* May any site ever be replaced? Not where there are some, all are declined, and none was new for a
 * while. */
bool site_hopeful(void);

/* Learning of it had to be put off, or went on. */
void site_waits(struct site *site, bool waits);

/* Put off for all sites that are being learned and that the opening GEMM could be of; are there
 * any? */
bool site_openers_wait(const struct op_gemm *opener);

/* Could the opening GEMM start an occurrence of a verified site? */
bool site_awaits(const struct op_gemm *gemm, enum site_state state);

/* Its scores were made after all for a kernel that would show that it does not need them, could its
 * code be read by now: that does not count, but for a while, which grows, nothing is held back. */
void site_pause(struct site *site);

/* Does each verified site pause that the opening GEMM could be of? One occurrence less then. */
bool site_pauses(const struct op_gemm *opener);

/* Is a site with this opening GEMM still to be learned, so that the occurrence should run
 * undeferred? Each site asks for this a limited number of times; every other time not sooner than
 * it came lately, since what comes in between is of others that begin alike. */
bool site_wants_watch(const struct op_gemm *gemm);

/* The program waits for the device, or for what that computed: what it does again and again, a
 * model's forward, was done once. Any thread, without the lock. */
void site_round_over(void);

/* The same where it only has that copied to the host: JAX does so behind each forward, and waits
 * for none (tests/traces/jax_unnamed_kernels). */
void site_round_fetched(void);

/* How often so far. */
unsigned site_rounds(void);

/* Is it too early to replace anything in fp32? Some site's scores may be so large that next to
 * nothing may move what lies before it (comparison_wanted()), and that of one in its first round
 * is not known, nor of those behind it, nor of one that was not compared yet. */
bool site_early(const struct op_gemm *opener);

/* Bit set of verified sites whose first `steps` steps are the chain's. */
struct site_set {
	uint64_t bits[SITES / 64];
};
bool site_candidates(struct site_set *set, const struct op_gemm *opener);

/* Those too that are still to be learned, as far as rules say all that there is to say of them. */
bool site_candidates_to_learn(struct site_set *set, const struct op_gemm *opener);
bool site_set_any(const struct site_set *set);
void site_note_broken(const struct site_set *set);

/* A comparison with so many keys agreed. What was found by data is taken for a rule once it was
 * right for two numbers of keys; until then it holds for the one it was right for. */
void site_agrees(struct site *site, int64_t keys);

/* The verified site whose next step this launch of a kernel without a rule is, so that what it
 * touches was measured: the same kernel, grid and constants at the same place of a chain that was
 * the same so far, with pointers to the same values and as many that lead elsewhere. NULL: none. */
const struct site *site_model(const struct chain *chain, uint64_t launch_key,
			      const struct access_list *list);

/* What a kernel without a rule does that joins the chain, as far as the chain is concerned: it
 * keeps to the chain's own values and writes from its other pointers on. `model`: the verified site
 * whose next step it is (site_model()): then what it was measured to do, which holds for everybody;
 * NULL: others must not be guarded by this list. */
void site_narrow(const struct site *model, const struct chain *chain, struct access_list *list);

bool site_filter(struct site_set *set, int step, uint64_t signature);
struct site *site_match_close(const struct site_set *set, const struct chain *chain);

void site_decline(struct site *site, enum reason reason, const char *detail);
void site_verify(struct site *site);

/* From now on these steps are rounded (enum attn_round_s): what was learned of another kernel
 * counts no more. */
void site_round(struct site *site, int32_t round_s);

/* Writes the site's record (stack, chain, shape) to the log; a further one replaces it. */
void site_announce(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const char *kernel);

/* Writes what the site's unknown kernels were found to compute, or why that is not known. */
void site_record_identity(const struct site *site, const struct attn_args *args);

#endif
