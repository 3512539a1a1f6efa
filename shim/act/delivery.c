/* SPDX-License-Identifier: Apache-2.0
 *
 * One copy for each site, the latest seen with O in place.
 */
#include "shim/act/delivery.h"

#include <stddef.h>
#include <string.h>

#include "shim/hazard/copies.h"

#define PATIENCE 8 /* ops other than a copy, or other copies, after which a site has none */

static struct known {
	uint64_t site;	/* its key: a place in the table may get another site */
	uint64_t order; /* the copy's; 0: none */
	unsigned missed;
	bool compared, never;
	struct relayout inverse;
} knowns[SITES];

static struct {
	struct known *of; /* NULL: nothing expected */
	CUcontext context;
	CUstream stream;
	uint64_t begin, end;
} expected;

void delivery_forget(void)
{
	expected.of = NULL;
}

/* Equal for copies that exchange the same dimensions, whatever their sizes: a site's batches and
 * lengths may change. */
static uint64_t order_of(const struct relayout *copy)
{
	uint64_t order = hash_mix(0x6f72646572ull, (uint64_t)copy->dtype);

	for (int d = 0; d < copy->dims; d++) {
		int place = 0;

		for (int other = 0; other < copy->dims; other++)
			place += copy->dim[other].from < copy->dim[d].from;
		order = hash_mix(order, (uint64_t)place);
	}
	return order;
}

static struct known *known_of(const struct site *site)
{
	struct known *known = &knowns[site - sites];

	if (known->site != site->key) {
		memset(known, 0, offsetof(struct known, inverse));
		known->site = site->key;
	}
	return known;
}

static void miss(struct known *known)
{
	known->never |= ++known->missed >= PATIENCE;
}

void delivery_expect(const struct site *site, const struct chain *chain)
{
	struct gemm gemm;

	expected.of = NULL;
	if (known_of(site)->never || chain->closer.by_array)
		return;
	gemm_from_op(&gemm, &chain->closer);
	matrix_extent(&gemm.c, gemm.batch, &expected.begin, &expected.end);
	expected.of = known_of(site);
	expected.context = chain->context;
	expected.stream = chain->stream;
}

static const struct relayout *read_copy(const struct sight *sight)
{
	static struct relayout copy;

	return relayout_read(&copy, sight) ? &copy : NULL;
}

void delivery_note(const struct sight *sight)
{
	static struct relayout inverse;
	struct known *known = expected.of;
	const struct relayout *copy;

	if (!known)
		return;
	expected.of = NULL;
	copy = read_copy(sight);
	if (!copy || copy->in_begin != expected.begin || copy->in_end != expected.end ||
	    sight->op->context != expected.context || sight->op->stream != expected.stream ||
	    !relayout_invert(&inverse, copy)) {
		miss(known);
	} else {
		if (known->order && known->order != order_of(copy))
			miss(known);
		known->compared &= known->order == order_of(copy);
		known->order = order_of(copy);
		relayout_copy(&known->inverse, &inverse);
	}
}

const struct relayout *delivery_known(const struct site *site, uint64_t bytes)
{
	const struct known *known = known_of(site);

	return known->order && !known->never &&
			       known->inverse.out_end - known->inverse.out_begin == bytes
		       ? &known->inverse
		       : NULL;
}

void delivery_compared(const struct site *site, bool possible)
{
	struct known *known = known_of(site);

	known->compared |= possible;
	if (!possible)
		miss(known);
}

bool delivery_usual(const struct site *site)
{
	const struct known *known = known_of(site);

	return known->compared && !known->never && copies_pay(known->inverse.key);
}

const struct relayout *delivery_of_op(const struct site *site, const struct sight *sight)
{
	static struct relayout inverse;
	const struct relayout *copy = read_copy(sight);

	return copy && order_of(copy) == known_of(site)->order && relayout_invert(&inverse, copy)
		       ? &inverse
		       : NULL;
}

void delivery_missed(const struct site *site)
{
	miss(known_of(site));
}
