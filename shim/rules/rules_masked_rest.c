/* SPDX-License-Identifier: Apache-2.0
 *
 * FasterTransformer's kernels between one attention and the next: which bytes they touch, no more.
 * As long as nobody knows that, they may be readers of scores.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

/* Bytes of the type at *at, numbers of 16 bits perhaps in pairs; 0: another. */
static int64_t width(const char **at)
{
	static const char *const pairs[] = {"7__half2", "14__nv_bfloat162"};

	for (int i = 0; i < 2; i++)
		if (strncmp(*at, pairs[i], strlen(pairs[i])) == 0) {
			*at += strlen(pairs[i]);
			return 4;
		}
	return rule_template_type(at, type_unknown).bytes;
}

/* Of the template's first type, behind `needle`. */
static int64_t width_behind(const struct reading *r, const char *needle)
{
	const char *at = rule_find(r, needle);

	if (!at)
		return 0;
	at += strlen(needle);
	return width(&at);
}

/* Bytes of [a,b,c,d] of so wide elements; 0: there is no such tensor. */
static int64_t bytes_of(const struct reading *r, unsigned first, unsigned count, int64_t bytes)
{
	for (unsigned i = 0; i < count; i++)
		bytes = rule_times(bytes, rule_number(r, first + i));
	return bytes;
}

static uint64_t pointer(const struct reading *r, unsigned param)
{
	return rule_u64_at(r, rule_offset(r, param));
}

/* <T>(in, out, int sequences, queries, heads, width, scale, int mode): a thread an element. */
bool rule_read_masked_transpose(struct reading *r)
{
	const int64_t wide = width_behind(r, "9transposeI"), bytes = bytes_of(r, 2, 4, wide);

	if (!rule_takes(r, 8, 8, 4, 4, 4, 4, 8, 4) || !bytes || pointer(r, 6) ||
	    rule_number(r, 7) || (int64_t)r->launch->grid[0] * r->launch->block[0] * wide != bytes)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, 0, bytes);
	rule_writes(r, 1, bytes);
	return true;
}

/* <T>(Q, K, V, the projections and their biases in turn, three of another kind, int sequences,
 * queries, heads, width): a block a token. */
bool rule_read_masked_projections(struct reading *r)
{
	const int64_t wide = width_behind(r, "22addQKVBiasIA3TransposeI");
	const int64_t bytes = bytes_of(r, 12, 4, wide), bias = bytes_of(r, 14, 2, wide);

	if (!rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4) || !bytes ||
	    pointer(r, 9) || r->launch->grid[0] != (uint64_t)rule_number(r, 12) ||
	    r->launch->grid[1] != (uint64_t)rule_number(r, 13))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	for (unsigned i = 0; i < 3; i++) {
		rule_writes(r, i, bytes);
		rule_reads(r, 3 + 2 * i, bytes);
		rule_reads(r, 4 + 2 * i, bias);
	}
	return true;
}

/* <T>(rows, input, bias, gamma, beta, float, [int rows,] int columns): a block a row, in place; by
 * the second form four numbers, or pairs of them, a thread. */
bool rule_read_masked_norm(struct reading *r)
{
	const bool fours = rule_has(r, "30addBiasResidualPostLayerNormV2");
	const int64_t wide = fours ? width_behind(r, "30addBiasResidualPostLayerNormV2I")
				   : width_behind(r, "28addBiasResidualPostLayerNormI");
	const unsigned columns = fours ? 6 : 7;
	const int64_t row = bytes_of(r, columns, 1, wide);
	const int64_t bytes = rule_times(row, r->launch->grid[0]);

	if (!bytes ||
	    !(fours ? rule_takes(r, 8, 8, 8, 8, 8, 4, 4) : rule_takes(r, 8, 8, 8, 8, 8, 4, 4, 4)) ||
	    (fours && 4 * (int64_t)r->launch->block[0] * 4 != row))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_changes(r, 0, bytes);
	rule_reads(r, 1, bytes);
	for (unsigned i = 2; i < 5; i++)
		rule_reads(r, i, row);
	return true;
}

/* <T, columns, …>(numbers, bias, three of another kind, int count): in place. */
bool rule_read_masked_gelu(struct reading *r)
{
	const char *at = strchr(rule_find(r, "13addBiasGelu"), 'I');
	int64_t wide, columns = 0;

	if (!at || !rule_takes(r, 8, 8, 8, 8, 4, 8, 4) || pointer(r, 2))
		return false;
	at++;
	wide = width(&at);
	if (strncmp(at, "Li", 2) != 0)
		return false;
	for (at += 2; *at >= '0' && *at <= '9' && columns < INT32_MAX; at++)
		columns = 10 * columns + (*at - '0');
	if (!rule_times(wide, columns) || !bytes_of(r, 4, 1, wide))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_changes(r, 0, bytes_of(r, 4, 1, wide));
	rule_reads(r, 1, wide * columns);
	return true;
}

/* <which, T, B>(numbers, bias, four of another kind, int mode, three more, int, int rows, int
 * columns): in place. */
bool rule_read_masked_activation(struct reading *r)
{
	const char *at = rule_find(r, "ActivationE");
	int64_t wide, of_bias;

	if (!at || !rule_takes(r, 8, 8, 8, 8, 8, 8, 4, 8, 8, 8, 4, 4, 4) || pointer(r, 2) ||
	    pointer(r, 4) || rule_number(r, 6))
		return false;
	at += strlen("ActivationE");
	wide = width(&at);
	of_bias = *at == 'S' ? wide : width(&at);
	if (!bytes_of(r, 11, 2, wide) || !of_bias)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_changes(r, 0, bytes_of(r, 11, 2, wide));
	rule_reads(r, 1, bytes_of(r, 12, 1, of_bias));
	return true;
}

/* <T>(mask, int lengths, int queries): a block a sequence. */
bool rule_read_masked_mask(struct reading *r)
{
	const int64_t wide = width_behind(r, "31buildEncoderAttentionMaskKernelI");
	const int64_t bytes = rule_times(rule_times(bytes_of(r, 2, 1, wide), rule_number(r, 2)),
					 r->launch->grid[0]);

	if (!rule_takes(r, 8, 8, 4) || !bytes)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_writes(r, 0, bytes);
	rule_reads(r, 1, r->launch->grid[0] * 4);
	return true;
}
