/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons under way, and the verdict on those that came back.
 *
 * A site is good when (1) the program's own O agrees with the reference, within what rounding
 * explains: then the spec means what the program does; and (2) the fused O is at most FASHIM_TOL
 * times as far from the reference as the program's own, plus one rounding step, and nowhere further
 * from the program's than rounding explains (verdict.h).
 */
#include "shim/act/compare.h"

#include <inttypes.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/made_bias.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/gpu/nvtx.h"
#include "shim/rules/grouped.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/timing.h"
#include "shim/act/trial.h"
#include "shim/act/verdict.h"
#include "shim/base/message.h"
#include "shim/base/tracepoint.h"

#define PENDING	      24
#define SAMPLE_ROWS   64
#define WAIT_NS	      100000000ull
#define SPEED_SAMPLES 5

/* Comparisons with nothing to see before a site is given up. */
#define MOST_EMPTY 8

/* What is sampled: the program's own call, and a trial. */
enum { OWN, TRIAL, SAMPLED };

struct result {
	struct drift_result drift;
	struct drift_sampled_result sampled[SAMPLED];
};

static struct pending {
	bool used;
	bool awaited; /* in vain: its stream may wait for what comes next */
	CUcontext context;
	struct site *site;
	uint64_t occurrence;
	struct timing *timing;
	CUevent first, begin, end, done; /* of all of it first and last */
	struct result *result;		 /* pinned */
	uint64_t promised;		 /* to the ledger */
	int rows;
	bool tried;	 /* sampled[TRIAL] is of the kernel on numbers of ours */
	int32_t round_s; /* what the kernel rounded as the program does */
	struct rounding rounding;
	int64_t keys;
	char kernel[48];
} pending[PENDING];
static int used_count; /* of them */

/* ---- starting ------------------------------------------------------------------------------- */

static struct pending *find_slot(CUcontext context)
{
	for (int i = 0; i < PENDING; i++) {
		struct pending *slot = &pending[i];

		if (slot->used || (slot->context && slot->context != context))
			continue;
		if (!slot->result) {
			void *memory = NULL;

			if (driver.cuMemAllocHost_v2(&memory, sizeof(struct result)) !=
			    CUDA_SUCCESS)
				return NULL;
			slot->result = memory;
			slot->context = context;
		}
		if (!slot->done &&
		    (driver.cuEventCreate(&slot->first, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
		     driver.cuEventCreate(&slot->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
		     driver.cuEventCreate(&slot->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
		     driver.cuEventCreate(&slot->done, CU_EVENT_DEFAULT) != CUDA_SUCCESS))
			return NULL;
		return slot;
	}
	return NULL;
}

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

/* All device memory of one comparison, given back in stream order as soon as it is enqueued. */
struct buffers {
	uint64_t output, reference, scores, result;
};

static void buffers_put(const struct buffers *buffers, CUstream stream)
{
	scratch_put(buffers->output, stream);
	scratch_put(buffers->reference, stream);
	scratch_put(buffers->scores, stream);
	scratch_put(buffers->result, stream);
}

static bool buffers_get(struct buffers *buffers, const struct chain *chain,
			const struct attn_args *args, int rows)
{
	const uint64_t outputs =
		(uint64_t)args->B * (uint64_t)args->H * (uint64_t)args->Sq * (uint64_t)args->Dv;
	CUcontext context = chain->context;
	CUstream stream = chain->stream;

	buffers->output = scratch_get(context, stream,
				      outputs * (uint64_t)attn_dtype_size(args->o.dtype), false);
	buffers->reference = scratch_get(context, stream, (uint64_t)(rows * args->Dv) * 8, false);
	buffers->scores =
		scratch_get(context, stream, (uint64_t)rows * (uint64_t)args->Sk * 8, false);
	buffers->result = scratch_get(context, stream, sizeof(struct result), false);
	return buffers->output && buffers->reference && buffers->scores && buffers->result;
}

/* fused: where the fused kernel's output lies; NULL: only the program's is looked at. */
static int sample_against(const struct chain *chain, const struct attn_args *args,
			  const struct buffers *buffers, int rows, int index,
			  const struct attn_tensor *fused)
{
	struct reference_args reference = {
		.attn = *args, .rows = rows, .scratch = buffers->scores, .out = buffers->reference};
	struct drift_sampled_args sampled = {
		.app = args->o,
		.B = args->B,
		.H = args->H,
		.Sq = args->Sq,
		.Dv = args->Dv,
		.rows = rows,
		.reference = buffers->reference,
		.result = buffers->result + offsetof(struct result, sampled) +
			  (uint64_t)index * sizeof(struct drift_sampled_result),
	};
	int error;

	reference.attn.spec.round_s = 0; /* the exact answer, whoever rounds */
	if (fused)
		sampled.fused = *fused;
	error = fused_reference(chain->context, chain->stream, &reference);
	return error ? error : fused_drift_sampled(chain->context, chain->stream, &sampled);
}

static int enqueue(struct pending *slot, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   const struct buffers *buffers, const struct trial *trial)
{
	const double noticeable = verdict_noticeable(&slot->rounding);
	struct attn_args fused = *args;
	struct drift_args drift = {
		.app = args->o,
		.B = args->B,
		.H = args->H,
		.Sq = args->Sq,
		.Dv = args->Dv,
		.abs_tol = noticeable,
		.rel_tol = noticeable,
		.result = buffers->result,
	};
	bool ranged;
	int error = 0;

	/* Kernels of ours take a lock in there: it must be free. */
	if (driver.cuEventRecord(slot->first, chain->stream) != CUDA_SUCCESS ||
	    driver.cuMemsetD8Async((CUdeviceptr)buffers->result, 0, sizeof(struct result),
				   chain->stream) != CUDA_SUCCESS)
		return -EIO;
	place_output(&fused.o, args, order, buffers->output);
	drift.fused = fused.o;
	ranged = nvtx_push("compare", variant, &fused);
	driver.cuEventRecord(slot->begin, chain->stream);
	error = made_bias_write(chain);
	if (!error)
		error = fused_attention(chain->context, chain->stream, variant, &fused);
	driver.cuEventRecord(slot->end, chain->stream);
	nvtx_pop(ranged);
	if (!error)
		error = fused_drift(chain->context, chain->stream, &drift);
	if (!error)
		error = sample_against(chain, args, buffers, slot->rows, OWN, &fused.o);
	if (slot->tried && !error) {
		struct attn_args ours = trial->args;

		ours.o = fused.o;
		error = fused_attention(chain->context, chain->stream, variant, &ours);
		if (!error)
			error = sample_against(chain, &ours, buffers, slot->rows, TRIAL, NULL);
	}
	if (!error &&
	    driver.cuMemcpyDtoHAsync_v2(slot->result, (CUdeviceptr)buffers->result,
					sizeof(struct result), chain->stream) != CUDA_SUCCESS)
		error = -1;
	if (!error && driver.cuEventRecord(slot->done, chain->stream) != CUDA_SUCCESS)
		error = -1;
	return error;
}

static bool may_tf32(const struct chain *chain)
{
	return gemm_fp32_product(&chain->steps[0].gemm) == FP32_MAY_TF32 ||
	       gemm_fp32_product(&chain->closer) == FP32_MAY_TF32;
}

void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   struct timing *timing)
{
	const int64_t total = (int64_t)args->B * args->H * args->Sq;
	const int rows = total < SAMPLE_ROWS ? (int)total : SAMPLE_ROWS;
	struct driver_context here;
	struct buffers buffers = {0};
	struct pending *slot = NULL;
	struct trial trial = {.stream = chain->stream};
	int error = -1;

	COST(PURPOSE_LEARNING);
	const struct ledger_entry entry = ledger_begin(LEDGER_COMPARE);

	if (driver_enter(&here, chain->context)) {
		slot = find_slot(chain->context);
		if (slot && buffers_get(&buffers, chain, args, rows)) {
			slot->site = site;
			slot->occurrence = site->live->seen;
			slot->rows = rows;
			slot->keys = args->Sk;
			slot->rounding = rounding_of(args, may_tf32(chain));
			slot->round_s = args->spec.round_s;
			if (grouped_seen())
				slot->rounding.moved = slot->rounding.wanted =
					rounding_where_choices(args->v.dtype);
			snprintf(slot->kernel, sizeof(slot->kernel), "%s", variant->name);
			slot->tried = site->empty && site->state == SITE_LEARNING &&
				      trial_begin(&trial, chain, args);
			error = enqueue(slot, chain, args, order, variant, &buffers, &trial);
		}
		trial_end(&trial);
		buffers_put(&buffers, chain->stream);
		driver_leave(&here);
	}
	ledger_end(entry);
	if (error) {
		timing_drop(timing);
		if (++site->failed_compares >= 4)
			site_decline(site, REASON_SCRATCH, "no comparison could be made");
		return;
	}
	slot->promised = ledger_promise(LEDGER_COMPARE);
	slot->timing = timing;
	slot->used = true;
	slot->awaited = false;
	used_count++;
	site->pending++;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static void write_sample(const struct pending *slot, double app_us, double fused_us,
			 const char *verdict)
{
	const struct drift_result *d = &slot->result->drift;
	const struct drift_sampled_result *s = &slot->result->sampled[OWN];
	struct json *json = log_record("sample");

	json_int(json, "site", slot->site->number);
	json_uint(json, "occurrence", slot->occurrence);
	json_double(json, "app_us", app_us);
	json_double(json, "fused_us", fused_us);
	json_string(json, "kernel", slot->kernel);
	json_double(json, "max_abs", d->max_abs);
	json_double(json, "max_rel", d->max_app > 0 ? d->max_abs / d->max_app : 0);
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
	json_int(json, "rows", slot->rows);
	json_double(json, "app_max", s->max_app);
	json_double(json, "app_rmse", verdict_rms(s->sum_app2, s->count));
	json_double(json, "fused_max", s->max_fused);
	json_double(json, "fused_rmse", verdict_rms(s->sum_fused2, s->count));
	json_close(json);
	if (slot->tried) {
		const struct drift_sampled_result *t = &slot->result->sampled[TRIAL];

		json_open_object(json, "trial");
		json_double(json, "rms", verdict_rms(t->sum_ref2, t->count));
		json_double(json, "fused_max", t->max_app);
		json_double(json, "fused_rmse", verdict_rms(t->sum_app2, t->count));
		json_close(json);
	}
	json_string(json, "verdict", verdict);
	timing_write(slot->timing, json);
	log_commit(json);
	TRACEPOINT4(compared, slot->site->number, slot->occurrence, app_us * 1000, fused_us * 1000);
	message_debug("site %d, call %" PRIu64 " compared: %.1f and %.1f us, %.1e apart: %s",
		      slot->site->number, slot->occurrence, app_us, fused_us, d->max_abs, verdict);
}

static double least(double old, double fresh)
{
	return !isfinite(fresh) ? old : old > 0 && old < fresh ? old : fresh;
}

/* The next kernel rounds all that the program does. */
static bool round_more(struct site *site)
{
	if (site->round_s || !site->rounds || site->unrounded)
		return false;
	site_round(site, site->rounds);
	return true;
}

/* That was too slow: then O may be moved as far as `most`. */
static bool round_no_more(struct site *site, double most)
{
	if (!site->round_s || site->moved > most)
		return false;
	site->unrounded = true;
	site_round(site, 0);
	return true;
}

/* Is the fused kernel fast enough, as far as the best times seen tell? Another process on the GPU
 * spoils single samples, so a site is given a few more before it is declined for this. */
static bool fast_enough(struct site *site, double app_us, double fused_us, double most)
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
	if (round_no_more(site, most))
		return false;
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
static const char *judge_agreement(const struct pending *slot)
{
	const struct site *site = slot->site;
	const struct drift_sampled_result *t = &slot->result->sampled[TRIAL];

	if (site->state != SITE_LEARNING || !verdict_empty(&slot->result->sampled[OWN]))
		return "ok";
	if (!slot->tried || verdict_empty(t))
		return "nothing_compared";
	return verdict_explains(t, &slot->rounding, true) ? "ok" : "drift";
}

/* The next one is tried on numbers of ours. */
static void note_empty(struct site *site)
{
	if (site->live->reason == REASON_LEARNING)
		site->live->reason = REASON_NOTHING_COMPARED;
	if (++site->empty >= MOST_EMPTY)
		site_decline(site, REASON_NOTHING_COMPARED, "");
}

/* Did O move further than is wanted, and is there a kernel that moves it less? */
static bool should_round(const struct pending *slot)
{
	const struct site *site = slot->site;
	const struct drift_result *d = &slot->result->drift;

	return verdict_moved(d, slot->rounding.wanted) && !d->nonfinite_mismatch &&
	       !site->round_s && site->rounds && !site->unrounded;
}

static void note_moved(struct site *site, const struct drift_result *d)
{
	const double moved = d->sum_app2 > 0 ? verdict_rms(d->sum_diff2 / d->sum_app2, 1) : 0;

	if (!site->round_s && moved > site->moved)
		site->moved = moved;
}

static void judge(struct pending *slot)
{
	struct site *site = slot->site;
	const struct drift_result *d = &slot->result->drift;
	const struct drift_sampled_result *s = &slot->result->sampled[OWN];
	const double app_us = timing_us(slot->timing),
		     fused_us = timing_between(slot->begin, slot->end);
	const char *verdict;
	char detail[96] = "";

	if (!verdict_explains(s, &slot->rounding, false))
		verdict = "not_explained";
	else if (should_round(slot))
		verdict = "moved";
	else if (!verdict_agrees(d, &slot->rounding) ||
		 !verdict_as_exact(s, &slot->rounding, config()->tolerance))
		verdict = "drift";
	else
		verdict = judge_agreement(slot);
	write_sample(slot, app_us, fused_us, verdict);
	if (slot->round_s != site->round_s) /* of a kernel that is no longer asked */
		return;
	note_moved(site, d);
	if (strcmp(verdict, "moved") == 0 && round_more(site))
		return;
	if (strcmp(verdict, "ok") == 0) {
		site->passed++;
		site->live->agreed++;
		site_agrees(site, slot->keys);
		if (fast_enough(site, app_us, fused_us, slot->rounding.moved) &&
		    site->passed >= config()->learn)
			site_verify(site);
		return;
	}
	if (strcmp(verdict, "nothing_compared") == 0) {
		note_empty(site);
		return;
	}
	site_decline(site, strcmp(verdict, "not_explained") ? REASON_DRIFT : REASON_NOT_EXPLAINED,
		     detail);
}

static void finish(struct pending *slot)
{
	ledger_settle(LEDGER_COMPARE, slot->promised, timing_between(slot->first, slot->done));
	slot->used = false;
	used_count--;
	slot->site->pending--;
	judge(slot);
	timing_drop(slot->timing);
}

/* Sites that were verified before the program chose anything. */
static void reconsider(void)
{
	static bool done;

	if (done || !grouped_seen())
		return;
	done = true;
	for (int i = 0; i < site_count; i++)
		if (sites[i].state == SITE_VERIFIED &&
		    sites[i].moved > rounding_where_choices(sites[i].dtype) && !sites[i].round_s &&
		    !round_more(&sites[i]))
			site_decline(&sites[i], REASON_DRIFT, "before a choice");
}

void compare_poll(void)
{
	reconsider();
	for (int i = 0; i < PENDING && used_count > 0; i++) {
		struct driver_context here;
		CUresult result;

		if (!pending[i].used || !driver_enter(&here, pending[i].context))
			continue;
		COST(PURPOSE_LEARNING);
		result = driver.cuEventQuery(pending[i].done);
		if (result == CUDA_SUCCESS) {
			finish(&pending[i]);
		} else if (result != CUDA_ERROR_NOT_READY) {
			ledger_settle(LEDGER_COMPARE, pending[i].promised, 0);
			pending[i].used = false;
			used_count--;
			pending[i].site->pending--;
			timing_drop(pending[i].timing);
		}
		driver_leave(&here);
	}
}

static bool worth_waiting(const struct site *site)
{
	for (int i = 0; i < PENDING; i++)
		if (pending[i].used && pending[i].site == site && !pending[i].awaited)
			return true;
	return false;
}

void compare_wait(const struct site *site, uint64_t most_ns)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + (most_ns < WAIT_NS ? most_ns : WAIT_NS);

	COST(PURPOSE_LEARNING);

	while (worth_waiting(site) && site->state == SITE_LEARNING &&
	       clock_ns(CLOCK_MONOTONIC) < until) {
		compare_poll();
		sched_yield();
	}
	for (int i = 0; i < PENDING; i++)
		pending[i].awaited |= pending[i].used && pending[i].site == site;
}

void compare_forget(CUcontext context)
{
	for (int i = 0; i < PENDING; i++)
		if (pending[i].context == context) {
			if (pending[i].used) {
				ledger_settle(LEDGER_COMPARE, pending[i].promised, 0);
				pending[i].site->pending--;
				used_count--;
			}
			memset(&pending[i], 0, sizeof(pending[i]));
		}
	timing_forget(context);
}
