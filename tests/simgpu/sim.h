/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the simulated driver share: contexts, streams, work items, allocations.
 *
 * Device memory is host memory. Whatever the driver is asked to do on a stream becomes a struct
 * sim_work, which runs at once in the calling thread (the default), on the stream's own worker
 * thread (SIMGPU_ASYNC=1), or, while the stream is capturing, whenever the graph is launched.
 * Entry points have the real names and signatures, because they are compiled against cuda.h; files
 * whose functions take a stream are compiled twice, once for each meaning of stream 0.
 *
 * Environment:
 *   SIMGPU_LOG=FILE     append one line for each driver call (log.c)
 *   SIMGPU_ASYNC=1      a worker thread for each stream; n > 1: with delays up to n microseconds
 *   SIMGPU_ARCH=90      compute capability times ten
 *   SIMGPU_JIT=off      no text is compiled when it is loaded, only when it is linked
 *   SIMGPU_LT_FINDS=no  cublasLtMatmulAlgoGetHeuristic knows no way
 *   SIMGPU_DRIVER=12.2  a driver of that CUDA, without what came later
 *   SIMGPU_DEVICES=1    how many devices there seem to be
 */
#ifndef FASHIM_SIM_H
#define FASHIM_SIM_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "refuse.h"
#include "sim_kernel.h"

/* ---- call log (log.c) ------------------------------------------------------------------- */

extern int sim_log_fd; /* -1: no log wanted */
void sim_log(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define SIM_LOG(...)                                                                               \
	do {                                                                                       \
		if (sim_log_fd >= 0)                                                               \
			sim_log(__func__, __VA_ARGS__);                                            \
	} while (0)

/* The first line of an entry point: logs the call, refuses it before cuInit and after exit, and
 * where a test wants that. */
#define SIM_ENTER(...)                                                                             \
	do {                                                                                       \
		SIM_LOG(__VA_ARGS__);                                                              \
		CUresult ready_ = sim_ready();                                                     \
		if (ready_ == CUDA_SUCCESS)                                                        \
			ready_ = sim_refusal(SIM_REFUSED());                                       \
		if (ready_ != CUDA_SUCCESS)                                                        \
			return ready_ == (CUresult)SIM_LOST ? CUDA_SUCCESS : ready_;               \
	} while (0)

/* The same for calls that need a current context, which becomes the variable `ctx`. */
#define SIM_ENTER_CONTEXT(...)                                                                     \
	SIM_ENTER(__VA_ARGS__);                                                                    \
	struct sim_context *ctx = sim_current();                                                   \
	if (!ctx)                                                                                  \
	return CUDA_ERROR_INVALID_CONTEXT

/* The end of a call that tells one thing. */
#define SIM_ANSWER(out, value)                                                                     \
	do {                                                                                       \
		if (!(out))                                                                        \
			return CUDA_ERROR_INVALID_VALUE;                                           \
		*(out) = (value);                                                                  \
		return CUDA_SUCCESS;                                                               \
	} while (0)

/* ---- contexts (context.c) --------------------------------------------------------------- */

enum sim_magic {
	SIM_CONTEXT = 0x53433031,
	SIM_STREAM,
	SIM_EVENT,
	SIM_MODULE,
	SIM_LIBRARY,
	SIM_FUNCTION,
	SIM_KERNEL_HANDLE,
	SIM_GRAPH,
	SIM_GRAPH_EXEC,
	SIM_POOL
};

struct sim_context {
	enum sim_magic magic; /* 0 once destroyed; the structure stays for late callers */
	unsigned id;
	int device;
	bool primary;
	unsigned retained;
	unsigned flags;
	struct sim_stream *legacy;
	CUresult sticky; /* an asynchronous failure; every later call reports it */
	struct sim_context *next;
};

#define CHECK_DEVICE(device)                                                                       \
	do {                                                                                       \
		if ((device) < 0 || (device) >= sim_devices)                                       \
			return CUDA_ERROR_INVALID_DEVICE;                                          \
	} while (0)

/* CUDA_SUCCESS, or why no call can be served: not initialised, forked, process is exiting. */
CUresult sim_ready(void);
/* What a call returns by SIM_REFUSED(): below 0, the current context is broken. */
CUresult sim_refusal(int refused);
struct sim_context *sim_current(void);		   /* of this thread, NULL: none */
struct sim_context *sim_context(CUcontext handle); /* NULL: not one, or destroyed */
extern int sim_devices;				   /* how many */
extern int sim_arch;				   /* compute capability times ten */
size_t sim_device_bytes(void);

/* ---- work, streams, events (stream.c) --------------------------------------------------- */

/* One node of a stream or graph. Allocated in one piece with malloc, so that free() ends it; may
 * run more than once when it belongs to a graph. */
struct sim_work {
	CUresult (*run)(struct sim_work *work);
	CUgraphNodeType type;
	struct sim_work *next;
	uint64_t ticket;	  /* position in its stream, from 1 */
	struct sim_ticket *after; /* asynchronous mode: what must be done before */
	unsigned after_count;
	CUresult result;
};

struct sim_ticket {
	struct sim_stream *stream;
	uint64_t ticket;
};

struct sim_capture;
struct sim_node;

#define SIM_LAST 8

struct sim_stream {
	enum sim_magic magic;
	unsigned id;
	char name[16]; /* "legacy", "per-thread" or "s<id>": what the log calls it */
	struct sim_context *ctx;
	unsigned flags; /* CU_STREAM_NON_BLOCKING: outside the legacy stream's order */
	int priority;
	uint64_t submitted, done;
	struct sim_work *head, **tail;
	struct sim_ticket wait[8]; /* asynchronous mode: events the next work must wait for */
	unsigned waits;
	bool has_worker;
	struct sim_capture *capture;
	struct sim_node *last[SIM_LAST]; /* of the capture: what the next node comes after */
	unsigned last_count;
	struct sim_stream *next;
};

struct sim_event {
	enum sim_magic magic;
	unsigned flags;
	struct sim_context *ctx;
	struct sim_ticket at; /* the record; stream NULL: never recorded */
	uint64_t time_ns;     /* host clock when the record ran */
	struct sim_capture *capture;
	struct sim_node *last[SIM_LAST];
	unsigned last_count;
	struct sim_event *next;
};

extern bool sim_async;
extern unsigned sim_jitter;	 /* microseconds, asynchronous mode */
extern pthread_mutex_t sim_lock; /* streams, events, captures */

/* The stream behind a handle; `standard` is what 0 means (CU_STREAM_LEGACY or _PER_THREAD).
 * NULL: no such stream. Called without the lock. */
struct sim_stream *sim_stream(CUstream handle, CUstream standard);
struct sim_stream *sim_stream_new(struct sim_context *ctx, unsigned flags, int priority);
struct sim_event *sim_event(CUevent handle);

void *sim_work_new(size_t bytes, CUresult (*run)(struct sim_work *), CUgraphNodeType type);
/* Gives work to a stream, which owns it from then on. wait: returns when it has run (not while
 * capturing). Returns the work's own error where it is known by then. */
CUresult sim_submit(struct sim_stream *stream, struct sim_work *work, bool wait);
void sim_stream_drain(struct sim_stream *stream);
void sim_context_drain(struct sim_context *ctx);
CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream, bool external);
/* In asynchronous mode a thread stays so long between a call and what the call enqueues. */
void sim_delay(void);
/* The stream's next work waits for what the ticket stands for. */
void sim_stream_after(struct sim_stream *stream, const struct sim_ticket *ticket);
CUresult sim_stream_wait(struct sim_stream *stream, struct sim_event *event);
/* With the lock held: every stream of a capture that has ended goes back to ordinary work. */
void sim_stream_leave(struct sim_capture *capture);
/* Are the last nodes of all streams of the capture marked as done? */
bool sim_stream_all_done(const struct sim_capture *capture);
bool sim_ticket_done(const struct sim_ticket *ticket);

/* What stream 0 means in the file being compiled. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define SIM_STANDARD CU_STREAM_PER_THREAD
#else
#define SIM_STANDARD CU_STREAM_LEGACY
#endif

#define SIM_STREAM_OR_RETURN(var, handle)                                                          \
	struct sim_stream *var = sim_stream(handle, SIM_STANDARD);                                 \
	if (!var)                                                                                  \
	return CUDA_ERROR_INVALID_HANDLE

static inline const char *sim_stream_name(CUstream handle, CUstream standard)
{
	struct sim_stream *stream = sim_stream(handle, standard);

	return stream ? stream->name : "invalid";
}

/* ---- capture and graphs (graph.c) ------------------------------------------------------- */

/* All with sim_lock held. */
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work);
void sim_capture_break(struct sim_capture *capture); /* invalidates */
CUresult sim_capture_join(struct sim_stream *stream, struct sim_event *event);
bool sim_capture_in_context(struct sim_context *ctx, bool invalidate); /* any blocking stream */
/* Without the lock: CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for a call that must
 * not be made while a capture is under way (synchronous copies, allocation …). */
CUresult sim_capture_permits(void);
/* graph: to add to; NULL: a new one. */
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode, CUgraph graph);
CUresult sim_capture_end(struct sim_stream *stream, CUgraph *out);
CUstreamCaptureStatus sim_capture_status(struct sim_stream *stream, unsigned long long *id,
					 CUgraph *graph, CUgraphNode *last, size_t *count);
CUresult sim_graph_instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags);
CUresult sim_graph_launch(CUgraphExec exec, struct sim_stream *stream);

/* ---- memory (memory.c) ------------------------------------------------------------------ */

enum sim_memory {
	SIM_DEVICE,
	SIM_ASYNC,
	SIM_MANAGED,
	SIM_MAPPED,    /* cuMemMap */
	SIM_PINNED,    /* cuMemAllocHost, cuMemHostAlloc */
	SIM_REGISTERED /* cuMemHostRegister */
};

struct sim_allocation {
	uint64_t base, bytes;
	uint64_t block, block_bytes; /* the pages behind it, guard page included */
	enum sim_memory kind;
	bool on_host; /* SIM_MAPPED: whose it is */
	struct sim_context *ctx;
	uint64_t id;
};

/* Copies the allocation that holds the address to *out. false: none does. */
bool sim_find(uint64_t address, struct sim_allocation *out);
/* Is [address, address+bytes) inside one live allocation, or what is mapped without a gap, all of
 * it the device's or all the host's? True for bytes == 0. */
bool sim_valid(uint64_t address, uint64_t bytes);
/* Is the address in the range that device memory is taken from, allocated or not? */
bool sim_is_device_address(uint64_t address);
CUresult sim_allocate(struct sim_context *ctx, size_t bytes, enum sim_memory kind, uint64_t *out);
CUresult sim_release(uint64_t address, enum sim_memory kind);
bool sim_pool_on_host(CUmemoryPool pool); /* memory_calls.c */
CUresult sim_map(struct sim_context *ctx, uint64_t base, size_t bytes, int fd, bool on_host);
CUresult sim_register(struct sim_context *ctx, uint64_t base, size_t bytes);
void sim_release_context(struct sim_context *ctx);
void sim_modules_end(const struct sim_context *ctx);
size_t sim_memory_in_use(void);

/* ---- modules (module.c) ----------------------------------------------------------------- */

struct sim_function {
	enum sim_magic magic; /* SIM_FUNCTION or SIM_KERNEL_HANDLE */
	const struct sim_kernel *kernel;
	char *name;
	void *owner;		       /* struct sim_module or struct sim_library */
	struct sim_function *function; /* of a kernel handle: the function it becomes */
	int max_dynamic_shared;
	int preferred_carveout;
	struct sim_function *next;
};

/* The function behind a CUfunction, or a CUkernel given in its place. NULL: neither. */
struct sim_function *sim_function(CUfunction handle);

/* ---- entry points by name (procaddr.c, generated) --------------------------------------- */

struct sim_entry {
	const char *name; /* base name, as cuGetProcAddress is asked */
	void *address;	  /* the export of exactly this ABI */
	int version;	  /* CUDA version that introduced it */
	int per_thread;	  /* 1: the _ptsz/_ptds variant */
};
extern const struct sim_entry sim_entries[];
extern const unsigned sim_entry_count;

/* The CUDA version that it plays (version.c): what is newer is not there. */
#define SIM_NEWEST 13000
extern int sim_version;

/* SIMGPU_RUN=none: kernels that are not fashim's do nothing, nor do products (version.c). */
bool sim_runs_nothing(void);

CUresult sim_unsupported(const char *name);

#endif
