/* SPDX-License-Identifier: Apache-2.0
 *
 * Who takes part, and what each is asked.
 */
#include "tools/bench/field.h"
#include "tools/base/json_text.h"
#include "tools/base/progress.h"
#include "tools/base/tool.h"
#include "tools/bench/chain.h"
#include "tools/gpu/gpu_clock.h"
#include "tools/gpu/gpu_timer.h"
#include "tools/gpu/gpu_truth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_MOST = 64 };

struct contestant {
	enum contestant_kind { CONTESTANT_VARIANT, CONTESTANT_CHAIN, CONTESTANT_BACKEND } kind;
	json_t *record; /* borrowed */
	struct gpu_variant variant;
	struct chain chain;
	struct referee_backend backend;
	struct gpu_timer timer; /* of all but backends */
};

struct field {
	struct bench *bench;
	struct contestant all[FIELD_MOST];
	int count;
};

/* ---- taking part ---------------------------------------------------------------------------- */

struct field *field_new(struct bench *bench)
{
	struct field *field = calloc(1, sizeof(*field));

	if (field)
		field->bench = bench;
	else
		complain("out of memory");
	return field;
}

void field_free(struct field *field)
{
	for (int i = 0; field && i < field->count; i++) {
		struct contestant *contestant = &field->all[i];

		if (contestant->timer.gpu)
			gpu_timer_free(&contestant->timer);
		if (contestant->kind == CONTESTANT_VARIANT)
			gpu_variant_free(&contestant->variant);
		else if (contestant->kind == CONTESTANT_CHAIN)
			chain_free(&contestant->chain);
	}
	free(field);
}

static struct contestant *next_place(struct field *field, enum contestant_kind kind, json_t *record)
{
	struct contestant *contestant = &field->all[field->count];

	if (field->count == FIELD_MOST) {
		complain("more than %d to measure", FIELD_MOST);
		return NULL;
	}
	contestant->kind = kind;
	contestant->record = record;
	field->count++;
	return contestant;
}

static int note_resources(const struct gpu *gpu, int index, json_t *record)
{
	struct fashim_resources resources = {0};
	int result =
		gpu_check_kernels(gpu, gpu->kernels.fashim_kernels_resources(&resources, index));

	json_object_set_new(record, "name", json_string(gpu->kernels.fashim_kernels_name(index)));
	json_object_set_new(record, "registers", json_integer(resources.registers));
	json_object_set_new(record, "local_bytes", json_integer(resources.local_bytes));
	json_object_set_new(record, "threads", json_integer(resources.threads));
	json_object_set_new(record, "shared_bytes", json_integer(resources.shared_bytes));
	json_object_set_new(record, "blocks", json_integer(resources.blocks));
	return result;
}

int field_add_variant(struct field *field, const char *name, json_t *record)
{
	const struct bench *bench = field->bench;
	const struct gpu *gpu = &bench->gpu;
	const int index = gpu->kernels.fashim_kernels_select(&bench->sets[0].args, name, 0);
	struct contestant *contestant;
	struct gpu_work work;
	int result;

	if (index < 0)
		return -ENOENT;
	contestant = next_place(field, CONTESTANT_VARIANT, record);
	if (!contestant)
		return -E2BIG;
	result = note_resources(gpu, index, record);
	if (!result)
		result = gpu_variant_make(&contestant->variant, gpu, index, bench->sets,
					  bench->set_count);
	work = gpu_variant_work(&contestant->variant);
	return result ? result : gpu_timer_make(&contestant->timer, gpu, &work);
}

int field_add_chain(struct field *field, json_t *record)
{
	const struct bench *bench = field->bench;
	struct contestant *contestant = next_place(field, CONTESTANT_CHAIN, record);
	struct gpu_work work;
	int result;

	if (!contestant)
		return -E2BIG;
	result = chain_make(&contestant->chain, &bench->blas, bench->sets, bench->set_count);
	work = chain_work(&contestant->chain);
	return result ? result : gpu_timer_make(&contestant->timer, &bench->gpu, &work);
}

static int add_backend(struct field *field, const char *name, json_t *record)
{
	struct contestant *contestant = next_place(field, CONTESTANT_BACKEND, record);

	if (!contestant)
		return -E2BIG;
	contestant->backend = (struct referee_backend){&field->bench->referee, name};
	return 0;
}

static json_t *add_reference(json_t *references, const char *name, bool fused)
{
	json_t *record = json_pack("{s:s,s:b}", "name", name, "fused", fused);

	json_array_append_new(references, record);
	return record;
}

int field_add_references(struct field *field, json_t *references)
{
	int result = 0;

	if (field->bench->has_torch)
		result = add_backend(field, "flash", add_reference(references, "SDPA flash", true));
	if (!result && field->bench->has_torch)
		result = add_backend(field, "math", add_reference(references, "SDPA math", false));
	if (!result)
		result = field_add_chain(field, add_reference(references, "cuBLAS chain", false));
	return result;
}

/* ---- time ----------------------------------------------------------------------------------- */

static void note_times(const struct field *field, const double *us, int rounds)
{
	for (int i = 0; i < field->count; i++) {
		json_t *times = json_array();

		for (int n = 0; n < rounds; n++)
			json_array_append_new(times, json_number(us[i * rounds + n]));
		json_object_set_new(field->all[i].record, "us", times);
	}
}

int field_race(struct field *field, int rounds, json_t *document)
{
	struct racer racers[FIELD_MOST];
	double *us = calloc((size_t)field->count * (size_t)rounds + 1, sizeof(*us));
	struct gpu_clock *clock;
	int result;

	if (!us) {
		complain("out of memory");
		return -ENOMEM;
	}
	for (int i = 0; i < field->count; i++) {
		struct contestant *contestant = &field->all[i];

		racers[i] = contestant->kind == CONTESTANT_BACKEND
				    ? (struct racer){referee_round, &contestant->backend}
				    : (struct racer){gpu_timer_round, &contestant->timer};
	}
	clock = gpu_clock_start(&field->bench->gpu);
	result = race(racers, field->count, rounds, us, "rounds in turn");
	json_object_set_new(document, "clocks", gpu_clock_stop(clock));
	if (!result)
		note_times(field, us, rounds);
	free(us);
	return result;
}

/* ---- error ---------------------------------------------------------------------------------- */

/* One run of a contestant on other operands than it races with. */
static int run_once(const struct field *field, const struct contestant *contestant,
		    const struct gpu_operands *operands)
{
	const struct gpu *gpu = &field->bench->gpu;
	struct gpu_variant variant = {0};
	struct chain chain = {0};
	struct gpu_work work;
	int result;

	if (contestant->kind == CONTESTANT_VARIANT) {
		result = gpu_variant_make(&variant, gpu, contestant->variant.index, operands, 1);
		work = gpu_variant_work(&variant);
	} else {
		result = chain_make(&chain, &field->bench->blas, operands, 1);
		work = chain_work(&chain);
	}
	if (!result)
		result = work.enqueue(work.subject, 0, gpu->stream);
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuStreamSynchronize(gpu->stream),
				   "running a kernel");
	gpu_variant_free(&variant);
	if (contestant->kind == CONTESTANT_CHAIN)
		chain_free(&chain);
	return result;
}

/* All of ours on the operands of one seed. */
static int check_case(const struct field *field, uint64_t seed, struct gpu_error *most)
{
	const struct gpu *gpu = &field->bench->gpu;
	struct gpu_operands operands;
	struct gpu_truth truth = {0};
	int result = gpu_operands_make(gpu, &operands, &field->bench->options->shape, seed);

	if (!result)
		result = gpu_truth_make(&truth, gpu, &operands.args);
	for (int i = 0; !result && i < field->count; i++) {
		const struct contestant *contestant = &field->all[i];
		struct gpu_error error;

		if (contestant->kind == CONTESTANT_BACKEND)
			continue;
		result = gpu_truth_spoil(&truth);
		if (!result)
			result = run_once(field, contestant, &operands);
		if (!result)
			result = gpu_truth_compare(&truth, &error);
		if (!result)
			gpu_error_widen(&most[i], &error);
	}
	gpu_truth_free(&truth);
	gpu_operands_free(gpu, &operands);
	return result;
}

static int ask_backends(struct field *field, int cases)
{
	int result = 0;

	for (int i = 0; !result && i < field->count; i++) {
		const struct contestant *contestant = &field->all[i];
		json_t *answer;

		if (contestant->kind != CONTESTANT_BACKEND)
			continue;
		answer = referee_ask(contestant->backend.referee, "error %s %d",
				     contestant->backend.name, cases);
		result = answer ? 0 : -EIO;
		if (answer)
			json_object_set_new(contestant->record, "error", answer);
	}
	return result;
}

int field_errors(struct field *field, int cases)
{
	const uint64_t seed = field->bench->options->seed;
	struct gpu_error most[FIELD_MOST] = {0};
	int result = 0;

	for (int n = 0; !result && n < cases; n++) {
		progress("random cases", n, cases, "cases");
		result = check_case(field, seed + 1 + (uint64_t)n, most);
	}
	progress_end();
	for (int i = 0; !result && i < field->count; i++)
		if (field->all[i].kind != CONTESTANT_BACKEND)
			json_object_set_new(field->all[i].record, "error",
					    json_pack("{s:f,s:f,s:I,s:i}", "max", most[i].max,
						      "rms", most[i].rms, "nonfinite",
						      (json_int_t)most[i].nonfinite, "cases",
						      cases));
	return result ? result : ask_backends(field, cases);
}

/* ---- which kernels -------------------------------------------------------------------------- */

static json_t *names_in(char *lines)
{
	json_t *names = lines ? json_array() : json_null();
	char *line;

	while (lines && (line = strsep(&lines, "\n")))
		json_array_append_new(names, json_text(line));
	return names;
}

int field_kernels(struct field *field)
{
	for (int i = 0; i < field->count; i++) {
		const struct contestant *contestant = &field->all[i];
		json_t *names, *answer = NULL;

		if (contestant->kind == CONTESTANT_BACKEND) {
			answer = referee_ask(contestant->backend.referee, "names %s",
					     contestant->backend.name);
			if (!answer)
				return -EIO;
			names = json_incref(json_object_get(answer, "names"));
		} else {
			char *lines = gpu_timer_kernels(&contestant->timer);

			names = names_in(lines);
			free(lines);
		}
		json_object_set_new(contestant->record, "kernels", names);
		json_decref(answer);
	}
	return 0;
}
