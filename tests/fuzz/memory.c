/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's device memory: what was allocated, the marks of its bytes, an arena as a caching
 * allocator keeps it, and the record of all that the program looks at.
 */
#include "fuzz.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What is large is looked at in the end alone. */
enum { LARGE = 2 << 20 };
enum { MOST = 4096, TAKEN = 96, DEEPEST = 50 };

static struct memory {
	CUdeviceptr base;
	size_t bytes;
	uint8_t *marks;
	struct lane *lane; /* NULL: released */
	bool shown;
} table[MOST];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct memory *find(CUdeviceptr p)
{
	struct memory *found = NULL;

	pthread_mutex_lock(&lock);
	for (int i = count - 1; i >= 0 && !found; i--)
		if (table[i].lane && p >= table[i].base && p < table[i].base + table[i].bytes)
			found = &table[i];
	pthread_mutex_unlock(&lock);
	return found;
}

CUdeviceptr known(CUdeviceptr p, size_t bytes)
{
	struct memory *m;

	pthread_mutex_lock(&lock);
	if (count == MOST)
		die("too many allocations", MOST, __LINE__);
	m = &table[count];
	*m = (struct memory){p, bytes, calloc(1, bytes / 2 + 2), here, true};
	count++;
	pthread_mutex_unlock(&lock);
	return p;
}

CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, bytes));
	trace("cuMemAlloc %llx bytes=%zu", p, bytes);
	return known(p, bytes);
}

CUdeviceptr allocate_async(size_t bytes, CUstream s)
{
	CUdeviceptr p;

	OK(cuMemAllocAsync(&p, bytes, s));
	trace("cuMemAllocAsync %llx bytes=%zu", p, bytes);
	return known(p, bytes);
}

void appears(CUdeviceptr p, size_t bytes, CUdeviceptr of)
{
	uint8_t *marks = find(of)->marks;

	known(p, bytes);
	free(find(p)->marks);
	find(p)->marks = marks;
}

void disappears(CUdeviceptr p)
{
	find(p)->lane = NULL;
}

void release(CUdeviceptr p, CUstream s, bool async)
{
	struct memory *m = find(p);

	if (!m || m->base != p)
		die("release", 1, __LINE__);
	trace("%s %llx", async ? "cuMemFreeAsync" : "cuMemFree", p);
	m->lane = NULL;
	free(m->marks);
	if (async) {
		OK(cuMemFreeAsync(p, s));
	} else {
		settle(s);
		OK(cuMemFree(p));
	}
}

bool is_ours(CUdeviceptr p, size_t bytes)
{
	struct memory *m = p ? find(p) : NULL;

	return m && m->lane == here && p + bytes <= m->base + m->bytes;
}

CUdeviceptr base_of(CUdeviceptr p, size_t *bytes)
{
	struct memory *m = find(p);

	if (!m)
		die("base_of", 1, __LINE__);
	*bytes = m->bytes;
	return m->base;
}

/* ---- marks --------------------------------------------------------------------------------- */

static uint8_t *marks_at(CUdeviceptr p, size_t bytes)
{
	struct memory *m = find(p);

	if (!m || p + bytes > m->base + m->bytes)
		die("outside of memory", 1, __LINE__);
	return m->marks + (p - m->base) / 2;
}

int depth_of(CUdeviceptr p, size_t bytes)
{
	const uint8_t *m = marks_at(p, bytes);
	int most = 0, flags = 0;

	for (size_t i = 0; i < (bytes + 1) / 2; i++) {
		const int depth = m[i] & ~DUMP_FLAGS;

		flags |= m[i] & DUMP_FLAGS;
		most = depth > most ? depth : most;
	}
	return most | flags;
}

void mark(CUdeviceptr p, size_t bytes, int depth)
{
	const int flags = depth & DUMP_FLAGS, most = depth & ~DUMP_FLAGS;

	memset(marks_at(p, bytes), flags | (most < DEEPEST ? most : DEEPEST), (bytes + 1) / 2);
}

void mark_wide(CUdeviceptr p, size_t bytes, int depth)
{
	mark(p, bytes, depth & ~DUMP_FLAGS ? depth | DUMP_WIDE : depth & ~DUMP_WIDE);
}

void mark_promised(CUdeviceptr p, size_t bytes, bool promised)
{
	uint8_t *m = marks_at(p, bytes);

	for (size_t i = 0; i < (bytes + 1) / 2; i++)
		m[i] = (uint8_t)((m[i] & ~DUMP_PROMISED) | (promised ? DUMP_PROMISED : 0));
}

void mark_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	memmove(marks_at(to, bytes), marks_at(from, bytes), (bytes + 1) / 2);
}

/* ---- the arena ----------------------------------------------------------------------------- */

static struct block {
	CUdeviceptr begin, end;
	int owner;
} taken[2][TAKEN];
static int taken_count[2];
static CUdeviceptr lately[2][16]; /* where something lay */

bool arena_free(CUdeviceptr p, size_t bytes)
{
	const int l = here->number;

	if (p < here->arena || p + bytes > here->arena + ARENA_BYTES)
		return false;
	for (int i = 0; i < taken_count[l]; i++)
		if (p < taken[l][i].end && taken[l][i].begin < p + bytes)
			return false;
	return true;
}

void arena_hold(CUdeviceptr p, size_t bytes, int owner)
{
	const int l = here->number;

	if (taken_count[l] == TAKEN)
		die("arena", TAKEN, __LINE__);
	taken[l][taken_count[l]++] = (struct block){p, p + bytes, owner};
}

void arena_give(CUdeviceptr p)
{
	const int l = here->number;

	for (int i = 0; i < taken_count[l]; i++)
		if (taken[l][i].begin == p) {
			taken[l][i] = taken[l][--taken_count[l]];
			return;
		}
}

void arena_give_all(int owner)
{
	const int l = here->number;

	for (int i = taken_count[l] - 1; i >= 0; i--)
		if (taken[l][i].owner == owner)
			taken[l][i] = taken[l][--taken_count[l]];
}

/* The lowest place, one where something lay before, or any. */
CUdeviceptr arena_take(struct rng *r, size_t bytes, int owner)
{
	const int l = here->number;
	unsigned way = below(r, 100);

	for (int attempt = 0; attempt < 400; attempt++, way = below(r, 100)) {
		CUdeviceptr p = here->arena;

		if (way < 40)
			p = lately[l][below(r, 16)];
		else if (way < 75)
			while (p + bytes <= here->arena + ARENA_BYTES && !arena_free(p, bytes))
				p += here->align;
		else
			p += below(r, (unsigned)(ARENA_BYTES / here->align)) * here->align;
		if (p && arena_free(p, bytes)) {
			lately[l][below(r, 16)] = p;
			arena_hold(p, bytes, owner);
			return p;
		}
	}
	die("the arena is full", 1, __LINE__);
}

/* ---- the record ---------------------------------------------------------------------------- */

static void put(const char *what, CUdeviceptr offset, const uint8_t *marks, const void *data,
		size_t bytes)
{
	static const char nothing[4];
	struct dump_header h = {.magic = DUMP_MAGIC,
				.type = type,
				.lane = here->number,
				.occurrence = here->occurrence,
				.step = here->step,
				.bytes = (uint32_t)bytes,
				.offset = (uint32_t)offset};
	uint32_t half = (uint32_t)(bytes + 1) / 2;

	snprintf(h.what, sizeof(h.what), "%s", what);
	fwrite(&h, sizeof(h), 1, here->dump);
	if (marks)
		fwrite(marks, 1, half, here->dump);
	else
		for (uint32_t i = 0; i < half; i++)
			fputc(0, here->dump);
	fwrite(nothing, 1, dump_padded(half) - half, here->dump);
	fwrite(data, 1, bytes, here->dump);
	fwrite(nothing, 1, dump_padded((uint32_t)bytes) - bytes, here->dump);
}

void record(const char *what, CUdeviceptr at, const void *data, size_t bytes)
{
	size_t all;

	put(what, at - base_of(at, &all), marks_at(at, bytes), data, bytes);
}

void record_status(const char *what, int status)
{
	put(what, 0, NULL, &status, sizeof(status));
}

void observe(CUstream s, const char *what, CUdeviceptr at, size_t bytes)
{
	void *data = malloc(bytes + 8);

	trace("observe %s %llx bytes=%zu", what, at, bytes);
	settle(s);
	OK(cuMemcpyDtoH(data, at, bytes));
	record(what, at, data, bytes);
	free(data);
}

void observe_everything(void)
{
	trace("observe everything");
	for (int i = 0; i < count; i++)
		if (table[i].lane == here && table[i].base != here->arrays &&
		    table[i].base != here->tables &&
		    !(table[i].base == here->work && here->working) &&
		    (table[i].bytes < LARGE || here->occurrence == LAST))
			observe(here->stream, "everything", table[i].base, table[i].bytes);
}

void part(struct rng *r, CUdeviceptr base, size_t bytes, CUdeviceptr *at, size_t *length)
{
	const unsigned n = (unsigned)(bytes / width);
	unsigned from = 0, many = n;

	switch (below(r, 8)) {
	case 0:
	case 1:
		break;
	case 2:
		many = 1 + below(r, n);
		break;
	case 3:
		from = below(r, n);
		many = n - from;
		break;
	case 4:
		from = below(r, n);
		many = 1 + below(r, n - from);
		break;
	case 5:
		from = n - 1;
		many = 1;
		break;
	case 6:
		many = 1;
		break;
	default:
		from = n / 2;
		many = 1 + n / 8;
	}
	if (many > n - from)
		many = n - from;
	if (many * width > SPARE_BYTES / 2)
		many = (unsigned)(SPARE_BYTES / 2 / width);
	*at = base + from * width;
	*length = many * width;
}
