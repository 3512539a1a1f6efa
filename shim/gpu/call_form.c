/* SPDX-License-Identifier: Apache-2.0
 *
 * A form from a call, and to and from text. Words are told by a table; what a table cannot say, the
 * window and the operands beside Q, K and V, has a writer and a reader each.
 */
#include "shim/gpu/call_form.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/launch.h"

static const char *const dtype_words[] = {
	[ATTN_F16] = "f16", [ATTN_BF16] = "bf16", [ATTN_F32] = "f32"};
#define DTYPES ((int32_t)(sizeof(dtype_words) / sizeof(dtype_words[0])))

static const struct {
	const char *word;
	int32_t trait;
} trait_words[] = {{"softcap", FORM_SOFTCAP},
		   {"k_down", FORM_K_DOWN},
		   {"kv_shared", FORM_KV_SHARED},
		   {"pointers", FORM_POINTERS}};
#define TRAITS (sizeof(trait_words) / sizeof(trait_words[0]))

/* Operands whose dtype goes without saying. */
static const struct {
	const char *word;
	size_t place; /* in struct call_form */
} extent_words[] = {{"mask=", offsetof(struct call_form, mask)},
		    {"lengths=", offsetof(struct call_form, lengths)},
		    {"sinks=", offsetof(struct call_form, sinks)}};
#define EXTENTS (sizeof(extent_words) / sizeof(extent_words[0]))

/* Letters for the bits from the lowest on that is meant. */
static const char varies_letters[] = "BHqk";
static const char operand_letters[] = "qkv";
#define FIRST_VARIES	FORM_BY_BATCH
#define FIRST_UNALIGNED FORM_UNALIGNED_Q
#define UNALIGNED	(FORM_UNALIGNED_Q | FORM_UNALIGNED_K | FORM_UNALIGNED_V)

/* ---- from a call ---------------------------------------------------------------------------- */

static int32_t varies(const struct attn_args *args, const struct attn_tensor *t, int columns)
{
	if (!t->base)
		return 0;
	return FORM_PRESENT | (t->stride[0] && args->B > 1 ? FORM_BY_BATCH : 0) |
	       (t->stride[1] && args->H > 1 ? FORM_BY_HEAD : 0) |
	       (t->stride[2] && args->Sq > 1 ? FORM_BY_ROW : 0) |
	       (t->stride[3] && columns > 1 ? FORM_BY_KEY : 0);
}

static int32_t traits(const struct attn_args *args)
{
	const struct attn_tensor *k = &args->k;
	const int down = k->stride[2] == 1 && k->stride[3] != 1;
	int32_t found = 0;

	if (args->spec.softcap != 0.0f)
		found |= FORM_SOFTCAP;
	if (down)
		found |= FORM_K_DOWN;
	if (args->q.by_array || k->by_array || args->v.by_array)
		return found | FORM_POINTERS;
	if (args->H > 1 && !k->stride[1])
		found |= FORM_KV_SHARED;
	if (!attn_in_map(args, &args->q, 0, args->Sq))
		found |= FORM_UNALIGNED_Q;
	if (!attn_in_map(args, k, down, down ? args->D : args->Sk))
		found |= FORM_UNALIGNED_K;
	if (!attn_in_map(args, &args->v, 0, args->Sk))
		found |= FORM_UNALIGNED_V;
	return found;
}

void call_form_of(struct call_form *form, const struct attn_args *args)
{
	const struct attn_spec *spec = &args->spec;

	*form = (struct call_form){.B = args->B,
				   .H = args->H,
				   .Sq = args->Sq,
				   .Sk = args->Sk,
				   .D = args->D,
				   .Dv = args->Dv,
				   .dtype = args->q.dtype,
				   .window_left = spec->window_left,
				   .window_right = spec->window_right,
				   .mask = varies(args, &spec->mask, args->Sk),
				   .lengths = varies(args, &spec->lengths, 1),
				   .sinks = varies(args, &spec->sinks, 1),
				   .traits = traits(args)};
	if (form->window_left != ATTN_NO_WINDOW || form->window_right != ATTN_NO_WINDOW)
		form->window_shift = spec->window_shift;
	for (int i = 0; i < ATTN_MAX_BIAS; i++)
		if ((form->bias[i] = varies(args, &spec->bias[i], args->Sk)))
			form->bias_dtype[i] = spec->bias[i].dtype;
}

/* ---- to text -------------------------------------------------------------------------------- */

struct writer {
	char *text;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *to, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(to->text + to->used, FORM_TEXT - to->used, format, arguments);
	va_end(arguments);
	to->used += n < 0 ? 0 : (size_t)n;
	if (to->used >= FORM_TEXT)
		to->used = FORM_TEXT - 1;
}

static void put_letters(struct writer *to, int32_t bits, const char *letters, int32_t first)
{
	bool any = false;

	for (int i = 0; letters[i]; i++)
		if (bits & first << i) {
			put(to, "%c", letters[i]);
			any = true;
		}
	if (!any)
		put(to, "-");
}

static void put_limit(struct writer *to, int32_t limit)
{
	if (limit == ATTN_NO_WINDOW)
		put(to, "-");
	else
		put(to, "%d", (int)limit);
}

static bool is_causal(const struct call_form *form)
{
	return form->window_left == ATTN_NO_WINDOW && form->window_right == 0 &&
	       form->window_shift == form->Sk - form->Sq;
}

static void put_window(struct writer *to, const struct call_form *form)
{
	if (form->window_left == ATTN_NO_WINDOW && form->window_right == ATTN_NO_WINDOW)
		return;
	if (is_causal(form)) {
		put(to, ",causal");
		return;
	}
	put(to, ",window=");
	put_limit(to, form->window_left);
	put(to, ":");
	put_limit(to, form->window_right);
	put(to, ":%d", (int)form->window_shift);
}

char *call_form_text(const struct call_form *form, char text[FORM_TEXT])
{
	struct writer to = {text, 0};

	put(&to, "%d,%d,%d,%d,%d,%s", (int)form->B, (int)form->H, (int)form->Sq, (int)form->Sk,
	    (int)form->D, form->dtype < DTYPES ? dtype_words[form->dtype] : "?");
	if (form->Dv != form->D)
		put(&to, ",dv=%d", (int)form->Dv);
	put_window(&to, form);
	for (int i = 0; i < ATTN_MAX_BIAS; i++) {
		if (!form->bias[i])
			continue;
		put(&to, i ? ",bias%d=" : ",bias=", i + 1);
		put_letters(&to, form->bias[i], varies_letters, FIRST_VARIES);
		put(&to, ":%s",
		    form->bias_dtype[i] < DTYPES ? dtype_words[form->bias_dtype[i]] : "?");
	}
	for (size_t i = 0; i < EXTENTS; i++) {
		const int32_t *extent =
			(const int32_t *)((const char *)form + extent_words[i].place);

		if (!*extent)
			continue;
		put(&to, ",%s", extent_words[i].word);
		put_letters(&to, *extent, varies_letters, FIRST_VARIES);
	}
	for (size_t i = 0; i < TRAITS; i++)
		if (form->traits & trait_words[i].trait)
			put(&to, ",%s", trait_words[i].word);
	if (form->traits & UNALIGNED) {
		put(&to, ",unaligned=");
		put_letters(&to, form->traits, operand_letters, FIRST_UNALIGNED);
	}
	return text;
}

/* ---- from text ------------------------------------------------------------------------------ */

/* What is left of a text; never read beyond `end`. */
struct reader {
	const char *at, *end;
};

static bool take(struct reader *from, const char *word)
{
	const size_t length = strlen(word);

	if ((size_t)(from->end - from->at) < length || memcmp(from->at, word, length))
		return false;
	from->at += length;
	return true;
}

/* The whole of `from`? */
static bool is(struct reader *from, const char *word)
{
	return (size_t)(from->end - from->at) == strlen(word) && take(from, word);
}

static bool take_number(struct reader *from, int32_t *number)
{
	const bool negative = take(from, "-");
	const char *begin = from->at;
	int64_t value = 0;

	while (from->at < from->end && *from->at >= '0' && *from->at <= '9' && value < INT32_MAX)
		value = 10 * value + (*from->at++ - '0');
	if (from->at == begin || value >= INT32_MAX)
		return false;
	*number = (int32_t)(negative ? -value : value);
	return true;
}

static bool take_letters(struct reader *from, const char *letters, int32_t first, int32_t *bits)
{
	if (take(from, "-"))
		return true;
	while (from->at < from->end && *from->at != ':') {
		const char *letter = strchr(letters, *from->at++);

		if (!letter || !*letter)
			return false;
		*bits |= first << (letter - letters);
	}
	return true;
}

static bool take_dtype(struct reader *from, int32_t *dtype)
{
	for (int32_t i = 0; i < DTYPES; i++)
		if (is(from, dtype_words[i])) {
			*dtype = i;
			return true;
		}
	return false;
}

static bool take_limit(struct reader *from, int32_t *limit)
{
	if (take_number(from, limit))
		return true;
	*limit = ATTN_NO_WINDOW; /* the sign was taken */
	return from->at[-1] == '-';
}

static bool take_window(struct reader *from, struct call_form *form)
{
	return take_limit(from, &form->window_left) && take(from, ":") &&
	       take_limit(from, &form->window_right) && take(from, ":") &&
	       take_number(from, &form->window_shift) && from->at == from->end;
}

static bool take_bias(struct reader *from, struct call_form *form, int which)
{
	form->bias[which] = FORM_PRESENT;
	return take_letters(from, varies_letters, FIRST_VARIES, &form->bias[which]) &&
	       take(from, ":") && take_dtype(from, &form->bias_dtype[which]);
}

static bool parse_word(struct reader *word, struct call_form *form)
{
	for (size_t i = 0; i < TRAITS; i++)
		if (is(word, trait_words[i].word)) {
			form->traits |= trait_words[i].trait;
			return true;
		}
	if (take_dtype(word, &form->dtype))
		return true;
	if (is(word, "causal")) {
		form->window_right = 0;
		form->window_shift = form->Sk - form->Sq;
		return true;
	}
	if (take(word, "dv="))
		return take_number(word, &form->Dv) && word->at == word->end;
	if (take(word, "window="))
		return take_window(word, form);
	if (take(word, "bias="))
		return take_bias(word, form, 0);
	if (take(word, "bias2="))
		return take_bias(word, form, 1);
	for (size_t i = 0; i < EXTENTS; i++)
		if (take(word, extent_words[i].word)) {
			int32_t *extent = (int32_t *)((char *)form + extent_words[i].place);

			*extent = FORM_PRESENT;
			return take_letters(word, varies_letters, FIRST_VARIES, extent) &&
			       word->at == word->end;
		}
	return take(word, "unaligned=") &&
	       take_letters(word, operand_letters, FIRST_UNALIGNED, &form->traits) &&
	       word->at == word->end;
}

static bool parse_dimensions(struct reader *from, struct call_form *form)
{
	int32_t *const dimensions[] = {&form->B, &form->H, &form->Sq, &form->Sk, &form->D};

	for (size_t i = 0; i < sizeof(dimensions) / sizeof(dimensions[0]); i++)
		if ((i && !take(from, ",")) || !take_number(from, dimensions[i]) ||
		    *dimensions[i] < 1)
			return false;
	return true;
}

int call_form_parse(struct call_form *form, const char *text, size_t length)
{
	struct reader rest = {text, text + length};

	*form = (struct call_form){.window_left = ATTN_NO_WINDOW, .window_right = ATTN_NO_WINDOW};
	if (!parse_dimensions(&rest, form))
		return -EINVAL;
	form->Dv = form->D;
	while (take(&rest, ",")) {
		const char *comma = memchr(rest.at, ',', (size_t)(rest.end - rest.at));
		struct reader word = {rest.at, comma ? comma : rest.end};

		rest.at = word.end;
		if (!parse_word(&word, form))
			return -EINVAL;
	}
	return rest.at == rest.end && form->Dv > 0 ? 0 : -EINVAL;
}
