/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled test programs' kernels as a module of their own, for programs that use the driver
 * API.
 */
#include "app_kernels.h"
