/* SPDX-License-Identifier: Apache-2.0
 *
 * The charts of the HTML report as inline SVG: one element each, coloured by the page's style sheet
 * so that they follow light and dark, with the numbers in a title for whoever cannot see them.
 */
#ifndef FASHIM_REPORT_SVG_H
#define FASHIM_REPORT_SVG_H

#include "tools/sites/report.h"

/* Each writes nothing and returns false where the log has not what it would show. */

/* Bars: one call of the program's chain and of the fused kernel, then all calls without and with
 * the shim. */
bool svg_time(FILE *out, const struct report_row *row);

/* The speed-up and its interval on a logarithmic axis [low, high] with a line at 1; small, for a
 * cell of the table. */
bool svg_interval(FILE *out, const struct report_row *row, double low, double high);

/* How far the samples' times lie from their median, app above and fused below the line. */
bool svg_spread(FILE *out, const struct report_row *row);

/* The largest relative difference of each comparison over the calls of the site. */
bool svg_drift(FILE *out, const struct report_row *row);

/* RMS errors against float64, sample by sample: app above, fused below the line. */
bool svg_errors(FILE *out, const struct report_row *row);

#endif
