/* SPDX-License-Identifier: Apache-2.0
 *
 * "sample" records, the only ones that a log may hold by the million, read without building a tree.
 */
#ifndef FASHIM_SAMPLE_SCAN_H
#define FASHIM_SAMPLE_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* What the program's own ops are to the chain. */
enum chain_part { PART_GEMM1, PART_MIDDLE, PART_SOFTMAX, PART_GEMM2, PART_COUNT };

/* One record as shim/log/log_format.h describes it; NAN stands for null and for absent numbers. */
struct sample {
	uint32_t site;
	uint64_t occurrence;
	double at_us, stream; /* when and where the chain began; only logs that tell */
	double app_us, fused_us;
	double parts_us[PART_COUNT]; /* of app_us; by enum chain_part */
	double max_abs, max_rel, rmse, cosine, beyond;
	double worst_index, worst_app, worst_fused, nonfinite;
	double reference_rows; /* NAN: no reference */
	double app_max, app_rmse, fused_max, fused_rmse;
	char verdict[24];
};

/* Reads the object at line[0..length), of any type, into *sample; keys it does not know are skipped
 * with whatever they hold. 0, or -EBADMSG when the line is not one complete JSON object. */
int sample_scan(const char *line, size_t length, struct sample *sample);

/* One JSON number at *cursor (before end), exact for up to 19 digits with a small exponent and
 * strtod's otherwise. Moves *cursor behind it. 0, or -EBADMSG. */
int scan_number(const char **cursor, const char *end, double *value);

#endif
