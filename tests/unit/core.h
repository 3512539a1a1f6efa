/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-made programs for the core's tests: the ops of one attention in ATen's words, sent through
 * flow_before() and flow_after() as the hooks do. Shapes and addresses are in `core`; every test
 * starts with core_begin(). The log goes nowhere (core_main() sees to that).
 */
#ifndef FASHIM_TEST_CORE_H
#define FASHIM_TEST_CORE_H

#include "tests/cmocka.h"
#include "shim/chain/chain.h"
#include "shim/flow/flow.h"
#include "shim/op/op.h"
#include "tools/replay/below.h"

#define CORE_ARENA 0x10000000ull /* one allocation of 16 MiB; [.., +1 MiB) holds the tensors */
#define CORE_ROOM  (16ull << 20)
#define CORE_APART 0x40000000ull	       /* another, 1 MiB */
#define CORE_OTHER (CORE_ARENA + (8ull << 20)) /* in the arena, above all tensors */

/* S = QK^T, X = scale S, M = X + mask (over S), P = softmax(M), O = PV. [H,S,D] contiguous. */
struct core {
	int64_t H, Sq, Sk, D;
	uint64_t q, k, v, s, x, m, p, o, mask;
	uint64_t q_bytes, k_bytes, v_bytes, score_bytes, mask_bytes, o_bytes;
	CUstream stream;
	float scale;
	double beta;	   /* of QK^T */
	int math_mode;	   /* another in each test: other openers, other sites */
	cudaDataType type; /* fp16, or fp32: products, scale, added mask and softmax */
};

extern struct core core;

/* Default shape (H=3, Sq=32, Sk=40, D=8), tensors apart by gaps in the arena, no chain, no site. */
void core_begin(void);
/* Sizes again after another shape was written into `core`; addresses stay. */
void core_resize(void);

/* Sends an op through; was it kept from the driver? */
bool core_send(struct op op);

/* ---- ops: parameter blocks live until 64 more were made
 * ----------------------------------------------- */

struct op core_product(int transa, int transb, int64_t m, int64_t n, int64_t k, uint64_t a,
		       int64_t lda, int64_t stride_a, uint64_t b, int64_t ldb, int64_t stride_b,
		       uint64_t c, int64_t ldc, int64_t stride_c, int64_t batch);
struct op core_scores(void);  /* S */
struct op core_context(void); /* O */
struct op core_scale(uint64_t out, uint64_t in, float factor);
struct op core_add_mask(uint64_t out, uint64_t in, uint64_t mask);
struct op core_softmax(uint64_t out, uint64_t in);
/* Over the rows of [H,Sk,Sq]. */
struct op core_spatial_softmax(uint64_t out, uint64_t in);
struct op core_log_softmax(uint64_t out, uint64_t in);
struct op core_tanh(uint64_t out, uint64_t in);
struct op core_fill(uint64_t out, int64_t elements); /* a kernel */
struct op core_masked_fill(uint64_t out, uint64_t in, uint64_t mask,
			   uint16_t value); /* bool mask [Sq,Sk] */
struct op core_kernel_copy(uint64_t out, uint64_t in, int64_t elements);
/* The same from one type to another. */
enum core_number { CORE_INT = 3, CORE_HALF = 5, CORE_FLOAT = 6, CORE_BFLOAT = 15 };
struct op core_cast(uint64_t out, enum core_number to, uint64_t in, enum core_number from,
		    int64_t elements);
/* Element-wise over up to four operands, output first; strides in bytes, [dim][operand]. */
struct op core_strided(const char *name, int operands, int dims, const unsigned *size,
		       const unsigned *strides, const uint64_t *pointers, const void *functor,
		       size_t functor_bytes);
/* A functor that no rule has words for. */
struct op core_other(uint64_t out, uint64_t in, float scalar);
/* Any kernel, its parameters by size and value. */
struct op core_launch(const char *name, unsigned count, const size_t *size,
		      const void *const *value);
/* A kernel without a rule: (pointer a, pointer b, float). b may be 0. */
struct op core_unknown(uint64_t a, uint64_t b, float scalar);
struct op core_named(const char *name, uint64_t a, uint64_t b, float scalar);

struct op core_memset(uint64_t begin, uint64_t bytes);
struct op core_to_host(uint64_t begin, uint64_t bytes);
struct op core_from_host(uint64_t begin, uint64_t bytes);
struct op core_copy(uint64_t from, uint64_t to, uint64_t bytes);
struct op core_free(uint64_t base);
struct op core_event(enum op_kind kind, const char *name);

void core_allocate(uint64_t base, uint64_t bytes, enum memory_kind kind);

/* ---- whole chains
 * ---------------------------------------------------------------------------------- */

/* The five ops. How many were kept. */
int core_chain(void);
/* Up to the softmax. */
int core_window(void);
/* Chains until the first that is replaced, that one not included: fails when the site does not
 * become verified in three. */
void core_learn(void);

/* One replaced chain, its S, X, M and P virtual; no act noted. */
struct chain *core_replaced(void);
/* One that waits for its last product. */
struct chain *core_waiting(void);

/* The only chain in use; fails when there is another number of them. */
struct chain *core_only_chain(void);

/* The acts of below.h as one letter each, in order: G L C F S (write back) M(emset) O(rder)
 * A(LiBi).
 */
const char *core_acts(void);
#define CORE_FORWARD "GLLL" /* the held-back ops: S, scale, mask, softmax */
const struct act *core_act(enum act_kind kind, int number);

int core_main(const char *name, const struct CMUnitTest *tests, size_t count);
#define CORE_MAIN(name, tests) core_main(name, tests, sizeof(tests) / sizeof(*(tests)))

#endif
