/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of facts. An op's own writes end what was known of their place, unless they put the same
 * numbers there in another order.
 */
#include "shim/rules/integers.h"

#include <string.h>

#include "shim/base/range.h"
#include "shim/op/memory.h"
#include "shim/rules/rule_reader.h"

#define FACTS 16
#define INT   3 /* c10::ScalarType */
#define LONG  4

enum kind {
	BELOW, /* each is at least 0 and below the number */
	SUM,   /* none is below 0, and together they are the number */
	ENDS,  /* running sums of such */
};

static struct fact {
	uint64_t begin, end; /* nothing but such numbers, from its first to its last byte */
	int width;	     /* bytes of one */
	enum kind kind;
	int64_t number;
} facts[FACTS];
static unsigned next;
static struct range around; /* all of them; empty: none holds */

void integers_clear(void)
{
	for (int i = 0; i < FACTS && around.end; i++)
		facts[i].end = facts[i].begin = 0;
	around = (struct range){0};
}

/* The fact that covers these bytes, from the beginning of a number to the end of one. */
static const struct fact *fact_of(enum kind kind, int width, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < FACTS; i++) {
		const struct fact *fact = &facts[i];

		if (fact->begin < fact->end && fact->kind == kind && fact->width == width &&
		    begin < end && begin >= fact->begin && end <= fact->end &&
		    (begin - fact->begin) % (unsigned)width == 0 &&
		    (end - begin) % (unsigned)width == 0)
			return fact;
	}
	return NULL;
}

/* What the launch was found to touch by the pointer at byte `at`; NULL: nothing. */
static const struct access *access_at(const struct access_list *list, unsigned at)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].where == (int)at && list->item[i].bounded)
			return &list->item[i];
	return NULL;
}

/* What the launch writes there, if it leaves none of it as it was. */
static const struct access *whole_write(const struct access_list *list, unsigned at)
{
	const struct access *access = access_at(list, at);

	return access && access->mode == ACCESS_WRITE && access->sure_end == access->end ? access
											 : NULL;
}

static struct fact fact_at(const struct access *access, int width, enum kind kind, int64_t number)
{
	if (!access)
		return (struct fact){0};
	return (struct fact){access->begin, access->end, width, kind, number};
}

/* ---- what makes such numbers: what holds of them behind the launch ------------------------------
 */

/* The places of the largest in rows of so many. */
static struct fact of_top_k(const struct reading *r, const struct access_list *list)
{
	return fact_at(whole_write(list, rule_offset(r, 8)), 8, BELOW, PARAM(1));
}

/* Longs as ints. */
static struct fact of_cast(const struct reading *r, const struct access_list *list)
{
	const unsigned pointers = rule_offset(r, 2);
	const struct access *in = access_at(list, pointers + 8);
	const struct fact *fact = in ? fact_of(BELOW, 8, in->begin, in->end) : NULL;

	if (!fact || fact->number > INT32_MAX || !rule_has(r, "23direct_copy_kernel_cudaE") ||
	    !rule_has(r, "EUliE") || rule_size_of(r, 5) != 8 || rule_size_of(r, 6) != 8 ||
	    r->params[rule_offset(r, 5)] != LONG || r->params[rule_offset(r, 6)] != INT)
		return (struct fact){0};
	return fact_at(whole_write(list, pointers), 4, BELOW, fact->number);
}

static struct fact of_fill(const struct reading *r, const struct access_list *list)
{
	if (!rule_has(r, "11FillFunctorIiE") || rule_size_of(r, 1) != 4 ||
	    rule_u32_at(r, rule_offset(r, 1)))
		return (struct fact){0};
	return fact_at(whole_write(list, rule_offset(r, 2)), 4, SUM, 0);
}

/* The same keys in another place and order. */
static struct fact of_radix(const struct reading *r, const struct access_list *list, unsigned to,
			    unsigned from)
{
	const struct access *in = access_at(list, rule_offset(r, from));
	const struct access *out = whole_write(list, rule_offset(r, to));
	const struct fact *fact = in ? fact_of(BELOW, 8, in->begin, in->end) : NULL;

	if (!fact || !rule_has(r, "10policy_hubIl"))
		return (struct fact){0};
	return fact_at(out, 8, BELOW, fact->number);
}

static struct fact of_radix_tile(const struct reading *r, const struct access_list *list)
{
	return of_radix(r, list, 1, 0);
}

static struct fact of_radix_pass(const struct reading *r, const struct access_list *list)
{
	return of_radix(r, list, 4, 5);
}

/* One more of some count for each number between the least and the most. */
static struct fact of_histogram(const struct reading *r, const struct access_list *list)
{
	const struct access *to = access_at(list, rule_offset(r, 0));
	const struct access *in = access_at(list, rule_offset(r, 2));
	const struct fact *counts = to ? fact_of(SUM, 4, to->begin, to->end) : NULL;
	const struct fact *counted = in ? fact_of(BELOW, 4, in->begin, in->end) : NULL;
	const int64_t n = PARAM(6);

	if (!counts || !counted || to->begin != counts->begin || to->end != counts->end ||
	    strncmp(r->behind, "iil", 3) != 0 || !rule_has(r, "21CUDA_tensor_histogramIiiLb0E") ||
	    PARAM(4) > 0 || PARAM(5) < counted->number - 1 || PARAM(3) < 1 || n < 1 ||
	    PARAM(3) != (int64_t)(to->end - to->begin) / 4 ||
	    n != (int64_t)(in->end - in->begin) / 4 || n > INT32_MAX - counts->number)
		return (struct fact){0};
	return fact_at(to, 4, SUM, counts->number + n);
}

/* Sums up to and with each. */
static struct fact of_scan(const struct reading *r, const struct access_list *list)
{
	const struct access *in = access_at(list, rule_offset(r, 0));
	const struct fact *counts = in ? fact_of(SUM, 4, in->begin, in->end) : NULL;

	if (!counts || in->begin != counts->begin || in->end != counts->end ||
	    !rule_has(r,
		      "jSt4plusIiEE10Policy1000EPKiPiNS0_13ScanTileStateIiLb1EEES6_NS0_8NullTypeE"))
		return (struct fact){0};
	return fact_at(whole_write(list, rule_offset(r, 1)), 4, ENDS, counts->number);
}

static const struct maker {
	bool (*read)(struct reading *r);
	struct fact (*make)(const struct reading *r, const struct access_list *list);
	int role; /* of its functor; ROLE_UNKNOWN: it has none */
} makers[] = {{rule_read_vectorized, of_fill, ROLE_FILL},
	      {rule_read_unrolled, of_cast, ROLE_COPY},
	      {rule_read_top_k, of_top_k, 0},
	      {rule_read_radix_tile, of_radix_tile, 0},
	      {rule_read_radix_pass, of_radix_pass, 0},
	      {rule_read_histogram, of_histogram, 0},
	      {rule_read_device_scan, of_scan, 0}};

static const struct maker *maker_of(const struct function *function)
{
	bool (*const read)(struct reading * r) =
		function && function->rule ? function->rule->read : NULL;

	for (unsigned i = 0; read && i < sizeof(makers) / sizeof(*makers); i++)
		if (read == makers[i].read)
			return !makers[i].role || makers[i].role == function->functor.role
				       ? &makers[i]
				       : NULL;
	return NULL;
}

static struct fact of_copy(const struct op_copy *copy)
{
	const uint64_t from = copy->source.base, to = copy->target.base;
	const struct fact *fact = NULL;

	if (copy->exact && copy->source.bytes == copy->target.bytes)
		for (int width = 4; width <= 8 && !fact; width += 4)
			fact = fact_of(BELOW, width, from, from + copy->source.bytes);
	return fact ? (struct fact){to, to + copy->target.bytes, fact->width, BELOW, fact->number}
		    : (struct fact){0};
}

/* ---- what goes on holding -----------------------------------------------------------------------
 */

/* Does the access put the numbers of the fact in another order? A sort of keys, with values. */
static bool sorts(const struct reading *r, const struct access *access, const struct fact *fact)
{
	struct reading at = *r;
	int64_t width[2];

	if (!r->function || !r->params || !r->function->rule ||
	    r->function->rule->read != rule_read_sort || fact->kind != BELOW ||
	    access->begin < fact->begin || access->end > fact->end ||
	    (access->begin - fact->begin) % (unsigned)fact->width)
		return false;
	at.behind = r->function->behind;
	rule_skip_numbers(&at);
	width[0] = rule_width(&at);
	width[1] = rule_width(&at);
	return width[access->where == (int)rule_offset(r, 4)] == fact->width;
}

static void forget(const struct reading *r, const struct access *write)
{
	if (!range_overlap(write->begin, write->end, around.begin, around.end))
		return;
	around = (struct range){0};
	for (int k = 0; k < FACTS; k++) {
		struct fact *fact = &facts[k];

		if (range_overlap(write->begin, write->end, fact->begin, fact->end) &&
		    !sorts(r, write, fact))
			fact->end = fact->begin = 0;
		if (fact->begin < fact->end)
			range_widen(&around, fact->begin, fact->end);
	}
}

static void note(const struct sight *sight, const struct maker *maker)
{
	struct reading r = {.params = sight->params};
	struct fact fresh = {0};

	if (sight->params) {
		r.function = sight->function;
		r.launch = &sight->op->launch;
		r.behind = sight->function->behind;
	}
	if (maker)
		fresh = maker->make(&r, sight->list);
	else if (sight->op->kind == OP_COPY)
		fresh = of_copy(&sight->op->copy);
	for (int i = 0; i < sight->list->count; i++)
		if (sight->list->item[i].mode & ACCESS_WRITE)
			forget(&r, &sight->list->item[i]);
	if (fresh.begin >= fresh.end || !memory_watchable_range(fresh.begin, fresh.end))
		return; /* or the host may write there unseen */
	facts[next++ % FACTS] = fresh;
	range_widen(&around, fresh.begin, fresh.end);
}

void integers_note(const struct sight *sight)
{
	const struct maker *maker = sight->params ? maker_of(sight->function) : NULL;

	if (maker || around.end)
		note(sight, maker);
}

bool integers_end_at(uint64_t address, uint64_t count, int64_t total)
{
	const struct fact *fact = fact_of(ENDS, 4, address, address + 4 * count);

	return fact && fact->begin == address && fact->end == address + 4 * count &&
	       fact->number == total;
}
