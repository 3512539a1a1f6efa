/* SPDX-License-Identifier: Apache-2.0
 *
 * One op as it was seen when its hook called: read once, and handed down.
 */
#ifndef FASHIM_SIGHT_H
#define FASHIM_SIGHT_H

#include "shim/op/access.h"
#include "shim/rules/function.h"

struct meaning;

struct sight {
	struct op *op;
	struct access_list *list;	 /* what it touches */
	const struct function *function; /* of a launch, NULL: none, or not known */
	const unsigned char *params;	 /* of a launch, NULL: not readable */
	const char *who;		 /* for the log: the function, else the call */
	struct meaning *meaning; /* of a launch with parameters, read with its accesses; or NULL */
};

#endif
