/* SPDX-License-Identifier: Apache-2.0
 *
 *     bench_launch time       ns of one cuLaunchKernel over the simulated driver
 *     bench_launch count N    makes N of them, for something that counts instructions
 *     bench_launch watched    ns while a chain waits for its second product and all launches are
 * looked at
 *
 * bench_launch.sh runs it with and without the shim. The kernel is one thread that does nothing, so
 * that little else is measured.
 */
#include <cublas_v2.h>
#include <cuda.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 15, CALLS = 5000 };

#define CHECK(call)                                                                                \
	do {                                                                                       \
		int status_ = (int)(call);                                                         \
		if (status_) {                                                                     \
			fprintf(stderr, "%s: status %d\n", #call, status_);                        \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

static CUfunction function;

/* The kernels of the demo, BUILD/apps/sim/demo.kernels; this is BUILD/tests/unit/bench_launch. */
static void prepare(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);
	CUcontext context;
	CUmodule module;
	CUdevice device;

	if (length < 0)
		exit(2);
	path[length] = '\0';
	for (int i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/apps/sim/demo.kernels");
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoad(&module, path));
	CHECK(cuModuleGetFunction(&function, module, "app_fill_f16"));
}

static void launch(long calls, CUdeviceptr out)
{
	float value = 0;
	long long elements = 0;
	void *params[] = {&out, &value, &elements};

	for (long i = 0; i < calls; i++)
		CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* Scores that nobody uses: S = K^T Q, fp16, [2,64,64]. After a few of one shape the shim expects
 * nothing of it any more. */
static void open_chain(CUdeviceptr memory, int depth)
{
	float one = 1, zero = 0;
	static cublasHandle_t blas;

	if (!blas)
		CHECK(cublasCreate(&blas));
	CHECK(cublasGemmStridedBatchedEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, 64, 64, depth, &one,
					 (void *)memory, CUDA_R_16F, 32, 2048,
					 (void *)(memory + 8192), CUDA_R_16F, 32, 2048, &zero,
					 (void *)(memory + 16384), CUDA_R_16F, 64, 4096, 2,
					 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	CUdeviceptr memory, other;
	double best = 1e18;

	if (strcmp(what, "time") && strcmp(what, "watched") &&
	    (strcmp(what, "count") || argc < 3)) {
		fprintf(stderr, "usage: bench_launch time|watched|count N\n");
		return 64;
	}
	prepare();
	CHECK(cuMemAlloc(&memory, 1 << 16));
	CHECK(cuMemAlloc(&other, 1 << 16));
	if (!strcmp(what, "count")) {
		launch(atol(argv[2]), other);
		return 0;
	}
	for (int round = 0; round < ROUNDS; round++) {
		double begin;

		if (!strcmp(what, "watched"))
			open_chain(memory, 8 + round);
		begin = now();
		/* A chain is given up after some hundred ops; stay below. */
		launch(!strcmp(what, "watched") ? 200 : CALLS, other);
		begin = (now() - begin) / (!strcmp(what, "watched") ? 200 : CALLS);
		best = begin < best ? begin : best;
	}
	printf("%.1f\n", best);
	return 0;
}
