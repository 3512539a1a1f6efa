/* SPDX-License-Identifier: Apache-2.0
 *
 * attn_args in words, piece by piece behind one another.
 */
#include "tests/unit/meaning.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *meaning_dtype(int dtype)
{
	static const char *const names[] = {"f16", "bf16", "f32", "bool",
					    "f64", "i32",  "one", "i8"};

	return dtype >= 0 && dtype < ATTN_DTYPE_COUNT ? names[dtype] : "?";
}

/* Adds ", " where something stands before, then the piece. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format,
						      ...)
{
	size_t used = strlen(text);
	va_list arguments;

	if (used && used + 2 < size) {
		strcpy(text + used, ", ");
		used += 2;
	}
	va_start(arguments, format);
	vsnprintf(text + used, size - used, format, arguments);
	va_end(arguments);
}

/* "[B,1,Sq,Sk]": 1 where all share one number; static storage. */
static const char *extent(const struct attn_args *args, const struct attn_tensor *tensor,
			  bool by_key)
{
	static char text[64];
	char batches[16] = "", columns[16] = "";

	if (tensor->batches)
		snprintf(batches, sizeof(batches), "%c%d", tensor->batches > 0 ? '%' : '/',
			 abs(tensor->batches));
	if (tensor->columns)
		snprintf(columns, sizeof(columns), "%c%d", tensor->columns > 0 ? '%' : '/',
			 abs(tensor->columns));
	snprintf(text, sizeof(text), "[%s%s,%s,%s,%s%s]",
		 tensor->stride[0] && args->B > 1 ? "B" : "1", batches,
		 tensor->stride[1] && args->H > 1 ? "H" : "1", tensor->stride[2] ? "Sq" : "1",
		 by_key && tensor->stride[3] ? "Sk" : "1", columns);
	return text;
}

/* Batches and heads lie one behind another. */
static bool one_behind(const struct attn_tensor *tensor, int64_t H)
{
	return !tensor->base || (!tensor->by_array && !tensor->batches &&
				 tensor->stride[0] == H * tensor->stride[1]);
}

/* The same with batches as heads, where no input tells them apart: how O lies is not of interest.
 */
static struct attn_args as_heads(const struct attn_args *args, const struct attn_spec *spec)
{
	const struct attn_tensor *const inputs[] = {&args->q,	    &args->k,	    &args->v,
						    &spec->bias[0], &spec->bias[1], &spec->mask,
						    &spec->lengths, &spec->sinks,   &spec->scales};
	struct attn_args merged = *args;

	for (size_t i = 0; i < sizeof(inputs) / sizeof(*inputs); i++)
		if (!one_behind(inputs[i], args->H))
			return merged;
	merged.H *= merged.B;
	merged.B = 1;
	return merged;
}

static void add_bias(const struct attn_args *args, const struct attn_spec *spec, int i, char *text,
		     size_t size)
{
	if (!spec->bias[i].base)
		return;
	add(text, size, "bias %s %s", extent(args, &spec->bias[i], true),
	    meaning_dtype(spec->bias[i].dtype));
	if (spec->bias_scale[i] != 1)
		add(text, size, "times %.6g", (double)spec->bias_scale[i]);
}

void meaning_words(const struct attn_args *given, const struct attn_spec *spec, char *text,
		   size_t size)
{
	const struct attn_args merged = as_heads(given, spec), *args = &merged;
	const int early = ATTN_MAX_BIAS - spec->late_biases;

	text[0] = '\0';
	add(text, size, "scale %.6g", (double)spec->scale);
	if (spec->scales.base)
		add(text, size, spec->scales_divide ? "divided by %s %s" : "times %s %s",
		    extent(args, &spec->scales, true), meaning_dtype(spec->scales.dtype));
	if (spec->softcap != 0)
		add(text, size, "softcap %.6g", (double)spec->softcap);
	for (int i = 0; i < early; i++)
		add_bias(args, spec, i, text, size);
	if (spec->mask.base)
		add(text, size, spec->mask_keeps ? "keep %s else %.6g" : "hide %s as %.6g",
		    extent(args, &spec->mask, true), (double)spec->mask_value);
	for (int i = early; i < ATTN_MAX_BIAS; i++)
		add_bias(args, spec, i, text, size);
	if (spec->window_left != ATTN_NO_WINDOW)
		add(text, size, "window %d", spec->window_left);
	if (spec->window_right == 0 && spec->window_shift == 0)
		add(text, size, "causal");
	else if (spec->window_right != ATTN_NO_WINDOW)
		add(text, size, "no key beyond %d", spec->window_shift + spec->window_right);
	if (spec->lengths.base)
		add(text, size, "lengths %s", extent(args, &spec->lengths, false));
	if (spec->sinks.base)
		add(text, size, "sinks %s %s", extent(args, &spec->sinks, false),
		    meaning_dtype(spec->sinks.dtype));
	if (spec->out_scale != 1)
		add(text, size, "O times %.6g", (double)spec->out_scale);
	if (spec->round_p != args->q.dtype)
		add(text, size, "P %s", meaning_dtype(spec->round_p));
	if (args->o.dtype != args->q.dtype)
		add(text, size, "O %s", meaning_dtype(args->o.dtype));
	if (spec->empty_row != ATTN_EMPTY_NAN)
		add(text, size, "empty rows %s",
		    spec->empty_row == ATTN_EMPTY_ZERO	  ? "0"
		    : spec->empty_row == ATTN_EMPTY_AGAIN ? "0 where hidden"
							  : "the mean");
}

static void add_strides(const struct attn_tensor *tensor, const char *name, const int *sizes,
			char *text, size_t size)
{
	static const char letters[] = "bhsd";
	bool done[4] = {false};
	char line[96];
	size_t used = (size_t)snprintf(line, sizeof(line), "%s", name);

	for (int n = 0; n < 4; n++) {
		int farthest = -1;

		for (int i = 0; i < 4; i++)
			if (!done[i] &&
			    (farthest < 0 || tensor->stride[i] > tensor->stride[farthest]))
				farthest = i;
		done[farthest] = true;
		if (sizes[farthest] > 1)
			used += (size_t)snprintf(line + used, sizeof(line) - used, " %c%lld",
						 letters[farthest],
						 (long long)tensor->stride[farthest]);
	}
	add(text, size, "%s", line);
}

void meaning_layout(const struct attn_args *given, char *text, size_t size)
{
	const struct attn_args merged = as_heads(given, &given->spec), *args = &merged;
	const int q[4] = {args->B, args->H, args->Sq, args->D};
	const int k[4] = {args->B, args->H, args->Sk, args->D};
	const int v[4] = {args->B, args->H, args->Sk, args->Dv};

	text[0] = '\0';
	add_strides(&args->q, "Q", q, text, size);
	add_strides(&args->k, "K", k, text, size);
	add_strides(&args->v, "V", v, text, size);
}
