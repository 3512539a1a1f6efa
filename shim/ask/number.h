/* SPDX-License-Identifier: Apache-2.0
 *
 * A single number in device memory that a step of a chain fills in, where(mask, x, number), and
 * that was there before anybody looked: a model may keep it as one of its own. It is asked for in
 * the order of the program's stream, and nobody waits: a later step finds it in the shadow
 * (rules/shadow.h), unless something may have written there since.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_NUMBER_H
#define FASHIM_NUMBER_H

#include "shim/rules/sight.h"

/* A launch, not captured, that will be a step of a chain. What it reads was made real. */
void number_ask(const struct sight *sight);

/* A context is about to go (NULL: any of them). */
void number_forget(CUcontext context);

#endif
