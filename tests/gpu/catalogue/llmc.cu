/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence of llm.c without cuDNN, forward pass alone, bf16: cublasLtMatmul with strides in the
 * layouts; the packed projection is permuted apart and its buffer then holds the scores; the
 * softmax scales and writes the lower triangle only, the rest of P being zero from the start; the
 * output overwrites the scores.
 */
#include "engine.h"

#include <cublasLt.h>

typedef __nv_bfloat16 brain;

static brain *packed, *q, *k, *v, *p;
static cublasLtHandle_t lt;
static void *workspace;
static const size_t WORKSPACE = 32u << 20;

__global__ void permute(brain *to_q, brain *to_k, brain *to_v, const brain *from)
{
	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
	long long d = i % D, n = i / D % S, h = i / D / S % H, b = i / D / S / H;
	const brain *token = from + (b * S + n) * 3 * H * D + h * D + d;

	if (i >= (long long)B * H * S * D)
		return;
	to_q[i] = token[0];
	to_k[i] = token[H * D];
	to_v[i] = token[2 * H * D];
}

__global__ void lower_triangle_softmax(brain *to, float scale, const brain *from, int columns)
{
	long long row = blockIdx.x;
	const brain *x = from + row * columns;
	brain *y = to + row * columns;

	softmax_row((int)(row % S) + 1, 0, [=](int j) { return scale * __bfloat162float(x[j]); },
		    [=](int j, float value) { y[j] = __float2bfloat16(value); });
}

static void open_engine(struct engine *e)
{
	(void)e;
	CHECK(cublasLtCreate(&lt));
	packed = (brain *)halves(B * H * WIDE);
	q = (brain *)halves(B * H * THIN);
	k = (brain *)halves(B * H * THIN);
	v = (brain *)halves(B * H * THIN);
	p = (brain *)halves(B * H * WIDE);
	workspace = room(WORKSPACE);
}

static cublasLtMatrixLayout_t layout(int rows, int columns, long long stride)
{
	cublasLtMatrixLayout_t made;
	int count = B * H;

	CHECK(cublasLtMatrixLayoutCreate(&made, CUDA_R_16BF, (uint64_t)rows, (uint64_t)columns,
					 rows));
	CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
					       sizeof(count)));
	CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
					       &stride, sizeof(stride)));
	return made;
}

/* c[m,n] = op(a) b, column-major, for all heads; everything is described anew at each call. */
static void matmul(struct engine *e, bool transposed, int m, int n, int depth, const brain *a,
		   const brain *b, brain *c)
{
	cublasOperation_t ta = transposed ? CUBLAS_OP_T : CUBLAS_OP_N, tb = CUBLAS_OP_N;
	cublasLtMatmulDesc_t what;
	cublasLtMatmulPreference_t wish;
	cublasLtMatmulHeuristicResult_t found;
	cublasLtMatrixLayout_t la = transposed ? layout(depth, m, (long long)m * depth)
					       : layout(m, depth, (long long)m * depth);
	cublasLtMatrixLayout_t lb = layout(depth, n, (long long)n * depth);
	cublasLtMatrixLayout_t lc = layout(m, n, (long long)m * n);
	int count = 0;

	CHECK(cublasLtMatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	CHECK(cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta)));
	CHECK(cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb)));
	CHECK(cublasLtMatmulPreferenceCreate(&wish));
	CHECK(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						   &WORKSPACE, sizeof(WORKSPACE)));
	CHECK(cublasLtMatmulAlgoGetHeuristic(lt, what, la, lb, lc, lc, wish, 1, &found, &count));
	CHECK(!count);
	CHECK(cublasLtMatmul(lt, what, &ONE, a, la, b, lb, &ZERO, c, lc, c, lc, &found.algo,
			     workspace, WORKSPACE, e->stream));
	CHECK(cublasLtMatmulPreferenceDestroy(wish));
	CHECK(cublasLtMatmulDescDestroy(what));
	CHECK(cublasLtMatrixLayoutDestroy(la));
	CHECK(cublasLtMatrixLayoutDestroy(lb));
	CHECK(cublasLtMatrixLayoutDestroy(lc));
}

static void chain(struct engine *e, unsigned seed)
{
	draw(e, packed, 3 * B * H * THIN, seed);
	permute<<<blocks(B * H * THIN), THREADS, 0, e->stream>>>(q, k, v, packed);
	matmul(e, true, S, S, D, k, q, packed);
	lower_triangle_softmax<<<B * H * S, THREADS, 0, e->stream>>>(p, SCALE, packed, S);
	CHECK(cudaGetLastError());
	matmul(e, false, D, S, S, v, p, packed);
	save(e, "o", packed, B * H * THIN);
}
