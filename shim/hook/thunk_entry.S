/* SPDX-License-Identifier: Apache-2.0
 *
 * Thunks (thunk.h): rows of driver_names.def by name, then the pool. */
#include "shim/hook/thunk.h"
	.text

	/* Entered with the index in w16 or %r11d. Saves what may hold an argument (eight vector registers and
	 * %al for the sake of float and variadic signatures), asks thunk_enter where to go and goes there. */
	.type thunk_common, %function
thunk_common:
	.cfi_startproc
#if defined(__aarch64__)
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
#else
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
#endif
	.cfi_endproc
	.size thunk_common, . - thunk_common

	.set row, 0

.macro enter
	.balign THUNK_BYTES
#if defined(__aarch64__)
	hint #34 /* bti c */
	mov w16, #row
	b thunk_common
#else
	endbr64
	movl $row, %r11d
	jmp thunk_common
#endif
	.set row, row + 1
.endm

.macro thunk name
	.globl \name
	.type \name, %function
	.balign THUNK_BYTES
\name:
	.cfi_startproc
	enter
	.cfi_endproc
	.size \name, . - \name
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
	.balign THUNK_BYTES
thunk_pool:
	.rept THUNK_POOL
	enter
	.endr
	.size thunk_pool, . - thunk_pool

	.section .note.GNU-stack, "", %progbits
