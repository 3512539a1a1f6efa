/* SPDX-License-Identifier: Apache-2.0
 *
 * The log's record of a site: what it computes, how its calls look, where the program makes them.
 */
#include <stdio.h>

#include "shim/gpu/call_form.h"
#include "shim/base/cost.h"
#include "shim/site/callstack.h"
#include "shim/gpu/fused.h"
#include "shim/log/log.h"
#include "shim/site/site.h"
#include "shim/spec/spec.h"
#include "shim/base/message.h"

static const char *dtype_name(int dtype)
{
	return dtype == ATTN_F16    ? "f16"
	       : dtype == ATTN_BF16 ? "bf16"
	       : dtype == ATTN_F32  ? "f32"
				    : "?";
}

static void write_stack(struct json *json, const char *key, const struct callstack *stack)
{
	json_open_array(json, key);
	for (int i = 0; i < stack->count; i++)
		json_string(json, NULL, stack->frame[i]);
	json_close(json);
}

/* Which buffers the values shared, e.g. "P over S": allocators change it from layer to layer. */
static void describe_aliasing(const struct chain *chain, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 1; i < chain->value_count; i++)
		for (int k = 0; k < i && used < size; k++)
			if (range_overlap(chain->values[i].begin, chain->values[i].end,
					  chain->values[k].begin, chain->values[k].end))
				used += (size_t)snprintf(text + used, size - used, "%sv%d over v%d",
							 used ? ", " : "", i, k);
	for (int i = 1; i < chain->value_count; i++)
		for (int k = 0; k < 2 && used < size; k++)
			if (range_overlap(chain->values[i].begin, chain->values[i].end,
					  chain->inputs[k].begin, chain->inputs[k].end))
				used += (size_t)snprintf(text + used, size - used, "%sv%d over %s",
							 used ? ", " : "", i, k ? "Q" : "K");
}

static void take_stacks(struct callstack *native, struct callstack *python)
{
	COST(PURPOSE_NAMING);
	callstack_python(python);
	callstack_native(native);
}

void site_announce(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const char *kernel)
{
	struct callstack native, python;
	struct call_form form;
	char text[256];
	struct json *json;

	call_form_of(&form, args);
	take_stacks(&native, &python);
	json = log_record("site");
	json_int(json, "site", site->number);
	json_int(json, "B", args->B);
	json_int(json, "H", args->H);
	json_int(json, "Sq", args->Sq);
	json_int(json, "Sk", args->Sk);
	json_int(json, "D", args->D);
	json_int(json, "Dv", args->Dv);
	json_string(json, "dtype", dtype_name(args->q.dtype));
	json_double(json, "scale", (double)args->spec.scale);
	json_double(json, "softcap", (double)args->spec.softcap);
	spec_describe_mask(args, text, sizeof(text));
	json_string(json, "mask", text);
	json_string(json, "form", call_form_text(&form, text));
	json_string(json, "kernel", kernel);
	if (*kernel)
		json_string(json, "chosen_by", fused_chosen_by(chain->context, args));
	json_string(json, "route",
		    !site->by_data   ? "rule"
		    : site->measured ? "identification"
				     : "data");
	json_open_array(json, "chain");
	for (int i = 0; i < chain->step_count; i++)
		json_string(json, NULL, chain->steps[i].name);
	json_string(json, NULL, chain->closer.entry);
	json_close(json);
	describe_aliasing(chain, text, sizeof(text));
	json_string(json, "aliasing", text);
	write_stack(json, "python", &python);
	write_stack(json, "stack", &native);
	log_commit(json);
	message_debug("site %d: %s by %s%s%s", site->number, call_form_text(&form, text),
		      *kernel ? kernel : "no kernel", python.count ? ", at " : "",
		      python.count ? python.frame[0] : "");
}

void site_record_identity(const struct site *site, const struct attn_args *args)
{
	struct json *json = log_record("identify");
	char text[256];

	json_int(json, "site", site->number);
	json_uint(json, "question", site->questions);
	json_string(json, "answer", site->identified ? "found" : site->unanswered);
	if (site->identified) {
		spec_describe_mask(args, text, sizeof(text));
		json_double(json, "scale", (double)args->spec.scale);
		json_double(json, "softcap", (double)args->spec.softcap);
		json_string(json, "mask", text);
		json_int(json, "heads", args->H);
	}
	log_commit(json);
}
