/* SPDX-License-Identifier: Apache-2.0
 *
 * A first-fit pool of whole blocks, allocated several of a size at a time: a model of twelve layers
 * wants some sixty in its first forward. Beside other programs on one H100 all that hazards cost
 * MPT's was 71 ms of the host with an allocation for each, 9 ms since. A block used last on another
 * stream is handed over with an event, so nobody waits on the host.
 */
#include "shim/gpu/scratch.h"

#include <inttypes.h>

#include "shim/base/config.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/late.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/base/message.h"

#define BLOCKS	 512
#define ROUND	 (256u << 10)
#define AT_LEAST 4  /* blocks at a time, then as many as there are of the size already … */
#define AT_MOST	 16 /* … up to so many, and */
#define TOGETHER (8u << 20)

struct block {
	uint64_t address, bytes;
	uint64_t allocation; /* what it is a part of */
	CUcontext context;
	CUstream stream; /* of its last use */
	bool used;	 /* ever */
	bool busy;
	bool leaving; /* nobody wants it */
	bool in_host; /* the device's memory was exhausted */
};

static struct block blocks[BLOCKS];
static int block_count;
static int leaving_count; /* of them */

static uint64_t held_bytes(CUcontext context)
{
	uint64_t bytes = 0;

	for (int i = 0; i < block_count; i++)
		if (blocks[i].context == context && !blocks[i].in_host)
			bytes += blocks[i].bytes;
	return bytes;
}

/* false: whoever takes it would run into its earlier users. */
static bool hand_over(struct block *block, CUstream stream)
{
	const struct queue before = {block->context, block->stream};
	const struct queue behind = {block->context, stream};

	if (block->used && driver_order(before, behind))
		return false;
	block->stream = stream;
	return true;
}

static void forget(int at)
{
	leaving_count -= blocks[at].leaving;
	blocks[at] = blocks[--block_count];
}

static void set_leaving(struct block *block, bool leaving)
{
	leaving_count += leaving - block->leaving;
	block->leaving = leaving;
}

/* Is no block of the allocation in use? */
static bool is_idle(uint64_t allocation)
{
	for (int i = 0; i < block_count; i++)
		if (blocks[i].allocation == allocation && blocks[i].busy)
			return false;
	return true;
}

static void forget_allocation(uint64_t allocation)
{
	for (int i = block_count - 1; i >= 0; i--)
		if (blocks[i].allocation == allocation)
			forget(i);
}

bool scratch_trim(CUcontext context)
{
	bool any = false;

	for (int i = 0; i < block_count; i++)
		if (blocks[i].context == context && !blocks[i].in_host &&
		    is_idle(blocks[i].allocation)) {
			set_leaving(&blocks[i], true);
			any = true;
		}
	return any;
}

bool scratch_leaves(void)
{
	return leaving_count > 0;
}

void scratch_take_leaving(struct scratch_leaving *leaving)
{
	leaving->count = 0;
	for (int i = 0; i < block_count && leaving_count > 0 && leaving->count < SCRATCH_LEAVING;) {
		const struct block block = blocks[i];

		if (block.leaving && is_idle(block.allocation)) {
			leaving->piece[leaving->count++] = (struct scratch_piece){
				.context = block.context, .address = block.allocation};
			forget_allocation(block.allocation);
			continue;
		}
		set_leaving(&blocks[i++], false); /* another of its allocation is wanted again */
	}
}

void scratch_free(const struct scratch_leaving *leaving)
{
	struct driver_context here;

	for (int i = 0; i < leaving->count; i++)
		if (driver_enter(&here, leaving->piece[i].context)) {
			driver.cuMemFree_v2((CUdeviceptr)leaving->piece[i].address);
			driver_leave(&here);
		}
}

/* The smallest of those that are as large. any: however much larger, and in the host's memory. */
static struct block *find_idle(CUcontext context, uint64_t bytes, bool any)
{
	struct block *best = NULL;

	for (int i = 0; i < block_count; i++) {
		struct block *block = &blocks[i];

		if (!block->busy && block->context == context && block->bytes >= bytes &&
		    (any || (block->bytes <= 2 * bytes && !block->in_host)) &&
		    (!best || block->bytes < best->bytes))
			best = block;
	}
	return best;
}

/* 0: there is none, or it cannot be had. */
static uint64_t take_idle(CUcontext context, CUstream stream, uint64_t bytes, bool any)
{
	struct block *block = find_idle(context, bytes, any);

	if (!block || !hand_over(block, stream))
		return 0;
	block->busy = block->used = true;
	set_leaving(block, false);
	return block->address;
}

/* The device has no memory left, and the program's data depend on some. What is freed would wait
 * for all that the device was given, which may itself wait for another thread's turn. So it is
 * freed when the turn is over, and what is wanted now lies in the host's memory, where kernels of
 * any context find it at the same address. It is kept for the next time until its context goes. */
static uint64_t get_elsewhere(CUcontext context, CUstream stream, uint64_t bytes)
{
	uint64_t address = take_idle(context, stream, bytes, true);
	void *memory;

	scratch_trim(context);
	if (address || driver.cuMemAllocHost_v2(&memory, bytes) != CUDA_SUCCESS)
		return address;
	address = (uint64_t)(uintptr_t)memory;
	blocks[block_count++] = (struct block){.address = address,
					       .bytes = bytes,
					       .allocation = address,
					       .context = context,
					       .stream = stream,
					       .used = true,
					       .busy = true,
					       .in_host = true};
	message_debug("%" PRIu64 " bytes of scratch taken of the host's memory", bytes);
	return address;
}

/* How many blocks of a size to allocate at once, where so many bytes are left to the bound. */
static int how_many(CUcontext context, uint64_t bytes, uint64_t left)
{
	int count = 0;

	for (int i = 0; i < block_count; i++)
		count += blocks[i].context == context && blocks[i].bytes == bytes;
	count = count < AT_LEAST ? AT_LEAST : count > AT_MOST ? AT_MOST : count;
	while (count > 1 && (block_count + count > BLOCKS || (uint64_t)count * bytes > TOGETHER ||
			     (uint64_t)count * bytes > left))
		count /= 2;
	return count;
}

uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must)
{
	const uint64_t bound = config()->scratch_mb << 20;
	CUdeviceptr address = 0;
	uint64_t total, idle;
	int count;

	bytes = (bytes + ROUND - 1) / ROUND * ROUND;
	idle = take_idle(context, stream, bytes, false);
	if (idle)
		return idle;
	total = held_bytes(context);
	if (total + bytes > bound) {
		scratch_trim(context);
		if (!must)
			return 0;
	}
	if (block_count == BLOCKS)
		return must ? take_idle(context, stream, bytes, true) : 0;
	count = how_many(context, bytes, total < bound ? bound - total : 0);
	if (count > 1 && driver.cuMemAlloc_v2(&address, (uint64_t)count * bytes) != CUDA_SUCCESS)
		count = 1;
	if (count == 1 && driver.cuMemAlloc_v2(&address, bytes) != CUDA_SUCCESS)
		return must ? get_elsewhere(context, stream, bytes) : 0;
	for (int i = 0; i < count; i++)
		blocks[block_count++] = (struct block){.address = address + (uint64_t)i * bytes,
						       .bytes = bytes,
						       .allocation = address,
						       .context = context,
						       .stream = stream,
						       .used = i == 0,
						       .busy = i == 0};
	total += (uint64_t)count * bytes;
	if (total > log_live()->scratch_peak)
		log_live()->scratch_peak = total;
	message_debug("%" PRIu64 " bytes of scratch taken, %" PRIu64 " in all",
		      (uint64_t)count * bytes, total);
	return address;
}

void scratch_put(uint64_t address, CUstream stream)
{
	for (int i = 0; address && i < block_count; i++)
		if (blocks[i].address == address) {
			blocks[i].busy = false;
			blocks[i].stream = stream;
		}
}

void scratch_stream_gone(CUstream stream)
{
	bool ordered = false; /* one order is that of all its blocks */

	for (int i = 0; i < block_count; i++) {
		if (blocks[i].stream != stream || !blocks[i].used)
			continue;
		if (!ordered && !hand_over(&blocks[i], CU_STREAM_LEGACY))
			/* The host waits for all of it before the stream goes. */
			late_host_waits_stream((struct queue){blocks[i].context, stream});
		blocks[i].stream = CU_STREAM_LEGACY;
		ordered = true;
	}
}

void scratch_forget(CUcontext context)
{
	for (int i = block_count - 1; i >= 0; i--)
		if (blocks[i].context == context)
			forget(i);
}
