/* SPDX-License-Identifier: Apache-2.0
 *
 * Where libFuzzer comes in: READER names the target.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/readers/targets.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("READER");

	(void)argc, (void)argv;
	target = target_named(name ? name : "");
	if (!target) {
		fprintf(stderr, "READER names no target of tests/readers/targets.c\n");
		exit(2);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	target->read(bytes, size);
	return 0;
}
