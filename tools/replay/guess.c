/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of kernels nobody has a rule for still says something: which constants it was given,
 * which memory it was pointed to. The shim asks such kernels what they compute (ask/identify.h); a
 * trace has none that could be asked.
 */
#include "tools/replay/guess.h"

#include <math.h>
#include <string.h>

#define MAX_SCALES 6

static int dtype_of_scores(const struct chain *chain)
{
	return dtype_of_cuda(chain->steps[0].gemm.ctype);
}

/* Any word of an unknown kernel's parameters that reads as a plausible fp32 factor may be the
 * scale. */
static int guess_scales(float scales[MAX_SCALES], const struct attn_args *args,
			const struct chain *chain)
{
	int count = 2;

	scales[0] = 1;
	scales[1] = 1 / sqrtf((float)args->D);
	for (int i = 1; i < chain->step_count; i++) {
		const struct step *step = &chain->steps[i];

		if (step->meaning.role != ROLE_UNKNOWN)
			continue;
		for (unsigned p = 0; p < step->function->param_count; p++)
			for (unsigned at = 0; at + 4 <= step->function->param_size[p]; at += 4) {
				bool known = false;
				float word;

				memcpy(&word, step->params + step->function->param_offset[p] + at,
				       4);
				if (!isfinite(word) || fabsf(word) < 1e-4f || fabsf(word) > 1e3f)
					continue;
				for (int k = 0; k < count; k++)
					known = known || scales[k] == word;
				if (!known && count < MAX_SCALES)
					scales[count++] = word;
			}
	}
	return count;
}

/* Forms an additive bias may have: one value a score, one a pair of query and key, one a key. */
static void set_form(struct attn_tensor *bias, const struct attn_args *args, int form)
{
	const int64_t head = form == 0 ? (int64_t)args->Sq * args->Sk : 0;

	bias->stride[0] = head * args->H;
	bias->stride[1] = head;
	bias->stride[2] = form < 2 ? args->Sk : 0;
	bias->stride[3] = 1;
}

static int guess_biases(struct attn_tensor *forms, int max, const struct attn_args *args,
			uint64_t pointer, uint64_t room)
{
	const int64_t Sq = args->Sq, Sk = args->Sk, Z = (int64_t)args->B * args->H;
	const int64_t elements[3] = {Z * Sq * Sk, Sq * Sk, Sk};
	const int dtypes[2] = {args->q.dtype, ATTN_F32};
	int count = 0;

	for (int d = 0; d < (args->q.dtype == ATTN_F32 ? 1 : 2); d++)
		for (int f = 0; f < 3 && count < max; f++) {
			if ((uint64_t)elements[f] * (uint64_t)attn_dtype_size(dtypes[d]) > room ||
			    (f == 1 && Z == 1) || (f == 2 && Sq == 1))
				continue;
			forms[count] = (struct attn_tensor){.base = pointer, .dtype = dtypes[d]};
			set_form(&forms[count++], args, f);
		}
	return count;
}

int guess_specs(struct attn_spec *guess, int max, const struct attn_args *args,
		const struct chain *chain)
{
	struct attn_tensor biases[7] = {{0}};
	float scales[MAX_SCALES];
	const int scale_count = guess_scales(scales, args, chain);
	const int place = identity_bias_place(chain);
	int count = 0, bias_count = 1, outside;
	uint64_t room;
	const uint64_t pointer = identity_pointer(chain, &outside, &room);

	if (pointer)
		bias_count += guess_biases(biases + 1, 6, args, pointer, room);
	for (int b = 0; b < bias_count; b++)
		/* A pointer must not be explained away: with one, a causal pattern is the
		 * pointer's. */
		for (int causal = 0; causal < (pointer ? 1 : 3); causal++)
			for (int i = 0; i < scale_count && count < max; i++) {
				struct attn_spec *spec = &guess[count];

				if (causal == 2 && args->Sq == args->Sk)
					continue;
				*spec = args->spec;
				spec->scale *= scales[i];
				spec->window_right = causal ? 0 : ATTN_NO_WINDOW;
				spec->window_shift = causal == 2 ? args->Sk - args->Sq : 0;
				spec->bias[place] = biases[b];
				spec->bias_scale[place] = 1;
				for (int k = 0; k < place; k++)
					spec->bias_scale[k] *= scales[i];
				if (b)
					spec->round_x = dtype_of_scores(chain);
				count++;
			}
	return count;
}

void guess_adopt(struct identity *identity, const struct attn_spec *guess, uint64_t pointer)
{
	*identity = (struct identity){.spec = *guess, .pointers = pointer != 0};
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (pointer && guess->bias[n].base == pointer)
			identity->spec.bias[n].base = 1;
}
