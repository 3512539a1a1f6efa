/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one HTML file that needs nothing else: no network, no fonts, no script to be read.
 */
#include "tools/report/report_html.h"
#include "tools/base/tool.h"
#include "tools/report/report_forms.h"
#include "tools/report/report_summary.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <stdlib.h>

static void head(FILE *out, const char *command)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	      "<meta name=\"generator\" content=\"fashim " FASHIM_VERSION "\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>fashim: ",
	      out);
	html_text(out, command);
	fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", report_html_style);
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
		fprintf(out, "<dt>%s</dt><dd class=\"%s\">", lines[i].name, classes[lines[i].tone]);
		html_text(out, lines[i].text);
		fputs("</dd>\n", out);
	}
	fputs("</dl>\n</section>\n", out);
}

static void options(FILE *out, const struct run_log *run)
{
	json_t *values = json_object_get(run->header, "options"), *value;
	const char *name;

	fputs("<details><summary>Options and identity</summary><dl class=\"mono\">\n", out);
	fputs("<dt>log</dt><dd>", out);
	html_text(out, run->path);
	fputs("</dd>\n<dt>exe</dt><dd>", out);
	html_text(out, text_of(run->header, "exe"));
	fputs("</dd>\n<dt>GPU uuid</dt><dd>", out);
	html_text(out, text_of(run->header, "uuid"));
	fputs("</dd>\n", out);
	json_object_foreach(values, name, value)
	{
		const char *text = json_string_value(value);

		fputs("<dt>", out);
		html_text(out, name);
		fputs("</dt><dd>", out);
		html_text(out, text ? text : "?");
		fputs("</dd>\n", out);
	}
	fputs("</dl></details>\n", out);
}

static void identity(FILE *out, const struct report *report, int index)
{
	const struct run_log *run = report->set.runs[index];
	char device[256], duration[64];

	fputs("<p class=\"soft\">", out);
	if (report->set.count > 1) {
		fprintf(out, "%d: ", index + 1);
		html_text(out, run->path);
		fputs(": ", out);
	}
	html_text(out, report_device(run, device, sizeof(device)));
	fputs(", host ", out);
	html_text(out, text_of(run->header, "host"));
	fprintf(out, ", pid %.0f", number_of(run->header, "pid", 0));
	if (json_is_number(json_object_get(run->header, "rank")))
		fprintf(out, ", rank %.0f", number_of(run->header, "rank", 0));
	fputs("; fashim ", out);
	html_text(out, text_of(run->header, "fashim"));
	fputs(", mode ", out);
	html_text(out, text_of(run->header, "mode"));
	fputs(", started ", out);
	html_text(out, text_of(run->header, "start"));
	fprintf(out, ", %s%s", report_end(run), report_after(run, duration, sizeof(duration)));
	fputs("</p>\n", out);
	options(out, run);
}

static void reason_sites(FILE *out, const struct report *report, const struct report_reason *reason)
{
	char detail[200];

	for (int i = 0; i < reason->row_count && i < HTML_LINKS; i++) {
		fputs(i ? ", " : "", out);
		html_site_link(out, report, &report->rows[reason->rows[i]]);
	}
	if (reason->row_count > HTML_LINKS)
		fprintf(out, " and %d more", reason->row_count - HTML_LINKS);
	for (int i = 0; i < KEPT_DETAILS && *reason->details[i]; i++) {
		fputs(i || reason->row_count ? "<br>" : "", out);
		fputs("<span class=\"soft mono\">", out);
		html_text(out,
			  report_detail(reason->name, reason->details[i], detail, sizeof(detail)));
		fputs("</span>", out);
	}
}

static void reasons(FILE *out, const struct report *report)
{
	char number[32];

	if (!report->reason_count)
		return;
	fputs("<section id=\"not-replaced\">\n<h2>Not replaced, and why</h2>\n"
	      "<div class=\"scroll\"><table><thead><tr><th class=\"number\">calls</th>"
	      "<th>reason</th><th>what it means</th><th>what you can do</th>"
	      "<th>where</th></tr></thead>\n<tbody>\n",
	      out);
	for (int i = 0; i < report->reason_count; i++) {
		const struct report_reason *reason = &report->reasons[i];

		fprintf(out, "<tr><td class=\"number\">%s</td><td><code>",
			format_count(number, sizeof(number), reason->count));
		html_text(out, reason->name);
		fputs("</code></td><td class=\"wrap\">", out);
		html_text(out, report_sentence(reason));
		fputs("</td><td class=\"wrap\">", out);
		html_text(out, reason->hint);
		fputs("</td><td class=\"wrap\">", out);
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
	fputs(". Speed-up: ratio of the medians; the interval is a bootstrap's. Max rel: of the "
	      "largest output. Closer to float64: whose RMS error is smaller (fused error / app "
	      "error).</p>\n</section>\n",
	      out);
}

void report_html(const struct report *report, FILE *out)
{
	char *command = report_command(report->set.runs[0]);

	head(out, command ? command : "report");
	fputs("<header>\n<h1>", out);
	html_text(out, command ? command : "report");
	fputs("</h1>\n", out);
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
