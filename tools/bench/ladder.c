/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the ladder: the tiles by themselves, then references, steps and the kernel that ships in
 * one race.
 */
#include "tools/bench/ladder.h"
#include "kernels/ladder/ladder.h"
#include "tools/base/json_text.h"
#include "tools/bench/document.h"
#include "tools/bench/field.h"
#include "tools/bench/tile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_ROUNDS = 9 };

/* ---- tiles ---------------------------------------------------------------------------------- */

#define TILE_L4_US 5.4 /* either of them on an NVIDIA L4 in 2025: 5.3 to 5.5 */

static json_t *measure_tile(const struct bench *bench, int m, int n, int k, int rounds)
{
	double *us = calloc((size_t)rounds, sizeof(*us));
	json_t *times = json_array(), *record = NULL;
	struct tile tile;
	struct gpu_work work;
	bool exact = false;
	char name[48];
	int result = tile_make(&tile, &bench->blas, m, n, k);

	work = tile_work(&tile);
	if (!result)
		result = us ? gpu_measure(&bench->gpu, &work, 1, rounds, us) : -ENOMEM;
	if (!result)
		result = tile_check(&tile, &exact);
	for (int i = 0; !result && i < rounds; i++)
		json_array_append_new(times, json_number(us[i]));
	snprintf(name, sizeof(name), "cuBLAS %dx%dx%d", m, n, k);
	if (!result)
		record = json_pack("{s:s,s:i,s:i,s:i,s:f,s:O,s:b,s:f,s:s}", "name", name, "m", m,
				   "n", n, "k", k, "flops", 2.0 * m * n * k, "us", times, "exact",
				   exact, "l4_us", TILE_L4_US, "adds", "one tile by itself");
	json_decref(times);
	tile_free(&tile);
	free(us);
	return record;
}

static int measure_tiles(const struct bench *bench, json_t *tiles, int rounds)
{
	static const int sizes[][3] = {{4, 4, 4}, {32, 64, 64}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		json_t *record = measure_tile(bench, sizes[i][0], sizes[i][1], sizes[i][2], rounds);

		if (!record)
			return -EIO;
		json_array_append_new(tiles, record);
	}
	return 0;
}

/* ---- who takes part ------------------------------------------------------------------------- */

static json_t *step_record(json_t *steps, const struct ladder_step *step)
{
	const double l4_us = step->figure == LADDER_NO_FIGURE ? NAN : (double)step->l4_us;
	json_t *record =
		json_pack("{s:s,s:i,s:b,s:s,s:o,s:b}", "name", step->name, "number", step->number,
			  "library", step->library, "adds", step->adds, "l4_us", json_number(l4_us),
			  "l4_hoped", step->figure == LADDER_HOPED);

	json_array_append_new(steps, record);
	return record;
}

static int add_steps(struct field *field, json_t *steps)
{
	json_t *shipped =
		json_pack("{s:s,s:n,s:s}", "name", "no kernel", "number", "adds", "what ships");
	int result = 0;

	for (int n = 0; !result && n < ladder_step_count; n++) {
		const struct ladder_step *step = &ladder_steps[n];
		json_t *record = step_record(steps, step);

		result = step->library ? field_add_chain(field, record)
				       : field_add_variant(field, step->name, record);
		if (result == -ENOENT)
			result = 0;
	}
	json_array_append_new(steps, shipped);
	if (!result)
		result = field_add_variant(field, NULL, shipped);
	return result == -ENOENT ? 0 : result;
}

/* ---- the run -------------------------------------------------------------------------------- */

static json_t *new_list(json_t *document, const char *key)
{
	json_object_set_new(document, key, json_array());
	return json_object_get(document, key);
}

static int measure(struct bench *bench, json_t *document, int rounds)
{
	struct field *field = field_new(bench);
	int result = field ? 0 : -ENOMEM;

	if (!result)
		result = measure_tiles(bench, new_list(document, "tiles"), rounds);
	if (!result)
		result = field_add_references(field, new_list(document, "references"));
	if (!result)
		result = add_steps(field, new_list(document, "steps"));
	if (!result)
		result = field_race(field, rounds, document);
	if (!result)
		result = field_errors(field, bench->options->cases);
	if (!result)
		result = field_kernels(field);
	field_free(field);
	return result;
}

json_t *ladder_measure(const struct bench_options *options)
{
	return bench_run(options, LADDER_FORMAT, USUAL_ROUNDS, measure);
}

/* ---- what it says --------------------------------------------------------------------------- */

bool ladder_step_measured(const json_t *step)
{
	return isfinite(bench_median(step, NULL));
}

bool ladder_step_correct(const json_t *document, const json_t *step)
{
	const json_t *error = json_object_get(step, "error");
	const bool library = json_is_true(json_object_get(step, "library"));
	const double allowed = bench_number(document, "tolerance") * (library ? BENCH_CHAIN : 1);

	return bench_number(error, "max") < allowed && bench_number(error, "nonfinite") == 0;
}

bool ladder_correct(const json_t *document)
{
	const json_t *tiles = json_object_get(document, "tiles");
	const json_t *steps = json_object_get(document, "steps");
	const json_t *one;
	size_t i;

	json_array_foreach(tiles, i, one)
	{
		if (!json_is_true(json_object_get(one, "exact")))
			return false;
	}
	json_array_foreach(steps, i, one)
	{
		if (ladder_step_measured(one) && !ladder_step_correct(document, one))
			return false;
	}
	return true;
}

const char *ladder_step_label(const json_t *step, char *buffer, size_t size)
{
	const char *name = text_of(step, "name");
	char *at;

	if (!strncmp(name, "ladder/", 7))
		name += 7;
	snprintf(buffer, size, "%s", name);
	if (!json_is_number(json_object_get(step, "number")))
		return buffer;
	for (at = buffer; (at = strchr(at, '_')); at++)
		*at = ' ';
	return buffer;
}
