/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a LOG.live for the tests as the shim leaves it: two sites, one of them declined. A second
 * argument spoils it: "version" or "short"; or "ended" is what a process leaves that is killed
 * while it ends, after 1.5 seconds; or "begun" is of one that began 90 seconds ago; "older" is of
 * a shim that did not know what its time went for, "newer" of one that knows more than we.
 */
#include "shim/log/log_format.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
	static struct live_file live = {
		.version = LIVE_VERSION,
		.site_count = 2,
		.start_ns = 1000000000,
		.last_ns = 1000000000,
		.gemms = 400,
		.launches = 900,
		.overhead_ns = 3000000,
		.scratch_peak = 1 << 20,
		.copies_held = 70,
		.copies_made = 3,
		.sites = {{.state = SITE_VERIFIED,
			   .seen = 150,
			   .replaced = 140,
			   .compared = 8,
			   .saved_ns = 7000000},
			  {.state = SITE_DECLINED, .reason = REASON_DROPOUT, .seen = 50}},
		.cost_ns = {1000000, 0, 2000000},
		.cost_gpu_ns = {0, 0, 0, 500000},
	};
	size_t size = sizeof(live);
	char more[64] = "of a later day";
	FILE *file;

	if (argc < 2)
		return 2;
	memcpy(live.magic, LIVE_MAGIC, sizeof(live.magic));
	live.reasons[REASON_DROPOUT] = 48;
	live.reasons[REASON_LEARNING] = 4;
	if (argc > 2 && !strcmp(argv[2], "version"))
		live.version++;
	if (argc > 2 && !strcmp(argv[2], "short"))
		size -= 8;
	if (argc > 2 && !strcmp(argv[2], "older"))
		size = LIVE_LEAST;
	if (argc > 2 && !strcmp(argv[2], "ended"))
		live.last_ns += 1500000000;
	if (argc > 2 && !strcmp(argv[2], "begun"))
		live.start_ns = live.last_ns = (uint64_t)(time(NULL) - 90) * 1000000000;
	file = fopen(argv[1], "wb");
	if (!file || fwrite(&live, size, 1, file) != 1)
		return 1;
	if (argc > 2 && !strcmp(argv[2], "newer") && fwrite(more, sizeof(more), 1, file) != 1)
		return 1;
	return fclose(file) ? 1 : 0;
}
