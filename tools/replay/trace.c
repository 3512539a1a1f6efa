/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of words to ops. A line that does not have the words its kind needs ends the reading:
 * -EBADMSG.
 */
#include "tools/replay/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/rules/function.h"
#include "tools/base/progress.h"
#include "tools/read/packed_file.h"
#include "tools/replay/below.h"

#define MAX_IDS	  4096
#define MAX_WORDS 256
#define MAX_NAMES 512
#define MAX_LINE  (1 << 20) /* a launch takes a tenth of it, and the longest name of a kernel */

struct reader {
	void (*each)(struct op *op, void *argument);
	void *argument;
	long ops;
	CUfunction function[MAX_IDS]; /* by the trace's number */
	unsigned char bytes[2 * FUNCTION_MAX_BYTES];
};

/* The core keeps pointers to names of entry points. NULL: too many. */
static const char *keep(const char *word)
{
	static char *names[MAX_NAMES];
	static int count;

	for (int i = 0; i < count; i++)
		if (strcmp(names[i], word) == 0)
			return names[i];
	if (count == MAX_NAMES)
		return NULL;
	return names[count++] = strdup(word);
}

static uint64_t hex(const char *word)
{
	return strtoull(word, NULL, 16);
}

static int64_t dec(const char *word)
{
	return strtoll(word, NULL, 10);
}

static CUstream stream_of(const char *word)
{
	return (CUstream)(0x100 + (uintptr_t)dec(word));
}

static bool give(struct reader *reader, struct op *op)
{
	if (!op->name)
		return false;
	op->context = BELOW_CONTEXT;
	reader->ops++;
	reader->each(op, reader->argument);
	return true;
}

/* The place of a kernel's number in function[], or -1. */
static int64_t id_of(const char *word)
{
	const int64_t id = dec(word);

	return id >= 0 && id < MAX_IDS ? id : -1;
}

static bool read_function(struct reader *reader, char **word, int words)
{
	size_t offset[FUNCTION_MAX_PARAMS], size[FUNCTION_MAX_PARAMS];
	unsigned count = 0;

	if (words < 3 || words - 3 > FUNCTION_MAX_PARAMS || id_of(word[1]) < 0)
		return false;
	for (int i = 3; i < words; i++, count++) {
		char *colon = strchr(word[i], ':');

		if (!colon)
			return false;
		offset[count] = (size_t)dec(word[i]);
		size[count] = (size_t)dec(colon + 1);
		if (offset[count] > FUNCTION_MAX_BYTES || size[count] > FUNCTION_MAX_BYTES)
			return false;
	}
	reader->function[id_of(word[1])] = below_function(word[2], count, offset, size);
	return reader->function[id_of(word[1])];
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_launch(struct reader *reader, char **word, int words)
{
	struct op op = {.kind = OP_LAUNCH, .name = "cuLaunchKernel"};
	const char *at = words > 6 ? word[6] : "";
	void *params[FUNCTION_MAX_PARAMS];
	const size_t *offset, *size;
	unsigned count;

	if (words < 6 || id_of(word[1]) < 0 ||
	    !below_layout(reader->function[id_of(word[1])], &count, &offset, &size))
		return false;
	op.stream = stream_of(word[2]);
	for (unsigned i = 0; i < count; i++) {
		params[i] = reader->bytes + offset[i];
		for (size_t k = 0; k < size[i]; k++, at += 2) {
			if (nibble(at[0]) < 0 || nibble(at[1]) < 0)
				return false;
			reader->bytes[offset[i] + k] =
				(unsigned char)(nibble(at[0]) << 4 | nibble(at[1]));
		}
		at += *at == ',';
	}
	op.launch.function = reader->function[id_of(word[1])];
	op.launch.params = params;
	op.launch.shared_bytes = (unsigned)dec(word[5]);
	if (sscanf(word[3], "%u,%u,%u", &op.launch.grid[0], &op.launch.grid[1],
		   &op.launch.grid[2]) != 3 ||
	    sscanf(word[4], "%u,%u,%u", &op.launch.block[0], &op.launch.block[1],
		   &op.launch.block[2]) != 3)
		return false;
	return give(reader, &op);
}

static bool read_gemm(struct reader *reader, char **word, int words)
{
	struct op op = {.kind = OP_GEMM};

	if (words < 32)
		return false;
	op.name = keep(word[1]);
	op.stream = stream_of(word[2]);
	op.gemm = (struct op_gemm){
		.entry = op.name,
		.transa = (int)dec(word[3]),
		.transb = (int)dec(word[4]),
		.m = dec(word[5]),
		.n = dec(word[6]),
		.k = dec(word[7]),
		.a = hex(word[8]),
		.atype = (cudaDataType)dec(word[9]),
		.lda = dec(word[10]),
		.stride_a = dec(word[11]),
		.b = hex(word[12]),
		.btype = (cudaDataType)dec(word[13]),
		.ldb = dec(word[14]),
		.stride_b = dec(word[15]),
		.c = hex(word[16]),
		.ctype = (cudaDataType)dec(word[17]),
		.ldc = dec(word[18]),
		.stride_c = dec(word[19]),
		.batch = dec(word[20]),
		.alpha = strtod(word[21], NULL),
		.beta = strtod(word[22], NULL),
		.compute_type = (int)dec(word[23]),
		.algo = (int)dec(word[24]),
		.math_mode = (int)dec(word[25]),
		.plain = dec(word[26]) != 0,
		.by_array = dec(word[27]) != 0,
		.scalars_on_device = dec(word[28]) != 0,
		.extra = hex(word[29]),
		.extra_bytes = (uint64_t)dec(word[30]),
		.d = hex(word[31]),
		.besides = words > 32 ? keep(word[32]) : NULL,
	};
	return give(reader, &op);
}

static bool read_memory(struct reader *reader, char **word, int words)
{
	const char kind = word[0][0];
	struct op op = {.stream = CU_STREAM_LEGACY};

	if (kind == 'A' || kind == 'D') {
		if (words < (kind == 'A' ? 4 : 2))
			return false;
		op.kind = kind == 'A' ? OP_ALLOC : OP_FREE;
		op.name = kind == 'A' ? "cuMemAlloc_v2" : "cuMemFree_v2";
		op.alloc.range.base = hex(word[1]);
		op.alloc.range.bytes = kind == 'A' ? (uint64_t)dec(word[2]) : 0;
		op.alloc.kind = kind == 'A' ? (enum memory_kind)dec(word[3]) : MEMORY_DEVICE;
	} else if (kind == 'C') {
		if (words < 10)
			return false;
		op.kind = OP_COPY;
		op.name = keep(word[1]);
		op.stream = stream_of(word[2]);
		op.copy = (struct op_copy){.source = {hex(word[3]), (uint64_t)dec(word[4])},
					   .target = {hex(word[5]), (uint64_t)dec(word[6])},
					   .exact = dec(word[7]) != 0,
					   .later = strstr(word[1], "Async") != NULL,
					   .from_host = dec(word[8]) != 0,
					   .to_host = dec(word[9]) != 0};
	} else {
		if (words < 6)
			return false;
		op.kind = OP_FILL;
		op.name = keep(word[1]);
		op.stream = stream_of(word[2]);
		op.fill = (struct op_fill){.target = {hex(word[3]), (uint64_t)dec(word[4])},
					   .exact = dec(word[5]) != 0};
	}
	return give(reader, &op);
}

static bool read_library(struct reader *reader, char **word, int words)
{
	struct op_library library = {.count = (words - 3) / 5};
	struct op op = {.kind = OP_LIBRARY, .library = &library};

	if (words < 3 || (words - 3) % 5 || library.count > OPERANDS_MAX)
		return false;
	library.call = op.name = keep(word[1]);
	op.stream = stream_of(word[2]);
	for (int i = 0; i < library.count; i++) {
		char **at = &word[3 + 5 * i];
		const uint64_t begin = hex(at[0]);

		library.operand[i] = (struct op_operand){.begin = begin,
							 .end = begin + (uint64_t)dec(at[1]),
							 .read = dec(at[2]) != 0,
							 .written = dec(at[3]) != 0,
							 .whole = dec(at[4]) != 0};
	}
	return give(reader, &op);
}

static bool read_event(struct reader *reader, char **word, int words)
{
	static const struct {
		char letter;
		enum op_kind kind;
		const char *name; /* NULL: the line has it */
	} events[] = {{'B', OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"},
		      {'E', OP_CAPTURE_END, "cuStreamEndCapture"},
		      {'P', OP_GRAPH_LAUNCH, "cuGraphLaunch"},
		      {'T', OP_TEARDOWN, NULL},
		      {'Y', OP_SYNC, NULL},
		      {'O', OP_OPAQUE, NULL}};

	for (unsigned i = 0; words > 1 && i < sizeof(events) / sizeof(*events); i++) {
		struct op op = {.kind = events[i].kind, .stream = CU_STREAM_LEGACY};

		if (events[i].letter != word[0][0])
			continue;
		op.name = events[i].name ? events[i].name : keep(word[1]);
		if (events[i].name)
			op.stream = stream_of(word[1]);
		return give(reader, &op);
	}
	return false;
}

static bool read_line(struct reader *reader, char *line)
{
	char *word[MAX_WORDS + 1], *rest = NULL;
	int words = 0;

	for (char *at = strtok_r(line, " \n", &rest); at && words < MAX_WORDS;
	     at = strtok_r(NULL, " \n", &rest))
		word[words++] = at;
	if (!words || word[0][0] == '#')
		return true;
	switch (word[0][0]) {
	case 'F':
		return read_function(reader, word, words);
	case 'L':
		return read_launch(reader, word, words);
	case 'G':
		return read_gemm(reader, word, words);
	case 'K':
		return read_library(reader, word, words);
	case 'A':
	case 'D':
	case 'C':
	case 'S':
		return words > 1 && read_memory(reader, word, words);
	default:
		return read_event(reader, word, words);
	}
}

/* The next line, with its newline, into line[MAX_LINE]. Its length; 0 at the end, where a last line
 * that is cut short is no error: the program was killed while it wrote. -E2BIG where it is longer,
 * else -errno of the reading. */
static ssize_t next_line(FILE *file, char *line)
{
	for (ssize_t length = 0; length < MAX_LINE - 1;) {
		const int c = getc_unlocked(file);

		if (c == EOF)
			return ferror(file) ? -errno : 0;
		line[length++] = (char)c;
		if (c == '\n') {
			line[length] = '\0';
			return length;
		}
	}
	return -E2BIG;
}

/* Bytes that are to be read; 0: not known, as of what is packed. */
static double size_of(int fd)
{
	struct stat info;

	return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? (double)info.st_size : 0;
}

long trace_play(const char *path, void (*each)(struct op *op, void *argument), void *argument)
{
	static struct reader reader;
	pid_t unpacker;
	const int fd = packed_file_open(path, &unpacker);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int status = fd < 0 ? fd : file ? 0 : -errno, closed;
	static char line[MAX_LINE];
	ssize_t length = 0;
	long number = 0;
	double read = 0;
	const double size = fd < 0 ? 0 : size_of(fd);

	reader = (struct reader){.each = each, .argument = argument};
	if (status) {
		fprintf(stderr, "fashim: %s: %s\n", path, strerror(-status));
		return status;
	}
	while (!status && (length = next_line(file, line)) > 0) {
		read += (double)length;
		progress(path, read, size, "bytes");
		const bool known = number++ || !strcmp(line, "# fashim-trace 1\n") ||
				   !strcmp(line, "# fashim-trace 2\n");

		if (!known || !read_line(&reader, line))
			status = -EBADMSG;
	}
	if (status)
		fprintf(stderr, "fashim: %s:%ld: no line of a fashim-trace of version 1 or 2\n",
			path, number);
	if (length < 0)
		fprintf(stderr, "fashim: %s:%ld: %s\n", path, number + 1,
			length == -E2BIG ? "longer than any line of a fashim-trace"
					 : strerror((int)-length));
	progress_end();
	fclose(file);
	closed = packed_file_end(unpacker);
	status = length < 0 ? (int)length : status;
	if (!status && (closed || !number)) {
		status = -EBADMSG;
		fprintf(stderr, "fashim: %s: %s\n", path,
			closed ? "gzip cannot unpack it" : "there is no line in it");
	}
	return status ? status : reader.ops;
}
