/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention on Hopper for calls that are too small to fill the GPU (sm_90a; f16 and bf16;
 * D and Dv up to 64 or 128): what counts is the way of one tile of rows from launch to store, and
 * that as many multiprocessors as possible take part.
 *
 * A block has 64 rows of queries. Its keys are dealt out in boxes of 64, one by one, to two
 * warpgroups and, in a cluster, to the blocks of it. Each warpgroup by itself: S = Q K^T, softmax,
 * O += P V, as in sm90.cu; then warpgroups, then blocks, add up their sums, each of them for some
 * columns, which it writes (split_sums.cuh).
 *
 *   - Boxes come by the copy engine, one barrier per box, each group's asked for by its own first
 *     threads before the block has met for the first time. There is no producer warp: where all
 *     boxes fit at once, there is nothing to produce later; where not, whoever is done with a box
 *     asks for the next one in its place.
 *   - The maximum times the exponent is rounded once and used for all that belongs together, and P
 *     is rounded before it is summed up: both errors cancel in P / sum P.
 *
 * Notebook, H200, f16, D 64, inputs out of cache; an empty cluster takes 0.7 us in the same graph:
 *
 *     B  H   S               us, TFLOP/s         tma.cu
 *     1  8   512             p2 5.48, 98         8.26
 *     1  8   512  causal     p2 5.55, 48         9.41
 *     1  8   512  key bias   p2_any 8.59, 63
 *     1  12  512             p2 6.84, 118
 *     1  12  128             p1 3.99, 13               (p2: 4.14)
 *     8  12  128             p1 5.54, 73         6.27  (p2: 8.38)
 *
 * A block of the second line takes some 7650 clocks: 2300 until Q is here, 1700 more until K is,
 * 600 for Q K^T, 600 for the softmax, 250 for P V, 700 to add up warpgroups, 500 to add up blocks,
 * 1000 to store.
 *
 * Tried and dropped, in the first line: boxes of K and V sent to several row tiles of one cluster
 * at once (two tiles: 8.7 us; with one warpgroup and four boxes: 6.2 us); one warpgroup with four
 * boxes (5.69; causal 6.69); four warpgroups (6.46); two boxes multiplied at a time (5.34; causal
 * 5.99; with 12 heads 9.03). The last in one part took 6.37 us with 12 heads, but with 16 heads and
 * 1024 keys it ended in a launch failure, of which the cause was not found.
 */
#include "kernels/split_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/cluster.cuh"
#include "kernels/hopper.cuh"
#include "kernels/scores.cuh"
#include "kernels/split_sums.cuh"
#include "kernels/split_weights.cuh"
#include "kernels/tma.cuh"

namespace split
{

constexpr int ROWS = SPLIT_ROWS, GROUPS = SPLIT_GROUPS;

static __device__ __forceinline__ float over_quad_sum(float x)
{
	x += __shfl_xor_sync(WARP_ALL, x, 1);
	return x + __shfl_xor_sync(WARP_ALL, x, 2);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* Which keys the rows of a thread, and of its warp, may see. */
struct sight {
	int low[2], high[2]; /* by row */
	int from, to;	     /* keys that all rows of the warp see */
};

static __device__ __forceinline__ sight sight_of(const struct attn_args &a, int row, int g)
{
	sight s;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		s.low[r] = first_key(a.spec, row + g + 8 * r);
		s.high[r] = last_key(a.spec, row + g + 8 * r);
	}
	s.from = first_key(a.spec, row + 15);
	s.to = min(last_key(a.spec, row), a.Sk - 1);
	return s;
}

/* x becomes `value` outside the window and -inf beyond the last key; j is the thread's first. */
static __device__ __forceinline__ void hide(float (&s)[N], const sight &see, int j, int keys,
					    float value)
{
#pragma unroll
	for (int n = 0; n < N; n++) {
		const int r = n / 2 % 2, key = j + n / 4 * 8 + n % 2;

		if (key < see.low[r] || key > see.high[r])
			s[n] = value;
		if (key >= keys)
			s[n] = -INFINITY;
	}
}

/* From q.k to x for the thread's two rows: all but the window. */
template <typename T>
static __device__ __forceinline__ void modify_box(float (&s)[N], const struct attn_args &a,
						  const struct view &w, int i, int j)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float x[N / 2];
#pragma unroll
		for (int k = 0; k < N / 2; k++)
			x[k] = s[k / 2 * 4 + 2 * r + k % 2];
		modify<false, T>(x, a, w, i + 8 * r, j);
#pragma unroll
		for (int k = 0; k < N / 2; k++)
			s[k / 2 * 4 + 2 * r + k % 2] = x[k];
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Rows whose every x is -inf, where they become the mean of V. */
template <typename T, int COUNT>
static __device__ __forceinline__ void take_mean(float (&o)[COUNT], const bool (&empty)[2],
						 const struct attn_args &a, int b, int h,
						 int column)
{
	const T *const v = (const T *)tensor_at(a.v, b, h, a.H);

#pragma unroll 1
	for (int n = 0; n < COUNT; n += 4)
#pragma unroll 1
		for (int e = 0; e < 2; e++) {
			const int c = column + n * 2 + threadIdx.x % 4 * 2 + e;
			float total = 0.0f;

			if (c < a.Dv)
				for (int j = 0; j < a.Sk; j++)
					total += to_float<T>(
						v[j * a.v.stride[2] + c * a.v.stride[3]]);
			total *= a.spec.out_scale / a.Sk;
#pragma unroll
			for (int k = 0; k < COUNT; k++)
				if (k / 4 * 4 == n && k % 2 == e && empty[k / 2 % 2])
					o[k] = total;
		}
}

/* Lane t of four gets word t of the others, in their order. */
static __device__ __forceinline__ void turn(uint32_t (&w)[4])
{
	const int t = threadIdx.x % 4;

#pragma unroll
	for (int bit = 1; bit <= 2; bit *= 2)
#pragma unroll
		for (int n = 0; n < 2; n++) {
			uint32_t &first = w[bit == 1 ? 2 * n : n];
			uint32_t &second = w[bit == 1 ? 2 * n + 1 : n + 2];
			const uint32_t got =
				__shfl_xor_sync(WARP_ALL, t & bit ? first : second, bit);
			(t & bit ? first : second) = got;
		}
}

/* O for COUNT/4 groups of 8 columns from `column` on, of rows i and i+8. */
template <typename T, bool PLAIN, int COUNT>
static __device__ __forceinline__ void finish(float (&o)[COUNT], const totals &total,
					      const struct attn_args &a, int b, int h, int i,
					      int column)
{
	const int t = threadIdx.x % 4;
	char *const out = tensor_at(a.o, b, h, a.H);
	bool empty[2];

#pragma unroll
	for (int r = 0; r < 2; r++) {
		float weight = a.spec.out_scale / total.sum[r];

		empty[r] = total.sum[r] == 0.0f && a.spec.empty_row == ATTN_EMPTY_MEAN;
		if (total.sum[r] == 0.0f)
			weight = a.spec.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
		if (PLAIN && row_overflows<T>(a.spec, total.max[r], 1.0f))
			weight = NAN;
#pragma unroll
		for (int n = 0; n < COUNT; n += 4) {
			o[n + 2 * r] *= weight;
			o[n + 2 * r + 1] *= weight;
		}
	}
	if (empty[0] || empty[1])
		take_mean<T>(o, empty, a, b, h, column);

	if (a.o.dtype == a.q.dtype && a.o.stride[3] == 1 && a.o.stride[2] % 8 == 0 &&
	    (uint64_t)out % 16 == 0 && a.Dv % 8 == 0) {
		/* four words, two column groups of both rows, become 16 bytes of one of these */
#pragma unroll
		for (int n = 0; n < COUNT; n += 8) {
			uint32_t w[4];
#pragma unroll
			for (int k = 0; k < 4; k++)
				w[k] = pack2<T>(o[n + k % 2 * 4 + k / 2 * 2],
						o[n + k % 2 * 4 + k / 2 * 2 + 1]);
			turn(w);
			const int row = i + t / 2 * 8, c = column + n * 2 + t % 2 * 8;
			if (row < a.Sq && c < a.Dv)
				*(uint4 *)((T *)out + row * a.o.stride[2] + c) =
					make_uint4(w[0], w[1], w[2], w[3]);
		}
		return;
	}
#pragma unroll
	for (int n = 0; n < COUNT; n++) {
		const int row = i + n / 2 % 2 * 8, c = column + n / 4 * 8 + 2 * t + n % 2;

		if (row < a.Sq && c < a.Dv)
			store_to(out, row * a.o.stride[2] + c * a.o.stride[3], a.o.dtype, o[n]);
	}
}

/* ---- the kernel ----------------------------------------------------------------------------- */

template <typename T, int WIDTH, int PARTS, int STAGES, bool PLAIN>
static __device__ __forceinline__ void attention(const struct attn_mapped &m)
{
	constexpr int WORKERS = GROUPS * PARTS, BOX = SPLIT_BOX(WIDTH);
	constexpr int COUNT = WIDTH / 2 / GROUPS, CHUNK = COUNT / PARTS;
	static_assert(CHUNK % 8 == 0, "whole groups of 16 columns");

	extern __shared__ __align__(1024) unsigned char split_shared[];
	const struct attn_args &a = m.attn;
	const int group = __shfl_sync(WARP_ALL, threadIdx.x / 128, 0);
	const int part = PARTS > 1 ? blockIdx.x % PARTS : 0;
	const int tile = blockIdx.x / PARTS, tiles = gridDim.x / PARTS;
	const int b = blockIdx.z, h = blockIdx.y;
	/* causal: the last rows have the most to do, so they start first */
	const int first = (a.spec.window_right != ATTN_NO_WINDOW ? tiles - 1 - tile : tile) * ROWS;

	unsigned char *const boxes = split_shared + ROWS * WIDTH * 2;
	float4 *const group_sums = (float4 *)(split_shared + SPLIT_SUMS(WIDTH, STAGES));
	float4 *const block_sums = group_sums + SPLIT_GROUP_SUMS(WIDTH) / 16;
	float4 *const notes = block_sums + SPLIT_BLOCK_SUMS(WIDTH, PARTS) / 16;
	const uint32_t q_shared = shared_address(split_shared);
	const uint32_t own = shared_address(boxes) + group * (STAGES * 2 * BOX);
	const uint32_t q_barrier = shared_address(notes + SPLIT_NOTES(PARTS) / 16);
	const uint32_t inbox = q_barrier + 8 + group * (8 + STAGES * 16);
	const uint32_t barriers = inbox + 8; /* of K, then V, per stage */

	/* visible keys; boxes are dealt out one by one */
	int low = 0, high = a.Sk - 1;
	if (PLAIN || a.spec.window_value == -INFINITY) {
		low = min(first_key(a.spec, first), a.Sk);
		high = min(last_key(a.spec, min(first + ROWS, a.Sq) - 1), high);
	}
	const int j0 = low + (group * PARTS + part) * KEYS; /* of this group's box 0 */
	const int count = j0 > high ? 0 : (high - j0) / (WORKERS * KEYS) + 1;

	/* K or V of box n */
	auto load = [&](int n, int half) {
		const int at = 2 * (n % STAGES) + half;
		const uint32_t barrier = barriers + at * 8;

		barrier_expect(barrier, BOX);
#pragma unroll
		for (int c = 0; c < WIDTH; c += 64)
			copy_box(own + at * BOX + c * KEYS * 2,
				 &m.map[half ? ATTN_MAP_V : ATTN_MAP_K], barrier, c,
				 j0 + n * (WORKERS * KEYS),
				 h * m.step[half ? ATTN_MAP_V : ATTN_MAP_K][0],
				 b * m.step[half ? ATTN_MAP_V : ATTN_MAP_K][1]);
	};
	/* one thread each for K, for V, and for Q */
	const int role = threadIdx.x % 128 / 32;
	if (threadIdx.x % 32 == 0) {
		if (role < 2) {
			prefetch_map(&m.map[role ? ATTN_MAP_V : ATTN_MAP_K]);
#pragma unroll
			for (int n = 0; n < STAGES; n++)
				barrier_init(barriers + 8 * (2 * n + role), 1);
		} else if (role == 2 && group == 0) {
			prefetch_map(&m.map[ATTN_MAP_Q]);
			barrier_init(q_barrier, 1);
		} else if (role == 3) {
			barrier_init(inbox, 1);
		}
		barriers_ready();
		if (role == 2 && group == 0) {
			barrier_expect(q_barrier, ROWS * WIDTH * 2);
#pragma unroll
			for (int c = 0; c < WIDTH; c += 64)
				copy_box(q_shared + c * ROWS * 2, &m.map[ATTN_MAP_Q], q_barrier, c,
					 first, h * m.step[ATTN_MAP_Q][0],
					 b * m.step[ATTN_MAP_Q][1]);
		}
		if (role == 3 && PARTS > 1)
			barrier_expect(inbox, (PARTS - 1) * (CHUNK / 4 * 128 + 32) * 16);
	}
	if (PARTS > 1) {
		__syncwarp();
		cluster_here();
	}
	if (threadIdx.x % 32 == 0 && role < 2)
#pragma unroll
		for (int n = 0; n < STAGES; n++)
			if (n < count)
				load(n, role);
	__syncwarp();

	struct view w;
	w.b = b;
	w.h = h;
	w.exponent = PLAIN ? a.spec.scale * LOG2E : LOG2E;
	const int row = first + threadIdx.x % 128 / 32 * 16, g = threadIdx.x % 32 / 4;
	const sight see = sight_of(a, row, g);
	const float outside = PLAIN ? -INFINITY : a.spec.window_value;
	const uint64_t q_operand = operand_at(q_shared, 16);
	const uint64_t k_operand = operand_at(own, 16);
	const uint64_t v_operand = operand_at(own + BOX, KEYS * 128);

	totals t;
	t.start(-INFINITY);
	float o[WIDTH / 2];
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++)
		o[n] = 0.0f;

	__syncthreads();
	barrier_wait(q_barrier, 0);
#pragma unroll 1
	for (int n = 0; n < count; n++) {
		const int stage = n % STAGES, parity = n / STAGES % 2;
		const int j = j0 + n * (WORKERS * KEYS), mine = j + threadIdx.x % 4 * 2;
		float s[N];

		barrier_wait(barriers + stage * 16, parity);
		settle(s);
		wgmma_begin();
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++) {
			const int step = d / 4 * (64 * 128) + d % 4 * 32;
			wgmma_shared<T, false>::run(
				s, operand_moved(q_operand, step),
				operand_moved(k_operand, stage * 2 * BOX + step), d > 0);
		}
		wgmma_commit();
		wgmma_wait<0>();
		settle(s);
		if constexpr (!PLAIN)
			modify_box<T>(s, a, w, row + g, mine);
		if (j < see.from || j + KEYS - 1 > see.to)
			hide(s, see, mine, a.Sk, outside);

		uint32_t p[KEYS / 16][4];
		if (n == 0)
			t.start(0.0f);
		if (!weigh<T>(p, s, t, w.exponent, n == 0)) {
			float factor[2];

			if (n == 0)
				t.start(-INFINITY);
			refer_anew<T>(p, s, t, factor, w.exponent);
#pragma unroll
			for (int k = 0; k < WIDTH / 2; k++)
				o[k] *= factor[k / 2 % 2];
		}
		barrier_wait(barriers + stage * 16 + 8, parity);
		settle(o);
		wgmma_begin();
#pragma unroll
		for (int k = 0; k < KEYS / 16; k++)
			wgmma_registers<T, true>::run(
				o, p[k], operand_moved(v_operand, stage * 2 * BOX + k * 2048));
		wgmma_commit();
		wgmma_wait<0>();
		settle(o);
		if (n + STAGES < count) {
			part_sync(1 + group, 128);
			if (threadIdx.x % 32 == 0 && role < 2)
				load(n + STAGES, role);
			__syncwarp();
		}
	}

	t.sum[0] = over_quad_sum(t.sum[0]);
	t.sum[1] = over_quad_sum(t.sum[1]);
	float of_group[COUNT], of_block[CHUNK];
	add_groups<GROUPS, COUNT>(of_group, o, t, group_sums, notes, group, w.exponent);
	if constexpr (PARTS > 1) {
		cluster_wait(); /* until the others run */
		add_blocks<PARTS, CHUNK>(
			of_block, of_group, t, block_sums + group * (PARTS - 1) * (CHUNK / 4 * 128),
			notes + (GROUPS + group * (PARTS - 1)) * 32, inbox, part, w.exponent);
	} else {
#pragma unroll
		for (int n = 0; n < CHUNK; n++)
			of_block[n] = of_group[n];
	}
	finish<T, PLAIN>(of_block, t, a, b, h, row + g, 2 * (group * COUNT + part * CHUNK));
}

} // namespace split

#define SPLIT_KERNEL(type, T, name, width, parts, stages, per_sm, plain)                           \
	extern "C" __global__ void CLUSTER_OF(parts) __launch_bounds__(128 * SPLIT_GROUPS, per_sm) \
		fashim_split_##type##_##name(const __grid_constant__ struct attn_mapped mapped)    \
	{                                                                                          \
		split::attention<T, width, parts, stages, plain>(mapped);                          \
	}
#define SPLIT_F16(...)	SPLIT_KERNEL(f16, __half, __VA_ARGS__)
#define SPLIT_BF16(...) SPLIT_KERNEL(bf16, __nv_bfloat16, __VA_ARGS__)
EXPAND_TYPES(SPLIT_VARIANTS, SPLIT_F16, SPLIT_BF16)

#endif
