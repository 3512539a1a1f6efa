/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounded.cu computes, where tensor maps describe the operands: O as the unfused chain has it, P
 * divided by its sum before it is rounded, by Hopper's copy engine and matrix instructions.
 *
 * Each tile of rows walks over the keys twice (rounded.cu says why): K alone, for the maximum and the
 * sum of each row, then K again and V. Both walks go through one ring of K, so that copies for the
 * second, and for the first of the next tile, are under way before they are wanted (tma_kernel.cuh).
 * In the first walk a warpgroup's product is awaited at once: what it does not overlap with is its own
 * softmax, but the other warpgroup's takes that place, by the tokens. In the second P V of a tile and
 * Q K^T of the next are one group of instructions, as in tma.cu.
 *
 * Lab notebook (bf16, us, one H100; rounded.cu on another a few minutes before; the fastest kernel that
 * rounds S alone, of tma.cu's notebook but for the first; cuDNN's as seen in Llama-8B on an H200):
 *
 *                                               twice   rounded   tma
 *   B1 H32 S2048 D128, causal as a bias           183       296   102    (cuDNN 83)
 *   the same, known as causal                     165       308
 *   B2 H16 S4096 D128                            1053      1863
 *   B1 H32 S4096 D64, causal as a bias            519       594   222
 *   B4 H16 S2048 D64                              477       563   177
 *   B4 H12 S1024 D64 causal                        68        77
 *   B1 H8 S4096 D40                               245       291
 *   B8 H16 S512 D64, bias of batches              104       171 (_short)
 *   B1 H8 S640 D64; S1024 D128                 24; 39    24; 41 (_split)
 *   on an H200: B32 H12 S128 D64, a padding       23.6      31.3 (_k128)
 *   B64 H8 S96 D32; B8 H32 S200 D16          29.9; 40.7  30.1 (_k128); 48.7 (_k256)
 *   f16 B2 H16 S1024 D96, two biases: of all
 *       scores, and a causal mask                  104       430 (in BLOOM; both on an H200)
 *
 *   64 keys a tile instead of 128                     D128 1217, D64 554: worse, by 560 cycles a tile
 *   the next tile's product under way while this      ptxas serialises all matrix instructions (C7514),
 *       one's scores are counted                      as it does in rounded.cu
 *   3 x 64 rows for D64                               spills
 * By these and the times above a key of 128 rows takes some 21 (D 64) to 24 (D 128) cycles a walk, were
 * the clock at 1755 MHz: by count of instructions it should be 10, and why it is not was not found out.
 */
#include "kernels/twice_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/rounded_scores.cuh"
#include "kernels/tma_kernel.cuh"

namespace twice
{

template <typename T, int WIDTH, int GROUPS, int KEYS, int Q_STAGES, int STAGES, int KIND>
struct kernel : tma::kernel<T, WIDTH, GROUPS, KEYS, Q_STAGES, STAGES, KIND, false> {
	typedef tma::kernel<T, WIDTH, GROUPS, KEYS, Q_STAGES, STAGES, KIND, false> rings;
	typedef struct tma::place place;
	typedef struct tma::work work;

	/* Both walks over the tiles of keys, from the last to the first. */
	__device__ __forceinline__ void produce(const struct attn_mapped &m) const
	{
		place qp = {0, 1}, kp = {0, 1}, vp = {0, 1}, bp = {0, 1};
		work w;

		for (int round = 0; tma::work_at<rings::ROWS, KEYS, KIND, false>(w, m, round);
		     round++) {
			if (w.begin == w.end)
				continue;
			this->copy_q(m, w, qp);
			for (int j = w.end - 1; j >= w.begin; j--)
				this->copy_k(m, w, j, kp, bp);
			for (int j = w.end - 1; j >= w.begin; j--) {
				this->copy_k(m, w, j, kp, bp);
				this->copy_v(m, w, j, vp);
			}
		}
	}

	/* O += P V of the stage, started. */
	__device__ __forceinline__ void multiply_pv(float (&o)[WIDTH / 2],
						    const uint32_t (&p)[KEYS / 16][4],
						    int stage) const
	{
		const uint64_t v = operand_at(this->base + rings::V_AT + stage * rings::V_BYTES,
					      KEYS * 128);

		wgmma_begin();
#pragma unroll
		for (int n = 0; n < KEYS / 16; n++)
			wgmma_registers<T, true>::run(o, p[n], operand_moved(v, n * 2048));
		wgmma_commit();
	}

	/* From q.k to x as the program stores it, for the rows of this warp; x has two rows of a lane. */
	__device__ __forceinline__ void score(float (&x)[2][KEYS / 4], float (&s)[KEYS / 2],
					      const struct attn_mapped &m, const work &w,
					      const struct rounded::rounding &how, int j, int group,
					      place &bp, const int (&inside)[2],
					      const struct tma::span &keys) const
	{
		const struct attn_args &a = m.attn;
		const bool biased = this->has_bias(m, w, j), ends = a.spec.bias[0].base != 0;

		if (how.alpha != 1.0f)
			scale_all(s, how.alpha);
		if (how.product)
			tma::round_all<T>(s);
		if (how.after != 1.0f)
			scale_all(s, how.after);
		if (how.scaled)
			tma::round_all<T>(s);
		if constexpr (rings::TWO) {
			const int row = 64 * group + threadIdx.x / 32 % 4 * 16;
			const int biases = 1 + this->has_second(w, j);
#pragma unroll 1
			for (int n = 0; n < biases; n++) {
				this->add_beside(s, m, n, row, bp);
				if (a.spec.round_x != ATTN_F32)
					tma::round_all<T>(s);
			}
		} else {
			if (biased)
				add_bias(s, m, group, bp);
			/* where it is not read 0 is added, and the sum stored */
			if (ends && a.spec.round_x != ATTN_F32 && (biased || !how.stored))
				tma::round_all<T>(s);
		}
		__syncwarp(); /* one way on */
		if (j < inside[0] || j >= inside[1])
			tma::outside(s, keys, j * KEYS, -INFINITY, a.Sk);
#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			x[n / 2 % 2][n / 4 * 2 + n % 2] = s[n];
	}

	static __device__ __forceinline__ void scale_all(float (&s)[KEYS / 2], float factor)
	{
#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			s[n] *= factor;
	}

	/* add_beside() where there is one bias: the machine code of those kernels is what was measured. */
	__device__ __forceinline__ void add_bias(float (&s)[KEYS / 2], const struct attn_mapped &m,
						 int group, place &bp) const
	{
		const int row = 64 * group + threadIdx.x / 32 % 4 * 16, step = m.bias_rows > 1;

		barrier_wait(this->b_full(bp.stage), bp.parity);
		tma::add_bias<T>(s, this->base + rings::BIAS_AT + bp.stage * rings::BIAS_BYTES,
				 step ? rings::ROWS * 128 : 1024, row, step,
				 m.attn.spec.bias_scale[0]);
		reads_before_copies();
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			barrier_arrive(this->b_empty(bp.stage));
		tma::advance<TMA_BIAS_STAGES>(bp);
	}

	/* Waits for its turn to start products, and passes that on. */
	static __device__ __forceinline__ void take_turn(int group)
	{
		if (GROUPS > 1)
			part_sync(rings::TOKEN + group, 128 * 2);
	}
	static __device__ __forceinline__ void give_turn(int group)
	{
		if (GROUPS > 1)
			part_arrive(rings::TOKEN + (group + 1) % GROUPS, 128 * 2);
	}

	/* S of the stage of K that comes next, which may be copied over then. */
	__device__ __forceinline__ void multiply_alone(float (&s)[KEYS / 2], int group, int q_stage,
						       place &kp) const
	{
		barrier_wait(this->k_full(kp.stage), kp.parity);
		take_turn(group);
		settle(s);
		this->multiply_qk(s, group, q_stage, kp.stage);
		give_turn(group);
		wgmma_wait<0>();
		settle(s);
		if (threadIdx.x % 32 == 0)
			barrier_arrive(this->k_empty(kp.stage));
		tma::advance<STAGES>(kp);
	}

	__device__ __forceinline__ void consume(const struct attn_mapped &m, int group) const
	{
		const struct attn_args &a = m.attn;
		const int lane = threadIdx.x % 32, row0 = 64 * group + threadIdx.x / 32 % 4 * 16;
		place qp = {0, 0}, kp = {0, 0}, vp = {0, 0}, bp = {0, 0};
		work w;
		int round = 0;

		if (a.spec.window_left != ATTN_NO_WINDOW || a.spec.window_right != ATTN_NO_WINDOW)
			rings::finish_blind(m, group);
		if (GROUPS > 1 && group == GROUPS - 1)
			part_arrive(rings::TOKEN, 128 * 2);
#pragma unroll 1
		while (rings::next_work(w, m, round)) {
			const int row = w.first + row0;
			const struct tma::span keys = tma::span_of(m, w, row + lane / 4);
			struct view v;
			v.b = w.b;
			v.h = w.h;
			const struct rounded::rounding how = rounded::rounding_of(a, v);
			const float exponent = how.unit * LOG2E;
			struct rounded::counts counts;
			float s[KEYS / 2], x[2][KEYS / 4], part[2];
			int inside[2];

			rings::inside_of(inside, a, row, keys);
			counts.init();
			barrier_wait(this->q_full(qp.stage), qp.parity);
#pragma unroll 1
			for (int j = w.end - 1; j >= w.begin; j--) {
				multiply_alone(s, group, qp.stage, kp);
				score(x, s, m, w, how, j, group, bp, inside, keys);
				counts.add(x, exponent);
			}
			counts.over_lanes(exponent);
#pragma unroll
			for (int r = 0; r < 2; r++)
				part[r] = counts.sum[r] == 0.0f ? 0.0f : 1.0f / counts.sum[r];

			float o[WIDTH / 2];
			uint32_t p[KEYS / 16][4];
			int j = w.end - 1;

#pragma unroll
			for (int n = 0; n < WIDTH / 2; n++)
				o[n] = 0.0f;
			multiply_alone(s, group, qp.stage, kp);
			score(x, s, m, w, how, j, group, bp, inside, keys);
			rounded::x_to_weights<T, KEYS>(p, x, counts.most, part, exponent);
#pragma unroll 1
			while (--j >= w.begin) {
				barrier_wait(this->k_full(kp.stage), kp.parity);
				take_turn(group);
				settle(s);
				this->multiply_qk(s, group, qp.stage, kp.stage);
				barrier_wait(this->v_full(vp.stage), vp.parity);
				settle(o);
				multiply_pv(o, p, vp.stage);
				give_turn(group);
				wgmma_wait<1>();
				settle(s);
				if (lane == 0)
					barrier_arrive(this->k_empty(kp.stage));
				tma::advance<STAGES>(kp);
				score(x, s, m, w, how, j, group, bp, inside, keys);
				wgmma_wait<0>();
				settle(o);
				if (lane == 0)
					barrier_arrive(this->v_empty(vp.stage));
				tma::advance<STAGES>(vp);
				rounded::x_to_weights<T, KEYS>(p, x, counts.most, part, exponent);
			}
			if (lane == 0)
				barrier_arrive(this->q_empty(qp.stage));
			tma::advance<Q_STAGES>(qp);
			barrier_wait(this->v_full(vp.stage), vp.parity);
			settle(o);
			multiply_pv(o, p, vp.stage);
			wgmma_wait<0>();
			settle(o);
			if (lane == 0)
				barrier_arrive(this->v_empty(vp.stage));
			tma::advance<STAGES>(vp);
			/* P is divided already: four lanes' parts of the sum are 1, or 0 where there is no key */
			float sum[2] = {counts.sum[0] == 0.0f ? 0.0f : 0.25f,
					counts.sum[1] == 0.0f ? 0.0f : 0.25f};
			tma::finish<T, WIDTH>(o, sum, a, w, row);
		}
	}
};

} // namespace twice

#define TWICE_KERNEL(type, T, name, width, groups, keys, q_stages, stages, kind)                   \
	extern "C" __global__ void __launch_bounds__(TMA_THREADS(groups), 1)                       \
		fashim_twice_##type##_##name(const __grid_constant__ struct attn_mapped m)         \
	{                                                                                          \
		twice::kernel<T, width, groups, keys, q_stages, stages, kind> own{};               \
		own.run(own, m);                                                                   \
	}
#define TWICE_F16(...)	TWICE_KERNEL(f16, __half, __VA_ARGS__)
#define TWICE_BF16(...) TWICE_KERNEL(bf16, __nv_bfloat16, __VA_ARGS__)
EXPAND_TYPES(TWICE_VARIANTS, TWICE_F16, TWICE_BF16)

#endif
