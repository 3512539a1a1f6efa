/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads with two streams, same shapes, different numbers; then one thread that drives both
 * streams call by call in turn. An answer of the wrong chain is a wrong answer.
 *
 *     two_threads OUT [CHAINS]
 */
#include "runtime_app.h"

#include <pthread.h>

#define THREADS 2

struct worker {
	struct chain chain;
	FILE *out;
	char path[4096];
	int index, chains;
	pthread_barrier_t *together;
};

static void *work(void *argument)
{
	struct worker *w = (struct worker *)argument;

	for (int n = 0; n < w->chains; n++) {
		pthread_barrier_wait(w->together);
		chain_fill(&w->chain, 1000 * w->index + n);
		chain_scores(&w->chain);
		chain_softmax(&w->chain);
		chain_values(&w->chain);
		chain_save_o(&w->chain, w->out, w->index ? "thread1" : "thread0");
	}
	return NULL;
}

static void take_turns(struct worker *w, int chains)
{
	void (*const steps[])(struct chain *) = {chain_scores, chain_softmax, chain_values};

	for (int n = 0; n < chains; n++) {
		for (int i = 0; i < THREADS; i++)
			chain_fill(&w[i].chain, 5000 + 1000 * i + n);
		for (int step = 0; step < 3; step++)
			for (int i = 0; i < THREADS; i++)
				steps[step](&w[i].chain);
		for (int i = 0; i < THREADS; i++)
			chain_save_o(&w[i].chain, w[i].out, i ? "turn1" : "turn0");
	}
}

int main(int argc, char **argv)
{
	static struct worker w[THREADS];
	pthread_t threads[THREADS];
	pthread_barrier_t together;
	int chains = argc > 2 ? atoi(argv[2]) : 40;

	if (argc < 2) {
		fprintf(stderr, "usage: two_threads OUT [CHAINS]\n");
		return 1;
	}
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		/* the first thread's records go into OUT itself, the second's into OUT.1 */
		snprintf(w[i].path, sizeof(w[i].path), i ? "%s.1" : "%s", argv[1]);
		w[i].out = fopen(w[i].path, "wb");
		CHECK(!w[i].out);
		w[i].index = i;
		w[i].chains = chains;
		w[i].together = &together;
		chain_open(&w[i].chain, 8, 256, 64, i);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, &w[i]));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL));
	take_turns(w, chains);
	for (int i = 0; i < THREADS; i++) {
		chain_close(&w[i].chain);
		CHECK(fclose(w[i].out));
	}
	printf("%d chains\n", 2 * THREADS * chains);
	return 0;
}
