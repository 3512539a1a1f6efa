/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of split.cu, once for the kernels themselves and once for select.c's table.
 *
 *   width   largest D and Dv
 *   parts   blocks, of one cluster, that share the keys of 64 queries
 *   stages  boxes of K and V per warpgroup in shared memory
 *   per_sm  blocks per multiprocessor to leave registers for
 *   plain   1: no bias, mask or softcap, a positive scale, -inf outside the window
 */
#ifndef FASHIM_SPLIT_VARIANTS_H
#define FASHIM_SPLIT_VARIANTS_H

#define SPLIT_ROWS   64
#define SPLIT_KEYS   64 /* in a box of K or V */
#define SPLIT_GROUPS 2	/* warpgroups of a block, each with keys of its own */

/*        name width parts stages per_sm plain; parts rising within a width */
#define SPLIT_VARIANTS(V)                                                                          \
	V(d64_p1, 64, 1, 1, 2, 1)                                                                  \
	V(d64_p2, 64, 2, 2, 2, 1)                                                                  \
	V(d64_p2_any, 64, 2, 2, 1, 0)                                                              \
	V(d128_p2, 128, 2, 2, 1, 1)                                                                \
	V(d128_p2_any, 128, 2, 2, 1, 0)

/* Where things lie in dynamic shared memory, in bytes: Q, then the boxes, then what warpgroups and
 * what blocks tell each other (sums, then maxima and sums of P), then barriers. */
#define SPLIT_BOX(width) (SPLIT_KEYS * (width)*2)
#define SPLIT_SUMS(width, stages)                                                                  \
	((SPLIT_ROWS * 2 + SPLIT_GROUPS * (stages)*4 * SPLIT_KEYS) * (width))
#define SPLIT_GROUP_SUMS(width)	       ((SPLIT_GROUPS - 1) * SPLIT_ROWS * (width)*4)
#define SPLIT_BLOCK_SUMS(width, parts) (SPLIT_ROWS * (width)*4 / (parts) * ((parts)-1))
#define SPLIT_NOTES(parts)	       (SPLIT_GROUPS * (parts)*SPLIT_ROWS * 8)
#define SPLIT_BARRIERS(stages)	       (8 * (1 + SPLIT_GROUPS * (1 + 2 * (stages))))
#define SPLIT_SHARED(width, parts, stages)                                                         \
	(SPLIT_SUMS(width, stages) + SPLIT_GROUP_SUMS(width) + SPLIT_BLOCK_SUMS(width, parts) +    \
	 SPLIT_NOTES(parts) + SPLIT_BARRIERS(stages))

#endif
