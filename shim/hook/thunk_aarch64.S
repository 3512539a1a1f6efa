/* SPDX-License-Identifier: Apache-2.0
 *
 * Thunks (thunk.h) for AArch64: rows of driver_names.def by name, then the pool. */
#include "shim/hook/thunk.h"
#if defined(__aarch64__)
	.text

	/* w16: index. Saves what may hold an argument, asks thunk_enter where to go and goes there. */
	.type thunk_common, %function
thunk_common:
	.cfi_startproc
	stp x29, x30, [sp, #-224]!
	.cfi_adjust_cfa_offset 224
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp x0, x1, [sp, #16]
	stp x2, x3, [sp, #32]
	stp x4, x5, [sp, #48]
	stp x6, x7, [sp, #64]
	str x8, [sp, #80]
	stp q0, q1, [sp, #96]
	stp q2, q3, [sp, #128]
	stp q4, q5, [sp, #160]
	stp q6, q7, [sp, #192]
	mov w0, w16
	mov x1, x30
	bl thunk_enter
	mov x16, x0
	ldp x0, x1, [sp, #16]
	ldp x2, x3, [sp, #32]
	ldp x4, x5, [sp, #48]
	ldp x6, x7, [sp, #64]
	ldr x8, [sp, #80]
	ldp q0, q1, [sp, #96]
	ldp q2, q3, [sp, #128]
	ldp q4, q5, [sp, #160]
	ldp q6, q7, [sp, #192]
	ldp x29, x30, [sp], #224
	.cfi_adjust_cfa_offset -224
	.cfi_restore x29
	.cfi_restore x30
	br x16
	.cfi_endproc
	.size thunk_common, . - thunk_common

	.set row, 0

.macro thunk name
	.globl \name
	.type \name, %function
	.balign 16
\name:
	.cfi_startproc
	hint #34 /* bti c */
	mov w16, #row
	b thunk_common
	.cfi_endproc
	.size \name, . - \name
	.set row, row + 1
.endm

.macro no_thunk
	.set row, row + 1
.endm

#define HOOK(name) no_thunk
#define INERT(name) no_thunk
#define FLUSH(name) thunk name
#include "shim/real/driver_names.def"

	.globl thunk_pool
	.hidden thunk_pool
	.type thunk_pool, %function
	.balign 16
thunk_pool:
	.rept THUNK_POOL
	.balign 16
	hint #34 /* bti c */
	mov w16, #row
	b thunk_common
	.set row, row + 1
	.endr
	.size thunk_pool, . - thunk_pool

	.section .rodata
	.globl thunk_pool_step
	.hidden thunk_pool_step
	.balign 4
thunk_pool_step:
	.word 16
#endif

	.section .note.GNU-stack, "", %progbits
