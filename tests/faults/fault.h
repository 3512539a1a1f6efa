/* SPDX-License-Identifier: Apache-2.0
 *
 * What fault.so tells faults: one in a file that both have mapped.
 */
#ifndef FASHIM_FAULT_H
#define FASHIM_FAULT_H

#include <stdatomic.h>
#include <stdint.h>

#define FAULT_LOCKED 64 /* names of functions */

struct fault_found {
	atomic_long count; /* calls of the kind */
	char name[48];	   /* what was refused first; "": nothing */
	uint64_t caller,
		text; /* where it would have returned to, as an address of the shim's file */
	char locked[FAULT_LOCKED][40]; /* called by a thread that had a lock of the shim's */
};

#endif
