/* SPDX-License-Identifier: Apache-2.0
 *
 * What was found: a list that every part of the doctor adds to.
 */
#ifndef FASHIM_FINDINGS_H
#define FASHIM_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

enum finding_state {
	FINDING_OK,
	FINDING_NOTE,  /* worth knowing; nothing to do */
	FINDING_WARN,  /* something will not be seen, or may go wrong */
	FINDING_BROKEN /* as it is, fashim cannot serve */
};

struct finding {
	enum finding_state state;
	const char *subject; /* one or two words, static storage */
	char *text;
	const char *hint; /* what to do about it, static storage; "" where there is nothing */
};

#define FINDINGS 64

struct findings {
	struct finding rows[FINDINGS];
	int count;
};

/* More than FINDINGS are dropped. */
void finding_add(struct findings *findings, enum finding_state state, const char *subject,
		 const char *hint, const char *format, ...) __attribute__((format(printf, 5, 6)));
void findings_free(struct findings *findings);

/* The first broken one, or NULL. */
const struct finding *finding_broken(const struct findings *findings);

#endif
