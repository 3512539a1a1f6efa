/* SPDX-License-Identifier: Apache-2.0
 *
 * The ladder's image: all its steps, apart from the kernels that ship.
 */
#include "kernels/ladder/01_minimal.cu"
#include "kernels/ladder/02_block_tiling.cu"
#include "kernels/ladder/03_warp_reductions.cu"
#include "kernels/ladder/04_light_barriers.cu"
#include "kernels/ladder/05_scalar_vectorised.cu"
#include "kernels/ladder/06_guarded.cu"
#include "kernels/ladder/07_cublas_hybrid.cu"
#include "kernels/ladder/08_unfused_pair.cu"
#include "kernels/ladder/09_fused_scalar_pv.cu"
#include "kernels/ladder/10_wmma_pv.cu"
#include "kernels/ladder/11_warp_softmax.cu"
#include "kernels/ladder/12_large_tiles.cu"
#include "kernels/ladder/13_vector_io.cu"
#include "kernels/ladder/14_warp_specialised.cu"
#include "kernels/ladder/15_async_copies.cu"
#include "kernels/ladder/16_swizzle.cu"
#include "kernels/ladder/17_persistent.cu"
#include "kernels/ladder/18_tuned.cu"
#include "kernels/ladder/19_one_stage.cu"
#include "kernels/ladder/20_rolling_slices.cu"
