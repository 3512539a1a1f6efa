/* SPDX-License-Identifier: Apache-2.0
 *
 * What fat binaries are packed with, unpacked: an LZ4 block and Zstandard frames. The shim may load
 * no library into a program that did not ask for it, so both decoders are its own. Input is
 * whatever lies in the program's memory: nothing is read or written outside the two ranges, and
 * what is not well formed is refused.
 */
#ifndef FASHIM_UNPACK_H
#define FASHIM_UNPACK_H

#include <stddef.h>

/* `size` bytes from `from` must give exactly `made` bytes at `to`. 0, -EINVAL: they do not,
 * -ENOMEM. */
int unpack_lz4(const unsigned char *from, size_t size, unsigned char *to, size_t made);
int unpack_zstd(const unsigned char *from, size_t size, unsigned char *to, size_t made);

#endif
