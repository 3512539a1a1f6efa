/* SPDX-License-Identifier: Apache-2.0
 *
 * Slopes (ALiBi), which a program multiplies by the distance of query and key inside a kernel of its
 * own, written out as the bias that the kernels here take. A term that is the same for all keys of a
 * row changes no softmax: instead of the distance to the query it is that to one key, `origin`, so
 * that one row of biases serves all queries of a head. Nothing is gained by fewer digits: with the
 * origin amid the queries' own places the large numbers are where the probabilities are small.
 */
#include "kernels/device.cuh"

extern "C" __global__ void __launch_bounds__(SLOPES_THREADS)
	fashim_slopes(const __grid_constant__ struct slopes_args a)
{
	const int j = blockIdx.x * SLOPES_THREADS + threadIdx.x, h = blockIdx.y, b = blockIdx.z;

	if (j >= a.Sk)
		return;
	const float slope =
		a.slopes.base ? load_float((const void *)a.slopes.base,
					   b * a.slopes.stride[0] + h * a.slopes.stride[1],
					   a.slopes.dtype)
			      : exp2f(attn_slope_exponent(h, a.first, a.most));
	((float *)a.out)[((int64_t)b * a.H + h) * a.Sk + j] = slope * (float)(j - a.origin);
}
SIM_KERNEL(fashim_slopes)
