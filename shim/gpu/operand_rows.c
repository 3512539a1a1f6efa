/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads that share an operand share its rows.
 */
#include "shim/gpu/operand_rows.h"

#include "kernels/launch.h"

#define FEWEST	64  /* queries: with fewer, V is read about once anyway */
#define MANY	256 /* with fewer, the copies cost what they save where the kernel stays */
#define ALIGNED 256
#define PIECE	8 /* elements in 16 bytes */

/* What an operand consists of. */
struct matrices {
	int64_t batches, heads, rows, columns;
};

static struct matrices matrices_of(const struct attn_args *args, const struct attn_tensor *t)
{
	return (struct matrices){t->stride[0] ? args->B : 1, t->stride[1] ? args->H : 1,
				 t == &args->q ? args->Sq : args->Sk,
				 t == &args->v ? args->Dv : args->D};
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

/* Does it start on 16 bytes with each row, or each column? */
static bool in_pieces(const struct attn_args *args, const struct attn_tensor *t)
{
	const struct matrices m = matrices_of(args, t);

	return attn_in_map(args, t, 0, (int)m.rows) || attn_in_map(args, t, 1, (int)m.columns);
}

static bool is_scattered(const struct attn_args *args, const struct attn_tensor *t)
{
	return is_narrow(t) && args->Sq >= FEWEST && matrices_of(args, t).columns % PIECE == 0 &&
	       t->stride[2] > 0 && t->stride[3] > 0 && !in_pieces(args, t);
}

bool operand_rows_scattered(const struct attn_args *args)
{
	return args->Sq >= MANY && (is_scattered(args, &args->q) || is_scattered(args, &args->k) ||
				    is_scattered(args, &args->v));
}

/* Is the operand laid into rows? */
static bool is_laid(const struct attn_args *args, const struct attn_tensor *t,
		    enum operand_rows which)
{
	if (t == &args->v && operand_rows_cast(args))
		return true;
	if (which == ROWS_ALL && is_scattered(args, t))
		return true;
	return which >= (t == &args->k ? ROWS_ALL : ROWS_QUERY_VALUE) && lies_across(args, t);
}

bool operand_rows_help(const struct attn_args *args, enum operand_rows which)
{
	return which != ROWS_NONE &&
	       (is_laid(args, &args->q, which) || is_laid(args, &args->k, which) ||
		is_laid(args, &args->v, which));
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* 0: it is not. */
static uint64_t bytes_of(const struct attn_args *args, const struct attn_tensor *t,
			 enum operand_rows which)
{
	const struct matrices m = matrices_of(args, t);

	return is_laid(args, t, which)
		       ? aligned((uint64_t)(m.batches * m.heads * m.rows * m.columns) *
				 (uint64_t)attn_dtype_size(args->q.dtype))
		       : 0;
}

uint64_t operand_rows_bytes(const struct attn_args *args, enum operand_rows which)
{
	return bytes_of(args, &args->q, which) + bytes_of(args, &args->k, which) +
	       bytes_of(args, &args->v, which);
}

static void lay(struct attn_tensor *laid, struct relayout *copy, const struct attn_args *args,
		const struct attn_tensor *t, uint64_t at)
{
	const struct matrices m = matrices_of(args, t);
	struct attn_tensor from = *t;

	from.dtype = args->q.dtype;
	relayout_gather(copy, &from, at, 4, (int64_t[]){m.columns, m.rows, m.heads, m.batches},
			(int64_t[]){t->stride[3], t->stride[2], t->stride[1], t->stride[0]});
	copy->source = t->dtype;
	laid->base = at;
	laid->dtype = args->q.dtype;
	laid->stride[0] = t->stride[0] ? m.rows * m.columns * m.heads : 0;
	laid->stride[1] = t->stride[1] ? m.rows * m.columns : 0;
	laid->stride[2] = m.columns;
	laid->stride[3] = 1;
}

int operand_rows_lay(struct attn_args *laid, struct relayout copies[OPERAND_ROWS],
		     const struct attn_args *args, enum operand_rows which, uint64_t at)
{
	const struct attn_tensor *const from[OPERAND_ROWS] = {&args->q, &args->k, &args->v};
	struct attn_tensor *const to[OPERAND_ROWS] = {&laid->q, &laid->k, &laid->v};
	int count = 0;

	*laid = *args;
	for (int n = 0; n < OPERAND_ROWS; n++) {
		if (!is_laid(args, from[n], which))
			continue;
		lay(to[n], &copies[count++], args, from[n], at);
		at += bytes_of(args, from[n], which);
	}
	return count;
}
