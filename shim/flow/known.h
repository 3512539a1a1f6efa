/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel without a rule touches, as far as it matters now and can be known.
 *
 * Flow lock held.
 */
#ifndef FASHIM_KNOWN_H
#define FASHIM_KNOWN_H

#include "shim/rules/sight.h"

/* All that there is to know of an op before it is asked about, in its list. */
void known_settle(const struct sight *sight);

#endif
