/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's grouped products in bf16 on sm_90 (torch._grouped_mm: the experts of a mixture),
 * CUTLASS below. The blocks were read off PyTorch 2.11's GroupMMCommon.cuh and GroupMM.cu, and off
 * CUTLASS 4.2 compiled for its types; a block that is another's is refused.
 */
#include "shim/rules/grouped.h"

#include <string.h>

#include "shim/op/memory.h"
#include "shim/rules/integers.h"
#include "shim/rules/rule_reader.h"

#define WIDTH	   2	/* bytes of an element: all operands are bf16 */
#define MOST	   1023 /* groups */
#define REMEMBERED 8
#define DESCRIPTOR 128 /* bytes of one that the product makes, in its workspace */
#define GROUPED	   4   /* cutlass::gemm::GemmUniversalMode::kGrouped */

/* The arrays that are filled, and the operands that lie behind them. */
enum { OF_A, OF_B, OF_OUT, SIZES, STRIDES_A, STRIDES_B, STRIDES_OUT, ARRAYS };

struct grouped {
	uint64_t groups; /* 0: nothing is remembered */
	uint64_t array[ARRAYS];
	uint64_t operand[3], bytes[3]; /* A, B, out */
	uint64_t rows, columns;	       /* of out */
	bool counted;		       /* every row of out belongs to a group … */
	bool whole;		       /* … and so does every byte of it */
};

static struct grouped remembered[REMEMBERED];
static unsigned next;
static bool any;  /* may one of them be something? */
static bool seen; /* was there ever one? */

/* Bytes of an array's entry: an address, three 32-bit sizes, one stride. */
static uint64_t array_bytes(const struct grouped *grouped, int array)
{
	return grouped->groups * (array == SIZES ? 12 : 8);
}

/* Is any of its first `arrays` arrays there? */
static bool overlaps(const struct grouped *grouped, int arrays, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < arrays; i++)
		if (begin < grouped->array[i] + array_bytes(grouped, i) && grouped->array[i] < end)
			return true;
	return false;
}

/* Nothing that is filled lies in another's place. */
static bool apart(const struct grouped *grouped)
{
	for (int i = 0; i < ARRAYS; i++)
		if (!memory_watchable_range(grouped->array[i],
					    grouped->array[i] + array_bytes(grouped, i)) ||
		    overlaps(grouped, i, grouped->array[i],
			     grouped->array[i] + array_bytes(grouped, i)))
			return false;
	return !overlaps(grouped, ARRAYS, grouped->operand[OF_OUT],
			 grouped->operand[OF_OUT] + grouped->bytes[OF_OUT]);
}

/* Words of {sizes or strides[3]}. */
static int64_t entry(const struct reading *r, unsigned param, unsigned i)
{
	return (int64_t)rule_u64_at(r, rule_offset(r, param) + 8 * i);
}

/* Bytes from the first element of a matrix to behind its last; 0: it is none. */
static int64_t matrix_bytes(int64_t rows, int64_t row, int64_t columns, int64_t column)
{
	const int64_t far = rows > 1 ? rule_times(rows - 1, row) : 0;
	const int64_t wide = columns > 1 ? rule_times(columns - 1, column) : 0;

	if (rows < 1 || columns < 1 || (rows > 1 && !far) || (columns > 1 && !wide))
		return 0;
	return rule_times(far + wide + 1, WIDTH);
}

/* (A, B, out, two scales, arrays of A, B, out and of both scales, sizes, strides of A, B, out,
 * int *ends, int M, N, K, strides of A, B, out, shapes of A, B, long, long, bool, bool), a thread
 * for each group. Rows [ends[g-1], ends[g]) of A [rows, K] are multiplied by B[g] of [groups, K, N]
 * into the same rows of out: those are M, which is then below 0. It is asserted that they follow
 * one another, and that the last is none behind A's. */
static const unsigned filled[ARRAYS] = {5, 6, 7, 10, 11, 12, 13};
enum { ENDS = 14, M, N, K, STRIDE_A, STRIDE_B, STRIDE_OUT, SHAPE_A, SHAPE_B };
enum { A_BY_ROWS = 25, B_BY_ROWS };

static bool read_operands(const struct reading *r, struct grouped *grouped)
{
	const unsigned *block = r->launch->block, *grid = r->launch->grid;
	int64_t rows, each, bytes[3];

	if (!rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 24, 24, 24, 24, 24,
			8, 8, 1, 1) ||
	    grid[0] != 1 || grid[1] != 1 || grid[2] != 1 || block[0] < 1 || block[0] > MOST ||
	    block[1] != 1 || block[2] != 1)
		return false;
	rows = entry(r, SHAPE_A, 0);
	if (PARAM(3) || PARAM(4) || !PARAM(ENDS) || PARAM(M) >= 0 || PARAM(N) < 1 || PARAM(K) < 1 ||
	    entry(r, SHAPE_A, 1) != PARAM(K) || entry(r, SHAPE_B, 0) != block[0] ||
	    entry(r, SHAPE_B, 1) != PARAM(K) || entry(r, SHAPE_B, 2) != PARAM(N) ||
	    entry(r, STRIDE_A, r->params[rule_offset(r, A_BY_ROWS)] ? 1 : 0) != 1 ||
	    entry(r, STRIDE_B, r->params[rule_offset(r, B_BY_ROWS)] ? 2 : 1) != 1 ||
	    entry(r, STRIDE_OUT, 1) != 1)
		return false;
	each = block[0] > 1 ? rule_times(block[0] - 1, entry(r, STRIDE_B, 0)) : 0;
	bytes[0] = matrix_bytes(rows, entry(r, STRIDE_A, 0), PARAM(K), entry(r, STRIDE_A, 1));
	bytes[1] = matrix_bytes(PARAM(K), entry(r, STRIDE_B, 1), PARAM(N), entry(r, STRIDE_B, 2));
	bytes[2] = matrix_bytes(rows, entry(r, STRIDE_OUT, 0), PARAM(N), 1);
	if (!bytes[0] || !bytes[1] || !bytes[2] || (block[0] > 1 && !each))
		return false;
	bytes[1] += each * WIDTH;
	grouped->groups = block[0];
	for (unsigned i = 0; i < 3; i++) {
		grouped->operand[i] = (uint64_t)PARAM(i);
		grouped->bytes[i] = (uint64_t)bytes[i];
		if (!grouped->operand[i])
			return false;
	}
	for (unsigned i = 0; i < ARRAYS; i++)
		grouped->array[i] = (uint64_t)PARAM(filled[i]);
	grouped->rows = (uint64_t)rows;
	grouped->columns = (uint64_t)PARAM(N);
	grouped->counted = integers_end_at((uint64_t)PARAM(ENDS), block[0], rows);
	grouped->whole = grouped->counted && (rows == 1 || entry(r, STRIDE_OUT, 0) == PARAM(N));
	return apart(grouped);
}

bool rule_read_grouped_operands(struct reading *r)
{
	struct grouped grouped;

	if (!read_operands(r, &grouped))
		return false;
	for (int i = 0; i < ARRAYS; i++)
		rule_writes(r, filled[i], (int64_t)array_bytes(&grouped, i));
	return rule_reads(r, ENDS, (int64_t)grouped.groups * 4);
}

static void touch(struct reading *r, unsigned at, uint64_t begin, uint64_t bytes,
		  enum access_mode mode, bool sure)
{
	if (r->list)
		access_add(r->list, (struct access){.begin = begin,
						    .end = begin + bytes,
						    .sure_end = begin + (sure ? bytes : 0),
						    .mode = mode,
						    .bounded = true,
						    .where = (int)at});
}

/* Where CUTLASS's Params has which array, twice the sizes; and words that must be 0: sizes that the
 * host knows, C, and beta and alpha in device memory, with beta itself. */
static const struct {
	unsigned at;
	int array;
} arrays[] = {{16, SIZES}, {1688, SIZES},    {656, OF_A},    {664, STRIDES_A},
	      {672, OF_B}, {680, STRIDES_B}, {1432, OF_OUT}, {1440, STRIDES_OUT}};
static const unsigned zeros[] = {24, 1696, 1416, 776, 784, 816, 824};
enum {
	MODE = 0,
	COUNT = 8,
	IN_MAPS = 648,
	BETA = 768,
	OUT_MAPS = 1408,
	SMS = 1540,
	COUNTED_BEFORE = 1664,
	COUNT_2 = 1680,
	TILE = 1704
};

/* Has each block a tile of out to compute, or each half of it one where they take turns? Groups
 * that end within a tile make for more of them. */
static bool all_busy(const struct reading *r, unsigned params, const struct grouped *grouped)
{
	const uint64_t rows = rule_u32_at(r, params + TILE);
	const uint64_t columns = rule_u32_at(r, params + TILE + 4);
	const bool in_turn = rule_has(r, "40KernelPtrArrayTmaWarpSpecializedPingpong");

	return grouped->counted && rows && columns && !r->params[params + COUNTED_BEFORE] &&
	       ((grouped->rows + rows - 1) / rows) * ((grouped->columns + columns - 1) / columns) >=
		       (uint64_t)r->launch->grid[0] * (in_turn ? 2 : 1);
}

static const struct grouped *operands_of(const struct reading *r, unsigned params)
{
	for (int i = 0; i < REMEMBERED; i++) {
		const struct grouped *grouped = &remembered[i];
		bool same = grouped->groups && grouped->groups == rule_u32_at(r, params + COUNT) &&
			    grouped->groups == rule_u32_at(r, params + COUNT_2);

		for (unsigned k = 0; k < sizeof(arrays) / sizeof(*arrays) && same; k++)
			same = rule_u64_at(r, params + arrays[k].at) ==
			       grouped->array[arrays[k].array];
		if (same)
			return grouped;
	}
	return NULL;
}

/* (Params), of which out = A B is left. Descriptors of A and B, and one of out for each of two
 * groups of warps, are written to the workspace, a set for each multiprocessor that has something
 * to do, and read. Rows of out that belong to no group are left as they are. */
bool rule_read_grouped_product(struct reading *r)
{
	static const unsigned at_operand[3] = {656, 672, 1432};
	const unsigned params = rule_offset(r, 0);
	const uint32_t sms = rule_takes(r, 1792) ? rule_u32_at(r, params + SMS) : 0;
	const unsigned *grid = r->launch->grid;
	const int64_t maps = 2 * (int64_t)sms * DESCRIPTOR;
	const struct grouped *grouped;
	bool busy;

	if (sms < 1 || sms > 65536 || (uint64_t)grid[0] * grid[1] * grid[2] > sms || !any ||
	    rule_u32_at(r, params + MODE) != GROUPED || rule_u32_at(r, params + BETA) != 0 ||
	    !rule_has(r, "39MainloopSm90ArrayTmaGmmaWarpSpecializedI") ||
	    !rule_has(r, "30Sm90PtrArrayTmaWarpSpecializedILi4ELi2E") ||
	    !rule_has(r, "NS_10bfloat16_tEPN") || !rule_has(r, "17LinearCombinationI"))
		return false;
	for (unsigned i = 0; i < sizeof(zeros) / sizeof(*zeros); i++)
		if (rule_u64_at(r, params + zeros[i]))
			return false;
	grouped = operands_of(r, params);
	if (!grouped)
		return false;
	for (unsigned i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
		if (i != 1) /* once is enough */
			touch(r, params + arrays[i].at, grouped->array[arrays[i].array],
			      array_bytes(grouped, arrays[i].array), ACCESS_READ, false);
	for (int i = 0; i < 3; i++)
		touch(r, params + at_operand[i], grouped->operand[i], grouped->bytes[i],
		      i == OF_OUT ? ACCESS_WRITE : ACCESS_READ, i == OF_OUT && grouped->whole);
	busy = grid[0] == sms && all_busy(r, params, grouped);
	return busy ? rule_writes_at(r, params + IN_MAPS, maps, true) &&
			       rule_writes_at(r, params + OUT_MAPS, maps, true)
		    : rule_changes_at(r, params + IN_MAPS, maps) &&
			       rule_changes_at(r, params + OUT_MAPS, maps);
}

void grouped_clear(void)
{
	if (any)
		memset(remembered, 0, sizeof(remembered));
	any = false;
}

bool grouped_seen(void)
{
	return seen;
}

static void note(const struct sight *sight, bool prepares)
{
	const struct access_list *list = sight->list;
	struct grouped grouped;

	for (int i = 0; i < list->count && any; i++)
		for (int k = 0; k < REMEMBERED && (list->item[i].mode & ACCESS_WRITE); k++)
			if (overlaps(&remembered[k], ARRAYS, list->item[i].begin,
				     list->item[i].end))
				remembered[k].groups = 0;
	if (!prepares || !read_operands(&(struct reading){.function = sight->function,
							  .launch = &sight->op->launch,
							  .params = sight->params},
					&grouped))
		return;
	remembered[next++ % REMEMBERED] = grouped;
	seen = true;
	any = true;
}

void grouped_note(const struct sight *sight)
{
	const bool prepares = sight->params && sight->function->rule &&
			      sight->function->rule->read == rule_read_grouped_operands;

	if (prepares || any)
		note(sight, prepares);
}
