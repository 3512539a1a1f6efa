/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one HTML file that needs nothing else: no network, no fonts, no script to be read.
 */
#include "tools/report/report_html.h"
#include "tools/base/escaped.h"
#include "tools/base/tool.h"
#include "tools/report/report_forms.h"
#include "tools/report/report_summary.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <stdlib.h>

static void head(FILE *out, const char *command)
{
	html_printf(out,
		    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		    "<meta name=\"generator\" content=\"fashim " FASHIM_VERSION "\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>fashim: %s"
		    "</title>\n<style>\n",
		    command);
	fputs(report_html_style, out);
	fputs("</style>\n</head>\n<body>\n", out);
}

static void tile(FILE *out, const char *number, const char *words, const char *class)
{
	fprintf(out, "<div class=\"tile\"><b class=\"%s\">%s</b>%s</div>\n", class, number, words);
}

static void tiles(FILE *out, const struct report_total *total)
{
	char number[64];

	fputs("<div class=\"tiles\">\n", out);
	if (total->simulated)
		tile(out, "–", "speed: not measured here", "");
	else if (total->replaced)
		tile(out, format_duration(number, sizeof(number), total->saved_us),
		     "of GPU time saved", total->saved_us > 0 ? "good" : "bad");
	else if (total->could_us > 0)
		tile(out, format_duration(number, sizeof(number), total->could_us),
		     "of GPU time could be saved", "good");
	if (total->replaced && !isnan(total->speedup)) {
		snprintf(number, sizeof(number), "%.2f×", total->speedup);
		tile(out, number, "as fast, the replaced calls", "");
	}
	snprintf(number, sizeof(number), "%llu of %llu", (unsigned long long)total->replaced_sites,
		 (unsigned long long)total->sites);
	tile(out, number, "sites replaced", "");
	if (!isnan(total->max_rel)) {
		snprintf(number, sizeof(number), "%.1e", total->max_rel);
		tile(out, number, "worst drift, of the largest output", "");
	}
	if (total->with_reference) {
		snprintf(number, sizeof(number), "%d of %d", total->fused_closer,
			 total->with_reference);
		tile(out, number, "sites as close or closer to float64", "");
	}
	fputs("</div>\n", out);
}

static void summary(FILE *out, const struct report *report)
{
	static const char *const classes[] = {[TONE_PLAIN] = "",
					      [TONE_GOOD] = "good",
					      [TONE_WARNING] = "warning",
					      [TONE_BAD] = "bad"};
	struct summary_line lines[SUMMARY_LINES];
	int count = report_summary(report, lines);

	fputs("<section id=\"summary\">\n<h2>Summary</h2>\n", out);
	tiles(out, &report->total);
	fputs("<dl>\n", out);
	for (int i = 0; i < count; i++) {
		html_printf(out, "<dt>%s</dt><dd class=\"%s\">%s</dd>\n", lines[i].name,
			    classes[lines[i].tone], lines[i].text);
	}
	fputs("</dl>\n</section>\n", out);
}

static void options(FILE *out, const struct run_log *run)
{
	json_t *values = json_object_get(run->header, "options"), *value;
	const char *name;

	html_printf(
		out,
		"<details><summary>Options and identity</summary><dl class=\"mono\">\n"
		"<dt>log</dt><dd>%s</dd>\n<dt>exe</dt><dd>%s</dd>\n<dt>GPU uuid</dt><dd>%s</dd>\n",
		run->path, text_of(run->header, "exe"), text_of(run->header, "uuid"));
	json_object_foreach(values, name, value)
	{
		const char *text = json_string_value(value);

		html_printf(out, "<dt>%s</dt><dd>%s</dd>\n", name, text ? text : "?");
	}
	fputs("</dl></details>\n", out);
}

static void identity(FILE *out, const struct report *report, int index)
{
	const struct run_log *run = report->set.runs[index];
	char device[256], duration[64];

	fputs("<p class=\"soft\">", out);
	if (report->set.count > 1)
		html_printf(out, "%d: %s: ", index + 1, run->path);
	html_printf(out, "%s, host %s, pid %.0f", report_device(run, device, sizeof(device)),
		    text_of(run->header, "host"), number_of(run->header, "pid", 0));
	if (json_is_number(json_object_get(run->header, "rank")))
		fprintf(out, ", rank %.0f", number_of(run->header, "rank", 0));
	html_printf(out, "; fashim %s, mode %s, started %s, %s%s</p>\n",
		    text_of(run->header, "fashim"), text_of(run->header, "mode"),
		    text_of(run->header, "start"), report_end(run),
		    report_after(run, duration, sizeof(duration)));
	options(out, run);
}

static void reason_sites(FILE *out, const struct report *report, const struct report_reason *reason)
{
	char detail[200];

	for (int i = 0; i < reason->row_count && i < HTML_LINKS; i++) {
		fputs(i ? ", " : reason->row_count > 1 ? "sites " : "site ", out);
		html_site_link(out, report, &report->rows[reason->rows[i]]);
	}
	if (reason->row_count > HTML_LINKS)
		fprintf(out, " and %d more", reason->row_count - HTML_LINKS);
	for (int i = 0; i < KEPT_DETAILS && *reason->details[i]; i++) {
		fputs(i || reason->row_count ? "<br>" : "", out);
		html_printf(
			out, "<span class=\"soft mono\">%s</span>",
			report_detail(reason->name, reason->details[i], detail, sizeof(detail)));
	}
}

static void reasons(FILE *out, const struct report *report)
{
	char number[32];

	if (!report->reason_count)
		return;
	fputs("<section id=\"not-replaced\">\n<h2>Not replaced, and why</h2>\n"
	      "<div class=\"scroll\"><table class=\"reasons\"><thead><tr><th "
	      "class=\"number\">calls</th>"
	      "<th>reason</th><th>what it means</th><th>what you can do</th>"
	      "<th>where</th></tr></thead>\n<tbody>\n",
	      out);
	for (int i = 0; i < report->reason_count; i++) {
		const struct report_reason *reason = &report->reasons[i];

		html_printf(out,
			    "<tr><td class=\"number\">%s</td><td><code>%s</code></td><td "
			    "class=\"wrap\">%s</td><td class=\"wrap\">%s</td><td class=\"wrap\">",
			    format_count(number, sizeof(number), reason->count), reason->name,
			    report_sentence(reason), reason->hint);
		reason_sites(out, report, reason);
		fputs("</td></tr>\n", out);
	}
	fputs("</tbody></table></div>\n</section>\n", out);
}

/* What of `all` sites is not on the page, and who tells it. */
static void beyond(FILE *out, int all, int shown, const char *what)
{
	if (all > shown)
		fprintf(out,
			"<p class=\"soft\">%s of the first %d of %d sites; <code>fashim report "
			"--format=csv</code> has all, <code>--sort</code> and "
			"<code>--filter</code> choose others.</p>\n",
			what, shown, all);
}

static void sites(FILE *out, const struct report *report)
{
	if (!report->row_count)
		return;
	fputs("<section id=\"sites\">\n<h2>Sites</h2>\n", out);
	html_table(out, report);
	beyond(out, report->row_count, HTML_ROWS, "Rows");
	fputs("<p class=\"soft\">App and fused: mean ± standard deviation of GPU times over the "
	      "samples",
	      out);
	if (report->total.warm_up_excluded)
		fputs(" but the first, where there are three or more", out);
	fputs(". Speed-up: ratio of the medians; the interval is a bootstrap's, "
	      "its dotted line is 1×. Max rel: of the "
	      "largest output. Closer to float64: whose RMS error is smaller (fused error / app "
	      "error).</p>\n</section>\n",
	      out);
}

void report_html(const struct report *report, FILE *out)
{
	char *command = report_command(report->set.runs[0]);

	head(out, command ? command : "report");
	html_printf(out, "<header>\n<h1>%s</h1>\n", command ? command : "report");
	for (int i = 0; i < report->set.count; i++)
		identity(out, report, i);
	fputs("</header>\n<main>\n", out);
	summary(out, report);
	sites(out, report);
	reasons(out, report);
	fputs("<section id=\"details\">\n<h2>Site by site</h2>\n"
	      "<p class=\"key soft\"><span><i class=\"app\"></i>the program's own chain</span>"
	      "<span><i class=\"fused\"></i>the fused kernel</span>"
	      "<span><i class=\"saved\"></i>saved</span></p>\n",
	      out);
	for (int i = 0; i < report->row_count && i < HTML_SITES; i++)
		html_site(out, report, &report->rows[i]);
	beyond(out, report->row_count, HTML_SITES, "Charts");
	fprintf(out,
		"</section>\n</main>\n<footer>Written by fashim " FASHIM_VERSION
		".</footer>\n<script>\n%s</script>\n</body>\n</html>\n",
		report_html_script);
	free(command);
}
