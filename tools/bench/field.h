/* SPDX-License-Identifier: Apache-2.0
 *
 * The field of a race: kernels of ours, the cuBLAS chain, backends of PyTorch, all over the same
 * operands and in turn. What is found out about each goes into its record, an object of the run's
 * document.
 */
#ifndef FASHIM_BENCH_FIELD_H
#define FASHIM_BENCH_FIELD_H

#include "tools/bench/bench.h"

struct field;

/* A field without anybody; NULL with one line on stderr. */
struct field *field_new(struct bench *bench);
void field_free(struct field *field);

/* Each lets somebody take part, whose record must last; 0, or -errno with one line on stderr.
 *
 * A kernel by name, or NULL: the one that would be chosen; its name, registers, shared memory and
 * blocks per multiprocessor go to the record. -ENOENT, without a line, where there is none or it
 * does not take the call. */
int field_add_variant(struct field *field, const char *name, json_t *record);
int field_add_chain(struct field *field, json_t *record);

/* SDPA's flash and math where there is PyTorch, and the chain, each with a new record in the list:
 * {"name", "fused": is it to be one kernel?}. */
int field_add_references(struct field *field, json_t *references);

/* "us": [µs of a call, round by round]; the document gets "clocks", as they ran meanwhile. */
int field_race(struct field *field, int rounds, json_t *document);

/* "error": {"max", "rms", "nonfinite", "cases"} against double precision over so many random cases;
 * backends of PyTorch answer for themselves, on numbers of the same kind. */
int field_errors(struct field *field, int cases);

/* "kernels": [names of what a call launches]; null where nobody can tell. Behind all timing: a
 * profiler slows what follows. */
int field_kernels(struct field *field);

#endif
