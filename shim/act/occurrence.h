/* SPDX-License-Identifier: Apache-2.0
 *
 * One occurrence of a chain, from the decision at its opening GEMM to the act at its closing one.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_OCCURRENCE_H
#define FASHIM_OCCURRENCE_H

#include "shim/chain/chain.h"

/* May what the GEMM writes be held back: is it seen whenever somebody looks there? */
bool occurrence_watchable(const struct op *op);

/* A GEMM that does not close a chain: may open one, deferred (taken) or watched. The rest of the
 * world is guarded from it in any case. */
enum flow occurrence_open(const struct sight *sight);

/* The same while a graph is recorded: deferred where the user gave his word (FASHIM_GRAPHS) and the
 * work is on the stream where the capture began (`origin`), followed where the op is recorded
 * (recording.h), else only counted. What is followed counts as deferred, but runs as it is. */
enum flow occurrence_open_captured(const struct sight *sight, bool origin);

/* A further op of a watched chain: as chain_extend(). What it writes where somebody may look unseen
 * is never held back. */
bool occurrence_extend(struct chain *chain, const struct sight *sight);

/* A further op of a deferred chain: taken as long as it is what a verified site does next. */
enum flow occurrence_defer(struct chain *chain, const struct sight *sight);

/* The closing GEMM (chain_close() said so): replaced, or watched for a comparison. */
enum flow occurrence_close(struct chain *chain, const struct sight *sight);

/* An op of a watched chain has run. */
void occurrence_ran(struct chain *chain, const struct op *op);

#endif
