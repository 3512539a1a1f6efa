/* SPDX-License-Identifier: Apache-2.0
 *
 * Running sums, sorts, the largest few, histograms, triangles: kernels that take a tensor row by
 * row.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

/* (out, in, unsigned rows, unsigned columns, unsigned, first, operation), and of the other
 * dimensions: (out, in, unsigned outer, unsigned inner, unsigned rows, first, operation). */
bool rule_read_scan(struct reading *r)
{
	const bool inner = rule_has(r, "32tensor_kernel_scan_innermost_dimI");
	const int64_t width = rule_width(r);
	const int64_t bytes = rule_product(PARAM(2), PARAM(3), inner ? 1 : PARAM(4), width);

	return rule_takes(r, 8, 8, 4, 4, 4, (unsigned)width, 1) && rule_writes(r, 0, bytes) &&
	       rule_reads(r, 1, bytes);
}

/* <numbers, index, bool upper, elements a thread, bool in place>(TensorInfo out, TensorInfo in,
 * long diagonal, long N, last size): rows are rounded up to whole threads. */
bool rule_read_triangle(struct reading *r)
{
	const int64_t width = rule_width(r);
	const char *in_place = strstr(r->behind, "ELb");
	int64_t in, out, last = 0, rows = 1;
	bool dense;
	int dims = 0;

	if (strncmp(r->behind, "iLb", 3) != 0 || !in_place || !rule_takes(r, 216, 216, 8, 8, 4))
		return false;
	out = rule_tensor_elements(r, 0, -1, 0, &dense);
	in = rule_tensor_elements(r, 1, -1, 0, NULL);
	for (; rule_tensor_size(r, 0, dims) && dims < 25; dims++) {
		if (rule_tensor_size(r, 0, dims) != rule_tensor_size(r, 1, dims))
			return false;
		if (last)
			rows = rule_times(rows, last);
		last = rule_tensor_size(r, 0, dims);
	}
	return dims >= 2 && PARAM(4) >= last && PARAM(4) < last + 16 &&
	       rule_times(rows, PARAM(4)) == PARAM(3) &&
	       (in_place[3] != '0' ? rule_changes(r, 0, out * width)
				   : rule_writes_some(r, 0, out * width, dense)) &&
	       rule_reads(r, 1, in * width);
}

/* Elements of a TensorInfo that stands for slices of `size`, `stride` apart within. 0: not so.
 * *dense, false before: they lie without a gap; the dimension they are slices of has size 1. */
static int64_t sliced(const struct reading *r, unsigned param, int64_t slices, int64_t size,
		      int64_t stride, bool *dense)
{
	const int64_t base = rule_tensor_elements(r, param, -1, 0, NULL);
	const int64_t within = size == 1 ? 1 : rule_times(size - 1, stride) + 1;
	int64_t product = 1, next;

	for (int d = 0; (next = rule_tensor_size(r, param, d)) && d < 25; d++)
		product = rule_times(product, next);
	for (int d = 0; dense && (next = rule_tensor_size(r, param, d)) && d < 25; d++) {
		bool whole;

		if (next == 1 && !*dense)
			*dense = rule_tensor_elements(r, param, d, size, &whole) ==
					 base + within - 1 &&
				 whole;
	}
	return base && rule_times(size, stride) && product == slices ? base + within - 1 : 0;
}

/* (TensorInfo in, unsigned size, unsigned k, bool, unsigned slices, unsigned stride, TensorInfo
 * out, unsigned stride, TensorInfo places, unsigned stride, kth): k of each slice are written,
 * whatever it holds. */
bool rule_read_top_k(struct reading *r)
{
	const int64_t width = rule_width(r);
	int64_t in, out, places;
	bool dense[2] = {false, false};

	if (*r->behind != 'j' || !rule_takes(r, 216, 4, 4, 1, 4, 4, 216, 4, 216, 4, 8))
		return false;
	in = sliced(r, 0, PARAM(4), PARAM(1), PARAM(5), NULL);
	out = sliced(r, 6, PARAM(4), PARAM(2), PARAM(7), &dense[0]);
	places = sliced(r, 8, PARAM(4), PARAM(2), PARAM(9), &dense[1]);
	return PARAM(2) <= PARAM(1) && rule_reads(r, 0, in * width) &&
	       rule_writes_some(r, 6, out * width, dense[0]) &&
	       rule_writes_some(r, 8, places * 8, dense[1]) && rule_follows(r, 10, ACCESS_UNKNOWN);
}

/* <numbers, …, keys, values, …>(TensorInfo keys, unsigned slices, unsigned size, unsigned stride,
 * TensorInfo values, unsigned stride, order): in place. */
bool rule_read_sort(struct reading *r)
{
	int64_t key, value;

	rule_skip_numbers(r);
	key = rule_width(r);
	value = rule_width(r);
	return rule_takes(r, 216, 4, 4, 4, 216, 4, 1) &&
	       rule_changes(r, 0, sliced(r, 0, PARAM(1), PARAM(2), PARAM(3), NULL) * key) &&
	       rule_changes(r, 4, sliced(r, 4, PARAM(1), PARAM(2), PARAM(5), NULL) * value);
}

/* <counts, numbers, long, …>(TensorInfo counts, TensorInfo parts, TensorInfo in, long bins, least,
 * most, long N, weights); without weights the last is empty. */
bool rule_read_histogram(struct reading *r)
{
	const int64_t count = rule_width(r), width = rule_width(r);
	const int64_t counts = rule_tensor_elements(r, 0, -1, 0, NULL);
	const int64_t in = rule_tensor_elements(r, 2, -1, 0, NULL);

	return rule_takes(r, 416, 416, 416, 8, 8, 8, 8, 1) && PARAM(3) <= counts &&
	       PARAM(6) <= in && rule_changes(r, 0, counts * count) &&
	       rule_follows(r, 1, ACCESS_UNKNOWN) && rule_reads(r, 2, in * width);
}

/* cub's scratch for scans of `tiles` pieces: a word of up to 16 bytes for each, and 32 before. */
static int64_t tile_bytes(int64_t tiles)
{
	return tiles > 0 ? rule_times(tiles + 32, 16) : 0;
}

/* (tiles, int how many[, number]): the scratch of a scan, and of a selection. */
bool rule_read_scan_init(struct reading *r)
{
	const bool select = rule_has(r, "23DeviceCompactInitKernelI");

	return (select ? rule_takes(r, 8, 4, 8) && rule_writes_some(r, 2, 8, false)
		       : rule_takes(r, 8, 4)) &&
	       rule_changes(r, 0, tile_bytes(PARAM(1)));
}

/* (in, out, tiles, int first tile, operation, initial value, unsigned N), of whole numbers, from a
 * plain pointer to another; or of how many bytes of a mask are set, where `in` comes with the
 * comparison and the initial value may stand in device memory. */
bool rule_read_device_scan(struct reading *r)
{
	const char *at = rule_find(r, "E10Policy1000EPK");
	const bool mask =
		rule_has(r, "11CountMaskOpEPKh") && rule_has(r, "EEPlNS0_13ScanTileStateIlLb1EEE");
	int64_t in = 1, out = 8, n, tiles;

	if (mask ? !rule_takes(r, 16, 8, 8, 4, 1, 16, 4) || r->params[rule_offset(r, 5)]
		 : !at || !rule_takes(r, 8, 8, 8, 4, 1, 1, 4))
		return false;
	if (!mask) {
		at += strlen("E10Policy1000EPK");
		in = out = rule_type_of_letter(at[0]).bytes;
		if (at[1] != 'P' || at[2] != at[0])
			return false;
	}
	n = PARAM(6);
	tiles = (int64_t)r->launch->grid[0] + PARAM(3);
	return r->launch->grid[0] <= n && rule_reads(r, 0, n * in) &&
	       rule_writes_some(r, 1, n * out, PARAM(3) == 0) &&
	       rule_changes(r, 2, tile_bytes(tiles));
}

/* Bytes of the whole numbers behind a plain pointer that are held against 0. 0: others. */
static int64_t not_zero_width(const struct reading *r)
{
	const char *at = rule_find(r, "9NonZeroOpI");

	at = at ? at + strlen("9NonZeroOpI") : "";
	return at[0] && strncmp(at + 1, "EEPK", 4) == 0 && at[5] == at[0]
		       ? rule_type_of_letter(at[0]).bytes
		       : 0;
}

/* (in, int *how many, unsigned long N, operation, int first, none): counts in one block what is
 * not 0. */
bool rule_read_count(struct reading *r)
{
	return rule_takes(r, 16, 8, 8, 1, 4, 1) && rule_has(r, "EEPiy") &&
	       r->launch->grid[0] == 1 &&
	       rule_reads(r, 0, rule_product(PARAM(2), not_zero_width(r))) && rule_writes(r, 1, 4);
}

/* (first place, in, long *places, int *how many, tiles, none, none, int N, int tiles, {bool first,
 * bool last, long N, long before, long *how many before and with these}, scratch): the places of
 * what is not 0, as many as there are. Scratch without a byte lies where the numbers behind it do.
 */
bool rule_read_select(struct reading *r)
{
	const int64_t tiles = PARAM(8), n = PARAM(7);
	const int64_t bytes = rule_times(n, not_zero_width(r));
	const unsigned counts = rule_offset(r, 9) + 24;
	uint64_t scratch, before, with;

	if (!bytes || !rule_takes(r, 8, 16, 8, 8, 8, 1, 1, 4, 4, 40, 8) ||
	    !rule_has(r, "17counting_iteratorIl") || !rule_has(r, "EEPlPiNS0_13ScanTileStateI") ||
	    tiles < 1 || tiles > n || r->launch->grid[0] != (uint64_t)tiles ||
	    r->params[counts - 24] != 1 || rule_u64_at(r, counts - 16) < (uint64_t)n ||
	    rule_u64_at(r, counts - 8) != 0)
		return false; /* or one of the later parts of a tensor */
	scratch = rule_u64_at(r, rule_offset(r, 10));
	before = rule_u64_at(r, counts);
	with = rule_u64_at(r, counts + 8);
	return ((before == scratch && with == scratch + 8) ||
		(before == scratch + 8 && with == scratch)) &&
	       rule_reads(r, 1, bytes) && rule_writes_some(r, 2, n * 8, false) &&
	       rule_changes(r, 3, 4) && rule_changes(r, 4, tile_bytes(tiles)) &&
	       rule_changes_at(r, counts, 8) && rule_changes_at(r, counts + 8, 8);
}
