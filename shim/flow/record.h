/* SPDX-License-Identifier: Apache-2.0
 *
 * FASHIM_RECORD: the stream of ops as text, so that the recogniser can be run over a real program
 * without its GPU, and a user can attach a trace to a report. It holds names, sizes and parameters;
 * never data. One op a line:
 *
 *   # fashim-trace 2
 *   F id name offset:size …             a kernel, before its first launch
 *   A address bytes kind                memory became valid (kind: enum memory_kind)
 *   D address                           freed
 *   L id stream gx,gy,gz bx,by,bz shared hex,hex,…          launch; one hex string per parameter
 *   G entry stream ta tb m n k a atype lda stride b btype ldb stride c ctype ldc stride batch
 *     alpha beta compute algo math plain by_array on_device extra extra_bytes d [besides]
 *   C name stream source bytes target bytes exact from_host to_host
 *   S name stream target bytes exact    fill
 *   K call stream {address bytes read written whole} …      a library's call and its operands
 *   B stream / E stream / P stream      capture begins, ends; graph launch
 *   T name / Y name / O name            teardown, host waits, opaque
 *
 * Addresses are symbolic: 0xe << 60 | allocation number << 40 | offset, in parameters too; in
 * version 1 without the 0xe, so that two small numbers may read as an address. Streams are
 * numbered in order of appearance. Numbers are decimal except addresses and parameters, which are
 * hexadecimal.
 */
#ifndef FASHIM_RECORD_H
#define FASHIM_RECORD_H

#include "shim/op/op.h"

/* Is FASHIM_RECORD set (and the file not failed)? A file that is there already is left alone: ours
 * gets a number before its extension. */
bool record_wanted(void);

/* Writes one op. Called with the flow lock held, in program order: before the real call, but after
 * it for OP_ALLOC. */
void record_op(const struct op *op);

#endif
