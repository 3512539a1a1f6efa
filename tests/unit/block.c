/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds what a rule says of a block against what its shapes say (block.h).
 */
#include "tests/unit/block.h"

#include <string.h>

#include "shim/op/memory.h"

static uint64_t allocation_end(uint64_t address)
{
	const struct allocation *allocation = memory_find(address);

	assert_non_null(allocation);
	return allocation->base + allocation->bytes;
}

static void expect(const struct block *block, const struct touch *touch,
		   const struct access *access, const unsigned char *params)
{
	const int64_t bytes = touch->bytes;
	uint64_t pointer;

	memcpy(&pointer, params + touch->where, 8);
	if (access->mode != touch->mode || access->begin != pointer ||
	    access->end != (bytes == FAR ? allocation_end(pointer) : pointer + (uint64_t)bytes) ||
	    access->sure_end != pointer + (uint64_t)touch->sure ||
	    access->bounded != (bytes != FAR))
		fail_msg("%s: at %d is %d, %llu bytes, %llu of them sure", block->name,
			 touch->where, (int)access->mode,
			 (unsigned long long)(access->end - access->begin),
			 (unsigned long long)(access->sure_end - access->begin));
}

void check_touches(const struct block *block, const struct access_list *list,
		   const unsigned char *params)
{
	int expected = 0;

	for (const struct touch *touch = block->touches; touch->mode; touch++, expected++) {
		int found = -1;

		for (int i = 0; i < list->count; i++)
			if (list->item[i].where == touch->where)
				found = i;
		if (found < 0)
			fail_msg("%s: nothing at %d", block->name, touch->where);
		expect(block, touch, &list->item[found], params);
	}
	if (list->count != expected || list->opaque)
		fail_msg("%s: %d accesses, not %d", block->name, list->count, expected);
}

bool read_block(const struct function *function, const struct op_launch *launch,
		const unsigned char *params, struct access_list *list)
{
	memset(list, 0, sizeof(*list));
	return rules_access(function, launch, params, list, NULL);
}

void check_spoilt(const struct block *block, const struct function *function,
		  const struct op_launch *launch, const unsigned char *params)
{
	static unsigned char spoilt[FUNCTION_MAX_BYTES];
	struct access_list list;

	for (int i = 0; i < 4; i++) {
		const uint32_t at = block->spoilt[i].behind - 1, value = block->spoilt[i].value;
		struct op_launch other = *launch;

		if (!block->spoilt[i].behind)
			break;
		memcpy(spoilt, params, function->bytes);
		if (at >= GRIDX)
			other.grid[at - GRIDX] = value;
		else
			memcpy(spoilt + at, &value, 4);
		if (read_block(function, &other, spoilt, &list) || list.count)
			fail_msg("%s: read with %u at %u", block->name, value, at);
	}
}

void check_short(const struct block *block, const struct function *function,
		 const struct op_launch *launch, const unsigned char *params)
{
	size_t offset[FUNCTION_MAX_PARAMS], size[FUNCTION_MAX_PARAMS];
	const struct function *other;
	struct access_list list;

	for (unsigned i = 0; i < function->param_count; i++) {
		offset[i] = function->param_offset[i];
		size[i] = function->param_size[i];
	}
	other = function_get(
		below_function(function->name, function->param_count - 1, offset, size));
	if (read_block(other, launch, params, &list) || list.count)
		fail_msg("%s: read with %u parameters", block->name, other->param_count);
}

unsigned char params_by_hand[FUNCTION_MAX_BYTES];
struct op launch_by_hand;

void check_rows_in(unsigned grid, const struct block *block, unsigned count, const size_t *size,
		   const void *const *value)
{
	unsigned char *const params = params_by_hand;
	struct op op = core_launch(block->name, count, size, value);
	const struct function *function = function_get(op.launch.function);
	struct access_list list;

	op.launch.grid[0] = grid;
	assert_true(function_read_params(function, &op.launch, params));
	if (!read_block(function, &op.launch, params, &list))
		fail_msg("%s: not read", block->name);
	check_touches(block, &list, params);
	check_spoilt(block, function, &op.launch, params);
	check_short(block, function, &op.launch, params);
	launch_by_hand = op;
}

void check_rows(const struct block *block, unsigned count, const size_t *size,
		const void *const *value)
{
	check_rows_in(96, block, count, size, value);
}
