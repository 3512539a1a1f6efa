/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions and order over the columns of report_columns.def.
 */
#include "tools/sites/report_select.h"
#include "tools/base/tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int report_select_site(struct report_selection *selection, const char *text)
{
	const char *number = strchr(text, ':');
	unsigned long long log = 0, site;
	char *end;

	if (number) {
		log = strtoull(text, &end, 10);
		if (end != number || !log || log > 1000000 || *text == '-')
			goto bad;
	}
	number = number ? number + 1 : text;
	site = strtoull(number, &end, 10);
	if (!site || *end || site > UINT32_MAX || *number == '-')
		goto bad;
	selection->log = (int)log;
	selection->site = (uint32_t)site;
	return 0;
bad:
	complain("'%s' is no site number (N, or LOG:N as in the table)", text);
	return -EINVAL;
}

/* The operator at the end of the key in `text`, or NULL. */
static const char *operator_in(const char *text, char *operation)
{
	static const char *const operators[] = {"!=", "<=", ">=", "=", "~", "<", ">"};
	const char *at = text + strcspn(text, "!<>=~");

	for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++) {
		if (strncmp(at, operators[i], strlen(operators[i])))
			continue;
		strcpy(operation, operators[i]);
		return at;
	}
	return NULL;
}

int report_select_filter(struct report_selection *selection, const char *text)
{
	struct report_condition *condition = &selection->conditions[selection->condition_count];
	const char *at;
	char key[40], *end;

	if (selection->condition_count == MOST_CONDITIONS) {
		complain("more than %d filters", MOST_CONDITIONS);
		return -EINVAL;
	}
	at = operator_in(text, condition->operation);
	if (!at || at == text) {
		complain("'%s' is no condition; for example dtype=f16, mask~bias, calls>=100",
			 text);
		return -EINVAL;
	}
	snprintf(key, sizeof(key), "%.*s", (int)(at - text), text);
	condition->column = report_column_find(key);
	if (!condition->column)
		return -EINVAL;
	condition->value = at + strlen(condition->operation);
	condition->number = strtod(condition->value, &end);
	if (condition->column->number &&
	    (!*condition->value || *end || *condition->operation == '~')) {
		complain("%s is a number; it takes =, !=, <, <=, > or >= and a number", key);
		return -EINVAL;
	}
	if (condition->column->text && strchr("<>", *condition->operation)) {
		complain("%s is text; it takes = or != (all of it), or ~ (a part)", key);
		return -EINVAL;
	}
	selection->condition_count++;
	return 0;
}

int report_select_sort(struct report_selection *selection, const char *text)
{
	bool opposite = *text == '-';

	selection->sort = report_column_find(text + opposite);
	if (!selection->sort)
		return -EINVAL;
	selection->ascending = (selection->sort->text != NULL) != opposite;
	return 0;
}

static bool fulfils(const struct report_condition *condition, const struct report_row *row)
{
	const char *text = condition->column->text ? condition->column->text(row) : NULL;
	double value = text ? 0 : condition->column->number(row);

	switch (*condition->operation) {
	case '~':
		return strcasestr(text, condition->value) != NULL;
	case '=':
		return text ? !strcasecmp(text, condition->value) : value == condition->number;
	case '!':
		return text ? strcasecmp(text, condition->value) != 0 : value != condition->number;
	case '<':
		return value < condition->number ||
		       (condition->operation[1] && value == condition->number);
	default:
		return value > condition->number ||
		       (condition->operation[1] && value == condition->number);
	}
}

bool report_selected(const struct report_selection *selection, const struct report_row *row)
{
	if (!selection)
		return true;
	if (selection->site && selection->site != row->site->number)
		return false;
	if (selection->log && selection->log != row->run + 1)
		return false;
	for (int i = 0; i < selection->condition_count; i++) {
		if (!fulfils(&selection->conditions[i], row))
			return false;
	}
	return true;
}

bool report_selects(const struct report_selection *selection)
{
	return selection && (selection->site || selection->condition_count);
}

/* Unknown values last whatever the direction; equals in the order of their gain. */
static int compare(const void *left, const void *right, void *context)
{
	const struct report_row *a = left, *b = right;
	const struct report_selection *selection = context;
	const struct report_column *column = selection->sort;
	int order;

	if (column->text) {
		const char *x = column->text(a), *y = column->text(b);

		if (!*x != !*y)
			return !*x ? 1 : -1;
		order = strcmp(x, y);
	} else {
		double x = column->number(a), y = column->number(b);

		if (!isnan(x) != !isnan(y))
			return isnan(x) ? 1 : -1;
		order = (x > y) - (x < y);
	}
	if (!order)
		return a->rank - b->rank;
	return selection->ascending ? order : -order;
}

void report_order(const struct report_selection *selection, struct report_row *rows, int count)
{
	struct report_selection order;

	if (!selection || !selection->sort)
		return;
	order = *selection;
	for (int i = 0; i < count; i++)
		rows[i].rank = i;
	qsort_r(rows, (size_t)count, sizeof(*rows), compare, &order);
}
