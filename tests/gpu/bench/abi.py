# SPDX-License-Identifier: Apache-2.0
"""kernels/attention.h and kernels/bench_abi.h for ctypes: our kernels on tensors that PyTorch made.

Tensors are [B,H,rows,columns] views with whatever strides; broadcasting is a stride of 0 (expand).
"""
import ctypes
from ctypes import (POINTER, Structure, byref, c_char_p, c_float, c_int32, c_int64, c_uint64,
                    c_void_p, sizeof)

F16, BF16, F32, BOOL = range(4)
NO_WINDOW = 2 ** 31 - 1
DTYPES = {"torch.float16": F16, "torch.bfloat16": BF16, "torch.float32": F32, "torch.bool": BOOL}


class Tensor(Structure):
    _fields_ = [("base", c_uint64), ("stride", c_int64 * 4), ("dtype", c_int32), ("by_array", c_int32), ("batches", c_int32),
                ("columns", c_int32)]


class Spec(Structure):
    _fields_ = [("scale", c_float), ("softcap", c_float), ("out_scale", c_float), ("round_x", c_int32),
                ("round_p", c_int32), ("empty_row", c_int32), ("round_s", c_int32), ("alpha", c_float),
                ("scales", Tensor), ("scales_divide", c_int32),
                ("bias_scale", c_float * 2), ("overflow", c_float), ("bias", Tensor * 2), ("mask", Tensor), ("mask_keeps", c_int32),
                ("mask_value", c_float), ("hidden_value", c_float), ("mask_also", Tensor), ("mask_also_keeps", c_int32),
                ("late_biases", c_int32), ("window_left", c_int32), ("window_right", c_int32),
                ("window_shift", c_int32), ("window_value", c_float), ("lengths", Tensor),
                ("sinks", Tensor)]


class Args(Structure):
    _fields_ = [("q", Tensor), ("k", Tensor), ("v", Tensor), ("o", Tensor), ("B", c_int32),
                ("H", c_int32), ("Sq", c_int32), ("Sk", c_int32), ("D", c_int32), ("Dv", c_int32),
                ("spec", Spec)]


class Resources(Structure):
    _fields_ = [("registers", c_int32), ("local_bytes", c_int32), ("threads", c_int32),
                ("shared_bytes", c_int32), ("blocks", c_int32)]


def tensor(t):
    assert t.dim() == 4
    return Tensor(t.data_ptr(), (c_int64 * 4)(*t.stride()), DTYPES[str(t.dtype)], 0)


def arguments(q, k, v, o, scale, causal=False, mask=None):
    """The call O = attention(Q, K, V); mask: added, or boolean with True for the keys that count."""
    (B, H, Sq, D), Sk = q.shape, k.shape[2]
    a = Args(tensor(q), tensor(k), tensor(v), tensor(o), B, H, Sq, Sk, D, v.shape[3])
    s = a.spec
    s.scale, s.out_scale, s.round_x, s.round_p = scale, 1.0, F32, a.q.dtype
    s.window_left, s.window_right = NO_WINDOW, 0 if causal else NO_WINDOW
    s.window_value = s.mask_value = float("-inf")
    s.mask_keeps = 1
    if mask is not None and DTYPES[str(mask.dtype)] == BOOL:
        s.mask = tensor(mask.expand(B, H, Sq, Sk))
    elif mask is not None:
        s.bias[0], s.bias_scale[0] = tensor(mask.expand(B, H, Sq, Sk)), 1.0
    return a


class Call:
    """A call made ready; launch() puts it on a stream. Keeps nothing of the tensors alive."""

    def __init__(self, library, variant, args):
        self.library, self.handle = library, c_void_p()
        library.check(library.so.fashim_kernels_prepare(byref(self.handle), variant, byref(args)))

    def launch(self, stream):
        if self.library.so.fashim_kernels_launch(self.handle, stream):
            self.library.check(-1)

    def __del__(self):
        self.library.so.fashim_kernels_free(self.handle)


class Library:
    """libfashim_kernels.so, with the image for the GPU whose context is current."""

    def __init__(self, path, image=None):
        self.so = so = ctypes.CDLL(path)
        so.fashim_kernels_error.restype = so.fashim_kernels_name.restype = c_char_p
        so.fashim_kernels_select.argtypes = [POINTER(Args), c_char_p, c_int32]
        so.fashim_kernels_prepare.argtypes = [POINTER(c_void_p), c_int32, POINTER(Args)]
        so.fashim_kernels_launch.argtypes = [c_void_p, c_void_p]
        so.fashim_kernels_free.argtypes, so.fashim_kernels_free.restype = [c_void_p], None
        so.fashim_kernels_resources.argtypes = [POINTER(Resources), c_int32]
        sizes = (c_int32 * 3)()
        so.fashim_kernels_layout(sizes)
        ours = [sizeof(Tensor), sizeof(Spec), sizeof(Args)]
        if list(sizes) != ours:
            raise SystemExit(f"kernels/attention.h has sizes {list(sizes)}, bench/abi.py {ours}: mirror the change")
        self.check(so.fashim_kernels_open(image.encode() if image else None))
        self.names = []
        while so.fashim_kernels_name(len(self.names)):
            self.names.append(so.fashim_kernels_name(len(self.names)).decode())

    def check(self, error):
        if error:
            raise RuntimeError(self.so.fashim_kernels_error().decode() or f"error {error}")

    def present(self):
        """Names of the variants in the image."""
        return [name for n, name in enumerate(self.names) if self.so.fashim_kernels_present(n)]

    def select(self, args, forced=None, portable=False):
        """Name of the variant for a call, or None."""
        n = self.so.fashim_kernels_select(byref(args), forced.encode() if forced else None, portable)
        return self.names[n] if n >= 0 else None

    def prepare(self, name, args):
        return Call(self, self.names.index(name), args)

    def resources(self, name):
        """registers, local_bytes, threads, shared_bytes, and blocks per multiprocessor."""
        r = Resources()
        self.check(self.so.fashim_kernels_resources(byref(r), self.names.index(name)))
        return {field: getattr(r, field) for field, _ in Resources._fields_}
