/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict, from a document alone.
 */
#include "tools/bench/oracle.h"
#include "tools/base/bootstrap.h"
#include "tools/base/json_text.h"
#include "tools/bench/chain.h"
#include "tools/bench/document.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a reference launched -------------------------------------------------------------- */

/* Does a kernel's name say that it is a whole attention? The softmax of our own chain is none. */
static bool is_fused(const char *kernel)
{
	static const char *const words[] = {"flash", "fmha", "attention", "sdpa", "attn"};

	if (!strncmp(kernel, "fashim_", 7))
		return strcmp(kernel, chain_step()->symbol) != 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcasestr(kernel, words[i]))
			return true;
	return false;
}

/* The first kernel of that kind, or NULL. */
static const char *kernel_of_kind(const json_t *reference, bool fused)
{
	const json_t *kernels = json_object_get(reference, "kernels"), *kernel;
	size_t i;

	json_array_foreach(kernels, i, kernel)
	{
		const char *name = json_string_value(kernel);

		if (name && is_fused(name) == fused)
			return name;
	}
	return NULL;
}

/* Why a reference is not what it is said to be: in `why`; false: it is. A chain whose kernels the
 * driver cannot name is what we launched ourselves. */
static bool is_impostor(const json_t *reference, char *why, size_t size)
{
	const bool fused = json_is_true(json_object_get(reference, "fused"));
	const bool known = json_array_size(json_object_get(reference, "kernels")) > 0;
	const char *name = text_of(reference, "name");
	const char *wrong = fused ? NULL : kernel_of_kind(reference, true);

	if (!known && strcmp(name, "cuBLAS chain"))
		snprintf(why, size, "%s: nobody knows which kernels it launched", name);
	else if (fused && !kernel_of_kind(reference, true))
		snprintf(why, size, "%s: none of its kernels is a fused attention", name);
	else if (wrong)
		snprintf(why, size, "%s is secretly a fused attention: it launched %s", name,
			 wrong);
	else
		return false;
	return true;
}

/* What does not compute attention is no reference either, however long it takes. */
static bool is_astray(const json_t *reference, double tolerance, char *why, size_t size)
{
	const json_t *error = json_object_get(reference, "error");
	const double max = bench_number(error, "max");

	if (max < tolerance * BENCH_CHAIN && !(bench_number(error, "nonfinite") > 0))
		return false;
	snprintf(why, size, "%s does not compute attention: it is off by %.1e",
		 text_of(reference, "name"), max);
	return true;
}

static json_t *refusal(const json_t *document)
{
	const json_t *references = json_object_get(document, "references"), *reference;
	const double tolerance = bench_number(document, "tolerance");
	char why[512];
	size_t i;

	if (!json_array_size(references))
		return json_string("there is no reference");
	json_array_foreach(references, i, reference)
	{
		if (is_impostor(reference, why, sizeof(why)) ||
		    is_astray(reference, tolerance, why, sizeof(why)))
			return json_text(why);
	}
	return json_null();
}

/* ---- speed ---------------------------------------------------------------------------------- */

static json_t *round_ratios(const json_t *candidate, const json_t *reference)
{
	const json_t *ours = json_object_get(candidate, "us");
	const json_t *theirs = json_object_get(reference, "us");
	json_t *ratios = json_array();

	for (size_t i = 0; i < json_array_size(ours) && i < json_array_size(theirs); i++)
		json_array_append_new(ratios,
				      json_number(json_number_value(json_array_get(ours, i)) /
						  json_number_value(json_array_get(theirs, i))));
	return ratios;
}

static int compare(const json_t *candidate, const json_t *reference, double max_ratio,
		   json_t *comparisons)
{
	double *ours, *theirs;
	const size_t n = bench_times(candidate, &ours), m = bench_times(reference, &theirs);
	struct bootstrap_interval interval;
	int result = bootstrap_ratio(ours, n, theirs, m, BOOTSTRAP_SEED, &interval);

	free(ours);
	free(theirs);
	/* Too few rounds leave no interval, and nothing is below it. */
	if (result && result != -ENODATA)
		return result;
	json_array_append_new(
		comparisons,
		json_pack("{s:s,s:o,s:o,s:o,s:o,s:b}", "reference", text_of(reference, "name"),
			  "ratio", json_number(interval.ratio), "low", json_number(interval.low),
			  "high", json_number(interval.high), "ratios",
			  round_ratios(candidate, reference), "passed", interval.high < max_ratio));
	return 0;
}

static int compare_all(const json_t *document, double max_ratio, json_t *comparisons)
{
	const json_t *candidate = json_object_get(document, "candidate");
	const json_t *references = json_object_get(document, "references"), *reference;
	size_t i;
	int result = 0;

	json_array_foreach(references, i, reference)
	{
		result = compare(candidate, reference, max_ratio, comparisons);
		if (result)
			break;
	}
	return result;
}

static bool all_passed(const json_t *comparisons)
{
	const json_t *one;
	size_t i;

	json_array_foreach(comparisons, i, one)
	{
		if (!json_is_true(json_object_get(one, "passed")))
			return false;
	}
	return json_array_size(comparisons) > 0;
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool is_correct(const json_t *document)
{
	const json_t *error = json_object_get(json_object_get(document, "candidate"), "error");

	return bench_number(error, "cases") > 0 && bench_number(error, "nonfinite") == 0 &&
	       bench_number(error, "max") < bench_number(document, "tolerance");
}

int oracle_judge(json_t *document, double max_ratio)
{
	json_t *comparisons = json_array();
	json_t *refused = refusal(document);
	const bool correct = is_correct(document);
	int result = compare_all(document, max_ratio, comparisons);
	const bool passed = !result && correct && json_is_null(refused) && all_passed(comparisons);

	json_object_set_new(document, "max_ratio", json_real(max_ratio));
	json_object_set_new(document, "confidence", json_real(0.95));
	json_object_set_new(document, "resamples", json_integer(BOOTSTRAP_RESAMPLES));
	json_object_set_new(document, "comparisons", comparisons);
	json_object_set_new(document, "correct", json_boolean(correct));
	json_object_set_new(document, "refused", refused);
	json_object_set_new(document, "passed", json_boolean(passed));
	return result;
}
