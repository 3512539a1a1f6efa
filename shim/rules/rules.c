/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernel is read by whom. Facts about the parameter blocks were read off traces of
 * PyTorch 2.11; every reader checks what it relies on and says no when it does not hold, so that a
 * changed layout makes a kernel unknown, never misread.
 */
#include "shim/rules/rules.h"

#include <string.h>

#include "shim/rules/rule_reader.h"
#include "shim/rules/rules_user.h"
#include "shim/rules/shadow.h"

/* torch.scatter_() of one number of two or four bytes, which whole ones seldom are: ones where the
 * largest of some scores are, and what a model goes on with is the one or the other (GroupViT's
 * tokens). */
static bool picks;

static bool is_pick(const char *name)
{
	static const char fill[] = "_cuda_scatter_fill_internal_kernelI";
	static const char *const types[] = {"NS0_10OpaqueTypeILi2E", "NS0_10OpaqueTypeILi4E"};
	const char *at = strstr(name, fill);

	for (unsigned i = 0; at && i < sizeof(types) / sizeof(*types); i++)
		if (strncmp(at + strlen(fill), types[i], strlen(types[i])) == 0)
			return true;
	return false;
}

bool rules_picks(void)
{
	return picks;
}

void rules_bind(struct function *function)
{
	static const struct {
		struct kernel_rule rule;
		const char *needle;
	} layouts[] = {
#define LAYOUT(reader, needle) {{rule_read_##reader}, needle},
#include "shim/rules/kernel_rules.def"
#undef LAYOUT
	};

	function->rule = NULL;
	picks |= is_pick(function->name);
	if (!function->readable)
		return;
	function->rule = rules_user_find(function->name);
	if (function->rule)
		return;
	for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		const char *at = strstr(function->name, layouts[i].needle);

		if (at) {
			function->rule = rule_of_version(function, &layouts[i].rule);
			function->behind = at + strlen(layouts[i].needle);
			function->functor = rule_functor(&(struct reading){.function = function});
			return;
		}
	}
}

static bool read_with(const struct function *function, const struct op_launch *launch,
		      const unsigned char *params, struct access_list *list,
		      struct meaning *meaning)
{
	struct reading reading = {.function = function,
				  .launch = launch,
				  .params = params,
				  .behind = function->behind,
				  .list = list,
				  .meaning = meaning};

	memset(meaning, 0, sizeof(*meaning));
	meaning->role = ROLE_OPAQUE;
	if (!function->rule || !function->rule->read(&reading)) {
		memset(meaning, 0, sizeof(*meaning));
		if (list)
			list->count = 0;
		return false;
	}
	return true;
}

bool rules_access(const struct function *function, const struct op_launch *launch,
		  const unsigned char *params, struct access_list *list, struct meaning *meaning)
{
	struct meaning unwanted;

	return read_with(function, launch, params, list, meaning ? meaning : &unwanted);
}

void rules_meaning(const struct function *function, const struct op_launch *launch,
		   const unsigned char *params, struct meaning *meaning)
{
	read_with(function, launch, params, NULL, meaning);
}

void rules_meaning_seen(const struct sight *sight, struct meaning *meaning)
{
	if (sight->meaning)
		*meaning = *sight->meaning;
	else
		rules_meaning(sight->function, &sight->op->launch, sight->params, meaning);
}

const struct meaning *rules_meaning_at(const struct sight *sight, struct meaning *room)
{
	if (sight->meaning)
		return sight->meaning;
	rules_meaning(sight->function, &sight->op->launch, sight->params, room);
	return room;
}

static bool one_element(const struct meaning *meaning, const struct view *view)
{
	for (int d = 0; d < meaning->dims; d++)
		if (meaning->size[d] > 1 && view->stride[d])
			return false;
	return true;
}

void rules_settle_constant(struct meaning *meaning)
{
	const bool where = meaning->role == ROLE_WHERE, most = meaning->role == ROLE_MAXIMUM;
	const bool either = meaning->role == ROLE_MULTIPLY || most;

	if (!where && !either && meaning->role != ROLE_DIVIDE)
		return;
	for (int i = either ? 1 : 2; i < meaning->view_count; i++) {
		const struct view *view = &meaning->views[i];

		if (!one_element(meaning, view))
			continue;
		meaning->constant = -1;
		if (!shadow_number(view->base, view->dtype, &meaning->scalar))
			continue;
		meaning->constant = i;
		if (meaning->role == ROLE_DIVIDE)
			meaning->scalar = 1 / meaning->scalar;
		if (!where && !most)
			meaning->role = ROLE_SCALE;
		return;
	}
}

const char *rules_role_name(enum rule_role role)
{
	static const char *const names[] = {
#define ROLE(id, name) name,
#include "shim/rules/kernel_roles.def"
#undef ROLE
	};

	return names[role];
}
