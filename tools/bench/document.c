/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading of documents: a kept one may be cut or edited, so what is not there is unknown, never an
 * error.
 */
#include "tools/bench/document.h"
#include "tools/base/escaped.h"
#include "tools/base/bootstrap.h"
#include "tools/base/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *bench_load(const char *path, const char *format)
{
	json_error_t error;
	json_t *document = json_load_file(path, 0, &error);

	if (!document) {
		complain("%s: %s", path, error.text);
		return NULL;
	}
	if (!strcmp(text_of(document, "format"), format) && bench_number(document, "version") == 1)
		return document;
	complain("%s: no %s of version 1", path, format);
	json_decref(document);
	return NULL;
}

size_t bench_times(const json_t *record, double **us)
{
	const json_t *times = json_object_get(record, "us");
	const size_t count = json_array_size(times);
	size_t taken = 0;

	*us = calloc(count + 1, sizeof(**us));
	for (size_t i = 0; *us && i < count; i++) {
		const double time = json_number_value(json_array_get(times, i));

		if (time > 0 && isfinite(time))
			(*us)[taken++] = time;
	}
	sort_values(*us, taken);
	return taken;
}

double bench_median(const json_t *record, double *half_range)
{
	double *us, median;
	const size_t count = bench_times(record, &us);

	median = median_of_sorted(us, count);
	if (half_range)
		*half_range = count ? (us[count - 1] - us[0]) / 2 : NAN;
	free(us);
	return median;
}

double bench_number(const json_t *object, const char *key)
{
	return number_of(object, key, NAN);
}

void bench_print_head(FILE *out, const json_t *document)
{
	static const struct {
		const char *name, *key;
	} parts[] = {{"driver", "driver"},
		     {"CUDA", "cuda"},
		     {"cuBLAS", "cublas"},
		     {"PyTorch", "torch"},
		     {"fashim", "fashim"}};
	const json_t *machine = json_object_get(document, "machine");
	const json_t *clocks = json_object_get(document, "clocks");
	const json_t *sm = json_object_get(clocks, "sm_mhz");

	print_safe(out, text_of(machine, "gpu"));
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		const char *value = text_of(machine, parts[i].key);

		if (*value)
			safe_printf(out, ", %s %s", parts[i].name, value);
	}
	safe_printf(out, "\n%s", text_of(json_object_get(document, "shape"), "text"));
	if (isfinite(bench_number(document, "rounds")))
		fprintf(out, ", %.0f rounds in turn", bench_number(document, "rounds"));
	fputs(", kernel time", out);
	if (json_array_size(sm) == 3)
		fprintf(out, ", SM clock %.0f MHz (%.0f to %.0f)",
			json_number_value(json_array_get(sm, 1)),
			json_number_value(json_array_get(sm, 0)),
			json_number_value(json_array_get(sm, 2)));
	fputc('\n', out);
	if (!strncmp(text_of(machine, "gpu"), "simgpu", 6))
		fputs("Simulated: these times mean nothing.\n", out);
}
