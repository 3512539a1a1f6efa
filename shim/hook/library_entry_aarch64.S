/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points that remember their library (hook_table.h): dlsym on a particular library hands out one
 * of these. It notes the library's number in the thread's blas_entered (cuBLAS) or library_entered and
 * goes on to the hook. */
#if defined(__aarch64__)
	.text

.macro entry name, library, entered
	.balign 16
.Lentry_\library\()_\name:
	.cfi_startproc
	hint #34 /* bti c */
	adrp x16, :gottprel:\entered
	ldr x16, [x16, #:gottprel_lo12:\entered]
	mrs x17, tpidr_el0
	add x16, x16, x17
	mov w17, #(\library + 1)
	str w17, [x16]
	b \name
	.cfi_endproc
.endm

.irp library, 0, 1, 2, 3, 4, 5, 6, 7
#define HOOK(name) entry name, \library, blas_entered
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, \library, library_entered
#include "shim/real/library_hooks.def"
.endr

.macro address name, library
	.quad .Lentry_\library\()_\name
.endm

	.section .data.rel.ro, "aw"
	.globl blas_entry_points
	.hidden blas_entry_points
	.balign 8
blas_entry_points:
.irp library, 0, 1, 2, 3, 4, 5, 6, 7
#define HOOK(name) address name, \library
#include "shim/real/cublas_hooks.def"
.endr

	.globl library_entry_points
	.hidden library_entry_points
library_entry_points:
.irp library, 0, 1, 2, 3, 4, 5, 6, 7
#define HOOK(name) address name, \library
#include "shim/real/library_hooks.def"
.endr
#endif

	.section .note.GNU-stack, "", %progbits
