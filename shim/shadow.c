/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of small pieces. An entry that anything may have written is dropped whole.
 */
#include "shadow.h"

#include <string.h>

#include "gemm.h"
#include "memory.h"
#include "rules.h"

#define PIECES	    32
#define PIECE_BYTES 16384

static struct piece {
	uint64_t begin, size; /* 0: empty */
} pieces[PIECES];
static unsigned char content[PIECES][PIECE_BYTES]; /* apart: every op goes through the ranges */
static unsigned next;
static bool any; /* may one of them hold something? */
static bool wanted;

bool shadow_wanted(void)
{
	return wanted;
}

void shadow_clear(void)
{
	for (int i = 0; i < PIECES && any; i++)
		pieces[i].size = 0;
	any = false;
}

static void forget(uint64_t begin, uint64_t end)
{
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].size && begin < pieces[i].begin + pieces[i].size &&
		    pieces[i].begin < end)
			pieces[i].size = 0;
}

static void put(uint64_t begin, const void *bytes, uint64_t size)
{
	const unsigned at = next++ % PIECES;

	pieces[at] = (struct piece){begin, size};
	memcpy(content[at], bytes, size);
	any = true;
}

/* May the host's bytes be read now? A copy from pinned memory that nobody waits for reads them
 * later. */
static bool host_settled(const struct op *op)
{
	return op->copy.host &&
	       (!strstr(op->name, "Async") || !memory_lookup((uint64_t)(uintptr_t)op->copy.host));
}

static void note_copy(const struct op *op)
{
	const struct op_range *to = &op->copy.target;

	if (op->copy.from_host && op->copy.exact && to->bytes && to->bytes <= PIECE_BYTES &&
	    host_settled(op))
		put(to->base, op->copy.host, to->bytes);
}

/* torch.full() and its like: as many elements as may be of interest are one. */
static void note_fill(const struct op *op, const struct function *function,
		      const unsigned char *params)
{
	struct meaning meaning;

	if (!function->rule || op->launch.grid[0] != 1)
		return;
	rules_meaning(function, &op->launch, params, &meaning);
	if (meaning.role == ROLE_FILL && meaning.elements == 1)
		put(meaning.views[0].base, params + meaning.scalar_where,
		    (uint64_t)meaning.views[0].element);
}

void shadow_note(const struct op *op, const struct access_list *list,
		 const struct function *function, const unsigned char *params)
{
	if (list->opaque) {
		shadow_clear();
		return;
	}
	for (int i = 0; i < list->count && any; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			forget(list->item[i].begin, list->item[i].end);
	if (op->kind == OP_COPY)
		note_copy(op);
	else if (op->kind == OP_LAUNCH && function && params)
		note_fill(op, function, params);
}

bool shadow_get(uint64_t address, void *bytes, size_t size)
{
	for (int i = 0; i < PIECES; i++) {
		const struct piece *piece = &pieces[i];

		if (address < piece->begin || address - piece->begin >= piece->size ||
		    size > piece->size - (address - piece->begin))
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

/* First address and distance in elements. */
static bool evenly_spaced(uint64_t array, int64_t count, int element, uint64_t *first,
			  int64_t *stride)
{
	static uint64_t address[PIECE_BYTES / 8];

	if (count > PIECE_BYTES / 8 || !shadow_get(array, address, (size_t)count * 8))
		return false;
	*first = address[0];
	*stride = count > 1 ? (int64_t)(address[1] - address[0]) / element : 0;
	if (*stride < 0)
		return false;
	for (int64_t i = 0; i < count; i++)
		if (address[i] != address[0] + (uint64_t)(i * *stride * element))
			return false;
	return true;
}

void shadow_resolve_arrays(struct op_gemm *gemm)
{
	struct op_gemm strided = *gemm;

	if (!gemm->by_array || gemm->batch < 1)
		return;
	wanted = true;
	if (!evenly_spaced(gemm->a, gemm->batch, bytes_of_cuda(gemm->atype), &strided.a,
			   &strided.stride_a) ||
	    !evenly_spaced(gemm->b, gemm->batch, bytes_of_cuda(gemm->btype), &strided.b,
			   &strided.stride_b) ||
	    !evenly_spaced(gemm->c, gemm->batch, bytes_of_cuda(gemm->ctype), &strided.c,
			   &strided.stride_c) ||
	    (gemm->batch > 1 && !strided.stride_c) || gemm->d || gemm->extra)
		return;
	strided.by_array = false;
	*gemm = strided;
}
