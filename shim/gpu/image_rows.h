/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that are the places of an image, with a bias for each row of it and one for each column
 * (SAM, ViTDet, MViTv2). A kernel reads them by single elements, those of eight rows of queries at
 * once, which lie eight lines of the cache apart where a query's numbers follow one another. They
 * are few; laid out anew, [.., numbers, queries], eight rows are side by side.
 *
 * Products of the program made them, too, with strides that fit [.., rows, columns] of queries and
 * no single stride, so that the call sees the image's rows as heads that share K and V: windows of
 * 14 x 14 as 14 heads of 14 queries, of which a tile of 64 has use for 14. In the new order all
 * queries of an image are rows of one head.
 */
#ifndef FASHIM_IMAGE_ROWS_H
#define FASHIM_IMAGE_ROWS_H

#include <stdbool.h>

#include "kernels/attention.h"
#include "shim/chain/relayout.h"

/* Are there such biases, and enough queries to be worth it? */
bool image_rows_help(const struct attn_args *args);

/* Bytes of the biases, each a multiple of 256. */
uint64_t image_rows_bytes(const struct attn_args *args);

/* The same call with these biases from `at` on, with H 1 where heads are rows of an image, and the
 * copies that lay them there. How many copies. */
int image_rows_lay(struct attn_args *laid, struct relayout copies[ATTN_MAX_BIAS],
		   const struct attn_args *args, uint64_t at);

#endif
