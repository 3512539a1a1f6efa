/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read of kernels' images: facts of kernels whose deeds are known (kernel_code_kernels.cu),
 * the same from every kind of image, what happens when images come and go, and inputs that are cut
 * off or changed, which end at a page that cannot be read.
 */
#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/code/kernel_code.h"
#include "shim/code/kernel_code_parts.h"
#include "shim/real/driver.h"
#include "code_expected.h"
#include "code_fixture.h"

/* ---- a driver with one GPU, or two --------------------------------------------------------------
 */

struct driver_calls driver;
static int gpus[2] = {90, 0};
static CUmodule module_answer;
static CUlibrary library_answer;

static CUresult device_get(CUdevice *device, int i)
{
	*device = i;
	return i < 2 && gpus[i] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult device_attribute(int *value, CUdevice_attribute what, CUdevice device)
{
	*value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? gpus[device] / 10
								      : gpus[device] % 10;
	return CUDA_SUCCESS;
}

static CUresult function_module(CUmodule *module, CUfunction function)
{
	(void)function;
	*module = module_answer;
	return module_answer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult kernel_library(CUlibrary *library, CUkernel kernel)
{
	(void)kernel;
	*library = library_answer;
	return library_answer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int driver_resolve(void)
{
	driver.cuDeviceGet = device_get;
	driver.cuDeviceGetAttribute = device_attribute;
	driver.cuFuncGetModule = function_module;
	driver.cuKernelGetLibrary = kernel_library;
	return 0;
}

static int read_image(const unsigned char *image, size_t bytes, uint16_t sm, uint16_t other,
		      struct code_table *table)
{
	const struct code_targets targets = {.count = other ? 2 : 1, .sm = {sm, other}};
	int result;

	*table = (struct code_table){.layouts = true};
	result = code_read_image(image, bytes, &targets, table);
	code_table_sort(table);
	return result;
}

static void test_cubins(void **state)
{
	static const struct {
		const char *name;
		uint16_t sm;
		enum traced traced;
	} rows[] = {{"sm_75.cubin", 75, TRACED},     {"sm_80.cubin", 80, TRACED},
		    {"sm_86.cubin", 86, TRACED},     {"sm_89.cubin", 89, TRACED},
		    {"sm_90a.cubin", 90, TRACED},    {"sm_100a.cubin", 100, UNTRACED},
		    {"sm_120.cubin", 120, UNTRACED}, {"compute_80.ptx", 80, UNTRACED},
		    {"linked.cubin", 90, WITHIN}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct file file = code_file(rows[i].name);
		struct code_table table;

		assert_int_equal(read_image(file.at, file.bytes, rows[i].sm, 0, &table), 0);
		assert_kernels(&table, rows[i].name, rows[i].sm >= 90, rows[i].traced);
		assert_layouts(&table, rows[i].name);
		code_table_free(&table);
		free(file.at);
	}
}

/* Packed in whatever way, the same is read of a fat binary; the GPU says which entry. */
static void test_fat_binaries(void **state)
{
	static const char *const modes[] = {"default", "size", "speed", "balance", "none"};
	static const struct {
		uint16_t sm, other;
		bool sm90;
	} targets[] = {{75, 0, false}, {80, 0, false}, {86, 0, false},	{89, 0, false},
		       {90, 0, true},  {100, 0, true}, {103, 0, false}, {120, 0, true},
		       {121, 0, true}, {90, 75, false}};

	for (size_t i = 0; i < 5; i++)
		for (size_t j = 0; j < sizeof(targets) / sizeof(*targets); j++) {
			char name[64];
			struct file file;
			struct code_table table;

			snprintf(name, sizeof(name), "%s.fatbin", modes[i]);
			file = code_file(name);
			assert_int_equal(read_image(file.at, file.bytes, targets[j].sm,
						    targets[j].other, &table),
					 0);
			assert_kernels(&table, name, targets[j].sm90,
				       targets[j].sm <= 90 ? TRACED : UNTRACED);
			assert_layouts(&table, name);
			code_table_free(&table);
			free(file.at);
		}
}

/* The first attribute of that kind and size becomes `value` in its byte `at`. false: there is none.
 */
static bool change_attribute(struct file *file, const unsigned char head[4], size_t at,
			     unsigned char value)
{
	for (size_t i = 0; i + 16 <= file->bytes; i += 4)
		if (!memcmp(file->at + i, head, 4)) {
			file->at[i + at] = value;
			return true;
		}
	return false;
}

/* Attributes that contradict one another are not believed: whatever is changed of one, some kernel
 * is no longer known, and no other answer than the right one is given. */
static void test_layouts_contradict(void **state)
{
	static const unsigned char parameter[4] = {4, 0x17, 12, 0}, all[4] = {3, 0x19, 56 + 64, 0};
	static const struct {
		const unsigned char *head;
		size_t at;
		unsigned char value;
	} rows[] = {{parameter, 2, 16}, {parameter, 8, 63},   {parameter, 10, 200},
		    {parameter, 14, 0}, {parameter, 14, 255}, {all, 2, 121}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct file file = code_file("sm_90a.cubin");
		struct code_table table;
		struct code_layout layout;
		unsigned unknown = 0;

		assert_true(change_attribute(&file, rows[i].head, rows[i].at, rows[i].value));
		assert_int_equal(read_image(file.at, file.bytes, 90, 0, &table), 0);
		for (size_t k = 0; code_expected(k); k++)
			unknown += !code_table_layout(&table, code_expected(k), &layout);
		if (unknown != 1)
			fail_msg("change %zu made %u layouts unknown", i, unknown);
		code_table_free(&table);
		free(file.at);
	}
}

/* Parameters of a text in every form. */
static void test_text_layouts(void **state)
{
	static const struct {
		const char *parameters;
		struct code_layout layout; /* 65: not known */
	} rows[] = {
		{"", {0}},
		{"()", {0}},
		{"(.param .u64 a)", {1, {0}, {8}}},
		{"(.param .u64 .ptr .global .align 16 a, .param .u8 b)", {2, {0, 8}, {8, 1}}},
		{"(.param .u8 a, .param .align 8 .b8 b[24], .param .f16 c)",
		 {3, {0, 8, 32}, {1, 24, 2}}},
		{"(.param .align 1 .b8 a[3], .param .align 4 .b8 b[5], .param .b64 c)",
		 {3, {0, 4, 16}, {3, 5, 8}}},
		{"(.param .texref a)", {65, {0}, {0}}},
		{"(.param .u64 a, .param .strange b)", {65, {0}, {0}}},
		{"(.param .align 3 .b8 a[4])", {65, {0}, {0}}},
		{"(.param .b8 a[70000])", {65, {0}, {0}}},
		{"(.param .b8 a[])", {65, {0}, {0}}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct code_table table;
		struct code_layout layout;
		char image[256];

		snprintf(image, sizeof(image), ".version 8.0\n.target sm_80\n.entry k%s { ret; }\n",
			 rows[i].parameters);
		assert_int_equal(read_image((unsigned char *)image, strlen(image), 80, 0, &table),
				 0);
		if (rows[i].layout.count <= CODE_PARAMS)
			assert_layout(&table, rows[i].parameters, "k", &rows[i].layout);
		else if (code_table_layout(&table, "k", &layout))
			fail_msg("%s is taken to be known", rows[i].parameters);
		code_table_free(&table);
	}
}

/* Two images that do not agree, of one kernel. */
static void test_layouts_differ(void **state)
{
	static const struct code_layout one = {2, {0, 8}, {8, 4}}, other = {2, {0, 8}, {8, 8}};
	struct code_layout found;

	for (int differ = 0; differ < 2; differ++) {
		struct code_table table = {.layouts = true};

		assert_true(code_table_add(&table, "k", 1, 0) && code_table_place(&table, &one));
		assert_true(code_table_add(&table, "k", 1, DEED_ATOMICS));
		assert_true(code_table_add(&table, "k", 1, 0) &&
			    code_table_place(&table, differ ? &other : &one));
		code_table_sort(&table);
		assert_int_equal(code_table_layout(&table, "k", &found), !differ);
		assert_int_equal(code_table_deeds(&table, "k"), DEED_ATOMICS);
		code_table_free(&table);
	}
}

/* What the linker has not seen may call anything. */
static void test_not_linked(void **state)
{
	struct file file = code_file("linked.o.cubin");
	struct code_table table;

	assert_int_equal(read_image(file.at, file.bytes, 90, 0, &table), -EINVAL);
	code_table_free(&table);
	free(file.at);
}

/* Code for one GPU alone may not be what another runs: then the text counts as well. */
static void test_what_fits(void **state)
{
	static const uint16_t sm[] = {70, 90, 103, 110};
	static const bool plain[] = {false, true, true, true}, map[] = {false, true, true, false};
	struct file file = code_file("size.fatbin");

	for (size_t i = 0; i < 4; i++) {
		struct code_table table;

		assert_int_equal(read_image(file.at, file.bytes, sm[i], 0, &table), 0);
		assert_int_equal(!(code_table_deeds(&table, "plain") & DEED_UNKNOWN), plain[i]);
		assert_int_equal(!(code_table_deeds(&table, "through_map") & DEED_UNKNOWN), map[i]);
		code_table_free(&table);
	}
	free(file.at);
}

/* ---- images that are no such --------------------------------------------------------------------
 */

static void test_images_cut_and_changed(void **state)
{
	static const char *const names[] = {"sm_75.cubin", "sm_90a.cubin", "compute_80.ptx",
					    "size.fatbin", "none.fatbin"};
	struct file files[5] = {{0}};

	for (unsigned round = 0; round < 1500; round++) {
		struct file *of = &files[round % 5];
		struct code_table table;
		struct room room;
		size_t bytes;
		unsigned char *in;

		if (!of->at)
			*of = code_file(names[round % 5]);
		bytes = round % 2 ? of->bytes : any((uint32_t)of->bytes);
		room = room_make(bytes + 8);
		in = room_last(&room, (bytes + 7) & ~(size_t)7);
		memcpy(in, of->at, bytes);
		for (unsigned changes = round % 2 ? 1 + any(64) : 0; changes; changes--)
			in[any(any(2) ? 4096 : (uint32_t)bytes)] ^= (unsigned char)(1 + any(255));
		/* Headers and tables too, where a changed byte leads farthest. */
		if (round % 4 == 1 && round % 5 < 2)
			in[bytes - 1 - any(8192)] ^= (unsigned char)(1 + any(255));
		(void)read_image(in, bytes, 90, 0, &table);
		code_table_free(&table);
		room_free(&room);
	}
	for (unsigned i = 0; i < 5; i++)
		free(files[i].at);
}

/* Every instruction of the table is one: another makes the kernel unknown. */
static void test_unknown_instruction(void **state)
{
	struct file file = code_file("sm_90a.cubin");
	struct code_table table;
	unsigned char *at;
	const uint64_t nop[2] = {0x7918, 0x000fc00000000000},
		       other[2] = {0x71f7, 0x000fc00000000000};
	unsigned changed = 0;

	for (at = file.at; (size_t)(at - file.at) + 16 <= file.bytes; at += 16)
		if (!memcmp(at, nop, 16) && ++changed)
			memcpy(at, other, 16);
	assert_true(changed > 0);
	assert_int_equal(read_image(file.at, file.bytes, 90, 0, &table), 0);
	assert_true(code_table_deeds(&table, "plain") & DEED_UNKNOWN);
	code_table_free(&table);
	free(file.at);
}

/* A kernel that does not begin where its section does. */
static void test_later_entry(void **state)
{
	struct file file = code_file("sm_90a.cubin");
	const Elf64_Ehdr *head = (const void *)file.at;
	const Elf64_Shdr *section = (const void *)(file.at + head->e_shoff);
	struct code_table table;

	(void)state;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		Elf64_Sym *symbol = (void *)(file.at + section[i].sh_offset);

		for (size_t k = 0;
		     section[i].sh_type == SHT_SYMTAB && k < section[i].sh_size / sizeof(*symbol);
		     k++)
			symbol[k].st_value += ELF64_ST_TYPE(symbol[k].st_info) == STT_FUNC ? 16 : 0;
	}
	assert_int_equal(read_image(file.at, file.bytes, 90, 0, &table), 0);
	assert_true(code_table_deeds(&table, "plain") & CODE_UNPROVEN);
	code_table_free(&table);
	free(file.at);
}

/* ---- images come and go -------------------------------------------------------------------------
 */

#define HANDLE(number) ((void *)(uintptr_t)(number))

static const char text[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".const .align 4 .f32 factor;\n"
	".visible .global .attribute(.managed) .align 4 .u32 count[4] = {0, 1, 2, 3}, other;\n"
	".extern .func gone;\n"
	"// .entry commented(){ ret; }\n"
	".visible .entry good(.param .u64 good_0)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"
	"ld.param.u64 %rd1, [good_0];\n{ mov.b64 {%r1, %r2}, %rd1; }\n@!%p1 bra DONE;\n"
	"ld.global.v2.u32 {%r1, %r2}, [%rd1];\nDONE: st.global.u32 [%rd1], %r1;\nret;\n}\n"
	".visible .entry counts()\n{\nst.global.u32 [other], 1;\nret;\n}\n"
	".visible .entry scaled()\n{\nld.const.f32 %f1, [factor];\nret;\n}\n"
	".visible .entry strange()\n{\nfrobnicate.u32 %r1, %r2;\nret;\n}\n"
	".visible .entry nested()\n{\ncall.uni shallow;\nret;\n}\n"
	".func shallow()\n{\ncall.uni (%r1), deep, (%r2);\nret;\n}\n"
	".func deep()\n{\nst.global.u32 [other], 1;\nret;\n}\n"
	".visible .entry calls()\n{\ncall.uni gone;\nret;\n}\n";

static const char *hindrance(const char *name, void *handle)
{
	uint32_t code = 0;
	char copy[64];
	const char *first;

	snprintf(copy, sizeof(copy), "%s", name);
	module_answer = handle;
	first = kernel_code_hindrance(HANDLE(77), copy, &code);
	/* Asked again, it says the same. */
	if (first)
		assert_string_equal(kernel_code_hindrance(HANDLE(77), copy, &code), first);
	else
		assert_null(kernel_code_hindrance(HANDLE(77), copy, &code));
	module_answer = NULL;
	return first;
}

#define UNKNOWN "its code is not known"

static void assert_text(void *handle)
{
	assert_null(hindrance("good", handle));
	assert_string_equal(hindrance("counts", handle), "it uses variables of its module");
	assert_string_equal(hindrance("nested", handle), "it uses variables of its module");
	assert_string_equal(hindrance("calls", handle), "it calls functions of the driver's");
	assert_string_equal(hindrance("strange", handle), UNKNOWN);
	assert_string_equal(hindrance("commented", handle), UNKNOWN);
	assert_string_equal(hindrance("absent", handle), UNKNOWN);
}

/* The text in this program's file stays, a copy does not. */
static void test_loaded(void **state)
{
	char *copy = strdup(text);

	assert_string_equal(hindrance("good", HANDLE(1)), UNKNOWN);
	errno = 1234;
	kernel_code_loaded(HANDLE(1), text);
	kernel_code_loaded(HANDLE(2), copy);
	assert_int_equal(errno, 1234);
	memset(copy, 'x', strlen(copy));
	free(copy);
	assert_text(HANDLE(1));
	assert_text(HANDLE(2));
	kernel_code_unloaded(HANDLE(1));
	assert_string_equal(hindrance("good", HANDLE(1)), UNKNOWN);
	assert_null(hindrance("good", HANDLE(2)));
	/* A handle given out again. */
	kernel_code_loaded(HANDLE(2), "what the driver would not take");
	assert_string_equal(hindrance("good", HANDLE(2)), UNKNOWN);
	kernel_code_unloaded(HANDLE(2));
	kernel_code_unloaded(HANDLE(3));
}

static void test_file(void **state)
{
	char path[] = "/tmp/test_kernel_code_XXXXXX";
	const int file = mkstemp(path);

	assert_true(file >= 0);
	assert_int_equal(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
	close(file);
	kernel_code_loaded_file(HANDLE(4), path);
	unlink(path);
	assert_text(HANDLE(4));
	kernel_code_loaded_file(HANDLE(4), path);
	assert_string_equal(hindrance("good", HANDLE(4)), UNKNOWN);
	kernel_code_unloaded(HANDLE(4));
}

/* A kernel's library, and the module that it is in a context. */
static void test_libraries(void **state)
{
	kernel_code_loaded(HANDLE(5), text);
	library_answer = HANDLE(5);
	assert_null(hindrance("good", NULL));
	library_answer = NULL;
	assert_string_equal(hindrance("good", HANDLE(6)), UNKNOWN);
	kernel_code_same(HANDLE(6), HANDLE(5));
	assert_text(HANDLE(6));
	kernel_code_unloaded(HANDLE(5));
	assert_string_equal(hindrance("good", HANDLE(6)), UNKNOWN);
	/* The module's handle, given out again for something else. */
	kernel_code_loaded(HANDLE(6), text);
	assert_null(hindrance("good", HANDLE(6)));
	kernel_code_unloaded(HANDLE(6));
}

/* Constants are what the image says until the program is told where they are. */
static void test_constants(void **state)
{
	kernel_code_loaded(HANDLE(7), text);
	kernel_code_same(HANDLE(8), HANDLE(7));
	assert_null(hindrance("scaled", HANDLE(7)));
	assert_null(hindrance("scaled", HANDLE(8)));
	assert_true(kernel_code_exposed(HANDLE(8)));
	assert_false(kernel_code_exposed(HANDLE(7))); /* no news */
	assert_string_equal(hindrance("scaled", HANDLE(7)),
			    "it reads constants that the program may have set");
	assert_null(hindrance("good", HANDLE(7)));
	kernel_code_unloaded(HANDLE(7));
	kernel_code_unloaded(HANDLE(8));
	/* One that nobody told of may be a library's. */
	kernel_code_loaded(HANDLE(7), text);
	assert_false(kernel_code_exposed(HANDLE(7))); /* nobody asked about its kernels */
	kernel_code_unloaded(HANDLE(7));
	kernel_code_loaded(HANDLE(7), text);
	assert_null(hindrance("scaled", HANDLE(7)));
	assert_true(kernel_code_exposed(HANDLE(99)));
	assert_false(kernel_code_exposed(HANDLE(98)));
	assert_non_null(hindrance("scaled", HANDLE(7)));
	assert_null(hindrance("good", HANDLE(7)));
	kernel_code_unloaded(HANDLE(7));
}

/* What cudart hands over: a wrapper, here around a fat binary that is freed afterwards. */
static void test_wrapper(void **state)
{
	struct file file = code_file("size.fatbin");
	struct {
		uint32_t magic, version;
		const void *image, *other;
	} wrapper = {0x466243b1, 1, file.at, NULL};

	kernel_code_loaded(HANDLE(9), &wrapper);
	memset(file.at, 0, file.bytes);
	free(file.at);
	assert_null(hindrance("plain", HANDLE(9)));
	assert_string_equal(hindrance("adds", HANDLE(9)), "it works together with other blocks");
	kernel_code_unloaded(HANDLE(9));
}

/* An image that stays is read for one kernel and again for others, then for all. */
#ifdef CODE_EMBEDDED
__asm__(".pushsection .rodata\n.balign 16\nembedded_cubin: .incbin \"" CODE_EMBEDDED
	"\"\n.popsection");
extern const unsigned char embedded_cubin[] __attribute__((visibility("hidden")));
static const unsigned char *const embedded = embedded_cubin;
#else
static const unsigned char *const embedded = NULL;
#endif

static void test_where_addresses_come_from(void **state)
{
	static const struct {
		const char *name;
		enum code_reach reach;
	} rows[] = {{"listed", CODE_FOLLOWS},  {"plain", CODE_NEAR},
		    {"staged", CODE_BY_VALUE}, {"tails", CODE_NEAR},
		    {"linked", CODE_BY_VALUE}, {"described", CODE_FOLLOWS},
		    {"absent", CODE_BY_VALUE}};

	if (!embedded)
		skip();
	kernel_code_loaded(HANDLE(11), embedded);
	module_answer = HANDLE(11);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint32_t code = 0;

		for (int again = 0; again < 2; again++)
			if (kernel_code_reach(HANDLE(77), rows[i].name, &code) != rows[i].reach)
				fail_msg("%s", rows[i].name);
	}
	assert_string_equal(hindrance("listed", HANDLE(11)),
			    "it follows addresses that it finds in memory");
	assert_null(hindrance("plain", HANDLE(11)));
	kernel_code_unloaded(HANDLE(11));
}

/* What a simulated GPU loads says of its kernels itself what they do. */
static void test_simulated(void **state)
{
	kernel_code_loaded_file(HANDLE(10), BUILD_FOLDER "/apps/sim/hazards.kernels");
	assert_null(hindrance("app_scale_f16", HANDLE(10)));
	assert_string_equal(hindrance("reach_global", HANDLE(10)),
			    "it uses variables of its module");
	assert_string_equal(hindrance("reach_atomic", HANDLE(10)),
			    "it works together with other blocks");
	assert_string_equal(hindrance("absent", HANDLE(10)), UNKNOWN);
	kernel_code_unloaded(HANDLE(10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cubins),
		cmocka_unit_test(test_fat_binaries),
		cmocka_unit_test(test_layouts_contradict),
		cmocka_unit_test(test_text_layouts),
		cmocka_unit_test(test_layouts_differ),
		cmocka_unit_test(test_not_linked),
		cmocka_unit_test(test_what_fits),
		cmocka_unit_test(test_images_cut_and_changed),
		cmocka_unit_test(test_unknown_instruction),
		cmocka_unit_test(test_later_entry),
		cmocka_unit_test(test_loaded),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_wrapper),
		cmocka_unit_test(test_where_addresses_come_from),
		cmocka_unit_test(test_simulated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
