/* SPDX-License-Identifier: Apache-2.0
 *
 * Images are read without a driver.
 */
#include <errno.h>

#include "shim/real/driver.h"

struct driver_calls driver;

int driver_resolve(void)
{
	return -ENOSYS;
}
