/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of tests/apps from the outside: with a clean environment, under a time limit,
 * and gives back all that can be seen of them; reads what the shim's log says of a run.
 */
#ifndef FASHIM_TESTS_ZOO_RUN_H
#define FASHIM_TESTS_ZOO_RUN_H

#include <stdbool.h>
#include <stddef.h>

/* What a run left behind. */
struct outcome {
	int status;   /* as from waitpid() */
	char *text;   /* stdout */
	char *errors; /* stderr */
	float *dump;  /* APP_DUMP, when it was asked for */
	size_t dump_count;
};

/* Path of a file below the build folder; to be freed. */
char *zoo_path(const char *file);

/* A path in this program's own scratch folder, which goes when it ends; to be freed. */
char *zoo_scratch(const char *file);

/* Seconds after which a program that zoo_run() runs is ended by SIGALRM; at first two minutes. */
extern unsigned zoo_time_limit;

/* The CUDA of the driver that they run on ("12.2"); NULL: the newest. */
extern const char *zoo_driver;

/* Runs argv[0] (below the build folder) to its end, or to the time limit. `environment`
 * ("NAME=value", NULL at the end) is all that it gets beside PATH and the simulated GPU's
 * libraries. `dump`: ask for APP_DUMP. */
void zoo_run(struct outcome *outcome, const char *const *argv, const char *const *environment,
	     bool dump);
void zoo_free(struct outcome *outcome);

/* A whole file and a NUL behind it; to be freed. NULL: there is none. */
void *zoo_read(const char *path, size_t *bytes);

/* What the log says; zero counts where it says nothing. */
struct verdict {
	bool there; /* the log exists and every line is a JSON object */
	int headers, summaries, violations, sites, declined;
	long seen, replaced, compared, materialised;
	char reasons[512]; /* of sites, and those that were counted without one; each in blanks */
	char violation[256];
};

void zoo_read_log(const char *path, struct verdict *verdict);

/* Is the word in a line of the file? false, too, where there is none. */
bool zoo_mentions(const char *path, const char *word);

/* The same text but for hashes, sums and other numbers that rounding changes? On false *where is
 * the number of the first line that differs, from 1. With `exact_but_o` only lines of outputs (they
 * begin with "O") may have other hashes. */
bool zoo_same_text(const char *a, const char *b, bool exact_but_o, int *where);

/* Largest difference between two dumps; infinite where one has a NaN or an infinity that the other
 * lacks, or where their lengths differ. */
double zoo_difference(const struct outcome *a, const struct outcome *b);

#endif
