/* SPDX-License-Identifier: Apache-2.0
 *
 *     stale_lock IMAGE
 *
 * What becomes of the kernels that compare, on a GPU, where the memory that they count in was not
 * zeroed: they come back, and their count of blocks says that nothing was measured. Prints a line
 * for each state of that memory with the milliseconds that it took, and ends with "N passed, N
 * failed". IMAGE: the helpers as the shim loads them (build/kernels/sm_90a/helpers.fatbin).
 */
#include <stdbool.h>

#include "kernels/attention.h"
#include "driver_app.h"

#define LATEST_MS 5000
#define ELEMENTS  (8 * DRIFT_THREADS * 1024) /* of fp32, for as many blocks as there may be */
#define DEPTH	  256
#define ROWS	  (ELEMENTS / DEPTH)
#define SAMPLED	  64

static const struct state {
	const char *name;
	int bytes;
	uint64_t lock;
	bool measured;
} states[] = {
	{"zeroed", 0, 0, true},	      {"taken", 0, 1, false},
	{"given up", 0, 2, false},    {"of 0xff", 0xff, UINT64_MAX, false},
	{"zeroed again", 0, 0, true},
};

static CUfunction drift, sampled;
static CUdeviceptr app, fused, reference, result;
static int passed, failed;

static struct attn_tensor rows_at(CUdeviceptr base)
{
	return (struct attn_tensor){
		.base = base, .stride = {ELEMENTS, ELEMENTS, DEPTH, 1}, .dtype = ATTN_F32};
}

/* blocks: where the kernel counts them in its result. */
static void judge(const char *kernel, const struct state *state, CUfunction function, unsigned grid,
		  void *args, void *host, size_t bytes, const uint64_t *blocks, uint64_t *lock)
{
	void *params[] = {args};
	double before, took;
	bool good;

	memset(host, state->bytes, bytes);
	*lock = state->lock;
	CHECK(cuMemcpyHtoD(result, host, bytes));
	before = now_ms();
	CHECK(cuLaunchKernel(function, grid, 1, 1, DRIFT_THREADS, 1, 1, 0, NULL, params, NULL));
	CHECK(cuCtxSynchronize());
	took = now_ms() - before;
	CHECK(cuMemcpyDtoH(host, result, bytes));
	good = (*blocks == grid) == state->measured && took < LATEST_MS;
	printf("%s %-20s %-14s %9.3f ms, %llu of %u blocks\n", good ? "ok  " : "FAIL", kernel,
	       state->name, took, (unsigned long long)*blocks, grid);
	passed += good;
	failed += !good;
}

int main(int argc, char **argv)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;

	if (argc != 2)
		return 64;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoad(&module, argv[1]));
	CHECK(cuModuleGetFunction(&drift, module, "fashim_drift"));
	CHECK(cuModuleGetFunction(&sampled, module, "fashim_drift_sampled"));
	CHECK(cuMemAlloc(&app, ELEMENTS * 4));
	CHECK(cuMemAlloc(&fused, ELEMENTS * 4));
	CHECK(cuMemAlloc(&reference, SAMPLED * DEPTH * 8));
	CHECK(cuMemAlloc(&result, 4096));
	CHECK(cuMemsetD32(app, 0x3f800000, ELEMENTS));
	CHECK(cuMemsetD32(fused, 0x3f800000, ELEMENTS));
	CHECK(cuMemsetD8(reference, 0, SAMPLED * DEPTH * 8));

	struct drift_args all = {rows_at(app), rows_at(fused), 1,    1,	    ROWS,
				 DEPTH,	       1e-3,	       1e-3, result};
	struct drift_sampled_args some = {.app = all.app,
					  .fused = all.fused,
					  .B = 1,
					  .H = 1,
					  .Sq = ROWS,
					  .Dv = DEPTH,
					  .rows = SAMPLED,
					  .reference = reference,
					  .result = result};
	struct drift_result r;
	struct drift_sampled_result s;

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		judge("fashim_drift", &states[i], drift, drift_blocks(&all), &all, &r, sizeof(r),
		      &r.blocks, &r.lock);
		judge("fashim_drift_sampled", &states[i], sampled, SAMPLED, &some, &s, sizeof(s),
		      &s.blocks, &s.lock);
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}
