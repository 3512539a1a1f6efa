/* SPDX-License-Identifier: Apache-2.0
 *
 * Two passes with different random scores tell which pointers are written at all: what depends on
 * the scores changes. In two more the memory behind those is filled with a pattern before the
 * launch, another one each time: a byte that is not the pattern in one of them was written,
 * whatever was written there.
 */
#include "shim/ask/measure_parts.h"

#include <string.h>

#include "shim/ask/mirror.h"
#include "shim/real/driver.h"
#include "shim/gpu/step_launch.h"

#define PATTERNS 2 /* the first pass with one */

/* ---- data ----------------------------------------------------------------------------------- */

/* Small numbers of either sign, in the type of the scores, other ones in each pass. */
static void make_random(unsigned char *host, int dtype, unsigned seed)
{
	const unsigned size = dtype == ATTN_F32 ? 4 : 2;
	uint32_t state = 0x9e3779b9u * (seed + 1);

	for (unsigned at = 0; at < MEASURE_RANDOM; at += size) {
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

bool measure_fill_scores(const struct measuring *session, unsigned seed)
{
	const struct chain *chain = session->chain;

	make_random(session->mirrors.host, dtype_of_cuda(chain->steps[0].gemm.ctype), seed);
	return mirrors_fill(&session->mirrors,
			    mirrors_place(&session->mirrors, chain->values[0].begin, NULL),
			    chain->values[0].end - chain->values[0].begin, MEASURE_RANDOM);
}

/* ---- values that are known -------------------------------------------------------------------
 *
 * What a kernel is pointed to may be a value by its address alone: another tensor, a longer one, in
 * memory that was the scores'. Then it writes behind the value's end. */

/* May what the step does at its other pointers reach so far? */
static bool may_be_others(const struct measuring *session, const struct step *step, int value,
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
static bool read_behind(const struct measuring *session, int number, unsigned char *into)
{
	const struct chain *chain = session->chain;
	const struct step *step = &chain->steps[number];

	memset(into, 0, CHAIN_REFS * WINDOW);
	for (int i = 0; i < step->ref_count && measure_is_unknown(step); i++) {
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

static bool run_looking_behind(struct measuring *session, int number)
{
	unsigned char *before = session->mirrors.host + MEASURE_RANDOM +
				2 * MEASURE_VALUES * MEASURE_WINDOWS * WINDOW;
	unsigned char *after = before + CHAIN_REFS * WINDOW;

	_Static_assert(MEASURE_RANDOM + 2 * MEASURE_VALUES * MEASURE_WINDOWS * WINDOW +
				       2 * CHAIN_REFS * WINDOW <=
			       MIRROR_HOST,
		       "no room on the host");
	if (!read_behind(session, number, before) ||
	    !mirrors_run(&session->mirrors, &session->chain->steps[number]) ||
	    !read_behind(session, number, after) || !mirrors_await(&session->mirrors))
		return false;
	session->beyond[number] |= memcmp(before, after, CHAIN_REFS * WINDOW) != 0;
	return true;
}

/* ---- passes --------------------------------------------------------------------------------- */

static bool run_watched(struct measuring *session, int number, int pass)
{
	unsigned char *before = session->mirrors.host + MEASURE_RANDOM;
	unsigned char *after = before + MEASURE_VALUES * MEASURE_WINDOWS * WINDOW;

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
			if (!measure_read_windows(session, subject,
						  into + i * MEASURE_WINDOWS * WINDOW))
				return false;
		}
		if (turn == 0 && !run_looking_behind(session, number))
			return false;
	}
	if (!mirrors_await(&session->mirrors))
		return false;
	for (int i = 0; i < session->subject_count; i++)
		if (session->subjects[i].step == number && !session->subjects[i].fixed)
			measure_note_changes(session, &session->subjects[i], pass >= PATTERNS,
					     before + i * MEASURE_WINDOWS * WINDOW,
					     after + i * MEASURE_WINDOWS * WINDOW);
	return true;
}

bool measure_pass(struct measuring *session, int pass)
{
	if (pass == PATTERNS)
		measure_find_rooms(session);
	if (!mirrors_refresh(&session->mirrors) || !measure_fill_scores(session, (unsigned)pass))
		return false;
	for (int s = 1; s < session->chain->step_count; s++)
		if (!run_watched(session, s, pass))
			return false;
	return true;
}
