/* SPDX-License-Identifier: Apache-2.0
 *
 * The form of a call: what of it decides which kernel is fastest, without the addresses and the
 * numbers it works on. Two calls of one form take the same time. As text, in the log, in the tuning
 * cache and on a command line:
 *
 *     B,H,Sq,Sk,D[,word…]
 *
 *     f16 bf16 f32       dtype of Q, K and V (f16)
 *     dv=N               head dimension of V and O (D)
 *     causal             every row sees the keys up to its own, the last row all of them
 *     window=L:R:SHIFT   struct attn_spec's window; "-" for a side without limit
 *     bias=BHqk:f16      an additive bias: along which dimensions it differs ("-" none), its dtype
 *     bias2=BHqk:f16     another one
 *     mask=BHqk          a boolean mask
 *     lengths=BHq        numbers of keys that count
 *     sinks=BHq          scores that meet no V
 *     softcap            scores are capped
 *     k_down             K is stored [D,Sk]
 *     kv_shared          K is the same for all heads of a batch
 *     unaligned=qkv      whose rows do not start on 16 bytes
 *     pointers           operands given by arrays of addresses
 *
 * The tool links this file too.
 */
#ifndef FASHIM_CALL_FORM_H
#define FASHIM_CALL_FORM_H

#include <stddef.h>

#include "kernels/attention.h"

/* Along which dimensions an operand differs, or-ed; 0: there is no such operand. */
enum form_varies {
	FORM_PRESENT = 1,
	FORM_BY_BATCH = 2,
	FORM_BY_HEAD = 4,
	FORM_BY_ROW = 8,
	FORM_BY_KEY = 16
};

enum form_trait {
	FORM_SOFTCAP = 1,
	FORM_K_DOWN = 2,
	FORM_KV_SHARED = 4,
	FORM_POINTERS = 8,
	FORM_UNALIGNED_Q = 16,
	FORM_UNALIGNED_K = 32,
	FORM_UNALIGNED_V = 64
};

/* Every member counts and there is no padding: equal forms are equal bytes. */
struct call_form {
	int32_t B, H, Sq, Sk, D, Dv;
	int32_t dtype; /* ATTN_F16, ATTN_BF16, ATTN_F32 */
	int32_t window_left, window_right, window_shift;
	int32_t bias[ATTN_MAX_BIAS], bias_dtype[ATTN_MAX_BIAS]; /* enum form_varies */
	int32_t mask, lengths, sinks;				/* enum form_varies */
	int32_t traits;						/* enum form_trait, or-ed */
};

/* The longest text of a form, with its end. */
#define FORM_TEXT 192

void call_form_of(struct call_form *form, const struct attn_args *args);

/* The form's text, always the same for the same form, without blanks. Returns text. */
char *call_form_text(const struct call_form *form, char text[FORM_TEXT]);

/* The form that a text of `length` bytes names; 0, or -EINVAL where it names none. */
int call_form_parse(struct call_form *form, const char *text, size_t length);

#endif
