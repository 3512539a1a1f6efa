/* SPDX-License-Identifier: Apache-2.0
 *
 * Writers: what a program may do to its inputs, scores and outputs, wholly or in part, before, in
 * and after the window of an attention. Many look at P afterwards, which must still be what it was.
 */
#include "fuzz.h"

#include <stdlib.h>

static size_t numbers(const struct happening *h)
{
	return h->bytes / width;
}

/* Half of the time the program then looks at the probabilities or the scores. */
static void then_look(struct happening *h)
{
	const struct chain *c = h->chain;
	const enum tensor t = chance(&h->rng, 75) ? P : S;

	if (chance(&h->rng, 50) && is_ours(c->t[t], c->bytes[t]))
		observe(h->stream, "afterwards", c->t[t], c->bytes[t]);
}

static void by_set(struct happening *h)
{
	const unsigned way = below(&h->rng, 3);

	trace("set way %u", way);
	if (way == 0)
		OK(cuMemsetD8Async(h->at, 0x38, h->bytes, h->stream));
	else if (way == 1)
		OK(cuMemsetD16Async(h->at, 0x3838, h->bytes / 2, h->stream));
	else if (h->at % 4 == 0 && h->bytes % 4 == 0)
		OK(cuMemsetD32Async(h->at, 0x38383838, h->bytes / 4, h->stream));
	else
		return;
	mark(h->at, h->bytes, 0);
	then_look(h);
}

static size_t pitch_of(const struct happening *h)
{
	const bool score = h->tensor >= S && h->tensor <= P;

	return (size_t)(score ? h->chain->columns : h->chain->site->depth) * width;
}

static void by_set_2d(struct happening *h)
{
	const size_t pitch = pitch_of(h), rows = h->chain->bytes[h->tensor] / pitch,
		     each = width * (1 + below(&h->rng, (unsigned)(pitch / width)));
	CUdeviceptr to = h->chain->t[h->tensor] + (pitch - each);

	if (!rows)
		return;
	trace("set 2d %llx pitch=%zu width=%zu rows=%zu", to, pitch, each, rows);
	OK(cuMemsetD2D8Async(to, pitch, 0x38, each, rows, h->stream));
	for (size_t i = 0; i < rows; i++)
		mark(to + i * pitch, each, 0);
	then_look(h);
}

static void by_device_copy(struct happening *h)
{
	random_numbers(h->stream, here->spare, next(&h->rng), numbers(h));
	trace("memcpy %llx <- %llx", h->at, here->spare);
	OK(cuMemcpyDtoDAsync(h->at, here->spare, h->bytes, h->stream));
	mark_copy(h->at, here->spare, h->bytes);
	then_look(h);
}

static void by_host_copy(struct happening *h)
{
	void *host = malloc(h->bytes);

	host_numbers(host, numbers(h), next(&h->rng), 0);
	settle(h->stream);
	OK(cuMemcpyHtoD(h->at, host, h->bytes));
	OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	mark(h->at, h->bytes, 0);
	free(host);
	then_look(h);
}

static void by_pinned_copy(struct happening *h)
{
	OK(cuCtxSynchronize());
	host_numbers(here->pinned, numbers(h), next(&h->rng), 0);
	OK(cuMemcpyHtoDAsync(h->at, here->pinned, h->bytes, h->stream));
	mark(h->at, h->bytes, 0);
	then_look(h);
}

static void by_tile(struct happening *h)
{
	const size_t pitch = pitch_of(h), rows = h->chain->bytes[h->tensor] / pitch;
	CUDA_MEMCPY2D d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcDevice = here->spare,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstDevice = h->chain->t[h->tensor],
			   .dstPitch = pitch};

	if (rows < 2)
		return;
	d.dstXInBytes = below(&h->rng, (unsigned)(pitch / width)) * width;
	d.WidthInBytes = width * (1 + below(&h->rng, (unsigned)((pitch - d.dstXInBytes) / width)));
	d.dstY = below(&h->rng, (unsigned)rows);
	d.Height = 1 + below(&h->rng, (unsigned)(rows - d.dstY));
	d.srcPitch = d.WidthInBytes;
	if (d.Height * d.WidthInBytes > SPARE_BYTES)
		return;
	random_numbers(h->stream, here->spare, next(&h->rng), d.Height * d.WidthInBytes / width);
	trace("tile x=%zu y=%zu of %zux%zu", d.dstXInBytes, d.dstY, d.WidthInBytes, d.Height);
	OK(cuMemcpy2DAsync(&d, h->stream));
	for (size_t i = 0; i < d.Height; i++)
		mark(d.dstDevice + (d.dstY + i) * pitch + d.dstXInBytes, d.WidthInBytes, 0);
	then_look(h);
}

static void by_kernel(struct happening *h)
{
	if (chance(&h->rng, 50))
		random_numbers(h->stream, h->at, next(&h->rng), numbers(h));
	else if (type == F16 && chance(&h->rng, 60))
		aten_fill(h->stream, h->at, 0.25f, numbers(h));
	else
		fill_numbers(h->stream, h->at, 0.25f, numbers(h));
	then_look(h);
}

static void by_scaling(struct happening *h)
{
	if (type == F16 && chance(&h->rng, 50))
		aten_scale(h->stream, h->at, h->at, 0.5f, numbers(h));
	else
		scale_numbers(h->stream, h->at, h->at, 0.5f, numbers(h));
	then_look(h);
}

/* Every so many numbers, or none at all: the others stay. */
static void by_sparse_kernel(struct happening *h)
{
	const int steps[] = {1, 2, 3, 7, 1 << 20};
	int step = steps[below(&h->rng, 5)];
	float value = 0.25f;
	size_t n = numbers(h);

	trace("fill every %d of %llx n=%zu", step, h->at, n);
	launch(h->stream, kernel("fill_some"), blocks_of(n, 64), 64, 1,
	       (void *[]){&h->at, &value, &step, &n});
	for (size_t i = 0; i < n; i += (size_t)step)
		mark(h->at + i * width, width, 0);
	then_look(h);
}

/* Every other number, and perhaps those between, as interleaved pairs are put together; or somebody
 * looks first, or other halves come. */
static void by_turns(struct happening *h)
{
	const struct chain *c = h->chain;
	const CUdeviceptr at = chance(&h->rng, 60) ? c->t[h->tensor] : h->at;
	const size_t all = at == h->at ? h->bytes : c->bytes[h->tensor];
	const size_t most = c->bytes[V] / width,
		     n = all / width / 2 < most ? all / width / 2 : most;
	const unsigned odd = below(&h->rng, 2);

	/* not by a kernel of its own, before which all that is held back in the arena is made */
	if (type != F16 || n < 2 || h->tensor == V || !is_ours(c->t[V], c->bytes[V]) ||
	    (c->t[V] < at + all && at < c->t[V] + c->bytes[V]))
		return;
	aten_interleave(h->stream, at + odd * width, c->t[V], n);
	if (chance(&h->rng, 30))
		then_look(h);
	if (chance(&h->rng, 80))
		aten_interleave(h->stream, at + !odd * width, c->t[V],
				chance(&h->rng, 85) ? n : n / 2);
	then_look(h);
}

/* The causal softmax of a part of P or S over itself, the lower triangle alone. */
static void by_triangle(struct happening *h)
{
	const struct chain *c = h->chain;
	const enum tensor t = chance(&h->rng, 70) ? P : S;
	size_t rows = (size_t)c->site->heads * (size_t)c->rows, bytes = scores_of(c) * width;
	float f = 0.5f;
	CUdeviceptr at = c->t[t];
	int depth;

	if (!is_ours(at, bytes))
		return;
	depth = depth_of(at, bytes);
	if (c->rows > c->columns || depth > 0)
		return;
	trace("triangle of %s", tensor_name[t]);
	launch(h->stream, kernel("lower"), rows, 32, 1,
	       (void *[]){&at, &at, &f, (void *)&c->columns, (void *)&c->rows});
	then_look(h);
}

/* It begins before, or ends behind, as what an allocator puts there may. */
static void over_and_under(struct happening *h)
{
	size_t all, before, behind;
	CUdeviceptr base = base_of(h->at, &all);

	before = below(&h->rng, 3) * below(&h->rng, 40) * 64;
	behind = below(&h->rng, 3) * below(&h->rng, 40) * 64;
	if (before > h->at - base)
		before = (h->at - base) / width * width;
	h->at -= before;
	h->bytes += before;
	if (behind > base + all - h->at - h->bytes)
		behind = (base + all - h->at - h->bytes) / width * width;
	h->bytes += behind;
	if (chance(&h->rng, 60)) {
		random_numbers(h->stream, h->at, next(&h->rng), numbers(h));
	} else {
		trace("set %llx bytes=%zu", h->at, h->bytes);
		OK(cuMemsetD8Async(h->at, 0x38, h->bytes, h->stream));
		mark(h->at, h->bytes, 0);
	}
	then_look(h);
}

/* Given where it ends, where its allocation begins, or an address before it. */
static void by_other_addresses(struct happening *h)
{
	size_t n = numbers(h), all, back;
	float value = 0.25f;
	CUdeviceptr base = base_of(h->at, &all), from;
	const unsigned way = below(&h->rng, 3);

	if (way == 0) {
		from = h->at + h->bytes;
		launch(h->stream, kernel("fill_before"), blocks_of(n, 64), 64, 1,
		       (void *[]){&from, &value, &n});
	} else {
		back = way == 1 ? h->at - base : width * below(&h->rng, 2000);
		if (back > h->at - base)
			back = h->at - base;
		from = h->at - back;
		back /= width;
		launch(h->stream, kernel(chance(&h->rng, 50) ? "fill_offset" : "fill_after"),
		       blocks_of(n, 64), 64, 1, (void *[]){&from, &back, &value, &n});
	}
	trace("fill by way of %llx", from);
	mark(h->at, h->bytes, 0);
	then_look(h);
}

/* A product's result over a tensor. */
static void by_product(struct happening *h)
{
	const struct chain *c = h->chain;
	const int depth = c->site->depth,
		  rows = (int)(c->bytes[h->tensor] / width) / (c->site->heads * depth);
	struct product p = {.form = (enum form)below(&h->rng, FORMS),
			    .m = depth,
			    .n = rows < c->rows ? rows : c->rows,
			    .k = 1,
			    .batch = c->site->heads,
			    .alpha = 0.5f,
			    .beta = chance(&h->rng, 40) ? 0.5f : 0,
			    .a = here->ones,
			    .b = here->ones,
			    .c = c->t[h->tensor],
			    .lda = depth,
			    .ldb = 1,
			    .ldc = depth};

	if (p.n < 1 || c->site->layout == INTERLEAVED)
		return;
	p.stride_c = (long long)p.n * depth;
	multiply(h->stream, &p);
	then_look(h);
}

static void on_another_stream(struct happening *h)
{
	if (h->stream == here->other)
		return;
	order(h->stream, here->other, 0);
	if (chance(&h->rng, 50)) {
		random_numbers(here->other, h->at, next(&h->rng), numbers(h));
	} else {
		trace("set %llx bytes=%zu", h->at, h->bytes);
		OK(cuMemsetD8Async(h->at, 0x38, h->bytes, here->other));
		mark(h->at, h->bytes, 0);
	}
	order(here->other, h->stream, 1);
	then_look(h);
}

/* From one tensor of the chain to another. */
static void from_another(struct happening *h)
{
	const struct chain *c = h->chain;
	const enum tensor from = (enum tensor)below(&h->rng, TENSORS);
	size_t bytes;

	if (!is_ours(c->t[from], c->bytes[from]))
		return;
	bytes = h->bytes < c->bytes[from] ? h->bytes : c->bytes[from];
	if ((c->t[from] < h->at + bytes && h->at < c->t[from] + bytes) ||
	    depth_of(c->t[from], bytes) > 0)
		return;
	trace("memcpy %llx <- %s %llx bytes=%zu", h->at, tensor_name[from], c->t[from], bytes);
	OK(cuMemcpyDtoDAsync(h->at, c->t[from], bytes, h->stream));
	mark_copy(h->at, c->t[from], bytes);
	then_look(h);
}

/* Part of an input changes, P is looked at, more of it changes, P again. */
static void inputs_by_and_by(struct happening *h)
{
	const struct chain *c = h->chain;

	for (int i = 0; i < 3; i++) {
		const size_t half = numbers(h) / 2 + 1;

		if (i == 1)
			OK(cuMemsetD8Async(h->at, 0x38, h->bytes, h->stream));
		else
			random_numbers(h->stream, h->at, next(&h->rng),
				       half < numbers(h) ? half : numbers(h));
		if (i == 1)
			mark(h->at, h->bytes, 0);
		if (is_ours(c->t[P], c->bytes[P]) && chance(&h->rng, 60)) {
			CUdeviceptr at;
			size_t bytes;

			part(&h->rng, c->t[P], c->bytes[P], &at, &bytes);
			observe(h->stream, "P by and by", at, bytes);
		}
	}
}

/* A few numbers at either end of an input change, and all of P is looked at: who keeps but what is
 * overwritten keeps two pieces, and finds the rest where it was. */
static void both_ends(struct happening *h)
{
	const struct chain *c = h->chain;
	const enum tensor t = chance(&h->rng, 75) ? K : V;
	const size_t n = 64;
	const CUdeviceptr ends[] = {c->t[t], c->t[t] + c->bytes[t] - n * width};
	const unsigned first = below(&h->rng, 2), many = chance(&h->rng, 75) ? 2 : 1;

	if (!is_ours(c->t[t], c->bytes[t]) || c->bytes[t] < n * width)
		return;

	trace("%s at %llx and %llx", tensor_name[t], ends[first], many > 1 ? ends[1 - first] : 0);
	for (unsigned i = 0; i < many; i++)
		set_bytes(h->stream, ends[(first + i) % 2],
			  (unsigned char)(0x30 + below(&h->rng, 8)), n * width);
	if (is_ours(c->t[P], c->bytes[P]))
		observe(h->stream, "P, both ends changed", c->t[P], c->bytes[P]);
}

static void mask(struct happening *h)
{
	const struct site *z = h->chain->site;

	if (!z->mask)
		return;
	if (chance(&h->rng, 40)) {
		site_mask(z, h->stream, &h->rng);
	} else {
		part(&h->rng, z->mask, z->mask_bytes, &h->at, &h->bytes);
		if (chance(&h->rng, 50))
			by_set(h);
		else
			fill_numbers(h->stream, h->at, type == F16 ? -60000.0f : -1e9f, numbers(h));
	}
	then_look(h);
}

/* A value that leads a fused kernel astray where a mask hides it. */
static void odd_number(struct happening *h)
{
	static const float odd[] = {1.0f / 0.0f, -1.0f / 0.0f, 0.0f / 0.0f},
			   large[] = {60000, -60000, 30000};
	const bool of_v = h->tensor == V || h->tensor == RAW_V;
	const unsigned which = below(&h->rng, 3);
	char bytes[4];

	put_number(bytes, 0, (of_v && site_hides_tiles(h->chain->site) ? large : odd)[which]);
	settle(h->stream);
	OK(cuMemcpyHtoD(h->at, bytes, width));
	OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	mark(h->at, width, 0);
}

const struct event_kind writes[] = {
	{"write by set", by_set, ANY_PART, 5},
	{"write by set 2d", by_set_2d, ANY_PART, 3},
	{"write by device copy", by_device_copy, ANY_PART, 4},
	{"write by host copy", by_host_copy, INPUT_PART, 4},
	{"write by pinned copy", by_pinned_copy, ANY_PART, 3},
	{"write by tile", by_tile, ANY_PART, 4},
	{"write by kernel", by_kernel, INPUT_PART, 6},
	{"write scores by kernel", by_kernel, SCORES_PART, 5},
	{"write by scaling", by_scaling, ANY_PART, 4},
	{"write by sparse kernel", by_sparse_kernel, ANY_PART, 6},
	{"write by turns", by_turns, ANY_PART, 6},
	{"write a triangle", by_triangle, NOTHING, 4},
	{"write over and under", over_and_under, ANY_PART, 5},
	{"write by another address", by_other_addresses, ANY_PART, 6},
	{"write by product", by_product, ANY_PART, 4},
	{"write on another stream", on_another_stream, ANY_PART, 4},
	{"write from another tensor", from_another, ANY_PART, 4},
	{"write inputs by and by", inputs_by_and_by, INPUT_PART, 8},
	{"write both ends", both_ends, NOTHING, 0}, /* of large inputs */
	{"write the mask", mask, NOTHING, 4},
	{"write an odd number", odd_number, INPUT_PART, 3},
	{NULL, NULL, NOTHING, 0},
};
