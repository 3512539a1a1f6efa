/* SPDX-License-Identifier: Apache-2.0
 *
 * cublasLtMatmul. Its operation and its four matrices are opaque descriptors; what they say is
 * asked of the library's own getters and put into the words of struct op_gemm. Row-major operands
 * become transposed column-major ones. What the product touches beyond A, B, C and D goes along
 * (factors, auxiliary output, gradients of a bias); the workspace is offered as a fill of its own.
 */

#include "shim/real/cublas_headers.h"
#include "shim/hook/hook_cublas.h"

typedef __typeof__(&cublasLtMatmulDescGetAttribute) desc_getter;
typedef __typeof__(&cublasLtMatrixLayoutGetAttribute) layout_getter;

struct matrix {
	cudaDataType type;
	cublasLtOrder_t order;
	uint64_t rows, cols;
	int64_t ld, stride;
	int32_t batch;
	uint32_t batch_mode;
	int64_t plane; /* bytes to the imaginary parts, where these lie apart */
};

static bool ask_layout(layout_getter get, cublasLtMatrixLayout_t layout, struct matrix *matrix)
{
	size_t written;

	*matrix = (struct matrix){.batch = 1};
	if (!layout)
		return false;
#define ASK(attribute, field) get(layout, attribute, &(field), sizeof(field), &written)
	if (ASK(CUBLASLT_MATRIX_LAYOUT_TYPE, matrix->type) ||
	    ASK(CUBLASLT_MATRIX_LAYOUT_ORDER, matrix->order) ||
	    ASK(CUBLASLT_MATRIX_LAYOUT_ROWS, matrix->rows) ||
	    ASK(CUBLASLT_MATRIX_LAYOUT_COLS, matrix->cols) ||
	    ASK(CUBLASLT_MATRIX_LAYOUT_LD, matrix->ld) ||
	    ASK(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, matrix->batch))
		return false;
	if (matrix->batch > 1 && ASK(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix->stride))
		return false;
	/* Libraries before 13 do not know the attribute: strided. */
	if (matrix->batch > 1 && ASK(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, matrix->batch_mode))
		matrix->batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
	if (matrix->type != CUDA_R_16F && matrix->type != CUDA_R_16BF &&
	    matrix->type != CUDA_R_32F && ASK(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, matrix->plane))
		return false;
#undef ASK
	return !matrix->plane && matrix->batch_mode <= CUBLASLT_BATCH_MODE_POINTER_ARRAY &&
	       (matrix->order == CUBLASLT_ORDER_COL || matrix->order == CUBLASLT_ORDER_ROW);
}

/* What the operation's descriptor says. */
struct operation {
	int32_t compute_type, scale_type, pointer_mode, transa, transb;
	uint32_t epilogue;
	void *bias, *aux;
	int32_t bias_type, aux_type;
	int64_t aux_ld, aux_stride, bias_stride;
	void *amax, *scale[4]; /* scale: of A, B, C, D */
	int32_t scale_mode[4]; /* 0: one number */
	void *aux_amax, *out_scale;
	void *counters[2]; /* of pieces of A or B that are there, of D that are */
	int32_t fill;
};

static bool ask_operation(desc_getter get, cublasLtMatmulDesc_t desc, struct operation *operation)
{
	size_t written;

	*operation = (struct operation){.bias_type = -1, .aux_type = -1};
	if (!desc)
		return false;
#define ASK(attribute, field)                                                                      \
	get(desc, CUBLASLT_MATMUL_DESC_##attribute, &(field), sizeof(field), &written)
	if (ASK(COMPUTE_TYPE, operation->compute_type) || ASK(SCALE_TYPE, operation->scale_type) ||
	    ASK(POINTER_MODE, operation->pointer_mode) || ASK(TRANSA, operation->transa) ||
	    ASK(TRANSB, operation->transb) || ASK(EPILOGUE, operation->epilogue) ||
	    ASK(FILL_MODE, operation->fill))
		return false;
	if (operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
		ASK(BIAS_POINTER, operation->bias);
		ASK(BIAS_DATA_TYPE, operation->bias_type);
		ASK(BIAS_BATCH_STRIDE, operation->bias_stride);
		ASK(EPILOGUE_AUX_POINTER, operation->aux);
		ASK(EPILOGUE_AUX_DATA_TYPE, operation->aux_type);
		ASK(EPILOGUE_AUX_LD, operation->aux_ld);
		ASK(EPILOGUE_AUX_BATCH_STRIDE, operation->aux_stride);
		ASK(EPILOGUE_AUX_AMAX_POINTER, operation->aux_amax);
	}
	ASK(AMAX_D_POINTER, operation->amax);
	ASK(A_SCALE_POINTER, operation->scale[0]);
	ASK(B_SCALE_POINTER, operation->scale[1]);
	ASK(C_SCALE_POINTER, operation->scale[2]);
	ASK(D_SCALE_POINTER, operation->scale[3]);
	for (int i = 0; i < 4; i++)
		if (operation->scale[i])
			get(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE + i, &operation->scale_mode[i],
			    sizeof(operation->scale_mode[i]), &written);
	ASK(D_OUT_SCALE_POINTER, operation->out_scale);
	ASK(ATOMIC_SYNC_IN_COUNTERS_POINTER, operation->counters[0]);
	ASK(ATOMIC_SYNC_OUT_COUNTERS_POINTER, operation->counters[1]);
#undef ASK
	return true;
}

static double scalar(const void *address, int scale_type)
{
	switch (scale_type) {
	case CUDA_R_16F:
		return gemm_scalar(address, CUBLAS_COMPUTE_16F, CUDA_R_16F);
	case CUDA_R_64F:
	case CUDA_C_64F:
		return gemm_scalar(address, CUBLAS_COMPUTE_64F, CUDA_R_64F);
	case CUDA_R_32I:
		return gemm_scalar(address, CUBLAS_COMPUTE_32I, CUDA_R_32I);
	default:
		return gemm_scalar(address, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	}
}

static uint64_t element_bits(int type)
{
	const uint64_t bytes = operands_type_bytes((cudaDataType)type);

	if (bytes)
		return 8 * bytes;
	return type == CUDA_R_4F_E2M1 ? 4 : type >= CUDA_R_8F_E4M3 ? 8 : 128;
}

/* Memory that is read and written besides. None of it is surely overwritten whole: some lengths are
 * those of the longest there may be. */
static void touch_besides(struct op_gemm *gemm, const void *address, uint64_t bytes, bool read,
			  bool write)
{
	if (address && bytes)
		gemm->beside[gemm->beside_count++] = (struct op_operand){
			ADDRESS(address), ADDRESS(address) + bytes, .read = read, .written = write};
}

/* One number, or at most as many bytes as there are runs of 16, in tiles of 128 by 128. */
static uint64_t scale_bytes(int32_t mode, const struct matrix *matrix)
{
	const uint64_t rows = (matrix->rows + 127) / 128, cols = (matrix->cols + 127) / 128;

	return mode ? rows * cols * 1024 * (uint64_t)(matrix->batch > 1 ? matrix->batch : 1)
		    : sizeof(float);
}

static void touch_factors(struct op_gemm *gemm, const struct operation *operation,
			  const struct matrix *a, const struct matrix *b, const struct matrix *d)
{
	const struct matrix *of[] = {a, b, d, d};

	for (int i = 0; i < 4; i++)
		touch_besides(gemm, operation->scale[i],
			      scale_bytes(operation->scale_mode[i], of[i]), true, false);
	touch_besides(gemm, operation->out_scale, scale_bytes(1, d), false, true);
	touch_besides(gemm, operation->amax, sizeof(float), false, true);
	touch_besides(gemm, operation->aux_amax, sizeof(float), false, true);
}

struct matmul {
	const void *alpha, *beta, *A, *B, *C;
	void *D;
	cublasLtMatrixLayout_t Adesc, Bdesc, Cdesc, Ddesc;
	cublasLtMatmulDesc_t desc;
};

/* Bias, auxiliary matrix and their directions. */
static void describe_epilogue(const struct operation *operation, const struct matrix *d,
			      struct op_gemm *gemm)
{
	const unsigned aux = 128, derivative = 8 | 64;
	uint64_t bias_bits =
		element_bits(operation->bias_type >= 0 ? operation->bias_type : (int)d->type);
	uint64_t batches = d->batch > 1 ? d->batch - 1 : 0;
	uint64_t longest = d->rows > d->cols ? d->rows : d->cols;
	uint64_t aux_bytes, bias_bytes;

	bias_bytes = (longest + batches * operation->bias_stride) * bias_bits / 8;
	gemm->may_fail |= (operation->epilogue & CUBLASLT_EPILOGUE_BIAS && !operation->bias) ||
			  (operation->epilogue & (aux | derivative) && !operation->aux);
	aux_bytes = (operation->aux_ld * (d->order == CUBLASLT_ORDER_COL ? d->cols : d->rows) +
		     batches * operation->aux_stride) *
		    element_bits(operation->aux_type >= 0 ? operation->aux_type : (int)d->type) / 8;
	/* A ReLU mask has one bit an element, and its leading dimension counts bits. */
	if (operation->epilogue & (2 | 8) && operation->aux_type < 0)
		aux_bytes = aux_bytes * 8 / element_bits(d->type) / 8;
	if (operation->epilogue & CUBLASLT_EPILOGUE_BIAS) {
		gemm->extra = ADDRESS(operation->bias);
		gemm->extra_bytes = gemm->extra ? bias_bytes : 0;
	} else if (operation->epilogue &
		   (16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) {
		touch_besides(gemm, operation->bias,
			      (gemm->m > gemm->n ? gemm->m : gemm->n) * bias_bits / 8, false, true);
	}
	if (operation->epilogue & derivative) {
		gemm->extra = ADDRESS(operation->aux);
		gemm->extra_bytes = gemm->extra ? aux_bytes : 0;
	} else if (operation->epilogue & aux) {
		touch_besides(gemm, operation->aux, aux_bytes, false, true);
	}
}

static const char *epilogue_name(uint32_t epilogue)
{
	switch (epilogue) {
#define EPILOGUE(name)                                                                             \
	case CUBLASLT_EPILOGUE_##name:                                                             \
		return "epilogue_" #name;
		EPILOGUE(RELU)
		EPILOGUE(RELU_AUX)
		EPILOGUE(BIAS)
		EPILOGUE(RELU_BIAS)
		EPILOGUE(RELU_AUX_BIAS)
		EPILOGUE(DRELU)
		EPILOGUE(DRELU_BGRAD)
		EPILOGUE(GELU)
		EPILOGUE(GELU_AUX)
		EPILOGUE(GELU_BIAS)
		EPILOGUE(GELU_AUX_BIAS)
		EPILOGUE(DGELU)
		EPILOGUE(DGELU_BGRAD)
		EPILOGUE(BGRADA)
		EPILOGUE(BGRADB)
#undef EPILOGUE
	default:
		return "epilogue";
	}
}

/* What the call does besides a product of matrices; NULL: nothing. */
static const char *beside_product(const struct operation *operation, const struct matrix *a,
				  const struct matrix *b, const struct matrix *d)
{
	static const char *const scaled[] = {"scale_of_A", "scale_of_B", "scale_of_C",
					     "scale_of_D"};

	if (operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
		return epilogue_name(operation->epilogue);
	if (operation->amax)
		return "amax_of_D";
	for (int i = 0; i < 4; i++)
		if (operation->scale[i])
			return scaled[i];
	if (operation->out_scale)
		return "scales_of_output";
	return a->batch != d->batch || b->batch != d->batch ? "batch_counts_that_differ" : NULL;
}

/* Fills op->gemm; false: the descriptors say something that op_gemm has no words for. */
static bool describe(struct op *op, const struct library *library, const struct matmul *call)
{
	desc_getter get_desc = LIBRARY_ASK(library, cublasLtMatmulDescGetAttribute);
	layout_getter get_layout = LIBRARY_ASK(library, cublasLtMatrixLayoutGetAttribute);
	struct op_gemm *gemm = &op->gemm;
	struct operation operation;
	struct matrix a, b, c, d;
	bool reads_c;

	*gemm = (struct op_gemm){.entry = op->name, .library = library, .algo = -1};
	if (!get_desc || !get_layout || !ask_operation(get_desc, call->desc, &operation) ||
	    !ask_layout(get_layout, call->Adesc, &a) || !ask_layout(get_layout, call->Bdesc, &b) ||
	    !ask_layout(get_layout, call->Ddesc, &d))
		return false;
	/* A triangle of D; pieces whose turn others give and wait for, by counters; conjugates that
	 * are not transposed. */
	if (operation.transa > CUBLAS_OP_C || operation.transb > CUBLAS_OP_C ||
	    operation.fill != CUBLAS_FILL_MODE_FULL || operation.counters[0] ||
	    operation.counters[1])
		return false;
	/* No product: it is refused. */
	if ((operation.transa ? a.cols : a.rows) != d.rows ||
	    (operation.transb ? b.rows : b.cols) != d.cols ||
	    (operation.transa ? a.rows : a.cols) != (operation.transb ? b.cols : b.rows))
		return false;
	gemm->compute_type = operation.compute_type;
	gemm->scalars_on_device = operation.pointer_mode != CUBLASLT_POINTER_MODE_HOST;
	if (!gemm->scalars_on_device) {
		gemm->alpha = scalar(call->alpha, operation.scale_type);
		gemm->beta = scalar(call->beta, operation.scale_type);
	} else if (operation.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
		gemm->alpha_at = ADDRESS(call->alpha);
		gemm->beta_at = ADDRESS(call->beta);
	} else {
		return false; /* a vector of alphas */
	}
	reads_c = call->C && (gemm->scalars_on_device || gemm->beta != 0);

	gemm->transa = operation.transa;
	gemm->transb = operation.transb;
	gemm->m = d.rows;
	gemm->n = d.cols;
	gemm->k = gemm->transa ? a.rows : a.cols;
	gemm->a = ADDRESS(call->A);
	gemm->b = ADDRESS(call->B);
	gemm->c = ADDRESS(call->D);
	gemm->atype = a.type;
	gemm->btype = b.type;
	gemm->ctype = d.type;
	gemm->lda = a.ld;
	gemm->ldb = b.ld;
	gemm->ldc = d.ld;
	gemm->stride_a = a.stride;
	gemm->stride_b = b.stride;
	gemm->stride_c = d.stride;
	gemm->batch = d.batch;
	gemm->by_array = a.batch_mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY ||
			 b.batch_mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY ||
			 d.batch_mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY;
	gemm->besides = beside_product(&operation, &a, &b, &d);
	gemm->may_fail = !call->alpha || !call->beta || gemm_may_fail(gemm);
	gemm->plain = call->alpha && call->beta && !gemm->besides && gemm_is_plain(gemm);

	if (operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
		describe_epilogue(&operation, &d, gemm);
	touch_factors(gemm, &operation, &a, &b, &d);

	if (reads_c && call->C != call->D) {
		if (!ask_layout(get_layout, call->Cdesc, &c) || gemm->extra)
			return false;
		if (c.type == d.type && c.ld == d.ld && c.stride == d.stride &&
		    c.order == d.order) {
			gemm->c = ADDRESS(call->C);
			gemm->d = ADDRESS(call->D);
		} else {
			uint64_t lines = c.order == CUBLASLT_ORDER_COL ? c.cols : c.rows;

			gemm->extra = ADDRESS(call->C);
			gemm->extra_bytes = (c.ld * lines + (c.batch - 1) * c.stride) *
					    element_bits(c.type) / 8;
			gemm->besides = "C_laid_out_unlike_D";
			gemm->plain = false;
		}
	}
	/* Row-major X is column-major X^T: flip what A and B ask for, and swap the factors for D.
	 */
	if (a.order == CUBLASLT_ORDER_ROW)
		gemm->transa = gemm->transa ? CUBLAS_OP_N : CUBLAS_OP_T;
	if (b.order == CUBLASLT_ORDER_ROW)
		gemm->transb = gemm->transb ? CUBLAS_OP_N : CUBLAS_OP_T;
	if (d.order == CUBLASLT_ORDER_ROW) {
		struct op_gemm flipped = *gemm;

		flipped.m = gemm->n;
		flipped.n = gemm->m;
		flipped.a = gemm->b;
		flipped.b = gemm->a;
		flipped.atype = gemm->btype;
		flipped.btype = gemm->atype;
		flipped.lda = gemm->ldb;
		flipped.ldb = gemm->lda;
		flipped.stride_a = gemm->stride_b;
		flipped.stride_b = gemm->stride_a;
		flipped.transa = gemm->transb ? CUBLAS_OP_N : CUBLAS_OP_T;
		flipped.transb = gemm->transa ? CUBLAS_OP_N : CUBLAS_OP_T;
		*gemm = flipped;
	}
	return gemm_is_sane(gemm) && gemm_fits(gemm);
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
				     const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
				     const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
				     const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
				     cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
				     void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
#define ARGUMENTS                                                                                  \
	(handle, desc, alpha, A, Adesc, B, Bdesc, beta, C, Cdesc, D, Ddesc, algo, workspace,       \
	 workspace_bytes, stream)
	struct matmul call = {alpha, beta, A, B, C, D, Adesc, Bdesc, Cdesc, Ddesc, desc};
	struct op op = {.name = "cublasLtMatmul"}, fill = {.kind = OP_FILL, .name = op.name};
	cublasStatus_t status;
	enum flow flow;
	bool fills;
	BLAS_REAL(cublasLtMatmul, handle, ARGUMENTS)

	if (hook_bypassed() || flow_rests())
		return real ARGUMENTS;
	op.kind = describe(&op, library, &call) ? OP_GEMM : OP_OPAQUE;
	op.gemm.handle = handle;
	op.context = hook_context();
	op.stream = hook_stream((CUstream)stream, false);
	fills = op.kind == OP_GEMM && workspace && workspace_bytes && flow_watching();
	flow = flow_before(&op);
	if (flow != FLOW_PASS)
		return flow == FLOW_TAKEN ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
	if (fills) {
		fill.context = op.context;
		fill.stream = op.stream;
		fill.fill.target = (struct op_range){ADDRESS(workspace), workspace_bytes};
		fill.fill.exact = true;
		if (flow_before(&fill) == FLOW_FAILED)
			return CUBLAS_STATUS_EXECUTION_FAILED;
	}
	hook_depth++;
	status = real ARGUMENTS;
	hook_depth--;
	if (status == CUBLAS_STATUS_SUCCESS) {
		flow_after(&op);
		if (fills)
			flow_after(&fill);
	}
	return status;
#undef ARGUMENTS
}

BLAS_HANDLE(cublasLtCreate, cublasLtDestroy, cublasLtHandle_t)
