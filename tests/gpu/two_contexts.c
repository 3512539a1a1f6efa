/* SPDX-License-Identifier: Apache-2.0
 *
 * Two contexts on one device, call by call in turn: same shapes, different numbers, modules,
 * handles.
 *
 *     two_contexts OUT [CHAINS]
 */
#include "driver_app.h"

#define CONTEXTS 2

static CUcontext new_context(const struct api *api, CUdevice device)
{
	CUcontext context;

#if CUDA_VERSION >= 13000
	CHECK(api->cuCtxCreate(&context, NULL, 0, device));
#else
	CHECK(api->cuCtxCreate(&context, 0, device));
#endif
	return context;
}

int main(int argc, char **argv)
{
	static const struct api api = {
#define LINKED(name) .name = name,
		DRIVER_FUNCTIONS(LINKED) BLAS_FUNCTIONS(LINKED)
#undef LINKED
	};
	static void (*const steps[])(struct chain *) = {chain_scores, chain_softmax, chain_values};
	static const char *const names[CONTEXTS] = {"context0", "context1"};
	struct chain c[CONTEXTS];
	CUcontext context[CONTEXTS];
	CUdevice device;
	int chains = argc > 2 ? atoi(argv[2]) : 40;
	FILE *out;

	if (argc < 2 || !(out = fopen(argv[1], "wb"))) {
		fprintf(stderr, "usage: two_contexts OUT [CHAINS]\n");
		return 1;
	}
	CHECK(api.cuInit(0));
	CHECK(api.cuDeviceGet(&device, 0));
	for (int i = 0; i < CONTEXTS; i++) {
		context[i] = new_context(&api, device);
		chain_open(&c[i], &api, context[i], 8, 256, 64);
	}
	for (int n = 0; n < chains; n++) {
		for (int i = 0; i < CONTEXTS; i++)
			chain_fill(&c[i], (unsigned)(1000 * i + n));
		for (int step = 0; step < 3; step++)
			for (int i = 0; i < CONTEXTS; i++)
				steps[step](&c[i]);
		for (int i = 0; i < CONTEXTS; i++)
			chain_save_o(&c[i], out, names[i]);
		if (n == chains / 2) { /* the second context goes and comes again */
			chain_close(&c[1]);
			CHECK(api.cuCtxDestroy(context[1]));
			context[1] = new_context(&api, device);
			chain_open(&c[1], &api, context[1], 8, 256, 64);
		}
	}
	for (int i = 0; i < CONTEXTS; i++) {
		chain_close(&c[i]);
		CHECK(api.cuCtxDestroy(context[i]));
	}
	CHECK(fclose(out));
	printf("%d chains\n", CONTEXTS * chains);
	return 0;
}
