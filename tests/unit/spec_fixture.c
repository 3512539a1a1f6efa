/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains without flow: nothing runs, no site is asked (spec_fixture.h).
 */
#include "tests/unit/spec_fixture.h"

#include "shim/site/site.h"
#include "shim/flow/touch.h"
#include "shim/real/driver.h"

struct attn_args args;
char detail[96];
bool by_data;

struct chain *begin(void)
{
	struct op op = core_scores();

	return chain_open(&op);
}

void join(struct chain *chain, struct op op)
{
	const struct sight *sight;

	driver_resolve();
	sight = touch_see(&op);
	assert_true(op.kind != OP_LAUNCH || sight->params);
	if (op.kind == OP_LAUNCH)
		site_narrow(NULL, chain, sight->list);
	chain_extend(chain, sight);
}

enum reason end_with(struct chain *chain, struct op op, const struct identity *given)
{
	assert_true(chain_close(chain, &op));
	chain_settle_outside(chain);
	return spec_of_chain(&args, chain, given, &by_data, detail);
}

enum reason end(struct chain *chain)
{
	return end_with(chain, core_context(), NULL);
}

enum reason finish(struct chain *chain)
{
	join(chain, core_softmax(core.p, core.x));
	return end(chain);
}

struct chain *chain_of(const struct op *ops, size_t count)
{
	struct chain *chain = begin();

	for (size_t i = 0; i < count; i++)
		join(chain, ops[i]);
	return chain;
}

void assert_stride(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t row,
		   int64_t column)
{
	const int64_t expected[4] = {b, h, row, column};

	for (int i = 0; i < 4; i++)
		if (tensor->stride[i] != expected[i])
			fail_msg("stride %d is %lld, not %lld", i, (long long)tensor->stride[i],
				 (long long)expected[i]);
}
