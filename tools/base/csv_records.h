/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of JSON as lines of comma-separated values.
 */
#ifndef FASHIM_CSV_RECORDS_H
#define FASHIM_CSV_RECORDS_H

#include <jansson.h>
#include <stdio.h>

/* One line of names and one for each object of `records`, which it drops. A member of an object
 * inside is a column "outer_inner"; null is empty; arrays are left out. Nothing for no objects. */
void csv_records(FILE *out, json_t *records);

#endif
