/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays out of the points that the log reader keeps.
 */
#include "tools/sites/site_values.h"
#include "tools/sites/report_names.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int site_values_read(struct site_values *values, const struct report_row *row)
{
	const struct sample_points *points = &row->site->points;

	*values = (struct site_values){0};
	values->app = calloc(3 * points->count + 1, sizeof(*values->app));
	if (!values->app)
		return -ENOMEM;
	values->fused = values->app + points->count;
	values->drift = values->fused + points->count;
	for (size_t i = 0; i < points->count; i++) {
		const struct sample_point *point = &points->points[i];

		if (!isnan(point->max_rel))
			values->drift[values->drifts++] = point->max_rel;
		if (isnan(point->app_us) || isnan(point->fused_us) ||
		    (point->warm_up && row->warm_up_excluded))
			continue;
		values->app[values->timed] = point->app_us;
		values->fused[values->timed++] = point->fused_us;
	}
	return 0;
}

void site_values_free(struct site_values *values)
{
	free(values->app);
	*values = (struct site_values){0};
}

int site_values_total(const struct report_row *const *rows, size_t count,
		      struct bootstrap_interval *interval)
{
	struct site_values *values = calloc(count + 1, sizeof(*values));
	struct bootstrap_part *parts = calloc(count + 1, sizeof(*parts));
	int result = values && parts ? 0 : -ENOMEM;

	*interval = (struct bootstrap_interval){NAN, NAN, NAN};
	for (size_t i = 0; i < count && !result; i++) {
		const struct site_log *site = rows[i]->site;

		result = site_values_read(&values[i], rows[i]);
		parts[i] = (struct bootstrap_part){
			values[i].fused, values[i].timed, values[i].app, values[i].timed,
			site->counted ? (double)site->counters.seen : (double)site->samples};
	}
	if (!result)
		result = bootstrap_sum_ratio(parts, count, BOOTSTRAP_SEED, interval);
	for (size_t i = 0; values && i < count; i++)
		site_values_free(&values[i]);
	free(values);
	free(parts);
	return result;
}

char *site_title(const struct site_log *site, char *buffer, size_t size)
{
	const struct report_row row = {.site = site};
	char shape[160];

	if (site->record)
		snprintf(buffer, size, "%s %s, mask %s", report_shape(&row, shape, sizeof(shape)),
			 text_of(site->record, "dtype"), text_of(site->record, "mask"));
	else
		snprintf(buffer, size, "site %u", site->number);
	return buffer;
}
