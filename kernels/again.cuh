/* SPDX-License-Identifier: Apache-2.0
 *
 * ATTN_EMPTY_AGAIN: programs that hide keys before softmax and make their P 0 after it. A hidden
 * key counts in its row's sum, but meets no V. Beside any other score its weight is next to
 * nothing, and O is what it would be if such keys did not exist; where all that the mask leaves is
 * about as low as what hides, it is not, and the mask's row is read once more.
 */
#ifndef FASHIM_AGAIN_CUH
#define FASHIM_AGAIN_CUH

#include "kernels/device.cuh"

/* A weight of less than so many powers of two is nothing beside P of about 1, with fp32's 2^-149 and
 * any number of keys. */
#define AGAIN_NOTHING -300.0f

static __device__ __forceinline__ int keys_hidden(const struct attn_args &a, int b, int h, int i)
{
	const struct attn_tensor &t = a.spec.mask;
	const unsigned char *const row =
		(const unsigned char *)tensor_at(t, b, h, a.H) + min(i, a.Sq - 1) * t.stride[2];
	const bool keeps = a.spec.mask_keeps != 0;
	int count = 0;

#pragma unroll 1
	for (int j = 0; j < a.Sk; j++)
		count += (row[j * t.stride[3]] != 0) != keeps;
	return count;
}

/* Counts the hidden keys of row i into its sum, which is over those that the mask leaves, and not
 * 0 afterwards. `above`: by how many powers of two P of a hidden one is larger than 1. */
static __device__ __forceinline__ void count_hidden(float &sum, float above,
						    const struct attn_args &a, int b, int h, int i)
{
	if (sum > 0.0f && above < AGAIN_NOTHING)
		return;
	const int hidden = keys_hidden(a, b, h, i);
	if (sum == 0.0f) /* softmax of nothing but -inf is NaN, of which hidden keys become 0 */
		sum = hidden == a.Sk || (hidden && a.spec.hidden_value > -INFINITY) ? INFINITY
										     : NAN;
	else if (hidden)
		sum += hidden * exp2_fast(above);
}

#endif
