/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as it comes and goes: mapped at two addresses, from pools, on streams that are gone; and
 * single bytes of it.
 */
#include "fuzz.h"

enum { GRANULE = 2 << 20, MAPPINGS = 8 };

/* ---- memory at two addresses ----------------------------------------------------------------- */

static struct mapping {
	CUmemGenericAllocationHandle physical;
	CUdeviceptr first, second;
	size_t bytes;
	bool both;
} mappings[MAPPINGS];
static int mapping_count;

static void map(CUdeviceptr at, CUmemGenericAllocationHandle physical)
{
	CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	OK(cuCtxGetDevice(&access.location.id));
	OK(cuMemMap(at, GRANULE, 0, physical, 0));
	OK(cuMemSetAccess(at, GRANULE, &access, 1));
	trace("cuMemMap %llx", at);
}

struct mapping *mapping_make(size_t bytes, CUdeviceptr *at)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	struct mapping *m = &mappings[mapping_count++];

	OK(cuCtxGetDevice(&prop.location.id));
	m->bytes = bytes;
	OK(cuMemCreate(&m->physical, GRANULE, &prop, 0));
	OK(cuMemAddressReserve(&m->first, GRANULE, 0, 0, 0));
	OK(cuMemAddressReserve(&m->second, GRANULE, 0, 0, 0));
	map(m->first, m->physical);
	*at = known(m->first, bytes);
	return m;
}

/* It is read or written by its other address, which is there from now on, or goes. */
static void by_second_address(struct happening *h)
{
	struct mapping *m = h->chain->site->mapping;
	CUdeviceptr to = here->spare;

	if (!m || h->at < m->first || h->at >= m->first + m->bytes)
		return;
	if (m->both && chance(&h->rng, 15)) {
		OK(cuCtxSynchronize());
		trace("cuMemUnmap %llx", m->second);
		OK(cuMemUnmap(m->second, GRANULE));
		disappears(m->second);
		m->both = false;
		occurs("a second mapping goes");
		return;
	}
	if (!m->both) {
		map(m->second, m->physical);
		appears(m->second, m->bytes, m->first);
		m->both = true;
		occurs("a second mapping");
	}
	h->at += m->second - m->first;
	if (chance(&h->rng, 50)) {
		copy_numbers(h->stream, to, h->at, h->bytes / width);
		observe(h->stream, "by its second address", to, h->bytes);
		occurs("a read by a second address");
	} else {
		random_numbers(h->stream, h->at, next(&h->rng), h->bytes / width);
		occurs("a write by a second address");
	}
}

/* ---- pools and streams ----------------------------------------------------------------------- */

/* Memory of a pool's, filled on one stream, read and freed on another; the next may lie there. */
static void freed_elsewhere(struct happening *h)
{
	const CUstream other = here->third;
	CUdeviceptr p = allocate_async(h->bytes, h->stream), next_one;

	copy_numbers(h->stream, p, h->at, h->bytes / width);
	order(h->stream, other, 2);
	copy_numbers(other, here->spare, p, h->bytes / width);
	release(p, other, true);
	next_one = allocate_async(h->bytes, other);
	random_numbers(other, next_one, next(&h->rng), h->bytes / width);
	order(other, h->stream, 2);
	observe(h->stream, "of what was freed elsewhere", here->spare, h->bytes);
	observe(h->stream, "what came behind it", next_one, h->bytes);
	release(next_one, h->stream, true);
	occurs("pool memory freed on another stream");
}

/* A stream goes with work on it, which nobody waited for; one that comes may have its handle. */
static void stream_anew(struct happening *h)
{
	CUdeviceptr to = here->spare;

	order(h->stream, here->third, 2);
	if (chance(&h->rng, 60))
		copy_numbers(here->third, to, h->at, h->bytes / width);
	else
		random_numbers(here->third, h->at, next(&h->rng), h->bytes / width);
	OK(cuEventRecord(here->event[2], here->third));
	OK(cuStreamDestroy(here->third));
	OK(cuStreamCreate(&here->third, CU_STREAM_NON_BLOCKING));
	trace("a stream goes, one comes");
	OK(cuStreamWaitEvent(h->stream, here->event[2], 0));
	occurs("a stream made anew");
	observe(h->stream, "of a stream that is gone", chance(&h->rng, 50) ? to : h->at, h->bytes);
}

/* Ordered by way of a stream that does nothing. */
static void by_way_of_a_third(struct happening *h)
{
	if (h->stream == here->other)
		return;
	order(h->stream, here->third, 0);
	order(here->third, here->other, 2);
	if (chance(&h->rng, 60))
		copy_numbers(here->other, here->spare, h->at, h->bytes / width);
	else
		random_numbers(here->other, h->at, next(&h->rng), h->bytes / width);
	order(here->other, here->third, 1);
	order(here->third, h->stream, 2);
	occurs("events by way of a third stream");
	observe(h->stream, "by way of a third stream", here->spare, h->bytes);
}

/* ---- single bytes ---------------------------------------------------------------------------- */

/* Where half a number goes none may lie that differs within rounding. */
static void any_bytes(struct happening *h, CUdeviceptr *at, size_t *bytes)
{
	const CUdeviceptr whole = h->at;
	const size_t all = h->bytes;

	*at = whole;
	*bytes = all;
	if (all < 4 * width || depth_of(whole, width) || depth_of(whole + all - width, width))
		return;
	*at = whole + below(&h->rng, (unsigned)width);
	*bytes = whole + all - *at - below(&h->rng, (unsigned)width);
}

static void set_odd_bytes(struct happening *h)
{
	CUdeviceptr at;
	size_t bytes;

	any_bytes(h, &at, &bytes);
	trace("odd bytes %llx n=%zu set", at, bytes);
	OK(cuMemsetD8Async(at, 0x38, bytes, h->stream));
	mark(h->at, h->bytes, 0);
}

static void copy_odd_bytes(struct happening *h)
{
	const CUdeviceptr from = here->spare + 1 + below(&h->rng, 64);
	CUdeviceptr at;
	size_t bytes;

	any_bytes(h, &at, &bytes);
	random_numbers(h->stream, here->spare, next(&h->rng), bytes / width + 80);
	trace("odd bytes %llx n=%zu copied from %llx", at, bytes, from);
	OK(cuMemcpyDtoDAsync(at, from, bytes, h->stream));
	mark(h->at, h->bytes, 0);
}

/* Of each of some rows. */
static void set_odd_tile(struct happening *h)
{
	CUdeviceptr at;
	size_t bytes, pitch, rows;

	any_bytes(h, &at, &bytes);
	rows = 1 + below(&h->rng, 5);
	pitch = bytes / rows;
	if (pitch < 4 || depth_of(h->at, h->bytes))
		return;
	bytes = 1 + below(&h->rng, (unsigned)pitch);
	trace("odd tile %llx %zu of %zu, %zu rows", at, bytes, pitch, rows);
	OK(cuMemsetD2D8Async(at, pitch, 0x38, bytes, rows, h->stream));
}

static void odd_bytes(struct happening *h)
{
	static void (*const ways[])(struct happening *) = {set_odd_bytes, copy_odd_bytes,
							   set_odd_tile};
	const struct chain *c = h->chain;

	ways[below(&h->rng, 3)](h);
	occurs("odd bytes");
	if (chance(&h->rng, 60) && is_ours(c->t[P], c->bytes[P]))
		observe(h->stream, "P, odd bytes gone", c->t[P], c->bytes[P]);
}

const struct event_kind mapped[] = {
	{"by a second address", by_second_address, ANY_PART, 4},
	{"freed elsewhere", freed_elsewhere, SCORES_PART, 3},
	{"stream anew", stream_anew, SCORES_PART, 3},
	{"by way of a third", by_way_of_a_third, ANY_PART, 4},
	{"odd bytes", odd_bytes, ANY_PART, 7},
	{NULL, NULL, NOTHING, 0},
};
