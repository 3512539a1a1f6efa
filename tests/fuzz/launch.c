/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's launches: kernels of its own, and ATen's, with parameter blocks as PyTorch fills
 * them, garbage where it sets nothing. Each leaves the marks of what it wrote.
 */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#include "tests/apps/aten_blocks.h"
#include "tools/base/half.h"

static const char *const type_name[] = {"f16", "bf16", "f32"};

CUmodule load_module(void)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
	CUmodule module;

	if (length < 0)
		die("readlink", 1, __LINE__);
	strcpy(path + length, ".kernels");
	OK(cuModuleLoad(&module, path));
	return module;
}

CUfunction kernel_of(CUmodule module, const char *name)
{
	char full[96];
	CUfunction f;

	snprintf(full, sizeof(full), "fuzz_%s_%s", name, type_name[type]);
	OK(cuModuleGetFunction(&f, module, full));
	return f;
}

CUfunction kernel(const char *name)
{
	return kernel_of(here->module, name);
}

size_t blocks_of(size_t n, size_t each)
{
	return (n + each - 1) / each;
}

void launch(CUstream s, CUfunction f, size_t blocks, unsigned x, unsigned y, void **params)
{
	if (!here->dry)
		OK(cuLaunchKernel(f, (unsigned)blocks, 1, 1, x, y, 1, 0, s, params, NULL));
}

static void each(CUstream s, const char *name, size_t n, void **params)
{
	launch(s, kernel(name), blocks_of(n, 64), 64, 1, params);
}

static int deeper(int a, int b)
{
	return a > b ? a : b;
}

/* ---- kernels of its own ---------------------------------------------------------------------- */

void set_bytes(CUstream s, CUdeviceptr to, unsigned char value, size_t bytes)
{
	trace("set %llx bytes=%zu", to, bytes);
	if (!here->dry)
		OK(cuMemsetD8Async(to, value, bytes, s));
	mark(to, bytes, 0);
}

void copy_numbers(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n)
{
	trace("copy %llx <- %llx n=%zu", to, from, n);
	each(s, "copy", n, (void *[]){&to, &from, &n});
	mark_copy(to, from, n * width);
}

void random_numbers(CUstream s, CUdeviceptr to, uint64_t state, size_t n)
{
	unsigned word = (unsigned)state;

	trace("random %llx n=%zu", to, n);
	each(s, "random", n, (void *[]){&to, &word, &n});
	mark(to, n * width, 0);
}

void fill_numbers(CUstream s, CUdeviceptr to, float value, size_t n)
{
	trace("fill %llx n=%zu", to, n);
	each(s, "fill", n, (void *[]){&to, &value, &n});
	mark(to, n * width, 0);
}

void scale_numbers(CUstream s, CUdeviceptr to, CUdeviceptr from, float factor, size_t n)
{
	trace("scale %llx <- %llx n=%zu by %g", to, from, n, (double)factor);
	each(s, "scale", n, (void *[]){&to, &from, &factor, &n});
	mark(to, n * width, depth_of(from, n * width));
}

void add_mask(CUstream s, CUdeviceptr to, CUdeviceptr from, CUdeviceptr mask, size_t n,
	      size_t period)
{
	trace("add %llx <- %llx + %llx n=%zu", to, from, mask, n);
	each(s, "add", n, (void *[]){&to, &from, &mask, &n, &period});
	mark(to, n * width,
	     deeper(depth_of(from, n * width), depth_of(mask, (period < n ? period : n) * width)));
}

void split_heads(CUstream s, CUdeviceptr to, CUdeviceptr from, int rows, int heads, int depth)
{
	size_t n = (size_t)rows * (size_t)heads * (size_t)depth;

	trace("split %llx <- %llx", to, from);
	each(s, "split", n, (void *[]){&to, &from, &rows, &heads, &depth, &n});
	mark(to, n * width, depth_of(from, n * width));
}

void repeat_heads(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t size, int groups, int times)
{
	size_t n = size * (size_t)groups * (size_t)times;

	trace("repeat %llx <- %llx %d times", to, from, times);
	each(s, "repeat", n, (void *[]){&to, &from, &size, &times, &n});
	mark(to, n * width, depth_of(from, size * (size_t)groups * width));
}

/* ---- ATen's ---------------------------------------------------------------------------------- */

CUfunction aten(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, here->module, name));
	return f;
}

void aten_copy(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n)
{
	struct aten_pointers2 p = {{aten_pointer(to), aten_pointer(from)}};
	struct aten_empty_functor f;
	int count = (int)n;

	trace("aten copy %llx <- %llx n=%zu", to, from, n);
	launch(s, aten(TEXT(ATEN_COPY)), blocks_of(n, 512), 128, 1,
	       (void *[]){&count, aten_unset(&f, sizeof(f)), &p});
	mark_copy(to, from, n * width);
}

void aten_fill(CUstream s, CUdeviceptr to, float value, size_t n)
{
	struct aten_pointers1 p = {{aten_pointer(to)}};
	struct aten_fill_functor f = {float_to_f16(value)};
	int count = (int)n;

	trace("aten fill %llx n=%zu", to, n);
	launch(s, aten(TEXT(ATEN_FILL)), blocks_of(n, 512), 128, 1, (void *[]){&count, &f, &p});
	mark(to, n * width, 0);
}

void aten_scale(CUstream s, CUdeviceptr to, CUdeviceptr from, float factor, size_t n)
{
	struct aten_pointers2 p = {{aten_pointer(to), aten_pointer(from)}};
	struct aten_scalar_functor f = aten_factor(factor);
	int count = (int)n;

	trace("aten scale %llx <- %llx n=%zu by %g", to, from, n, (double)factor);
	launch(s, aten(TEXT(ATEN_SCALE)), blocks_of(n, 512), 128, 1, (void *[]){&count, &f, &p});
	mark(to, n * width, depth_of(from, n * width));
}

void aten_add_mask(CUstream s, CUdeviceptr to, CUdeviceptr from, CUdeviceptr mask, size_t n,
		   size_t period)
{
	struct aten_strided3 l = aten_masked(to, from, mask, n, period);
	int count = (int)n;

	trace("aten add %llx <- %llx + %llx n=%zu", to, from, mask, n);
	launch(s, aten(TEXT(ATEN_ADD_STRIDED)), blocks_of(n, 128), 128, 1, (void *[]){&count, &l});
	mark(to, n * width, deeper(depth_of(from, n * width), depth_of(mask, period * width)));
}

void aten_permute(CUstream s, CUdeviceptr to, CUdeviceptr from, int a, int b, int depth,
		  size_t b_bytes, size_t a_bytes)
{
	const unsigned d = (unsigned)depth * 2;
	const size_t n = (size_t)a * (size_t)b * (size_t)depth;
	struct aten_strided2 l = aten_copied(
		to, from, 3, (unsigned[]){(unsigned)depth, (unsigned)b, (unsigned)a},
		(unsigned[]){2, 2, d, (unsigned)b_bytes, d * (unsigned)b, (unsigned)a_bytes});
	int count = (int)n;

	trace("aten permute %llx <- %llx %d,%d,%d by %zu,%zu", to, from, a, b, depth, a_bytes,
	      b_bytes);
	launch(s, aten(TEXT(ATEN_COPY_STRIDED)), blocks_of(n, 128), 128, 1, (void *[]){&count, &l});
	mark(to, n * width,
	     depth_of(from, (size_t)(a - 1) * a_bytes + (size_t)(b - 1) * b_bytes + d));
}

void aten_interleave(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n)
{
	struct aten_strided2 l =
		aten_copied(to, from, 1, (unsigned[]){(unsigned)n}, (unsigned[]){4, 2});
	int count = (int)n, depth;

	trace("aten interleave %llx <- %llx n=%zu", to, from, n);
	launch(s, aten(TEXT(ATEN_COPY_STRIDED)), blocks_of(n, 128), 128, 1, (void *[]){&count, &l});
	depth = depth_of(from, n * width);
	for (size_t i = 0; i < n; i++)
		mark(to + 2 * i * width, width, depth);
}

void aten_softmax(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t rows, int columns)
{
	int count = (int)rows, stride = columns, chunk = -1;
	CUdeviceptr mask = 0;
	bool transformer = false;

	trace("aten softmax %llx <- %llx rows=%zu columns=%d", to, from, rows, columns);
	launch(s, aten(TEXT(ATEN_SOFTMAX)), blocks_of(rows, 4), 32, 4,
	       (void *[]){&to, &from, &count, &stride, &columns, &mask, &chunk, &transformer});
	mark(to, rows * (size_t)columns * width, depth_of(from, rows * (size_t)columns * width));
}
