/* SPDX-License-Identifier: Apache-2.0
 *
 * Four times through the chain (measure_passes.c), and twice more where what it writes has a clear
 * length (measure_holes.c). What a kernel was found to write is kept, for each of its shapes.
 */
#include "shim/ask/measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/ledger.h"
#include "shim/ask/mirror.h"
#include "shim/ask/measure_parts.h"
#include "shim/base/message.h"

#define RESULTS 128

/* Of each kernel and shape: bytes written at each pointer, 0 none. Asked once. */
static struct result {
	uint64_t key;
	bool unclear, sparse, triangle, beyond;
	uint64_t bytes[CHAIN_REFS];
} results[RESULTS];
static int result_count;

/* ---- subjects and results ------------------------------------------------------------------- */

static uint64_t key_of(const struct measuring *session, int step)
{
	return hash_mix(session->chain->steps[step].signature, session->elements);
}

static struct result *result_of(uint64_t key)
{
	for (int i = 0; i < result_count && i < RESULTS; i++)
		if (results[i].key == key)
			return &results[i];
	return NULL;
}

static int ref_of_value(const struct step *step, int value)
{
	for (int i = 0; i < step->ref_count; i++)
		if (step->refs[i].kind == REF_VALUE && step->refs[i].index == value)
			return i;
	return -1;
}

static void find_subjects(struct measuring *session)
{
	const struct chain *chain = session->chain;

	for (int v = 1; v < chain->value_count; v++) {
		int s = 1;

		const bool fixed = v == chain->p_value;

		if (!chain->values[v].provisional && !fixed)
			continue;
		while (s < chain->step_count && ref_of_value(&chain->steps[s], v) < 0)
			s++;
		if (s == chain->step_count || !measure_is_unknown(&chain->steps[s]))
			continue;
		session->subjects[session->subject_count++] = (struct subject){
			.value = v,
			.step = s,
			.fixed = fixed,
			.length = fixed ? (int64_t)(chain->values[v].end - chain->values[v].begin)
					: 0};
	}
	measure_find_rooms(session);
}

static bool has_unknown(const struct chain *chain)
{
	for (int s = 1; s < chain->step_count; s++)
		if (measure_is_unknown(&chain->steps[s]))
			return true;
	return false;
}

static bool known(const struct measuring *session)
{
	for (int s = 1; s < session->chain->step_count; s++)
		if (measure_is_unknown(&session->chain->steps[s]) && !result_of(key_of(session, s)))
			return false;
	return true;
}

static struct result *result_for(uint64_t key)
{
	struct result *result = result_of(key);

	if (!result) {
		result = &results[result_count++ % RESULTS];
		*result = (struct result){.key = key};
	}
	return result;
}

static void keep_result(const struct measuring *session, struct subject *subject)
{
	const struct step *step = &session->chain->steps[subject->step];
	const int64_t length = subject->length;
	struct result *result = result_for(key_of(session, subject->step));

	result->unclear |= length < 0;
	result->sparse |= subject->sparse && !subject->triangle;
	result->triangle |= subject->triangle;
	result->bytes[ref_of_value(step, subject->value)] = length < 0 ? 0 : (uint64_t)length;
}

static void run_passes(struct measuring *session)
{
	struct driver_context here;
	bool done;

	COST(PURPOSE_ASKING);
	if (!driver_enter(&here, session->chain->context))
		return;
	done = !fused_prepare(session->chain->context) &&
	       mirrors_open(&session->mirrors, session->chain);
	for (int pass = 0; pass < MEASURE_PASSES && done; pass++)
		done = measure_pass(session, pass);
	for (int i = 0; i < session->subject_count && done; i++)
		session->subjects[i].length = measure_length(session, &session->subjects[i]);
	done = done && measure_behind(session) && measure_holes(session);
	mirrors_close(&session->mirrors);
	driver_leave(&here);
	for (int i = 0; i < session->subject_count && done; i++)
		keep_result(session, &session->subjects[i]);
	for (int s = 1; s < session->chain->step_count && done; s++)
		if (measure_is_unknown(&session->chain->steps[s]))
			result_for(key_of(session, s))->beyond |= session->beyond[s];
}

/* A length that is known makes a value one like any other: it takes its bytes from older ones, and
 * newer ones have taken theirs from it. */
static void settle(struct chain *chain, int at, uint64_t bytes)
{
	struct value *value = &chain->values[at];

	value->end = value->begin + bytes;
	chain->high = chain->high > value->end ? chain->high : value->end;
	value->provisional = false;
	range_set_cut(&value->live, value->end, UINT64_MAX);
	for (int i = 0; i < chain->value_count; i++) {
		struct value *other = &chain->values[i];

		if (i < at)
			range_set_cut(&other->live, value->begin, value->end);
		else if (i > at && !other->provisional)
			range_set_cut(&value->live, other->begin, other->end);
	}
}

static bool all_fixed(const struct measuring *session)
{
	for (int i = 0; i < session->subject_count; i++)
		if (!session->subjects[i].fixed)
			return false;
	return true;
}

static bool affordable(const struct chain *chain)
{
	return fused_prepared(chain->context) ? ledger_affords(LEDGER_MEASURE)
					      : ledger_affords_both(LEDGER_MEASURE, LEDGER_KERNELS);
}

/* Are the kernels there that look at what was written? What cannot be loaded is as good as there:
 * it is found out. */
static bool ready(const struct chain *chain)
{
	struct driver_context here;
	int error;

	if (!driver_enter(&here, chain->context))
		return true;
	error = fused_prepare(chain->context);
	driver_leave(&here);
	return error != -EAGAIN;
}

const char *measure_chain(struct chain *chain, bool *waits)
{
	static struct measuring session; /* flow lock */
	const struct op_gemm *opener = &chain->steps[0].gemm;

	memset(&session, 0, sizeof(session));
	session.chain = chain;
	session.elements = (uint64_t)(opener->m * opener->n * opener->batch);
	if (chain->unfit != REASON_NONE)
		return NULL;
	find_subjects(&session);
	if (!session.subject_count && !has_unknown(chain))
		return NULL;
	measure_find_lengths(&session);
	if (!session.length_count && !all_fixed(&session))
		return "too few scores to measure what a kernel writes";
	if (!known(&session)) {
		const char *hindrance;
		struct ledger_entry entry;

		*waits = !affordable(chain) || !ready(chain);
		if (*waits)
			return NULL;
		entry = ledger_begin(LEDGER_MEASURE); /* reads the kernels' code first */
		hindrance = mirrors_hindrance(chain);
		if (!hindrance)
			run_passes(&session);
		ledger_end(entry);
		message_debug("kernels between the products measured: %s",
			      hindrance		? hindrance
			      : known(&session) ? "it is known what they write"
						: "no answer");
		if (hindrance)
			return hindrance;
		if (!known(&session))
			return session.mirrors.hindrance ? session.mirrors.hindrance
							 : "no room to measure what a kernel "
							   "writes: raise FASHIM_SCRATCH_MB";
	}
	chain->measured = true;
	for (int s = 1; s < chain->step_count; s++) {
		const struct result *result = result_of(key_of(&session, s));

		if (!measure_is_unknown(&chain->steps[s]) || !result || !result->beyond)
			continue;
		chain->unfit = REASON_UNACCOUNTED_POINTER;
		snprintf(chain->detail, sizeof(chain->detail), "%s writes behind scores",
			 chain->steps[s].name);
	}
	for (int i = 0; i < session.subject_count; i++) {
		const struct subject *subject = &session.subjects[i];
		const struct result *result = result_of(key_of(&session, subject->step));
		const int ref = ref_of_value(&chain->steps[subject->step], subject->value);

		if (result && result->unclear) {
			chain->unfit = REASON_UNACCOUNTED_POINTER;
			snprintf(chain->detail, sizeof(chain->detail), "%s writes something else",
				 chain->steps[subject->step].name);
		} else if (result && result->sparse) {
			chain->unfit = REASON_LAYOUT;
			snprintf(chain->detail, sizeof(chain->detail),
				 "%s leaves parts of its output alone",
				 chain->steps[subject->step].name);
		} else if (subject->fixed) {
			chain->triangle |= result && result->triangle;
		} else if (result && result->bytes[ref]) {
			settle(chain, subject->value, result->bytes[ref]);
		}
	}
	return NULL;
}
