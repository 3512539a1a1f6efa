/* SPDX-License-Identifier: Apache-2.0
 *
 * A call site: the shape of an attention, the form of its products, which kernels lie between them,
 * and where its tensors are put. All of it stays as it is for as long as the program runs.
 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

const char *const tensor_name[TENSORS] = {"Q",	    "K",  "V",	"S",	 "X",	  "M",
					  "wide P", "P",  "O",	"raw Q", "raw K", "raw V",
					  "merged", "V2", "O2", "raw S"};

static int one_of(struct rng *r, const int *list, unsigned n)
{
	return list[below(r, n)];
}
#define ONE_OF(r, ...)                                                                             \
	one_of(r, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static void shape(struct site *z, struct rng *r)
{
	z->heads = ONE_OF(r, 1, 2, 2, 3, 4);
	z->columns = ONE_OF(r, 16, 24, 32, 33, 40, 48);
	z->rows = chance(r, 60) ? z->columns : ONE_OF(r, 1, 5, 16, 24);
	z->depth = ONE_OF(r, 8, 16, 16, 32, 32, 64);
	z->groups = z->heads;
	if (z->copied == REPEATED) {
		z->heads = 4;
		z->groups = ONE_OF(r, 1, 2);
	} else if (z->copied == SHARED) {
		z->groups = 1;
	}
}

static void middle(struct site *z, struct rng *r)
{
	z->aten = type == F16 && chance(r, 60);
	z->scaled_apart = chance(r, z->aten ? 70 : 40);
	z->scaled_in_product = !z->scaled_apart && (z->aten || chance(r, 50));
	z->alpha = z->scaled_in_product ? 2 / sqrtf((float)z->depth) : 1;
	if (z->aten)
		z->masked = chance(r, 50) ? ADDED : UNMASKED;
	else
		z->masked = (enum masked)ONE_OF(r, UNMASKED, UNMASKED, ADDED, BY_KEYS, CAUSAL,
						CAUSAL, LOWER, LOWER);
	if ((z->masked == CAUSAL || z->masked == LOWER) && z->rows > z->columns)
		z->rows = z->columns;
	z->x_in_place = chance(r, 40);
	z->m_in_place = chance(r, 50);
	z->p_in_place = z->masked != LOWER && chance(r, 25);
	if (type != F32 && !z->aten && chance(r, 35)) {
		z->wide_scores = chance(r, 60);
		z->wide_p = !z->wide_scores || chance(r, 40);
		z->p_in_place = false;
	}
}

static size_t tensor_bytes(const struct site *z, enum tensor t)
{
	const size_t rows = (size_t)(z->rows > z->columns ? z->rows : z->columns),
		     heads = (size_t)z->heads;

	if ((t >= S && t <= P) || t == RAW_S)
		return heads * (size_t)z->rows * (size_t)(z->columns + 32) * sizeof(float);
	return heads * (rows + 32) * (size_t)z->depth * width * (z->layout == INTERLEAVED ? 3 : 1);
}

/* A mask: causal, a bias, keys hidden, rows hidden altogether, causal with a number. */
void site_mask(const struct site *z, CUstream s, struct rng *r)
{
	const int rows = z->masked == ADDED ? z->rows : 1,
		  columns = (int)(z->mask_bytes / width) / rows;
	const unsigned kind = below(r, 5);
	const float low = type == F16 ? -60000.0f : -1e9f;
	char *host = malloc(z->mask_bytes);

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			const bool later = j > i + columns - rows;
			float x = 0;

			if (kind == 0 || kind == 4)
				x = later ? kind ? low : -INFINITY : 0;
			else if (kind == 1)
				x = (float)(next(r) >> 40) * 0x1p-23f - 1.0f;
			else if (kind == 2)
				x = j > columns - 6 - 2 * (i % 3) ? -INFINITY : 0;
			else
				x = i % 3 == 1 && rows > 1 ? -INFINITY : 0;
			put_number(host, (size_t)(i * columns + j), x);
		}
	trace("mask of site %d kind=%u at %llx bytes=%zu", z->number, kind, z->mask, z->mask_bytes);
	settle(s);
	OK(cuMemcpyHtoD(z->mask, host, z->mask_bytes));
	OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	mark(z->mask, z->mask_bytes, 0);
	free(host);
}

/* Few queries, and keys of which nobody would keep a whole copy for the sake of a few bytes. */
static void be_large(struct site *z)
{
	z->large = z->quiet_inputs = true;
	z->heads = z->groups = 4;
	z->rows = 1;
	z->columns = 12000;
	z->depth = 64;
	z->copied = AS_IS;
	z->layout = PLAIN;
	z->placing = APART;
	z->masked = UNMASKED;
	z->grows = z->merged = false;
	z->alpha = z->scaled_in_product ? 0.25f : 1;
	z->occurrences = 12;
	z->in_graphs = false;
}

bool site_hides_tiles(const struct site *z)
{
	return z->masked != UNMASKED && z->columns > 16;
}

static void place(struct site *z, struct rng *r)
{
	CUdeviceptr at = 0;
	size_t all = 0;

	for (int t = 0; t < TENSORS; t++)
		all += (tensor_bytes(z, (enum tensor)t) + 511) & ~(size_t)511;
	if (!z->large && chance(r, 12)) {
		occurs("a site in mapped memory");
		z->mapping = mapping_make(all, &at);
	}
	for (int t = 0; t < TENSORS; t++) {
		const size_t bytes = tensor_bytes(z, (enum tensor)t);

		z->fixed[t] = at ? at : allocate(bytes);
		if (at)
			at += (bytes + 511) & ~(size_t)511;
		/* some programs rely on what lies there since then */
		set_bytes(z->lane->stream, z->fixed[t], 0, bytes);
	}
	if (!chance(r, 60))
		return;
	z->table = address_cells(TENSORS);
	for (int t = 0; t < TENSORS; t++)
		address_put(z->lane->stream, r, z->table + 8 * (CUdeviceptr)t, z->fixed[t]);
}

/* Of its own numbers, so that sites are what they were without. */
static void added_to(struct site *z)
{
	struct rng r = rng_of((uint64_t)z->number, 778);

	if (!z->wide_scores && !z->large && chance(&r, 25))
		z->added = (enum added)ONE_OF(&r, TO_SLOPES, TO_ONE_HEAD, TO_ONE_HEAD, TO_ALL);
}

void site_make(struct site *z, struct lane *l, int number, struct rng *r)
{
	*z = (struct site){.number = number, .lane = l};
	z->copied = (enum copied)ONE_OF(r, AS_IS, AS_IS, SPLIT, SPLIT, REPEATED, REPEATED, SHARED);
	shape(z, r);
	middle(z, r);
	if (z->copied == AS_IS)
		z->layout =
			(enum layout)ONE_OF(r, PLAIN, PLAIN, INTERLEAVED, K_TRANSPOSED, O_BY_ROWS);
	if (z->layout == INTERLEAVED)
		z->rows = z->columns;
	z->late_v = z->layout != INTERLEAVED && chance(r, 40);
	z->merged = z->layout != O_BY_ROWS && chance(r, 50);
	z->grows = z->masked == UNMASKED && chance(r, 12) && z->layout != INTERLEAVED;
	z->quiet_inputs = chance(r, 60);
	z->device_scalars = chance(r, 8);
	z->form = (enum form)ONE_OF(r, STRIDED, STRIDED, STRIDED, TYPED, TYPED, ARRAYS, LT, LT,
				    PARTS, PARTS, PARTS);
	z->placing = (enum placing)ONE_OF(r, IN_ARENA, IN_ARENA, IN_ARENA, IN_ARENA, APART, APART,
					  APART, FRESH, POOLED);
	z->occurrences = 9 + (int)below(r, 7);
	z->in_graphs = chance(r, 12);
	if (type != F32 && z->form != ARRAYS && chance(r, 5))
		be_large(z);
	added_to(z);
	trace("site %d: heads=%d/%d rows=%d columns=%d depth=%d aten=%d masked=%d layout=%d "
	      "copied=%d "
	      "placing=%d form=%d apart=%d in product=%d in place=%d%d%d late=%d merged=%d "
	      "grows=%d wide=%d%d added=%d",
	      number, z->heads, z->groups, z->rows, z->columns, z->depth, z->aten, z->masked,
	      z->layout, z->copied, z->placing, z->form, z->scaled_apart, z->scaled_in_product,
	      z->x_in_place, z->m_in_place, z->p_in_place, z->late_v, z->merged, z->grows,
	      z->wide_scores, z->wide_p, z->added);
	if (z->masked == ADDED || z->masked == BY_KEYS) {
		z->mask_bytes =
			(size_t)(z->masked == ADDED ? z->rows : 1) * (size_t)z->columns * width;
		z->mask =
			chance(r, 50) ? arena_take(r, z->mask_bytes, -1) : allocate(z->mask_bytes);
		site_mask(z, l->stream, r);
	}
	hides_make(z, l->stream);
	if (z->placing == APART)
		place(z, r);
}
