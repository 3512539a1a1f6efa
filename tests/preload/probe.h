/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's interposition layer with a probe in the place of everything behind it (probe_flow.c):
 * a test sees each op as the hooks made it, and says what the core would answer. The library
 * exports one more symbol than the shim, `probe`.
 */
#ifndef FASHIM_TESTS_PROBE_H
#define FASHIM_TESTS_PROBE_H

#include "shim/flow/flow.h"

#define PROBE_EVENTS 64

enum probe_when { PROBE_BEFORE, PROBE_AFTER, PROBE_FLUSH };

struct probe_event {
	enum probe_when when;
	struct op op;		   /* not for PROBE_FLUSH */
	char name[64];		   /* op.name, or what flow_flush() was told */
	int depth;		   /* hook_depth at that moment */
	int blas;		   /* GEMM: version of the library, e.g. 130100 */
	struct op_library library; /* of OP_LIBRARY */
};

struct probe {
	bool active, watching; /* what flow_active() and flow_watching() say */
	bool rests;	       /* what flow_rests() says … */
	unsigned asked;	       /* … so often */
	unsigned fetches;      /* flow_fetches() so far */
	unsigned waits;	       /* flow_waits() so far, each giving the next number … */
	uint64_t waited;       /* … and the one flow_waited() was told last */
	enum flow answer;      /* what flow_before() says */
	bool (*bypassed)(const char **why);
	unsigned count; /* events so far; those beyond PROBE_EVENTS are counted only */
	struct probe_event events[PROBE_EVENTS];
	/* What keeps a kernel of that name from being launched again (kernel_code.h). */
	const char *(*hindrance)(CUfunction handle, char *name);
	void (*within)(int calls); /* so many more hooked calls are under way */
};

extern struct probe probe;

#endif
