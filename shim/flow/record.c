/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace writer (format: record.h). Text is collected in one buffer and written when it fills
 * and at exit; a killed program loses the last few ops of its trace and nothing else.
 */
#include "shim/flow/record.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/config.h"
#include "shim/rules/function.h"
#include "shim/op/memory.h"
#include "shim/base/message.h"
#include "shim/base/own_file.h"
#include "shim/base/own_place.h"

/* A symbolic address. No pair of small numbers looks like one, nor does a pointer of the host. */
#define SYMBOL_MARK  0xe000000000000000ull
#define SYMBOL_SHIFT 40
#define MAX_STREAMS  64

static char buffer[1 << 16];
static size_t filled;
static struct own_file file = OWN_FILE_NONE;
static enum { UNOPENED, OPEN, FAILED } state;
static CUstream streams[MAX_STREAMS];
static int stream_count;
static unsigned char *function_written; /* by function id */
static size_t function_written_size;
static pid_t owner;

static void complain(const char *path, int error)
{
	char text[64];

	message_error("cannot write the trace %s: %s", path,
		      strerror_r(-error, text, sizeof(text)));
	state = FAILED;
}

static void flush(void)
{
	const int saved_errno = errno;
	int error, cancel_state;

	if (state != OPEN || getpid() != owner)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	error = own_file_append(&file, buffer, filled);
	if (error)
		complain(file.path, error);
	filled = 0;
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved_errno;
}

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
	va_list arguments;
	int n;

	if (sizeof(buffer) - filled < 1024)
		flush();
	va_start(arguments, format);
	n = vsnprintf(buffer + filled, sizeof(buffer) - filled, format, arguments);
	va_end(arguments);
	if (n > 0 && (size_t)n < sizeof(buffer) - filled)
		filled += (size_t)n;
}

static void put_string(const char *text)
{
	size_t length = strlen(text);

	if (length > sizeof(buffer) / 2)
		length = sizeof(buffer) / 2;
	if (sizeof(buffer) - filled < length + 2)
		flush();
	memcpy(buffer + filled, text, length);
	filled += length;
}

static void open_trace(void)
{
	char path[PATH_MAX];
	int error, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	error = own_place(config()->record, "fashim.%e.%p.trace", path);
	if (error == 0)
		error = own_file_create(&file, path);
	if (error) {
		complain(path[0] ? path : config()->record, error);
	} else {
		message_info("trace: %s", file.path);
		state = OPEN;
		owner = getpid();
		put("# fashim-trace 2\n");
		atexit(flush);
	}
	pthread_setcancelstate(cancel_state, NULL);
}

bool record_wanted(void)
{
	const int saved_errno = errno;

	if (state == UNOPENED) {
		state = FAILED;
		if (config()->record[0])
			open_trace();
		errno = saved_errno;
	}
	return state == OPEN && getpid() == owner;
}

static unsigned long long symbol_of(const struct allocation *allocation)
{
	return SYMBOL_MARK | (unsigned long long)allocation->id << SYMBOL_SHIFT;
}

static void put_allocation(const struct allocation *allocation)
{
	put("A %llx %llu %d\n", symbol_of(allocation), (unsigned long long)allocation->bytes,
	    (int)allocation->kind);
}

static uint64_t symbolic(uint64_t address)
{
	const struct allocation *allocation = memory_find(address);

	if (!allocation) {
		allocation = memory_lookup(address);
		if (!allocation)
			return address;
		put_allocation(allocation);
	}
	return symbol_of(allocation) | (address - allocation->base);
}

static int stream_number(CUstream stream)
{
	for (int i = 0; i < stream_count; i++)
		if (streams[i] == stream)
			return i;
	if (stream_count == MAX_STREAMS)
		return MAX_STREAMS;
	streams[stream_count] = stream;
	return stream_count++;
}

static void put_function(const struct function *function)
{
	if (function->id >= function_written_size) {
		size_t wanted = (function->id + 256) & ~(size_t)255;
		unsigned char *grown = realloc(function_written, wanted);

		if (!grown)
			return;
		memset(grown + function_written_size, 0, wanted - function_written_size);
		function_written = grown;
		function_written_size = wanted;
	}
	if (function_written[function->id])
		return;
	function_written[function->id] = 1;
	put("F %u ", function->id);
	put_string(function->name);
	for (unsigned i = 0; i < function->param_count; i++)
		put(" %u:%u", function->param_offset[i], function->param_size[i]);
	put("\n");
}

static void put_launch(const struct op *op)
{
	static const char digits[] = "0123456789abcdef";
	static unsigned char bytes[FUNCTION_MAX_BYTES];
	const struct function *function = function_get(op->launch.function);
	const unsigned *g = op->launch.grid, *b = op->launch.block;
	uint64_t word;
	unsigned at;

	if (!function)
		return;
	put_function(function);
	if (!function_read_params(function, &op->launch, bytes)) {
		put("O unreadable_launch\n");
		return;
	}
	for (unsigned i = 0; i < function->param_count; i++) /* before the line begins */
		for_each_pointer_word(function, i, at) {
			memcpy(&word, bytes + at, 8);
			word = symbolic(word);
			memcpy(bytes + at, &word, 8);
		}
	put("L %u %d %u,%u,%u %u,%u,%u %u ", function->id, stream_number(op->stream), g[0], g[1],
	    g[2], b[0], b[1], b[2], op->launch.shared_bytes);
	if (sizeof(buffer) - filled < 2 * (size_t)function->bytes + FUNCTION_MAX_PARAMS + 8)
		flush();
	for (unsigned i = 0; i < function->param_count; i++) {
		const unsigned char *from = bytes + function->param_offset[i];

		if (i)
			buffer[filled++] = ',';
		for (unsigned k = 0; k < function->param_size[i]; k++) {
			buffer[filled++] = digits[from[k] >> 4];
			buffer[filled++] = digits[from[k] & 15];
		}
	}
	buffer[filled++] = '\n';
}

static void put_gemm(const struct op *op)
{
	const struct op_gemm *g = &op->gemm;
	unsigned long long a = symbolic(g->a), b = symbolic(g->b), c = symbolic(g->c);
	unsigned long long extra = symbolic(g->extra), d = symbolic(g->d);

	put("G %s %d %d %d %lld %lld %lld ", g->entry, stream_number(op->stream), g->transa,
	    g->transb, (long long)g->m, (long long)g->n, (long long)g->k);
	put("%llx %d %lld %lld ", a, (int)g->atype, (long long)g->lda, (long long)g->stride_a);
	put("%llx %d %lld %lld ", b, (int)g->btype, (long long)g->ldb, (long long)g->stride_b);
	put("%llx %d %lld %lld ", c, (int)g->ctype, (long long)g->ldc, (long long)g->stride_c);
	put("%lld %.9g %.9g %d %d %d %d %d %d %llx %llu %llx%s%s\n", (long long)g->batch, g->alpha,
	    g->beta, g->compute_type, g->algo, g->math_mode, g->plain, g->by_array,
	    g->scalars_on_device, extra, (unsigned long long)g->extra_bytes, d,
	    g->besides ? " " : "", g->besides ? g->besides : "");
}

static unsigned long long symbol_of_range(const struct op_range *range)
{
	return range->bytes ? symbolic(range->base) : 0;
}

static void put_copy(const struct op *op)
{
	unsigned long long source = symbol_of_range(&op->copy.source);
	unsigned long long target = symbol_of_range(&op->copy.target);

	put("C %s %d %llx %llu %llx %llu %d %d %d\n", op->name, stream_number(op->stream), source,
	    (unsigned long long)op->copy.source.bytes, target,
	    (unsigned long long)op->copy.target.bytes, op->copy.exact, op->copy.from_host,
	    op->copy.to_host);
}

static void put_library(const struct op *op)
{
	const struct op_library *library = op->library;
	unsigned long long begin[OPERANDS_MAX];

	for (int i = 0; i < library->count; i++) /* before the line begins */
		begin[i] = symbolic(library->operand[i].begin);
	put("K %s %d", library->call, stream_number(op->stream));
	for (int i = 0; i < library->count; i++) {
		const struct op_operand *o = &library->operand[i];

		put(" %llx %llu %d %d %d", begin[i], (unsigned long long)(o->end - o->begin),
		    o->read, o->written, o->whole);
	}
	put("\n");
}

void record_op(const struct op *op)
{
	unsigned long long address;
	const struct allocation *allocation;

	switch (op->kind) {
	case OP_GEMM:
		put_gemm(op);
		break;
	case OP_LAUNCH:
		put_launch(op);
		break;
	case OP_COPY:
		put_copy(op);
		break;
	case OP_FILL:
		address = symbolic(op->fill.target.base);
		put("S %s %d %llx %llu %d\n", op->name, stream_number(op->stream), address,
		    (unsigned long long)op->fill.target.bytes, op->fill.exact);
		break;
	case OP_ALLOC:
		allocation = memory_find(op->alloc.range.base);
		if (allocation)
			put_allocation(allocation);
		break;
	case OP_FREE:
		put("D %llx\n", (unsigned long long)symbolic(op->alloc.range.base));
		break;
	case OP_CAPTURE_BEGIN:
	case OP_CAPTURE_END:
	case OP_GRAPH_LAUNCH:
		put("%c %d\n",
		    op->kind == OP_CAPTURE_BEGIN ? 'B'
		    : op->kind == OP_CAPTURE_END ? 'E'
						 : 'P',
		    stream_number(op->stream));
		break;
	case OP_TEARDOWN:
		put("T %s\n", op->name);
		break;
	case OP_SYNC:
		put("Y %s\n", op->name);
		break;
	case OP_LIBRARY:
		put_library(op);
		break;
	case OP_OPAQUE:
	case OP_KIND_COUNT:
		put("O %s\n", op->name);
		break;
	}
}
