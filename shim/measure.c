/* SPDX-License-Identifier: Apache-2.0
 *
 * Four times through the chain. Two passes with different random scores tell which pointers are
 * written at all: what depends on the scores changes. In two more the memory behind those is filled
 * with a pattern before the launch, another one each time: a byte that is not the pattern in one of
 * them was written, whatever was written there.
 *
 * Looked at are windows: at the ends that a tensor of as many elements as there are scores can
 * have, and spread evenly before them. A tensor that is not of this kind stays unknown.
 */
#include "measure.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "driver_context.h"
#include "memory.h"
#include "rerun.h"
#include "resolve.h"
#include "scratch.h"

#define MIRRORS	   12
#define RESULTS	   128
#define WINDOW	   64 /* bytes */
#define INSIDE	   8  /* windows spread over each half */
#define WINDOWS	   (2 * (INSIDE + 2))
#define RANDOM	   (32u << 10)
#define PASSES	   4
#define PATTERNS   2 /* the first pass with one */
#define PATIENCE   200000000ull
#define MAX_VALUES CHAIN_VALUES

/* A copy of the program's memory from the lowest pointer of an allocation to its end. */
struct mirror {
	uint64_t allocation, begin, end, copy;
};

/* A value of unknown length, and what was seen of it. */
struct subject {
	int value, step;
	uint64_t room; /* bytes behind it that are no other pointer's */
	bool written;
	bool touched[WINDOWS], whole[WINDOWS]; /* any byte, every byte */
	unsigned char seen[WINDOWS][WINDOW];   /* which bytes were written, over the passes */
};

struct session {
	struct chain *chain;
	uint64_t elements;
	int mirror_count, subject_count;
	struct mirror mirrors[MIRRORS];
	struct subject subjects[MAX_VALUES];
	CUevent event;
};

/* Of each kernel and shape: bytes written at each pointer, 0 none. Asked once. */
static struct result {
	uint64_t key;
	bool unclear;
	uint64_t bytes[CHAIN_REFS];
} results[RESULTS];
static int result_count;

/* Pinned: random scores, then what comes back. */
static unsigned char *host;

/* ---- the program's memory, once more -------------------------------------------------------- */

static bool add_mirror(struct session *session, uint64_t pointer)
{
	const struct allocation *allocation = memory_find(pointer);
	struct mirror *mirror;
	int at = 0;

	if (!memory_watchable(allocation))
		return false;
	while (at < session->mirror_count && session->mirrors[at].allocation != allocation->base)
		at++;
	if (at == MIRRORS)
		return false;
	mirror = &session->mirrors[at];
	if (at == session->mirror_count) {
		session->mirror_count++;
		*mirror = (struct mirror){.allocation = allocation->base,
					  .begin = pointer,
					  .end = allocation->base + allocation->bytes};
	}
	if (pointer < mirror->begin)
		mirror->begin = pointer;
	return true;
}

static uint64_t mirrored(const struct session *session, uint64_t pointer)
{
	for (int i = 0; i < session->mirror_count; i++) {
		const struct mirror *mirror = &session->mirrors[i];

		if (pointer >= mirror->begin && pointer < mirror->end)
			return mirror->copy + (pointer - mirror->begin);
	}
	return 0;
}

static bool make_mirrors(struct session *session)
{
	const struct chain *chain = session->chain;

	if (!add_mirror(session, chain->values[0].begin))
		return false;
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++)
			if (!add_mirror(session, rerun_pointer(chain, &chain->steps[s], i)))
				return false;
	for (int i = 0; i < session->mirror_count; i++) {
		struct mirror *mirror = &session->mirrors[i];

		mirror->copy = scratch_get(chain->context, chain->stream,
					   mirror->end - mirror->begin, false);
		if (!mirror->copy)
			return false;
	}
	return true;
}

static bool refresh_mirrors(const struct session *session)
{
	for (int i = 0; i < session->mirror_count; i++) {
		const struct mirror *mirror = &session->mirrors[i];

		if (driver.cuMemcpyDtoDAsync_v2(
			    (CUdeviceptr)mirror->copy, (CUdeviceptr)mirror->begin,
			    mirror->end - mirror->begin, session->chain->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Until the stream has done all of this; not for ever: it may itself wait for the program. */
static bool await(const struct session *session)
{
	const uint64_t until = now_ns() + PATIENCE;
	CUresult result;

	if (driver.cuEventRecord(session->event, session->chain->stream) != CUDA_SUCCESS)
		return false;
	do
		result = driver.cuEventQuery(session->event);
	while (result == CUDA_ERROR_NOT_READY && now_ns() < until);
	return result == CUDA_SUCCESS;
}

/* ---- data ----------------------------------------------------------------------------------- */

/* Small numbers of either sign, in the type of the scores, other ones in each pass. */
static void make_random(int dtype, unsigned seed)
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
	const uint64_t bytes = chain->values[0].end - chain->values[0].begin;
	const uint64_t to = mirrored(session, chain->values[0].begin);
	uint64_t done = bytes < RANDOM ? bytes : RANDOM;

	make_random(dtype_of_cuda(chain->steps[0].gemm.ctype), seed);
	if (driver.cuMemcpyHtoDAsync_v2((CUdeviceptr)to, host, done, chain->stream) != CUDA_SUCCESS)
		return false;
	while (done < bytes) {
		const uint64_t more = done < bytes - done ? done : bytes - done;

		if (driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)(to + done), (CUdeviceptr)to, more,
						chain->stream) != CUDA_SUCCESS)
			return false;
		done += more;
	}
	return await(session); /* `host` is used again */
}

/* ---- windows -------------------------------------------------------------------------------- */

/* The first half of the windows is for elements of two bytes, the second for what follows with
 * elements of four: INSIDE of them within, one at the end, one behind it. */
static uint64_t window_offset(uint64_t elements, int window)
{
	const uint64_t half = 2 * elements, begin = window < WINDOWS / 2 ? 0 : half;
	const int n = window % (WINDOWS / 2);

	if (n == INSIDE)
		return begin + half - WINDOW;
	if (n == INSIDE + 1)
		return begin + half;
	return begin + (half - WINDOW) * (uint64_t)n / INSIDE;
}

static bool window_exists(const struct session *session, const struct subject *subject, int window)
{
	return window_offset(session->elements, window) + WINDOW <= subject->room;
}

/* Copies all windows to `into` (WINDOWS of them). */
static bool read_windows(const struct session *session, const struct subject *subject,
			 unsigned char *into)
{
	const struct chain *chain = session->chain;
	const uint64_t from = mirrored(session, chain->values[subject->value].begin);

	for (int w = 0; w < WINDOWS; w++)
		if (window_exists(session, subject, w) &&
		    driver.cuMemcpyDtoHAsync_v2(
			    into + w * WINDOW,
			    (CUdeviceptr)(from + window_offset(session->elements, w)), WINDOW,
			    chain->stream) != CUDA_SUCCESS)
			return false;
	return true;
}

static void note_changes(const struct session *session, struct subject *subject, int pass,
			 const unsigned char *before, const unsigned char *after)
{
	for (int w = 0; w < WINDOWS; w++) {
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

static bool all_whole(const struct subject *subject, int from)
{
	for (int w = from; w <= from + INSIDE; w++)
		if (!subject->whole[w])
			return false;
	return true;
}

/* Bytes written from the pointer on; 0: none; -1: not clear. */
static int64_t length_of(const struct session *session, struct subject *subject)
{
	const int second = WINDOWS / 2;
	const int64_t half = 2 * (int64_t)session->elements;

	if (!subject->written)
		return 0;
	sum_up(subject);
	if (!all_whole(subject, 0))
		return -1;
	if (!subject->touched[INSIDE + 1])
		return half;
	return all_whole(subject, second) && !subject->touched[second + INSIDE + 1] ? 2 * half : -1;
}

/* ---- passes --------------------------------------------------------------------------------- */

static bool run_step(const struct session *session, const struct step *step)
{
	uint64_t place[CHAIN_REFS];

	for (int i = 0; i < step->ref_count; i++)
		place[i] = mirrored(session, rerun_pointer(session->chain, step, i));
	return rerun_step(session->chain, step, place) == 0;
}

static bool run_watched(struct session *session, int number, int pass)
{
	unsigned char *before = host + RANDOM, *after = before + MAX_VALUES * WINDOWS * WINDOW;

	for (int turn = 0; turn < 2; turn++) {
		unsigned char *into = turn ? after : before;

		for (int i = 0; i < session->subject_count; i++) {
			struct subject *subject = &session->subjects[i];
			const uint64_t at =
				mirrored(session, session->chain->values[subject->value].begin);

			if (subject->step != number)
				continue;
			if (turn == 0 && pass >= PATTERNS && subject->written &&
			    driver.cuMemsetD8Async((CUdeviceptr)at, pass == PATTERNS ? 0x55 : 0xaa,
						   subject->room,
						   session->chain->stream) != CUDA_SUCCESS)
				return false;
			if (!read_windows(session, subject, into + i * WINDOWS * WINDOW))
				return false;
		}
		if (turn == 0 && !run_step(session, &session->chain->steps[number]))
			return false;
	}
	if (!await(session))
		return false;
	for (int i = 0; i < session->subject_count; i++)
		if (session->subjects[i].step == number)
			note_changes(session, &session->subjects[i], pass,
				     before + i * WINDOWS * WINDOW, after + i * WINDOWS * WINDOW);
	return true;
}

static bool run_pass(struct session *session, int pass)
{
	if (!refresh_mirrors(session) || !fill_scores(session, (unsigned)pass))
		return false;
	for (int s = 1; s < session->chain->step_count; s++)
		if (!run_watched(session, s, pass))
			return false;
	return true;
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

/* No further than the next pointer of the same launch, nor than twice what could be written. */
static uint64_t room_behind(const struct session *session, const struct step *step, uint64_t begin)
{
	const struct allocation *allocation = memory_find(begin);
	uint64_t end = begin + 4 * session->elements + WINDOW;

	if (!allocation)
		return 0;
	if (allocation->base + allocation->bytes < end)
		end = allocation->base + allocation->bytes;
	for (int i = 0; i < step->ref_count; i++) {
		const uint64_t other = rerun_pointer(session->chain, step, i);

		if (other > begin && other < end)
			end = other;
	}
	return end - begin;
}

/* Kernels that talk to other GPUs wait for an answer; nobody would give one. */
static bool talks(const struct chain *chain)
{
	for (int s = 1; s < chain->step_count; s++)
		if (chain->steps[s].function && (strstr(chain->steps[s].function->name, "nccl") ||
						 strstr(chain->steps[s].function->name, "nvshmem")))
			return true;
	return false;
}

/* Something else lies where an input was: launching again on that would be reckless. */
static bool inputs_gone(const struct chain *chain)
{
	for (int i = 1; i < chain->value_count; i++)
		if (chain->values[i].provisional && !chain->values[i].used && i != chain->p_value &&
		    !range_set_touches(&chain->values[i].live, chain->values[i].begin,
				       chain->values[i].begin + 1))
			return true;
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++) {
			const struct ref *ref = &chain->steps[s].refs[i];

			if (ref->kind == REF_INPUT && chain->inputs[ref->index].lost)
				return true;
		}
	return false;
}

static void find_subjects(struct session *session)
{
	const struct chain *chain = session->chain;

	for (int v = 1; v < chain->value_count; v++) {
		int s = 1;

		if (!chain->values[v].provisional || v == chain->p_value)
			continue;
		while (s < chain->step_count && ref_of_value(&chain->steps[s], v) < 0)
			s++;
		if (s == chain->step_count)
			continue;
		session->subjects[session->subject_count++] = (struct subject){
			.value = v,
			.step = s,
			.room = room_behind(session, &chain->steps[s], chain->values[v].begin)};
	}
}

static bool known(const struct session *session)
{
	for (int i = 0; i < session->subject_count; i++)
		if (!result_of(key_of(session, session->subjects[i].step)))
			return false;
	return true;
}

static void run_passes(struct session *session)
{
	struct driver_context here;
	bool done;

	if (!driver_enter(&here, session->chain->context))
		return;
	done = make_mirrors(session);
	if (done && !host) {
		void *memory = NULL;

		done = driver.cuMemAllocHost_v2(&memory, RANDOM + 2 * MAX_VALUES * WINDOWS *
									  WINDOW) == CUDA_SUCCESS;
		host = memory;
	}
	if (done &&
	    driver.cuEventCreate(&session->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
		for (int pass = 0; pass < PASSES && done; pass++)
			done = run_pass(session, pass);
		driver.cuEventDestroy_v2(session->event);
	} else {
		done = false;
	}
	for (int i = 0; i < session->mirror_count; i++)
		scratch_put(session->mirrors[i].copy, session->chain->stream);
	if (done) /* large, and not needed again; what is not done may take for ever */
		scratch_trim(session->chain->context);
	driver_leave(&here);
	for (int i = 0; i < session->subject_count && done; i++) {
		struct subject *subject = &session->subjects[i];
		const uint64_t key = key_of(session, subject->step);
		struct result *result = result_of(key);
		const int64_t length = length_of(session, subject);

		if (!result) {
			result = &results[result_count++ % RESULTS];
			*result = (struct result){.key = key};
		}
		result->unclear |= length < 0;
		result->bytes[ref_of_value(&session->chain->steps[subject->step], subject->value)] =
			length < 0 ? 0 : (uint64_t)length;
	}
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

const char *measure_chain(struct chain *chain)
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
	if (2 * session.elements < 2 * WINDOW)
		return "too few scores to measure what a kernel writes";
	if (!known(&session)) {
		if (inputs_gone(chain))
			return "what a kernel read was overwritten before it could be launched "
			       "again";
		if (talks(chain))
			return "a kernel that waits for other GPUs";
		run_passes(&session);
		if (!known(&session))
			return "no room to measure what a kernel writes: raise FASHIM_SCRATCH_MB";
	}
	chain->measured = true;
	for (int i = 0; i < session.subject_count; i++) {
		const struct subject *subject = &session.subjects[i];
		const struct result *result = result_of(key_of(&session, subject->step));
		const int ref = ref_of_value(&chain->steps[subject->step], subject->value);

		if (result && result->unclear) {
			chain->unfit = REASON_UNACCOUNTED_POINTER;
			snprintf(chain->detail, sizeof(chain->detail), "%s writes something else",
				 chain->steps[subject->step].name);
		} else if (result && result->bytes[ref]) {
			settle(chain, subject->value, result->bytes[ref]);
		}
	}
	return NULL;
}
