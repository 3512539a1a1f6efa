/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines to rules, and one reader for all of them.
 */
#include "shim/rules/rules_user.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/config.h"
#include "shim/base/message.h"
#include "shim/base/user_file.h"

#define RULES	128
#define LARGEST (1 << 20) /* bytes of the file */
#define BLANK	" \t\r\n"

enum key { OUT, IN, WITH, PERIOD, FACTOR, VALUE, COUNT, COLUMNS, ROWS, KEYS };

static const char *const key_names[KEYS] = {"out",   "in",    "with",	 "period", "factor",
					    "value", "count", "columns", "rows"};

#define HAS(key) (1u << (key))

/* What each role needs, and what else it knows. */
static const struct role {
	enum rule_role role;
	unsigned needs, knows;
} roles[] = {
	{ROLE_SCALE, HAS(OUT) | HAS(IN) | HAS(FACTOR) | HAS(COUNT), 0},
	{ROLE_ADD, HAS(OUT) | HAS(IN) | HAS(WITH) | HAS(COUNT), HAS(PERIOD)},
	{ROLE_MASKED_FILL, HAS(OUT) | HAS(IN) | HAS(WITH) | HAS(VALUE) | HAS(COUNT), HAS(PERIOD)},
	{ROLE_TANH, HAS(OUT) | HAS(IN) | HAS(COUNT), 0},
	{ROLE_COPY, HAS(OUT) | HAS(IN) | HAS(COUNT), 0},
	{ROLE_SOFTMAX, HAS(OUT) | HAS(IN) | HAS(COLUMNS) | HAS(ROWS), 0},
	{ROLE_OPAQUE, HAS(COUNT), HAS(OUT) | HAS(IN)},
};

/* A parameter by its number, the grid's width, or a number. */
struct what {
	enum { ABSENT, PARAMETER, GRID, NUMBER } kind;
	unsigned parameter;
	double number;
};

static struct user_rule {
	struct kernel_rule rule; /* first: function->rule points here */
	char needle[128];
	enum rule_role role;
	struct what what[KEYS];
	struct type dtype, out_dtype, with_dtype;
} rules[RULES];
static int rule_count;

/* ---- reading a launch ----------------------------------------------------------------------- */

static bool pointer_of(const struct reading *r, const struct what *what, unsigned *where)
{
	if (what->kind != PARAMETER || rule_size_of(r, what->parameter) != 8)
		return false;
	*where = rule_offset(r, what->parameter);
	return true;
}

static bool integer_of(const struct reading *r, const struct what *what, int64_t *integer)
{
	if (what->kind == NUMBER) /* one that a double tells exactly */
		*integer = what->number >= 1 && what->number <= 0x1p53 ? (int64_t)what->number : 0;
	else if (what->kind == GRID)
		*integer = r->launch->grid[0];
	else if (what->kind == PARAMETER && rule_size_of(r, what->parameter) == 4)
		*integer = (int32_t)rule_u32_at(r, rule_offset(r, what->parameter));
	else if (what->kind == PARAMETER && rule_size_of(r, what->parameter) == 8)
		*integer = (int64_t)rule_u64_at(r, rule_offset(r, what->parameter));
	else
		return false;
	return *integer > 0;
}

static bool real_of(const struct reading *r, const struct what *what, double *real)
{
	if (what->kind == NUMBER)
		*real = what->number;
	else if (what->kind == PARAMETER && rule_size_of(r, what->parameter) == 4)
		*real = (double)rule_f32_at(r, rule_offset(r, what->parameter));
	else
		return false;
	return true;
}

static bool add_view(struct reading *r, const struct what *what, struct type type)
{
	unsigned where;

	if (!pointer_of(r, what, &where))
		return false;
	rule_set_view(r, r->meaning->view_count++, where, type);
	return true;
}

/* `with` comes round again after `period` elements. */
static bool set_period(struct reading *r, int64_t period)
{
	struct meaning *meaning = r->meaning;

	if (period >= meaning->elements)
		return period == meaning->elements;
	if (meaning->elements % period)
		return false;
	meaning->dims = 2;
	meaning->size[0] = period;
	meaning->size[1] = meaning->elements / period;
	for (int i = 0; i < meaning->view_count; i++)
		meaning->views[i].stride[1] =
			i == 2 ? 0 : period * (int64_t)meaning->views[i].element;
	return true;
}

static bool read_other(struct reading *r, const struct user_rule *rule, int64_t count)
{
	const struct what *in = &rule->what[IN], *out = &rule->what[OUT];
	const int64_t bytes = count * rule->dtype.bytes;
	unsigned where;

	return (!in->kind || (pointer_of(r, in, &where) && rule_reads_at(r, where, bytes))) &&
	       (!out->kind ||
		(pointer_of(r, out, &where) && rule_writes_at(r, where, bytes, true)));
}

static bool read_user(struct reading *r)
{
	const struct user_rule *rule = (const struct user_rule *)(const void *)r->function->rule;
	const struct what *what = rule->what;
	struct meaning *meaning = r->meaning;
	int64_t elements, rows = 1, period;

	if (!integer_of(r, &what[rule->role == ROLE_SOFTMAX ? COLUMNS : COUNT], &elements) ||
	    (rule->role == ROLE_SOFTMAX && !integer_of(r, &what[ROWS], &rows)))
		return false;
	if (rule->role == ROLE_OPAQUE)
		return read_other(r, rule, elements);
	meaning->role = rule->role;
	if (rule->role == ROLE_SOFTMAX) {
		meaning->softmax_cols = elements;
		meaning->softmax_apart = 1;
		meaning->factor = 1;
	}
	if (!add_view(r, &what[OUT], rule->out_dtype) || !add_view(r, &what[IN], rule->dtype) ||
	    (what[WITH].kind && !add_view(r, &what[WITH], rule->with_dtype)))
		return false;
	rule_one_dimension(r, elements * rows);
	if (what[PERIOD].kind && (!integer_of(r, &what[PERIOD], &period) || !set_period(r, period)))
		return false;
	if ((what[FACTOR].kind && !real_of(r, &what[FACTOR], &meaning->scalar)) ||
	    (what[VALUE].kind && !real_of(r, &what[VALUE], &meaning->scalar)))
		return false;
	return rule_finish_views(r);
}

/* ---- reading a file ------------------------------------------------------------------------- */

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

static bool parse_what(const char *text, struct what *what)
{
	char *end;

	if (strcmp(text, "grid.x") == 0) {
		what->kind = GRID;
		return true;
	}
	if (text[0] == 'p' && text[1] >= '0' && text[1] <= '9') {
		what->kind = PARAMETER;
		what->parameter = (unsigned)strtoul(text + 1, &end, 10);
		return !*end && what->parameter < FUNCTION_MAX_PARAMS;
	}
	what->kind = NUMBER;
	return parse_number(text, &what->number);
}

static bool parse_dtype(const char *text, struct type *type)
{
	static const struct {
		const char *name;
		const struct type *type;
	} types[] = {{"f16", &type_half}, {"bf16", &type_bfloat}, {"f32", &type_float}};

	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(text, types[i].name) == 0) {
			*type = *types[i].type;
			return true;
		}
	return false;
}

/* KEY=WHAT; what is wrong, or NULL. */
static const char *parse_word(char *word, struct user_rule *rule)
{
	char *what = strchr(word, '=');

	if (!what)
		return "want KEY=WHAT";
	*what++ = '\0';
	for (int i = 0; i < KEYS; i++)
		if (strcmp(word, key_names[i]) == 0)
			return parse_what(what, &rule->what[i]) ? NULL : "no parameter or number";
	if (strcmp(word, "dtype") == 0)
		return parse_dtype(what, &rule->dtype) ? NULL : "unknown dtype";
	if (strcmp(word, "out_dtype") == 0)
		return parse_dtype(what, &rule->out_dtype) ? NULL : "unknown dtype";
	if (strcmp(word, "with_dtype") == 0)
		return parse_dtype(what, &rule->with_dtype) ? NULL : "unknown dtype";
	return "unknown key";
}

static const char *complete(struct user_rule *rule, const struct role *role)
{
	unsigned has = 0;

	for (int i = 0; i < KEYS; i++)
		has |= rule->what[i].kind ? HAS(i) : 0;
	if ((has & role->needs) != role->needs || (has & ~(role->needs | role->knows)))
		return "keys missing, or of another role";
	if (role->role == ROLE_OPAQUE && !(has & (HAS(IN) | HAS(OUT))))
		return "keys missing, or of another role";
	if (!rule->dtype.bytes)
		return "no dtype";
	if (rule->out_dtype.bytes && role->role != ROLE_COPY && role->role != ROLE_SOFTMAX)
		return "out_dtype is for copy and softmax";
	if (rule->with_dtype.bytes && role->role != ROLE_ADD)
		return "with_dtype is for add";
	if (!rule->out_dtype.bytes)
		rule->out_dtype = rule->dtype;
	if (!rule->with_dtype.bytes)
		rule->with_dtype = role->role == ROLE_MASKED_FILL ? type_bool : rule->dtype;
	rule->rule.read = read_user;
	rule->role = role->role;
	return NULL;
}

static const char *parse_line(char *line, struct user_rule *rule)
{
	char *rest = NULL, *word = strtok_r(line, BLANK, &rest);
	const char *wrong;

	memset(rule, 0, sizeof(*rule));
	if (strlen(word) >= sizeof(rule->needle))
		return "name too long";
	strcpy(rule->needle, word);
	word = strtok_r(NULL, BLANK, &rest);
	for (unsigned i = 0; word && i < sizeof(roles) / sizeof(*roles); i++) {
		if (strcmp(word, rules_role_name(roles[i].role)) != 0)
			continue;
		while ((word = strtok_r(NULL, BLANK, &rest)) != NULL) {
			wrong = parse_word(word, rule);
			if (wrong)
				return wrong;
		}
		return complete(rule, &roles[i]);
	}
	return "unknown role";
}

static void take_line(char *line, const char *path, int number)
{
	const char *wrong;

	line[strcspn(line, "#")] = '\0';
	if (!line[strspn(line, BLANK)])
		return;
	wrong = parse_line(line, &rules[rule_count]);
	if (wrong)
		message_error("%s:%d: %s", path, number, wrong);
	else
		rule_count++;
}

int rules_user_load(const char *path, const char **why)
{
	char *text = user_file_read(path, LARGEST, why), *line = text, *end;

	if (!text)
		return -errno;
	for (int number = 1; line; number++) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		if (rule_count == RULES) {
			if (line[strspn(line, BLANK)])
				message_error("%s:%d: more than %d rules", path, number, RULES);
			break;
		}
		take_line(line, path, number);
		line = end;
	}
	free(text);
	return rule_count;
}

const struct kernel_rule *rules_user_find(const char *kernel)
{
	static bool loaded;

	if (!loaded) {
		loaded = true;
		if (config()->rules[0]) {
			const char *why;

			if (rules_user_load(config()->rules, &why) < 0)
				message_error("FASHIM_RULES=%s: %s", config()->rules, why);
		}
	}
	for (int i = 0; i < rule_count; i++)
		if (strstr(kernel, rules[i].needle))
			return &rules[i].rule;
	return NULL;
}
