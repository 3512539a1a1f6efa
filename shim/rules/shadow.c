/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of small pieces. An entry that anything may have written is dropped whole.
 */
#include "shim/rules/shadow.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/base/range.h"
#include "shim/op/gemm.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/rules/grouped.h"
#include "shim/rules/integers.h"
#include "shim/rules/rules.h"

#define PIECES	    256
#define PIECE_BYTES 16384
#define PAGE_BYTES  4096 /* pages may be larger, not smaller */

static struct piece {
	uint64_t begin, size; /* 0: empty */
} pieces[PIECES];
static unsigned char content[PIECES][PIECE_BYTES]; /* apart: every op goes through the ranges */
static unsigned next;
static struct range around; /* all of them; empty: none holds anything */
static bool wanted;

bool shadow_wanted(void)
{
	return wanted;
}

void shadow_clear(void)
{
	for (int i = 0; i < PIECES && around.end; i++)
		pieces[i].size = 0;
	around = (struct range){0};
	grouped_clear();
	integers_clear();
}

static void forget(uint64_t begin, uint64_t end)
{
	if (!range_overlap(begin, end, around.begin, around.end))
		return;
	around = (struct range){0};
	for (int i = 0; i < PIECES; i++) {
		struct piece *piece = &pieces[i];

		if (begin < piece->begin + piece->size && piece->begin < end)
			piece->size = 0;
		if (piece->size)
			range_widen(&around, piece->begin, piece->begin + piece->size);
	}
}

void shadow_put(uint64_t begin, const void *bytes, uint64_t size)
{
	const unsigned at = next++ % PIECES;

	if (size > PIECE_BYTES)
		return;
	pieces[at] = (struct piece){begin, size};
	memcpy(content[at], bytes, size);
	if (size)
		range_widen(&around, begin, begin + size);
}

/* May the host's bytes be read now? A copy from pinned memory that nobody waits for reads them
 * later. */
static bool host_settled(const struct op *op)
{
	return !op->copy.later || !memory_lookup((uint64_t)(uintptr_t)op->copy.host);
}

/* Bytes that are kept of what is copied from op->copy.host. */
static uint64_t bytes_kept(const struct op *op)
{
	const uint64_t bytes = op->copy.target.bytes;
	const bool kept = op->copy.from_host && op->copy.host && op->copy.exact;

	return kept && bytes <= PIECE_BYTES ? bytes : 0;
}

static CUresult memory_type(uint64_t address, unsigned *type)
{
	*type = 0;
	return driver.cuPointerGetAttribute(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

/* Is it the process's own? Nothing is to come of it where it is not: of an address that leads
 * nowhere the driver tells the program, and nobody faults. */
static bool is_own(uint64_t address, uint64_t bytes)
{
	char read[PIECE_BYTES / PAGE_BYTES + 2];
	struct iovec from[sizeof(read)], to = {.iov_base = read};

	for (uint64_t at = 0; at < bytes + PAGE_BYTES - 1; at += PAGE_BYTES)
		from[to.iov_len++] = (struct iovec){
			(void *)(uintptr_t)(address + (at < bytes ? at : bytes - 1)), 1};
	return process_vm_readv(getpid(), &to, 1, from, to.iov_len, 0) == (ssize_t)to.iov_len;
}

/* A copy that does not say from where to where: of one that is small, and from memory that the
 * driver does not know but the process has, the host is the source. */
static void find_side(struct op_copy *copy)
{
	const uint64_t from = copy->source.base, bytes = copy->source.bytes;
	unsigned type;

	if (copy->from_host || copy->to_host || !copy->exact || !bytes || bytes > PIECE_BYTES ||
	    memory_type(from, &type) != CUDA_ERROR_INVALID_VALUE || !is_own(from, bytes))
		return;
	copy->from_host = true;
	copy->host = (const void *)(uintptr_t)copy->source.base;
	copy->source = (struct op_range){0};
}

void shadow_touch_host(struct op *op)
{
	const volatile char *host;
	unsigned type;
	uint64_t bytes;

	if (op->kind != OP_COPY || !op->context)
		return;
	if (wanted)
		find_side(&op->copy);
	bytes = bytes_kept(op);
	host = op->copy.host;
	if (!bytes)
		return;
	if (memory_type((uint64_t)(uintptr_t)host, &type) == CUDA_SUCCESS) {
		if (type != CU_MEMORYTYPE_HOST)
			op->copy.host = NULL;
		return;
	}
	for (uint64_t at = 0; at < bytes; at += PAGE_BYTES)
		(void)host[at];
	(void)host[bytes - 1];
}

static void note_copy(const struct op *op)
{
	const uint64_t bytes = bytes_kept(op);

	if (bytes && host_settled(op))
		shadow_put(op->copy.target.base, op->copy.host, bytes);
}

bool shadow_brings_addresses(const struct op *op)
{
	const uint64_t bytes = op->kind == OP_COPY ? bytes_kept(op) : 0;
	const unsigned char *host = op->copy.host;
	uint64_t word;

	for (uint64_t at = 0; at + 8 <= bytes; at += 8) {
		memcpy(&word, host + at, 8);
		if (word && memory_find(word))
			return true;
	}
	return false;
}

/* A cast of the one element that is known, as where() makes of a number of another type. */
static void note_cast(const struct meaning *meaning)
{
	const struct view *to = &meaning->views[0], *from = &meaning->views[1];
	unsigned char bytes[4];
	double number;

	if (meaning->view_count == 2 && meaning->elements == 1 && to->dtype >= 0 &&
	    shadow_number(from->base, from->dtype, &number) &&
	    rules_store(bytes, to->dtype, number))
		shadow_put(to->base, bytes, (uint64_t)to->element);
}

/* torch.full() and its like, of which as many elements as may be of interest are one; and arrays of
 * addresses. */
static void note_fill(const struct sight *sight)
{
	const struct function *function = sight->function;
	const struct op_launch *launch = &sight->op->launch;
	const struct meaning *meaning;
	struct meaning room;

	if (function->functor.role == ROLE_ADDRESSES && wanted)
		rules_put_addresses(function, launch, sight->params);
	if (launch->grid[0] != 1 || (function->functor.role != ROLE_FILL &&
				     (function->functor.role != ROLE_COPY || !around.end)))
		return;
	meaning = rules_meaning_at(sight, &room);
	if (meaning->role == ROLE_COPY)
		note_cast(meaning);
	if (meaning->role == ROLE_FILL && meaning->elements == 1)
		shadow_put(meaning->views[0].base, sight->params + meaning->scalar_where,
			   (uint64_t)meaning->views[0].element);
}

void shadow_note(const struct sight *sight)
{
	const struct access_list *list = sight->list;

	if (list->opaque || list->far) {
		shadow_clear();
		return;
	}
	for (int i = 0; i < list->count && around.end; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			forget(list->item[i].begin, list->item[i].end);
	grouped_note(sight);
	integers_note(sight);
	if (sight->op->kind == OP_COPY)
		note_copy(sight->op);
	else if (sight->params)
		note_fill(sight);
}

/* Of memory that the host or another process may write unseen nothing is known for sure. */
bool shadow_get(uint64_t address, void *bytes, size_t size)
{
	for (int i = 0; i < PIECES; i++) {
		const struct piece *piece = &pieces[i];

		if (address < piece->begin || address - piece->begin >= piece->size ||
		    size > piece->size - (address - piece->begin) ||
		    !memory_watchable(memory_lookup(address)))
			continue;
		memcpy(bytes, content[i] + (address - piece->begin), size);
		return true;
	}
	return false;
}

bool shadow_number(uint64_t address, int dtype, double *number)
{
	unsigned char bytes[4] = {0};

	if (dtype != ATTN_F16 && dtype != ATTN_BF16 && dtype != ATTN_F32)
		return false;
	if (!shadow_get(address, bytes, (size_t)attn_dtype_size(dtype)))
		return false;
	*number = rules_number(bytes, dtype);
	return true;
}

/* ---- arrays of addresses -------------------------------------------------------------------- */

/* How entries lie in memory: struct op_gemm's words. */
struct spacing {
	uint64_t first;
	int64_t run, inner, stride; /* run: `count` where all are one distance apart */
};

static uint64_t entry(const struct spacing *spacing, int64_t i, int64_t element)
{
	return spacing->first +
	       (uint64_t)((i / spacing->run * spacing->stride + i % spacing->run * spacing->inner) *
			  element);
}

static bool find_spacing(struct spacing *spacing, uint64_t array, int64_t count, int64_t element)
{
	static uint64_t address[PIECE_BYTES / 8];
	int64_t run = 1;

	if (count > PIECE_BYTES / 8 || !shadow_get(array, address, (size_t)count * 8))
		return false;
	while (run < count && address[run] - address[run - 1] == address[1] - address[0])
		run++;
	*spacing = (struct spacing){.first = address[0], .run = run};
	if (count > 1)
		spacing->inner = (int64_t)(address[1] - address[0]) / element;
	spacing->stride =
		run < count ? (int64_t)(address[run] - address[0]) / element : spacing->inner * run;
	if (spacing->inner < 0 || spacing->stride < 0 || count % run)
		return false;
	for (int64_t i = 0; i < count; i++)
		if (address[i] != entry(spacing, i, element))
			return false;
	return true;
}

void shadow_resolve_arrays(struct op_gemm *gemm)
{
	const uint64_t array[3] = {gemm->a, gemm->b, gemm->c};
	const cudaDataType type[3] = {gemm->atype, gemm->btype, gemm->ctype};
	struct spacing is[3];
	int64_t run = gemm->batch;

	if (!gemm->by_array || gemm->batch < 1)
		return;
	wanted = true;
	if (gemm->d || gemm->extra)
		return;
	for (int i = 0; i < 3; i++)
		if (!find_spacing(&is[i], array[i], gemm->batch, bytes_of_cuda(type[i])))
			return;
	for (int i = 0; i < 3; i++)
		run = is[i].run < run ? is[i].run : run;
	for (int i = 0; i < 3; i++) {
		if (is[i].run != run && is[i].run != gemm->batch)
			return;
		if (run < gemm->batch && is[i].run == gemm->batch)
			is[i].stride = is[i].inner * run;
	}
	if (gemm->batch > 1 && !is[2].inner)
		return;
	gemm->by_array = false;
	gemm->a = is[0].first;
	gemm->b = is[1].first;
	gemm->c = is[2].first;
	if (run == gemm->batch) {
		gemm->stride_a = is[0].inner;
		gemm->stride_b = is[1].inner;
		gemm->stride_c = is[2].inner;
		return;
	}
	gemm->run = run;
	gemm->stride_a = is[0].stride;
	gemm->stride_b = is[1].stride;
	gemm->stride_c = is[2].stride;
	gemm->inner_a = is[0].inner;
	gemm->inner_b = is[1].inner;
	gemm->inner_c = is[2].inner;
}
