/* SPDX-License-Identifier: Apache-2.0
 *
 * Each table is read off the very one that the shim or the kernels are compiled from.
 */
#include "tools/list/listing.h"
#include "kernels/attention.h"
#include "tools/base/options.h"

#include <string.h>

static json_t *kernels(void)
{
	static const struct {
		int bit;
		const char *words;
	} needs[] = {{ATTN_NEEDS_PIECES, "this D exactly, rows on 16 bytes"},
		     {ATTN_NEEDS_PLAIN, "no bias, mask or softcap"},
		     {ATTN_NEEDS_DOWN, "K column-major"}};
	static const char *const dtypes[] = {
		[ATTN_F16] = "f16", [ATTN_BF16] = "bf16", [ATTN_F32] = "f32"};
	json_t *rows = json_array();

	for (int i = 0; i < attn_variant_total; i++) {
		const struct attn_variant *variant = &attn_variants[i];
		char words[256] = "";

		if (variant->family == ATTN_LADDER)
			strcpy(words, "forced by FASHIM_KERNEL");
		for (size_t n = 0; n < sizeof(needs) / sizeof(*needs); n++)
			if (variant->needs & needs[n].bit)
				strcat(strcat(words, *words ? "; " : ""), needs[n].words);
		json_array_append_new(
			rows,
			json_pack("{s:s,s:o,s:s,s:i,s:i,s:s}", "name", variant->name, "gpu",
				  json_sprintf("sm_%d%s", variant->min_arch,
					       variant->needs & ATTN_NEEDS_ARCH ? "" : "+"),
				  "dtype", dtypes[variant->dtype], "max_d", (int)variant->max_d,
				  "rows", (int)variant->rows_per_block, "needs", words));
	}
	return rows;
}

static json_t *rules(void)
{
	static const struct {
		const char *kind, *name, *needles[2];
	} rules[] = {
#define LAYOUT(reader, needle) {"parameters", #reader, {needle, ""}},
#include "shim/rules/kernel_rules.def"
#undef LAYOUT
#define FUNCTOR(role, first, second) {"functor", #role, {first, second}},
#include "shim/rules/kernel_rules.def"
#undef FUNCTOR
	};
	json_t *rows = json_array();

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		const char *const *needles = rules[i].needles;

		json_array_append_new(
			rows,
			json_pack("{s:s,s:s,s:o}", "kind", rules[i].kind, "name", rules[i].name,
				  "match",
				  json_sprintf("%s%s%s", *needles[0] ? needles[0] : "(any other)",
					       *needles[1] ? " and " : "", needles[1])));
	}
	return rows;
}

/* "none", which comes first, holds nothing back. */
static json_t *reasons(void)
{
	json_t *rows = json_array();

#define REASON(id, name, sentence, hint)                                                           \
	json_array_append_new(rows, json_pack("{s:s,s:s,s:s}", "name", name, "sentence", sentence, \
					      "hint", hint));
#include "shim/log/reasons.def"
#undef REASON
	json_array_remove(rows, 0);
	return rows;
}

static json_t *options(void)
{
	json_t *rows = json_array();

	for (int i = 0; i < option_row_count; i++)
		json_array_append_new(rows,
				      json_pack("{s:s,s:s,s:s,s:s}", "name", option_rows[i].name,
						"default", option_rows[i].standard, "kind",
						option_kind_name(option_rows[i].kind), "doc",
						option_rows[i].doc));
	return rows;
}

const struct listing listings[] = {
	{"kernels", "compiled variants of the fused kernel: which GPU, type and head dimension",
	 "| kernel | GPU | dtype | head dimension up to | query rows per block | only for |",
	 kernels},
	{"rules", "kernels of programs whose parameters can be read, by a piece of their name",
	 "| kind | name | the mangled name contains |", rules},
	{"reasons", "why attention may be left alone, and what to do about it",
	 "| reason | what it means | what you can do |", reasons},
	{"options", "environment variables with their defaults",
	 "| option | default | kind | what it does |", options},
};
const int listing_count = sizeof(listings) / sizeof(listings[0]);

const struct listing *listing_named(const char *name)
{
	for (int i = 0; i < listing_count; i++)
		if (!strcmp(listings[i].name, name))
			return &listings[i];
	return NULL;
}
