/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts of one site: where the time went, the speed-up, the drift over the run.
 */
#include "tools/report/report_svg.h"
#include "tools/base/svg_canvas.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"

#include <math.h>

/* ---- where the time went ------------------------------------------------------------------------
 */

/* For the longest name of a part, and for the time behind a bar: the longest bar leaves it room. */
enum { NAME_ROOM = 68, TIME_ROOM = 60, BAR_ROOM = SVG_RIGHT - SVG_LEFT - TIME_ROOM };

/* One part of a bar; how far it is from SVG_LEFT where it ends. */
static double part(FILE *out, const char *class, double from, double us, double scale, double y)
{
	if (us > 0)
		svg_box(out, class, SVG_LEFT + from, y, us * scale, 16);
	return us > 0 ? from + us * scale : from;
}

/* The time behind a bar that ends there. */
static void bar_time(FILE *out, double end, double y, double us)
{
	char duration[32];

	format_duration(duration, sizeof(duration), us);
	svg_words(out, SVG_LEFT + end + 6, y + 12.5, "start", duration);
}

/* The app's bar, in the parts that the log tells of, those with room for it named. Where it ends.
 */
static double app_parts(FILE *out, const struct report_row *row, double scale, double y)
{
	static const char *const classes[] = {"app part", "app part between", "app part softmax",
					      "app part"};
	double us[PART_COUNT], sum = 0, end = 0, next;

	if (!site_parts(row->site, us))
		return part(out, "app", 0, row->app_us, scale, y);
	for (int i = 0; i < PART_COUNT; i++)
		sum += us[i];
	for (int i = 0; i < PART_COUNT; i++, end = next) {
		next = part(out, classes[i], end, us[i] / sum * row->app_us, scale, y);
		if (next - end > NAME_ROOM)
			fprintf(out, "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
				SVG_LEFT + end + 4, y + 12.5, chain_part_names[i]);
	}
	return end;
}

static void one_call(FILE *out, const struct report_row *row)
{
	double app = row->app_us, fused = row->fused_us;
	double scale = BAR_ROOM / fmax(app, fused);

	svg_words(out, 0, 14, "start", "one call");
	svg_words(out, SVG_LEFT - 6, 34, "end", "app");
	bar_time(out, app_parts(out, row, scale, 21.5), 21.5, app);
	svg_words(out, SVG_LEFT - 6, 56, "end", "fused");
	bar_time(out, part(out, "fused", 0, fused, scale, 43.5), 43.5, fused);
}

static void all_calls(FILE *out, const struct report_row *row)
{
	const struct site_counters *calls = &row->site->counters;
	double left_alone = (double)(calls->seen - calls->replaced) * row->app_us;
	double scale = BAR_ROOM / fmax(row->before_us, row->after_us), end;

	svg_words(out, 0, 84, "start", "all calls");
	svg_words(out, SVG_LEFT - 6, 104, "end", "without");
	bar_time(out, part(out, "app", 0, row->before_us, scale, 91.5), 91.5, row->before_us);
	svg_words(out, SVG_LEFT - 6, 126, "end", "with");
	end = part(out, "app", 0, left_alone, scale, 113.5);
	end = part(out, "fused", end, row->after_us - left_alone, scale, 113.5);
	if (row->before_us > row->after_us)
		end = part(out, "saved", end, row->before_us - row->after_us, scale, 113.5);
	bar_time(out, end, 113.5, row->after_us);
}

bool svg_time(FILE *out, const struct report_row *row)
{
	bool all = row->before_us > 0 && isfinite(row->before_us + row->after_us);
	char title[160];

	if (!(row->app_us > 0) || !isfinite(row->app_us + row->fused_us))
		return false;
	snprintf(title, sizeof(title), "One call: app %.1f µs, fused %.1f µs (medians of %llu)",
		 row->app_us, row->fused_us, (unsigned long long)row->app.count);
	svg_open(out, all ? 136 : 66, title);
	one_call(out, row);
	if (all)
		all_calls(out, row);
	svg_close(out);
	return true;
}

/* ---- speed-up -----------------------------------------------------------------------------------
 */

/* Where a speed-up lies along the 120 units of the small chart. */
static double interval_place(double speedup, double low, double high)
{
	return 4 + 112 * fmin(fmax(log(speedup / low) / log(high / low), 0), 1);
}

bool svg_interval(FILE *out, const struct report_row *row, double low, double high)
{
	const struct bootstrap_interval *speedup = &row->speedup;
	double one = interval_place(1, low, high);

	if (!(speedup->ratio > 0) || !isfinite(speedup->ratio))
		return false;
	fprintf(out,
		"<svg class=\"interval\" viewBox=\"0 0 120 16\" role=\"img\" "
		"xmlns=\"http://www.w3.org/2000/svg\"><title>%.3g×",
		speedup->ratio);
	if (!isnan(speedup->low))
		fprintf(out, ", 95 %% interval %.4g to %.4g", speedup->low, speedup->high);
	fputs("</title>\n", out);
	svg_line(out, "one", one, 0, one, 16);
	if (!isnan(speedup->low))
		svg_line(out, "range", interval_place(speedup->low, low, high), 8,
			 interval_place(speedup->high, low, high), 8);
	fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"8\" r=\"3.5\"/>\n</svg>",
		speedup->ratio >= 1 ? "fused" : "slower",
		interval_place(speedup->ratio, low, high));
	return true;
}

/* ---- drift over the run -------------------------------------------------------------------------
 */

/* Where a value lies between TOP and BOTTOM of the plot on a logarithmic axis. */
enum { TOP = 10, BOTTOM = 108 };

static double height_of(double value, double low, double high)
{
	double share = value > 0 ? log(value / low) / log(high / low) : 0;

	return BOTTOM - (BOTTOM - TOP) * fmin(fmax(share, 0), 1);
}

static void drift_axes(FILE *out, double low, double high, uint64_t first, uint64_t last)
{
	char text[32];

	for (int i = 0; i < 3; i++) {
		double y = BOTTOM - (BOTTOM - TOP) * i / 2.0;

		svg_line(out, i ? "grid" : "axis", SVG_LEFT, y, SVG_RIGHT, y);
		svg_words(out, SVG_LEFT - 6, y + 4, "end",
			  svg_error(text, sizeof(text), low * pow(high / low, i / 2.0)));
	}
	snprintf(text, sizeof(text), "call %llu", (unsigned long long)first);
	svg_words(out, SVG_LEFT, 126, "start", text);
	if (last > first) {
		snprintf(text, sizeof(text), "call %llu", (unsigned long long)last);
		svg_words(out, SVG_RIGHT, 126, "end", text);
	}
}

/* One dot for each step along the axis: the largest of what falls on it. */
static void drift_dots(FILE *out, const struct sample_points *points, double low, double high,
		       uint64_t first, uint64_t last)
{
	enum { STEPS = (SVG_RIGHT - SVG_LEFT) / 2 };
	double largest[STEPS + 1];

	for (int i = 0; i <= STEPS; i++)
		largest[i] = NAN;
	for (size_t i = 0; i < points->count; i++) {
		const struct sample_point *point = &points->points[i];
		double span = last > first ? (double)(last - first) : 1;
		int step = (int)((double)(point->occurrence - first) / span * STEPS);

		largest[step] = fmax(largest[step], point->max_rel);
	}
	for (int i = 0; i <= STEPS; i++) {
		if (!isnan(largest[i]))
			fprintf(out, "<circle class=\"drift\" cx=\"%d\" cy=\"%.1f\" r=\"2.5\"/>\n",
				SVG_LEFT + 2 * i, height_of(largest[i], low, high));
	}
}

bool svg_drift(FILE *out, const struct report_row *row)
{
	const struct sample_points *points = &row->site->points;
	uint64_t first = UINT64_MAX, last = 0;
	double low = NAN, high = NAN;
	char title[160];

	for (size_t i = 0; i < points->count; i++) {
		const struct sample_point *point = &points->points[i];

		svg_cover(&low, &high, point->max_rel);
		first = point->occurrence < first ? point->occurrence : first;
		last = point->occurrence > last ? point->occurrence : last;
	}
	if (isnan(low))
		return false;
	snprintf(title, sizeof(title),
		 "Largest difference of each comparison, of the largest output: %.1e to %.1e", low,
		 high);
	low /= 2;
	high *= 2;
	svg_open(out, 134, title);
	drift_axes(out, low, high, first, last);
	drift_dots(out, points, low, high, first, last);
	svg_close(out);
	return true;
}
