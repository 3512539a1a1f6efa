/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention on Hopper with everything that chip has for it (sm_90a): a warp that does nothing
 * but start copies (tma.cuh), warpgroups that do nothing but compute, registers handed from the one
 * to the others, and matrix instructions that run while another warpgroup is in its softmax.
 *
 * A block stays for the whole call (tma_work.cuh). Its first warpgroup copies Q, and K and V tile by
 * tile, from the last keys to the first, into rings of buffers; each of the others has 64 rows:
 *
 *     S = Q K^T of the next tile, started       both from shared memory
 *     O += P V of this one, started             P from registers, V as it is stored
 *     wait; x from S (bias, mask, window); P from x (tma_weights.cuh)
 *
 * Warpgroups pass a token that lets one at a time start its products, so that their softmaxes do not
 * coincide. At the end of a tile of rows the next tile's first S is started before O is written.
 *
 * Lab notebook (one H200, f16, random data, TFLOP/s; B2 H16 S4096 unless said; cuDNN 9.19 in the same
 * minutes: D64 465, causal 370; D128 654, 511; D256 708, 515):
 *
 *   products and softmax overlapped, 2 x 64 rows, 128 keys      D64 468  D128 690  D256 739
 *   softmax kept whole before the wait for O (a barrier)        D64 438: worse. The exponentials'
 *       unit takes one of them every 8 cycles of a warp; packing and scaling fill its gaps
 *   no maximum (tma_weights.cuh)                                D64 523  D128 747  D256 779
 *   3 x 64 rows, with tokens                                    D64 540, S16384 630; without 464
 *   S and O of different tiles in one loop                      D64 466: worse. Values that the
 *       compiler cannot see to be the same for all lanes move addresses out of uniform registers;
 *       hence same() in tma_work.cuh, and tiles without keys in a loop of their own
 *   snake order of tiles, sections of heads                     causal S16384: D64 475 -> 600,
 *       D128 643 -> 744; D256 causal 596 -> 690
 *   sums over P as rounded, as rows with one large weight want  D64 504, D128 714
 *   ... by a column of ones beside V, for D <= 64               D64 554, causal 456
 *   176 keys a tile for D128                                    S16384 +5 %, S512 -10 %: not kept
 *
 * A program that stores x in 16 bits after its bias has that rounding repeated here. Not so where the
 * bias is a mask that leaves every row a span of keys (prepare.cu): there it could decide nothing, the
 * result is nearer to the exact one without it, and it costs 7 % in f16 and 17 % in bf16.
 *
 * With a bias, us (f16, D64; bf16 where S is 4096, D128 where it is 2048), the look at it apart:
 *
 *                          B4 H16 S1024   B1 H32 S4096   B1 H32 S2048
 *   causal, known as such       33.1           148            68.4
 *   as a tensor, read           38.7           203            80.6    x rounded; not: 35.9, 175
 *   as spans, x rounded         36.8           190            81.1    not: 34.4, 162
 *   ... x rounded only where read   33.3           158            73.3
 *   ... 3 x 64 rows                 43.5           154                    the first before that
 *
 * Padding, B8 H16 S512: 26.4 where no mask takes 23.1. Rounding within the loop of the exponentials:
 * worse for a bias that must be read, B8 H16 S512, 39.4 against 36.6, as the loop is there twice. The
 * look itself took 10, 16, 8 us by tiles of keys with rows' bits in shared memory, 17, 27, 12 when
 * rows' spans came to that by atomics of each piece; 8.6, 13, 6.8 now that a warp has a row.
 *
 * S as a program stores it (round_s), bf16, H100: B4 H16 S2048 138 us without, 177 with one rounding;
 * B1 H32 S4096 causal 157 and 192, as a tensor 182 and 222; D128 S4096 400 and, rounded twice, 529.
 * Kernels of their own that round within the loop of the exponentials: 170, 183, 210, 500, but
 * rounded twice D64 220 instead of 208. Not kept: a fifth as many kernels again for 5 %.
 *
 * A bias that is one: [B,1,S,S], B8 H16 S512: 36 to 38 us where none takes 23; [B,H,S,S] S2048: D64
 * 107 us, D128 137 (cuDNN 142, 237). None rounds x.
 *
 * Two biases in 16 bits, us, H200, f16 B2 H16 S1024 unless said, beside what took them before (mma.cu,
 * sm90.cu): each pair of one run, of two in all. The look is at the second one; that the first, if rows share it (slopes), is
 * of moderate size is looked at with it:
 *     slopes and a causal mask    D64, K across 89 -> 39    D96 245 -> 44    D128, K across 170 -> 48
 *                                 bf16 B2 H32 S2048 D128 1008 -> 240
 *     [1,H,S,S] and [B,1,S,S]     D64 80 -> 41
 *     two of [1,H,S,S]            D128 175 -> 57
 *     [B,1,1,S] and [1,H,S,S]     bf16 B4 H8 S384 D32 28 -> 11
 * They have kernels of their own: with a loop over biases those for one took 1 to 4 % longer, with the
 * second behind the first up to 8 %.
 *
 * A boolean mask of padding, the look at it included: B8 H16 S512 D64 37.6 us (H100), B4 H16 S2048
 * D128 189 (H200) and 193 (H100); when it was read by each head, and tiles that nobody sees were
 * computed, 42 and 283 (H200).
 *
 * K as [D,197], copied before: B32 H16 50 us (H100), 58 (H200) when the copy was a block a row.
 */
#include "kernels/tma_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/tma_kernel.cuh"

#define TMA_KERNEL(type, T, name, width, groups, keys, q_stages, stages, kind, down)               \
	extern "C" __global__ void __launch_bounds__(TMA_THREADS(groups), 1)                       \
		fashim_tma_##type##_##name(const __grid_constant__ struct attn_mapped m)           \
	{                                                                                          \
		tma::kernel<T, width, groups, keys, q_stages, stages, kind, down> own{};           \
		own.run(own, m);                                                                   \
	}
#define TMA_F16(...)  TMA_KERNEL(f16, __half, __VA_ARGS__)
#define TMA_BF16(...) TMA_KERNEL(bf16, __nv_bfloat16, __VA_ARGS__)
EXPAND_TYPES(TMA_VARIANTS, TMA_F16, TMA_BF16)

#endif
