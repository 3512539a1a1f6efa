/* SPDX-License-Identifier: Apache-2.0
 *
 * What was found, in a table by kernel; and a few questions under way, each with a piece of pinned
 * memory for the answer.
 */
#include "shim/ask/reach.h"

#include <string.h>

#include "shim/base/cost.h"
#include "shim/base/range.h"
#include "shim/code/kernel_code.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"
#include "shim/ask/mirror.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/timing.h"
#include "shim/rules/shadow.h"

#define KERNELS	   1024
#define QUESTIONS  8
#define MOST_BYTES (8ull << 30) /* to look through: some 2 ms on an H200 */

static struct answer {
	uint32_t function; /* its number, 0: free */
	uint32_t launches;
	bool near, asked, read;
	enum code_reach code; /* once it was read */
	bool known;	      /* there was an answer, or there will be none */
	uint64_t since;	      /* moment of the latest place when it was asked for */
} answers[KERNELS];

/* Where copies put addresses, the latest of them, in a ring. */
#define PLACES 16
static struct place {
	uint64_t begin, end;
	uint64_t moment; /* from 1 */
} places[PLACES];
static uint64_t latest; /* moment: places[moment % PLACES] */

static struct question {
	struct answer *of; /* NULL: free */
	uint32_t function;
	CUcontext context; /* of the event */
	CUevent begun, done;
	uint64_t since;			 /* of the answer */
	uint64_t promised;		 /* to the ledger */
	struct addresses_result *result; /* pinned */
} questions[QUESTIONS];

static bool holds_addresses(uint64_t begin, uint64_t end, uint64_t since)
{
	for (int i = 0; i < PLACES; i++)
		if (places[i].moment > since &&
		    range_overlap(begin, end, places[i].begin, places[i].end))
			return true;
	return false;
}

void reach_note(const struct op *op)
{
	const struct op_range *from = &op->copy.source, *to = &op->copy.target;

	if (op->kind != OP_COPY || !to->bytes ||
	    !(shadow_brings_addresses(op) ||
	      holds_addresses(from->base, from->base + from->bytes, 0)))
		return;
	latest++;
	places[latest % PLACES] = (struct place){to->base, to->base + to->bytes, latest};
}

/* Was an address put where the launch is pointed to, behind the answer's back? */
static bool is_stale(const struct answer *answer, const struct access_list *list)
{
	bool any = false;

	for (int i = 0; i < list->count && !any && answer->since < latest; i++)
		any = holds_addresses(list->item[i].begin, list->item[i].end, answer->since);
	return any;
}

static struct answer *answer_of(const struct function *function)
{
	struct answer *answer = &answers[function->id % KERNELS];

	if (answer->function != function->id)
		*answer = (struct answer){.function = function->id};
	return answer;
}

/* Asking for an event ends a capture that is under way on any stream, unless this thread says that
 * it does not mind. */
static CUresult query(const struct question *question)
{
	struct driver_context here;
	CUresult result;

	if (!driver_enter(&here, question->context))
		return CUDA_ERROR_NOT_READY;
	result = driver.cuEventQuery(question->done);
	driver_leave(&here);
	return result;
}

static void settle_cost(const struct question *question, bool known)
{
	struct driver_context here;
	double us = 0;

	if (known && driver_enter(&here, question->context)) {
		us = timing_between(question->begun, question->done);
		driver_leave(&here);
	}
	ledger_settle(LEDGER_REACH, question->promised, us);
}

void reach_take_answers(void)
{
	for (int i = 0; i < QUESTIONS; i++) {
		struct question *question = &questions[i];
		CUresult result;

		if (!question->of)
			continue;
		result = query(question);
		if (result == CUDA_ERROR_NOT_READY)
			continue;
		settle_cost(question, result == CUDA_SUCCESS);
		if (question->of->function == question->function) {
			question->of->asked = false;
			question->of->known = true;
			question->of->since = question->since;
			question->of->near =
				result == CUDA_SUCCESS && !mirrors_any_address(question->result);
		}
		question->of = NULL;
	}
}

static struct question *free_question(CUcontext context)
{
	for (int i = 0; i < QUESTIONS; i++) {
		struct question *question = &questions[i];
		void *memory = NULL;

		if (question->of ||
		    ((question->begun || question->done) && question->context != context))
			continue;
		if (!question->result &&
		    driver.cuMemAllocHost_v2(&memory, sizeof(struct addresses_result)) ==
			    CUDA_SUCCESS)
			question->result = memory;
		if (!question->begun &&
		    driver.cuEventCreate(&question->begun, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
			question->begun = NULL;
		if (!question->done &&
		    driver.cuEventCreate(&question->done, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
			question->done = NULL;
		question->context = context;
		return question->result && question->begun && question->done ? question : NULL;
	}
	return NULL;
}

static int look(const struct op *op, const struct access_list *list, uint64_t room)
{
	int error = driver.cuMemsetD8Async((CUdeviceptr)room, 0, sizeof(struct addresses_result),
					   op->stream) != CUDA_SUCCESS;

	for (int i = 0; i < list->count && !error; i++) {
		const struct access *access = &list->item[i];
		bool before = false;

		for (int k = 0; k < i; k++)
			before |= list->item[k].begin == access->begin;
		if (!before && access->grade == GRADE_UNKNOWN)
			error = mirrors_find_addresses(op->context, op->stream, access->begin,
						       access->end - access->begin, room);
	}
	return error;
}

/* All on the launch's own stream, before it. */
static bool enqueue(const struct question *question, const struct op *op,
		    const struct access_list *list)
{
	const uint64_t room =
		scratch_get(op->context, op->stream, sizeof(struct addresses_result), false);
	bool done = room && driver.cuEventRecord(question->begun, op->stream) == CUDA_SUCCESS &&
		    !look(op, list, room) &&
		    driver.cuMemcpyDtoHAsync_v2(question->result, (CUdeviceptr)room,
						sizeof(struct addresses_result),
						op->stream) == CUDA_SUCCESS &&
		    driver.cuEventRecord(question->done, op->stream) == CUDA_SUCCESS;

	scratch_put(room, op->stream);
	return done;
}

static uint64_t bytes_of(const struct access_list *list)
{
	uint64_t bytes = 0;

	for (int i = 0; i < list->count; i++)
		bytes += list->item[i].end - list->item[i].begin;
	return bytes;
}

static void ask(struct answer *answer, const struct op *op, const struct access_list *list)
{
	struct question *question;
	struct driver_context here;
	struct ledger_entry entry;

	COST(PURPOSE_ASKING);
	if (bytes_of(list) > MOST_BYTES) {
		answer->known = true;
		return;
	}
	if (!ledger_affords(LEDGER_REACH) || !driver_enter(&here, op->context))
		return;
	entry = ledger_begin(LEDGER_REACH);
	question = free_question(op->context);
	if (question && enqueue(question, op, list)) {
		question->of = answer;
		question->function = answer->function;
		question->since = latest;
		question->promised = ledger_promise(LEDGER_REACH);
		answer->asked = true;
	}
	driver_leave(&here);
	ledger_end(entry);
}

/* What the code says holds whatever lies in memory. */
static void read_code(struct answer *answer, const struct function *function)
{
	struct ledger_entry entry;

	if (answer->read || !ledger_affords(LEDGER_CODE))
		return;
	COST(PURPOSE_ASKING);
	entry = ledger_begin(LEDGER_CODE);
	answer->code = kernel_code_reach(function->handle, function->name, function->code);
	answer->read = true;
	ledger_end(entry);
}

void reach_refine(const struct sight *sight, bool may_ask)
{
	struct answer *answer = answer_of(sight->function);
	bool stale;

	read_code(answer, sight->function);
	if (answer->read && answer->code != CODE_BY_VALUE) {
		sight->list->far = answer->code == CODE_FOLLOWS;
		return;
	}
	if (may_ask)
		reach_take_answers();
	stale = is_stale(answer, sight->list);
	/* At its first launch, and whenever as many more have passed. */
	if (may_ask && !answer->asked &&
	    (stale || (answer->launches & (answer->launches + 1)) == 0))
		ask(answer, sight->op, sight->list);
	answer->launches += may_ask;
	sight->list->far = !answer->near || stale ||
			   (answer->read &&
			    kernel_code_variables(sight->function->handle, sight->function->name,
						  sight->function->code));
	sight->list->unsettled = !answer->known;
}

bool reach_besides(const struct function *function)
{
	return kernel_code_hindrance(function->handle, function->name, function->code) != NULL;
}

void reach_forget(CUcontext context)
{
	for (int i = 0; i < QUESTIONS; i++)
		if (!context || questions[i].context == context) {
			if (questions[i].of) {
				ledger_settle(LEDGER_REACH, questions[i].promised, 0);
				questions[i].of->asked = false;
			}
			questions[i].of = NULL;
			/* The context takes its events and its host memory along. */
			questions[i].begun = questions[i].done = NULL;
			questions[i].result = NULL;
		}
}
