/* SPDX-License-Identifier: Apache-2.0
 *
 * The header comes from /proc/self, the launcher's variables and config.def; the summary from the
 * live counters and reasons.def. A long command line is cut so that the header always fits its
 * line.
 */
#include "shim/log/log_header.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/config.h"
#include "shim/log/log_counters.h"
#include "shim/base/names.h"

#ifndef FASHIM_VERSION
#define FASHIM_VERSION "0"
#endif

/* Longer ones are cut; escaped, a byte may take six. */
#define ARGV_BYTES   4096
#define OPTION_BYTES 1024

static void add_argv(struct json *json)
{
	static char bytes[ARGV_BYTES + 1]; /* the log's lock is held */
	size_t used = 0;
	const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && used < ARGV_BYTES) {
		const ssize_t n = read(fd, bytes + used, ARGV_BYTES - used);

		if (n <= 0)
			break;
		used += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	bytes[used] = '\0';
	json_open_array(json, "argv");
	for (size_t i = 0; i < used; i += strlen(bytes + i) + 1)
		json_string(json, NULL, bytes + i);
	if (used == ARGV_BYTES)
		json_string(json, NULL, "...");
	json_close(json);
}

static void add_known(struct json *json, const char *key, int number)
{
	if (number > 0)
		json_int(json, key, number);
	else
		json_null(json, key);
}

void log_header(struct json *json, const struct log_device *device)
{
	char text[PATH_MAX], value[OPTION_BYTES];
	const char *name;
	ssize_t n;

	json_string(json, "format", LOG_FORMAT_NAME);
	json_int(json, "version", LOG_FORMAT_VERSION);
	json_string(json, "fashim", FASHIM_VERSION);
	json_int(json, "pid", getpid());
	if (names_rank() >= 0)
		json_int(json, "rank", names_rank());
	else
		json_null(json, "rank");
	n = readlink("/proc/self/exe", text, sizeof(text));
	json_string_n(json, "exe", n > 0 ? text : "", n > 0 ? (size_t)n : 0);
	add_argv(json);
	names_host(text, sizeof(text));
	json_string(json, "host", text);
	names_utc(names_start_ns(), 0, text);
	json_string(json, "start", text);
	for (size_t i = 0; (name = config_option(i, value, sizeof(value))); i++)
		if (strcmp(name, "FASHIM") == 0)
			json_string(json, "mode", value);
	json_string(json, "gpu", device->gpu[0] ? device->gpu : NULL);
	json_string(json, "uuid", device->uuid[0] ? device->uuid : NULL);
	add_known(json, "sm", device->sm);
	add_known(json, "driver", device->driver);
	json_open_array(json, "driver_lacks");
	for (unsigned i = 0; i < device->lack_count; i++)
		json_string(json, NULL, device->lacks[i]);
	json_close(json);
	add_known(json, "cublas", device->cublas);
	json_open_object(json, "options");
	for (size_t i = 0; (name = config_option(i, value, sizeof(value))); i++)
		json_string(json, name, value);
	json_close(json);
}

static void write_costs(struct json *json, const char *key, const uint64_t *ns)
{
	static const char *const names[] = {
#define PURPOSE(id, name, what) name,
#include "shim/base/purposes.def"
#undef PURPOSE
	};

	json_open_object(json, key);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (ns[i])
			json_double(json, names[i], (double)ns[i] / 1e3);
	json_close(json);
}

void log_summary(struct json *json, const struct live_file *live, uint64_t start_ns)
{
	const unsigned sites = live->site_count < LIVE_SITES ? live->site_count : LIVE_SITES;

	json_string(json, "end", "exit");
	json_double(json, "wall_us",
		    live->last_ns > start_ns ? (double)(live->last_ns - start_ns) / 1e3 : 0.0);
	json_uint(json, "gemms", live->gemms);
	json_uint(json, "launches", live->launches);
	json_double(json, "overhead_us", (double)live->overhead_ns / 1e3);
	json_open_object(json, "costs_us");
	write_costs(json, "host", live->cost_ns);
	write_costs(json, "gpu", live->cost_gpu_ns);
	json_close(json);
	json_uint(json, "scratch_peak", live->scratch_peak);
	json_open_object(json, "copies");
	json_uint(json, "held", live->copies_held);
	json_uint(json, "made", live->copies_made);
	json_uint(json, "unfit", live->copies_unfit);
	json_close(json);
	if (live->rests) {
		json_open_object(json, "rests");
		json_uint(json, "count", live->rests);
		json_uint(json, "products", live->rest_products);
		json_double(json, "us", (double)live->rest_ns / 1e3);
		json_close(json);
	}
	json_open_object(json, "reasons");
	for (unsigned i = 0; i < REASON_COUNT; i++)
		if (live->reasons[i])
			json_uint(json, log_reason_name(i), live->reasons[i]);
	json_close(json);
	json_open_array(json, "sites");
	for (unsigned i = 0; i < sites; i++) {
		json_open_object(json, NULL);
		log_counters(json, i, live);
		json_close(json);
	}
	json_close(json);
}
