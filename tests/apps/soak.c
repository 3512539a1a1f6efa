/* SPDX-License-Identifier: Apache-2.0
 *
 *     soak WHAT ROUNDS
 *
 * A small attention, again and again, each time with something that does not come twice. Says
 * twice, when a fifth of the rounds and when all are done, what the process holds: kB of memory,
 * descriptors, bytes of the file FASHIM_OUT, and the nanoseconds of CPU time that a round took in
 * the tenth before.
 */
#include "app.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { ROWS = 16, DEPTH = 32 };

static struct app app;
static CUdeviceptr q, k, v, s, x, p, o, mask;
static const size_t n = ROWS * DEPTH, scores = ROWS * ROWS;

static void attend(float alpha)
{
	const struct app_shape shape = {1, ROWS, ROWS, DEPTH};
	const float zero = 0;

	CHECK(app.call.gemm(app.blas, CUBLAS_OP_T, CUBLAS_OP_N, ROWS, ROWS, DEPTH, &alpha,
			    (void *)k, CUDA_R_16F, DEPTH, (long long)n, (void *)q, CUDA_R_16F,
			    DEPTH, (long long)n, &zero, (void *)s, CUDA_R_16F, ROWS,
			    (long long)scores, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	app_scale(&app, x, s, 0.2f, scores);
	app_add_mask(&app, s, x, mask, scores, scores);
	app_softmax(&app, p, s, ROWS, ROWS);
	app_context(&app, shape, p, v, o);
}

static void chains(long round)
{
	(void)round;
	attend(1);
}

static void sites(long round)
{
	attend(1 + (float)round * 1e-4f);
}

static void *in_thread(void *unused)
{
	CHECK(cuCtxSetCurrent(app.context));
	attend(1);
	return unused;
}

static void threads(long round)
{
	pthread_t thread;

	(void)round;
	if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
		app_fail("thread", 1);
}

static void modules(long round)
{
	CUmodule old = app.module;

	(void)round;
	attend(1);
	app_load_functions(&app);
	CHECK(cuModuleUnload(old));
}

static const struct {
	const char *name;
	void (*run)(long round);
} kinds[] = {{"chains", chains}, {"sites", sites}, {"threads", threads}, {"modules", modules}};

static long memory_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all, resident = 0;

	if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
		app_fail("statm", 1);
	fclose(file);
	return resident * 4;
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (folder && readdir(folder))
		count++;
	closedir(folder);
	return count - 3;
}

static long log_bytes(void)
{
	const char *log = getenv("FASHIM_OUT");
	struct stat status;

	return log && stat(log, &status) == 0 ? (long)status.st_size : 0;
}

static long long cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void rounds(void (*run)(long round), long count)
{
	const long tenth = count / 10;
	long long before = 0;

	for (long i = 0; i < count; i++) {
		if (i == tenth || i == 9 * tenth)
			before = cpu_ns();
		run(i);
		if (i == 2 * tenth - 1 || i == 10 * tenth - 1) {
			const long long took = cpu_ns() - before;

			CHECK(cuCtxSynchronize());
			printf("%ld rounds: memory %ld descriptors %d log %ld ns %lld\n", i + 1,
			       memory_kb(), descriptors(), log_bytes(), took / tenth);
		}
	}
}

int main(int argc, char **argv)
{
	const long count = argc > 2 ? atol(argv[2]) : 0;

	if (count < 10)
		return 64;
	app_open(&app, NULL);
	q = app_alloc(n * 2), k = app_alloc(n * 2), v = app_alloc(n * 2), o = app_alloc(n * 2);
	s = app_alloc(scores * 2), x = app_alloc(scores * 2), p = app_alloc(scores * 2);
	mask = app_alloc(scores * 2);
	app_upload_random(q, n, 1);
	app_upload_random(k, n, 2);
	app_upload_random(v, n, 3);
	app_upload_causal(mask, ROWS, ROWS);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[1], kinds[i].name)) {
			rounds(kinds[i].run, count);
			return 0;
		}
	return 64;
}
