/* SPDX-License-Identifier: Apache-2.0
 *
 * A case in words: its dimensions, then every feature that it has; and cases at random.
 */
#include "kernel_cases.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

static const char *const types[] = {"f16", "bf16", "f32", "bool", "f64", "i32"};
static const char *const storages[] = {"",	  " bshd",     " fused",    " shared-kv",
				       " padded", " odd-rows", " odd-base", " by-array"};
static const char *const spreads[] = {
	"",	      "[1,1,Sq,Sk]", "[B,1,Sq,Sk]", "[1,H,Sq,Sk]", "[B,H,Sq,Sk]",
	"[1,1,1,Sk]", "[B,1,1,Sk]",  "[1,H,1,Sk]"};
static const char *const contents[] = {"noise", "sparse", "triangle", "tail", "blocks",
				       "spans", "spoilt", "prefix",   "open", "hidden"};
static const char *const fills[] = {"-inf", "lowest", "-1e4"};
static const char *const scales[] = {"", " scale<0", " scale=0"};
static const char *const datas[] = {"", " outliers", " steep", " large", " modest"};
static const char *const empties[] = {"nan", "zero", "mean", "again"};

struct text {
	char *at;
	size_t left;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(t->at, t->left, format, list);
	va_end(list);
	if (n > 0 && (size_t)n < t->left) {
		t->at += n;
		t->left -= (size_t)n;
	}
}

const char *kernel_case_name(const struct kernel_case *c, char *text, size_t size)
{
	struct text t = {text, size};

	add(&t, "%s B%d H%d %dx%d D%d%s%s%s", types[c->dtype], c->B, c->H, c->Sq, c->Sk, c->D,
	    storages[c->storage], c->down ? " K[D,S]" : "", c->down_all ? " QV[D,S]" : "");
	if (c->causal)
		add(&t, " causal%s", c->causal == 2 ? "-last" : "");
	if (c->left)
		add(&t, " left=%d", c->left);
	if (c->window_fill)
		add(&t, " outside=%s", fills[c->window_fill]);
	if (c->bias)
		add(&t, " bias %s%s %s", types[c->bias_type], spreads[c->bias],
		    contents[c->bias_holds]);
	if (c->bias && c->bias_holds)
		add(&t, " %s", fills[c->bias_fill]);
	if (c->second)
		add(&t, " second");
	if (c->below)
		add(&t, " below%s %s", spreads[c->below], contents[c->below_holds]);
	if (c->round_x)
		add(&t, " rounded");
	if (c->floored)
		add(&t, " floored");
	if (c->round_s)
		add(&t, " stored=%d%s", c->round_s, c->apart ? " apart" : "");
	if (c->mask)
		add(&t, " mask%s %s %s%s", spreads[c->mask], contents[c->mask_holds],
		    fills[c->mask_fill], c->mask_drops ? " drops" : "");
	if (c->late)
		add(&t, " late=%d", c->late);
	if (c->lengths)
		add(&t, " lengths%s", spreads[c->lengths]);
	if (c->sinks)
		add(&t, " sinks %s%s", types[c->sinks_type], spreads[c->sinks]);
	if (c->empty_rows || c->empty_row)
		add(&t, " empty=%s", empties[c->empty_row]);
	add(&t, "%s%s", scales[c->scale], datas[c->data]);
	if (c->scales)
		add(&t, " %s %s%s%s", c->divides ? "divided by" : "times", types[c->scales_type],
		    spreads[c->scales], c->scales_each ? "" : " rows");
	if (c->windows)
		add(&t, " windows=%d", c->windows);
	if (c->image)
		add(&t, " image=%d", c->image);
	if (c->hard)
		add(&t, " hard %s", hard_names[c->hard]);
	if (c->softcap != 0.0f)
		add(&t, " softcap");
	add(&t, "%s%s", c->wide ? " O-f32" : "", c->over_q ? " O-over-Q" : "");
	return text;
}

/* From low to high, both included; `state` goes on. */
static int between(uint64_t *state, int low, int high)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return low + (int)((*state >> 33) % (uint64_t)(high - low + 1));
}

struct kernel_case random_case(int n)
{
	static const int even[] = {PACKED, BSHD, FUSED, SHARED_KV, PADDED};
	static const int odd[] = {BSHD, ODD_ROWS, ODD_BASE, BY_ARRAY};
	uint64_t s = 0x9e3779b97f4a7c15u * (uint64_t)(n + 1);
	struct kernel_case c = {.dtype = ATTN_F16, .data = MODEST};

	c.B = between(&s, 1, 2);
	c.H = between(&s, 1, 4);
	c.Sq = between(&s, 1, 700);
	c.Sk = between(&s, 1, 700);
	c.causal = between(&s, 0, 2);
	c.left = between(&s, 0, 3) ? 0 : between(&s, 1, 200);
	c.empty_row = between(&s, 0, 1) ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
	c.over_q = !between(&s, 0, 7);
	c.D = n % 2 ? between(&s, 1, 64) : 64;
	c.storage = n % 2 ? odd[between(&s, 0, 3)] : even[between(&s, 0, 4)];
	c.down = n % 2 && !between(&s, 0, 3);
	return c;
}
