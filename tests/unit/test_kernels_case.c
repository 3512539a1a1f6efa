/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers, layouts and operands: see test_kernels_case.h.
 */
#include "tests/unit/test_kernels_case.h"
#include "tests/simgpu/sim_kernel.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "tests/cmocka.h"

/* ---- numbers --------------------------------------------------------------------------------- */

double number_round(double x, int dtype)
{
	int digits = dtype == ATTN_F16 ? 11 : 8, lowest = dtype == ATTN_F16 ? -24 : -133, exponent;
	double most = dtype == ATTN_F16 ? 65504.0 : 0x1.fep127, quantum, y;

	if (dtype == ATTN_F16_FLOORED)
		return x < ATTN_F16_LOWEST ? ATTN_F16_LOWEST : number_round(x, ATTN_F16);
	if (dtype == ATTN_F32 || dtype == ATTN_I32 || dtype == ATTN_F64 || x == 0 || !isfinite(x))
		return dtype == ATTN_F64 ? x : (float)x;
	frexp(x, &exponent);
	exponent -= digits;
	quantum = ldexp(1.0, exponent < lowest ? lowest : exponent);
	y = nearbyint(x / quantum) * quantum;
	return fabs(y) > most ? copysign(INFINITY, y) : y;
}

double number_load(const void *p, int dtype)
{
	uint16_t h;
	uint32_t u;
	float f;

	switch (dtype) {
	case ATTN_F16:
		memcpy(&h, p, 2);
		if ((h & 0x7c00) == 0x7c00)
			f = h & 0x3ff ? NAN : INFINITY;
		else if (h & 0x7c00)
			f = ldexpf((float)(1024 + (h & 0x3ff)), (h >> 10 & 31) - 25);
		else
			f = ldexpf((float)(h & 0x3ff), -24);
		return h & 0x8000 ? -f : f;
	case ATTN_BF16:
		memcpy(&h, p, 2);
		u = (uint32_t)h << 16;
		memcpy(&f, &u, 4);
		return f;
	case ATTN_F32:
		memcpy(&f, p, 4);
		return f;
	case ATTN_I32:
		memcpy(&u, p, 4);
		return (int32_t)u;
	default:
		return *(const unsigned char *)p;
	}
}

void number_store(void *p, int dtype, double x)
{
	float f = (float)number_round(x, dtype);
	uint32_t u;
	uint16_t h;
	int exponent;
	double m;

	memcpy(&u, &f, 4);
	switch (dtype) {
	case ATTN_F16:
		h = signbit(f) ? 0x8000 : 0;
		if (isnan(f))
			h |= 0x7e00;
		else if (isinf(f))
			h |= 0x7c00;
		else if (fabsf(f) < 0x1p-14f)
			h |= (uint16_t)(fabsf(f) * 0x1p24f);
		else {
			m = frexp(fabs(f), &exponent);
			h |= (uint16_t)((exponent + 14) << 10 | ((int)(m * 2048) - 1024));
		}
		memcpy(p, &h, 2);
		break;
	case ATTN_BF16:
		h = (uint16_t)(u >> 16);
		memcpy(p, &h, 2);
		break;
	case ATTN_F32:
		memcpy(p, &u, 4);
		break;
	case ATTN_I32:
		memcpy(p, &(int32_t){(int32_t)x}, 4);
		break;
	default:
		*(unsigned char *)p = x != 0;
	}
}

double number_random(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) * 0x1p-53;
}

double number_normal(void)
{
	double sum = 0;

	for (int i = 0; i < 6; i++)
		sum += number_random();
	return (sum - 3) * M_SQRT2;
}

/* ---- layouts --------------------------------------------------------------------------------- */

const struct layout bias_layouts[BIAS_LAYOUTS] = {
	{0},
	{.same = "hr"},		     /* padding mask, one row per batch */
	{.same = "bh"},		     /* one matrix for all */
	{.same = "b"},		     /* relative positions */
	{.same = "c"},		     /* one number per row */
	{.same = "bhrc"},	     /* a constant */
	{.order = "bhcr", .pad = 1}, /* transposed */
	{.pad = 3, .offset = 1},
	{.step = 2},
	{.by_array = true},
};

static const struct layout odd_layouts[] = {
	{.order = "brhc"},
	{.order = "brch"},
	{.order = "bhcr"},
	{.order = "bhcr", .pad = 6},
	{.order = "bhcr", .pad = 3},
	{.pad = 8},
	{.pad = 4},
	{.pad = 1},
	{.offset = 1},
	{.offset = 3, .pad = 5, .order = "bhcr"},
	{.step = 3, .pad = 2},
	{.by_array = true},
	{.same = "h"},
};

void check_layouts(void (*check_one)(const struct layout layouts[4], int n, const char *what))
{
	char what[64];

	for (int operand = 0; operand < 4; operand++)
		for (size_t n = 0; n < sizeof(odd_layouts) / sizeof(odd_layouts[0]); n++) {
			struct layout layouts[4] = {{0}};

			if (operand == OPERAND_O && odd_layouts[n].same)
				continue;
			layouts[operand] = odd_layouts[n];
			snprintf(what, sizeof(what), "layout %zu of %c", n, "QKVO"[operand]);
			check_one(layouts, (int)n, what);
		}
}

/* ---- operands -------------------------------------------------------------------------------- */

void *element_at(const struct attn_tensor *t, int H, int64_t b, int64_t h, int64_t r, int64_t c)
{
	int64_t size = attn_dtype_size(t->dtype), inner;

	b = t->batches > 0 ? b % t->batches : t->batches < 0 ? b / -t->batches : b;
	c = t->columns > 0 ? c % t->columns : t->columns < 0 ? c / -t->columns : c;
	inner = r * t->stride[2] + c * t->stride[3];
	if (t->by_array)
		return ((char **)t->base)[b * H + h] + inner * size;
	return (char *)t->base + (b * t->stride[0] + h * t->stride[1] + inner) * size;
}

/* Maps memory for the operand, sets its strides and fills it with poison. */
static void operand_init(struct operand *m, struct attn_tensor *t, int dtype, const int64_t dims[4],
			 const struct layout *layout)
{
	static const struct layout standard;
	const char *order, *letters = "bhrc", *same;
	int64_t stride, span = 1, size = attn_dtype_size(dtype);
	size_t room, align = 256;

	if (!layout)
		layout = &standard;
	order = layout->order ? layout->order : letters;
	same = layout->same ? layout->same : "";
	stride = layout->step ? layout->step : 1;
	memset(t, 0, sizeof(*t));
	for (int i = 3; i >= 0; i--) {
		int dim = (int)(strchr(letters, order[i]) - letters);

		if (strchr(same, order[i]))
			continue;
		t->stride[dim] = stride;
		span += (dims[dim] - 1) * stride;
		stride *= dims[dim];
		if (i == 3)
			stride += layout->pad;
	}
	t->dtype = dtype;
	m->bytes = (size_t)(span * size);

	/* the end as close to the forbidden page as the alignment of the base permits */
	room = (m->bytes + (size_t)(layout->offset * size) + align - 1) / align * align;
	room = (room + 4095) / 4096 * 4096;
	m->map_bytes = room + 8192;
	m->map = mmap(NULL, m->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	assert_true(m->map != MAP_FAILED);
	memset(m->map, OPERAND_POISON, m->map_bytes - 4096);
	mprotect((char *)m->map + m->map_bytes - 4096, 4096, PROT_NONE);
	if (layout->offset % 8 == 0)
		align = 16;
	else
		align = (size_t)size;
	m->data = (char *)m->map + m->map_bytes - 4096 - m->bytes;
	m->data -= (uintptr_t)m->data % align;
	if (layout->offset % 8 && (uintptr_t)m->data % 16 == 0)
		m->data -= size;
	t->base = (uint64_t)(uintptr_t)m->data;
	if (layout->by_array) {
		int64_t n = dims[0] * dims[1];

		m->array = malloc((size_t)n * sizeof(*m->array));
		/* the entries in reverse, so that no stride could say the same */
		for (int64_t i = 0; i < n; i++)
			m->array[n - 1 - i] =
				element_at(t, (int)dims[1], i / dims[1], i % dims[1], 0, 0);
		t->base = (uint64_t)(uintptr_t)m->array;
		t->by_array = 1;
		t->stride[0] = t->stride[1] = 0;
	}
}

static void operand_fill(const struct attn_tensor *t, const int64_t dims[4], double size)
{
	for (int64_t b = 0; b < (t->stride[0] || t->by_array ? dims[0] : 1); b++)
		for (int64_t h = 0; h < (t->stride[1] || t->by_array ? dims[1] : 1); h++)
			for (int64_t r = 0; r < (t->stride[2] ? dims[2] : 1); r++)
				for (int64_t c = 0; c < (t->stride[3] ? dims[3] : 1); c++)
					number_store(
						element_at(t, (int)dims[1], b, h, r, c), t->dtype,
						t->dtype == ATTN_BOOL ? number_random() < size
								      : number_normal() * size);
}

static void operand_free(struct operand *m)
{
	if (m->map)
		munmap(m->map, m->map_bytes);
	free(m->array);
	memset(m, 0, sizeof(*m));
}

static void dims_of(const struct attn_args *a, int which, int64_t dims[4])
{
	dims[0] = a->B;
	dims[1] = a->H;
	dims[2] = which == OPERAND_K || which == OPERAND_V ? a->Sk : a->Sq;
	dims[3] = which == OPERAND_Q || which == OPERAND_K	       ? a->D
		  : which == OPERAND_V || which == OPERAND_O	       ? a->Dv
		  : which == OPERAND_LENGTHS || which == OPERAND_SINKS ? 1
								       : a->Sk;
}

void problem_init(struct problem *p, int dtype, const int dims[6], const struct layout layouts[4])
{
	struct attn_args *a = &p->args;
	struct attn_tensor *t[4] = {&a->q, &a->k, &a->v, &a->o};
	int64_t d[4];

	memset(p, 0, sizeof(*p));
	a->B = dims[0];
	a->H = dims[1];
	a->Sq = dims[2];
	a->Sk = dims[3];
	a->D = dims[4];
	a->Dv = dims[5];
	p->row_step = 1;
	for (int i = 0; i < 4; i++) {
		dims_of(a, i, d);
		operand_init(&p->operand[i], t[i], dtype, d, layouts ? &layouts[i] : NULL);
		if (i != OPERAND_O)
			operand_fill(t[i], d, 1.0);
	}
	a->spec.scale = (float)(1 / sqrt(a->D));
	a->spec.out_scale = 1;
	a->spec.round_x = a->spec.round_p = dtype;
	a->spec.window_left = a->spec.window_right = ATTN_NO_WINDOW;
	a->spec.window_value = -INFINITY;
	a->spec.mask_value = -INFINITY;
	a->spec.bias_scale[0] = a->spec.bias_scale[1] = 1;
}

void problem_bias(struct problem *p, int n, int dtype, const struct layout *layout, double size)
{
	int64_t d[4];

	dims_of(&p->args, OPERAND_BIAS, d);
	operand_init(&p->operand[OPERAND_BIAS + n], &p->args.spec.bias[n], dtype, d, layout);
	operand_fill(&p->args.spec.bias[n], d, size);
}

void problem_scales(struct problem *p, int dtype, const struct layout *layout, double size)
{
	struct attn_tensor *t = &p->args.spec.scales;
	int64_t d[4];

	dims_of(&p->args, OPERAND_SCALES, d);
	operand_init(&p->operand[OPERAND_SCALES], t, dtype, d, layout);
	for (int b = 0; b < (t->stride[0] ? d[0] : 1); b++)
		for (int h = 0; h < (t->stride[1] ? d[1] : 1); h++)
			for (int i = 0; i < (t->stride[2] ? d[2] : 1); i++)
				for (int j = 0; j < (t->stride[3] ? d[3] : 1); j++) {
					const double x = number_normal() * size;

					number_store(element_at(t, (int)d[1], b, h, i, j), dtype,
						     x + copysign(0.25, x));
				}
}

void problem_mask(struct problem *p, bool keeps, float value, const struct layout *layout,
		  double share)
{
	int64_t d[4];

	dims_of(&p->args, OPERAND_MASK, d);
	operand_init(&p->operand[OPERAND_MASK], &p->args.spec.mask, ATTN_BOOL, d, layout);
	operand_fill(&p->args.spec.mask, d, share);
	p->args.spec.mask_keeps = keeps;
	p->args.spec.mask_value = value;
}

void problem_again(struct problem *p, bool keeps, float value, float low)
{
	const struct attn_args *a = &p->args;

	problem_mask(p, keeps, -INFINITY, NULL, 0.5);
	problem_bias(p, 0, ATTN_F32, NULL, 1);
	p->args.spec.empty_row = ATTN_EMPTY_AGAIN;
	p->args.spec.hidden_value = value;
	for (int i = 0; i < a->Sq; i++)
		for (int j = 0; j < a->Sk; j++) {
			char *mask = element_at(&a->spec.mask, a->H, 1, 0, i, j);

			if (i % 3 == 0)
				*mask = !keeps;
			if (i % 3 == 1 && (*mask != 0) == keeps)
				number_store(element_at(&a->spec.bias[0], a->H, 1, 0, i, j),
					     ATTN_F32, low);
		}
}

void problem_lengths(struct problem *p, const struct layout *layout, int least, int most)
{
	struct attn_tensor *t = &p->args.spec.lengths;
	int64_t d[4];

	dims_of(&p->args, OPERAND_LENGTHS, d);
	operand_init(&p->operand[OPERAND_LENGTHS], t, ATTN_I32, d, layout);
	for (int b = 0; b < d[0]; b++)
		for (int h = 0; h < d[1]; h++)
			for (int i = 0; i < d[2]; i++)
				number_store(element_at(t, (int)d[1], b, h, i, 0), ATTN_I32,
					     least + floor(number_random() * (most - least + 1)));
}

void problem_sinks(struct problem *p, int dtype, const struct layout *layout, double size)
{
	int64_t d[4];

	dims_of(&p->args, OPERAND_SINKS, d);
	operand_init(&p->operand[OPERAND_SINKS], &p->args.spec.sinks, dtype, d, layout);
	operand_fill(&p->args.spec.sinks, d, size);
}

void problem_output(struct problem *p, int dtype, const struct layout *layout)
{
	int64_t d[4];

	dims_of(&p->args, OPERAND_O, d);
	operand_free(&p->operand[OPERAND_O]);
	operand_init(&p->operand[OPERAND_O], &p->args.o, dtype, d, layout);
}

void problem_free(struct problem *p)
{
	for (int i = 0; i < OPERAND_COUNT; i++)
		operand_free(&p->operand[i]);
}
