/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML by name, and a thread that reads four numbers until it is told to stop. The library comes
 * without its header where only a driver is installed, so what is used of it is declared here.
 */
#include "tools/gpu/gpu_clock.h"
#include "tools/base/bootstrap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { QUANTITIES = 4, SAMPLES_MOST = 6000, INTERVAL_MS = 100 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, TEMPERATURE_GPU = 0 };

struct nvml {
	int (*init)(void);
	int (*version)(char *, unsigned);
	int (*by_bus_id)(const char *, void **);
	int (*clock)(void *, int, unsigned *);
	int (*power)(void *, unsigned *);
	int (*temperature)(void *, int, unsigned *);
};

struct gpu_clock {
	struct nvml nvml;
	void *device;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t stopped;
	bool stop;
	int count;
	double samples[QUANTITIES][SAMPLES_MOST];
};

static bool open_nvml(struct nvml *nvml)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
	*(void **)&nvml->init = dlsym(library, "nvmlInit_v2");
	*(void **)&nvml->version = dlsym(library, "nvmlSystemGetDriverVersion");
	*(void **)&nvml->by_bus_id = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&nvml->clock = dlsym(library, "nvmlDeviceGetClockInfo");
	*(void **)&nvml->power = dlsym(library, "nvmlDeviceGetPowerUsage");
	*(void **)&nvml->temperature = dlsym(library, "nvmlDeviceGetTemperature");
	return nvml->init && nvml->version && nvml->by_bus_id && nvml->clock && nvml->power &&
	       nvml->temperature && nvml->init() == 0;
}

const char *gpu_driver_version(char *buffer, size_t size)
{
	struct nvml nvml = {0};

	if (!open_nvml(&nvml) || nvml.version(buffer, (unsigned)size))
		*buffer = '\0';
	return buffer;
}

/* ---- in the background ---------------------------------------------------------------------- */

static void sample(struct gpu_clock *clock)
{
	unsigned value[QUANTITIES];

	if (clock->count == SAMPLES_MOST || clock->nvml.clock(clock->device, CLOCK_SM, &value[0]) ||
	    clock->nvml.clock(clock->device, CLOCK_MEMORY, &value[1]) ||
	    clock->nvml.power(clock->device, &value[2]) ||
	    clock->nvml.temperature(clock->device, TEMPERATURE_GPU, &value[3]))
		return;
	for (int i = 0; i < QUANTITIES; i++)
		clock->samples[i][clock->count] = i == 2 ? value[i] / 1e3 : value[i];
	clock->count++;
}

static void *watch(void *argument)
{
	struct gpu_clock *clock = argument;

	pthread_mutex_lock(&clock->lock);
	while (!clock->stop) {
		struct timespec until;

		sample(clock);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += INTERVAL_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&clock->stopped, &clock->lock, &until);
	}
	pthread_mutex_unlock(&clock->lock);
	return NULL;
}

struct gpu_clock *gpu_clock_start(const struct gpu *gpu)
{
	struct gpu_clock *clock = calloc(1, sizeof(*clock));

	if (!clock)
		return NULL;
	pthread_mutex_init(&clock->lock, NULL);
	pthread_cond_init(&clock->stopped, NULL);
	if (open_nvml(&clock->nvml) && clock->nvml.by_bus_id(gpu->bus_id, &clock->device) == 0 &&
	    pthread_create(&clock->thread, NULL, watch, clock) == 0)
		return clock;
	free(clock);
	return NULL;
}

static json_t *summary(double *values, int count)
{
	sort_values(values, (size_t)count);
	return json_pack("[f,f,f]", values[0], median_of_sorted(values, (size_t)count),
			 values[count - 1]);
}

json_t *gpu_clock_stop(struct gpu_clock *clock)
{
	static const char *const names[] = {"sm_mhz", "memory_mhz", "power_w", "temperature_c"};
	json_t *all;

	if (!clock)
		return json_null();
	pthread_mutex_lock(&clock->lock);
	clock->stop = true;
	pthread_cond_signal(&clock->stopped);
	pthread_mutex_unlock(&clock->lock);
	pthread_join(clock->thread, NULL);
	all = clock->count ? json_object() : json_null();
	for (int i = 0; clock->count && i < QUANTITIES; i++)
		json_object_set_new(all, names[i], summary(clock->samples[i], clock->count));
	free(clock);
	return all;
}
