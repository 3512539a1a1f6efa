/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning cache: which kernel was measured to be the fastest for a form of call. Written by
 * `fashim tune`, read by the shim; this is all that both share.
 *
 * One file for each GPU, driver and build of the kernels, named after them, in
 * $XDG_CACHE_HOME/fashim or ~/.cache/fashim. Lines of words:
 *
 *     fashim-tune 1
 *     gpu NVIDIA H200
 *     driver 13000
 *     build 0123456789abcdef
 *     choice 1,8,512,512,64,f16 split_f16_d64_p1 built_in=split_f16_d64_p2 us=4.9 …
 *     kept 1,12,1024,1024,64,f16,causal tma_f16_d64_r128 built_in=tma_f16_d64_r192 us=7.1 …
 *
 * The first four lines in this order; the number behind the name is the version, and a reader takes
 * no other. `choice`: a form (call_form.h) and the kernel to take for it. `kept`: a form whose
 * built-in choice stands, and the kernel that came closest. Behind the kernel come members that
 * readers may skip; so they do lines that begin with any other word. The last line of a form
 * counts.
 */
#ifndef FASHIM_TUNED_FILE_H
#define FASHIM_TUNED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/gpu/call_form.h"

#define TUNED_NAME    "fashim-tune"
#define TUNED_VERSION 1
#define TUNED_PREFIX  "tune-" /* of the file's name */
#define TUNED_SUFFIX  ".txt"
#define TUNED_LARGEST (1 << 20) /* bytes that a reader takes */

/* What measurements hold for. */
struct tuned_machine {
	char gpu[128];
	int driver;	/* CUDA version of the driver, 13000 for 13.0 */
	uint64_t build; /* tuned_build() */
};

/* A number that changes with the kernels: their table, and the image for the GPU. */
uint64_t tuned_build(const void *image, size_t bytes);

/* A number that changes with the bytes. */
uint64_t tuned_number(const void *data, size_t bytes);

/* $XDG_CACHE_HOME/fashim or $HOME/.cache/fashim. 0, -ENOENT where neither variable holds an
 * absolute path, -ENAMETOOLONG. */
int tuned_folder(char *path, size_t size);

/* "tune-NVIDIA_H200-13000-0123456789abcdef.txt". 0 or -ENAMETOOLONG. */
int tuned_name(const struct tuned_machine *machine, char *name, size_t size);

/* Reads the first lines. 0 and *rest behind them; -EINVAL: no such file; -EPROTO: of another
 * version. */
int tuned_header(const char *text, struct tuned_machine *machine, const char **rest);

bool tuned_same_machine(const struct tuned_machine *a, const struct tuned_machine *b);

/* A line of the rest. */
struct tuned_line {
	bool choice; /* else kept */
	struct call_form form;
	const char *kernel; /* into the text, kernel_length bytes */
	int kernel_length;
	const char *more; /* the members behind, up to the end of the line */
	int more_length;
};

/* The next line from *text on that says something; false: there is none. *text moves behind it. */
bool tuned_next(const char **text, struct tuned_line *line);

#endif
