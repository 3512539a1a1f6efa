/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies read by their sizes and strides, and calls made to read the originals: every element of an
 * operand, found through the new strides, must be the one that the copy would have put there.
 */
#include "tests/cmocka.h"

#include <stdlib.h>
#include <string.h>

#include "shim/chain/relayout.h"

#define IN  0x100000ull
#define OUT 0x900000ull

/* The offset in the original of element `at` of the copy. */
static int64_t original(const struct relayout *r, int64_t at)
{
	int64_t from = 0;

	for (int d = 0; d < r->dims; d++)
		from += at / r->dim[d].to % r->dim[d].size * r->dim[d].from;
	return from;
}

static struct relayout copy_of(int dims, const int64_t size[], const int64_t from[])
{
	struct relayout r = {.dims = dims, .dtype = ATTN_F16, .out_begin = OUT, .in_begin = IN};
	int64_t to = 1;

	for (int d = 0; d < dims; d++) {
		r.dim[d].size = size[d];
		r.dim[d].from = from[d];
		r.dim[d].to = to;
		to *= size[d];
	}
	return r;
}

static struct attn_tensor packed(int64_t H, int64_t rows, int64_t columns, bool down)
{
	return (struct attn_tensor){
		.base = OUT,
		.stride = {H * rows * columns, rows * columns, down ? 1 : columns, down ? rows : 1},
		.dtype = ATTN_F16};
}

enum { S = 5, D = 8 };

static struct attn_args call_of(int B, int H)
{
	struct attn_args a = {.B = B, .H = H, .Sq = S, .Sk = S, .D = D, .Dv = D};

	a.q = a.k = a.v = a.o = packed(H, S, D, false);
	a.o.base = 0x700000;
	return a;
}

/* Element [b,h,i,d] of the operand, before and after. */
static void compare(const struct relayout *r, const struct attn_args *was,
		    const struct attn_tensor *old, const struct attn_args *now,
		    const struct attn_tensor *new)
{
	assert_int_equal(new->base, IN);
	assert_int_equal(was->B * was->H, now->B * now->H);
	for (int z = 0; z < was->B * was->H; z++)
		for (int i = 0; i < S; i++)
			for (int d = 0; d < D; d++) {
				const int64_t before = z / was->H * old->stride[0] +
						       z % was->H * old->stride[1] +
						       i * old->stride[2] + d * old->stride[3];
				const int64_t after = z / now->H * new->stride[0] +
						      z % now->H *new->stride[1] +
						      i *new->stride[2] + d *new->stride[3];

				assert_int_equal(after, original(r, before));
			}
}

/* [B,S,H,D] made [B,H,S,D], B and H known to the call or not. */
static void test_heads_apart(void **state)
{
	const struct relayout r =
		copy_of(4, (int64_t[]){D, S, 3, 2}, (int64_t[]){1, 3 * D, D, 3 * D * S});

	for (int known = 0; known < 2; known++) {
		const struct attn_args was = known ? call_of(2, 3) : call_of(1, 6);
		const struct relayout *from[RELAYOUT_TENSORS] = {&r, &r, NULL};
		struct attn_args now = was;

		assert_true(relayout_apply(&now, from, (uint64_t[RELAYOUT_TENSORS]){IN, IN, 0}));
		assert_int_equal(now.B, 2);
		compare(&r, &was, &was.q, &now, &now.q);
		compare(&r, &was, &was.k, &now, &now.k);
		assert_int_equal(now.v.base, was.v.base);
		assert_int_equal(now.o.stride[0], 3 * S * D);
	}
}

/* K as [D,S]. */
static void test_transposed(void **state)
{
	const struct relayout r =
		copy_of(3, (int64_t[]){S, 3 * D, 2}, (int64_t[]){3 * D, 1, 3 * D * S});
	const struct relayout *from[RELAYOUT_TENSORS] = {NULL, &r, NULL};
	struct attn_args was = call_of(1, 6), now;

	was.k = packed(6, S, D, true);
	now = was;
	assert_true(relayout_apply(&now, from, (uint64_t[RELAYOUT_TENSORS]){0, IN, 0}));
	compare(&r, &was, &was.k, &now, &now.k);
	assert_int_equal(now.k.stride[3], 1);
}

/* K and V repeated for groups of 4 heads. */
static void test_shared_heads(void **state)
{
	const struct relayout r = copy_of(3, (int64_t[]){S * D, 4, 2}, (int64_t[]){1, 0, S * D});
	const struct relayout *from[RELAYOUT_TENSORS] = {NULL, &r, &r};
	struct attn_args was = call_of(1, 8), now;

	was.q.stride[1] = D; /* [S,H,D], seen in place */
	was.q.stride[2] = 8 * D;
	was.spec.bias[0] = (struct attn_tensor){.base = 0x100, .stride = {0, 0, S, 1}};
	was.spec.bias[1] = was.spec.scales = was.spec.mask = was.spec.sinks = was.spec.lengths =
		(struct attn_tensor){.base = 0x100, .stride = {8 * S, S, 1, 0}};
	now = was;
	assert_true(relayout_apply(&now, from, (uint64_t[RELAYOUT_TENSORS]){0, IN, IN}));
	assert_int_equal(now.B, 2);
	assert_int_equal(now.H, 4);
	assert_int_equal(now.q.stride[0], 4 * D);
	assert_int_equal(now.k.stride[1], 0);
	assert_int_equal(now.spec.bias[0].stride[0], 0);
	assert_int_equal(now.spec.bias[1].stride[0], 4 * S);
	assert_int_equal(now.spec.scales.stride[0], 4 * S);
	assert_int_equal(now.spec.mask.stride[0], 4 * S);
	assert_int_equal(now.spec.sinks.stride[0], 4 * S);
	assert_int_equal(now.spec.lengths.stride[0], 4 * S);
	compare(&r, &was, &was.k, &now, &now.k);
	compare(&r, &was, &was.v, &now, &now.v);
}

/* Groups of heads in every sequence of a batch: no two strides say where Q's heads are then. */
static void test_not_by_strides(void **state)
{
	const struct relayout kv = copy_of(3, (int64_t[]){S * D, 4, 4}, (int64_t[]){1, 0, S * D});
	const struct relayout q =
		copy_of(4, (int64_t[]){D, S, 8, 2}, (int64_t[]){1, 8 * D, D, 8 * D * S});
	const struct relayout *from[RELAYOUT_TENSORS] = {&q, &kv, NULL};
	const struct attn_args was = call_of(1, 16);
	struct attn_args now = was;

	assert_false(relayout_apply(&now, from, (uint64_t[RELAYOUT_TENSORS]){IN, IN, 0}));
	assert_memory_equal(&now, &was, sizeof(now));
}

/* Random permutations and broadcasts of up to four dimensions: right, or refused. */
static void test_random(void **state)
{
	int done = 0;

	srand(1);
	for (int n = 0; n < 3000; n++) {
		const int H = 1 + rand() % 4, B = 1 + rand() % 3;
		int64_t size[4] = {D, S, H, B}, from[4], next = 1;
		int order[4] = {0, 1, 2, 3};
		struct relayout r;
		const struct relayout *of[RELAYOUT_TENSORS] = {NULL, &r, NULL};
		struct attn_args was = rand() % 2 ? call_of(B, H) : call_of(1, B * H), now;

		for (int d = 3; d > 0; d--) {
			const int other = rand() % (d + 1), swap = order[d];

			order[d] = order[other];
			order[other] = swap;
		}
		for (int d = 0; d < 4; d++) {
			from[order[d]] = rand() % 6 ? next : 0;
			next = from[order[d]] ? next * size[order[d]] : next;
		}
		r = copy_of(4, size, from);
		now = was;
		if (!relayout_apply(&now, of, (uint64_t[RELAYOUT_TENSORS]){0, IN, 0}))
			continue;
		compare(&r, &was, &was.k, &now, &now.k);
		done++;
	}
	assert_in_range(done, 2000, 3000);
}

/* O as [B,H,S,D], then made [B,S,H,D]: written there at once. */
static void test_output(void **state)
{
	const struct relayout copy =
		copy_of(4, (int64_t[]){D, 3, S, 2}, (int64_t[]){1, S * D, D, 3 * D * S});
	struct relayout inverse;
	const struct relayout *from[RELAYOUT_TENSORS] = {[RELAYOUT_O] = &inverse};

	assert_true(relayout_invert(&inverse, &copy));
	assert_int_equal(inverse.out_begin, IN);
	assert_int_equal(inverse.in_begin, OUT);
	for (int known = 0; known < 2; known++) {
		const struct attn_args was = known ? call_of(2, 3) : call_of(1, 6);
		struct attn_args now = was;

		assert_true(relayout_apply(&now, from,
					   (uint64_t[RELAYOUT_TENSORS]){[RELAYOUT_O] = IN}));
		assert_int_equal(now.B, 2);
		assert_int_equal(now.o.stride[0], 3 * S * D);
		assert_int_equal(now.o.stride[1], D);
		assert_int_equal(now.o.stride[2], 3 * D);
		compare(&inverse, &was, &was.o, &now, &now.o);
		assert_int_equal(now.q.base, was.q.base);
	}
}

/* Slopes [B*H,1,Sk] spread over the queries, or numbers [Sq,Sk] over the heads, so that QK^T can be
 * added to them: the call's bias is what they were. */
static void test_bias(void **state)
{
	const struct relayout slopes = copy_of(3, (int64_t[]){S, S, 6}, (int64_t[]){1, 0, S});
	const struct relayout numbers = copy_of(2, (int64_t[]){S * S, 6}, (int64_t[]){1, 0});
	const struct relayout columns = copy_of(2, (int64_t[]){S, 6 * S}, (int64_t[]){0, 1});
	const uint64_t in[RELAYOUT_TENSORS] = {[RELAYOUT_BIAS] = IN};
	const struct relayout *from[RELAYOUT_TENSORS] = {NULL};
	struct attn_args now = call_of(2, 3);

	now.spec.bias[0] = packed(3, S, S, false);
	from[RELAYOUT_BIAS] = &slopes;
	assert_true(relayout_apply(&now, from, in));
	assert_int_equal(now.spec.bias[0].base, IN);
	assert_memory_equal(now.spec.bias[0].stride, ((int64_t[]){3 * S, S, 0, 1}), 32);
	assert_int_equal(now.q.base, OUT);

	now = call_of(1, 6);
	now.spec.bias[0] = packed(6, S, S, false);
	from[RELAYOUT_BIAS] = &numbers;
	assert_true(relayout_apply(&now, from, in));
	assert_memory_equal(&now.spec.bias[0].stride[1], ((int64_t[]){0, S, 1}), 24);
	now.spec.bias[0] = packed(6, S, S, false);
	now.spec.bias[0].dtype = ATTN_F32;
	assert_false(relayout_apply(&now, from, in));

	now.spec.bias[0] = packed(6, S, S, false);
	from[RELAYOUT_BIAS] = &columns;
	assert_false(relayout_apply(&now, from, in));
}

/* Undone twice, a copy is what it was; one that leaves out or repeats cannot be undone. */
static void test_invert(void **state)
{
	const struct relayout copy = copy_of(3, (int64_t[]){D, 3, S}, (int64_t[]){1, S * D, D});
	const struct relayout part = copy_of(2, (int64_t[]){D, S}, (int64_t[]){1, 2 * D});
	const struct relayout repeated = copy_of(2, (int64_t[]){D, S}, (int64_t[]){1, 0});
	struct relayout inverse, again;

	assert_true(relayout_invert(&inverse, &copy));
	assert_true(relayout_invert(&again, &inverse));
	assert_memory_equal(again.dim, copy.dim, 3 * sizeof(*copy.dim));
	assert_false(relayout_invert(&inverse, &part));
	assert_false(relayout_invert(&inverse, &repeated));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heads_apart),  cmocka_unit_test(test_transposed),
		cmocka_unit_test(test_shared_heads), cmocka_unit_test(test_not_by_strides),
		cmocka_unit_test(test_random),	     cmocka_unit_test(test_output),
		cmocka_unit_test(test_invert),	     cmocka_unit_test(test_bias),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
