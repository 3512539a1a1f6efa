/* SPDX-License-Identifier: Apache-2.0
 *
 * P is as long as the product that reads it says, but one launch may make more, for other products
 * (batch by batch, and one softmax for all): memory behind P that holds zeros does so no longer
 * then. Zeros, since it may be what the kernel reads indices from.
 */
#include "shim/ask/measure_parts.h"

#include "shim/ask/mirror.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/scratch.h"
#include "shim/real/driver.h"

/* Zeros, or bytes that are still zero are counted. */
static bool look_behind(const struct measuring *session, uint64_t at, uint64_t bytes,
			uint64_t count)
{
	const struct chain *chain = session->chain;
	const struct unwritten_args args = {
		.first = at, .second = at, .bytes = bytes, .result = count};

	return count ? !fused_count_unwritten(chain->context, chain->stream, &args)
		     : driver.cuMemsetD8Async((CUdeviceptr)at, 0, bytes, chain->stream) ==
			       CUDA_SUCCESS;
}

bool measure_behind(struct measuring *session)
{
	const struct chain *chain = session->chain;
	const struct value *p = &chain->values[chain->p_value];
	const uint64_t length = p->end - p->begin, room = mirrors_room(&session->mirrors, p->begin);
	const uint64_t at = mirrors_place(&session->mirrors, p->end, NULL);
	const uint64_t counts = scratch_get(chain->context, chain->stream, 8 * CHAIN_STEPS, false);
	uint64_t *found = (uint64_t *)session->mirrors.host;
	bool done = counts && driver.cuMemsetD8Async((CUdeviceptr)counts, 0, 8 * CHAIN_STEPS,
						     chain->stream) == CUDA_SUCCESS;

	done = done && mirrors_refresh(&session->mirrors) &&
	       measure_fill_scores(session, MEASURE_PASSES);
	for (int s = 1; s < chain->step_count && done && at && room > length; s++)
		done = look_behind(session, at, room - length, 0) &&
		       mirrors_run(&session->mirrors, &chain->steps[s]) &&
		       look_behind(session, at, room - length, counts + 8 * (uint64_t)s);
	done = done &&
	       driver.cuMemcpyDtoHAsync_v2(found, (CUdeviceptr)counts, 8 * CHAIN_STEPS,
					   chain->stream) == CUDA_SUCCESS &&
	       mirrors_await(&session->mirrors);
	for (int s = 1; s < chain->step_count && done && at && room > length; s++)
		session->beyond[s] |=
			measure_is_unknown(&chain->steps[s]) && found[s] != room - length;
	scratch_put(counts, chain->stream);
	return done;
}
