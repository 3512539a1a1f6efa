/* SPDX-License-Identifier: Apache-2.0
 *
 * What launches touch, by their machine code (shim/code/threads.h), against the same kernels run as
 * C: on each architecture, with launches of several shapes.
 */
#include "code_fixture.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"
#include "shim/code/threads.h"

typedef unsigned short half_bits;
typedef struct {
	float part[2];
} vector8;
typedef struct {
	float part[4];
} vector16;

/* ---- on the host --------------------------------------------------------------------------------
 */

#define POINTED 0xaa	  /* each byte of pointers */
#define MIDDLE	(1 << 21) /* where a pointer points to, in what is noted of it */

static struct noted {
	int64_t first[2], beyond[2]; /* read, written */
	int64_t origin, behind;	     /* where it is strayed from */
	bool strays[2];
	unsigned char stored[2 * MIDDLE];
} noted[3];

static unsigned thread[3], block[3], threads[3], blocks[3];

static void note(const void *pointer, int64_t at, size_t bytes, bool stores)
{
	struct noted *of = &noted[(uintptr_t)pointer - 1];
	const int64_t begin = at * (int64_t)bytes;

	if (begin < of->first[stores])
		of->first[stores] = begin;
	if (begin + (int64_t)bytes > of->beyond[stores])
		of->beyond[stores] = begin + (int64_t)bytes;
	if (stores)
		memset(of->stored + MIDDLE + begin, 1, bytes);
}

/* All that is loaded is 0 here. */
static void note_any(const void *pointer, int64_t at, size_t bytes, bool stores)
{
	struct noted *of = &noted[(uintptr_t)pointer - 1];
	const int64_t begin = at * (int64_t)bytes;

	if (begin < of->origin)
		of->origin = begin;
	if (begin + (int64_t)bytes > of->behind)
		of->behind = begin + (int64_t)bytes;
	of->strays[stores] = true;
}

#define TX			  thread[0]
#define TY			  thread[1]
#define TZ			  thread[2]
#define BX			  block[0]
#define BY			  block[1]
#define BZ			  block[2]
#define DX			  threads[0]
#define DY			  threads[1]
#define DZ			  threads[2]
#define GX			  blocks[0]
#define GY			  blocks[1]
#define GZ			  blocks[2]
#define LOAD(p, i)		  (note(p, i, sizeof(*(p)), false), zero)
#define LOAD_OWN(p, i)		  (zero)
#define STORE(p, i, v)		  (note(p, i, sizeof(*(p)), true), (void)(v))
#define LOAD_ANY(p, i)		  (note_any(p, i, sizeof(*(p)), false), zero)
#define STORE_ANY(p, i, v)	  (note_any(p, i, sizeof(*(p)), true), (void)(v))
#define IS_ALIGNED(p, bytes)	  (POINTED % (bytes) == 0)
#define CHECK(holds)		  ((void)(holds))
#define STOP()			  ((void)0)
#define SYNC()			  ((void)0)
#define SYNC_WARP()		  ((void)0)
#define WARP			  32
#define ADD_ATOMIC(p, i)	  ((void)0)
#define SHARED_WORDS(name, count) int name[count]
#define OVER_WARP(sum)		  (sum)

#define BODY(name, T, ...)                                                                         \
	static void name(T *o, const T *x, const T *y, int n, int m, long wide)                    \
	{                                                                                          \
		T zero;                                                                            \
                                                                                                   \
		memset(&zero, 0, sizeof(zero));                                                    \
		(void)o, (void)x, (void)y, (void)n, (void)m, (void)wide, (void)zero;               \
		__VA_ARGS__                                                                        \
	}
#define LOOSE BODY
#define SPLIT BODY
#define OPAQUE(name, T, ...)
#include "tests/unit/threads_bodies.h"

/* ---- both ---------------------------------------------------------------------------------------
 */

enum kind { FOLLOWS, UNSURE, EITHER, NO_ANSWER };

static const struct body {
	const char *name;
	enum kind kind;
	void (*run)(void *, const void *, const void *, int, int, long);
} bodies[] = {
#define BODY(name, T, ...)                                                                         \
	{#name, FOLLOWS, (void (*)(void *, const void *, const void *, int, int, long))name},
#define LOOSE(name, T, ...)                                                                        \
	{#name, UNSURE, (void (*)(void *, const void *, const void *, int, int, long))name},
#define SPLIT(name, T, ...)                                                                        \
	{#name, EITHER, (void (*)(void *, const void *, const void *, int, int, long))name},
#define OPAQUE(name, T, ...) {#name, NO_ANSWER, NULL},
#include "tests/unit/threads_bodies.h"
};

static const struct shape {
	unsigned grid[3], block[3];
	int n, m;
	long wide;
} shapes[] = {
	{{1, 1, 1}, {32, 1, 1}, 20, 40, 50},	   {{7, 1, 1}, {96, 1, 1}, 600, 600, 100},
	{{12, 1, 1}, {250, 1, 1}, 2880, 7, 64},	   {{3, 2, 2}, {8, 4, 3}, 90, 70, 1000},
	{{45, 1, 1}, {64, 1, 1}, 2879, 100, 1500}, {{240, 1, 1}, {96, 1, 1}, 24, 12, 77},
	{{2, 3, 130}, {40, 1, 1}, 35, 15, 3},	   {{500, 1, 1}, {32, 1, 1}, 900, 20, 9},
};

static void run_on_host(const struct body *body, const struct shape *shape)
{
	const void *const o = (const void *)1, *const x = (const void *)2,
			  *const y = (const void *)3;

	for (int i = 0; i < 3; i++) {
		if (noted[i].first[1] < noted[i].beyond[1])
			memset(noted[i].stored + MIDDLE + noted[i].first[1], 0,
			       (size_t)(noted[i].beyond[1] - noted[i].first[1]));
		noted[i].strays[0] = noted[i].strays[1] = false;
		noted[i].origin = INT64_MAX;
		noted[i].behind = INT64_MIN;
		noted[i].first[0] = noted[i].first[1] = INT64_MAX;
		noted[i].beyond[0] = noted[i].beyond[1] = INT64_MIN;
	}
	memcpy(threads, shape->block, sizeof(threads));
	memcpy(blocks, shape->grid, sizeof(blocks));
	for (BZ = 0; BZ < blocks[2]; BZ++)
		for (BY = 0; BY < blocks[1]; BY++)
			for (BX = 0; BX < blocks[0]; BX++)
				for (TZ = 0; TZ < threads[2]; TZ++)
					for (TY = 0; TY < threads[1]; TY++)
						for (TX = 0; TX < threads[0]; TX++)
							body->run((void *)o, x, y, shape->n,
								  shape->m, shape->wide);
}

static bool departs;
#define MOST (1 << 24)
static uint64_t most = MOST;

/* `bytes`: of the parameters, of which there are 40. */
static int run_with(const struct code_text *text, const struct shape *shape, unsigned bytes,
		    struct threads_extent *extent)
{
	unsigned char params[40] = {0};
	struct threads_launch launch = {.code = text->code,
					.bytes = text->bytes,
					.sm = text->sm,
					.params = params,
					.param_bytes = bytes,
					.pointers = 3,
					.pointer = {0, 8, 16},
					.most = most,
					.asserts = text->asserts,
					.turns = text->turns,
					.departs = &departs};

	memcpy(launch.grid, shape->grid, sizeof(launch.grid));
	memcpy(launch.block, shape->block, sizeof(launch.block));
	memset(params, POINTED, 24);
	memcpy(params + 24, &shape->n, 4);
	memcpy(params + 28, &shape->m, 4);
	memcpy(params + 32, &shape->wide, 8);
	return threads_run(&launch, extent);
}

static int run_by_code(const struct code_text *text, const struct shape *shape,
		       struct threads_extent *extent)
{
	return run_with(text, shape, 40, extent);
}

static bool is_whole(const struct noted *of)
{
	if (of->strays[1])
		return false;
	for (int64_t i = of->first[1]; i < of->beyond[1]; i++)
		if (!of->stored[MIDDLE + i])
			return false;
	return of->first[1] < of->beyond[1];
}

static bool same_runs(const struct threads_extent *e, const struct noted *of)
{
	unsigned runs = 0;
	bool same = true;

	for (int64_t i = of->first[1], first; i < of->beyond[1]; runs++) {
		for (first = i; of->stored[MIDDLE + i] && i < of->beyond[1];)
			i++;
		same &= runs < THREADS_RUNS && e->run[runs].first == first &&
			e->run[runs].beyond == i;
		while (i < of->beyond[1] && !of->stored[MIDDLE + i])
			i++;
	}
	return runs > THREADS_RUNS || of->strays[1] ? !e->runs : same && e->runs == runs;
}

static bool same_range(int64_t first, int64_t beyond, const struct noted *of, int stores)
{
	return of->first[stores] >= of->beyond[stores]
		       ? first >= beyond
		       : first == of->first[stores] && beyond == of->beyond[stores];
}

static bool within(int64_t first, int64_t beyond, const struct noted *of, int stores)
{
	return of->first[stores] >= of->beyond[stores] ||
	       (first <= of->first[stores] && beyond >= of->beyond[stores]);
}

static void compare(const char *arch, const struct body *body, const struct shape *shape,
		    const struct threads_extent *extent)
{
	for (int i = 0; i < 3; i++) {
		const struct noted *of = &noted[i];
		const struct threads_extent *e = &extent[i];
		const bool right =
			body->kind == FOLLOWS
				? same_range(e->read.first, e->read.beyond, of, 0) &&
					  same_range(e->written.first, e->written.beyond, of, 1) &&
					  e->whole == is_whole(of) && same_runs(e, of)
				: within(e->read.first, e->read.beyond, of, 0) &&
					  within(e->written.first, e->written.beyond, of, 1) &&
					  !e->whole;

		if (!right)
			fail_msg("%s, sm_%s, %d threads, pointer %d: read [%ld,%ld) not [%ld,%ld), "
				 "written [%ld,%ld)%s not [%ld,%ld)%s",
				 body->name, arch, (int)shape->block[0], i, (long)e->read.first,
				 (long)e->read.beyond, (long)of->first[0], (long)of->beyond[0],
				 (long)e->written.first, (long)e->written.beyond,
				 e->whole ? " whole" : "", (long)of->first[1], (long)of->beyond[1],
				 is_whole(of) ? " whole" : "");
		if (e->strays_reading != of->strays[0] || e->strays_writing != of->strays[1] ||
		    e->origin.first != of->origin || e->origin.beyond != of->behind)
			fail_msg("%s, sm_%s, pointer %d: strays%s%s from [%ld,%ld) not [%ld,%ld)",
				 body->name, arch, i, e->strays_reading ? " reading" : "",
				 e->strays_writing ? " writing" : "", (long)e->origin.first,
				 (long)e->origin.beyond, (long)of->origin, (long)of->behind);
	}
}

static void try(const char *arch, const struct file *file, const struct body *body)
{
	struct code_text text = {0};
	struct code_table table = {.wanted = body->name, .text = &text};
	struct threads_extent extent[3];

	assert_int_equal(code_read_cubin(file->at, file->bytes, &table), 0);
	assert_non_null(text.code);
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		const int error = run_by_code(&text, &shapes[i], extent);

		if (body->kind >= EITHER && error == -EINVAL)
			continue;
		if (error || body->kind == NO_ANSWER)
			fail_msg("%s, sm_%s: %s", body->name, arch,
				 error ? strerror(-error) : "an answer");
		run_on_host(body, &shapes[i]);
		compare(arch, body, &shapes[i], extent);
	}
	free(text.code);
	code_table_free(&table);
}

static void try_all(const char *arch)
{
	char name[32];
	struct file file;

	snprintf(name, sizeof(name), "threads_%s.cubin", arch);
	file = code_file(name);
	for (unsigned i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
		try(arch, &file, &bodies[i]);
	free(file.at);
}

/* Blocks that are run together tell what each by itself would. */
static unsigned together(const struct code_text *text, const char *name)
{
	static const int numbers[] = {1,  2,   3,   5,	 7,    12,   16,    24,	    32, 33, 64,
				      96, 128, 197, 256, 1000, 1024, 49152, 786432, -1, 0};
	const unsigned count = sizeof(numbers) / sizeof(*numbers);
	int params[10] = {0};
	struct threads_launch launch = {.code = text->code,
					.bytes = text->bytes,
					.sm = text->sm,
					.params = (const unsigned char *)params,
					.param_bytes = sizeof(params),
					.pointers = 2,
					.pointer = {0, 8},
					.most = 100000};
	bool departed[2];
	unsigned answers = 0;

	for (int i = 0; i < 8; i++) {
		struct threads_extent extent[2][2];
		int error[2];

		for (int n = 4; n < 9; n++)
			params[n] = numbers[any(count)];
		for (int d = 0; d < 3; d++) {
			launch.grid[d] = 1 + any(d ? 4 : any(3) ? 60 : 2000);
			launch.block[d] = d ? 1 + any(2) : 32 + any(4) * 48;
		}
		for (int alone = 0; alone < 2; alone++) {
			memset(extent[alone], 0, sizeof(extent[alone]));
			launch.alone = alone;
			launch.departs = &departed[alone];
			error[alone] = threads_run(&launch, extent[alone]);
		}
		if (error[0] == -E2BIG || error[1] == -E2BIG)
			continue;
		if (error[0] != error[1] ||
		    (!error[0] && (memcmp(extent[0], extent[1], sizeof(extent[0])) != 0 ||
				   departed[0] != departed[1])))
			fail_msg("%s, launch %d: together something else", name, i);
		answers += !error[0];
	}
	return answers;
}

static void random_kernels(void **state)
{
	struct file file = code_file("threads_random.cubin");
	unsigned answers = 0, kernels = 0;
	char name[16];

	(void)state;
	for (;; kernels++) {
		struct code_text text = {0};
		struct code_table table = {.wanted = name, .text = &text};

		snprintf(name, sizeof(name), "rk%u", kernels);
		assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
		code_table_free(&table);
		if (!text.code)
			break;
		answers += together(&text, name);
		free(text.code);
	}
	free(file.at);
	assert_in_range(kernels, 50, 1000);
	assert_true(answers > 2 * kernels);
}

/* May an assertion fail, or the GPU be stopped, whatever lies in memory? */
static void may_depart(void **state)
{
	static const struct {
		const char *name;
		bool departs;
	} kernels[] = {
		{"linear", false},	  {"asserted_of_numbers", false}, {"asserted", true},
		{"asserted_twice", true}, {"stopped_by_data", true},
	};
	struct file file = code_file("threads_90a.cubin");

	(void)state;
	for (unsigned i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		struct code_text text = {0};
		struct code_table table = {.wanted = kernels[i].name, .text = &text};
		struct threads_extent extent[3];

		assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
		assert_non_null(text.code);
		assert_int_equal(run_by_code(&text, &shapes[0], extent), 0);
		if (departs != kernels[i].departs)
			fail_msg("%s: %d", kernels[i].name, departs);
		free(text.code);
		code_table_free(&table);
	}
	free(file.at);
}

/* The last parameter may end within a word. */
static void ends_early(void **state)
{
	const struct body *body = bodies;
	struct file file = code_file("threads_90a.cubin");
	struct code_text text = {0};
	struct code_table table = {.wanted = "last_byte", .text = &text};
	struct threads_extent extent[3];

	(void)state;
	while (strcmp(body->name, table.wanted) != 0)
		body++;
	assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
	assert_non_null(text.code);
	run_on_host(body, &shapes[0]);
	assert_int_equal(run_with(&text, &shapes[0], 33, extent), 0);
	compare("90a", body, &shapes[0], extent);
	assert_int_equal(run_with(&text, &shapes[0], 32, extent), 0);
	assert_false(extent[0].whole);
	free(text.code);
	free(file.at);
	code_table_free(&table);
}

/* Whatever lies there: nothing outside it is touched, and it ends. */
static void damage(const char *name)
{
	struct file file = code_file("threads_90a.cubin");
	struct code_text text = {0};
	struct code_table table = {.wanted = name, .text = &text};
	struct threads_extent extent[3];
	struct room room;

	assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
	assert_non_null(text.code);
	room = room_make(text.bytes);
	for (int i = 0; i < 3000; i++) {
		struct code_text changed = text;

		changed.code = room_last(&room, text.bytes);
		memcpy(changed.code, text.code, text.bytes);
		for (int k = 0; k < 1 + i % 4; k++)
			changed.code[any((uint32_t)text.bytes)] ^= (unsigned char)(1 << any(8));
		run_by_code(&changed, &shapes[i % 2], extent);
	}
	room_free(&room);
	free(text.code);
	free(file.at);
	code_table_free(&table);
}

static void any_code(void **state)
{
	(void)state;
	damage("either");
	damage("asserted_twice");
}

/* A thread's predicate made of one of the warp's, as no compiler here makes it: threads of blocks
 * from `least` on store. */
static void store_from_block(uint32_t least, struct threads_extent *extent)
{
	uint64_t words[][2] = {
		{0x00000000000479c3, 0x2500},	  /* S2UR UR4, SR_CTAID.X */
		{0x0000000000007919, 0x2100},	  /* S2R R0, SR_TID.X */
		{0x000000000400788c, 0x0bf06270}, /* UISETP.GE.AND UP0, UPT, UR4, least, UPT */
		{0x000000000000789c,
		 0x03f21070}, /* UPLOP3.LUT UP1, UPT, UPT, UP0, UPT, 0x80, 0x0 */
		{0x000000000000781c, 0x03fcf018}, /* PLOP3.LUT P6, PT, PT, PT, UP1, 0x80, 0x0 */
		{0x00008400ff027b82, 0x0a00},	  /* LDC.64 R2, c[0x0][0x210] */
		{0x0000000400027825, 0x078e0202}, /* IMAD.WIDE R2, R0, 0x4, R2 */
		{0x0000000002006986, 0x0c101904}, /* @P6 STG.E desc[UR4][R2.64], R0 */
		{0x000000000000794d, 0x03800000}, /* EXIT */
	};
	static const struct shape shape = {{4, 1, 1}, {32, 1, 1}, 0, 0, 0};
	const struct code_text text = {(unsigned char *)words, sizeof(words), 90, false, 0, 0};

	words[2][0] |= (uint64_t)least << 32;
	assert_int_equal(run_by_code(&text, &shape, extent), 0);
}

static void predicate_of_warp(void **state)
{
	struct threads_extent extent[3];

	(void)state;
	store_from_block(2, extent);
	assert_int_equal(extent[0].written.first, 0);
	assert_int_equal(extent[0].written.beyond, 128);
	assert_true(extent[0].whole);
	store_from_block(4, extent);
	assert_true(extent[0].written.first >= extent[0].written.beyond);
}

/* A launch that needs more than it may take says so, with nothing run in vain. */
static void too_much(void **state)
{
	struct file file = code_file("threads_90a.cubin");
	struct code_text text = {0};
	struct code_table table = {.wanted = "linear", .text = &text};
	unsigned char params[40] = {0};
	struct threads_extent extent[3];
	struct threads_launch launch = {.grid = {1 << 20, 64, 64},
					.block = {1024, 1, 1},
					.params = params,
					.param_bytes = sizeof(params),
					.pointers = 3,
					.pointer = {0, 8, 16},
					.most = 1 << 20};

	(void)state;
	assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
	assert_non_null(text.code);
	launch.code = text.code;
	launch.bytes = text.bytes;
	launch.sm = text.sm;
	assert_int_equal(threads_run(&launch, extent), -E2BIG);
	launch.grid[0] = launch.grid[1] = launch.grid[2] = 1;
	assert_int_equal(threads_run(&launch, extent), 0);
	launch.most = 3;
	assert_int_equal(threads_run(&launch, extent), -E2BIG);
	launch.most = 1 << 24; /* but until when? */
	launch.grid[0] = 200;
	launch.alone = true;
	assert_int_equal(threads_run(&launch, extent), 0);
	launch.until = UINT64_MAX;
	assert_int_equal(threads_run(&launch, extent), 0);
	launch.until = 1;
	assert_int_equal(threads_run(&launch, extent), -E2BIG);
	launch.sm = 100; /* other opcodes */
	assert_int_equal(threads_run(&launch, extent), -EINVAL);
	free(text.code);
	free(file.at);
	code_table_free(&table);
}

/* Divisions by constants: stretches of blocks in which a quotient stays, or grows evenly, are found
 * at once. */
static void in_few_steps(void **state)
{
	static const struct {
		const char *name;
		struct shape shape;
		uint64_t most;
	} launches[] = {
		{"rows_in_common", {{2304, 1, 1}, {256, 1, 1}, 18432, 0, 0}, 120000},
		{"by_turns", {{9216, 1, 1}, {512, 1, 1}, 1 << 20, 0, 0}, 400000},
	};
	struct file file = code_file("threads_90a.cubin");

	(void)state;
	for (unsigned i = 0; i < sizeof(launches) / sizeof(*launches); i++) {
		struct code_text text = {0};
		struct code_table table = {.wanted = launches[i].name, .text = &text};
		struct threads_extent extent[3];

		assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
		assert_non_null(text.code);
		most = launches[i].most;
		assert_int_equal(run_with(&text, &launches[i].shape, 40, extent), 0);
		most = MOST;
		free(text.code);
		code_table_free(&table);
	}
	free(file.at);
}

#define ARCH(n)                                                                                    \
	static void on_sm_##n(void **state)                                                        \
	{                                                                                          \
		(void)state;                                                                       \
		try_all(#n);                                                                       \
	}
ARCH(75)
ARCH(80)
ARCH(86)
ARCH(89)
ARCH(90a)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_sm_75),	  cmocka_unit_test(on_sm_80),
		cmocka_unit_test(on_sm_86),	  cmocka_unit_test(on_sm_89),
		cmocka_unit_test(on_sm_90a),	  cmocka_unit_test(any_code),
		cmocka_unit_test(too_much),	  cmocka_unit_test(predicate_of_warp),
		cmocka_unit_test(ends_early),	  cmocka_unit_test(may_depart),
		cmocka_unit_test(random_kernels), cmocka_unit_test(in_few_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
