/* SPDX-License-Identifier: Apache-2.0
 *
 * One parameter block of each family of kernels, as PyTorch 2.11 wrote it (kernel_blocks.trace.gz,
 * in this order), and what the kernel touches by the shapes of its tensors. A block of which a
 * number was changed so that it contradicts another, or of which a parameter is missing, must not
 * be read.
 */
#include "tests/unit/block.h"

#include <string.h>

#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/rules/rule_reader.h"
#include "shim/code/kernel_code.h"
#include "tools/replay/trace.h"

static const struct block blocks[] = {
	/* ---- element by element */
	{"10MulFunctorIfE", /* [1024,768] * [768] */
	 {S(616, 1024 * 768 * 4), R(624, 768 * 4), R(632, 1024 * 768 * 4)},
	 {AT(0, 1024 * 768 + 1), AT(12, 0), AT(312, 0x80000000), AT(316, 2)}},
	{"GroupNormKernelImplInternal", /* halves [2048,19199], floats [2048] twice */
	 {S(712, 2048 * 19199 * 2), R(720, 2048 * 19199 * 2), R(728, 2048 * 4), R(736, 2048 * 4)},
	 {AT(0, 2048 * 19199 - 1), AT(8, 9), AT(328, 1)}},
	{"batch_norm_calc_invstd", /* floats of 768 halves */
	 {S(24, 768 * 4), R(32, 768 * 2)},
	 {AT(0, 0), AT(0, 0x80000000)}},
	{"polar_kernel_cuda", /* complex numbers of twice 16384 floats */
	 {S(8, 16384 * 8), R(16, 16384 * 4), R(24, 16384 * 4)},
	 {AT(0, 0)}},
	{"launch_masked_scatter_kernel", /* [729088] halves, and a pointer in the functor */
	 {R(8, FAR), S(24, 729088 * 2), R(32, 729088 * 2), R(40, 729088), R(48, 729088 * 8)},
	 {AT(0, 0), AT(0, 0x80000000)}},
	{"conj_kernel_cuda", /* complex numbers */
	 {S(8, 200704 * 8), R(16, 200704 * 8)},
	 {AT(0, 0)}},
	{"15gpu_kernel_implINS0_13BinaryFunctorIfff", /* [4,12,384,64] * [4,1,384,64] halves to
							 fp32? */
	 {S(616, 4 * 12 * 384 * 64 * 4), R(624, 4 * 12 * 384 * 64 * 4), R(632, 384 * 64 * 2)},
	 {AT(0, 4 * 12 * 384 * 64 * 2), AT(8, 0xffffffff)}},
	{"24pow_tensor_tensor_kernelE", /* where its types stand is not known */
	 {W(616, 383 * 4 + 16, 0), R(624, 16), R(632, 383 * 4 + 16)},
	 {AT(0, 385)}},
	{"12LoadWithCastILi2E", /* longs of longs and bools */
	 {S(8, 4 * 8), R(16, 4 * 8), R(24, 4)},
	 {AT(36, 0x0b63), AT(40, 4), AT(48, 6), AT(0, 0)}},
	{"15LoadWithoutCast", /* one float of two */
	 {S(8, 4), R(16, 4), R(24, 4)},
	 {AT(0, 0)}},
	/* ---- softmax */
	{"softmax_warp_forwardIddd",
	 {S(0, 4096 * 256 * 8), R(8, 4096 * 256 * 8)},
	 {AT(20, 255), AT(16, 0), AT(24, 0)}},
	{"Li9ELb0ELb1", /* a mask of [12288,384] */
	 {S(0, 12288 * 384 * 2), R(8, 12288 * 384 * 2), R(32, 12288 * 384)},
	 {AT(20, 383), AT(16, 0xffffffff)}},
	{"softmax_warp_backward",
	 {S(0, 6144 * 256 * 2), R(8, 6144 * 256 * 2), R(16, 6144 * 256 * 2)},
	 {AT(24, 0), AT(28, 128)}},
	/* ---- norms */
	{"vectorized_layer_norm_kernelIN3c104HalfEfLb0", /* [2000,768] */
	 {R(8, 2000 * 768 * 2), R(16, 768 * 2), R(24, 768 * 2), S(32, 2000 * 4), S(40, 2000 * 4),
	  S(48, 2000 * 768 * 2)},
	 {AT(0, 0), AT(0, 0xfffffd00)}},
	{"vectorized_layer_norm_kernelIN3c104HalfEfLb1", /* [4096,128], without weights */
	 {R(8, 4096 * 128 * 2), S(40, 4096 * 4), S(48, 4096 * 128 * 2)},
	 {AT(0, 0)}},
	{"layer_norm_grad_input", /* [512,768] */
	 {R(0, 512 * 768 * 4), R(8, 512 * 768 * 4), R(16, 512 * 4), R(24, 512 * 4), R(32, 768 * 4),
	  S(40, 512 * 768 * 4)},
	 {AT(48, 0)}},
	{"GammaBetaBackward",
	 {R(16, 512 * 768 * 4), R(24, 512 * 768 * 4), R(32, 512 * 4), R(40, 512 * 4),
	  S(48, 768 * 4), S(56, 768 * 4)},
	 {AT(0, 0), AT(12, 0x7fffffff)}},
	{"RowwiseMoments", /* 2048 groups of 19199 */
	 {R(16, 2048 * 19199 * 2), S(24, 2048 * 2), S(32, 2048 * 2)},
	 {AT(0, 0), AT(4, 0x80000000)}},
	{"ComputeFusedParams", /* 4 images, 512 channels, 512 groups */
	 {R(24, 4 * 512 * 2), R(32, 4 * 512 * 2), R(40, 512 * 2), R(48, 512 * 2),
	  S(56, 4 * 512 * 4), S(64, 4 * 512 * 4)},
	 {AT(16, 3), AT(8, 0)}},
	{"input_channels_last_kernel", /* [3136,64], no second input */
	 {R(0, 3136 * 64 * 2), R(16, 64 * 4), R(24, 64 * 4), R(32, 64 * 2), R(40, 64 * 2),
	  S(48, 3136 * 64 * 2)},
	 {AT(56, 0), AT(60, 0xffffffff)}},
	{"33batch_norm_transform_input_kernel", /* [4,768,199] */
	 {R(0, 4 * 768 * 199 * 2), S(32, 4 * 768 * 199 * 2), R(64, 768 * 4), R(80, 768 * 4),
	  R(96, 768 * 2), R(112, 768 * 2)},
	 {AT(8, 5), AT(104, 767), AT(24, 0x80000000)}},
	{"weight_norm_fwd_last_dim", /* [147456,32] */
	 {S(0, 147456 * 32 * 2), S(8, 32 * 4), R(16, 147456 * 32 * 2), R(24, 32 * 2)},
	 {AT(32, 0), AT(36, 0xffffffff)}},
	/* ---- images */
	{"max_pool_forward_nchw", /* [4,512] to [4,128], and places */
	 {R(8, 4 * 512 * 4), S(80, 4 * 128 * 4), S(88, 4 * 128 * 8)},
	 {AT(0, 511), AT(44, 127), AT(16, 3)}},
	{"max_pool_forward_nhwc", /* [4,192,64,64] to [4,192,32,32], channels last, and places */
	 {R(0, 4 * 64 * 64 * 192 * 2), S(88, 4 * 32 * 32 * 192 * 2), S(96, 4 * 32 * 32 * 192 * 8)},
	 {AT(8, 5), AT(12, 0), AT(68, 0x80000000), AT(80, 1)}},
	{"21adaptive_average_poolI", /* [4,2,64,64] to [4,2,7,7] */
	 {R(0, 8 * 64 * 64 * 2), S(8, 8 * 7 * 7 * 2)},
	 {AT(16, 0), AT(28, 0xffffffff), AT(16, 0x300000), AT(36, 0x80000000)}},
	{"15adaptivemaxpool", /* [4,2,64,64] to [4,2,8,1], and places */
	 {R(0, 8 * 64 * 64 * 2), S(8, 8 * 8 * 2), S(16, 8 * 8 * 8)},
	 {AT(24, 0), AT(36, 0x80000000), AT(28, 0x1000001)}},
	{"26adaptive_average_pool_nhwc", /* [4,64,56,56] to [4,64,7,7], channels last */
	 {R(0, 4 * 56 * 56 * 64 * 2), S(8, 4 * 7 * 7 * 64 * 2)},
	 {AT(16, 5), AT(20, 0), AT(40, 2), AT(52, 0x80000000)}},
	{"25avg_pool2d_out_cuda_frameI", /* [4,64,56,56] to the same */
	 {R(8, 4 * 64 * 56 * 56 * 2), S(80, 4 * 64 * 56 * 56 * 2)},
	 {AT(0, 1), AT(24, 0)}},
	{"30avg_pool2d_out_cuda_frame_nhwc", /* [4,1,199,768] to [4,1,99,768] */
	 {R(8, 4 * 199 * 768 * 4), S(72, 4 * 99 * 768 * 4)},
	 {AT(0, 4 * 99 * 768 - 1), AT(32, 0xffffffff)}},
	{"depthwise2d_forward_kernel_generic", /* [2,1024,1,128] to [2,1024,1,131], kernels of 4 */
	 {R(0, 2 * 1024 * 128 * 2), S(40, 2 * 1024 * 131 * 2), R(80, 1024 * 4 * 2),
	  R(120, 1024 * 2)},
	 {AT(140, 1), AT(48, 3), AT(8, 0)}},
	{"depthwise2d_forward_kernelILi3E", /* [4,128,128,128] to [4,128,64,64], 3x3, no bias */
	 {R(0, 4 * 128 * 128 * 128 * 2), S(40, 4 * 128 * 64 * 64 * 2), R(80, 128 * 9 * 2)},
	 {AT(140, 1), AT(24, 0x80000000)}},
	{"upsample_linear1d", /* [1,64,27], channels last */
	 {R(16, 64 * 27 * 2), S(72, 64 * 27 * 2)},
	 {AT(0, 26), AT(32, 65)}},
	{"upsample_bicubic2d", /* [1,768,14,14], channels last */
	 {R(16, 768 * 14 * 14 * 2), S(88, 768 * 14 * 14 * 2)},
	 {AT(0, 195), AT(32, 767)}},
	{"upsample_nearest1d", /* [2,6,100] halves to [2,6,250] */
	 {R(0, 2 * 6 * 100 * 2), S(40, 2 * 6 * 250 * 2)},
	 {AT(8, 0), AT(16, 0), AT(24, 0), AT(32, 0)}},
	{"upsample_nearest2d", /* [2,512,512] to [2,16,16] */
	 {R(0, 2 * 512 * 512 * 4), S(8, 2 * 16 * 16 * 4)},
	 {AT(16, 0), AT(44, 0x7fffffff)}},
	{"upsample_nearest2d_nhwc", /* [2,128,16,16] to [2,128,32,32], channels last */
	 {R(0, 2 * 128 * 16 * 16 * 2), S(8, 2 * 128 * 32 * 32 * 2)},
	 {AT(16, 127), AT(24, 0), AT(64, 0x40001), AT(GRIDX, 255)}},
	{"reflection_pad2d", /* [4,128,56,56] to [4,128,58,58] */
	 {R(0, 4 * 128 * 56 * 56 * 2), S(8, 4 * 128 * 58 * 58 * 2)},
	 {AT(16, 0), AT(32, 56), AT(52, 1), AT(56, 127)}},
	{"reflection_pad1d", /* [2,6,100] halves to [2,6,108] */
	 {R(0, 2 * 6 * 100 * 2), S(8, 2 * 6 * 108 * 2)},
	 {AT(16, 0), AT(16, 101), AT(24, 100), AT(36, 0xffffffff)}},
	{"grid_sampler_2d", /* [16,32,16,16] at [16,300,4] places */
	 {R(8, 16 * 32 * 16 * 16 * 4), R(224, 16 * 300 * 4 * 2 * 4), S(440, 16 * 32 * 300 * 4 * 4)},
	 {AT(0, 1), AT(20, 31), AT(244, 3), AT(452, 0)}},
	{"im2col_kernel", /* [384,384,1], kernels of 9 */
	 {R(8, 384 * 384 * 2), S(112, 384 * 9 * 384 * 2)},
	 {AT(0, 1), AT(96, 383), AT(32, 0)}},
	{"roll_cuda_kernel",
	 {R(0, 1572864 * 2), S(8, 1572864 * 2)},
	 {AT(24, 4), AT(40, 65), AT(16, 0)}},
	/* ---- indices */
	{"vectorized_gather_kernel", /* 2048 of 2000 rows of 256 halves */
	 {S(0, 2048 * 512), R(8, 2000 * 512), R(16, 2048 * 8)},
	 {AT(24, 2047), AT(48, 256), AT(56, 256), AT(GRIDX, 2047)}},
	{"17index_kernel_impl", /* bools [8,256] by two of [8,256] */
	 {S(616, 2048), R(624, 8 * 256), R(640, 2048 * 8), R(648, 2048 * 8)},
	 {AT(0, 2047), AT(632, 26), AT(632, 0), AT(840, 0)}},
	{"21index_put_kernel_impl", /* one float somewhere in a thousand */
	 {W(616, 1000 * 4, 0), R(624, 4), R(640, 8)},
	 {AT(0, 2), AT(840, 0), AT(1044, 0x80000000)}},
	{"index_copy_kernel_impl", /* [2,100,2,64] halves into [2,2,123,64] at 100 places */
	 {W(616, 2 * 2 * 123 * 64 * 2, 0), R(624, 100 * 8), R(632, 2 * 100 * 2 * 64 * 2)},
	 {AT(0, 25601), AT(640, 0), AT(648, 0)}},
	{"indexSelectSmallIndex", /* 4 of 1000 rows of 512 halves */
	 {S(0, 4 * 512 * 2), R(216, 1000 * 512 * 2), R(432, 4 * 8)},
	 {AT(648, 9), AT(664, 0), AT(640, 26), AT(656, 511)}},
	{"indexSelectSmallIndexIN3c107complexIfEE", /* the same of complex numbers */
	 {S(0, 4 * 512 * 8), R(216, 1000 * 512 * 8), R(432, 4 * 8)},
	 {AT(648, 9), AT(664, 0), AT(640, 26), AT(656, 511)}},
	{"indexFuncLargeIndex", /* 196 rows of 512 floats added to 1024 */
	 {U(0, 1024 * 512 * 4), R(216, 196 * 512 * 4), R(432, 196 * 8)},
	 {AT(648, 9), AT(664, 0), AT(672, 0)}},
	{"ILb0ENS0_10OpaqueTypeILi4E", /* [48,256,256] floats by indices [256,256] */
	 {R(616, 256 * 256 * 8), S(640, 48 * 256 * 256 * 4), R(664, 48 * 256 * 256 * 4)},
	 {AT(0, 48 * 256 * 256 + 1), AT(624, 0), AT(312, 0x80000000)}},
	{"ILb1ENS0_10OpaqueTypeILi2E", /* [24,64,3,64] into 64 of each 1024 rows of 16 times 64 */
	 {R(616, 23 * 336 + 2 * 8 + 8), W(640, 23 * 1024 * 2048 + 63 * 2048 + 16 * 64 * 2, 0),
	  R(664, 23 * 57344 + 63 * 896 + 3 * 64 * 2)},
	 {AT(0, 1), AT(624, 0)}},
	{"9ReduceAddE", /* [8000,4] floats added to [2000,4] */
	 {R(616, 8000 * 8), U(640, 2000 * 4 * 4), R(664, 8000 * 4 * 4)},
	 {AT(0, 31999), AT(624, 0), AT(656, 0)}},
	{"scatter_fill", /* one of 4 longs in each of 1024 rows */
	 {R(512, 1024 * 8), W(536, 1024 * 4 * 8, 0)},
	 {AT(0, 1023), AT(520, 0)}},
	{"embedding_backward_feature", /* 256 rows of 768 */
	 {R(0, 256 * 8), R(8, 256 * 768 * 4), U(16, FAR)},
	 {AT(24, 0), AT(32, 0)}},
	{"write_indices", {U(0, 196 * 2 * 8)}, {AT(208, 26), AT(216, 0)}},
	{"masked_scatter_size_check", {R(0, 8), R(8, 1)}, {{0, 0}}},
	/* ---- reductions, concatenations */
	{"13MaxNanFunctorIf", /* the largest of 256000, in 32 blocks */
	 {R(984, 256000 * 4), S(992, 4), U(1016, 32 * 4), U(1024, 4)},
	 {AT(1044, 3), AT(1044, 0)}},
	{"10WelfordOps", /* the deviation of 589824, in 72 blocks of 16 bytes each */
	 {R(1000, 589824 * 4), S(1008, 4), U(1032, 72 * 16), U(1040, 4)},
	 {AT(1060, 3)}},
	{"6MaxOpsIS4_", /* the largest of 4, of 602112, and their places */
	 {R(1000, 602112 * 4 * 2), S(1008, 602112 * 2), S(1016, 602112 * 8)},
	 {AT(1060, 0)}},
	{"CatArrayBatchedCopy_vectorized", /* twice [4,384,384] halves behind one another */
	 {R(8, 4 * 384 * 384 * 2), R(16, 4 * 384 * 384 * 2), S(0, 2 * 4 * 384 * 384 * 2)},
	 {AT(2728, 0), AT(2728, 2), AT(GRIDX + 1, 129)}},
	{"19CatArrayBatchedCopyINS1_10OpaqueTypeILj4E", /* [4,12,384,32], one a half of [.., 64] */
	 {R(8, 4 * 12 * 384 * 32 * 4), R(16, (4 * 12 * 384 * 64 - 32) * 4),
	  S(0, 4 * 12 * 384 * 64 * 4)},
	 {AT(3400, 0), AT(3412, 32), AT(GRIDX + 1, 65)}},
	{"CatArrayBatchedCopy_alignedK_contig", /* 128 of [2,1024,1] halves, some behind others */
	 {R(8, 5 * 4096), R(48, 2 * 4096), R(64, 14 * 4096), R(176, 4096), R(184, 4096),
	  R(192, 4096), R(200, 2 * 4096), R(216, 5 * 4096), R(256, 13 * 4096), R(360, 16 * 4096),
	  R(488, 4096), R(496, 14 * 4096), R(608, 4096), R(616, 16 * 4096), R(744, 15 * 4096),
	  R(864, 16 * 4096), R(992, 5 * 4096), S(0, 128 * 4096)},
	 {AT(2728, 0), AT(2728, 1), AT(GRIDX + 1, 129)}},
	/* ---- row by row */
	{"scan_innermost_dim", /* [4,500] */
	 {S(0, 4 * 500 * 8), R(8, 4 * 500 * 8)},
	 {AT(16, 0), AT(20, 0xffffffff)}},
	{"scan_outer_dim", /* [2,16,16] */
	 {S(0, 2 * 16 * 16 * 4), R(8, 2 * 16 * 16 * 4)},
	 {AT(24, 0)}},
	{"triu_tril_kernel", /* [128,129] */
	 {S(0, 128 * 129 * 4), R(216, 128 * 129 * 4)},
	 {AT(8, 127), AT(440, 16641), AT(448, 128)}},
	{"gatherTopK", /* 2 of 4, 1024 times, and their places */
	 {R(0, 1024 * 4 * 4), S(240, 1024 * 2 * 4), S(464, 1024 * 2 * 8)},
	 {AT(228, 1023), AT(220, 5), AT(216, 0)}},
	{"bitonicSortKVInPlace", /* 1024 pairs */
	 {U(0, 1024 * 2 * 4), U(232, 1024 * 2 * 8)},
	 {AT(216, 1023), AT(220, 0)}},
	{"radixSortKVInPlace", /* 2048 */
	 {U(0, 2048 * 8), U(232, 2048 * 8)},
	 {AT(216, 2), AT(220, 0)}},
	{"kernelHistogram1D", /* 4 counts of 2048 */
	 {U(0, 4 * 4), R(832, 2048 * 4)},
	 {AT(1248, 5), AT(1272, 2049)}},
	{"DeviceScanInitKernel", {U(0, (32 + 1) * 16)}, {AT(8, 0)}},
	{"16DeviceScanKernel", /* 4 ints */
	 {R(0, 4 * 4), S(8, 4 * 4), U(16, (32 + 1) * 16)},
	 {AT(32, 0)}},
	{"11CountMaskOpEPKh", /* 729088 bools to longs, in 814 blocks */
	 {R(0, 729088), S(16, 729088 * 8), U(24, (32 + 814) * 16)},
	 {AT(56, 0), AT(40, 1), AT(GRIDX, 729089)}},
	{"28DeviceReduceSingleTileKernel", /* how many of 1024 longs are not 0 */
	 {R(0, 1024 * 8), S(16, 4)},
	 {AT(24, 0), AT(28, 0x80000000), AT(GRIDX, 2)}},
	{"23DeviceSelectSweepKernel", /* which of them */
	 {R(8, 1024 * 8), W(24, 1024 * 8, 0), U(32, 4), U(40, (32 + 1) * 16), U(88, 8), U(96, 8)},
	 {AT(52, 0), AT(72, 1023), AT(80, 1), AT(104, 0)}},
	{"DeviceCompactInitKernel", {U(0, (32 + 1) * 16), W(16, 8, 0)}, {AT(8, 0)}},
	/* ---- PyTorch's own attention, and numbers from nowhere */
	{"transform_bias_rescale_qkv", /* [4,384,3*512] to [3,4,8,384,64] */
	 {R(0, 4 * 384 * 1536 * 2), R(56, 1536 * 2), S(80, 3 * 4 * 384 * 512 * 2)},
	 {AT(88, 4), AT(64, 1535), AT(GRIDX, 1535)}},
	{"remove_padding_2",
	 {R(0, FAR), W(8, FAR, 0), R(16, FAR), R(24, FAR), R(32, FAR)},
	 {{0, 0}}},
	{"add_padding_2", /* to [4,200,512] */
	 {R(0, FAR), S(8, 4 * 200 * 512 * 4), R(24, FAR), R(32, FAR)},
	 {AT(44, 0), AT(52, 5)}},
	{"NKUlvE2_clEvEUllE_EEvT_T0_", {S(32, 8 * 8)}, {AT(0, 0)}},	     /* longs */
	{"NKUlvE5_clEvEUllE_EEvT_T0_", {S(24, 14 * 4)}, {AT(0, 0)}},	     /* floats */
	{"NKUlvE1_clEvEUllE_EEvT_T0_", {W(32, 2048 * 8, 2048)}, {AT(0, 0)}}, /* ints, or doubles */
	{"normal_and_transform", {S(48, 885504 * 2)}, {AT(56, 1), AT(56, 3), AT(0, 0)}},
};

#define BLOCKS_COUNT (sizeof(blocks) / sizeof(*blocks))

/* Whatever stands in a word, an access begins at its pointer and holds what is sure of it. */
static void check_torn(const struct block *block, const struct function *function,
		       const struct op_launch *launch, const unsigned char *params)
{
	static const uint32_t words[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
	static unsigned char torn[FUNCTION_MAX_BYTES];
	struct access_list list;

	for (unsigned at = 0; at + 4 <= function->bytes; at += 4)
		for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
			memcpy(torn, params, function->bytes);
			memcpy(torn + at, &words[i], 4);
			read_block(function, launch, torn, &list);
			for (int k = 0; k < list.count; k++) {
				const struct access *access = &list.item[k];
				uint64_t pointer;

				memcpy(&pointer, torn + access->where, 8);
				if (access->begin != pointer || access->end <= pointer ||
				    access->sure_end < pointer || access->sure_end > access->end)
					fail_msg("%s: at %d, with %x at %u", block->name,
						 access->where, words[i], at);
			}
		}
}

static void each_launch(struct op *op, void *argument)
{
	static unsigned char params[FUNCTION_MAX_BYTES];
	const struct function *function;
	unsigned *next = argument;
	const struct block *block = &blocks[*next];
	struct access_list list;

	if (op->kind == OP_ALLOC)
		memory_add(op->alloc.range.base, op->alloc.range.bytes, op->alloc.kind,
			   op->context);
	if (op->kind != OP_LAUNCH)
		return;
	assert_true(*next < BLOCKS_COUNT);
	++*next;
	function = function_get(op->launch.function);
	if (!strstr(function->name, block->name))
		fail_msg("%s is no %s", function->name, block->name);
	assert_true(function_read_params(function, &op->launch, params));
	if (!read_block(function, &op->launch, params, &list))
		fail_msg("%s: not read", block->name);
	check_touches(block, &list, params);
	check_spoilt(block, function, &op->launch, params);
	check_short(block, function, &op->launch, params);
	check_torn(block, function, &op->launch, params);
}

static void test_blocks(void **state)
{
	unsigned next = 0;

	core_begin();
	driver_resolve();
	assert_true(trace_play(KERNEL_BLOCKS, each_launch, &next) > 0);
	assert_int_equal(next, BLOCKS_COUNT);
}

/* ---- the same name in other versions ------------------------------------------------------------
 */

#define LAMBDA(functor, unroll, which)                                                             \
	"_ZN2at6native18elementwise_kernelILi128ELi" unroll "EZNS0_15gpu_kernel_implINS0_" functor \
	"EEvRNS_18TensorIteratorBaseERKT_" which "_EEviT1_"
#define ENTRY(name) ".visible .entry " name "() { ret; }\n"
#define IMAGE	    ".version 8.0\n.target sm_80\n"

static CUmodule module_of_all;

static CUresult function_module(CUmodule *module, CUfunction function)
{
	(void)function;
	*module = module_of_all;
	return module_of_all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult one_device(CUdevice *device, int i)
{
	*device = i;
	return i ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult of_sm_80(int *value, CUdevice_attribute what, CUdevice device)
{
	(void)device;
	*value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 8 : 0;
	return CUDA_SUCCESS;
}

/* Up to PyTorch 2.1 the first of two lambdas casts nothing, later the only one does: what lies
 * beside a kernel in its image tells which it is, and without that it is unknown. Two elements to
 * a thread have never been of one that casts. */
static void test_versions(void **state)
{
	static const char older[] =
		IMAGE ENTRY(LAMBDA("2F1", "4", "EUliE")) ENTRY(LAMBDA("2F1", "4", "EUliE0")),
			  newer[] = IMAGE ENTRY(LAMBDA("2F2", "4", "EUliE"));
	static const struct {
		const char *name, *image;
		bool (*read)(struct reading *reading); /* NULL: unknown */
	} rows[] = {
		{LAMBDA("2F1", "4", "EUliE"), older, rule_read_strided},
		{LAMBDA("2F1", "4", "EUliE0"), older, rule_read_strided_cast},
		{LAMBDA("2F2", "4", "EUliE"), newer, rule_read_strided_cast},
		{LAMBDA("2F3", "4", "EUliE"), NULL, NULL},
		{LAMBDA("2F3", "4", "EUliE1"), NULL, NULL},
		{LAMBDA("2F3", "2", "EUliE"), NULL, rule_read_strided},
		{LAMBDA("2F3", "2", "EUliE0"), NULL, NULL},
	};
	const size_t offset[] = {0, 8}, size[] = {4, 648};

	core_begin();
	driver_resolve();
	driver.cuFuncGetModule = function_module;
	driver.cuDeviceGet = one_device;
	driver.cuDeviceGetAttribute = of_sm_80;
	kernel_code_loaded(older, older);
	kernel_code_loaded(newer, newer);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct function *function;

		module_of_all = (CUmodule)(uintptr_t)rows[i].image;
		function = function_get(below_function(rows[i].name, 2, offset, size));
		if ((function->rule ? function->rule->read : NULL) != rows[i].read)
			fail_msg("%s is not taken for what it is", rows[i].name);
	}
	driver.cuFuncGetModule = NULL;
}

/* The largest k of each row, put where rows are longer than k. */
static void each_top_k(struct op *op, void *argument)
{
	static unsigned char params[FUNCTION_MAX_BYTES];
	const uint32_t longer = 3;
	const struct function *function;
	struct access_list list;

	if (op->kind == OP_ALLOC)
		memory_add(op->alloc.range.base, op->alloc.range.bytes, op->alloc.kind,
			   op->context);
	if (op->kind != OP_LAUNCH)
		return;
	function = function_get(op->launch.function);
	if (!strstr(function->name, "gatherTopK"))
		return;
	++*(unsigned *)argument;
	assert_true(function_read_params(function, &op->launch, params));
	memcpy(params + 240 + 8 + 100, &longer, 4); /* from one row to the next */
	assert_true(read_block(function, &op->launch, params, &list));
	for (int i = 0; i < list.count; i++)
		if (list.item[i].where == 240) {
			assert_int_equal(list.item[i].sure_end, list.item[i].begin);
			assert_int_equal(list.item[i].end - list.item[i].begin, (1023 * 3 + 2) * 4);
		}
}

static void test_gaps(void **state)
{
	unsigned found = 0;

	core_begin();
	driver_resolve();
	assert_true(trace_play(KERNEL_BLOCKS, each_top_k, &found) > 0);
	assert_int_equal(found, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks),
					   cmocka_unit_test(test_versions),
					   cmocka_unit_test(test_gaps)};

	return CORE_MAIN("rules_blocks", tests);
}
