/* SPDX-License-Identifier: Apache-2.0
 *
 * One occurrence of a site: its steps, from the inputs to what the program looks at and gives back.
 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const step_name[STEPS] = {"inputs", "scores",  "scale", "mask", "softmax",
				      "late V", "context", "merge", "look", "end"};

static struct {
	CUdeviceptr o;
	size_t bytes;
} last[2]; /* an output in the arena, to become an input */

size_t scores_of(const struct chain *c)
{
	return (size_t)c->site->heads * (size_t)c->rows * (size_t)c->columns;
}

size_t score_bytes(const struct chain *c, enum tensor t)
{
	const bool wide = t == W || (t != P && c->site->wide_scores);

	return scores_of(c) * (wide ? sizeof(float) : width);
}

size_t queries_of(const struct chain *c)
{
	return (size_t)c->site->heads * (size_t)c->rows * (size_t)c->site->depth;
}

size_t keys_of(const struct chain *c)
{
	const int heads = c->site->copied == SHARED ? 1 : c->site->heads;

	return (size_t)heads * (size_t)c->columns * (size_t)c->site->depth;
}

/* ---- where tensors lie ----------------------------------------------------------------------- */

CUdeviceptr chain_place(struct chain *c, enum tensor t, size_t bytes)
{
	const struct site *z = c->site;

	if (c->t[t])
		return c->t[t]; /* a graph's second time, or many at once */
	c->bytes[t] = bytes;
	if (z->placing == APART)
		c->t[t] = z->fixed[t];
	else if (z->placing == IN_ARENA)
		c->t[t] = arena_take(&c->rng, bytes, c->number);
	else if (z->placing == FRESH)
		c->t[t] = allocate(bytes);
	else
		c->t[t] = allocate_async(bytes, c->stream);
	trace("%s at %llx bytes=%zu", tensor_name[t], c->t[t], bytes);
	return c->t[t];
}

void chain_alias(struct chain *c, enum tensor t, enum tensor of)
{
	c->t[t] = c->t[of];
	c->bytes[t] = c->bytes[of];
}

/* The program needs it no more; what it holds stays to be seen until something else lies there. */
void chain_give(struct chain *c, enum tensor t)
{
	if (c->site->placing == IN_ARENA && c->manner != CAPTURED && c->manner != MANY)
		arena_give(c->t[t]);
}

static void release_all(struct chain *c)
{
	const bool pooled = c->site->placing == POOLED;
	CUstream s = c->stream;

	if (c->site->placing == IN_ARENA)
		arena_give_all(c->number);
	if (c->site->placing != FRESH && c->site->placing != POOLED)
		return;
	if (pooled && chance(&c->rng, 25)) {
		occurs("a chain's memory freed on another stream");
		order(s, here->third, 2);
		s = here->third;
	}
	for (int t = 0; t < TENSORS; t++) {
		size_t bytes;

		if (c->t[t] && is_ours(c->t[t], 1) && base_of(c->t[t], &bytes) == c->t[t] &&
		    c->t[t] != c->site->mask)
			release(c->t[t], s, pooled);
	}
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static float odd_of(const struct chain *c, enum tensor t)
{
	const bool here_odd = (c->odd == ODD_Q && (t == Q || t == RAW_Q)) ||
			      (c->odd == ODD_K && (t == K || t == RAW_K)) ||
			      (c->odd == ODD_V && (t == V || t == RAW_V));

	return here_odd ? c->odd_value : 0;
}

/* Of large inputs a part is new once they are there: at either end, or between. */
static size_t new_part(struct chain *c, CUdeviceptr *to, size_t all)
{
	const size_t n = 16384;

	if (!c->site->large || !c->nth || all <= n)
		return all;
	*to += below(&c->rng, 3) * ((all - n) / 2) * width;
	return n;
}

static void upload(struct chain *c, enum tensor t, CUdeviceptr to, size_t all)
{
	const size_t n = new_part(c, &to, all);
	const uint64_t state = next(&c->rng);
	const float odd = odd_of(c, t);
	const size_t bytes = n * width;
	unsigned way = below(&c->rng, 4);
	char *host;

	if (way == 0 && odd == 0 && !c->site->quiet_inputs) {
		random_numbers(c->stream, to, state, n);
		return;
	}
	if (way == 1 && c->site->aten)
		aten_fill(c->stream, to, 0.125f, n);
	if (way == 2 && bytes <= PINNED_BYTES / 2) {
		trace("upload %s %llx bytes=%zu from pinned memory", tensor_name[t], to, bytes);
		OK(cuCtxSynchronize()); /* an earlier copy may still read it */
		host_numbers(here->pinned, n, state, odd);
		OK(cuMemcpyHtoDAsync(to, here->pinned, bytes, c->stream));
		mark(to, bytes, 0);
		return;
	}
	trace("upload %s %llx bytes=%zu", tensor_name[t], to, bytes);
	host = malloc(bytes);
	host_numbers(host, n, state, odd);
	settle(c->stream);
	OK(cuMemcpyHtoD(to, host, bytes));
	OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	mark(to, bytes, 0);
	free(host);
}

/* Q is an earlier attention's output. */
static bool from_last(struct chain *c, size_t n)
{
	CUdeviceptr o = last[here->number].o;

	if (!c->from_last || !o || last[here->number].bytes != n * width ||
	    depth_of(o, n * width) > 2)
		return false;
	if (!c->t[Q] && c->site->placing == IN_ARENA) {
		if (!arena_free(o, n * width))
			return false;
		arena_hold(o, n * width, c->number); /* not over what it is made of */
		chain_place(c, Q, n * width);
		arena_give(o);
	}
	chain_place(c, Q, n * width);
	if (o < c->t[Q] + n * width && c->t[Q] < o + n * width)
		return false;
	if (c->site->aten)
		aten_copy(c->stream, c->t[Q], o, n);
	else
		copy_numbers(c->stream, c->t[Q], o, n);
	return true;
}

static void interleaved(struct chain *c)
{
	const size_t each = (size_t)c->site->heads * (size_t)c->site->depth * width;

	chain_place(c, Q, (size_t)c->rows * 3 * each);
	upload(c, Q, c->t[Q], (size_t)c->rows * 3 * each / width);
	c->t[K] = c->t[Q] + each;
	c->t[V] = c->t[Q] + 2 * each;
	c->bytes[K] = c->bytes[V] = c->bytes[Q] - 2 * each;
}

void chain_input(struct chain *c, enum tensor t)
{
	const struct site *z = c->site;
	const size_t n = t == Q ? queries_of(c) : keys_of(c);
	const enum tensor raw = t == Q ? RAW_Q : t == K ? RAW_K : RAW_V;
	const int rows = t == Q ? c->rows : c->columns;
	const size_t each = (size_t)rows * (size_t)z->depth;

	if (z->layout == INTERLEAVED) {
		interleaved(c);
	} else if (z->copied == SPLIT) {
		chain_place(c, raw, n * width);
		upload(c, raw, c->t[raw], n);
		chain_place(c, t, n * width);
		if (z->aten)
			aten_permute(c->stream, c->t[t], c->t[raw], z->heads, rows, z->depth,
				     (size_t)(z->heads * z->depth) * width,
				     (size_t)z->depth * width);
		else
			split_heads(c->stream, c->t[t], c->t[raw], rows, z->heads, z->depth);
		if (chance(&c->rng, 50))
			chain_give(c, raw);
	} else if (z->copied == REPEATED && t != Q) {
		chain_place(c, raw, (size_t)z->groups * each * width);
		upload(c, raw, c->t[raw], (size_t)z->groups * each);
		chain_place(c, t, n * width);
		if (z->aten && z->groups == 1)
			aten_permute(c->stream, c->t[t], c->t[raw], z->heads, rows, z->depth,
				     (size_t)z->depth * width, 0);
		else if (z->aten)
			aten_permute(c->stream, c->t[t], c->t[raw], z->groups, z->heads / z->groups,
				     (int)each, 0, each * width);
		else
			repeat_heads(c->stream, c->t[t], c->t[raw], each, z->groups,
				     z->heads / z->groups);
		if (chance(&c->rng, 30))
			chain_give(c, raw);
	} else if (t != Q || !from_last(c, n)) {
		chain_place(c, t, n * width);
		upload(c, t, c->t[t], n);
	}
}

/* ---- products -------------------------------------------------------------------------------- */

/* What QK^T is added to, made where S will lie, of what it is made of. */
static void spread(struct chain *c, CUdeviceptr to)
{
	const struct site *z = c->site;
	const size_t row = (size_t)c->columns, matrix = row * (size_t)c->rows;
	const int heads = z->heads, rows = c->rows;
	size_t n = scores_of(c);

	if (z->added != TO_ALL)
		n = z->added == TO_SLOPES ? row * (size_t)heads : matrix;
	const CUdeviceptr from = chain_place(c, RAW_S, n * width);

	upload(c, RAW_S, from, n);
	if (z->added == TO_ALL && z->aten)
		aten_copy(c->stream, to, from, n);
	else if (z->added == TO_ALL)
		copy_numbers(c->stream, to, from, n);
	else if (z->aten)
		aten_permute(c->stream, to, from, heads, rows, c->columns,
			     z->added == TO_SLOPES ? 0 : row * width,
			     z->added == TO_SLOPES ? row * width : 0);
	else if (z->added == TO_SLOPES)
		repeat_heads(c->stream, to, from, row, heads, rows);
	else
		repeat_heads(c->stream, to, from, matrix, 1, heads);
}

/* It may be seen, or changed, or what it is made of may be, before it is added to. */
static void meddle(struct chain *c, CUdeviceptr to)
{
	struct rng r = rng_of((uint64_t)c->number, 779);
	CUdeviceptr at;
	size_t bytes;

	part(&r, to, score_bytes(c, S), &at, &bytes);
	if (chance(&r, 10))
		observe(c->stream, "S before", at, bytes);
	else if (chance(&r, 10))
		set_bytes(c->stream, at, 0, bytes);
	if (chance(&r, 10))
		fill_numbers(c->stream, c->t[RAW_S], 0.5f, c->bytes[RAW_S] / width);
	if (chance(&r, 30))
		chain_give(c, RAW_S);
}

static void scores(struct chain *c)
{
	const struct site *z = c->site;
	const int three = 3 * z->heads * z->depth;
	struct product p = {
		.form = z->form,
		.transposed = z->layout != K_TRANSPOSED,
		.device_scalars = c->device_scalars,
		.m = c->columns,
		.n = c->rows,
		.k = z->depth,
		.batch = z->heads,
		.alpha = c->alpha,
		.a = c->t[K],
		.b = c->t[Q],
		.wide = z->wide_scores,
		.c = chain_place(c, S, score_bytes(c, S)),
		.lda = z->layout == K_TRANSPOSED ? c->columns : z->depth,
		.ldb = z->depth,
		.ldc = c->columns,
		.stride_a = z->copied == SHARED ? 0 : (long long)c->columns * z->depth,
		.stride_b = (long long)c->rows * z->depth,
		.stride_c = (long long)c->rows * c->columns,
	};

	if (z->layout == INTERLEAVED) {
		p.lda = p.ldb = three;
		p.stride_a = p.stride_b = z->depth;
	}
	if (z->added && c->manner != CAPTURED) { /* the host makes some of it */
		p.beta = z->number % 2 ? 1 : 0.5f;
		spread(c, p.c);
		meddle(c, p.c);
	}
	multiply(c->stream, &p);
	if (c->twice)
		multiply(c->stream, &p);
	if (z->layout != INTERLEAVED) {
		chain_give(c, Q);
		chain_give(c, K);
	}
}

static void context(struct chain *c, enum tensor v, enum tensor o)
{
	const struct site *z = c->site;
	const size_t bytes = queries_of(c) * width;
	struct product p = {
		.form = z->form,
		.device_scalars = c->device_scalars,
		.m = z->depth,
		.n = c->rows,
		.k = c->columns,
		.batch = z->heads,
		.alpha = 1,
		.beta = c->beta,
		.a = c->t[v],
		.b = c->t[P],
		.lda = z->depth,
		.ldb = c->columns,
		.ldc = z->layout == O_BY_ROWS ? z->heads * z->depth : z->depth,
		.stride_a = z->copied == SHARED ? 0 : (long long)c->columns * z->depth,
		.stride_b = (long long)c->rows * c->columns,
		.stride_c = z->layout == O_BY_ROWS ? z->depth : (long long)c->rows * z->depth,
	};

	/* Where K and V lie among Q, a product would write over what it still reads, which means
	 * nothing. */
	if (o == O && c->o_over_q && z->layout != INTERLEAVED && !c->t[O] && c->t[Q] &&
	    c->bytes[Q] >= bytes &&
	    (z->placing == APART || (z->placing == IN_ARENA && arena_free(c->t[Q], bytes)))) {
		chain_alias(c, O, Q);
		c->bytes[O] = bytes;
		if (z->placing == IN_ARENA)
			arena_hold(c->t[O], bytes, c->number);
		trace("O over Q");
	}
	p.c = chain_place(c, o, bytes);
	if (z->layout == INTERLEAVED && v == V) {
		p.lda = 3 * z->heads * z->depth;
		p.stride_a = z->depth;
	}
	if (p.beta != 0 && z->copied == SPLIT && z->aten && c->t[RAW_Q] &&
	    (p.c >= c->t[RAW_Q] + bytes || p.c + bytes <= c->t[RAW_Q])) /* as Q was made */
		aten_permute(c->stream, p.c, c->t[RAW_Q], z->heads, c->rows, z->depth,
			     (size_t)(z->heads * z->depth) * width, (size_t)z->depth * width);
	else if (p.beta != 0)
		random_numbers(c->stream, p.c, next(&c->rng), queries_of(c));
	multiply(c->stream, &p);
	mark(p.c, bytes, depth_of(p.c, bytes) + 1);
}

static void merge(struct chain *c)
{
	const struct site *z = c->site;

	chain_place(c, MERGED, queries_of(c) * width);
	if (z->aten) /* [rows,heads,depth] from [heads,rows,depth] */
		aten_permute(c->stream, c->t[MERGED], c->t[O], c->rows, z->heads, z->depth,
			     (size_t)(c->rows * z->depth) * width, (size_t)z->depth * width);
	else
		split_heads(c->stream, c->t[MERGED], c->t[O], z->heads, c->rows, z->depth);
}

/* ---- what the program looks at --------------------------------------------------------------- */

static void look(struct chain *c)
{
	struct rng r = rng_of((uint64_t)c->number, 777);
	const size_t bytes = queries_of(c) * width;
	CUdeviceptr at = c->t[MERGED] && chance(&r, 70) ? c->t[MERGED] : c->t[O];

	if (!c->t[O])
		return;
	if (c->t[O2])
		observe(c->stream, "O2", c->t[O2], bytes);
	if (c->site->placing == IN_ARENA && !c->odd) {
		last[here->number].o = c->t[O];
		last[here->number].bytes = bytes;
	}
	if (chance(&r, 45))
		return;
	if (chance(&r, 70) || bytes > PINNED_BYTES / 2) {
		observe(c->stream, "O", at, bytes);
		return;
	}
	trace("look at O %llx by an asynchronous copy", at);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoHAsync(here->pinned, at, bytes, c->stream));
	if (chance(&r, 50)) {
		OK(cuEventRecord(here->event[0], c->stream));
		while (cuEventQuery(here->event[0]) == CUDA_ERROR_NOT_READY)
			;
	} else {
		while (cuStreamQuery(c->stream) == CUDA_ERROR_NOT_READY)
			;
	}
	record("O, copied", at, here->pinned, bytes);
}

/* ---- the steps ------------------------------------------------------------------------------- */

static bool has(const struct chain *c, enum step step)
{
	const struct site *z = c->site;

	switch (step) {
	case SCALE:
		return z->scaled_apart;
	case MASK:
		return z->masked == ADDED;
	case LATE_V:
		return z->late_v;
	case CONTEXT:
		return c->manner != ABANDONED;
	case MERGE:
		return z->merged && c->manner != ABANDONED;
	default:
		return true;
	}
}

static void perform(struct chain *c, enum step step)
{
	const enum tensor x = c->site->scaled_apart ? X : S;

	switch (step) {
	case INPUTS:
		chain_input(c, Q);
		if (c->site->layout != INTERLEAVED) {
			chain_input(c, K);
			if (!c->site->late_v)
				chain_input(c, V);
		}
		break;
	case SCORES:
		scores(c);
		break;
	case SCALE:
		middle_scale(c);
		break;
	case MASK:
		middle_mask(c, x);
		break;
	case SOFTMAX:
		middle_softmax(c, c->site->masked == ADDED ? M : x);
		break;
	case LATE_V:
		chain_input(c, V);
		break;
	case CONTEXT:
		context(c, V, O);
		if (c->second_v) {
			chain_place(c, V2, keys_of(c) * width);
			upload(c, V2, c->t[V2], keys_of(c));
			context(c, V2, O2);
		}
		break;
	case MERGE:
		merge(c);
		break;
	case LOOK:
		look(c);
		break;
	default:
		release_all(c);
	}
}

static void set_step(struct chain *c)
{
	c->lane->occurrence = c->number;
	c->lane->step = c->at;
}

bool chain_step(struct chain *c)
{
	while (c->at < STEPS && !has(c, (enum step)c->at))
		c->at++;
	if (c->at == STEPS)
		return false;
	set_step(c);
	for (int i = 0; i < c->disturbances; i++)
		if (c->disturbed[i] == c->at)
			event_happen(c, c->number * 10 + i);
	trace("-- %s of site %d", step_name[c->at], c->site->number);
	perform(c, (enum step)c->at);
	c->at++;
	return c->at < STEPS;
}

void chain_do(struct chain *c, enum step step)
{
	c->at = step;
	if (!has(c, step))
		return;
	set_step(c);
	perform(c, step);
}

static void be_odd(struct chain *c)
{
	static const float values[] = {NAN, INFINITY, -INFINITY};

	c->odd = (int)(ODD_Q + below(&c->rng, 3));
	c->odd_value = values[below(&c->rng, 3)];
	if (c->odd == ODD_V && site_hides_tiles(c->site))
		c->odd = ODD_Q;
	if (c->site->layout == INTERLEAVED && site_hides_tiles(c->site))
		c->odd = NO_ODD; /* Q is all three of them */
}

void chain_plan(struct chain *c, const struct site *z, int number, int nth, bool learned)
{
	struct rng *r = &c->rng;

	*c = (struct chain){.site = z,
			    .number = number,
			    .nth = nth,
			    .rng = rng_of((uint64_t)number, 1),
			    .lane = z->lane,
			    .stream = z->lane->stream,
			    .rows = z->rows,
			    .columns = z->columns + (z->grows ? nth : 0),
			    .alpha = z->alpha,
			    .factor = 2 / sqrtf((float)z->depth),
			    .device_scalars = z->device_scalars};
	c->from_last = chance(r, 30);
	if (z->in_graphs)
		c->manner = CAPTURED;
	if (!learned)
		return;
	if (chance(r, 6))
		c->alpha *= 0.5f;
	if (chance(r, 6))
		c->factor *= 0.5f;
	if (chance(r, 6))
		be_odd(c);
	c->twice = chance(r, 3);
	c->second_v = z->layout != INTERLEAVED && chance(r, 5);
	c->o_over_q = chance(r, 12);
	c->device_scalars ^= chance(r, 3);
	c->beta = chance(r, 3) ? 0.5f : 0;
	if (z->in_graphs)
		;
	else if (chance(r, 8))
		c->manner = ABANDONED;
	else if (chance(r, 12))
		c->manner = CAPTURED;
	else if (chance(r, 7))
		c->manner = MANY;
	else if (chance(r, 10))
		c->manner = PAIRED;
	else if (chance(r, 10))
		c->manner = THREADED;
	c->disturbances = chance(r, 25) ? 0 : 1 + (int)below(r, 3);
	for (int i = 0; i < c->disturbances; i++)
		c->disturbed[i] = z->large && chance(r, 60)
					  ? LOOK + (int)below(r, STEPS - LOOK)
					  : SCORES + (int)below(r, STEPS - SCORES);
}
