# SPDX-License-Identifier: Apache-2.0
"""Whole models from the transformers library: random weights, attention spelt out ("eager").

Weights come from one seed, so the eager and the SDPA variant of a program are the same model, and
are large enough that attention is not nearly uniform. Tokens are given, never sampled: a decode
step's input does not depend on rounding.
"""
import functools

import torch
import transformers

from common import DEVICE, draw, small, tokens
from registry import Expect, program

transformers.logging.set_verbosity_error()
SDPA = ("sdpa",)


def make(cls, config, dtype, variant):
    """The model in evaluation mode, on the device; the same weights for every variant."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = cls._from_config(config, dtype=dtype, attn_implementation=variant)
    return model.to(DEVICE).eval().requires_grad_(False)


def left(lengths, size):
    """Attention mask [B, size] of sequences that end at the right edge."""
    columns = torch.arange(size, device=DEVICE)
    return (columns >= size - lengths[:, None]).long()


def right(lengths, size):
    """Attention mask [B, size] of sequences that start at the left edge."""
    return (torch.arange(size, device=DEVICE) < lengths[:, None]).long()


def lengths(batch, size, seed):
    """Sequence lengths in [size/2, size], the first one full."""
    drawn = size // 2 + tokens((batch,), size // 2 + 1, seed)
    drawn[0] = size
    return drawn


@functools.lru_cache(16)
def padded(batch, size, i):
    """The i-th batch of tokens and its padding mask; kept, so that a timed run makes it once."""
    return tokens((batch, size), 1024, i), right(lengths(batch, size, i), size)


@functools.lru_cache(16)
def given(batch, size, i):
    """The i-th batch of tokens alone."""
    return tokens((batch, size), 1024, i)


@functools.lru_cache(16)
def pictures(batch, i):
    return draw((batch, 3, 224, 224), torch.float16, i)


def bert_model(variant, hidden, layers, heads):
    config = transformers.BertConfig(
        vocab_size=1024, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * hidden, initializer_range=0.04, max_position_embeddings=512)
    return make(transformers.BertModel, config, torch.float16, variant)


def bert_forward(model, batch, size, i, **more):
    """One forward on the i-th batch: tokens and padding both depend on i."""
    ids, mask = padded(batch, size, i)
    out = model(input_ids=ids, attention_mask=mask, **more)
    keep = mask[:, :, None].to(out.last_hidden_state.dtype)
    return out, out.last_hidden_state * keep


@program(Expect("replace", chains=6, tol="sdpa"), repeat=4, variants=SDPA, timed={}, quick=True,
         modes=("audit", "compare"))
def bert(variant):
    """BERT-large width, 6 layers, B8 S512 with padding, fp16"""
    model = bert_model(variant, small(1024, 128), small(6, 2), small(16, 2))
    batch, size = small(8, 2), small(512, 24)
    return lambda i: {"hidden": bert_forward(model, batch, size, i)[1]}


@program(Expect("replace", chains=2, fixed=22, share=0.95, tol=2e-2, exact=("P0",),
                loose={"P": 4e-3}), repeat=1000, few=8, quick=True)
def bert_attentions(variant):
    """1000 BERT forwards, then one with output_attentions, then 10 without"""
    model = bert_model(variant, 256, 2, 4)
    batch, size = 4, small(128, 24)

    def step(i, last=None):
        if i != last:
            hidden = bert_forward(model, batch, size, i)[1]
            return {"hidden": hidden[:, :, i % 16::16]}  # a different 16th each time
        out, hidden = bert_forward(model, batch, size, i, output_attentions=True)
        first, second = out.attentions
        return {"hidden": hidden, "P0": first, "P": second}

    step.extra = 11  # forwards after the repeated ones; the first of them asks for the weights
    return step


@program(Expect("decline", tol=2e-2, reasons=("scores_read_by",), exact=("P0",),
                loose={"P1": 4e-3, "P2": 4e-3}), repeat=6)
def output_attentions(variant):
    """BERT with output_attentions=True on every forward"""
    model = bert_model("eager", 256, 3, 4)
    batch, size = 4, small(128, 24)

    def step(i):
        out, hidden = bert_forward(model, batch, size, i, output_attentions=True)
        return {"hidden": hidden} | {f"P{n}": p for n, p in enumerate(out.attentions)}

    return step


def decode(model, batch, prompt, steps, i, mask=None):
    """Prefill, then one token at a time with the cache. Logits of both; padding rows zeroed."""
    ids = given(batch, prompt + steps, i)
    more = {}
    if mask is not None:
        more["attention_mask"] = mask[:, :prompt]
        more["position_ids"] = (mask[:, :prompt].cumsum(1) - 1).clamp(min=0)
    out = model(input_ids=ids[:, :prompt], use_cache=True, **more)
    prefill, logits = out.logits, []
    if mask is not None:
        prefill = prefill * mask[:, :prompt, None].to(prefill.dtype)
    for n in range(prompt, prompt + steps):
        if mask is not None:
            more["attention_mask"] = mask[:, :n + 1]
            more["position_ids"] = mask[:, :n + 1].sum(1, keepdim=True) - 1
        out = model(input_ids=ids[:, n:n + 1], past_key_values=out.past_key_values, **more)
        logits.append(out.logits)
    return {"prefill": prefill} | ({"decode": torch.stack(logits)} if logits else {})


def gpt2_model(variant, hidden, layers, heads):
    config = transformers.GPT2Config(
        vocab_size=1024, n_positions=2048, n_embd=hidden, n_layer=layers, n_head=heads,
        initializer_range=0.04, bos_token_id=0, eos_token_id=0)
    return make(transformers.GPT2LMHeadModel, config, torch.float16, variant)


@program(Expect("replace", chains=6 * 33, sites=10, share=0.7, tol="sdpa"), repeat=3, few=1,
         variants=SDPA, timed=dict(steps=0), quick=True)
def gpt2(variant, steps=None):
    """GPT-2-medium width, 6 layers, B4: prefill S1024 and 32 decode steps, fp16"""
    model = gpt2_model(variant, small(1024, 128), small(6, 2), small(16, 2))
    batch, prompt = small(4, 2), small(1024, 24)
    steps = small(32, 4) if steps is None else steps
    return lambda i: decode(model, batch, prompt, steps, i)


@program(Expect("replace", chains=2 * 17, sites=10, share=0.5, tol="sdpa"), repeat=3, few=1,
         variants=SDPA)
def gpt2_padded(variant):
    """GPT-2, 2 layers, B4: prompts padded on the left, prefill S160 and 16 decode steps"""
    model = gpt2_model(variant, 256, 2, 4)
    prompt, steps = small(160, 24), 16

    def step(i):
        mask = left(lengths(4, prompt, i), prompt)
        mask = torch.cat([mask, mask.new_ones(4, steps)], dim=1)
        return decode(model, 4, prompt, steps, i, mask)

    return step


def llama_model(variant, hidden, inner, layers, heads, kv_heads):
    config = transformers.LlamaConfig(
        vocab_size=1024, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=8192,
        initializer_range=0.03, bos_token_id=0, eos_token_id=0)
    return make(transformers.LlamaForCausalLM, config, torch.bfloat16, variant)


@program(Expect("replace", chains=4 * 17, sites=10, share=0.6, tol="sdpa"), repeat=3, few=1,
         variants=SDPA, timed=dict(prompt=4096, steps=0), quick=True)
def llama1b(variant, prompt=None, steps=None):
    """Llama-1B width (GQA 32:8, D64), 4 layers: prefill S2048 and 16 decode steps, bf16"""
    model = llama_model(variant, small(2048, 256), small(8192, 512), small(4, 2), small(32, 4),
                        small(8, 2))
    prompt = prompt if prompt and DEVICE == "cuda" else small(2048, 24)
    steps = small(16, 4) if steps is None else steps
    return lambda i: decode(model, 1, prompt, steps, i)


# The kernel that is learned first moves O by more than is wanted, or allowed where experts are picked.
LEARNED_TWICE = Expect("replace", chains=2, tol="sdpa", slack=1)


@program(LEARNED_TWICE, repeat=5, variants=SDPA, timed={})
def llama8b(variant):
    """Llama-8B width (GQA 32:8, D128), 2 layers: prefill S2048, bf16"""
    model = llama_model(variant, small(4096, 256), small(14336, 512), 2, small(32, 4), small(8, 2))
    return lambda i: decode(model, 1, small(2048, 24), 0, i)


def mixture_model(variant, hidden, layers, heads, experts):
    """Every token goes to all experts, so that no rounding sends it elsewhere; how many tokens each
    gets is still counted on the device."""
    config = transformers.MixtralConfig(
        vocab_size=1024, hidden_size=hidden, intermediate_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads // 2, num_local_experts=experts,
        num_experts_per_tok=experts, sliding_window=None, initializer_range=0.03)
    return make(transformers.MixtralModel, config, torch.bfloat16, variant)


@program(LEARNED_TWICE, repeat=8, variants=SDPA, quick=True)
def mixture(variant):
    """Mixtral of 2 layers and 4 experts, B2 S384, bf16: grouped products behind each attention"""
    model = mixture_model(variant, small(1024, 128), 2, small(8, 2), 4)
    size = small(384, 24)
    return lambda i: {"hidden": model(given(2, size, i), use_cache=False).last_hidden_state}


@program(LEARNED_TWICE, repeat=8, variants=SDPA)
def mixture_long(variant):
    """the same of 8 experts, B2 S2048: rows that CUB sorts"""
    model = mixture_model(variant, small(1024, 128), 2, small(8, 2), small(8, 4))
    size = small(2048, 24)
    return lambda i: {"hidden": model(given(2, size, i), use_cache=False).last_hidden_state}


@program(Expect("replace", chains=6, tol="sdpa"), repeat=4, variants=SDPA, timed={}, quick=True)
def vit(variant):
    """ViT-large width, 6 layers, B32 S=197, fp16"""
    config = transformers.ViTConfig(
        hidden_size=small(1024, 128), num_hidden_layers=small(6, 2),
        num_attention_heads=small(16, 2), intermediate_size=small(4096, 256),
        initializer_range=0.04)
    model = make(transformers.ViTModel, config, torch.float16, variant)
    batch = small(32, 1)
    return lambda i: {"hidden": model(pixel_values=pictures(batch, i)).last_hidden_state}


# SDPA computes fp32 as the eager model does, bit for bit: no yardstick. Nothing is replaced in fp32 in the
# first forward: four layers, of which three are learned of.
@program(Expect("replace", chains=4, tol=2e-5, slack=1), repeat=3, variants=SDPA, timed={})
def t5(variant):
    """T5-base encoder, 4 layers, B8 S512, strict fp32"""
    config = transformers.T5Config(
        vocab_size=1024, d_model=small(768, 128), d_kv=64, d_ff=small(3072, 256),
        num_layers=small(4, 2), num_heads=small(12, 2))
    model = make(transformers.T5EncoderModel, config, torch.float32, variant)
    batch, size = small(8, 2), small(512, 24)

    def step(i):
        ids, mask = padded(batch, size, i)
        return {"hidden": model(input_ids=ids, attention_mask=mask).last_hidden_state}

    return step
