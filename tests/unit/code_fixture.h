/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of tests/unit/code_test.mk, pages that end where nothing may be touched, and numbers that
 * are the same in each run.
 */
#ifndef FASHIM_TESTS_CODE_FIXTURE_H
#define FASHIM_TESTS_CODE_FIXTURE_H

/* cmocka wants them first */
#include "tests/cmocka.h"

struct file {
	unsigned char *at;
	size_t bytes;
};

/* Room whose end is a page that cannot be touched. */
struct room {
	unsigned char *pages;
	size_t bytes, page;
};

/* To be freed; where there is no such file, the test is skipped. */
struct file file_read(const char *path);
struct file code_file(const char *name);

struct room room_make(size_t bytes);

/* The last `bytes` of it. */
unsigned char *room_last(const struct room *room, size_t bytes);
void room_free(struct room *room);

uint32_t any(uint32_t below);

#endif
