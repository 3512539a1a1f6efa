/* SPDX-License-Identifier: Apache-2.0
 *
 * What is added to the scores or hides them, in words.
 */
#include "shim/spec/spec.h"

#include <stdio.h>

static const char *dtype_name(int dtype)
{
	static const char *const names[] = {"f16", "bf16", "f32", "bool", "f64", "i32"};

	return dtype >= 0 && dtype < ATTN_DTYPE_COUNT ? names[dtype] : "?";
}

static int describe(const struct attn_args *args, const struct attn_tensor *tensor,
		    const char *what, char *text, size_t size)
{
	const bool batch = tensor->stride[0] && args->B > 1,
		   head = tensor->stride[1] && args->H > 1;
	char heads[16];

	snprintf(heads, sizeof(heads), "%s", head ? "H" : "1");
	return snprintf(text, size, "%s [%s,%s,%s,%s] %s", what, batch ? "B" : "1", heads,
			tensor->stride[2] ? "Sq" : "1", tensor->stride[3] ? "Sk" : "1",
			dtype_name(tensor->dtype));
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
	for (int i = 0; i <= ATTN_MAX_BIAS; i++) {
		if (spec->mask.base && i == ATTN_MAX_BIAS - spec->late_biases && used < size)
			used += (size_t)describe(args, &spec->mask, used ? " + mask" : "mask",
						 text + used, size - used);
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
