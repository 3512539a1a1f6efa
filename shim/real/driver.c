/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of driver_calls.def, filled in (driver.h).
 */
#include "shim/real/driver.h"

#include <errno.h>
#include <stdatomic.h>

#include "shim/real/driver_table.h"

__thread int hook_depth __attribute__((tls_model("initial-exec")));

struct driver_calls driver;

int driver_resolve(void)
{
	static atomic_bool complete;
	const char *missing = NULL;

	if (atomic_load_explicit(&complete, memory_order_acquire))
		return 0;
	if (driver_table_load())
		return -ENOSYS;
#define DRIVER(name)                                                                               \
	driver.name = (__typeof__(driver.name))driver_real[DRIVER_##name];                         \
	if (!driver.name)                                                                          \
		missing = #name;
#define DRIVER_OPTIONAL(name) driver.name = (__typeof__(driver.name))driver_real[DRIVER_##name];
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_OPTIONAL
	if (missing)
		return -ENOSYS;
	atomic_store_explicit(&complete, true, memory_order_release);
	return 0;
}
