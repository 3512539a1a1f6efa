/* SPDX-License-Identifier: Apache-2.0
 *
 * A library's call reads P, or writes over it: cuDNN, found by dlopen as programs find it. Where
 * there is none, copies and fills stand for its calls.
 */
#include "hazards.h"

#include <dlfcn.h>
#include <stdint.h>

enum { HALF = 2, RANK = 4 };

/* cuDNN's functions, handles being pointers and enumerators ints. */
struct dnn {
	void *handle, *scores;
	int (*set)(void *handle, const void *tensor, void *data, const void *value);
	int (*transform)(void *handle, const void *alpha, const void *from, const void *x,
			 const void *beta, const void *to, void *y);
};

/* Returns whether there is a cuDNN that starts. Its only tensor has the shape of scores. */
static bool dnn_open(struct dnn *dnn, const struct bench *b)
{
	void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
	int (*create)(void **), (*create_tensor)(void **);
	int (*describe)(void *, int, int, const int *, const int *);
	const int dim[RANK] = {1, b->shape.heads, b->shape.rows, b->shape.columns};
	const int stride[RANK] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};

	if (!library)
		return false;
	create = (__typeof__(create))dlsym(library, "cudnnCreate");
	create_tensor = (__typeof__(create_tensor))dlsym(library, "cudnnCreateTensorDescriptor");
	describe = (__typeof__(describe))dlsym(library, "cudnnSetTensorNdDescriptor");
	dnn->set = (__typeof__(dnn->set))dlsym(library, "cudnnSetTensor");
	dnn->transform = (__typeof__(dnn->transform))dlsym(library, "cudnnTransformTensor");
	if (create(&dnn->handle))
		return false;
	CHECK(create_tensor(&dnn->scores));
	CHECK(describe(dnn->scores, HALF, RANK, dim, stride));
	return true;
}

static void *pointer(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* What the late repetitions do to P. */
enum act { COPY, SET, SET_HALF };

static void run(enum act act)
{
	const float one = 1, zero = 0;
	const uint16_t value = 0x3800;
	struct bench b;
	struct dnn dnn;
	bool there;

	bench_open(&b, TOGETHER);
	there = dnn_open(&dnn, &b);
	for (int r = 0; r < REPETITIONS; r++) {
		/* Half a tensor of scores before P, and half of P. */
		const CUdeviceptr at = b.t.p - (act == SET_HALF ? b.scores : 0);

		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!late(r))
			continue;
		if (act == COPY && there)
			CHECK(dnn.transform(dnn.handle, &one, dnn.scores, pointer(b.t.p), &zero,
					    dnn.scores, pointer(b.spare)));
		else if (act == COPY)
			CHECK(cuMemcpyDtoD(b.spare, b.t.p, 2 * b.scores));
		else if (there)
			CHECK(dnn.set(dnn.handle, dnn.scores, pointer(at), &value));
		else
			CHECK(cuMemsetD16(at, value, b.scores));
		app_observe(&b.report, act == COPY ? "copy of P" : "P", r,
			    act == COPY ? b.spare : b.t.p, b.scores);
	}
	bench_close(&b);
}

CASE(library_reads_p, run(COPY))
CASE(library_sets_p, run(SET))
CASE(library_sets_half, run(SET_HALF))

const struct hazard hazards_library[] = {
	ONCE(library_reads_p, "a call of cuDNN copies P"),
	ONCE(library_sets_p, "… overwrites all of P, which is read then"),
	ONCE(library_sets_half, "… overwrites one half of P"),
	{0},
};
