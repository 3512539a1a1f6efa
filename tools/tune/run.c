/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU, the forms, the cache and the person who waits, brought together.
 */
#include "tools/tune/run.h"
#include "kernels/images.h"
#include "tools/base/progress.h"
#include "tools/base/tool.h"
#include "tools/tune/contest.h"
#include "tools/tune/files.h"
#include "tools/tune/layout.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 256 };

static volatile sig_atomic_t stop;

static void on_interrupt(int number)
{
	(void)number;
	stop = 1;
}

/* ---- progress ------------------------------------------------------------------------------- */

/* A line that is replaced by what came of it. */
static void show_begin(int number, int count, const char *form, int candidates)
{
	if (progress_wanted())
		fprintf(stderr, "\r\033[K[%d/%d] %s: %d kernels ...", number, count, form,
			candidates);
}

static void show_end(int number, int count, const char *form, const char *what)
{
	if (progress_wanted())
		fprintf(stderr, "\r\033[K[%d/%d] %s: %s\n", number, count, form, what);
}

/* ---- one form ------------------------------------------------------------------------------- */

struct run {
	struct tune_outcome *outcome;
	const struct tune_settings *settings;
	struct gpu gpu;
	struct contest_kernels kernels;
};

static struct tune_result result_of(const struct sweep *sweep, const struct call_form *form)
{
	const struct sweep_candidate *built_in = &sweep->candidates[sweep->built_in];
	const struct sweep_candidate *rival =
		sweep->rival < 0 ? NULL : &sweep->candidates[sweep->rival];
	struct tune_result result = {
		.form = *form,
		.choice = sweep->best != sweep->built_in,
		.us = rival ? rival->us : NAN,
		.spread_us = rival ? rival->spread : NAN,
		.built_in_us = built_in->us,
		.built_in_spread_us = built_in->spread,
		.ratio = sweep->interval.ratio,
		.low = sweep->interval.low,
		.high = sweep->interval.high,
	};

	snprintf(result.built_in, sizeof(result.built_in), "%s", built_in->name);
	snprintf(result.kernel, sizeof(result.kernel), "%s", rival ? rival->name : "");
	return result;
}

static int keep_result(struct run *run, const struct sweep *sweep, const struct call_form *form)
{
	struct tune_section *section = &run->outcome->section;
	const size_t count = (size_t)section->count + 1;
	struct tune_result *results = reallocarray(section->results, count, sizeof(*results));
	struct tune_trial *trials;

	if (!results)
		return -ENOMEM;
	section->results = results;
	trials = reallocarray(section->trials, count, sizeof(*trials));
	if (!trials)
		return -ENOMEM;
	section->trials = trials;
	results[section->count] = result_of(sweep, form);
	trials[section->count++] = (struct tune_trial){sweep->candidates, sweep->count};
	return 0;
}

static void store(const struct run *run)
{
	const struct tune_section *section = &run->outcome->section;
	const int error = tune_cache_put(section->path, &section->machine,
					 &section->results[section->count - 1]);

	if (!error || error == -ENODATA)
		return;
	run->outcome->lost++;
	if (error == -EEXIST)
		complain("%s is not of this GPU, driver and build: not written", section->path);
	else
		complain("%s: %s", section->path, strerror(-error));
}

/* The sweep over `count` candidates of a form. 0 or -errno. */
static int sweep_form(struct run *run, const struct call_form *form, const int *variants, int count)
{
	struct sweep sweep = {.count = count,
			      .top = run->settings->top,
			      .rounds = run->settings->rounds,
			      .seed = run->settings->seed,
			      .stop = &stop};
	struct sweep_measure measure;
	struct contest contest;
	int result;

	sweep.candidates = calloc((size_t)count, sizeof(*sweep.candidates));
	if (!sweep.candidates)
		return -ENOMEM;
	for (int i = 0; i < count; i++)
		sweep.candidates[i].name = attn_variants[variants[i]].name;
	result = contest_make(&contest, &run->gpu, form, variants, count, run->settings->seed);
	measure = contest_measure(&contest);
	if (!result)
		result = sweep_run(&sweep, &measure);
	contest_free(&contest);
	if (!result)
		result = keep_result(run, &sweep, form);
	if (result)
		free(sweep.candidates);
	return result;
}

static int tune_form(struct run *run, const struct call_form *form, int number, int count)
{
	const struct tune_section *section = &run->outcome->section;
	int variants[CANDIDATES], candidates, result = -ENOENT;
	struct call_form same = *form;
	struct attn_args args;
	char text[FORM_TEXT], verdict[256];
	uint64_t bytes;

	call_form_text(form, text);
	tune_layout(&args, &same, 256, &bytes);
	candidates = contest_candidates(&run->kernels, &args, variants, CANDIDATES);
	show_begin(number, count, text, candidates);
	if (candidates)
		result = sweep_form(run, form, variants, candidates);
	if (result == -EINTR)
		return result;
	if (result) {
		run->outcome->failed++;
		if (progress_wanted())
			fputs("\r\033[K", stderr);
		complain("%s: %s", text,
			 candidates ? "the built-in choice fails" : "no kernel takes it");
		return result == -ENOMEM ? result : 0;
	}
	show_end(number, count, text,
		 tune_verdict(&section->results[section->count - 1], verdict, sizeof(verdict)));
	store(run);
	return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

/* The number of the build, of the image that the shim takes here too. */
static int identify(struct tuned_machine *machine, const struct gpu *gpu)
{
	void *library = dlopen(gpu->library, RTLD_NOW | RTLD_NOLOAD);
	__typeof__(kernel_image_for) *image_for = NULL;
	const struct kernel_image *image;

	if (library)
		*(void **)&image_for = dlsym(library, "kernel_image_for");
	image = image_for ? image_for(gpu->arch) : NULL;
	if (!image) {
		complain("%s has no kernels for this GPU", gpu->library);
		return -ENOENT;
	}
	snprintf(machine->gpu, sizeof(machine->gpu), "%s", gpu->name);
	machine->driver = gpu->cuda_version;
	machine->build = tuned_build(image->data, image->size);
	dlclose(library);
	return 0;
}

static int prepare(struct run *run)
{
	struct tune_section *section = &run->outcome->section;
	int result = gpu_open(&run->gpu, run->settings->library);

	if (!result)
		result = contest_kernels_here(&run->kernels, &run->gpu);
	if (!result)
		result = identify(&section->machine, &run->gpu);
	if (result)
		return result;
	run->outcome->simulated = gpu_is_simulated(&run->gpu);
	section->path = tune_file(run->settings->cache, &section->machine);
	return section->path ? 0 : -ENOENT;
}

int tune_run(struct tune_outcome *outcome, const struct tune_shapes *shapes,
	     const struct tune_settings *settings)
{
	const struct sigaction interrupt = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
	struct run run = {.outcome = outcome, .settings = settings};
	struct sigaction before;
	int result;

	memset(outcome, 0, sizeof(*outcome));
	result = prepare(&run);
	sigaction(SIGINT, &interrupt, &before);
	for (int i = 0; !result && i < shapes->count; i++)
		result = tune_form(&run, &shapes->forms[i], i + 1, shapes->count);
	sigaction(SIGINT, &before, NULL);
	gpu_close(&run.gpu);
	outcome->interrupted = result == -EINTR;
	if (outcome->interrupted && progress_wanted())
		fputs("\r\033[K", stderr);
	return outcome->interrupted ? 0 : result;
}

void tune_outcome_free(struct tune_outcome *outcome)
{
	struct tune_section *section = &outcome->section;

	for (int i = 0; i < section->count; i++)
		free(section->trials[i].candidates);
	free(section->trials);
	free(section->results);
	free(section->path);
	memset(outcome, 0, sizeof(*outcome));
}
