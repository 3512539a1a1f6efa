/* SPDX-License-Identifier: Apache-2.0
 *
 * The first GEMM, and what device it runs on.
 */
#include "shim/flow/session.h"

#include <stdio.h>

#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/real/library.h"

static void name_device(const struct op *op)
{
	char name[128] = "", uuid[48] = "";
	int major = 0, minor = 0, version = 0;
	CUdevice device;
	CUuuid id;

	if (driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
		driver.cuDeviceGetName(name, sizeof(name), device);
		driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					    device);
		driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					    device);
		if (driver.cuDeviceGetUuid_v2(&id, device) == CUDA_SUCCESS)
			for (int i = 0, at = 0; i < 16; i++)
				at += snprintf(uuid + at, sizeof(uuid) - (size_t)at, "%s%02x",
					       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					       (unsigned char)id.bytes[i]);
	}
	driver.cuDriverGetVersion(&version);
	for (unsigned i = 0; driver_lacks(i); i++)
		log_driver_lacks(driver_lacks(i));
	log_device(name, uuid, major * 10 + minor, version,
		   op->gemm.library ? blas_version(op->gemm.library) : 0);
}

bool session_note_gemm(const struct op *op)
{
	static bool begun;
	bool opened = false;

	if (!begun) {
		begun = true;
		name_device(op);
		opened = log_open();
	}
	log_live()->gemms++;
	return opened;
}
