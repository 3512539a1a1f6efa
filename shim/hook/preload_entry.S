/* SPDX-License-Identifier: Apache-2.0
 *
 * Front ends of dlsym, dlvsym, dlopen and dlmopen: ask preload.c where to go, then go there with the arguments, the
 * stack and the return address that the caller gave. */
	.text

.macro front_end name route
	.globl \name
	.type \name, %function
\name:
	.cfi_startproc
#if defined(__aarch64__)
	hint #34 /* bti c */
	stp x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp x0, x1, [sp, #16]
	str x2, [sp, #32]
	bl \route
	mov x16, x0
	ldp x0, x1, [sp, #16]
	ldr x2, [sp, #32]
	ldp x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	.cfi_restore x29
	.cfi_restore x30
	br x16
#else
	endbr64
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	call \route
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
#endif
	.cfi_endproc
	.size \name, . - \name
.endm

	front_end dlsym preload_route_dlsym
	front_end dlvsym preload_route_dlvsym
	front_end dlopen preload_route_dlopen
	front_end dlmopen preload_route_dlmopen

	.section .note.GNU-stack, "", %progbits
