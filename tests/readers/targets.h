/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of what strangers wrote, each of which takes bytes and may say no: what libFuzzer is let
 * loose on (fuzz.c), and what the files of tests/readers/corpus are handed to (corpus.c).
 */
#ifndef FASHIM_TESTS_READERS_TARGETS_H
#define FASHIM_TESTS_READERS_TARGETS_H

#include <stddef.h>
#include <stdint.h>

struct target {
	const char *name; /* of the folder with its corpus, too */
	void (*read)(const uint8_t *bytes, size_t size);
};

/* NULL: there is none of that name. */
const struct target *target_named(const char *name);

#endif
