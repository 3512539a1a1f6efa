/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the ops of one occurrence take on the GPU: a pair of events around each, since one pair
 * around several would count the host's gaps between them. Nothing waits: the times are read once
 * something later on the stream is known to be done.
 *
 * All functions: flow lock held, the context current where they record or read; a NULL timing is
 * one that could not be had, and does nothing.
 */
#ifndef FASHIM_TIMING_H
#define FASHIM_TIMING_H

#include <cuda.h>
#include <stdbool.h>

#include "shim/base/json.h"

/* What an op is to the chain. */
enum timing_part { TIMING_GEMM1, TIMING_MIDDLE, TIMING_SOFTMAX, TIMING_GEMM2, TIMING_PARTS };

/* Begins with the program's call of GEMM1. NULL when all are in use. */
struct timing *timing_begin(CUcontext context, CUstream stream);

/* For ops of a graph, whose launches record anew; `stream` is captured while it is told of them.
 * NULL: no memory. It is given back by timing_free(). */
struct timing *timing_of_graph(CUcontext context, CUstream stream);
void timing_free(struct timing *timing);

/* The graph is launched. */
void timing_again(struct timing *timing);

/* Around each op, on the stream that timing_begin() was told. */
void timing_start(struct timing *timing, enum timing_part part);
void timing_stop(struct timing *timing);

/* What was measured of another occurrence's ops counts as this one's. false: it is not known, or
 * too much. */
bool timing_join(struct timing *timing, struct timing *other);

/* Gives it back. */
void timing_drop(struct timing *timing);

/* GPU time of all ops in µs, NAN where it is not known; its events must have been passed. */
double timing_us(const struct timing *timing);

/* Writes when, where, and what the parts took: at_us, stream, parts_us. Nothing where the time is
 * not known. */
void timing_write(const struct timing *timing, struct json *json);

/* µs between two events that were passed, NAN on error. */
double timing_between(CUevent start, CUevent stop);

/* The context goes away. */
void timing_forget(CUcontext context);

#endif
