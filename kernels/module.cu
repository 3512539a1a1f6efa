/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that goes into one image: a file per kernel family, compiled together.
 */
#include "kernels/wmma.cu"
#include "kernels/prepare.cu"
#include "kernels/tma.cu"
#include "kernels/sm90.cu"
#include "kernels/f32.cu"
#include "kernels/f32_sm90.cu"
#include "kernels/decode.cu"
#include "kernels/few.cu"
#include "kernels/split.cu"
#include "kernels/reference.cu"
#include "kernels/drift.cu"
#include "kernels/inspect.cu"
#include "kernels/slopes.cu"
#include "kernels/lay_out.cu"
#include "kernels/copy_rows.cu"
