/* SPDX-License-Identifier: Apache-2.0
 *
 * What tma.cu does, as twice.cu shares it: rings of tiles in shared memory, who copies into them, and
 * the products that read them. tma.cu says why.
 */
#ifndef FASHIM_TMA_KERNEL_CUH
#define FASHIM_TMA_KERNEL_CUH

#include "kernels/hopper.cuh"
#include "kernels/scores.cuh"
#include "kernels/tma.cuh"
#include "kernels/tma_finish.cuh"
#include "kernels/tma_scores.cuh"
#include "kernels/tma_variants.h"
#include "kernels/tma_weights.cuh"
#include "kernels/tma_work.cuh"

namespace tma
{

/* ---- the kernel ----------------------------------------------------------------------------- */

/* A ring's place: which stage, and the parity of its phase. */
struct place {
	int stage;
	uint32_t parity;
};
template <int STAGES> static __device__ __forceinline__ void advance(struct place &p)
{
	if (STAGES == 1 || ++p.stage == STAGES) {
		p.stage = 0;
		p.parity ^= 1;
	}
}

template <typename T, int WIDTH, int GROUPS, int KEYS, int Q_STAGES, int STAGES, int KIND, bool DOWN>
struct kernel {
	static constexpr int ROWS = 64 * GROUPS, SLABS = TMA_SLABS(WIDTH);
	static constexpr int Q_BYTES = ROWS * SLABS * 128;
	static constexpr int K_BYTES = KEYS * SLABS * 128, V_BYTES = K_BYTES;
	static constexpr int K_AT = Q_STAGES * Q_BYTES, V_AT = K_AT + STAGES * K_BYTES;
	/* bias: slabs of 64 columns; mask: of 128 bytes */
	static constexpr int BIAS_SLABS = KIND == TMA_PLAIN ? 0 : KIND == TMA_MASK ? KEYS / 128 : KEYS / 64;
	static constexpr int BIAS_BYTES = BIAS_SLABS * ROWS * 128, BIAS_AT = V_AT + STAGES * V_BYTES;
	/* 16 rows of ones, which V has for its columns from WIDTH on: they sum P, as rounded */
	static constexpr bool ONES = TMA_ONES(WIDTH);
	static constexpr int ONES_AT = BIAS_AT + TMA_BIAS_STAGES * BIAS_BYTES;
	static constexpr int BARRIERS_AT = ONES_AT + ONES * TMA_ONES_BYTES;
	static constexpr int OUT = (WIDTH + 8 * ONES) / 2; /* registers of O */
	static constexpr int TOKEN = 1; /* first of the named barriers */
	static constexpr bool ADDS = KIND == TMA_BIAS || KIND == TMA_TWO, TWO = KIND == TMA_TWO;
	static constexpr bool SPANS = KIND != TMA_PLAIN, KEEPS = SPANS && WIDTH <= 128 && GROUPS == 2;

	uint32_t base;
	__device__ __forceinline__ uint32_t k_full(int s) const { return base + BARRIERS_AT + 8 * s; }
	__device__ __forceinline__ uint32_t k_empty(int s) const { return k_full(STAGES) + 8 * s; }
	__device__ __forceinline__ uint32_t v_full(int s) const { return k_empty(STAGES) + 8 * s; }
	__device__ __forceinline__ uint32_t v_empty(int s) const { return v_full(STAGES) + 8 * s; }
	__device__ __forceinline__ uint32_t q_full(int s) const { return v_empty(STAGES) + 8 * s; }
	__device__ __forceinline__ uint32_t q_empty(int s) const { return q_full(Q_STAGES) + 8 * s; }
	__device__ __forceinline__ uint32_t b_full(int s) const { return q_empty(Q_STAGES) + 8 * s; }
	__device__ __forceinline__ uint32_t b_empty(int s) const { return b_full(TMA_BIAS_STAGES) + 8 * s; }

	__device__ __forceinline__ void copy_q(const struct attn_mapped &m, const struct work &w,
					       struct place &qp) const
	{
		barrier_wait(q_empty(qp.stage), qp.parity);
		barrier_expect(q_full(qp.stage), Q_BYTES);
#pragma unroll
		for (int s = 0; s < SLABS; s++)
			copy_box(base + qp.stage * Q_BYTES + s * ROWS * 128, &m.map[ATTN_MAP_Q],
				 q_full(qp.stage), 64 * s, w.first, w.h * m.step[ATTN_MAP_Q][0],
				 w.b * m.step[ATTN_MAP_Q][1]);
		advance<Q_STAGES>(qp);
	}

	/* K of tile j, and the bias of it where there is one. */
	__device__ __forceinline__ void copy_k(const struct attn_mapped &m, const struct work &w, int j,
					       struct place &kp, struct place &bp) const
	{
		barrier_wait(k_empty(kp.stage), kp.parity);
		barrier_expect(k_full(kp.stage), K_BYTES);
#pragma unroll
		for (int s = 0; s < (DOWN ? KEYS / 64 : SLABS); s++)
			copy_box(base + K_AT + kp.stage * K_BYTES +
					 s * (DOWN ? SLABS * 64 : KEYS) * 128,
				 &m.map[ATTN_MAP_K], k_full(kp.stage),
				 DOWN ? j * KEYS + 64 * s : 64 * s, DOWN ? 0 : j * KEYS,
				 w.h * m.step[ATTN_MAP_K][0], w.b * m.step[ATTN_MAP_K][1]);
		advance<STAGES>(kp);
		if (KIND != TMA_PLAIN && has_bias(m, w, j))
			copy_bias(m, w, j, bp);
		if (has_second(w, j))
			copy_second(m, w, j, bp);
	}

	__device__ __forceinline__ void copy_v(const struct attn_mapped &m, const struct work &w, int j,
					       struct place &vp) const
	{
		barrier_wait(v_empty(vp.stage), vp.parity);
		barrier_expect(v_full(vp.stage), V_BYTES);
#pragma unroll
		for (int s = 0; s < SLABS; s++)
			copy_box(base + V_AT + vp.stage * V_BYTES + s * KEYS * 128,
				 &m.map[ATTN_MAP_V], v_full(vp.stage), 64 * s, j * KEYS,
				 w.h * m.step[ATTN_MAP_V][0], w.b * m.step[ATTN_MAP_V][1]);
		advance<STAGES>(vp);
	}

	__device__ __forceinline__ void produce(const struct attn_mapped &m) const
	{
		struct place qp = {0, 1}, kp = {0, 1}, vp = {0, 1}, bp = {0, 1};
		struct work w;

		for (int round = 0; work_at<ROWS, KEYS, KIND, false>(w, m, round); round++) {
			if (w.begin == w.end)
				continue;
			copy_q(m, w, qp);
			for (int j = w.end; j >= w.begin; j--) {
				if (j > w.begin)
					copy_k(m, w, j - 1, kp, bp);
				if (j < w.end)
					copy_v(m, w, j, vp);
			}
		}
	}

	/* Of two biases the look was at the second; the first is added to all x. */
	static __device__ __forceinline__ bool has_bias(const struct attn_mapped &m,
							const struct work &w, int j)
	{
		return TWO || (m.bias_rows && (j < w.clear_begin || j >= w.clear_end));
	}

	static __device__ __forceinline__ bool has_second(const struct work &w, int j)
	{
		return TWO && (j < w.clear_begin || j >= w.clear_end);
	}

	/* The bias, or mask, of the tile's rows and of keys j. */
	__device__ __forceinline__ void copy_bias(const struct attn_mapped &m, const struct work &w,
						  int j, struct place &bp) const
	{
		const int slab = m.bias_rows > 1 ? ROWS * 128 : 1024;
		const int h = w.h * m.step[ATTN_MAP_BIAS][0], b = w.b * m.step[ATTN_MAP_BIAS][1];
		const uint32_t to = base + BIAS_AT + bp.stage * BIAS_BYTES;

		barrier_wait(b_empty(bp.stage), bp.parity);
		barrier_expect(b_full(bp.stage), BIAS_SLABS * m.bias_rows * 128);
#pragma unroll
		for (int s = 0; s < BIAS_SLABS; s++)
			copy_box(to + s * slab, &m.map[ATTN_MAP_BIAS], b_full(bp.stage),
				 j * KEYS + s * (KIND == TMA_MASK ? 128 : 64),
				 m.bias_rows > 1 ? w.first : 0, h, b);
		advance<TMA_BIAS_STAGES>(bp);
	}

	/* The second bias of the tile's rows and of keys j. Not by one function for both: ptxas makes other
	 * code of all kernels with a bias then, and the order of theirs was measured. */
	__device__ __forceinline__ void copy_second(const struct attn_mapped &m, const struct work &w,
						    int j, struct place &bp) const
	{
		const int rows = m.second_rows, slab = rows > 1 ? ROWS * 128 : 1024;
		const int h = w.h * m.second_step[0], b = w.b * m.second_step[1];
		const uint32_t to = base + BIAS_AT + bp.stage * BIAS_BYTES;

		barrier_wait(b_empty(bp.stage), bp.parity);
		barrier_expect(b_full(bp.stage), BIAS_SLABS * rows * 128);
#pragma unroll
		for (int s = 0; s < BIAS_SLABS; s++)
			copy_box(to + s * slab, &m.second, b_full(bp.stage), j * KEYS + s * 64,
				 rows > 1 ? w.first : 0, h, b);
		advance<TMA_BIAS_STAGES>(bp);
	}

	/* Is x, but for a bias, no more than q.k times a positive factor? */
	static __device__ __forceinline__ bool is_simple(const struct attn_mapped &m)
	{
		const struct attn_spec &spec = m.attn.spec;

		return KIND != TMA_PLAIN && spec.softcap == 0.0f && spec.scale > 0.0f &&
		       spec.window_value == -INFINITY;
	}

	/* Is x to be rounded? Not where the look at the mask told all: there it decides nothing, if
	 * nothing else is added. */
	static __device__ __forceinline__ bool is_rounded(const struct attn_mapped &m,
							  const struct work &w)
	{
		return ADDS && m.bias_rows && m.attn.spec.round_x != ATTN_F32 &&
		       (TWO || !is_spanned(w));
	}

	/* Is x of all these rows no more than q.k times a positive factor, or hidden? Then it is asked
	 * at the end whether S overflows. */
	static __device__ __forceinline__ bool is_settled(const struct attn_mapped &m,
							  const struct work &w)
	{
		return KIND == TMA_PLAIN ||
		       (!TWO && is_simple(m) && is_spanned(w) && !m.attn.spec.round_s);
	}

	/* S as the program stores it. Returns what it is still to be multiplied by. */
	static __device__ __forceinline__ float stored(float (&s)[KEYS / 2],
						       const struct attn_mapped &m,
						       const struct work &w)
	{
		const struct attn_spec &spec = m.attn.spec;

		if (spec.round_s)
			return store_scores<T>(s, spec);
		if (!is_settled(m, w))
			overflow_scores<T, KEYS / 2>(spec, [&](int n) -> float & { return s[n]; });
		return spec.scale;
	}

	/* Adds the n-th of two biases of a tile; `row`: the warp's first, of the block's. modify() has the
	 * same for one: where both called this, that was slower (H200, f16, B8 H16 S512 with a bias of
	 * batches: 49.0 and 51.1 us). */
	__device__ __forceinline__ void add_beside(float (&s)[KEYS / 2], const struct attn_mapped &m,
						   int n, int row, struct place &bp) const
	{
		const struct attn_spec &spec = m.attn.spec;
		const uint32_t at = base + BIAS_AT + bp.stage * BIAS_BYTES;
		const int step = (TWO && n ? m.second_rows : m.bias_rows) > 1;

		barrier_wait(b_full(bp.stage), bp.parity);
		add_bias<T>(s, at, step ? ROWS * 128 : 1024, row, step, spec.bias_scale[n]);
		reads_before_copies();
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			barrier_arrive(b_empty(bp.stage));
		advance<TMA_BIAS_STAGES>(bp);
	}

	/* From q.k to x, but for the window, and for a factor, which is returned: where that is all
	 * there is to do, it costs nothing together with the exponentials. */
	__device__ __forceinline__ float modify(float (&s)[KEYS / 2], const struct attn_mapped &m,
						const struct work &w, int j, int group,
						struct place &bp) const
	{
		const struct attn_spec &spec = m.attn.spec;
		const int lane = threadIdx.x % 32, row = 64 * group + threadIdx.x / 32 % 4 * 16;
		const uint32_t at = base + BIAS_AT + bp.stage * BIAS_BYTES;

		const float left = stored(s, m, w);

		if (is_simple(m) && !has_bias(m, w, j) && !is_rounded(m, w))
			return left;
#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			s[n] *= left;
		if (spec.softcap != 0.0f)
			soft_cap(s, spec.softcap);
		if constexpr (TWO) {
			const int biases = 1 + has_second(w, j);
#pragma unroll 1
			for (int n = 0; n < biases; n++) {
				add_beside(s, m, n, row, bp);
				if (is_rounded(m, w))
					round_all<T>(s);
			}
			return 1.0f;
		}
		if (has_bias(m, w, j)) {
			const int step = m.bias_rows > 1;

			barrier_wait(b_full(bp.stage), bp.parity);
			if constexpr (KIND == TMA_MASK)
				apply_mask(s, at, row, step, spec.mask_keeps != 0, spec.mask_value);
			else
				add_bias<T>(s, at, step ? ROWS * 128 : 1024, row, step,
					 spec.bias_scale[0]);
			reads_before_copies();
			__syncwarp();
			if (lane == 0)
				barrier_arrive(b_empty(bp.stage));
			advance<TMA_BIAS_STAGES>(bp);
		}
		if (is_rounded(m, w))
			round_all<T>(s);
		return 1.0f;
	}

	/* P of x, as modify() left it, with a new reference. */
	static __device__ __forceinline__ void weigh_anew(uint32_t (&p)[KEYS / 16][4],
							  float (&s)[KEYS / 2], struct rows &rows,
							  float (&more)[2], float factor)
	{
		if (KIND != TMA_PLAIN) { /* other tiles have another factor */
#pragma unroll
			for (int n = 0; n < KEYS / 2; n++)
				s[n] *= factor;
			factor = 1.0f;
		}
		weights_anew<T, ONES>(p, s, rows, more, factor * LOG2E);
	}

	/* S = Q K of the stage, started. */
	__device__ __forceinline__ void multiply_qk(float (&s)[KEYS / 2], int group, int q_stage,
						    int stage) const
	{
		const uint64_t q = operand_at(base + q_stage * Q_BYTES + group * (64 * 128), 16);
		const uint64_t k = operand_at(base + K_AT + stage * K_BYTES,
					      DOWN ? SLABS * 64 * 128 : 16);
		wgmma_begin();
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			wgmma_shared<T, DOWN>::run(
				s, operand_moved(q, d / 4 * (ROWS * 128) + d % 4 * 32),
				operand_moved(k, DOWN ? d * 2048
						      : d / 4 * (KEYS * 128) + d % 4 * 32),
				d > 0);
		wgmma_commit();
	}

	/* O += P V of the stage, started. */
	__device__ __forceinline__ void multiply_pv(float (&o)[OUT],
						    const uint32_t (&p)[KEYS / 16][4],
						    int stage) const
	{
		const uint32_t at = base + V_AT + stage * V_BYTES;
		const uint64_t v = operand_at(at, ONES && SLABS == 1 ? base + ONES_AT - at : KEYS * 128);
		wgmma_begin();
#pragma unroll
		for (int n = 0; n < KEYS / 16; n++)
			/* the ones stay where they are */
			wgmma_registers<T, true>::run(
				o, p[n],
				operand_moved(v, n * 2048) -
					(ONES ? (uint64_t)(n * 2048 >> 4) << 16 : 0));
		wgmma_commit();
	}

	/* Tiles inside[0] to inside[1] - 1 lie within the window, or the spans, of all rows of a warp. */
	static __device__ __forceinline__ void inside_of(int (&inside)[2], const struct attn_args &a,
							 int row, const struct span &keys)
	{
		int low = first_key(a.spec, row + 15), high = min(last_key(a.spec, row), a.Sk - 1);

		if (SPANS) {
			low = __reduce_max_sync(WARP_ALL, max(keys.low[0], keys.low[1]));
			high = __reduce_min_sync(WARP_ALL, min(keys.high[0], keys.high[1]));
		}
		inside[0] = (low + KEYS - 1) / KEYS;
		inside[1] = (high + 1) / KEYS;
	}

	/* The keys of a lane's rows, ahead of their use, where there are registers to keep them. */
	static __device__ __forceinline__ void keep_span(struct span &keys,
							 const struct attn_mapped &m,
							 const struct work &w, int row)
	{
		if (KEEPS)
			keys = span_of(m, w, row + threadIdx.x % 32 / 4);
	}
	static __device__ __forceinline__ struct span kept_span(const struct span &keys,
								const struct attn_mapped &m,
								const struct work &w, int row)
	{
		const int i = row + threadIdx.x % 32 / 4;

		return KEEPS ? keys : SPANS ? span_of(m, w, i) : window_of(m.attn, i);
	}

	/* The next tile of this block that sees any keys. */
	static __device__ __forceinline__ bool next_work(struct work &w, const struct attn_mapped &m,
							 int &round)
	{
		bool there;

		do
			there = work_at<ROWS, KEYS, KIND, true>(w, m, round++);
		while (there && w.begin == w.end);
		return there;
	}

	/* Writes the tiles of this block that see none. */
	static __device__ __forceinline__ void finish_blind(const struct attn_mapped &m, int group)
	{
		struct work w;

		for (int round = 0; work_at<ROWS, KEYS, KIND, true>(w, m, round); round++)
			if (w.begin == w.end)
				finish_empty<T>(m.attn, w, w.first + 64 * group);
	}

	__device__ __forceinline__ void consume(const struct attn_mapped &m, int group) const
	{
		const struct attn_args &a = m.attn;
		const int lane = threadIdx.x % 32, row0 = 64 * group + threadIdx.x / 32 % 4 * 16;
		const float hidden = KIND == TMA_PLAIN ? -INFINITY : a.spec.window_value;
		struct place qp = {0, 0}, kp = {0, 0}, vp = {0, 0}, bp = {0, 0};
		struct work w, next;
		struct span keys;
		int round = 0;

		if (a.spec.window_left != ATTN_NO_WINDOW || a.spec.window_right != ATTN_NO_WINDOW)
			finish_blind(m, group);
		if (!next_work(w, m, round))
			return;
		float o[OUT], s[KEYS / 2], factor[2];
		uint32_t p[KEYS / 16][4];

		keep_span(keys, m, w, w.first + row0);
		if (GROUPS > 1 && group == GROUPS - 1)
			part_arrive(TOKEN, 256);
		barrier_wait(q_full(qp.stage), qp.parity);
		barrier_wait(k_full(kp.stage), kp.parity);
		settle(s);
		multiply_qk(s, group, qp.stage, kp.stage);
		wgmma_wait<0>();
		settle(s);
#pragma unroll 1
		for (;;) {
			/* S of the last keys is there */
			const int row = w.first + row0;
			float left = a.spec.scale; /* to multiply by */
			struct rows rows;
			int j = w.end - 1, inside[2];

			if (lane == 0)
				barrier_arrive(k_empty(kp.stage));
			advance<STAGES>(kp);
			inside_of(inside, a, row, kept_span(keys, m, w, row));
			if (KIND != TMA_PLAIN) {
				left = modify(s, m, w, j, group, bp);
				__syncwarp(); /* one way on: what follows is not to be there twice */
			}
			if (j < inside[0] || j >= inside[1])
				outside(s, kept_span(keys, m, w, row), j * KEYS, hidden, a.Sk);
			rows.start(0.0f);
			if (!weights<T, ONES, true>(p, s, rows, left * LOG2E)) {
				rows.start(-INFINITY);
				weigh_anew(p, s, rows, factor, left);
			}
#pragma unroll
			for (int n = 0; n < OUT; n++)
				o[n] = 0.0f;
#pragma unroll 1
			while (--j >= w.begin) {
				/* S of keys j, O of those before */
				barrier_wait(k_full(kp.stage), kp.parity);
				if (GROUPS > 1)
					part_sync(TOKEN + group, 256);
				settle(s);
				multiply_qk(s, group, qp.stage, kp.stage);
				barrier_wait(v_full(vp.stage), vp.parity);
				settle(o);
				multiply_pv(o, p, vp.stage);
				if (GROUPS > 1)
					part_arrive(TOKEN + (group + 1) % GROUPS, 256);
				wgmma_wait<1>();
				settle(s);
				if (lane == 0)
					barrier_arrive(k_empty(kp.stage));
				advance<STAGES>(kp);
				if (KIND != TMA_PLAIN) {
					left = modify(s, m, w, j, group, bp);
					__syncwarp();
				}
				if (j < inside[0] || j >= inside[1])
					outside(s, kept_span(keys, m, w, row), j * KEYS, hidden, a.Sk);
				wgmma_wait<0>();
				settle(o);
				if (lane == 0)
					barrier_arrive(v_empty(vp.stage));
				advance<STAGES>(vp);
				if (!weights<T, ONES, false>(p, s, rows, left * LOG2E)) {
					weigh_anew(p, s, rows, factor, left);
#pragma unroll
					for (int n = 0; n < OUT; n++)
						o[n] *= factor[n / 2 % 2];
				}
			}
			if (is_settled(m, w))
				spoil_rows<T>(p, rows, a.spec, KIND == TMA_PLAIN ? 1.0f : a.spec.scale);
			if (lane == 0)
				barrier_arrive(q_empty(qp.stage));
			advance<Q_STAGES>(qp);
			const bool more = next_work(next, m, round);
			if (!more) {
				barrier_wait(v_full(vp.stage), vp.parity);
				settle(o);
				multiply_pv(o, p, vp.stage);
				wgmma_wait<0>();
				settle(o);
				finish<T, WIDTH>(o, rows.sum, a, w, row);
				return;
			}
			barrier_wait(q_full(qp.stage), qp.parity);
			barrier_wait(k_full(kp.stage), kp.parity);
			if (GROUPS > 1)
				part_sync(TOKEN + group, 256);
			barrier_wait(v_full(vp.stage), vp.parity);
			settle(o);
			multiply_pv(o, p, vp.stage);
			settle(s);
			multiply_qk(s, group, qp.stage, kp.stage);
			if (GROUPS > 1)
				part_arrive(TOKEN + (group + 1) % GROUPS, 256);
			keep_span(keys, m, next, next.first + row0);
			wgmma_wait<1>();
			settle(o);
			if (lane == 0)
				barrier_arrive(v_empty(vp.stage));
			advance<STAGES>(vp);
			finish<T, WIDTH>(o, rows.sum, a, w, row);
			wgmma_wait<0>();
			settle(s);
			w = next;
		}
	}

	/* own: this, as what it is. */
	template <typename OWN>
	__device__ __forceinline__ void run(const OWN &own, const struct attn_mapped &m)
	{
		extern __shared__ __align__(1024) unsigned char tma_shared[];
		const int group = __shfl_sync(WARP_ALL, threadIdx.x / 128, 0);

		base = shared_address(tma_shared);
		if constexpr (ONES) {
			if (threadIdx.x < TMA_ONES_BYTES / 16) {
				const uint32_t ones = pack2<T>(1.0f, 1.0f);
				((uint4 *)(tma_shared + ONES_AT))[threadIdx.x] =
					make_uint4(ones, ones, ones, ones);
			}
			asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		}
		if (threadIdx.x == 0) {
			prefetch_map(&m.map[ATTN_MAP_Q]);
			prefetch_map(&m.map[ATTN_MAP_K]);
			prefetch_map(&m.map[ATTN_MAP_V]);
			for (int s = 0; s < Q_STAGES; s++) {
				barrier_init(q_full(s), 1);
				barrier_init(q_empty(s), 4 * GROUPS);
			}
			for (int s = 0; KIND != TMA_PLAIN && s < TMA_BIAS_STAGES; s++) {
				barrier_init(b_full(s), 1);
				barrier_init(b_empty(s), 4 * GROUPS);
			}
			for (int s = 0; s < STAGES; s++) {
				barrier_init(k_full(s), 1);
				barrier_init(k_empty(s), 4 * GROUPS);
				barrier_init(v_full(s), 1);
				barrier_init(v_empty(s), 4 * GROUPS);
			}
			barriers_ready();
		}
		__syncthreads();
		if (group == 0) {
			if constexpr (GROUPS > 1)
				give_registers<GROUPS == 3 ? 32 : 24>();
			if (threadIdx.x == 0)
				own.produce(m);
		} else {
			if constexpr (GROUPS > 1)
				take_registers<GROUPS == 3 ? 160 : 240>();
			own.consume(m, group - 1);
		}
	}
};

} // namespace tma

#endif
