/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernel_check asks of the kernels: a table of calls worth naming, and a sweep that takes
 * every pair of awkward lengths through every head dimension, with one feature, one storage and
 * one dtype per call in turn. Cases name themselves by what they are (kernel_case_name), so a new
 * one is one line.
 */
#ifndef FASHIM_KERNEL_CASES_H
#define FASHIM_KERNEL_CASES_H

#include <stddef.h>

#include "kernel_cases_hard.h"
#include "kernel_case.h"

/* clang-format off */
static const struct kernel_case kernel_cases[] = {
	{IN_F16, SHAPE(2, 3, 256, 256, 64)},
	{IN_BF16, SHAPE(2, 3, 256, 384, 64), .storage = BSHD},
	{IN_F16, SHAPE(2, 3, 256, 256, 128)},
	{IN_BF16, SHAPE(1, 3, 300, 333, 128)},
	{IN_F16, SHAPE(2, 3, 300, 333, 256)},
	{IN_BF16, SHAPE(2, 4, 300, 333, 256), .storage = SHARED_KV},
	{IN_F16, SHAPE(2, 3, 333, 333, 256), .causal = 1},
	{IN_BF16, SHAPE(1, 3, 250, 517, 256), .storage = BSHD, .causal = 2},
	{IN_F16, SHAPE(1, 2, 1000, 1100, 248), .causal = 2, .left = 300},
	{IN_F16, SHAPE(2, 3, 300, 333, 192)},
	{IN_BF16, SHAPE(2, 4, 300, 333, 192), .storage = SHARED_KV},
	{IN_BF16, SHAPE(2, 3, 333, 333, 192), .causal = 1},
	{IN_F16, SHAPE(1, 3, 250, 517, 192), .storage = BSHD, .causal = 2},
	{IN_BF16, SHAPE(1, 2, 1000, 1100, 184), .causal = 2, .left = 300},
	{IN_F16, SHAPE(1, 2, 777, 1500, 192), .data = STEEP},
	{IN_F16, SHAPE(1, 2, 777, 1500, 256), .data = STEEP},
	{IN_F16, SHAPE(2, 3, 197, 203, 64), .storage = BSHD},
	{IN_F16, SHAPE(1, 2, 70, 1, 64)},
	{IN_F16, SHAPE(1, 2, 1, 5000, 128)},
	{IN_F16, SHAPE(2, 3, 197, 197, 64), .down = 1},
	{IN_F16, SHAPE(2, 3, 197, 200, 64), .down = 1},
	{IN_BF16, SHAPE(2, 3, 197, 264, 128), .down = 1},
	{IN_F16, SHAPE(2, 3, 200, 264, 64), .down = 1, .down_all = 1},
	{IN_F16, SHAPE(2, 3, 500, 500, 64), .causal = 1},
	{IN_F16, SHAPE(2, 3, 200, 500, 128), .causal = 2},
	{IN_F16, SHAPE(1, 3, 500, 200, 64), .causal = 2},
	{IN_BF16, SHAPE(1, 3, 500, 200, 128), .causal = 2, .empty_row = ATTN_EMPTY_MEAN},
	{IN_BF16, SHAPE(1, 3, 500, 200, 64), .causal = 2, .empty_row = ATTN_EMPTY_ZERO},
	{IN_BF16, SHAPE(2, 3, 500, 500, 64), .causal = 1, .left = 100},
	{IN_BF16, SHAPE(2, 3, 500, 504, 128), .causal = 1, .left = 70, .down = 1},
	{IN_BF16, SHAPE(2, 3, 500, 500, 64), .causal = 1, .window_fill = FILL_LOWEST},
	{IN_F16, SHAPE(2, 3, 500, 300, 128), .causal = 2, .window_fill = FILL_1E4},
	{IN_BF16, SHAPE(2, 3, 256, 256, 64), ADD(SQUARE, BF16), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 197, 203, 64), ADD(BATCH, F16), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 197, 200, 128), ADD(HEAD, F32)},
	{IN_BF16, SHAPE(2, 3, 256, 200, 128), ADD(HEAD, BF16)},
	{IN_BF16, SHAPE(2, 3, 300, 520, 64), ADD(FULL, BF16)},
	{IN_F16, SHAPE(2, 3, 300, 520, 128), ADD(FULL, F16)},
	{IN_F16, SHAPE(2, 3, 256, 264, 64), ADD(HEAD, F16), .second = 1},
	{IN_F16, SHAPE(2, 3, 256, 264, 64), ADD(BATCH, F16), .down = 1},
	{IN_BF16, SHAPE(2, 3, 197, 216, 128), ADD(KEYS, BF16), .second = 1, .down = 1},
	{IN_BF16, SHAPE(2, 3, 520, 520, 128), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 520, 520, 64), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_INF)},
	{IN_F16, SHAPE(2, 3, 520, 520, 128), ADD_FILL(BATCH, F16, TRIANGLE, FILL_LOWEST), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 520, 520, 64), ADD_FILL(BATCH, F16, BLOCKS, FILL_INF)},
	{IN_BF16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(SQUARE, BF16, BLOCKS, FILL_LOWEST), .round_x = 1, NO_KEY(NAN)},
	{IN_F16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(SQUARE, F16, BLOCKS, FILL_LOWEST), .floored = 1, .data = STEEP, NO_KEY(NAN)},
	{IN_F16, SHAPE(2, 3, 197, 203, 64), ADD_FILL(BATCH, F16, TRIANGLE, FILL_INF), .floored = 1, NO_KEY(NAN)},
	{IN_F16, SHAPE(2, 3, 2, 777, 128), ADD_FILL(PADDING, F16, TAIL, FILL_INF), .floored = 1, NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(SQUARE, BF16, BLOCKS, FILL_INF), NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(SQUARE, BF16, BLOCKS, FILL_INF), NO_KEY(ZERO)},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(SQUARE, F16, BLOCKS, FILL_INF), NO_KEY(MEAN)},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, F16, SPANS, FILL_LOWEST), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, F16, SPANS, FILL_INF), .data = STEEP},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, F16, SPANS, FILL_LOWEST), .data = OUTLIERS, .round_x = 1},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(SQUARE, F16, SPANS, FILL_LOWEST), .softcap = 2.0f, .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, BF16, SPANS, FILL_LOWEST), .scale = NEGATIVE, .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, BF16, SPANS, FILL_1E4)},
	{IN_BF16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, BF16, SPANS, FILL_INF), .empty_row = ATTN_EMPTY_ZERO, .down = 1},
	{IN_BF16, SHAPE(2, 3, 517, 776, 96), ADD_FILL(BATCH, BF16, SPANS, FILL_INF), .empty_row = ATTN_EMPTY_ZERO},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(BATCH, BF16, SPANS, FILL_LOWEST), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 520, 776, 192), ADD_FILL(BATCH, F16, SPANS, FILL_LOWEST), .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 256), ADD_FILL(SQUARE, BF16, SPANS, FILL_INF)},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(BATCH, F16, SPOILT, FILL_LOWEST), .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(BATCH, BF16, SPOILT, FILL_INF)},
	{IN_F16, SHAPE(2, 3, 200, 520, 64), ADD_FILL(PADDING, F16, TAIL, FILL_LOWEST), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 200, 520, 128), ADD_FILL(PADDING, F16, TAIL, FILL_INF)},
	{IN_F16, SHAPE(2, 3, 200, 520, 64), ADD_FILL(PADDING, F16, TAIL, FILL_1E4)},
	{IN_BF16, SHAPE(2, 3, 200, 520, 64), ADD_FILL(KEYS, BF16, BLOCKS, FILL_LOWEST), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 200, 777, 64), ADD_FILL(KEYS, F16, TAIL, FILL_LOWEST), .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 200, 777, 64), ADD_FILL(KEYS, BF16, OPEN, FILL_LOWEST), .round_x = 1},
	{IN_BF16, SHAPE(1, 3, 400, 4104, 128), ADD_FILL(SQUARE, BF16, SPANS, FILL_LOWEST), .round_x = 1},
	{IN_F16, SHAPE(2, 3, 200, 520, 64), MASK(PADDING, TAIL)},
	{IN_F16, SHAPE(2, 3, 200, 528, 64), MASK(PADDING, TAIL)},
	{IN_BF16, SHAPE(2, 3, 200, 528, 64), MASK(SQUARE, BLOCKS), .mask_drops = 1},
	{IN_F16, SHAPE(2, 3, 520, 784, 64), MASK(BATCH, TRIANGLE), .down = 1},
	{IN_BF16, SHAPE(2, 3, 520, 784, 48), MASK(FULL, NOISE), .mask_fill = FILL_1E4, .down = 1},
	{IN_F16, SHAPE(2, 3, 520, 784, 128), MASK(SQUARE, BLOCKS), .mask_fill = FILL_LOWEST},
	{IN_BF16, SHAPE(2, 3, 300, 528, 128), MASK(PADDING, TAIL), .causal = 1},
	{IN_BF16, SHAPE(2, 3, 200, 520, 128), MASK(PADDING, TAIL), .mask_drops = 1},
	{IN_F16, SHAPE(2, 3, 1100, 1104, 64), MASK(SQUARE, TRIANGLE)},
	{IN_BF16, SHAPE(2, 3, 1100, 1104, 128), MASK(BATCH, TRIANGLE), .mask_fill = FILL_LOWEST, .mask_drops = 1},
	{IN_F16, SHAPE(2, 3, 520, 2064, 64), MASK(PADDING, TAIL), .mask_fill = FILL_LOWEST, .down = 1},
	{IN_F16, SHAPE(2, 3, 520, 2064, 128), MASK(PADDING, TAIL), NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 520, 1040, 64), MASK(SQUARE, SPARSE), .mask_fill = FILL_LOWEST},
	{IN_F16, SHAPE(3, 3, 520, 1040, 64), MASK(BATCH, SPANS), .mask_fill = FILL_LOWEST},
	{IN_BF16, SHAPE(3, 3, 520, 1040, 128), MASK(BATCH, SPANS), NO_KEY(NAN)},
	{IN_F16, SHAPE(3, 3, 520, 1040, 64), MASK(BATCH, SPOILT), .mask_drops = 1, NO_KEY(NAN)},
	{IN_F16, SHAPE(3, 3, 520, 1040, 128), MASK(PADDING, PREFIX)},
	{IN_BF16, SHAPE(2, 3, 520, 1040, 64), MASK(SQUARE, OPEN)},
	{IN_F16, SHAPE(2, 3, 520, 1040, 64), MASK(BATCH, TRIANGLE), .mask_fill = FILL_1E4},
	{IN_F16, SHAPE(2, 3, 1100, 1104, 64), MASK(BATCH, TRIANGLE), NO_KEY(ZERO), STORED_TWICE, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 197, 264, 64), MASK(SQUARE, NOISE)},
	{IN_F16, SHAPE(2, 3, 197, 264, 128), MASK(SQUARE, NOISE), .down = 1},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), MASK(SQUARE, BLOCKS), .mask_drops = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), MASK(BATCH, TRIANGLE), .mask_fill = FILL_LOWEST},
	{IN_BF16, SHAPE(2, 3, 520, 776, 64), MASK(FULL, BLOCKS), .mask_fill = FILL_1E4, NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 197, 211, 64), MASK(SQUARE, NOISE), NO_KEY(ZERO)},
	{IN_BF16, SHAPE(2, 3, 197, 211, 64), MASK(SQUARE, NOISE), NO_KEY(MEAN)},
	{IN_F16, SHAPE(2, 3, 197, 211, 128), MASK(SQUARE, NOISE), NO_KEY(NAN), .storage = BSHD},
	{IN_F16, SHAPE(2, 3, 256, 272, 128), MASK(BATCH, BLOCKS), NO_KEY(NAN), .causal = 1},
	{IN_BF16, SHAPE(2, 3, 300, 520, 64), SINKS(HEADS, BF16), .storage = BSHD},
	{IN_F16, SHAPE(2, 3, 300, 520, 128), SINKS(FULL, F32), .causal = 2},
	{IN_BF16, SHAPE(2, 3, 520, 520, 64), SINKS(HEADS, BF16), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), SINKS(HEADS, F16), MASK(SQUARE, BLOCKS), NO_KEY(NAN)},
	{IN_F16, SHAPE(2, 3, 300, 520, 64), MASK(SQUARE, BLOCKS), .mask_fill = FILL_LOWEST, ADD_FILL(SQUARE, F16, TRIANGLE, FILL_LOWEST), NO_KEY(AGAIN)},
	{IN_BF16, SHAPE(2, 3, 300, 520, 128), MASK(SQUARE, BLOCKS), .mask_fill = FILL_INF, ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_INF), NO_KEY(AGAIN)},
	{IN_BF16, SHAPE(2, 3, 300, 333, 80), MASK(BATCH, BLOCKS), .mask_fill = FILL_1E4, ADD_FILL(SQUARE, F32, TRIANGLE, FILL_1E4), .mask_drops = 1, NO_KEY(AGAIN), .down = 1},
	{IN_F16, SHAPE(2, 3, 333, 300, 256), MASK(PADDING, TAIL), .mask_fill = FILL_1E4, .mask_drops = 1, ADD(HEAD, F16), .empty_row = ATTN_EMPTY_AGAIN},
	{IN_F16, SHAPE(2, 3, 4, 1000, 64), MASK(PADDING, TAIL), .mask_fill = FILL_LOWEST, ADD(HEAD, F16), .empty_row = ATTN_EMPTY_AGAIN},
	{IN_F16, SHAPE(2, 64, 1, 1000, 64), SINKS(HEADS, F16)},
	{IN_F16, SHAPE(2, 3, 300, 520, 64), LENGTHS(PADDING)},
	{IN_BF16, SHAPE(2, 3, 300, 520, 128), LENGTHS(FULL), .causal = 1},
	{IN_F16, SHAPE(2, 3, 200, 300, 64), LENGTHS(BATCH), NO_KEY(ZERO), .down = 1},
	{IN_BF16, SHAPE(2, 3, 200, 300, 64), LENGTHS(FULL), NO_KEY(MEAN), ADD(HEAD, BF16)},
	{IN_F16, SHAPE(2, 3, 200, 300, 128), LENGTHS(SQUARE), SINKS(HEADS, F16), NO_KEY(NAN)},
	{IN_F16, SHAPE(2, 3, 520, 520, 64), MASK(SQUARE, TRIANGLE), .mask_fill = FILL_LOWEST, ADD_FILL(PADDING, F16, TAIL, FILL_LOWEST), .late = 2, .round_x = 1},
	{IN_BF16, SHAPE(2, 3, 300, 520, 128), MASK(BATCH, BLOCKS), .mask_fill = FILL_1E4, ADD(HEAD, BF16), .second = 1, .late = 1},
	{IN_F16, SHAPE(2, 3, 256, 256, 64), .softcap = 2.0f},
	{IN_BF16, SHAPE(2, 3, 256, 256, 128), .softcap = 2.0f, .causal = 1},
	{IN_F16, SHAPE(2, 3, 256, 256, 64), .wide = 1},
	{IN_BF16, SHAPE(2, 3, 300, 300, 128), .wide = 1, .storage = BSHD},
	{IN_F16, SHAPE(2, 3, 300, 300, 64), .over_q = 1},
	{IN_BF16, SHAPE(2, 3, 300, 300, 128), .over_q = 1, .storage = FUSED, .causal = 1},
	{IN_F16, SHAPE(2, 3, 300, 300, 64), .scale = NEGATIVE},
	{IN_BF16, SHAPE(2, 3, 300, 300, 128), .scale = ZERO, .causal = 1},
	{IN_F16, SHAPE(2, 3, 500, 1000, 64), .data = OUTLIERS},
	{IN_BF16, SHAPE(2, 3, 500, 1000, 128), .data = OUTLIERS, .causal = 1},
	{IN_F16, SHAPE(2, 3, 500, 1000, 64), .data = STEEP},
	{IN_BF16, SHAPE(2, 3, 500, 1000, 128), .data = STEEP, .causal = 1},
	{IN_F16, SHAPE(2, 3, 500, 1000, 256), .data = STEEP},
	{IN_BF16, SHAPE(2, 3, 300, 333, 64), STORED_ONCE},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), STORED_ONCE},
	{IN_BF16, SHAPE(2, 3, 300, 333, 64), STORED_ALL},
	{IN_F16, SHAPE(2, 3, 300, 333, 128), STORED_ALL, .data = LARGE, .causal = 1},
	{IN_BF16, SHAPE(2, 3, 197, 197, 80), STORED_ALL, .data = LARGE, .storage = FUSED},
	{IN_BF16, SHAPE(2, 3, 300, 777, 256), STORED_ALL, .storage = SHARED_KV},
	{IN_F16, SHAPE(2, 3, 256, 256, 64), ADD(SQUARE, F16), STORED_ALL_4},
	{IN_BF16, SHAPE(2, 3, 520, 520, 128), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 200, 333, 64), MASK(SQUARE, NOISE), STORED_ALL},
	{IN_BF16, SHAPE(2, 3, 300, 520, 64), LENGTHS(PADDING), STORED_ALL, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), STORED_CAPPED},
	{IN_BF16, SHAPE(2, 3, 300, 777, 128), MASK(SQUARE, NOISE), STORED_CAPPED},
	{IN_F16, SHAPE(1, 3, 1, 333, 64), STORED_ALL},
	{IN_BF16, SHAPE(2, 3, 1, 1000, 128), STORED_ALL, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 16, 2000, 64), STORED_ALL, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 9, 700, 256), STORED_ALL, .causal = 2},
	{IN_BF16, SHAPE(2, 3, 500, 512, 64), STORED_ALL, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 200, 461, 128), STORED_ALL, .data = LARGE, .storage = ODD_ROWS},
	{IN_BF16, SHAPE(2, 3, 197, 197, 64), STORED_ALL, .storage = BSHD, .down = 1},
	{IN_BF16, SHAPE(2, 3, 500, 1000, 64), STORED_ALL, .causal = 2, .left = 300, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 500, 1000, 128), STORED_ALL, .causal = 1, .down = 1, .down_all = 1},
	{IN_BF16, SHAPE(2, 3, 500, 300, 64), STORED_ALL, .causal = 2, .empty_row = ATTN_EMPTY_MEAN},
	{IN_F16, SHAPE(2, 3, 300, 500, 64), STORED_ALL, .causal = 1, .window_fill = FILL_LOWEST},
	{IN_BF16, SHAPE(2, 3, 200, 520, 64), ADD_FILL(PADDING, BF16, TAIL, FILL_LOWEST), STORED_ALL_4, .data = LARGE},
	{IN_BF16, SHAPE(1, 4, 1100, 1032, 64), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .data = LARGE},
	{IN_F16, SHAPE(2, 4, 300, 1032, 128), ADD_FILL(BATCH, F16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .data = LARGE},
	{IN_BF16, SHAPE(1, 4, 1024, 1024, 256), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4},
	{IN_BF16, SHAPE(2, 40, 520, 1032, 64), ADD_FILL(PADDING, BF16, PREFIX, FILL_LOWEST), STORED_ALL_4, .data = LARGE},
	{IN_F16, SHAPE(2, 40, 520, 1032, 64), ADD_FILL(SQUARE, F16, NOISE, FILL_LOWEST), STORED_ALL_4},
	{IN_BF16, SHAPE(2, 3, 200, 500, 64), ADD(HEAD, BF16), STORED_ALL_4, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 200, 500, 128), ADD(FULL, BF16), STORED_ALL_4, .storage = ODD_BASE},
	{IN_F16, SHAPE(2, 3, 300, 777, 64), ADD(SQUARE, F16), .second = 1, STORED_ALL_4},
	{IN_BF16, SHAPE(2, 3, 520, 500, 64), MASK(BATCH, BLOCKS), STORED_ALL, NO_KEY(ZERO)},
	{IN_BF16, SHAPE(2, 3, 300, 520, 128), SINKS(HEADS, BF16), STORED_ALL, .causal = 2},
	{IN_BF16, SHAPE(2, 3, 300, 500, 64), LENGTHS(FULL), STORED_ALL, NO_KEY(NAN), .storage = BY_ARRAY},
	{IN_BF16, SHAPE(2, 3, 197, 197, 64), STORED_TWICE, .storage = FUSED},
	{IN_F16, SHAPE(2, 3, 197, 197, 128), STORED_TWICE, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 300, 333, 128), STORED_TWICE, .data = LARGE, .storage = SHARED_KV},
	{IN_F16, SHAPE(2, 3, 500, 500, 64), STORED_TWICE, .causal = 1, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 500, 500, 160), STORED_ONCE, .causal = 1},
	{IN_BF16, SHAPE(2, 3, 256, 256, 64), ADD(SQUARE, BF16), STORED_THRICE},
	{IN_F16, SHAPE(2, 3, 197, 203, 96), ADD(HEAD, F16), STORED_THRICE, .data = LARGE},
	{IN_BF16, SHAPE(8, 3, 49, 49, 32), ADD(HEAD, BF16), STORED_THRICE, .data = LARGE},
	{IN_BF16, SHAPE(8, 3, 49, 49, 32), ADD(HEAD, BF16), STORED_ALL_4, .data = LARGE},
	{IN_F16, SHAPE(12, 3, 64, 64, 64), ADD(FULL, F16), STORED_ALL_4, .windows = 4},
	{IN_BF16, SHAPE(4, 8, 130, 33, 48), STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS)},
	{IN_BF16, SHAPE(1, 2, 200, 2500, 128), STORED_TWICE, .data = LARGE},
	{IN_F16, SHAPE(1, 3, 100, 1111, 64), ADD(KEYS, F16), STORED_THRICE, .data = LARGE},
	{IN_BF16, SHAPE(1, 2, 70, 2100, 64), ADD(KEYS, BF16), SINKS(HEADS, BF16), STORED_LESS},
	{IN_BF16, SHAPE(2, 3, 300, 520, 64), ADD(SQUARE, BF16), SINKS(HEADS, BF16), STORED_LESS},
	{IN_F16, SHAPE(2, 3, 130, 333, 128), ADD(HEAD, F16), SINKS(HEADS, F16), STORED_LESS},
	{IN_BF16, SHAPE(2, 8, 1, 1000, 64), ADD(KEYS, BF16), SINKS(HEADS, BF16), STORED_LESS},
	{IN_F16, SHAPE(2, 3, 9, 700, 40), ADD(SQUARE, F16), STORED_LESS},
	{IN_BF16, SHAPE(2, 3, 200, 300, 256), ADD(SQUARE, BF16), STORED_LESS, .causal = 1},
	{IN_F16, SHAPE(2, 3, 5, 777, 200), ADD(SQUARE, F16), SINKS(HEADS, F16), STORED_LESS},
	{IN_F16, SHAPE(8, 3, 64, 64, 36), ADD(HEAD, F16), .second = 1, STORED_TWICE},
	{IN_BF16, SHAPE(2, 3, 520, 520, 128), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_THRICE, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 520, 777, 64), ADD_FILL(BATCH, F16, BLOCKS, FILL_LOWEST), STORED_THRICE, NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 200, 520, 64), MASK(PADDING, TAIL), STORED_TWICE, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 200, 333, 128), MASK(SQUARE, NOISE), STORED_ONCE, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 300, 520, 64), LENGTHS(PADDING), STORED_TWICE, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 520, 64), SINKS(HEADS, F16), STORED_TWICE, .storage = ODD_ROWS},
	{IN_BF16, SHAPE(2, 3, 1, 1000, 128), STORED_TWICE, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 3, 777, 64), ADD(KEYS, F16), STORED_THRICE, .data = LARGE},
	{IN_BF16, SHAPE(2, 8, 1, 1000, 64), MASK(KEYS, NOISE), STORED_ONCE, .storage = SHARED_KV, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 9, 700, 64), ADD(SQUARE, BF16), STORED_THRICE, .data = LARGE},
	{IN_F16, SHAPE(2, 8, 4, 500, 128), STORED_TWICE, .storage = SHARED_KV, .data = LARGE},
	{IN_BF16, SHAPE(1, 3, 100, 777, 128), ADD(HEAD, BF16), STORED_THRICE, .data = LARGE},
	{IN_F16, SHAPE(1, 3, 100, 777, 64), MASK(SQUARE, NOISE), STORED_TWICE, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 300, 333, 96), STORED_TWICE, .causal = 2, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 333, 192), STORED_TWICE, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 300, 520, 256), ADD(SQUARE, BF16), STORED_THRICE, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 300, 336, 64), STORED_ONCE, .down = 1, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 333, 128), ADD_FILL(PADDING, F16, TAIL, FILL_LOWEST), STORED_THRICE, NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 300, 333, 64), STORED_ONCE, .apart = 1, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 500, 500, 64), STORED_ONCE, .apart = 1, .causal = 1, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), STORED_TWICE, .apart = 1, .data = STEEP},
	{IN_BF16, SHAPE(2, 3, 300, 333, 40), STORED_TWICE, .apart = 1, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 500, 80), STORED_TWICE, .apart = 1, .causal = 2, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 500, 1000, 128), STORED_TWICE, .apart = 1, .causal = 1, .left = 300, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 300, 333, 128), STORED_ONCE, .apart = 1},
	{IN_BF16, SHAPE(2, 3, 520, 520, 64), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), STORED_THRICE, .apart = 1, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(PADDING, BF16, TAIL, FILL_LOWEST), STORED_THRICE, .apart = 1, NO_KEY(NAN), .data = LARGE},
	{IN_F16, SHAPE(2, 3, 256, 256, 64), ADD(HEAD, F16), STORED_PLACED, .apart = 1, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 256, 264, 96), ADD(FULL, BF16), STORED_PLACED, .apart = 1, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 520, 520, 128), ADD_FILL(BATCH, F16, BLOCKS, FILL_LOWEST), STORED_PLACED, .apart = 1, .data = LARGE},
	{IN_F16, SHAPE(2, 3, 256, 333, 64), SCALES(HEADS, F16)},
	{IN_BF16, SHAPE(2, 3, 256, 333, 128), SCALES(HEADS, F32), .divides = 1, .causal = 1},
	{IN_F16, SHAPE(2, 3, 200, 333, 64), SCALES(FULL, BF16), ADD(HEAD, F16), MASK(SQUARE, NOISE)},
	{IN_BF16, SHAPE(2, 3, 200, 333, 40), SCALES(SQUARE, BF16), .scales_each = 1, ADD(HEAD, BF16), .second = 1},
	{IN_F16, SHAPE(2, 3, 300, 520, 64), SCALES(FULL, F16), .scales_each = 1, .divides = 1, .softcap = 3.0f},
	{IN_F16, SHAPE(2, 3, 300, 520, 192), SCALES(HEADS, F16), .scales_each = 1},
	{IN_F16, SHAPE(2, 3, 32, 32, 196), SCALES(HEADS, F16), .down = 1},
	{IN_F32, SHAPE(2, 3, 48, 48, 196), SCALES(HEADS, F32), .divides = 1},
	{IN_F32, SHAPE(2, 3, 300, 333, 64), SCALES(HEADS, F32), ADD(HEAD, F32)},
	{IN_F32, SHAPE(2, 3, 300, 333, 64), SCALES(SQUARE, F32), .scales_each = 1, .causal = 1},
	{IN_BF16, SHAPE(2, 3, 200, 333, 64), SCALES(HEADS, BF16), STORED_TWICE, .data = LARGE},
	{IN_BF16, SHAPE(2, 3, 200, 333, 64), SCALES(HEADS, BF16), ADD(HEAD, BF16), STORED_ALL_4},
	{IN_F16, SHAPE(2, 3, 2, 333, 64), SCALES(HEADS, F16)},
	{IN_F16, SHAPE(2, 3, 1, 333, 64), SCALES(SQUARE, F16), .scales_each = 1, ADD(SQUARE, F16)},
	{IN_F16, SHAPE(2, 3, 2, 196, 64), SCALES(SQUARE, F16), .scales_each = 1, .image = 14},
	{IN_F32, SHAPE(2, 3, 1, 784, 64), SCALES(FULL, F32), .scales_each = 1, .image = 28},
	{IN_BF16, SHAPE(2, 3, 2, 2000, 128), SCALES(FULL, F32), .scales_each = 1, .divides = 1},
	{IN_F16, SHAPE(1, 2, 2, 700, 256), SCALES(KEYS, BF16), .scales_each = 1, .down = 1, .softcap = 3.0f},
	{IN_F32, SHAPE(2, 3, 4, 1021, 64), SCALES(SQUARE, F32), .scales_each = 1, ADD(SQUARE, F32), .down = 1},
	{IN_F32, SHAPE(2, 3, 1, 333, 96), SCALES(HEAD, F32), .scales_each = 1, MASK(SQUARE, NOISE), .storage = ODD_ROWS},
	{IN_BF16, SHAPE(12, 3, 49, 49, 32), ADD(FULL, BF16), .windows = 4, .round_x = 1},
	{IN_F16, SHAPE(12, 3, 64, 64, 32), SCALES(HEADS, F16), ADD(BATCH, F16), .windows = 3, .round_x = 1},
	{IN_F16, SHAPE(12, 3, 49, 49, 64), MASK(BATCH, NOISE), .windows = -3, .second = 1},
	{IN_BF16, SHAPE(12, 3, 300, 300, 64), MASK(FULL, NOISE), ADD(FULL, BF16), .windows = 5},
	{IN_F32, SHAPE(12, 3, 49, 49, 32), ADD(FULL, F32), .windows = 4},
	{IN_F16, SHAPE(2, 3, 196, 196, 96), ADD(FULL, F16), .second = 1, .image = 14, .round_x = 1},
	{IN_F16, SHAPE(2, 3, 520, 776, 96), ADD(HEADS, F16), BELOW(BATCH, TRIANGLE), .bias_fill = FILL_LOWEST, STORED_PLACED, .down = 1},
	{IN_F16, SHAPE(2, 3, 300, 776, 96), ADD(HEADS, F16), BELOW(BATCH, SPOILT), .bias_fill = FILL_LOWEST, STORED_PLACED, .down = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 64), ADD(HEADS, BF16), BELOW(BATCH, SPOILT), .bias_fill = FILL_LOWEST, .round_x = 1},
	{IN_F16, SHAPE(2, 3, 300, 776, 128), ADD(HEADS, F16), BELOW(SQUARE, BLOCKS), NO_KEY(NAN)},
	{IN_BF16, SHAPE(2, 3, 300, 776, 128), ADD(FULL, BF16), BELOW(BATCH, SPANS), .bias_fill = FILL_LOWEST, .down = 1},
	{IN_F16, SHAPE(2, 3, 520, 776, 64), ADD_FILL(PADDING, F16, TAIL, FILL_LOWEST), BELOW(BATCH, TRIANGLE), .down = 1},
	{IN_BF16, SHAPE(2, 3, 520, 776, 128), ADD_FILL(PADDING, BF16, TAIL, FILL_INF), BELOW(BATCH, SPANS)},
	{IN_F16, SHAPE(2, 3, 300, 776, 256), ADD(HEADS, F16), BELOW(PADDING, PREFIX), .bias_fill = FILL_LOWEST},
	{IN_BF16, SHAPE(1, 4, 700, 1000, 192), ADD(KEYS, BF16), BELOW(SQUARE, SPANS), .softcap = 3.0f, .round_x = 1},
	{IN_F16, SHAPE(2, 3, 300, 776, 64), ADD(HEADS, F16), BELOW(PADDING, TAIL), .causal = 2},
	{IN_BF16, SHAPE(2, 3, 300, 776, 80), ADD(HEADS, BF16), BELOW(BATCH, TRIANGLE), .bias_fill = FILL_LOWEST, .round_x = 1, .down = 1},
	{IN_BF16, SHAPE(2, 3, 300, 776, 64), ADD(FULL, BF16), BELOW(PADDING, PREFIX), .bias_fill = FILL_LOWEST, .down = 1},
	{IN_F16, SHAPE(2, 8, 520, 776, 96), ADD(HEADS, F16), BELOW(BATCH, TRIANGLE), .bias_fill = FILL_LOWEST, STORED_ALL_4},
	{IN_BF16, SHAPE(2, 8, 520, 776, 64), ADD(HEADS, BF16), BELOW(BATCH, SPOILT), .bias_fill = FILL_LOWEST, STORED_ALL_4},
	{IN_BF16, SHAPE(2, 8, 520, 776, 128), ADD(FULL, BF16), BELOW(BATCH, SPANS), .bias_fill = FILL_LOWEST, STORED_ALL},
	{IN_F16, SHAPE(2, 8, 520, 776, 40), ADD(HEADS, F16), BELOW(PADDING, PREFIX), .bias_fill = FILL_LOWEST, STORED_ALL, .causal = 1},
	{IN_BF16, SHAPE(2, 3, 100, 784, 64), ADD(FULL, BF16), .second = 1, .image = 28},
	{IN_F16, SHAPE(2, 3, 56, 333, 192), ADD(HEAD, F32), .second = 1, .image = 7},
	{IN_F32, SHAPE(2, 3, 196, 196, 96), ADD(FULL, F32), .second = 1, .image = 14},
	{IN_F32, SHAPE(2, 3, 196, 196, 64), ADD(FULL, F32), .second = 1, .image = 14, .down = 1},
	{IN_F32, SHAPE(2, 3, 100, 333, 40), ADD(HEAD, F32), .second = 1, .image = 7, MASK(PADDING, TAIL)},
	{IN_F32, SHAPE(2, 3, 300, 520, 64), MASK(SQUARE, BLOCKS), .mask_fill = FILL_LOWEST, ADD_FILL(SQUARE, F32, TRIANGLE, FILL_LOWEST), NO_KEY(AGAIN)},
	{IN_F32, SHAPE(2, 3, 300, 520, 128), MASK(SQUARE, BLOCKS), .mask_fill = FILL_INF, ADD_FILL(SQUARE, F32, TRIANGLE, FILL_INF), NO_KEY(AGAIN)},
	{IN_F32, SHAPE(2, 3, 300, 333, 80), MASK(BATCH, BLOCKS), .mask_fill = FILL_1E4, ADD_FILL(SQUARE, F32, TRIANGLE, FILL_1E4), .mask_drops = 1, NO_KEY(AGAIN), .down = 1},
	{IN_F32, SHAPE(2, 12, 4, 1000, 64), MASK(PADDING, TAIL), .mask_fill = FILL_LOWEST, ADD(HEAD, F32), .empty_row = ATTN_EMPTY_AGAIN},
	{IN_F32, SHAPE(2, 12, 1, 1000, 64)},
	{IN_F32, SHAPE(2, 12, 1, 1001, 64), .down = 1, .down_all = 1},
	{IN_F32, SHAPE(2, 12, 2, 1000, 128), .storage = SHARED_KV},
	{IN_F32, SHAPE(2, 12, 1, 5000, 256), .down = 1},
	{IN_F32, SHAPE(2, 12, 1, 777, 252), .storage = BY_ARRAY},
	{IN_F32, SHAPE(2, 12, 2, 777, 100), .storage = FUSED, .causal = 2, .left = 300},
	{IN_F32, SHAPE(2, 12, 1, 1000, 64), ADD_FILL(PADDING, F32, TAIL, FILL_LOWEST)},
	{IN_F32, SHAPE(2, 12, 1, 1000, 64), ADD(HEAD, BF16), .second = 1},
	{IN_F32, SHAPE(2, 12, 1, 1000, 128), MASK(PADDING, TAIL), ADD(HEAD, F32), .late = 1},
	{IN_F32, SHAPE(2, 12, 1, 1000, 64), LENGTHS(PADDING), NO_KEY(ZERO)},
	{IN_F32, SHAPE(2, 64, 1, 1000, 64), SINKS(HEADS, F32)},
	{IN_F32, SHAPE(2, 12, 1, 1000, 256), .softcap = 3.0f},
	{IN_F32, SHAPE(2, 12, 1, 3000, 128), .data = STEEP},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), ADD_FILL(BATCH, F16, PREFIX, FILL_LOWEST), .round_x = 1, .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 128), ADD_FILL(PADDING, F16, PREFIX, FILL_LOWEST), .round_x = 1, .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), ADD(FULL, F16), .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 128), ADD(FULL, F16), .round_x = 1, .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), ADD(BATCH, F32), .second = 1, .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), MASK(SQUARE, TAIL), .mask_fill = FILL_LOWEST, .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 128), .causal = 2, .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 300, 333, 64), SINKS(HEADS, F16), .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 4, 1000, 64), ADD(BATCH, F16), .hard = HARD_STORED},
	{IN_F16, SHAPE(2, 3, 9, 1000, 64), .hard = HARD_STORED},
	{IN_F16, SHAPE(4, 16, 2048, 2048, 64), .timed = 1},
	{IN_F16, SHAPE(4, 16, 2048, 2048, 64), SCALES(HEADS, F16), .timed = 1},
	{IN_F16, SHAPE(2, 16, 4096, 4096, 64), .timed = 1},
	{IN_F16, SHAPE(2, 16, 4096, 4096, 128), .timed = 1},
	{IN_BF16, SHAPE(2, 16, 4096, 4096, 128), .timed = 1},
	{IN_F16, SHAPE(2, 8, 4096, 4096, 256), .timed = 1},
	{IN_F16, SHAPE(2, 8, 4096, 4096, 256), .causal = 1, .timed = 1},
	{IN_F16, SHAPE(2, 8, 4096, 4096, 192), .timed = 1},
	{IN_F16, SHAPE(2, 16, 4096, 4096, 64), .causal = 1, .timed = 1},
	{IN_F16, SHAPE(2, 16, 4096, 4096, 128), .causal = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 64), ADD(SQUARE, BF16), .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 128), ADD(SQUARE, BF16), .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD(BATCH, F16), .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD(BATCH, F16), .down = 1, .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD(KEYS, F16), .down = 1, .timed = 1},
	{IN_F16, SHAPE(4, 16, 1024, 1024, 64), .causal = 1, .timed = 1},
	{IN_F16, SHAPE(4, 16, 1024, 1024, 64), ADD_FILL(BATCH, F16, TRIANGLE, FILL_LOWEST), .round_x = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 4096, 4096, 64), .causal = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 4096, 4096, 64), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), .round_x = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 4096, 4096, 64), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), STORED_PLACED, .apart = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 128), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), .round_x = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 128), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), STORED_THRICE, .apart = 1, .timed = 1},
	{IN_BF16, SHAPE(4, 16, 2048, 2048, 64), .timed = 1},
	{IN_BF16, SHAPE(4, 16, 2048, 2048, 64), STORED_ONCE, .apart = 1, .timed = 1},
	{IN_BF16, SHAPE(2, 16, 4096, 4096, 128), STORED_TWICE, .apart = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 4096, 4096, 64), STORED_ONCE, .apart = 1, .causal = 1, .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD_FILL(PADDING, F16, PREFIX, FILL_LOWEST), STORED_PLACED, .apart = 1, .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD_FILL(BATCH, F16, PREFIX, FILL_LOWEST), .round_x = 1, .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD_FILL(PADDING, F16, PREFIX, FILL_LOWEST), .round_x = 1, .timed = 1},
	{IN_F16, SHAPE(8, 16, 512, 512, 64), ADD_FILL(BATCH, F16, OPEN, FILL_LOWEST), .round_x = 1, .timed = 1},
	{IN_F16, SHAPE(4, 16, 2048, 2048, 64), .down = 1, .timed = 1},
	{IN_F16, SHAPE(32, 16, 197, 197, 64), .timed = 1},
	{IN_F16, SHAPE(1, 8, 512, 512, 64), .timed = 1},
	{IN_F16, SHAPE(2, 16, 1024, 1024, 96), ADD(HEADS, F16), BELOW(BATCH, TRIANGLE), .bias_fill = FILL_LOWEST, STORED_PLACED, .down = 1, .timed = 1},
	{IN_F16, SHAPE(2, 16, 1024, 1024, 96), ADD(FULL, F16), BELOW(BATCH, TRIANGLE), .bias_fill = FILL_LOWEST, STORED_ALL_4, .timed = 1},
	{IN_F16, SHAPE(2, 16, 1024, 1024, 64), ADD(HEADS, F16), BELOW(BATCH, NOISE), .round_x = 1, .timed = 1},
	{IN_BF16, SHAPE(4, 8, 384, 384, 32), ADD(PADDING, BF16), BELOW(HEAD, NOISE), .timed = 1},
	{IN_BF16, SHAPE(512, 4, 49, 49, 32), ADD(HEAD, BF16), .timed = 1},
	{IN_BF16, SHAPE(512, 4, 49, 49, 32), ADD(HEAD, BF16), STORED_THRICE, .timed = 1},
	{IN_BF16, SHAPE(512, 4, 49, 49, 32), ADD(HEAD, BF16), STORED_ALL_4, .timed = 1},
	{IN_BF16, SHAPE(64, 12, 64, 64, 32), ADD(FULL, BF16), STORED_ALL_4, .timed = 1},
	{IN_BF16, SHAPE(512, 4, 64, 64, 32), ADD(HEAD, BF16), .second = 1, .timed = 1},
	{IN_BF16, SHAPE(512, 4, 64, 64, 32), .timed = 1},
	{IN_BF16, SHAPE(512, 4, 64, 64, 32), SCALES(HEADS, BF16), ADD(FULL, BF16), .windows = 64, .second = 1, .timed = 1},
	{IN_F16, SHAPE(4, 8, 784, 784, 96), ADD(FULL, F16), .second = 1, .image = 28, .timed = 1},
	{IN_F32, SHAPE(2, 12, 1024, 1024, 64), ADD(FULL, F32), .second = 1, .image = 32, .timed = 1},
	{IN_F32, SHAPE(2, 16, 1024, 1024, 80), ADD(FULL, F32), .second = 1, .image = 32, .timed = 1},
	{IN_F32, SHAPE(300, 1, 196, 196, 64), ADD(FULL, F32), .second = 1, .image = 14, .timed = 1},
	{IN_F16, SHAPE(4, 8, 784, 784, 96), ADD(FULL, F16), .timed = 1},
	{IN_BF16, SHAPE(256, 4, 64, 64, 36), .timed = 1},
	{IN_BF16, SHAPE(256, 4, 64, 64, 24), .timed = 1},
	{IN_BF16, SHAPE(64, 12, 196, 196, 64), .timed = 1},
	{IN_BF16, SHAPE(64, 12, 196, 196, 64), ADD(HEAD, BF16), .timed = 1},
	{IN_BF16, SHAPE(64, 12, 196, 196, 32), ADD(HEAD, BF16), .timed = 1},
	{IN_BF16, SHAPE(4, 16, 2048, 2048, 64), STORED_ONCE, .timed = 1},
	{IN_BF16, SHAPE(4, 16, 2048, 2048, 64), STORED_TWICE, .timed = 1},
	{IN_BF16, SHAPE(4, 16, 2048, 2048, 64), .timed = 1},
	{IN_BF16, SHAPE(2, 16, 2048, 2048, 128), ADD(SQUARE, BF16), .timed = 1},
	{IN_BF16, SHAPE(2, 16, 2048, 2048, 128), ADD(SQUARE, BF16), STORED_THRICE, .timed = 1},
	{IN_BF16, SHAPE(4, 16, 1024, 1024, 64), MASK(PADDING, TAIL), .timed = 1},
	{IN_BF16, SHAPE(4, 16, 1024, 1024, 64), MASK(PADDING, TAIL), STORED_TWICE, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 4096, 4096, 64), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 128), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .timed = 1},
	{IN_BF16, SHAPE(1, 8, 2048, 2048, 256), ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 128), ADD_FILL(BATCH, BF16, TRIANGLE, FILL_LOWEST), STORED_ALL_4, .timed = 1},
	{IN_BF16, SHAPE(2, 16, 4096, 4096, 128), STORED_ALL, .timed = 1},
	{IN_BF16, SHAPE(4, 16, 2048, 2048, 64), STORED_ALL, .timed = 1},
	{IN_BF16, SHAPE(1, 32, 2048, 2048, 128), STORED_ALL, .causal = 1, .timed = 1},
	{IN_BF16, SHAPE(4, 12, 1024, 1024, 64), STORED_ALL, .causal = 1, .timed = 1},
	{IN_BF16, SHAPE(1, 8, 4096, 4096, 40), STORED_ALL, .timed = 1},
	{IN_BF16, SHAPE(8, 16, 512, 512, 64), STORED_ALL_4, ADD(BATCH, BF16), .timed = 1},
	{IN_BF16, SHAPE(1, 8, 640, 640, 64), STORED_ALL, .timed = 1},
	{IN_BF16, SHAPE(1, 8, 1024, 1024, 128), STORED_ALL, .timed = 1},
	{IN_BF16, SHAPE(4, 16, 1024, 1024, 40), ADD(SQUARE, BF16), .timed = 1},
	{IN_BF16, SHAPE(4, 16, 1024, 1024, 96), ADD(SQUARE, BF16), .timed = 1},
	{IN_BF16, SHAPE(4, 16, 1024, 1024, 160), ADD(SQUARE, BF16), .timed = 1},
	{IN_BF16, SHAPE(2, 16, 4096, 4096, 96), .timed = 1},
	{IN_BF16, SHAPE(2, 8, 4096, 4096, 160), .timed = 1},
	{IN_F32, SHAPE(1, 12, 1, 64, 64), .timed = 1},
	{IN_F32, SHAPE(1, 12, 1, 1024, 64), .storage = SHARED_KV, .timed = 1},
	{IN_F32, SHAPE(4, 16, 1, 128, 64), ADD_FILL(PADDING, F32, TAIL, FILL_LOWEST), .timed = 1},
	{IN_F32, SHAPE(1, 32, 1, 4096, 128), .timed = 1},
	{IN_F32, SHAPE(1, 32, 2, 4096, 128), .timed = 1},
	{IN_F32, SHAPE(1, 32, 4, 4096, 128), .timed = 1},
	{IN_F32, SHAPE(1, 32, 1, 32768, 128), .timed = 1},
	{IN_F32, SHAPE(16, 8, 1, 2048, 64), .timed = 1},
	{IN_F32, SHAPE(1, 8, 1, 4096, 64), .timed = 1},
	{IN_F32, SHAPE(1, 8, 1, 8192, 256), .timed = 1},
};

/* ---- the sweep: B2 H2, all pairs of lengths, all widths ------------------------------------- */

static const int sweep_lengths[] = {1, 63, 64, 65, 127, 129, 191, 193, 197, 500, 1000};
static const int sweep_widths[] = {32, 40, 48, 64, 72, 80, 96, 128, 192, 256};

/* As many as share no factor with the number of lengths or of storages: in the sweep each meets
 * each. */
static const struct kernel_case sweep_features[] = {
	{0},
	{.down = 1},
	{.causal = 1},
	{.causal = 2},
	{.causal = 2, .down = 1, .empty_row = ATTN_EMPTY_ZERO},
	{.causal = 2, .left = 50, .empty_row = ATTN_EMPTY_MEAN},
	{.causal = 1, .window_fill = FILL_LOWEST},
	{.causal = 2, .left = 50, .window_fill = FILL_1E4},
	{ADD(SQUARE, F16)},
	{ADD(FULL, BF16)},
	{ADD(BATCH, F32), .second = 1},
	{ADD(KEYS, BF16), .down = 1},
	{ADD_FILL(PADDING, BF16, TAIL, FILL_INF)},
	{ADD_FILL(SQUARE, BF16, TRIANGLE, FILL_INF), NO_KEY(NAN)},
	{ADD_FILL(BATCH, BF16, BLOCKS, FILL_INF), NO_KEY(MEAN)},
	{MASK(PADDING, TAIL)},
	{MASK(SQUARE, BLOCKS), NO_KEY(ZERO)},
	{MASK(BATCH, TRIANGLE), .mask_drops = 1, .mask_fill = FILL_LOWEST, NO_KEY(NAN)},
	{MASK(HEAD, SPARSE), .down = 1},
	{.scale = NEGATIVE, .causal = 1},
	{.data = OUTLIERS},
	{.data = STEEP},
	{.softcap = 3.0f, .wide = 1},
	{SINKS(HEADS, BF16), .causal = 2},
	{SINKS(FULL, F32), ADD(BATCH, F16)},
	{LENGTHS(PADDING)},
	{LENGTHS(FULL), NO_KEY(MEAN), .down = 1},
	{LENGTHS(BATCH), SINKS(HEAD, F16), .causal = 1, NO_KEY(NAN)},
	{MASK(SQUARE, NOISE), .mask_fill = FILL_1E4, ADD(HEAD, F16), .late = 2},
};
/* clang-format on */

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define SWEEP_ROUND  (COUNT(sweep_widths) * COUNT(sweep_lengths) * COUNT(sweep_lengths))
#define SWEEP_CASES  (2 * SWEEP_ROUND)

/* n-th of SWEEP_CASES: one round of 16 bits, one of fp32. */
static inline struct kernel_case sweep_case(int n)
{
	const int lengths = COUNT(sweep_lengths);
	struct kernel_case c = sweep_features[n % COUNT(sweep_features)];

	c.dtype = n >= SWEEP_ROUND ? ATTN_F32 : n / lengths % 2 ? ATTN_BF16 : ATTN_F16;
	c.storage = n % STORAGES;
	c.B = c.H = 2;
	c.Sk = sweep_lengths[n % lengths];
	c.Sq = sweep_lengths[n / lengths % lengths];
	c.D = sweep_widths[n % SWEEP_ROUND / lengths / lengths];
	return c;
}

/* ---- hard numbers --------------------------------------------------------------------------- */

/* What a case of each kind is like. */
static const struct {
	int D, down;
} hard_shapes[] = {{64, 0}, {64, 1}, {128, 0}, {128, 1}, {96, 0}, {192, 0}, {256, 0}};

#define HARD_SHAPES  COUNT(hard_shapes)
#define HARD_DTYPES  3
#define HARD_CASES   (HARD_KINDS * HIDINGS * HARD_SHAPES * HARD_DTYPES)
#define HARD_QUERIES 96
#define HARD_KEYS    528

/* n-th of HARD_CASES into c, or 0: there is none of that number. Kinds of which nothing is hidden
 * come plain, and as a mask or a bias hides keys (of which V may then hold what makes NaN). */
static inline int hard_case(int n, struct kernel_case *c)
{
	const int shape = n % HARD_SHAPES, hiding = n / HARD_SHAPES % HIDINGS;
	const int dtype = n / HARD_SHAPES / HIDINGS % HARD_DTYPES;
	const int kind = n / HARD_SHAPES / HIDINGS / HARD_DTYPES;
	const int tail = kind == HARD_TAIL || kind == HARD_WIDE_TAIL;
	struct kernel_case made = {.dtype = dtype, .B = 1, .H = 2, .Sq = HARD_QUERIES};

	if (kind == HARD_NOT || (tail && hiding) ||
	    (hiding == HIDE_NOT && hard_is_hidden_kind(kind)) ||
	    (hiding == HIDE_WINDOW && (kind == HARD_V_INF || kind == HARD_V_NAN)))
		return 0; /* the last: what a window hides is skipped or not, as tiles fall */
	made.D = hard_shapes[shape].D;
	made.down = hard_shapes[shape].down;
	made.Sk = tail ? HARD_TAIL_KEYS : HARD_KEYS;
	made.hard = kind;
	made.hiding = hiding;
	made.causal = hiding == HIDE_WINDOW;
	if (hiding == HIDE_MASK) {
		made.mask = SQUARE;
		made.mask_holds = HIDDEN;
	}
	if (hiding == HIDE_BIAS) {
		made.bias = SQUARE;
		made.bias_type = dtype;
		made.bias_holds = HIDDEN;
	}
	*c = made;
	return 1;
}

/* The smallest call that takes a variant through several tiles of rows and keys; which: 0 or 1,
 * where there are two that matter (a bias, a mask). */
static inline struct kernel_case small_case(const struct attn_variant *v, int which)
{
	const int keys = v->keys ? v->keys : v->rows_per_block == 1 ? 128 * v->grid_x_factor : 64;
	struct kernel_case c = {.dtype = v->dtype, .B = 1, .H = 2, .D = v->max_d};

	if (!v->grid_x_factor)
		c.H = 150; /* more tiles than multiprocessors: blocks that go on to another */
	c.Sq = v->rows_per_block + 8;
	c.Sk = 3 * keys + 16;
	c.down = (v->needs & ATTN_NEEDS_DOWN) != 0;
	c.causal = v->needs & ATTN_NEEDS_PLAIN ? 2 * which : 0;
	if (!(v->needs & ATTN_NEEDS_PLAIN) && which == 0) {
		c.bias = SQUARE;
		c.bias_type = v->dtype;
		c.below = v->needs & ATTN_NEEDS_TWO ? BATCH : NONE;
	} else if (v->needs & ATTN_NEEDS_TWO) {
		c.bias = HEADS;
		c.bias_type = v->dtype;
		c.below = BATCH;
		c.below_holds = SPANS;
	} else if (!(v->needs & ATTN_NEEDS_PLAIN)) {
		c.mask = SQUARE;
		c.mask_holds = BLOCKS;
	}
	return c;
}

/* n-th of a series of calls, any of which the ladder's kernels take: sizes, layouts, windows at
 * random. In those of even n rows are of 64 elements and on 16 bytes. */
struct kernel_case random_case(int n);

/* "f16 B2 H3 197x203 D64 bshd causal ...": what a case is, into `text`. Returns text. */
const char *kernel_case_name(const struct kernel_case *c, char *text, size_t size);

#endif
