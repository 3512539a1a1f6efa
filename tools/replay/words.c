/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains and reasons as a person reads them.
 */
#include "tools/replay/words.h"

#include <stdarg.h>
#include <stdio.h>

#include "shim/log/log_counters.h"
#include "shim/site/site.h"

static long op_number;
static const char *called;

void words_begin(long op, const char *call)
{
	op_number = op;
	called = call;
}

void words(struct replay_story *story, const char *format, ...)
{
	struct replay_line *line = &story->lines[story->line_count];
	va_list arguments;

	if (story->line_count == REPLAY_LINES)
		return;
	story->line_count++;
	line->op = op_number;
	line->call = called;
	va_start(arguments, format);
	vsnprintf(line->text, sizeof(line->text), format, arguments);
	va_end(arguments);
}

const char *words_of_reason(enum reason reason)
{
	static const char *const sentences[] = {
#define REASON(id, name, sentence, hint) sentence,
#include "shim/log/reasons.def"
#undef REASON
	};

	return sentences[reason];
}

static const char *dtype_word(cudaDataType type)
{
	return type == CUDA_R_16F    ? "f16"
	       : type == CUDA_R_16BF ? "bf16"
	       : type == CUDA_R_32F  ? "f32"
				     : "?";
}

/* ", …" behind `text` where there is a detail. */
static const char *detail_of(const char *detail, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", *detail ? " (" : "", detail, *detail ? ")" : "");
	return text;
}

void words_reason(struct replay_story *story, const char *what, enum reason reason,
		  const char *detail)
{
	char text[104];

	words(story, "%s: %s%s: %s", what, log_reason_name(reason),
	      detail_of(detail, text, sizeof(text)), words_of_reason(reason));
}

void words_opened(struct replay_story *story, const struct chain *chain)
{
	const struct op_gemm *gemm = &chain->steps[0].gemm;
	const char *why = chain->deferred ? "held back: a verified site begins like this"
			  : site_awaits(gemm, SITE_VERIFIED)
				  ? "runs: a verified site begins like this, to be looked at again"
			  : site_awaits(gemm, SITE_LEARNING)
				  ? "runs: a site that is being learned begins like this"
			  : site_awaits(gemm, SITE_DECLINED)
				  ? "runs: a site that was declined begins like this"
				  : "runs: no site begins like this yet";

	words(story, "opens a chain: scores [%lld,%lld,%lld] over %lld, %s; %s",
	      (long long)gemm->batch, (long long)gemm->n, (long long)gemm->m, (long long)gemm->k,
	      dtype_word(gemm->atype), why);
}

/* "S, v1, K, Q, input 2" … for the operands that a step reads, or those that it writes. */
static void name_operands(const struct step *step, enum access_mode mode, char *text, size_t size)
{
	static const char *const inputs[] = {"K", "Q"};
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < step->ref_count && used < size; i++) {
		const struct ref *ref = &step->refs[i];
		const char *comma = used ? ", " : "";

		if (ref->mode != mode)
			continue;
		if (ref->kind == REF_VALUE && !ref->index)
			used += (size_t)snprintf(text + used, size - used, "%sS", comma);
		else if (ref->kind == REF_VALUE)
			used += (size_t)snprintf(text + used, size - used, "%sv%d", comma,
						 ref->index);
		else if (ref->index < 2)
			used += (size_t)snprintf(text + used, size - used, "%s%s", comma,
						 inputs[ref->index]);
		else
			used += (size_t)snprintf(text + used, size - used, "%sinput %d", comma,
						 ref->index);
	}
}

void words_step(struct replay_story *story, const struct chain *chain, int number)
{
	const struct step *step = &chain->steps[number];
	char reads[80], writes[80], unknown[80];

	name_operands(step, ACCESS_READ, reads, sizeof(reads));
	name_operands(step, ACCESS_WRITE, writes, sizeof(writes));
	name_operands(step, ACCESS_UNKNOWN, unknown, sizeof(unknown));
	words(story, "step %d, %s%s%s%s%s%s%s%s", number,
	      step->meaning.role == ROLE_UNKNOWN ? "a kernel without a rule"
						 : rules_role_name(step->meaning.role),
	      *reads ? ": reads " : "", reads, *writes ? ", writes " : "", writes,
	      *unknown ? "; reads or writes " : "", unknown, chain->deferred ? "; held back" : "");
}
