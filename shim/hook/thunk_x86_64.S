/* SPDX-License-Identifier: Apache-2.0
 *
 * Thunks (thunk.h) for x86-64: rows of driver_names.def by name, then the pool. */
#include "shim/hook/thunk.h"
#if defined(__x86_64__)
	.text

	/* %r11d: index. Saves what may hold an argument (eight vector registers and %al for the sake of
	 * float and variadic signatures), asks thunk_enter where to go and goes there. */
	.type thunk_common, @function
thunk_common:
	.cfi_startproc
	subq $200, %rsp
	.cfi_adjust_cfa_offset 200
	movq %rdi, 128(%rsp)
	movq %rsi, 136(%rsp)
	movq %rdx, 144(%rsp)
	movq %rcx, 152(%rsp)
	movq %r8, 160(%rsp)
	movq %r9, 168(%rsp)
	movq %rax, 176(%rsp)
	movaps %xmm0, 0(%rsp)
	movaps %xmm1, 16(%rsp)
	movaps %xmm2, 32(%rsp)
	movaps %xmm3, 48(%rsp)
	movaps %xmm4, 64(%rsp)
	movaps %xmm5, 80(%rsp)
	movaps %xmm6, 96(%rsp)
	movaps %xmm7, 112(%rsp)
	movl %r11d, %edi
	movq 200(%rsp), %rsi
	call thunk_enter
	movq %rax, %r11
	movaps 0(%rsp), %xmm0
	movaps 16(%rsp), %xmm1
	movaps 32(%rsp), %xmm2
	movaps 48(%rsp), %xmm3
	movaps 64(%rsp), %xmm4
	movaps 80(%rsp), %xmm5
	movaps 96(%rsp), %xmm6
	movaps 112(%rsp), %xmm7
	movq 128(%rsp), %rdi
	movq 136(%rsp), %rsi
	movq 144(%rsp), %rdx
	movq 152(%rsp), %rcx
	movq 160(%rsp), %r8
	movq 168(%rsp), %r9
	movq 176(%rsp), %rax
	addq $200, %rsp
	.cfi_adjust_cfa_offset -200
	jmp *%r11
	.cfi_endproc
	.size thunk_common, . - thunk_common

	.set row, 0

.macro thunk name
	.globl \name
	.type \name, @function
	.balign 16
\name:
	.cfi_startproc
	endbr64
	movl $row, %r11d
	jmp thunk_common
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
	.type thunk_pool, @function
	.balign 16
thunk_pool:
	.rept THUNK_POOL
	.balign 16
	endbr64
	movl $row, %r11d
	jmp thunk_common
	.set row, row + 1
	.endr
	.size thunk_pool, . - thunk_pool

	.section .rodata
	.globl thunk_pool_step
	.hidden thunk_pool_step
	.balign 4
thunk_pool_step:
	.long 16
#endif

	.section .note.GNU-stack, "", %progbits
