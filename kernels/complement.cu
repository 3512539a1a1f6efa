/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask of ones where a key is shown, which a program turns into a bias inside a kernel of its
 * own, written out as the bias that the kernels here take. A program that adds in 16 bits also
 * takes the difference and the product in them. Or numbers of which zero, or all others, hide
 * a key, perhaps beside a triangle that does; or a bias whose numbers are raised to a least one.
 * Two masks that hide by the same number become one.
 */
#include "kernels/complement.h"
#include "kernels/device.cuh"

static __device__ bool is_set(uint64_t in, int64_t n, int type)
{
	switch (type) {
	case ATTN_BOOL:
		return ((const unsigned char *)in)[n] != 0;
	case ATTN_ONE:
		return ((const unsigned char *)in)[n] == 1;
	case ATTN_I8:
		return ((const signed char *)in)[n] > 0;
	case ATTN_I32:
		return ((const int32_t *)in)[n] != 0;
	case ATTN_F32: /* by its bits: below the normal numbers a comparison may find 0 */
		return ((const uint32_t *)in)[n] << 1 != 0;
	case ATTN_F16:
	case ATTN_BF16:
		return (((const uint16_t *)in)[n] & 0x7fff) != 0;
	default:
		return ((const int64_t *)in)[n] != 0;
	}
}

/* Is the key of out[n] shown to its row? */
static __device__ bool is_shown(const struct complement_args &a, int64_t n)
{
	const bool keeps = a.flags == COMPLEMENT_KEEPS;

	if (!a.keys)
		return is_set(a.in, n, a.in_dtype) == keeps;

	const int64_t j = n % a.keys, row = n / a.keys;
	const int64_t i = row % a.rows, head = row / a.rows;
	const int64_t b = head / a.heads, h = head % a.heads;

	if (a.also && (j >= a.width || is_set(a.also,
					      b * a.also_stride[0] + h * a.also_stride[1] +
						      i * a.also_stride[2] + j * a.also_stride[3],
					      ATTN_BOOL) != (a.also_keeps != 0)))
		return false;
	return j >= i + a.first && j <= i + a.last &&
	       is_set(a.in, b * a.stride[0] + h * a.stride[1] + i * a.stride[2] + j * a.stride[3],
		      a.in_dtype) == keeps;
}

extern "C" __global__ void __launch_bounds__(COMPLEMENT_THREADS)
	fashim_complement(const __grid_constant__ struct complement_args a)
{
	const int64_t step = (int64_t)gridDim.x * COMPLEMENT_THREADS;

	for (int64_t n = (int64_t)blockIdx.x * COMPLEMENT_THREADS + threadIdx.x; n < a.count;
	     n += step) {
		if (a.also) {
			((unsigned char *)a.out)[n] = !is_shown(a, n);
			continue;
		}
		if (a.flags == COMPLEMENT_KEEPS || a.flags == COMPLEMENT_HIDES) {
			store_to((char *)a.out, n, a.out_dtype, is_shown(a, n) ? 0.0f : a.weight);
			continue;
		}
		const float mask = load_float((const void *)a.in, n, a.in_dtype);

		if (a.flags == COMPLEMENT_FLOORS) {
			store_to((char *)a.out, n, a.out_dtype, mask < a.weight ? a.weight : mask);
			continue;
		}
		store_to((char *)a.out, n, a.out_dtype,
			 round_to(1.0f - mask, a.out_dtype) * a.weight);
	}
}
SIM_KERNEL(fashim_complement)
