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
#define DRIVER(name, since)                                                                        \
	driver.name = (__typeof__(driver.name))driver_real[DRIVER_##name];                         \
	if (!driver.name)                                                                          \
		missing = #name;
#define DRIVER_NEWER(name, since, older)                                                           \
	driver.name = (__typeof__(driver.name))(driver_real[DRIVER_##name]                         \
							? driver_real[DRIVER_##name]               \
							: driver_real[DRIVER_##older]);            \
	if (!driver.name)                                                                          \
		missing = #name;
#define DRIVER_OPTIONAL(name, since, lost)                                                         \
	driver.name = (__typeof__(driver.name))driver_real[DRIVER_##name];
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_NEWER
#undef DRIVER_OPTIONAL
	if (missing)
		return -ENOSYS;
	atomic_store_explicit(&complete, true, memory_order_release);
	return 0;
}

const char *driver_lacks(unsigned i)
{
	static const struct {
		enum driver_id id;
		const char *name;
	} rows[] = {
#define DRIVER(name, since)
#define DRIVER_NEWER(name, since, older)
#define DRIVER_OPTIONAL(name, since, lost) {DRIVER_##name, #name},
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_NEWER
#undef DRIVER_OPTIONAL
	};

	for (size_t row = 0; row < sizeof(rows) / sizeof(*rows); row++)
		if (!driver_real[rows[row].id] && !i--)
			return rows[row].name;
	return NULL;
}
