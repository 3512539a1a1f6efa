/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids and tensor maps. A map sees an operand as [B,H,rows,columns] with byte strides; what the
 * call broadcasts (stride 0) becomes a dimension of one element whose coordinate stays 0.
 */
#include "kernels/launch.h"

#include <errno.h>
#include <string.h>

#define BOX_COLUMNS	  64		     /* 128 bytes: the width of a swizzled slab */
#define UNIT		  16		     /* bytes: what strides of a map are multiples of */
#define STRIDE_LIMIT	  ((int64_t)1 << 37) /* elements; the driver's limit is 2^40 bytes */
#define ALIGNED		  256
#define RANGES_KEYS_LEAST 512 /* below, looking costs as much as it saves */

static int encode(struct attn_map *map, int32_t step[2], const struct attn_device *device,
		  const struct attn_tensor *t, const uint64_t extent[4], int row_dim,
		  int column_dim, uint32_t box_rows, uint32_t box_columns)
{
	const uint64_t size = (uint64_t)attn_dtype_size(t->dtype);
	const CUtensorMapDataType type = t->dtype == ATTN_BOOL	 ? CU_TENSOR_MAP_DATA_TYPE_UINT8
					 : t->dtype == ATTN_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
					 : t->dtype == ATTN_F32	 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
								 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
	const int dims[4] = {column_dim, row_dim, 1, 0}; /* of the map, fastest first */
	const cuuint32_t box[4] = {box_columns, box_rows, 1, 1}, steps[4] = {1, 1, 1, 1};
	cuuint64_t sizes[4], strides[3];

	for (int n = 0; n < 4; n++) {
		const int64_t stride = t->stride[dims[n]];

		sizes[n] = n > 0 && stride == 0 ? 1 : extent[dims[n]];
		if (n > 0)
			strides[n - 1] = sizes[n] == 1 ? UNIT : (cuuint64_t)stride * size;
	}
	step[0] = sizes[2] > 1;
	step[1] = sizes[3] > 1;
	return device->encode((CUtensorMap *)map, type, 4, (void *)(uintptr_t)t->base, sizes,
			      strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
			      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
			      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
		       ? 0
		       : -EINVAL;
}

/* What maps are of beside Q, K and V: the mask, or the biases. */
static const struct attn_tensor *beside(const struct attn_variant *v, const struct attn_args *a,
					int n)
{
	static const struct attn_tensor none;

	if (v->needs & ATTN_NEEDS_MASK)
		return n ? &none : &a->spec.mask;
	return &a->spec.bias[n];
}

/* What may be looked at before: the last of these. */
static const struct attn_tensor *looked_at(const struct attn_variant *v, const struct attn_args *a)
{
	return beside(v, a, beside(v, a, 1)->base != 0);
}

/* The n-th of these, if there is one; *rows: of a box. */
static int encode_beside(struct attn_map *map, int32_t step[2], int32_t *rows,
			 const struct attn_device *device, const struct attn_variant *v,
			 const struct attn_args *a, int n)
{
	const struct attn_tensor *t = beside(v, a, n);
	const uint64_t s[4] = {(uint64_t)a->B, (uint64_t)a->H, (uint64_t)a->Sq, (uint64_t)a->Sk};

	if (!t->base)
		return 0;
	*rows = t->stride[2] == 0 ? 1 : v->rows_per_block;
	return encode(map, step, device, t, s, 2, 3, (uint32_t)*rows,
		      128 / (uint32_t)attn_dtype_size(t->dtype));
}

static int encode_all(struct attn_mapped *m, const struct attn_variant *v,
		      const struct attn_device *device)
{
	const struct attn_args *a = &m->attn;
	const int down = v->needs & ATTN_NEEDS_DOWN;
	const uint64_t B = (uint64_t)a->B, H = (uint64_t)a->H;
	const uint64_t q[4] = {B, H, (uint64_t)a->Sq, (uint64_t)a->D};
	const uint64_t k[4] = {B, H, (uint64_t)a->Sk, (uint64_t)a->D};
	const uint64_t vv[4] = {B, H, (uint64_t)a->Sk, (uint64_t)a->Dv};
	const uint32_t keys = (uint32_t)v->keys, rows = (uint32_t)v->rows_per_block;
	const uint32_t width = (uint32_t)((v->max_d + BOX_COLUMNS - 1) / BOX_COLUMNS * BOX_COLUMNS);
	int error;

	error = encode(&m->map[ATTN_MAP_Q], m->step[ATTN_MAP_Q], device, &a->q, q, 2, 3, rows,
		       BOX_COLUMNS);
	if (!error && down)
		error = encode(&m->map[ATTN_MAP_K], m->step[ATTN_MAP_K], device, &a->k, k, 3, 2,
			       width, BOX_COLUMNS);
	else if (!error)
		error = encode(&m->map[ATTN_MAP_K], m->step[ATTN_MAP_K], device, &a->k, k, 2, 3,
			       keys, BOX_COLUMNS);
	if (!error)
		error = encode(&m->map[ATTN_MAP_V], m->step[ATTN_MAP_V], device, &a->v, vv, 2, 3,
			       keys, BOX_COLUMNS);
	if (!error && v->needs & (ATTN_NEEDS_BIAS | ATTN_NEEDS_MASK | ATTN_NEEDS_TWO))
		error = encode_beside(&m->map[ATTN_MAP_BIAS], m->step[ATTN_MAP_BIAS], &m->bias_rows,
				      device, v, a, 0);
	if (!error && v->needs & ATTN_NEEDS_TWO)
		error = encode_beside(&m->second, m->second_step, &m->second_rows, device, v, a, 1);
	return error;
}

/* As many heads as have their K and V in two thirds of the cache, in sections of like size. */
static int32_t section(const struct attn_args *a, const struct attn_device *device)
{
	const int64_t heads = (int64_t)a->B * a->H;
	const int64_t bytes = (int64_t)a->Sk * (a->D + a->Dv) * attn_dtype_size(a->q.dtype);
	const int64_t fit = device->cache_bytes * 2 / 3 / bytes;
	const int64_t sections = fit < 1 ? heads : (heads + fit - 1) / fit;

	return (int32_t)((heads + sections - 1) / sections);
}

/* ---- steps before --------------------------------------------------------------------------- */

int attn_in_map(const struct attn_args *args, const struct attn_tensor *t, int down, int lines)
{
	const int64_t unit = t->stride[down ? 2 : 3], line = t->stride[down ? 3 : 2];
	const int64_t piece = UNIT / attn_dtype_size(t->dtype);

	return !t->by_array && !t->batches && !t->columns && unit == 1 && t->base % UNIT == 0 &&
	       line % piece == 0 && (line > 0 || lines == 1) && line < STRIDE_LIMIT &&
	       (args->B == 1 ||
		(t->stride[0] >= 0 && t->stride[0] % piece == 0 && t->stride[0] < STRIDE_LIMIT)) &&
	       (args->H == 1 ||
		(t->stride[1] >= 0 && t->stride[1] % piece == 0 && t->stride[1] < STRIDE_LIMIT));
}

/* K is what programs store transposed, in rows of any length. */
static int must_repack(const struct attn_variant *v, const struct attn_args *a)
{
	const int down = v->needs & ATTN_NEEDS_DOWN;

	return !attn_in_map(a, &a->k, down, down ? a->D : a->Sk);
}

/* May a tile of rows leave keys out, and the bias or mask unread, because a look at it says so?
 * Mapped variants have one that can be looked at. */
static int may_look(const struct attn_variant *v, const struct attn_args *a,
		    const struct attn_device *device)
{
	const struct attn_spec *s = &a->spec;
	const struct attn_tensor *bias = &s->bias[0];

	if (v->needs & ATTN_NEEDS_MASK)
		return s->mask_value <= ATTN_MASKED;
	if (v->family != ATTN_ROUNDED)
		return (v->needs & (ATTN_NEEDS_BIAS | ATTN_NEEDS_TWO)) != 0;
	return device->looks && v->keys && bias->base && bias->dtype == v->dtype &&
	       attn_in_map(a, bias, 0, 1) && (s->round_x == ATTN_F32 || s->round_x == v->dtype) &&
	       !s->bias[1].base && !s->mask.base && !s->lengths.base;
}

/* A bias or mask that heads share: worth a look before. Where it is the second of two, the first is
 * looked at as well, which is no work if rows share that. */
static int wants_ranges(const struct attn_variant *v, const struct attn_args *a,
			const struct attn_device *device)
{
	const struct attn_tensor *bias = looked_at(v, a);

	if (bias == &a->spec.bias[1] && a->spec.bias[0].stride[2] != 0)
		return 0;
	return may_look(v, a, device) && bias->base && bias->stride[1] == 0 && a->H > 1 &&
	       a->Sk >= RANGES_KEYS_LEAST && a->Sk <= RANGES_TILES * v->keys &&
	       v->rows_per_block <= RANGES_ROWS && a->spec.window_left == ATTN_NO_WINDOW &&
	       a->spec.window_right == ATTN_NO_WINDOW;
}

static int64_t row_tiles(const struct attn_variant *v, const struct attn_args *a)
{
	return (a->Sq + v->rows_per_block - 1) / v->rows_per_block;
}

/* The copy of K: strides of [b, h, line], in elements; lines of a multiple of 16 bytes. */
static uint64_t copy_strides(const struct attn_args *a, int down, int64_t stride[3])
{
	const int64_t length = ((down ? a->Sk : a->D) + 7) / 8 * 8, lines = down ? a->D : a->Sk;
	const int64_t heads = a->k.stride[1] ? a->H : 1, batches = a->k.stride[0] ? a->B : 1;

	stride[2] = length;
	stride[1] = heads > 1 ? lines * length : 0;
	stride[0] = batches > 1 ? heads * lines * length : 0;
	return (uint64_t)(batches * heads * lines * length) * 2;
}

/* What is read of it: not what it has in common. */
static int32_t read_rows(const struct attn_variant *v, const struct attn_args *a)
{
	return looked_at(v, a)->stride[2] ? a->Sq : 1;
}

static int64_t read_tiles(const struct attn_variant *v, const struct attn_args *a)
{
	return looked_at(v, a)->stride[2] ? row_tiles(v, a) : 1;
}

static int32_t read_batches(const struct attn_variant *v, const struct attn_args *a)
{
	return looked_at(v, a)->stride[0] ? a->B : 1;
}

static uint64_t ranges_bytes(const struct attn_variant *v, const struct attn_args *a,
			     const struct attn_device *device)
{
	const uint64_t bytes = (uint64_t)read_batches(v, a) *
			       ((uint64_t)read_tiles(v, a) * sizeof(struct attn_range) +
				(uint64_t)read_rows(v, a) * sizeof(struct attn_span));

	return wants_ranges(v, a, device) ? (bytes + ALIGNED - 1) / ALIGNED * ALIGNED : 0;
}

static struct attn_ranges ranges_of(const struct attn_variant *v, const struct attn_args *a)
{
	const struct attn_tensor *looked = looked_at(v, a);
	const int second = looked == &a->spec.bias[1];

	return (struct attn_ranges){.bias = *looked,
				    .other = second ? a->spec.bias[0] : (struct attn_tensor){0},
				    .weight = a->spec.bias_scale[second],
				    .other_weight = a->spec.bias_scale[0],
				    .B = a->B,
				    .H = a->H,
				    .mask_keeps = a->spec.mask_keeps,
				    .Sq = read_rows(v, a),
				    .Sk = a->Sk,
				    .rows = v->rows_per_block,
				    .keys = v->keys};
}

int attn_launch_look(struct attn_look *look, const struct attn_variant *v,
		     const struct attn_args *a, const struct attn_device *device)
{
	const struct attn_tensor *bias = looked_at(v, a);
	const int64_t last = (a->B - 1) * bias->stride[0] + (a->Sq - 1) * bias->stride[2];

	/* what is kept is forgotten when the mask is written to: not when another bias is */
	if (!wants_ranges(v, a, device) || bias == &a->spec.bias[1] ||
	    (v->needs & ATTN_NEEDS_MAPS && must_repack(v, a)))
		return 0;
	look->ranges = ranges_of(v, a);
	look->read_bytes = (uint64_t)(last + a->Sk) * (uint64_t)attn_dtype_size(bias->dtype);
	look->bytes = ranges_bytes(v, a, device);
	return 1;
}

uint64_t attn_launch_scratch(const struct attn_variant *v, const struct attn_args *a,
			     const struct attn_device *device)
{
	int64_t stride[3];
	uint64_t bytes = 0;

	if (v->needs & ATTN_NEEDS_SCORES)
		return (uint64_t)a->B * (uint64_t)a->H * (uint64_t)a->Sq * (uint64_t)a->Sk *
		       sizeof(float);
	bytes = ranges_bytes(v, a, device);
	if (v->needs & ATTN_NEEDS_MAPS && must_repack(v, a))
		bytes += copy_strides(a, v->needs & ATTN_NEEDS_DOWN, stride);
	return bytes;
}

static void add_repack(struct attn_launch *launch, const struct attn_variant *v, uint64_t to)
{
	struct attn_args *a = &launch->parameter.mapped.attn;
	const int down = (v->needs & ATTN_NEEDS_DOWN) != 0;
	struct attn_step *step = &launch->before[launch->before_count++];
	struct attn_repack *r = &step->parameter.repack;

	copy_strides(a, down, r->to_stride);
	step->symbol = "fashim_repack";
	r->lines = down ? a->D : a->Sk;
	step->grid[0] = ((uint32_t)r->lines + REPACK_LINES - 1) / REPACK_LINES;
	step->grid[1] = (uint32_t)(r->to_stride[1] ? a->H : 1);
	step->grid[2] = (uint32_t)(r->to_stride[0] ? a->B : 1);
	step->threads = REPACK_THREADS;
	r->from = a->k.base;
	r->to = to;
	r->from_stride[0] = a->k.stride[0];
	r->from_stride[1] = a->k.stride[1];
	r->from_stride[2] = a->k.stride[down ? 3 : 2];
	r->length = down ? a->Sk : a->D;
	a->k.base = to;
	a->k.stride[0] = r->to_stride[0];
	a->k.stride[1] = r->to_stride[1];
	a->k.stride[down ? 3 : 2] = r->to_stride[2];
}

static void add_ranges(struct attn_launch *launch, const struct attn_variant *v, uint64_t out)
{
	struct attn_mapped *m = &launch->parameter.mapped;
	const struct attn_args *a = &m->attn;
	struct attn_step *step = &launch->before[launch->before_count++];
	const int32_t rows = read_rows(v, a), batches = read_batches(v, a);
	const int32_t tiles = (int32_t)read_tiles(v, a);

	step->symbol = "fashim_ranges";
	step->grid[0] = (uint32_t)(RANGES_CLUSTER * tiles);
	step->grid[1] = 1;
	step->grid[2] = (uint32_t)batches;
	step->threads = RANGES_THREADS;
	step->parameter.ranges = ranges_of(v, a);
	step->parameter.ranges.out = out;
	m->ranges = out;
	m->spans = out + (uint64_t)batches * (uint64_t)tiles * sizeof(struct attn_range);
	m->range_step[0] = batches > 1 ? tiles : 0;
	m->range_step[1] = tiles > 1;
	m->span_step[0] = batches > 1 ? rows : 0;
	m->span_step[1] = rows > 1;
}

static void add_scores(struct attn_launch *launch, const struct attn_args *a, uint64_t out)
{
	const int tiles = (a->Sq + LADDER_SCORES_ROWS - 1) / LADDER_SCORES_ROWS;
	struct attn_step *step = &launch->before[launch->before_count++];

	step->symbol = LADDER_SCORES;
	step->grid[0] =
		(uint32_t)(a->Sk + LADDER_SCORES_KEYS - 1) / LADDER_SCORES_KEYS * (uint32_t)tiles;
	step->grid[1] = (uint32_t)a->H;
	step->grid[2] = (uint32_t)a->B;
	step->threads = LADDER_SCORES_THREADS;
	step->parameter.scores = (struct ladder_scores){.attn = *a, .scores = out};
	launch->parameter.scores = step->parameter.scores;
}

/* By itself the GPU gives a cluster that finds no multiprocessors of its own those of another, and
 * leaves single ones idle: of 32 clusters of 4, 112 multiprocessors had a block and 8 had two.
 * Where memory is all that is waited for, these 16 are late by a tenth. Balanced, 4 had two. */
CUclusterSchedulingPolicy attn_launch_policy(const struct attn_variant *variant)
{
	return (variant->family == ATTN_DECODE || variant->family == ATTN_ROUNDED_DECODE) &&
			       variant->grid_x_factor > 1
		       ? CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
		       : CU_CLUSTER_SCHEDULING_POLICY_DEFAULT;
}

int attn_launch_prepare(struct attn_launch *launch, const struct attn_variant *variant,
			const struct attn_args *args, const struct attn_device *device,
			uint64_t scratch)
{
	const int64_t tiles = row_tiles(variant, args), all = tiles * args->H * args->B;

	memset(launch, 0, sizeof(*launch));
	launch->threads = (uint32_t)variant->threads;
	launch->shared_bytes = (uint32_t)variant->shared_bytes;
	if (variant->grid_x_factor) {
		launch->grid[0] = (uint32_t)(tiles * variant->grid_x_factor);
		launch->grid[1] = (uint32_t)args->H;
		launch->grid[2] = (uint32_t)args->B;
	} else {
		launch->grid[0] =
			(uint32_t)(all < device->multiprocessors ? all : device->multiprocessors);
		launch->grid[1] = launch->grid[2] = 1;
	}
	if (variant->needs & ATTN_NEEDS_SCORES) {
		if (!scratch)
			return -EINVAL;
		add_scores(launch, args, scratch);
		return 0;
	}
	if (!(variant->needs & ATTN_NEEDS_MAPS) && variant->family != ATTN_ROUNDED) {
		launch->parameter.args = *args;
		return 0;
	}
	launch->parameter.mapped.attn = *args;
	if (scratch && wants_ranges(variant, args, device))
		add_ranges(launch, variant, scratch);
	if (variant->family == ATTN_ROUNDED)
		return 0;
	if (!device->encode)
		return -EINVAL;
	launch->parameter.mapped.section = section(args, device);
	if (must_repack(variant, args)) {
		if (!scratch)
			return -EINVAL;
		add_repack(launch, variant, scratch + ranges_bytes(variant, args, device));
	}
	return encode_all(&launch->parameter.mapped, variant, device);
}
