/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention on Hopper's warpgroup matrix instructions (sm_90a), f16 and bf16, D = Dv = 64 or
 * 128, for what tma.cu does not take: a second bias, one in fp32, one after the mask, lengths,
 * sinks, rows that come out as means. What wmma.cu computes, at a multiple of its speed.
 *
 * A block has GROUPS warpgroups with 64 rows of queries each; they share tiles of KEYS keys. Per
 * tile: S = Q K^T, both read from shared memory by the matrix instruction itself; the online
 * softmax of scores.cuh on S's registers; these, rounded to 16 bits, are the left operand of
 * O += P V. K and V have two buffers each, filled by cp.async while the tile before is computed.
 *
 * Why so, in the order in which it was decided:
 *   1. cp.async, not the bulk tensor copy engine: no tensor map, so one struct remains all that a
 *      launch takes, and any row stride that keeps rows on 16 bytes will do.
 *   2. No producer warps: a thread has a dozen copies to start per tile, and where registers allow
 *      two blocks per multiprocessor, one computes a softmax while the other multiplies.
 *   3. The keys of a tile are shuffled within groups of 32, K and V alike, which changes no sum
 *      over keys: column 8m+2t+e of S is key 8t+2m+e, so that the keys of a lane are eight
 *      neighbours. Biases and masks then come by 16-byte loads. K stored as [D,S] allows no such
 *      shuffle.
 *   4. What a loop needs rarely is worked out anew or waits in shared memory: two blocks per
 *      multiprocessor leave 128 registers, and they are worth more than the instructions.
 *
 * Measured (H200, random data, kernel alone, TFLOP/s; wmma.cu in brackets): H32 S2048 with a bias
 * [S,S] D64 184 (90), D128 236 (95).
 *
 * Which calls can come here, select.c knows: unit column stride (or for K, unit row stride), rows
 * on 16 bytes. scores.cuh and wmma.cu say what else is worth knowing; it holds here too.
 */
#include "kernels/sm90_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/hopper.cuh"
#include "kernels/sm90_scores.cuh"

namespace hopper
{

/* The line that key `key` of a tile has in shared memory. */
template <bool SHUFFLED> static __device__ __forceinline__ int line_of(int key)
{
	return SHUFFLED ? key / 32 * 32 + key % 8 / 2 * 8 + key % 32 / 8 * 2 + key % 2 : key;
}

/* A thread's share in copying LINES lines of WIDTH elements into slabs. */
template <typename T, int LINES, int WIDTH, int THREADS, bool SHUFFLED> struct copier {
	static constexpr int PIECES = WIDTH / 8, STEP = THREADS / PIECES;
	/* after so many steps the place within a group of 8, or of 32, lines is the same again */
	static constexpr int GROUP = SHUFFLED ? 32 : 8, PERIOD = STEP % GROUP ? GROUP / STEP : 1;
	static_assert(THREADS % PIECES == 0 && LINES % STEP == 0, "whole lines per step");
	static_assert(STEP * PERIOD % GROUP == 0 && LINES / STEP % PERIOD == 0, "whole periods");

	uint32_t to[PERIOD]; /* offset in bytes */
	int line, column;

	__device__ __forceinline__ void init(int thread)
	{
		line = thread / PIECES;
		column = thread % PIECES * 8;
#pragma unroll
		for (int n = 0; n < PERIOD; n++)
			to[n] = slab_at(line_of<SHUFFLED>(line + n * STEP), column / 8, LINES);
	}
	/* Where to read from first: `at` is the operand's first element. */
	__device__ __forceinline__ const T *start(const T *at, int64_t stride) const
	{
		return at + line * stride + column;
	}
	/* Starts copying: `lines` of them and `columns` columns exist from here on. */
	__device__ __forceinline__ void copy(uint32_t shared, const T *from, int64_t step,
					     int lines, int columns) const
	{
		const int bytes = columns >= WIDTH ? 16 : 2 * max(0, min(8, columns - column));
		if (lines >= LINES && columns >= WIDTH) {
#pragma unroll
			for (int n = 0; n < LINES / STEP; n++)
				copy_piece(shared + to[n % PERIOD] +
						   n / PERIOD * PERIOD * STEP * 128,
					   from + (int64_t)(n * step), 16);
			return;
		}
#pragma unroll
		for (int n = 0; n < LINES / STEP; n++)
			copy_piece(shared + to[n % PERIOD] + n / PERIOD * PERIOD * STEP * 128,
				   from + (int64_t)(n * step), line + n * STEP < lines ? bytes : 0);
	}
};

/* ---- the end -------------------------------------------------------------------------------- */

/* O = out_scale * sums / sum of P for rows i and i+8, rows that are all -inf by their rule.
 * `own`: 16 * WIDTH * 2 bytes of shared memory of this warp alone. */
template <typename T, int WIDTH, bool ANY>
static __device__ __forceinline__ void
finish(float (&o)[WIDTH / 2], float (&sum)[2], const float (&row_max)[2], unsigned char *own,
       const struct attn_args &a, const struct view &w, int first)
{
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	char *const out = matrix_at(a.o, w.b, w.h, a.H);
	bool empty[2];

#pragma unroll
	for (int r = 0; r < 2; r++) {
		sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 1);
		sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 2);
		float weight = a.spec.out_scale;
		if (ANY)
			weight *= count_sink(sum[r], row_max[r], a, w.b, w.h, first + g + 8 * r,
					     1.0f);
		weight /= sum[r];
		empty[r] = sum[r] == 0.0f && a.spec.empty_row == ATTN_EMPTY_MEAN;
		if (sum[r] == 0.0f)
			weight = a.spec.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++) {
			o[4 * n + 2 * r] *= weight;
			o[4 * n + 2 * r + 1] *= weight;
		}
	}
	if (__any_sync(WARP_ALL, empty[0] || empty[1])) {
		const T *v = (const T *)matrix_at(a.v, w.b, w.h, a.H);
		float *mean = (float *)own;
		for (int c = lane; c < WIDTH; c += 32) {
			float total = 0.0f;
			for (int j = 0; j < a.Sk; j++)
				total += to_float<T>(v[j * a.v.stride[2] + c]);
			mean[c] = a.spec.out_scale * total / a.Sk;
		}
		__syncwarp();
#pragma unroll
		for (int n = 0; n < WIDTH / 2; n++)
			if (empty[n / 2 % 2])
				o[n] = mean[n / 4 * 8 + 2 * t + n % 2];
		__syncwarp();
	}

	if (a.o.dtype == a.q.dtype && a.o.stride[3] == 1 && a.o.stride[2] % 8 == 0 &&
	    (uint64_t)out % 16 == 0) {
		/* by way of shared memory, so that a row is written in pieces of 16 bytes */
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
			for (int r = 0; r < 2; r++)
				*(uint32_t *)(own + slab_at(g + 8 * r, n, 16) + 4 * t) =
					pack2<T>(o[4 * n + 2 * r], o[4 * n + 2 * r + 1]);
		__syncwarp();
#pragma unroll
		for (int e = lane; e < 2 * WIDTH; e += 32) {
			const int r = e / (WIDTH / 8), c = e % (WIDTH / 8);
			if (first + r < a.Sq)
				*(uint4 *)((T *)out + (first + r) * a.o.stride[2] + 8 * c) =
					*(const uint4 *)(own + slab_at(r, c, 16));
		}
		return;
	}
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++) {
		const int i = first + g + n / 2 % 2 * 8, c = n / 4 * 8 + 2 * t + n % 2;
		if (i < a.Sq)
			store_to(out, i * a.o.stride[2] + c * a.o.stride[3], a.o.dtype, o[n]);
	}
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* DOWN: K is stored [D,S]. ANY: lengths, sinks, late biases are possible. */
template <typename T, int WIDTH, int KEYS, int GROUPS, bool DOWN, bool ANY>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int ROWS = 64 * GROUPS, THREADS = 128 * GROUPS, N = KEYS / 4;
	constexpr int LOADERS = THREADS > 256 ? 256 : THREADS; /* threads that copy */
	constexpr int TILE = KEYS * WIDTH * 2;		       /* bytes of K, and of V */
	constexpr bool SHUFFLED = !DOWN;

	extern __shared__ __align__(1024) unsigned char hopper_shared[];
	const int warp = threadIdx.x / 32;
	const int group = threadIdx.x / 128;
	const bool causal = a.spec.window_right != ATTN_NO_WINDOW;
	struct view w;
	w.b = blockIdx.z;
	w.h = blockIdx.y;
	/* causal: the last rows have the most to do, so they start first */
	w.first = (causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * ROWS;
	w.window = causal || a.spec.window_left != ATTN_NO_WINDOW;
	w.plain = false;
	w.exponent = LOG2E;
	const int first = w.first + 64 * group + 16 * (warp % 4); /* this warp's first row */

	unsigned char *const q_tile = hopper_shared;
	const uint32_t q_shared = (uint32_t)__cvta_generic_to_shared(hopper_shared);
	const uint32_t kv_shared = q_shared + ROWS * WIDTH * 2;

	const T *const q = (const T *)matrix_at(a.q, w.b, w.h, a.H);
	const T *const k = (const T *)matrix_at(a.k, w.b, w.h, a.H);
	const T *const v = (const T *)matrix_at(a.v, w.b, w.h, a.H);

	int tile, end;
	key_tiles(a, ANY ? shared_length(a, w, w.first) : a.Sk, w.first,
		  min(w.first + ROWS, a.Sq) - 1, KEYS, &tile, &end);

	copier<T, ROWS, WIDTH, LOADERS, false> q_copier;
	copier<T, DOWN ? WIDTH : KEYS, DOWN ? KEYS : WIDTH, LOADERS, SHUFFLED> k_copier;
	copier<T, KEYS, WIDTH, LOADERS, SHUFFLED> v_copier;
	q_copier.init(threadIdx.x);
	k_copier.init(threadIdx.x);
	v_copier.init(threadIdx.x);
	/* of one tile to the next, and of one step to the next within a tile; select.c knows these
	 * for 32-bit numbers */
	const int k_stride = (int)(DOWN ? a.k.stride[3] : a.k.stride[2]);
	const int v_stride = (int)a.v.stride[2];
	/* where a thread copies from next waits in shared memory: registers are few */
	struct alignas(16) source {
		const T *k, *v;
	};
	source *const sources = (source *)(hopper_shared + ROWS * WIDTH * 2 + 4 * TILE);
	sources[threadIdx.x] = {k_copier.start(k, k_stride) +
					(int64_t)tile * (DOWN ? KEYS : KEYS * k_stride),
				v_copier.start(v, v_stride) + (int64_t)tile * (KEYS * v_stride)};

	auto load = [&](int n, int buffer) {
		const uint32_t to = kv_shared + buffer * 2 * TILE;
		const int left = a.Sk - n * KEYS, thread = thread_again();
		if (LOADERS < THREADS && thread >= LOADERS)
			return;
		source from = sources[thread];
		k_copier.init(thread);
		k_copier.copy(to, from.k, k_stride * k_copier.STEP, DOWN ? WIDTH : left,
			      DOWN ? left : WIDTH);
		v_copier.init(thread);
		v_copier.copy(to + TILE, from.v, v_stride * v_copier.STEP, left, WIDTH);
		from.k += DOWN ? KEYS : KEYS * k_stride;
		from.v += KEYS * v_stride;
		sources[thread] = from;
	};
	if (LOADERS == THREADS || threadIdx.x < LOADERS)
		q_copier.copy(q_shared, q_copier.start(q, a.q.stride[2]) + w.first * a.q.stride[2],
			      (int)a.q.stride[2] * q_copier.STEP, a.Sq - w.first, WIDTH);
	if (tile < end)
		load(tile, tile % 2);
	copy_commit();

	float o[WIDTH / 2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.0f, 0.0f};
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++)
		o[n] = 0.0f;

	const uint64_t q_operand = operand_at(q_shared + group * (64 * 128), 16);
	const uint64_t k_operand = operand_at(kv_shared, DOWN ? WIDTH * 128 : 16);
	const uint64_t v_operand = operand_at(kv_shared + TILE, KEYS * 128);
#pragma unroll 1
	for (; tile < end; tile++) {
		const int j0 = tile * KEYS, buffer = tile % 2;
		const uint64_t k_at = operand_moved(k_operand, buffer * 2 * TILE);
		const uint64_t v_at = operand_moved(v_operand, buffer * 2 * TILE);

		copy_wait();
		shared_for_wgmma();
		__syncthreads(); /* this tile is there, the one before is done with */
		if (tile + 1 < end)
			load(tile + 1, buffer ^ 1);
		copy_commit();
		if (w.first + thread_again() / 128 * 64 >= a.Sq)
			continue; /* this group only helps to load */

		float s[KEYS / 2];
		struct ahead<N> bias0;
		const bool read = SHUFFLED && j0 + KEYS <= a.Sk && a.spec.bias[0].base &&
				  (!ANY || a.spec.late_biases < ATTN_MAX_BIAS) &&
				  can_read_ahead(a, matrix_at(a.spec.bias[0], w.b, w.h, a.H));
		settle(s);
		wgmma_begin();
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++) {
			const uint64_t qd =
				operand_moved(q_operand, d / 4 * (ROWS * 128) + d % 4 * 32);
			const uint64_t kd = operand_moved(
				k_at, DOWN ? d * 2048 : d / 4 * (KEYS * 128) + d % 4 * 32);
			wgmma_shared<T, DOWN>::run(s, qd, kd, d > 0);
		}
		wgmma_commit();
		if (read)
			read_ahead(bias0, a, w, j0);
		wgmma_wait<0>();
		settle(s);

		const int again = thread_again(), row = w.first + again / 32 * 16;
		const int i = row + again % 32 / 4, j = j0 + (SHUFFLED ? 8 : 2) * (again % 4);
		float x[2][N], factor[2];
#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			x[n / 2 % 2][n / 4 * 2 + n % 2] = s[n];
		modify<T, SHUFFLED, ANY>(x[0], a, w, i, j, read, bias0.piece[0]);
		modify<T, SHUFFLED, ANY>(x[1], a, w, i + 8, j, read, bias0.piece[1]);
		if (w.window &&
		    (first_key(a.spec, row + 15) > j0 || last_key(a.spec, row) < j0 + KEYS - 1)) {
#pragma unroll
			for (int r = 0; r < 2; r++) {
				const int low = first_key(a.spec, i + 8 * r) - j;
				const int high = last_key(a.spec, i + 8 * r) - j;
#pragma unroll
				for (int n = 0; n < N; n++)
					if (key_of<SHUFFLED>(n) < low || key_of<SHUFFLED>(n) > high)
						x[r][n] = a.spec.window_value;
			}
		}
		if (j0 + KEYS > a.Sk) {
#pragma unroll
			for (int n = 0; n < N; n++)
				if (key_of<SHUFFLED>(n) >= a.Sk - j)
					x[0][n] = x[1][n] = -INFINITY;
		}
		if (ANY && a.spec.lengths.base) {
			cut_row<SHUFFLED>(x[0], a, w, i, j);
			cut_row<SHUFFLED>(x[1], a, w, i + 8, j);
		}
		uint32_t p[KEYS / 16][4];
		softmax_packed<T>(x, p, row_max, row_sum, factor, w.exponent);
#pragma unroll
		for (int n = 0; n < WIDTH / 2; n++)
			o[n] *= factor[n / 2 % 2];
		settle(o);
		wgmma_begin();
#pragma unroll
		for (int n = 0; n < KEYS / 16; n++)
			wgmma_registers<T, true>::run(o, p[n], operand_moved(v_at, n * 2048));
		wgmma_commit();
		wgmma_wait<0>();
		settle(o);
	}
	copy_wait();
	__syncthreads();
	if (first < a.Sq)
		finish<T, WIDTH, ANY>(o, row_sum, row_max, q_tile + warp * (16 * WIDTH * 2), a, w,
				      first);
}

} // namespace hopper

#define SM90_KERNEL(type, T, name, width, keys, groups, per_sm, down, any)                         \
	extern "C" __global__ void __launch_bounds__(128 * groups, per_sm)                         \
		fashim_sm90_##type##_##name(const __grid_constant__ struct attn_args args)         \
	{                                                                                          \
		hopper::attention<T, width, keys, groups, down, any>(args);                        \
	}
#define SM90_F16(...)  SM90_KERNEL(f16, __half, __VA_ARGS__)
#define SM90_BF16(...) SM90_KERNEL(bf16, __nv_bfloat16, __VA_ARGS__)
EXPAND_TYPES(SM90_VARIANTS, SM90_F16, SM90_BF16)

#endif
