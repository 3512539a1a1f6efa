/* SPDX-License-Identifier: Apache-2.0
 *
 * The section of one site: what it is, where it is called from, and its four charts.
 */
#include "tools/report/report_html.h"
#include "tools/base/escaped.h"
#include "tools/report/report_svg.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The fragment name of a site: "site-1-3". Returns buffer. */
static char *site_id(const struct report_row *row, char *buffer, size_t size)
{
	snprintf(buffer, size, "site-%d-%u", row->run + 1, row->site->number);
	return buffer;
}

void html_site_link(FILE *out, const struct report *report, const struct report_row *row)
{
	const bool told = row - report->rows < HTML_SITES;
	char id[48], name[48];

	if (told)
		fprintf(out, "<a href=\"#%s\">", site_id(row, id, sizeof(id)));
	fprintf(out, "%s%s", report_site_name(report, row, name, sizeof(name)), told ? "</a>" : "");
}

const char *html_verdict_class(const struct report_row *row)
{
	const char *verdict = report_verdict(row);

	if (!strcmp(verdict, "declined") || row->site->not_ok)
		return "bad";
	return !strcmp(verdict, "learning") ? "warning" : "good";
}

/* A definition whose text comes from the log. */
static void define(FILE *out, const char *name, const char *text)
{
	if (*text)
		html_printf(out, "<dt>%s</dt><dd>%s</dd>\n", name, text);
}

static void heading(FILE *out, const struct report *report, const struct report_row *row)
{
	const json_t *record = row->site->record;
	char id[48], name[48], shape[160], verdict[160];

	html_printf(out,
		    "<section class=\"site\" id=\"%s\">\n<h3>Site %s %s %s <span "
		    "class=\"%s\">%s</span></h3>\n",
		    site_id(row, id, sizeof(id)), report_site_name(report, row, name, sizeof(name)),
		    report_shape(row, shape, sizeof(shape)), text_of(record, "dtype"),
		    html_verdict_class(row), report_judgement(row, verdict, sizeof(verdict)));
}

static void items(FILE *out, const json_t *list)
{
	const json_t *item;
	size_t index;

	json_array_foreach(list, index, item)
	{
		const char *text = json_string_value(item);

		html_printf(out, "<li>%s</li>", text ? text : "?");
	}
}

static void chain(FILE *out, const json_t *steps)
{
	if (!json_array_size(steps))
		return;
	fputs("<ol class=\"chain mono\">", out);
	items(out, steps);
	fputs("</ol>\n", out);
}

/* The innermost frame is always seen, a deep stack behind a click. */
static void frames(FILE *out, const char *title, bool open, const json_t *list)
{
	enum { SHORT = 6 };
	const char *innermost = json_string_value(json_array_get(list, 0));

	if (!json_array_size(list))
		return;
	html_printf(out, "<details%s><summary>%s <code>%s</code></summary><ol class=\"mono\">",
		    open && json_array_size(list) <= SHORT ? " open" : "", title,
		    innermost ? innermost : "?");
	items(out, list);
	fputs("</ol></details>\n", out);
}

static void charts(FILE *out, const struct report_row *row)
{
	static const struct {
		const char *title;
		bool (*draw)(FILE *out, const struct report_row *row);
	} drawings[] = {
		{"Where the GPU time went", svg_time},
		{"How far the samples' times lie from their median", svg_spread},
		{"Drift over the run: max |app − fused| / max |app|", svg_drift},
		{"RMS error against float64, sample by sample", svg_errors},
	};

	fputs("<div class=\"charts\">\n", out);
	for (size_t i = 0; i < sizeof(drawings) / sizeof(*drawings); i++) {
		char *text = NULL;
		size_t size = 0;
		FILE *chart = open_memstream(&text, &size);
		bool drawn = chart && drawings[i].draw(chart, row);

		if (chart)
			fclose(chart);
		if (drawn)
			fprintf(out, "<div><h4>%s</h4>\n%s</div>\n", drawings[i].title, text);
		free(text);
	}
	fputs("</div>\n", out);
}

static void speedup(FILE *out, const struct report_row *row)
{
	const struct bootstrap_interval *interval = &row->speedup;

	if (isnan(interval->ratio))
		return;
	fprintf(out, "<dt>speed-up</dt><dd>%.3g×", interval->ratio);
	if (!isnan(interval->low))
		fprintf(out, ", 95 %% interval %.4g to %.4g (%d bootstrap resamples)",
			interval->low, interval->high, BOOTSTRAP_RESAMPLES);
	else
		fprintf(out, "; fewer than %d timed samples give no interval", BOOTSTRAP_FEWEST);
	fputc(' ', out);
	svg_interval(out, row, fmin(0.8, fmin(interval->ratio, interval->low)),
		     fmax(1.25, fmax(interval->ratio, interval->high)));
	fputs("</dd>\n", out);
}

static void facts(FILE *out, const struct report_row *row)
{
	const struct site_log *site = row->site;
	char text[240];

	fputs("<dl>\n", out);
	snprintf(text, sizeof(text), "scale %g, softcap %g, mask %.100s",
		 number_of(site->record, "scale", NAN), number_of(site->record, "softcap", 0),
		 text_of(site->record, "mask"));
	define(out, "computes", site->record ? text : "");
	define(out, "kernel", text_of(site->record, "kernel"));
	define(out, "recognised by", text_of(site->record, "route"));
	define(out, "aliasing", text_of(site->record, "aliasing"));
	if (!strcmp(site->state, "declined"))
		define(out, "detail",
		       report_detail(site->reason, site->detail, text, sizeof(text)));
	if (site->counted)
		define(out, "calls", report_calls(row, text, sizeof(text)));
	for (int i = 0; i < KEPT_READERS && *site->read_by[i]; i++)
		define(out, "scores read by", site->read_by[i]);
	define(out, "one call of the app", report_parts(row, "µs", text, sizeof(text)));
	speedup(out, row);
	if (!isnan(site->max_rel))
		define(out, "worst drift", report_worst(row, text, sizeof(text)));
	if (site->references)
		fprintf(out,
			"<dt>float64</dt><dd>RMS error: app %.2e, fused %.2e; largest: app %.2e, "
			"fused %.2e (%llu samples)</dd>\n",
			sqrt(site->sum_app_rmse2 / (double)site->references),
			sqrt(site->sum_fused_rmse2 / (double)site->references), site->app_max,
			site->fused_max, (unsigned long long)site->references);
	fputs("</dl>\n", out);
}

void html_site(FILE *out, const struct report *report, const struct report_row *row)
{
	heading(out, report, row);
	chain(out, json_object_get(row->site->record, "chain"));
	charts(out, row);
	facts(out, row);
	frames(out, "Python", true, json_object_get(row->site->record, "python"));
	frames(out, "C stack", false, json_object_get(row->site->record, "stack"));
	fputs("</section>\n", out);
}
