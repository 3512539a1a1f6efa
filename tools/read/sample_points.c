/* SPDX-License-Identifier: Apache-2.0
 *
 * When the array is full, neighbours are put together and every point stands for twice as many
 * samples from then on.
 */
#include "tools/read/sample_points.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct sample_points *points, size_t wanted)
{
	struct sample_point *larger;
	size_t size = points->size ? points->size : 16;

	if (wanted <= points->size)
		return 0;
	while (size < wanted)
		size *= 2;
	larger = realloc(points->points, size * sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	points->points = larger;
	points->size = size;
	return 0;
}

/* Takes the larger errors of a later sample; fmax() prefers numbers to NAN. */
static void absorb(struct sample_point *point, const struct sample_point *later)
{
	point->max_rel = fmax(point->max_rel, later->max_rel);
	point->app_rmse = fmax(point->app_rmse, later->app_rmse);
	point->fused_rmse = fmax(point->fused_rmse, later->fused_rmse);
	point->app_max = fmax(point->app_max, later->app_max);
	point->fused_max = fmax(point->fused_max, later->fused_max);
}

static void halve(struct sample_points *points)
{
	size_t kept = 0;

	for (size_t i = 0; i + 1 < points->count; i += 2) {
		points->points[kept] = points->points[i];
		absorb(&points->points[kept++], &points->points[i + 1]);
	}
	points->count = kept;
	points->stride *= 2;
}

int sample_points_add(struct sample_points *points, const struct sample *sample, bool warm_up)
{
	const struct sample_point point = {
		.occurrence = sample->occurrence,
		.warm_up = warm_up,
		.app_us = sample->app_us,
		.fused_us = sample->fused_us,
		.max_rel = sample->max_rel,
		.app_rmse = sample->app_rmse,
		.fused_rmse = sample->fused_rmse,
		.app_max = sample->app_max,
		.fused_max = sample->fused_max,
	};

	if (points->count && points->inside < points->stride) {
		absorb(&points->points[points->count - 1], &point);
		points->inside++;
		return 0;
	}
	if (!points->stride)
		points->stride = 1;
	if (points->count == MOST_POINTS)
		halve(points);
	if (reserve(points, points->count + 1))
		return -ENOMEM;
	points->points[points->count++] = point;
	points->inside = 1;
	return 0;
}

int sample_points_join(struct sample_points *points, const struct sample_points *others)
{
	if (reserve(points, points->count + others->count))
		return -ENOMEM;
	if (others->count)
		memcpy(points->points + points->count, others->points,
		       others->count * sizeof(*others->points));
	points->count += others->count;
	if (others->stride > points->stride)
		points->stride = others->stride;
	return 0;
}

void sample_points_free(struct sample_points *points)
{
	free(points->points);
	*points = (struct sample_points){0};
}
