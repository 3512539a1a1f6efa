/* SPDX-License-Identifier: Apache-2.0
 *
 * Which words a rule takes is in two tables: the keys, and the roles with the keys that they need
 * and know. What is said of a mistake is made of the same tables.
 */
#include "shim/rules/user_rule.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"

#define BLANK	  " \t\r\n"
#define HAS(key)  (1u << USER_##key)
#define WHY_BYTES 256

static const struct key {
	const char *name;
	enum { POINTER, WHOLE, REAL, TYPE } takes;
} keys[USER_KEYS] = {
	[USER_OUT] = {"out", POINTER},		[USER_IN] = {"in", POINTER},
	[USER_WITH] = {"with", POINTER},	[USER_PERIOD] = {"period", WHOLE},
	[USER_FACTOR] = {"factor", REAL},	[USER_VALUE] = {"value", REAL},
	[USER_COUNT] = {"count", WHOLE},	[USER_COLUMNS] = {"columns", WHOLE},
	[USER_ROWS] = {"rows", WHOLE},		[USER_DTYPE] = {"dtype", TYPE},
	[USER_OUT_DTYPE] = {"out_dtype", TYPE}, [USER_WITH_DTYPE] = {"with_dtype", TYPE},
};

/* What each role needs, and what else it knows. */
static const struct role {
	enum rule_role role;
	unsigned needs, knows;
} roles[] = {
	{ROLE_SCALE, HAS(OUT) | HAS(IN) | HAS(FACTOR) | HAS(COUNT) | HAS(DTYPE), 0},
	{ROLE_ADD, HAS(OUT) | HAS(IN) | HAS(WITH) | HAS(COUNT) | HAS(DTYPE),
	 HAS(PERIOD) | HAS(WITH_DTYPE)},
	{ROLE_MASKED_FILL, HAS(OUT) | HAS(IN) | HAS(WITH) | HAS(VALUE) | HAS(COUNT) | HAS(DTYPE),
	 HAS(PERIOD)},
	{ROLE_TANH, HAS(OUT) | HAS(IN) | HAS(COUNT) | HAS(DTYPE), 0},
	{ROLE_COPY, HAS(OUT) | HAS(IN) | HAS(COUNT) | HAS(DTYPE), HAS(OUT_DTYPE)},
	{ROLE_SOFTMAX, HAS(OUT) | HAS(IN) | HAS(COLUMNS) | HAS(ROWS) | HAS(DTYPE), HAS(OUT_DTYPE)},
	{ROLE_OPAQUE, HAS(COUNT) | HAS(DTYPE), HAS(OUT) | HAS(IN)},
};

#define ROLES ((int)(sizeof(roles) / sizeof(*roles)))

static const char *const role_names[] = {
#define ROLE(id, name) [ROLE_##id] = name,
#include "shim/rules/kernel_roles.def"
#undef ROLE
};

/* One line while it is read. */
struct line {
	struct user_rule rule;
	const struct role *role;
	char why[WHY_BYTES]; /* what is wrong; "" */
};

/* Always false, for a return. */
static bool __attribute__((format(printf, 2, 3))) wrong(struct line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(line->why, sizeof(line->why), format, args);
	va_end(args);
	return false;
}

/* The names of the keys that `mask` has: "out, in, count". */
static const char *names_of(unsigned mask, char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (int i = 0; i < USER_KEYS; i++)
		if (mask & 1u << i && used < size)
			used += (size_t)snprintf(buffer + used, size - used, "%s%s",
						 used ? ", " : "", keys[i].name);
	return buffer;
}

/* Whatever the program's locale writes for a decimal point. */
static bool parse_number(const char *text, double *number)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	char *end = NULL;

	if (!c_locale)
		return false;
	*number = strtod_l(text, &end, c_locale);
	freelocale(c_locale);
	return *text && !*end;
}

static bool parse_parameter(const char *text, struct user_what *what)
{
	char *end;

	if (text[0] != 'p' || text[1] < '0' || text[1] > '9')
		return false;
	what->kind = USER_PARAMETER;
	what->parameter = (unsigned)strtoul(text + 1, &end, 10);
	return !*end && what->parameter < FUNCTION_MAX_PARAMS;
}

static bool parse_dtype(const char *text, struct user_what *what)
{
	static const struct {
		const char *name;
		int dtype;
	} types[] = {{"f16", ATTN_F16}, {"bf16", ATTN_BF16}, {"f32", ATTN_F32}};

	what->kind = USER_TYPE;
	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(text, types[i].name) == 0) {
			what->dtype = types[i].dtype;
			return true;
		}
	return false;
}

static bool parse_what(struct line *line, int key, const char *text)
{
	struct user_what *what = &line->rule.what[key];
	const char *name = keys[key].name;

	if (keys[key].takes == TYPE)
		return parse_dtype(text, what) ||
		       wrong(line, "%s=%.40s: f16, bf16 or f32", name, text);
	if (parse_parameter(text, what))
		return true;
	if (keys[key].takes == POINTER)
		return wrong(line, "%s=%.40s: a pointer is a parameter, p0 to p%d", name, text,
			     FUNCTION_MAX_PARAMS - 1);
	if (keys[key].takes == WHOLE && strcmp(text, "grid.x") == 0) {
		what->kind = USER_GRID;
		return true;
	}
	what->kind = USER_NUMBER;
	if (!parse_number(text, &what->number))
		return wrong(line, "%s=%.40s: a parameter (p0 to p%d)%s or a number", name, text,
			     FUNCTION_MAX_PARAMS - 1, keys[key].takes == WHOLE ? ", grid.x" : "");
	/* A double tells whole numbers exactly up to there. */
	if (keys[key].takes == WHOLE &&
	    !(what->number >= 1 && what->number <= 0x1p53 && what->number == floor(what->number)))
		return wrong(line, "%s=%.40s: a whole number from 1 on", name, text);
	return true;
}

/* KEY=WHAT */
static bool parse_word(struct line *line, char *word)
{
	const unsigned takes = line->role->needs | line->role->knows;
	char *what = strchr(word, '='), names[128];
	int key = 0;

	names_of(takes, names, sizeof(names));
	if (!what)
		return wrong(line, "'%.40s': KEY=WHAT is wanted; keys of %s: %s", word,
			     role_names[line->role->role], names);
	*what++ = '\0';
	while (key < USER_KEYS && strcmp(word, keys[key].name) != 0)
		key++;
	if (key == USER_KEYS || !(takes & 1u << key))
		return wrong(line, "%s has no key '%.40s'; it takes %s",
			     role_names[line->role->role], word, names);
	if (line->rule.what[key].kind)
		return wrong(line, "%s= is there twice", word);
	return parse_what(line, key, what);
}

static bool complete(struct line *line)
{
	struct user_what *what = line->rule.what;
	const char *name = role_names[line->role->role];
	unsigned has = 0;
	char names[128];

	for (int i = 0; i < USER_KEYS; i++)
		has |= what[i].kind ? 1u << i : 0;
	if (line->role->needs & ~has)
		return wrong(line, "%s needs %s as well", name,
			     names_of(line->role->needs & ~has, names, sizeof(names)));
	if (line->role->role == ROLE_OPAQUE && !(has & (HAS(IN) | HAS(OUT))))
		return wrong(line, "%s needs in, out or both as well", name);
	if (!what[USER_OUT_DTYPE].kind)
		what[USER_OUT_DTYPE] = what[USER_DTYPE];
	if (!what[USER_WITH_DTYPE].kind)
		what[USER_WITH_DTYPE] = what[USER_DTYPE];
	if (line->role->role == ROLE_MASKED_FILL)
		what[USER_WITH_DTYPE].dtype = ATTN_BOOL;
	return true;
}

static bool parse_role(struct line *line, const char *word)
{
	char names[128] = "";
	size_t used = 0;

	for (int i = 0; i < ROLES; i++) {
		const char *name = role_names[roles[i].role];

		if (word && strcmp(word, name) == 0) {
			line->role = &roles[i];
			line->rule.role = roles[i].role;
			return true;
		}
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
					 !i		  ? ""
					 : i == ROLES - 1 ? " or "
							  : ", ",
					 name);
	}
	return word ? wrong(line, "no role '%.40s'; %s", word, names)
		    : wrong(line, "'%.40s' alone says nothing; behind it: %s", line->rule.needle,
			    names);
}

static bool parse_needle(struct line *line, const char *word)
{
	const size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					   "0123456789_.$");

	if (strlen(word) >= sizeof(line->rule.needle))
		return wrong(line,
			     "'%.40s…' is longer than %zu letters; a piece of the name will do",
			     word, sizeof(line->rule.needle) - 1);
	if (word[length])
		return wrong(line, "'%.40s' is in no mangled name; cuobjdump -symbols shows these",
			     word);
	strcpy(line->rule.needle, word);
	return true;
}

static bool parse_line(struct line *line, char *text)
{
	char *rest = NULL, *word = strtok_r(text, BLANK, &rest);

	if (!parse_needle(line, word) || !parse_role(line, strtok_r(NULL, BLANK, &rest)))
		return false;
	while ((word = strtok_r(NULL, BLANK, &rest)) != NULL)
		if (!parse_word(line, word))
			return false;
	return complete(line);
}

void user_rules_parse(char *text, user_rule_taker *take, void *to)
{
	int count = 0;

	for (int number = 1; text; number++) {
		struct line line;
		char *end = strchr(text, '\n');

		if (end)
			*end++ = '\0';
		text[strcspn(text, "#")] = '\0';
		if (text[strspn(text, BLANK)]) {
			memset(&line, 0, sizeof(line));
			if (count == USER_RULES) {
				wrong(&line, "more than %d rules; no further one is read",
				      USER_RULES);
				take(to, number, NULL, line.why);
				return;
			}
			if (parse_line(&line, text)) {
				count++;
				take(to, number, &line.rule, NULL);
			} else {
				take(to, number, NULL, line.why);
			}
		}
		text = end;
	}
}
