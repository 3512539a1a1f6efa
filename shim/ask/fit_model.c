/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys a row sees, and what the whole model makes of them: P as it has to come out, to be
 * held against P as it did.
 */
#include "shim/ask/fit.h"

#include <math.h>

#include "shim/base/elementary.h"
#include "shim/ask/fit_parts.h"

#define MAX_EXPECT 16384
#define SHOWN	   8 /* e^-8 of the largest, among a few thousand, is a number in half precision */

/* ---- edges ------------------------------------------------------------------------------------
 */

static int64_t length_of_row(const struct fit_grid *grid, const struct observation *run,
			     const struct reading *reading, int row)
{
	const double length =
		content_value(&run->input[reading->input],
			      fit_form_at(&reading->form, grid->row[row].z, grid->row[row].i, 0));

	return length > (double)grid->Sk ? grid->Sk : length > 0 ? (int64_t)length : 0;
}

/* First key that row r sees, and the one behind the last. */
static void edges_of_row(const struct fit_grid *grid, const struct observation *run,
			 const struct model *model, int r, int64_t *begin, int64_t *end)
{
	const int64_t at = grid->row[r].i + model->shift;

	*begin = 0;
	*end = grid->Sk;
	if (model->causal && at + 1 < *end)
		*end = at + 1;
	if (model->causal && model->left >= 0 && at - model->left > 0)
		*begin = at - model->left;
	for (int k = 0; k < model->readings; k++)
		if (model->reading[k].kind == READ_LENGTHS) {
			const int64_t length = length_of_row(grid, run, &model->reading[k], r);

			*end = length < *end ? length : *end;
		}
}

/* Do flags leave key j to row r? */
static bool kept(const struct fit_grid *grid, const struct observation *run,
		 const struct model *model, int r, int64_t j)
{
	for (int k = 0; k < model->readings; k++) {
		const struct reading *reading = &model->reading[k];

		if (reading->kind == READ_FLAGS &&
		    (content_value(&run->input[reading->input],
				   fit_form_at(&reading->form, grid->row[r].z, grid->row[r].i,
					       j)) != 0) != reading->keeps)
			return false;
	}
	return true;
}

static int64_t top_of_row(const struct fit_grid *grid, const float *p)
{
	int64_t top = 0;

	for (int64_t j = 1; j < grid->Sk; j++)
		if (p[j] > p[top])
			top = j;
	return top;
}

/* Scores being zero, would P show key j, the largest of the row being at `top`? */
static bool must_show(const struct fit_grid *grid, const struct model *model, int r, int64_t j,
		      int64_t top)
{
	return fit_alibi_slope(&model->alibi, grid->row[r].z) * (double)(top - j) < SHOWN;
}

/* All keys alike: NaN, nothing, or each as much as any other. */
static bool sees_nothing(const struct fit_grid *grid, const float *p)
{
	for (int64_t j = 1; j < grid->Sk; j++)
		if (isnan(p[0]) ? !isnan(p[j]) : p[j] != p[0])
			return false;
	return true;
}

static bool edges_agree(const struct fit_grid *grid, const struct observation *run,
			const struct model *model)
{
	for (int r = 0; r < grid->rows; r++) {
		const float *p = fit_row(grid, run, r);
		const int64_t top = top_of_row(grid, p);
		int64_t begin, end;

		edges_of_row(grid, run, model, r, &begin, &end);
		while (begin < end && !kept(grid, run, model, r, begin))
			begin++;
		if (begin >= end && !sees_nothing(grid, p))
			return false; /* else it is asked apart */
		for (int64_t j = 0; j < grid->Sk && begin < end; j++)
			if ((p[j] > 0) != (j >= begin && j < end && kept(grid, run, model, r, j)) &&
			    (p[j] > 0 || must_show(grid, model, r, j, top)))
				return false;
	}
	return true;
}

/* How far back rows go that are cut on the left, as far as flags let them show it: the one that
 * tells most; -1: none is. */
static int64_t left_of(const struct fit_grid *grid, const struct observation *run,
		       const struct model *model, int64_t shift)
{
	int64_t least = -1;

	for (int r = 0; r < grid->rows; r++) {
		const float *p = fit_row(grid, run, r);
		const int64_t at = grid->row[r].i + shift;
		int64_t j = 0;

		while (j < grid->Sk && !(p[j] > 0))
			j++;
		while (j && j < grid->Sk && !kept(grid, run, model, r, j - 1))
			j--;
		if (j && j < grid->Sk && (least < 0 || at - j < least) &&
		    must_show(grid, model, r, j - 1, top_of_row(grid, p)))
			least = at - j;
	}
	return least;
}

static bool try_windows(const struct fit_grid *grid, const struct observation *run,
			struct model *model)
{
	const int64_t shifts[] = {0, 0, grid->Sk - grid->Sq};

	for (int n = 0; n < 3; n++) {
		model->causal = n > 0;
		model->shift = shifts[n];
		model->left = n ? left_of(grid, run, model, shifts[n]) : -1;
		if (edges_agree(grid, run, model))
			return true;
	}
	return false;
}

/* Elements of an input that a form goes to. */
static uint64_t form_extent(const struct fit_grid *grid, const struct form *form)
{
	uint64_t most = 0;

	for (int64_t z = 0; z < grid->Z; z++) {
		const uint64_t last = fit_form_at(form, z, grid->Sq - 1, grid->Sk - 1);

		most = last > most ? last : most;
	}
	return most + 1;
}

bool fit_edges(const struct fit_grid *grid, const struct observation *run, int lengths,
	       struct model *model)
{
	struct reading *reading = &model->reading[model->readings];

	if (lengths < 0)
		return try_windows(grid, run, model);
	if (model->readings++ == FIT_INPUTS)
		return false;
	/* One a row, one a batch entry; 32 bits, or the low half of 64. */
	for (int wide = 1; wide <= 2; wide++)
		for (int each = 1; each >= 0; each--)
			for (int n = 0;; n++) {
				*reading = (struct reading){
					.kind = READ_LENGTHS, .input = lengths, .dtype = ATTN_I32};
				if (!fit_nth_along(grid, n, wide * (each ? grid->Sq : 1),
						   &reading->form))
					break;
				reading->form.row = each * wide;
				if (form_extent(grid, &reading->form) > run->input[lengths].count)
					continue;
				if (try_windows(grid, run, model))
					return true;
			}
	model->readings--;
	return false;
}

/* Are a row's keys seen as the flags from `at` on say? */
static bool row_agrees(const struct fit_grid *grid, const struct observation *run,
		       const struct reading *reading, int r, int64_t at)
{
	const float *p = fit_row(grid, run, r);

	for (int64_t j = 0; j < grid->Sk; j++)
		if ((p[j] > 0) != ((content_value(&run->input[reading->input],
						  (uint64_t)(at + j)) != 0) == reading->keeps))
			return false;
	return true;
}

/* Of a mask that was made for longer sequences, all batches and heads share the first rows, and
 * each of these goes on behind the last key: how far apart they are, the second row tells. */
static bool try_pitches(const struct fit_grid *grid, const struct observation *run,
			struct model *model, struct reading *reading)
{
	const int64_t count = (int64_t)run->input[reading->input].count;
	int second = 0;

	while (second < grid->rows && grid->row[second].i != 1)
		second++;
	reading->form = (struct form){.along = FORM_NONE, .heads = 1, .column = 1};
	reading->pitched = true;
	for (int64_t pitch = grid->Sk + 1;
	     second < grid->rows && pitch * (grid->Sq - 1) + grid->Sk <= count; pitch++) {
		reading->form.row = pitch;
		if (row_agrees(grid, run, reading, second, pitch) && try_windows(grid, run, model))
			return true;
	}
	return false;
}

bool fit_flags(const struct fit_grid *grid, const struct observation *run, int input,
	       struct model *model)
{
	struct reading *reading = &model->reading[model->readings];
	const int64_t pairs = grid->Sq * grid->Sk;

	if (model->readings == FIT_INPUTS)
		return false;
	model->readings++;
	for (int each = 0; each < 2; each++)
		for (int n = 0;; n++) {
			*reading = (struct reading){.kind = READ_FLAGS,
						    .input = input,
						    .dtype = run->input[input].dtype,
						    .weight = -INFINITY};
			if (!fit_nth_along(grid, n, each ? pairs : grid->Sk, &reading->form))
				break;
			reading->form.row = each ? grid->Sk : 0;
			reading->form.column = 1;
			if (form_extent(grid, &reading->form) > run->input[input].count)
				continue;
			for (int keeps = 1; keeps >= 0; keeps--) {
				reading->keeps = keeps;
				if (try_windows(grid, run, model))
					return true;
			}
		}
	for (int keeps = 1; keeps >= 0; keeps--) {
		reading->keeps = keeps;
		if (try_pitches(grid, run, model, reading))
			return true;
	}
	model->readings--;
	return false;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static double round_to(double x, int dtype)
{
	const int bits = dtype == ATTN_F16 ? 10 : dtype == ATTN_BF16 ? 7 : 23;
	double unit;

	if (!isfinite(x) || x == 0)
		return x;
	unit = power_of_two(exponent_of(x) - bits);
	return nearest(x / unit) * unit;
}

/* `inside`: the edges leave key j to row r. */
static double score_of(const struct fit_grid *grid, const struct observation *run,
		       const struct model *model, int r, int64_t j, bool inside)
{
	const double later = model->later != 0 ? model->later : 1;
	double x = model->scale / later * content_value(&run->scores, fit_score_at(grid, r, j));

	if (model->cap > 0)
		x = model->cap * tanh_of(x / model->cap);
	x = round_to(x, model->round_s);
	if (model->alibi.heads)
		x = round_to(x + fit_alibi_slope(&model->alibi, grid->row[r].z) * (double)j,
			     model->round_x);
	for (int k = 0; k < model->readings; k++) {
		const struct reading *reading = &model->reading[k];
		double more;

		if (reading->kind == READ_LENGTHS || reading->kind == READ_FLAGS)
			continue;
		more = content_value(
			&run->input[reading->input],
			fit_form_at(&reading->form, grid->row[r].z, grid->row[r].i, j));
		if (reading->lacking)
			x += round_to(-reading->weight * round_to(1 - more, ATTN_F32), ATTN_F32);
		else
			x += reading->weight / later * more *
			     (reading->kind == READ_RAMP ? (double)j : 1);
		x = round_to(x, model->round_x);
	}
	x *= later;
	inside = inside && kept(grid, run, model, r, j);
	for (int k = 0; k < model->readings && !inside; k++)
		if (model->reading[k].kind == READ_FLAGS)
			x = round_to(model->reading[k].weight +
					     (model->reading[k].replaces ? 0 : x),
				     model->round_x);
	return x;
}

/* Softmax of row r as the model has it. */
static void expect_row(const struct fit_grid *grid, const struct observation *run,
		       const struct model *model, int r, double *p)
{
	double most = -INFINITY, sum = 0;
	int64_t begin, end;

	edges_of_row(grid, run, model, r, &begin, &end);
	for (int64_t j = 0; j < grid->Sk; j++) {
		const bool inside = j >= begin && j < end;

		p[j] = inside || model->beyond ? score_of(grid, run, model, r, j, inside)
					       : -INFINITY;
		most = larger(most, p[j]);
	}
	for (int64_t j = 0; j < grid->Sk; j++) {
		p[j] = most == -INFINITY ? NAN : exp_of(p[j] - most);
		sum += p[j];
	}
	for (int64_t j = 0; j < grid->Sk; j++)
		p[j] /= sum;
}

bool fit_tells_hidden(const struct fit_grid *grid, const struct observation *run,
		      const struct model *model)
{
	for (int r = 0; r < grid->rows; r++) {
		bool seen = false, low = true, other = false;
		int64_t begin, end;

		edges_of_row(grid, run, model, r, &begin, &end);
		for (int64_t j = begin; j < end; j++) {
			const bool zero =
				content_value(&run->scores, fit_score_at(grid, r, j)) == 0;
			const bool left = kept(grid, run, model, r, j);

			seen |= left;
			low &= !left || !zero;
			other |= !left && zero;
		}
		if (seen && low && other)
			return true;
	}
	return false;
}

void fit_check(const struct fit_grid *grid, const struct observation *run,
	       const struct model *model, double step, double *rms, double *most)
{
	static double expected[MAX_EXPECT]; /* flow lock */
	double sum = 0;
	int64_t count = 0;

	*rms = *most = INFINITY;
	if (grid->Sk > MAX_EXPECT)
		return;
	*most = 0;
	for (int r = 0; r < grid->rows; r++) {
		const float *p = fit_row(grid, run, r);

		expect_row(grid, run, model, r, expected);
		for (int64_t j = 0; j < grid->Sk; j++) {
			double off =
				fabs((double)p[j] - expected[j]) / (expected[j] * step + 0x1p-24);

			if (isnan(expected[j]) && sees_nothing(grid, p)) /* asked apart */
				break;
			off = isnan(expected[j]) ? INFINITY : off;
			*most = off <= *most ? *most : isnan(off) ? INFINITY : off;
			sum += off * off;
			count++;
		}
	}
	*rms = count ? sqrt(sum / (double)count) : INFINITY;
	*rms = *rms >= 0 ? *rms : INFINITY;
}

int fit_empty_row(const struct fit_grid *grid, const struct observation *run)
{
	int found = -1;

	for (int r = 0; r < grid->rows; r++) {
		const float *p = fit_row(grid, run, r);
		int is = ATTN_EMPTY_ZERO;

		for (int64_t j = 0; j < grid->Sk && is != ATTN_EMPTY_NAN; j++)
			is = isnan(p[j]) ? ATTN_EMPTY_NAN : p[j] > 0 ? ATTN_EMPTY_MEAN : is;
		for (int64_t j = 0; j < grid->Sk && is == ATTN_EMPTY_MEAN; j++)
			if (fabs((double)(p[j] * (float)grid->Sk) - 1) > 0.02)
				return -1;
		if (found >= 0 && found != is)
			return -1;
		found = is;
	}
	return found;
}
