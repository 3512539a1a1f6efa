/* SPDX-License-Identifier: Apache-2.0
 *
 * A log says the form of a site itself; of an older one, that does not, the plain sites can be told
 * from their dimensions, taken to be contiguous.
 */
#include "tools/tune/shapes.h"
#include "tools/base/tool.h"
#include "tools/read/log_paths.h"
#include "tools/tune/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual[] = {
	"1,8,512,512,64",	     /* the shape that the ladder was climbed on */
	"8,12,384,384,64",	     /* BERT base, questions */
	"4,16,128,128,64,bf16",	     /* BERT large, sentences */
	"1,12,1024,1024,64,causal",  /* GPT-2 */
	"1,32,2048,2048,128,causal", /* Llama, a prompt */
	"16,12,197,197,64",	     /* ViT base: an odd number of patches */
	"2,8,4096,4096,40",	     /* Stable Diffusion, the widest layer */
	"1,20,1500,1500,64",	     /* Whisper large, the encoder */
	"1,32,1,2048,128",	     /* Llama, a token */
	"8,16,4,1024,64,causal",     /* a few tokens at a time */
};

static int add_form(struct tune_shapes *shapes, const struct call_form *wanted)
{
	struct call_form form = *wanted, *more;
	struct attn_args args;
	uint64_t bytes;
	const int result = tune_layout(&args, &form, 256, &bytes);

	if (result)
		return result;
	for (int i = 0; i < shapes->count; i++)
		if (!memcmp(&shapes->forms[i], &form, sizeof(form)))
			return 0;
	more = reallocarray(shapes->forms, (size_t)shapes->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	shapes->forms = more;
	more[shapes->count++] = form;
	return 0;
}

int tune_shapes_add(struct tune_shapes *shapes, const char *text)
{
	struct call_form form;
	const int result = call_form_parse(&form, text, strlen(text));

	return result ? result : add_form(shapes, &form);
}

int tune_shapes_add_usual(struct tune_shapes *shapes)
{
	int result = 0;

	for (size_t i = 0; !result && i < sizeof(usual) / sizeof(usual[0]); i++)
		result = tune_shapes_add(shapes, usual[i]);
	return result;
}

void tune_shapes_free(struct tune_shapes *shapes)
{
	free(shapes->forms);
	memset(shapes, 0, sizeof(*shapes));
}

/* ---- logs ----------------------------------------------------------------------------------- */

/* The form of a site's record; "" where it cannot be told. */
static const char *form_of(const json_t *record, char text[FORM_TEXT])
{
	const char *mask = text_of(record, "mask");
	const bool causal = !strcmp(mask, "causal");

	snprintf(text, FORM_TEXT, "%s", text_of(record, "form"));
	if (*text || (!causal && strcmp(mask, "none")))
		return text;
	snprintf(text, FORM_TEXT, "%.0f,%.0f,%.0f,%.0f,%.0f,%s,dv=%.0f%s%s",
		 number_of(record, "B", 0), number_of(record, "H", 0), number_of(record, "Sq", 0),
		 number_of(record, "Sk", 0), number_of(record, "D", 0), text_of(record, "dtype"),
		 number_of(record, "Dv", 0), causal ? ",causal" : "",
		 number_of(record, "softcap", 0) != 0 ? ",softcap" : "");
	return text;
}

static int add_site(struct tune_shapes *shapes, const char *path, const struct site_log *site)
{
	char text[FORM_TEXT];
	int result;

	if (!site->record)
		return 0;
	result = tune_shapes_add(shapes, form_of(site->record, text));
	if (result == -EINVAL)
		complain("%s: site %u: the log does not tell the form of its calls; skipped", path,
			 site->number);
	else if (result == -ENOTSUP)
		complain("%s: site %u: %s cannot be rebuilt; skipped", path, site->number, text);
	return result == -ENOMEM ? result : 0;
}

int tune_shapes_add_log(struct tune_shapes *shapes, const char *path)
{
	struct log_set set = {0};
	int result = log_set_read(&set, path, 0);

	if (set.count)
		result = 0;
	for (int r = 0; r < set.count; r++)
		for (uint32_t s = 0; !result && s < set.runs[r]->site_count; s++)
			if (set.runs[r]->sites[s])
				result = add_site(shapes, path, set.runs[r]->sites[s]);
	log_set_free(&set);
	return result;
}
