/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of an image that is there from the first call on: what checks kernels, and what comes
 * before one.
 */
#include "kernels/complement.h"
#include "kernels/complement.cu"
#include "kernels/copy_rows.cu"
#include "kernels/drift.cu"
#include "kernels/inspect.cu"
#include "kernels/lay_out.cu"
#include "kernels/prepare.cu"
#include "kernels/reference.cu"
#include "kernels/slopes.cu"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern "C" __global__ void fashim_for_arch(void) /* KERNEL_FOR_ARCH: its name says it */
{
}
#endif
