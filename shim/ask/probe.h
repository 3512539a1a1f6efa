/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the middle kernels of a chain: the scores, and the inputs that they read, are filled with
 * numbers of ours in copies of the program's memory (mirror.h), the kernels are launched on them,
 * and rows of P come back.
 *
 * Inputs are only given what they may hold: numbers where there are numbers, whole numbers no
 * larger than those that were there. What looks like neither is never touched.
 *
 * All functions: flow lock held, the chain's context current.
 */
#ifndef FASHIM_PROBE_H
#define FASHIM_PROBE_H

#include "shim/ask/fit.h"
#include "shim/ask/mirror.h"

#define PROBE_KEYS   16384 /* most in a row */
#define PROBE_WIDTHS 8	   /* of flags: probe_flag_types[] */

enum probe_class {
	PROBE_UNKNOWN, /* neither, or a mixture */
	PROBE_BLANK,   /* nothing but zeros: may be anything */
	PROBE_NUMBERS, /* floating point */
	PROBE_FLAGS, /* zeros and ones: whole numbers of one, four or eight bytes, or floating point
		      */
	PROBE_LENGTHS /* whole numbers from 0 to that of the keys */
};

/* Memory that the unknown kernels read and that is not the chain's own. */
struct probe_input {
	uint64_t begin, bytes; /* as far as it looks like its class */
	enum probe_class is;
	enum probe_class otherwise; /* what PROBE_FLAGS are if they turn out to be none */
	int32_t *words; /* what was there, of `bytes`: PROBE_LENGTHS, and PROBE_FLAGS as long as
			   nobody has set these to one of … */
	uint64_t flags[PROBE_WIDTHS]; /* PROBE_FLAGS: as far as they may be those of that width */
};

struct probe {
	const struct chain *chain;
	struct mirrors mirrors;
	struct fit_grid grid;
	int score_dtype, p_dtype;
	int inputs;
	struct probe_input input[FIT_INPUTS];
};

/* As content.dtype has them, in the order in which they are tried: flags of a wide type look like
 * those of narrower ones, too. */
extern const int probe_flag_types[PROBE_WIDTHS];

/* The input's flags are none. */
void probe_no_flags(struct probe_input *input);

/* Makes the copies and looks at the inputs. NULL, or why it cannot be done. To be closed in any
 * case. */
const char *probe_open(struct probe *probe, const struct chain *chain);
void probe_close(struct probe *probe);

/* Room for the rows of a run; to be freed. */
float *probe_rows(const struct probe *probe);

/* The elements of that type that an input may be filled with. */
uint64_t probe_elements(const struct probe *probe, int input, int dtype);

/* Fills what `run` says, runs the steps, reads the rows of P. false: the driver refused, or it took
 * too long. */
bool probe_run(const struct probe *probe, struct observation *run);

#endif
