/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that fill arrays of addresses for batched GEMMs. What such a launch writes follows from
 * its parameters alone: each word is one of the pointers it was given plus a distance. That is
 * found out once for a kernel and its constants, by launching it again where it does no harm
 * (addresses_probe.c); from then on the contents of the arrays are known as soon as it is launched,
 * wherever its pointers point, and so is what it touches: the arrays, nothing else.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_ADDRESSES_H
#define FASHIM_ADDRESSES_H

#include "shim/rules/sight.h"

#define ADDRESSES_POINTERS    16    /* of a launch */
#define ADDRESSES_PARAM_BYTES 512   /* of a launch */
#define ADDRESSES_BYTES	      16384 /* of an array */

/* A word of an array: the pointer at byte `where` of the parameters, plus `distance`. */
struct address {
	int where;
	int64_t distance;
};

/* Filled from the pointer at byte `where` on. */
struct address_array {
	int where, count;
	struct address *word;
};

/* What a launch fills; array_count 0: nothing that could be made out. */
struct filler {
	uint64_t key; /* kernel, launch shape, constants, how its pointers lie to one another */
	int array_count;
	struct address_array array[ADDRESSES_POINTERS];
};

/* A launch that may be made again. */
struct filling {
	const struct function *function;
	struct op_launch launch; /* its shape alone: what it points to is gone */
	CUcontext context;
	unsigned char params[ADDRESSES_PARAM_BYTES];
};

/* Equal for launches of a kernel that differ in nothing but where their pointers lie; those of one
 * allocation keep their distances. 0: too many pointers. */
uint64_t addresses_key(const struct function *function, const struct op_launch *launch,
		       const unsigned char *params);

/* Takes in an op in program order, behind shadow_note(): a known kernel's arrays are put into the
 * shadow, others are remembered for a while. */
void addresses_note(const struct sight *sight);

/* Adds what the launch of a known kernel touches. false: it is not known. */
bool addresses_access(const struct sight *sight);

/* A GEMM takes arrays that nobody knows: finds out about the kernels that may have filled them.
 * Waits for the device, for each kernel once; not while a stream is being captured. true: something
 * was learned, the shadow now holds it. */
bool addresses_identify(const struct op *gemm);

/* A context is about to go (NULL: any of them). */
void addresses_forget_context(CUcontext context);

/* Kernels are about to go away. */
void addresses_forget_launches(void);

/* Fills `filler` (but the key) by launching again on `stream`, in copies of the memory that the
 * launch was pointed to. 0; -EINVAL: it does something else than fill arrays; -EAGAIN: it could not
 * be launched or did not end. The launch's context is current. */
int addresses_probe(struct filler *filler, const struct filling *filling, CUstream stream);

#endif
