/* SPDX-License-Identifier: Apache-2.0
 *
 * The descent as a picture: steps from left to right, time on a logarithmic axis downwards, the L4
 * of 2025 and the GPU of this run as two lines, the references as levels. It brings its own colours
 * for light and dark.
 */
#include "tools/bench/ladder.h"
#include "tools/base/escaped.h"
#include "tools/base/html_text.h"
#include "tools/base/svg_canvas.h"
#include "tools/bench/document.h"

#include <math.h>

enum { STEP = 44, LEFT = 76, TOP = 56, PLOT = 320, BELOW = 170, RIGHT = 150, NARROWEST = 760 };

static const char style[] =
	"<style>\n"
	"svg{color-scheme:light dark;background:#fff;--text:#1c2430;--soft:#5b6675;--line:#d9dee5;"
	"--here:#2b7f8c;--l4:#c2703d}\n"
	"@media(prefers-color-scheme:dark){svg{background:#14181d;--text:#e4e8ee;--soft:#9aa5b3;"
	"--line:#343c47;--here:#58b7c4;--l4:#e39a68}}\n"
	"text{fill:var(--text);font:12px system-ui,sans-serif}.soft{fill:var(--soft)}"
	".title{font-size:15px;font-weight:600}\n"
	".grid{stroke:var(--line)}.level{stroke:var(--soft);stroke-dasharray:5 4}\n"
	".here{stroke:var(--here);fill:none;stroke-width:2.5}.l4{stroke:var(--l4);fill:none;"
	"stroke-width:2}\n"
	"circle.here{fill:var(--here)}circle.l4{fill:var(--l4)}circle.hoped{fill:none;"
	"stroke:var(--l4);stroke-width:1.5}\n"
	"</style>\n";

struct picture {
	FILE *out;
	const json_t *document;
	double low, high; /* of the axis: powers of ten */
	int width;
};

static double place_of(size_t step)
{
	return LEFT + STEP * ((double)step + 0.5);
}

static double height_of(const struct picture *picture, double us)
{
	return TOP + PLOT * log(picture->high / us) / log(picture->high / picture->low);
}

/* ---- axes ----------------------------------------------------------------------------------- */

static void cover(struct picture *picture, const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		svg_cover(&picture->low, &picture->high, bench_median(one, NULL));
		svg_cover(&picture->low, &picture->high, bench_number(one, "l4_us"));
	}
}

static void draw_axis(const struct picture *picture)
{
	for (double us = picture->low; us <= picture->high * 1.001; us *= 10) {
		const double y = height_of(picture, us);
		char text[32];

		snprintf(text, sizeof(text), "%g µs", us);
		svg_line(picture->out, "grid", LEFT, y, picture->width - RIGHT, y);
		svg_words(picture->out, LEFT - 8, y + 4, "end", text);
	}
}

static void draw_labels(const struct picture *picture, const json_t *steps)
{
	const json_t *step;
	size_t i;

	json_array_foreach(steps, i, step)
	{
		const double x = place_of(i) + 4, y = TOP + PLOT + 16;
		char label[96];

		html_printf(picture->out,
			    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" "
			    "transform=\"rotate(-50 %.1f %.1f)\">%s</text>\n",
			    x, y, x, y, ladder_step_label(step, label, sizeof(label)));
	}
}

/* ---- series --------------------------------------------------------------------------------- */

static double time_here(const json_t *step)
{
	return bench_median(step, NULL);
}

static double time_l4(const json_t *step)
{
	return bench_number(step, "l4_us");
}

static void draw_line(const struct picture *picture, const json_t *steps, const char *class,
		      double (*time)(const json_t *step))
{
	const json_t *step;
	size_t i;

	fprintf(picture->out, "<polyline class=\"%s\" points=\"", class);
	json_array_foreach(steps, i, step)
	{
		if (isfinite(time(step)))
			fprintf(picture->out, "%.1f,%.1f ", place_of(i),
				height_of(picture, time(step)));
	}
	fputs("\"/>\n", picture->out);
}

static void draw_dots(const struct picture *picture, const json_t *steps, const char *class,
		      double (*time)(const json_t *step))
{
	const json_t *step;
	size_t i;

	json_array_foreach(steps, i, step)
	{
		const bool hoped =
			time == time_l4 && json_is_true(json_object_get(step, "l4_hoped"));
		char label[96];

		if (!isfinite(time(step)))
			continue;
		html_printf(picture->out,
			    "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s: %.4g "
			    "µs%s</title></circle>\n",
			    hoped ? "hoped" : class, place_of(i), height_of(picture, time(step)),
			    ladder_step_label(step, label, sizeof(label)), time(step),
			    hoped ? ", hoped for" : "");
	}
}

enum { LEVELS = 8, WORDS_HEIGHT = 14 };

/* Where a level's name stands: beside it, or as far off as the names that are there demand. */
static double place_words(double y, const double *taken, int count)
{
	double words = y;

	for (int i = 0; i < count; i++)
		if (fabs(words - taken[i]) < WORDS_HEIGHT)
			words = taken[i] + (y < taken[i] ? -WORDS_HEIGHT : WORDS_HEIGHT);
	return words;
}

static void draw_levels(const struct picture *picture)
{
	const json_t *list = json_object_get(picture->document, "references"), *one;
	double taken[LEVELS];
	int count = 0;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const double us = bench_median(one, NULL), y = height_of(picture, us);

		if (!isfinite(us) || count == LEVELS)
			continue;
		taken[count] = place_words(y, taken, count);
		svg_line(picture->out, "level", LEFT, y, picture->width - RIGHT, y);
		html_printf(picture->out,
			    "<text class=\"soft\" x=\"%d\" y=\"%.1f\">%s %.3g µs</text>\n",
			    picture->width - RIGHT + 8, taken[count++] + 4, text_of(one, "name"),
			    us);
	}
}

static void draw_key(const struct picture *picture)
{
	const json_t *machine = json_object_get(picture->document, "machine");

	html_printf(picture->out,
		    "<text class=\"title\" x=\"%d\" y=\"22\">The ladder, %s"
		    "</text>\n<circle class=\"here\" cx=\"%d\" cy=\"38\" r=\"4\"/><text x=\"%d\" "
		    "y=\"42\">%s</text>\n<circle class=\"l4\" cx=\"%d\" cy=\"38\" r=\"4\"/><text "
		    "x=\"%d\" "
		    "y=\"42\">NVIDIA L4, 2025 (B1 H8 S512 D64)</text>\n"
		    "<circle class=\"hoped\" cx=\"%d\" cy=\"38\" r=\"4\"/><text x=\"%d\" "
		    "y=\"42\">hoped for there</text>\n",
		    LEFT, text_of(json_object_get(picture->document, "shape"), "text"), LEFT + 4,
		    LEFT + 14, text_of(machine, "gpu"), LEFT + 234, LEFT + 244, LEFT + 484,
		    LEFT + 494);
}

/* The steps to draw, for json_decref(): of several kernels of one number the first. */
static json_t *steps_of(const json_t *document)
{
	const json_t *all = json_object_get(document, "steps");
	json_t *steps = json_array(), *step;
	double last = NAN;
	size_t i;

	json_array_foreach(all, i, step)
	{
		if (bench_number(step, "number") != last)
			json_array_append(steps, step);
		last = bench_number(step, "number");
	}
	return steps;
}

void ladder_svg(const json_t *document, FILE *out)
{
	json_t *steps = steps_of(document);
	struct picture picture = {.out = out, .document = document, .low = NAN, .high = NAN};

	cover(&picture, steps);
	cover(&picture, json_object_get(document, "references"));
	picture.low = isnan(picture.low) ? 1 : pow(10, floor(log10(picture.low)));
	picture.high = isnan(picture.high) ? 10 : pow(10, floor(log10(picture.high)) + 1);
	picture.width = LEFT + STEP * (int)json_array_size(steps) + RIGHT;
	if (picture.width < NARROWEST)
		picture.width = NARROWEST;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"role=\"img\">\n<title>Time of each step of the ladder</title>\n%s",
		picture.width, TOP + PLOT + BELOW, picture.width, style);
	draw_key(&picture);
	draw_axis(&picture);
	draw_levels(&picture);
	draw_line(&picture, steps, "l4", time_l4);
	draw_line(&picture, steps, "here", time_here);
	draw_dots(&picture, steps, "l4", time_l4);
	draw_dots(&picture, steps, "here", time_here);
	draw_labels(&picture, steps);
	fputs("</svg>\n", out);
	json_decref(steps);
}
