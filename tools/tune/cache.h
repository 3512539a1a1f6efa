/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning cache (shim/gpu/tuned_file.h) from its writer's side.
 */
#ifndef FASHIM_TUNE_CACHE_H
#define FASHIM_TUNE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/gpu/tuned_file.h"

#define TUNE_KERNEL 64 /* the longest name of a kernel, with its end */

/* What is known of a form. Numbers are NAN where they are not. */
struct tune_result {
	struct call_form form;
	bool choice;		  /* the kernel is to be taken; else the built-in choice stands */
	char kernel[TUNE_KERNEL]; /* the fastest of all but the built-in choice; "" none */
	char built_in[TUNE_KERNEL];
	double us, built_in_us;		      /* medians */
	double spread_us, built_in_spread_us; /* half of the middle half's width */
	double ratio, low, high;	      /* us / built_in_us, 95 % interval */
};

struct tune_cache {
	struct tuned_machine machine;
	struct tune_result *results;
	int count;
};

/* 0; -EINVAL: no cache; -EPROTO: of another version; else why it cannot be read. For
 * tune_cache_free() in any case. */
int tune_cache_read(struct tune_cache *cache, const char *path);
void tune_cache_free(struct tune_cache *cache);

/* Puts a result into the file of a machine, in place of what it says of that form; all else in it
 * stays. Folders are made. Several writers at a time do not lose each other's results, and a reader
 * sees the old file or the new one. 0; -EEXIST where the file is there and of another machine or no
 * cache at all; -ENODATA for a result without a kernel beside the built-in choice; else -errno. */
int tune_cache_put(const char *path, const struct tuned_machine *machine,
		   const struct tune_result *result);

#endif
