/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver with one GPU for `fashim doctor`. DRIVER says what is wrong with it: "crash", the number
 * of an error of cuInit(), "old" for a GPU that no kernel serves, "early" for a driver of long ago.
 */
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);

static const char *fault(void)
{
	return getenv("DRIVER") ? getenv("DRIVER") : "";
}

int cuInit(unsigned flags)
{
	(void)flags;
	if (!strcmp(fault(), "crash"))
		abort();
	return atoi(fault());
}

int cuDriverGetVersion(int *version)
{
	*version = strcmp(fault(), "early") ? 99000 : 11040;
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = strcmp(fault(), "none") ? 1 : 0;
	return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
	(void)device;
	strncpy(name, "Example GPU", (size_t)size);
	return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	enum { MAJOR = 75 };

	(void)device;
	*value = attribute != MAJOR ? 0 : strcmp(fault(), "old") ? 9 : 7;
	return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = (size_t)80 << 30;
	return 0;
}
