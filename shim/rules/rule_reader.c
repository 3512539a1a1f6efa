/* SPDX-License-Identifier: Apache-2.0
 *
 * What all readers of parameter blocks share: words, element types as names spell them, accesses.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#include "shim/base/half.h"
#include "shim/op/memory.h"

const char *rule_find(const struct reading *r, const char *needle)
{
	struct name_words *words = r->function->words;
	const char *at;

	for (int i = 0; words && i < words->count; i++)
		if (words->word[i].needle == needle)
			return words->word[i].at;
	at = strstr(r->function->name, needle);
	if (words && words->count < NAME_WORDS) {
		words->word[words->count].needle = needle;
		words->word[words->count++].at = at;
	}
	return at;
}

bool rule_has(const struct reading *r, const char *needle)
{
	return rule_find(r, needle) != NULL;
}

double rules_number(const unsigned char *bytes, int dtype)
{
	uint32_t word = 0;
	float value;

	memcpy(&word, bytes, dtype == ATTN_F32 ? 4 : 2);
	if (dtype == ATTN_F16)
		return half_value((uint16_t)word);
	if (dtype == ATTN_BF16)
		word <<= 16;
	memcpy(&value, &word, 4);
	return value;
}

bool rules_store(unsigned char *bytes, int dtype, double number)
{
	const float wide = (float)number;
	const uint16_t half = half_nearest(wide);
	uint32_t word;

	memcpy(&word, &wide, 4);
	if (wide != wide || (dtype != ATTN_F16 && dtype != ATTN_BF16 && dtype != ATTN_F32))
		return false;
	if (dtype == ATTN_BF16) /* to nearest, to even; what is left is at the end */
		word += 0x7fff + (word >> 16 & 1);
	memcpy(bytes,
	       dtype == ATTN_F16    ? (const void *)&half
	       : dtype == ATTN_BF16 ? (const void *)((const unsigned char *)&word + 2)
				    : (const void *)&word,
	       dtype == ATTN_F32 ? 4 : 2);
	return true;
}

double rule_value_at(const struct reading *r, unsigned at, int dtype)
{
	return rules_number(r->params + at, dtype);
}

const struct type type_half = {ATTN_F16, 2}, type_bfloat = {ATTN_BF16, 2},
		  type_float = {ATTN_F32, 4}, type_bool = {ATTN_BOOL, 1}, type_complex = {-1, 8},
		  type_wide_complex = {-1, 16}, type_unknown = {-1, 0};

/* A builtin type's letter in a mangled name. */
struct type rule_type_of_letter(char letter)
{
	switch (letter) {
	case 'f':
		return type_float;
	case 'b':
		return type_bool;
	case 'h':
	case 'a':
		return (struct type){-1, 1};
	case 's':
		return (struct type){-1, 2};
	case 'i':
	case 'j':
		return (struct type){-1, 4};
	case 'l':
	case 'm':
	case 'd':
		return (struct type){-1, 8};
	default:
		return type_unknown;
	}
}

/* c10::ScalarType as dynamic casts store it. */
struct type rule_type_of_scalar_type(unsigned code)
{
	static const int bytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16}; /* complex ones last */

	switch (code) {
	case 5:
		return type_half;
	case 6:
		return type_float;
	case 11:
		return type_bool;
	case 15:
		return type_bfloat;
	default:
		return code < 11 ? (struct type){-1, bytes[code]} : type_unknown;
	}
}

/* The type an element-wise functor works in, from its name. */
struct type rule_functor_type(const struct reading *r)
{
	static const char *const before[] = {"addI", "FunctorI", "EUl", "implI"};
	const bool half = rule_has(r, "4HalfE"), bfloat = rule_has(r, "8BFloat16E");

	if (half || bfloat)
		return half && bfloat ? type_unknown : half ? type_half : type_bfloat;
	for (unsigned i = 0; i < sizeof(before) / sizeof(*before); i++) {
		const char *at = strstr(r->function->name, before[i]);

		for (; at; at = strstr(at + 1, before[i])) {
			struct type type;

			at += strlen(before[i]);
			/* a leading bool argument is a condition, the type comes behind it */
			if (at[0] == 'b' && strchr("fldih", at[1]) && at[1])
				at++;
			type = rule_type_of_letter(*at);
			if (type.bytes)
				return type;
		}
	}
	return type_unknown;
}

struct type rule_template_type(const char **at, struct type repeated)
{
	static const struct {
		const char *text;
		const struct type *type;
	} named[] = {{"N3c104HalfE", &type_half},
		     {"N3c108BFloat16E", &type_bfloat},
		     {"N3c107complexIfEE", &type_complex},
		     {"N3c107complexIdEE", &type_wide_complex},
		     {"6__half", &type_half},
		     {"13__nv_bfloat16", &type_bfloat}};

	/* neither a letter's nor a repetition's beginning is one of theirs */
	for (unsigned i = 0; i < sizeof(named) / sizeof(*named) && **at < 'S'; i++)
		if (strncmp(*at, named[i].text, strlen(named[i].text)) == 0) {
			*at += strlen(named[i].text);
			return *named[i].type;
		}
	if (**at == 'S') {
		while (**at && **at != '_')
			++*at;
		if (**at)
			++*at;
		return repeated;
	}
	return **at ? rule_type_of_letter(*(*at)++) : type_unknown;
}

struct type rule_next_type(struct reading *r)
{
	const struct type type =
		rule_template_type(&r->behind, r->first.bytes ? r->first : type_unknown);

	if (!r->first.bytes)
		r->first = type;
	return type;
}

void rule_skip_numbers(struct reading *r)
{
	while (*r->behind == 'L' && strchr(r->behind, 'E'))
		r->behind = strchr(r->behind, 'E') + 1;
}

int64_t rule_width(struct reading *r)
{
	return rule_next_type(r).bytes;
}

static uint64_t end_of_allocation(uint64_t address)
{
	const struct allocation *allocation = memory_find(address);

	return allocation ? allocation->base + allocation->bytes : address + 1;
}

void rule_touch(struct reading *r, unsigned at, enum access_mode mode, uint64_t may, uint64_t sure,
		bool bounded)
{
	const uint64_t base = rule_u64_at(r, at);
	const uint64_t end = bounded ? base + may : end_of_allocation(base);

	if (!r->list || !base)
		return;
	if (mode != ACCESS_WRITE)
		sure = 0;
	access_add(r->list, (struct access){.begin = base,
					    .end = end,
					    .sure_end = sure < end - base ? base + sure : end,
					    .mode = mode,
					    .bounded = bounded,
					    .where = (int)at});
}

/* The same of bytes that are known. */
static inline bool touch_bytes(struct reading *r, unsigned at, enum access_mode mode, int64_t bytes,
			       bool dense)
{
	const uint64_t base = rule_u64_at(r, at), end = base + (uint64_t)bytes;

	if (r->list && base)
		access_add(r->list, (struct access){.begin = base,
						    .end = end,
						    .sure_end = dense ? end : base,
						    .mode = mode,
						    .bounded = true,
						    .where = (int)at});
	return bytes > 0;
}

bool rule_reads_at(struct reading *r, unsigned at, int64_t bytes)
{
	return touch_bytes(r, at, ACCESS_READ, bytes, false);
}

bool rule_writes_at(struct reading *r, unsigned at, int64_t bytes, bool dense)
{
	return touch_bytes(r, at, ACCESS_WRITE, bytes, dense);
}

bool rule_changes_at(struct reading *r, unsigned at, int64_t bytes)
{
	return touch_bytes(r, at, ACCESS_UNKNOWN, bytes, false);
}

bool rule_follows_at(struct reading *r, unsigned at, enum access_mode mode)
{
	rule_touch(r, at, mode, 0, 0, false);
	return true;
}

void rule_follows_all(struct reading *r, unsigned at, unsigned bytes)
{
	for (unsigned word = (at + 7) & ~7u; word + 8 <= at + bytes; word += 8)
		if (memory_find(rule_u64_at(r, word)))
			rule_follows_at(r, word, ACCESS_UNKNOWN);
}

bool rule_takes_sizes(const struct reading *r, unsigned count, const unsigned *sizes)
{
	if (r->function->param_count != count)
		return false;
	for (unsigned i = 0; i < count; i++)
		if (rule_size_of(r, i) != sizes[i])
			return false;
	return true;
}
