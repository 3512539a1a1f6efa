/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules from a file: kernels that were unknown become steps like any other, and lines that make no
 * sense are left out.
 */
#include "tests/unit/core.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/rules/function.h"
#include "shim/real/driver.h"
#include "shim/rules/rules_user.h"
#include "shim/site/site.h"
#include "tests/unit/child.h"

static const char *why;

/* Loads the text as a file; how many rules there are more. */
static int loaded(const char *text)
{
	static int before;
	char path[] = "/tmp/fashim-rules-XXXXXX";
	const int file = mkstemp(path);
	int count;

	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	close(file);
	count = rules_user_load(path, &why);
	unlink(path);
	assert_true(count >= before);
	count -= before;
	before += count;
	return count;
}

static void test_bad_lines(void **state)
{
	assert_int_equal(rules_user_load("/nowhere/at/all", &why), -ENOENT);
	assert_int_equal(loaded("\n  # a remark\n\t\n"), 0);
#define BAD(line)                                                                                  \
	do {                                                                                       \
		if (loaded(line "\n") != 0)                                                        \
			fail_msg("taken: %s", line);                                               \
	} while (0)
	BAD("alone");
	BAD("k nonsense out=p0");
	BAD("k mul out=p0 in=p1 factor=p2 count=10"); /* no dtype */
	BAD("k mul out=p0 in=p1 count=10 dtype=f16"); /* no factor */
	BAD("k mul out=p0 in=p1 factor=p2 count=10 dtype=f99");
	BAD("k mul out=p0 in=p1 factor=p2 count=10 dtype=f16 rows=3"); /* of softmax */
	BAD("k mul out=p0 in=p1 factor=p2 count=10 dtype=f16 out_dtype=f32");
	BAD("k mul out=p0 in=p1 factor=1,5 count=10 dtype=f16");
	BAD("k mul out=p0 in=p1 factor=p2 count=p dtype=f16");
	BAD("k mul out=p0 in=p1 factor=p2 count=p9999 dtype=f16");
	BAD("k mul out=p0 in=p1 factor count=10 dtype=f16");
	BAD("k mul out=p0 in=p1 factor=p2 count=10 dtype=f16 colour=3");
	BAD("k other count=10 dtype=f16");
#undef BAD
	assert_int_equal(loaded("good other in=p0 count=10 dtype=f16 # reads\n"
				"bad  other in=p0\n"
				"more tanh out=p0 in=p1 count=7 dtype=bf16"),
			 2);
}

static void refused(const char *path, const char *expected)
{
	alarm(CHILD_HANGS); /* nothing here may wait */
	why = "";
	assert_true(rules_user_load(path, &why) < 0);
	assert_string_equal(why, expected);
	alarm(0);
}

static void test_odd_files(void **state)
{
	static const char text[] = "k other in=p0 count=10 dtype=f16\n";
	char folder[] = "/tmp/fashim-rules-XXXXXX", path[64];
	int file;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	refused(path, "No such file or directory");
	refused(folder, "not a regular file");
	refused("/dev/zero", "not a regular file");
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(path, "not a regular file");
	assert_int_equal(unlink(path), 0);

	file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(file, 0622), 0);
	refused(path, "may be written by everyone");
	assert_int_equal(fchmod(file, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(file, 12345, 12345), 0);
		refused(path, "belongs to another user");
		assert_int_equal(fchown(file, 0, 0), 0);
	}
	assert_int_equal(ftruncate(file, INT64_C(16) << 30), 0);
	refused(path, "too large");
	close(file);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* Scores of the default shape: 3 * 32 * 40. */
#define SCORES "3840"

static int chain_of(struct op middle, struct op last)
{
	int taken = core_send(core_scores());

	taken += core_send(middle);
	taken += core_send(last);
	return taken + core_send(core_context());
}

static void learn(struct op middle, struct op last)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(chain_of(middle, last), 0);
	assert_int_equal(site_count, 1);
	assert_false(sites[0].by_data);
	below_reset();
	assert_int_equal(chain_of(middle, last), 4);
	assert_string_equal(core_acts(), "F");
}

static void test_factor(void **state)
{
	assert_int_equal(loaded("my_scale mul out=p0 in=p1 factor=p2 count=" SCORES " dtype=f16"),
			 1);
	core_begin();
	learn(core_named("my_scale_kernel", core.x, core.s, 0.375f), core_softmax(core.p, core.x));
	assert_true(below.args.spec.scale == 0.375f);
}

static void test_softmax(void **state)
{
	assert_int_equal(loaded("my_softmax softmax out=p0 in=p1 columns=40 rows=96 dtype=f16"), 1);
	core_begin();
	learn(core_scale(core.x, core.s, 0.5f), core_named("my_softmax_kernel", core.p, core.x, 0));
	assert_true(below.args.spec.scale == 0.5f);
}

/* (out, in, float) and a mask: the last pointer stands where the scalar would. */
static void test_bias(void **state)
{
	const size_t offset[3] = {0, 8, 16}, size[3] = {8, 8, 8};
	void *params[3] = {&core.x, &core.s, &core.mask};
	struct op op;

	assert_int_equal(loaded("my_bias add out=p0 in=p1 with=p2 count=" SCORES
				" period=1280 dtype=f16 with_dtype=bf16"),
			 1);
	core_begin();
	op = core_scale(core.x, core.s, 1);
	op.launch.function = below_function("my_bias_kernel", 3, offset, size);
	op.launch.params = params;
	learn(op, core_softmax(core.p, core.x));
	assert_int_equal(below.args.spec.bias[0].base, core.mask);
	assert_int_equal(below.args.spec.bias[0].dtype, ATTN_BF16);
	assert_int_equal(below.args.spec.bias[0].stride[1], 0);
	assert_int_equal(below.args.spec.bias[0].stride[2], core.Sk);
}

/* A writer beside attention: its exact extent keeps what lies behind it. */
static void test_other(void **state)
{
	assert_int_equal(loaded("my_writer other out=p0 count=100 dtype=f32"), 1);
	core_replaced();
	assert_false(core_send(core_named("my_writer", core.p - 400, 0, 0)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_named("my_writer", core.p, 0, 0)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_to_host(core.p, 4))); /* its own bytes by now */
	assert_string_equal(core_acts(), "");
}

/* A launch that is not as the rule expects stays unknown. */
static void test_misfit(void **state)
{
	assert_int_equal(loaded("my_misfit mul out=p2 in=p1 factor=p0 count=" SCORES " dtype=f16"),
			 1);
	core_begin();
	chain_of(core_named("my_misfit", core.x, core.s, 0.375f), core_softmax(core.p, core.x));
	assert_true(site_count == 0 || sites[0].by_data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_lines), cmocka_unit_test(test_odd_files),
		cmocka_unit_test(test_factor),	  cmocka_unit_test(test_softmax),
		cmocka_unit_test(test_bias),	  cmocka_unit_test(test_other),
		cmocka_unit_test(test_misfit),
	};

	setenv("FASHIM_LOG", "none", 1); /* bad lines are meant to be bad */
	return CORE_MAIN("rules_user", tests);
}
