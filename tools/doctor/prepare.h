/* SPDX-License-Identifier: Apache-2.0
 *
 * `fashim doctor --prepare`: compiles, once, what the shim would not have compiled in a program's
 * call.
 */
#ifndef FASHIM_PREPARE_H
#define FASHIM_PREPARE_H

/* For every GPU here for which the library has text alone, its machine code is made by the driver
 * and kept where the shim looks for it (shim/gpu/kernel_cache.h); what is there already stays. Says
 * on stderr what was made. shim: path of libfashim.so, or NULL. 0, or -errno with a line of why. */
int doctor_prepare(const char *shim);

#endif
