/* SPDX-License-Identifier: Apache-2.0
 *
 * Front ends of dlsym, dlvsym, dlopen and dlmopen: ask preload.c where to go, then go there with the arguments, the
 * stack and the return address that the caller gave. */
#if defined(__x86_64__)
	.text

.macro front_end name route
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
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
	.cfi_endproc
	.size \name, . - \name
.endm

	front_end dlsym preload_route_dlsym
	front_end dlvsym preload_route_dlvsym
	front_end dlopen preload_route_dlopen
	front_end dlmopen preload_route_dlmopen
#endif

	.section .note.GNU-stack, "", %progbits
