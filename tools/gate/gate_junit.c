/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim gate as the XML that build servers take for test results: a log is a suite, a check a
 * case.
 */
#include "tools/gate/gate.h"
#include "tools/base/safe_text.h"

#include <math.h>
#include <stdio.h>

static const char *entity(char c)
{
	return c == '&'	  ? "&amp;"
	       : c == '<' ? "&lt;"
	       : c == '>' ? "&gt;"
	       : c == '"' ? "&quot;"
			  : NULL;
}

/* Text as the value of an attribute; XML 1.0 has no way to write most control characters. */
static void put_text(const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);

		if (!harmless)
			putchar('?');
		else if (entity(*text))
			fputs(entity(*text), stdout);
		else
			fwrite(text, 1, length, stdout);
		text += length;
	}
}

/* "site 1 [8,12,512,512,64] f16, mask none" */
static void put_name(const struct gate *gate, const struct gate_check *check)
{
	char site[32], title[300];

	if (gate_site(gate, check, site, sizeof(site)))
		printf("site %s ", site);
	put_text(gate_title(check, title, sizeof(title)));
}

static void put_measured(const struct gate_check *check)
{
	const struct bootstrap_interval *measured = &check->measured;

	if (isnan(measured->ratio))
		return;
	printf("measured %.6g", measured->ratio);
	if (!isnan(measured->low))
		printf(" [%.6g, %.6g]", measured->low, measured->high);
	if (!isnan(check->limit))
		printf(", limit %.6g", check->limit);
	fputs(": ", stdout);
}

static void put_case(const struct gate *gate, const struct gate_check *check)
{
	static const char *const elements[] = {NULL, "skipped", "failure"};
	const char *element = elements[check->verdict];

	printf("  <testcase classname=\"fashim.%s\" name=\"", check->name);
	put_name(gate, check);
	fputs(element ? "\">\n    <" : "\"", stdout);
	if (!element) {
		fputs("/>\n", stdout);
		return;
	}
	printf("%s message=\"", element);
	put_measured(check);
	put_text(check->why);
	fputs("\"/>\n  </testcase>\n", stdout);
}

void gate_junit(const struct gate *gate)
{
	printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	       "<testsuites>\n <testsuite name=\"fashim gate ");
	put_text(gate->report->set.runs[0]->path);
	printf("\" tests=\"%d\" failures=\"%d\" skipped=\"%d\" errors=\"0\">\n", gate->count,
	       gate->tally[GATE_FAIL], gate->tally[GATE_SKIP]);
	for (int i = 0; i < gate->count; i++)
		put_case(gate, &gate->checks[i]);
	fputs(" </testsuite>\n</testsuites>\n", stdout);
}
