/* SPDX-License-Identifier: Apache-2.0
 *
 * ATen's reductions over any dimensions, one output or two.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#include "shim/op/memory.h"

/* Where the words of a reduction stand: sizes from `config` on, pointers from the end back. */
struct places {
	unsigned config, inner, outer; /* calculators of one output's inputs, and of the outputs */
	unsigned in, out, second, parts; /* parts: sums of blocks, then counters of them */
	unsigned accumulated, flags;
};

static bool find_places(const struct reading *r, struct places *places)
{
	const unsigned bytes = rule_size_of(r, 0), at = rule_offset(r, 0), end = at + bytes;
	const unsigned before = bytes == 1040	? 4
				: bytes == 1048 ? 8
				: bytes == 1056 ? 16
				: bytes == 1064 ? 24
						: 0;

	places->config = at + before;
	places->inner = places->config + 64;
	places->outer = places->inner + 4 + (12 + 4) * CALCULATOR_DIMS;
	places->in = end - 64;
	places->out = end - 56;
	places->second = end - 48;
	places->accumulated = end - 40;
	places->parts = end - 32;
	places->flags = end - 8;
	return r->function->param_count == 1 && before;
}

/* {element bytes, inputs, outputs, steps[2], blocks an output, mult[3], mult[2], block width, …,
 * numbers at a time}: where more blocks than one work on an output, what each adds to `parts`, and
 * a counter for each of their columns. */
static void touch_parts(struct reading *r, const struct places *places)
{
	const unsigned at = places->config;
	const int64_t blocks = rule_u32_at(r, at + 20), across = rule_u32_at(r, at + 24);
	const int64_t width = across ? 1 : rule_u32_at(r, at + 44), many = rule_u32_at(r, at + 60);
	const int64_t bytes = rule_times(rule_times(rule_u32_at(r, at), rule_u32_at(r, at + 8)),
					 rule_times(blocks, width));
	const bool known =
		blocks == r->launch->grid[1] && many >= 1 && many <= 16 && rule_times(bytes, many);

	for (unsigned i = 0; i < 2; i++) {
		const unsigned where = places->parts + 8 * i;

		if (!memory_find(rule_u64_at(r, where)))
			continue;
		if (known)
			rule_changes_at(r, where,
					i ? 4 * (int64_t)r->launch->grid[0] : bytes * many);
		else
			rule_follows_at(r, where, ACCESS_UNKNOWN);
	}
}

/* Bytes of the second output's elements: a place, or a second number. 0: not known. */
static int64_t second_bytes(const struct reading *r, struct type to)
{
	if (rule_has(r, "6MaxOpsI") || rule_has(r, "6MinOpsI"))
		return 8;
	return rule_has(r, "10WelfordOpsI") ? to.bytes : 0;
}

/* The types it reads and writes, from its name. */
static void types_of(const struct reading *r, struct type *from, struct type *to)
{
	const char *in = rule_find(r, "ReduceOpI"), *out = rule_find(r, "Ej");

	*from = *to = type_unknown;
	if (out)
		*to = out[2] == 'S' ? r->function->functor.type : rule_type_of_letter(out[2]);
	if (in) {
		in += strlen("ReduceOpI");
		*from = rule_template_type(&in, type_unknown);
	}
}

/* One struct: {functor, identity, sizes, calculator of an output's inputs, calculator of outputs
 * and of where their inputs begin, src, dst[2], accumulated, parts, counters, long, bool
 * accumulate, bool last, int outputs}. The calculators hold stack garbage past their dimensions, so
 * only these words may be taken for pointers. */
bool rule_read_reduce(struct reading *r)
{
	struct places at;
	struct type from, to;
	int64_t begins, reads = -1, writes, outputs, inputs, second;
	uint32_t destinations;
	bool dense;

	if (!find_places(r, &at))
		return false;
	types_of(r, &from, &to);
	inputs = rule_u32_at(r, at.config + 4);
	outputs = rule_u32_at(r, at.config + 8);
	destinations = rule_u32_at(r, at.flags + 4);
	if (destinations != 1 && destinations != 2)
		return false;
	writes = rule_calculated(r, at.outer, 2, 0, outputs, to.bytes, &dense);
	begins = rule_calculated(r, at.outer, 2, 1, outputs, 1, NULL);
	if (begins >= 0)
		reads = rule_calculated(r, at.inner, 1, 0, inputs, 1, NULL);
	if (reads >= 0 && from.bytes)
		rule_reads_at(r, at.in, begins + reads + from.bytes);
	else
		rule_follows_at(r, at.in, ACCESS_READ);
	if (r->params[at.flags]) { /* adds to what is there */
		rule_follows_at(r, at.out, ACCESS_UNKNOWN);
		rule_follows_at(r, at.second, ACCESS_UNKNOWN);
	} else if (writes >= 0 && to.bytes) {
		second = second_bytes(r, to);
		rule_writes_at(r, at.out, writes + to.bytes, dense);
		if (destinations == 2 && second)
			rule_writes_at(r, at.second, writes / to.bytes * second + second, dense);
		else if (destinations == 2)
			rule_follows_at(r, at.second, ACCESS_WRITE);
	} else {
		rule_follows_at(r, at.out, ACCESS_WRITE);
		if (destinations == 2)
			rule_follows_at(r, at.second, ACCESS_WRITE);
	}
	if (memory_find(rule_u64_at(r, at.accumulated)))
		rule_follows_at(r, at.accumulated, ACCESS_UNKNOWN);
	touch_parts(r, &at);
	if (reads >= 0 && writes >= 0)
		rule_mean_reduction(r, &(struct reduction){.from = from,
							   .to = to,
							   .columns = inputs,
							   .rows = outputs,
							   .inner = at.inner,
							   .outer = at.outer,
							   .in = at.in,
							   .out = at.out});
	return true;
}
