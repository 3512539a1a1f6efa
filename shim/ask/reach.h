/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a kernel without a rule may reach: only into the allocations that its parameters point
 * into, or by addresses that lie in memory there (arrays of pointers to matrices, say) anywhere.
 * Its code may tell: that no number from memory becomes a part of an address, or that one does as
 * it lay there. Of others, before the first launch and ever more rarely later, our own kernel looks
 * on its stream for such addresses in all that it was pointed to; and again where a copy was seen
 * to bring some. Where there are some, or as long as the answer is not back, it may touch anything.
 * So may one that finds them in variables of its module, and one that no parameter leads anywhere,
 * unless its code uses nothing but these.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_REACH_H
#define FASHIM_REACH_H

#include "shim/rules/sight.h"

/* Says of a launch's accesses whether it may follow addresses in memory, and whether that is its
 * kernel's own answer or what holds until there is one. Never waits. */
void reach_refine(const struct sight *sight, bool may_ask);

/* Takes in an op in program order: a copy may put addresses where there were none. */
void reach_note(const struct op *op);

/* May a kernel that was handed no address at all have one from elsewhere, a variable of its module
 * say? Its code tells, which may take a while the first time. */
bool reach_besides(const struct function *function);

/* Takes in what came back, so that it is known where nothing may be asked. */
void reach_take_answers(void);

/* A context is about to go. */
void reach_forget(CUcontext context);

#endif
