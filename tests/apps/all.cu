/* SPDX-License-Identifier: Apache-2.0
 *
 * The module of the programs that can launch either kind of kernel: one file, one module.
 */
#include "attention.cu"
#include "aten.cu"
#include "engines.cu"
#include "reach.cu"
