/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the candidate and its references in one race.
 */
#include "tools/bench/oracle.h"
#include "tools/base/tool.h"
#include "tools/bench/field.h"

#include <errno.h>

enum { USUAL_ROUNDS = 30 };

static int add_candidate(struct field *field, const struct bench_options *options,
			 json_t *candidate)
{
	const char *kernel = options->kernel;
	int result = field_add_variant(field, kernel, candidate);
	char shape[96];

	if (result == -ENOENT)
		complain("%s%s %s on this GPU", kernel ? kernel : "no kernel",
			 kernel ? " does not take" : " takes",
			 gpu_shape_text(shape, sizeof(shape), &options->shape));
	return result;
}

static int measure(struct bench *bench, json_t *document, int rounds)
{
	json_t *candidate = json_object(), *references = json_array();
	struct field *field = field_new(bench);
	int result = field ? 0 : -ENOMEM;

	json_object_set_new(document, "candidate", candidate);
	json_object_set_new(document, "references", references);
	if (!result)
		result = add_candidate(field, bench->options, candidate);
	if (!result)
		result = field_add_references(field, references);
	if (!result)
		result = field_errors(field, bench->options->cases);
	if (!result)
		result = field_race(field, rounds, document);
	if (!result)
		result = field_kernels(field);
	field_free(field);
	return result;
}

json_t *oracle_measure(const struct bench_options *options)
{
	return bench_run(options, ORACLE_FORMAT, USUAL_ROUNDS, measure);
}
