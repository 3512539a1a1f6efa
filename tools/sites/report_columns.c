/* SPDX-License-Identifier: Apache-2.0
 *
 * Every row of report_columns.def becomes a small function and a table entry.
 */
#include "tools/sites/report_columns.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <string.h>

static double counted(const struct site_log *site, uint64_t value)
{
	return site->counted ? (double)value : NAN;
}

static double mean_of(const struct series *series)
{
	return series->count ? series->mean : NAN;
}

static double reference_error(const struct site_log *site, double sum)
{
	return site->references ? sqrt(sum / (double)site->references) : NAN;
}

static const char *first_of(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_array_get(json_object_get(record, key), 0));

	return text ? text : "";
}

#define GETTER(type, key, expression)                                                              \
	static type get_##key(const struct report_row *row)                                        \
	{                                                                                          \
		const struct site_log *site = row->site;                                           \
		const json_t *record = site->record;                                               \
                                                                                                   \
		(void)record;                                                                      \
		return (type)(expression);                                                         \
	}
#define NUMBER(key, expression, doc) GETTER(double, key, expression)
#define TEXT(key, expression, doc)   GETTER(const char *, key, expression)
#include "tools/sites/report_columns.def"
#undef NUMBER
#undef TEXT

const struct report_column report_columns[] = {
#define NUMBER(key, expression, doc) {#key, doc, get_##key, NULL},
#define TEXT(key, expression, doc)   {#key, doc, NULL, get_##key},
#include "tools/sites/report_columns.def"
#undef NUMBER
#undef TEXT
};

enum { COLUMNS = sizeof(report_columns) / sizeof(*report_columns) };

const int report_column_count = COLUMNS;

const struct report_column *report_column_find(const char *key)
{
	const char *keys[COLUMNS], *near;

	for (int i = 0; i < COLUMNS; i++) {
		keys[i] = report_columns[i].key;
		if (!strcmp(keys[i], key))
			return &report_columns[i];
	}
	near = did_you_mean(key, keys, COLUMNS);
	if (near)
		complain("no column '%s'; did you mean '%s'?", key, near);
	else
		complain("no column '%s'; 'fashim report --help' lists them", key);
	return NULL;
}
