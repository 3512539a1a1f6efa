/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of boxes.
 */
#include "shim/op/copy_box.h"

/* A box of `depth` planes of `height` rows of `width` bytes. */
struct box {
	uint64_t base;
	uint64_t x, y, z;
	uint64_t pitch, rows; /* bytes from row to row, rows from plane to plane */
	uint64_t width, height, depth;
};

/* The smallest range that holds the box; *exact is cleared when other bytes lie in it. */
static struct op_range box_range(const struct box *box, bool *exact)
{
	uint64_t pitch = box->pitch ? box->pitch : box->width;
	uint64_t rows = box->rows ? box->rows : box->height;
	uint64_t bytes;

	if (!box->width || !box->height || !box->depth)
		return (struct op_range){box->base, 0};
	bytes = ((box->depth - 1) * rows + box->height - 1) * pitch + box->width;
	if (bytes != box->width * box->height * box->depth)
		*exact = false;
	return (struct op_range){box->base + (box->z * rows + box->y) * pitch + box->x, bytes};
}

struct side {
	CUmemorytype type;
	const void *host;
	struct box box;
};

static void copy_boxes(struct op *op, const struct side *source, const struct side *target)
{
	if (source->type == CU_MEMORYTYPE_ARRAY || target->type == CU_MEMORYTYPE_ARRAY) {
		op->kind = OP_OPAQUE;
		return;
	}
	op->kind = OP_COPY;
	op->copy = (struct op_copy){
		.exact = true,
		.from_host = source->type == CU_MEMORYTYPE_HOST,
		.to_host = target->type == CU_MEMORYTYPE_HOST,
	};
	if (!op->copy.from_host)
		op->copy.source = box_range(&source->box, &op->copy.exact);
	else
		op->copy.host = source->host;
	if (!op->copy.to_host)
		op->copy.target = box_range(&target->box, &op->copy.exact);
}

void copy_box_2d(struct op *op, const CUDA_MEMCPY2D *copy)
{
	struct side source = {
		copy->srcMemoryType,
		copy->srcHost,
		{copy->srcDevice, copy->srcXInBytes, copy->srcY, 0, copy->srcPitch, copy->Height,
		 copy->WidthInBytes, copy->Height, 1},
	};
	struct side target = {
		copy->dstMemoryType,
		copy->dstHost,
		{copy->dstDevice, copy->dstXInBytes, copy->dstY, 0, copy->dstPitch, copy->Height,
		 copy->WidthInBytes, copy->Height, 1},
	};

	copy_boxes(op, &source, &target);
}

#define SIDES_3D                                                                                   \
	struct side source = {                                                                     \
		copy->srcMemoryType,                                                               \
		copy->srcHost,                                                                     \
		{copy->srcDevice, copy->srcXInBytes, copy->srcY, copy->srcZ, copy->srcPitch,       \
		 copy->srcHeight, copy->WidthInBytes, copy->Height, copy->Depth},                  \
	};                                                                                         \
	struct side target = {                                                                     \
		copy->dstMemoryType,                                                               \
		copy->dstHost,                                                                     \
		{copy->dstDevice, copy->dstXInBytes, copy->dstY, copy->dstZ, copy->dstPitch,       \
		 copy->dstHeight, copy->WidthInBytes, copy->Height, copy->Depth},                  \
	}

void copy_box_3d(struct op *op, const CUDA_MEMCPY3D *copy)
{
	SIDES_3D;

	copy_boxes(op, &source, &target);
}

void copy_box_3d_peer(struct op *op, const CUDA_MEMCPY3D_PEER *copy)
{
	SIDES_3D;

	copy_boxes(op, &source, &target);
}

void fill_box(struct op *op, CUdeviceptr target, size_t pitch, size_t width, size_t height)
{
	op->kind = OP_FILL;
	op->fill.target.base = target;
	op->fill.target.bytes = width && height ? (height - 1) * pitch + width : 0;
	op->fill.exact = height <= 1 || pitch == width;
}
