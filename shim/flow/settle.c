/* SPDX-License-Identifier: Apache-2.0
 *
 * What is held back is made in an order (settle.h): a launch that waits for its copy, then copies,
 * then scores, which may be made of them; last whoever looks is ordered behind all of it.
 */
#include "shim/flow/settle.h"

#include <string.h>

#include "shim/ask/addresses.h"
#include "shim/ask/first_look.h"
#include "shim/ask/extent.h"
#include "shim/base/message.h"
#include "shim/gpu/ahead.h"
#include "shim/flow/capture.h"
#include "shim/act/compare.h"
#include "shim/act/delivery.h"
#include "shim/hazard/copies.h"
#include "shim/rules/function.h"
#include "shim/gpu/fused.h"
#include "shim/act/graph_copy.h"
#include "shim/hazard/held.h"
#include "shim/hazard/holes.h"
#include "shim/gpu/late.h"
#include "shim/gpu/looks.h"
#include "shim/ask/mirror.h"
#include "shim/ask/reach.h"
#include "shim/act/replace.h"
#include "shim/rules/shadow.h"
#include "shim/gpu/scratch.h"

static void make_real(const char *who)
{
	replace_settle();
	copies_realise_all(who);
	held_realise_all(who);
	late_host_waits_all();
}

static void drop_all_chains(void)
{
	while (chain_live > 0)
		held_drop(chain_list[0]);
}

void settle_all(const char *who)
{
	shadow_clear();
	make_real(who);
	looks_forget();
	holes_forget();
}

void settle_and_forget(const char *who)
{
	settle_all(who);
	drop_all_chains();
}

void settle_to_rest(const char *who)
{
	settle_and_forget(who);
	delivery_forget();
	addresses_forget_launches();
	reach_take_answers();
}

void settle_finally(bool in_time)
{
	held_end();
	if (in_time)
		make_real("exit");
	else if (held_count)
		message_info("the process ends past exit(): scores that were held back are not "
			     "computed");
	drop_all_chains();
}

void settle_teardown(const struct op *op)
{
	settle_and_forget(op->name);
	addresses_forget_launches();
	if (strstr(op->name, "Ctx")) {
		CUcontext context = op->handle ? op->handle : op->context;

		graph_copy_forget_context(context);
		late_forget(context, NULL);
		reach_forget(context);
		mirrors_forget(context);
		holes_forget_context(context);
		addresses_forget_context(context);
		first_look_forget(context);

		compare_forget(context);
		scratch_forget(context);
		ahead_forget(context);
		fused_forget(context);
	} else if (strstr(op->name, "Stream")) {
		graph_copy_forget_stream(op->handle);
		scratch_stream_gone(op->handle);
		late_forget(NULL, op->handle);
	} else {
		function_forget_all();
		extent_forget();
	}
}

/* Everything is as the program believes, and nothing is begun meanwhile. */
void settle_before_capture(const struct op *op)
{
	make_real(op->name);
	drop_all_chains();
	graph_copies_before_capture();
	/* What a recorded stream is given cannot be ordered behind anything outside: it is by
	 * make_real(). */
	late_forget(NULL, NULL);
	reach_take_answers();
	capture_expect();
}
