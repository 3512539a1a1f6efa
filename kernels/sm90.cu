/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention on Hopper's warpgroup matrix instructions (sm_90a), f16 and bf16, D = Dv = 64 or
 * 128: what wmma.cu computes, at a multiple of its speed, for the operands that allow it.
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
 * over keys: column 8m+2t+e of S is key 8t+2m+e, so that the keys of a lane are eight neighbours.
 *      Biases and masks then come by 16-byte loads. K stored as [D,S] allows no such shuffle.
 *   4. Calls without bias, mask and softcap have variants of their own, with larger tiles.
 *
 *   5. What a loop needs rarely is worked out anew or waits in shared memory: two blocks per
 *      multiprocessor leave 128 registers, and they are worth more than the instructions.
 *
 * Measured (H200, random data, kernel alone, TFLOP/s; wmma.cu in brackets): H16 S4096 D64 328
 * (244), causal 243 (179); D128 448 (268), causal 345 (199); H32 S2048 with a bias [S,S] D64 184
 * (90), D128 236 (95).
 *
 * Which calls can come here, select.c knows: unit column stride (or for K, unit row stride), rows
 * on 16 bytes. scores.cuh and wmma.cu say what else is worth knowing; it holds here too.
 */
#include "kernels/sm90_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/hopper.cuh"
#include "kernels/scores.cuh"

namespace hopper
{

/* The keys of lane 4g+t: j0 + 8t + key_of(0..N-1) if SHUFFLED, else j0 + 2t + those of scores.cuh.
 */
template <bool SHUFFLED> static __device__ __forceinline__ int key_of(int k)
{
	return SHUFFLED ? k / 8 * 32 + k % 8 : ::key_of(k);
}

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

/* ---- from q.k to x -------------------------------------------------------------------------- */

template <typename E> struct alignas(16) eight {
	E e[8];
};
template <> struct alignas(16) eight<float> {
	float e[8];
};

/* x += weight * bias; `at` is the bias of the lane's first key, from which `left` keys remain. */
template <typename E, bool SHUFFLED, int N>
static __device__ __forceinline__ void add_bias(float (&x)[N], const E *at, int64_t stride,
						float weight, int left)
{
	if (!SHUFFLED) {
		::add_bias(x, at, stride, weight, left);
		return;
	}
	if (key_of<true>(N - 1) < left && stride == 1 && (uint64_t)at % 16 == 0) {
#pragma unroll
		for (int k = 0; k < N; k += 8) {
			const eight<E> b = *(const eight<E> *)(at + key_of<true>(k));
#pragma unroll
			for (int e = 0; e < 8; e++)
				x[k + e] += weight * to_float<E>(b.e[e]);
		}
		return;
	}
#pragma unroll
	for (int k = 0; k < N; k++)
		if (key_of<true>(k) < left)
			x[k] += weight * to_float<E>(at[key_of<true>(k) * stride]);
}

template <bool SHUFFLED, int N>
static __device__ __forceinline__ void apply_mask(float (&x)[N], const unsigned char *at,
						  int64_t stride, bool keeps, float value, int left)
{
	if (!SHUFFLED) {
		::apply_mask(x, at, stride, keeps, value, left);
		return;
	}
	if (key_of<true>(N - 1) < left && stride == 1 && (uint64_t)at % 8 == 0) {
#pragma unroll
		for (int k = 0; k < N; k += 8) {
			const uint2 m = *(const uint2 *)(at + key_of<true>(k));
#pragma unroll
			for (int e = 0; e < 8; e++) {
				const uint32_t byte = (e < 4 ? m.x : m.y) & 0xffu << e % 4 * 8;
				x[k + e] = (byte != 0) == keeps ? x[k + e] : value;
			}
		}
		return;
	}
#pragma unroll
	for (int k = 0; k < N; k++)
		if (key_of<true>(k) < left && (at[key_of<true>(k) * stride] != 0) != keeps)
			x[k] = value;
}

/* A lane's part of the first bias, read ahead. */
template <int N> struct ahead {
	uint4 piece[2][N / 8];
};

/* Can the first bias be read ahead for the whole tile? */
static __device__ __forceinline__ bool can_read_ahead(const struct attn_args &a, const char *bias)
{
	const struct attn_tensor &t = a.spec.bias[0];
	return t.base && t.dtype != ATTN_F32 && t.stride[3] == 1 && t.stride[2] % 8 == 0 &&
	       t.stride[2] < 1 << 24 && (uint64_t)bias % 16 == 0;
}

/* The thread's number, read anew: what follows from it need not be kept in registers. */
static __device__ __forceinline__ int thread_again(void)
{
	int thread;
	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
	return thread;
}

template <int N>
static __device__ __forceinline__ void read_ahead(struct ahead<N> &b, const struct attn_args &a,
						  const struct view &w, int j0)
{
	const struct attn_tensor &t = a.spec.bias[0];
	const char *const at = tensor_at(t, w.b, w.h, a.H);
	const int thread = thread_again(), row = w.first + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int i = min(row + 8 * r, a.Sq - 1), j = j0 + thread % 4 * 8;
		const char *const from = at + ((int64_t)i * (int)t.stride[2] + j) * 2;
#pragma unroll
		for (int n = 0; n < N / 8; n++)
			asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
				     : "=r"(b.piece[r][n].x), "=r"(b.piece[r][n].y),
				       "=r"(b.piece[r][n].z), "=r"(b.piece[r][n].w)
				     : "l"(from + n * 64));
	}
}

template <typename E>
static __device__ __forceinline__ void add_eight(float *x, const uint4 &piece, float weight)
{
	const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
	for (int e = 0; e < 8; e++) {
		const uint16_t bits = (uint16_t)(words[e / 2] >> e % 2 * 16);
		x[e] += weight * to_float<E>(*(const E *)&bits);
	}
}

template <int N> static __device__ __forceinline__ void round_all(float (&x)[N], int dtype)
{
	if (dtype == ATTN_F16) {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = round_to(x[k], ATTN_F16);
	} else if (dtype == ATTN_BF16) {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = round_to(x[k], ATTN_BF16);
	}
}

/* All but the window, for the lane's keys of row i, of which j is the first. `pieces`: the first
 * bias, if `have`. */
template <bool SHUFFLED, int N>
static __device__ __forceinline__ void modify(float (&x)[N], const struct attn_args &a,
					      const struct view &w, int i, int j, bool have,
					      const uint4 (&pieces)[N / 8])
{
	const struct attn_spec &s = a.spec;
	const int left = a.Sk - j;

	i = min(i, a.Sq - 1);
#pragma unroll
	for (int k = 0; k < N; k++)
		x[k] *= s.scale;
	if (s.softcap != 0.0f) {
		const float to_exponent = 2.0f * LOG2E / s.softcap;
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = s.softcap -
			       __fdividef(2.0f * s.softcap, 1.0f + exp2_fast(x[k] * to_exponent));
	}
	if (SHUFFLED && have) {
		if (s.bias[0].dtype == ATTN_F16) {
#pragma unroll
			for (int n = 0; n < N / 8; n++)
				add_eight<__half>(&x[8 * n], pieces[n], s.bias_scale[0]);
		} else {
#pragma unroll
			for (int n = 0; n < N / 8; n++)
				add_eight<__nv_bfloat16>(&x[8 * n], pieces[n], s.bias_scale[0]);
		}
		round_all(x, s.round_x);
	}
#pragma unroll 1
	for (int n = SHUFFLED && have; n < ATTN_MAX_BIAS; n++) {
		const struct attn_tensor &t = s.bias[n];
		if (!t.base)
			continue;
		const char *at = tensor_at(t, w.b, w.h, a.H) +
				 (i * t.stride[2] + j * t.stride[3]) * attn_dtype_size(t.dtype);
		if (t.dtype == ATTN_F16)
			add_bias<__half, SHUFFLED>(x, (const __half *)at, t.stride[3],
						   s.bias_scale[n], left);
		else if (t.dtype == ATTN_BF16)
			add_bias<__nv_bfloat16, SHUFFLED>(x, (const __nv_bfloat16 *)at, t.stride[3],
							  s.bias_scale[n], left);
		else
			add_bias<float, SHUFFLED>(x, (const float *)at, t.stride[3],
						  s.bias_scale[n], left);
		round_all(x, s.round_x);
	}
	if (s.mask.base)
		apply_mask<SHUFFLED>(x,
				     (const unsigned char *)tensor_at(s.mask, w.b, w.h, a.H) +
					     i * s.mask.stride[2] + j * s.mask.stride[3],
				     s.mask.stride[3], s.mask_keeps != 0, s.mask_value, left);
}

/* softmax_step of scores.cuh, but P goes to `p`, two numbers to a register, as it arises: there is
 * no room for both it and x. */
template <typename T, int N>
static __device__ __forceinline__ void softmax_packed(float (&x)[2][N], uint32_t (&p)[N / 4][4],
						      float (&row_max)[2], float (&row_sum)[2],
						      float (&factor)[2], float exponent)
{
	float base[2], old[2];
	bool far = false;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		float even = fmaxf(row_max[r], x[r][0]), odd = x[r][1];
#pragma unroll
		for (int k = 2; k < N; k += 2) {
			even = fmaxf(even, x[r][k]);
			odd = fmaxf(odd, x[r][k + 1]);
		}
		base[r] = fmaxf(even, odd);
	}
#pragma unroll
	for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
		for (int r = 0; r < 2; r++)
			base[r] = fmaxf(base[r], __shfl_xor_sync(WARP_ALL, base[r], lanes));
#pragma unroll
	for (int r = 0; r < 2; r++) {
		old[r] = row_max[r];
		row_max[r] = base[r];
		base[r] = base[r] == -INFINITY ? 0.0f : base[r];
		old[r] = old[r] == -INFINITY ? base[r] : old[r];
		far = far || fabsf(base[r] * exponent) > FOLD_LIMIT ||
		      fabsf(old[r] * exponent) > FOLD_LIMIT;
	}
	far = __any_sync(WARP_ALL, far);
	if (far)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			factor[r] = exp2_fast((old[r] - base[r]) * exponent);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[r][k] = (x[r][k] - base[r]) * exponent;
			row_sum[r] *= factor[r];
			base[r] = 0.0f;
		}
	else
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float folded = base[r] * exponent;
			factor[r] = exp2_fast(old[r] * exponent - folded);
			row_sum[r] *= factor[r];
			base[r] = folded;
		}
	const float slope = far ? 1.0f : exponent;
#pragma unroll
	for (int k = 0; k < N; k += 2)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float low = exp2_fast(fmaf(x[r][k], slope, -base[r]));
			const float high = exp2_fast(fmaf(x[r][k + 1], slope, -base[r]));
			row_sum[r] += low + high;
			p[k / 4][k % 4 / 2 * 2 + r] = pack2<T>(low, high);
		}
}

/* ---- the end -------------------------------------------------------------------------------- */

/* O = out_scale * sums / sum of P for rows i and i+8, rows that are all -inf by their rule.
 * `own`: 16 * WIDTH * 2 bytes of shared memory of this warp alone. */
template <typename T, int WIDTH>
static __device__ __forceinline__ void finish(float (&o)[WIDTH / 2], float (&sum)[2],
					      unsigned char *own, const struct attn_args &a,
					      const struct view &w, int first)
{
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	char *const out = tensor_at(a.o, w.b, w.h, a.H);
	bool empty[2];

#pragma unroll
	for (int r = 0; r < 2; r++) {
		sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 1);
		sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 2);
		float weight = a.spec.out_scale / sum[r];
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
		const T *v = (const T *)tensor_at(a.v, w.b, w.h, a.H);
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

/* The range of key tiles that rows first..last can see. */
static __device__ __forceinline__ void key_tiles(const struct attn_args &a, int first, int last,
						 int keys, int *begin, int *end)
{
	int low = 0, high = a.Sk - 1;

	if (a.spec.window_value == -INFINITY) {
		low = min(first_key(a.spec, first), a.Sk);
		high = min(last_key(a.spec, last), high);
	}
	*begin = low / keys;
	*end = high < low ? *begin : high / keys + 1;
}

/* PLAIN: no bias, mask or softcap, scale > 0, -inf outside the window. DOWN: K is stored [D,S]. */
template <typename T, int WIDTH, int KEYS, int GROUPS, bool PLAIN, bool DOWN>
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
	w.plain = PLAIN;
	w.exponent = PLAIN ? a.spec.scale * LOG2E : LOG2E;
	const int first = w.first + 64 * group + 16 * (warp % 4); /* this warp's first row */

	unsigned char *const q_tile = hopper_shared;
	const uint32_t q_shared = (uint32_t)__cvta_generic_to_shared(hopper_shared);
	const uint32_t kv_shared = q_shared + ROWS * WIDTH * 2;

	const T *const q = (const T *)tensor_at(a.q, w.b, w.h, a.H);
	const T *const k = (const T *)tensor_at(a.k, w.b, w.h, a.H);
	const T *const v = (const T *)tensor_at(a.v, w.b, w.h, a.H);

	int tile, end;
	key_tiles(a, w.first, min(w.first + ROWS, a.Sq) - 1, KEYS, &tile, &end);

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
		struct ahead<PLAIN ? 8 : N> bias0;
		const bool read = !PLAIN && SHUFFLED && j0 + KEYS <= a.Sk && a.spec.bias[0].base &&
				  can_read_ahead(a, tensor_at(a.spec.bias[0], w.b, w.h, a.H));
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
		if (!PLAIN && read)
			read_ahead(bias0, a, w, j0);
		wgmma_wait<0>();
		settle(s);

		const int again = thread_again(), row = w.first + again / 32 * 16;
		const int i = row + again % 32 / 4, j = j0 + (SHUFFLED ? 8 : 2) * (again % 4);
		float x[2][N], factor[2];
#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			x[n / 2 % 2][n / 4 * 2 + n % 2] = s[n];
		if constexpr (!PLAIN) {
			modify<SHUFFLED>(x[0], a, w, i, j, read, bias0.piece[0]);
			modify<SHUFFLED>(x[1], a, w, i + 8, j, read, bias0.piece[1]);
		}
		if (w.window &&
		    (first_key(a.spec, row + 15) > j0 || last_key(a.spec, row) < j0 + KEYS - 1)) {
#pragma unroll
			for (int r = 0; r < 2; r++) {
				const int low = first_key(a.spec, i + 8 * r) - j;
				const int high = last_key(a.spec, i + 8 * r) - j;
#pragma unroll
				for (int n = 0; n < N; n++)
					if (key_of<SHUFFLED>(n) < low || key_of<SHUFFLED>(n) > high)
						x[r][n] = PLAIN ? -INFINITY : a.spec.window_value;
			}
		}
		if (j0 + KEYS > a.Sk) {
#pragma unroll
			for (int n = 0; n < N; n++)
				if (key_of<SHUFFLED>(n) >= a.Sk - j)
					x[0][n] = x[1][n] = -INFINITY;
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
		finish<T, WIDTH>(o, row_sum, q_tile + warp * (16 * WIDTH * 2), a, w, first);
}

} // namespace hopper

#define SM90_KERNEL(type, T, name, width, keys, groups, per_sm, plain, down)                       \
	extern "C" __global__ void __launch_bounds__(128 * groups, per_sm)                         \
		fashim_sm90_##type##_##name(const __grid_constant__ struct attn_args args)         \
	{                                                                                          \
		hopper::attention<T, width, keys, groups, plain, down>(args);                      \
	}
#define SM90_F16(...)  SM90_KERNEL(f16, __half, __VA_ARGS__)
#define SM90_BF16(...) SM90_KERNEL(bf16, __nv_bfloat16, __VA_ARGS__)
SM90_VARIANTS(SM90_F16)
SM90_VARIANTS(SM90_BF16)

#endif
