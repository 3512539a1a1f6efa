/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers' text in a page. A log may hold anything: names that look like markup, escape
 * sequences, half characters.
 */
#include "report_html.h"

#include <math.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text`, 0 where there is none. */
static int character_length(const unsigned char *text)
{
	int length = *text < 0x80 ? 1 : *text < 0xc2 ? 0 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;

	if (*text > 0xf4 || (*text == 0xe0 && text[1] < 0xa0) ||
	    (*text == 0xed && text[1] > 0x9f) || (*text == 0xf0 && text[1] < 0x90) ||
	    (*text == 0xf4 && text[1] > 0x8f))
		return 0;
	for (int i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

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
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		int length = character_length(at);
		/* C0, DEL and, in two bytes, C1. */
		bool control = *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);

		if (!length || control)
			fputs("\xef\xbf\xbd", out);
		else if (entity(*at))
			fputs(entity(*at), out);
		else
			fwrite(at, 1, (size_t)length, out);
		at += length ? length : 1;
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
