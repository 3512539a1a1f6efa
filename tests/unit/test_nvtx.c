/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges reach a tool that is in the process; one that is only named is not brought in, and without
 * a name nothing is looked for. Each case in a process of its own: NVTX starts once.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"
#include "shim/gpu/nvtx.h"
#include "tests/unit/child.h"

#ifndef TOOL
#error "TOOL: the stand-in for a profiler"
#endif

static const struct attn_variant variant = {.name = "tma_f16_d64"};
static const struct attn_args args = {.B = 8, .H = 16, .Sq = 512, .Sk = 500, .D = 64, .Dv = 64};

static int is_loaded(void)
{
	return dlopen(TOOL, RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

static const char *heard(void)
{
	const char *(*ask)(void) = NULL;
	void *tool = dlopen(TOOL, RTLD_LAZY | RTLD_NOLOAD);

	*(void **)&ask = tool ? dlsym(tool, "nvtx_tool_heard") : NULL;
	return ask ? ask() : "";
}

static void launch(const char *what)
{
	bool pushed;

	nvtx_look();
	pushed = nvtx_push(what, &variant, &args);
	nvtx_pop(pushed);
}

static void without_a_name(void *unused)
{
	(void)unused;
	unsetenv("NVTX_INJECTION64_PATH");
	launch("fused");
	CHECK(!is_loaded());
	/* settled: a name that comes later is the program's own affair */
	setenv("NVTX_INJECTION64_PATH", TOOL, 1);
	CHECK(dlopen(TOOL, RTLD_NOW));
	launch("fused");
	CHECK(strcmp(heard(), "") == 0);
}

static void only_named(void *unused)
{
	(void)unused;
	setenv("NVTX_INJECTION64_PATH", TOOL, 1);
	launch("fused");
	CHECK(!is_loaded());
	/* the program starts to use it */
	CHECK(dlopen(TOOL, RTLD_NOW));
	launch("fused");
	launch("compare");
	CHECK(strcmp(heard(),
		     "loaded;"
		     "+fashim;:fused attention B8 H16 512x500 D64: tma_f16_d64;-fashim;"
		     "+fashim;:compare attention B8 H16 512x500 D64: tma_f16_d64;-fashim;") == 0);
}

static void seen_too_late(void *unused)
{
	bool pushed;

	(void)unused;
	setenv("NVTX_INJECTION64_PATH", TOOL, 1);
	CHECK(dlopen(TOOL, RTLD_NOW));
	pushed = nvtx_push("fused", &variant, &args); /* nobody looked */
	nvtx_look();
	nvtx_pop(pushed);
	CHECK(strcmp(heard(), "loaded;") == 0);
}

static void passes(void (*body)(void *))
{
	struct child child;

	child_run(&child, NULL, body, NULL);
	assert_true(child_passed(&child));
}

static void test_without_a_name(void **state)
{
	passes(without_a_name);
}

static void test_only_named(void **state)
{
	passes(only_named);
}

static void test_seen_too_late(void **state)
{
	passes(seen_too_late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_name),
		cmocka_unit_test(test_only_named),
		cmocka_unit_test(test_seen_too_late),
	};

	return cmocka_run_group_tests_name("nvtx", tests, NULL, NULL);
}
