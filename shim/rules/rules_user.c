/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines to rules, and one reader for all of them.
 */
#include "shim/rules/rules_user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/config.h"
#include "shim/base/message.h"
#include "shim/base/user_file.h"
#include "shim/rules/user_rule.h"

static struct read_rule {
	struct kernel_rule rule; /* first: function->rule points here */
	struct user_rule said;
} rules[USER_RULES];
static int rule_count;

/* ---- reading a launch ----------------------------------------------------------------------- */

static bool pointer_of(const struct reading *r, const struct user_what *what, unsigned *where)
{
	if (what->kind != USER_PARAMETER || rule_size_of(r, what->parameter) != 8)
		return false;
	*where = rule_offset(r, what->parameter);
	return true;
}

static bool integer_of(const struct reading *r, const struct user_what *what, int64_t *integer)
{
	if (what->kind == USER_NUMBER)
		*integer = (int64_t)what->number;
	else if (what->kind == USER_GRID)
		*integer = r->launch->grid[0];
	else if (what->kind == USER_PARAMETER && rule_size_of(r, what->parameter) == 4)
		*integer = (int32_t)rule_u32_at(r, rule_offset(r, what->parameter));
	else if (what->kind == USER_PARAMETER && rule_size_of(r, what->parameter) == 8)
		*integer = (int64_t)rule_u64_at(r, rule_offset(r, what->parameter));
	else
		return false;
	return *integer > 0;
}

static bool real_of(const struct reading *r, const struct user_what *what, double *real)
{
	if (what->kind == USER_NUMBER)
		*real = what->number;
	else if (what->kind == USER_PARAMETER && rule_size_of(r, what->parameter) == 4)
		*real = (double)rule_f32_at(r, rule_offset(r, what->parameter));
	else
		return false;
	return true;
}

static struct type type_of(const struct user_what *what)
{
	switch (what->dtype) {
	case ATTN_F16:
		return type_half;
	case ATTN_BF16:
		return type_bfloat;
	case ATTN_BOOL:
		return type_bool;
	default:
		return type_float;
	}
}

/* The pointer `key`, of elements of the dtype that `type` is. */
static bool add_view(struct reading *r, const struct user_rule *rule, enum user_key key,
		     enum user_key type)
{
	unsigned where;

	if (!pointer_of(r, &rule->what[key], &where))
		return false;
	rule_set_view(r, r->meaning->view_count++, where, type_of(&rule->what[type]));
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
	const struct user_what *in = &rule->what[USER_IN], *out = &rule->what[USER_OUT];
	const int64_t bytes = count * type_of(&rule->what[USER_DTYPE]).bytes;
	unsigned where;

	return (!in->kind || (pointer_of(r, in, &where) && rule_reads_at(r, where, bytes))) &&
	       (!out->kind ||
		(pointer_of(r, out, &where) && rule_writes_at(r, where, bytes, true)));
}

static bool read_user(struct reading *r)
{
	const struct kernel_rule *bound = r->function->rule;
	const struct user_rule *rule = &((const struct read_rule *)(const void *)bound)->said;
	const struct user_what *what = rule->what;
	struct meaning *meaning = r->meaning;
	int64_t elements, rows = 1, period;

	if (!integer_of(r, &what[rule->role == ROLE_SOFTMAX ? USER_COLUMNS : USER_COUNT],
			&elements) ||
	    (rule->role == ROLE_SOFTMAX && !integer_of(r, &what[USER_ROWS], &rows)))
		return false;
	if (rule->role == ROLE_OPAQUE)
		return read_other(r, rule, elements);
	meaning->role = rule->role;
	if (rule->role == ROLE_SOFTMAX) {
		meaning->softmax_cols = elements;
		meaning->softmax_apart = 1;
		meaning->factor = 1;
	}
	if (!add_view(r, rule, USER_OUT, USER_OUT_DTYPE) ||
	    !add_view(r, rule, USER_IN, USER_DTYPE) ||
	    (what[USER_WITH].kind && !add_view(r, rule, USER_WITH, USER_WITH_DTYPE)))
		return false;
	rule_one_dimension(r, elements * rows);
	if (what[USER_PERIOD].kind &&
	    (!integer_of(r, &what[USER_PERIOD], &period) || !set_period(r, period)))
		return false;
	if ((what[USER_FACTOR].kind && !real_of(r, &what[USER_FACTOR], &meaning->scalar)) ||
	    (what[USER_VALUE].kind && !real_of(r, &what[USER_VALUE], &meaning->scalar)))
		return false;
	return rule_finish_views(r);
}

/* ---- reading a file ------------------------------------------------------------------------- */

static void take_rule(void *path, int line, const struct user_rule *rule, const char *wrong)
{
	if (!rule) {
		message_error("%s:%d: %s", (const char *)path, line, wrong);
	} else if (rule_count < USER_RULES) {
		rules[rule_count].rule.read = read_user;
		rules[rule_count++].said = *rule;
	}
}

int rules_user_load(const char *path, const char **why)
{
	char *text = user_file_read(path, USER_RULES_FILE, why);

	if (!text)
		return -errno;
	user_rules_parse(text, take_rule, (void *)path);
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
		if (strstr(kernel, rules[i].said.needle))
			return &rules[i].rule;
	return NULL;
}
