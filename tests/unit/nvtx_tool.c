/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for a profiler: what NVTX_INJECTION64_PATH names. Takes the ranges of all domains and
 * keeps them as text that a test asks for.
 */
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

#include "tests/unit/nvtx_tool.h"

static char heard[1024];
static size_t used;
static char domain_name[64];

static void note(const char *what, const char *text)
{
	used += (size_t)snprintf(heard + used, sizeof(heard) - used, "%s%s;", what, text);
}

static nvtxDomainHandle_t create(const char *name)
{
	snprintf(domain_name, sizeof(domain_name), "%s", name);
	return (nvtxDomainHandle_t)(void *)domain_name;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
	note("+", (const char *)(const void *)domain);
	note(":", event->message.ascii);
	return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
	note("-", (const char *)(const void *)domain);
	return 0;
}

const char *nvtx_tool_heard(void)
{
	return heard;
}

/* What each client calls at its first call of NVTX. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export)
{
	const NvtxExportTableCallbacks *callbacks = export(NVTX_ETID_CALLBACKS);
	NvtxFunctionTable table;
	unsigned size;

	if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
	    size <= NVTX_CBID_CORE2_DomainCreateA)
		return 0;
	*table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
	*table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
	*table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
	note("loaded", "");
	return 1;
}
