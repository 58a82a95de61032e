/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is computed for one element, for CPU and CUDA alike. Each operation is rounded by itself, in
 * one order, so that an element is the same bits wherever it is computed: the CPU's compiler is
 * told not to contract, and CUDA's has intrinsics that it does not.
 */
#ifndef WEIR_SOLVER_POINT_H
#define WEIR_SOLVER_POINT_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define POINT_INLINE __device__ static __forceinline__
#else
#define POINT_INLINE static inline
#endif

POINT_INLINE float point_add(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fadd_rn(a, b);
#else
	return a + b;
#endif
}

POINT_INLINE float point_mul(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fmul_rn(a, b);
#else
	return a * b;
#endif
}

POINT_INLINE float point_div(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fdiv_rn(a, b);
#else
	return a / b;
#endif
}

POINT_INLINE float point_least(float a, float b)
{
	return a < b ? a : b;
}

/* The mean of the four neighbours. */
POINT_INLINE float point_jacobi(float above, float below, float left, float right)
{
	return point_mul(0.25f, point_add(point_add(above, below), point_add(left, right)));
}

/*
 * One explicit step of u_t + u (u_x + u_y + u_z) = nu (u_xx + u_yy + u_zz): Burgers' advection by
 * the field itself, and the heat equation. Central differences; with the time step and the width of
 * a cell in them, the two coefficients are dt / (2 h) and nu dt / h^2. With values from 0 to 1 all
 * weights are positive, so that values stay there.
 */
#define POINT_ADVECTION 0.05f
#define POINT_DIFFUSION 0.1f

struct point_neighbours {
	float left, right, above, below, before, behind;
};

POINT_INLINE float point_diffusion(float u, struct point_neighbours n)
{
	const float sum =
		point_add(point_add(point_add(n.left, n.right), point_add(n.above, n.below)),
			  point_add(n.before, n.behind));
	const float slope =
		point_add(point_add(point_add(n.right, -n.left), point_add(n.below, -n.above)),
			  point_add(n.behind, -n.before));
	const float heat = point_mul(POINT_DIFFUSION, point_add(sum, -point_mul(6.0f, u)));
	const float carried = point_mul(point_mul(POINT_ADVECTION, u), slope);

	return point_add(point_add(u, heat), -carried);
}

/* What als adds to the diagonal of its equations. */
#define POINT_RIDGE 0.1f

/* Bits that look random, of a number. */
POINT_INLINE uint64_t point_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	return x ^ x >> 33;
}

/* What the element with this number begins with: 0 or more, and less than 1. */
POINT_INLINE float point_begin(uint64_t index)
{
	return point_mul((float)(point_mix(index + 1) >> 40), 1.0f / 16777216.0f);
}

/* What an element adds to the number that stands for a field. */
POINT_INLINE uint64_t point_hash(uint64_t index, float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return point_mix(point_mix(index) + bits);
}

#endif
