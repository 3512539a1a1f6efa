/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded programs: PyTorch models and small scripts, forward passes run often enough for their
 * sites to be learned. What the core makes of each is a row here; each runs in a process of its
 * own, since the core keeps its state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "tests/unit/replay.h"

struct row {
	const char *name;
	int rounds;	       /* how often it is played */
	unsigned seen;	       /* chains that the program ran */
	unsigned replaced;     /* at least so many of them */
	unsigned materialised; /* at most so often */
	unsigned declined;     /* sites */
	const char *reason;    /* one that must be named */
};

static const struct row rows[] = {
	{"bert", 1, 12, 9, 0, 0, NULL},
	{"bert_attentions", 1, 38, 35, 2, 0, NULL},
	{"causal_add", 6, 12, 9, 0, 0, NULL},
	{"causal_fill", 6, 12, 9, 0, 0, NULL},
	{"double_precision", 1, 0, 0, 0, 0, "dtype"},
	{"edit_inputs", 6, 18, 15, 0, 0, NULL},
	{"edit_p", 6, 18, 0, 0, 1, "scores_read_by"},
	{"einsum_bf16", 6, 12, 9, 0, 0, NULL},
	{"einsum_scores_transposed", 1, 8, 5, 0, 0, NULL},
	{"gpt2", 1, 198, 190, 0, 0, NULL},
	{"gpt2_device_scalar_where", 1, 8, 5, 0, 0, NULL}, /* a bias behind the mask */
	{"gpt2_padded", 1, 34, 29, 0, 0, NULL},
	{"gptoss_sink_ld", 1, 8, 5, 0, 0, NULL},
	{"graph", 1, 18, 13, 8, 1, "capture"},
	{"growing", 6, 36, 33, 0, 0, NULL},
	{"inductor_16", 1, 8, 5, 0, 0, NULL},
	{"inductor_18", 1, 8, 5, 0, 0, NULL},
	{"inductor_19", 1, 8, 5, 0, 0, NULL},
	{"inductor_24", 1, 8, 5, 0, 0, NULL},
	{"inductor_25", 1, 8, 5, 0, 0, NULL}, /* fp32, as are naive_f32 and t5 */
	{"inductor_29", 1, 8, 5, 0, 0, NULL}, /* safe softmax */
	{"interleaved", 6, 36, 32, 0, 0, NULL},
	{"jax_unnamed_kernels", 1, 0, 0, 0, 0, "layout"},
	{"late_copy", 1, 61, 58, 1, 0, NULL},
	{"late_kernel", 1, 61, 58, 1, 0, NULL},
	{"late_stream", 1, 61, 58, 1, 0, NULL},
	{"linear_attention", 6, 0, 0, 0, 0, "not_softmax"},
	{"llama1b", 1, 68, 62, 0, 0, NULL},
	{"llama8b", 6, 24, 21, 0, 0, NULL},
	{"llmc_cublaslt_alias", 1, 12, 9, 0, 0, NULL},
	{"log_softmax", 6, 12, 0, 0, 1, "not_softmax"},
	{"megatron_sbhd", 1, 8, 5, 0, 0, NULL}, /* cloned by the driver on the way */
	{"mid_chain_memset", 1, 8, 5, 0, 0, NULL},
	{"mid_chain_value_rewritten", 1, 8, 5, 0, 0, NULL},
	{"mqa_folded_rows", 1, 8, 5, 0, 0, NULL},
	{"naive_512", 6, 12, 9, 0, 0, NULL},
	{"naive_f32", 6, 12, 9, 0, 0, NULL},
	{"naive_odd", 6, 12, 9, 0, 0, NULL},
	{"need_weights", 6, 18, 0, 0, 1, "scores_read_by"},
	{"output_attentions", 6, 36, 0, 0, 1, "scores_read_by"},
	{"reallocate", 6, 18, 15, 0, 0, NULL},
	{"sdpa_math", 6, 12, 9, 0, 0, NULL}, /* S read twice, P copied for nobody */
	{"softcap", 6, 12, 9, 0, 0, NULL},
	{"swin", 1, 24, 5, 0, 1, "chain_broken"},
	{"sync_inside", 6, 18, 0, 0, 1, "scores_read_by"},
	{"t5", 6, 48, 45, 0, 0, NULL},
	{"threads", 6, 36, 32, 0, 0, NULL},
	{"train_dropout", 6, 36, 0, 0, 4, "dropout"},
	{"two_streams", 6, 36, 32, 0, 0, NULL},
	{"two_threads", 1, 80, 74, 1, 0,
	 NULL}, /* one kernel, in place at one site, not at the other */
	{"two_values", 6, 18, 0, 0, 1, "scores_read_by"},
	{"vit", 1, 12, 9, 1, 0, NULL},
};

#define ROWS ((int)(sizeof(rows) / sizeof(*rows)))

static void replay_row(void *argument)
{
	const struct row *row = argument;
	struct replay got;

	CHECK(replay_trace(trace_path(row->name), row->rounds, &got) == 0);
	fprintf(stderr,
		"{\"%s\", %d, %llu, %llu, %llu, %llu, \"%s\"}, sites %llu, verified %llu, fused "
		"%llu, "
		"snapshots %llu\n",
		row->name, row->rounds, (unsigned long long)got.seen,
		(unsigned long long)got.replaced, (unsigned long long)got.materialised,
		(unsigned long long)got.declined, got.reasons, (unsigned long long)got.sites,
		(unsigned long long)got.verified, (unsigned long long)got.fused,
		(unsigned long long)got.snapshots);
	CHECK(got.seen == row->seen);
	CHECK(got.replaced >= row->replaced);
	CHECK(row->replaced || !got.replaced);
	CHECK(got.materialised <= row->materialised);
	CHECK(got.declined == row->declined);
	CHECK(got.fused == got.replaced);
	CHECK(!row->reason || strstr(got.reasons, row->reason));
	exit(0); /* with the exit handlers: a sanitizer looks for leaks there */
}

static void test_row(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;

	child_run(&child, environment, replay_row, *state);
	print_message("# %s", child.errors);
	assert_true(child_passed(&child));
}

int main(void)
{
	static struct CMUnitTest tests[ROWS];

	for (int i = 0; i < ROWS; i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].name,
					       .test_func = test_row,
					       .initial_state = (void *)(uintptr_t)&rows[i]};
	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
