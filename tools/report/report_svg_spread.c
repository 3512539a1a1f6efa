/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts of how values are spread: two histograms over one axis, the program's chain above the line
 * and the fused kernel below it.
 */
#include "tools/base/histogram.h"
#include "tools/base/svg_canvas.h"
#include "tools/report/report_svg.h"
#include "tools/sites/site_values.h"

#include <math.h>

enum { BINS = 48 };

/* ---- two histograms, one above and one below a line ---------------------------------------------
 */

struct mirror {
	struct histogram app, fused;
	const char *(*format)(char *buffer, size_t size, double value);
};

/* A share of the median as its distance from it. */
static const char *as_distance(char *buffer, size_t size, double value)
{
	const double percent = 100 * (value - 1);

	snprintf(buffer, size, fabs(percent) < 1000 ? "%+.1f %%" : "%+.2g %%", percent);
	return buffer;
}

static void bars(FILE *out, const char *class, const struct histogram *histogram, double base,
		 double height)
{
	double width = (double)(SVG_RIGHT - SVG_LEFT) / histogram->bins;

	for (int i = 0; i < histogram->bins; i++) {
		double tall = histogram->largest ? fabs(height) * (double)histogram->counts[i] /
							   (double)histogram->largest
						 : 0;

		if (histogram->counts[i])
			svg_box(out, class, SVG_LEFT + i * width + 0.5,
				height < 0 ? base + 1 : base - tall, width - 1, tall);
	}
}

/* The value a share of the way along the axis. */
static double axis_value(const struct histogram *histogram, double share)
{
	return histogram->logarithmic
		       ? histogram->low * pow(histogram->high / histogram->low, share)
		       : histogram->low + (histogram->high - histogram->low) * share;
}

static void write_mirror(FILE *out, const struct mirror *mirror, const char *title)
{
	static const char *const anchors[] = {"start", "middle", "end"};
	char text[32];

	svg_open(out, 136, title);
	bars(out, "app", &mirror->app, 58, 50);
	bars(out, "fused", &mirror->fused, 58, -50);
	svg_line(out, "axis", SVG_LEFT, 58.5, SVG_RIGHT, 58.5);
	svg_words(out, SVG_LEFT - 6, 50, "end", "app");
	svg_words(out, SVG_LEFT - 6, 76, "end", "fused");
	for (int i = 0; i < 3; i++) {
		double x = SVG_LEFT + (SVG_RIGHT - SVG_LEFT) * i / 2.0;

		svg_line(out, "tick", x, 112, x, 116);
		svg_words(out, x, 130, anchors[i],
			  mirror->format(text, sizeof(text), axis_value(&mirror->app, i / 2.0)));
	}
	svg_line(out, "axis", SVG_LEFT, 112, SVG_RIGHT, 112);
	svg_close(out);
}

/* Times are told as shares of their median, which differs too much between app and fused for one
 * axis. */
bool svg_spread(FILE *out, const struct report_row *row)
{
	struct mirror mirror = {.format = as_distance};
	struct site_values values;
	double low = 1, high = 1;
	char title[160];
	bool enough;

	site_values_read(&values, row);
	enough = values.timed >= BOOTSTRAP_FEWEST;
	for (size_t i = 0; i < values.timed; i++) {
		values.app[i] /= row->app_us;
		values.fused[i] /= row->fused_us;
		low = fmin(low, fmin(values.app[i], values.fused[i]));
		high = fmax(high, fmax(values.app[i], values.fused[i]));
	}
	if (enough) {
		mirror.app = mirror.fused = histogram_over(low, high, BINS, false);
		for (size_t i = 0; i < values.timed; i++) {
			histogram_add(&mirror.app, values.app[i]);
			histogram_add(&mirror.fused, values.fused[i]);
		}
		snprintf(title, sizeof(title),
			 "GPU times: app %.1f to %.1f µs, fused %.1f to %.1f µs", row->app.min,
			 row->app.max, row->fused.min, row->fused.max);
		write_mirror(out, &mirror, title);
	}
	site_values_free(&values);
	return enough;
}

/* ---- errors against float64 ---------------------------------------------------------------------
 */

bool svg_errors(FILE *out, const struct report_row *row)
{
	const struct sample_points *points = &row->site->points;
	double low = NAN, high = NAN, samples = (double)row->site->references;
	struct mirror mirror = {.format = svg_error};
	char title[160];

	for (size_t i = 0; i < points->count; i++) {
		svg_cover(&low, &high, points->points[i].app_rmse);
		svg_cover(&low, &high, points->points[i].fused_rmse);
	}
	if (isnan(low) || !row->site->references)
		return false;
	mirror.app = mirror.fused = histogram_over(low / 1.2, high * 1.2, BINS, true);
	for (size_t i = 0; i < points->count; i++) {
		histogram_add(&mirror.app, points->points[i].app_rmse);
		histogram_add(&mirror.fused, points->points[i].fused_rmse);
	}
	snprintf(title, sizeof(title),
		 "RMS error against float64: app %.2e, fused %.2e over %.0f samples",
		 sqrt(row->site->sum_app_rmse2 / samples),
		 sqrt(row->site->sum_fused_rmse2 / samples), samples);
	write_mirror(out, &mirror, title);
	return true;
}
