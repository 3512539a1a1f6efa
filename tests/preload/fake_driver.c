/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver from the future, just large enough for the thunks: libcuda.so.1 with functions that no
 * table knows, one that is exported and one that only cuGetProcAddress gives out, and with a few
 * that the tables do know, which report the arguments that reached them.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);
int cuCtxGetCurrent(void **context);
int cuFutureSum(double a, int b, double c, int64_t d, float e, int f, int g, int h, int i, int j,
		int k, float l);
int cuMemcpyBatchAsync(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
		       uint64_t g, uint64_t h, uint64_t i);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
			unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
			int *status);

char fake_report[256];
unsigned fake_launches;
extern int (*const fake_launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
				unsigned by, unsigned bz, unsigned shared, void *stream,
				void **params, void **extra);

int cuInit(unsigned flags)
{
	return flags ? 1 : 0;
}

int cuCtxGetCurrent(void **context)
{
	*context = (void *)0xc0;
	return 0;
}

int cuFutureSum(double a, int b, double c, int64_t d, float e, int f, int g, int h, int i, int j,
		int k, float l)
{
	snprintf(fake_report, sizeof(fake_report), "%g %d %g %lld %g %d %d %d %d %d %d %g", a, b, c,
		 (long long)d, e, f, g, h, i, j, k, l);
	return 77;
}

static int future_private(int a, int b)
{
	return a * 1000 + b;
}

int cuMemcpyBatchAsync(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
		       uint64_t g, uint64_t h, uint64_t i)
{
	snprintf(fake_report, sizeof(fake_report), "%d %d %d %d %d %d %d %d %d", (int)a, (int)b,
		 (int)c, (int)d, (int)e, (int)f, (int)g, (int)h, (int)i);
	return 0;
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	fake_launches++;
	return f && gx && gy && gz && bx && by && bz && !shared && !stream && !params && !extra ? 0
												: 1;
}

/* The real thing, for whom the hook stands in the way. */
int (*const fake_launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
			 unsigned bz, unsigned shared, void *stream, void **params,
			 void **extra) = cuLaunchKernel;

int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
			unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

static int find(const char *name, void **function, uint64_t flags)
{
	static const struct {
		const char *name;
		void *legacy, *per_thread;
	} functions[] = {
		{"", (void *)cuInit, (void *)cuInit},
		{"cuInit", (void *)cuInit, (void *)cuInit},
		{"cuFutureSum", (void *)cuFutureSum, (void *)cuFutureSum},
		{"cuFuturePrivate", (void *)future_private, (void *)future_private},
		{"cuOutside", (void *)strlen, (void *)strlen},
		{"cuLaunchKernel", (void *)cuLaunchKernel, (void *)cuLaunchKernel_ptsz},
	};

	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name)) {
			*function = flags & 2 ? functions[i].per_thread : functions[i].legacy;
			return 0;
		}
	*function = NULL;
	return 1;
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	if (!strcmp(name, "cuGetProcAddress")) {
		*function =
			version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
		return 0;
	}
	return find(name, function, flags) ? 500 : 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	int missing;

	if (!strcmp(name, "cuGetProcAddress")) {
		*function =
			version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
		missing = 0;
	} else {
		missing = find(name, function, flags);
	}
	if (status)
		*status = missing;
	return 0;
}
