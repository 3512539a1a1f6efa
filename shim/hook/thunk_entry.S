/* SPDX-License-Identifier: Apache-2.0
 *
 * Thunks (thunk.h): rows of driver_names.def by name, then the pool. */
#include "shim/hook/thunk.h"
	.text

	/* What may hold an argument, and where it is saved: eight vector registers and %al for the sake of
	 * float and variadic signatures. */
.macro each_argument save_or_load
#if defined(__aarch64__)
	\save_or_load x0, x1, 16
	\save_or_load x2, x3, 32
	\save_or_load x4, x5, 48
	\save_or_load x6, x7, 64
	\save_or_load x8, x9, 80 /* x9: for the pair alone */
	\save_or_load q0, q1, 96
	\save_or_load q2, q3, 128
	\save_or_load q4, q5, 160
	\save_or_load q6, q7, 192
#else
	\save_or_load movq, %rdi, 128
	\save_or_load movq, %rsi, 136
	\save_or_load movq, %rdx, 144
	\save_or_load movq, %rcx, 152
	\save_or_load movq, %r8, 160
	\save_or_load movq, %r9, 168
	\save_or_load movq, %rax, 176
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7
	\save_or_load movaps, %xmm\n, 16*\n
	.endr
#endif
.endm

#if defined(__aarch64__)
.macro save one, other, at
	stp \one, \other, [sp, #\at]
.endm
.macro load one, other, at
	ldp \one, \other, [sp, #\at]
.endm
#else
.macro save move, register, at
	\move \register, \at(%rsp)
.endm
.macro load move, register, at
	\move \at(%rsp), \register
.endm
#endif

	/* Entered with the index in w16 or %r11d. Saves the arguments, asks thunk_enter where to go and goes
	 * there. */
	.type thunk_common, %function
thunk_common:
	.cfi_startproc
#if defined(__aarch64__)
	stp x29, x30, [sp, #-224]!
	.cfi_adjust_cfa_offset 224
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	each_argument save
	mov w0, w16
	mov x1, x30
	bl thunk_enter
	mov x16, x0
	each_argument load
	ldp x29, x30, [sp], #224
	.cfi_adjust_cfa_offset -224
	.cfi_restore x29
	.cfi_restore x30
	br x16
#else
	subq $200, %rsp
	.cfi_adjust_cfa_offset 200
	each_argument save
	movl %r11d, %edi
	movq 200(%rsp), %rsi
	call thunk_enter
	movq %rax, %r11
	each_argument load
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
