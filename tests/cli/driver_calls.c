/* SPDX-License-Identifier: Apache-2.0
 *
 * The rest of driver.c: that a driver has all that the shim calls is seen by the names alone.
 */
int driver_call(void);

int driver_call(void)
{
	return 1;
}

#define DRIVER(name, since)		   int name(void) __attribute__((weak, alias("driver_call")));
#define DRIVER_NEWER(name, since, older)   DRIVER(name, since)
#define DRIVER_OPTIONAL(name, since, lost) DRIVER(name, since)
#include "shim/real/driver_calls.def"
