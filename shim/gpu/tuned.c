/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a cache once for each GPU model of the process and keeps it as a table of forms. Whatever
 * is wrong with a file, the built-in choice stands.
 */
#include "shim/gpu/tuned.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/config.h"
#include "shim/log/log.h"
#include "shim/base/message.h"
#include "shim/base/user_file.h"

#define MODELS 4 /* of GPUs in one process */

struct tuned {
	char gpu[sizeof(((struct tuned_machine *)0)->gpu)];
	struct choice {
		struct call_form form;
		const char *kernel; /* a name of attn_variants */
	} * choices;
	int count;
};

static struct tuned caches[MODELS];
static int cache_count;

/* ---- the file ------------------------------------------------------------------------------- */

/* Where the cache of a machine is looked for; false: nowhere. */
static bool find_path(const struct tuned_machine *machine, char *path, size_t size)
{
	const char *asked = config()->tune_cache;
	char name[NAME_MAX + 1];
	size_t used;

	if (asked[0])
		return snprintf(path, size, "%s", asked) < (int)size;
	if (tuned_folder(path, size) || tuned_name(machine, name, sizeof(name)))
		return false;
	used = strlen(path);
	return snprintf(path + used, size - used, "/%s", name) < (int)(size - used);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* The name itself; NULL where it is none of a kernel that is always loaded. */
static const char *known_kernel(const struct tuned_line *line)
{
	const size_t length = (size_t)line->kernel_length;

	for (int i = 0; i < attn_variant_total; i++)
		if (attn_variants[i].family != ATTN_LADDER &&
		    strlen(attn_variants[i].name) == length &&
		    !memcmp(attn_variants[i].name, line->kernel, length))
			return attn_variants[i].name;
	return NULL;
}

static struct choice *find(const struct tuned *tuned, const struct call_form *form)
{
	for (int i = 0; i < tuned->count; i++)
		if (!memcmp(&tuned->choices[i].form, form, sizeof(*form)))
			return &tuned->choices[i];
	return NULL;
}

/* What came of a file. */
static void tell(const char *path, int choices, const char *ignored)
{
	struct json *json = log_record("tune");

	json_string(json, "cache", path);
	if (ignored)
		json_string(json, "ignored", ignored);
	else
		json_int(json, "choices", choices);
	log_commit(json);
	if (ignored)
		message_warn("%s is ignored: %s", path, ignored);
	else
		message_info("%d kernels chosen by %s", choices, path);
}

/* Why a text that begins so is none for this machine; NULL: it is. */
static const char *unfit(const struct tuned_machine *here, const char **text, char *why,
			 size_t size)
{
	struct tuned_machine machine;
	const int error = tuned_header(*text, &machine, text);

	if (error)
		return error == -EPROTO ? "of another version" : "no tuning cache";
	if (tuned_same_machine(&machine, here))
		return NULL;
	snprintf(why, size, "made for %s, driver %d, build %016llx; here is %s, %d, %016llx",
		 machine.gpu, machine.driver, (unsigned long long)machine.build, here->gpu,
		 here->driver, (unsigned long long)here->build);
	return why;
}

static void take_choices(struct tuned *tuned, const char *text)
{
	struct tuned_line line;
	int lines = 0;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	tuned->choices = calloc((size_t)lines + 1, sizeof(*tuned->choices));
	while (tuned->choices && tuned_next(&text, &line)) {
		const char *kernel = known_kernel(&line);
		struct choice *choice = find(tuned, &line.form);

		if (!kernel)
			continue;
		if (!choice)
			choice = &tuned->choices[tuned->count++];
		choice->form = line.form;
		choice->kernel = line.choice ? kernel : NULL;
	}
}

static void fill(struct tuned *tuned, int driver, const void *image, size_t bytes)
{
	struct tuned_machine here = {.driver = driver};
	char path[PATH_MAX], why[512];
	const char *at, *problem;
	char *text;

	/* The number of the build takes a look at the whole image: not where nobody ever tuned. */
	if (!config()->tune_cache[0] && (tuned_folder(path, sizeof(path)) || access(path, R_OK)))
		return;
	snprintf(here.gpu, sizeof(here.gpu), "%s", tuned->gpu);
	here.build = tuned_build(image, bytes);
	if (!find_path(&here, path, sizeof(path)))
		return;
	text = user_file_read(path, TUNED_LARGEST, &problem);
	if (!text) {
		if (config()->tune_cache[0] || errno != ENOENT)
			tell(path, 0, problem);
		return;
	}
	at = text;
	problem = unfit(&here, &at, why, sizeof(why));
	if (!problem)
		take_choices(tuned, at);
	tell(path, tuned->count, problem);
	free(text);
}

const struct tuned *tuned_open(const char *gpu, int driver, const void *image, size_t bytes)
{
	const int saved_errno = errno;
	struct tuned *tuned;

	if (!strcmp(config()->tune_cache, "off"))
		return NULL;
	for (int i = 0; i < cache_count; i++)
		if (!strcmp(caches[i].gpu, gpu))
			return &caches[i];
	if (cache_count == MODELS)
		return NULL;
	tuned = &caches[cache_count++];
	snprintf(tuned->gpu, sizeof(tuned->gpu), "%s", gpu);
	fill(tuned, driver, image, bytes);
	errno = saved_errno;
	return tuned;
}

const char *tuned_kernel(const struct tuned *tuned, const struct attn_args *args)
{
	const struct choice *choice;
	struct call_form form;

	if (!tuned || !tuned->count)
		return NULL;
	call_form_of(&form, args);
	choice = find(tuned, &form);
	return choice ? choice->kernel : NULL;
}
