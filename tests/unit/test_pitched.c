/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and pitches of strided tensors: those of attention's operands by hand, and many of them by
 * lot, where every byte that a tensor has must lie in a row.
 */
#include "tests/cmocka.h"

#include <string.h>

#include "shim/base/pitched.h"

/* B, H, S and D of operands in the tensors that frameworks make. */
enum { B = 2, H = 4, S = 50, D = 8, MOST = 64 };

static const struct row {
	const char *about;
	int64_t size[4], stride[4];
	uint64_t width, pitch; /* elements */
} rows[] = {
	{"packed", {B, H, S, D}, {H * S * D, S *D, D, 1}, 0, 0},
	{"K read from the other side", {B, H, D, S}, {H * S * D, S *D, 1, D}, 0, 0},
	{"heads of a linear layer's output", {B, H, S, D}, {S * H * D, D, H *D, 1}, 0, 0},
	{"columns of QKV", {B, H, S, D}, {S * 3 * H * D, D, 3 * H *D, 1}, H *D, 3 * H *D},
	{"Q, K and V head by head", {B, H, S, D}, {S * 3 * H * D, 3 * D, 3 * H *D, 1}, D, 3 * D},
	{"one token of QKV", {B, H, 1, D}, {3 * H * D, D, 7, 1}, H *D, 3 * H *D},
	{"batch before sequence", {B, H, S, D}, {3 * H * D, D, B * 3 * H *D, 1}, H *D, 3 * H *D},
	{"cache with room",
	 {B, H, S, D},
	 {H * MOST * 2 * D, MOST * 2 * D, D, 1},
	 S *D,
	 MOST * 2 * D},
	{"cache nearly full", {B, H, S, D}, {H * MOST * D, MOST *D, D, 1}, 0, 0},
	{"one head for all", {B, H, S, D}, {S * 3 * D, 0, 3 * D, 1}, D, 3 * D},
	{"one row", {1, H, 1, D}, {99, D, 99, 1}, 0, 0},
	{"one row of heads apart", {1, H, 1, D}, {99, 3 * D, 99, 1}, D, 3 * D},
	{"part of a batch", {B, H, S, D}, {(S + 20) * 3 * H * D, D, 3 * H *D, 1}, 0, 0},
	{"a short part of a batch",
	 {B, H, S, D},
	 {5 * S * 3 * H * D, D, 3 * H *D, 1},
	 (S - 1) * 3 * H *D + H *D,
	 5 * S * 3 * H *D},
	{"overlapping", {1, 1, S, D}, {0, 0, D / 2, 1}, 0, 0},
	{"backwards", {1, 1, S, D}, {0, 0, -3 * D, 1}, 0, 0},
	{"no elements", {0, 1, S, D}, {99, 0, 3 * D, 1}, 0, 0},
};

static void test_operands(void **state)
{
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++) {
		const struct pitched got = pitched_of(4, row->size, row->stride, 2);

		if (got.pitch != 2 * row->pitch || (got.pitch && got.width != 2 * row->width))
			fail_msg("%s: rows of %d, %d apart", row->about, (int)got.width,
				 (int)got.pitch);
	}
}

static unsigned lot;

static int64_t draw(int64_t most)
{
	lot = lot * 1664525 + 1013904223;
	return (int64_t)(lot >> 12) % most + 1;
}

enum { EXTENT = 1 << 16 };
static unsigned char touched[EXTENT];

/* Marks the tensor's bytes; its extent in bytes, 0: too large. */
static uint64_t mark(const int64_t size[3], const int64_t stride[3], int element)
{
	int64_t last = 0;

	for (int d = 0; d < 3; d++)
		last += (size[d] - 1) * stride[d];
	if ((last + 1) * element > EXTENT)
		return 0;
	memset(touched, 0, sizeof(touched));
	for (int64_t i = 0; i < size[0]; i++)
		for (int64_t k = 0; k < size[1]; k++)
			for (int64_t l = 0; l < size[2]; l++)
				memset(touched + element * (i * stride[0] + k * stride[1] +
							    l * stride[2]),
				       1, (size_t)element);
	return (uint64_t)((last + 1) * element);
}

/* Does [begin, end) narrow to the rows that it touches, all of them and no others? */
static void check_rows(const struct pitched *p, uint64_t bytes, uint64_t begin, uint64_t end)
{
	uint64_t from = begin, to = end, first = UINT64_MAX, behind = 0;
	const bool any = pitched_rows(p, bytes, &from, &to);

	for (uint64_t row = 0; row < bytes; row += p->pitch)
		if (row < end && begin < row + p->width) {
			first = row < first ? row : first;
			behind = row + p->width;
		}
	assert_int_equal(any, behind != 0);
	if (!any)
		return;
	assert_int_equal(from, first);
	assert_true(to >= behind && to <= bytes && to < behind + p->pitch);
}

static void test_by_lot(void **state)
{
	int pitched = 0;

	for (int i = 0; i < 20000; i++) {
		const int64_t inner = draw(8), gap = draw(24), many = draw(12);
		const int64_t size[3] = {draw(6), many, inner};
		const int64_t stride[3] = {draw(3) > 1 ? many * (inner + gap) : draw(400),
					   inner + gap, 1};
		const int element = (int)draw(4);
		const struct pitched p = pitched_of(3, size, stride, element);
		const uint64_t bytes = mark(size, stride, element);

		if (!p.pitch || !bytes)
			continue;
		pitched++;
		for (uint64_t at = 0; at < bytes; at++)
			assert_true(!touched[at] || at % p.pitch < p.width);
		assert_true((bytes - p.width) % p.pitch == 0);
		assert_true(4 * ((bytes - p.width) / p.pitch + 1) * p.width <= 3 * bytes);
		for (int k = 0; k < 4; k++) {
			const uint64_t begin = (uint64_t)draw((int64_t)bytes) - 1;

			check_rows(&p, bytes, begin, begin + (uint64_t)draw(400));
		}
	}
	assert_true(pitched > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_by_lot),
	};

	return cmocka_run_group_tests_name("pitched", tests, NULL, NULL);
}
