# SPDX-License-Identifier: Apache-2.0
"""Attention in CuPy and in JAX: the same few lines, other libraries underneath.

CuPy's softmax is five kernels made at run time; JAX's is made by XLA, and its products may
come from cuBLASLt or from kernels of XLA's own. Either may be replaced or left alone, but the
answers hold.
"""
import os

from registry import Expect, program


def numbers(seed, shape):
    import numpy
    return numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)


@program(Expect("either", sites=3, tol=2e-3, step=2.5e-4), repeat=8)
def cupy_f16(variant):
    """CuPy, fp16 products, softmax in five kernels"""
    import cupy
    shape = (2, 8, 256, 64)
    sets = [[cupy.asarray(numbers(10 * n + x, shape)).astype(cupy.float16) for x in range(3)]
            for n in range(4)]

    def step(i):
        q, k, v = sets[i % 4]
        scores = cupy.matmul(q, k.transpose(0, 1, 3, 2)) * cupy.float16(0.125)
        powers = cupy.exp(scores - scores.max(-1, keepdims=True))
        return {"o": cupy.matmul(powers / powers.sum(-1, keepdims=True), v)}

    return step


@program(Expect("either", sites=3, tol=1e-4), repeat=8)
def cupy_f32(variant):
    """CuPy, fp32"""
    import cupy
    shape = (2, 8, 256, 64)
    sets = [[cupy.asarray(numbers(10 * n + x, shape)) for x in range(3)] for n in range(4)]

    def step(i):
        q, k, v = sets[i % 4]
        scores = cupy.matmul(q, k.transpose(0, 1, 3, 2)) * cupy.float32(0.125)
        powers = cupy.exp(scores - scores.max(-1, keepdims=True))
        return {"o": cupy.matmul(powers / powers.sum(-1, keepdims=True), v)}

    return step


@program(Expect("replace", sites=3, tol=1e-4), repeat=12, few=12)
def cupy_causal(variant):
    """CuPy, fp32: a mask that is made anew each time, and where()"""
    import cupy
    shape = (2, 8, 384, 64)
    sets = [[cupy.asarray(numbers(10 * n + x, shape)) for x in range(3)] for n in range(4)]

    def step(i):
        q, k, v = sets[i % 4]
        scores = cupy.matmul(q, k.transpose(0, 1, 3, 2)) / 8
        keep = cupy.tril(cupy.ones((384, 384), dtype=bool))
        scores = cupy.where(keep, scores, cupy.float32(-1e9))
        powers = cupy.exp(scores - scores.max(-1, keepdims=True))
        return {"o": cupy.matmul(powers / powers.sum(-1, keepdims=True), v)}

    return step


@program(Expect("either", sites=3, tol=2e-3, silent=True), repeat=8)
def jax_f16(variant):
    """JAX, jitted, fp16; op by op as well"""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    # Without measured choices of kernels two runs give the same bits.
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
    import jax
    import jax.numpy as jnp

    def attend(q, k, v):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.125
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)

    jitted = jax.jit(attend)
    shape = (2, 8, 256, 64)
    sets = [[jnp.asarray(numbers(10 * n + x, shape), dtype=jnp.float16) for x in range(3)]
            for n in range(4)]

    def step(i):
        return {"jitted": jitted(*sets[i % 4]), "op_by_op": attend(*sets[i % 4])}

    return step
