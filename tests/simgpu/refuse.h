/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the simulated driver and cuBLAS ask whether a call is to be refused: a function that is
 * there when tests/faults/fault.so is preloaded. 0: no; the status to return; below 0: the same
 * negated, and the context is broken from then on; SIM_LOST: success, but nothing is done.
 */
#ifndef FASHIM_SIM_REFUSE_H
#define FASHIM_SIM_REFUSE_H

#define SIM_LOST 0x10000

extern int fault_refuses(const char *name, const void *caller)
	__attribute__((weak, visibility("default")));

/* In the exported function itself: its caller is what is asked about. */
#define SIM_REFUSED() (fault_refuses ? fault_refuses(__func__, __builtin_return_address(0)) : 0)

#endif
