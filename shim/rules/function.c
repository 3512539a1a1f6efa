/* SPDX-License-Identifier: Apache-2.0
 *
 * An open-addressing table of kernels by handle. Runtime-API programs hand us CUkernels cast to
 * CUfunction, for which only the cuKernel* getters answer; both families are tried.
 */
#include "shim/rules/function.h"

#include <stdlib.h>
#include <string.h>

#include "shim/real/driver.h"
#include "shim/base/cost.h"
#include "shim/base/hash.h"
#include "shim/code/kernel_code.h"
#include "shim/code/kernel_names.h"
#include "shim/rules/rules.h"
#include "shim/base/message.h"

#define RETIRED 256 /* lists */

static struct function **slots;
static size_t slot_count, used;
static struct function *retired[RETIRED]; /* of modules that are gone, by name */
static uint32_t next_id = 1;

static size_t slot_of(CUfunction handle, size_t count)
{
	return (size_t)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 20) & (count - 1);
}

static void ask_name(struct function *function)
{
	const char *name = NULL;

	if (!driver.cuFuncGetName ||
	    driver.cuFuncGetName(&name, function->handle) != CUDA_SUCCESS || !name) {
		name = NULL;
		if (!driver.cuKernelGetName ||
		    driver.cuKernelGetName(&name, (CUkernel)function->handle) != CUDA_SUCCESS)
			name = NULL;
	}
	function->name = name ? strdup(name) : kernel_name(function->handle);
	if (!function->name)
		function->name = strdup("?");
	function->name_hash =
		function->name ? hash_bytes(0, function->name, strlen(function->name)) : 0;
}

static CUresult param_info(const struct function *function, unsigned i, size_t *offset,
			   size_t *size)
{
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (driver.cuFuncGetParamInfo)
		result = driver.cuFuncGetParamInfo(function->handle, i, offset, size);
	if (result != CUDA_SUCCESS && driver.cuKernelGetParamInfo)
		result = driver.cuKernelGetParamInfo((CUkernel)function->handle, i, offset, size);
	return result;
}

/* Behind the last one the driver says no, and says it again. */
static bool has_param(const struct function *function, unsigned i, size_t *offset, size_t *size)
{
	return param_info(function, i, offset, size) == CUDA_SUCCESS ||
	       param_info(function, i, offset, size) == CUDA_SUCCESS;
}

/* Of drivers that do not tell. */
static void read_params(struct function *function)
{
	const int count = kernel_code_layout(function->handle, function->name, FUNCTION_MAX_PARAMS,
					     function->param_offset, function->param_size);

	if (count < 0)
		return;
	if (count)
		function->bytes =
			function->param_offset[count - 1] + function->param_size[count - 1];
	function->param_count = (unsigned)count;
	function->readable = function->bytes <= FUNCTION_MAX_BYTES;
}

static void ask_params(struct function *function)
{
	size_t offset, size;
	unsigned i;

	if (!driver.cuFuncGetParamInfo && !driver.cuKernelGetParamInfo) {
		read_params(function);
		return;
	}
	for (i = 0; has_param(function, i, &offset, &size); i++) {
		if (i == FUNCTION_MAX_PARAMS || offset + size > FUNCTION_MAX_BYTES)
			return;
		function->param_offset[i] = (unsigned)offset;
		function->param_size[i] = (unsigned)size;
		function->bytes = (unsigned)(offset + size);
	}
	function->param_count = i;
	function->readable = true;
}

/* CuPy's own kernels take an indexer last: a number of elements, their shape, and room for as many
 * words in which they work; it comes with whatever the stack held. */
static void clear_indexer(const struct function *function, unsigned char *bytes)
{
	const unsigned last = function->param_count - 1, size = function->param_size[last];
	const unsigned dims = size / 16;
	unsigned char *indexer = bytes + function->param_offset[last];
	uint64_t elements, extent, product = 1;

	if (size % 16 != 8 || !dims)
		return;
	memcpy(&elements, indexer, 8);
	for (unsigned d = 1; d <= dims; d++) {
		memcpy(&extent, indexer + 8 * d, 8);
		product *= extent;
	}
	if (product == elements)
		memset(indexer + 8 * (1 + dims), 0, 8 * dims);
}

static void bind_unset(struct function *function)
{
	static const struct {
		const char *beginning;
		void (*clear)(const struct function *function, unsigned char *bytes);
	} rows[] = {
#define UNSET(which, beginning) {beginning, clear_##which},
#include "shim/rules/kernel_rules.def"
#undef UNSET
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (function->param_count &&
		    !strncmp(function->name, rows[i].beginning, strlen(rows[i].beginning)))
			function->clear_unset = rows[i].clear;
}

static struct function **list_of(const struct function *function)
{
	return &retired[function->name_hash % RETIRED];
}

/* One that is gone, of the same name and parameters: who still refers to it finds what it expects,
 * and a program that loads a module again and again does not make us grow. Its number is a new one,
 * since the code may be another. */
static struct function *revive(const struct function *fresh)
{
	for (struct function **at = list_of(fresh); *at; at = &(*at)->older) {
		struct function *function = *at;

		if (strcmp(function->name, fresh->name) != 0 ||
		    function->readable != fresh->readable ||
		    function->param_count != fresh->param_count ||
		    memcmp(function->param_offset, fresh->param_offset,
			   sizeof(fresh->param_offset)) != 0 ||
		    memcmp(function->param_size, fresh->param_size, sizeof(fresh->param_size)) != 0)
			continue;
		*at = function->older;
		function->older = NULL;
		function->handle = fresh->handle;
		function->id = fresh->id;
		if (function->code)
			*function->code = 0;
		return function;
	}
	return NULL;
}

/* The driver loads a kernel's code when it is first asked about it, which takes a millisecond; else
 * the launch that follows would have had it loaded. The questions themselves take microseconds. */
static void ask_driver(struct function *function)
{
	const struct cost outer = cost_pause();

	ask_name(function);
	if (function->name)
		ask_params(function);
	cost_end(outer);
}

static struct function *make(CUfunction handle)
{
	struct function *function = calloc(1, sizeof(*function)), *older;

	if (!function)
		return NULL;
	function->handle = handle;
	function->id = next_id++;
	ask_driver(function);
	if (!function->name) {
		free(function);
		return NULL;
	}
	older = revive(function);
	if (older) {
		free(function->name);
		free(function);
		return older;
	}
	rules_bind(function);
	bind_unset(function);
	message_debug("%s: %s", function->rule ? "a rule" : "no rule", function->name);
	function->words = calloc(1, sizeof(*function->words));
	function->code = calloc(1, sizeof(*function->code));
	return function;
}

static bool grow(void)
{
	size_t wanted = slot_count ? slot_count * 2 : 512;
	struct function **fresh = calloc(wanted, sizeof(*fresh));

	if (!fresh)
		return false;
	for (size_t i = 0; i < slot_count; i++) {
		size_t at;

		if (!slots[i])
			continue;
		for (at = slot_of(slots[i]->handle, wanted); fresh[at];
		     at = (at + 1) & (wanted - 1))
			;
		fresh[at] = slots[i];
	}
	free(slots);
	slots = fresh;
	slot_count = wanted;
	return true;
}

const struct function *function_get(CUfunction handle)
{
	struct function *function;
	size_t at;

	if (used * 2 >= slot_count && !grow())
		return NULL;
	for (at = slot_of(handle, slot_count); slots[at]; at = (at + 1) & (slot_count - 1))
		if (slots[at]->handle == handle)
			return slots[at];
	COST(PURPOSE_HOOKS); /* once: no lot is drawn for it */
	function = make(handle);
	if (!function)
		return NULL;
	slots[at] = function;
	used++;
	return function;
}

/* Functions already handed out stay in memory: sites and chains refer to them. */
void function_forget_all(void)
{
	for (size_t i = 0; i < slot_count; i++)
		if (slots[i]) {
			struct function **list = list_of(slots[i]);

			slots[i]->older = *list;
			*list = slots[i];
		}
	if (slots)
		memset(slots, 0, slot_count * sizeof(*slots));
	used = 0;
}

/* Most are a word or two. */
static void copy_param(unsigned char *to, const void *from, unsigned size)
{
	switch (size) {
	case 4:
		memcpy(to, from, 4);
		break;
	case 8:
		memcpy(to, from, 8);
		break;
	default:
		memcpy(to, from, size);
	}
}

static bool copy_params(const struct function *function, const struct op_launch *launch,
			unsigned char *bytes)
{
	unsigned end = 0;

	if (launch->params) {
		for (unsigned i = 0; i < function->param_count; i++) {
			const unsigned offset = function->param_offset[i];

			if (offset > end) /* gaps between parameters must compare equal */
				memset(bytes + end, 0, offset - end);
			copy_param(bytes + offset, launch->params[i], function->param_size[i]);
			end = offset + function->param_size[i];
		}
		return true;
	}
	if (launch->extra) {
		const void *buffer = NULL;
		size_t size = 0;

		for (void **word = launch->extra; *word != CU_LAUNCH_PARAM_END; word += 2) {
			if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER)
				buffer = word[1];
			else if (*word == CU_LAUNCH_PARAM_BUFFER_SIZE)
				size = *(size_t *)word[1];
			else
				return false;
		}
		if (!buffer || size < function->bytes)
			return false;
		memcpy(bytes, buffer, function->bytes);
		return true;
	}
	return function->param_count == 0;
}

bool function_read_params(const struct function *function, const struct op_launch *launch,
			  unsigned char *bytes)
{
	if (!function->readable || !copy_params(function, launch, bytes))
		return false;
	if (function->clear_unset)
		function->clear_unset(function, bytes);
	return true;
}

/* May one begin there, in a parameter of such a size? A struct may be packed, and yet come out
 * even: then at any byte. In large ones numbers that lie next to each other would be taken for one.
 */
static bool may_begin(unsigned size, unsigned at)
{
	return at % 8 && (size % 8 || size <= 64);
}

/* What ends in a small number is two: sizes and counts. */
bool function_hides_address(const struct function *function, const unsigned char *params,
			    bool (*leads)(uint64_t address))
{
	const unsigned *offset = function->param_offset, *size = function->param_size;

	for (unsigned i = 0; i < function->param_count; i++) {
		const bool halves = size[i] == 4 && i + 1 < function->param_count &&
				    size[i + 1] == 4 && offset[i + 1] == offset[i] + 4;
		const unsigned end = offset[i] + (halves ? 8 : size[i]);
		const bool packed = size[i] > 8;
		uint64_t word;

		for (unsigned at = offset[i]; at + 8 <= end && (halves || packed); at++) {
			memcpy(&word, params + at, 8);
			if ((halves || may_begin(size[i], at)) && !(word >> 56) &&
			    (uint32_t)word >> 16 && leads(word))
				return true;
			if (halves)
				break;
		}
	}
	return false;
}
