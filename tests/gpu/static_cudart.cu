/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain CUDA program: static runtime, cuBLAS linked, a softmax kernel of its own.
 *
 *     static_cudart OUT [CHAINS]
 *
 * Writes O of every chain. After the last one Q and K are overwritten and P is read: it must still
 * be what the softmax made of the old Q and K.
 */
#include "runtime_app.h"

int main(int argc, char **argv)
{
	struct chain c;
	int chains = argc > 2 ? atoi(argv[2]) : 40;
	FILE *out;

	if (argc < 2 || !(out = fopen(argv[1], "wb"))) {
		fprintf(stderr, "usage: static_cudart OUT [CHAINS]\n");
		return 1;
	}
	chain_open(&c, 8, 256, 64, 0);
	for (int n = 0; n < chains; n++) {
		chain_fill(&c, n);
		chain_scores(&c);
		chain_softmax(&c);
		chain_values(&c);
		chain_save_o(&c, out, "o");
	}
	CHECK(cudaMemsetAsync(c.q, 0xff, sizeof(__half) * c.batch * c.size * c.depth, c.stream));
	chain_fill_one(&c, c.k, 4711);
	chain_save(&c, out, "P", c.p, (size_t)c.batch * c.size * c.size);
	chain_close(&c);
	CHECK(fclose(out));
	printf("%d chains\n", chains);
	return 0;
}
