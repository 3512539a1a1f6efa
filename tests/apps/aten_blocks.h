/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter blocks of ATen's kernels as PyTorch's host code fills them, what it leaves unset
 * included: those bytes hold something else in every launch.
 */
#ifndef FASHIM_ATEN_BLOCKS_H
#define FASHIM_ATEN_BLOCKS_H

#include <assert.h>
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/apps/aten.h"

static_assert(sizeof(struct aten_strided2) == 536, "as traced");
static_assert(sizeof(struct aten_strided3) == 648, "as traced");
static_assert(sizeof(struct aten_filled) == 640, "as traced");

/* Fills the block with what nobody set; returns it. */
static inline void *aten_unset(void *block, size_t bytes)
{
	static __thread unsigned garbage = 0x5eed;
	unsigned char *p = block;

	for (size_t i = 0; i < bytes; i++) {
		garbage = garbage * 1664525u + 1013904223u;
		p[i] = (unsigned char)(garbage >> 24);
	}
	return block;
}

static inline char *aten_pointer(CUdeviceptr address)
{
	return (char *)(uintptr_t)address;
}

static inline struct aten_scalar_functor aten_factor(float factor)
{
	struct aten_scalar_functor f;

	aten_unset(&f, sizeof(f));
	f.scalar = factor;
	return f;
}

static inline void aten_dimension(struct aten_calculator *c, unsigned size)
{
	unsigned shift = 0;

	while (shift < 31 && 1u << shift < size)
		shift++;
	c->size[c->dims].divisor = size;
	c->size[c->dims].magic =
		(unsigned)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - size)) / size + 1);
	c->size[c->dims++].shift = shift;
}

/* `in` and a mask that comes again after `period` of the n elements. */
static inline struct aten_strided3 aten_masked(CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask,
					       size_t n, size_t period)
{
	const unsigned row = (unsigned)period * 2, strides[6] = {2, 2, 2, row, row, 0};
	struct aten_strided3 l;

	aten_unset(&l, sizeof(l));
	l.calculator.dims = 0;
	aten_dimension(&l.calculator, (unsigned)period);
	aten_dimension(&l.calculator, (unsigned)(n / period));
	for (int i = 0; i < 6; i++)
		l.strides[i] = strides[i];
	l.at[0] = aten_pointer(out);
	l.at[1] = aten_pointer(in);
	l.at[2] = aten_pointer(mask);
	l.factor = 1;
	return l;
}

/* Scores [heads,rows,columns] of fp16, and a mask of bytes with such strides in head and row. */
static inline struct aten_filled aten_filling(CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask,
					      const unsigned size[3], const unsigned stride[2],
					      unsigned short value)
{
	const unsigned row = size[2] * 2, all = row * size[1];
	const unsigned strides[9] = {2, 2, 1, row, row, stride[1], all, all, stride[0]};
	struct aten_filled l;

	aten_unset(&l, sizeof(l));
	l.calculator.dims = 0;
	for (int d = 2; d >= 0; d--)
		aten_dimension(&l.calculator, size[d]);
	memcpy(l.strides, strides, sizeof(strides));
	l.at[0] = aten_pointer(out);
	l.at[1] = aten_pointer(in);
	l.at[2] = aten_pointer(mask);
	l.value = value;
	return l;
}

/* A copy over so many dimensions, innermost first, `strides` in bytes: out's and in's of each. */
static inline struct aten_strided2 aten_copied(CUdeviceptr out, CUdeviceptr in, int dims,
					       const unsigned *size, const unsigned *strides)
{
	struct aten_strided2 l;

	aten_unset(&l, sizeof(l));
	l.calculator.dims = 0;
	for (int i = 0; i < dims; i++) {
		aten_dimension(&l.calculator, size[i]);
		l.strides[2 * i] = strides[2 * i];
		l.strides[2 * i + 1] = strides[2 * i + 1];
	}
	l.at[0] = aten_pointer(out);
	l.at[1] = aten_pointer(in);
	return l;
}

#endif
