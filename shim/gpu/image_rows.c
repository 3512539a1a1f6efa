/* SPDX-License-Identifier: Apache-2.0
 *
 * A bias's numbers for one query: as many as the image has rows, or columns.
 */
#include "shim/gpu/image_rows.h"

#define FEWEST	64 /* queries, and keys: with fewer, copies cost what they save */
#define ALIGNED 256

/* Is row i of head h row h * Sq + i? */
static bool is_one(const struct attn_args *args, const struct attn_tensor *t)
{
	return !t->by_array && t->stride[1] == args->Sq * t->stride[2];
}

/* Does the bias have a number for several keys? */
static bool is_of_image(const struct attn_tensor *bias)
{
	return bias->base && bias->columns && !bias->by_array;
}

/* May all heads be rows of one? */
static bool folds(const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;

	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (s->bias[n].base && !is_of_image(&s->bias[n]) && !is_one(args, &s->bias[n]))
			return false;
	return args->H > 1 && !args->k.by_array && !args->v.by_array && !args->k.stride[1] &&
	       !args->v.stride[1] && is_one(args, &args->q) && is_one(args, &args->o) &&
	       !s->mask.base && !s->lengths.base && !s->sinks.base && !attn_scales_each(s) &&
	       !(s->scales.base && s->scales.stride[1]) && s->window_left == ATTN_NO_WINDOW &&
	       s->window_right == ATTN_NO_WINDOW;
}

bool image_rows_help(const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;

	return (is_of_image(&s->bias[0]) || is_of_image(&s->bias[1])) && args->Sk >= FEWEST &&
	       (args->Sq >= FEWEST || (args->Sq * args->H >= FEWEST && folds(args)));
}

/* How many different `places` there are for `count` numbers (attn_place()). */
static int64_t places_of(int64_t count, int32_t places)
{
	if (!places)
		return count;
	return attn_place((int32_t)(places < 0 || count < places ? count : places) - 1, places) + 1;
}

/* What a bias consists of: rows of `within`, of each of `heads`. */
struct numbers {
	int64_t batches, heads, numbers, within, rows;
};

static struct numbers numbers_of(const struct attn_args *args, const struct attn_tensor *bias)
{
	const int64_t heads = bias->stride[1] ? args->H : 1;
	const bool folded = folds(args);

	return (struct numbers){bias->stride[0] ? places_of(args->B, bias->batches) : 1,
				folded ? 1 : heads, places_of(args->Sk, bias->columns),
				folded ? args->H : 1, args->Sq};
}

static uint64_t bytes_of(const struct attn_args *args, const struct attn_tensor *bias)
{
	const struct numbers n = numbers_of(args, bias);
	const int64_t count = n.batches * n.heads * n.numbers * n.within * n.rows;

	return ((uint64_t)(count * attn_dtype_size(bias->dtype)) + ALIGNED - 1) / ALIGNED * ALIGNED;
}

uint64_t image_rows_bytes(const struct attn_args *args)
{
	uint64_t bytes = 0;

	for (int n = 0; n < ATTN_MAX_BIAS && image_rows_help(args); n++)
		if (is_of_image(&args->spec.bias[n]))
			bytes += bytes_of(args, &args->spec.bias[n]);
	return bytes;
}

static void lay(struct attn_tensor *laid, struct relayout *copy, const struct attn_args *args,
		const struct attn_tensor *bias, uint64_t at)
{
	const struct numbers n = numbers_of(args, bias);
	const int64_t rows = n.rows * n.within;

	relayout_gather(copy, bias, at, 5,
			(int64_t[]){n.rows, n.within, n.numbers, n.heads, n.batches},
			(int64_t[]){bias->stride[2], bias->stride[1], bias->stride[3],
				    bias->stride[1], bias->stride[0]});
	laid->base = at;
	laid->stride[0] = bias->stride[0] ? n.heads * n.numbers * rows : 0;
	laid->stride[1] = n.heads > 1 ? n.numbers * rows : 0;
	laid->stride[2] = 1;
	laid->stride[3] = rows;
}

int image_rows_lay(struct attn_args *laid, struct relayout copies[ATTN_MAX_BIAS],
		   const struct attn_args *args, uint64_t at)
{
	int count = 0;

	*laid = *args;
	if (!image_rows_help(args))
		return 0;
	for (int n = 0; n < ATTN_MAX_BIAS; n++) {
		const struct attn_tensor *bias = &args->spec.bias[n];

		if (!is_of_image(bias))
			continue;
		lay(&laid->spec.bias[n], &copies[count++], args, bias, at);
		at += bytes_of(args, bias);
	}
	if (folds(args)) {
		laid->Sq = args->H * args->Sq;
		laid->H = 1;
	}
	return count;
}
