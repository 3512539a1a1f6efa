/* SPDX-License-Identifier: Apache-2.0
 *
 * What is to be read of the kernels of kernel_code_kernels.cu.
 */
#ifndef FASHIM_TESTS_CODE_EXPECTED_H
#define FASHIM_TESTS_CODE_EXPECTED_H

/* cmocka wants them first */
#include "tests/cmocka.h"

#include "shim/code/kernel_code_parts.h"

/* Kernel i's name; NULL: there are no more. */
const char *code_expected(size_t i);

/* Is it code whose addresses are traced? Not into functions elsewhere. */
enum traced { UNTRACED, WITHIN, TRACED };

/* Every kernel's deeds, no unknown code among them, and where its addresses may come from. */
void assert_kernels(const struct code_table *table, const char *image, bool sm90,
		    enum traced traced);

/* One kernel's parameters lie as wanted; those of some lie as the compiler lays them out. */
void assert_layout(const struct code_table *table, const char *image, const char *name,
		   const struct code_layout *wanted);
void assert_layouts(const struct code_table *table, const char *image);

#endif
