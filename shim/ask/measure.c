/* SPDX-License-Identifier: Apache-2.0
 *
 * Four times through the chain. Two passes with different random scores tell which pointers are
 * written at all: what depends on the scores changes. In two more the memory behind those is filled
 * with a pattern before the launch, another one each time: a byte that is not the pattern in one of
 * them was written, whatever was written there.
 *
 * Looked at are windows: at the ends that a tensor can have which has as many elements as there are
 * scores, or rows of them, and spread evenly before these. A tensor that is of neither kind stays
 * unknown.
 */
#include "shim/ask/measure.h"

#include <stdio.h>
#include <string.h>

#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"
#include "shim/ask/mirror.h"
#include "shim/real/driver.h"
#include "shim/gpu/step_launch.h"
#include "shim/gpu/scratch.h"

#define RESULTS	   128
#define LENGTHS	   5
#define WINDOW	   32 /* bytes */
#define INSIDE	   4  /* windows of each stretch between two lengths, but for the one at its end */
#define WINDOWS	   (LENGTHS * (INSIDE + 1) + 1)
#define RANDOM	   (MIRROR_HOST / 2)
#define PASSES	   4
#define PATTERNS   2 /* the first pass with one */
#define MAX_VALUES CHAIN_VALUES

/* A value of unknown length, and what was seen of it. */
struct subject {
	int value, step;
	uint64_t room;	/* bytes behind it that are no other pointer's */
	int64_t length; /* bytes written; 0: none; -1: not clear */
	bool fixed;	/* P: the product that reads it says how long it is */
	uint64_t kept;	/* what the first of two launches left there */
	bool sparse;	/* bytes in between are not written */
	bool written;
	bool touched[WINDOWS], whole[WINDOWS]; /* any byte, every byte */
	unsigned char seen[WINDOWS][WINDOW];   /* which bytes were written, over the passes */
};

struct session {
	struct chain *chain;
	uint64_t elements;
	int length_count;
	uint64_t length[LENGTHS]; /* that a tensor may have, in bytes, growing */
	int subject_count;
	struct subject subjects[MAX_VALUES];
	struct mirrors mirrors;
	bool beyond[CHAIN_STEPS]; /* the step writes behind a value that it is pointed to */
};

/* Of each kernel and shape: bytes written at each pointer, 0 none. Asked once. */
static struct result {
	uint64_t key;
	bool unclear, sparse, beyond;
	uint64_t bytes[CHAIN_REFS];
} results[RESULTS];
static int result_count;

/* ---- data ----------------------------------------------------------------------------------- */

/* Small numbers of either sign, in the type of the scores, other ones in each pass. */
static void make_random(unsigned char *host, int dtype, unsigned seed)
{
	const unsigned size = dtype == ATTN_F32 ? 4 : 2;
	uint32_t state = 0x9e3779b9u * (seed + 1);

	for (unsigned at = 0; at < RANDOM; at += size) {
		uint32_t word;

		state = state * 1664525u + 1013904223u;
		word = state >> 8;
		if (dtype == ATTN_F32) /* magnitudes of [1/4, 1) throughout */
			word = (word & 1) << 31 | (0x3e800000u + (word >> 1 & 0xffffff));
		else if (dtype == ATTN_BF16)
			word = (word & 1) << 15 | (0x3e80u + (word >> 1 & 0xff));
		else
			word = (word & 1) << 15 | (0x3400u + (word >> 1 & 0x7ff));
		memcpy(host + at, &word, size);
	}
}

static bool fill_scores(const struct session *session, unsigned seed)
{
	const struct chain *chain = session->chain;

	make_random(session->mirrors.host, dtype_of_cuda(chain->steps[0].gemm.ctype), seed);
	return mirrors_fill(&session->mirrors,
			    mirrors_place(&session->mirrors, chain->values[0].begin, NULL),
			    chain->values[0].end - chain->values[0].begin, RANDOM);
}

/* ---- windows -------------------------------------------------------------------------------- */

/* Lengths of two, four or eight bytes a row, of two or four a score; none so close to the one
 * before that no window fits between. */
static void find_lengths(struct session *session)
{
	const uint64_t rows = session->elements / (uint64_t)session->chain->steps[0].gemm.m;
	const uint64_t lengths[LENGTHS] = {2 * rows, 4 * rows, 8 * rows, 2 * session->elements,
					   4 * session->elements};
	uint64_t last = 0;

	for (int i = 0; i < LENGTHS; i++)
		if (lengths[i] >= last + 2 * WINDOW)
			session->length[session->length_count++] = last = lengths[i];
}

/* Stretch by stretch; the last of all lies behind the longest. */
static uint64_t window_offset(const struct session *session, int window)
{
	const int stretch = window / (INSIDE + 1), n = window % (INSIDE + 1);
	const uint64_t begin = stretch ? session->length[stretch - 1] : 0;

	if (stretch >= session->length_count)
		return begin;
	return begin + (session->length[stretch] - begin - WINDOW) * (uint64_t)n / INSIDE;
}

static int window_count(const struct session *session)
{
	return session->length_count * (INSIDE + 1) + 1;
}

static bool window_exists(const struct session *session, const struct subject *subject, int window)
{
	return window_offset(session, window) + WINDOW <= subject->room;
}

/* Copies all windows to `into` (WINDOWS of them). */
static bool read_windows(const struct session *session, const struct subject *subject,
			 unsigned char *into)
{
	const struct chain *chain = session->chain;
	const uint64_t from =
		mirrors_place(&session->mirrors, chain->values[subject->value].begin, NULL);

	for (int w = 0; w < window_count(session); w++)
		if (window_exists(session, subject, w) &&
		    driver.cuMemcpyDtoHAsync_v2(into + w * WINDOW,
						(CUdeviceptr)(from + window_offset(session, w)),
						WINDOW, chain->stream) != CUDA_SUCCESS)
			return false;
	return true;
}

static void note_changes(const struct session *session, struct subject *subject, int pass,
			 const unsigned char *before, const unsigned char *after)
{
	for (int w = 0; w < window_count(session); w++) {
		if (!window_exists(session, subject, w))
			continue;
		for (int i = 0; i < WINDOW; i++) {
			if (before[w * WINDOW + i] == after[w * WINDOW + i])
				continue;
			subject->written = true;
			subject->seen[w][i] |= pass >= PATTERNS;
		}
	}
}

static void sum_up(struct subject *subject)
{
	for (int w = 0; w < WINDOWS; w++) {
		subject->whole[w] = true;
		for (int i = 0; i < WINDOW; i++) {
			subject->touched[w] |= subject->seen[w][i];
			subject->whole[w] &= subject->seen[w][i] != 0;
		}
	}
}

static int64_t length_of(const struct session *session, struct subject *subject)
{
	int whole = 0, touched = window_count(session);

	if (subject->fixed)
		return subject->length;
	if (!subject->written)
		return 0;
	sum_up(subject);
	while (whole < window_count(session) && subject->whole[whole])
		whole++;
	while (touched && !subject->touched[touched - 1])
		touched--;
	return whole == touched && whole && whole % (INSIDE + 1) == 0
		       ? (int64_t)session->length[whole / (INSIDE + 1) - 1]
		       : -1;
}

/* ---- passes --------------------------------------------------------------------------------- */

static bool is_unknown(const struct step *step)
{
	return step->meaning.role == ROLE_UNKNOWN && step->kind == OP_LAUNCH;
}

/* ---- values that are known -------------------------------------------------------------------
 *
 * What a kernel is pointed to may be a value by its address alone: another tensor, a longer one, in
 * memory that was the scores'. Then it writes behind the value's end. */

/* May what the step does at its other pointers reach so far? */
static bool may_be_others(const struct session *session, const struct step *step, int value,
			  uint64_t begin, uint64_t end)
{
	const struct chain *chain = session->chain;

	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *ref = &step->refs[i];
		const bool of_value = ref->kind == REF_VALUE;
		const uint64_t from = step_pointer(chain, step, i);
		uint64_t to = from + 4 * session->elements;

		if (of_value && ref->index == value)
			continue;
		if (of_value && !chain->values[ref->index].provisional)
			to = chain->values[ref->index].end;
		if (range_overlap(from, to, begin, end))
			return true;
	}
	return false;
}

/* The first bytes behind each value that the step is pointed to, and that is no subject. */
static bool read_behind(const struct session *session, int number, unsigned char *into)
{
	const struct chain *chain = session->chain;
	const struct step *step = &chain->steps[number];

	memset(into, 0, CHAIN_REFS * WINDOW);
	for (int i = 0; i < step->ref_count && is_unknown(step); i++) {
		const int index = step->refs[i].index;
		const struct value *value = &chain->values[index];
		uint64_t room, at;

		if (step->refs[i].kind != REF_VALUE || index == chain->p_value)
			continue;
		if (value->provisional ||
		    may_be_others(session, step, index, value->end, value->end + WINDOW))
			continue;
		at = mirrors_place(&session->mirrors, value->begin, &room);
		if (!at || value->end - value->begin + WINDOW > room)
			continue;
		at += value->end - value->begin;
		if (driver.cuMemcpyDtoHAsync_v2(into + i * WINDOW, (CUdeviceptr)at, WINDOW,
						chain->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

static bool run_looking_behind(struct session *session, int number)
{
	unsigned char *before = session->mirrors.host + RANDOM + 2 * MAX_VALUES * WINDOWS * WINDOW;
	unsigned char *after = before + CHAIN_REFS * WINDOW;

	_Static_assert(RANDOM + 2 * MAX_VALUES * WINDOWS * WINDOW + 2 * CHAIN_REFS * WINDOW <=
			       MIRROR_HOST,
		       "no room on the host");
	if (!read_behind(session, number, before) ||
	    !mirrors_run(&session->mirrors, &session->chain->steps[number]) ||
	    !read_behind(session, number, after) || !mirrors_await(&session->mirrors))
		return false;
	session->beyond[number] |= memcmp(before, after, CHAIN_REFS * WINDOW) != 0;
	return true;
}

static bool run_watched(struct session *session, int number, int pass)
{
	unsigned char *before = session->mirrors.host + RANDOM;
	unsigned char *after = before + MAX_VALUES * WINDOWS * WINDOW;

	for (int turn = 0; turn < 2; turn++) {
		unsigned char *into = turn ? after : before;

		for (int i = 0; i < session->subject_count; i++) {
			struct subject *subject = &session->subjects[i];
			const uint64_t at =
				mirrors_place(&session->mirrors,
					      session->chain->values[subject->value].begin, NULL);

			if (subject->step != number || subject->fixed)
				continue;
			if (turn == 0 && pass >= PATTERNS && subject->written &&
			    driver.cuMemsetD8Async((CUdeviceptr)at, pass == PATTERNS ? 0x55 : 0xaa,
						   subject->room,
						   session->chain->stream) != CUDA_SUCCESS)
				return false;
			if (!read_windows(session, subject, into + i * WINDOWS * WINDOW))
				return false;
		}
		if (turn == 0 && !run_looking_behind(session, number))
			return false;
	}
	if (!mirrors_await(&session->mirrors))
		return false;
	for (int i = 0; i < session->subject_count; i++)
		if (session->subjects[i].step == number && !session->subjects[i].fixed)
			note_changes(session, &session->subjects[i], pass,
				     before + i * WINDOWS * WINDOW, after + i * WINDOWS * WINDOW);
	return true;
}

static bool run_pass(struct session *session, int pass)
{
	if (!mirrors_refresh(&session->mirrors) || !fill_scores(session, (unsigned)pass))
		return false;
	for (int s = 1; s < session->chain->step_count; s++)
		if (!run_watched(session, s, pass))
			return false;
	return true;
}

/* ---- every byte
 * ----------------------------------------------------------------------------------
 *
 * Windows tell how long a tensor is, not that all of it is written: a softmax may leave alone what
 * a mask covers. Values that have holes cannot be made anew. */

static const int holes_pattern[2] = {0x5a, 0xa5};

/* Fills what the step will write; then runs it; then keeps what is there, or counts. */
static bool fill_holes(const struct session *session, int number, int pass)
{
	for (int i = 0; i < session->subject_count; i++) {
		const struct subject *subject = &session->subjects[i];
		const uint64_t at = mirrors_place(
			&session->mirrors, session->chain->values[subject->value].begin, NULL);

		if (subject->step == number && subject->length > 0 &&
		    driver.cuMemsetD8Async((CUdeviceptr)at, (unsigned char)holes_pattern[pass],
					   (size_t)subject->length,
					   session->chain->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

static bool look_at_holes(const struct session *session, int number, int pass, uint64_t counts)
{
	const struct chain *chain = session->chain;

	for (int i = 0; i < session->subject_count; i++) {
		const struct subject *subject = &session->subjects[i];
		const uint64_t at =
			mirrors_place(&session->mirrors, chain->values[subject->value].begin, NULL);
		const struct unwritten_args args = {.first = subject->kept,
						    .second = at,
						    .bytes = (uint64_t)subject->length,
						    .result = counts + 8 * (uint64_t)i,
						    .first_pattern = holes_pattern[0],
						    .second_pattern = holes_pattern[1]};

		if (subject->step != number || subject->length <= 0)
			continue;
		if (pass == 0 ? driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)subject->kept,
							    (CUdeviceptr)at, args.bytes,
							    chain->stream) != CUDA_SUCCESS
			      : fused_count_unwritten(chain->context, chain->stream, &args) != 0)
			return false;
	}
	return true;
}

static bool run_twice(struct session *session, uint64_t counts)
{
	for (int pass = 0; pass < 2; pass++) {
		if (!mirrors_refresh(&session->mirrors) ||
		    !fill_scores(session, PASSES)) /* the same: what is written is, too */
			return false;
		for (int s = 1; s < session->chain->step_count; s++)
			if (!fill_holes(session, s, pass) ||
			    !mirrors_run(&session->mirrors, &session->chain->steps[s]) ||
			    !look_at_holes(session, s, pass, counts))
				return false;
	}
	return true;
}

static bool find_holes(struct session *session)
{
	const struct chain *chain = session->chain;
	const uint64_t counts = scratch_get(chain->context, chain->stream, 8 * MAX_VALUES, false);
	uint64_t *found = (uint64_t *)session->mirrors.host;
	bool done = counts != 0 && driver.cuMemsetD8Async((CUdeviceptr)counts, 0, 8 * MAX_VALUES,
							  chain->stream) == CUDA_SUCCESS;

	for (int i = 0; i < session->subject_count && done; i++)
		if (session->subjects[i].length > 0) {
			session->subjects[i].kept =
				scratch_get(chain->context, chain->stream,
					    (uint64_t)session->subjects[i].length, false);
			done = session->subjects[i].kept != 0;
		}
	done = done && run_twice(session, counts) &&
	       driver.cuMemcpyDtoHAsync_v2(found, (CUdeviceptr)counts, 8 * MAX_VALUES,
					   chain->stream) == CUDA_SUCCESS &&
	       mirrors_await(&session->mirrors);
	for (int i = 0; i < session->subject_count; i++) {
		session->subjects[i].sparse = done && found[i] != 0;
		scratch_put(session->subjects[i].kept, chain->stream);
	}
	scratch_put(counts, chain->stream);
	return done;
}

/* ---- subjects and results ------------------------------------------------------------------- */

static uint64_t key_of(const struct session *session, int step)
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

static void no_further(uint64_t *end, uint64_t begin, uint64_t other)
{
	if (other > begin && other < *end)
		*end = other;
}

/* No further than the next pointer of the same launch, nor than what may be an input of any, nor
 * than the most that could be written. */
static uint64_t room_behind(const struct session *session, const struct step *step, uint64_t begin)
{
	const struct chain *chain = session->chain;
	const struct allocation *allocation = memory_find(begin);
	uint64_t end = begin + 4 * session->elements + WINDOW;

	if (!allocation)
		return 0;
	no_further(&end, begin, allocation->base + allocation->bytes);
	for (int i = 0; i < step->ref_count; i++)
		no_further(&end, begin, step_pointer(chain, step, i));
	for (int i = 1; i < chain->value_count; i++)
		if (chain->values[i].provisional || chain->values[i].outside)
			no_further(&end, begin, chain->values[i].begin);
	for (int i = 0; i < chain->input_count; i++)
		no_further(&end, begin, chain->inputs[i].begin);
	return end - begin;
}

static void find_subjects(struct session *session)
{
	const struct chain *chain = session->chain;

	for (int v = 1; v < chain->value_count; v++) {
		int s = 1;

		const bool fixed = v == chain->p_value;

		if (!chain->values[v].provisional && !fixed)
			continue;
		while (s < chain->step_count && ref_of_value(&chain->steps[s], v) < 0)
			s++;
		if (s == chain->step_count || !is_unknown(&chain->steps[s]))
			continue;
		session->subjects[session->subject_count++] = (struct subject){
			.value = v,
			.step = s,
			.fixed = fixed,
			.length = fixed ? (int64_t)(chain->values[v].end - chain->values[v].begin)
					: 0,
			.room = room_behind(session, &chain->steps[s], chain->values[v].begin)};
	}
}

static bool known(const struct session *session)
{
	for (int s = 1; s < session->chain->step_count; s++)
		if (is_unknown(&session->chain->steps[s]) && !result_of(key_of(session, s)))
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

static void keep_result(const struct session *session, struct subject *subject)
{
	const struct step *step = &session->chain->steps[subject->step];
	const int64_t length = subject->length;
	struct result *result = result_for(key_of(session, subject->step));

	result->unclear |= length < 0;
	result->sparse |= subject->sparse;
	result->bytes[ref_of_value(step, subject->value)] = length < 0 ? 0 : (uint64_t)length;
}

static void run_passes(struct session *session)
{
	struct driver_context here;
	bool done;

	COST(PURPOSE_ASKING);
	if (!driver_enter(&here, session->chain->context))
		return;
	done = !fused_prepare(session->chain->context) &&
	       mirrors_open(&session->mirrors, session->chain);
	for (int pass = 0; pass < PASSES && done; pass++)
		done = run_pass(session, pass);
	for (int i = 0; i < session->subject_count && done; i++)
		session->subjects[i].length = length_of(session, &session->subjects[i]);
	done = done && find_holes(session);
	mirrors_close(&session->mirrors);
	driver_leave(&here);
	for (int i = 0; i < session->subject_count && done; i++)
		keep_result(session, &session->subjects[i]);
	for (int s = 1; s < session->chain->step_count && done; s++)
		if (is_unknown(&session->chain->steps[s]))
			result_for(key_of(session, s))->beyond |= session->beyond[s];
}

/* A length that is known makes a value one like any other: it takes its bytes from older ones, and
 * newer ones have taken theirs from it. */
static void settle(struct chain *chain, int at, uint64_t bytes)
{
	struct value *value = &chain->values[at];

	value->end = value->begin + bytes;
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

static bool all_fixed(const struct session *session)
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

const char *measure_chain(struct chain *chain, bool *waits)
{
	static struct session session; /* flow lock */
	const struct op_gemm *opener = &chain->steps[0].gemm;

	memset(&session, 0, sizeof(session));
	session.chain = chain;
	session.elements = (uint64_t)(opener->m * opener->n * opener->batch);
	if (chain->unfit != REASON_NONE)
		return NULL;
	find_subjects(&session);
	if (!session.subject_count)
		return NULL;
	find_lengths(&session);
	if (!session.length_count && !all_fixed(&session))
		return "too few scores to measure what a kernel writes";
	if (!known(&session)) {
		const char *hindrance;
		struct ledger_entry entry;

		*waits = !affordable(chain);
		if (*waits)
			return NULL;
		entry = ledger_begin(LEDGER_MEASURE); /* reads the kernels' code first */
		hindrance = mirrors_hindrance(chain);
		if (!hindrance)
			run_passes(&session);
		ledger_end(entry);
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

		if (!is_unknown(&chain->steps[s]) || !result || !result->beyond)
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
			continue;
		} else if (result && result->bytes[ref]) {
			settle(chain, subject->value, result->bytes[ref]);
		}
	}
	return NULL;
}
