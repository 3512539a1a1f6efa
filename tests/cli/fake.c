/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for libfashim.so where only its being preloaded matters.
 */
extern const char fashim_fake[];
const char fashim_fake[] = "no shim";
