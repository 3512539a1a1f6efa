/* SPDX-License-Identifier: Apache-2.0
 *
 * One name, two kernels. Up to PyTorch 2.1 gpu_kernel_impl() launches two lambdas on strided
 * operands: the first, EUliE_, has types that are fixed, the second, EUliE0_, casts. Later ones
 * launch the first from gpu_kernel_impl_nocast(), and so the one that casts is EUliE_ here. Read
 * for the other, its types would be taken from bytes that nobody set.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#include "shim/code/kernel_code.h"
#include "shim/real/driver.h"
#include "shim/real/image.h"

#define FIRST  "EUliE_EEvi"
#define SECOND "EUliE0_EEvi"

/* Of every version from 2.4 to 2.11; none before has the function. */
static const char newer[] = "_ZN2at6native22gpu_kernel_impl_nocastINS0_11FillFunctorIfEEEEvRNS_"
			    "18TensorIteratorBaseERKT_";

/* It is known by what its library exports. */
static bool is_newer(void)
{
	static bool found;
	struct image image;

	if (!found && image_by_soname("libtorch_cuda", true, &image))
		found = image_symbol(&image, newer) != NULL;
	return found;
}

/* Or by what its image has beside it: both lambdas are made of one template. -1: neither. */
static int has_second(const struct function *function, const char *first)
{
	const size_t before = (size_t)(first - function->name);
	char name[4096];

	if (strlen(function->name) + 2 > sizeof(name))
		return -1;
	memcpy(name, function->name, before);
	memcpy(name + before, SECOND, sizeof(SECOND) - 1);
	strcpy(name + before + sizeof(SECOND) - 1, first + sizeof(FIRST) - 1);
	return kernel_code_beside(function->handle, name);
}

const struct kernel_rule *rule_of_version(const struct function *function,
					  const struct kernel_rule *named)
{
	static const struct kernel_rule plain = {rule_read_strided};
	const char *first = strstr(function->name, FIRST);

	if (named->read == rule_read_strided && strstr(function->name, "15gpu_kernel_implI"))
		return first ? named : NULL;
	if (named->read != rule_read_strided_cast)
		return named;
	if (!first)
		return strstr(function->name, SECOND) ? named : NULL;
	/* A recorded program has no images, and was recorded with a newer one. */
	if (is_newer() || (!driver.cuFuncGetModule && !driver.cuKernelGetLibrary))
		return named;
	switch (has_second(function, first)) {
	case 0:
		return named;
	case 1:
		return &plain;
	default:
		return NULL;
	}
}
