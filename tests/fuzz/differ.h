/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds one dump of the fuzzer's program against another: bit for bit where no attention output
 * lies upstream, elsewhere within ten rounding steps of the type, four times as many for each
 * further attention upstream.
 */
#ifndef FASHIM_FUZZ_DIFFER_H
#define FASHIM_FUZZ_DIFFER_H

#include <stdbool.h>
#include <stddef.h>

struct difference {
	double share;	/* the largest difference that was tolerated, of what is */
	char text[400]; /* the first one that is not; "" */
};

/* Are they the same? `exact`: not one bit may differ. `promised`: what lies downstream of scores
 * that a graph made is not looked at. */
bool dumps_agree(const void *plain, size_t plain_bytes, const void *under, size_t under_bytes,
		 bool exact, bool promised, struct difference *difference);

#endif
