/* SPDX-License-Identifier: Apache-2.0
 *
 * What CuPy compiles as it goes. Its element-wise functions take their arguments in order, then
 * their result, then a CIndexer {elements, sizes[n], room for n words}; each argument is a CArray
 * {data, elements, sizes[n], strides[n]} of that shape, or a number by value, already of the type
 * that is computed in. The last dimension runs fastest, strides are in bytes. The name ends in the
 * types of all of them: cupy_multiply__float16_float_float16, a number's without its digits.
 *
 * Reductions of whole rows are CUB's: (in, out, columns, rows, what to do, what to begin with).
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#define NAME "cupy_"

/* What comes between that and the types, and how many arguments there are. */
static const struct cupy_function {
	const char *name;
	int arguments;
	enum rule_role role;
} functions[] = {
	{"copy__", 1, ROLE_COPY},	    {"add__", 2, ROLE_ADD},
	{"subtract__", 2, ROLE_ADD_SCALED}, {"multiply__", 2, ROLE_MULTIPLY},
	{"true_divide__", 2, ROLE_DIVIDE},  {"exp__", 1, ROLE_EXP},
	{"tanh__", 1, ROLE_TANH},	    {"where__", 3, ROLE_WHERE},
	{"equal__", 2, ROLE_OPAQUE},	    {"not_equal__", 2, ROLE_OPAQUE},
	{"greater__", 2, ROLE_OPAQUE},	    {"greater_equal__", 2, ROLE_OPAQUE},
	{"less__", 2, ROLE_OPAQUE},	    {"less_equal__", 2, ROLE_OPAQUE},
	{"logical_and__", 2, ROLE_OPAQUE},  {"logical_or__", 2, ROLE_OPAQUE},
	{"logical_not__", 1, ROLE_OPAQUE},  {"invert__", 1, ROLE_OPAQUE},
};

/* The type whose name *at begins with, up to the next '_' or the end; *at moves behind it. */
static struct type named_type(const char **at)
{
	static const struct {
		const char *name;
		struct type type;
	} types[] = {
		{"float16", {ATTN_F16, 2}},   {"float32", {ATTN_F32, 4}}, {"bool", {ATTN_BOOL, 1}},
		{"bfloat16", {ATTN_BF16, 2}}, {"float64", {-1, 8}},	  {"int8", {-1, 1}},
		{"uint8", {-1, 1}},	      {"int16", {-1, 2}},	  {"uint16", {-1, 2}},
		{"int32", {-1, 4}},	      {"uint32", {-1, 4}},	  {"int64", {-1, 8}},
		{"uint64", {-1, 8}},
	};
	const size_t length = strcspn(*at, "_");
	struct type type = type_unknown;

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strlen(types[i].name) == length && !strncmp(*at, types[i].name, length))
			type = types[i].type;
	*at += length + ((*at)[length] == '_');
	return type;
}

/* What the indexer, parameter `param`, goes over. */
static bool set_shape(struct reading *r, unsigned param)
{
	struct meaning *meaning = r->meaning;
	const unsigned dims = rule_size_of(r, param) / 16, sizes = rule_offset(r, param) + 8;
	int64_t product = 1;

	if (dims < 1 || dims > VIEW_DIMS || rule_size_of(r, param) != 8 + 16 * dims)
		return false;
	meaning->dims = (int)dims;
	meaning->elements = (int64_t)rule_u64_at(r, rule_offset(r, param));
	for (unsigned d = 0; d < dims; d++) {
		meaning->size[d] = (int64_t)rule_u64_at(r, sizes + 8 * (dims - 1 - d));
		if (meaning->size[d] < 1 || meaning->size[d] > meaning->elements)
			return false;
		product *= meaning->size[d];
	}
	return product == meaning->elements;
}

/* View n is the array of parameter `param`, which the indexer goes over in whole. */
static bool set_array(struct reading *r, int n, unsigned param, struct type type)
{
	struct meaning *meaning = r->meaning;
	const unsigned at = rule_offset(r, param), sizes = at + 16;
	const unsigned strides = sizes + 8 * (unsigned)meaning->dims;

	if (rule_size_of(r, param) != 16 + 16 * (unsigned)meaning->dims || !type.bytes)
		return false;
	rule_set_view(r, n, at, type);
	for (int d = 0; d < meaning->dims; d++) {
		const unsigned back = 8 * (unsigned)(meaning->dims - 1 - d);

		meaning->views[n].stride[d] = (int64_t)rule_u64_at(r, strides + back);
		if ((int64_t)rule_u64_at(r, sizes + back) != meaning->size[d] ||
		    meaning->views[n].stride[d] < 0)
			return false;
	}
	return (int64_t)rule_u64_at(r, at + 8) == meaning->elements;
}

/* One argument is the number `scalar`, at place `at` of those of the function: what is left for
 * the score algebra. */
static void mean_number(struct meaning *meaning, int at, double scalar)
{
	const enum rule_role role = meaning->role;

	meaning->role = ROLE_OPAQUE;
	meaning->scalar = scalar;
	if (role == ROLE_MULTIPLY) {
		meaning->role = ROLE_SCALE;
	} else if (role == ROLE_DIVIDE && at == 1 && scalar != 0) {
		meaning->role = ROLE_SCALE;
		meaning->scalar = 1 / scalar;
	} else if (role == ROLE_ADD || (role == ROLE_ADD_SCALED && at == 1)) {
		meaning->role = ROLE_ADD_CONSTANT;
		meaning->scalar = role == ROLE_ADD ? scalar : -scalar;
	} else if (role == ROLE_WHERE && at > 0) { /* the mask comes first, not last */
		const struct view mask = meaning->views[1];

		meaning->role = ROLE_MASKED_FILL;
		meaning->keeps = at == 2;
		meaning->views[1] = meaning->views[2];
		meaning->views[2] = mask;
	}
}

/* All of one type: nothing is rounded on the way that would not show. A mask may be a mask. */
static bool of_one_type(const struct meaning *meaning)
{
	const int first = meaning->role == ROLE_WHERE ? 2 : 1;

	for (int n = first; n < meaning->view_count; n++)
		if (meaning->views[n].dtype != meaning->views[0].dtype)
			return false;
	return meaning->views[0].dtype >= 0 && meaning->views[0].dtype <= ATTN_F32;
}

bool rule_read_cupy(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const struct cupy_function *what = NULL;
	const char *at = r->function->name + strlen(NAME);
	struct type type;
	double scalar = 0;
	int number = -1; /* the argument that is one */
	bool known = true;

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		if (!strncmp(r->function->name, NAME, strlen(NAME)) &&
		    !strncmp(at, functions[i].name, strlen(functions[i].name)))
			what = &functions[i];
	if (!what || r->function->param_count != (unsigned)what->arguments + 2 ||
	    !set_shape(r, (unsigned)what->arguments + 1))
		return false;
	at += strlen(what->name);
	meaning->role = what->role;
	meaning->view_count = 1;
	for (int i = 0; i < what->arguments; i++) {
		const bool by_value = rule_size_of(r, (unsigned)i) <= 8;

		known &= !by_value || !strncmp(at, "float_", 6);
		type = named_type(&at);
		if (by_value && number >= 0)
			return false;
		if (by_value)
			number = i;
		else if (!set_array(r, meaning->view_count++, (unsigned)i, type))
			return false;
	}
	type = named_type(&at);
	if (*at || !set_array(r, 0, (unsigned)what->arguments, type))
		return false;
	if (number >= 0) {
		known &= rule_size_of(r, (unsigned)number) == (unsigned)type.bytes;
		scalar = known ? rule_value_at(r, rule_offset(r, (unsigned)number), type.dtype) : 0;
	}
	if (what->role != ROLE_COPY && (!known || !of_one_type(meaning)))
		meaning->role = ROLE_OPAQUE;
	if (number >= 0)
		mean_number(meaning, number, scalar);
	if (meaning->role == ROLE_ADD_SCALED)
		meaning->scalar = -1;
	return rule_finish_views(r);
}

/* (number, CArray, CIndexer), the number of the array's type, of which the name says nothing. */
bool rule_read_cupy_fill(struct reading *r)
{
	const unsigned bytes = rule_size_of(r, 0);

	if (strcmp(r->function->name, "cupy_fill") != 0 || r->function->param_count != 3 ||
	    bytes > 8 || (bytes & (bytes - 1)) || !set_shape(r, 2))
		return false;
	r->meaning->view_count = 1;
	return set_array(r, 0, 1, (struct type){-1, (int)bytes}) && rule_finish_views(r);
}

/* (int columns, int diagonal, CArray, CIndexer): the array, of any type, lies without a gap. */
bool rule_read_cupy_tri(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const unsigned strides = rule_offset(r, 2) + 24;

	if (strcmp(r->function->name, "cupy_tri") != 0 || r->function->param_count != 4 ||
	    rule_size_of(r, 0) != 4 || rule_size_of(r, 1) != 4 || !set_shape(r, 3) ||
	    meaning->dims != 1)
		return false;
	meaning->view_count = 1;
	return rule_u64_at(r, strides) <= 8 &&
	       set_array(r, 0, 2, (struct type){-1, (int)rule_u64_at(r, strides)}) &&
	       rule_finish_views(r);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The type of all that a reduction reads, makes and counts in, by what its name has around
 * "Policy500E": iterators, counts of rows and columns, what is done, what it begins with. */
static struct type row_type(const struct reading *r)
{
	static const struct {
		const char *begins, *pointer, *ends;
		const struct type *type;
	} names[] = {
		{"10policy_hubI6__halfi", "E9Policy500EPS6_S", "_S6_S6_EEvT0_T1_T2_iT3_T4_",
		 &type_half},
		{"10policy_hubIfi", "E9Policy500EPfS", "_ffEEvT0_T1_T2_iT3_T4_", &type_float},
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *begins = rule_find(r, names[i].begins);
		const char *pointer = begins ? strstr(begins, names[i].pointer) : NULL;
		const char *behind = pointer ? pointer + strlen(names[i].pointer) : "";

		/* the output's is the input's once more: S?_, a count i, and the operation S?_ */
		if (strspn(behind, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 1 &&
		    !strncmp(behind + 1, "_iS", 3) &&
		    strspn(behind + 4, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 1 &&
		    !strcmp(behind + 5, names[i].ends))
			return *names[i].type;
	}
	return type_unknown;
}

bool rule_read_cub_rows(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const struct type type = row_type(r);
	const unsigned width = (unsigned)type.bytes;
	const bool most = rule_has(r, "i10select_maxI") || rule_has(r, "iN10select_maxI") ||
			  rule_has(r, "i16nan_handling_maxI");
	const bool sum = rule_has(r, "iN4cuda3std3__44plusIvE");
	int64_t columns, rows, bytes;
	double first;

	if (!width || !rule_takes(r, 8, 8, 4, 4, 1, width))
		return false;
	columns = PARAM(2);
	rows = PARAM(3);
	bytes = rule_product(rows, columns, width);
	if (!rule_reads(r, 0, bytes) || !rule_writes(r, 1, rule_product(rows, width)))
		return false;
	first = rule_value_at(r, rule_offset(r, 5), type.dtype);
	if (!(most && first <= -65504) && !(sum && first == 0))
		return true;
	meaning->role = most ? ROLE_ROW_MAX : ROLE_ROW_SUM;
	meaning->view_count = 2;
	rule_set_view(r, 0, rule_offset(r, 1), type);
	rule_set_view(r, 1, rule_offset(r, 0), type);
	rule_one_dimension(r, rows * columns);
	meaning->softmax_cols = columns;
	meaning->softmax_apart = 1;
	return true;
}
