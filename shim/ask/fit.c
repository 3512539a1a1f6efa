/* SPDX-License-Identifier: Apache-2.0
 *
 * ln P is the score but for a constant in each row, so that all fits are of differences from the
 * row's mean. Only numbers are used that no 16-bit type makes coarse.
 */
#include "shim/ask/fit.h"

#include <math.h>
#include <string.h>

#include "shim/base/elementary.h"
#include "shim/ask/fit_parts.h"

#define COLUMNS 96 /* of each row, at most, where every form is tried */
#define POINTS	(FIT_ROWS * COLUMNS)
#define FITS	0.995 /* of the variance explained: the form is right */
#define SAME	1e-6  /* of it */
#define TOO_FEW 32

/* ---- what was put in ------------------------------------------------------------------------- */

static unsigned hash_of(uint64_t element, uint64_t period, unsigned seed)
{
	uint32_t x = (uint32_t)(element % period) * 0x9e3779b1u + seed * 0x85ebca6bu;

	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return (x ^ x >> 16) & 127;
}

uint64_t content_period(const struct content *content)
{
	return content->kind == CONTENT_FLAGS ? FIT_FLAGS : FIT_PERIOD;
}

double content_value(const struct content *content, uint64_t element)
{
	const unsigned hash = hash_of(element, content_period(content), content->seed);

	switch (content->kind) {
	case CONTENT_HASH:
		return -(double)hash / 64 * power_of_two(content->exponent);
	case CONTENT_CENTERED:
		return ((double)hash / 64 - 1) * power_of_two(content->exponent);
	case CONTENT_STEPS:
		return hash % 2 ? content->low : 0;
	case CONTENT_FLAGS:
		return hash < content->ones;
	case CONTENT_CONSTANT:
		return -power_of_two(content->exponent);
	case CONTENT_EMPTY:
		return -INFINITY;
	case CONTENT_BEYOND:
		return INFINITY;
	case CONTENT_WORDS:
		return element < content->count ? content->words[element] : NAN;
	default:
		return 0;
	}
}

/* First and last of everything, and every divisor of Z, at which a division into heads and batches
 * would show. */
void fit_rows(struct fit_grid *grid)
{
	const int64_t Z = grid->Z, Sq = grid->Sq;
	const int64_t first[] = {0, Sq - 1, Sq / 2, Sq / 3, 1, Sq - 2};

	grid->rows = 0;
	for (int k = 0; k < 6; k++)
		if (first[k] >= 0 && first[k] < Sq) {
			grid->row[grid->rows].z = k % 2 ? Z - 1 : 0;
			grid->row[grid->rows++].i = first[k];
		}
	for (int64_t z = 1; z < Z && grid->rows < FIT_ROWS - 4; z++) {
		if (Z % z && z > 3)
			continue;
		for (int k = 0; k < 2; k++) {
			grid->row[grid->rows].z = z;
			grid->row[grid->rows++].i = (Sq - 1) - (z * 7 + k * (Sq / 2 + 1)) % Sq;
		}
	}
}

/* ---- lines through points ---------------------------------------------------------------------
 */

struct point {
	int group; /* the row: its mean does not count */
	double x, y;
};

struct line {
	double slope, misfit; /* root mean square */
	double explained;     /* share of the variance */
};

/* Takes its mean from each group; those of one follow one another. */
static void center(struct point *points, int count)
{
	for (int from = 0, to; from < count; from = to) {
		double x = 0, y = 0;

		for (to = from; to < count && points[to].group == points[from].group; to++) {
			x += points[to].x;
			y += points[to].y;
		}
		for (int i = from; i < to; i++) {
			points[i].x -= x / (to - from);
			points[i].y -= y / (to - from);
		}
	}
}

/* Through centered points. */
static struct line line_through(const struct point *points, int count)
{
	double xx = 0, xy = 0, yy = 0, rest;
	struct line line = {0};

	for (int i = 0; i < count; i++) {
		xx += points[i].x * points[i].x;
		xy += points[i].x * points[i].y;
		yy += points[i].y * points[i].y;
	}
	if (!(xx > 0) || !(yy > 0))
		return line;
	line.slope = xy / xx;
	rest = yy - line.slope * xy;
	line.misfit = sqrt(rest > 0 ? rest / count : 0);
	line.explained = 1 - rest / yy;
	return line;
}

/* Columns that tell of the difference between two runs, spread over each row; y: by how much ln P
 * differs, x: which column. */
static int take_points(const struct fit_grid *grid, const struct observation *before,
		       const struct observation *run, int group, struct point *points)
{
	const int64_t apart = grid->Sk / COLUMNS + 1;
	int count = 0;

	for (int r = 0; r < grid->rows; r++) {
		const float *p0 = fit_row(grid, before, r), *p1 = fit_row(grid, run, r);
		int taken = 0;

		for (int64_t j = 0, last = -apart; j < grid->Sk && taken < COLUMNS; j++) {
			if (j - last < apart || !(p0[j] > FIT_FINE) || !(p1[j] > FIT_FINE))
				continue;
			points[count++] = (struct point){group + r, (double)j,
							 log_of((double)p1[j] / (double)p0[j])};
			last = j;
			taken++;
		}
	}
	return count;
}

/* ---- scale and softcap ------------------------------------------------------------------------
 */

static int score_points(const struct fit_grid *grid, const struct observation *zero,
			const struct observation *run, int group, struct point *points)
{
	const int count = take_points(grid, zero, run, group, points);

	for (int i = 0; i < count; i++)
		points[i].x =
			content_value(&run->scores, fit_score_at(grid, points[i].group - group,
								 (int64_t)points[i].x));
	return count;
}

bool fit_slope(const struct fit_grid *grid, const struct observation *zero,
	       const struct observation *run, double *slope, double *misfit)
{
	static struct point points[POINTS]; /* flow lock */
	const int count = score_points(grid, zero, run, 0, points);
	struct line line;

	if (count < TOO_FEW)
		return false;
	center(points, count);
	line = line_through(points, count);
	*slope = line.slope;
	*misfit = line.misfit;
	return true;
}

/* The best scale for a cap, by Newton's method from the one before; what it leaves. */
static double misfit_of_cap(const struct point *points, int count, double cap, double *scale)
{
	static struct point bent[2 * POINTS]; /* flow lock */
	double misfit = INFINITY;

	for (int turn = 0; turn < 8; turn++) {
		struct line line;

		for (int i = 0; i < count; i++) {
			const double t = tanh_of(*scale * points[i].x / cap);

			bent[i].group = points[i].group;
			bent[i].x = points[i].x * (1 - t * t);
			bent[i].y = points[i].y - cap * t;
		}
		center(bent, count);
		line = line_through(bent, count);
		misfit = 0;
		for (int i = 0; i < count; i++)
			misfit += bent[i].y * bent[i].y;
		if (fabs(line.slope) < 1e-9 * fabs(*scale))
			break;
		if (fabs(line.slope) > fabs(*scale) / 2)
			line.slope = (line.slope < 0) == (*scale < 0) ? *scale / 2 : -*scale / 2;
		*scale += line.slope;
	}
	return misfit;
}

bool fit_softcap(const struct fit_grid *grid, const struct observation *zero,
		 const struct observation *const run[2], double *scale, double *cap)
{
	static struct point points[2 * POINTS]; /* flow lock */
	int count = score_points(grid, zero, run[0], 0, points);
	double low = 0, high = 0, least = INFINITY;
	const double start = *scale;

	count += score_points(grid, zero, run[1], FIT_ROWS, points + count);
	if (count < 2 * TOO_FEW)
		return false;
	for (double at = -1.4; at < 8.3; at += 0.33) {
		double best = start;
		const double misfit = misfit_of_cap(points, count, exp_of(at), &best);

		if (misfit < least) {
			least = misfit;
			low = at - 0.33;
			high = at + 0.33;
			*scale = best;
		}
	}
	for (int turn = 0; turn < 40; turn++) {
		const double a = low + (high - low) * 0.382, b = low + (high - low) * 0.618;
		double at_a = *scale, at_b = *scale;

		if (misfit_of_cap(points, count, exp_of(a), &at_a) <
		    misfit_of_cap(points, count, exp_of(b), &at_b)) {
			high = b;
			*scale = at_a;
		} else {
			low = a;
			*scale = at_b;
		}
	}
	*cap = exp_of((low + high) / 2);
	return true;
}

/* ---- inputs -----------------------------------------------------------------------------------
 */

bool fit_nth_along(const struct fit_grid *grid, int n, int64_t whole, struct form *form)
{
	int64_t heads = 2;

	form->unit = whole;
	form->heads = 1;
	form->along = n == 0 ? FORM_NONE : FORM_EACH;
	if (n < 2)
		return n == 0 || grid->Z > 1;
	for (int left = (n - 2) / 2;; heads++) {
		if (heads >= grid->Z)
			return false;
		if (grid->Z % heads == 0 && left-- == 0)
			break;
	}
	form->heads = heads;
	form->along = n % 2 ? FORM_QUOTIENT : FORM_MODULO;
	return true;
}

/* With this form, what part of the points is explained, and by what weight? */
static struct line try_form(const struct fit_grid *grid, const struct point *points, int count,
			    const struct content *content, const struct reading *reading)
{
	static struct point trial[POINTS]; /* flow lock */

	for (int i = 0; i < count; i++) {
		const int64_t j = (int64_t)points[i].x;
		const uint64_t at = fit_form_at(&reading->form, grid->row[points[i].group].z,
						grid->row[points[i].group].i, j);

		if (at >= content->count)
			return (struct line){0};
		trial[i] = points[i];
		trial[i].x = content_value(content, at);
		if (reading->kind == READ_RAMP)
			trial[i].x *= (double)j;
		if (reading->kind == READ_SIDES)
			trial[i].x *= fabs((double)(grid->row[points[i].group].i - j));
	}
	center(trial, count);
	return line_through(trial, count);
}

/* How far a point is from its row's mean, at most. */
static double spread(const struct point *points, int count)
{
	static struct point centered[POINTS]; /* flow lock */
	double most = 0;

	memcpy(centered, points, (size_t)count * sizeof(*points));
	center(centered, count);
	for (int i = 0; i < count; i++)
		most = larger(most, fabs(centered[i].y));
	return most;
}

/* Did the run leave less than half of what P showed? */
static bool mostly_gone(const struct fit_grid *grid, const struct observation *before,
			const struct observation *run)
{
	int64_t shown = 0, left = 0;

	for (int64_t n = 0; n < grid->rows * grid->Sk; n++) {
		shown += before->p[n] > FIT_FINE;
		left += before->p[n] > FIT_FINE && run->p[n] > FIT_FINE;
	}
	return 2 * left < shown;
}

bool fit_input(const struct fit_grid *grid, const struct observation *before,
	       const struct observation *run, int input, struct model *model, double *effect)
{
	static struct point points[POINTS]; /* flow lock */
	const int64_t Sk = grid->Sk;
	const struct {
		enum reading_kind kind;
		int64_t whole, row, column;
	} shapes[] = {
		{READ_BIAS, Sk, 0, 1},
		{READ_BIAS, grid->Sq * Sk, Sk, 1},
		{READ_RAMP, 1, 0, 0},
		{READ_SIDES, 1, 0, 0}, /* the same, where no key is seen beyond the query */
	};
	const int count = take_points(grid, before, run, 0, points);
	struct line best = {0};
	struct reading found = {0};

	*effect = INFINITY;
	if (count < TOO_FEW)
		return false;
	if (!mostly_gone(grid, before, run))
		*effect = spread(points, count);
	for (unsigned s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (int n = 0;; n++) {
			struct reading reading = {.kind = shapes[s].kind,
						  .input = input,
						  .dtype = run->input[input].dtype};
			const double lead = shapes[s].kind == READ_SIDES ? SAME : 0;
			struct line line;

			if (!fit_nth_along(grid, n, shapes[s].whole, &reading.form))
				break;
			reading.form.row = shapes[s].row;
			reading.form.column = shapes[s].column;
			line = try_form(grid, points, count, &run->input[input], &reading);
			if (line.explained > best.explained + lead) {
				best = line;
				found = reading;
			}
		}
	if (best.explained < FITS || model->readings == FIT_INPUTS)
		return false;
	found.weight = best.slope;
	model->reading[model->readings++] = found;
	return true;
}
