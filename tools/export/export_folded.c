/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim export --format=folded: a line a path, "program;caller;…;site;part COUNT", outermost frame
 * first, as flame graph programs read them. The parts of a site are the program's own chain, for
 * the calls that ran it, and the fused kernel, for those that ran that (compared calls ran both).
 */
#include "tools/export/export.h"
#include "tools/base/safe_text.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"
#include "tools/sites/site_values.h"

#include <errno.h>
#include <stdlib.h>

static int folded_open(struct export *export)
{
	(void)export;
	return 0;
}

/* Frames are separated by ';' and end at the last blank of the line. */
static void put_frame(FILE *out, const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);

		if (!harmless || *text == ';')
			fputc(harmless ? ',' : '?', out);
		else
			fwrite(text, 1, length, out);
		text += length;
	}
}

static void put_path(FILE *out, const struct run_log *run, const struct site_log *site)
{
	const json_t *frames = json_object_get(site->record, "python");
	char *command = report_command(run), title[300];

	put_frame(out, command ? command : "?");
	free(command);
	if (!json_array_size(frames))
		frames = json_object_get(site->record, "stack");
	for (size_t i = json_array_size(frames); i > 0; i--) {
		const char *frame = json_string_value(json_array_get(frames, i - 1));

		fputc(';', out);
		put_frame(out, frame ? frame : "?");
	}
	fputc(';', out);
	put_frame(out, site_title(site, title, sizeof(title)));
}

/* What a call of the part weighs: its mean time in us, or one. */
static double weight_of(const struct export *export, const struct series *series)
{
	if (export->weight == EXPORT_CALLS)
		return 1;
	return series->count ? series->mean : 0;
}

/* How often the site's two parts ran. */
static void count_calls(const struct site_log *site, double *app, double *fused)
{
	const struct site_counters *counters = &site->counters;

	if (site->counted) {
		*app = (double)(counters->seen - counters->replaced);
		*fused = (double)(counters->replaced + counters->compared);
	} else {
		*app = *fused = (double)(site->app.count + site->first_app.count);
	}
}

/* Whether anything of the site weighs something. */
static bool put_site(FILE *out, const struct export *export, const struct run_log *run,
		     const struct site_log *site)
{
	struct series app, fused;
	double app_calls, fused_calls;

	site_times(site, &app, &fused);
	count_calls(site, &app_calls, &fused_calls);
	const struct {
		const char *name, *detail;
		double weight;
	} parts[] = {
		{"app", "", app_calls * weight_of(export, &app)},
		{"fused", text_of(site->record, "kernel"), fused_calls * weight_of(export, &fused)},
	};
	bool any = false;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (!(parts[i].weight >= 0.5 && parts[i].weight < 9e18))
			continue;
		put_path(out, run, site);
		fprintf(out, ";%s%s", parts[i].name, *parts[i].detail ? " " : "");
		put_frame(out, parts[i].detail);
		fprintf(out, " %lld\n", llround(parts[i].weight));
		any = true;
	}
	return any;
}

static int folded_write(struct export *export)
{
	FILE *out = export_stream(export);
	int without = 0, result;

	if (!out)
		return -EIO;
	for (int r = 0; r < export->set.count; r++) {
		const struct run_log *run = export->set.runs[r];

		for (uint32_t i = 0; i < run->site_count; i++) {
			if (run->sites[i])
				without += !put_site(out, export, run, run->sites[i]);
		}
	}
	result = export_stream_close(export, out);
	if (!result && without)
		complain("%d site%s without %s left out", without, without == 1 ? "" : "s",
			 export->weight == EXPORT_CALLS ? "counted calls"
							: "a measured time (--weight=calls)");
	return result;
}

static void folded_close(struct export *export)
{
	(void)export;
}

const struct export_form export_folded = {
	.name = "folded",
	.alias = "flame",
	.open = folded_open,
	.write = folded_write,
	.close = folded_close,
};
