/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of what an op touches.
 */
#include "shim/op/access.h"

void access_add(struct access_list *list, struct access access)
{
	if (access.begin >= access.end)
		return;
	if (list->count == ACCESS_MAX) {
		list->opaque = true;
		return;
	}
	if (!access.pointer)
		access.pointer = access.begin;
	list->item[list->count++] = access;
}
