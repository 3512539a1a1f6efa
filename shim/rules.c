/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading parameter blocks. Each reader fills a `struct reading`: the pointers with their extents, and for
 * kernels of the score algebra their meaning. Facts about the blocks were read off traces of PyTorch 2.11;
 * every reader checks what it relies on and says no when it does not hold, so that a changed layout makes a
 * kernel unknown, never misread.
 */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "memory.h"

struct reading {
	const struct function *function;
	const struct op_launch *launch;
	const unsigned char *params;
	struct access_list *list;
	struct meaning *meaning;
};

struct kernel_rule {
	bool (*read)(struct reading *reading);
};

/* ---- small readers of bytes -------------------------------------------------------------------- */

static uint64_t u64_at(const struct reading *r, unsigned at)
{
	uint64_t word = 0;

	memcpy(&word, r->params + at, 8);
	return word;
}

static uint32_t u32_at(const struct reading *r, unsigned at)
{
	uint32_t word = 0;

	memcpy(&word, r->params + at, 4);
	return word;
}

static float f32_at(const struct reading *r, unsigned at)
{
	float word;

	memcpy(&word, r->params + at, 4);
	return word;
}

static unsigned offset(const struct reading *r, unsigned param)
{
	return r->function->param_offset[param];
}

static unsigned size_of(const struct reading *r, unsigned param)
{
	return param < r->function->param_count ? r->function->param_size[param] : 0;
}

static bool has(const struct reading *r, const char *needle)
{
	return strstr(r->function->name, needle) != NULL;
}

static double half_value(uint16_t bits)
{
	const int exponent = bits >> 10 & 31;
	const double sign = bits & 0x8000 ? -1 : 1;
	const double mantissa = bits & 0x3ff;

	if (exponent == 31)
		return mantissa != 0 ? __builtin_nan("") : sign * __builtin_inf();
	return sign * (exponent ? 1 + mantissa / 1024 : mantissa / 512) *
	       __builtin_ldexp(1, exponent - 15);
}

static double value_at(const struct reading *r, unsigned at, int dtype)
{
	uint32_t word = 0;
	float value;

	if (dtype == ATTN_F32)
		return f32_at(r, at);
	memcpy(&word, r->params + at, 2);
	if (dtype == ATTN_F16)
		return half_value((uint16_t)word);
	word <<= 16;
	memcpy(&value, &word, 4);
	return value;
}

/* ---- types ------------------------------------------------------------------------------------- */

struct type {
	int dtype; /* enum attn_dtype, -1: none of them */
	int bytes; /* 0: not known */
};

static const struct type half_type = {ATTN_F16, 2}, bfloat_type = {ATTN_BF16, 2},
			 float_type = {ATTN_F32, 4}, bool_type = {ATTN_BOOL, 1},
			 unknown_type = {-1, 0};

/* A builtin type's letter in a mangled name. */
static struct type type_of_letter(char letter)
{
	switch (letter) {
	case 'f':
		return float_type;
	case 'b':
		return bool_type;
	case 'h':
	case 'a':
		return (struct type){-1, 1};
	case 's':
		return (struct type){-1, 2};
	case 'i':
	case 'j':
		return (struct type){-1, 4};
	case 'l':
	case 'm':
	case 'd':
		return (struct type){-1, 8};
	default:
		return unknown_type;
	}
}

/* c10::ScalarType as dynamic casts store it. */
static struct type type_of_scalar_type(unsigned code)
{
	static const int bytes[] = {1, 1, 2, 4, 8, 2, 4, 8};

	switch (code) {
	case 5:
		return half_type;
	case 6:
		return float_type;
	case 11:
		return bool_type;
	case 15:
		return bfloat_type;
	default:
		return code < 8 ? (struct type){-1, bytes[code]} : unknown_type;
	}
}

/* The type an element-wise functor works in, from its name. */
static struct type functor_type(const struct reading *r)
{
	static const char *const before[] = {"addI", "FunctorI", "EUl", "implI"};
	const bool half = has(r, "4HalfE"), bfloat = has(r, "8BFloat16E");

	if (half || bfloat)
		return half && bfloat ? unknown_type : half ? half_type : bfloat_type;
	for (unsigned i = 0; i < sizeof(before) / sizeof(*before); i++) {
		const char *at = strstr(r->function->name, before[i]);

		for (; at; at = strstr(at + 1, before[i])) {
			struct type type;

			at += strlen(before[i]);
			/* a leading bool argument is a condition, the type comes behind it */
			if (at[0] == 'b' && strchr("fldih", at[1]) && at[1])
				at++;
			type = type_of_letter(*at);
			if (type.bytes)
				return type;
		}
	}
	return unknown_type;
}

static bool returns_bool(const struct reading *r)
{
	return has(r, "CompareFunctor") || has(r, "compare_scalar_kernel") || has(r, "isneginf") ||
	       has(r, "isposinf") || has(r, "logical_") || has(r, "isnan");
}

/* Type of operand `n` (0: the output) of a functor without dynamic casts. */
static struct type operand_type(const struct reading *r, int n)
{
	if (has(r, "24float16_copy_kernel_cudaE"))
		return n == 0 ? half_type : float_type;
	if (has(r, "25bfloat16_copy_kernel_cudaE"))
		return n == 0 ? bfloat_type : float_type;
	if (n == 0 && returns_bool(r))
		return bool_type;
	if ((n == 2 && (has(r, "18masked_fill_kernelE") || has(r, "masked_scale_kernel"))) ||
	    (n == 1 && has(r, "17where_kernel_implE")))
		return bool_type;
	return functor_type(r);
}

/* ---- accesses ---------------------------------------------------------------------------------- */

static uint64_t end_of_allocation(uint64_t address)
{
	const struct allocation *allocation = memory_find(address);

	return allocation ? allocation->base + allocation->bytes : address + 1;
}

static void touch(struct reading *r, unsigned at, enum access_mode mode, uint64_t may, uint64_t sure,
                  bool bounded)
{
	const uint64_t base = u64_at(r, at);

	if (r->list && base)
		access_add(r->list, (struct access){.begin = base,
		                                    .end = bounded ? base + may
		                                                   : end_of_allocation(base),
		                                    .sure_end = mode == ACCESS_WRITE ? base + sure : base,
		                                    .mode = mode,
		                                    .bounded = bounded,
		                                    .where = (int)at});
}

static void reads(struct reading *r, unsigned at, uint64_t bytes)
{
	touch(r, at, ACCESS_READ, bytes, 0, true);
}

static void writes(struct reading *r, unsigned at, uint64_t bytes)
{
	touch(r, at, ACCESS_WRITE, bytes, bytes, true);
}

/* ---- element-wise ------------------------------------------------------------------------------ */

static enum rule_role functor_role(const struct reading *r)
{
	static const struct {
		enum rule_role role;
		const char *first, *second;
	} functors[] = {
#define FUNCTOR(role, first, second) {ROLE_##role, first, second},
#include "kernel_rules.def"
#undef FUNCTOR
	};
	unsigned i = 0;

	while (!has(r, functors[i].first) || !has(r, functors[i].second))
		i++;
	return functors[i].role;
}

static int64_t view_bytes(const struct meaning *meaning, const struct view *view)
{
	int64_t last = 0;

	for (int d = 0; d < meaning->dims; d++)
		last += (meaning->size[d] - 1) * view->stride[d];
	return last + view->element;
}

/* A strided output is dense if its dimensions, taken by stride, leave no hole. */
static bool view_dense(const struct meaning *meaning, const struct view *view)
{
	int64_t expected = view->element;
	bool taken[VIEW_DIMS] = {false};

	for (int n = 0; n < meaning->dims; n++) {
		int next = -1;

		for (int d = 0; d < meaning->dims; d++)
			if (!taken[d] && meaning->size[d] > 1 &&
			    (next < 0 || view->stride[d] < view->stride[next]))
				next = d;
		if (next < 0)
			return true;
		if (view->stride[next] != expected)
			return false;
		expected *= meaning->size[next];
		taken[next] = true;
	}
	return true;
}

/* Scalars of the functors we know, at `at`: a binary functor with one operand bound keeps an empty functor
 * (uninitialised) in its first word and the scalar, in fp32, in its second; addition keeps its factor for
 * the second operand, masked fill its value, in its first. */
static void read_functor(struct reading *r, unsigned at, unsigned bytes)
{
	struct meaning *meaning = r->meaning;

	if (meaning->role == ROLE_SCALE && bytes >= 8) {
		meaning->scalar = f32_at(r, at + 4);
	} else if (meaning->role == ROLE_ADD && bytes >= 4 && meaning->views[0].dtype >= 0) {
		meaning->scalar = f32_at(r, at);
		if (meaning->scalar != 1)
			meaning->role = ROLE_ADD_SCALED;
	} else if (meaning->role == ROLE_MASKED_FILL && bytes >= 2 && meaning->views[0].dtype >= 0) {
		meaning->scalar = value_at(r, at, meaning->views[0].dtype);
	} else if (meaning->role != ROLE_TANH && meaning->role != ROLE_COPY &&
	           meaning->role != ROLE_WHERE) {
		meaning->role = ROLE_OPAQUE;
	}
}

static bool finish_views(struct reading *r)
{
	struct meaning *meaning = r->meaning;

	for (int i = 0; i < meaning->view_count; i++) {
		const struct view *view = &meaning->views[i];
		const int64_t bytes = view_bytes(meaning, view);

		if (!view->element) { /* of unknown width: at least one byte, at most eight */
			int64_t least = view_dense(meaning, view) ? meaning->elements : 0;

			touch(r, (unsigned)view->where, i ? ACCESS_READ : ACCESS_WRITE, 0,
			      (uint64_t)least, false);
			meaning->role = ROLE_OPAQUE;
		} else if (i) {
			reads(r, (unsigned)view->where, (uint64_t)bytes);
		} else {
			touch(r, (unsigned)view->where, ACCESS_WRITE, (uint64_t)bytes,
			      view_dense(meaning, view) ? (uint64_t)bytes : 0, true);
		}
	}
	return true;
}

static void set_view(struct reading *r, int n, unsigned where, struct type type)
{
	r->meaning->views[n].where = (int)where;
	r->meaning->views[n].base = u64_at(r, where);
	r->meaning->views[n].dtype = type.dtype;
	r->meaning->views[n].element = type.bytes;
}

static void one_dimension(struct reading *r, int64_t elements)
{
	r->meaning->elements = elements;
	r->meaning->dims = 1;
	r->meaning->size[0] = elements;
	for (int i = 0; i < r->meaning->view_count; i++)
		r->meaning->views[i].stride[0] = r->meaning->views[i].element;
}

/* (int N, functor, array<char *, operands>): contiguous operands, the output first. */
static bool read_vectorized(struct reading *r)
{
	const unsigned count = size_of(r, 2) / 8;

	if (r->function->param_count != 3 || size_of(r, 0) != 4 || count < 1 || count > 4)
		return false;
	r->meaning->role = functor_role(r);
	r->meaning->view_count = (int)count;
	for (unsigned i = 0; i < count; i++)
		set_view(r, (int)i, offset(r, 2) + 8 * i, operand_type(r, (int)i));
	one_dimension(r, (int32_t)u32_at(r, offset(r, 0)));
	read_functor(r, offset(r, 1), size_of(r, 1));
	return finish_views(r);
}

/* (int N, functor, array<char *, 2>, trivial, trivial, LoadWithCast<1>, StoreWithCast<1>): the casts hold
 * {scalar type, element bytes}. */
static bool read_unrolled(struct reading *r)
{
	if (r->function->param_count != 7 || size_of(r, 0) != 4 || size_of(r, 2) != 16 ||
	    !has(r, "23TrivialOffsetCalculatorILi1E") || !has(r, "12LoadWithCastILi1E") ||
	    !has(r, "13StoreWithCastILi1E") || size_of(r, 5) != 8 || size_of(r, 6) != 8)
		return false;
	r->meaning->role = functor_role(r);
	r->meaning->view_count = 2;
	for (unsigned i = 0; i < 2; i++) {
		const unsigned cast = offset(r, i ? 5 : 6);
		const struct type type = type_of_scalar_type(r->params[cast]);

		if (type.bytes != (int)u32_at(r, cast + 4))
			return false;
		set_view(r, (int)i, offset(r, 2) + 8 * i, type);
	}
	one_dimension(r, (int32_t)u32_at(r, offset(r, 0)));
	if (r->meaning->role != ROLE_COPY)
		r->meaning->role = ROLE_OPAQUE;
	return finish_views(r);
}

#define CALCULATOR_DIMS 25 /* of at::native's OffsetCalculator */

/* (int N, lambda {OffsetCalculator<operands>, array<char *, operands>, functor}). The calculator is
 * {int dims, {divisor, magic, shift} sizes[25], unsigned strides[25][operands]} with strides in bytes;
 * entries beyond dims are uninitialised. */
static bool read_strided_as(struct reading *r, bool casts)
{
	struct meaning *meaning = r->meaning;
	const unsigned lambda = offset(r, 1), bytes = size_of(r, 1);
	const unsigned strides = lambda + 4 + 12 * CALCULATOR_DIMS;
	unsigned operands, pointers = 0;
	int64_t product = 1;

	if (r->function->param_count != 2 || size_of(r, 0) != 4)
		return false;
	for (operands = 1; operands <= 4; operands++) {
		pointers = (4 + 12 * CALCULATOR_DIMS + 4 * CALCULATOR_DIMS * operands + 7) & ~7u;
		if (bytes >= pointers + 8 * operands && bytes <= pointers + 8 * operands + 64)
			break;
	}
	if (operands > 4)
		return false;
	pointers += lambda;
	meaning->dims = (int)u32_at(r, lambda);
	if (meaning->dims < 0 || meaning->dims > VIEW_DIMS)
		return false;
	meaning->role = functor_role(r);
	meaning->view_count = (int)operands;
	meaning->elements = (int32_t)u32_at(r, offset(r, 0));
	for (int d = 0; d < meaning->dims; d++) {
		meaning->size[d] = u32_at(r, lambda + 4 + 12 * (unsigned)d);
		product *= meaning->size[d];
		for (unsigned i = 0; i < operands; i++)
			meaning->views[i].stride[d] = u32_at(r, strides + 4 * ((unsigned)d * operands + i));
	}
	if (product != meaning->elements)
		return false;
	for (unsigned i = 0; i < operands; i++)
		set_view(r, (int)i, pointers + 8 * i,
		         casts ? type_of_scalar_type(r->params[pointers + 8 * operands + i])
		               : operand_type(r, (int)i));
	if (casts)
		meaning->role = meaning->role == ROLE_COPY ? ROLE_COPY : ROLE_OPAQUE;
	else
		read_functor(r, pointers + 8 * operands, lambda + bytes - pointers - 8 * operands);
	return finish_views(r);
}

static bool read_strided(struct reading *r)
{
	return read_strided_as(r, false);
}

static bool read_strided_cast(struct reading *r)
{
	return read_strided_as(r, true);
}

/* ---- softmax ----------------------------------------------------------------------------------- */

/* One template argument at *at: Half, BFloat16, a letter, or a repetition (S_, S4_ …) of the first. */
static struct type template_type(const char **at, struct type repeated)
{
	static const struct {
		const char *text;
		const struct type *type;
	} named[] = {{"N3c104HalfE", &half_type}, {"N3c108BFloat16E", &bfloat_type}};

	for (int i = 0; i < 2; i++)
		if (strncmp(*at, named[i].text, strlen(named[i].text)) == 0) {
			*at += strlen(named[i].text);
			return *named[i].type;
		}
	if (**at == 'S') {
		while (**at && **at != '_')
			++*at;
		if (**at)
			++*at;
		return repeated;
	}
	return **at ? type_of_letter(*(*at)++) : unknown_type;
}

static bool read_softmax(struct reading *r, unsigned out, unsigned in, struct type to, struct type from,
                         int64_t rows, int64_t cols, bool log)
{
	if (!to.bytes || !from.bytes || to.dtype < 0 || from.dtype < 0 || rows <= 0 || cols <= 0)
		return false;
	r->meaning->role = log ? ROLE_LOG_SOFTMAX : ROLE_SOFTMAX;
	r->meaning->view_count = 2;
	set_view(r, 0, out, to);
	set_view(r, 1, in, from);
	one_dimension(r, rows * cols);
	r->meaning->softmax_cols = cols;
	return finish_views(r);
}

/* <input, output, accumulator, log2, is_log, is_masked>(dst, src, rows, stride, columns, mask, …) */
static bool read_softmax_warp(struct reading *r)
{
	const char *at = strstr(r->function->name, "softmax_warp_forwardI") + 21;
	struct type from, to;
	int64_t rows, cols;
	bool log;

	if (r->function->param_count < 6 || size_of(r, 2) != 4 || size_of(r, 5) != 8)
		return false;
	from = template_type(&at, unknown_type);
	to = template_type(&at, from);
	template_type(&at, from);
	at = strchr(at, 'b');
	log = at && at[1] == '1';
	rows = (int32_t)u32_at(r, offset(r, 2));
	cols = (int32_t)u32_at(r, offset(r, 4));
	if (!at || (int32_t)u32_at(r, offset(r, 3)) != cols)
		return false;
	if (!read_softmax(r, offset(r, 0), offset(r, 1), to, from, rows, cols, log))
		return false;
	if (u64_at(r, offset(r, 5))) { /* a boolean mask of a form we do not model */
		r->meaning->role = ROLE_OPAQUE;
		reads(r, offset(r, 5), (uint64_t)(rows * cols));
	}
	return true;
}

/* <input, accumulator, output, epilogue, …>(output, input, columns), one row a block. */
static bool read_softmax_block(struct reading *r)
{
	const char *at = strstr(r->function->name, "cunn_SoftMaxForward");
	struct type from, to;
	int64_t cols;

	at = strchr(at, 'I');
	if (!at || r->function->param_count != 3)
		return false;
	at++;
	from = template_type(&at, unknown_type);
	template_type(&at, from);
	to = template_type(&at, from);
	cols = size_of(r, 2) == 8 ? (int64_t)u64_at(r, offset(r, 2))
	                          : (int32_t)u32_at(r, offset(r, 2));
	return read_softmax(r, offset(r, 0), offset(r, 1), to, from, r->launch->grid[0], cols,
	                    has(r, "LogSoftMax"));
}

/* (grad_input, grad, output, rows, stride, columns, mask): whoever sees this reads P. */
static bool read_softmax_backward(struct reading *r)
{
	const char *at = strstr(r->function->name, "softmax_warp_backwardI") + 22;
	const struct type type = template_type(&at, unknown_type);
	uint64_t bytes;

	if (r->function->param_count < 6 || size_of(r, 3) != 4 || !type.bytes)
		return false;
	bytes = (uint64_t)u32_at(r, offset(r, 3)) * u32_at(r, offset(r, 5)) * (uint64_t)type.bytes;
	r->meaning->role = ROLE_OPAQUE;
	writes(r, offset(r, 0), bytes);
	reads(r, offset(r, 1), bytes);
	reads(r, offset(r, 2), bytes);
	return true;
}

/* ---- others that live next to attention -------------------------------------------------------- */

/* (int N, eps, X, gamma, beta, mean, rstd, Y), one row a block. */
static bool read_layer_norm(struct reading *r)
{
	const char *at = strstr(r->function->name, "layer_norm_kernelI") + 18;
	const struct type type = template_type(&at, unknown_type);
	const uint64_t rows = r->launch->grid[0];
	uint64_t bytes;

	if (r->function->param_count != 8 || size_of(r, 0) != 4 || size_of(r, 7) != 8 || !type.bytes)
		return false;
	bytes = (uint64_t)u32_at(r, offset(r, 0)) * (uint64_t)type.bytes;
	r->meaning->role = ROLE_OPAQUE;
	reads(r, offset(r, 2), rows * bytes);
	reads(r, offset(r, 3), bytes);
	reads(r, offset(r, 4), bytes);
	writes(r, offset(r, 5), rows * 4);
	writes(r, offset(r, 6), rows * 4);
	writes(r, offset(r, 7), rows * bytes);
	return true;
}

/* One struct: {functor, identity, {…, num_inputs, num_outputs, …}, calculators, src, dst[2], accumulate,
 * block results, semaphores, …}. The pointers stand at fixed distances from its end; calculators hold
 * stack garbage, so only these words may be taken for pointers. */
static bool read_reduce(struct reading *r)
{
	const unsigned bytes = size_of(r, 0), at = offset(r, 0);
	const char *out = strstr(r->function->name, "Ej");
	const unsigned config = bytes == 1040 ? 4 : bytes == 1048 ? 8 : bytes == 1056 ? 16 : 0;
	struct type type = unknown_type;
	uint64_t outputs;

	if (r->function->param_count != 1 || !config)
		return false;
	if (out)
		type = out[2] == 'S' ? functor_type(r) : type_of_letter(out[2]);
	outputs = u32_at(r, at + config + 8);
	r->meaning->role = ROLE_OPAQUE;
	touch(r, at + bytes - 64, ACCESS_READ, 0, 0, false);
	touch(r, at + bytes - 56, ACCESS_WRITE, 0, outputs * (uint64_t)type.bytes, false);
	for (unsigned back = 48; back >= 24; back -= 8)
		if (memory_find(u64_at(r, at + bytes - back)))
			touch(r, at + bytes - back, back == 24 ? ACCESS_UNKNOWN : ACCESS_WRITE, 0, 0,
			      false);
	return true;
}

/* (output, {inputs[n], offset[n], dim_size[n], elements[n], …}, {size[4], stride[4]}, dim, stride): one
 * launch copies up to n inputs, grid.y of them; if these are all, the whole output is written. */
static bool read_cat(struct reading *r)
{
	const unsigned n = size_of(r, 1) == 3392 ? 64 : size_of(r, 1) == 2720 ? 128 : 0;
	const char *opaque = strstr(r->function->name, "OpaqueTypeILj");
	const unsigned inputs = r->launch->grid[1], at = n ? offset(r, 1) : 0;
	uint64_t width, total = 0, whole = 1;
	const char *dims;

	if (r->function->param_count != 5 || !n || inputs > n || !opaque || size_of(r, 2) != 32)
		return false;
	width = (uint64_t)strtoul(opaque + 13, NULL, 10);
	dims = strstr(opaque, "EEjLi");
	if (!dims || !width)
		return false;
	for (unsigned i = 0; i < inputs; i++) {
		const uint64_t elements = u32_at(r, at + 16 * n + 4 * i);

		total += elements;
		touch(r, at + 8 * i, ACCESS_READ, elements * width, 0, r->params[at + 20 * n + i]);
	}
	for (unsigned d = 0; d < (unsigned)(dims[5] - '0') && d < 4; d++)
		whole *= u32_at(r, offset(r, 2) + 4 * d);
	whole *= has(r, "CatArrayBatchedCopy_vectorized") ? 16 : width;
	r->meaning->role = ROLE_OPAQUE;
	touch(r, offset(r, 0), ACCESS_WRITE, whole, total * width == whole ? whole : 0, true);
	return true;
}

/* (output, input, indices, int rows, row bytes, …), one row a block. */
static bool read_gather(struct reading *r)
{
	if (r->function->param_count < 5 || size_of(r, 3) != 4 || size_of(r, 4) != 8 ||
	    r->launch->grid[0] != u32_at(r, offset(r, 3)))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	touch(r, offset(r, 1), ACCESS_READ, 0, 0, false);
	touch(r, offset(r, 2), ACCESS_READ, 0, 0, false);
	writes(r, offset(r, 0), u32_at(r, offset(r, 3)) * u64_at(r, offset(r, 4)));
	return true;
}

/* (long N, lambda {OffsetCalculator<3>, output, input, …, index pointers}): where it reads depends on the
 * indices. */
static bool read_index(struct reading *r)
{
	const unsigned lambda = offset(r, 1);
	const unsigned pointers = lambda + ((4 + 12 * CALCULATOR_DIMS + 12 * CALCULATOR_DIMS + 7) & ~7u);
	const char *opaque = strstr(r->function->name, "OpaqueTypeILi");
	struct meaning *meaning = r->meaning;
	int64_t product = 1;

	if (r->function->param_count != 2 || size_of(r, 0) != 8 || !opaque ||
	    pointers + 16 > lambda + size_of(r, 1))
		return false;
	meaning->dims = (int)u32_at(r, lambda);
	if (meaning->dims < 0 || meaning->dims > VIEW_DIMS)
		return false;
	meaning->view_count = 1;
	meaning->elements = (int64_t)u64_at(r, offset(r, 0));
	set_view(r, 0, pointers, (struct type){-1, (int)strtoul(opaque + 13, NULL, 10)});
	for (int d = 0; d < meaning->dims; d++) {
		meaning->size[d] = u32_at(r, lambda + 4 + 12 * (unsigned)d);
		meaning->views[0].stride[d] =
			u32_at(r, lambda + 4 + 12 * CALCULATOR_DIMS + 12 * (unsigned)d);
		product *= meaning->size[d];
	}
	if (product != meaning->elements)
		return false;
	meaning->role = ROLE_OPAQUE;
	finish_views(r);
	touch(r, pointers + 8, ACCESS_READ, 0, 0, false);
	for (unsigned at = pointers + 16; at + 8 <= lambda + size_of(r, 1); at += 8)
		if (memory_find(u64_at(r, at)))
			touch(r, at, ACCESS_READ, 0, 0, false);
	return true;
}

/* (long N, Philox state, transform, lambda {output, int element bytes, …}): random numbers. */
static bool read_distribution(struct reading *r)
{
	uint32_t bytes;

	if (r->function->param_count != 4 || size_of(r, 0) != 8 || size_of(r, 3) < 16)
		return false;
	bytes = u32_at(r, offset(r, 3) + 8);
	if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	writes(r, offset(r, 3), u64_at(r, offset(r, 0)) * bytes);
	return true;
}

/* (int N, functor of the index, output): arange and the like; elements are at least a byte wide. */
static bool read_with_index(struct reading *r)
{
	if (r->function->param_count != 3 || size_of(r, 0) != 4 || size_of(r, 2) != 8)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	touch(r, offset(r, 2), ACCESS_WRITE, 0, u32_at(r, offset(r, 0)), false);
	return true;
}

/* (TensorInfo in, TensorInfo out, TensorInfo mask, n, …): a pointer at the start of each. */
static bool read_dropout(struct reading *r)
{
	const struct type type = functor_type(r);
	uint64_t elements;

	if (r->function->param_count < 4 || size_of(r, 0) != 216 || size_of(r, 3) != 4 || !type.bytes)
		return false;
	elements = u32_at(r, offset(r, 3));
	r->meaning->role = ROLE_DROPOUT;
	r->meaning->elements = (int64_t)elements;
	reads(r, offset(r, 0), elements * (uint64_t)type.bytes);
	writes(r, offset(r, 1), elements * (uint64_t)type.bytes);
	writes(r, offset(r, 2), elements);
	return true;
}

/* ---- binding ----------------------------------------------------------------------------------- */

void rules_bind(struct function *function)
{
	static const struct {
		struct kernel_rule rule;
		const char *needle;
	} layouts[] = {
#define LAYOUT(reader, needle) {{read_##reader}, needle},
#include "kernel_rules.def"
#undef LAYOUT
	};

	function->rule = NULL;
	if (!function->readable)
		return;
	for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (strstr(function->name, layouts[i].needle)) {
			function->rule = &layouts[i].rule;
			return;
		}
}

static bool read_with(const struct function *function, const struct op_launch *launch,
                      const unsigned char *params, struct access_list *list, struct meaning *meaning)
{
	struct reading reading = {.function = function,
	                          .launch = launch,
	                          .params = params,
	                          .list = list,
	                          .meaning = meaning};

	memset(meaning, 0, sizeof(*meaning));
	if (!function->rule || !function->rule->read(&reading)) {
		memset(meaning, 0, sizeof(*meaning));
		if (list)
			list->count = 0;
		return false;
	}
	return true;
}

bool rules_access(const struct function *function, const struct op_launch *launch,
                  const unsigned char *params, struct access_list *list)
{
	struct meaning meaning;

	return read_with(function, launch, params, list, &meaning);
}

void rules_meaning(const struct function *function, const struct op_launch *launch,
                   const unsigned char *params, struct meaning *meaning)
{
	read_with(function, launch, params, NULL, meaning);
}

const char *rules_role_name(enum rule_role role)
{
	static const char *const names[] = {
#define ROLE(id, name) name,
#include "kernel_roles.def"
#undef ROLE
	};

	return names[role];
}
