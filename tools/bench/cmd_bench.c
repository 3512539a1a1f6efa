/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim bench: our kernels measured on the GPU at hand, beside the libraries. --ladder walks all
 * steps that led to them; --gate judges one.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/bench/document.h"
#include "tools/bench/ladder.h"
#include "tools/bench/oracle.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum bench_key {
	KEY_LADDER = 'l',
	KEY_GATE = 'g',
	KEY_SHAPE = 's',
	KEY_DTYPE = 'd',
	KEY_KERNEL = 'k',
	KEY_MAX_RATIO = 'r',
	KEY_ROUNDS = 'n',
	KEY_EVIDENCE = 'o',
	KEY_CAUSAL = 0x100,
	KEY_CASES,
	KEY_SEED,
	KEY_SVG,
	KEY_FROM,
	KEY_PYTHON,
	KEY_NO_PYTHON,
	KEY_REFEREE,
	KEY_LIBRARY,
	KEY_CUBLAS
};

struct bench_arguments {
	struct bench_options options;
	int what; /* KEY_LADDER or KEY_GATE */
	double max_ratio;
	enum format format;
	const char *color, *evidence, *svg, *from;
};

#define OTHER_FORMATS ", json, csv or md"

static const struct argp_option bench_options[] = {
	{"ladder", KEY_LADDER, NULL, 0,
	 "every step from one thread a row to the kernel that ships, and single tiles of cuBLAS",
	 1},
	{"gate", KEY_GATE, NULL, 0,
	 "judge one kernel: correct, and surely faster than each reference?", 1},
	{"shape", KEY_SHAPE, "B,H,S,D", 0, "the call (1,8,512,64); B,H,Sq,Sk,D where they differ",
	 2},
	{"dtype", KEY_DTYPE, "TYPE", 0, "f16 (default) or, for --gate, bf16", 2},
	{"causal", KEY_CAUSAL, NULL, 0, "with a causal mask", 2},
	{"kernel", KEY_KERNEL, "NAME", 0,
	 "candidate of --gate (default: the one that would be chosen); fashim list kernels", 2},
	{"max-ratio", KEY_MAX_RATIO, "R", 0,
	 "--gate: candidate / reference; the upper end of the 95 % interval must be below R (0.95)",
	 2},
	{"rounds", KEY_ROUNDS, "N", 0, "rounds in which all take turns (9; gate 30)", 3},
	{"cases", KEY_CASES, "N", 0, "random cases that must come out right (100)", 3},
	{"seed", KEY_SEED, "N", 0, "of all random numbers (1)", 3},
	{"evidence", KEY_EVIDENCE, "FILE", 0, "keep everything that was measured, as JSON", 4},
	{"svg", KEY_SVG, "FILE", 0, "--ladder: a picture of the descent", 4},
	{"from", KEY_FROM, "FILE", 0, "show or judge what --evidence kept; nothing is measured", 4},
	FORMAT_OPTION(OTHER_FORMATS, 4),
	{"color", 'c', "WHEN", 0, "auto (default), always or never", 4},
	{"python", KEY_PYTHON, "PATH", 0, "the Python that has PyTorch (python3)", 5},
	{"no-python", KEY_NO_PYTHON, NULL, 0, "compare with the cuBLAS chain alone", 5},
	{"referee", KEY_REFEREE, "FILE", 0, "the script that speaks to PyTorch (installed)", 5},
	{"library", KEY_LIBRARY, "FILE", 0, "another libfashim_kernels.so", 5},
	{"cublas", KEY_CUBLAS, "FILE", 0, "the libcublas to compare with", 5},
	QUIET_OPTION(4),
	{0},
};

static const char bench_doc[] =
	"Measures our kernels on this machine's GPU, beside PyTorch's attention and beside the "
	"chain of cuBLAS calls that programs spell out.\v"
	"Times are kernel time: calls captured into a CUDA graph, inputs that do not fit the "
	"second-level cache, all contestants in turn, round by round. PyTorch runs in a child "
	"process that measures alike; without it the cuBLAS chain remains.\n\n"
	"--gate: the ratio is that of the medians, its interval the percentile bootstrap with "
	"10 000 resamples, always from the same seed. Speed counts only when all random cases lie "
	"within 1e-3 (bf16: 8e-3) of double precision. A reference that launches a fused kernel "
	"where it must not, or none where it must, is refused.\n\n"
	"Exit status: 0 when all is right and the gate is passed; 1 when a result is wrong or the "
	"gate is not passed; 2 for wrong usage, without a GPU, or when the gate "
	"refuses.\n\nExamples:\n"
	"  fashim bench --gate\n"
	"  fashim bench --gate --shape=4,16,1024,64 --dtype=bf16 --causal\n"
	"  fashim bench --ladder --svg ladder.svg";

/* ---- options -------------------------------------------------------------------------------- */

/* A whole number from `least` to `most`. */
static long parse_count(struct argp_state *state, const char *option, const char *text, long least,
			long most)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end || errno || value < least || value > most)
		argp_error(state, "--%s takes a whole number from %ld to %ld, not '%s'", option,
			   least, most, text);
	return value;
}

static void parse_shape(struct argp_state *state, struct gpu_shape *shape, const char *text)
{
	enum { LARGEST = 1 << 20 };
	int part[5], used = 0, count;

	count = sscanf(text, "%d,%d,%d,%d%n,%d%n", &part[0], &part[1], &part[2], &part[3], &used,
		       &part[4], &used);
	if (count < 4 || text[used])
		argp_error(state, "--shape takes B,H,S,D or B,H,Sq,Sk,D, not '%s'", text);
	for (int i = 0; i < count; i++)
		if (part[i] < 1 || part[i] > LARGEST)
			argp_error(state, "--shape=%s: each from 1 to %d", text, LARGEST);
	shape->B = part[0];
	shape->H = part[1];
	shape->Sq = part[2];
	shape->Sk = count == 5 ? part[3] : part[2];
	shape->D = part[count - 1];
	if (shape->D > 256)
		argp_error(state, "--shape=%s: D is 256 at most", text);
}

static void parse_dtype(struct argp_state *state, struct gpu_shape *shape, const char *text)
{
	if (!strcmp(text, "f16"))
		shape->dtype = ATTN_F16;
	else if (!strcmp(text, "bf16"))
		shape->dtype = ATTN_BF16;
	else
		argp_error(state, "--dtype takes f16 or bf16, not '%s'", text);
}

static double parse_ratio(struct argp_state *state, const char *text)
{
	char *end;
	const double value = strtod(text, &end);

	if (end == text || *end || text[strspn(text, "0123456789.eE+-")] || !isfinite(value) ||
	    value <= 0)
		argp_error(state, "--max-ratio takes a number above 0, not '%s'", text);
	return value;
}

/* What only the other kind of run has. */
static void check_together(struct argp_state *state, const struct bench_arguments *arguments)
{
	const struct bench_options *options = &arguments->options;
	const bool ladder = arguments->what == KEY_LADDER;

	if (!arguments->what)
		argp_error(state, "--ladder or --gate?");
	else if (ladder && options->kernel)
		argp_error(state, "--kernel names the candidate of --gate");
	else if (ladder && options->shape.dtype != ATTN_F16)
		argp_error(state, "the ladder's kernels are f16");
	else if (!ladder && arguments->svg)
		argp_error(state, "--svg is a picture of --ladder");
	else if (options->no_python && options->python)
		argp_error(state, "--python and --no-python?");
}

static error_t bench_parse(int key, char *arg, struct argp_state *state)
{
	struct bench_arguments *arguments = state->input;
	struct bench_options *options = &arguments->options;

	switch (key) {
	case 'q':
		progress_quiet();
		return 0;
	case KEY_LADDER:
	case KEY_GATE:
		if (arguments->what && arguments->what != key)
			argp_error(state, "--ladder or --gate, not both");
		arguments->what = key;
		return 0;
	case KEY_SHAPE:
		parse_shape(state, &options->shape, arg);
		return 0;
	case KEY_DTYPE:
		parse_dtype(state, &options->shape, arg);
		return 0;
	case KEY_CAUSAL:
		options->shape.causal = true;
		return 0;
	case KEY_KERNEL:
		options->kernel = arg;
		return 0;
	case KEY_MAX_RATIO:
		arguments->max_ratio = parse_ratio(state, arg);
		return 0;
	case KEY_ROUNDS:
		options->rounds = (int)parse_count(state, "rounds", arg, 5, 10000);
		return 0;
	case KEY_CASES:
		options->cases = (int)parse_count(state, "cases", arg, 1, 100000);
		return 0;
	case KEY_SEED:
		options->seed = (uint64_t)parse_count(state, "seed", arg, 0, 1L << 40);
		return 0;
	case KEY_EVIDENCE:
		arguments->evidence = arg;
		return 0;
	case KEY_SVG:
		arguments->svg = arg;
		return 0;
	case KEY_FROM:
		arguments->from = arg;
		return 0;
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case 'c':
		arguments->color = arg;
		if (color_wanted(arg, stdout) < 0)
			argp_error(state, "--color takes auto, always or never, not '%s'", arg);
		return 0;
	case KEY_PYTHON:
		options->python = arg;
		return 0;
	case KEY_NO_PYTHON:
		options->no_python = true;
		return 0;
	case KEY_REFEREE:
		options->script = arg;
		return 0;
	case KEY_LIBRARY:
		options->library = arg;
		return 0;
	case KEY_CUBLAS:
		options->cublas = arg;
		return 0;
	case ARGP_KEY_END:
		check_together(state, arguments);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the run -------------------------------------------------------------------------------- */

static json_t *get_document(const struct bench_arguments *arguments)
{
	const bool ladder = arguments->what == KEY_LADDER;

	if (arguments->from)
		return bench_load(arguments->from, ladder ? LADDER_FORMAT : ORACLE_FORMAT);
	return ladder ? ladder_measure(&arguments->options) : oracle_measure(&arguments->options);
}

/* Writes a file whole; 0 or -errno with one line on stderr. */
static int write_file(const char *path, const json_t *document,
		      void (*write)(const json_t *document, FILE *out))
{
	FILE *out = fopen(path, "w");
	int result = out ? 0 : -errno;

	if (out) {
		write(document, out);
		if (ferror(out))
			result = -EIO;
		if (fclose(out))
			result = -errno;
	}
	if (result)
		complain("%s: %s", path, strerror(-result));
	return result;
}

static void write_json(const json_t *document, FILE *out)
{
	json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	fputc('\n', out);
}

static void show(const struct bench_arguments *arguments, const json_t *document)
{
	const bool ladder = arguments->what == KEY_LADDER;
	const bool markdown = arguments->format == FORMAT_MARKDOWN;
	const bool color = !markdown && color_wanted(arguments->color, stdout) > 0;

	if (arguments->format == FORMAT_JSON)
		write_json(document, stdout);
	else if (arguments->format == FORMAT_CSV)
		(ladder ? ladder_csv : oracle_csv)(document, stdout);
	else
		(ladder ? ladder_table : oracle_table)(document, color, markdown);
}

/* What the document says of itself. */
static int exit_code(const struct bench_arguments *arguments, const json_t *document)
{
	if (arguments->what == KEY_LADDER)
		return ladder_correct(document) ? EXIT_OK : EXIT_FAILED;
	if (*text_of(document, "refused"))
		return EXIT_USAGE;
	return json_is_true(json_object_get(document, "passed")) ? EXIT_OK : EXIT_FAILED;
}

static int run(const struct bench_arguments *arguments)
{
	json_t *document = get_document(arguments);
	int code;

	if (!document)
		return EXIT_USAGE;
	if (arguments->what == KEY_GATE && oracle_judge(document, arguments->max_ratio)) {
		complain("the samples cannot be judged");
		json_decref(document);
		return EXIT_USAGE;
	}
	code = exit_code(arguments, document);
	if (arguments->evidence && write_file(arguments->evidence, document, write_json))
		code = EXIT_USAGE;
	if (arguments->svg && write_file(arguments->svg, document, ladder_svg))
		code = EXIT_USAGE;
	show(arguments, document);
	json_decref(document);
	return code;
}

int cmd_bench(int argc, char **argv)
{
	const struct argp parser = {bench_options, bench_parse, NULL, bench_doc,
				    help_option,   NULL,	NULL};
	struct bench_arguments arguments = {
		.options = {.shape = {1, 8, 512, 512, 64, ATTN_F16, false},
			    .seed = 1,
			    .cases = 100},
		.max_ratio = 0.95,
		.color = "auto"};
	int code;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	code = run(&arguments);
	if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		complain("writing the result: %s", strerror(errno));
		return EXIT_USAGE;
	}
	return code;
}
