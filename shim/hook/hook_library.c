/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library hooks share (hook_library.h).
 */
#include "shim/hook/hook_library.h"

bool library_declare(struct library_call *call)
{
	if (!operands_settle(&call->operands))
		return false;
	call->op.kind = OP_LIBRARY;
	call->op.library = &call->operands.library;
	call->operands.library.call = call->op.name;
	flow_before(&call->op);
	return true;
}
