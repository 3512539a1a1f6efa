/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim bench --ladder: every step from one thread a row to what ships, beside the libraries.
 *
 * {"format":"fashim-ladder","version":1,"machine","shape","seed","rounds","clocks","tolerance",
 *  "tiles":[{"name","m","n","k","flops","us","exact","l4_us","adds"}],
 *  "references":[{"name","fused","us","error","kernels"}],
 *  "steps":[{"name","number","library","adds","us","error","registers","local_bytes","threads",
 *            "shared_bytes","blocks","l4_us","l4_hoped","kernels"}]}
 *
 * The last step is the kernel that ships; its number is null. A step of a library is held to what
 * such a chain can give (BENCH_CHAIN). One that does not take the shape has no "us". "error" is
 * {"max","rms","nonfinite","cases"}.
 */
#ifndef FASHIM_BENCH_LADDER_H
#define FASHIM_BENCH_LADDER_H

#include "tools/bench/bench.h"

#define LADDER_FORMAT "fashim-ladder"

/* Measures; NULL with one line on stderr where that could not be done. */
json_t *ladder_measure(const struct bench_options *options);

/* Is every step that was measured within the tolerance, and every tile exact? */
bool ladder_correct(const json_t *document);

/* One step's: has it a time? is it right? what it is called in few words, in buffer */
bool ladder_step_measured(const json_t *step);
bool ladder_step_correct(const json_t *document, const json_t *step);
const char *ladder_step_label(const json_t *step, char *buffer, size_t size);

void ladder_table(const json_t *document, bool color, bool markdown);
void ladder_csv(const json_t *document, FILE *out);

/* The picture of the descent, a page of SVG by itself. */
void ladder_svg(const json_t *document, FILE *out);

#endif
