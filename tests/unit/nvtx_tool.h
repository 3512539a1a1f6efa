/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in for a profiler is asked by the test that loads it.
 */
#ifndef TEST_NVTX_TOOL_H
#define TEST_NVTX_TOOL_H

#include <nvtx3/nvToolsExt.h>

/* All that came, in order: "loaded", "+domain", ":text", "-domain", each with a semicolon. */
const char *nvtx_tool_heard(void);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export);

#endif
