/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that compute no attention: references, comparisons, copies, questions about memory.
 */
#include "shim/gpu/fused.h"

#include <errno.h>

#include "shim/chain/relayout.h"
#include "shim/gpu/fused_loaded.h"

_Static_assert(VIEW_DIMS <= LAY_OUT_DIMS, "a copy has too many dimensions to be made");

static int launch_grid(CUcontext context, CUstream stream, enum helper helper,
		       const unsigned grid[3], unsigned threads, const void *args)
{
	const struct loaded *slot = fused_of(context);

	return slot ? fused_launch(slot->helpers[helper], stream, grid, threads, 0, args) : -EIO;
}

static int launch_helper(CUcontext context, CUstream stream, enum helper helper, uint64_t blocks,
			 unsigned threads, const void *args)
{
	const unsigned grid[3] = {(unsigned)(blocks < 1 ? 1 : blocks), 1, 1};

	return launch_grid(context, stream, helper, grid, threads, args);
}

int fused_reference(CUcontext context, CUstream stream, const struct reference_args *args)
{
	return launch_helper(context, stream, HELPER_REFERENCE, (uint64_t)args->rows,
			     REFERENCE_THREADS, args);
}

int fused_drift(CUcontext context, CUstream stream, const struct drift_args *args)
{
	return launch_helper(context, stream, HELPER_DRIFT, drift_blocks(args), DRIFT_THREADS,
			     args);
}

int fused_drift_sampled(CUcontext context, CUstream stream, const struct drift_sampled_args *args)
{
	return launch_helper(context, stream, HELPER_DRIFT_SAMPLED, (uint64_t)args->rows,
			     DRIFT_THREADS, args);
}

static uint64_t inspect_blocks(uint64_t items)
{
	const uint64_t blocks = items / (64 * INSPECT_THREADS) + 1;

	return blocks > 2048 ? 2048 : blocks;
}

int fused_find_addresses(CUcontext context, CUstream stream, const struct addresses_args *args)
{
	return launch_helper(context, stream, HELPER_ADDRESSES, inspect_blocks(args->bytes / 8),
			     INSPECT_THREADS, args);
}

int fused_count_unwritten(CUcontext context, CUstream stream, const struct unwritten_args *args)
{
	return launch_helper(context, stream, HELPER_UNWRITTEN, inspect_blocks(args->bytes),
			     INSPECT_THREADS, args);
}

int fused_count_triangle(CUcontext context, CUstream stream, const struct triangle_args *args)
{
	const uint64_t rows = args->matrices * (uint64_t)args->rows;

	return launch_helper(context, stream, HELPER_TRIANGLE, rows < 4096 ? rows : 4096,
			     INSPECT_THREADS, args);
}

int fused_slopes(CUcontext context, CUstream stream, const struct slopes_args *args)
{
	const unsigned grid[3] = {
		((unsigned)args->Sk + SLOPES_THREADS - 1) / SLOPES_THREADS,
		(unsigned)args->H,
		(unsigned)args->B,
	};

	return args->out ? launch_grid(context, stream, HELPER_SLOPES, grid, SLOPES_THREADS, args)
			 : 0;
}

int fused_complement(CUcontext context, CUstream stream, const struct complement_args *args)
{
	const uint64_t blocks =
		((uint64_t)args->count + 8 * COMPLEMENT_THREADS - 1) / (8 * COMPLEMENT_THREADS);

	return args->out ? launch_helper(context, stream, HELPER_COMPLEMENT,
					 blocks < 4096 ? blocks : 4096, COMPLEMENT_THREADS, args)
			 : 0;
}

int fused_copy_rows(CUcontext context, CUstream stream, uint64_t to, uint64_t from, uint64_t width,
		    uint64_t pitch, uint64_t rows)
{
	const struct copy_rows_args args = {.to = to,
					    .from = from,
					    .count = width / 16 * rows,
					    .width = (uint32_t)(width / 16),
					    .pitch = (uint32_t)(pitch / 16)};
	const uint64_t blocks = (args.count + 4 * COPY_ROWS_THREADS - 1) / (4 * COPY_ROWS_THREADS);

	if ((to | from | width | pitch) % 16 || pitch / 16 > INT32_MAX || args.count > INT32_MAX)
		return -EINVAL;
	return launch_helper(context, stream, HELPER_COPY_ROWS, blocks < 4096 ? blocks : 4096,
			     COPY_ROWS_THREADS, &args);
}

/* In units of 16 bytes where neighbours are neighbours on both sides. */
static void widen(struct lay_out_args *args)
{
	const int64_t wide = 16 / args->element;

	if (args->cast || args->stride[0] != 1 || args->size[0] % wide ||
	    (args->to | args->from) % 16)
		return;
	for (int d = 1; d < args->dims; d++)
		if (args->stride[d] % wide)
			return;
	for (int d = 1; d < args->dims; d++)
		args->stride[d] /= wide;
	args->size[0] /= wide;
	args->count /= wide;
	args->element = 16;
}

int fused_lay_out(CUcontext context, CUstream stream, const struct relayout *copy)
{
	struct lay_out_args args = {.to = copy->out_begin,
				    .from = copy->in_begin,
				    .count = 1,
				    .element = attn_dtype_size(copy->dtype),
				    .dims = copy->dims,
				    .cast = copy->dtype == copy->source ? 0 : copy->source + 1};
	uint64_t blocks;

	for (int d = 0; d < copy->dims; d++) {
		args.size[d] = copy->dim[d].size;
		args.stride[d] = copy->dim[d].from;
		args.count *= copy->dim[d].size;
	}
	widen(&args);
	blocks = ((uint64_t)args.count + LAY_OUT_THREADS - 1) / LAY_OUT_THREADS;
	return launch_helper(context, stream, HELPER_LAY_OUT, blocks < 4096 ? blocks : 4096,
			     LAY_OUT_THREADS, &args);
}
