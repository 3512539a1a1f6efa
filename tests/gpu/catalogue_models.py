# SPDX-License-Identifier: Apache-2.0
"""Further whole models from the transformers library, with random weights and attention spelt out:
the ones whose attention differs from that of models.py. Widths are those of a real checkpoint,
layers are fewer. Variant "double" is the same model with the same weights in float64, "sdpa" the
one that a user gets by asking for SDPA, for timing.
"""
import functools

import torch
import transformers

from common import draw, small
from models import given, make, padded
from registry import Expect, program

HALF = dict(tol="double", step=4e-3)


def model_of(cls, config, dtype, variant):
    """The model in its type; in float64 for "double", its weights being those of the type."""
    model = make(cls, config, dtype, "sdpa" if variant == "sdpa" else "eager")
    return model.double() if variant == "double" else model


def real(x, variant):
    return x.double() if variant == "double" else x


@functools.lru_cache(16)
def noise(shape, i):
    return draw(shape, torch.float16, i)


def decoder(variant, cls, config, dtype, batch, size):
    """Logits of a prefill."""
    model = model_of(cls, config, dtype, variant)
    return lambda i: {"logits": model(input_ids=given(batch, size, i), use_cache=False).logits}


@program(Expect("replace", chains=4, sites=1, **HALF), repeat=3, few=2, variants=("double", "sdpa"),
         timed={})
def whisper_encoder(variant):
    """Whisper-medium's encoder, 4 layers, B4: 3000 frames, S1500, fp16"""
    config = transformers.WhisperConfig(
        d_model=small(1024, 64), encoder_layers=small(4, 2), encoder_attention_heads=small(16, 2),
        encoder_ffn_dim=small(4096, 128), num_mel_bins=80, decoder_layers=1,
        decoder_attention_heads=small(16, 2), decoder_ffn_dim=64, vocab_size=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, init_std=0.04,
        suppress_tokens=None, begin_suppress_tokens=None)
    model = model_of(transformers.WhisperModel, config, torch.float16, variant).get_encoder()
    batch = small(4, 1)
    return lambda i: {"hidden": model(real(noise((batch, 80, 3000), i), variant)).last_hidden_state}


@program(Expect("replace", chains=4, sites=2, **HALF), repeat=4, few=2,
         variants=("double",), timed={})
def gemma2(variant):
    """Gemma-2-2B width (softcap, GQA 8:4, D256), 4 layers, a window in every other; S2048 bf16"""
    config = transformers.Gemma2Config(
        vocab_size=1024, hidden_size=small(2304, 64), intermediate_size=small(9216, 128),
        num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
        head_dim=small(256, 32), query_pre_attn_scalar=small(256, 32),
        sliding_window=small(1024, 16), max_position_embeddings=8192, initializer_range=0.03,
        bos_token_id=0, eos_token_id=0, pad_token_id=0)
    return decoder(variant, transformers.Gemma2ForCausalLM, config, torch.bfloat16, 1,
                   small(2048, 24))


@program(Expect("replace", chains=4, sites=1, **HALF), repeat=3, few=2, variants=("double",),
         timed={})
def bloom(variant):
    """BLOOM-1b1 width (ALiBi in the product's C), 4 layers, B2 S1024 fp16"""
    config = transformers.BloomConfig(
        vocab_size=1024, hidden_size=small(1536, 64), n_layer=small(4, 2), n_head=small(16, 2),
        initializer_range=0.04, bos_token_id=0, eos_token_id=0, pad_token_id=0)
    return decoder(variant, transformers.BloomForCausalLM, config, torch.float16, 2,
                   small(1024, 24))


@program(Expect("replace", chains=4, sites=1, **HALF), repeat=3, few=2, variants=("double", "sdpa"),
         timed={})
def falcon(variant):
    """Falcon-7B width (one head of keys, rotary), 4 layers, B1 S1024 bf16"""
    config = transformers.FalconConfig(
        vocab_size=1024, hidden_size=small(4544, 128), num_hidden_layers=small(4, 2),
        num_attention_heads=small(71, 2), multi_query=True, parallel_attn=True, bias=False,
        new_decoder_architecture=False, alibi=False, initializer_range=0.02, bos_token_id=0,
        eos_token_id=0, pad_token_id=0)
    return decoder(variant, transformers.FalconForCausalLM, config, torch.bfloat16, 1,
                   small(1024, 24))


@program(Expect("replace", chains=4, sites=1, **HALF), repeat=3, few=2, variants=("double", "sdpa"),
         timed={})
def opt(variant):
    """OPT-1.3B width (query scaled first), 4 layers, B2 S1024 with padding, fp16"""
    config = transformers.OPTConfig(
        vocab_size=1024, hidden_size=small(2048, 64), ffn_dim=small(8192, 128),
        num_hidden_layers=small(4, 2), num_attention_heads=small(32, 2), init_std=0.03,
        word_embed_proj_dim=small(2048, 64), max_position_embeddings=2048, bos_token_id=0,
        eos_token_id=0, pad_token_id=0)
    model = model_of(transformers.OPTForCausalLM, config, torch.float16, variant)

    def step(i):
        ids, mask = padded(2, small(1024, 24), i)
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        return {"logits": logits * mask[:, :, None].to(logits.dtype)}

    return step


@program(Expect("replace", chains=4, sites=1, **HALF), repeat=3, few=2, variants=("double", "sdpa"),
         timed={})
def clip(variant):
    """CLIP ViT-L/14 at 336 pixels, 4 layers, B8 S577 fp16"""
    config = transformers.CLIPVisionConfig(
        hidden_size=small(1024, 64), intermediate_size=small(4096, 128),
        num_hidden_layers=small(4, 2), num_attention_heads=small(16, 2),
        image_size=small(336, 56), patch_size=14, initializer_factor=1.0)
    model = model_of(transformers.CLIPVisionModel, config, torch.float16, variant)
    shape = (small(8, 1), 3, small(336, 56), small(336, 56))
    return lambda i: {"hidden": model(
        pixel_values=real(noise(shape, i), variant)).last_hidden_state}


@program(Expect("either", chains=8, sites=8, reasons=("slower", "mask_form"), **HALF), repeat=4,
         few=2, variants=("double",), timed={})
def swin(variant):
    """Swin-B at 224 pixels (windows of 49, bias and window mask), stages of 2, B16 fp16"""
    config = transformers.SwinConfig(
        embed_dim=small(128, 32), depths=[2, 2, 2, 2],
        num_heads=small([4, 8, 16, 32], [1, 2, 4, 8]),
        image_size=224, patch_size=4, window_size=7, initializer_range=0.04)
    model = model_of(transformers.SwinModel, config, torch.float16, variant)
    shape = (small(16, 1), 3, 224, 224)
    return lambda i: {"hidden": model(
        pixel_values=real(noise(shape, i), variant)).last_hidden_state}
