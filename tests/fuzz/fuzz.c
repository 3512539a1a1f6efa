/* SPDX-License-Identifier: Apache-2.0
 *
 *     fuzz SEED [--trace FILE] [--without-occurrences N,…] [--without-events N,…] [--only KIND]
 *          [--count]
 *
 * Runs the program that the seed stands for. With APP_DUMP=FILE all that it observed goes there
 * (dump.h). Status 2, and a line on stderr, where a call fails.
 */
#include "fuzz.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/half.h"

uint64_t seed;
enum type type;
size_t width;
struct lane lanes[2];
int lane_count;
__thread struct lane *here;
const char *without_events;
static const char *without_occurrences;
static FILE *trace_file;

/* ---- what fuzz.h promises -------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull; /* splitmix64 */
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

struct rng rng_of(uint64_t a, uint64_t b)
{
	return (struct rng){mix(mix(mix(seed + 1) ^ (a + 1)) ^ (b + 1))};
}

uint64_t next(struct rng *r)
{
	return mix(r->state += 0x9e3779b97f4a7c15ull);
}

unsigned below(struct rng *r, unsigned n)
{
	return (unsigned)(next(r) >> 33) % n;
}

bool chance(struct rng *r, unsigned percent)
{
	return below(r, 100) < percent;
}

void die(const char *call, int status, int line)
{
	fflush(stdout);
	fprintf(stderr, "%s: status %d, occurrence %d step %d (line %d)\n", call, status,
		here ? here->occurrence : -1, here ? here->step : -1, line);
	if (trace_file)
		fflush(trace_file);
	exit(2);
}

void trace(const char *format, ...)
{
	va_list arguments;
	char line[512];

	if (!trace_file || (here && here->dry))
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	fprintf(trace_file, "[%d:%d.%d] %s\n", here ? here->number : 0,
		here ? here->occurrence : -1, here ? here->step : -1, line);
	fflush(trace_file);
}

/* ---- what occurs ------------------------------------------------------------------------------
 */

static struct {
	const char *what;
	int times;
} occurred[65];
static pthread_mutex_t occurring = PTHREAD_MUTEX_INITIALIZER;

void occurs(const char *what)
{
	int i = 0;

	pthread_mutex_lock(&occurring);
	while (occurred[i].what && strcmp(occurred[i].what, what) != 0)
		i++;
	occurred[i].what = what;
	occurred[i].times++;
	pthread_mutex_unlock(&occurring);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Threads come to them in any order. */
static void print_occurred(void)
{
	int count = 0;

	while (occurred[count].what)
		count++;
	qsort(occurred, (size_t)count, sizeof(*occurred), by_name);
	for (int i = 0; occurred[i].what; i++)
		printf("occurs %d %s\n", occurred[i].times, occurred[i].what);
}

cudaDataType cuda_type(void)
{
	return type == F16 ? CUDA_R_16F : type == BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

void put_number(void *to, size_t i, float x)
{
	if (type == F32)
		((float *)to)[i] = x;
	else
		((uint16_t *)to)[i] = type == F16 ? float_to_f16(x) : float_to_bf16(x);
}

void host_numbers(void *to, size_t n, uint64_t state, float odd)
{
	struct rng r = {state};
	const size_t where = next(&r) & 1 ? n / 3 : n - 1; /* the last key is often hidden */

	for (size_t i = 0; i < n; i++)
		put_number(to, i,
			   odd != 0 && i == where ? odd
						  : (float)(next(&r) >> 40) * 0x1p-23f - 1.0f);
}

/* ---- lanes ------------------------------------------------------------------------------------
 */

void settle(CUstream s)
{
	if (s && s != CU_STREAM_LEGACY)
		OK(cuStreamSynchronize(s));
}

void order(CUstream before, CUstream after, int event)
{
	OK(cuEventRecord(here->event[event], before));
	OK(cuStreamWaitEvent(after, here->event[event], 0));
}

static void set_numbers(CUdeviceptr to, float value, size_t n)
{
	char *host = malloc(n * width);

	for (size_t i = 0; i < n; i++)
		put_number(host, i, value);
	OK(cuMemcpyHtoD(to, host, n * width));
	free(host);
}

static void streams_open(struct lane *l, struct rng *r)
{
	const unsigned kind = below(r, 4);

	if (kind == 0)
		l->stream = NULL; /* the legacy default stream */
	else
		OK(cuStreamCreate(&l->stream,
				  kind == 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	l->blocking = kind <= 1;
	OK(cuStreamCreate(&l->other, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&l->third, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++)
		OK(cuEventCreate(&l->event[i], CU_EVENT_DISABLE_TIMING));
}

void lane_open(struct lane *l, int number, struct rng *r)
{
	static const size_t aligned[] = {16, 64, 256, 512};
	CUdevice device;

	*l = (struct lane){.number = number, .occurrence = -1};
	here = l;
	l->dump = open_memstream(&l->dump_bytes, &l->dump_size);
	l->second_context = number && chance(r, 60);
	OK(cuDeviceGet(&device, l->second_context && chance(r, 50) ? 1 : 0));
	if (l->second_context) {
		OK(cuCtxCreate(&l->context, NULL, 0, device));
	} else {
		OK(cuDevicePrimaryCtxRetain(&l->context, 0));
		OK(cuCtxSetCurrent(l->context));
	}
	l->module = load_module();
	streams_open(l, r);
	OK(cublasCreate(&l->blas));
	OK(cublasLtCreate(&l->lt));
	l->align = aligned[below(r, 4)];
	l->arena = allocate(ARENA_BYTES);
	l->spare = allocate(SPARE_BYTES);
	l->ones = allocate(512 * width);
	l->arrays = allocate(ARRAY_BYTES);
	l->scalars = allocate(512);
	l->tables = allocate(TABLE_BYTES);
	l->work = allocate(WORK_BYTES);
	if (chance(r, 25))
		OK(cublasCreate(&l->second));
	OK(cuMemAllocHost((void **)&l->pinned, PINNED_BYTES));
	set_numbers(l->arena, 0, ARENA_BYTES / width);
	set_numbers(l->spare, 0, SPARE_BYTES / width);
	set_numbers(l->ones, 1, 512);
	OK(cuMemsetD8(l->scalars, 0, 512));
	OK(cuMemsetD8(l->tables, 0, TABLE_BYTES));
	OK(cuMemsetD8(l->work, 0, WORK_BYTES));
	OK(cuCtxSynchronize());
}

/* Each reads the other's memory. */
static void lanes_meet(void)
{
	if (lane_count < 2 || !lanes[1].second_context)
		return;
	for (int i = 0; i < 2; i++) {
		OK(cuCtxSetCurrent(lanes[1 - i].context));
		OK(cuCtxEnablePeerAccess(lanes[i].context, 0));
		here = &lanes[i];
		here->sibling = allocate(SPARE_BYTES);
		OK(cuMemsetD8(here->sibling, 0, SPARE_BYTES));
		OK(cuCtxSynchronize());
	}
}

void lane_close(struct lane *l)
{
	here = l;
	OK(cuCtxSetCurrent(l->context));
	l->occurrence = LAST;
	observe_everything();
	graph_forget();
	OK(cublasDestroy(l->blas));
	if (l->second)
		OK(cublasDestroy(l->second));
	OK(cublasLtDestroy(l->lt));
	OK(cuModuleUnload(l->module));
	fclose(l->dump);
}

static void use(struct lane *l)
{
	here = l;
	OK(cuCtxSetCurrent(l->context));
}

/* ---- the program ------------------------------------------------------------------------------
 */

enum { SITES = 4, MOST = 80 };
static struct site sites[SITES];
static int site_count;

struct entry {
	int site, number, nth;
};

static void run_alone(struct chain *c)
{
	use(c->lane);
	if (c->manner == CAPTURED)
		chain_captured(c);
	else if (c->manner == MANY)
		chain_many(c);
	else
		while (chain_step(c))
			;
	if (c->stream != c->lane->stream)
		order(c->stream, c->lane->stream, 1);
}

static void *run_thread(void *chain)
{
	run_alone(chain);
	return NULL;
}

/* Two occurrences, their steps in turn; of two lanes or of one. */
static void run_paired(struct chain *a, struct chain *b)
{
	struct rng r = rng_of((uint64_t)a->number, 9);
	bool more[] = {true, true};
	struct chain *both[] = {a, b};

	a->manner = b->manner = PAIRED;
	while (more[0] || more[1]) {
		int i = (int)below(&r, 2);

		i = more[i] ? i : 1 - i;
		use(both[i]->lane);
		more[i] = chain_step(both[i]);
	}
	for (int i = 0; i < 2; i++) {
		use(both[i]->lane);
		if (both[i]->stream != both[i]->lane->stream)
			order(both[i]->stream, both[i]->lane->stream, 1);
	}
}

static void run_threaded(struct chain *a, struct chain *b)
{
	pthread_t threads[2];

	a->manner = b->manner = THREADED;
	if (pthread_create(&threads[0], NULL, run_thread, a) ||
	    pthread_create(&threads[1], NULL, run_thread, b))
		die("pthread_create", 1, __LINE__);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static bool can_pair(const struct chain *a, const struct chain *b)
{
	return b->manner == ORDINARY && (a->site != b->site || a->site->placing == IN_ARENA);
}

enum { LEARNED = 5 };

static void plan(struct chain *c, const struct entry *e)
{
	chain_plan(c, &sites[e->site], e->number, e->nth, e->nth >= LEARNED);
}

static void run(const struct entry *list, int count)
{
	static struct chain first, second;

	for (int i = 0; i < count; i++) {
		const struct entry *e = &list[i];
		struct rng r = rng_of((uint64_t)e->number, 6);

		if (left_out(without_occurrences, e->number))
			continue;
		plan(&first, e);
		trace("occurrence %d of site %d, number %d, manner %d", e->number, e->site, e->nth,
		      first.manner);
		if (i + 1 < count && !left_out(without_occurrences, list[i + 1].number)) {
			plan(&second, &list[i + 1]);
			if (first.manner == PAIRED && can_pair(&first, &second)) {
				run_paired(&first, &second);
				i++;
				continue;
			}
			if (first.manner == THREADED && first.lane != second.lane &&
			    second.manner == ORDINARY) {
				run_threaded(&first, &second);
				i++;
				continue;
			}
		}
		if (first.manner == PAIRED || first.manner == THREADED)
			first.manner = ORDINARY;
		run_alone(&first);
		if (graph_kept() && chance(&r, 30) &&
		    !left_out(without_events, e->number * 10 + 8)) {
			trace(">> event %d: kept graph", e->number * 10 + 8);
			graph_again(here->stream);
		}
		if (e->nth >= LEARNED && chance(&r, 35)) {
			use(first.lane);
			event_between(first.lane, e->number * 10 + 9);
		}
	}
}

/* The sites take turns, some in runs; nobody is disturbed before it is learned. */
static int schedule(struct entry *list, struct rng *r)
{
	int done[SITES] = {0}, count = 0, site = 0, left = 0;

	for (int s = 0; s < site_count; s++)
		left += sites[s].occurrences;
	while (left--) {
		if (chance(r, 60))
			site = (site + 1) % site_count;
		while (done[site] == sites[site].occurrences)
			site = (site + 1) % site_count;
		list[count] = (struct entry){site, count, done[site]++};
		count++;
	}
	return count;
}

static void program(void)
{
	static struct entry list[MOST];
	struct rng r = rng_of(0, 0);
	const unsigned t = below(&r, 10);

	type = t < 6 ? F16 : t < 8 ? BF16 : F32;
	width = type == F32 ? 4 : 2;
	lane_count = chance(&r, 50) ? 2 : 1;
	OK(cuInit(0));
	for (int i = 0; i < lane_count; i++)
		lane_open(&lanes[i], i, &r);
	lanes_meet();
	site_count = 1 + (int)below(&r, 3);
	if (site_count < lane_count)
		site_count = lane_count;
	for (int s = 0; s < site_count; s++) {
		use(&lanes[s % lane_count]);
		site_make(&sites[s], here, s, &r);
	}
	run(list, schedule(list, &r));
	for (int i = 0; i < lane_count; i++)
		lane_close(&lanes[i]);
}

static void write_dump(void)
{
	const char *path = getenv("APP_DUMP");
	FILE *f = path ? fopen(path, "wb") : NULL;

	for (int i = 0; f && i < lane_count; i++)
		fwrite(lanes[i].dump_bytes, 1, lanes[i].dump_size, f);
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	bool count = false;

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--count")) {
			count = true;
			continue;
		}
		if (i + 1 == argc)
			break;
		if (!strcmp(argv[i], "--trace"))
			trace_file = fopen(argv[++i], "w");
		else if (!strcmp(argv[i], "--without-occurrences"))
			without_occurrences = argv[++i];
		else if (!strcmp(argv[i], "--without-events"))
			without_events = argv[++i];
		else if (!strcmp(argv[i], "--only"))
			only_kind = argv[++i];
	}
	if (argc < 2) {
		fprintf(stderr, "usage: fuzz SEED [--trace FILE] [--without-occurrences N,...] "
				"[--without-events N,...] [--only KIND] [--count]\n");
		return 64;
	}
	seed = strtoull(argv[1], NULL, 10);
	program();
	write_dump();
	printf("seed %s, %d lanes, %d sites\n", argv[1], lane_count, site_count);
	if (count)
		print_occurred();
	return 0;
}
