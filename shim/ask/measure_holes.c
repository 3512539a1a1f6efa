/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows tell how long a tensor is, not that all of it is written: a softmax may leave alone what
 * a mask covers. Two runs on the same scores, over a pattern each: a byte that is the one's in the
 * one and the other's in the other was left alone. Values that have such holes cannot be made anew,
 * but for one kind: P of a causal softmax that is told nothing but the scores, so that it is the
 * same bytes each time that it leaves above the diagonal (hazard/holes.h).
 */
#include "shim/ask/measure_parts.h"

#include "shim/gpu/fused.h"
#include "shim/ask/mirror.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"

static const int holes_pattern[2] = {0x5a, 0xa5};

/* Bytes of two counts for each subject: all that was left alone, and of a triangle. */
#define COUNTS (2 * 8 * MEASURE_VALUES)

/* Fills what the step will write; then runs it; then keeps what is there, or counts. */
static bool fill_holes(const struct measuring *session, int number, int pass)
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

/* Is it P, made of scores and nothing else, so that it may be a triangle? */
static bool may_be_triangle(const struct measuring *session, const struct subject *subject,
			    struct triangle_args *args)
{
	const struct step *step = &session->chain->steps[subject->step];

	for (int i = 0; i < step->ref_count; i++)
		if (step->refs[i].kind != REF_VALUE ||
		    session->chain->values[step->refs[i].index].provisional)
			return false;
	return subject->fixed && chain_triangle(session->chain, args);
}

/* How much of it the two runs left alone on and below the diagonal. */
static bool count_triangle(const struct measuring *session, const struct subject *subject,
			   const struct unwritten_args *unwritten)
{
	const struct chain *chain = session->chain;
	struct triangle_args args;

	if (!may_be_triangle(session, subject, &args))
		return true;
	args.first = unwritten->first;
	args.second = unwritten->second;
	args.first_pattern = unwritten->first_pattern;
	args.second_pattern = unwritten->second_pattern;
	args.result = unwritten->result + 8 * MEASURE_VALUES;
	return !fused_count_triangle(chain->context, chain->stream, &args);
}

static bool look_at_holes(const struct measuring *session, int number, int pass, uint64_t counts)
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
			      : fused_count_unwritten(chain->context, chain->stream, &args) != 0 ||
					!count_triangle(session, subject, &args))
			return false;
	}
	return true;
}

static bool run_twice(struct measuring *session, uint64_t counts)
{
	for (int pass = 0; pass < 2; pass++) {
		if (!mirrors_refresh(&session->mirrors) ||
		    !measure_fill_scores(session,
					 MEASURE_PASSES)) /* the same: what is written is, too */
			return false;
		for (int s = 1; s < session->chain->step_count; s++)
			if (!fill_holes(session, s, pass) ||
			    !mirrors_run(&session->mirrors, &session->chain->steps[s]) ||
			    !look_at_holes(session, s, pass, counts))
				return false;
	}
	return true;
}

bool measure_holes(struct measuring *session)
{
	const struct chain *chain = session->chain;
	const uint64_t counts = scratch_get(chain->context, chain->stream, COUNTS, false);
	uint64_t *found = (uint64_t *)session->mirrors.host;
	bool done = counts != 0 && driver.cuMemsetD8Async((CUdeviceptr)counts, 0, COUNTS,
							  chain->stream) == CUDA_SUCCESS;

	for (int i = 0; i < session->subject_count && done; i++)
		if (session->subjects[i].length > 0) {
			session->subjects[i].kept =
				scratch_get(chain->context, chain->stream,
					    (uint64_t)session->subjects[i].length, false);
			done = session->subjects[i].kept != 0;
		}
	done = done && run_twice(session, counts) &&
	       driver.cuMemcpyDtoHAsync_v2(found, (CUdeviceptr)counts, COUNTS, chain->stream) ==
		       CUDA_SUCCESS &&
	       mirrors_await(&session->mirrors);
	for (int i = 0; i < session->subject_count; i++) {
		struct subject *subject = &session->subjects[i];
		struct triangle_args args;

		subject->sparse = done && found[i] != 0;
		subject->triangle = subject->sparse && found[MEASURE_VALUES + i] == 0 &&
				    may_be_triangle(session, subject, &args);
		scratch_put(subject->kept, chain->stream);
	}
	scratch_put(counts, chain->stream);
	return done;
}
