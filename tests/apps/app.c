/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of the test programs (app.h says what each function promises).
 */
#include "app.h"
#include "app_aten.h"
#include "tools/base/half.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void app_fail(const char *call, int status)
{
	fflush(stdout);
	fprintf(stderr, "%s: status %d\n", call, status);
	exit(2);
}

/* ---- set-up ----------------------------------------------------------------------------- */

CUmodule app_load_module(void)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
	CUmodule module;

	if (length < 0)
		app_fail("readlink", 1);
	strcpy(path + length, ".kernels");
	CHECK(cuModuleLoad(&module, path));
	return module;
}

void app_load_functions(struct app *app)
{
	const char *kernels = getenv("APP_KERNELS");
	const struct {
		CUfunction *to;
		const char *name;
	} wanted[] = {
		{&app->scale, "app_scale_f16"},
		{&app->add_mask, "app_add_mask_f16"},
		{&app->softmax, "app_softmax_f16"},
		{&app->copy, "app_copy_f16"},
		{&app->split_heads, "app_split_heads_f16"},
		{&app->fill, "app_fill_f16"},
		{&app->ramp, "app_ramp_f16"},
		{&app->mean_heads, "app_mean_heads_f16"},
		{&app->accumulate, "app_accumulate_f16"},
		{&app->softmax_sums, "app_softmax_sums_f16"},
	};

	app->module = app_load_module();
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		CHECK(cuModuleGetFunction(wanted[i].to, app->module, wanted[i].name));
	if (!kernels || strcmp(kernels, "own"))
		aten_load_functions(app);
}

static void *symbol(void *library, const char *name)
{
	void *p = dlsym(library, name);

	if (!p)
		app_fail(name, 1);
	return p;
}

static bool find_blas(struct app_blas *call, const char *library)
{
	void *handle;

	if (!library) {
		*call = (struct app_blas){cublasCreate, cublasDestroy, cublasSetStream,
					  cublasGemmStridedBatchedEx};
		return true;
	}
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
	*(void **)&call->create = symbol(handle, "cublasCreate_v2");
	*(void **)&call->destroy = symbol(handle, "cublasDestroy_v2");
	*(void **)&call->set_stream = symbol(handle, "cublasSetStream_v2");
	*(void **)&call->gemm = symbol(handle, "cublasGemmStridedBatchedEx");
	return true;
}

void app_open_here(struct app *app)
{
	CHECK(cuCtxGetCurrent(&app->context));
	app_load_functions(app);
	if (!app->call.create)
		find_blas(&app->call, NULL);
	CHECK(app->call.create(&app->blas));
}

bool app_open(struct app *app, const char *library)
{
	CUdevice device;

	memset(app, 0, sizeof(*app));
	if (!find_blas(&app->call, library))
		return false;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&app->context, device));
	CHECK(cuCtxSetCurrent(app->context));
	app_open_here(app);
	return true;
}

void app_set_stream(struct app *app, CUstream stream)
{
	app->stream = stream;
	CHECK(app->call.set_stream(app->blas, (cudaStream_t)stream));
}

void app_close(struct app *app)
{
	CHECK(app->call.destroy(app->blas));
	CHECK(cuModuleUnload(app->module));
}

/* ---- memory ----------------------------------------------------------------------------- */

CUdeviceptr app_alloc(size_t bytes)
{
	CUdeviceptr p;

	CHECK(cuMemAlloc(&p, bytes));
	return p;
}

static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

void app_random_f32(float *out, size_t n, uint64_t seed)
{
	uint64_t state = seed * 0x2545f4914f6cdd1dull + 1;

	for (size_t i = 0; i < n; i++)
		out[i] = (float)(next(&state) >> 40) * 0x1p-23f - 1.0f;
}

void app_random_f16(uint16_t *out, size_t n, uint64_t seed)
{
	uint64_t state = seed * 0x2545f4914f6cdd1dull + 1;

	for (size_t i = 0; i < n; i++)
		out[i] = float_to_f16((float)(next(&state) >> 40) * 0x1p-23f - 1.0f);
}

static void *allocate(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		app_fail("malloc", 1);
	return p;
}

/* A small pageable copy may return before it has arrived, and streams here do not wait for it. */
void app_upload(CUdeviceptr to, const void *data, size_t bytes)
{
	CHECK(cuMemcpyHtoD(to, data, bytes));
	CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
}

void app_upload_random(CUdeviceptr to, size_t n, uint64_t seed)
{
	uint16_t *data = allocate(n * 2);

	app_random_f16(data, n, seed);
	app_upload(to, data, n * 2);
	free(data);
}

void app_upload_causal(CUdeviceptr to, int rows, int columns)
{
	uint16_t *data = allocate((size_t)rows * columns * 2);

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
			data[(size_t)i * columns + j] = j <= i + columns - rows ? 0 : 0xfc00;
	app_upload(to, data, (size_t)rows * columns * 2);
	free(data);
}

/* ---- launches --------------------------------------------------------------------------- */

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
				     unsigned int gz, unsigned int bx, unsigned int by,
				     unsigned int bz, unsigned int shared, CUstream stream,
				     void **params, void **extra);

static void launch_marked(struct app *app, CUfunction f, unsigned blocks, unsigned threads,
			  void **params)
{
	CUlaunchAttribute mark = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
		.value.programmaticEvent.event = app->mark,
	};
	const CUlaunchConfig config = {.gridDimX = blocks,
				       .gridDimY = 1,
				       .gridDimZ = 1,
				       .blockDimX = threads,
				       .blockDimY = 1,
				       .blockDimZ = 1,
				       .hStream = app->stream,
				       .attrs = &mark,
				       .numAttrs = 1};

	CHECK(cuLaunchKernelEx(&config, f, params, NULL));
}

void app_launch(struct app *app, CUfunction f, unsigned blocks, unsigned threads, void **params)
{
	if (app->mark)
		launch_marked(app, f, blocks, threads, params);
	else if (app->per_thread)
		CHECK(cuLaunchKernel_ptsz(f, blocks, 1, 1, threads, 1, 1, 0, app->stream, params,
					  NULL));
	else
		CHECK(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, app->stream, params, NULL));
}

static void elementwise(struct app *app, CUfunction f, size_t n, void **params)
{
	app_launch(app, f, (unsigned)((n + 255) / 256), 256, params);
}

void app_scale(struct app *app, CUdeviceptr out, CUdeviceptr in, float factor, size_t n)
{
	long long count = (long long)n;

	if (app->aten.used) {
		aten_scale(app, out, in, factor, n);
		return;
	}
	elementwise(app, app->scale, n, (void *[]){&out, &in, &factor, &count});
}

void app_add_mask(struct app *app, CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask, size_t n,
		  size_t period)
{
	long long count = (long long)n, one = (long long)period;

	if (app->aten.used) {
		aten_add_mask(app, out, in, mask, n, period);
		return;
	}
	elementwise(app, app->add_mask, n, (void *[]){&out, &in, &mask, &count, &one});
}

void app_softmax(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t rows, int columns)
{
	if (app->aten.used) {
		aten_softmax(app, out, in, rows, columns);
		return;
	}
	app_launch(app, app->softmax, (unsigned)rows, 32, (void *[]){&out, &in, &columns});
}

void app_copy(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n)
{
	long long count = (long long)n;

	if (app->aten.used) {
		aten_copy(app, out, in, n);
		return;
	}
	elementwise(app, app->copy, n, (void *[]){&out, &in, &count});
}

void app_split_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		     int depth)
{
	if (app->aten.used) {
		aten_split_heads(app, out, in, rows, heads, depth);
		return;
	}
	elementwise(app, app->split_heads, (size_t)rows * heads * depth,
		    (void *[]){&out, &in, &rows, &heads, &depth});
}

void app_repeat_head(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		     int depth)
{
	const size_t n = (size_t)rows * depth;

	if (app->aten.used) {
		aten_repeat_head(app, out, in, rows, heads, depth);
		return;
	}
	for (int h = 0; h < heads; h++)
		app_copy(app, out + 2 * n * h, in, n);
}

void app_interleave(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n)
{
	const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				    .srcDevice = in,
				    .srcPitch = 2,
				    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				    .dstDevice = out,
				    .dstPitch = 4,
				    .WidthInBytes = 2,
				    .Height = n};

	if (app->aten.used)
		aten_interleave(app, out, in, n);
	else
		CHECK(cuMemcpy2DAsync(&rows, app->stream));
}

void app_fill(struct app *app, CUdeviceptr out, float value, size_t n)
{
	long long count = (long long)n;

	if (app->aten.used) {
		aten_fill(app, out, value, n);
		return;
	}
	elementwise(app, app->fill, n, (void *[]){&out, &value, &count});
}

void app_ramp(struct app *app, CUdeviceptr out, float start, float step, size_t n)
{
	long long count = (long long)n;

	elementwise(app, app->ramp, n, (void *[]){&out, &start, &step, &count});
}

void app_mean_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int heads, size_t n)
{
	long long count = (long long)n;

	elementwise(app, app->mean_heads, n, (void *[]){&out, &in, &heads, &count});
}

/* ---- the two products: row-major tensors in cuBLAS's column-major words ------------------- */

void app_scores(struct app *app, struct app_shape z, CUdeviceptr q, CUdeviceptr k, CUdeviceptr s)
{
	float one = 1, zero = 0;

	CHECK(app->call.gemm(app->blas, CUBLAS_OP_T, CUBLAS_OP_N, z.columns, z.rows, z.depth, &one,
			     (void *)k, CUDA_R_16F, z.depth, (long long)z.columns * z.depth,
			     (void *)q, CUDA_R_16F, z.depth, (long long)z.rows * z.depth, &zero,
			     (void *)s, CUDA_R_16F, z.columns, (long long)z.rows * z.columns,
			     z.heads, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void app_context(struct app *app, struct app_shape z, CUdeviceptr p, CUdeviceptr v, CUdeviceptr o)
{
	float one = 1, zero = 0;

	CHECK(app->call.gemm(app->blas, CUBLAS_OP_N, CUBLAS_OP_N, z.depth, z.rows, z.columns, &one,
			     (void *)v, CUDA_R_16F, z.depth, (long long)z.columns * z.depth,
			     (void *)p, CUDA_R_16F, z.columns, (long long)z.rows * z.columns, &zero,
			     (void *)o, CUDA_R_16F, z.depth, (long long)z.rows * z.depth, z.heads,
			     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* ---- observation ------------------------------------------------------------------------ */

static float *grow(struct app_report *r, size_t n)
{
	if (!r->text) {
		r->text = open_memstream(&r->text_bytes, &r->text_size);
		if (!r->text)
			app_fail("open_memstream", 1);
	}
	if (r->count + n > r->room) {
		r->room = 2 * (r->count + n);
		r->values = realloc(r->values, r->room * sizeof(*r->values));
		if (!r->values)
			app_fail("realloc", 1);
	}
	r->count += n;
	return r->values + r->count - n;
}

static uint64_t hash(const void *data, size_t bytes)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

static void line(struct app_report *r, const char *name, int repetition, uint64_t h,
		 const float *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	fprintf(r->text, "%s[%d] count=%zu hash=%016llx sum=%.6f\n", name, repetition, n,
		(unsigned long long)h, sum);
}

void app_observe_host(struct app_report *r, const char *name, int repetition, const uint16_t *data,
		      size_t n)
{
	float *values = grow(r, n);

	for (size_t i = 0; i < n; i++)
		values[i] = f16_to_float(data[i]);
	line(r, name, repetition, hash(data, n * 2), values, n);
}

void app_observe_f32(struct app_report *r, const char *name, int repetition, const float *data,
		     size_t n)
{
	float *values = grow(r, n);

	memcpy(values, data, n * sizeof(*data));
	line(r, name, repetition, hash(data, n * sizeof(*data)), values, n);
}

void app_observe(struct app_report *r, const char *name, int repetition, CUdeviceptr data, size_t n)
{
	uint16_t *copy = allocate(n * 2);

	CHECK(cuMemcpyDtoH(copy, data, n * 2));
	app_observe_host(r, name, repetition, copy, n);
	free(copy);
}

void app_report(struct app_report *r)
{
	static bool begun; /* the first report of a program starts the file anew */
	const char *path = getenv("APP_DUMP");

	if (!r->text)
		return;
	fclose(r->text);
	fputs(r->text_bytes, stdout);
	if (path && *path) {
		FILE *f = fopen(path, begun ? "ab" : "wb");
		begun = true;
		if (!f || fwrite(r->values, sizeof(*r->values), r->count, f) != r->count)
			app_fail(path, 1);
		fclose(f);
	}
	free(r->text_bytes);
	free(r->values);
	memset(r, 0, sizeof(*r));
}
