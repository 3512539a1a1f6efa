/* SPDX-License-Identifier: Apache-2.0
 *
 * What cuDNN's calls declare: the older functions by their descriptors, the backend by what its
 * descriptors were told before.
 */
#include "library_fixture.h"

#include <string.h>

#define CUDNN(name, parameters, ...) cudnnStatus_t name parameters;
#include "shim/real/cudnn_hooks.def"
cudnnStatus_t cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor_t *descriptor);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, int name, int type,
				       int64_t count, const void *array);
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, int name, int type,
				       int64_t wanted, int64_t *count, void *array);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
				  cudnnBackendDescriptor_t pack);

enum {
#define ATTRIBUTE(name, number, meaning) name = (number),
#include "shim/operands/cudnn_attributes.def"
};

#define CALL(name) SYMBOL(CUDNN_9, name)

static const float one = 1, zero = 0;

/* ---- older functions ------------------------------------------------------------------------ */

static struct standin_tensor nchw(int type, int n, int c, int h, int w)
{
	return (struct standin_tensor){
		.type = type, .rank = 4, .dim = {n, c, h, w}, .stride = {c * h * w, h * w, w, 1}};
}

static int convolve(struct standin_tensor *x, struct standin_tensor *w, struct standin_tensor *y,
		    const float *beta)
{
	return CALL(cudnnConvolutionForward)(&handle, &one, x, AT(0), w, AT(4096), NULL, 0,
					     AT(65536), 1000, beta, y, AT(8192));
}

static void a_convolution(void **state)
{
	struct standin_tensor x = nchw(DATA_HALF, 2, 3, 8, 8), w = nchw(DATA_HALF, 4, 3, 3, 3),
			      y = nchw(DATA_HALF, 2, 4, 6, 6);
	const struct op_library *call;

	assert_int_equal(convolve(&x, &w, &y, &zero), 0);
	call = the_call("cudnnConvolutionForward");
	assert_ptr_equal(seen->events[0].op.stream, (void *)0x5000);
	assert_int_equal(call->count, 4);
	has_operand(call, 0, 2 * 3 * 64 * 2, READ);
	has_operand(call, 4096, 4 * 27 * 2, READ);
	has_operand(call, 65536, 1000, WHOLE);
	has_operand(call, 8192, 2 * 4 * 36 * 2, WHOLE);

	/* What was there counts. */
	convolve(&x, &w, &y, &one);
	has_operand(the_call("cudnnConvolutionForward"), 8192, 2 * 4 * 36 * 2, UPDATED);

	/* Channels last is as dense; a view of something larger is not; nor is one that repeats. */
	memcpy(y.stride, (int[]){144, 1, 24, 4}, 4 * sizeof(int));
	convolve(&x, &w, &y, &zero);
	has_operand(the_call("cudnnConvolutionForward"), 8192, 2 * 4 * 36 * 2, WHOLE);
	memcpy(y.stride, (int[]){200, 1, 24, 4}, 4 * sizeof(int));
	convolve(&x, &w, &y, &zero);
	has_operand(the_call("cudnnConvolutionForward"), 8192, (200 + 5 * 24 + 5 * 4 + 3 + 1) * 2,
		    WRITTEN);
	memcpy(y.stride, (int[]){0, 1, 24, 4}, 4 * sizeof(int));
	convolve(&x, &w, &y, &zero);
	has_operand(the_call("cudnnConvolutionForward"), 8192, (5 * 24 + 5 * 4 + 3 + 1) * 2,
		    WRITTEN);
	/* Rows upside down. */
	memcpy(y.stride, (int[]){144, 36, -6, 1}, 4 * sizeof(int));
	convolve(&x, &w, &y, &zero);
	has_operand(the_call("cudnnConvolutionForward"), 8192 - 5 * 6 * 2, 2 * 4 * 36 * 2, WHOLE);
}

static void not_understood(void **state)
{
	struct standin_tensor x = nchw(DATA_HALF, 2, 3, 8, 8), w = nchw(DATA_HALF, 4, 3, 3, 3),
			      y = nchw(DATA_HALF, 2, 4, 6, 6);

	x.type = 5; /* vectors of four bytes */
	convolve(&x, &w, &y, &zero);
	nothing_declared();
	x.type = DATA_HALF;
	w.format = FORMAT_VECTORS;
	convolve(&x, &w, &y, &zero);
	nothing_declared();
	w.format = 0;
	y.rank = 9;
	convolve(&x, &w, &y, &zero);
	nothing_declared();
	y.rank = 4;
	convolve(NULL, &w, &y, &zero);
	nothing_declared();
	y.dim[0] = -1;
	convolve(&x, &w, &y, &zero);
	nothing_declared();
	y.dim[0] = 2;
	convolve(&x, &w, &y, &zero);
	the_call("cudnnConvolutionForward");
}

static void others(void **state)
{
	struct standin_tensor x = nchw(DATA_FLOAT, 2, 4, 5, 5), p = nchw(DATA_FLOAT, 1, 4, 1, 1);
	struct standin_tensor d = nchw(DATA_DOUBLE, 1, 1, 2, 2);
	const double none = 0, some = 0x1p-1074;
	const struct op_library *call;

	CALL(cudnnBatchNormalizationForwardTraining)
	(&handle, 1, &one, &zero, &x, AT(0), &x, AT(4096), &p, AT(8192), AT(8256), 0.5, AT(8320),
	 AT(8384), 1e-5, AT(8448), NULL);
	call = the_call("cudnnBatchNormalizationForwardTraining");
	assert_int_equal(call->count, 7);
	has_operand(call, 0, 800, READ);
	has_operand(call, 4096, 800, WHOLE);
	has_operand(call, 8192, 16, READ);
	has_operand(call, 8256, 16, READ);
	has_operand(call, 8320, 16, UPDATED);
	has_operand(call, 8384, 16, UPDATED);
	has_operand(call, 8448, 16, WHOLE);

	/* In place. */
	CALL(cudnnActivationForward)(&handle, NULL, &one, &x, AT(0), &zero, &x, AT(0));
	call = the_call("cudnnActivationForward");
	has_operand(call, 0, 800, READ);
	has_operand(call, 0, 800, WRITTEN);

	/* A factor of doubles is a double. */
	CALL(cudnnAddTensor)(&handle, &none, &d, AT(0), &none, &d, AT(64));
	has_operand(the_call("cudnnAddTensor"), 64, 32, WHOLE);
	CALL(cudnnAddTensor)(&handle, &none, &d, AT(0), &some, &d, AT(64));
	has_operand(the_call("cudnnAddTensor"), 64, 32, UPDATED);

	CALL(cudnnSoftmaxBackward)
	(&handle, 1, 0, &one, &x, AT(0), &x, AT(1024), &zero, &x, AT(2048));
	call = the_call("cudnnSoftmaxBackward");
	has_operand(call, 0, 800, READ);
	has_operand(call, 1024, 800, READ);
	has_operand(call, 2048, 800, WHOLE);
	CALL(cudnnScaleTensor)(&handle, &x, AT(0), &one);
	has_operand(the_call("cudnnScaleTensor"), 0, 800, UPDATED);
}

/* ---- the backend ---------------------------------------------------------------------------- */

enum {
	CONVOLUTION = 10,
	POINTWISE = 13,
	GRAPH_OF_OPERATIONS = 15,
	ENGINE = 2,
	CONFIG = 3,
	HEURISTICS = 4
};

static cudnnBackendDescriptor_t create(int type)
{
	cudnnBackendDescriptor_t descriptor = NULL;

	assert_int_equal(CALL(cudnnBackendCreateDescriptor)(type, &descriptor), 0);
	return descriptor;
}

static void set(cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count,
		const void *array)
{
	assert_int_equal(CALL(cudnnBackendSetAttribute)(descriptor, name, type, count, array), 0);
}

static void finalize(cudnnBackendDescriptor_t descriptor)
{
	assert_int_equal(CALL(cudnnBackendFinalize)(descriptor), 0);
}

#define SET(descriptor, name, number_type, type, value)                                            \
	set(descriptor, name, number_type, 1, &(type){value})
#define SET_DESCRIPTOR(descriptor, name, other)                                                    \
	SET(descriptor, name, TYPE_DESCRIPTOR, cudnnBackendDescriptor_t, other)

static cudnnBackendDescriptor_t open_tensor(int64_t id, int64_t rows, int64_t columns)
{
	cudnnBackendDescriptor_t tensor = create(DESCRIPTOR_TENSOR);

	SET(tensor, TENSOR_UNIQUE_ID, TYPE_INT64, int64_t, id);
	SET(tensor, TENSOR_DATA_TYPE, TYPE_DATA_TYPE, int, DATA_HALF);
	SET(tensor, TENSOR_BYTE_ALIGNMENT, TYPE_INT64, int64_t, 16);
	set(tensor, TENSOR_DIMENSIONS, TYPE_INT64, 3, (int64_t[]){1, rows, columns});
	set(tensor, TENSOR_STRIDES, TYPE_INT64, 3, (int64_t[]){rows * columns, columns, 1});
	return tensor;
}

static cudnnBackendDescriptor_t tensor_of(int64_t id, int64_t rows, int64_t columns)
{
	cudnnBackendDescriptor_t tensor = open_tensor(id, rows, columns);

	finalize(tensor);
	return tensor;
}

/* Y = conv(X, W), and R = relu(Y + B) where Y is virtual. */
struct program {
	cudnnBackendDescriptor_t x, w, y, b, r, convolution, pointwise, graph, plan;
};

static void make_operations(struct program *p, const float *beta)
{
	cudnnBackendDescriptor_t operations[2];

	p->convolution = create(CONVOLUTION);
	SET_DESCRIPTOR(p->convolution, OPERATION_CONVOLUTION_FORWARD_X, p->x);
	SET_DESCRIPTOR(p->convolution, OPERATION_CONVOLUTION_FORWARD_W, p->w);
	SET_DESCRIPTOR(p->convolution, OPERATION_CONVOLUTION_FORWARD_Y, p->y);
	set(p->convolution, OPERATION_CONVOLUTION_FORWARD_ALPHA, TYPE_FLOAT, 1, &one);
	if (beta)
		set(p->convolution, OPERATION_CONVOLUTION_FORWARD_BETA, TYPE_FLOAT, 1, beta);
	finalize(p->convolution);
	p->pointwise = create(POINTWISE);
	SET_DESCRIPTOR(p->pointwise, OPERATION_POINTWISE_XDESC, p->y);
	SET_DESCRIPTOR(p->pointwise, OPERATION_POINTWISE_BDESC, p->b);
	SET_DESCRIPTOR(p->pointwise, OPERATION_POINTWISE_YDESC, p->r);
	finalize(p->pointwise);
	p->graph = create(GRAPH_OF_OPERATIONS);
	operations[0] = p->convolution;
	operations[1] = p->pointwise;
	set(p->graph, OPERATIONGRAPH_OPS, TYPE_DESCRIPTOR, 2, operations);
	finalize(p->graph);
}

static void make_plan(struct program *p)
{
	cudnnBackendDescriptor_t engine = create(ENGINE), config = create(CONFIG);

	SET_DESCRIPTOR(engine, ENGINE_OPERATION_GRAPH, p->graph);
	SET(engine, ENGINE_GLOBAL_INDEX, TYPE_INT64, int64_t, 0);
	finalize(engine);
	SET_DESCRIPTOR(config, ENGINECFG_ENGINE, engine);
	finalize(config);
	p->plan = create(DESCRIPTOR_PLAN);
	SET_DESCRIPTOR(p->plan, EXECUTION_PLAN_ENGINE_CONFIG, config);
	finalize(p->plan);
	/* Nothing but the plan is needed any longer. */
	for (int i = 0; i < 2; i++)
		CALL(cudnnBackendDestroyDescriptor)(i ? engine : config);
	CALL(cudnnBackendDestroyDescriptor)(p->convolution);
	CALL(cudnnBackendDestroyDescriptor)(p->pointwise);
	CALL(cudnnBackendDestroyDescriptor)(p->graph);
	CALL(cudnnBackendDestroyDescriptor)(p->x);
}

static struct program tensors(void)
{
	struct program p = {.x = tensor_of(1, 10, 20),
			    .w = tensor_of(2, 3, 3),
			    .y = open_tensor(3, 8, 18),
			    .b = tensor_of(4, 1, 18),
			    .r = tensor_of(5, 8, 18)};

	SET(p.y, TENSOR_IS_VIRTUAL, TYPE_BOOLEAN, bool, true);
	finalize(p.y);
	return p;
}

static struct program made(void)
{
	struct program p = tensors();

	make_operations(&p, &zero);
	make_plan(&p);
	return p;
}

static void execute(const struct program *p, int count, const int64_t *ids, void *const *pointers)
{
	cudnnBackendDescriptor_t pack = create(DESCRIPTOR_PACK);
	void *workspace = AT(65536);

	set(pack, VARIANT_PACK_UNIQUE_IDS, TYPE_INT64, count, ids);
	set(pack, VARIANT_PACK_DATA_POINTERS, TYPE_POINTER, count, pointers);
	set(pack, VARIANT_PACK_WORKSPACE, TYPE_POINTER, 1, &workspace);
	finalize(pack);
	seen->count = 0;
	assert_int_equal(CALL(cudnnBackendExecute)(&handle, p->plan, pack), 0);
	CALL(cudnnBackendDestroyDescriptor)(pack);
}

static void execute_all(const struct program *p)
{
	execute(p, 4, (int64_t[]){5, 4, 2, 1}, (void *[]){AT(8192), AT(12288), AT(4096), AT(0)});
}

static void a_graph(void **state)
{
	struct program p = made();
	const struct op_library *call;

	for (int i = 0; i < 3; i++) {
		execute_all(&p);
		call = the_call("cudnnBackendExecute");
		assert_ptr_equal(seen->events[0].op.stream, (void *)0x5000);
		assert_int_equal(call->count, 5);
		has_operand(call, 0, 400, READ);
		has_operand(call, 4096, 18, READ);
		has_operand(call, 12288, 36, READ);
		has_operand(call, 8192, 288, WHOLE);
		has_operand(call, 65536, 256, WHOLE);
	}
}

static void a_pack_that_does_not_fit(void **state)
{
	struct program p = made();

	execute(&p, 3, (int64_t[]){5, 4, 2}, (void *[]){AT(8192), AT(12288), AT(4096)});
	nothing_declared();
	execute(&p, 4, (int64_t[]){5, 4, 2, 1}, (void *[]){AT(8192), NULL, AT(4096), AT(0)});
	nothing_declared();
	execute(&p, 4, (int64_t[]){5, 4, 2, 7}, (void *[]){AT(8192), AT(64), AT(4096), AT(0)});
	nothing_declared();
	execute(&p, 4, (int64_t[]){5, 4, 2, 2}, (void *[]){AT(8192), AT(64), AT(4096), AT(0)});
	nothing_declared();
	execute_all(&p);
	the_call("cudnnBackendExecute");
}

static void beta_in_a_graph(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct program p = tensors();

		begin(state);
		CALL(cudnnBackendDestroyDescriptor)(p.y);
		p.y = tensor_of(3, 8, 18);
		make_operations(&p, i ? &one : &zero);
		make_plan(&p);
		execute(&p, 5, (int64_t[]){5, 4, 3, 2, 1},
			(void *[]){AT(8192), AT(12288), AT(16384), AT(4096), AT(0)});
		/* Read by the second operation, whatever the first does. */
		has_operand(the_call("cudnnBackendExecute"), 16384, 288, UPDATED);
	}
	/* Alone it is overwritten, unless beta says otherwise or nothing. */
	for (int i = 0; i < 3; i++) {
		struct program p = tensors();
		cudnnBackendDescriptor_t none = p.y;

		begin(state);
		p.y = p.r;
		p.r = none; /* virtual, so read again by nobody outside */
		make_operations(&p, i == 0 ? &zero : i == 1 ? &one : NULL);
		set(p.graph, OPERATIONGRAPH_OPS, TYPE_DESCRIPTOR, 1, &p.convolution);
		make_plan(&p);
		execute(&p, 3, (int64_t[]){5, 2, 1}, (void *[]){AT(8192), AT(4096), AT(0)});
		has_operand(the_call("cudnnBackendExecute"), 8192, 288, i ? UPDATED : WHOLE);
	}
}

static void a_value_is_no_address(void **state)
{
	struct program p = tensors();

	CALL(cudnnBackendDestroyDescriptor)(p.b);
	p.b = open_tensor(4, 1, 1);
	SET(p.b, TENSOR_IS_BY_VALUE, TYPE_BOOLEAN, bool, true);
	finalize(p.b);
	make_operations(&p, &zero);
	make_plan(&p);
	execute(&p, 4, (int64_t[]){5, 4, 2, 1},
		(void *[]){AT(8192), (void *)&one, AT(4096), AT(0)});
	assert_int_equal(the_call("cudnnBackendExecute")->count, 4);
}

/* What no row of the table knows, on any descriptor on the way. */
static void odd_descriptors(void **state)
{
	enum { TENSOR_RAGGED_OFFSET = 913, NO_ATTRIBUTE = 9999, NEW_OPERATION = 2803 };

	for (int i = 0; i < 8; i++) {
		struct program p = tensors();

		begin(state);
		CALL(cudnnBackendDestroyDescriptor)(p.b);
		p.b = open_tensor(4, 1, 18);
		if (i == 0)
			SET_DESCRIPTOR(p.b, TENSOR_RAGGED_OFFSET, p.x);
		else if (i == 1)
			SET(p.b, TENSOR_VECTOR_COUNT, TYPE_INT64, int64_t, 4);
		else if (i == 2)
			SET(p.b, TENSOR_REORDERING_MODE, 20, int, 1);
		else if (i == 3)
			SET(p.b, TENSOR_DATA_TYPE, TYPE_DATA_TYPE, int, 16);
		finalize(p.b);
		make_operations(&p, &zero);
		if (i == 4) {
			SET_DESCRIPTOR(p.pointwise, NEW_OPERATION, p.x);
			set(p.graph, OPERATIONGRAPH_OPS, TYPE_DESCRIPTOR, 2,
			    (cudnnBackendDescriptor_t[]){p.convolution, p.pointwise});
		} else if (i == 5) {
			SET(p.graph, NO_ATTRIBUTE, TYPE_INT64, int64_t, 1);
		}
		make_plan(&p);
		if (i == 6)
			SET(p.plan, 405, 24, char, '{'); /* a plan that was written down */
		execute_all(&p);
		if (i < 7)
			nothing_declared();
		else
			the_call("cudnnBackendExecute");
	}
}

static void heuristics_lead_on(void **state)
{
	struct program p = tensors();
	cudnnBackendDescriptor_t heuristics, configs[2];
	int64_t count;

	make_operations(&p, &zero);
	heuristics = create(HEURISTICS);
	SET_DESCRIPTOR(heuristics, ENGINEHEUR_OPERATION_GRAPH, p.graph);
	finalize(heuristics);
	configs[0] = create(CONFIG);
	configs[1] = create(CONFIG);
	/* The stand-in fills one. */
	assert_int_equal(CALL(cudnnBackendGetAttribute)(heuristics, ENGINEHEUR_RESULTS,
							TYPE_DESCRIPTOR, 2, &count, configs),
			 0);
	for (int i = 0; i < 2; i++) {
		p.plan = create(DESCRIPTOR_PLAN);
		SET_DESCRIPTOR(p.plan, EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
		finalize(p.plan);
		execute_all(&p);
		if (i == 0)
			the_call("cudnnBackendExecute");
		else
			nothing_declared();
	}
	/* A plan's memory used again is another plan. */
	CALL(cudnnBackendDestroyDescriptor)(p.plan);
	execute_all(&p);
	nothing_declared();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_convolution, begin),
		cmocka_unit_test_setup(not_understood, begin),
		cmocka_unit_test_setup(others, begin),
		cmocka_unit_test_setup(a_graph, begin),
		cmocka_unit_test_setup(a_pack_that_does_not_fit, begin),
		cmocka_unit_test_setup(beta_in_a_graph, begin),
		cmocka_unit_test_setup(a_value_is_no_address, begin),
		cmocka_unit_test_setup(odd_descriptors, begin),
		cmocka_unit_test_setup(heuristics_lead_on, begin),
	};

	(void)argc;
	if (!library_start(argv) || !library_load())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
