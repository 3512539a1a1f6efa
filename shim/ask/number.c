/* SPDX-License-Identifier: Apache-2.0
 *
 * As with arrays of addresses (first_look.c) a program whose numbers are others all the time is
 * left alone after so many questions.
 */
#include "shim/ask/number.h"

#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/base/range.h"
#include "shim/chain/chain.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"
#include "shim/rules/rules.h"
#include "shim/rules/shadow.h"

#define MOST  192 /* of a process; two for each layer of a model */
#define SLOTS 64  /* at a time */
#define BYTES 4	  /* of a number, at most */

static struct question {
	bool open;
	uint64_t address;
	uint64_t size;
	CUevent done;
} questions[SLOTS];
static unsigned char (*answers)[BYTES]; /* pinned */
static CUcontext owner;			/* of both */
static unsigned taken;

void number_forget(CUcontext context)
{
	if (context && context != owner)
		return;
	for (int i = 0; i < SLOTS; i++)
		questions[i] = (struct question){0};
	answers = NULL; /* the context takes them along */
	owner = NULL;
}

/* What has come since. */
static void take_answers(void)
{
	for (int i = 0; i < SLOTS && owner; i++) {
		struct question *question = &questions[i];
		const CUresult result =
			question->open ? driver.cuEventQuery(question->done) : CUDA_ERROR_NOT_READY;

		if (result == CUDA_ERROR_NOT_READY)
			continue;
		question->open = false;
		if (result == CUDA_SUCCESS)
			shadow_arrived(question->address, answers[i], question->size);
	}
}

/* Is it of what a chain that is held back has yet to write? */
static bool is_held(uint64_t begin, uint64_t end)
{
	for_each_chain(chain) for (int i = 0; i < chain->value_count;
				   i++) if (range_overlap(begin, end, chain->values[i].begin,
							  chain->values[i].end)) return true;
	return false;
}

static struct question *free_question(CUcontext context)
{
	void *memory = NULL;

	if (owner && owner != context)
		return NULL;
	owner = context;
	if (!answers && driver.cuMemAllocHost_v2(&memory, sizeof(*answers) * SLOTS) == CUDA_SUCCESS)
		answers = memory;
	for (int i = 0; i < SLOTS && answers; i++) {
		struct question *question = &questions[i];

		if (question->open)
			continue;
		if (!question->done &&
		    driver.cuEventCreate(&question->done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
			question->done = NULL;
		return question->done ? question : NULL;
	}
	return NULL;
}

static void put(const struct op *op, uint64_t address, uint64_t size)
{
	struct question *question = free_question(op->context);

	if (!question)
		return;
	if (driver.cuMemcpyDtoHAsync_v2(answers[question - questions], (CUdeviceptr)address, size,
					op->stream) != CUDA_SUCCESS ||
	    driver.cuEventRecord(question->done, op->stream) != CUDA_SUCCESS) {
		taken = MOST; /* what was enqueued may come when it likes: nobody asks any more */
		return;
	}
	question->open = true;
	question->address = address;
	question->size = size;
	shadow_expect(address, size);
}

void number_ask(const struct sight *sight)
{
	const struct op *op = sight->op;
	struct driver_context here;
	struct ledger_entry entry;
	uint64_t address, size;

	if (!sight->meaning || !rules_number_missing(sight->meaning, &address, &size) ||
	    !chain_reader(op, sight->list))
		return;
	take_answers();
	if (!rules_number_missing(sight->meaning, &address, &size) || shadow_expects(address) ||
	    config()->mode < MODE_COMPARE || config()->ask == ASK_OFF || taken == MOST ||
	    size > BYTES || is_held(address, address + size) ||
	    !memory_watchable(memory_find(address)) || !ledger_affords(LEDGER_ADDRESSES) ||
	    !driver_enter(&here, op->context))
		return;
	COST(PURPOSE_ASKING);
	entry = ledger_begin(LEDGER_ADDRESSES);
	taken++; /* put() may say that it was the last */
	put(op, address, size);
	ledger_end(entry);
	driver_leave(&here);
}
