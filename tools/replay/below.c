/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-ins for files of the shim that launch, compare or look around (below.h); for the driver:
 * below_driver.c.
 */
#include "tools/replay/below.h"

#include <stdio.h>
#include <string.h>

#include "shim/gpu/blas.h"
#include "shim/real/bypass.h"
#include "shim/act/compare.h"
#include "shim/real/image.h"
#include "shim/gpu/fused.h"
#include "shim/ask/identify.h"
#include "shim/gpu/looks.h"
#include "shim/ask/measure.h"
#include "shim/gpu/nvtx.h"
#include "shim/ask/overwrite.h"
#include "shim/ask/reach.h"
#include "shim/real/resolve.h"
#include "shim/real/library.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/timing.h"

#define MAX_VARIANTS 256

struct below below;

void below_note(struct act act)
{
	below.count[act.kind]++;
	if (act.kind == ACT_COPY && act.b >= BELOW_SCRATCH)
		below.saved += act.bytes * (act.rows ? act.rows : 1);
	if (below.acts < BELOW_ACTS)
		below.act[below.acts++] = act;
}

void below_reset(void)
{
	const int64_t scratch = below.scratch;

	memset(&below, 0, sizeof(below));
	below.scratch = scratch;
}

void *real_dlsym(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

int blas_version(const struct library *library)
{
	(void)library;
	return 130000;
}

/* ---- shim/gpu/blas.c
 * -------------------------------------------------------------------------------
 */

int blas_prepare(const struct library *library, CUcontext context)
{
	(void)library, (void)context;
	return 0;
}

int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
	     uint64_t c)
{
	(void)gemm, (void)context;
	below_note((struct act){.kind = ACT_GEMM, .a = a, .b = b, .c = c, .stream = stream});
	return below.no_rerun ? -1 : 0;
}

void blas_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/gpu/scratch.c
 * ----------------------------------------------------------------------------
 */

uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must)
{
	static uint64_t next = BELOW_SCRATCH;
	uint64_t address = next;

	(void)context, (void)stream;
	if (below.no_scratch && !must)
		return 0;
	if (++below.scratch > below.scratch_most)
		below.scratch_most = below.scratch;
	next += (bytes + 511) & ~511ull;
	return address;
}

void scratch_put(uint64_t address, CUstream stream)
{
	(void)stream;
	if (address)
		below.scratch--;
}

void scratch_forget(CUcontext context)
{
	(void)context;
}

void scratch_stream_gone(CUstream stream)
{
	(void)stream;
}

bool scratch_trim(CUcontext context)
{
	(void)context;
	return false;
}

void scratch_take_leaving(struct scratch_leaving *leaving)
{
	leaving->count = 0;
}

void scratch_free(const struct scratch_leaving *leaving)
{
	(void)leaving;
}

/* ---- shim/gpu/fused.c
 * ------------------------------------------------------------------------------
 */

bool fused_prepared(CUcontext context)
{
	(void)context;
	return true;
}

int fused_prepare(CUcontext context)
{
	(void)context;
	return 0;
}

static const uint8_t *every_kernel(void)
{
	static uint8_t available[MAX_VARIANTS];

	memset(available, 1, sizeof(available));
	return attn_variant_total <= MAX_VARIANTS ? available : NULL;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	(void)context;
	if (below.no_kernel)
		return NULL;
	if (below.odd && args->q.base % 16)
		return below.odd;
	return attn_select_from(args, 90, NULL, every_kernel());
}

const char *fused_chosen_by(CUcontext context, const struct attn_args *args)
{
	(void)context, (void)args;
	return "built_in";
}

static void look(CUcontext context, CUstream stream, const struct attn_variant *variant,
		 const struct attn_args *args)
{
	struct attn_look look;
	bool made = false;

	if (!attn_launch_look(&look, variant, args))
		return;
	looks_get(context, stream, &look, &made);
	below.looks++;
	below.looked += made;
}

static bool loaded[256]; /* of attn_variants */

void below_unload(void)
{
	memset(loaded, 0, sizeof(loaded));
}

int fused_load(CUcontext context, const struct attn_variant *variant)
{
	(void)context;
	loaded[variant - attn_variants] = true;
	return 0;
}

bool fused_loaded(CUcontext context, const struct attn_variant *variant)
{
	(void)context;
	return loaded[variant - attn_variants];
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args)
{
	if (below.no_fused || fused_load(context, variant))
		return -1;
	look(context, stream, variant, args);
	below.args = *args;
	below_note((struct act){.kind = ACT_FUSED,
				.a = args->q.base,
				.b = args->o.base,
				.c = args->k.base,
				.stream = stream});
	return 0;
}

int fused_complement(CUcontext context, CUstream stream, const struct complement_args *args)
{
	(void)context;
	if (args->out)
		below_note((struct act){
			.kind = ACT_COMPLEMENT, .a = args->in, .b = args->out, .stream = stream});
	return 0;
}

int fused_slopes(CUcontext context, CUstream stream, const struct slopes_args *args)
{
	(void)context;
	if (args->out)
		below_note((struct act){.kind = ACT_SLOPES,
					.a = args->slopes.base,
					.b = args->out,
					.stream = stream});
	return 0;
}

/* Nobody looks at memory here. */
int fused_find_addresses(CUcontext context, CUstream stream, const struct addresses_args *args)
{
	(void)context, (void)stream, (void)args;
	return -1;
}

/* The driver's copy by rows is looked at instead. */
int fused_copy_rows(CUcontext context, CUstream stream, uint64_t to, uint64_t from, uint64_t width,
		    uint64_t pitch, uint64_t rows)
{
	(void)context, (void)stream, (void)to, (void)from, (void)width, (void)pitch, (void)rows;
	return -1;
}

int fused_lay_out(CUcontext context, CUstream stream, const struct relayout *copy)
{
	(void)context;
	below_note((struct act){.kind = ACT_LAY_OUT,
				.a = copy->in_begin,
				.b = copy->out_begin,
				.bytes = copy->out_end - copy->out_begin,
				.stream = stream});
	return 0;
}

void fused_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/ask/overwrite.c
 * ---------------------------------------------------------------------------
 */

void overwrite_refine(const struct sight *sight)
{
	(void)sight;
}

/* ---- shim/ask/reach.c
 * -------------------------------------------------------------------------------
 */

void reach_refine(const struct sight *sight, bool may_ask)
{
	(void)may_ask;
	sight->list->far = below.far;
	sight->list->unsettled = below.unsettled;
}

void reach_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/gpu/nvtx.c
 * --------------------------------------------------------------------------------
 */

void nvtx_look(void)
{
}

bool nvtx_push(const char *what, const struct attn_variant *variant, const struct attn_args *args)
{
	(void)what, (void)variant, (void)args;
	return false;
}

void nvtx_pop(bool pushed)
{
	(void)pushed;
}

/* ---- shim/gpu/timing.c
 * ------------------------------------------------------------------------------
 */

struct timing *timing_begin(CUcontext context, CUstream stream)
{
	(void)context, (void)stream;
	return NULL;
}

void timing_start(struct timing *timing, enum timing_part part)
{
	(void)timing, (void)part;
}

void timing_stop(struct timing *timing)
{
	(void)timing;
}

void timing_drop(struct timing *timing)
{
	(void)timing;
}

/* ---- shim/act/compare.c
 * ----------------------------------------------------------------------------
 */

void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   struct timing *timing)
{
	(void)order, (void)timing;
	fused_load(chain->context, variant);
	below.verdicts++;
	below.site = site->number;
	below.args = *args;
	site_agrees(site, args->Sk);
	if (++site->passed >= 2)
		site_verify(site);
}

void compare_poll(void)
{
}

void compare_wait(const struct site *site, uint64_t most_ns)
{
	(void)site;
	below.waited_ns = most_ns;
}

void compare_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/ask
 * ----------------------------------------------------------------------------
 */

/* No kernel runs here: the first of what it may be. */
const char *identify_chain(struct identity *identity, const struct attn_args *args,
			   const struct chain *chain, char *detail, size_t size)
{
	int pointers;
	uint64_t room;
	const uint64_t pointer = identity_pointer(chain, &pointers, &room);

	snprintf(detail, size, "no kernel runs here");
	if (pointers > 1)
		return detail;
	below.guesses = guess_specs(below.guess, GUESSES, args, chain);
	guess_adopt(identity, &below.guess[0], pointer);
	return NULL;
}

/* No kernel runs here: what is not read later counts as an input. */
const char *measure_chain(struct chain *chain, bool *waits)
{
	(void)chain, (void)waits;
	return NULL;
}

/* ---- shim/real/image.c
 * ------------------------------------------------------------------------------
 */

bool image_by_soname(const char *soname, bool prefix, struct image *image)
{
	(void)soname, (void)prefix, (void)image;
	return false;
}

void *image_symbol(const struct image *image, const char *name)
{
	(void)image, (void)name;
	return NULL;
}

bool image_of(const void *address, struct image *image)
{
	(void)address, (void)image;
	return false;
}

/* ---- shim/real/bypass.c
 * -----------------------------------------------------------------------------
 */

bool bypassed(const char **why)
{
	*why = "";
	return false;
}
