/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-ins for files of the shim that launch, compare or look around (below.h); for the driver:
 * below_driver.c.
 */
#include "tools/replay/below.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/takes.h"
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

/* Stand-ins take what the real ones take. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* One that does nothing, and one that always says the same. */
#define NOTHING(function, ...)                                                                     \
	void function(__VA_ARGS__)                                                                 \
	{                                                                                          \
	}
#define ANSWER(type, function, answer, ...)                                                        \
	type function(__VA_ARGS__)                                                                 \
	{                                                                                          \
		return answer;                                                                     \
	}

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

ANSWER(void *, real_dlsym, NULL, void *handle, const char *name)
ANSWER(int, blas_version, 130000, const struct library *library)

/* ---- shim/gpu/blas.c */

int blas_prepare(const struct op_gemm *gemm, CUcontext context)
{
	return gemm->library && gemm->library == below.no_handle ? -EAGAIN : 0;
}

int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
	     uint64_t c)
{
	below_note((struct act){.kind = ACT_GEMM, .a = a, .b = b, .c = c, .stream = stream});
	return below.no_rerun ? -1 : 0;
}

/* ---- shim/gpu/scratch.c */

uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must)
{
	static uint64_t next = BELOW_SCRATCH;
	uint64_t address = next;

	if (below.no_scratch && !must)
		return 0;
	if (++below.scratch > below.scratch_most)
		below.scratch_most = below.scratch;
	next += (bytes + 511) & ~511ull;
	return address;
}

void scratch_put(uint64_t address, CUstream stream)
{
	if (address)
		below.scratch--;
}

NOTHING(scratch_forget, CUcontext context)
NOTHING(scratch_stream_gone, CUstream stream)
ANSWER(bool, scratch_trim, false, CUcontext context)
ANSWER(bool, scratch_leaves, false, void)

void scratch_take_leaving(struct scratch_leaving *leaving)
{
	leaving->count = 0;
}

NOTHING(scratch_free, const struct scratch_leaving *leaving)

/* ---- shim/gpu/fused.c */

ANSWER(bool, fused_prepared, true, CUcontext context)
ANSWER(int, fused_prepare, below.kernels_later &&below.kernels_later-- ? -EAGAIN : 0,
       CUcontext context)
ANSWER(int, fused_missing, 0, CUcontext context, const struct attn_variant *variant, char *detail,
       size_t size)

static const uint8_t *every_kernel(void)
{
	static uint8_t available[ATTN_VARIANTS_MOST];

	memset(available, 1, sizeof(available));
	return available;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	struct attn_args cast = *args;

	if (below.no_kernel)
		return NULL;
	if (below.odd && args->q.base % 16)
		return below.odd;
	if (args->q.dtype == ATTN_F32) /* as operand_rows.h has it */
		cast.v.dtype = ATTN_F32;
	return attn_select_from(&cast, 90, NULL, every_kernel());
}

ANSWER(const char *, fused_chosen_by, "built_in", CUcontext context, const struct attn_args *args)

static void look(CUcontext context, CUstream stream, const struct attn_variant *variant,
		 const struct attn_args *args)
{
	const struct attn_device device = {.looks = 1};
	struct attn_look look;
	bool made = false;

	if (!attn_launch_look(&look, variant, args, &device))
		return;
	looks_get(context, stream, &look, &made);
	below.looks++;
	below.looked += made;
}

static bool loaded[ATTN_VARIANTS_MOST]; /* of attn_variants */

void below_unload(void)
{
	memset(loaded, 0, sizeof(loaded));
}

int fused_load(CUcontext context, const struct attn_variant *variant)
{
	loaded[variant - attn_variants] = true;
	return 0;
}

ANSWER(bool, fused_loaded, loaded[variant - attn_variants], CUcontext context,
       const struct attn_variant *variant)

ANSWER(uint64_t, fused_scratch, 0, CUcontext context, const struct attn_variant *variant,
       const struct attn_args *args)

void fused_lend(uint64_t address)
{
	(void)address;
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
	if (args->out)
		below_note((struct act){
			.kind = ACT_COMPLEMENT, .a = args->in, .b = args->out, .stream = stream});
	return 0;
}

/* Nothing is compared here. */
ANSWER(int, fused_reference, -1, CUcontext context, CUstream stream,
       const struct reference_args *args)
ANSWER(int, fused_drift, -1, CUcontext context, CUstream stream, const struct drift_args *args)
ANSWER(int, fused_drift_sampled, -1, CUcontext context, CUstream stream,
       const struct drift_sampled_args *args)

int fused_slopes(CUcontext context, CUstream stream, const struct slopes_args *args)
{
	if (args->out)
		below_note((struct act){.kind = ACT_SLOPES,
					.a = args->slopes.base,
					.b = args->out,
					.stream = stream});
	return 0;
}

/* Nobody looks at memory here. */
ANSWER(int, fused_count_triangle, -1, CUcontext context, CUstream stream,
       const struct triangle_args *args)
ANSWER(int, fused_find_addresses, -1, CUcontext context, CUstream stream,
       const struct addresses_args *args)

/* The driver's copy by rows is looked at instead. */
ANSWER(int, fused_copy_rows, -1, CUcontext context, CUstream stream, uint64_t to, uint64_t from,
       uint64_t width, uint64_t pitch, uint64_t rows)

int fused_lay_out(CUcontext context, CUstream stream, const struct relayout *copy)
{
	below_note((struct act){.kind = ACT_LAY_OUT,
				.a = copy->in_begin,
				.b = copy->out_begin,
				.bytes = copy->out_end - copy->out_begin,
				.stream = stream});
	return 0;
}

NOTHING(fused_forget, CUcontext context)

/* ---- shim/ask/overwrite.c */

NOTHING(overwrite_refine, const struct sight *sight)

/* ---- shim/ask/reach.c */

void reach_refine(const struct sight *sight, bool may_ask)
{
	sight->list->far = below.far;
	sight->list->unsettled = below.unsettled;
	sight->list->dear = below.dear;
}

bool reach_besides(const struct function *function)
{
	return false;
}

NOTHING(reach_note, const struct op *op)
NOTHING(reach_take_answers, void)
NOTHING(reach_forget, CUcontext context)

/* ---- shim/gpu/nvtx.c */

NOTHING(nvtx_look, void)
ANSWER(bool, nvtx_push, false, const char *what, const struct attn_variant *variant,
       const struct attn_args *args)
NOTHING(nvtx_pop, bool pushed)

/* ---- shim/gpu/timing.c */

ANSWER(struct timing *, timing_begin, NULL, CUcontext context, CUstream stream)
NOTHING(timing_start, struct timing *timing, enum timing_part part)
NOTHING(timing_stop, struct timing *timing)
NOTHING(timing_drop, struct timing *timing)
ANSWER(bool, timing_join, false, struct timing *timing, struct timing *other)
NOTHING(timing_write, const struct timing *timing, struct json *json)
NOTHING(timing_free, struct timing *timing)
NOTHING(timing_again, struct timing *timing)
ANSWER(struct timing *, timing_of_graph, NULL, CUcontext context, CUstream stream)
ANSWER(double, timing_us, 0, const struct timing *timing)
ANSWER(double, timing_between, 0, CUevent start, CUevent stop)

/* ---- shim/act/compare.c */

void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   struct timing *timing)
{
	fused_load(chain->context, variant);
	below.verdicts++;
	below.site = site->number;
	below.args = *args;
	site_agrees(site, args->Sk);
	if (++site->passed >= 2)
		site_verify(site);
}

NOTHING(compare_poll, void)

void compare_wait(const struct site *site, uint64_t most_ns)
{
	below.waited_ns = most_ns;
}

NOTHING(compare_forget, CUcontext context)

/* ---- shim/ask */

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
ANSWER(const char *, measure_chain, NULL, struct chain *chain, bool *waits)

/* ---- shim/real/image.c */

ANSWER(bool, image_by_soname, false, const char *soname, bool prefix, struct image *image)
ANSWER(void *, image_symbol, NULL, const struct image *image, const char *name)
ANSWER(bool, image_of, false, const void *address, struct image *image)

/* ---- shim/real/bypass.c */

bool bypassed(const char **why)
{
	*why = "";
	return false;
}

NOTHING(bypass_note_device_launches, void)
