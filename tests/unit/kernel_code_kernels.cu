/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel for each thing that test_kernel_code.c wants to see in the code that nvcc makes of it,
 * and several that must be found harmless.
 */
#include <cooperative_groups.h>
#include <stdio.h>

__device__ float variable[16];
__device__ const float constants_of_device[4] = {1, 2, 3, 4};
__managed__ int managed;
__constant__ float constant[16];
__constant__ float *constant_address;

__device__ __noinline__ float repeated(float x, int n)
{
	for (int i = 0; i < n; i++)
		x = x * x + 1;
	return x;
}

__device__ __noinline__ float recursive(float x, int n)
{
	return n > 0 ? recursive(x * 2, n - 1) + 1 : x;
}

__device__ __noinline__ float counted(float x)
{
	variable[0] += x;
	return x;
}

typedef float (*function)(float, int);
__device__ function functions[2] = {repeated, recursive};

extern "C" {

/* ---- harmless ----------------------------------------------------------------------------------- */

__global__ void plain(float *o, const float *i, int n)
{
	int t = blockIdx.x * blockDim.x + threadIdx.x;

	if (t < n)
		o[t] = expf(i[t]) / (1.f + i[t]);
}

__global__ void shared_atomics(float *o)
{
	__shared__ int s;

	if (!threadIdx.x)
		s = 0;
	__syncthreads();
	atomicAdd(&s, 1);
	__syncthreads();
	o[threadIdx.x] = s;
}

/* A jump table, and the sine's table of 2/pi. */
__global__ void switched(float *o, int k)
{
	float v = o[threadIdx.x];

	switch (k) {
	case 0: v = sinf(v); break;
	case 1: v += 3; break;
	case 2: v *= v; break;
	case 3: v = 1 / v; break;
	case 4: v = v - 7; break;
	case 5: v = sqrtf(v); break;
	case 6: v = expf(v); break;
	case 7: v = logf(v); break;
	case 8: v = cosf(v); break;
	case 9: v = tanf(v); break;
	}
	o[threadIdx.x] = v;
}

__global__ void calling(float *o, int n)
{
	o[threadIdx.x] = repeated(o[threadIdx.x], n);
}

__global__ void recursing(float *o, int n)
{
	o[threadIdx.x] = recursive(o[threadIdx.x], n);
}

__global__ void dividing(double *o, long long *i, int n)
{
	o[threadIdx.x] = o[threadIdx.x] / o[1];
	i[threadIdx.x] %= n;
}

__global__ void barriers(float *o)
{
	__shared__ float s[64];

	s[threadIdx.x] = o[threadIdx.x];
	asm volatile("bar.sync 1, 64;" ::: "memory");
	__threadfence_block();
	o[threadIdx.x] = s[63 - threadIdx.x] + __shfl_xor_sync(~0u, o[threadIdx.x], 1);
}

struct mixed {
	char a;
	double b;
	int c[5];
};

__global__ void parameters(char a, struct mixed b, const float *c, short d, struct mixed e, char f,
			   float *o)
{
	o[0] = a + b.a + (float)b.b + b.c[4] + c[0] + d + e.c[0] + f;
}
__global__ void no_parameters() {}

/* Eight numbers a thread, some of which may not be there. */
__global__ void tails(float *o, const float *i, int n)
{
	const int t = blockIdx.x * blockDim.x * 8 + threadIdx.x;
	float v[8];

#pragma unroll
	for (int k = 0; k < 8; k++)
		v[k] = t + k * blockDim.x < n ? i[t + k * blockDim.x] : 0;
#pragma unroll
	for (int k = 0; k < 8; k++)
		if (t + k * blockDim.x < n)
			o[t + k * blockDim.x] = fmaxf(v[k], 0);
}

/* Strides that are divided by, and parts of vectors. */
__global__ void strided(float4 *o, const float4 *i, long long rows, long long columns, long long s)
{
	for (long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x; t < rows * columns;
	     t += (long long)gridDim.x * blockDim.x) {
		float4 v = i[t / columns * s + t % columns];

		v.x += v.y, v.z *= v.w;
		o[t] = v;
	}
}

__global__ void tiles(float *c, const float *a, const float *b, int n)
{
	__shared__ float s[2][16][16];
	float sum = 0;

	for (int k = 0; k < n; k += 16) {
		s[0][threadIdx.y][threadIdx.x] = a[(blockIdx.y * 16 + threadIdx.y) * n + k + threadIdx.x];
		s[1][threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x];
		__syncthreads();
		for (int j = 0; j < 16; j++)
			sum += s[0][threadIdx.y][j] * s[1][j][threadIdx.x];
		__syncthreads();
	}
	c[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x] = sum;
}

/* ---- what lies in memory says where -------------------------------------------------------------- */

__global__ void listed(float *const *t, int n) { t[0][threadIdx.x] = t[n][threadIdx.x]; }
struct view {
	long long count;
	float *at;
};
__global__ void described(const struct view *v, float *o, int stride)
{
	if (threadIdx.x < v->count)
		o[threadIdx.x] = v->at[threadIdx.x * stride];
}
struct node {
	struct node *next;
	float value;
};
__global__ void linked(const struct node *node, float *o)
{
	float sum = 0;

	for (; node; node = node->next)
		sum += node->value;
	o[0] = sum;
}
__global__ void tagged(const unsigned long long *t, float *o)
{
	o[threadIdx.x] = ((const float *)(t[blockIdx.x] & ~7ull))[threadIdx.x];
}
__global__ void halved(const unsigned *lower, const unsigned *upper, float *o)
{
	o[threadIdx.x] =
		((const float *)((unsigned long long)upper[0] << 32 | lower[0]))[threadIdx.x];
}
__global__ void shuffled(float *const *t, float *o)
{
	const unsigned long long at = __shfl_sync(~0u, (unsigned long long)t[threadIdx.x], 3);

	o[threadIdx.x] = *(const float *)at;
}

/* ---- perhaps ------------------------------------------------------------------------------------- */

__global__ void staged(float *const *t, float *o)
{
	__shared__ float *s[32];

	s[threadIdx.x] = t[threadIdx.x];
	__syncthreads();
	o[threadIdx.x] = s[31 - threadIdx.x][0];
}
__global__ void chosen(float *const *t, float *o, const float *i)
{
	o[threadIdx.x] = (o[0] > 0 ? i : t[0])[threadIdx.x];
}
__global__ void kept(float *const *t, float *o, int n)
{
	const float *all[24];

	for (int k = 0; k < 24; k++)
		all[k] = k & 1 ? t[k] : o + k;
	o[threadIdx.x] = all[n % 24][0];
}
__global__ void gathered(const int *t, const float *i, float *o) { o[threadIdx.x] = i[t[threadIdx.x]]; }
__global__ void gathered_far(const long long *t, const float *i, float *o)
{
	o[threadIdx.x] = i[t[threadIdx.x]];
}
__global__ void scaled(const unsigned long long *t, float *o)
{
	o[threadIdx.x] = *(const float *)(t[threadIdx.x] << 4);
}
__global__ void spelt(const unsigned char *t, float *o)
{
	unsigned long long at = 0;

	for (int k = 0; k < 8; k++)
		at |= (unsigned long long)t[k] << (8 * k);
	o[threadIdx.x] = ((const float *)at)[threadIdx.x];
}
__global__ void exchanged(unsigned long long *t, float *o)
{
	o[threadIdx.x] = *(const float *)atomicExch(t, 0ull);
}
__global__ void by_constant(float *o) { o[threadIdx.x] = constant_address[threadIdx.x]; }

/* ---- not ---------------------------------------------------------------------------------------- */

__global__ void writes_variable(float *o) { variable[threadIdx.x] = o[0]; }
__global__ void writes_managed(float *o) { managed = (int)o[0]; }
__global__ void reads_variable(float *o, int n) { o[threadIdx.x] = constants_of_device[n & 3]; }
__global__ void calls_writer(float *o) { o[threadIdx.x] = counted(o[threadIdx.x]); }
__global__ void reads_constant(float *o) { o[threadIdx.x] = constant[threadIdx.x]; }
__global__ void adds(float *o) { atomicAdd(o, 1.f); }
__global__ void exchanges(int *o)
{
	o[1] = atomicAdd(o, 1);
	atomicCAS(o + 2, 1, 2);
	atomicExch(o + 3, 4);
}
__global__ void prints(float *o) { printf("%f\n", o[0]); }
__global__ void allocates(float **o) { o[0] = (float *)malloc(4); }
__global__ void waits(volatile int *o, int *p)
{
	p[0] = 1;
	__threadfence();
	while (!o[0])
		;
}
__global__ void loads_volatile(const volatile float *i, float *o) { o[0] = i[0]; }
__global__ void acquires(const int *i, int *o)
{
	int v;

	asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(v) : "l"(i));
	o[0] = v;
}
__global__ void syncs_grid(float *o)
{
	cooperative_groups::this_grid().sync();
	o[0] = 1;
}
__global__ void textured(float *o, cudaTextureObject_t t) { o[0] = tex1Dfetch<float>(t, threadIdx.x); }
__global__ void surfaced(cudaSurfaceObject_t t) { surf1Dwrite(1.f, t, threadIdx.x * 4); }
__global__ void traps(int *o)
{
	if (o[0])
		__trap();
}
__global__ void by_pointer(float *o, function f) { o[threadIdx.x] = f(o[threadIdx.x], 3); }
__global__ void by_table(float *o, int n) { o[threadIdx.x] = functions[n](o[threadIdx.x], 3); }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__global__ void through_map(void *map, float *o)
{
	__shared__ __align__(128) float s[32];

	s[threadIdx.x] = o[threadIdx.x];
	__syncthreads();
	asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];" ::"l"(map),
		     "r"(0), "r"((unsigned)__cvta_generic_to_shared(s))
		     : "memory");
}
__global__ void bulk_reduces(float *o)
{
	__shared__ __align__(128) float s[32];

	s[threadIdx.x] = 1;
	__syncthreads();
	asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 128;" ::"l"(o),
		     "r"((unsigned)__cvta_generic_to_shared(s))
		     : "memory");
}
__global__ void bulk_copies(float *o)
{
	__shared__ __align__(128) float s[32];

	s[threadIdx.x] = 1;
	__syncthreads();
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" ::"l"(o),
		     "r"((unsigned)__cvta_generic_to_shared(s))
		     : "memory");
}
__global__ void multicasts(float *o)
{
	asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(o), "f"(1.f) : "memory");
}
#endif
}
