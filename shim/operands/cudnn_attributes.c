/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cuDNN's attributes (cudnn_attributes.def), searched by number.
 */
#include "shim/operands/cudnn_attributes.h"

static const struct {
	short number;
	unsigned char meaning;
} attributes[] = {
#define ATTRIBUTE(name, number, meaning) {number, meaning},
#include "shim/operands/cudnn_attributes.def"
};

enum cudnn_meaning cudnn_meaning(int attribute)
{
	int low = 0, high = (int)(sizeof(attributes) / sizeof(attributes[0])) - 1;

	while (low <= high) {
		int middle = (low + high) / 2;

		if (attributes[middle].number == attribute)
			return attributes[middle].meaning;
		if (attributes[middle].number < attribute)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return UNHEARD;
}
