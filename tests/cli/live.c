/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a LOG.live for the tests as the shim leaves it: two sites, one of them declined. A second
 * argument spoils it: "version" or "short"; or "ended" is what a process leaves that is killed
 * while it ends, after 1.5 seconds; or "begun" is of one that began 90 seconds ago.
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
	};
	size_t size = sizeof(live);
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
	if (argc > 2 && !strcmp(argv[2], "ended"))
		live.last_ns += 1500000000;
	if (argc > 2 && !strcmp(argv[2], "begun"))
		live.start_ns = live.last_ns = (uint64_t)(time(NULL) - 90) * 1000000000;
	file = fopen(argv[1], "wb");
	if (!file || fwrite(&live, size, 1, file) != 1)
		return 1;
	return fclose(file) ? 1 : 0;
}
