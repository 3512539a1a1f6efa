/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's own reader says what is wrong with a line; what is wrong with lines together, only
 * somebody who looks at the whole file can say.
 */
#include "tools/list/check_rules.h"
#include "tools/base/escaped.h"
#include "shim/base/user_file.h"
#include "shim/rules/user_rule.h"
#include "tools/base/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
	const char *path;
	int count, mistakes;
	struct {
		char needle[sizeof((struct user_rule *)0)->needle];
		int line;
	} rules[USER_RULES];
};

static void say(struct check *check, int line, const char *wrong)
{
	check->mistakes++;
	safe_printf(stdout, "%s:%d: %s\n", check->path, line, wrong);
}

/* The first rule of a kernel is the one that counts: whose needle holds an earlier one never
 * does. */
static void look_for_hidden(struct check *check, int line, const char *needle)
{
	char wrong[400];

	for (int i = 0; i < check->count; i++) {
		if (!strstr(needle, check->rules[i].needle))
			continue;
		snprintf(wrong, sizeof(wrong),
			 "never used: line %d takes all kernels with '%s'; put this line before it",
			 check->rules[i].line, check->rules[i].needle);
		if (!strcmp(needle, check->rules[i].needle))
			snprintf(wrong, sizeof(wrong),
				 "never used: line %d is for '%s', too; keep one of them",
				 check->rules[i].line, needle);
		say(check, line, wrong);
		return;
	}
}

static void take(void *to, int line, const struct user_rule *rule, const char *wrong)
{
	struct check *check = to;

	if (!rule) {
		say(check, line, wrong);
		return;
	}
	look_for_hidden(check, line, rule->needle);
	strcpy(check->rules[check->count].needle, rule->needle);
	check->rules[check->count++].line = line;
}

int check_rules(const char *path)
{
	struct check check = {.path = path};
	const char *why = "";
	char *text = user_file_read(path, USER_RULES_FILE, &why);

	if (!text) {
		const int error = errno ? errno : EIO;

		complain("%s: %s; the shim takes no rule of it", path, why);
		return -error;
	}
	user_rules_parse(text, take, &check);
	free(text);
	safe_printf(stdout, "%s: %d rule%s, ", path, check.count, check.count == 1 ? "" : "s");
	if (check.mistakes)
		printf("%d mistake%s\n", check.mistakes, check.mistakes == 1 ? "" : "s");
	else
		puts("no mistake");
	return check.mistakes;
}
