/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing dumps (differ.h).
 */
#include "differ.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/dump.h"
#include "tools/base/half.h"

static const struct {
	const char *name;
	size_t width;
	double step; /* between numbers around one; fp32 sums in other orders and has fast
			exponentials */
} types[] = {{"f16", 2, 0x1p-11}, {"bf16", 2, 0x1p-8}, {"f32", 4, 0x1p-16}};

struct item {
	struct dump_header header;
	const uint8_t *marks, *data;
};

static bool take(const char **at, const char *end, struct item *item)
{
	uint32_t marks, data;

	if ((size_t)(end - *at) < sizeof(item->header))
		return false;
	memcpy(&item->header, *at, sizeof(item->header));
	marks = dump_padded((item->header.bytes + 1) / 2);
	data = dump_padded(item->header.bytes);
	if (item->header.magic != DUMP_MAGIC || item->header.type > 2 ||
	    (size_t)(end - *at) < sizeof(item->header) + marks + data)
		return false;
	item->marks = (const uint8_t *)*at + sizeof(item->header);
	item->data = item->marks + marks;
	*at = (const char *)item->data + data;
	return true;
}

static double number(unsigned type, const uint8_t *data)
{
	uint16_t half;
	float wide;

	if (type == 2) {
		memcpy(&wide, data, sizeof(wide));
		return (double)wide;
	}
	memcpy(&half, data, sizeof(half));
	return (double)(type ? bf16_to_float(half) : f16_to_float(half));
}

/* The difference as a share of what is tolerated there. */
static double share(unsigned type, int depth, double a, double b)
{
	const double most = fmax(1, fmax(fabs(a), fabs(b)));

	if (a == b || (isnan(a) && isnan(b)))
		return 0;
	if (!isfinite(a) || !isfinite(b))
		return INFINITY;
	return fabs(a - b) / (10 * types[type].step * pow(4, depth - 1) * most);
}

static void describe(const struct item *plain, const struct item *under, size_t first, size_t last,
		     size_t bad, size_t all, double most, char *text, size_t size)
{
	const struct dump_header *h = &plain->header;
	const unsigned type = h->type;
	const size_t width = types[type].width, at = first / width * width;
	double a = NAN, b = NAN;

	if (at + width <= h->bytes) {
		a = number(type, plain->data + at);
		b = number(type, under->data + at);
	}
	snprintf(text, size,
		 "lane %d occurrence %d step %d, %s: %zu of %zu %s numbers differ, bytes %zu to "
		 "%zu of "
		 "%u (at +%u), the first is %g and should be %g, %d attentions upstream%s",
		 h->lane, h->occurrence, h->step, h->what, bad, all, types[type].name, first, last,
		 h->bytes, h->offset, b, a, plain->marks[first / 2] & ~DUMP_FLAGS,
		 isfinite(most) ? "" : ", not a number or infinite");
}

static bool same_item(const struct item *plain, const struct item *under, bool exact, bool promised,
		      struct difference *d)
{
	const unsigned type = plain->header.type, bytes = plain->header.bytes;
	const size_t width = types[type].width;
	size_t bad = 0, first = 0, last = 0;
	double most = 0;

	if (exact && memcmp(plain->data, under->data, bytes) == 0)
		return true;
	for (size_t i = 0; i < bytes; i += width) {
		const size_t n = bytes - i < width ? bytes - i : width;
		const int one = plain->marks[i / 2], other = plain->marks[(i + n - 1) / 2],
			  flags = (one | other) & DUMP_FLAGS,
			  depth = fmax(one & ~DUMP_FLAGS, other & ~DUMP_FLAGS);
		double s = INFINITY;

		if (memcmp(plain->data + i, under->data + i, n) == 0 ||
		    (promised && flags & DUMP_PROMISED) || (!exact && flags & DUMP_WIDE && depth))
			continue;
		if (depth && !exact && n == width)
			s = share(type, depth, number(type, plain->data + i),
				  number(type, under->data + i));
		if (s <= 1) {
			d->share = fmax(d->share, s);
			continue;
		}
		most = fmax(most, s);
		last = i + n - 1;
		if (!bad++)
			first = i;
	}
	if (bad)
		describe(plain, under, first, last, bad, (bytes + width - 1) / width, most, d->text,
			 sizeof(d->text));
	return !bad;
}

bool dumps_agree(const void *plain, size_t plain_bytes, const void *under, size_t under_bytes,
		 bool exact, bool promised, struct difference *d)
{
	const char *at[] = {plain, under}, *end[] = {at[0] + plain_bytes, at[1] + under_bytes};
	struct item item[2];
	int count = 0;

	*d = (struct difference){0};
	for (;; count++) {
		const bool there[] = {take(&at[0], end[0], &item[0]),
				      take(&at[1], end[1], &item[1])};

		if (!there[0] && !there[1] && at[0] == end[0] && at[1] == end[1] && count)
			return true;
		if (!there[0] || !there[1] ||
		    memcmp(&item[0].header, &item[1].header, sizeof(item[0].header)) != 0 ||
		    memcmp(item[0].marks, item[1].marks, (item[0].header.bytes + 1) / 2) != 0) {
			snprintf(d->text, sizeof(d->text),
				 "record %d: not what the plain run looked at", count);
			return false;
		}
		if (!same_item(&item[0], &item[1], exact, promised, d))
			return false;
	}
}
