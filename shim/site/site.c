/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites and their states.
 */
#include "shim/site/site.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "shim/base/config.h"
#include "shim/log/log.h"
#include "shim/log/log_counters.h"
#include "shim/base/message.h"
#include "shim/site/opener.h"
#include "shim/base/tracepoint.h"

struct site sites[SITES];
int site_count;

#define WATCHES 3 /* undeferred occurrences that a site may ask for at a time */

static uint64_t moment;	    /* occurrences of all sites */
static atomic_uint rounds;  /* of the program */
static atomic_bool fetched; /* what it computed, since the latest occurrence */

/* While sites come up, others may follow; with the last of so many occurrences none is new. */
#define YOUNG 64
static uint64_t newest;	     /* moment of the latest new one */
static unsigned changes = 1; /* sites made, forgotten and declined */

static uint64_t closer_signature(const struct op_gemm *gemm, bool p_is_a)
{
	uint64_t alpha, beta, hash = hash_mix(2, p_is_a);

	memcpy(&alpha, &gemm->alpha, 8);
	memcpy(&beta, &gemm->beta, 8);
	hash = hash_mix(hash, (uint64_t)gemm->transa << 8 | (uint64_t)gemm->transb);
	hash = hash_mix(hash, (uint64_t)(p_is_a ? gemm->n : gemm->m));
	hash = hash_mix(hash, (uint64_t)gemm->atype << 32 | (uint64_t)gemm->ctype);
	hash = hash_mix(hash, (uint64_t)gemm->compute_type << 32 | (uint64_t)gemm->math_mode);
	return hash_mix(hash_mix(hash_mix(hash, alpha), beta), gemm->scalars_on_device);
}

static bool p_is_operand_a(const struct chain *chain)
{
	return chain->closer.a == chain->values[chain->p_value].begin;
}

static bool all_by_rule(const struct chain *chain)
{
	for (int i = 1; i < chain->step_count; i++)
		if (chain->steps[i].meaning.role == ROLE_UNKNOWN ||
		    chain->steps[i].meaning.role == ROLE_OPAQUE)
			return false;
	return true;
}

/* Does a chain hold on to it, or a comparison that is under way? */
static bool in_use(const struct site *site)
{
	const ptrdiff_t at = site - sites;

	for_each_chain(chain) if (chain->site == site ||
				  (chain->candidates &&
				   chain->candidates->bits[at / 64] >> (at % 64) & 1)) return true;
	return site->pending > 0;
}

static void forget(struct site *site)
{
	const uint64_t turn = site->live->turn;
	struct json *json = log_record("forgotten");

	changes++;
	log_counters(json, (unsigned)(site - sites), log_live());
	log_commit(json);
	log_live()->replays[site - sites] = 0;
	*site->live = (struct live_site){.turn = turn + 1};
}

/* Of a full table the place of the site that has not come for the longest. A chain without rules
 * may be another each time it comes, as of a kernel that is told a seed: most of these get none. */
static struct site *place_for(bool by_rule)
{
	static unsigned refused;
	struct site *oldest = NULL;

	if (site_count < SITES)
		return &sites[site_count++];
	if (!by_rule && ++refused % 16)
		return NULL;
	for (int i = 0; i < SITES; i++)
		if ((!oldest || sites[i].latest < oldest->latest) && !in_use(&sites[i]))
			oldest = &sites[i];
	if (oldest)
		forget(oldest);
	return oldest;
}

/* A chain with a step that has a rule but no meaning is never replaced (spec.c): what else it is
 * told does not make it another one. */
static bool never_replaced(const struct chain *chain)
{
	for (int i = 1; i < chain->step_count; i++)
		if (chain->steps[i].meaning.role == ROLE_OPAQUE)
			return true;
	return false;
}

static uint64_t key_of(const struct chain *chain, uint64_t opener, uint64_t closer)
{
	const bool coarse = never_replaced(chain);
	uint64_t key = hash_mix(hash_mix(opener, closer), coarse);

	if (!all_by_rule(chain)) /* what was found by data holds for so many */
		key = hash_mix(hash_mix(key, (uint64_t)chain->steps[0].gemm.n),
			       (uint64_t)chain->steps[0].gemm.batch);
	for (int i = 1; i < chain->step_count; i++)
		key = hash_mix(key, coarse && chain->steps[i].function
					    ? chain->steps[i].function->id
					    : chain->steps[i].signature);
	return key;
}

bool site_hopeful(void)
{
	static unsigned counted;
	static bool any;

	if (counted != changes) {
		counted = changes;
		any = false;
		for (int i = 0; i < site_count; i++)
			any |= sites[i].state != SITE_DECLINED;
	}
	return any || !site_count || moment - newest < YOUNG;
}

bool site_known(const struct chain *chain)
{
	const uint64_t key = key_of(chain, opener_signature(&chain->steps[0].gemm),
				    closer_signature(&chain->closer, p_is_operand_a(chain)));

	for (int i = 0; i < site_count; i++)
		if (sites[i].key == key)
			return true;
	return false;
}

void site_waits(struct site *site, bool waits)
{
	if (site->live->reason == (waits ? REASON_LEARNING : REASON_BUDGET))
		site->live->reason = waits ? REASON_BUDGET : REASON_LEARNING;
}

bool site_openers_wait(const struct op_gemm *opener)
{
	const uint64_t signature = opener_signature(opener);
	bool any = false;

	for (int i = 0; i < site_count; i++)
		if (sites[i].state == SITE_LEARNING && sites[i].opener == signature) {
			site_waits(&sites[i], true);
			any = true;
		}
	return any;
}

static uint64_t next_moment(void)
{
	atomic_store_explicit(&fetched, false, memory_order_relaxed);
	return ++moment;
}

struct site *site_of_chain(const struct chain *chain)
{
	const bool by_rule = all_by_rule(chain);
	const uint64_t opener = opener_signature(&chain->steps[0].gemm);
	const uint64_t closer = closer_signature(&chain->closer, p_is_operand_a(chain));
	const struct op_gemm *gemm = &chain->steps[0].gemm;
	const uint64_t scores = (uint64_t)(gemm->m * gemm->n * gemm->batch);
	const uint64_t key = key_of(chain, opener, closer);
	struct live_site *live;
	struct site *site;

	next_moment();
	for (int i = 0; i < site_count; i++)
		if (sites[i].key == key) {
			if (sites[i].watches < WATCHES)
				sites[i].watches = WATCHES;
			sites[i].latest = moment;
			sites[i].apart[1] = sites[i].apart[0];
			sites[i].apart[0] = sites[i].openers;
			sites[i].openers = 0;
			sites[i].patient = !sites[i].patient;
			return &sites[i];
		}
	site = place_for(by_rule);
	if (!site)
		return NULL;
	live = &log_live()->sites[site - sites];
	*site = (struct site){
		.number = (int)log_site_number((unsigned)(site - sites), live),
		.key = key,
		.latest = moment,
		.opener = opener,
		.closer = closer,
		.step_count = chain->step_count,
		.value_count = chain->value_count,
		.by_data = !by_rule,
		.rows = gemm->n,
		.batch = gemm_part(gemm),
		.measured = chain->measured,
		.triangle = chain->triangle,
		.round = site_rounds(),
		.watches = WATCHES,
		.interval = config()->sample,
		.live = live,
	};
	changes++;
	newest = moment;
	for (int i = 1; i < chain->step_count; i++)
		site->steps[i] = chain->steps[i].signature;
	for (int i = 1; i < chain->step_count; i++) {
		site->launch_keys[i] = chain->steps[i].launch_key;
		site->launch_refs[i] = chain_refs_of_step(&chain->steps[i]);
		site->first_values[i] = chain->steps[i].first_value;
	}
	site->first_values[chain->step_count] = chain->value_count;
	for (int i = 0; i < chain->value_count; i++) {
		site->values[i].bytes = chain->values[i].end - chain->values[i].begin;
		site->values[i].keys = site->values[i].bytes % scores ? 0 : chain->steps[0].gemm.m;
		site->values[i].outside = chain->values[i].outside;
		site->values[i].left = chain->triangle && i == chain->p_value;
	}
	log_live()->site_count = (uint32_t)site_count;
	site->live->reason = config()->mode < MODE_REPLACE ? REASON_MODE : REASON_LEARNING;
	TRACEPOINT2(site_new, site->number, scores);
	message_debug("site %d is new: %d steps, scores of %" PRIu64 " elements", site->number,
		      site->step_count + 1, scores);
	return site;
}

bool site_awaits(const struct op_gemm *gemm, enum site_state state)
{
	const uint64_t signature = opener_signature(gemm);

	for (int i = 0; i < site_count; i++)
		if (sites[i].state == state && sites[i].opener == signature)
			return true;
	return false;
}

#define LONGEST_PAUSE 64

void site_pause(struct site *site)
{
	site->excused++;
	if (site->pause) /* several of its chains were met at once */
		return;
	site->pause = 2u << site->pauses;
	if (site->pause < LONGEST_PAUSE)
		site->pauses++;
}

bool site_pauses(const struct op_gemm *opener)
{
	struct site_set set;
	bool all = site_candidates(&set, opener);

	for (int i = 0; i < site_count; i++)
		if (set.bits[i / 64] >> (i % 64) & 1)
			all &= sites[i].pause > 0;
	for (int i = 0; i < site_count && all; i++)
		if (set.bits[i / 64] >> (i % 64) & 1)
			sites[i].pause--;
	return all;
}

/* Is it time to look for the site, so many products after it came? */
static bool is_awaited(const struct site *site)
{
	const unsigned *apart = site->apart;

	return !site->patient || site->openers >= (apart[0] < apart[1] ? apart[0] : apart[1]);
}

bool site_wants_watch(const struct op_gemm *gemm)
{
	const uint64_t signature = opener_signature(gemm);
	struct site *wants = NULL;

	for (int i = 0; i < site_count; i++) {
		if (sites[i].state != SITE_LEARNING || sites[i].opener != signature)
			continue;
		sites[i].openers++;
		if (!wants && sites[i].watches && is_awaited(&sites[i]))
			wants = &sites[i];
	}
	if (wants)
		wants->watches--;
	return wants != NULL;
}

/* Holding back what mostly turns out to be another site's chain costs more than it gains: then only
 * a few are tried. */
static bool breaks_often(struct site *site)
{
	if (site->broken < 8 || site->broken < site->live->replaced)
		return false;
	return site->broken++ % 32 != 0;
}

void site_note_broken(const struct site_set *set)
{
	for (int i = 0; i < site_count; i++)
		if (set->bits[i / 64] >> (i % 64) & 1)
			sites[i].broken++;
}

const struct site *site_model(const struct chain *chain, uint64_t launch_key,
			      const struct access_list *list)
{
	const int step = chain->step_count, new_pointers = chain_new_pointers(chain, list);
	const uint64_t refs = chain_refs_of(chain, list);

	for (int i = 0; i < site_count; i++)
		if ((chain->candidates->bits[i / 64] >> (i % 64) & 1) && sites[i].by_data &&
		    sites[i].state == SITE_VERIFIED && sites[i].step_count > step &&
		    sites[i].launch_keys[step] == launch_key &&
		    sites[i].launch_refs[step] == refs &&
		    sites[i].first_values[step] == chain->value_count &&
		    sites[i].first_values[step + 1] - sites[i].first_values[step] == new_pointers)
			return &sites[i];
	return NULL;
}

void site_agrees(struct site *site, int64_t keys)
{
	if (!site->keys[0])
		site->keys[0] = keys;
	else if (!site->keys[1] && keys != site->keys[0])
		site->keys[1] = keys;
}

static bool holds_for(const struct site *site, const struct op_gemm *opener)
{
	return !site->by_data || (site->rows == opener->n && site->batch == opener->batch &&
				  (site->keys[1] || site->keys[0] == opener->m));
}

/* Several copies, and the wait for them, are the end of one. */
static void end_round(bool by_copy)
{
	if (!atomic_exchange_explicit(&fetched, by_copy, memory_order_relaxed))
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
}

unsigned site_rounds(void)
{
	return atomic_load_explicit(&rounds, memory_order_relaxed);
}

void site_round_over(void)
{
	end_round(false);
}

void site_round_fetched(void)
{
	end_round(true);
}

/* A program may never wait, and a site may come once, or be too dear to compare. */
#define ROUND_MOST  64 /* occurrences */
#define ROUNDS_MOST 3

bool site_early(const struct op_gemm *opener)
{
	const unsigned now = site_rounds();

	for (int i = 0; i < site_count && opener->atype == CUDA_R_32F; i++) {
		const struct site *site = &sites[i];
		const unsigned since = now - site->round;

		if (site->dtype == ATTN_F32 && site->state != SITE_DECLINED &&
		    site->live->seen < ROUND_MOST && moment - site->latest < ROUND_MOST &&
		    (!since || (!site->live->compared && since < ROUNDS_MOST)))
			return true;
	}
	return false;
}

bool site_candidates(struct site_set *set, const struct op_gemm *opener)
{
	const uint64_t signature = opener_signature(opener);
	bool any = false;

	memset(set, 0, sizeof(*set));
	for (int i = 0; i < site_count; i++)
		if (sites[i].state == SITE_VERIFIED && sites[i].opener == signature &&
		    holds_for(&sites[i], opener) && !breaks_often(&sites[i])) {
			set->bits[i / 64] |= 1ull << (i % 64);
			any = true;
		}
	return any;
}

bool site_candidates_to_learn(struct site_set *set, const struct op_gemm *opener)
{
	const uint64_t signature = opener_signature(opener);
	bool any = site_candidates(set, opener);

	for (int i = 0; i < site_count; i++)
		if (sites[i].state == SITE_LEARNING && sites[i].opener == signature &&
		    !sites[i].by_data) {
			set->bits[i / 64] |= 1ull << (i % 64);
			any = true;
		}
	return any;
}

bool site_filter(struct site_set *set, int step, uint64_t signature)
{
	bool any = false;

	for (int i = 0; i < site_count; i++) {
		if (!(set->bits[i / 64] >> (i % 64) & 1))
			continue;
		if (step < sites[i].step_count && sites[i].steps[step] == signature)
			any = true;
		else
			set->bits[i / 64] &= ~(1ull << (i % 64));
	}
	return any;
}

bool site_set_any(const struct site_set *set)
{
	for (int i = 0; i < SITES / 64; i++)
		if (set->bits[i])
			return true;
	return false;
}

struct site *site_match_close(const struct site_set *set, const struct chain *chain)
{
	const uint64_t closer = closer_signature(&chain->closer, p_is_operand_a(chain));

	for (int i = 0; i < site_count; i++)
		if ((set->bits[i / 64] >> (i % 64) & 1) &&
		    sites[i].step_count == chain->step_count && sites[i].closer == closer &&
		    (sites[i].state == SITE_VERIFIED ||
		     (chain->recorded && sites[i].state == SITE_LEARNING))) {
			sites[i].latest = next_moment();
			return &sites[i];
		}
	return NULL;
}

static void write_state(const struct site *site)
{
	struct json *json = log_record("state");

	TRACEPOINT4(site_state, site->number, site->live->seen, site->state, site->reason);
	if (!json)
		return;
	json_int(json, "site", site->number);
	json_uint(json, "occurrence", site->live->seen);
	json_string(json, "state", log_state_name(site->state));
	if (site->state == SITE_DECLINED) {
		json_string(json, "reason", log_reason_name(site->reason));
		json_string(json, "detail", site->detail);
	}
	log_commit(json);
}

/* The log's counters say it, too. */
static void turn_to(struct site *site, enum site_state state)
{
	site->state = state;
	site->live->state = state;
}

void site_decline(struct site *site, enum reason reason, const char *detail)
{
	if (site->state == SITE_DECLINED)
		return;
	turn_to(site, SITE_DECLINED);
	changes++;
	site->reason = reason;
	snprintf(site->detail, sizeof(site->detail), "%s", detail ? detail : "");
	site->live->reason = reason;
	message_info("site %d declined: %s %s", site->number, log_reason_name(reason),
		     site->detail);
	write_state(site);
}

void site_verify(struct site *site)
{
	const unsigned met = site->met + site->perhaps_met;

	if (site->state != SITE_LEARNING)
		return;
	/* Each time but the latest, whose readers may still come; once may have been chance. */
	if (site->met >= 1 && met + 1 >= site->live->seen) {
		if (met >= 2)
			site_decline(site, REASON_SCORES_READ_BY, site->met_by);
		return;
	}
	turn_to(site, SITE_VERIFIED);
	site_waits(site, false);
	if (site->live->reason == REASON_LEARNING || site->live->reason == REASON_NOTHING_COMPARED)
		site->live->reason = REASON_NONE;
	message_info("site %d verified", site->number);
	write_state(site);
}

void site_round(struct site *site, int32_t round_s)
{
	site->round_s = round_s;
	site->passed = site->samples = 0;
	site->app_us = site->fused_us = 0;
	site->watches = WATCHES;
	if (site->state != SITE_VERIFIED)
		return;
	turn_to(site, SITE_LEARNING);
	if (site->live->reason == REASON_NONE)
		site->live->reason = REASON_LEARNING;
	write_state(site);
}
