/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything known of one site: its chain, where it is called from, its times and drift, and its
 * samples one by one.
 */
#include "tools/report/report_page.h"
#include "tools/base/escaped.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"
#include "tools/sites/site_values.h"

#include <math.h>
#include <stdlib.h>

/* Up to `most` strings of a list, one a line, the first behind `name`. */
static void print_list(const struct page *page, const char *name, const json_t *list, size_t most)
{
	const json_t *entry;
	size_t index;

	json_array_foreach(list, index, entry)
	{
		const char *text = json_string_value(entry);

		if (index == most) {
			fprintf(page->out, "  %11s%zu more\n", "", json_array_size(list) - most);
			break;
		}
		line(page, index ? "" : name, text ? text : "?");
	}
}

static void print_sample(const struct page *page, const struct sample *sample, bool first)
{
	label(page, first ? "samples" : "");
	fprintf(page->out, "#%llu", (unsigned long long)sample->occurrence);
	if (!isnan(sample->app_us))
		fprintf(page->out, "  app %.1f %s", sample->app_us, page->micro);
	if (!isnan(sample->fused_us))
		fprintf(page->out, "  fused %.1f %s", sample->fused_us, page->micro);
	safe_printf(page->out, "  max abs %.1e  max rel %.1e  cosine %.6f  %s\n", sample->max_abs,
		    sample->max_rel, sample->cosine, sample->verdict);
}

static void print_samples(const struct page *page, const struct site_log *site)
{
	uint64_t count = site->kept_of, later;

	for (uint64_t i = 0; i < count && i < KEPT_SAMPLES; i++)
		print_sample(page, &site->kept[i], i == 0);
	if (count <= KEPT_SAMPLES)
		return;
	later = count - KEPT_SAMPLES < KEPT_SAMPLES ? count - KEPT_SAMPLES : KEPT_SAMPLES;
	if (count > 2 * KEPT_SAMPLES) {
		label(page, "");
		fprintf(page->out, "... %llu more ...\n",
			(unsigned long long)(count - 2 * KEPT_SAMPLES));
	}
	for (uint64_t i = count - later; i < count; i++)
		print_sample(page, &site->kept[KEPT_SAMPLES + (i - KEPT_SAMPLES) % KEPT_SAMPLES],
			     false);
}

static void print_other_ranks(const struct page *page, const struct site_log *site)
{
	if (site->samples == site->kept_of)
		return;
	label(page, "");
	fprintf(page->out, "%llu more in the logs of the other ranks\n",
		(unsigned long long)(site->samples - site->kept_of));
}

static void print_chain(const struct page *page, const json_t *chain)
{
	const json_t *entry;
	size_t index;

	label(page, "chain");
	json_array_foreach(chain, index, entry)
	{
		const char *text = json_string_value(entry);

		if (index)
			fprintf(page->out, " %s ", page->arrow);
		print_safe(page->out, text ? text : "?");
	}
	fputc('\n', page->out);
}

/* How many lie further from the quartiles than three times what lies between these. Sorts them. */
static int outliers(double *times, size_t count)
{
	double low, high, room;
	int found = 0;

	if (count < BOOTSTRAP_FEWEST)
		return 0;
	sort_values(times, count);
	low = times[count / 4];
	high = times[count - 1 - count / 4];
	room = 3 * (high - low);
	for (size_t i = 0; i < count; i++)
		found += times[i] < low - room || times[i] > high + room;
	return found;
}

static void print_range(const struct page *page, const char *name, const struct series *series,
			bool warm_up_excluded, int far_out)
{
	char text[64];

	if (!series->count)
		return;
	report_series(series, page->cells.plus_minus, "-", text, sizeof(text));
	label(page, name);
	fprintf(page->out, "%s %s, %.1f to %.1f, n = %llu%s", text, page->micro, series->min,
		series->max, (unsigned long long)series->count,
		warm_up_excluded ? ", the first left out" : "");
	if (far_out)
		fprintf(page->out, "; %d far out: was the GPU shared?", far_out);
	fputc('\n', page->out);
}

static void print_histogram(const struct page *page, const struct series *series,
			    const double *times, size_t count)
{
	enum { BINS = 40 };
	struct histogram histogram = histogram_over(series->min, series->max, BINS, false);

	if (count < BOOTSTRAP_FEWEST)
		return;
	for (size_t i = 0; i < count; i++)
		histogram_add(&histogram, times[i]);
	label(page, "");
	print_bars(page, &histogram);
	fputc('\n', page->out);
}

static void print_speedup(const struct page *page, const struct report_row *row, size_t count)
{
	const struct bootstrap_interval *speedup = &row->speedup;

	if (isnan(speedup->ratio))
		return;
	label(page, "speed-up");
	fprintf(page->out, "%.3g%s", speedup->ratio, page->cells.times);
	if (isnan(speedup->low))
		fprintf(page->out,
			"; an interval needs %d timed samples and there are %zu (FASHIM_SAMPLE=8 "
			"compares more often)\n",
			BOOTSTRAP_FEWEST, count);
	else
		fprintf(page->out, ", 95%% interval %.4g to %.4g (%d bootstrap resamples)\n",
			speedup->low, speedup->high, BOOTSTRAP_RESAMPLES);
}

static void print_parts(const struct page *page, const struct report_row *row)
{
	char text[120];

	if (*report_parts(row, page->micro, text, sizeof(text)))
		line(page, "", text);
}

static void print_times(const struct page *page, const struct report_row *row)
{
	struct site_values values;

	site_values_read(&values, row);
	print_range(page, "app", &row->app, row->warm_up_excluded,
		    outliers(values.app, values.timed));
	print_parts(page, row);
	print_histogram(page, &row->app, values.app, values.timed);
	print_range(page, "fused", &row->fused, row->warm_up_excluded,
		    outliers(values.fused, values.timed));
	print_histogram(page, &row->fused, values.fused, values.timed);
	print_speedup(page, row, values.timed);
	site_values_free(&values);
}

void print_site(const struct page *page, const struct report_row *row)
{
	const struct site_log *site = row->site;
	char number[32], shape[160], calls[240], worst[240];

	report_site_name(page->report, row, number, sizeof(number));
	report_shape(row, shape, sizeof(shape));
	fprintf(page->out, "\n%sSite %s%s %s ", ink(page, BOLD), number, plain(page), shape);
	safe_printf(page->out, "%s, scale %g, softcap %g, mask %s, kernel %s, recognised by %s\n",
		    text_of(site->record, "dtype"), number_of(site->record, "scale", NAN),
		    number_of(site->record, "softcap", 0), text_of(site->record, "mask"),
		    text_of(site->record, "kernel"), text_of(site->record, "route"));
	print_chain(page, json_object_get(site->record, "chain"));
	line(page, "aliasing", text_of(site->record, "aliasing"));
	print_list(page, "python", json_object_get(site->record, "python"), 32);
	print_list(page, "stack", json_object_get(site->record, "stack"), 32);
	label(page, "calls");
	print_safe(page->out, report_calls(row, calls, sizeof(calls)));
	fputc('\n', page->out);
	for (int i = 0; i < KEPT_READERS && *site->read_by[i]; i++)
		line(page, i ? "" : "read by", site->read_by[i]);
	print_times(page, row);
	if (!isnan(site->max_rel))
		line(page, "drift", report_worst(row, worst, sizeof(worst)));
	if (site->references) {
		label(page, "float64");
		fprintf(page->out,
			"RMS error: app %.2e, fused %.2e; largest: app %.2e, fused %.2e (%llu "
			"samples)\n",
			sqrt(site->sum_app_rmse2 / (double)site->references),
			sqrt(site->sum_fused_rmse2 / (double)site->references), site->app_max,
			site->fused_max, (unsigned long long)site->references);
	}
	if (site->kept) {
		print_samples(page, site);
		print_other_ranks(page, site);
	}
}
