/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as the formula in attention.h has it, in double precision, for sampled rows: the truth
 * that tells whether a program's own O, and ours, are right.
 *
 * One block per sampled row. x for all keys goes to scratch, then a maximum, a sum, and one thread
 * per column of V. Plain loops throughout; speed is bought by sampling. Rounding: x is rounded
 * after each bias, to fp32 and then as `round_x` says, since that decides what becomes of rows
 * whose every key carries a finite fill, and is the larger part of what a program is off by that
 * adds large numbers. Where the bias is 0, as masks are at their open keys, rounding is no more
 * than noise, which a kernel need not repeat (tma.cu): there it is to fp32, unless `round_s` asks
 * for more. Before the biases x is rounded as `round_s` has it, from fp32, which is what a
 * program's GEMM adds up in, and so is P where it asks for that. Nothing else is rounded.
 */
#include "kernels/device.cuh"

/* The number that a tensor of [B,H,Sq,1] has for one row */
static __device__ double row_number(const struct attn_tensor &t, const struct attn_args &a, int b,
				    int h, int i)
{
	return load_double(tensor_at(t, b, h, a.H), i * t.stride[2], t.dtype);
}

/* Does the boolean mask replace x[i,j]? */
static __device__ bool hidden(const struct attn_args &a, int b, int h, int i, int j)
{
	const struct attn_tensor &t = a.spec.mask;

	if (!t.base)
		return false;
	const bool set = load_double(tensor_at(t, b, h, a.H), i * t.stride[2] + j * t.stride[3],
				     ATTN_BOOL) != 0.0;
	return set != (a.spec.mask_keeps != 0);
}

/* One of what is added to the scores or multiplies them. */
static __device__ double element(const struct attn_args &a, const struct attn_tensor &t, int b,
				 int h, int i, int j)
{
	return load_double(tensor_at(t, b, h, a.H),
			   i * t.stride[2] + attn_place(j, t.columns) * t.stride[3], t.dtype);
}

/* From q.k to S, as the program stores it; `own`: of the scales. */
static __device__ double scaled(const struct attn_args &a, double x, double own)
{
	const struct attn_spec &s = a.spec;

	if (!s.round_s) {
		if (s.overflow != 0.0f && fabs(x) > s.overflow)
			x = copysign(INFINITY, x);
		return x * s.scale * own;
	}
	x *= s.alpha;
	if (s.round_s & ATTN_ROUND_PRODUCT)
		x = round_to((float)x, a.q.dtype);
	x *= s.scale / s.alpha * own;
	if (s.round_s & ATTN_ROUND_SCALED)
		x = round_to((float)x, a.q.dtype);
	return x;
}

/* x[i,j] of one [b,h] */
static __device__ double score(const struct attn_args &a, const char *q, const char *k, int b,
			       int h, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const int64_t at = (int64_t)i + s.window_shift;
	double x = 0.0, own = 1.0;

	if (s.scales.base) {
		own = element(a, s.scales, b, h, i, j);
		own = s.scales_divide ? 1.0 / own : own;
	}
	for (int d = 0; d < a.D; d++)
		x += load_double(q, i * a.q.stride[2] + d * a.q.stride[3], a.q.dtype) *
		     load_double(k, j * a.k.stride[2] + d * a.k.stride[3], a.k.dtype);
	x = scaled(a, x, own);
	if (s.round_s & ATTN_ROUND_CAPPED) {
		x = tanh((double)round_to((float)(x * (1.0 / s.softcap)), a.q.dtype));
		x = s.softcap * round_to((float)x, a.q.dtype);
		x = round_to((float)x, a.q.dtype);
	} else if (s.softcap != 0.0f) {
		const double e = exp(-2.0 * fabs(x / s.softcap)); /* tanh(y) = (1 - e) / (1 + e) */
		x = s.softcap * copysign((1.0 - e) / (1.0 + e), x / s.softcap);
	}
	for (int n = 0; n <= ATTN_MAX_BIAS; n++) {
		if (n == ATTN_MAX_BIAS - s.late_biases && hidden(a, b, h, i, j))
			x = s.mask_value;
		if (n == ATTN_MAX_BIAS || !s.bias[n].base)
			continue;
		const double bias = element(a, s.bias[n], b, h, i, j);
		const bool rounds = bias != 0.0 || s.round_s & ATTN_ROUND_BIASED ||
				    s.round_x == ATTN_F16_FLOORED;
		x = round_to((float)(x + s.bias_scale[n] * bias), rounds ? s.round_x : ATTN_F32);
	}
	if ((s.window_left != ATTN_NO_WINDOW && j < at - s.window_left) ||
	    (s.window_right != ATTN_NO_WINDOW && j > at + s.window_right))
		x = s.window_value;
	if (s.lengths.base && j >= row_number(s.lengths, a, b, h, i))
		x = -INFINITY;
	return x;
}

extern "C" __global__ void __launch_bounds__(REFERENCE_THREADS)
	fashim_reference(const __grid_constant__ struct reference_args args)
{
	__shared__ double part[REFERENCE_THREADS];
	const struct attn_args &a = args.attn;
	const int64_t total = (int64_t)a.B * a.H * a.Sq;
	const int64_t row = attn_sample_row((int32_t)blockIdx.x, args.rows, total);
	const int i = (int)(row % a.Sq), h = (int)(row / a.Sq % a.H), b = (int)(row / a.Sq / a.H);
	const char *q = tensor_at(a.q, b, h, a.H), *k = tensor_at(a.k, b, h, a.H);
	const char *v = tensor_at(a.v, b, h, a.H);
	double *x = (double *)args.scratch + (int64_t)blockIdx.x * a.Sk;
	double *out = (double *)args.out + (int64_t)blockIdx.x * a.Dv;
	const int me = threadIdx.x;

	double sink = a.spec.sinks.base ? row_number(a.spec.sinks, a, b, h, i) : -INFINITY;
	const bool again = a.spec.empty_row == ATTN_EMPTY_AGAIN;
	double most = sink;
	for (int j = me; j < a.Sk; j += REFERENCE_THREADS) {
		x[j] = again && hidden(a, b, h, i, j) ? (double)a.spec.hidden_value
						      : score(a, q, k, b, h, i, j);
		most = fmax(most, x[j]);
	}
	part[me] = most;
	__syncthreads();
	for (int n = REFERENCE_THREADS / 2; n; n /= 2) {
		if (me < n)
			part[me] = fmax(part[me], part[me + n]);
		__syncthreads();
	}
	most = part[0];
	__syncthreads();
	if (me == 0 && args.largest && most > 0) /* as whole numbers such ones compare alike */
		atomicMax((unsigned long long *)args.largest,
			  (unsigned long long)__double_as_longlong(most));

	if (a.spec.round_s & ATTN_ROUND_LESS && most != -INFINITY) {
		for (int j = me; j < a.Sk; j += REFERENCE_THREADS)
			x[j] = round_to((float)(x[j] - most), a.q.dtype);
		sink = round_to((float)(sink - most), a.q.dtype);
		most = 0.0;
	}
	double sum = me == 0 && sink != -INFINITY ? exp(sink - most) : 0.0;
	for (int j = me; j < a.Sk; j += REFERENCE_THREADS) {
		x[j] = x[j] == -INFINITY ? 0.0 : exp(x[j] - most);
		sum += x[j];
	}
	part[me] = sum;
	__syncthreads();
	for (int n = REFERENCE_THREADS / 2; n; n /= 2) {
		if (me < n)
			part[me] += part[me + n];
		__syncthreads();
	}
	sum = part[0];

	const bool empty = sum == 0.0, rounds = a.spec.round_s & ATTN_ROUND_WEIGHTS;
	if (rounds && !empty) {
		__syncthreads(); /* the sum is read by all */
		for (int j = me; j < a.Sk; j += REFERENCE_THREADS)
			x[j] = sum * round_to((float)(x[j] / sum), a.spec.round_p);
		__syncthreads();
	}
	int shown = a.Sk; /* keys that are not made 0 again */
	if (again) {
		shown = 0;
		__syncthreads();
		for (int j = 0; j < a.Sk; j++)
			if (!hidden(a, b, h, i, j))
				shown++;
			else if (j % REFERENCE_THREADS == me)
				x[j] = 0.0;
		__syncthreads();
	}
	for (int c = me; c < a.Dv; c += REFERENCE_THREADS) {
		double o = 0.0;
		for (int j = 0; j < a.Sk; j++)
			o += (empty ? 1.0 : x[j]) *
			     load_double(v, j * a.v.stride[2] + c * a.v.stride[3], a.v.dtype);
		o *= a.spec.out_scale / (empty ? a.Sk : sum);
		if (empty && a.spec.empty_row == ATTN_EMPTY_NAN)
			o = NAN;
		if (empty && again)
			o = shown ? NAN : 0.0;
		if (empty && a.spec.empty_row == ATTN_EMPTY_ZERO)
			o = 0.0;
		out[c] = o;
	}
}
SIM_KERNEL(fashim_reference)
