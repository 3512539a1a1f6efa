/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that make numbers: random ones, numbers in a row, dropout and its mask.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#include "shim/op/memory.h"
#include "shim/rules/shadow.h"

/* {seed, offset, long, bool captured} of a random generator: in a graph, seed and offset are
 * pointers to them. */
static void touch_generator(struct reading *r, unsigned param)
{
	const unsigned at = rule_offset(r, param);

	if (!r->params[at + 24])
		return;
	rule_reads_at(r, at, 8);
	rule_reads_at(r, at + 8, 8);
}

/* (long N, generator, transform, lambda {output, int step, …}): random numbers, `step` bytes apart.
 * Where the output has more dimensions the lambda is another, and much larger. */
bool rule_read_distribution(struct reading *r)
{
	const char *at = rule_find(r, "27distribution_nullary_kernelI");
	struct type type = type_unknown;
	const unsigned lambda = rule_size_of(r, 3);
	int64_t n, step, width;

	if (r->function->param_count != 4 || rule_size_of(r, 0) != 8 || rule_size_of(r, 1) != 32 ||
	    lambda < 16 || lambda > 48 || !memory_find(rule_u64_at(r, rule_offset(r, 3))))
		return false;
	if (at) {
		at += strlen("27distribution_nullary_kernelI");
		type = rule_template_type(&at, r->function->functor.type);
	}
	n = rule_number(r, 0);
	step = (int32_t)rule_u32_at(r, rule_offset(r, 3) + 8);
	width = type.bytes ? type.bytes : step;
	if (step < width || step > 8 || (step & (step - 1)) || !rule_times(n, step))
		return false;
	touch_generator(r, 1);
	rule_follows_all(r, rule_offset(r, 3) + 16, lambda - 16); /* how they are transformed */
	return rule_writes_some(r, 3, (n - 1) * step + width, type.bytes && type.bytes == step);
}

/* Bytes of each of arange's numbers; 0: not known. The name counts the lambda of their type, in an
 * order that older versions had otherwise. The functor holds where to begin and the step, in the
 * type in which they are added up, and a pointer of the host's, and so tells these apart. */
static int64_t range_width(const struct reading *r)
{
	static const struct {
		unsigned functor, width;
	} kinds[] = {/* bytes */ {24, 1},
		     {24, 1},
		     {0, 0}, /* or doubles, once */
		     {24, 8},
		     {0, 0},
		     {24, 8},
		     {16, 4},
		     {16, 2},
		     {16, 2}};
	const char *at = rule_find(r, "_clEvENKUlvE");
	unsigned kind;

	if (!at)
		return 0;
	at += strlen("_clEvENKUlvE");
	kind = *at == '_' ? 0 : (unsigned)(*at - '0') + 1;
	if ((kind && at[1] != '_') || kind >= sizeof(kinds) / sizeof(*kinds) ||
	    rule_size_of(r, 1) != kinds[kind].functor)
		return 0;
	return kinds[kind].width;
}

/* (int N, functor of the index, output): arange and the like; elements are at least a byte wide,
 * and those of arange, which knows no complex numbers, at most eight. */
bool rule_read_with_index(struct reading *r)
{
	const int64_t n = rule_number(r, 0);
	const bool range = rule_has(r, "15arange_cuda_outE");
	const int64_t width = range ? range_width(r) : 0;

	if (r->function->param_count != 3 || rule_size_of(r, 0) != 4 || rule_size_of(r, 2) != 8 ||
	    n < 1)
		return false;
	if (width)
		return rule_writes(r, 2, n * width);
	if (!range)
		rule_follows_all(r, rule_offset(r, 1), rule_size_of(r, 1));
	rule_touch(r, rule_offset(r, 2), ACCESS_WRITE, (uint64_t)n * 8, (uint64_t)n, range);
	return true;
}

#define MOST 2048 /* longs that the shadow has room for */

bool rule_put_range(const struct reading *r)
{
	static uint64_t word[MOST]; /* flow lock */
	const int64_t n = rule_number(r, 0);
	const unsigned functor = rule_offset(r, 1);

	if (r->function->rule->read != rule_read_with_index)
		return false;
	if (!rule_has(r, "_clEvENKUlvE2_") || rule_size_of(r, 1) != 24 || n < 1 || n > MOST ||
	    range_width(r) != 8)
		return true;
	for (int64_t i = 0; i < n; i++)
		word[i] = rule_u64_at(r, functor) + (uint64_t)i * rule_u64_at(r, functor + 8);
	shadow_put(rule_u64_at(r, rule_offset(r, 2)), word, (uint64_t)n * 8);
	return true;
}

/* (TensorInfo in, TensorInfo out, TensorInfo mask, N, probability, generator): one after the other
 * in all of them. */
bool rule_read_dropout(struct reading *r)
{
	const int64_t width = rule_width(r);
	bool dense[3];
	int64_t n;

	if (!rule_takes(r, 216, 216, 216, 4, 4, 32))
		return false;
	n = rule_u32_at(r, rule_offset(r, 3));
	for (unsigned i = 0; i < 3; i++)
		if (rule_tensor_elements(r, i, -1, 0, &dense[i]) != n || !dense[i])
			return false;
	r->meaning->role = ROLE_DROPOUT;
	r->meaning->elements = n;
	touch_generator(r, 5);
	return rule_reads(r, 0, n * width) && rule_writes(r, 1, n * width) && rule_writes(r, 2, n);
}
