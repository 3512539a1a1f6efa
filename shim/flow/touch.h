/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op touches, by the best grade of knowledge that there is (access.h).
 */
#ifndef FASHIM_TOUCH_H
#define FASHIM_TOUCH_H

#include "shim/op/access.h"
#include "shim/rules/function.h"

/* params: the launch's parameters as function_read_params() copied them, NULL when unreadable;
 * ignored for other kinds. Flow lock held. */
void touch_of_op(struct access_list *list, const struct op *op, const struct function *function,
		 const unsigned char *params);

#endif
