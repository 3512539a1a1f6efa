/* SPDX-License-Identifier: Apache-2.0
 *
 * How a report calls things: sites, shapes, verdicts, programs and GPUs, in words that every form
 * and every command shares.
 */
#ifndef FASHIM_REPORT_NAMES_H
#define FASHIM_REPORT_NAMES_H

#include "tools/sites/report.h"

/* "replaced", "verified", "learning", "declined" or "unknown": what became of the site. */
const char *report_verdict(const struct report_row *row);

/* Whose RMS error against float64 is smaller: "app", "fused", "equal" (within 1 %) or "" (unknown).
 */
const char *report_closer(const struct report_row *row);

/* "3", or "2:3" (log 2, site 3) where several logs are shown that are not one job's ranks. Returns
 * buffer. */
char *report_site_name(const struct report *report, const struct report_row *row, char *buffer,
		       size_t size);

/* "[B,H,Sq,Sk,D]", with "/Dv" where that differs; "?" for a site without a record. Returns buffer.
 */
char *report_shape(const struct report_row *row, char *buffer, size_t size);

/* "replaced", "declined: scores_read_by", "verified, 1 of 4 samples drift". Returns buffer. */
char *report_judgement(const struct report_row *row, char *buffer, size_t size);

/* The largest difference of the sample with the largest max_rel, in units in the last place of the
 * site's dtype at the app's number there; NAN where the log does not tell. */
double report_ulps(const struct report_row *row);

/* What became of the site's calls; `size` of 240 is enough. Returns buffer. */
char *report_calls(const struct report_row *row, char *buffer, size_t size);

/* The sample with the largest max_rel, in words: how much, where, and how many elements were beyond
 * the tolerance. Only where max_rel is known. Returns buffer. */
char *report_worst(const struct report_row *row, char *buffer, size_t size);

/* The program and its arguments as one line; the executable where the log has none. The caller
 * frees it; NULL when memory is short. */
char *report_command(const struct run_log *run);

/* "NVIDIA H200 (sm_90), driver 13.0, cuBLAS 13.1.0". Returns buffer. */
char *report_device(const struct run_log *run, char *buffer, size_t size);

/* The innermost Python line, or C frame, that the site is called from, a package's file by its path
 * inside the package; "" where the log has neither. Static storage of the log's. */
const char *report_place(const struct report_row *row);

/* A file of an installed Python package by its path inside the package; else `path` itself. */
const char *name_inside_package(const char *path);

/* A reason's detail as an addition to its sentence: "read by cuMemcpyDtoH_v2", "in masked_fill",
 * "0.50x as fast"; "" where it says no more than the reason's name. Returns buffer. */
char *report_detail(const char *reason, const char *detail, char *buffer, size_t size);

/* The reason's sentence, or one for a reason that this version does not know. */
const char *report_sentence(const struct report_reason *reason);

/* What people call the parts of a chain. */
extern const char *const chain_part_names[PART_COUNT];

/* "GEMM1 9.1, softmax 3.0 µs" without those that take no time; "" where the log does not tell.
 * Returns buffer. */
char *report_parts(const struct report_row *row, const char *micro, char *buffer, size_t size);

/* "102.0 ± 2.8", without the spread where one value has none; `none` for an empty series. Returns
 * buffer. */
char *report_series(const struct series *series, const char *plus_minus, const char *none,
		    char *buffer, size_t size);

/* "ended", "killed", "still running" or "no summary". */
const char *report_end(const struct run_log *run);

/* What follows it: " after 1.5 s", " after more than 1.5 s", or "" where no time is known. Returns
 * buffer. */
char *report_after(const struct run_log *run, char *buffer, size_t size);

#endif
