/* SPDX-License-Identifier: Apache-2.0 */
#include "code_expected.h"

#define SM90 (1u << 31) /* only there from sm_90 on */

/* Where its addresses may come from. */
enum reach { ANYHOW, NEAR, NOT_NEAR, FOLLOWS };

static const struct {
	const char *name;
	uint32_t deeds; /* those that must be found; 0: none may be */
	enum reach reach;
} kernels[] = {
	{"plain", 0, NEAR},
	{"shared_atomics", 0, NEAR},
	{"switched", 0, ANYHOW},
	{"calling", 0, NEAR},
	{"recursing", 0, NEAR},
	{"dividing", 0, NEAR},
	{"barriers", 0, NEAR},
	{"parameters", 0, NEAR},
	{"no_parameters", 0, NEAR},
	{"tails", 0, NEAR},
	{"strided", 0, ANYHOW},
	{"tiles", 0, NEAR},
	{"listed", DEED_FOLLOWS, FOLLOWS},
	{"described", DEED_FOLLOWS, FOLLOWS},
	{"linked", 0, NOT_NEAR},
	{"tagged", DEED_FOLLOWS, FOLLOWS},
	{"halved", DEED_FOLLOWS, FOLLOWS},
	{"shuffled", DEED_FOLLOWS, FOLLOWS},
	{"staged", 0, NOT_NEAR},
	{"chosen", 0, NOT_NEAR},
	{"kept", 0, NOT_NEAR},
	{"gathered", 0, NOT_NEAR},
	{"gathered_far", 0, NOT_NEAR},
	{"scaled", 0, NOT_NEAR},
	{"spelt", 0, NOT_NEAR},
	{"exchanged", DEED_ATOMICS, NOT_NEAR},
	{"by_constant", DEED_CONSTANTS, NOT_NEAR},
	{"writes_variable", DEED_GLOBALS, ANYHOW},
	{"writes_managed", DEED_GLOBALS, ANYHOW},
	{"reads_variable", DEED_GLOBALS, ANYHOW},
	{"calls_writer", DEED_GLOBALS, ANYHOW},
	{"reads_constant", DEED_CONSTANTS, ANYHOW},
	{"adds", DEED_ATOMICS, ANYHOW},
	{"exchanges", DEED_ATOMICS, ANYHOW},
	{"prints", DEED_LAUNCHES, ANYHOW},
	{"allocates", DEED_LAUNCHES, ANYHOW},
	{"waits", DEED_ATOMICS, ANYHOW},
	{"loads_volatile", DEED_ATOMICS, ANYHOW},
	{"acquires", DEED_ATOMICS, ANYHOW},
	{"syncs_grid", DEED_ATOMICS, ANYHOW},
	{"textured", DEED_TEXTURES, ANYHOW},
	{"surfaced", DEED_TEXTURES, ANYHOW},
	{"traps", DEED_TRAPS, ANYHOW},
	{"by_pointer", DEED_INDIRECT, ANYHOW},
	{"by_table", DEED_INDIRECT | DEED_GLOBALS, ANYHOW},
	{"bulk_copies", SM90, ANYHOW},
	{"through_map", SM90 | DEED_MAPS, ANYHOW},
	{"bulk_reduces", SM90 | DEED_ATOMICS, ANYHOW},
	{"multicasts", SM90 | DEED_ATOMICS, ANYHOW},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))

const char *code_expected(size_t i)
{
	return i < KERNELS ? kernels[i].name : NULL;
}

void assert_layout(const struct code_table *table, const char *image, const char *name,
		   const struct code_layout *wanted)
{
	struct code_layout found;

	if (!code_table_layout(table, name, &found))
		fail_msg("%s: it is not known how the parameters of %s lie", image, name);
	assert_int_equal(found.count, wanted->count);
	for (unsigned i = 0; i < wanted->count; i++)
		if (found.offset[i] != wanted->offset[i] || found.size[i] != wanted->size[i])
			fail_msg("%s: parameter %u of %s is %u bytes at %u", image, i, name,
				 found.size[i], found.offset[i]);
}

void assert_layouts(const struct code_table *table, const char *image)
{
	static const struct code_layout none = {0}, plain = {3, {0, 8, 16}, {8, 8, 4}},
					mixed = {7,
						 {0, 8, 48, 56, 64, 104, 112},
						 {1, 40, 8, 2, 40, 1, 8}};
	struct code_layout found;

	assert_layout(table, image, "no_parameters", &none);
	assert_layout(table, image, "plain", &plain);
	assert_layout(table, image, "parameters", &mixed);
	assert_false(code_table_layout(table, "there_is_none", &found));
}

static bool reaches(uint32_t found, enum reach reach, enum traced traced)
{
	if (traced == UNTRACED)
		return found & CODE_UNPROVEN && !(found & DEED_FOLLOWS);
	switch (reach) {
	case NEAR:
		return traced == WITHIN || !(found & (CODE_UNPROVEN | DEED_FOLLOWS));
	case NOT_NEAR:
		return found & (CODE_UNPROVEN | DEED_FOLLOWS);
	case FOLLOWS:
		return found & DEED_FOLLOWS;
	default:
		return true;
	}
}

void assert_kernels(const struct code_table *table, const char *image, bool sm90,
		    enum traced traced)
{
	for (size_t i = 0; i < KERNELS; i++) {
		const uint32_t all = code_table_deeds(table, kernels[i].name),
			       found = all & ~CODE_UNPROVEN & ~(traced ? 0u : DEED_FOLLOWS),
			       wanted = kernels[i].deeds & ~SM90 & ~(traced ? 0u : DEED_FOLLOWS);

		if (kernels[i].deeds & SM90 && !sm90)
			continue;
		if ((wanted ? (found & wanted) != wanted : found & ~DEED_FOLLOWS) ||
		    found & DEED_UNKNOWN)
			fail_msg("%s: %s does %#x, not %#x", image, kernels[i].name, found, wanted);
		if (!strcmp(kernels[i].name, "writes_variable"))
			assert_true(all & CODE_KEEPS);
		if (!strcmp(kernels[i].name, "reads_variable") && traced != UNTRACED)
			assert_false(all & CODE_KEEPS); /* a table of numbers */
		if (!reaches(all, kernels[i].reach, traced))
			fail_msg("%s: %s reaches %#x", image, kernels[i].name, all);
	}
	assert_int_equal(code_table_deeds(table, "there_is_none"), DEED_UNKNOWN);
}
