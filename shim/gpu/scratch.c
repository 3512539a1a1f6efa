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
};

static struct block blocks[BLOCKS];
static int block_count;
static int leaving_count; /* of them */

static uint64_t held_bytes(CUcontext context)
{
	uint64_t bytes = 0;

	for (int i = 0; i < block_count; i++)
		if (blocks[i].context == context)
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
		if (blocks[i].context == context && is_idle(blocks[i].allocation)) {
			set_leaving(&blocks[i], true);
			any = true;
		}
	return any;
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

/* At once: the device has no memory left, and the program's data depend on some. */
static bool free_now(CUcontext context)
{
	bool freed = false;

	for (int i = 0; i < block_count;) {
		const struct block block = blocks[i];

		if (block.context != context || !is_idle(block.allocation)) {
			i++;
			continue;
		}
		driver.cuMemFree_v2((CUdeviceptr)block.allocation);
		forget_allocation(block.allocation);
		freed = true;
	}
	return freed;
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
	struct block *best = NULL;
	CUdeviceptr address = 0;
	uint64_t total;
	int count;

	bytes = (bytes + ROUND - 1) / ROUND * ROUND;
	for (int i = 0; i < block_count; i++) {
		struct block *block = &blocks[i];

		if (!block->busy && block->context == context && block->bytes >= bytes &&
		    block->bytes <= 2 * bytes && (!best || block->bytes < best->bytes))
			best = block;
	}
	if (best && hand_over(best, stream)) {
		best->busy = best->used = true;
		set_leaving(best, false);
		return best->address;
	}
	total = held_bytes(context);
	if (total + bytes > bound) {
		scratch_trim(context);
		if (!must)
			return 0;
	}
	if (block_count == BLOCKS)
		return 0;
	count = how_many(context, bytes, total < bound ? bound - total : 0);
	if (count > 1 && driver.cuMemAlloc_v2(&address, (uint64_t)count * bytes) != CUDA_SUCCESS)
		count = 1;
	if (count == 1 && driver.cuMemAlloc_v2(&address, bytes) != CUDA_SUCCESS &&
	    (!must || !free_now(context) || driver.cuMemAlloc_v2(&address, bytes) != CUDA_SUCCESS))
		return 0;
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
