/* SPDX-License-Identifier: Apache-2.0
 *
 * The document of JSON that a run makes. Everything that is shown (table, CSV, picture, verdict) is
 * made from such a document, so a kept one can be shown again anywhere.
 */
#ifndef FASHIM_BENCH_DOCUMENT_H
#define FASHIM_BENCH_DOCUMENT_H

#include "tools/base/json_member.h"

#include <jansson.h>
#include <stdio.h>

/* A chain of calls that keeps scores and weights in 16 bits may be off by so many times what a
 * fused kernel may; one that is off by more does not compute attention. */
#define BENCH_CHAIN 16

/* A kept document, of that "format" and version 1; NULL with one line on stderr. */
json_t *bench_load(const char *path, const char *format);

/* "us" of a record: how many, sorted upwards, in *us for free(). */
size_t bench_times(const json_t *record, double **us);

/* Their median; NAN of none. half_range: half of what lies between the least and the most. */
double bench_median(const json_t *record, double *half_range);

/* A number member, NAN where there is none. */
double bench_number(const json_t *object, const char *key);

/* One line about machine and shape: "NVIDIA H200, driver …, B1 H8 …". */
void bench_print_head(FILE *out, const json_t *document);

#endif
