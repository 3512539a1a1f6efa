/* SPDX-License-Identifier: Apache-2.0
 *
 * Looked at are windows: at the ends that a tensor can have which has as many elements as there are
 * scores, or rows of them, and spread evenly before these. A tensor that is of neither kind stays
 * unknown.
 */
#include "shim/ask/measure_parts.h"

#include "shim/ask/mirror.h"
#include "shim/gpu/step_launch.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"

/* Lengths of two, four or eight bytes a row, of two or four a score; none so close to the one
 * before that no window fits between. */
void measure_find_lengths(struct measuring *session)
{
	const uint64_t rows = session->elements / (uint64_t)session->chain->steps[0].gemm.m;
	const uint64_t lengths[MEASURE_LENGTHS] = {2 * rows, 4 * rows, 8 * rows,
						   2 * session->elements, 4 * session->elements};
	uint64_t last = 0;

	for (int i = 0; i < MEASURE_LENGTHS; i++)
		if (lengths[i] >= last + 2 * WINDOW)
			session->length[session->length_count++] = last = lengths[i];
}

static void no_further(uint64_t *end, uint64_t begin, uint64_t other)
{
	if (other > begin && other < *end)
		*end = other;
}

/* Does the step with that number, or a later one, get a pointer to it? */
static bool used_from(const struct chain *chain, int step, int kind, int index)
{
	for (int s = step; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++)
			if ((int)chain->steps[s].refs[i].kind == kind &&
			    chain->steps[s].refs[i].index == index)
				return true;
	return false;
}

static bool is_written(const struct measuring *session, int value)
{
	for (int i = 0; i < session->subject_count; i++)
		if (session->subjects[i].value == value && session->subjects[i].written)
			return true;
	return false;
}

/* No further than the next pointer of the same launch, nor than what this or a later step reads and
 * none makes, nor than the most that could be written. What is read no more (K, behind the product)
 * or not made yet, the value may lie over: were it cut short there, it would pass for one of
 * shorter elements. */
static uint64_t room_behind(const struct measuring *session, const struct subject *subject)
{
	const struct chain *chain = session->chain;
	const struct step *step = &chain->steps[subject->step];
	const uint64_t begin = chain->values[subject->value].begin;
	const struct allocation *allocation = memory_find(begin);
	uint64_t end = begin + 4 * session->elements + WINDOW;

	if (!allocation)
		return 0;
	no_further(&end, begin, allocation->base + allocation->bytes);
	for (int i = 0; i < step->ref_count; i++)
		no_further(&end, begin, step_pointer(chain, step, i));
	for (int i = 1; i < chain->value_count; i++)
		if ((chain->values[i].provisional || chain->values[i].outside) &&
		    used_from(chain, subject->step, REF_VALUE, i) && !is_written(session, i))
			no_further(&end, begin, chain->values[i].begin);
	for (int i = 0; i < chain->input_count; i++)
		if (used_from(chain, subject->step, REF_INPUT, i))
			no_further(&end, begin, chain->inputs[i].begin);
	return end - begin;
}

void measure_find_rooms(struct measuring *session)
{
	for (int i = 0; i < session->subject_count; i++)
		session->subjects[i].room = room_behind(session, &session->subjects[i]);
}

/* Stretch by stretch; the last of all lies behind the longest. */
static uint64_t window_offset(const struct measuring *session, int window)
{
	const int stretch = window / (MEASURE_INSIDE + 1), n = window % (MEASURE_INSIDE + 1);
	const uint64_t begin = stretch ? session->length[stretch - 1] : 0;

	if (stretch >= session->length_count)
		return begin;
	return begin + (session->length[stretch] - begin - WINDOW) * (uint64_t)n / MEASURE_INSIDE;
}

static int window_count(const struct measuring *session)
{
	return session->length_count * (MEASURE_INSIDE + 1) + 1;
}

static bool window_exists(const struct measuring *session, const struct subject *subject,
			  int window)
{
	return window_offset(session, window) + WINDOW <= subject->room;
}

/* Copies all windows to `into` (MEASURE_WINDOWS of them). */
bool measure_read_windows(const struct measuring *session, const struct subject *subject,
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

void measure_note_changes(const struct measuring *session, struct subject *subject, bool counts,
			  const unsigned char *before, const unsigned char *after)
{
	for (int w = 0; w < window_count(session); w++) {
		if (!window_exists(session, subject, w))
			continue;
		for (int i = 0; i < WINDOW; i++) {
			if (before[w * WINDOW + i] == after[w * WINDOW + i])
				continue;
			subject->written = true;
			subject->seen[w][i] |= counts;
		}
	}
}

static void sum_up(struct subject *subject)
{
	for (int w = 0; w < MEASURE_WINDOWS; w++) {
		subject->whole[w] = true;
		for (int i = 0; i < WINDOW; i++) {
			subject->touched[w] |= subject->seen[w][i];
			subject->whole[w] &= subject->seen[w][i] != 0;
		}
	}
}

int64_t measure_length(const struct measuring *session, struct subject *subject)
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
	return whole == touched && whole && whole % (MEASURE_INSIDE + 1) == 0
		       ? (int64_t)session->length[whole / (MEASURE_INSIDE + 1) - 1]
		       : -1;
}
