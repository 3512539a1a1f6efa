/* SPDX-License-Identifier: Apache-2.0
 *
 * The one intermediate form. Every intercepted call becomes a `struct op` before anybody decides
 * anything about it; nothing below the hooks knows which of the vendor's many entry points was
 * used.
 *
 * An op is filled by a hook on its stack, lives for the call only, and is copied by whoever keeps
 * it.
 */
#ifndef FASHIM_OP_H
#define FASHIM_OP_H

#include <cuda.h>
#include <library_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/real/driver_context.h"

/* What becomes of the program's own call: it is made, its work was done or put off, it has failed.
 */
enum flow { FLOW_PASS, FLOW_TAKEN, FLOW_FAILED };

struct library; /* one loaded libcublas; library.h */

enum op_kind {
	OP_GEMM,	  /* any cuBLAS matrix product that struct op_gemm can express */
	OP_LAUNCH,	  /* a kernel */
	OP_COPY,	  /* device memory read and/or written by a copy */
	OP_FILL,	  /* memset */
	OP_ALLOC,	  /* after the fact: range became valid */
	OP_FREE,	  /* before the fact: range is about to die */
	OP_CAPTURE_BEGIN, /* a stream is about to record a graph */
	OP_CAPTURE_END,
	OP_GRAPH_LAUNCH,
	OP_TEARDOWN, /* context, stream, module or library about to be destroyed: `handle` */
	OP_SYNC,     /* host waits or asks, or streams are ordered; touches nothing */
	OP_LIBRARY,  /* a call of another GPU library that says what it touches */
	OP_OPAQUE,   /* may do anything (unknown driver function, external semaphores, IPC …) */
	OP_KIND_COUNT
};

/* Bytes that a library's call touches, however many kernels it launches: it may read and may write
 * them as marked, and none outside its operands. Those it reads stand first. */
struct op_operand {
	uint64_t begin, end;
	bool read, written;
	bool whole; /* every byte of [begin,end) is overwritten, none read before */
};

/* Factors of four matrices, a bias, what is left for a gradient, and what is said of the output. */
#define OPERANDS_BESIDE 9

/* A cuBLAS product in cuBLAS's own column-major words, exactly as the app said it, so that it can
 * be issued again:  C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C, `batch` times. */
struct op_gemm {
	const char *entry; /* name of the entry point, e.g. "cublasGemmEx" */
	const struct library *library;
	void *handle;	    /* cublasHandle_t, or cublasLtHandle_t for Lt */
	int transa, transb; /* cublasOperation_t: 0 N, 1 T, 2 C */
	int64_t m, n, k;
	uint64_t a, b, c; /* addresses; by_array: of device arrays of `batch` addresses */
	cudaDataType atype, btype, ctype;
	int64_t lda, ldb, ldc; /* elements */
	int64_t stride_a, stride_b,
		stride_c; /* elements between batch entries; 0 when batch == 1 */
	int64_t batch;
	int64_t run; /* > 1: entries come in runs of as many, `inner` apart; `stride` then leads
			from one run to the next. No entry point says it so, arrays of addresses do:
			heads that share K */
	int64_t inner_a, inner_b, inner_c;
	int64_t parts; /* > 1: so many products of the program's, each with as many of the entries
			  (chain/parts.h) */
	bool by_array;
	bool scalars_on_device;	    /* alpha/beta unknown to the host: never deferred */
	double alpha, beta;	    /* real part, when on the host */
	uint64_t alpha_at, beta_at; /* addresses, when not */
	int compute_type;	    /* cublasComputeType_t */
	int algo;		    /* cublasGemmAlgo_t */
	int math_mode;		    /* cublasMath_t of the handle */
	bool plain;		    /* no epilogue, bias, scaling, fp64 or complex: may be replaced.
				       false: extents count, recognition does not. */
	bool may_fail; /* cuBLAS may refuse it, and leave alone what it would have overwritten */
	const char *besides; /* what it does besides or instead, one word; NULL: nothing known */
	uint64_t extra;	     /* Lt: a further address that is read (bias) or 0; with … */
	uint64_t extra_bytes;
	uint64_t d;	    /* Lt: output address when it differs from c, else 0 */
	uint64_t workspace; /* the program's memory that it may work in, whatever lies there … */
	uint64_t workspace_bytes; /* … 0: none */
	int beside_count;
	struct op_operand beside[OPERANDS_BESIDE]; /* Lt: what it touches besides all that */
};

/* A kernel launch. params/extra as given to cuLaunchKernel; use launch_params() to read them. */
struct op_launch {
	CUfunction function; /* may be a CUkernel cast to CUfunction */
	unsigned grid[3], block[3], shared_bytes;
	void **params;
	void **extra;
	const CUlaunchAttribute *attributes; /* cuLaunchKernelEx only */
	unsigned attribute_count;
	bool peculiar; /* some attribute says more than when the kernel may begin, and how fast it
			  shall run: launched again without it, it might do something else */
	bool cooperative;
};

struct op_range {
	uint64_t base;
	uint64_t bytes;
};

/* Copies and fills with a pitch give the smallest range that holds them; `exact` is false then and
 * the bytes between rows stay untouched. A side that is host memory has bytes == 0. */
struct op_copy {
	struct op_range source, target;
	bool exact;
	bool from_host, to_host; /* the other side is host memory */
	bool later;		 /* the call may return before the copy is done (…Async) */
	const void *host;	 /* its address when from_host */
};

struct op_fill {
	struct op_range target;
	bool exact;
};

enum memory_kind {
	MEMORY_DEVICE,	/* cuMemAlloc*: ours to watch */
	MEMORY_ASYNC,	/* stream-ordered pool */
	MEMORY_MAPPED,	/* cuMemMap */
	MEMORY_MANAGED, /* the rest is never elided */
	MEMORY_HOST,
	MEMORY_SHARED /* exported to or imported from another process */
};

struct op_alloc {
	struct op_range range;
	enum memory_kind kind; /* OP_FREE: of what the call frees; MEMORY_DEVICE: of pools, too */
	bool at_once;	       /* OP_FREE: when the call is made, whatever the streams still do */
};

#define OPERANDS_MAX 48

struct op_library {
	const char *call; /* entry point, e.g. "cudnnBackendExecute"; static storage */
	int count;
	struct op_operand operand[OPERANDS_MAX];
};

struct op {
	enum op_kind kind;
	const char *name;  /* entry point, for traces and reasons; static storage */
	CUcontext context; /* current when the hook ran; NULL: none */
	CUstream stream;   /* never 0: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD for default streams.
			      For a GEMM or a library's call: the handle's stream */
	union {
		struct op_gemm gemm;
		struct op_launch launch;
		struct op_copy copy;
		struct op_fill fill;
		struct op_alloc alloc;	    /* OP_ALLOC, OP_FREE (bytes may be 0: the
				       allocation that begins there) */
		struct op_library *library; /* the hook's, for the call */
		void *handle; /* OP_TEARDOWN: what goes; OP_GRAPH_LAUNCH: the executable graph;
				 OP_CAPTURE_END: where the graph's handle will be */
	};
	void *watcher;	  /* flow's own, between flow_before() and flow_after(): a chain … */
	uint64_t watched; /* … and its serial, for its place may be another chain's by then */
	int recorded;	/* the same: number, from 1, among the ops of a capture that is followed */
	CUresult error; /* flow_before()'s, where it says FLOW_FAILED */
};

/* Where the op's work goes. */
static inline struct queue op_queue(const struct op *op)
{
	return (struct queue){op->context, op->stream};
}

#endif
