/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers come from tables made once, of a prime length so that no stride falls into step
 * with them: a timed case has hundreds of millions.
 */
#include "kernel_operands.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tools/base/half.h"

#define MARGIN 4096 /* bytes */

int operands_tight;

/* ---- numbers -------------------------------------------------------------------------------- */

#define NUMBERS 1048573		  /* prime: no stride falls into step with it */
static float numbers[5][NUMBERS]; /* by enum data */

static uint64_t seed = 88172645463325252u;
static size_t next; /* of `numbers` */

static float random_number(void)
{
	float sum = 0.0f;

	for (int n = 0; n < 4; n++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		sum += (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
	}
	return sum * 1.7320508f; /* variance 1 */
}

static void make_numbers(void)
{
	for (int n = 0; n < NUMBERS; n++) {
		numbers[NORMAL][n] = numbers[STEEP][n] = numbers[LARGE][n] = numbers[MODEST][n] =
			random_number();
		numbers[OUTLIERS][n] =
			numbers[NORMAL][n] + (n % 1009 ? 0.0f : 10.0f * random_number());
	}
}

static void store(void *at, float x, int dtype)
{
	const uint16_t bits = dtype == ATTN_F16 ? float_to_f16(x) : float_to_bf16(x);

	if (dtype == ATTN_F32)
		memcpy(at, &x, sizeof(x));
	else
		memcpy(at, &bits, sizeof(bits));
}

double operands_widen(const void *p, int dtype)
{
	uint16_t bits;
	float x;

	if (dtype == ATTN_F32) {
		memcpy(&x, p, sizeof(x));
		return x;
	}
	memcpy(&bits, p, sizeof(bits));
	return dtype == ATTN_F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

static float fill_value(int fill, int dtype)
{
	static const float lowest[] = {-65504.0f, -3.38953139e38f, -3.40282347e38f};

	return fill == FILL_INF ? -INFINITY : fill == FILL_LOWEST ? lowest[dtype] : -1e4f;
}

/* A case meets the same numbers whatever came before it: where roundings decide, others may be more
 * than its limit allows. */
static void begin_case(const struct kernel_case *c)
{
	char name[160];

	seed = 14695981039346656037u; /* FNV-1a */
	for (const char *at = kernel_case_name(c, name, sizeof(name)); *at; at++)
		seed = (seed ^ (unsigned char)*at) * 1099511628211u;
	next = (size_t)(seed % NUMBERS);
	seed |= 1;
}

/* ---- operands ------------------------------------------------------------------------------- */

/* Room for t's elements over `extent`, offset elements further in, every byte `byte`. */
static struct buffer make_buffer(struct attn_tensor *t, const int64_t extent[4], int offset,
				 int byte)
{
	const size_t size = (size_t)attn_dtype_size(t->dtype);
	struct buffer b = {.margin = operands_tight ? 0 : MARGIN};
	int64_t last = 0;

	for (int n = 0; n < 4; n++)
		last += (extent[n] - 1) * t->stride[n];
	b.bytes = ((size_t)last + 1) * size + 2 * b.margin + (size_t)offset * size;
	b.margin += (size_t)offset * size;
	b.host = malloc(b.bytes);
	memset(b.host, byte, b.bytes);
	CHECK(cuMemAlloc(&b.block, b.bytes));
	t->base = b.block + b.margin;
	return b;
}

void operands_upload(const struct buffer *b)
{
	CHECK(cuMemcpyHtoD(b->block, b->host, b->bytes));
}

static void release(struct buffer *b)
{
	if (b->block)
		CHECK(cuMemFree(b->block));
	free(b->host);
}

char *operands_element(const struct buffer *b, const struct attn_tensor *t, int64_t at)
{
	return b->host + b->margin + at * attn_dtype_size(t->dtype);
}

/* Random numbers times `factor` into every element. Returns the largest magnitude. */
static double randomise(const struct buffer *b, const struct attn_tensor *t,
			const int64_t extent[4], int data, float factor)
{
	float most = 0.0f;

	FOR_EACH_ELEMENT(t, extent)
	{
		const float x = factor * numbers[data][next];

		next = next + 1 == NUMBERS ? 0 : next + 1;
		most = fmaxf(most, fabsf(x));
		store(operands_element(b, t, at), x, t->dtype);
	}
	return most;
}

/* The strides of Q, K, V or O of `rows` rows. */
static void lay_out(struct attn_tensor *t, const struct kernel_case *c, int rows, int down,
		    int storage)
{
	const int64_t D = c->D, H = c->H, more = storage == PADDED ? 8 : storage == ODD_ROWS;
	const int64_t line = (down ? rows : D) + more, plane = line * (down ? D : rows);
	const int64_t packed[4] = {H * plane, plane, down ? 1 : line, down ? line : 1};
	const int64_t bshd[4] = {rows * H * D, D, H * D, 1};
	const int64_t fused[4] = {rows * 3 * H * D, D, 3 * H * D, 1};

	memcpy(t->stride,
	       down || storage < BSHD || storage > FUSED ? packed
	       : storage == BSHD			 ? bshd
							 : fused,
	       sizeof(packed));
	if (storage == SHARED_KV) {
		t->stride[0] = plane;
		t->stride[1] = 0;
	}
}

static struct buffer operand(struct attn_tensor *t, const struct kernel_case *c, int rows, int down,
			     int storage, int data, float factor, double *most)
{
	const int64_t extent[4] = {c->B, c->H, rows, c->D};
	struct buffer b;

	t->dtype = c->dtype;
	lay_out(t, c, rows, down, storage);
	b = make_buffer(t, extent, storage == ODD_BASE, 0xff);
	*most = randomise(&b, t, extent, data, factor);
	operands_upload(&b);
	return b;
}

/* Makes t an array of addresses of its B*H parts. Returns the array. */
static CUdeviceptr by_array(struct attn_tensor *t, int B, int H)
{
	uint64_t *addresses = malloc((size_t)B * (size_t)H * sizeof(*addresses));
	CUdeviceptr at;

	for (int n = 0; n < B * H; n++)
		addresses[n] = t->base + (uint64_t)(n / H * t->stride[0] + n % H * t->stride[1]) *
						 (uint64_t)attn_dtype_size(t->dtype);
	CHECK(cuMemAlloc(&at, (size_t)B * (size_t)H * sizeof(*addresses)));
	CHECK(cuMemcpyHtoD(at, addresses, (size_t)B * (size_t)H * sizeof(*addresses)));
	free(addresses);
	t->base = at;
	t->by_array = 1;
	return at;
}

/* Is key j off for row i of batch b? */
static int is_off(const struct kernel_case *c, int content, int64_t b, int64_t i, int64_t j)
{
	if (c->empty_rows && i % 5 == 0)
		return 1;
	switch (content) {
	case TRIANGLE:
		return j > i;
	case TAIL:
		return j >= c->Sk - c->Sk / 3 - b * c->Sk / 4;
	case BLOCKS:
		return (i / 130 + j / 150) % 2 != 0 || (j / 300 == 1 && j % 7 == 0);
	case SPANS:
		return j > i + c->Sk - c->Sq || j < i - 300 || j < b * (c->Sk - c->Sq + 60);
	case SPOILT:
		/* batch 0 has a hole, others have one key too many */
		if (i == c->Sq - 9 && j == (b ? c->Sk - 1 : 3))
			return b == 0;
		return j > i;
	case PREFIX:
		return j >= c->Sk - b * c->Sk / (2 * c->B);
	case OPEN:
		return 0;
	case HIDDEN:
		return hard_is_off(c->hiding, j, c->Sq, c->Sk);
	default:
		return random_number() < -0.7f;
	}
}

/* Room for what varies as `spread` says, and over `columns`. */
static struct buffer make_spread(struct attn_tensor *t, const struct kernel_case *c, int spread,
				 int dtype, int64_t columns, int64_t extent[4])
{
	const int per_b = spread == BATCH || spread == FULL || spread == PADDING;
	const int per_h = spread == HEAD || spread == FULL || spread == HEADS;
	const int per_i = spread != KEYS && spread != PADDING && spread != HEADS;

	extent[0] = per_b ? c->B : 1;
	extent[1] = per_h ? c->H : 1;
	extent[2] = per_i ? c->Sq : 1;
	extent[3] = columns;
	t->dtype = dtype;
	t->stride[3] = 1;
	t->stride[2] = per_i ? columns : 0;
	t->stride[1] = per_h ? extent[2] * columns : 0;
	t->stride[0] = per_b ? extent[1] * extent[2] * columns : 0;
	return make_buffer(t, extent, 0, 0xff);
}

/* How many keys rows have. */
static struct buffer row_lengths(struct attn_tensor *t, const struct kernel_case *c)
{
	int64_t extent[4];
	struct buffer b = make_spread(t, c, c->lengths, ATTN_I32, 1, extent);

	FOR_EACH_ELEMENT(t, extent)
	{
		const int32_t length =
			c->empty_rows && x2 % 5 == 0
				? 0
				: 1 + (int32_t)(fabsf(random_number()) * 0.5f * (float)c->Sk);

		memcpy(operands_element(&b, t, at), &length, sizeof(length));
	}
	operands_upload(&b);
	return b;
}

static struct buffer row_sinks(struct attn_tensor *t, const struct kernel_case *c)
{
	int64_t extent[4];
	struct buffer b = make_spread(t, c, c->sinks, c->sinks_type, 1, extent);

	randomise(&b, t, extent, NORMAL, 3.0f);
	operands_upload(&b);
	return b;
}

/* What x is multiplied by: from 1/4 to 2, of either sign. */
static struct buffer factors(struct attn_tensor *t, const struct kernel_case *c)
{
	int64_t extent[4];
	struct buffer b =
		make_spread(t, c, c->scales, c->scales_type, c->scales_each ? c->Sk : 1, extent);

	if (!c->scales_each)
		t->stride[3] = 0;
	FOR_EACH_ELEMENT(t, extent)
	{
		const float x = random_number();

		store(operands_element(&b, t, at), fminf(x, 1.75f) + copysignf(0.25f, x), t->dtype);
	}
	operands_upload(&b);
	return b;
}

/* A bias or mask that varies as `spread` says. */
static struct buffer scores_like(struct attn_tensor *t, const struct kernel_case *c, int spread,
				 int dtype, int content, float off, float on)
{
	int64_t extent[4];
	struct buffer b = make_spread(t, c, spread, dtype, c->Sk, extent);

	if (content == NOISE && dtype != ATTN_BOOL)
		randomise(&b, t, extent, NORMAL, 1.0f);
	else
		FOR_EACH_ELEMENT(t, extent)
		{
			const float x = is_off(c, content, x0, x2, x3) ? off : on;

			if (dtype == ATTN_BOOL)
				*operands_element(&b, t, at) = x != 0.0f;
			else
				store(operands_element(&b, t, at), x, dtype);
		}
	operands_upload(&b);
	return b;
}

static void make_spec(struct operands *x, const struct kernel_case *c)
{
	struct attn_spec *s = &x->args.spec;
	const float scale = 1.0f / sqrtf((float)c->D);

	s->scale = c->scale == ZERO ? 0.0f : c->scale == NEGATIVE ? -scale : scale;
	s->softcap = c->softcap;
	s->out_scale = 1.0f;
	s->round_x = c->floored ? ATTN_F16_FLOORED : c->round_x ? c->dtype : ATTN_F32;
	s->round_p = c->dtype;
	s->round_s = c->round_s;
	s->alpha = c->apart			    ? 1.0f
		   : c->round_s & ATTN_ROUND_SCALED ? 0.7f
						    : s->scale; /* then the rest */
	s->empty_row = c->empty_row;
	s->window_left = c->left ? c->left : ATTN_NO_WINDOW;
	s->window_right = c->causal ? 0 : ATTN_NO_WINDOW;
	s->window_shift = c->causal == 2 ? c->Sk - c->Sq : 0;
	s->window_value = fill_value(c->window_fill, c->dtype);
	if (c->bias) {
		x->bias[0] = scores_like(&s->bias[0], c, c->bias, c->bias_type, c->bias_holds,
					 fill_value(c->bias_fill, c->bias_type), 0.0f);
		s->bias_scale[0] = 1.0f;
	}
	if (c->second) {
		x->bias[1] = scores_like(&s->bias[1], c, KEYS, ATTN_F32, NOISE, 0.0f, 0.0f);
		s->bias_scale[1] = 0.5f;
	}
	if (c->below) {
		x->bias[1] = scores_like(&s->bias[1], c, c->below, c->dtype, c->below_holds,
					 fill_value(c->bias_fill, c->dtype), 0.0f);
		s->bias_scale[1] = 1.0f;
	}
	if (c->mask) {
		x->mask = scores_like(&s->mask, c, c->mask, ATTN_BOOL, c->mask_holds,
				      c->mask_drops ? 1.0f : 0.0f, c->mask_drops ? 0.0f : 1.0f);
		s->mask_keeps = !c->mask_drops;
		s->mask_value = fill_value(c->mask_fill, c->dtype);
		if (c->empty_row == ATTN_EMPTY_AGAIN) {
			s->hidden_value = s->mask_value;
			s->mask_value = -INFINITY;
		}
	}
	s->late_biases = c->late;
	s->overflow = hard_limit(c->hard, c->dtype);
	if (c->scales) {
		x->scales = factors(&s->scales, c);
		s->scales_divide = c->divides;
	}
	s->bias[0].batches = s->mask.batches = c->windows;
	s->bias[0].columns = s->scales.columns = -c->image;
	s->bias[1].columns = c->image;
	if (c->lengths)
		x->lengths = row_lengths(&s->lengths, c);
	if (c->sinks)
		x->sinks = row_sinks(&s->sinks, c);
}

/* The elements of Q, K or V as a hard case has them. Returns the largest that is finite. */
static double harden(const struct buffer *b, const struct attn_tensor *t,
		     const struct kernel_case *c, char which)
{
	const int64_t extent[4] = {c->B, c->H, which == 'q' ? c->Sq : c->Sk, c->D};
	double most = 0.0;

	FOR_EACH_ELEMENT(t, extent)
	{
		char *const to = operands_element(b, t, at);
		const float x = hard_number(c->hard, which, c->dtype, c->D, c->Sk, x2, x3,
					    (float)operands_widen(to, c->dtype));

		store(to, x, c->dtype);
		if (isfinite(x))
			most = fmax(most, fabs((double)x));
	}
	operands_upload(b);
	return most;
}

static void spoil(const struct buffer *b, const struct attn_tensor *t, const struct kernel_case *c,
		  char which)
{
	const int64_t extent[4] = {c->B, c->H, c->Sk, c->D};

	FOR_EACH_ELEMENT(t, extent)
	{
		char *const to = operands_element(b, t, at);

		if (hard_is_off(c->hiding, x2, c->Sq, c->Sk))
			store(to,
			      hard_spoilt(c->hard, which, c->dtype,
					  (float)operands_widen(to, c->dtype)),
			      c->dtype);
	}
	operands_upload(b);
}

void operands_spoil(struct operands *x, const struct kernel_case *c)
{
	if (!hard_is_hidden_kind(c->hard))
		return;
	spoil(&x->k, &x->args.k, c, 'k');
	spoil(&x->v, &x->args.v, c, 'v');
}

struct operands operands_make(const struct kernel_case *c)
{
	struct operands x = {
		.args = {.B = c->B, .H = c->H, .Sq = c->Sq, .Sk = c->Sk, .D = c->D, .Dv = c->D}};
	struct attn_args *a = &x.args;
	const int64_t extent[4] = {c->B, c->H, c->Sq, c->D};
	const int queries = c->storage == SHARED_KV ? PACKED : c->storage;
	/* the largest of some thousand logits is near 4.5 */
	const float steep = (c->data == STEEP ? 80.0f : c->data == LARGE ? 20.0f : 4.5f) / 4.5f;
	/* the sum of four numbers of +-0.5, times the root of 3, is below 3.5 */
	const float modest = c->data == MODEST ? 1.0f / 3.5f : 1.0f;
	double most;

	if (numbers[NORMAL][0] == 0.0f)
		make_numbers();
	begin_case(c);
	x.q = operand(&a->q, c, c->Sq, c->down_all, queries, c->data, steep, &most);
	x.k = operand(&a->k, c, c->Sk, c->down, c->storage, c->data, 1.0f, &most);
	x.v = operand(&a->v, c, c->Sk, c->down_all, c->storage, c->data, modest, &x.most_v);
	if (c->hard) {
		harden(&x.q, &a->q, c, 'q');
		harden(&x.k, &a->k, c, 'k');
		x.most_v = harden(&x.v, &a->v, c, 'v');
	}
	if (c->over_q) {
		a->o = a->q;
	} else {
		a->o.dtype = c->wide ? ATTN_F32 : c->dtype;
		lay_out(&a->o, c, c->Sq, 0, queries == FUSED ? BSHD : queries);
		x.o = make_buffer(&a->o, extent, queries == ODD_BASE, OPERAND_POISON);
	}
	if (c->storage == BY_ARRAY) {
		struct attn_tensor *t[3] = {&a->q, &a->k, &a->v};

		for (int n = 0; n < 3; n++)
			x.array[n] = by_array(t[n], c->B, c->H);
	}
	make_spec(&x, c);
	return x;
}

void operands_free(struct operands *x)
{
	release(&x->q);
	release(&x->k);
	release(&x->v);
	release(&x->o);
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		release(&x->bias[n]);
	release(&x->mask);
	release(&x->lengths);
	release(&x->sinks);
	release(&x->scales);
	for (int n = 0; n < 3; n++)
		if (x->array[n])
			CHECK(cuMemFree(x->array[n]));
}
