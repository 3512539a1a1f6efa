/* SPDX-License-Identifier: Apache-2.0
 *
 * The canvas that the charts of the HTML report share: SVG_WIDTH units wide, a plot between
 * SVG_LEFT and SVG_RIGHT, text of 12 units. The page scales it to the width it has and colours it
 * by class.
 */
#ifndef FASHIM_SVG_CANVAS_H
#define FASHIM_SVG_CANVAS_H

#include <stddef.h>
#include <stdio.h>

enum { SVG_WIDTH = 440, SVG_LEFT = 64, SVG_RIGHT = 428 };

/* A chart of that height, up to svg_close(); the title is what it says to those who cannot see it.
 */
void svg_open(FILE *out, int height, const char *title);
void svg_close(FILE *out);

void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2);
void svg_box(FILE *out, const char *class, double x, double y, double width, double height);

/* anchor: start, middle or end. The text must hold no markup. */
void svg_words(FILE *out, double x, double y, const char *anchor, const char *text);

/* "1.2e-04", for an axis of errors. Returns buffer. */
const char *svg_error(char *buffer, size_t size, double value);

/* Widens the range [low, high], at first NAN, by an error; what no error can be is passed over. */
void svg_cover(double *low, double *high, double value);

#endif
