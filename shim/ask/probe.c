/* SPDX-License-Identifier: Apache-2.0
 *
 * Contents are made on the host, one period of them, and repeated on the device.
 */
#include "shim/ask/probe.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/elementary.h"
#include "shim/base/half.h"
#include "shim/real/driver.h"
#include "shim/rules/rules.h"

#define PIECE	    4096	 /* bytes of an input that are looked at in one go */
#define FLAGS_LEAST 16		 /* bytes of flags that are some … */
#define FLAGS_MOST  (8ull << 20) /* … and that are looked at */

/* ---- numbers in their types ------------------------------------------------------------------ */

/* Numbers that the type holds exactly, and minus infinity. */
static uint32_t encode(double x, int dtype)
{
	const float narrow = (float)x;
	uint32_t bits;

	if (dtype == ATTN_F16)
		return half_bits(narrow);
	memcpy(&bits, &narrow, sizeof(bits));
	return dtype == ATTN_BF16 ? bits >> 16 : bits;
}

static bool is_floating(int dtype)
{
	return dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16;
}

/* Numbers that are all set, but not to a kernel that counts with them, or asks for one of them. A
 * byte may be of a type that knows 0 and 1 alone, of which some look at the lowest bit; or be set
 * where it is 1 alone, or above 0. Some kernels take a number below the normal ones for 0. */
static uint64_t set_flag(int dtype, uint64_t element)
{
	static const uint64_t word[] = {1, 2, 1, UINT64_MAX, 1, 0x100}, byte[] = {1, 3, 0xff};
	static const uint64_t positive[] = {1, 3, 0x7f};
	static const float number[] = {1, 2, -1, 0.5f};

	if (is_floating(dtype))
		return element % 5 < 4 ? encode(number[element % 5], dtype) : 1;
	if (dtype == ATTN_ONE || dtype == ATTN_I8)
		return dtype == ATTN_ONE ? 1 : positive[element % 3];
	return dtype == ATTN_BOOL ? byte[element % 3] : word[element % 6];
}

/* A zero may be negative. */
static uint64_t clear_flag(int dtype, uint64_t element)
{
	static const uint64_t other[] = {0, 2, 0xff}, negative[] = {0, 0x80, 0xff};

	if (dtype == ATTN_ONE || dtype == ATTN_I8)
		return (dtype == ATTN_ONE ? other : negative)[element % 3];
	return is_floating(dtype) && element % 3 == 0 ? encode(-0.0, dtype) : 0;
}

static uint64_t bits_of(const struct content *content, uint64_t element)
{
	const double x = content_value(content, element);

	if (content->kind == CONTENT_FLAGS)
		return x != 0 ? set_flag(content->dtype, element)
			      : clear_flag(content->dtype, element);
	return encode(x, content->dtype);
}

static double decode(const unsigned char *bytes, int dtype)
{
	return rules_number(bytes, dtype);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Could these four bytes be part of numbers in the type? Not what may be an address, a count or an
 * index. */
static bool is_number(const unsigned char *bytes, int dtype)
{
	const int size = attn_dtype_size(dtype);
	uint32_t word;

	memcpy(&word, bytes, 4);
	if (!word)
		return true;
	if (dtype == ATTN_F16 &&
	    ((!(word & 0xffff) && !(word & 0x7c000000)) || (!(word >> 16) && !(word & 0x7c00))))
		return false;
	for (int at = 0; at < 4; at += size) {
		const double x = decode(bytes + at, dtype);

		if (isnan(x) || (isinf(x) && x > 0) || x > 1e30 ||
		    (x > -1e-30 && x < 1e-30 && x != 0))
			return false;
	}
	return true;
}

static bool is_length(const unsigned char *bytes, int64_t keys)
{
	int32_t word;

	memcpy(&word, bytes, 4);
	return word >= 0 && word <= keys;
}

const int probe_flag_types[PROBE_WIDTHS] = {ATTN_F64,  ATTN_I32,  ATTN_F32, ATTN_F16,
					    ATTN_BF16, ATTN_BOOL, ATTN_ONE, ATTN_I8};

/* Eight bytes, or the last four. */
static bool are_flags(const unsigned char *bytes, int type, uint64_t count)
{
	const uint64_t size = (uint64_t)attn_dtype_size(type);
	uint32_t word[2] = {0};

	memcpy(word, bytes, count);
	for (uint64_t at = 0; is_floating(type) && at + size <= count; at += size) {
		const double x = decode((const unsigned char *)word + at, type);

		if (x != 0 && x != 1)
			return false;
	}
	if (is_floating(type))
		return true;
	if (size == 1)
		return !((word[0] | word[1]) & 0xfefefefe);
	return word[0] <= 1 && word[1] <= (type == ATTN_I32);
}

static bool read_piece(const struct probe *probe, uint64_t from, uint64_t bytes)
{
	const struct mirrors *mirrors = &probe->mirrors;

	return driver.cuMemcpyDtoHAsync_v2(mirrors->host,
					   (CUdeviceptr)mirrors_place(mirrors, from, NULL), bytes,
					   probe->chain->stream) == CUDA_SUCCESS &&
	       mirrors_await(mirrors);
}

/* How many bytes from the beginning may be of that class (dtype: of numbers, -1: lengths); *blank:
 * all of them are zero. Numbers of two bytes may end with half of the last four. */
static uint64_t prefix(const struct probe *probe, const struct probe_input *input, uint64_t bytes,
		       int dtype, bool *blank)
{
	const uint64_t size = dtype < 0 ? 4 : (uint64_t)attn_dtype_size(dtype);
	unsigned char *host = probe->mirrors.host;

	*blank = true;
	for (uint64_t done = 0; done + size <= bytes;) {
		const uint64_t more = bytes - done < MIRROR_HOST ? bytes - done : MIRROR_HOST;

		if (!read_piece(probe, input->begin + done, more))
			return 0;
		memset(host + more, 0, more % 4);
		for (uint64_t at = 0; at + size <= more; at += 4, done += 4) {
			if (dtype < 0 ? !is_length(host + at, probe->grid.Sk)
				      : !is_number(host + at, dtype))
				return done;
			*blank = *blank && !host[at] && !host[at + 1] && !host[at + 2] &&
				 !host[at + 3];
		}
	}
	return bytes / size * size;
}

/* How many bytes from the beginning may be flags. */
static uint64_t flags_prefix(const struct probe *probe, const struct probe_input *input,
			     uint64_t room, int type)
{
	const uint64_t width = (uint64_t)attn_dtype_size(type);
	const struct fit_grid *grid = &probe->grid;
	const uint64_t all = (uint64_t)(grid->Z * grid->Sq * grid->Sk) * width;
	uint64_t bytes = all < room ? all : room;

	bytes = bytes < FLAGS_MOST ? bytes : FLAGS_MOST;
	for (uint64_t done = 0; done < bytes;) {
		const uint64_t more = bytes - done < MIRROR_HOST ? bytes - done : MIRROR_HOST;

		if (!read_piece(probe, input->begin + done, more))
			return 0;
		for (uint64_t at = 0; at < more; at += 8, done += 8) {
			const uint64_t left = more - at < 8 ? more - at : 8;

			if (!are_flags(probe->mirrors.host + at, type, left))
				return done;
		}
	}
	return bytes / width * width;
}

static bool is_row_of(const struct probe *probe, uint64_t bytes, int type)
{
	return bytes / (uint64_t)attn_dtype_size(type) >= (uint64_t)probe->grid.Sk;
}

/* Are zeros and ones all that there is, rather than lengths of `words` bytes, or (*perhaps) at
 * least enough for a row of keys? What lies behind a mask may look like lengths, too. `blank`:
 * these are zeros, so that there must be more: of the first sequence nothing may be hidden. */
static bool look_for_flags(const struct probe *probe, struct probe_input *input, uint64_t room,
			   uint64_t words, bool blank, bool *perhaps)
{
	const uint64_t bytes = flags_prefix(probe, input, room, ATTN_BOOL); /* of whatever kind */
	bool found = false;

	*perhaps = false;
	for (int n = 0; n < PROBE_WIDTHS; n++) {
		const int type = probe_flag_types[n];

		input->flags[n] = is_floating(type) ? 0
				  : attn_dtype_size(type) == 1
					  ? bytes
					  : flags_prefix(probe, input, room, type);
		found |= input->flags[n] >= FLAGS_LEAST &&
			 (input->flags[n] > words ||
			  (input->flags[n] == words && attn_dtype_size(type) > 1 && !blank));
		*perhaps |= is_row_of(probe, input->flags[n], type);
	}
	return found;
}

/* The same where numbers lie. */
static bool look_for_numbers(const struct probe *probe, struct probe_input *input, uint64_t room)
{
	bool found = false;

	for (int n = 0; n < PROBE_WIDTHS; n++) {
		const int type = probe_flag_types[n];

		input->flags[n] = is_floating(type) ? flags_prefix(probe, input, room, type) : 0;
		found |= is_row_of(probe, input->flags[n], type);
	}
	return found;
}

static bool keep_words(const struct probe *probe, struct probe_input *input)
{
	input->words = malloc(input->bytes);
	for (uint64_t done = 0; input->words && done < input->bytes; done += PIECE) {
		const uint64_t more = input->bytes - done < PIECE ? input->bytes - done : PIECE;

		if (!read_piece(probe, input->begin + done, more))
			return false;
		memcpy((char *)input->words + done, probe->mirrors.host, more);
	}
	return input->words != NULL;
}

/* What an input may be, by what lies there. */
static void look_at(const struct probe *probe, struct probe_input *input)
{
	const int dtypes[] = {dtype_of_cuda(probe->chain->steps[0].gemm.atype), ATTN_F32};
	const uint64_t room = mirrors_room(&probe->mirrors, input->begin);
	const struct fit_grid *grid = &probe->grid;
	uint64_t most = (uint64_t)(grid->Z * grid->Sq * grid->Sk) * 4;
	bool blank, perhaps, flags;
	uint64_t bytes;

	most = most < room ? most : room;
	bytes = prefix(probe, input, most < 4 * FIT_WORDS ? most : 4 * FIT_WORDS, -1, &blank);
	blank = blank && bytes >= 4;
	flags = look_for_flags(probe, input, room, bytes >= 4 ? bytes : 0, blank, &perhaps);
	if (flags || (bytes >= 4 && !blank)) {
		input->bytes = bytes;
		input->is = PROBE_FLAGS;
		if (bytes >= 4 && !flags)
			*(perhaps ? &input->otherwise : &input->is) = PROBE_LENGTHS;
		if (bytes >= 4 && !keep_words(probe, input))
			input->is = PROBE_UNKNOWN;
		return;
	}
	input->is = bytes >= 4 ? PROBE_BLANK : PROBE_UNKNOWN;
	for (int n = 0; n < 2; n++) {
		bytes = prefix(probe, input, most, dtypes[n], &blank);
		if (bytes < 16 || bytes <= input->bytes)
			continue;
		input->bytes = bytes;
		input->is = blank ? PROBE_BLANK : PROBE_NUMBERS;
	}
	if (input->is == PROBE_NUMBERS && look_for_numbers(probe, input, room)) {
		input->is = PROBE_FLAGS;
		input->otherwise = PROBE_NUMBERS;
	}
}

void probe_no_flags(struct probe_input *input)
{
	input->is = input->otherwise;
	input->otherwise = PROBE_UNKNOWN;
}

/* Of several that may be flags only those are that can be nothing else. */
static void choose_flags(struct probe *probe)
{
	int flags = 0;

	for (int i = 0; i < probe->inputs; i++)
		flags += probe->input[i].is == PROBE_FLAGS;
	for (int i = 0; i < probe->inputs && flags > 1; i++)
		if (probe->input[i].is == PROBE_FLAGS && probe->input[i].otherwise)
			probe_no_flags(&probe->input[i]);
}

static const char *find_inputs(struct probe *probe)
{
	const struct chain *chain = probe->chain;

	for (int i = 0; i < chain->value_count; i++) {
		struct probe_input *input = &probe->input[probe->inputs];

		if (!chain->values[i].outside)
			continue;
		if (probe->inputs == FIT_INPUTS)
			return "more pointers than can be told apart";
		probe->inputs++;
		input->begin = chain->values[i].begin;
		look_at(probe, input);
	}
	choose_flags(probe);
	return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

const char *probe_open(struct probe *probe, const struct chain *chain)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const bool p_is_a = chain->closer.a == chain->values[chain->p_value].begin;
	const char *hindrance = mirrors_hindrance(chain);

	memset(probe, 0, sizeof(*probe));
	probe->chain = chain;
	probe->score_dtype = dtype_of_cuda(opener->ctype);
	probe->p_dtype = dtype_of_cuda(p_is_a ? chain->closer.atype : chain->closer.btype);
	probe->grid.Z = opener->batch;
	probe->grid.Sq = opener->n;
	probe->grid.Sk = opener->m;
	fit_rows(&probe->grid);
	if (hindrance)
		return hindrance;
	if (opener->m > PROBE_KEYS)
		return "too many keys";
	if (!mirrors_open(&probe->mirrors, chain) || !mirrors_refresh(&probe->mirrors))
		return "no room: raise FASHIM_SCRATCH_MB";
	return find_inputs(probe);
}

void probe_close(struct probe *probe)
{
	if (probe->mirrors.chain)
		mirrors_close(&probe->mirrors);
	for (int i = 0; i < probe->inputs; i++)
		free(probe->input[i].words);
}

float *probe_rows(const struct probe *probe)
{
	return malloc((size_t)(probe->grid.rows * probe->grid.Sk) * sizeof(float));
}

uint64_t probe_elements(const struct probe *probe, int input, int dtype)
{
	return probe->input[input].bytes / (uint64_t)attn_dtype_size(dtype);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Fills memory with a content, a period of it from the host. */
static bool fill(const struct probe *probe, uint64_t begin, uint64_t bytes,
		 const struct content *content)
{
	const uint64_t size = (uint64_t)attn_dtype_size(content->dtype);
	const uint64_t to = mirrors_place(&probe->mirrors, begin, NULL);
	unsigned char *host = probe->mirrors.host;

	const uint64_t period = content_period(content);

	for (uint64_t n = 0; n < period && n * size < bytes; n++) {
		const uint64_t bits = bits_of(content, n);

		memcpy(host + n * size, &bits, size);
	}
	return mirrors_fill(&probe->mirrors, to, bytes, period * size);
}

static bool put_words(const struct probe *probe, const struct probe_input *input,
		      const struct content *content)
{
	const uint64_t to = mirrors_place(&probe->mirrors, input->begin, NULL);

	for (uint64_t done = 0; done < input->bytes; done += PIECE) {
		const uint64_t more = input->bytes - done < PIECE ? input->bytes - done : PIECE;

		memcpy(probe->mirrors.host, (const char *)content->words + done, more);
		if (!mirrors_fill(&probe->mirrors, to + done, more, more))
			return false;
	}
	return true;
}

static bool fill_all(const struct probe *probe, const struct observation *run)
{
	const struct value *scores = &probe->chain->values[0];

	if (!fill(probe, scores->begin, scores->end - scores->begin, &run->scores))
		return false;
	for (int i = 0; i < probe->inputs; i++) {
		const struct content *content = &run->input[i];

		if (content->kind == CONTENT_WORDS
			    ? !put_words(probe, &probe->input[i], content)
			    : !fill(probe, probe->input[i].begin,
				    content->count * (uint64_t)attn_dtype_size(content->dtype),
				    content))
			return false;
	}
	return true;
}

/* As many rows as the host's piece holds, from row r on; how many, 0: none. */
static int read_rows(const struct probe *probe, int r, float *to)
{
	const struct fit_grid *grid = &probe->grid;
	const uint64_t size = (uint64_t)attn_dtype_size(probe->p_dtype);
	const uint64_t bytes = (uint64_t)grid->Sk * size;
	const uint64_t p = mirrors_place(&probe->mirrors,
					 probe->chain->values[probe->chain->p_value].begin, NULL);
	unsigned char *host = probe->mirrors.host;
	int count = 0;

	for (; r + count < grid->rows && (uint64_t)(count + 1) * bytes <= MIRROR_HOST; count++) {
		const int64_t row = grid->row[r + count].z * grid->Sq + grid->row[r + count].i;

		if (driver.cuMemcpyDtoHAsync_v2(host + (uint64_t)count * bytes,
						(CUdeviceptr)(p + (uint64_t)row * bytes), bytes,
						probe->chain->stream) != CUDA_SUCCESS)
			return 0;
	}
	if (!mirrors_await(&probe->mirrors))
		return 0;
	for (int64_t n = 0; n < count * grid->Sk; n++)
		to[n] = (float)decode(host + (uint64_t)n * size, probe->p_dtype);
	return count;
}

bool probe_run(const struct probe *probe, struct observation *run)
{
	if (!fill_all(probe, run))
		return false;
	for (int s = 1; s < probe->chain->step_count; s++)
		if (!mirrors_run(&probe->mirrors, &probe->chain->steps[s]))
			return false;
	for (int r = 0, count; r < probe->grid.rows; r += count) {
		count = read_rows(probe, r, run->p + r * probe->grid.Sk);
		if (!count)
			return false;
	}
	return true;
}
