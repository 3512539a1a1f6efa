/* SPDX-License-Identifier: Apache-2.0
 *
 * Static tracepoints as SystemTap's <sys/sdt.h> makes them, so that bpftrace, perf, gdb and
 * systemtap find them by name: each is one nop, and a note in the file that says where it is and in
 * which registers its arguments lie. docs/recipes.md lists them. Arguments are whole numbers.
 */
#ifndef FASHIM_TRACEPOINT_H
#define FASHIM_TRACEPOINT_H

#include <stdint.h>

/* The base is there once in the library: by it tools see how far a prelinked file was moved. */
#define TRACEPOINT_NOTE(name, arguments)                                                           \
	"990:	nop\n"                                                                               \
	"	.pushsection .note.stapsdt, \"\", \"note\"\n"                                            \
	"	.balign 4\n"                                                                             \
	"	.4byte 992f - 991f, 994f - 993f, 3\n"                                                    \
	"991:	.asciz \"stapsdt\"\n"                                                                \
	"992:	.balign 4\n"                                                                         \
	"993:	.8byte 990b, _.stapsdt.base, 0\n"                                                    \
	"	.asciz \"fashim\"\n"                                                                     \
	"	.asciz \"" name "\"\n"                                                             \
	"	.asciz \"" arguments "\"\n"                                                        \
	"994:	.balign 4\n"                                                                         \
	"	.popsection\n"                                                                           \
	"	.ifndef _.stapsdt.base\n"                                                                \
	"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"               \
	"	.weak _.stapsdt.base\n"                                                                  \
	"	.hidden _.stapsdt.base\n"                                                                \
	"_.stapsdt.base:	.space 1\n"                                                               \
	"	.size _.stapsdt.base, 1\n"                                                               \
	"	.popsection\n"                                                                           \
	"	.endif\n"

#define TRACEPOINT2(name, a, b)                                                                    \
	__asm__ volatile(TRACEPOINT_NOTE(#name, "-8@%0 -8@%1")::"r"((int64_t)(a)),                 \
			 "r"((int64_t)(b)))
#define TRACEPOINT4(name, a, b, c, d)                                                              \
	__asm__ volatile(TRACEPOINT_NOTE(#name, "-8@%0 -8@%1 -8@%2 -8@%3")::"r"((int64_t)(a)),     \
			 "r"((int64_t)(b)), "r"((int64_t)(c)), "r"((int64_t)(d)))

#endif
