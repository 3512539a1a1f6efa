/* SPDX-License-Identifier: Apache-2.0
 *
 * How far two results lie apart: the application's O against ours, and both against the reference.
 *
 * Each block sums over its share in double precision, then one thread adds the block's sums to the
 * result under a lock, so that the largest difference and where it lies stay one pair. Pairs in
 * which either side is NaN or infinite are not summed but counted, unless both agree. Blocks that
 * added their sums are counted, too: without all of them nothing was measured.
 */
#include "kernels/device.cuh"

static __device__ __forceinline__ bool is_finite(double x)
{
	return fabs(x) <= 1.7976931348623157e308;
}

static __device__ __forceinline__ bool same_nonfinite(double x, double y)
{
	return x == y || (x != x && y != y);
}

static __device__ double block_sum(double x, double *part)
{
	const int me = threadIdx.x;

	__syncthreads();
	part[me] = x;
	__syncthreads();
	for (int n = DRIFT_THREADS / 2; n; n /= 2) {
		if (me < n)
			part[me] += part[me + n];
		__syncthreads();
	}
	return part[0];
}

static __device__ double block_max(double x, double *part)
{
	const int me = threadIdx.x;

	__syncthreads();
	part[me] = x;
	__syncthreads();
	for (int n = DRIFT_THREADS / 2; n; n /= 2) {
		if (me < n)
			part[me] = fmax(part[me], part[me + n]);
		__syncthreads();
	}
	return part[0];
}

enum lock : unsigned long long { FREE, TAKEN, GIVEN_UP };

/* Some tenths of a second; a thousand blocks that wait for one another need some thousandths. */
#define LOCK_TRIES (1 << 18)

/* Waits for the lock, but not for ever: in memory that was not zeroed nobody would give it. A block
 * that gives up adds nothing, and is missing in the result; those that come later do not wait. */
static __device__ bool lock_take(uint64_t *lock)
{
	unsigned long long *const word = (unsigned long long *)lock;

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		const unsigned long long before = atomicCAS(word, FREE, TAKEN);

		if (before == FREE) {
			__threadfence();
			return true;
		}
		if (before != TAKEN)
			return false;
		__nanosleep(100);
	}
	atomicCAS(word, TAKEN, GIVEN_UP);
	return false;
}

static __device__ void lock_give(uint64_t *lock)
{
	__threadfence();
	atomicCAS((unsigned long long *)lock, TAKEN, FREE);
}

static __device__ double element(const struct attn_tensor &t, int H, int64_t b, int64_t h,
				 int64_t i, int64_t d)
{
	return load_double(tensor_at(t, (int)b, (int)h, H), i * t.stride[2] + d * t.stride[3],
			   t.dtype);
}

extern "C" __global__ void __launch_bounds__(DRIFT_THREADS)
	fashim_drift(const __grid_constant__ struct drift_args args)
{
	__shared__ double part[DRIFT_THREADS];
	__shared__ int owner;
	const int64_t total = (int64_t)args.B * args.H * args.Sq * args.Dv;
	double diff2 = 0, app2 = 0, fused2 = 0, dot = 0, count = 0, mismatch = 0, beyond = 0;
	double most = -1, most_app = 0, worst_app = 0, worst_fused = 0;
	int64_t worst = 0;

	for (int64_t n = (int64_t)blockIdx.x * DRIFT_THREADS + threadIdx.x; n < total;
	     n += (int64_t)gridDim.x * DRIFT_THREADS) {
		const int64_t d = n % args.Dv, row = n / args.Dv, i = row % args.Sq;
		const int64_t h = row / args.Sq % args.H, b = row / args.Sq / args.H;
		const double x = element(args.app, args.H, b, h, i, d);
		const double y = element(args.fused, args.H, b, h, i, d);
		const double diff = fabs(x - y);

		if (!is_finite(x) || !is_finite(y)) {
			mismatch += !same_nonfinite(x, y);
			continue;
		}
		diff2 += diff * diff;
		app2 += x * x;
		fused2 += y * y;
		dot += x * y;
		count++;
		beyond += diff > args.abs_tol + args.rel_tol * fabs(x);
		most_app = fmax(most_app, fabs(x));
		if (diff > most) {
			most = diff;
			worst = n;
			worst_app = x;
			worst_fused = y;
		}
	}
	diff2 = block_sum(diff2, part);
	app2 = block_sum(app2, part);
	fused2 = block_sum(fused2, part);
	dot = block_sum(dot, part);
	count = block_sum(count, part);
	mismatch = block_sum(mismatch, part);
	beyond = block_sum(beyond, part);
	most_app = block_max(most_app, part);
	const double block_most = block_max(most, part);

	if (threadIdx.x == 0)
		owner = DRIFT_THREADS;
	__syncthreads();
	if (most == block_most)
		atomicMin(&owner, (int)threadIdx.x);
	__syncthreads();
	if ((int)threadIdx.x != owner)
		return;

	struct drift_result *r = (struct drift_result *)args.result;
	volatile struct drift_result *v = r;
	if (!lock_take(&r->lock))
		return;
	v->blocks += 1;
	v->sum_diff2 += diff2;
	v->sum_app2 += app2;
	v->sum_fused2 += fused2;
	v->sum_dot += dot;
	v->count += (uint64_t)count;
	v->nonfinite_mismatch += (uint64_t)mismatch;
	v->beyond += (uint64_t)beyond;
	if (most_app > v->max_app)
		v->max_app = most_app;
	/* among equal differences the first index wins, whatever the order of the blocks */
	const bool first = v->count == (uint64_t)count;
	if (count > 0 && (first || most > v->max_abs ||
			  (most == v->max_abs && (uint64_t)worst < v->worst_index))) {
		v->max_abs = most;
		v->worst_index = worst;
		v->worst_app = worst_app;
		v->worst_fused = worst_fused;
	}
	lock_give(&r->lock);
}
SIM_KERNEL(fashim_drift)

extern "C" __global__ void __launch_bounds__(DRIFT_THREADS)
	fashim_drift_sampled(const __grid_constant__ struct drift_sampled_args args)
{
	__shared__ double part[DRIFT_THREADS];
	const int64_t total = (int64_t)args.B * args.H * args.Sq;
	const int64_t row = attn_sample_row((int32_t)blockIdx.x, args.rows, total),
		      i = row % args.Sq;
	const int64_t h = row / args.Sq % args.H, b = row / args.Sq / args.H;
	const double *reference = (const double *)args.reference + (int64_t)blockIdx.x * args.Dv;
	double ref2 = 0, app2 = 0, fused2 = 0, most_ref = 0, most_app = 0, most_fused = 0;
	double count = 0, app_bad = 0, fused_bad = 0;

	for (int d = threadIdx.x; d < args.Dv; d += DRIFT_THREADS) {
		const double truth = reference[d];
		const double x = element(args.app, args.H, b, h, i, d);
		const double y = args.fused.base ? element(args.fused, args.H, b, h, i, d) : truth;

		app_bad += is_finite(x) != is_finite(truth);
		fused_bad += is_finite(y) != is_finite(truth);
		if (!is_finite(truth))
			continue;
		count++;
		ref2 += truth * truth;
		most_ref = fmax(most_ref, fabs(truth));
		if (is_finite(x)) {
			app2 += (x - truth) * (x - truth);
			most_app = fmax(most_app, fabs(x - truth));
		}
		if (is_finite(y)) {
			fused2 += (y - truth) * (y - truth);
			most_fused = fmax(most_fused, fabs(y - truth));
		}
	}
	ref2 = block_sum(ref2, part);
	app2 = block_sum(app2, part);
	fused2 = block_sum(fused2, part);
	count = block_sum(count, part);
	app_bad = block_sum(app_bad, part);
	fused_bad = block_sum(fused_bad, part);
	most_ref = block_max(most_ref, part);
	most_app = block_max(most_app, part);
	most_fused = block_max(most_fused, part);
	if (threadIdx.x)
		return;

	struct drift_sampled_result *r = (struct drift_sampled_result *)args.result;
	volatile struct drift_sampled_result *v = r;
	if (!lock_take(&r->lock))
		return;
	v->blocks += 1;
	v->sum_ref2 += ref2;
	v->sum_app2 += app2;
	v->sum_fused2 += fused2;
	v->count += (uint64_t)count;
	v->app_nonfinite += (uint64_t)app_bad;
	v->fused_nonfinite += (uint64_t)fused_bad;
	v->max_ref = fmax(v->max_ref, most_ref);
	v->max_app = fmax(v->max_app, most_app);
	v->max_fused = fmax(v->max_fused, most_fused);
	lock_give(&r->lock);
}
SIM_KERNEL(fashim_drift_sampled)
