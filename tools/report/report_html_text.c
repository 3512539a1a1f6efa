/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers' text in a page. A log may hold anything: names that look like markup, escape
 * sequences, half characters.
 */
#include "tools/report/report_html.h"
#include "tools/base/safe_text.h"

#include <math.h>
#include <string.h>

static const char *entity(unsigned char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

void html_text(FILE *out, const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);

		if (!harmless)
			fputs("\xef\xbf\xbd", out);
		else if (entity((unsigned char)*text))
			fputs(entity((unsigned char)*text), out);
		else
			fwrite(text, 1, length, out);
		text += length;
	}
}

void html_series(FILE *out, const struct series *series)
{
	double deviation = series_deviation(series);

	if (!series->count)
		fputs("–", out);
	else if (isnan(deviation))
		fprintf(out, "%.1f", series->mean);
	else
		fprintf(out, "%.1f ± %.1f", series->mean, deviation);
}

char *html_site_id(const struct report_row *row, char *buffer, size_t size)
{
	snprintf(buffer, size, "site-%d-%u", row->run + 1, row->site->number);
	return buffer;
}

const char *html_verdict_class(const struct report_row *row)
{
	const char *verdict = report_verdict(row);

	if (!strcmp(verdict, "declined") || row->site->not_ok)
		return "bad";
	return !strcmp(verdict, "learning") ? "warning" : "good";
}
