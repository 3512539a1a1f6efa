/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations, forward and backward: layer, group, batch and weight norm.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

/* <numbers, accumulator, …>(int N, eps, X, gamma, beta, mean, rstd, Y), one row a block. */
bool rule_read_layer_norm(struct reading *r)
{
	const int64_t width = rule_width(r), wide = rule_width(r), rows = r->launch->grid[0];
	const int64_t row = rule_product(PARAM(0), width), all = rule_product(row, rows);

	/* an RMS norm has no mean to write, whatever pointer stands there */
	return rule_takes(r, 4, (unsigned)wide, 8, 8, 8, 8, 8, 8) && rule_reads(r, 2, all) &&
	       rule_reads(r, 3, row) && rule_reads(r, 4, row) &&
	       rule_writes_some(r, 5, rows * wide, strncmp(r->behind, "Lb1E", 4) != 0) &&
	       rule_writes(r, 6, rows * wide) && rule_writes(r, 7, all);
}

/* <numbers, accumulator, …>(dY, X, mean, rstd, gamma, dX, int N), one row a block. */
bool rule_read_layer_norm_backward(struct reading *r)
{
	const int64_t width = rule_width(r), wide = rule_width(r), rows = r->launch->grid[0];
	const int64_t row = rule_product(PARAM(6), width), all = rule_product(row, rows);

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 4) && rule_reads(r, 0, all) &&
	       rule_reads(r, 1, all) && rule_reads(r, 2, rows * wide) &&
	       rule_reads(r, 3, rows * wide) && rule_reads(r, 4, row) && rule_writes(r, 5, all);
}

/* <numbers, accumulator, unsigned, unsigned, unsigned, bool parts, …>(long M, long N, dY, X, mean,
 * rstd, dgamma, dbeta); in parts, each row of blocks writes sums of its own. */
bool rule_read_gamma_beta_backward(struct reading *r)
{
	const int64_t width = rule_width(r), wide = rule_width(r);
	const int64_t row = rule_product(PARAM(1), width), all = rule_product(PARAM(0), row);
	const int64_t sums = rule_product(PARAM(0), wide);
	const char *parts = strstr(r->behind, "ELb");

	if (!parts || !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8) || !rule_reads(r, 2, all) ||
	    !rule_reads(r, 3, all) || !rule_reads(r, 4, sums) || !rule_reads(r, 5, sums))
		return false;
	if (parts[3] != '0')
		return rule_follows(r, 6, ACCESS_WRITE) && rule_follows(r, 7, ACCESS_WRITE);
	return rule_writes(r, 6, row) && rule_writes(r, 7, row);
}

/* An RMS norm has no mean, whatever pointer stands there. */
static bool of_squares(const struct reading *r)
{
	return strncmp(r->behind, "Lb1E", 4) == 0;
}

/* <numbers>(long N, eps, X, mean, rstd), one row a block: of groups; of layers <numbers,
 * accumulator, bool squares>, whose eps and results are of the latter. */
bool rule_read_row_moments(struct reading *r)
{
	const int64_t width = rule_width(r), rows = r->launch->grid[0];
	const int64_t wide = *r->behind == 'E' ? width : rule_width(r);

	return rule_takes(r, 8, (unsigned)wide, 8, 8, 8) &&
	       rule_reads(r, 2, rule_product(PARAM(0), width, rows)) &&
	       (of_squares(r) || rule_writes(r, 3, rows * wide)) && rule_writes(r, 4, rows * wide);
}

/* <numbers, accumulator, bool squares>(long N, X, mean, rstd, gamma, beta, Y), one row a block. */
bool rule_read_norm_rows(struct reading *r)
{
	const int64_t width = rule_width(r), wide = rule_width(r), rows = r->launch->grid[0];
	const int64_t row = rule_product(PARAM(0), width), all = rule_product(row, rows);

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8) && rule_reads(r, 1, all) &&
	       (of_squares(r) || (rule_reads(r, 2, rows * wide) && rule_reads(r, 5, row))) &&
	       rule_reads(r, 3, rows * wide) && rule_reads(r, 4, row) && rule_writes(r, 6, all);
}

/* <numbers>(long N, long C, long groups, mean, rstd, gamma, beta, a, b): a and b are of what
 * numbers are added up in. */
bool rule_read_fused_params(struct reading *r)
{
	const int64_t width = rule_width(r), wide = width == 8 ? 8 : 4, channels = PARAM(1);
	const int64_t grouped = rule_product(PARAM(0), PARAM(2), width);
	const int64_t all = rule_product(PARAM(0), channels, wide);
	const int64_t each = rule_product(channels, width);

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8) && rule_reads(r, 3, grouped) &&
	       rule_reads(r, 4, grouped) && channels % PARAM(2) == 0 && rule_reads(r, 5, each) &&
	       rule_reads(r, 6, each) && rule_writes(r, 7, all) && rule_writes(r, 8, all);
}

/* <numbers, accumulator, weights, …>(in, z, mean, inverse deviation, weight, shift, out, int rows,
 * int channels, bool). */
bool rule_read_batch_norm_last(struct reading *r)
{
	const int64_t width = rule_width(r), wide = rule_width(r), weights = rule_width(r);
	const int64_t channels = PARAM(8), bytes = rule_product(PARAM(7), channels, width);

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 4, 4, 1) && rule_reads(r, 0, bytes) &&
	       rule_reads(r, 1, bytes) && rule_reads(r, 2, channels * wide) &&
	       rule_reads(r, 3, channels * wide) && rule_reads(r, 4, channels * weights) &&
	       rule_reads(r, 5, channels * weights) && rule_writes(r, 6, bytes);
}

/* <numbers, weights, accumulator, train, int>(in[3], out[3], mean[1], variance[1], weight[1],
 * bias[1], eps), each an accessor. */
bool rule_read_batch_norm(struct reading *r)
{
	const int64_t width = rule_width(r), weights = rule_width(r), wide = rule_width(r);
	const int64_t statistics = strncmp(r->behind, "Lb1E", 4) ? weights : wide;
	int64_t out;
	bool dense;

	if (!weights || !wide || strncmp(r->behind, "Lb", 2) != 0 ||
	    strncmp(r->behind + 3, "Ei", 2) != 0 ||
	    !rule_takes(r, 32, 32, 16, 16, 16, 16, (unsigned)wide))
		return false;
	for (unsigned d = 0; d < 3; d++)
		if (rule_accessor_size(r, 0, d, 4) != rule_accessor_size(r, 1, d, 4))
			return false;
	for (unsigned i = 2; i < 6; i++) {
		const int64_t elements = rule_accessor_elements(r, i, 1, 4, NULL);

		if (rule_u64_at(r, rule_offset(r, i)) &&
		    (rule_accessor_size(r, i, 0, 4) != rule_accessor_size(r, 0, 1, 4) ||
		     !rule_reads(r, i, elements * (i < 4 ? statistics : weights))))
			return false;
	}
	out = rule_accessor_elements(r, 1, 3, 4, &dense);
	return rule_reads(r, 0, rule_accessor_elements(r, 0, 3, 4, NULL) * width) &&
	       rule_writes_some(r, 1, out * width, dense);
}

/* <numbers, accumulator>(w, norms, v, g, int columns, int rows). */
bool rule_read_weight_norm(struct reading *r)
{
	const int64_t width = rule_width(r), wide = rule_width(r), columns = PARAM(4);
	const int64_t bytes = rule_product(columns, PARAM(5), width);

	return rule_takes(r, 8, 8, 8, 8, 4, 4) && rule_writes(r, 0, bytes) &&
	       rule_writes(r, 1, columns * wide) && rule_reads(r, 2, bytes) &&
	       rule_reads(r, 3, columns * width);
}
