/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels over images and signals: pooling, resampling, depthwise convolution, patches, shifts.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

static struct type type_behind(const struct reading *r, const char *needle)
{
	const char *at = rule_find(r, needle) + strlen(needle);

	return rule_template_type(&at, type_unknown);
}

/* How many images: of `outputs` numbers, `each` in an image. 0: no whole number. */
static int64_t images(int64_t outputs, int64_t each)
{
	return outputs > 0 && each > 0 && outputs % each == 0 ? outputs / each : 0;
}

/* (int outputs, in, long channels, long height, long width, int out height, int out width, 8 int,
 * out, long places). */
bool rule_read_max_pool(struct reading *r)
{
	const int64_t width = type_behind(r, "max_pool_forward_nchwI").bytes;
	int64_t outputs, planes, bytes;

	if (!width || !rule_takes(r, 4, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8))
		return false;
	outputs = rule_number(r, 0);
	planes = images(outputs, rule_times(rule_number(r, 5), rule_number(r, 6)));
	bytes = rule_times(rule_times(planes, width),
			   rule_times(rule_number(r, 3), rule_number(r, 4)));
	if (!bytes || !images(planes, rule_number(r, 2)))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 1), (uint64_t)bytes);
	rule_writes(r, rule_offset(r, 15), (uint64_t)(outputs * width));
	rule_writes(r, rule_offset(r, 16), (uint64_t)(outputs * 8));
	return true;
}

/* (int outputs, in, long channels, long height, long width, out height, int out width, 6 int, out,
 * int, bool, bool); the out height is a long where the channels are not the last dimension. */
bool rule_read_avg_pool(struct reading *r)
{
	const bool last = rule_has(r, "30avg_pool2d_out_cuda_frame_nhwcI");
	const int64_t width = last ? type_behind(r, "out_cuda_frame_nhwcI").bytes
				   : type_behind(r, "out_cuda_frameI").bytes;
	int64_t outputs, count, bytes;

	if (!width || !rule_takes(r, 4, 8, 8, 8, 8, last ? 4 : 8, 4, 4, 4, 4, 4, 4, 4, 8, 4, 1, 1))
		return false;
	outputs = rule_number(r, 0);
	count = images(outputs, rule_times(rule_number(r, 2),
					   rule_times(rule_number(r, 5), rule_number(r, 6))));
	bytes = rule_times(rule_times(rule_times(count, rule_number(r, 2)), width),
			   rule_times(rule_number(r, 3), rule_number(r, 4)));
	if (!bytes)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 1), (uint64_t)bytes);
	rule_writes(r, rule_offset(r, 13), (uint64_t)(outputs * width));
	return true;
}

/* (in[4], out[4], weight[4], bias[1], bool with bias, int outputs, 14 int). */
bool rule_read_depthwise(struct reading *r)
{
	const char *at = rule_find(r, "kernel_genericI");
	int64_t in, out, weight, bias, width, outputs = 1;
	bool dense, biased;

	if (at) {
		at += strlen("kernel_genericI");
	} else { /* <kernel size, … */
		at = rule_find(r, "depthwise2d_forward_kernelILi");
		at = at ? strchr(at + strlen("depthwise2d_forward_kernelILi"), 'E') : NULL;
		if (!at)
			return false;
		at++;
	}
	width = rule_template_type(&at, type_unknown).bytes;
	if (!width || *at != 'i' ||
	    !rule_takes(r, 40, 40, 40, 16, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4))
		return false;
	in = rule_accessor_elements(r, 0, 4, 4, NULL);
	out = rule_accessor_elements(r, 1, 4, 4, &dense);
	weight = rule_accessor_elements(r, 2, 4, 4, NULL);
	biased = r->params[rule_offset(r, 4)] != 0;
	bias = biased ? rule_accessor_elements(r, 3, 1, 4, NULL) : 1;
	for (unsigned d = 0; d < 4; d++)
		outputs = rule_times(outputs, rule_accessor_size(r, 1, d, 4));
	if (!in || !out || !weight || !bias || outputs != rule_number(r, 5))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 0), (uint64_t)(in * width));
	rule_writes_some(r, rule_offset(r, 1), out * width, dense);
	rule_reads(r, rule_offset(r, 2), (uint64_t)(weight * width));
	if (biased)
		rule_reads(r, rule_offset(r, 3), (uint64_t)(bias * width));
	return true;
}

/* Resampling between parameters `param` and the one behind it, accessors of so many dimensions;
 * each of `places` of an output's plane is one thread's. */
static bool resampled(struct reading *r, const struct type type, unsigned param, unsigned dims,
		      int64_t places)
{
	int64_t in, out, plane = 1;
	bool dense;

	in = rule_accessor_elements(r, param, dims, 8, NULL);
	out = rule_accessor_elements(r, param + 1, dims, 8, &dense);
	for (unsigned d = 2; d < dims; d++)
		plane = rule_times(plane, rule_accessor_size(r, param + 1, d, 8));
	for (unsigned d = 0; d < 2; d++)
		if (rule_accessor_size(r, param, d, 8) != rule_accessor_size(r, param + 1, d, 8))
			return false;
	if (!in || !out || !type.bytes || plane != places)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, param), (uint64_t)(in * type.bytes));
	rule_writes_some(r, rule_offset(r, param + 1), out * type.bytes, dense);
	return true;
}

/* (int places, scale, bool, in[3], out[3]). */
bool rule_read_upsample1d(struct reading *r)
{
	return rule_takes(r, 4, 4, 1, 56, 56) &&
	       resampled(r, type_behind(r, "1d_out_frameI"), 3, 3, rule_number(r, 0));
}

/* (int places, scale, scale, bool, in[4], out[4]). */
bool rule_read_upsample2d(struct reading *r)
{
	return rule_takes(r, 4, 4, 4, 1, 72, 72) &&
	       resampled(r, type_behind(r, "2d_out_frameI"), 4, 4, rule_number(r, 0));
}

/* (in, out, long planes, long height, long width, long out height, long out width, float, float).
 */
bool rule_read_upsample_nearest2d(struct reading *r)
{
	const int64_t width = type_behind(r, "nearest2d_out_frameI").bytes;
	int64_t in, out;

	if (!width || !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 4, 4))
		return false;
	in = rule_times(rule_times(rule_number(r, 2), width),
			rule_times(rule_number(r, 3), rule_number(r, 4)));
	out = rule_times(rule_times(rule_number(r, 2), width),
			 rule_times(rule_number(r, 5), rule_number(r, 6)));
	if (!in || !out)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 0), (uint64_t)in);
	rule_writes(r, rule_offset(r, 1), (uint64_t)out);
	return true;
}

/* (long N, image, long height, width, kernel height, kernel width, 6 more, column height, column
 * width, columns). */
bool rule_read_im2col(struct reading *r)
{
	const int64_t width = type_behind(r, "im2col_kernelI").bytes;
	int64_t channels, in, out;

	if (!width || !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	channels = images(rule_number(r, 0), rule_times(rule_number(r, 12), rule_number(r, 13)));
	in = rule_times(rule_times(channels, width),
			rule_times(rule_number(r, 2), rule_number(r, 3)));
	out = rule_times(rule_times(rule_number(r, 0), width),
			 rule_times(rule_number(r, 4), rule_number(r, 5)));
	if (!in || !out)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 1), (uint64_t)in);
	rule_writes(r, rule_offset(r, 14), (uint64_t)out);
	return true;
}

/* (in, out, long N, long dimension, long start, long size, long stride, long dimensions):
 * contiguous both. */
bool rule_read_roll(struct reading *r)
{
	const int64_t width = type_behind(r, "roll_cuda_kernelI").bytes;
	int64_t bytes;

	if (!width || !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	bytes = rule_times(rule_number(r, 2), width);
	if (!bytes || rule_number(r, 3) < 0 || rule_number(r, 3) >= rule_number(r, 7) ||
	    !images(rule_number(r, 2), rule_times(rule_number(r, 5), rule_number(r, 6))))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 0), (uint64_t)bytes);
	rule_writes(r, rule_offset(r, 1), (uint64_t)bytes);
	return true;
}
