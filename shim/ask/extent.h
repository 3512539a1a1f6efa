/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launch of a kernel without a rule reads and writes, where its machine code tells:
 * addresses that follow from its parameters alone (threads.h). Found out on the host, once for a
 * kernel's code, its grid and its numbers, wherever its pointers lead; nothing is launched.
 *
 * Flow lock held.
 */
#ifndef FASHIM_EXTENT_H
#define FASHIM_EXTENT_H

#include "shim/rules/sight.h"

/* Puts what is read and written in place of what could be, if that is known or can be found out
 * now. true: it was. The accesses are graded as ruled then, and bounded but for those that stray
 * all over an allocation. list->dear: it could be found out later. is_step: it reads an open chain;
 * a kernel of which that could not be afforded when it first did stays unknown as a step for some
 * time. in_runs: what is written in runs may become an access for each, behind those of its
 * pointers. */
bool extent_refine(const struct sight *sight, bool is_step, bool in_runs);

/* Is the kernel unknown as a step, though it might be known by now? */
bool extent_step_unknown(const struct function *function);

/* Does its code tell that such a launch, whatever lies in memory, touches nothing but what its
 * parameters lead to and say, calls nothing that the driver has in stock, as a failed assertion
 * does, and does not stop the GPU? */
bool extent_contained(const struct function *function, const unsigned grid[3],
		      const unsigned block[3], const unsigned char *params);

/* Kernels are about to go away: their code is not kept any longer, what it told is. */
void extent_forget(void);

#endif
