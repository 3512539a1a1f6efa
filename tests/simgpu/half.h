/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit numbers for programs that are written for the simulated GPU.
 */
#ifndef FASHIM_SIM_HALF_H
#define FASHIM_SIM_HALF_H

#include "tools/base/half.h"

#endif
