/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels over images and signals: pooling, resampling, depthwise convolution, patches, shifts.
 */
#include "shim/rules/rule_reader.h"

/* How many images: of `outputs` numbers, `each` in an image. 0: no whole number. */
static int64_t images(int64_t outputs, int64_t each)
{
	return outputs > 0 && each > 0 && outputs % each == 0 ? outputs / each : 0;
}

/* (int outputs, in, long channels, long height, long width, int out height, int out width, 8 int,
 * out, long places). */
bool rule_read_max_pool(struct reading *r)
{
	const int64_t width = rule_width(r), outputs = PARAM(0);
	const int64_t planes = images(outputs, rule_product(PARAM(5), PARAM(6)));

	return rule_takes(r, 4, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8) &&
	       images(planes, PARAM(2)) &&
	       rule_reads(r, 1, rule_product(planes, width, PARAM(3), PARAM(4))) &&
	       rule_writes(r, 15, outputs * width) && rule_writes(r, 16, outputs * 8);
}

/* Channels are the last dimension: (in, int images, channels, height, width, out height, out width,
 * 8 int, strides of these four, int blocks of an image, int, out, long places). */
bool rule_read_max_pool_last(struct reading *r)
{
	const int64_t size[] = {PARAM(1), PARAM(2), PARAM(3), PARAM(4)};
	const int64_t stride[] = {PARAM(15), PARAM(16), PARAM(17), PARAM(18)};
	const int64_t outputs = rule_product(PARAM(1), PARAM(2), PARAM(5), PARAM(6));
	const int64_t width = rule_width(r), in = rule_reach(4, size, stride);
	const unsigned i = rule_size_of(r, 2);

	return rule_takes(r, 8, 4, i, i, i, i, i, 4, 4, 4, 4, 4, 4, 4, 4, i, i, i, i, 4, 4, 8, 8) &&
	       r->launch->grid[0] == rule_times(PARAM(1), PARAM(19)) &&
	       rule_reads(r, 0, rule_times(in, width)) &&
	       rule_writes(r, 21, rule_times(outputs, width)) &&
	       rule_writes(r, 22, rule_times(outputs, 8));
}

/* Windows are found by numbers of 24 bits, beyond which they may leave the image. */
#define WINDOWS (1 << 24)

/* (in, out, int height, width, out height, out width, long strides of planes, rows and columns),
 * behind `out` where it takes the largest long places: a column of blocks for each plane. */
bool rule_read_adaptive_pool(struct reading *r)
{
	const unsigned n = rule_size_of(r, 2) == 8;
	const int64_t planes = r->launch->grid[0], width = rule_width(r);
	const int64_t size[] = {planes, PARAM(n + 2), PARAM(n + 3)};
	const int64_t stride[] = {PARAM(n + 6), PARAM(n + 7), PARAM(n + 8)};
	const int64_t outputs = rule_product(planes, PARAM(n + 4), PARAM(n + 5));

	if (!(n ? rule_takes(r, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8)
		: rule_takes(r, 8, 8, 4, 4, 4, 4, 8, 8, 8)) ||
	    rule_times(size[1], PARAM(n + 4)) > WINDOWS ||
	    rule_times(size[2], PARAM(n + 5)) > WINDOWS)
		return false;
	return rule_reads(r, 0, rule_times(rule_reach(3, size, stride), width)) &&
	       rule_writes(r, 1, rule_times(outputs, width)) &&
	       (!n || rule_writes(r, 2, rule_times(outputs, 8)));
}

/* Channels are the last dimension: (in, out, int images, channels, height, width, out height, out
 * width, blocks of an image, int, strides of images, channels, rows and columns, of the type that
 * the name has first). */
bool rule_read_adaptive_pool_last(struct reading *r)
{
	const int64_t size[] = {PARAM(2), PARAM(3), PARAM(4), PARAM(5)};
	const int64_t stride[] = {PARAM(10), PARAM(11), PARAM(12), PARAM(13)};
	const int64_t outputs = rule_product(PARAM(2), PARAM(3), PARAM(6), PARAM(7));
	const unsigned i = (unsigned)rule_next_type(r).bytes;
	const int64_t width = rule_width(r);

	return rule_takes(r, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, i, i, i, i) &&
	       r->launch->grid[0] == rule_times(PARAM(2), PARAM(8)) &&
	       rule_times(size[2], PARAM(6)) <= WINDOWS &&
	       rule_times(size[3], PARAM(7)) <= WINDOWS &&
	       rule_reads(r, 0, rule_times(rule_reach(4, size, stride), width)) &&
	       rule_writes(r, 1, rule_times(outputs, width));
}

/* (int outputs, in, long channels, long height, long width, out height, int out width, 6 int, out,
 * int, bool, bool); the out height is a long where the channels are not the last dimension. */
bool rule_read_avg_pool(struct reading *r)
{
	const bool last = rule_has(r, "30avg_pool2d_out_cuda_frame_nhwcI");
	const int64_t width = rule_width(r), outputs = PARAM(0);
	const int64_t count = images(outputs, rule_product(PARAM(2), PARAM(5), PARAM(6)));

	return rule_takes(r, 4, 8, 8, 8, 8, last ? 4 : 8, 4, 4, 4, 4, 4, 4, 4, 8, 4, 1, 1) &&
	       rule_reads(r, 1, rule_product(count, PARAM(2), width, PARAM(3), PARAM(4))) &&
	       rule_writes(r, 13, outputs * width);
}

/* (in[4], out[4], weight[4], bias[1], bool with bias, int outputs, 14 int); the name of one kind
 * has the kernel's size before the types. */
bool rule_read_depthwise(struct reading *r)
{
	int64_t in, out, weight, bias, width, outputs = 1;
	bool dense;

	rule_skip_numbers(r);
	width = rule_width(r);
	if (!width || *r->behind != 'i' ||
	    !rule_takes(r, 40, 40, 40, 16, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4))
		return false;
	in = rule_accessor_elements(r, 0, 4, 4, NULL);
	out = rule_accessor_elements(r, 1, 4, 4, &dense);
	weight = rule_accessor_elements(r, 2, 4, 4, NULL);
	for (unsigned d = 0; d < 4; d++)
		outputs = rule_times(outputs, rule_accessor_size(r, 1, d, 4));
	if (r->params[rule_offset(r, 4)]) {
		bias = rule_accessor_elements(r, 3, 1, 4, NULL);
		if (!rule_reads(r, 3, bias * width))
			return false;
	}
	return outputs == PARAM(5) && rule_reads(r, 0, in * width) &&
	       rule_writes_some(r, 1, out * width, dense) && rule_reads(r, 2, weight * width);
}

/* Resampling between parameters `param` and the one behind it, accessors of so many dimensions;
 * each of `places` of an output's plane is one thread's. */
static bool resampled(struct reading *r, unsigned param, unsigned dims, int64_t places)
{
	const int64_t width = rule_width(r), in = rule_accessor_elements(r, param, dims, 8, NULL);
	int64_t out, plane = 1;
	bool dense;

	out = rule_accessor_elements(r, param + 1, dims, 8, &dense);
	for (unsigned d = 2; d < dims; d++)
		plane = rule_times(plane, rule_accessor_size(r, param + 1, d, 8));
	for (unsigned d = 0; d < 2; d++)
		if (rule_accessor_size(r, param, d, 8) != rule_accessor_size(r, param + 1, d, 8))
			return false;
	return plane == places && rule_reads(r, param, in * width) &&
	       rule_writes_some(r, param + 1, out * width, dense);
}

/* (int places, scale, bool, in[3], out[3]). */
bool rule_read_upsample1d(struct reading *r)
{
	return rule_takes(r, 4, 4, 1, 56, 56) && resampled(r, 3, 3, PARAM(0));
}

/* (int places, scale, scale, bool, in[4], out[4]). */
bool rule_read_upsample2d(struct reading *r)
{
	return rule_takes(r, 4, 4, 4, 1, 72, 72) && resampled(r, 4, 4, PARAM(0));
}

/* (in, long images, long channels, long width, long out width, out, float). */
bool rule_read_upsample_nearest1d(struct reading *r)
{
	const int64_t planes = rule_product(PARAM(1), PARAM(2), rule_width(r));

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 4) &&
	       rule_reads(r, 0, rule_times(planes, PARAM(3))) &&
	       rule_writes(r, 5, rule_times(planes, PARAM(4)));
}

/* (in, out, long planes, long height, long width, long out height, long out width, float, float).
 */
bool rule_read_upsample_nearest2d(struct reading *r)
{
	const int64_t width = rule_width(r);

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 4, 4) &&
	       rule_reads(r, 0, rule_product(PARAM(2), width, PARAM(3), PARAM(4))) &&
	       rule_writes(r, 1, rule_product(PARAM(2), width, PARAM(5), PARAM(6)));
}

/* Channels are the last dimension: (in, out, long channels, height, width, out height, out width,
 * float, float, long numbers). */
bool rule_read_upsample_nearest2d_last(struct reading *r)
{
	const int64_t width = rule_width(r), outputs = PARAM(9);
	const int64_t count = images(outputs, rule_product(PARAM(2), PARAM(5), PARAM(6)));

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 4, 4, 8) &&
	       (int64_t)r->launch->grid[0] * r->launch->block[0] >= outputs &&
	       rule_reads(r, 0, rule_product(count, PARAM(2), width, PARAM(3), PARAM(4))) &&
	       rule_writes(r, 1, rule_times(outputs, width));
}

/* (number places, input [N,C,…], grid [N,height,width,2], output [N,C,height,width], int, int,
 * bool), tensors of numbers: of the input, whatever lies inside it. */
bool rule_read_grid_sampler(struct reading *r)
{
	const unsigned number = rule_size_of(r, 0), info = number == 4 ? 216 : 416;
	const int64_t width = rule_width(r), images = rule_tensor_size(r, 3, 0);
	const int64_t height = rule_tensor_size(r, 3, 2), columns = rule_tensor_size(r, 3, 3);
	bool dense;
	const int64_t out = rule_tensor_elements(r, 3, -1, 0, &dense);

	return rule_takes(r, number, info, info, info, 4, 4, 1) &&
	       rule_product(images, height, columns) == PARAM(0) &&
	       rule_tensor_size(r, 1, 0) == images && rule_tensor_size(r, 2, 0) == images &&
	       rule_tensor_size(r, 1, 1) == rule_tensor_size(r, 3, 1) &&
	       rule_tensor_size(r, 2, 1) == height && rule_tensor_size(r, 2, 2) == columns &&
	       rule_tensor_size(r, 2, 3) == 2 &&
	       rule_reads(r, 1, rule_tensor_elements(r, 1, -1, 0, NULL) * width) &&
	       rule_reads(r, 2, rule_tensor_elements(r, 2, -1, 0, NULL) * width) &&
	       rule_writes_some(r, 3, out * width, dense);
}

/* (long N, image, long height, width, kernel height, kernel width, 6 more, column height, column
 * width, columns). */
bool rule_read_im2col(struct reading *r)
{
	const int64_t width = rule_width(r);
	const int64_t channels = images(PARAM(0), rule_product(PARAM(12), PARAM(13)));

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8) &&
	       rule_reads(r, 1, rule_product(channels, width, PARAM(2), PARAM(3))) &&
	       rule_writes(r, 14, rule_product(PARAM(0), width, PARAM(4), PARAM(5)));
}

/* (in, out, long N, long dimension, long start, long size, long stride, long dimensions):
 * contiguous both. */
bool rule_read_roll(struct reading *r)
{
	const int64_t bytes = rule_product(PARAM(2), rule_width(r));

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8) && PARAM(3) >= 0 && PARAM(3) < PARAM(7) &&
	       images(PARAM(2), rule_product(PARAM(5), PARAM(6))) && rule_reads(r, 0, bytes) &&
	       rule_writes(r, 1, bytes);
}

/* (in, out, long width, long on the left, long on the right): a row of blocks for each row, whose
 * ends are mirrored, or cut off by less than 0. */
bool rule_read_reflection_pad1d(struct reading *r)
{
	const unsigned *grid = r->launch->grid;
	const int64_t rows = rule_product(grid[1], grid[2], rule_width(r));
	const int64_t in = rule_times(PARAM(2), 1), left = PARAM(3), right = PARAM(4);

	return rule_takes(r, 8, 8, 8, 8, 8) && left < in && right < in && left > -in &&
	       right > -in && (int64_t)grid[0] * r->launch->block[0] >= in + left + right &&
	       rule_reads(r, 0, rule_times(rows, in)) &&
	       rule_writes(r, 1, rule_times(rows, in + left + right));
}

/* May an edge be mirrored so far, or cut off? */
static bool mirrors(int64_t size, int64_t before, int64_t behind)
{
	return before < size && behind < size && before > -size && behind > -size;
}

/* (in, out, long width, long height, int above, below, left, right, int, int, int planes): a row of
 * blocks for each plane, and of those for each image. The two numbers are where a part of them
 * begins. */
bool rule_read_reflection_pad2d(struct reading *r)
{
	const unsigned *grid = r->launch->grid;
	const int64_t planes = rule_product(grid[1], grid[2], rule_width(r));
	const int64_t width = rule_times(PARAM(2), 1), height = rule_times(PARAM(3), 1);
	const int64_t out = rule_times(width + PARAM(6) + PARAM(7), height + PARAM(4) + PARAM(5));

	return rule_takes(r, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4) &&
	       mirrors(height, PARAM(4), PARAM(5)) && mirrors(width, PARAM(6), PARAM(7)) &&
	       PARAM(8) == 0 && PARAM(9) == 0 && PARAM(10) == grid[1] &&
	       (int64_t)grid[0] * r->launch->block[0] >= out &&
	       rule_reads(r, 0, rule_product(planes, width, height)) &&
	       rule_writes(r, 1, rule_times(planes, out));
}
