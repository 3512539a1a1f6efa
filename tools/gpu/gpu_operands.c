/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers come from a table that is drawn once for each seed and read round and round, its length
 * being a prime so that no stride falls into step with it: a large set has hundreds of millions.
 */
#include "tools/gpu/gpu_operands.h"
#include "tools/base/random.h"
#include "tools/base/tool.h"

#include "tools/base/half.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	NUMBERS = 1048573, /* a prime */
	SETS_MOST = 256,
	CACHES = 3 /* the sets exceed the cache by */
};

/* ---- numbers -------------------------------------------------------------------------------- */

/* Uniform in (0, 1]. */
static double draw_uniform(uint64_t *state)
{
	return (double)((draw(state) >> 11) + 1) / 9007199254740992.0;
}

static void store(char *at, double x, int dtype)
{
	const float single = (float)x;
	const uint16_t half = dtype == ATTN_F16 ? float_to_f16(single) : float_to_bf16(single);

	if (dtype == ATTN_F32)
		memcpy(at, &single, sizeof(single));
	else
		memcpy(at, &half, sizeof(half));
}

/* NUMBERS + 1 normal numbers, two for each pair of uniform ones (Box and Muller). */
static char *make_table(int dtype, uint64_t seed)
{
	const size_t size = (size_t)attn_dtype_size(dtype);
	char *table = malloc((NUMBERS + 1) * size);

	for (size_t n = 0; table && n < NUMBERS; n += 2) {
		const double radius = sqrt(-2 * log(draw_uniform(&seed)));
		const double angle = 2 * M_PI * draw_uniform(&seed);

		store(table + n * size, radius * cos(angle), dtype);
		store(table + (n + 1) * size, radius * sin(angle), dtype);
	}
	return table;
}

/* Fills `bytes` at `to` from the table, from byte `from` of it on; returns where it got to. */
static size_t read_round(char *to, size_t bytes, const char *table, size_t length, size_t from)
{
	while (bytes) {
		const size_t run = bytes < length - from ? bytes : length - from;

		memcpy(to, table + from, run);
		to += run;
		bytes -= run;
		from = (from + run) % length;
	}
	return from;
}

/* ---- shapes --------------------------------------------------------------------------------- */

static int64_t elements(const struct gpu_shape *shape, int rows)
{
	return (int64_t)shape->B * shape->H * rows * shape->D;
}

double gpu_shape_bytes(const struct gpu_shape *shape)
{
	return 2.0 * attn_dtype_size(shape->dtype) *
	       (double)(elements(shape, shape->Sq) + elements(shape, shape->Sk));
}

double gpu_shape_flops(const struct gpu_shape *shape)
{
	return (shape->causal ? 2.0 : 4.0) * (double)elements(shape, shape->Sq) * shape->Sk;
}

int gpu_operand_sets(const struct gpu *gpu, const struct gpu_shape *shape)
{
	const double sets = ceil(CACHES * (double)gpu->cache_bytes / gpu_shape_bytes(shape));

	return (int)fmin(fmax(sets, 2), SETS_MOST);
}

const char *gpu_shape_text(char *buffer, size_t size, const struct gpu_shape *shape)
{
	static const char *const dtypes[] = {"f16", "bf16", "f32"};
	char lengths[48];

	if (shape->Sq == shape->Sk)
		snprintf(lengths, sizeof(lengths), "S%d", shape->Sk);
	else
		snprintf(lengths, sizeof(lengths), "Sq%d Sk%d", shape->Sq, shape->Sk);
	snprintf(buffer, size, "B%d H%d %s D%d %s%s", shape->B, shape->H, lengths, shape->D,
		 dtypes[shape->dtype], shape->causal ? " causal" : "");
	return buffer;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static struct attn_tensor tensor(const struct gpu_shape *shape, CUdeviceptr base, int rows)
{
	const int64_t D = shape->D, H = shape->H;

	return (struct attn_tensor){
		.base = base, .stride = {H * rows * D, rows * D, D, 1}, .dtype = shape->dtype};
}

static void make_args(struct attn_args *args, const struct gpu_shape *shape, CUdeviceptr memory)
{
	const uint64_t size = (uint64_t)attn_dtype_size(shape->dtype);
	const uint64_t queries = size * (uint64_t)elements(shape, shape->Sq);
	const uint64_t keys = size * (uint64_t)elements(shape, shape->Sk);

	*args = (struct attn_args){
		.q = tensor(shape, memory, shape->Sq),
		.k = tensor(shape, memory + queries, shape->Sk),
		.v = tensor(shape, memory + queries + keys, shape->Sk),
		.o = tensor(shape, memory + queries + 2 * keys, shape->Sq),
		.B = shape->B,
		.H = shape->H,
		.Sq = shape->Sq,
		.Sk = shape->Sk,
		.D = shape->D,
		.Dv = shape->D,
		.spec = {.scale = 1.0f / sqrtf((float)shape->D),
			 .out_scale = 1.0f,
			 .round_x = ATTN_F32,
			 .round_p = shape->dtype,
			 .mask_keeps = 1,
			 .mask_value = -INFINITY,
			 .window_left = ATTN_NO_WINDOW,
			 .window_right = shape->causal ? 0 : ATTN_NO_WINDOW,
			 .window_value = -INFINITY},
	};
}

/* Q, K and V lie side by side and are filled as one, then O. */
static int fill(const struct gpu *gpu, const struct gpu_operands *operands, size_t inputs,
		size_t outputs, const char *table, size_t *from)
{
	const size_t length = (size_t)attn_dtype_size(operands->args.q.dtype) * NUMBERS;
	char *host = malloc(inputs);
	CUresult result;

	if (!host) {
		complain("out of memory");
		return -ENOMEM;
	}
	*from = read_round(host, inputs, table, length, *from);
	result = gpu->driver.cuMemcpyHtoD(operands->memory, host, inputs);
	if (result == CUDA_SUCCESS)
		result = gpu->driver.cuMemsetD8(operands->memory + inputs, 0xff, outputs);
	free(host);
	return gpu_check(gpu, result, "filling operands");
}

static int make_from(const struct gpu *gpu, struct gpu_operands *operands,
		     const struct gpu_shape *shape, const char *table, size_t *from)
{
	const size_t size = (size_t)attn_dtype_size(shape->dtype);
	const size_t outputs = size * (size_t)elements(shape, shape->Sq);
	const size_t inputs = outputs + 2 * size * (size_t)elements(shape, shape->Sk);
	int result = gpu_check(gpu, gpu->driver.cuMemAlloc(&operands->memory, inputs + outputs),
			       "allocating operands");

	if (result)
		return result;
	make_args(&operands->args, shape, operands->memory);
	return fill(gpu, operands, inputs, outputs, table, from);
}

int gpu_operands_make(const struct gpu *gpu, struct gpu_operands *operands,
		      const struct gpu_shape *shape, uint64_t seed)
{
	char *table = make_table(shape->dtype, seed);
	size_t from = 0;
	int result = -ENOMEM;

	memset(operands, 0, sizeof(*operands));
	if (table)
		result = make_from(gpu, operands, shape, table, &from);
	else
		complain("out of memory");
	free(table);
	return result;
}

void gpu_operands_free(const struct gpu *gpu, struct gpu_operands *operands)
{
	if (operands->memory)
		gpu->driver.cuMemFree(operands->memory);
	memset(operands, 0, sizeof(*operands));
}

struct gpu_operands *gpu_operands_array(const struct gpu *gpu, const struct gpu_shape *shape,
					int count, uint64_t seed)
{
	struct gpu_operands *sets = calloc((size_t)count, sizeof(*sets));
	char *table = make_table(shape->dtype, seed);
	size_t from = 0;
	int result = 0;

	if (!sets || !table) {
		complain("out of memory");
		result = -ENOMEM;
	}
	for (int n = 0; !result && n < count; n++)
		result = make_from(gpu, &sets[n], shape, table, &from);
	free(table);
	if (result) {
		gpu_operands_array_free(gpu, sets, count);
		return NULL;
	}
	return sets;
}

void gpu_operands_array_free(const struct gpu *gpu, struct gpu_operands *sets, int count)
{
	for (int n = 0; sets && n < count; n++)
		gpu_operands_free(gpu, &sets[n]);
	free(sets);
}
