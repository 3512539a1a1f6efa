/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points that remember their library (blas_library.h): dlsym on a particular libcublas hands out
 * one of these. It notes the library's number in the thread's blas_entered and goes on to the hook. */
#if defined(__aarch64__)
	.text

.macro entry name, library
	.balign 16
.Lentry_\library\()_\name:
	.cfi_startproc
	hint #34 /* bti c */
	adrp x16, :gottprel:blas_entered
	ldr x16, [x16, #:gottprel_lo12:blas_entered]
	mrs x17, tpidr_el0
	add x16, x16, x17
	mov w17, #(\library + 1)
	str w17, [x16]
	b \name
	.cfi_endproc
.endm

#define HOOK(name) entry name, 0
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 1
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 2
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 3
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 4
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 5
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 6
#include "shim/real/cublas_hooks.def"

#define HOOK(name) entry name, 7
#include "shim/real/cublas_hooks.def"

.macro address name, library
	.quad .Lentry_\library\()_\name
.endm

	.section .data.rel.ro, "aw"
	.globl blas_entry_points
	.hidden blas_entry_points
	.balign 8
blas_entry_points:
#define HOOK(name) address name, 0
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 1
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 2
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 3
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 4
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 5
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 6
#include "shim/real/cublas_hooks.def"

#define HOOK(name) address name, 7
#include "shim/real/cublas_hooks.def"
#endif

	.section .note.GNU-stack, "", %progbits
