/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything known of one site: its chain, where it is called from, its times and drift, and its
 * samples one by one.
 */
#include "report_page.h"
#include "tool.h"

#include <math.h>

/* Up to `most` strings of a list, one a line, the first behind `name`. */
static void print_list(const struct page *page, const char *name, const json_t *list, size_t most)
{
	const json_t *entry;
	size_t index;

	json_array_foreach(list, index, entry)
	{
		const char *text = json_string_value(entry);

		if (index == most) {
			printf("  %11s%zu more\n", "", json_array_size(list) - most);
			break;
		}
		label(page, index ? "" : name);
		print_safe(stdout, text ? text : "?");
		putchar('\n');
	}
}

static void print_sample(const struct page *page, const struct sample *sample, bool first)
{
	label(page, first ? "samples" : "");
	printf("#%llu", (unsigned long long)sample->occurrence);
	if (!isnan(sample->app_us))
		printf("  app %.1f %s", sample->app_us, page->micro);
	if (!isnan(sample->fused_us))
		printf("  fused %.1f %s", sample->fused_us, page->micro);
	printf("  max abs %.1e  max rel %.1e  cosine %.6f  ", sample->max_abs, sample->max_rel,
	       sample->cosine);
	print_safe(stdout, sample->verdict);
	putchar('\n');
}

static void print_samples(const struct page *page, const struct site_log *site)
{
	uint64_t count = site->samples, later;

	for (uint64_t i = 0; i < count && i < KEPT_SAMPLES; i++)
		print_sample(page, &site->kept[i], i == 0);
	if (count <= KEPT_SAMPLES)
		return;
	later = count - KEPT_SAMPLES < KEPT_SAMPLES ? count - KEPT_SAMPLES : KEPT_SAMPLES;
	if (count > 2 * KEPT_SAMPLES) {
		label(page, "");
		printf("... %llu more ...\n", (unsigned long long)(count - 2 * KEPT_SAMPLES));
	}
	for (uint64_t i = count - later; i < count; i++)
		print_sample(page, &site->kept[KEPT_SAMPLES + (i - KEPT_SAMPLES) % KEPT_SAMPLES],
			     false);
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
			printf(" %s ", page->arrow);
		print_safe(stdout, text ? text : "?");
	}
	putchar('\n');
}

static void print_range(const struct page *page, const char *name, const struct series *series,
			bool warm_up_excluded)
{
	char text[64];

	if (!series->count)
		return;
	series_text(page, text, sizeof(text), series);
	label(page, name);
	printf("%s %s, %.1f to %.1f, n = %llu%s\n", text, page->micro, series->min, series->max,
	       (unsigned long long)series->count, warm_up_excluded ? ", the first left out" : "");
}

void print_site(const struct page *page, const struct report_row *row)
{
	const struct site_log *site = row->site;
	const struct sample *worst = &site->worst;
	char number[32], shape[160];

	site_text(page, number, sizeof(number), row);
	shape_text(shape, sizeof(shape), site);
	printf("\n%sSite %s%s %s ", ink(page, BOLD), number, plain(page), shape);
	print_safe(stdout, text_of(site->record, "dtype"));
	printf(", scale %g, softcap %g, mask ", number_of(site->record, "scale", NAN),
	       number_of(site->record, "softcap", 0));
	print_safe(stdout, text_of(site->record, "mask"));
	fputs(", kernel ", stdout);
	print_safe(stdout, text_of(site->record, "kernel"));
	fputs(", recognised by ", stdout);
	print_safe(stdout, text_of(site->record, "route"));
	putchar('\n');
	print_chain(page, json_object_get(site->record, "chain"));
	label(page, "aliasing");
	print_safe(stdout, text_of(site->record, "aliasing"));
	putchar('\n');
	print_list(page, "python", json_object_get(site->record, "python"), 32);
	print_list(page, "stack", json_object_get(site->record, "stack"), 32);
	label(page, "calls");
	printf("%llu seen, %llu replaced, %llu compared, %llu left alone, %llu materialised, "
	       "%llu snapshots\n",
	       (unsigned long long)site->counters.seen, (unsigned long long)site->counters.replaced,
	       (unsigned long long)site->counters.compared,
	       (unsigned long long)site->counters.passed,
	       (unsigned long long)site->counters.materialised,
	       (unsigned long long)site->counters.snapshots);
	for (int i = 0; i < KEPT_READERS && *site->read_by[i]; i++) {
		label(page, i ? "" : "read by");
		print_safe(stdout, site->read_by[i]);
		putchar('\n');
	}
	print_range(page, "app", &row->app, row->warm_up_excluded);
	print_range(page, "fused", &row->fused, row->warm_up_excluded);
	if (!isnan(site->max_rel)) {
		label(page, "drift");
		printf("worst element %.0f of call %llu: app %.6g, fused %.6g; at most %.2g%% of "
		       "the "
		       "elements outside the tolerance\n",
		       worst->worst_index, (unsigned long long)worst->occurrence, worst->worst_app,
		       worst->worst_fused, 100 * site->beyond);
	}
	if (site->references) {
		label(page, "float64");
		printf("RMS error: app %.2e, fused %.2e; largest: app %.2e, fused %.2e (%llu "
		       "samples)\n",
		       sqrt(site->sum_app_rmse2 / (double)site->references),
		       sqrt(site->sum_fused_rmse2 / (double)site->references), site->app_max,
		       site->fused_max, (unsigned long long)site->references);
	}
	if (site->kept)
		print_samples(page, site);
}
