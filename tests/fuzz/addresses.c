/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that no parameter leads to what they touch, as parameters usually do: by addresses that
 * lie in memory, in two numbers, behind a byte, or a number before the first. Of some the code says
 * so (SIM_DEED, SIM_NEAR in fuzz.cu), of the others nobody knows.
 */
#include "fuzz.h"

#include <string.h>

static size_t numbers(const struct happening *h)
{
	return h->bytes / width;
}

static CUdeviceptr room(struct happening *h)
{
	return here->spare + below(&h->rng, 64) * 256;
}

static void each(const struct happening *h, const char *name, void **params)
{
	trace("%s %llx n=%zu", name, h->at, numbers(h));
	launch(h->stream, kernel(name), blocks_of(numbers(h), 64), 64, 1, params);
	occurs(name);
}

static void was_read(struct happening *h, CUdeviceptr to)
{
	mark_copy(to, h->at, h->bytes);
	observe(h->stream, "by its address", to, h->bytes);
}

static void was_written(struct happening *h)
{
	const struct chain *c = h->chain;

	mark(h->at, h->bytes, 0);
	if (chance(&h->rng, 60) && is_ours(c->t[P], c->bytes[P]))
		observe(h->stream, "P, something by its address", c->t[P], c->bytes[P]);
}

/* ---- tables ---------------------------------------------------------------------------------- */

CUdeviceptr address_cells(int n)
{
	const int bytes = n * 8;

	if (here->tables_at + bytes > (int)TABLE_BYTES)
		here->tables_at = 4096; /* behind those of sites */
	here->tables_at += bytes;
	return here->tables + (CUdeviceptr)(here->tables_at - bytes);
}

void address_put(CUstream s, struct rng *r, CUdeviceptr cell, CUdeviceptr address)
{
	const unsigned way = below(r, 5);
	CUdeviceptr other;

	trace("address %llx to %llx, way %u", address, cell, way);
	switch (way) {
	case 0:
		settle(s);
		OK(cuMemcpyHtoD(cell, &address, 8));
		OK(cuStreamSynchronize(CU_STREAM_LEGACY));
		break;
	case 1:
		OK(cuCtxSynchronize());
		memcpy(here->pinned, &address, 8);
		OK(cuMemcpyHtoDAsync(cell, here->pinned, 8, s));
		break;
	case 2:
		launch(s, kernel("put"), 1, 32, 1, (void *[]){&cell, &address});
		break;
	case 3:
		other = address_cells(1);
		launch(s, kernel("put"), 1, 32, 1, (void *[]){&other, &address});
		OK(cuMemcpyDtoDAsync(cell, other, 8, s));
		break;
	default:
		OK(cuMemsetD32Async(cell, (unsigned)address, 1, s));
		OK(cuMemsetD32Async(cell + 4, (unsigned)(address >> 32), 1, s));
	}
}

/* A cell with the tensor's address, and how far behind that the part begins: one that was filled
 * long ago, or now. */
static CUdeviceptr cell_of(struct happening *h, size_t *skip)
{
	const struct site *z = h->chain->site;
	const CUdeviceptr whole = z->fixed[h->tensor];
	CUdeviceptr cell;

	if (z->table && h->at >= whole && h->chain->t[h->tensor] == whole && chance(&h->rng, 70)) {
		occurs("an old table");
		*skip = (h->at - whole) / width;
		return z->table + 8 * (CUdeviceptr)h->tensor;
	}
	*skip = 0;
	cell = address_cells(1);
	address_put(h->stream, &h->rng, cell, h->at);
	return cell;
}

static void read_by_table(struct happening *h)
{
	static const char *const names[] = {"copy_through", "copy_by_table", "copy_twice_through"};
	const unsigned way = below(&h->rng, 3);
	CUdeviceptr to = room(h), cell, outer;
	size_t skip, n = numbers(h);

	cell = cell_of(h, &skip);
	if (way == 2) {
		outer = address_cells(1);
		address_put(h->stream, &h->rng, outer, cell);
		cell = outer;
	}
	each(h, names[way], (void *[]){&to, &cell, &skip, &n});
	was_read(h, to);
}

static void write_by_table(struct happening *h)
{
	size_t skip, n = numbers(h);
	CUdeviceptr cell = cell_of(h, &skip);
	float value = 0.25f;

	each(h, chance(&h->rng, 50) ? "fill_through" : "fill_by_table",
	     (void *[]){&cell, &skip, &value, &n});
	was_written(h);
}

/* ---- parameters ------------------------------------------------------------------------------ */

struct __attribute__((packed)) askew {
	char tag;
	CUdeviceptr at;
};

static void read_by_parts(struct happening *h)
{
	unsigned low = (unsigned)h->at, high = (unsigned)(h->at >> 32);
	const bool near = chance(&h->rng, 50);
	struct askew packed = {7, h->at};
	CUdeviceptr to = room(h), before = h->at - width;
	size_t n = numbers(h);

	switch (below(&h->rng, 3)) {
	case 0:
		each(h, near ? "copy_halves_near" : "copy_halves_any",
		     (void *[]){&to, &low, &high, &n});
		break;
	case 1:
		each(h, near ? "copy_askew_near" : "copy_askew_any", (void *[]){&to, &packed, &n});
		break;
	default:
		each(h, near ? "copy_from_one_near" : "copy_from_one_any",
		     (void *[]){&to, &before, &n});
	}
	was_read(h, to);
}

static void write_by_parts(struct happening *h)
{
	unsigned low = (unsigned)h->at, high = (unsigned)(h->at >> 32);
	const bool near = chance(&h->rng, 50);
	struct askew packed = {7, h->at};
	CUdeviceptr before = h->at - width;
	size_t n = numbers(h);
	float value = 0.25f;

	switch (below(&h->rng, 3)) {
	case 0:
		each(h, near ? "fill_halves_near" : "fill_halves_any",
		     (void *[]){&low, &high, &value, &n});
		break;
	case 1:
		each(h, near ? "fill_askew_near" : "fill_askew_any",
		     (void *[]){&packed, &value, &n});
		break;
	default:
		each(h, near ? "fill_from_one_near" : "fill_from_one_any",
		     (void *[]){&before, &value, &n});
	}
	was_written(h);
}

const struct event_kind addresses[] = {
	{"read by a table", read_by_table, SCORES_PART, 5},
	{"read an input by a table", read_by_table, INPUT_PART, 2},
	{"write by a table", write_by_table, ANY_PART, 5},
	{"read by parts of an address", read_by_parts, SCORES_PART, 6},
	{"write by parts of an address", write_by_parts, ANY_PART, 6},
	{NULL, NULL, NOTHING, 0},
};
