/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of rules.c: what a reader of one family's parameter block gets and uses. A reader
 * fills the accesses (when a list is wanted) and the meaning, and says false as soon as the block
 * is not what it expects: an unknown kernel is safe, a misread one is not.
 */
#ifndef FASHIM_RULE_READER_H
#define FASHIM_RULE_READER_H

#include "kernels/attention.h"
#include "rules.h"

struct reading {
	const struct function *function;
	const struct op_launch *launch;
	const unsigned char *params;
	struct access_list *list; /* NULL: only the meaning is wanted */
	struct meaning *meaning;
};

struct kernel_rule {
	bool (*read)(struct reading *reading);
};

extern const struct type type_half, type_bfloat, type_float, type_bool, type_unknown;

/* at::native's OffsetCalculator holds so many dimensions, whether in use or not. */
#define CALCULATOR_DIMS 25

/* The readers, one for each name in kernel_rules.def's first list. */
bool rule_read_vectorized(struct reading *r);
bool rule_read_unrolled(struct reading *r);
bool rule_read_strided(struct reading *r);
bool rule_read_strided_cast(struct reading *r);
bool rule_read_softmax_warp(struct reading *r);
bool rule_read_softmax_block(struct reading *r);
bool rule_read_softmax_spatial(struct reading *r);
bool rule_read_softmax_backward(struct reading *r);
bool rule_read_layer_norm(struct reading *r);
bool rule_read_reduce(struct reading *r);
bool rule_read_cat(struct reading *r);
bool rule_read_gather(struct reading *r);
bool rule_read_index_select(struct reading *r);
bool rule_read_index(struct reading *r);
bool rule_read_distribution(struct reading *r);
bool rule_read_with_index(struct reading *r);
bool rule_read_dropout(struct reading *r);
bool rule_read_cupy_copy(struct reading *r);

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

/* Words of the parameter block at a byte offset, and where parameter i lies (size 0: there is
 * none). */
uint64_t rule_u64_at(const struct reading *r, unsigned at);
uint32_t rule_u32_at(const struct reading *r, unsigned at);
float rule_f32_at(const struct reading *r, unsigned at);
unsigned rule_offset(const struct reading *r, unsigned param);
unsigned rule_size_of(const struct reading *r, unsigned param);
const char *rule_find(const struct reading *r, const char *needle); /* a literal; NULL: not there */
bool rule_has(const struct reading *r, const char *needle);
double rule_value_at(const struct reading *r, unsigned at, int dtype);
struct type rule_type_of_letter(char letter);
struct type rule_type_of_scalar_type(unsigned code);
struct type rule_functor_type(const struct reading *r);
struct type rule_operand_type(const struct reading *r, int n);
struct functor rule_functor(const struct reading *r);
void rule_touch(struct reading *r, unsigned at, enum access_mode mode, uint64_t may, uint64_t sure,
		bool bounded);
void rule_reads(struct reading *r, unsigned at, uint64_t bytes);
void rule_writes(struct reading *r, unsigned at, uint64_t bytes);
struct type rule_template_type(const char **at, struct type repeated);
bool rule_finish_views(struct reading *r);
void rule_set_view(struct reading *r, int n, unsigned where, struct type type);
void rule_one_dimension(struct reading *r, int64_t elements);

#endif
