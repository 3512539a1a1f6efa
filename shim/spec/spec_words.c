/* SPDX-License-Identifier: Apache-2.0
 *
 * What is added to the scores or hides them, in words.
 */
#include "shim/spec/spec.h"

#include <stdio.h>

static const char *dtype_name(int dtype)
{
	static const char *const names[] = {"f16", "bf16", "f32", "bool",
					    "f64", "i32",  "one", "i8"};

	return dtype >= 0 && dtype < ATTN_DTYPE_COUNT ? names[dtype] : "?";
}

/* "B", "B%64": as attn_tensor.batches has it. */
static void place_name(char *text, size_t size, const char *name, int32_t of)
{
	if (of)
		snprintf(text, size, "%s%c%d", name, of > 0 ? '%' : '/', of > 0 ? of : -of);
	else
		snprintf(text, size, "%s", name);
}

static int describe(const struct attn_args *args, const struct attn_tensor *tensor,
		    const char *what, char *text, size_t size)
{
	const bool batch = tensor->stride[0] && args->B > 1,
		   head = tensor->stride[1] && args->H > 1;
	char batches[24], columns[24];

	place_name(batches, sizeof(batches), batch ? "B" : "1", tensor->batches);
	place_name(columns, sizeof(columns), tensor->stride[3] ? "Sk" : "1", tensor->columns);
	return snprintf(text, size, "%s [%s,%s,%s,%s] %s", what, batches, head ? "H" : "1",
			tensor->stride[2] ? "Sq" : "1", columns, dtype_name(tensor->dtype));
}

/* The same for a number of each row. */
static int describe_rows(const struct attn_args *args, const struct attn_tensor *tensor,
			 const char *what, char *text, size_t size)
{
	struct attn_tensor row = *tensor;

	row.stride[3] = 0;
	return describe(args, &row, what, text, size);
}

void spec_describe_mask(const struct attn_args *args, char *text, size_t size)
{
	const struct attn_spec *spec = &args->spec;
	size_t used = 0;

	text[0] = '\0';
	if (spec->scales.base)
		used += (size_t)describe(args, &spec->scales,
					 spec->scales_divide ? "divided by" : "times", text, size);
	for (int i = 0; i <= ATTN_MAX_BIAS; i++) {
		if (spec->mask.base && i == ATTN_MAX_BIAS - spec->late_biases && used < size)
			used += (size_t)describe(args, &spec->mask, used ? " + mask" : "mask",
						 text + used, size - used);
		if (spec->mask_also.base && i == ATTN_MAX_BIAS - spec->late_biases && used < size)
			used += (size_t)describe(args, &spec->mask_also, " + mask", text + used,
						 size - used);
		if (i < ATTN_MAX_BIAS && spec->bias[i].base && used < size)
			used += (size_t)describe(args, &spec->bias[i], used ? " + bias" : "bias",
						 text + used, size - used);
	}
	if (spec->lengths.base && used < size)
		used += (size_t)describe_rows(args, &spec->lengths, used ? " + lengths" : "lengths",
					      text + used, size - used);
	if (spec->sinks.base && used < size)
		used += (size_t)describe_rows(args, &spec->sinks, used ? " + sinks" : "sinks",
					      text + used, size - used);
	if (spec->window_right == 0 && used < size)
		used += (size_t)snprintf(text + used, size - used, "%scausal", used ? " + " : "");
	if (!used)
		snprintf(text, size, "none");
}
