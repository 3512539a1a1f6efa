/* SPDX-License-Identifier: Apache-2.0
 *
 * cuFFT's plans (fft_plan.h).
 */
#include "shim/operands/fft_plan.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/real/library_types.h"

#define BUCKETS 256

static struct fft_plan *plans[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool fft_layout_of_type(struct fft_layout *layout, int type)
{
	static const struct {
		int type;
		cudaDataType input, output;
	} types[] = {
		{FFT_C2C, CUDA_C_32F, CUDA_C_32F}, {FFT_R2C, CUDA_R_32F, CUDA_C_32F},
		{FFT_C2R, CUDA_C_32F, CUDA_R_32F}, {FFT_Z2Z, CUDA_C_64F, CUDA_C_64F},
		{FFT_D2Z, CUDA_R_64F, CUDA_C_64F}, {FFT_Z2D, CUDA_C_64F, CUDA_R_64F},
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (types[i].type != type)
			continue;
		layout->input = (struct fft_side){.type = types[i].input, .basic = true};
		layout->output = (struct fft_side){.type = types[i].output, .basic = true};
		return true;
	}
	return false;
}

static struct fft_plan **place(const struct library *library, int number)
{
	struct fft_plan **at = &plans[(unsigned)number % BUCKETS];

	while (*at && ((*at)->library != library || (*at)->number != number))
		at = &(*at)->next;
	return at;
}

struct fft_plan *fft_plan_get(const struct library *library, int number)
{
	struct fft_plan **at = place(library, number);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at) {
			(*at)->library = library;
			(*at)->number = number;
		}
	}
	return *at;
}

void fft_plan_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fft_plan_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void fft_plan_forget(const struct library *library, int number)
{
	struct fft_plan **at, *plan;

	pthread_mutex_lock(&lock);
	at = place(library, number);
	plan = *at;
	if (plan)
		*at = plan->next;
	pthread_mutex_unlock(&lock);
	free(plan);
}

static bool is_real(cudaDataType type)
{
	return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F ||
	       type == CUDA_R_64F;
}

/* A side as a tensor of the batch and the transform's dimensions. A complex side that faces a real
 * one has the first half of the last dimension; a packed real one has rows of whole such halves
 * where the two lie in one place. */
static bool side_tensor(const struct fft_layout *layout, const struct fft_side *side, bool half,
			bool in_place, struct tensor *tensor)
{
	const int rank = layout->rank;
	int64_t next = side->basic ? 1 : side->stride, last;

	*tensor = (struct tensor){.rank = rank + 1, .element = operands_type_bytes(side->type)};
	tensor->dim[0] = layout->batch;
	for (int i = rank; i > 0; i--) {
		last = i == rank ? layout->size[i - 1] / 2 + 1 : 0;
		tensor->dim[i] = last && half ? last : layout->size[i - 1];
		tensor->stride[i] = next;
		if (__builtin_mul_overflow(next,
					   !side->basic ? side->embed[i - 1]
					   : last && in_place && is_real(side->type)
						   ? 2 * last
						   : tensor->dim[i],
					   &next))
			return false;
	}
	tensor->stride[0] = side->basic ? next : side->distance;
	return true;
}

void fft_plan_operands(const struct library *library, int number, const struct fft_layout *types,
		       const void *input, const void *output, struct operands *operands,
		       CUstream *stream)
{
	const bool in_place = input == output;
	struct tensor from, to;
	struct fft_plan *plan;
	bool to_real, from_real;

	pthread_mutex_lock(&lock);
	plan = *place(library, number);
	if (!plan || !plan->known || plan->odd ||
	    (types && (types->input.type != plan->layout.input.type ||
		       types->output.type != plan->layout.output.type))) {
		operands->unknown = true;
		pthread_mutex_unlock(&lock);
		return;
	}
	from_real = is_real(plan->layout.input.type);
	to_real = is_real(plan->layout.output.type);
	if (!side_tensor(&plan->layout, &plan->layout.input, to_real && !from_real,
			 in_place && from_real, &from) ||
	    !side_tensor(&plan->layout, &plan->layout.output, from_real && !to_real,
			 in_place && to_real, &to)) {
		operands->unknown = true;
	} else {
		/* A transform to real numbers may use its input as scratch. */
		operands_add_tensor(operands, input, &from,
				    to_real ? OPERAND_UPDATED : OPERAND_READ);
		operands_add_tensor(operands, output, &to,
				    in_place ? OPERAND_UPDATED : OPERAND_WHOLE);
		operands_add(operands, plan->work, plan->work_bytes, OPERAND_WRITTEN);
	}
	*stream = plan->stream;
	pthread_mutex_unlock(&lock);
}
