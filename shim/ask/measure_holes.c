/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows tell how long a tensor is, not that all of it is written: a softmax may leave alone what
 * a mask covers. Values that have holes cannot be made anew. Two runs on the same scores, over a
 * pattern each: a byte that is the one's in the one and the other's in the other was left alone.
 */
#include "shim/ask/measure_parts.h"

#include "shim/gpu/fused.h"
#include "shim/ask/mirror.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"

static const int holes_pattern[2] = {0x5a, 0xa5};

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
			      : fused_count_unwritten(chain->context, chain->stream, &args) != 0)
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
	const uint64_t counts =
		scratch_get(chain->context, chain->stream, 8 * MEASURE_VALUES, false);
	uint64_t *found = (uint64_t *)session->mirrors.host;
	bool done =
		counts != 0 && driver.cuMemsetD8Async((CUdeviceptr)counts, 0, 8 * MEASURE_VALUES,
						      chain->stream) == CUDA_SUCCESS;

	for (int i = 0; i < session->subject_count && done; i++)
		if (session->subjects[i].length > 0) {
			session->subjects[i].kept =
				scratch_get(chain->context, chain->stream,
					    (uint64_t)session->subjects[i].length, false);
			done = session->subjects[i].kept != 0;
		}
	done = done && run_twice(session, counts) &&
	       driver.cuMemcpyDtoHAsync_v2(found, (CUdeviceptr)counts, 8 * MEASURE_VALUES,
					   chain->stream) == CUDA_SUCCESS &&
	       mirrors_await(&session->mirrors);
	for (int i = 0; i < session->subject_count; i++) {
		session->subjects[i].sparse = done && found[i] != 0;
		scratch_put(session->subjects[i].kept, chain->stream);
	}
	scratch_put(counts, chain->stream);
	return done;
}
