/* SPDX-License-Identifier: Apache-2.0
 *
 * First GEMM, counters without a site, end of the process.
 */
#include "shim/flow/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "shim/base/json.h"
#include "shim/log/log.h"
#include "shim/real/resolve.h"
#include "shim/site/site.h"

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
		if (driver.cuDeviceGetUuid_v2 &&
		    driver.cuDeviceGetUuid_v2(&id, device) == CUDA_SUCCESS)
			for (int i = 0, at = 0; i < 16; i++)
				at += snprintf(uuid + at, sizeof(uuid) - (size_t)at, "%s%02x",
					       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
					       (unsigned char)id.bytes[i]);
	}
	driver.cuDriverGetVersion(&version);
	log_device(name, uuid, major * 10 + minor, version,
		   op->gemm.library ? blas_version(op->gemm.library) : 0);
}

void session_note_gemm(const struct op *op)
{
	static bool begun;

	if (!begun) {
		begun = true;
		name_device(op);
		if (log_open())
			atexit(flow_finish);
	}
	log_live()->gemms++;
}

void session_decline(enum reason reason, const char *detail)
{
	struct json *json;

	if (log_live()->reasons[reason]++)
		return;
	json = log_record("decline");
	json_int(json, "site", 0);
	json_string(json, "reason", reason_name(reason));
	json_string(json, "detail", detail ? detail : "");
	log_commit(json);
}
