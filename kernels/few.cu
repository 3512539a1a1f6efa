/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for a handful of queries against a long cache, where all there is to do is to
 * read K and V once, as fast as memory gives them. sm_80 and later; head dimensions up to 128.
 *
 * What: a tile of 16 query rows per block, or per cluster of PARTS blocks, each with its share of
 * the keys. The rows are queries of one head, or of all those heads that share K and V by a stride
 * of 0. A warp takes a tile of KEYS keys at a time, out of a queue of its own that holds the
 * next FEW_SLOTS tiles of K or V in shared memory; from there they go to the registers of
 * mma.sync's right operands as they are (few_operands.cuh). No barrier until the end. The online
 * softmax is per warp; warps, then blocks, add up at the end, each block of a cluster for some of
 * the columns.
 *
 *   - What does not consist of pieces is read element by element into the same registers.
 *   - Without clusters (before sm_90, or in the host build) the first block takes all the keys and
 *     the others return at once: right, but slow; the selector does not choose it.
 *
 * As in wmma.cu, keys outside the window are skipped if the value there is -inf, and O may be Q's
 * own memory with Q's own strides.
 *
 * P is rounded before it is summed up, so that its rounding cancels in P / sum P.
 *
 * Notebook, H200, f16, inputs out of cache:
 *
 *     B  H   Sq  keys  D    us by parts              GB/s  decode.cu, at best
 *     16 8   4   2048  64   1: 29.1, 2: 29.0, 4: 39.2  2312  30.9
 *     1  32  16  4096  128  4: 44.7, 8: 48.6           1500
 *     1  16  1   1024  64   1: 14.8, 2: 9.8, 4: 7.0     596  5.5
 *     1  32  1   4096  128  4: 40.1, 8: 40.7           1672  21.2
 *
 * A lane's way from shared memory to the matrix instructions takes longer than memory does, so that
 * one query goes to decode.cu. Tried and dropped: 8 warps with 4 slots and one block per
 * multiprocessor, in the first two lines 28.3 us (1 part) and 43.1 us (2 parts), in more shared
 * memory than other GPUs have; the same with 6 slots (34.6, 50.9).
 */
#include "kernels/cluster.cuh"
#include "kernels/few_operands.cuh"
#include "kernels/scores.cuh"

namespace few
{

constexpr int ROWS = FEW_ROWS;

/* ---- scores --------------------------------------------------------------------------------- */

/* One of the rows of a tile: which query it is, and the keys it may see. */
struct row {
	int h, i;
	int begin, end;
};

/* Row r of a tile from query i0 of head h0 on, `per` of each head. */
static __device__ __forceinline__ row row_of(const attn_args &a, int h0, int i0, int per, int r)
{
	row w;

	w.h = h0 + r / per;
	w.i = i0 + r % per;
	w.begin = min(first_key(a.spec, w.i), a.Sk);
	w.end = min(last_key(a.spec, w.i), a.Sk - 1) + 1;
	return w;
}

template <typename E, int PER> struct alignas(PER * sizeof(E)) run {
	E e[PER];
};
template <int PER> struct alignas(16) run<float, PER> {
	float e[PER];
};

/* x += weight * bias, for the first `left` of neighbouring keys. */
template <typename E, int PER>
static __device__ __forceinline__ void add_run(float (&x)[PER], const E *at, int64_t stride,
					       float weight, int left)
{
	if (left >= PER && stride == 1 && (uint64_t)at % sizeof(run<E, PER>) == 0) {
		const run<E, PER> b = *(const run<E, PER> *)at;
#pragma unroll
		for (int k = 0; k < PER; k++)
			x[k] += weight * to_float<E>(b.e[k]);
		return;
	}
#pragma unroll
	for (int k = 0; k < PER; k++)
		if (k < left)
			x[k] += weight * to_float<E>(at[k * stride]);
}

/* x = value where the mask at `at` says so; otherwise as add_run. */
template <int PER>
static __device__ __forceinline__ void apply_mask(float (&x)[PER], const attn_spec &s,
						  const unsigned char *at, int left)
{
#pragma unroll
	for (int k = 0; k < PER; k++, at += s.mask.stride[3])
		if (k < left && (*at != 0) != (s.mask_keeps != 0))
			x[k] = s.mask_value;
}

/* From q.k to x for neighbouring keys from j on: all but the window and the row's length. Where the
 * program stores S, what comes is that. */
template <typename T, int PER>
static __device__ __forceinline__ void modify(float (&x)[PER], const attn_args &a, int b,
					      const row &w, int j)
{
	const attn_spec &s = a.spec;
	const int left = a.Sk - j;

	if (!s.round_s)
#pragma unroll
		for (int k = 0; k < PER; k++)
			x[k] = s.scale * overflow_score<T>(s, x[k]);
	if (s.softcap != 0.0f) { /* tanh(y) = 1 - 2 / (1 + e^2y) */
		const float to_exponent = 2.0f * LOG2E / s.softcap;
#pragma unroll
		for (int k = 0; k < PER; k++)
			x[k] = s.softcap -
			       __fdividef(2.0f * s.softcap, 1.0f + exp2_fast(x[k] * to_exponent));
	}
#pragma unroll 1
	for (int n = 0; n <= ATTN_MAX_BIAS; n++) {
		if (s.mask.base && n == ATTN_MAX_BIAS - s.late_biases)
			apply_mask(x, s,
				   (const unsigned char *)matrix_at(s.mask, b, w.h, a.H) +
					   w.i * s.mask.stride[2] + j * s.mask.stride[3],
				   left);
		if (n == ATTN_MAX_BIAS || !s.bias[n].base)
			continue;
		const attn_tensor &t = s.bias[n];
		const char *at = matrix_at(t, b, w.h, a.H) +
				 (w.i * t.stride[2] + j * t.stride[3]) * attn_dtype_size(t.dtype);
		if (t.dtype == ATTN_F16)
			add_run(x, (const __half *)at, t.stride[3], s.bias_scale[n], left);
		else if (t.dtype == ATTN_BF16)
			add_run(x, (const __nv_bfloat16 *)at, t.stride[3], s.bias_scale[n], left);
		else
			add_run(x, (const float *)at, t.stride[3], s.bias_scale[n], left);
#pragma unroll
		for (int k = 0; k < PER; k++)
			x[k] = round_to(x[k], s.round_x);
	}
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* What sums under the maximum `mine` count under the maximum `common`. */
static __device__ __forceinline__ float share(float mine, float common, float exponent)
{
	const float here = mine * exponent, there = common * exponent;

	if (mine == -INFINITY)
		return 1.0f; /* they are 0 or NaN */
	return exp2_fast(fabsf(there) > FOLD_LIMIT ? (mine - common) * exponent : here - there);
}

/* Sums over some of the keys. */
template <int WIDTH> struct partial {
	float o[ROWS][WIDTH];
	float max[ROWS], sum[ROWS];
};

/* Line r, column c of COUNT sums, as one. */
template <int COUNT, typename P>
static __device__ __forceinline__ void merge(const P *from, int r, int c, float exponent,
					     float &max, float &sum, float &o)
{
	max = from[0].max[r];
#pragma unroll
	for (int n = 1; n < COUNT; n++)
		max = fmaxf(max, from[n].max[r]);
	sum = o = 0.0f;
#pragma unroll
	for (int n = 0; n < COUNT; n++) {
		const float weight = share(from[n].max[r], max, exponent);
		sum += weight * from[n].sum[r];
		o += weight * from[n].o[r][c];
	}
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* A warp's tile of rows, and its sums over the keys so far. */
template <typename T, int WIDTH> struct tile {
	typedef geometry<WIDTH> G;
	static constexpr int LINE = WIDTH + 32; /* of Q in shared memory: no bank is met twice */

	const T *q;
	source<T> k, v;
	bool plain;
	int b;
	row rows[2];		/* those of this lane: g and g+8 */
	int all_begin, all_end; /* keys that all rows see */
	float exponent;

	float o[WIDTH / 8][4], max[2], sum[2]; /* `sum` over the lane's own keys */

	/* s = Q K^T */
	__device__ __forceinline__ void multiply_k(float (&s)[G::TILES][4],
						   uint32_t (&word)[WORDS]) const;
	/* From these to P, as left operands. */
	__device__ __forceinline__ void weigh(uint32_t (&p)[G::PER / 4][4],
					      float (&s)[G::TILES][4], const attn_args &a, int j);
	/* o += P V */
	__device__ __forceinline__ void multiply_v(const uint32_t (&p)[G::PER / 4][4],
						   uint32_t (&word)[WORDS]);
	/* All of it for tiles of keys n, n+step, ... below `end`, which consist of pieces; `queue`
	 * has room for FEW_SLOTS of K or V. */
	__device__ __forceinline__ void add(const attn_args &a, int n, int end, int step,
					    unsigned char *queue);
	/* The same for any tiles. */
	__device__ __forceinline__ void add_others(const attn_args &a, int n, int end, int step);
};

template <typename T, int WIDTH>
__device__ __forceinline__ void tile<T, WIDTH>::multiply_k(float (&s)[G::TILES][4],
							   uint32_t (&word)[WORDS]) const
{
	const int lane = threadIdx.x % 32;
	const T *const at = q + lane / 4 * LINE + lane % 4 * 8;

#pragma unroll
	for (int w = 0; w < G::TILES; w++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			s[w][e] = 0.0f;
	if (k.down)
#pragma unroll
		for (int n = 0; n < WORDS; n++)
			word[n] = turned(word[n]);
#pragma unroll
	for (int c = 0; c < WIDTH / 32; c++) {
		const uint4 low = *(const uint4 *)(at + 32 * c);
		const uint4 high = *(const uint4 *)(at + 8 * LINE + 32 * c);
		const uint32_t even[4] = {low.x, high.x, low.y, high.y};
		const uint32_t odd[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
		for (int w = 0; w < G::TILES; w++) {
			const uint32_t *const own = &word[4 * c * G::TILES + w];
			multiply<T>(s[w], even, own[0], own[G::TILES]);
			multiply<T>(s[w], odd, own[2 * G::TILES], own[3 * G::TILES]);
		}
	}
}

template <typename T, int WIDTH>
__device__ __forceinline__ void tile<T, WIDTH>::weigh(uint32_t (&p)[G::PER / 4][4],
						      float (&s)[G::TILES][4],
						      const attn_args &a, int j)
{
	const int own = j + threadIdx.x % 4 * G::PER;
	float x[2][G::PER], factor[2], unrounded[2] = {0.0f, 0.0f};

	if (a.spec.round_s)
		store_scores<T, 4 * G::TILES>(a.spec, a.spec.scale, [&](int n) -> float & {
			return s[n / 4][n % 4];
		});
#pragma unroll
	for (int r = 0; r < 2; r++) {
#pragma unroll
		for (int n = 0; n < G::PER; n++)
			x[r][n] = s[n / 2][2 * r + n % 2];
		if (!plain)
			modify<T>(x[r], a, b, rows[r], own);
		if (j < all_begin || j + G::KEYS > all_end) {
			/* worked out anew, as registers are all in use */
			const int begin = first_key(a.spec, rows[r].i);
			const int end = last_key(a.spec, rows[r].i);
			const int length = length_of(a, b, rows[r].h, rows[r].i);
#pragma unroll
			for (int n = 0; n < G::PER; n++) {
				if (own + n < begin || own + n > end)
					x[r][n] = a.spec.window_value;
				if (own + n >= length)
					x[r][n] = -INFINITY;
			}
		}
	}
	softmax_step(x, max, unrounded, factor, exponent);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float total = 0.0f;
#pragma unroll
		for (int n = 0; n < G::PER; n += 2) {
			uint32_t &word = p[n / 4][n % 4 / 2 * 2 + r];
			word = pack2<T>(x[r][n], x[r][n + 1]);
			const float2 rounded = unpack2<T>(word);
			total += rounded.x + rounded.y;
		}
		sum[r] = sum[r] * factor[r] + total;
	}
	if (__any_sync(WARP_ALL, factor[0] != 1.0f || factor[1] != 1.0f))
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				o[n][e] *= factor[e / 2];
}

template <typename T, int WIDTH>
__device__ __forceinline__ void tile<T, WIDTH>::multiply_v(const uint32_t (&p)[G::PER / 4][4],
							   uint32_t (&word)[WORDS])
{
	if (!v.down)
		turn_v<WIDTH>(word);
#pragma unroll
	for (int m = 0; m < G::PER / 4; m++)
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++)
			multiply<T>(o[n], p[m], word[n * (G::PER / 2) + 2 * m],
				    word[n * (G::PER / 2) + 2 * m + 1]);
}

template <typename T, int WIDTH>
__device__ __forceinline__ void tile<T, WIDTH>::add(const attn_args &a, int n, int end, int step,
						    unsigned char *queue)
{
	int slot = 0;

	/* operand `which` after K of tile n: V of it, K of the next one, ... */
	auto ask_for = [&](int which, int place) {
		const int at = n + which / 2 * step;

		if (at < end) {
			if (which % 2 == 0)
				ask<pieces_of_k, WIDTH>(queue + place * FEW_SLOT, k, at * G::KEYS);
			else
				ask<pieces_of_v, WIDTH>(queue + place * FEW_SLOT, v, at * G::KEYS);
		}
		copy_commit();
	};
	auto next_slot = [&](int which) {
		ask_for(which + FEW_SLOTS, slot);
		slot = slot + 1 == FEW_SLOTS ? 0 : slot + 1;
	};

#pragma unroll
	for (int which = 0; which < FEW_SLOTS; which++)
		ask_for(which, which);
#pragma unroll 1
	for (; n < end; n += step) {
		float s[G::TILES][4];
		uint32_t word[WORDS], p[G::PER / 4][4];

		copy_wait_but<FEW_SLOTS - 1>();
		take<pieces_of_k, WIDTH>(word, queue + slot * FEW_SLOT, k.down);
		multiply_k(s, word);
		next_slot(0);
		weigh(p, s, a, n * G::KEYS);
		copy_wait_but<FEW_SLOTS - 1>();
		take<pieces_of_v, WIDTH>(word, queue + slot * FEW_SLOT, v.down);
		multiply_v(p, word);
		next_slot(1);
	}
}

template <typename T, int WIDTH>
__device__ __forceinline__ void tile<T, WIDTH>::add_others(const attn_args &a, int n, int end,
							   int step)
{
#pragma unroll 1
	for (; n < end; n += step) {
		float s[G::TILES][4];
		uint32_t word[WORDS], p[G::PER / 4][4];

		read<pieces_of_k, WIDTH>(word, k, n * G::KEYS);
		multiply_k(s, word);
		weigh(p, s, a, n * G::KEYS);
		read<pieces_of_v, WIDTH>(word, v, n * G::KEYS);
		multiply_v(p, word);
	}
}

template <typename T, int WIDTH, int PARTS>
static __device__ __forceinline__ void attention(const attn_args &a)
{
	typedef geometry<WIDTH> G;
	constexpr int SHARES = FASHIM_CLUSTERS ? PARTS : 1, WARPS = FEW_THREADS / 32;
	constexpr int SHARE = WIDTH / SHARES; /* columns that a block adds up */
	__shared__ uint4 queries[ROWS][tile<T, WIDTH>::LINE / 8];
	[[maybe_unused]] __shared__ partial<SHARE> of_blocks[SHARES];

	DYNAMIC_SHARED(unsigned char, queues);
	partial<WIDTH> *const of_warps = (partial<WIDTH> *)queues; /* afterwards */
	static_assert(sizeof(*of_warps) <= FEW_SLOTS * FEW_SLOT, "room in place of a queue");

	const attn_spec &s = a.spec;
	const int part = blockIdx.x % PARTS, i0 = blockIdx.x / PARTS * ROWS;
	const int b = blockIdx.z, h0 = blockIdx.y;
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const bool one_kv = !a.k.stride[1] && !a.v.stride[1] && !a.k.by_array && !a.v.by_array;
	const int per = min(a.Sq - i0, ROWS); /* rows of each head */
	const int heads = one_kv && a.Sq < ROWS ? min(ROWS / per, a.H) : 1;
	const int count = per * min(heads, a.H - h0);

	if (part >= SHARES || h0 % heads)
		return;
	if (SHARES > 1)
		cluster_here();

	tile<T, WIDTH> w;
	w.q = (const T *)queries;
	w.k = {(const T *)matrix_at(a.k, b, h0, a.H),
	       a.k.stride[2],
	       a.k.stride[3],
	       a.Sk,
	       a.D,
	       false};
	w.v = {(const T *)matrix_at(a.v, b, h0, a.H),
	       a.v.stride[2],
	       a.v.stride[3],
	       a.Sk,
	       a.Dv,
	       false};
	w.b = b;
	w.plain = is_plain(s);
	w.exponent = w.plain ? s.scale * LOG2E : LOG2E;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		w.rows[r] = row_of(a, h0, i0, per, min(lane / 4 + 8 * r, count - 1));
		w.max[r] = -INFINITY;
		w.sum[r] = 0.0f;
	}
#pragma unroll
	for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			w.o[n][e] = 0.0f;
	for (int e = threadIdx.x; e < ROWS * (WIDTH / 8); e += FEW_THREADS) {
		const int r = e / (WIDTH / 8), c = e % (WIDTH / 8);

		queries[r][c] = make_uint4(0, 0, 0, 0);
		if (r < count)
			queries[r][c] = load_query((const T *)matrix_at(a.q, b, h0 + r / per, a.H),
						   a.q, i0 + r % per, 8 * c, a.D);
	}

	const row front = row_of(a, h0, i0, per, 0), back = row_of(a, h0, i0, per, per - 1);
	w.all_begin = back.begin;
	w.all_end = s.lengths.base ? 0 : front.end;
	int first = part * WARPS + warp, end = (a.Sk - 1) / G::KEYS + 1;
	if (s.window_value == -INFINITY) {
		first += front.begin / G::KEYS;
		end = back.end > 0 ? (back.end - 1) / G::KEYS + 1 : 0;
	}
	const arrangement k_how = arrangement_of(a.k, w.k.at, a.D);
	const arrangement v_how = arrangement_of(a.v, w.v.at, a.Dv);
	int whole = end; /* tiles of which the first so many consist of pieces */
	if (k_how != ACROSS || v_how != ACROSS)
		whole = k_how == ELEMENTS || v_how == ELEMENTS ? 0 : min(end, a.Sk / G::KEYS);
	w.k.down = k_how == DOWN;
	w.v.down = v_how == DOWN;
	__syncthreads();
	if (first < whole) {
		w.add(a, first, whole, SHARES * WARPS, queues + warp * (FEW_SLOTS * FEW_SLOT));
		first += (whole - first + SHARES * WARPS - 1) / (SHARES * WARPS) * (SHARES * WARPS);
	}
	if (first < end)
		w.add_others(a, first, end, SHARES * WARPS);
	__syncthreads();

	/* lanes, warps, blocks */
#pragma unroll
	for (int r = 0; r < 2; r++) {
		w.sum[r] += __shfl_xor_sync(WARP_ALL, w.sum[r], 1);
		w.sum[r] += __shfl_xor_sync(WARP_ALL, w.sum[r], 2);
	}
#pragma unroll
	for (int r = 0; r < 2; r++) {
		partial<WIDTH> &own = of_warps[warp];
		const int line = lane / 4 + 8 * r;
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
			for (int e = 0; e < 2; e++)
				own.o[line][n / 8 * 64 + lane % 4 * 16 + e * 8 + n % 8] =
					w.o[n][2 * r + e];
		own.max[line] = w.max[r];
		own.sum[line] = w.sum[r];
	}
	__syncthreads();
	if (SHARES > 1)
		cluster_wait();
	for (int e = threadIdx.x; e < count * WIDTH; e += FEW_THREADS) {
		const int r = e / WIDTH, c = e % WIDTH, to = c / SHARE;
		partial<SHARE> &there = of_blocks[part];
		float max, sum, out;

		merge<WARPS>(of_warps, r, c, w.exponent, max, sum, out);
		store_in_block(&there.o[r][c % SHARE], to, out);
		if (c % SHARE == 0) {
			store_in_block(&there.max[r], to, max);
			store_in_block(&there.sum[r], to, sum);
		}
	}
	if (SHARES > 1) {
		cluster_arrive();
		cluster_wait();
	} else {
		__syncthreads();
	}
	for (int e = threadIdx.x; e < count * SHARE; e += FEW_THREADS) {
		const int r = e / SHARE, c = part * SHARE + e % SHARE, h = h0 + r / per;
		float max, sum, out;

		if (c >= a.Dv)
			continue;
		merge<SHARES>(of_blocks, r, e % SHARE, w.exponent, max, sum, out);
		const float factor = count_sink(sum, max, a, b, h, i0 + r % per, 1.0f);
		out *= s.out_scale * factor / sum;
		if (w.plain && row_overflows<T>(s, max, 1.0f))
			out = NAN;
		if (sum == 0.0f) { /* every x is -inf */
			out = s.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
			if (s.empty_row == ATTN_EMPTY_MEAN)
				out = s.out_scale *
				      mean_of<T>((const T *)matrix_at(a.v, b, h, a.H) +
							 c * a.v.stride[3],
						 a.v.stride[2], a.Sk);
		}
		store_to(matrix_at(a.o, b, h, a.H),
			 (i0 + r % per) * a.o.stride[2] + c * a.o.stride[3], a.o.dtype, out);
	}
}

} /* namespace few */

/* ---- the variants ---------------------------------------------------------------------------- */

#define FEW_KERNEL(symbol, T, width, parts)                                                        \
	extern "C" __global__ void CLUSTER_OF(parts) __launch_bounds__(FEW_THREADS, 2)             \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		few::attention<T, width, parts>(args);                                             \
	}                                                                                          \
	SIM_KERNEL(symbol)

#define FEW_F16(width, parts) FEW_KERNEL(fashim_few_f16_d##width##_p##parts, __half, width, parts)
#define FEW_BF16(width, parts)                                                                     \
	FEW_KERNEL(fashim_few_bf16_d##width##_p##parts, __nv_bfloat16, width, parts)
EXPAND_TYPES(FEW_VARIANTS, FEW_F16, FEW_BF16)
