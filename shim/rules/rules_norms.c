/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations, forward and backward: layer, group, batch and weight norm.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

/* <numbers, accumulator, …> behind `needle`; *at moves to what follows. */
static bool take_types(const struct reading *r, const char *needle, const char **at, int64_t *width,
		       int64_t *wide)
{
	struct type type;

	*at = rule_find(r, needle);
	if (!*at)
		return false;
	*at += strlen(needle);
	type = rule_template_type(at, type_unknown);
	*width = type.bytes;
	*wide = rule_template_type(at, type).bytes;
	return *width && *wide;
}

/* What numbers of `width` bytes are added up in. */
static int64_t accumulated(int64_t width)
{
	return width == 8 ? 8 : 4;
}

/* (int N, eps, X, gamma, beta, mean, rstd, Y), one row a block. */
bool rule_read_layer_norm(struct reading *r)
{
	const int64_t rows = r->launch->grid[0];
	int64_t width, wide, bytes;
	const char *at;

	if (!take_types(r, "layer_norm_kernelI", &at, &width, &wide) ||
	    !rule_takes(r, 4, (unsigned)wide, 8, 8, 8, 8, 8, 8))
		return false;
	bytes = rule_times(rule_number(r, 0), width);
	if (!rule_times(rows, bytes))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 2), (uint64_t)(rows * bytes));
	rule_reads(r, rule_offset(r, 3), (uint64_t)bytes);
	rule_reads(r, rule_offset(r, 4), (uint64_t)bytes);
	/* an RMS norm has no mean to write, whatever pointer stands there */
	rule_writes_some(r, rule_offset(r, 5), rows * wide, strncmp(at, "Lb1E", 4) != 0);
	rule_writes(r, rule_offset(r, 6), (uint64_t)(rows * wide));
	rule_writes(r, rule_offset(r, 7), (uint64_t)(rows * bytes));
	return true;
}

/* (dY, X, mean, rstd, gamma, dX, int N), one row a block. */
bool rule_read_layer_norm_backward(struct reading *r)
{
	const int64_t rows = r->launch->grid[0];
	int64_t width, wide, bytes;
	const char *at;

	if (!take_types(r, "grad_input_kernel_vectorizedI", &at, &width, &wide) ||
	    !rule_takes(r, 8, 8, 8, 8, 8, 8, 4))
		return false;
	bytes = rule_times(rule_number(r, 6), width);
	if (!rule_times(rows, bytes))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 0), (uint64_t)(rows * bytes));
	rule_reads(r, rule_offset(r, 1), (uint64_t)(rows * bytes));
	rule_reads(r, rule_offset(r, 2), (uint64_t)(rows * wide));
	rule_reads(r, rule_offset(r, 3), (uint64_t)(rows * wide));
	rule_reads(r, rule_offset(r, 4), (uint64_t)bytes);
	rule_writes(r, rule_offset(r, 5), (uint64_t)(rows * bytes));
	return true;
}

/* <numbers, accumulator, unsigned, unsigned, unsigned, bool parts, …>(long M, long N, dY, X, mean,
 * rstd, dgamma, dbeta); in parts, each row of blocks writes sums of its own. */
bool rule_read_gamma_beta_backward(struct reading *r)
{
	int64_t width, wide, rows, columns, all;
	const char *at;
	bool parts;

	if (!take_types(r, "GammaBetaBackwardCUDAKernelTemplateI", &at, &width, &wide) ||
	    !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	at = strstr(at, "ELb");
	rows = rule_number(r, 0);
	columns = rule_number(r, 1);
	all = rule_times(rule_times(rows, columns), width);
	if (!at || !all)
		return false;
	parts = at[3] != '0';
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 2), (uint64_t)all);
	rule_reads(r, rule_offset(r, 3), (uint64_t)all);
	rule_reads(r, rule_offset(r, 4), (uint64_t)(rows * wide));
	rule_reads(r, rule_offset(r, 5), (uint64_t)(rows * wide));
	for (unsigned i = 6; i < 8; i++)
		if (parts)
			rule_follows(r, rule_offset(r, i), ACCESS_WRITE);
		else
			rule_writes(r, rule_offset(r, i), (uint64_t)(columns * width));
	return true;
}

/* (long N, eps, X, mean, rstd), one row a block. */
bool rule_read_row_moments(struct reading *r)
{
	const char *at = rule_find(r, "RowwiseMomentsCUDAKernelI") + 25;
	const int64_t width = rule_template_type(&at, type_unknown).bytes;
	const int64_t rows = r->launch->grid[0];
	int64_t bytes;

	if (!width || !rule_takes(r, 8, (unsigned)width, 8, 8, 8))
		return false;
	bytes = rule_times(rule_times(rule_number(r, 0), width), rows);
	if (!bytes)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 2), (uint64_t)bytes);
	rule_writes(r, rule_offset(r, 3), (uint64_t)(rows * width));
	rule_writes(r, rule_offset(r, 4), (uint64_t)(rows * width));
	return true;
}

/* (long N, long C, long groups, mean, rstd, gamma, beta, a, b). */
bool rule_read_fused_params(struct reading *r)
{
	const char *at = rule_find(r, "ComputeFusedParamsCUDAKernelI") + 29;
	const int64_t width = rule_template_type(&at, type_unknown).bytes;
	int64_t channels, grouped, all;

	if (!width || !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	channels = rule_number(r, 1);
	grouped = rule_times(rule_times(rule_number(r, 0), rule_number(r, 2)), width);
	all = rule_times(rule_times(rule_number(r, 0), channels), accumulated(width));
	if (!grouped || !all || channels % rule_number(r, 2))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 3), (uint64_t)grouped);
	rule_reads(r, rule_offset(r, 4), (uint64_t)grouped);
	rule_reads(r, rule_offset(r, 5), (uint64_t)(channels * width));
	rule_reads(r, rule_offset(r, 6), (uint64_t)(channels * width));
	rule_writes(r, rule_offset(r, 7), (uint64_t)all);
	rule_writes(r, rule_offset(r, 8), (uint64_t)all);
	return true;
}

/* <numbers, accumulator, weights, …>(in, z, mean, inverse deviation, weight, shift, out, int rows,
 * int channels, bool). */
bool rule_read_batch_norm_last(struct reading *r)
{
	int64_t width, wide, weights, channels, bytes;
	const char *at;

	if (!take_types(r, "channels_last_kernelI", &at, &width, &wide) ||
	    !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 4, 4, 1))
		return false;
	weights = *at == 'S' ? width : rule_template_type(&at, type_unknown).bytes;
	channels = rule_number(r, 8);
	bytes = rule_times(rule_times(rule_number(r, 7), channels), width);
	if (!bytes || !weights)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 0), (uint64_t)bytes);
	rule_reads(r, rule_offset(r, 1), (uint64_t)bytes);
	rule_reads(r, rule_offset(r, 2), (uint64_t)(channels * wide));
	rule_reads(r, rule_offset(r, 3), (uint64_t)(channels * wide));
	rule_reads(r, rule_offset(r, 4), (uint64_t)(channels * weights));
	rule_reads(r, rule_offset(r, 5), (uint64_t)(channels * weights));
	rule_writes(r, rule_offset(r, 6), (uint64_t)bytes);
	return true;
}

/* <numbers, weights, accumulator, train, int>(in[3], out[3], mean[1], variance[1], weight[1],
 * bias[1], eps), each an accessor. */
bool rule_read_batch_norm(struct reading *r)
{
	const char *at = rule_find(r, "batch_norm_transform_input_kernelI") + 34;
	const struct type type = rule_template_type(&at, type_unknown);
	const struct type weights = rule_template_type(&at, type);
	const struct type accumulator = rule_template_type(&at, type);
	const int64_t statistics = strncmp(at, "Lb1E", 4) ? weights.bytes : accumulator.bytes;
	int64_t in, out, channels;
	bool dense;

	if (!type.bytes || !weights.bytes || !accumulator.bytes || strncmp(at, "Lb", 2) != 0 ||
	    strncmp(at + 3, "Ei", 2) != 0 ||
	    !rule_takes(r, 32, 32, 16, 16, 16, 16, (unsigned)accumulator.bytes))
		return false;
	in = rule_accessor_elements(r, 0, 3, 4, NULL);
	out = rule_accessor_elements(r, 1, 3, 4, &dense);
	channels = rule_accessor_size(r, 0, 1, 4);
	for (unsigned d = 0; d < 3; d++)
		if (rule_accessor_size(r, 0, d, 4) != rule_accessor_size(r, 1, d, 4))
			return false;
	if (!in || !out)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 0), (uint64_t)(in * type.bytes));
	rule_writes_some(r, rule_offset(r, 1), out * type.bytes, dense);
	for (unsigned i = 2; i < 6; i++) {
		const int64_t elements = rule_accessor_elements(r, i, 1, 4, NULL);

		if (!rule_u64_at(r, rule_offset(r, i)))
			continue;
		if (!elements || rule_accessor_size(r, i, 0, 4) != channels)
			return false;
		rule_reads(r, rule_offset(r, i),
			   (uint64_t)(elements * (i < 4 ? statistics : weights.bytes)));
	}
	return true;
}

/* (w, norms, v, g, int columns, int rows). */
bool rule_read_weight_norm(struct reading *r)
{
	int64_t width, wide, columns, bytes;
	const char *at;

	if (!take_types(r, "weight_norm_fwd_last_dim_kernelI", &at, &width, &wide) ||
	    !rule_takes(r, 8, 8, 8, 8, 4, 4))
		return false;
	columns = rule_number(r, 4);
	bytes = rule_times(rule_times(columns, rule_number(r, 5)), width);
	if (!bytes)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_writes(r, rule_offset(r, 0), (uint64_t)bytes);
	rule_writes(r, rule_offset(r, 1), (uint64_t)(columns * wide));
	rule_reads(r, rule_offset(r, 2), (uint64_t)bytes);
	rule_reads(r, rule_offset(r, 3), (uint64_t)(columns * width));
	return true;
}
