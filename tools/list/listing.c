/* SPDX-License-Identifier: Apache-2.0
 *
 * Each row function reads the very table that the shim or the kernels are compiled from.
 */
#include "tools/list/listing.h"
#include "kernels/attention.h"
#include "tools/base/options.h"

#include <stdio.h>
#include <string.h>

#define CELL(n, ...) snprintf(cells[n], LISTING_CELL, __VA_ARGS__)

static bool kernel_row(int index, char cells[LISTING_COLUMNS][LISTING_CELL])
{
	static const struct {
		int bit;
		const char *words;
	} needs[] = {{ATTN_NEEDS_PIECES, "this D exactly, rows on 16 bytes"},
		     {ATTN_NEEDS_PLAIN, "no bias, mask or softcap"},
		     {ATTN_NEEDS_DOWN, "K column-major"}};
	static const char *const dtypes[] = {
		[ATTN_F16] = "f16", [ATTN_BF16] = "bf16", [ATTN_F32] = "f32"};
	const struct attn_variant *variant = &attn_variants[index];

	if (index >= attn_variant_total)
		return false;
	CELL(0, "%s", variant->name);
	CELL(1, "sm_%d%s", variant->min_arch, variant->needs & ATTN_NEEDS_ARCH ? "" : "+");
	CELL(2, "%s", dtypes[variant->dtype]);
	CELL(3, "%d", (int)variant->max_d);
	CELL(4, "%d", (int)variant->rows_per_block);
	CELL(5, "%s", variant->family == ATTN_LADDER ? "forced by FASHIM_KERNEL" : "");
	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
		if (variant->needs & needs[i].bit)
			snprintf(cells[5] + strlen(cells[5]), LISTING_CELL - strlen(cells[5]),
				 "%s%s", *cells[5] ? "; " : "", needs[i].words);
	return true;
}

static bool rule_row(int index, char cells[LISTING_COLUMNS][LISTING_CELL])
{
	static const struct {
		const char *kind, *name, *needles[2];
	} rows[] = {
#define LAYOUT(reader, needle) {"parameters", #reader, {needle, ""}},
#include "shim/rules/kernel_rules.def"
#undef LAYOUT
#define FUNCTOR(role, first, second) {"functor", #role, {first, second}},
#include "shim/rules/kernel_rules.def"
#undef FUNCTOR
	};

	if ((size_t)index >= sizeof(rows) / sizeof(*rows))
		return false;
	CELL(0, "%s", rows[index].kind);
	CELL(1, "%s", rows[index].name);
	CELL(2, "%s%s%s", *rows[index].needles[0] ? rows[index].needles[0] : "(any other)",
	     *rows[index].needles[1] ? " and " : "", rows[index].needles[1]);
	return true;
}

/* Row 0 of the table is "none", which holds nothing back. */
static bool reason_row(int index, char cells[LISTING_COLUMNS][LISTING_CELL])
{
	static const struct {
		const char *name, *sentence, *hint;
	} rows[] = {
#define REASON(id, name, sentence, hint) {name, sentence, hint},
#include "shim/log/reasons.def"
#undef REASON
	};

	if ((size_t)index + 1 >= sizeof(rows) / sizeof(*rows))
		return false;
	CELL(0, "%s", rows[index + 1].name);
	CELL(1, "%s", rows[index + 1].sentence);
	CELL(2, "%s", rows[index + 1].hint);
	return true;
}

static bool option_row(int index, char cells[LISTING_COLUMNS][LISTING_CELL])
{
	if (index >= option_row_count)
		return false;
	CELL(0, "%s", option_rows[index].name);
	CELL(1, "%s", option_rows[index].standard);
	CELL(2, "%s", option_kind_name(option_rows[index].kind));
	CELL(3, "%s", option_rows[index].doc);
	return true;
}

const struct listing listings[] = {
	{.name = "kernels",
	 .doc = "compiled variants of the fused kernel: which GPU, type and head dimension",
	 .columns = {"name", "gpu", "dtype", "max_d", "rows", "needs"},
	 .number = {[3] = true, [4] = true},
	 .titles = "| kernel | GPU | dtype | head dimension up to | query rows per block | only "
		   "for |",
	 .row = kernel_row},
	{.name = "rules",
	 .doc = "kernels of programs whose parameters can be read, by a piece of their name",
	 .columns = {"kind", "name", "match"},
	 .titles = "| kind | name | the mangled name contains |",
	 .row = rule_row},
	{.name = "reasons",
	 .doc = "why attention may be left alone, and what to do about it",
	 .columns = {"name", "sentence", "hint"},
	 .titles = "| reason | what it means | what you can do |",
	 .row = reason_row},
	{.name = "options",
	 .doc = "environment variables with their defaults",
	 .columns = {"name", "default", "kind", "doc"},
	 .titles = "| option | default | kind | what it does |",
	 .row = option_row},
};
const int listing_count = sizeof(listings) / sizeof(listings[0]);

const struct listing *listing_named(const char *name)
{
	for (int i = 0; i < listing_count; i++)
		if (!strcmp(listings[i].name, name))
			return &listings[i];
	return NULL;
}
