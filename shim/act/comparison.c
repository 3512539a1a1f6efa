/* SPDX-License-Identifier: Apache-2.0
 *
 * A site is good when (1) the program's own O agrees with the reference, within what rounding
 * explains: then the spec means what the program does; and (2) the fused O is at most FASHIM_TOL
 * times as far from the reference as the program's own, plus one rounding step, and nowhere further
 * from the program's than rounding explains (verdict.h).
 */
#include "shim/act/comparison.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shim/act/roundings.h"
#include "shim/base/config.h"
#include "shim/base/message.h"
#include "shim/base/tracepoint.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/made_bias.h"
#include "shim/gpu/nvtx.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/timing.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/rules/grouped.h"
#include "shim/rules/rules.h"

#define SAMPLE_ROWS   64
#define SPEED_SAMPLES 5

/* Comparisons with nothing to see before a site is given up. */
#define MOST_EMPTY 8

/* Those that could not be made. */
#define MOST_FAILED 4

/* ---- making ready --------------------------------------------------------------------------- */

bool comparison_events(struct comparison *comparison)
{
	CUevent *const events[] = {&comparison->first, &comparison->begin, &comparison->end,
				   &comparison->last};

	for (int i = 0; i < 4; i++)
		if (!*events[i] &&
		    driver.cuEventCreate(events[i], CU_EVENT_DEFAULT) != CUDA_SUCCESS)
			return false;
	return true;
}

static struct drift_args drift_of(const struct attn_args *args)
{
	return (struct drift_args){
		.app = args->o, .B = args->B, .H = args->H, .Sq = args->Sq, .Dv = args->Dv};
}

static int rows_of(const struct attn_args *args)
{
	const int64_t total = (int64_t)args->B * args->H * args->Sq;

	return total < SAMPLE_ROWS ? (int)total : SAMPLE_ROWS;
}

static bool may_tf32(const struct chain *chain)
{
	return gemm_fp32_product(&chain->steps[0].gemm) == FP32_MAY_TF32 ||
	       gemm_fp32_product(&chain->closer) == FP32_MAY_TF32;
}

void comparison_of(struct comparison *comparison, struct site *site, const struct chain *chain,
		   const struct attn_args *args, const struct attn_variant *variant)
{
	const struct drift_args drift = drift_of(args);

	comparison->site = site;
	comparison->occurrence = site->live->seen;
	comparison->rows = rows_of(args);
	comparison->blocks = drift_blocks(&drift);
	comparison->keys = args->Sk;
	comparison->rounding = rounding_of(args, may_tf32(chain));
	comparison->round_s = args->spec.round_s;
	if (grouped_seen())
		comparison->rounding.moved = comparison->rounding.wanted =
			rounding_where_choices(args->v.dtype);
	snprintf(comparison->kernel, sizeof(comparison->kernel), "%s", variant->name);
	comparison->tried = false;
}

struct comparison_buffers comparison_bytes(const struct attn_args *args)
{
	const uint64_t outputs =
		(uint64_t)args->B * (uint64_t)args->H * (uint64_t)args->Sq * (uint64_t)args->Dv;
	const uint64_t rows = (uint64_t)rows_of(args);

	return (struct comparison_buffers){
		.output = outputs * (uint64_t)attn_dtype_size(args->o.dtype),
		.reference = rows * (uint64_t)args->Dv * 8,
		.scores = rows * (uint64_t)args->Sk * 8,
		.result = sizeof(struct comparison_result),
	};
}

void comparison_buffers_put(const struct comparison_buffers *buffers, CUstream stream)
{
	scratch_put(buffers->output, stream);
	scratch_put(buffers->reference, stream);
	scratch_put(buffers->scores, stream);
	scratch_put(buffers->result, stream);
}

bool comparison_buffers_get(struct comparison_buffers *buffers,
			    const struct comparison_buffers *bytes, CUcontext context,
			    CUstream stream)
{
	buffers->output = scratch_get(context, stream, bytes->output, false);
	buffers->reference = scratch_get(context, stream, bytes->reference, false);
	buffers->scores = scratch_get(context, stream, bytes->scores, false);
	buffers->result = scratch_get(context, stream, bytes->result, false);
	return buffers->output && buffers->reference && buffers->scores && buffers->result;
}

/* ---- enqueuing ------------------------------------------------------------------------------ */

/* Where the fused kernel writes: without holes, in the given order or in that of [B,H,Sq,Dv]. */
static void place_output(struct attn_tensor *tensor, const struct attn_args *args,
			 const struct attn_tensor *order, uint64_t base)
{
	*tensor = *order;
	tensor->base = base;
	tensor->dtype = args->o.dtype;
	if (tensor->stride[3])
		return;
	tensor->stride[3] = 1;
	tensor->stride[2] = args->Dv;
	tensor->stride[1] = (int64_t)args->Sq * args->Dv;
	tensor->stride[0] = (int64_t)args->H * args->Sq * args->Dv;
}

/* fused: where the fused kernel's output lies; NULL: only the program's is looked at. */
static int sample_against(const struct chain *chain, const struct attn_args *args,
			  const struct comparison_buffers *buffers, int rows, size_t result,
			  const struct attn_tensor *fused)
{
	struct reference_args reference = {
		.attn = *args,
		.rows = rows,
		.scratch = buffers->scores,
		.out = buffers->reference,
		.largest =
			fused ? buffers->result + offsetof(struct comparison_result, largest) : 0,
	};
	struct drift_sampled_args sampled = {
		.app = args->o,
		.B = args->B,
		.H = args->H,
		.Sq = args->Sq,
		.Dv = args->Dv,
		.rows = rows,
		.reference = buffers->reference,
		.result = buffers->result + result,
	};
	int error;

	reference.attn.spec.round_s = 0; /* the exact answer, whoever rounds */
	if (fused)
		sampled.fused = *fused;
	error = fused_reference(chain->context, chain->stream, &reference);
	return error ? error : fused_drift_sampled(chain->context, chain->stream, &sampled);
}

int comparison_mark(CUevent event, const struct chain *chain)
{
	const CUresult result = chain->captured
					? driver.cuEventRecordWithFlags(event, chain->stream,
									CU_EVENT_RECORD_EXTERNAL)
					: driver.cuEventRecord(event, chain->stream);

	return result == CUDA_SUCCESS ? 0 : -EIO;
}

int comparison_enqueue(const struct comparison *comparison, const struct chain *chain,
		       const struct attn_args *args, const struct attn_tensor *order,
		       const struct attn_variant *variant, const struct comparison_buffers *buffers,
		       const struct trial *trial)
{
	const double noticeable = verdict_noticeable(&comparison->rounding);
	const int rows = comparison->rows;
	struct attn_args fused = *args;
	struct drift_args drift = drift_of(args);
	bool ranged;
	int error = 0;

	drift.abs_tol = drift.rel_tol = noticeable;
	drift.result = buffers->result + offsetof(struct comparison_result, drift);
	if (comparison_mark(comparison->first, chain) ||
	    driver.cuMemsetD8Async((CUdeviceptr)buffers->result, 0,
				   sizeof(struct comparison_result), chain->stream) != CUDA_SUCCESS)
		return -EIO;
	place_output(&fused.o, args, order, buffers->output);
	drift.fused = fused.o;
	ranged = nvtx_push("compare", variant, &fused);
	comparison_mark(comparison->begin, chain);
	error = made_bias_write(chain);
	if (!error)
		error = fused_attention(chain->context, chain->stream, variant, &fused);
	comparison_mark(comparison->end, chain);
	nvtx_pop(ranged);
	if (!error)
		error = fused_drift(chain->context, chain->stream, &drift);
	if (!error)
		error = sample_against(chain, args, buffers, rows,
				       offsetof(struct comparison_result, own), &fused.o);
	if (comparison->tried && !error) {
		struct attn_args ours = trial->args;

		ours.o = fused.o;
		error = fused_attention(chain->context, chain->stream, variant, &ours);
		if (!error)
			error = sample_against(chain, &ours, buffers, rows,
					       offsetof(struct comparison_result, trial), NULL);
	}
	return error;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

/* What a comparison came to, and the sample's word for it. */
enum outcome {
	OUTCOME_OK,
	OUTCOME_NOT_EXPLAINED,
	OUTCOME_MOVED,
	OUTCOME_DRIFT,
	OUTCOME_NOTHING_COMPARED
};
static const char *const outcomes[] = {"ok", "not_explained", "moved", "drift", "nothing_compared"};

/* The largest difference, of the largest number. */
static double apart(const struct drift_result *d)
{
	return d->max_app > 0 ? d->max_abs / d->max_app : 0;
}

static void write_sample(const struct comparison *c, double app_us, double fused_us,
			 const char *verdict)
{
	const struct drift_result *d = &c->result->drift;
	const struct drift_sampled_result *s = &c->result->own;
	struct json *json = log_record("sample");

	json_int(json, "site", c->site->number);
	json_uint(json, "occurrence", c->occurrence);
	json_double(json, "app_us", app_us);
	json_double(json, "fused_us", fused_us);
	json_string(json, "kernel", c->kernel);
	json_double(json, "max_abs", d->max_abs);
	json_double(json, "max_rel", apart(d));
	json_double(json, "rmse", verdict_rms(d->sum_diff2, d->count));
	json_double(json, "cosine",
		    d->sum_app2 > 0 && d->sum_fused2 > 0
			    ? d->sum_dot / verdict_rms(d->sum_app2, 1) /
				      verdict_rms(d->sum_fused2, 1)
			    : 1);
	json_uint(json, "worst_index", d->worst_index);
	json_double(json, "worst_app", d->worst_app);
	json_double(json, "worst_fused", d->worst_fused);
	json_uint(json, "nonfinite", d->nonfinite_mismatch);
	json_double(json, "beyond", d->count ? (double)d->beyond / (double)d->count : 0);
	json_uint(json, "finite", d->count);
	json_double(json, "app_rms", verdict_rms(d->sum_app2, d->count));
	json_double(json, "fused_rms", verdict_rms(d->sum_fused2, d->count));
	json_open_object(json, "reference");
	json_int(json, "rows", c->rows);
	json_double(json, "app_max", s->max_app);
	json_double(json, "app_rmse", verdict_rms(s->sum_app2, s->count));
	json_double(json, "fused_max", s->max_fused);
	json_double(json, "fused_rmse", verdict_rms(s->sum_fused2, s->count));
	json_close(json);
	if (c->tried) {
		const struct drift_sampled_result *t = &c->result->trial;

		json_open_object(json, "trial");
		json_double(json, "rms", verdict_rms(t->sum_ref2, t->count));
		json_double(json, "fused_max", t->max_app);
		json_double(json, "fused_rmse", verdict_rms(t->sum_app2, t->count));
		json_close(json);
	}
	json_string(json, "verdict", verdict);
	timing_write(c->timing, json);
	log_commit(json);
	TRACEPOINT4(compared, c->site->number, c->occurrence, app_us * 1000, fused_us * 1000);
	message_debug("site %d, call %" PRIu64 " compared: %.1f and %.1f us, %.1e apart: %s",
		      c->site->number, c->occurrence, app_us, fused_us, d->max_abs, verdict);
}

static double least(double old, double fresh)
{
	return !isfinite(fresh) ? old : old > 0 && old < fresh ? old : fresh;
}

/* Is the fused kernel fast enough, as far as the best times seen tell? Another process on the GPU
 * spoils single samples, so a site is given a few more before it is declined for this. */
static bool fast_enough(struct site *site, double app_us, double fused_us)
{
	char detail[64];

	site->app_us = least(site->app_us, app_us);
	site->fused_us = least(site->fused_us, fused_us);
	site->samples++;
	if (config()->min_speedup <= 0 || config()->mode == MODE_COMPARE)
		return true;
	if (site->samples < 2)
		return false;
	if (!(site->app_us > 0) || site->app_us >= config()->min_speedup * site->fused_us)
		return true;
	if (site->samples >= SPEED_SAMPLES) {
		snprintf(detail, sizeof(detail), "%d.%02dx", (int)(site->app_us / site->fused_us),
			 (int)(site->app_us / site->fused_us * 100) % 100);
		site_decline(site, REASON_SLOWER, detail);
	}
	return false;
}

/* What a comparison is worth in which the two agreed. Known by its rules, or found out by asking
 * its kernels, the program's function needs no more than that; but the kernel must have been right
 * on something. */
static enum outcome judge_agreement(const struct comparison *c)
{
	const struct site *site = c->site;
	const struct drift_sampled_result *t = &c->result->trial;

	if (site->state != SITE_LEARNING || !verdict_empty(&c->result->own))
		return OUTCOME_OK;
	if (!c->tried || verdict_empty(t) || verdict_no_numbers(&c->result->drift))
		return OUTCOME_NOTHING_COMPARED;
	return verdict_explains(t, &c->rounding, true) ? OUTCOME_OK : OUTCOME_DRIFT;
}

/* The next one is tried on numbers of ours. */
static void note_empty(struct site *site)
{
	if (site->live->reason == REASON_LEARNING)
		site->live->reason = REASON_NOTHING_COMPARED;
	if (++site->empty >= MOST_EMPTY)
		site_decline(site, REASON_NOTHING_COMPARED, "");
}

/* Some site's scores, of operands of that type, are so large that their rounding decides: whatever
 * moves its operands a little makes it round them otherwise. */
static bool steep[ATTN_F32 + 1];

/* Some site in fp16 has rows that rounding alone decides. Where every key carries the same bias of
 * -10000 it leaves multiples of 8 of the scores, and where one lies between two whatever moves it
 * makes it the one or the other: another key's V is O then (OpenFold's columns that are masked). */
static bool fickle;

/* A program that goes on from whichever is the largest goes on from another one where two lie near,
 * whatever moved them: GroupViT's output moved by 0.14 of its largest where O had moved by 8e-4.
 * Whether kernels that round as the program does would do was not tried. (In bf16 they round so
 * where a program chooses: comparison_wanted().) */
const char *comparison_objection(int dtype)
{
	if (dtype != ATTN_F16)
		return NULL;
	return fickle	       ? "before rows that rounding decides"
	       : rules_picks() ? "before a choice"
			       : NULL;
}

unsigned comparison_strict(void)
{
	unsigned strict = grouped_seen() | (unsigned)fickle << 1 | (unsigned)rules_picks() << 2;

	for (int dtype = 0; dtype <= ATTN_F32; dtype++)
		strict |= (unsigned)steep[dtype] << (dtype + 3);
	return strict;
}

double comparison_wanted(int dtype)
{
	if (dtype == ATTN_F32) /* no kernel repeats what the program does */
		return steep[dtype] ? 0 : INFINITY;
	return steep[dtype] || grouped_seen() || rules_picks() ? rounding_where_choices(dtype)
							       : INFINITY;
}

/* Did O move further than is wanted? */
static bool has_moved(const struct comparison *c)
{
	const struct drift_result *d = &c->result->drift;

	return verdict_moved(d, c->rounding.wanted) || apart(d) > c->rounding.single ||
	       verdict_moved(d, comparison_wanted(c->site->dtype));
}

/* … and is there a kernel that moves it less? */
static bool should_round(const struct comparison *c)
{
	return has_moved(c) && !c->result->drift.nonfinite_mismatch && roundings_left(c->site);
}

/* A larger score is off by a thousandth and more in fp32. O hardly shows it, since softmax leaves
 * one key; but where two lie near it is the one or the other (Visformer's: what moved their
 * operands by 3e-7 moved its output by 0.04). */
#define LARGE_F32 0x1p14

/* Do the roundings of the scores decide what O is? Where the kernel leaves them out, that is how
 * far it moved O; where it does them, how far the program's own lies from the exact one. Kernels
 * that leave out P's roundings alone move O by 0.0025: where that was 0.012 (LongT5), the model's
 * output moved by 0.046, where it was 0.005 (Mistral) by 0.030. */
static bool is_steep(const struct comparison *c, double moved)
{
	const struct drift_sampled_result *own = &c->result->own;

	if (!c->site->rounds && c->site->dtype != ATTN_F32)
		return false;
	if (c->site->dtype == ATTN_F32 && c->result->largest > LARGE_F32)
		return true;
	if (c->round_s && own->sum_ref2 > 0)
		moved = verdict_rms(own->sum_app2 / own->sum_ref2, 1);
	return moved > c->rounding.wanted;
}

/* Numbers of O that are so far apart, of the largest, are those of other keys: all that such a
 * kernel leaves out is the rounding of scores before a bias, and P's. */
#define DECIDED 0.125

static void note_moved(const struct comparison *c)
{
	const struct drift_result *d = &c->result->drift;
	const double moved = d->sum_app2 > 0 ? verdict_rms(d->sum_diff2 / d->sum_app2, 1) : 0;
	struct site *site = c->site;

	if (site->round_s & ATTN_ROUND_WEIGHTS)
		return;
	site->moved = moved > site->moved ? moved : site->moved;
	if (is_steep(c, moved))
		steep[site->dtype] = true;
	site->decided |= site->dtype == ATTN_F16 && apart(d) > DECIDED;
}

/* Where rounding decides what O is the exact one explains nothing, but a kernel does that rounds as
 * the program and comes as close as no other could. */
static bool is_explained(const struct comparison *c)
{
	const double close = rounding_where_choices(c->site->dtype);

	return verdict_explains(&c->result->own, &c->rounding, false) ||
	       (c->round_s & ATTN_ROUND_WEIGHTS && !c->site->by_data && !isinf(close) &&
		!c->result->own.app_nonfinite && !c->result->drift.nonfinite_mismatch &&
		!verdict_moved(&c->result->drift, close));
}

static enum outcome judge(const struct comparison *c)
{
	const struct drift_sampled_result *s = &c->result->own;

	if (!is_explained(c))
		return should_round(c) && !c->site->by_data ? OUTCOME_MOVED : OUTCOME_NOT_EXPLAINED;
	if (should_round(c))
		return OUTCOME_MOVED;
	if (verdict_disagreement(&c->result->drift, &c->rounding) ||
	    (c->site->dtype == ATTN_F32 && has_moved(c)) ||
	    !verdict_as_exact(s, &c->rounding, config()->tolerance, c->site->own_error))
		return OUTCOME_DRIFT;
	return judge_agreement(c);
}

/* What a drift is. */
static const char *what_drifted(const struct comparison *c)
{
	const char *what = verdict_disagreement(&c->result->drift, &c->rounding);

	return what ? what : has_moved(c) ? "it moves too far" : "less exact";
}

void comparison_failed(struct site *site, const char *what)
{
	if (++site->failed_compares >= MOST_FAILED)
		site_decline(site, REASON_SCRATCH, what);
}

/* Did all blocks of the kernels that measure add their sums to what was zero before? */
static bool was_measured(const struct comparison *c)
{
	const struct comparison_result *r = c->result;
	const uint64_t rows = (uint64_t)c->rows;

	return r->drift.blocks == c->blocks && r->own.blocks == rows &&
	       r->trial.blocks == (c->tried ? rows : 0);
}

static bool take_in(const struct comparison *c)
{
	struct site *site = c->site;
	const double app_us = timing_us(c->timing), fused_us = timing_between(c->begin, c->end);
	const bool current = c->round_s == site->round_s; /* of the kernel that is asked now */
	enum outcome outcome;

	if (current) {
		note_moved(c);
		fickle |= site->decided && is_explained(c);
	}
	outcome = judge(c);
	if (is_explained(c) && verdict_own_error(&c->result->own) > site->own_error)
		site->own_error = verdict_own_error(&c->result->own);
	write_sample(c, app_us, fused_us, outcomes[outcome]);
	if (!current)
		return false;
	switch (outcome) {
	case OUTCOME_OK:
		if (comparison_objection(site->dtype)) {
			site_decline(site, REASON_DRIFT, comparison_objection(site->dtype));
			return true;
		}
		site->passed++;
		site->live->agreed++;
		site_agrees(site, c->keys);
		if (fast_enough(site, app_us, fused_us) && site->passed >= config()->learn)
			site_verify(site);
		return true;
	case OUTCOME_NOTHING_COMPARED:
		if (!c->in_graph)
			note_empty(site);
		return false;
	case OUTCOME_NOT_EXPLAINED:
		site_decline(site, REASON_NOT_EXPLAINED, "");
		return false;
	case OUTCOME_MOVED:
		if (roundings_more(site))
			return false;
		break;
	case OUTCOME_DRIFT:
		break;
	}
	site_decline(site, REASON_DRIFT, what_drifted(c));
	return false;
}

bool comparison_judge(const struct comparison *c)
{
	bool agreed = false;

	if (was_measured(c))
		agreed = take_in(c);
	else
		comparison_failed(c->site, "comparisons did not come to their end");
	*c->result = (struct comparison_result){0};
	return agreed;
}
