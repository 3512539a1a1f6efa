/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points that remember their library (hook_table.h): dlsym on a particular library hands out one
 * of these. It notes the library's number + 1 in the thread's library_entered and goes on to the hook.
 * All are of one size: first those of library 0, in the order of library_hooks.def. */
#include "shim/hook/hook_table.h"
#include "shim/real/library.h"

	.text

.macro entry name
	.balign LIBRARY_ENTRY_BYTES
	.cfi_startproc
#if defined(__aarch64__)
	hint #34 /* bti c */
	adrp x16, :gottprel:library_entered
	ldr x16, [x16, #:gottprel_lo12:library_entered]
	mrs x17, tpidr_el0
	add x16, x16, x17
	mov w17, #number
	str w17, [x16]
	b \name
#else
	endbr64
	movq library_entered@gottpoff(%rip), %r11
	movl $number, %fs:(%r11)
	jmp \name
#endif
	.cfi_endproc
.endm

	.globl library_entries
	.hidden library_entries
	.balign LIBRARY_ENTRY_BYTES
library_entries:
	.set number, 1
	.rept LIBRARIES
#define LIBRARY_ROW(name) entry name
#include "shim/real/library_hooks.def"
	.set number, number + 1
	.endr
	.balign LIBRARY_ENTRY_BYTES

	.section .note.GNU-stack, "", %progbits
