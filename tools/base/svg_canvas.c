/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of a chart, written as they come; a tenth of a unit is a fraction of a pixel.
 */
#include "tools/base/svg_canvas.h"

#include <math.h>

void svg_open(FILE *out, int height, const char *title)
{
	fprintf(out,
		"<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" "
		"xmlns=\"http://www.w3.org/2000/svg\"><title>%s</title>\n",
		SVG_WIDTH, height, title);
}

void svg_close(FILE *out)
{
	fputs("</svg>\n", out);
}

void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2)
{
	fprintf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
		class, x1, y1, x2, y2);
}

void svg_box(FILE *out, const char *class, double x, double y, double width, double height)
{
	fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
		class, x, y, fmax(width, 0), fmax(height, 0));
}

void svg_words(FILE *out, double x, double y, const char *anchor, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
		text);
}

const char *svg_error(char *buffer, size_t size, double value)
{
	snprintf(buffer, size, "%.1e", value);
	return buffer;
}

void svg_cover(double *low, double *high, double value)
{
	if (!(value > 1e-300 && value < 1e300))
		return;
	if (!(*low <= value))
		*low = value;
	if (!(*high >= value))
		*high = value;
}
