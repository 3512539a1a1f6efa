/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that the library hooks go by against the vendor's headers, where these are at hand;
 * and the table of cuDNN's attributes in the order that its search wants.
 */
#include "harness.h"

#include "shim/real/library_types.h"

#if defined(HAVE_CUDNN) && defined(HAVE_CUFFT) && defined(HAVE_CUSPARSE) && defined(HAVE_NCCL)
#include <nccl.h>
#if CUDNN_VERSION >= 91900 && NCCL_VERSION_CODE >= 22400
#define COMPARED
#define WORD(name, vendor, value) _Static_assert((int)(vendor) == (value), #vendor);
#include "shim/real/library_words.def"
#define ATTRIBUTE(name, number, meaning)                                                           \
	_Static_assert((int)(CUDNN_ATTR_##name) == (number), #name);
#include "shim/operands/cudnn_attributes.def"
#endif
#endif

static void the_vendors_numbers(void **state)
{
#ifndef COMPARED
	skip(); /* no headers, or of an older version that lacks some names */
#endif
}

static void attributes_stand_in_order(void **state)
{
	static const int numbers[] = {
#define ATTRIBUTE(name, number, meaning) number,
#include "shim/operands/cudnn_attributes.def"
	};

	for (unsigned i = 1; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_true(numbers[i - 1] < numbers[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vendors_numbers),
		cmocka_unit_test(attributes_stand_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
