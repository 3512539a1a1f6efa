/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 20: rolling slices, and a maximum that is rarely asked for.
 *
 * Adds: a warp goes through a tile in slices of 16 keys, and for each computes P of this tile, Q
 * K^T of the NEXT one into the registers just read, and P V of this one. A row keeps what its P is
 *       relative to as long as no score exceeds it by 2^13: one vote a tile tells, and only then do
 *       lanes exchange maxima, and sums and O are scaled.
 * Why:  until here a warp did Q K^T, then all exponentials, then P V, and while it did one of them
 *       the units of the others stood still unless another warp was there to use them. In one basic
 *       block the compiler mixes them. The running maximum of step 3 cost four shuffles and 32
 *       multiplications a tile, for factors that are 1 nearly always.
 * Then: K is a tile ahead of V, so each has stages of its own: K of tile j + 2 is copied over that
 *       of j, V of j + 1 beside that of j.
 * L4:   not planned.
 * H200: to be measured.
 *
 * It is the inner loop of mma.cu, the portable kernel that ships, which says what else was tried.
 */
#include "kernels/ladder/swizzle.cuh"

namespace step20
{

/* By so many powers of two may P exceed what it is relative to: fp16 holds 2^15. */
constexpr float ROOM = 13.0f;

/* The scores of a warp's 16 rows under way: of 16 keys from key 16 n on in s[n], as multiply()
 * leaves them; and the largest of each row that this lane has seen of them. */
template <int KEYS> struct scores {
	float s[KEYS / 16][2][4];
	float top[2];
};

/* Scores of slice n: 16 lines of K from `key` on. */
template <int KEYS>
static __device__ __forceinline__ void multiply_slice(struct scores<KEYS> &u, int n,
						      const struct warp_sums &w,
						      __half (*k)[LADDER_D], int key)
{
	float x[2][4];

	multiply_keys<16>(x, w, k, key);
#pragma unroll
	for (int e = 0; e < 4; e++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			u.s[n][e / 2][2 * r + e % 2] = x[r][e];
}

/* Before a tile of scores is used: keys that a row does not see are hidden, maxima taken, and the
 * reference of each row, in w.max, renewed where it has none or P would be too large. */
template <int KEYS>
static __device__ __forceinline__ void settle(struct scores<KEYS> &u, const struct attn_args &a,
					      struct warp_sums &w, int first, int j, float exponent)
{
	float x[2][KEYS / 4];
	bool beyond = false;

#pragma unroll
	for (int r = 0; r < 2; r++)
#pragma unroll
		for (int n = 0; n < KEYS / 4; n++)
			x[r][n] = u.s[n / 4][n / 2 % 2][2 * r + n % 2];
	hide_keys<KEYS>(a, x, first, j);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		u.top[r] = -INFINITY;
#pragma unroll
		for (int n = 0; n < KEYS / 4; n++) {
			u.top[r] = fmaxf(u.top[r], x[r][n]);
			u.s[n / 4][n / 2 % 2][2 * r + n % 2] = x[r][n];
		}
		beyond = beyond ||
			 (u.top[r] != -INFINITY && !((u.top[r] - w.max[r]) * exponent <= ROOM));
	}
	if (!__any_sync(WARP_ALL, beyond))
		return;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float top = u.top[r];

		top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 1));
		top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 2));
		top = fmaxf(top, w.max[r]);
		const float factor =
			w.max[r] == -INFINITY ? 0.0f : exp2_fast((w.max[r] - top) * exponent);
		w.max[r] = top;
		w.sum[r] *= factor;
#pragma unroll
		for (int n = 0; n < LADDER_D / 8; n++) {
			w.o[n][2 * r] *= factor;
			w.o[n][2 * r + 1] *= factor;
		}
	}
}

/* P of slice n, packed as the left operand of P V. */
template <int KEYS>
static __device__ __forceinline__ void weigh_slice(uint32_t (&p)[4], const struct scores<KEYS> &u,
						   int n, struct warp_sums &w,
						   const float (&base)[2], float exponent)
{
#pragma unroll
	for (int e = 0; e < 4; e++) {
		const int r = e % 2;
		const float low = exp2_fast((u.s[n][e / 2][2 * r] - base[r]) * exponent);
		const float high = exp2_fast((u.s[n][e / 2][2 * r + 1] - base[r]) * exponent);

		w.sum[r] += low + high;
		p[e] = pack2<__half>(low, high);
	}
}

/* O += P V, over 16 lines of V from `key` on. */
static __device__ __forceinline__ void add_slice(struct warp_sums &w, const uint32_t (&p)[4],
						 __half (*v)[LADDER_D], int key)
{
	const int lane = threadIdx.x % 32;

#pragma unroll
	for (int d = 0; d < LADDER_D / 16; d++) {
		uint32_t b[4];

		load_matrix_transposed(b, piece_at(v, key + lane % 16, 2 * d + lane / 16));
		multiply<__half>(w.o[2 * d], p, b[0], b[1]);
		multiply<__half>(w.o[2 * d + 1], p, b[2], b[3]);
	}
}

/* P and P V of a tile, whose KEYS lines of V from `key` on are there, and with MORE, of the same
 * lines of the next K, the scores to come: no branch among the slices. */
template <bool MORE, int KEYS>
static __device__ __forceinline__ void roll(struct scores<KEYS> &u, struct warp_sums &w,
					    __half (*k)[LADDER_D], __half (*v)[LADDER_D], int key,
					    float exponent)
{
	float base[2];

#pragma unroll
	for (int r = 0; r < 2; r++)
		base[r] = w.max[r] == -INFINITY ? 0.0f : w.max[r];
#pragma unroll
	for (int n = 0; n < KEYS / 16; n++) {
		uint32_t p[4];

		weigh_slice(p, u, n, w, base, exponent);
		if (MORE)
			multiply_slice(u, n, w, k, key + 16 * n);
		add_slice(w, p, v, key + 16 * n);
	}
}

template <int ROWS, int KEYS, int GROUPS>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int GROUP_THREADS = 2 * ROWS, THREADS = GROUPS * GROUP_THREADS;
	constexpr int OWN_KEYS = KEYS / GROUPS;
	typedef struct swizzled<ROWS, KEYS, 1, 2> block;
	static_assert(sizeof(block::k) + sizeof(block::v) >=
			      (GROUPS - 1) * GROUP_THREADS * (LADDER_D / 2 + 4) * sizeof(float),
		      "the groups' sums fit where K and V were");
	DYNAMIC_SHARED(block, t);
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int group = threadIdx.x / GROUP_THREADS, row = threadIdx.x % GROUP_THREADS / 32 * 16;
	const int key = group * OWN_KEYS, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int begin = keys_begin(a, first) / KEYS * KEYS, end = keys_end(a, last);
	const float exponent = a.spec.scale * LOG2E;
	struct scores<OWN_KEYS> u;
	struct warp_sums w;

	start_copies<ROWS, THREADS>(t->q[0], q, first, a.Sq);
	if (begin < end)
		start_copies<KEYS, THREADS>(t->k[0], k, begin, a.Sk);
	copy_commit();
	if (begin < end)
		start_copies<KEYS, THREADS>(t->v[0], v, begin, a.Sk);
	if (begin + KEYS < end)
		start_copies<KEYS, THREADS>(t->k[1], k, begin + KEYS, a.Sk);
	copy_commit();
	copy_wait_but<1>();
	__syncthreads();
	begin_rows(w, t->q[0], row);
	if (begin < end) {
#pragma unroll
		for (int n = 0; n < OWN_KEYS / 16; n++)
			multiply_slice(u, n, w, t->k[0], key + 16 * n);
		settle(u, a, w, first + row, begin + key, exponent);
	}
	for (int j = begin, stage = 0; j < end; j += KEYS, stage ^= 1) {
		copy_wait();
		__syncthreads(); /* V of this tile and K of the next are there, their others free */
		if (j + KEYS >= end) {
			roll<false>(u, w, t->k[0], t->v[stage], key, exponent);
			break;
		}
		if (j + 2 * KEYS < end)
			start_copies<KEYS, THREADS>(t->k[stage], k, j + 2 * KEYS, a.Sk);
		start_copies<KEYS, THREADS>(t->v[stage ^ 1], v, j + KEYS, a.Sk);
		copy_commit();
		roll<true>(u, w, t->k[stage ^ 1], t->v[stage], key, exponent);
		settle(u, a, w, first + row, j + KEYS + key, exponent);
	}
	merge_groups<GROUPS, GROUP_THREADS>(w, (float *)t->k, group, exponent);
	if (group == 0)
		end_rows(a, w, o, t->q[0] + row, first + row);
}

/* A line per kernel: its label in ladder.def, rows, keys, groups. */
#define ROLLING(label, rows, keys, groups)                                                         \
	extern "C" __global__ void __launch_bounds__(2 * rows * groups)                            \
		fashim_ladder_##label(const __grid_constant__ struct attn_args a)                  \
	{                                                                                          \
		attention<rows, keys, groups>(a);                                                  \
	}                                                                                          \
	LADDER_STEP(label, rows, 2 * rows * groups, (int)sizeof(struct swizzled<rows, keys, 1, 2>))

ROLLING(20_rolling_slices, 16, 128, 4)
ROLLING(20_rolling_slices_32x128, 32, 128, 2)
ROLLING(20_rolling_slices_64x64, 64, 64, 1)

} /* namespace step20 */
