# SPDX-License-Identifier: Apache-2.0
"""What is run: the compiled programs, and the catalogue: every case by its number, the program that
stands for it, and the routes by which its meaning may be found. What must come of it (replaced, or
declined and why) is the program's Expect; Python's programs bring theirs along.

P01–P36 must be replaced, or declined for a stated reason; N01–N08 must not be replaced; I01–I30 are
the orders of operations that PyTorch's compiler knows; U are kernels nobody wrote a rule for; M are
whole models.
"""
from registry import Expect, Program

ANY = ("rule", "data", "identification")
UNSEEN = ("data", "identification")  # no rule can know these kernels


class Case:
    def __init__(self, number, name, routes=ANY):
        self.number, self.name, self.routes = number, name, routes

    @property
    def key(self):
        return f"{self.number} {self.name}"


def cases(number, *names, routes=ANY):
    return [Case(number, name, routes) for name in names]


CASES = [
    Case("P01", "hf_causal_bf16_prefill"),
    *cases("P02", "hf_fp16_half_to_float", "hf_fp16_overflow"),
    Case("P03", "hf_gqa_repeat_kv"),
    *cases("P04", "hf_batch1_interleaved", "hf_batch1_fused_qkv"),
    *cases("P05", "hf_decode_q1_growing", "growing"),
    *cases("P06", "hf_static_cache", "hf_sliced_cache"),
    *cases("P07", "bert_padding_mask", "sum_of_masks_floored", "llama_floored", "opt_floored",
           "llama_floored_bf16"),
    Case("P08", "gpt2_device_scalar_where"),
    *cases("P09", "t5_bias_inplace", "t5_bias_inplace_f32"),
    *cases("P10", "bloom_baddbmm_beta1", "baddbmm_bias"),
    Case("P11", "gemma_softcap"),
    Case("P12", "gptoss_sink_ld"),
    Case("P13", "mqa_folded_rows"),
    Case("P14", "plain_fp32_tf32"),
    *cases("P15", "plain_fp32_strict", "plain_fp32_strict_d128", "naive_f32"),
    Case("P16", "autocast"),
    Case("P17", "prescaled_q"),
    Case("P18", "split_scale_qk"),
    Case("P19", "sdpa_math"),
    Case("P20", "native_mha_alias_q"),
    *cases("P21", "einsum_bf16", "einsum_bhsd", "einsum_scores_transposed"),
    *cases("P22", "diffusers_baddbmm_beta0", "diffusers_d160", "diffusers_cross_77",
           "diffusers_sliced"),
    *cases("P23", "vae_channels_first", "channels_first_d64"),
    Case("P24", "swin_bias_window"),
    Case("P25", "conformer_relpos"),
    Case("P26", "openfold_two_biases"),
    Case("P27", "megatron_sbhd"),
    Case("P27", "megatron_fused_causal", UNSEEN),
    *cases("P28", "ft_inplace_minus10000", "ft_float_scores", routes=UNSEEN),
    *cases("P29", "ct2_lengths_16f", "ct2_batch1_gemmex", routes=UNSEEN),
    Case("P30", "ort_contrib_over_q", UNSEEN),
    Case("P30", "ort_plain_graph"),
    Case("P31", "ds_kv_workspace", UNSEEN),
    *cases("P32", "ggml_prefill_mha", "ggml_prefill_gqa_ptrs", routes=UNSEEN),
    Case("P33", "marian_ptr_arrays", UNSEEN),
    Case("P34", "llmc_cublaslt_alias", UNSEEN),
    Case("P35", "graph"),
    Case("P36", "jax_unnamed_kernels", UNSEEN),
    *cases("N01", "output_attentions", "late_copy"),
    *cases("N02", "whisper_qk_returned", "whisper_alignment"),
    Case("N03", "need_weights"),
    *cases("N04", "train_dropout", "train"),
    Case("N05", "bwd_lookalike"),
    *cases("N06", "linear_attention", "log_softmax", "other_axis", "two_values", "moe_router",
           "talking_heads", "squared_relu", "dropout_active"),
    *cases("N07", "sync_inside", "mid_chain_memset", "mid_chain_stream",
           "mid_chain_value_rewritten", "edit_inputs"),
    Case("N08", "device_scalars", UNSEEN),
    *cases("N08", "beta_in_values", "double_precision", "complex_products", "same_addresses",
           "reallocate", "two_streams", "threads"),
] + [Case(f"I{n:02}", f"inductor_{n:02}") for n in range(1, 31)] + [
    Case("U01", "nvrtc_softmax", UNSEEN),
    Case("U02", "nvrtc_causal", UNSEEN),
    Case("U03", "jiterator_scale", UNSEEN),
    Case("U04", "triton_softmax", UNSEEN),
    Case("U05", "triton_softmax_bias", UNSEEN),
    Case("U06", "cupy_raw_kernel", UNSEEN),
    Case("U07", "cupy_f16"),
    Case("U08", "renamed_kernels", UNSEEN),
    Case("M01", "whisper_encoder"),
    Case("M02", "gemma2"),
    Case("M03", "bloom"),
    Case("M04", "falcon"),
    Case("M05", "opt"),
    Case("M06", "clip"),
    Case("M07", "swin"),
    Case("M08", "bert"),
    Case("M09", "gpt2"),
    Case("M10", "llama1b"),
    Case("M11", "llama8b"),
    Case("M12", "vit"),
    Case("M13", "t5"),
]

# The compiled programs by name: those of the table, and those of the catalogue.
COMPILED = {}


def compiled(binary, kind, *names, repeat=12, quick=False, modes=(), few=2, **more):
    for name in names:
        COMPILED[name] = Program(name, Expect(kind, **{"sites": 1, **more}), binary=binary,
                                 repeat=repeat, few=few, quick=quick, modes=modes)


def table_row(name, quick=True, modes=(), **more):
    compiled(name, "replace", name, repeat=40, few=4, quick=quick, modes=modes,
             **{"tol": 1e-3, **more})


table_row("static_cudart", exact=("P",), modes=("audit", "compare"))
table_row("dlopen_cublas", exact=("P",))
table_row("linked_driver", exact=("P",), quick=False)
table_row("linked_driver_asan", exact=("P",), quick=False)
table_row("two_threads", chains=4, sites=6)
table_row("two_contexts", chains=2, sites=4)
TABLE = tuple(COMPILED)

# Two GPUs in one process, by where the memory lies that both reach; each has as many chains on
# either, and of the first one's five P are asked for by the other (many.py runs them).
PEERS = {name: Program(name, Expect("replace", chains=2, sites=2, tol=1e-3, exact=("P",)),
                       binary="peers", repeat=80,
                       modes=("poison",) if name == "peers_plain" else ())
         for name in ("peers_plain", "peers_pool", "peers_mapped")}

HALF_SUMS = dict(tol=1e-2)   # products that keep their sums in half precision
BRAIN = dict(tol=1.6e-2)     # bf16 outputs of up to 1.7
compiled("catalogue/ft", "replace", "ft_inplace_minus10000", "ft_float_scores", tol=2e-3)
compiled("catalogue/ct2", "replace", "ct2_lengths_16f", "ct2_batch1_gemmex", **HALF_SUMS)
compiled("catalogue/ort", "replace", "ort_contrib_over_q", tol=2e-3)
compiled("catalogue/deepspeed", "replace", "ds_kv_workspace", tol=2e-3)
compiled("catalogue/ggml", "replace", "ggml_prefill_mha", "ggml_prefill_gqa_ptrs", **HALF_SUMS)
compiled("catalogue/marian", "replace", "marian_ptr_arrays", **HALF_SUMS)
# Its softmax leaves the upper triangle of P alone, which nobody could make anew.
compiled("catalogue/llmc", "decline", "llmc_cublaslt_alias", reasons=("layout",), **BRAIN)
compiled("catalogue/megatron", "replace", "megatron_fused_causal", **BRAIN)
compiled("catalogue/renamed", "replace", "renamed_kernels", tol=2e-3)
compiled("catalogue/scalars", "either", "device_scalars", tol=2e-3, reasons=("scalars_on_device",))
