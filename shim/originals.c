/* SPDX-License-Identifier: Apache-2.0
 *
 * Between chains, whose operands are A, B and V of two products, and calls of a kernel, whose
 * operands are Q, K and V: which copy made which of them.
 */
#include "originals.h"

#include "copies.h"

/* Which of attention's operands the chain's operand n (A, B, V) is. */
static enum relayout_operand operand_of(const struct chain *chain, int n)
{
	if (n == 2)
		return RELAYOUT_V;
	return (n == 0) != chain->transposed ? RELAYOUT_K : RELAYOUT_Q;
}

bool originals_read(struct attn_args *args, const struct chain *chain)
{
	const struct relayout *from[RELAYOUT_OPERANDS] = {NULL};
	uint64_t in[RELAYOUT_OPERANDS] = {0};

	for (int n = 0; n < RELAYOUT_OPERANDS; n++) {
		const struct input *input;

		if (chain->relayed[n] < 0)
			continue;
		input = &chain->inputs[chain->relayed[n]];
		from[operand_of(chain, n)] = &chain->relay[n];
		in[operand_of(chain, n)] = input->snapshot ? input->snapshot : input->begin;
	}
	return relayout_apply(args, from, in);
}

void originals_compare(struct attn_args *args, const struct chain *chain)
{
	const struct relayout *from[RELAYOUT_OPERANDS] = {NULL};
	uint64_t in[RELAYOUT_OPERANDS] = {0};
	bool possible;

	for (int n = 0; n < RELAYOUT_OPERANDS; n++) {
		const struct relayout *copy = copies_intact(chain->made_by[n]);

		if (!copy)
			continue;
		from[operand_of(chain, n)] = copy;
		in[operand_of(chain, n)] = copy->in_begin;
	}
	possible = relayout_apply(args, from, in);
	for (int n = 0; n < RELAYOUT_OPERANDS; n++)
		copies_compared(chain->made_by[n], possible);
}
