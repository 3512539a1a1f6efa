/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU libraries through every door, and what their calls declare: NCCL, cuFFT, cuSPARSE, cuSOLVER.
 * cuDNN: test_library_cudnn.c.
 */
#include "library_fixture.h"

#include <errno.h>
#include <string.h>

#define NCCL(name, parameters, ...) ncclResult_t name parameters;
#include "shim/real/nccl_hooks.def"
#define FFT(name, from, to, type) cufftResult name(cufftHandle plan, from *input, to *output);
#define FFT_DIRECTED(name, from, to, type)                                                         \
	cufftResult name(cufftHandle plan, from *input, to *output, int direction);
#include "shim/real/cufft_hooks.def"
cusolverStatus_t cusolverDnSpotrf(cusolverDnHandle_t handle, cublasFillMode_t uplo, int n, float *A,
				  int lda, float *work, int lwork, int *info);
cusolverStatus_t cusolverDnDgetrf(cusolverDnHandle_t handle, int m, int n, double *A, int lda,
				  double *work, int *pivots, int *info);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch);
cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long *n, long long *in,
				long long istride, long long idist, cudaDataType input,
				long long *on, long long ostride, long long odist,
				cudaDataType output, long long batch, size_t *bytes,
				cudaDataType execution);
cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream);
cufftResult cufftSetWorkArea(cufftHandle plan, void *work);
cufftResult cufftXtSetCallback(cufftHandle plan, void **routine, cufftXtCallbackType type,
			       void **information);
cufftResult cufftDestroy(cufftHandle plan);
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params,
				  cusolverEigMode_t jobz, cublasFillMode_t uplo, int64_t n,
				  cudaDataType type, void *A, int64_t lda, cudaDataType wtype,
				  void *W, cudaDataType compute, void *work, size_t bytes,
				  void *host_work, size_t host_bytes, int *info);

static const char *const rows[] = {
#define ROW(name) #name,
#include "tests/preload/standin_rows.def"
};

static int stand_in_of(const char *name)
{
	static const char *const prefixes[STANDINS] = {"-",	"cudnn",    "nccl",
						       "cufft", "cusparse", "cusolver"};

	for (int i = 1; i < STANDINS; i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return i;
	return -1;
}

typedef int set_call(void *handle, const void *desc, void *y, const void *value);

static const struct standin_tensor small = {.rank = 1, .dim = {4}, .stride = {1}};

/* Without a library, a hook that a program reaches all the same says so and does nothing. */
static void nobody_there(void **state)
{
	set_call *set = (set_call *)dlsym(RTLD_DEFAULT, "cudnnSetTensor");

	assert_string_equal(owner((void *)set), PROBE);
	assert_int_not_equal(set(&handle, &small, AT(0), NULL), 0);
	assert_int_equal(seen->count, 0);
}

static void dlsym_hands_out_hooks(void **state)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *hook = dlsym(library[stand_in_of(rows[i])], rows[i]);

		assert_string_equal(owner(hook), PROBE);
	}
	/* Other families' functions in a library are none of ours, nor those without a row. */
	assert_string_equal(owner(dlsym(library[NCCL], "cudnnSetTensor")), "libnccl.so.2");
	assert_string_equal(owner(dlsym(library[CUDNN_9], "cudnnGetVersion")), "libcudnn.so.9");
	assert_null(dlsym(library[NCCL], "ncclNoSuchThing"));
	assert_ptr_not_equal(dlsym(library[CUDNN_8], "cudnnSetTensor"),
			     dlsym(library[CUDNN_9], "cudnnSetTensor"));
}

/* Each function reaches its library, once, with whatever arguments, and its answer comes back. */
static void every_row_passes_on(void **state)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const int which = stand_in_of(rows[i]);
		int (*call)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
			    void *, void *, void *, void *, void *, void *, void *, void *, void *,
			    void *, void *, void *, void *, void *, void *, void *, void *, void *,
			    void *, void *, void *, void *, void *) =
			(__typeof__(call))dlsym(library[which], rows[i]);

		for (int way = 0; way < 3; way++) {
			begin(state);
			seen->active = way > 0;
			seen->watching = way > 1;
			state_of[which]->result = 77;
			errno = 4242;
			assert_int_equal(call(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
					      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
					      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
					      NULL, NULL, NULL, NULL, NULL),
					 77);
			assert_int_equal(errno, 4242);
			assert_int_equal(state_of[which]->calls, 1);
			assert_string_equal(state_of[which]->called, rows[i]);
			for (unsigned k = 0; k < seen->count && k < PROBE_EVENTS; k++)
				assert_int_not_equal(seen->events[k].op.kind, OP_LIBRARY);
		}
	}
}

static void two_versions_get_their_own_calls(void **state)
{
	void *user[2] = {dlopen(beside("libuser_cudnn8.so"), RTLD_NOW | RTLD_LOCAL),
			 dlopen(beside("libuser_cudnn9.so"), RTLD_NOW | RTLD_LOCAL)};

	for (int i = 0; i < 4; i++) {
		const int which = i & 1;
		set_call *linked = (set_call *)dlsym(user[which], "user_set");
		set_call *found = (set_call *)dlsym(library[which], "cudnnSetTensor");

		begin(state);
		assert_non_null(linked);
		assert_int_equal(linked(&handle, &small, AT(0), NULL), 0);
		has_operand(the_call("cudnnSetTensor"), 0, 16, WHOLE);
		assert_int_equal(state_of[which]->calls, 1);
		assert_int_equal(found(&handle, &small, AT(0), NULL), 0);
		the_call("cudnnSetTensor");
		assert_int_equal(state_of[which]->calls, 2);
		assert_int_equal(state_of[1 - which]->calls, 0);
	}
}

/* A call that comes from an object which needs no cuDNN at all, as after a jump out of a wrapper:
 * the handle tells whose it is. */
static void a_handle_tells_the_version(void **state)
{
	set_call *anyhow = (set_call *)dlsym(RTLD_DEFAULT, "cudnnSetTensor");

	for (int i = 0; i < 4; i++) {
		const int which = i & 1;
		set_call *found = (set_call *)dlsym(library[which], "cudnnSetTensor");

		begin(state);
		found(&handle, &small, AT(0), NULL);
		anyhow(&handle, &small, AT(0), NULL);
		assert_int_equal(state_of[which]->calls, 2);
		assert_int_equal(state_of[1 - which]->calls, 0);
	}
}

static void a_failed_call_is_not_followed_up(void **state)
{
	set_call *set = (set_call *)dlsym(library[CUDNN_9], "cudnnSetTensor");

	state_of[CUDNN_9]->result = 5;
	assert_int_equal(set(&handle, &small, AT(0), NULL), 5);
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].when, PROBE_BEFORE);
}

static void unwatched_calls_are_not_described(void **state)
{
	set_call *set = (set_call *)dlsym(library[CUDNN_9], "cudnnSetTensor");

	seen->watching = false;
	assert_int_equal(set(&handle, &small, AT(0), NULL), 0);
	assert_int_equal(seen->count, 0);
	assert_int_equal(state_of[CUDNN_9]->calls, 1);
}

/* ---- NCCL ----------------------------------------------------------------------------------- */

#define COMM   ((ncclComm_t)(void *)&handle)
#define STREAM ((cudaStream_t)(void *)0x7000)

static void collectives(void **state)
{
	const struct op_library *call;

	assert_int_equal(
		SYMBOL(NCCL, ncclAllReduce)(AT(0), AT(4096), 100, NCCL_FLOAT32, 0, COMM, STREAM),
		0);
	call = the_call("ncclAllReduce");
	assert_ptr_equal(seen->events[0].op.stream, STREAM);
	assert_int_equal(call->count, 2);
	has_operand(call, 0, 400, READ);
	has_operand(call, 4096, 400, WHOLE);

	SYMBOL(NCCL, ncclAllReduce)(AT(0), AT(0), 100, NCCL_BFLOAT16, 0, COMM, STREAM);
	call = the_call("ncclAllReduce");
	has_operand(call, 0, 200, READ);
	has_operand(call, 0, 200, WRITTEN);

	SYMBOL(NCCL, ncclAllGather)(AT(100), AT(0), 100, NCCL_INT8, COMM, STREAM);
	call = the_call("ncclAllGather");
	has_operand(call, 100, 100, READ);
	has_operand(call, 0, 400, WRITTEN);
	/* What is read stands first. */
	assert_true(call->operand[0].read);

	SYMBOL(NCCL, ncclReduceScatter)(AT(0), AT(8192), 10, NCCL_FLOAT64, 0, COMM, STREAM);
	call = the_call("ncclReduceScatter");
	has_operand(call, 0, 320, READ);
	has_operand(call, 8192, 80, WHOLE);

	/* Rank 1: the root of the first only. */
	SYMBOL(NCCL, ncclBroadcast)(AT(0), AT(512), 10, NCCL_FLOAT16, 1, COMM, STREAM);
	call = the_call("ncclBroadcast");
	has_operand(call, 0, 20, READ);
	has_operand(call, 512, 20, WHOLE);
	SYMBOL(NCCL, ncclBroadcast)(NULL, AT(512), 10, NCCL_FLOAT16, 0, COMM, STREAM);
	assert_int_equal(the_call("ncclBroadcast")->count, 1);
	SYMBOL(NCCL, ncclReduce)(AT(0), AT(512), 10, NCCL_FLOAT16, 0, 0, COMM, STREAM);
	has_operand(the_call("ncclReduce"), 512, 20, WRITTEN);
	SYMBOL(NCCL, ncclSend)(AT(0), 10, NCCL_INT64, 2, COMM, NULL);
	has_operand(the_call("ncclSend"), 0, 80, READ);
	assert_ptr_equal(seen->events[0].op.stream, CU_STREAM_LEGACY);
}

static void an_odd_collective_flushes(void **state)
{
	/* An operation of the program's own. */
	SYMBOL(NCCL, ncclAllReduce)(AT(0), AT(512), 1, NCCL_FLOAT32, 5, COMM, STREAM);
	assert_int_equal(seen->count, 3);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
	assert_string_equal(seen->events[0].name, "ncclAllReduce");
	assert_int_equal(seen->events[1].op.kind, OP_FILL);
	/* Another device's. */
	begin(state);
	handle.device = 3;
	SYMBOL(NCCL, ncclAllReduce)(AT(0), AT(512), 1, NCCL_FLOAT32, 0, COMM, STREAM);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
	begin(state);
	SYMBOL(NCCL, ncclAllReduce)(AT(0), AT(512), 1, 99, 0, COMM, STREAM);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
}

static void a_group_is_declared_at_its_end(void **state)
{
	const struct op_library *call;

	state_of[NCCL]->scratch = 0;
	seen->watching = false; /* whoever watches later must know all the same */
	SYMBOL(NCCL, ncclGroupStart)();
	SYMBOL(NCCL, ncclGroupStart)();
	for (int i = 0; i < 4; i++) {
		SYMBOL(NCCL, ncclSend)(AT(i * 64), 64, NCCL_INT8, i, COMM, STREAM);
		SYMBOL(NCCL, ncclRecv)(AT(4096 + i * 64), 64, NCCL_INT8, i, COMM, STREAM);
	}
	SYMBOL(NCCL, ncclAllReduce)(AT(8192), AT(8192), 8, NCCL_INT8, 0, COMM, NULL);
	SYMBOL(NCCL, ncclGroupEnd)();
	assert_int_equal(seen->count, 0);
	seen->watching = true;
	state_of[NCCL]->scratch = device + (1 << 19);
	assert_int_equal(SYMBOL(NCCL, ncclGroupEnd)(), 0);
	/* One op a stream, and no fill. */
	assert_int_equal(seen->count, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(seen->events[i].when, PROBE_BEFORE);
		assert_int_equal(seen->events[i].op.kind, OP_LIBRARY);
		assert_string_equal(seen->events[i].name, "ncclGroupEnd");
	}
	call = &seen->events[0].library;
	assert_ptr_equal(seen->events[0].op.stream, STREAM);
	assert_int_equal(call->count, 2);
	has_operand(call, 0, 256, READ);
	has_operand(call, 4096, 256, WHOLE);
	call = &seen->events[1].library;
	assert_ptr_equal(seen->events[1].op.stream, CU_STREAM_LEGACY);
	has_operand(call, 8192, 8, READ);
	has_operand(call, 8192, 8, WRITTEN);

	/* Nothing is left over. */
	begin(state);
	SYMBOL(NCCL, ncclGroupStart)();
	SYMBOL(NCCL, ncclGroupEnd)();
	for (unsigned i = 0; i < seen->count; i++)
		assert_int_not_equal(seen->events[i].op.kind, OP_LIBRARY);
}

static void an_odd_group_flushes(void **state)
{
	state_of[NCCL]->scratch = 0;
	SYMBOL(NCCL, ncclGroupStart)();
	SYMBOL(NCCL, ncclSend)(AT(0), 64, NCCL_INT8, 0, COMM, STREAM);
	SYMBOL(NCCL, ncclAllReduce)(AT(0), AT(512), 1, NCCL_FLOAT32, 9, COMM, STREAM);
	assert_int_equal(seen->count, 0);
	SYMBOL(NCCL, ncclGroupEnd)();
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
	/* More buffers than are kept. */
	begin(state);
	state_of[NCCL]->scratch = 0;
	SYMBOL(NCCL, ncclGroupStart)();
	for (int i = 0; i < 300; i++)
		SYMBOL(NCCL, ncclSend)(AT(i * 64), 32, NCCL_INT8, 0, COMM, STREAM);
	SYMBOL(NCCL, ncclGroupEnd)();
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
}

/* One process, two devices, and a default stream in each: an op for either. */
static void a_group_of_two_devices(void **state)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	__typeof__(&cuCtxSetCurrent) set_current =
		(__typeof__(&cuCtxSetCurrent))dlsym(driver, "cuCtxSetCurrent");
	__typeof__(&cuCtxGetCurrent) get_current =
		(__typeof__(&cuCtxGetCurrent))dlsym(driver, "cuCtxGetCurrent");
	__typeof__(&cuDevicePrimaryCtxRetain) retain =
		(__typeof__(&cuDevicePrimaryCtxRetain))dlsym(driver, "cuDevicePrimaryCtxRetain");
	CUcontext context[2];

	assert_int_equal(get_current(&context[0]), 0);
	assert_int_equal(retain(&context[1], 1), 0);
	begin(state);
	state_of[NCCL]->scratch = 0;
	SYMBOL(NCCL, ncclGroupStart)();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(set_current(context[i]), 0);
		handle.device = i;
		SYMBOL(NCCL, ncclAllReduce)
		(AT(i * 4096), AT(i * 4096), 8, NCCL_INT8, 0, COMM, NULL);
	}
	assert_int_equal(set_current(context[0]), 0);
	handle.device = 0;
	SYMBOL(NCCL, ncclGroupEnd)();
	assert_int_equal(seen->count, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(seen->events[i].op.kind, OP_LIBRARY);
		assert_ptr_equal(seen->events[i].op.context, context[i]);
		has_operand(&seen->events[i].library, i * 4096, 8, READ);
		assert_int_equal(seen->events[i].library.count, 2);
	}
}

/* ---- cuFFT ---------------------------------------------------------------------------------- */

static void transforms(void **state)
{
	const struct op_library *call;
	cufftHandle plan = 0;

	seen->watching = false;
	assert_int_equal(SYMBOL(CUFFT, cufftPlan1d)(&plan, 10, FFT_R2C, 3), 0);
	SYMBOL(CUFFT, cufftSetStream)(plan, STREAM);
	seen->watching = true;
	seen->count = 0;
	assert_int_equal(SYMBOL(CUFFT, cufftExecR2C)(plan, AT(0), AT(4096)), 0);
	call = the_call("cufftExecR2C");
	assert_ptr_equal(seen->events[0].op.stream, STREAM);
	assert_int_equal(call->count, 2);
	has_operand(call, 0, 3 * 10 * 4, READ);
	has_operand(call, 4096, 3 * 6 * 8, WHOLE);
	/* In place, rows of reals are padded. */
	SYMBOL(CUFFT, cufftExecR2C)(plan, AT(0), AT(0));
	call = the_call("cufftExecR2C");
	has_operand(call, 0, (2 * 12 + 10) * 4, READ);
	has_operand(call, 0, 3 * 6 * 8, UPDATED);
	/* Not what the plan is for. */
	SYMBOL(CUFFT, cufftExecC2C)(plan, AT(0), AT(4096), 1);
	nothing_declared();
	/* A work area of the program's. */
	SYMBOL(CUFFT, cufftSetWorkArea)(plan, AT(65536));
	seen->count = 0;
	SYMBOL(CUFFT, cufftExecR2C)(plan, AT(0), AT(4096));
	has_operand(the_call("cufftExecR2C"), 65536, 512, WRITTEN);
	/* Callbacks read what they like. */
	SYMBOL(CUFFT, cufftXtSetCallback)(plan, NULL, 0, NULL);
	seen->count = 0;
	SYMBOL(CUFFT, cufftExecR2C)(plan, AT(0), AT(4096));
	nothing_declared();
	SYMBOL(CUFFT, cufftDestroy)(plan);
	seen->count = 0;
	SYMBOL(CUFFT, cufftExecR2C)(plan, AT(0), AT(4096));
	nothing_declared();
}

static void embedded_transforms(void **state)
{
	long long n[] = {4, 6}, in[] = {5, 8}, out[] = {4, 4};
	const struct op_library *call;
	size_t bytes;

	SYMBOL(CUFFT, cufftXtMakePlanMany)
	(9, 2, n, in, 2, 100, CUDA_R_16F, out, 1, 16, CUDA_C_16F, 2, &bytes, CUDA_C_16F);
	seen->count = 0;
	SYMBOL(CUFFT, cufftXtExec)(9, AT(0), AT(4096), 1);
	call = the_call("cufftXtExec");
	/* (1 * 100 + (3 * 8 + 5) * 2 + 1) halves; rows of 4 complex numbers, without a gap. */
	has_operand(call, 0, 159 * 2, READ);
	has_operand(call, 4096, 2 * 16 * 4, WHOLE);
	SYMBOL(CUFFT, cufftXtMakePlanMany)
	(9, 2, n, in, 2, 100, CUDA_C_32F, out, 1, 20, CUDA_R_32F, 2, &bytes, CUDA_C_32F);
	seen->count = 0;
	SYMBOL(CUFFT, cufftXtExec)(9, AT(0), AT(4096), -1);
	call = the_call("cufftXtExec");
	/* To real numbers: the input may serve as scratch. The output has rows of 4 for 6. */
	has_operand(call, 0, (100 + (3 * 8 + 3) * 2 + 1) * 8, UPDATED);
	has_operand(call, 4096, (20 + 3 * 4 + 5 + 1) * 4, WRITTEN);
	/* Too many dimensions. */
	SYMBOL(CUFFT, cufftXtMakePlanMany)
	(9, 4, n, NULL, 1, 1, CUDA_C_32F, NULL, 1, 1, CUDA_C_32F, 1, &bytes, CUDA_C_32F);
	seen->count = 0;
	SYMBOL(CUFFT, cufftXtExec)(9, AT(0), AT(4096), -1);
	nothing_declared();
}

/* ---- cuSPARSE, cuSOLVER --------------------------------------------------------------------- */

typedef int spmm_call(void *handle, int opA, int opB, const void *alpha, const void *a,
		      const void *b, const void *beta, const void *c, int compute, int algo,
		      void *buffer);

static void sparse_products(void **state)
{
	struct standin_matrix a = {.format = SPARSE_CSR,
				   .batch = 1,
				   .type = CUDA_R_32F,
				   .index_type = SPARSE_INDEX_32,
				   .rows = 10,
				   .columns = 20,
				   .stored = 30,
				   .outer = AT(0),
				   .inner = AT(1024),
				   .values = AT(2048)};
	struct standin_matrix b = {.order = SPARSE_COLUMNS,
				   .batch = 1,
				   .type = CUDA_R_32F,
				   .rows = 20,
				   .columns = 5,
				   .ld = 24,
				   .values = AT(4096)};
	struct standin_matrix c = {.order = SPARSE_ROWS,
				   .batch = 1,
				   .type = CUDA_R_32F,
				   .rows = 10,
				   .columns = 5,
				   .ld = 5,
				   .values = AT(8192)};
	spmm_call *spmm = (spmm_call *)dlsym(library[CUSPARSE], "cusparseSpMM");
	const float one = 1, zero = 0;
	const struct op_library *call;

	assert_int_equal(spmm(&handle, 0, 0, &one, &a, &b, &zero, &c, CUDA_R_32F, 0, AT(16384)), 0);
	call = the_call("cusparseSpMM");
	assert_ptr_equal(seen->events[0].op.stream, (void *)0x5000);
	assert_int_equal(call->count, 6);
	has_operand(call, 0, 11 * 4, READ);
	has_operand(call, 1024, 30 * 4, READ);
	has_operand(call, 2048, 30 * 4, READ);
	has_operand(call, 4096, (4 * 24 + 20) * 4, READ);
	has_operand(call, 8192, 50 * 4, WHOLE);
	has_operand(call, 16384, 128, UPDATED);
	spmm(&handle, 0, 0, &one, &a, &b, &one, &c, CUDA_R_32F, 0, AT(16384));
	has_operand(the_call("cusparseSpMM"), 8192, 50 * 4, UPDATED);
	/* Scalars of the device are read there, never here. */
	handle.scalars_on_device = 1;
	spmm(&handle, 0, 0, AT(32768), &a, &b, AT(32772), &c, CUDA_R_32F, 0, AT(16384));
	call = the_call("cusparseSpMM");
	has_operand(call, 32768, 4, READ);
	has_operand(call, 32772, 4, READ);
	has_operand(call, 8192, 50 * 4, UPDATED);
	a.format = 5; /* blocks */
	spmm(&handle, 0, 0, AT(32768), &a, &b, AT(32772), &c, CUDA_R_32F, 0, AT(16384));
	nothing_declared();
}

static void factorisations(void **state)
{
	const struct op_library *call;
	cusolverDnHandle_t solver = (cusolverDnHandle_t)(void *)&handle;

	SYMBOL(CUSOLVER, cusolverDnSpotrf)(solver, 0, 8, AT(0), 10, AT(4096), 100, AT(8192));
	call = the_call("cusolverDnSpotrf");
	assert_int_equal(call->count, 3);
	has_operand(call, 0, (7 * 10 + 8) * 4, UPDATED);
	has_operand(call, 4096, 400, WRITTEN);
	has_operand(call, 8192, 4, WRITTEN);

	SYMBOL(CUSOLVER, cusolverDnDgetrf)(solver, 6, 4, AT(0), 6, AT(4096), AT(12288), AT(8192));
	call = the_call("cusolverDnDgetrf");
	has_operand(call, 0, 24 * 8, UPDATED);
	has_operand(call, 4096, 80, WRITTEN);
	has_operand(call, 12288, 16, WRITTEN);

	SYMBOL(CUSOLVER, cusolverDnXsyevd)
	(solver, NULL, 1, 0, 4, CUDA_C_64F, AT(0), 4, CUDA_R_64F, AT(4096), CUDA_C_64F, AT(16384),
	 1000, NULL, 0, AT(8192));
	call = the_call("cusolverDnXsyevd");
	has_operand(call, 0, 16 * 16, UPDATED);
	has_operand(call, 4096, 32, WRITTEN);
	has_operand(call, 16384, 1000, WRITTEN);

	/* Sizes that will be refused. */
	SYMBOL(CUSOLVER, cusolverDnSpotrf)(solver, 0, -8, AT(0), 10, AT(4096), 100, AT(8192));
	nothing_declared();
	SYMBOL(CUSOLVER, cusolverDnSpotrf)(solver, 0, 8, AT(0), 7, AT(4096), 100, AT(8192));
	nothing_declared();
}

int main(int argc, char **argv)
{
	/* Needs a process without the libraries. */
	const struct CMUnitTest alone[] = {
		cmocka_unit_test_setup(nobody_there, begin),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(dlsym_hands_out_hooks, begin),
		cmocka_unit_test_setup(every_row_passes_on, begin),
		cmocka_unit_test_setup(two_versions_get_their_own_calls, begin),
		cmocka_unit_test_setup(a_handle_tells_the_version, begin),
		cmocka_unit_test_setup(a_failed_call_is_not_followed_up, begin),
		cmocka_unit_test_setup(unwatched_calls_are_not_described, begin),
		cmocka_unit_test_setup(collectives, begin),
		cmocka_unit_test_setup(an_odd_collective_flushes, begin),
		cmocka_unit_test_setup(a_group_is_declared_at_its_end, begin),
		cmocka_unit_test_setup(an_odd_group_flushes, begin),
		cmocka_unit_test_setup(a_group_of_two_devices, begin),
		cmocka_unit_test_setup(transforms, begin),
		cmocka_unit_test_setup(embedded_transforms, begin),
		cmocka_unit_test_setup(sparse_products, begin),
		cmocka_unit_test_setup(factorisations, begin),
	};

	(void)argc;
	if (!library_start(argv) || cmocka_run_group_tests(alone, NULL, NULL) || !library_load())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
