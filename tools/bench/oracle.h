/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim bench --gate, the oracle: is one kernel of ours correct, and surely faster than what it
 * replaces?
 *
 * {"format":"fashim-oracle","version":1,"machine","shape","seed","rounds","clocks","tolerance",
 *  "candidate":{"name","us","error","kernels","registers",…},
 *  "references":[{"name","fused","us","error","kernels"}],
 *  "max_ratio","confidence","resamples",
 *  "comparisons":[{"reference","ratio","low","high","ratios","passed"}],
 *  "correct","refused":null|"why","passed"}
 *
 * The members from "max_ratio" on are the verdict, made of those before it: a kept document can be
 * judged again. "ratios" are candidate / reference of each round, in order.
 */
#ifndef FASHIM_BENCH_ORACLE_H
#define FASHIM_BENCH_ORACLE_H

#include "tools/bench/bench.h"

#define ORACLE_FORMAT "fashim-oracle"

/* Measures; NULL with one line on stderr where that could not be done. */
json_t *oracle_measure(const struct bench_options *options);

/* Adds the verdict: correct on all cases and, against every reference, the upper end of the
 * interval below max_ratio; or refused, where a reference launched what it must not. 0 or -errno.
 */
int oracle_judge(json_t *document, double max_ratio);

void oracle_table(const json_t *document, bool color, bool markdown);
void oracle_csv(const json_t *document, FILE *out);

#endif
