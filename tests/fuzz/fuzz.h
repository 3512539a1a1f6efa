/* SPDX-License-Identifier: Apache-2.0
 *
 * A random program over the driver and cuBLAS, all of it decided by a seed: attention call sites
 * that repeat until somebody who watches has learned them, and then are disturbed. What the files
 * of the program share.
 *
 * Every decision is a hash of the seed and of the number of the occurrence or event that it belongs
 * to, so that leaving one out changes no other. One seed has one type of numbers. The program keeps
 * a mark for every two bytes of device memory: how many attention outputs lie upstream of what is
 * there (0: the bytes must be the same under any shim). Marks go with the calls in program order,
 * which is the order of the device, too: whatever crosses streams is ordered by events, by the
 * legacy default stream or by the host.
 */
#ifndef FASHIM_FUZZ_H
#define FASHIM_FUZZ_H

#include <cuda.h>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/fuzz/dump.h"

/* ---- what is decided (fuzz.c) ------------------------------------------------------------- */

extern uint64_t seed;

struct rng {
	uint64_t state;
};
struct rng rng_of(uint64_t a, uint64_t b);
uint64_t next(struct rng *r);
unsigned below(struct rng *r, unsigned n); /* 0 … n-1 */
bool chance(struct rng *r, unsigned percent);

/* ---- failing and telling ------------------------------------------------------------------ */

void die(const char *call, int status, int line) __attribute__((noreturn));
#define OK(call)                                                                                   \
	do {                                                                                       \
		int status_ = (int)(call);                                                         \
		if (status_)                                                                       \
			die(#call, status_, __LINE__);                                             \
	} while (0)
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One more of those (a string constant), for --count. */
void occurs(const char *what);

/* ---- types of numbers --------------------------------------------------------------------- */

enum type { F16, BF16, F32 };
extern enum type type;
extern size_t width; /* bytes of a number */
cudaDataType cuda_type(void);
void put_number(void *to, size_t i, float x);
/* n numbers in [-1,1). `odd`: one of them is that instead; 0: none. */
void host_numbers(void *to, size_t n, uint64_t state, float odd);

/* ---- lanes -------------------------------------------------------------------------------- */

/* What one thread of the program works with: a context, streams, handles, an arena as a caching
 * allocator has it. Two lanes may share a context; they never share memory. */
struct lane {
	int number;
	CUcontext context;
	bool second_context;
	CUmodule module;
	CUstream stream, other, third; /* third: only ever waits for events of the first */
	bool blocking;		       /* stream obeys the legacy default stream */
	bool dry;		       /* marks only: a graph does the calls */
	CUevent event[3];
	cublasHandle_t blas, second; /* second: some products in its place; or NULL */
	cublasLtHandle_t lt;
	CUdeviceptr arena, spare, ones, scalars, sibling;
	char *pinned;
	CUdeviceptr arrays, tables; /* tables: cells of eight bytes with addresses */
	int arrays_at, tables_at;
	CUdeviceptr
		work; /* where cuBLAS may work, and nobody knows what lies there, or the program */
	bool working;
	size_t align;
	FILE *dump;
	char *dump_bytes;
	size_t dump_size;
	int occurrence, step;
};
enum { LAST = 9999 }; /* the occurrence that the end of the program counts as */
#define ARENA_BYTES  ((size_t)768 << 10)
#define SPARE_BYTES  ((size_t)128 << 10)
#define PINNED_BYTES ((size_t)128 << 10)
#define ARRAY_BYTES  ((size_t)64 << 10)
#define TABLE_BYTES  ((size_t)16 << 10)
#define WORK_BYTES   ((size_t)16 << 10)

extern struct lane lanes[2];
extern int lane_count;
extern __thread struct lane *here; /* of this thread */

void lane_open(struct lane *l, int number, struct rng *r);
void lane_close(struct lane *l);
CUmodule load_module(void);
/* The host may look at or write what `s` has to do with by a synchronous call. */
void settle(CUstream s);
/* What `after` does from now on is behind what `before` was given so far. */
void order(CUstream before, CUstream after, int event);

/* ---- memory and marks (memory.c) ---------------------------------------------------------- */

CUdeviceptr allocate(size_t bytes);
CUdeviceptr allocate_async(size_t bytes, CUstream s);
void release(CUdeviceptr p, CUstream s, bool async);
bool is_ours(CUdeviceptr p, size_t bytes); /* within one live allocation of this lane */
CUdeviceptr base_of(CUdeviceptr p, size_t *bytes);
int depth_of(CUdeviceptr p, size_t bytes); /* and DUMP_FLAGS that any of it has */
void mark(CUdeviceptr p, size_t bytes, int depth);
/* Another address of what lies at `of`, from now on; no more. */
void appears(CUdeviceptr p, size_t bytes, CUdeviceptr of);
void disappears(CUdeviceptr p);
CUdeviceptr known(CUdeviceptr p, size_t bytes); /* that the driver gave */
/* Scores of a graph, which FASHIM_GRAPHS=trust promises that nobody reads; or no longer. */
void mark_promised(CUdeviceptr p, size_t bytes, bool promised);
/* Numbers in fp32 among others, downstream of what has that depth. */
void mark_wide(CUdeviceptr p, size_t bytes, int depth);
void mark_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
/* The arena: a free place as an allocator might choose it, taken by an occurrence until it ends. */
CUdeviceptr arena_take(struct rng *r, size_t bytes, int owner);
bool arena_free(CUdeviceptr p, size_t bytes);
void arena_hold(CUdeviceptr p, size_t bytes, int owner);
void arena_give(CUdeviceptr p);
void arena_give_all(int owner);

/* Into the lane's record: what the host sees at `data`, which stands for device memory at `at`. */
void record(const char *what, CUdeviceptr at, const void *data, size_t bytes);
void record_status(const char *what, int status);
void observe(CUstream s, const char *what, CUdeviceptr at, size_t bytes); /* by a plain copy */
void observe_everything(void);
/* A part of `bytes` at `base`, in whole numbers. */
void part(struct rng *r, CUdeviceptr base, size_t bytes, CUdeviceptr *at, size_t *length);

/* ---- launches and products, with their marks (launch.c, product.c) ------------------------ */

CUfunction kernel(const char *name); /* fuzz_NAME_TYPE of the lane's module */
CUfunction kernel_of(CUmodule module, const char *name);
void launch(CUstream s, CUfunction f, size_t blocks, unsigned x, unsigned y, void **params);
size_t blocks_of(size_t n, size_t each);
void set_bytes(CUstream s, CUdeviceptr to, unsigned char value, size_t bytes);
void copy_numbers(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n);
void random_numbers(CUstream s, CUdeviceptr to, uint64_t state, size_t n);
void fill_numbers(CUstream s, CUdeviceptr to, float value, size_t n);
void scale_numbers(CUstream s, CUdeviceptr to, CUdeviceptr from, float factor, size_t n);
void add_mask(CUstream s, CUdeviceptr to, CUdeviceptr from, CUdeviceptr mask, size_t n,
	      size_t period);
void split_heads(CUstream s, CUdeviceptr to, CUdeviceptr from, int rows, int heads, int depth);
void repeat_heads(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t each, int groups, int times);
/* The same as ATen launches them, for F16. */
void aten_copy(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n);
void aten_fill(CUstream s, CUdeviceptr to, float value, size_t n);
void aten_scale(CUstream s, CUdeviceptr to, CUdeviceptr from, float factor, size_t n);
void aten_add_mask(CUstream s, CUdeviceptr to, CUdeviceptr from, CUdeviceptr mask, size_t n,
		   size_t period);
/* n numbers to every other place from `to` on. */
void aten_interleave(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t n);
/* A kernel of ATen's, by its whole name. */
CUfunction aten(const char *name);
void aten_softmax(CUstream s, CUdeviceptr to, CUdeviceptr from, size_t rows, int columns);
/* to [a,b,depth] from where b and a lie so many bytes apart */
void aten_permute(CUstream s, CUdeviceptr to, CUdeviceptr from, int a, int b, int depth,
		  size_t b_bytes, size_t a_bytes);

enum form { STRIDED, TYPED, ARRAYS, LT, PARTS, FORMS };
/* C[m,n] = alpha op(A)[m,k] B[k,n] + beta C, column-major, `batch` of them so many numbers apart.
 */
struct product {
	enum form form;
	bool transposed, device_scalars, wide; /* wide: C in fp32 */
	int m, n, k, batch;
	float alpha, beta;
	CUdeviceptr a, b, c;
	int lda, ldb, ldc;
	long long stride_a, stride_b, stride_c;
};
void multiply(CUstream s, const struct product *p);

/* ---- sites and occurrences (site.c, chain.c) ---------------------------------------------- */

/* RAW_S: what S is a copy of before QK^T is added to it */
enum tensor { Q, K, V, S, X, M, W, P, O, RAW_Q, RAW_K, RAW_V, MERGED, V2, O2, RAW_S, TENSORS };
extern const char *const tensor_name[TENSORS];
enum placing { IN_ARENA, APART, FRESH, POOLED };
enum masked { UNMASKED, ADDED, BY_KEYS, CAUSAL, LOWER }; /* LOWER: writes no other scores */
enum layout { PLAIN, INTERLEAVED, K_TRANSPOSED, O_BY_ROWS };
enum copied { AS_IS, SPLIT, REPEATED, SHARED };
/* What QK^T is added to: nothing; numbers of each head for all its queries, or of each query for
 * all heads; a number for each score. */
enum added { TO_NOTHING, TO_SLOPES, TO_ONE_HEAD, TO_ALL };

struct site {
	int number;
	struct lane *lane;
	int heads, groups, rows, columns, depth;
	bool aten, scaled_apart, scaled_in_product, x_in_place, m_in_place, p_in_place;
	bool late_v, merged, grows, quiet_inputs, device_scalars;
	bool in_graphs;		  /* all its occurrences */
	bool wide_scores, wide_p; /* in fp32, of numbers of 16 bits; P is made narrow, from W */
	bool large; /* K and V: what is saved of them before a part changes is a part */
	enum masked masked;
	enum layout layout;
	enum copied copied;
	enum placing placing;
	enum form form;
	enum added added;
	float alpha;
	CUdeviceptr mask, fixed[TENSORS], table; /* table: addresses of these; or 0 */
	struct mapping *mapping;		 /* that these lie in; or NULL */
	size_t mask_bytes;
	CUdeviceptr hidden; /* bytes [rows,columns], of what softmax is not to see; or 0 */
	float hides;	    /* the number in its place */
	bool hides_again;   /* and its P is made 0 */
	int group;	    /* heads within S's rows, which P has outside of them; 0: none */
	bool aside;	    /* scores lie [rows,columns,heads] for softmax */
	int occurrences;
};

enum step { INPUTS, SCORES, SCALE, MASK, SOFTMAX, LATE_V, CONTEXT, MERGE, LOOK, END, STEPS };
extern const char *const step_name[STEPS];

/* What an occurrence is beside ordinary. */
enum manner { ORDINARY, ABANDONED, CAPTURED, MANY, PAIRED, THREADED };

struct chain {
	const struct site *site;
	int number, nth; /* of the occurrence, and which of its site's */
	struct rng rng;
	struct lane *lane;
	CUstream stream;
	enum manner manner;
	int rows, columns, at;
	CUdeviceptr t[TENSORS];
	size_t bytes[TENSORS];
	float alpha, factor, beta;
	enum { NO_ODD, ODD_Q, ODD_K, ODD_V, ODD_MASK } odd;
	float odd_value;
	bool second_v, twice, o_over_q, device_scalars, from_last;
	int disturbed[3], disturbances; /* before which steps */
	struct chain *partner;
};

/* hides.c: what of the scores is hidden, and how they lie; softmax, in between. */
void hides_make(struct site *z, CUstream s);
void hides_softmax(struct chain *c, CUdeviceptr to, CUdeviceptr from);

void site_make(struct site *z, struct lane *l, int number, struct rng *r);
void site_mask(const struct site *z, CUstream s, struct rng *r);
/* May all rows of a kernel's tile be kept from keys that it then skips? What is no number in V of
 * these does not reach O, a difference that kernels/attention.h names. */
bool site_hides_tiles(const struct site *z);
void chain_plan(struct chain *c, const struct site *z, int number, int nth, bool learned);
bool chain_step(struct chain *c); /* the next one, after what happens before it; false: none left */
void chain_input(struct chain *c, enum tensor which); /* made anew, where it lies */
void chain_do(struct chain *c, enum step step);	      /* this one, where the site has it */
/* Where a tensor lies, from its first use on; over another one; no more (middle.c: the steps). */
CUdeviceptr chain_place(struct chain *c, enum tensor t, size_t bytes);
void chain_alias(struct chain *c, enum tensor t, enum tensor of);
void chain_give(struct chain *c, enum tensor t);
void middle_scale(struct chain *c);
void middle_mask(struct chain *c, enum tensor from);
void middle_softmax(struct chain *c, enum tensor from);
size_t scores_of(const struct chain *c);		  /* numbers in S */
size_t score_bytes(const struct chain *c, enum tensor t); /* of S … P */
size_t queries_of(const struct chain *c);		  /* in Q and O */
size_t keys_of(const struct chain *c);			  /* in K and V as the products see them */
void chain_many(struct chain *c); /* more of them open than anybody expects */

/* ---- graphs (graph.c) ---------------------------------------------------------------------- */

void chain_captured(struct chain *c); /* as a graph, launched more than once */
void graph_again(CUstream s);	      /* launches a graph that was kept */
bool graph_kept(void);
void graph_forget(void);

/* ---- memory at two addresses (mapped.c) ---------------------------------------------------- */

/* Room for so many bytes. */
struct mapping *mapping_make(size_t bytes, CUdeviceptr *at);

/* ---- addresses in memory (addresses.c) ----------------------------------------------------- */

/* Puts an address there, in one of the ways in which programs do so. */
void address_put(CUstream s, struct rng *r, CUdeviceptr cell, CUdeviceptr address);
/* A place for that many. */
CUdeviceptr address_cells(int n);

/* ---- events (event.c and its kinds) -------------------------------------------------------- */

struct happening {
	struct chain *chain;
	struct rng rng;
	CUstream stream;
	enum tensor tensor;
	CUdeviceptr at; /* a part of the tensor, where the kind asks for one */
	size_t bytes;
};
enum asks { NOTHING, SCORES_PART, INPUT_PART, ANY_PART };
struct event_kind {
	const char *name;
	void (*happen)(struct happening *h);
	enum asks asks;
	int weight;
};
extern const struct event_kind reads[], writes[], orders[], addresses[], refusals[], factors[],
	mapped[];
void event_happen(struct chain *c, int number);
void event_between(struct lane *l, int number); /* while no chain is under way */
bool left_out(const char *list, int number);
extern const char *only_kind, *without_events;

#endif
