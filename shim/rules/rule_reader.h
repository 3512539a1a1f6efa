/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of rules.c: what a reader of one family's parameter block gets and uses. A reader
 * fills the accesses (when a list is wanted) and the meaning, and says false as soon as the block
 * is not what it expects: an unknown kernel is safe, a misread one is not.
 */
#ifndef FASHIM_RULE_READER_H
#define FASHIM_RULE_READER_H

#include <string.h>

#include "kernels/attention.h"
#include "shim/rules/rules.h"

struct reading {
	const struct function *function;
	const struct op_launch *launch;
	const unsigned char *params;
	const char *behind;	  /* of the kernel's name: what comes behind what it is known by */
	struct type first;	  /* that was taken from there */
	struct access_list *list; /* NULL: only the meaning is wanted */
	struct meaning *meaning;  /* ROLE_OPAQUE until the reader says another */
};

struct kernel_rule {
	bool (*read)(struct reading *reading);
};

extern const struct type type_half, type_bfloat, type_float, type_bool, type_complex,
	type_wide_complex, type_unknown;

/* at::native's OffsetCalculator holds so many dimensions, whether in use or not. */
#define CALCULATOR_DIMS 25

/* The readers, one for each name in kernel_rules.def's first list. */
#define LAYOUT(reader, needle) bool rule_read_##reader(struct reading *r);
#include "shim/rules/kernel_rules.def"
#undef LAYOUT

/* Versions of PyTorch give one name to different kernels: the rule, `named` or another, of the one
 * that this is (rules_versions.c). NULL: it cannot be told. */
const struct kernel_rule *rule_of_version(const struct function *function,
					  const struct kernel_rule *named);

/* A reduction of `columns` numbers each, to `rows` of them; where its calculators and its pointers
 * stand. */
struct reduction {
	struct type from, to;
	int64_t columns, rows;
	unsigned inner, outer, in, out;
};

/* The meaning of a reduction, and of a concatenation with room for `n` inputs of `rank` dimensions
 * (rules_rows.c), where it is one of the score algebra. */
void rule_mean_reduction(struct reading *r, const struct reduction *what);
void rule_mean_cat(struct reading *r, unsigned n, unsigned rank, unsigned width);

/* Longs in a row, as PyTorch makes the addresses of a batch of matrices, are put into the shadow.
 * false: the launch is another. */
bool rule_put_range(const struct reading *r);

/* Words of the parameter block at a byte offset, and where parameter i lies (size 0: there is
 * none). */
static inline uint64_t rule_u64_at(const struct reading *r, unsigned at)
{
	uint64_t word;

	memcpy(&word, r->params + at, 8);
	return word;
}

static inline uint32_t rule_u32_at(const struct reading *r, unsigned at)
{
	uint32_t word;

	memcpy(&word, r->params + at, 4);
	return word;
}

static inline float rule_f32_at(const struct reading *r, unsigned at)
{
	float word;

	memcpy(&word, r->params + at, 4);
	return word;
}

static inline unsigned rule_offset(const struct reading *r, unsigned param)
{
	return r->function->param_offset[param];
}

static inline unsigned rule_size_of(const struct reading *r, unsigned param)
{
	return param < r->function->param_count ? r->function->param_size[param] : 0;
}

const char *rule_find(const struct reading *r, const char *needle); /* a literal; NULL: not there */
bool rule_has(const struct reading *r, const char *needle);
double rule_value_at(const struct reading *r, unsigned at, int dtype);
struct type rule_type_of_letter(char letter);
struct type rule_type_of_scalar_type(unsigned code);
struct type rule_functor_type(const struct reading *r);
void rule_functor_operands(const struct reading *r, struct functor *functor);
struct functor rule_functor(const struct reading *r);

/* One template argument at *at: Half, BFloat16, CUDA's own of these, a letter, or a repetition (S_,
 * S4_ …) of the first. */
struct type rule_template_type(const char **at, struct type repeated);
/* The same at r->behind, which moves on; and its bytes, 0 where it is not known. */
struct type rule_next_type(struct reading *r);
void rule_skip_numbers(struct reading *r); /* Li8E and the like, there */
int64_t rule_width(struct reading *r);

/* Has the kernel parameters of these sizes, in bytes? */
#define rule_takes(r, ...)                                                                         \
	rule_takes_sizes(r, sizeof((const unsigned[]){__VA_ARGS__}) / sizeof(unsigned),            \
			 (const unsigned[]){__VA_ARGS__})
bool rule_takes_sizes(const struct reading *r, unsigned count, const unsigned *sizes);

/* Parameter i, a signed whole number of 4 or 8 bytes; -1: it has another size. */
static inline int64_t rule_number(const struct reading *r, unsigned param)
{
	switch (rule_size_of(r, param)) {
	case 4:
		return (int32_t)rule_u32_at(r, rule_offset(r, param));
	case 8:
		return (int64_t)rule_u64_at(r, rule_offset(r, param));
	default:
		return -1;
	}
}
#define PARAM(i) rule_number(r, i)

#define RULE_ROOM (1ll << 40)

/* Products of sizes, of which none may be below 1; 0: one is, or so much memory there is not. */
static inline int64_t rule_times(int64_t a, int64_t b)
{
	int64_t product;

	return a >= 1 && b >= 1 && !__builtin_mul_overflow(a, b, &product) && product <= RULE_ROOM
		       ? product
		       : 0;
}
#define rule_product(...)                                                                          \
	rule_product_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                  \
			(const int64_t[]){__VA_ARGS__})
int64_t rule_product_of(unsigned count, const int64_t *factors);

/* Do elements, `step` apart at the least, lie without a gap? At most 25 dimensions. */
bool rule_dense(unsigned dims, const int64_t *size, const int64_t *stride, int64_t step);

/* Elements from the first to beyond the last, of sizes and strides; at most 25 dimensions. 0: they
 * are none. */
int64_t rule_reach(unsigned dims, const int64_t *size, const int64_t *stride);

/* TensorInfo {data, sizes[25], strides[25], dims}: elements from data to beyond the last, where
 * dimension `dim` has `size` in place of what it says (-1: none). 0: it is not one. *dense: they
 * lie without a gap. */
int64_t rule_tensor_elements(const struct reading *r, unsigned param, int dim, int64_t size,
			     bool *dense);
/* A size of it; 0: there is none. */
int64_t rule_tensor_size(const struct reading *r, unsigned param, int dim);

/* PackedTensorAccessor {data, sizes[dims], strides[dims]} of words of `word` bytes, likewise. */
int64_t rule_accessor_elements(const struct reading *r, unsigned param, unsigned dims,
			       unsigned word, bool *dense);
int64_t rule_accessor_size(const struct reading *r, unsigned param, unsigned dim, unsigned word);

/* OffsetCalculator of `operands` at byte `at`, for `elements`: bytes from the first element of
 * operand n to the beginning of the last. -1: it is not one. *dense: elements of `width` bytes lie
 * without a gap. */
int64_t rule_calculated(const struct reading *r, unsigned at, unsigned operands, unsigned n,
			int64_t elements, int64_t width, bool *dense);

/* Bytes of the type that *at begins with, a number's or an indexing kernel's OpaqueType; *at moves
 * behind it. 0: none. */
int64_t rule_opaque_bytes(const char **at);

/* What a pointer leads to: the one at a byte offset, or that of a parameter. All say whether there
 * are bytes. Sure to be written only where `dense`; `changes` reads and writes; `follows` may go to
 * the end of the allocation. A pointer of 0 leads nowhere. */
void rule_touch(struct reading *r, unsigned at, enum access_mode mode, uint64_t may, uint64_t sure,
		bool bounded);
bool rule_reads_at(struct reading *r, unsigned at, int64_t bytes);
bool rule_writes_at(struct reading *r, unsigned at, int64_t bytes, bool dense);
bool rule_changes_at(struct reading *r, unsigned at, int64_t bytes);
bool rule_follows_at(struct reading *r, unsigned at, enum access_mode mode);
#define rule_reads(r, param, bytes)   rule_reads_at(r, rule_offset(r, param), bytes)
#define rule_writes(r, param, bytes)  rule_writes_at(r, rule_offset(r, param), bytes, true)
#define rule_changes(r, param, bytes) rule_changes_at(r, rule_offset(r, param), bytes)
#define rule_follows(r, param, mode)  rule_follows_at(r, rule_offset(r, param), mode)
#define rule_writes_some(r, param, bytes, dense)                                                   \
	rule_writes_at(r, rule_offset(r, param), bytes, dense)
/* So may each word of `bytes` at byte `at` that is a device address: of a part that is not known.
 */
void rule_follows_all(struct reading *r, unsigned at, unsigned bytes);
bool rule_finish_views(struct reading *r);
void rule_set_view(struct reading *r, int n, unsigned where, struct type type);
void rule_one_dimension(struct reading *r, int64_t elements);

#endif
