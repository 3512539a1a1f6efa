/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches kept ready. A tensor map costs the host about a microsecond to encode, a call has three
 * or four, and allocators hand out the same addresses again and again: a call that is the same to
 * the last byte as an earlier one is launched with that one's maps.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_PREPARED_H
#define FASHIM_PREPARED_H

#include "kernels/launch.h"

/* attn_launch_prepare(), done before or now; valid until the next call. NULL: it failed. `device`
 * must stay where it is until prepared_forget(). */
const struct attn_launch *prepared_launch(const struct attn_variant *variant,
					  const struct attn_args *args,
					  const struct attn_device *device, uint64_t scratch);

/* Devices are about to be others. */
void prepared_forget(void);

#endif
