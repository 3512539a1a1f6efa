/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of addresses that were there before anybody looked: a program may fill them once, as it
 * starts. A product that goes by some waits until they are read back, in its stream's order; from
 * then on they are in the shadow (rules/shadow.h), which forgets them as soon as anything may have
 * written there.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_FIRST_LOOK_H
#define FASHIM_FIRST_LOOK_H

#include "shim/op/op.h"

/* A product by arrays that are not known, about to run; not while its stream is captured. true:
 * they are known now. Waits for the device. */
bool first_look(const struct op *op);

/* A context is about to go (NULL: any of them). */
void first_look_forget(CUcontext context);

#endif
