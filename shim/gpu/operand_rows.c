/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads that share an operand share its rows.
 */
#include "shim/gpu/operand_rows.h"

#include <string.h>

#define FEWEST	64 /* queries: with fewer, V is read about once anyway */
#define ALIGNED 256

/* What an operand, Q or V, consists of. */
struct matrices {
	int64_t batches, heads, rows, columns;
};

static struct matrices matrices_of(const struct attn_args *args, const struct attn_tensor *t)
{
	const bool value = t == &args->v;

	return (struct matrices){t->stride[0] ? args->B : 1, t->stride[1] ? args->H : 1,
				 value ? args->Sk : args->Sq, value ? args->Dv : args->D};
}

static bool is_narrow(const struct attn_tensor *t)
{
	return (t->dtype == ATTN_F16 || t->dtype == ATTN_BF16) && !t->by_array &&
	       t->stride[0] >= 0 && t->stride[1] >= 0;
}

bool operand_rows_cast(const struct attn_args *args)
{
	return args->q.dtype == ATTN_F32 && args->k.dtype == ATTN_F32 && is_narrow(&args->v);
}

static bool lies_across(const struct attn_args *args, const struct attn_tensor *t)
{
	const struct matrices m = matrices_of(args, t);

	return is_narrow(t) && args->Sq >= FEWEST && m.rows > 1 && m.columns > 1 &&
	       t->stride[2] == 1 && t->stride[3] > 1;
}

bool operand_rows_help(const struct attn_args *args)
{
	return lies_across(args, &args->q) || lies_across(args, &args->v);
}

/* Is the operand laid into rows? */
static bool is_laid(const struct attn_args *args, const struct attn_tensor *t)
{
	return (t == &args->v && operand_rows_cast(args)) || lies_across(args, t);
}

/* 0: it is not. */
static uint64_t bytes_of(const struct attn_args *args, const struct attn_tensor *t)
{
	const struct matrices m = matrices_of(args, t);

	return is_laid(args, t) ? (uint64_t)(m.batches * m.heads * m.rows * m.columns) *
					  (uint64_t)attn_dtype_size(args->q.dtype)
				: 0;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

uint64_t operand_rows_bytes(const struct attn_args *args)
{
	return aligned(bytes_of(args, &args->q)) + aligned(bytes_of(args, &args->v));
}

static void add(struct relayout *copy, int64_t size, int64_t *to, int64_t from)
{
	if (size == 1)
		return;
	copy->dim[copy->dims].size = size;
	copy->dim[copy->dims].to = *to;
	copy->dim[copy->dims++].from = from;
	*to *= size;
}

static void lay(struct attn_tensor *laid, struct relayout *copy, const struct attn_args *args,
		const struct attn_tensor *t, uint64_t at)
{
	const struct matrices m = matrices_of(args, t);
	int64_t to = 1;

	memset(copy, 0, sizeof(*copy));
	copy->dtype = args->q.dtype;
	copy->source = t->dtype;
	copy->in_begin = t->base;
	copy->out_begin = at;
	copy->out_end = at + bytes_of(args, t);
	add(copy, m.columns, &to, t->stride[3]);
	add(copy, m.rows, &to, t->stride[2]);
	add(copy, m.heads, &to, t->stride[1]);
	add(copy, m.batches, &to, t->stride[0]);
	laid->base = at;
	laid->dtype = args->q.dtype;
	laid->stride[0] = t->stride[0] ? m.rows * m.columns * m.heads : 0;
	laid->stride[1] = t->stride[1] ? m.rows * m.columns : 0;
	laid->stride[2] = m.columns;
	laid->stride[3] = 1;
}

int operand_rows_lay(struct attn_args *laid, struct relayout copies[OPERAND_ROWS],
		     const struct attn_args *args, uint64_t at)
{
	int count = 0;

	*laid = *args;
	if (is_laid(args, &args->q))
		lay(&laid->q, &copies[count++], args, &args->q, at);
	if (is_laid(args, &args->v))
		lay(&laid->v, &copies[count++], args, &args->v,
		    at + aligned(bytes_of(args, &args->q)));
	return count;
}
