/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of steps: equal for the same function of a chain's values, wherever these lie.
 */
#include "tests/unit/spec_fixture.h"

#include "shim/rules/function.h"

static uint64_t signature(struct op op)
{
	struct chain *chain = begin();
	uint64_t result;

	join(chain, op);
	result = chain->steps[1].signature;
	chain_free(chain);
	return result;
}

/* A kernel whose last parameter is 24 bytes: a number of elements, an extent, and scratch. */
static uint64_t with_indexer(const char *name, uint64_t extent, uint64_t scratch)
{
	const uint64_t indexer[3] = {96, extent, scratch};

	return signature(
		core_launch(name, 2, (size_t[]){8, 24}, (const void *[]){&core.s, indexer}));
}

static void test_indexer(void **state)
{
	uint64_t plain;

	core_begin();
	plain = with_indexer("cupy_exp__float16_float16", 96, 1);
	assert_int_equal(with_indexer("cupy_exp__float16_float16", 96, 2), plain);
	plain = with_indexer("cupy_exp__float16_float16", 95, 1); /* these do not belong together */
	assert_int_not_equal(with_indexer("cupy_exp__float16_float16", 95, 2), plain);
	plain = with_indexer("somebody_elses", 96, 1);
	assert_int_not_equal(with_indexer("somebody_elses", 96, 2), plain);
}

/* What is asked of a name is asked once: launches are many. */
static void test_indexer_is_known_by_first_name(void **state)
{
	const uint64_t indexer[3] = {96, 96, 1};
	const size_t size[] = {8, 24};
	const void *const value[] = {&core.s, indexer};

	core_begin();
	assert_non_null(
		function_get(core_launch("cupy_abs", 2, size, value).launch.function)->clear_unset);
	assert_null(function_get(core_launch("my_cupy_abs", 2, size, value).launch.function)
			    ->clear_unset);
}

static void test_signatures(void **state)
{
	uint64_t scale, add, other, unknown;
	struct op op;

	core_begin();
	scale = signature(core_scale(core.x, core.s, 0.5f));
	assert_int_equal(signature(core_scale(core.x, core.s, 0.5f)), scale); /* other garbage */
	assert_int_equal(signature(core_scale(CORE_OTHER, core.s, 0.5f)),
			 scale);					      /* another place */
	assert_int_equal(signature(core_scale(core.s, core.s, 0.5f)), scale); /* in place */
	assert_int_not_equal(signature(core_scale(core.x, core.s, 0.25f)), scale);
	assert_int_not_equal(signature(core_tanh(core.x, core.s)), scale);
	add = signature(core_add_mask(core.x, core.s, core.mask));
	assert_int_equal(signature(core_add_mask(core.x, core.s, CORE_OTHER)), add);
	assert_int_not_equal(signature(core_add_mask(core.x, core.s, core.s)), add); /* mask is S */
	assert_int_not_equal(signature(core_add_mask(core.x, core.mask, core.s)), add);
	other = signature(core_other(core.x, core.s, 0.5f)); /* a rule without words */
	assert_int_equal(signature(core_other(core.x, core.s, 0.25f)), other);
	assert_int_not_equal(signature(core_tanh(core.x, core.s)), other);
	unknown = signature(core_unknown(core.s, 0, 0.5f));
	assert_int_equal(signature(core_unknown(core.s, 0, 0.5f)), unknown);
	assert_int_not_equal(signature(core_unknown(core.s, 0, 0.75f)), unknown);
	assert_int_not_equal(signature(core_named("another_kernel", core.s, 0, 0.5f)), unknown);
	op = core_unknown(core.s, 0, 0.5f);
	op.launch.grid[0]++;
	assert_int_not_equal(signature(op), unknown);
	op = core_unknown(core.s, 0, 0.5f);
	op.launch.shared_bytes = 64;
	assert_int_not_equal(signature(op), unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signatures),
		cmocka_unit_test(test_indexer),
		cmocka_unit_test(test_indexer_is_known_by_first_name),
	};

	return CORE_MAIN("chain_sign", tests);
}
