/* SPDX-License-Identifier: Apache-2.0
 *
 * The core is not asked to explain itself: after each op its chains, sites and counters are held
 * against what they were before, and each difference is put into words. So the explanation can
 * neither change what is decided nor differ from it.
 */
#include "tools/replay/explain.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/log/log_counters.h"
#include "shim/chain/chain.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"
#include "tools/replay/feed.h"
#include "tools/replay/records.h"
#include "tools/replay/words.h"

/* A chain as it was after the op before. */
struct shadow {
	struct replay_story story;
	bool closed, deferred;
	int steps, snapshots;
	enum reason unfit;
};

/* A site likewise. */
struct site_shadow {
	struct live_site live;
	unsigned readers;
	enum site_state state;
};

static struct {
	void (*tell)(const struct replay_story *story, void *argument);
	void *argument;
	struct replay_result *result;
	struct shadow *chains[CHAIN_COUNT];
	int chain_count;
	struct site_shadow sites[SITES];
	const struct op *op; /* the present one */
	long number;
} now;

/* ---- one chain ------------------------------------------------------------------------------ */

static int snapshots_of(const struct chain *chain)
{
	int count = 0;

	for (int i = 0; i < chain->input_count; i++)
		count += chain->inputs[i].snapshot != 0;
	return count;
}

/* The site whose counter, an offset into struct live_site, moved with this op, or NULL. */
static const struct site *moved(size_t counter)
{
	for (int i = 0; i < site_count; i++)
		if (memcmp((const char *)sites[i].live + counter,
			   (const char *)&now.sites[i].live + counter, sizeof(uint64_t)))
			return &sites[i];
	return NULL;
}

#define MOVED(counter) moved(offsetof(struct live_site, counter))

static void say_closed(struct replay_story *story)
{
	const struct site *site = MOVED(seen);

	if (!site)
		return;
	if (MOVED(replaced)) {
		words(story, "closes it: site %d; all of it is done by one fused launch",
		      site->number);
		return;
	}
	words(story, "closes it: site %d [%lld,%lld,%lld,%lld,%lld]%s", site->number,
	      (long long)site->B, (long long)site->H, (long long)site->Sq, (long long)site->Sk,
	      (long long)site->D, now.sites[site - sites].live.seen ? "" : ", a new one");
	if (now.sites[site - sites].state == SITE_DECLINED)
		words_reason(story, "left alone, it was declined before", site->reason,
			     site->detail);
	else if (MOVED(compared))
		words(story, "the fused kernel runs beside it; taken to agree");
	else if (site->state == SITE_LEARNING)
		words(story, "only looked at: the next one is timed and compared");
	if (site->state == SITE_VERIFIED && now.sites[site - sites].state != SITE_VERIFIED)
		words(story, "site %d is verified: from now on it is held back and replaced",
		      site->number);
}

/* What became of sites, said in the story of a chain that has to do with them. */
static void say_declined(struct replay_story *story)
{
	for (int i = 0; i < site_count; i++) {
		char what[40];

		if (sites[i].state != SITE_DECLINED || now.sites[i].state == SITE_DECLINED)
			continue;
		snprintf(what, sizeof(what), "site %d declined", sites[i].number);
		words_reason(story, what, sites[i].reason, sites[i].detail);
	}
}

static void say_changes(struct shadow *shadow, const struct chain *chain)
{
	struct replay_story *story = &shadow->story;
	const struct site *site = chain->site;

	for (int i = shadow->steps; i < chain->step_count; i++)
		words_step(story, chain, i);
	if (chain->unfit != shadow->unfit)
		words_reason(story, "can not be replaced any more", chain->unfit, chain->detail);
	if (snapshots_of(chain) > shadow->snapshots)
		words(story,
		      "may overwrite an input that is still needed: the input is copied first");
	if (chain->closed && !shadow->closed)
		say_closed(story);
	else if (shadow->deferred && !chain->deferred)
		words(story, "may see what is held back: it is run first, in order");
	if (site && site->readers != now.sites[site - sites].readers)
		words(story, "may read the scores after the close (sighting %u)", site->readers);
}

/* The chain is gone: what was it? */
static void say_end(struct shadow *shadow)
{
	struct replay_story *story = &shadow->story;

	if (shadow->closed && MOVED(materialised))
		words(story,
		      "may read scores that were never written: they are computed after all");
	else if (shadow->closed)
		words(story, "overwrites or frees the last of its scores, which nobody read: done");
	else if (MOVED(seen))
		say_closed(story);
	else if (records.decline_count)
		words_reason(story, "given up", records.declines[0].reason,
			     records.declines[0].detail);
	else if (now.op->kind == OP_GEMM || now.op->kind == OP_LAUNCH)
		words(story,
		      "given up: no GEMM multiplied the scores with anything within %d ops, or "
		      "they were overwritten",
		      CHAIN_PATIENCE);
	else
		words(story, "given up: the scores are gone before a GEMM used them");
	say_declined(story);
}

/* ---- after each op -------------------------------------------------------------------------- */

static struct chain *chain_with(uint64_t serial)
{
	for (int i = 0; i < chain_live; i++)
		if (chain_list[i]->serial == serial)
			return chain_list[i];
	return NULL;
}

static struct shadow *shadow_of(const struct chain *chain)
{
	struct shadow *shadow;

	for (int i = 0; i < now.chain_count; i++)
		if (now.chains[i]->story.chain == chain->serial)
			return now.chains[i];
	shadow = now.chain_count < CHAIN_COUNT ? calloc(1, sizeof(*shadow)) : NULL;
	if (!shadow)
		return NULL;
	now.chains[now.chain_count++] = shadow;
	shadow->story.chain = chain->serial;
	shadow->steps = 1;
	words_opened(&shadow->story, chain);
	return shadow;
}

static void finish(int index)
{
	struct shadow *shadow = now.chains[index];

	now.chains[index] = now.chains[--now.chain_count];
	now.tell(&shadow->story, now.argument);
	free(shadow);
}

/* Declines that concern no chain we know of. */
static void tell_declines(void)
{
	for (int i = 0; i < records.decline_count; i++) {
		struct replay_story story = {.chain = 0};

		words_reason(&story, "passed by", records.declines[i].reason,
			     records.declines[i].detail);
		now.tell(&story, now.argument);
	}
}

static void remember(void)
{
	for (int i = 0; i < chain_live; i++) {
		struct shadow *shadow = shadow_of(chain_list[i]);

		if (!shadow)
			continue;
		shadow->steps = chain_list[i]->step_count;
		shadow->closed = chain_list[i]->closed;
		shadow->deferred = chain_list[i]->deferred;
		shadow->unfit = chain_list[i]->unfit;
		shadow->snapshots = snapshots_of(chain_list[i]);
	}
	for (int i = 0; i < site_count; i++)
		now.sites[i] = (struct site_shadow){.live = *sites[i].live,
						    .readers = sites[i].readers,
						    .state = sites[i].state};
}

/* The number in a record of a site, 0 where it tells none. */
static int record_number(const char *record)
{
	static const char key[] = "\"site\":";
	const char *at = strstr(record, key);

	return at ? atoi(at + sizeof(key) - 1) : 0;
}

/* The latest record for a number replaces the earlier one. Numbers go round the places of the
 * core's table of sites. */
static void keep_records(void)
{
	for (int i = 0; i < records.site_count; i++) {
		const int number = record_number(records.sites[i]);
		struct replay_site *site;

		if (number < 1)
			continue;
		site = &now.result->sites[(unsigned)(number - 1) % REPLAY_SITES];
		free(site->record);
		site->number = number;
		site->record = records.sites[i];
		records.sites[i] = NULL;
	}
	records_clear();
}

static void after_op(const struct op *op, enum flow flow, void *unused)
{
	const int known = now.chain_count;
	const char *call = op->name;
	bool told = false;

	(void)flow, (void)unused;
	now.number++;
	now.op = op;
	now.result->gemms += op->kind == OP_GEMM;
	now.result->launches += op->kind == OP_LAUNCH;
	if (op->kind == OP_LAUNCH)
		driver.cuFuncGetName(&call, op->launch.function);
	words_begin(now.number, call);
	for (int i = known; i-- > 0;) {
		const struct chain *chain = chain_with(now.chains[i]->story.chain);

		if (chain) {
			say_changes(now.chains[i], chain);
			continue;
		}
		say_end(now.chains[i]);
		finish(i);
		told = true;
	}
	if (!told)
		tell_declines();
	remember();
	keep_records();
}

static void take_sites(struct replay_result *result)
{
	static const char *const states[] = {"learning", "verified", "declined"};

	_Static_assert(REPLAY_SITES == SITES, "a place of the core's table has none here");
	result->site_count = site_count;
	for (int i = 0; i < site_count; i++) {
		struct replay_site *row = &result->sites[i];
		const struct site *site = &sites[i];

		if (row->number != site->number) { /* of the site that had the place before */
			free(row->record);
			row->record = NULL;
		}
		row->number = site->number;
		row->B = site->B;
		row->H = site->H;
		row->Sq = site->Sq;
		row->Sk = site->Sk;
		row->D = site->D;
		row->Dv = site->Dv;
		row->state = states[site->state];
		row->reason = log_reason_name(site->reason);
		snprintf(row->detail, sizeof(row->detail), "%s", site->detail);
		row->seen = site->live->seen;
		row->replaced = site->live->replaced;
		row->compared = site->live->compared;
		row->materialised = site->live->materialised;
		row->snapshots = site->live->snapshots;
	}
	for (int i = 1; i < REASON_COUNT; i++) {
		if (!log_live()->reasons[i])
			continue;
		result->reasons[result->reason_count].name = log_reason_name((enum reason)i);
		result->reasons[result->reason_count].sentence = words_of_reason((enum reason)i);
		result->reasons[result->reason_count++].count = log_live()->reasons[i];
	}
}

int replay_explain(const char *path, int rounds, const char *mode,
		   void (*tell)(const struct replay_story *story, void *argument), void *argument,
		   struct replay_result *result)
{
	/* What would send the core elsewhere: other programs, files. */
	static const char *const foreign[] = {"FASHIM_RECORD", "FASHIM_ONLY", "FASHIM_SKIP"};

	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
		unsetenv(foreign[i]);
	setenv("FASHIM", mode, 1);
	setenv("FASHIM_BUDGET", "0", 1);
	memset(result, 0, sizeof(*result));
	now.tell = tell;
	now.argument = argument;
	now.result = result;
	result->ops = feed_trace(path, rounds, after_op, NULL);
	while (now.chain_count)
		finish(now.chain_count - 1);
	take_sites(result);
	return result->ops < 0 ? (int)result->ops : 0;
}
