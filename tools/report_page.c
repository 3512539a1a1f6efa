/* SPDX-License-Identifier: Apache-2.0
 *
 * Small pieces of text that every part of the report prints.
 */
#include "report_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ink(const struct page *page, const char *color)
{
	return page->color ? color : "";
}

const char *plain(const struct page *page)
{
	return page->color ? "\033[0m" : "";
}

void label(const struct page *page, const char *name)
{
	printf("  %s%-9s%s ", ink(page, DIM), name, plain(page));
}

void shape_text(char *buffer, size_t size, const struct site_log *site)
{
	static const char *const keys[] = {"B", "H", "Sq", "Sk", "D"};
	double Dv = number_of(site->record, "Dv", NAN);
	int used = snprintf(buffer, size, "[");

	if (!site->record) {
		snprintf(buffer, size, "?");
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		used += snprintf(buffer + used, size - (size_t)used, "%s%.0f", i ? "," : "",
				 fmin(fabs(number_of(site->record, keys[i], 0)), 1e15));
	if (!isnan(Dv) && Dv != number_of(site->record, "D", 0))
		used += snprintf(buffer + used, size - (size_t)used, "/%.0f", fmin(fabs(Dv), 1e15));
	snprintf(buffer + used, size - (size_t)used, "]");
}

void site_text(const struct page *page, char *buffer, size_t size, const struct report_row *row)
{
	if (page->report->set.count > 1)
		snprintf(buffer, size, "%d:%u", row->run + 1, row->site->number);
	else
		snprintf(buffer, size, "%u", row->site->number);
}

void series_text(const struct page *page, char *buffer, size_t size, const struct series *series)
{
	double deviation = series_deviation(series);

	if (!series->count)
		snprintf(buffer, size, "-");
	else if (isnan(deviation))
		snprintf(buffer, size, "%.1f", series->mean);
	else
		snprintf(buffer, size, "%.1f %s %.1f", series->mean, page->plus_minus, deviation);
}
