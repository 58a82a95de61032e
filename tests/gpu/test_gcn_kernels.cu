/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA kernels of the GCN workload on a real GPU: each against its CPU kernel, on random inputs
 * of many shapes; then addresses and counts beyond 32 bits, where the GPU has 37 GB to spare.
 *
 * The kernels are loaded as the program loads them. One line a case; the exit status is 1 when one
 * differs, 2 when it cannot run. Target `cuda` builds it; where it runs, it needs the driver and
 * cuBLAS, and no OpenBLAS: products on the CPU are made here, in double precision.
 *
 * Bit for bit equal must be whatever rounds the same way on both: all but log-softmax and its
 * gradient (expf and logf differ), random sums (order), and products of random numbers. Sums and
 * products of small whole numbers are exact in any order, and must be equal. Of what differs:
 *
 *   sums of rows, log-softmax    4e-6 of the larger of the value and 1
 *   gradient of the loss         1e-6 of the larger of the value and 1 / rows
 *   loss and its partial sums    1e-6 of the larger of the value and 1
 *   products                     1e-5 in ||difference|| / ||product||; TF32 would show 3e-4
 *
 * Every case lies in one piece of memory, with garbage between and behind its arrays, of which the
 * CPU and the GPU have a copy each. It is compared whole: what is written beside the outputs shows.
 */
#include <math.h>
#include <stdarg.h>

#include "tests/gpu/gpu.cuh"
#include "workloads/gcn/rng.h"

extern "C" {
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
		 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
}

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static uint32_t nr_cases, nr_failed;

/* ------------------------------------------------------------------ base */

static void report(bool good, const char *name, const char *shape, const char *outcome)
{
	nr_cases++;
	nr_failed += !good;
	printf("%-4s %-18s %-48s %s\n", good ? "ok" : "FAIL", name, shape, outcome);
}

/* Row-major; sums in double precision. Called by the CPU's kernels in place of OpenBLAS. */
void cblas_sgemm(int, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
		 int lda, const float *b, int ldb, float beta, float *c, int ldc)
{
	const int transposed = 112;
	double *sum = (double *)malloc((size_t)n * sizeof(*sum));

	if (!sum)
		die("cblas_sgemm", "no memory");
	for (int i = 0; i < m; i++) {
		for (int j = 0; j < n; j++)
			sum[j] = beta == 0 ? 0 : (double)beta * c[(size_t)i * ldc + j];
		for (int l = 0; l < k; l++) {
			double x = alpha * (double)(trans_a == transposed ? a[(size_t)l * lda + i]
									  : a[(size_t)i * lda + l]);

			for (int j = 0; j < n; j++)
				sum[j] += x * (trans_b == transposed ? b[(size_t)j * ldb + l]
								     : b[(size_t)l * ldb + j]);
		}
		for (int j = 0; j < n; j++)
			c[(size_t)i * ldc + j] = (float)sum[j];
	}
	free(sum);
}

/* ------------------------------------------------------------------ arena */

#define ARENA_BYTES ((size_t)256 << 20)
#define GUARD 512u

static struct {
	char *host, *device, *got;
	size_t used;
	uint64_t key, nr_random;
} arena;

/* Until the next case. Regions where equal bits are not asked for; see check_loose(). */
enum loose_kind { LOOSE_FLOATS, LOOSE_DOUBLES, LOOSE_NORM, LOOSE_ANY };

static struct loose {
	void *at;
	uint64_t nr;
	enum loose_kind kind;
	double tolerance, floor;
} loose[4];
static uint32_t nr_loose;

static uint64_t random_bits(void)
{
	return gcn_rng_bits(arena.key, arena.nr_random++);
}

static void arena_reset(void)
{
	arena.used = 0;
	nr_loose = 0;
	arena.key++;
	arena.nr_random = 0;
}

/* bytes of garbage, beginning offset bytes behind a multiple of 256. */
static void *take(size_t bytes, size_t offset)
{
	size_t begin = arena.used, at = (begin + GUARD + 255) / 256 * 256 + offset;
	uint64_t garbage = random_bits();

	arena.used = (at + bytes + GUARD + 7) / 8 * 8;
	if (arena.used > ARENA_BYTES)
		die("arena", "a case is too large");
	for (size_t i = begin; i < arena.used; i += 8, garbage = garbage * 5 + 1)
		memcpy(arena.host + i, &garbage, 8);
	return arena.host + at;
}

static float *take_floats(uint64_t nr, size_t offset)
{
	return (float *)take(nr * 4, offset);
}

/* In [-2, 2], some of them special: zeros of both signs, tiny ones, equals. */
static float *take_random(uint64_t nr, size_t offset)
{
	static const float special[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 1.0f, -1.0f, 2.0f, 0.5f};
	float *x = take_floats(nr, offset);

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t bits = random_bits();

		x[i] = bits % 16 == 0 ? special[bits >> 8 & 7]
				      : (float)((double)(bits >> 32) * 0x1p-30 - 2);
	}
	return x;
}

/* Whole numbers in [-4, 4]. */
static float *take_whole(uint64_t nr, size_t offset)
{
	float *x = take_floats(nr, offset);

	for (uint64_t i = 0; i < nr; i++)
		x[i] = (float)(random_bits() % 9) - 4;
	return x;
}

static float *take_numbers(bool whole, uint64_t nr, size_t offset)
{
	return whole ? take_whole(nr, offset) : take_random(nr, offset);
}

static int64_t *take_index(uint64_t nr, uint64_t below)
{
	int64_t *x = (int64_t *)take(nr * 8, 0);

	for (uint64_t i = 0; i < nr; i++)
		x[i] = (int64_t)(random_bits() % below);
	return x;
}

/* The GPU's address of what the CPU has at p. */
template <class T> static T *dev(T *p)
{
	return (T *)(arena.device + ((const char *)p - arena.host));
}

static void loosen(void *at, uint64_t nr, enum loose_kind kind, double tolerance, double floor)
{
	struct loose l = {at, nr, kind, tolerance, floor};

	loose[nr_loose++] = l;
}

/* Whether a region is near enough; *worst: what it was allowed to be at most 1. */
static bool check_loose(const struct loose *l, double *worst)
{
	const char *cpu = (const char *)l->at, *gpu = arena.got + (cpu - arena.host);
	double norm = 0, norm_off = 0, off = 0;

	if (l->kind == LOOSE_ANY)
		return true;
	for (uint64_t i = 0; i < l->nr; i++) {
		bool wide = l->kind == LOOSE_DOUBLES;
		double c = wide ? ((const double *)cpu)[i] : ((const float *)cpu)[i];
		double g = wide ? ((const double *)gpu)[i] : ((const float *)gpu)[i];
		double part = fabs(g - c) / (l->tolerance * fmax(fabs(c), l->floor));

		norm += c * c;
		norm_off += (g - c) * (g - c);
		if (!(part <= off)) /* no number is not near */
			off = part;
	}
	if (l->kind == LOOSE_NORM) {
		norm = fmax(norm, l->floor * l->floor * (double)l->nr);
		off = sqrt(norm_off / norm) / l->tolerance;
	}
	if (!(off <= *worst))
		*worst = off;
	return off <= 1;
}

static void compare(const char *name, const char *shape)
{
	char outcome[96] = "equal";
	double worst = 0;
	bool good = true;

	for (uint32_t i = 0; i < nr_loose; i++) {
		const struct loose *l = &loose[i];
		size_t bytes = l->nr * (l->kind == LOOSE_DOUBLES ? 8 : 4);

		good &= check_loose(l, &worst);
		memcpy(arena.got + ((char *)l->at - arena.host), l->at, bytes);
		snprintf(outcome, sizeof(outcome), "off by %.3f of what it may", worst);
	}
	if (memcmp(arena.got, arena.host, arena.used) != 0) {
		size_t i = 0;

		while (arena.got[i] == arena.host[i])
			i++;
		good = false;
		snprintf(outcome, sizeof(outcome), "differs, first at byte %zu of %zu", i,
			 arena.used);
	}
	report(good, name, shape, outcome);
}

/* Run both kernels on their copies of the arena and compare. */
static void run_case(const struct weir_kernel *kernel, run_fn run, const void *cpu_args,
		     const void *gpu_args, const char *format, ...)
{
	char shape[96];
	va_list args;
	int ret;

	va_start(args, format);
	vsnprintf(shape, sizeof(shape), format, args);
	va_end(args);
	copy_now(arena.device, arena.host, arena.used, "upload");
	ret = run(stream, gpu_args);
	if (ret) {
		report(false, kernel->name, shape, weir_strerror(ret));
		return;
	}
	check(cudaStreamSynchronize(stream), kernel->name);
	kernel->cpu(cpu_args);
	copy_now(arena.got, arena.device, arena.used, "download");
	compare(kernel->name, shape);
}

#define RUN(name, cpu, gpu, ...) \
	run_case(&gcn_kernel_##name, gcn_cuda_run_##name, &(cpu), &(gpu), __VA_ARGS__)

/* ------------------------------------------------------------------ elements */

static void case_zero(uint64_t bytes, size_t offset)
{
	struct gcn_zero_args cpu = {NULL, NULL, bytes}, gpu;

	arena_reset();
	cpu.out = take(bytes, offset);
	gpu = cpu;
	gpu.out = dev((char *)cpu.out);
	RUN(zero, cpu, gpu, "%llu bytes at %zu", (unsigned long long)bytes, offset);
}

static void case_relu(uint64_t nr, size_t offset)
{
	struct gcn_relu_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.in = take_random(nr, offset);
	cpu.out = take_floats(nr, 0);
	gpu = cpu;
	gpu.in = dev(cpu.in);
	gpu.out = dev(cpu.out);
	RUN(relu, cpu, gpu, "%llu at %zu", (unsigned long long)nr, offset);
}

static void case_relu_grad(uint64_t nr, size_t offset)
{
	struct gcn_relu_grad_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.out = take_random(nr, 0);
	cpu.grad_out = take_random(nr, offset);
	cpu.grad_in = take_floats(nr, 0);
	gpu = cpu;
	gpu.out = dev(cpu.out);
	gpu.grad_out = dev(cpu.grad_out);
	gpu.grad_in = dev(cpu.grad_in);
	RUN(relu_grad, cpu, gpu, "%llu at %zu", (unsigned long long)nr, offset);
}

static void case_dropout(uint64_t nr, size_t offset)
{
	struct gcn_dropout_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.key = gcn_rng_key(nr, GCN_RNG_DROPOUT, 1, (uint32_t)offset);
	cpu.in = take_random(nr, 0);
	cpu.out = take_floats(nr, 0);
	cpu.mask = (uint8_t *)take(nr, offset);
	gpu = cpu;
	gpu.in = dev(cpu.in);
	gpu.out = dev(cpu.out);
	gpu.mask = dev(cpu.mask);
	RUN(dropout, cpu, gpu, "%llu, mask at %zu", (unsigned long long)nr, offset);
}

static void case_dropout_grad(uint64_t nr, size_t offset)
{
	struct gcn_dropout_grad_args cpu = {}, gpu;
	uint8_t *mask;

	arena_reset();
	mask = (uint8_t *)take(nr, offset);
	for (uint64_t i = 0; i < nr; i++)
		mask[i] &= random_bits() & 1 ? 0xff : 0; /* any byte but 0 keeps */
	cpu.nr = nr;
	cpu.mask = mask;
	cpu.grad_out = take_random(nr, 0);
	cpu.grad_in = take_floats(nr, 0);
	gpu = cpu;
	gpu.mask = dev(cpu.mask);
	gpu.grad_out = dev(cpu.grad_out);
	gpu.grad_in = dev(cpu.grad_in);
	RUN(dropout_grad, cpu, gpu, "%llu, mask at %zu", (unsigned long long)nr, offset);
}

static void case_adam(uint64_t nr, size_t offset)
{
	struct gcn_adam_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.param = take_random(nr, offset);
	cpu.moment1 = take_random(nr, 0);
	cpu.moment2 = take_random(nr, 0);
	cpu.grad = take_random(nr, 0);
	for (uint64_t i = 0; i < nr; i++)
		cpu.moment2[i] = fabsf(cpu.moment2[i]);
	cpu.step_size = 0.0123f;
	cpu.moment2_scale = 3.21f;
	cpu.weight_decay = 5e-4f;
	gpu = cpu;
	gpu.param = dev(cpu.param);
	gpu.moment1 = dev(cpu.moment1);
	gpu.moment2 = dev(cpu.moment2);
	gpu.grad = dev(cpu.grad);
	RUN(adam, cpu, gpu, "%llu at %zu", (unsigned long long)nr, offset);
}

static void cases_of_elements(void)
{
	static const uint64_t nr[] = {1, 3, 4, 63, 1023, 4096, 16389, 1000003};
	static const size_t offset[] = {0, 1, 4, 8, 15};

	for (uint32_t i = 0; i < COUNT(nr); i++) {
		for (uint32_t j = 0; j < COUNT(offset); j++)
			case_zero(nr[i], offset[j]);
		for (size_t at = 0; at <= 4; at += 4) {
			case_relu(nr[i], at);
			case_relu_grad(nr[i], at);
			case_dropout(nr[i], at / 4);
			case_dropout_grad(nr[i], at / 4);
			case_adam(nr[i], at);
		}
	}
}

/* ------------------------------------------------------------------ rows */

static void case_gather(uint64_t nr, uint32_t width, size_t offset)
{
	struct gcn_gather_args cpu = {}, gpu;
	uint64_t from = nr / 2 + 1;

	arena_reset();
	cpu.nr = nr;
	cpu.width = width;
	cpu.index = take_index(nr, from);
	cpu.src = take_random(from * width, offset);
	cpu.out = take_floats(nr * width, 0);
	gpu = cpu;
	gpu.index = dev(cpu.index);
	gpu.src = dev(cpu.src);
	gpu.out = dev(cpu.out);
	RUN(gather, cpu, gpu, "%llu x %u at %zu", (unsigned long long)nr, width, offset);
}

static void case_scale(uint64_t nr, uint32_t width, size_t offset)
{
	struct gcn_scale_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.width = width;
	cpu.weight = take_random(nr, 4);
	cpu.in = take_random(nr * width, 0);
	cpu.out = take_floats(nr * width, offset);
	gpu = cpu;
	gpu.weight = dev(cpu.weight);
	gpu.in = dev(cpu.in);
	gpu.out = dev(cpu.out);
	RUN(scale, cpu, gpu, "%llu x %u at %zu", (unsigned long long)nr, width, offset);
}

static void case_scatter_add(uint64_t nr, uint32_t width, size_t offset, bool whole)
{
	struct gcn_scatter_add_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.width = width;
	cpu.out_rows = nr / 3 + 1;
	cpu.index = take_index(nr, cpu.out_rows);
	cpu.in = take_numbers(whole, nr * width, offset);
	cpu.out = take_numbers(whole, cpu.out_rows * width, offset);
	if (!whole)
		loosen(cpu.out, cpu.out_rows * width, LOOSE_FLOATS, 4e-6, 1);
	gpu = cpu;
	gpu.index = dev(cpu.index);
	gpu.in = dev(cpu.in);
	gpu.out = dev(cpu.out);
	RUN(scatter_add, cpu, gpu, "%llu x %u at %zu, %s", (unsigned long long)nr, width, offset,
	    whole ? "whole" : "random");
}

static void cases_of_rows(void)
{
	static const uint32_t width[] = {1, 3, 7, 10, 16, 64, 128, 256, 300, 512, 1433, 1700};
	static const uint64_t nr[] = {1, 31, 1003, 20011};

	for (uint32_t i = 0; i < COUNT(width); i++) {
		for (uint32_t j = 0; j < COUNT(nr); j++) {
			if (nr[j] * width[i] > 6000000)
				continue;
			/* At 4 and 8 bytes, packs are of one and of two floats. */
			for (size_t at = 0; at <= 8; at += 4) {
				if (at > 0 && nr[j] != 1003)
					continue;
				case_gather(nr[j], width[i], at);
				case_scale(nr[j], width[i], at);
				case_scatter_add(nr[j], width[i], at, true);
				case_scatter_add(nr[j], width[i], at, false);
			}
		}
	}
}

/* ------------------------------------------------------------------ select */

enum pattern { PATTERN_NONE, PATTERN_ALL, PATTERN_TENTH, PATTERN_HALF, PATTERN_RARE, PATTERN_LAST };

static bool pattern_at(enum pattern pattern, uint64_t i, uint64_t nr)
{
	switch (pattern) {
	case PATTERN_NONE:
		return false;
	case PATTERN_ALL:
		return true;
	case PATTERN_TENTH:
		return i < nr / 10;
	case PATTERN_HALF:
		return random_bits() & 1;
	case PATTERN_RARE:
		return random_bits() % 1000 == 0;
	default:
		return i + 1 == nr;
	}
}

/* more: room in the index beyond what is selected, or less than that. */
static void case_select(uint64_t nr, enum pattern pattern, size_t offset, int64_t more)
{
	static const char *const names[] = {"none", "all", "a tenth", "half", "few", "the last"};
	struct gcn_select_args cpu = {}, gpu;
	uint64_t found = 0;
	uint8_t *mask;

	arena_reset();
	mask = (uint8_t *)take(nr, offset);
	for (uint64_t i = 0; i < nr; i++) {
		bool on = pattern_at(pattern, i, nr);

		mask[i] = on ? (uint8_t)(1 + random_bits() % 255) : 0;
		found += on;
	}
	if (more < 0 && found < (uint64_t)-more)
		return;
	cpu.nr = nr;
	cpu.nr_index = found + (uint64_t)more;
	cpu.mask = mask;
	cpu.index = (int64_t *)take(cpu.nr_index * 8, 0);
	gpu = cpu;
	gpu.mask = dev(cpu.mask);
	gpu.index = dev(cpu.index);
	RUN(select, cpu, gpu, "%s of %llu at %zu, room for %+lld", names[pattern],
	    (unsigned long long)nr, offset, (long long)more);
}

static void cases_of_select(void)
{
	static const uint64_t nr[] = {1, 15, 16, 17, 4096, 4097, 100003, 9000011};

	for (uint32_t i = 0; i < COUNT(nr); i++) {
		for (int pattern = PATTERN_NONE; pattern <= PATTERN_LAST; pattern++)
			case_select(nr[i], (enum pattern)pattern, 0, 0);
		case_select(nr[i], PATTERN_HALF, 1, 0);
		case_select(nr[i], PATTERN_HALF, 0, 5);
		case_select(nr[i], PATTERN_HALF, 0, -3);
		case_select(nr[i], PATTERN_ALL, 3, -1);
	}
}

/* ------------------------------------------------------------------ loss */

static int64_t *take_labels(uint64_t nr, uint32_t width)
{
	return take_index(nr, width);
}

static void case_loss(uint64_t nr, uint32_t width, size_t offset)
{
	struct gcn_loss_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.width = width;
	cpu.index = take_index(nr, 2 * nr);
	cpu.label = take_labels(2 * nr, width);
	cpu.rows = take_random(nr * width, offset);
	cpu.log_p = take_floats(nr * width, 0);
	cpu.loss = (double *)take(8 * (1 + GCN_LOSS_PARTS), 0);
	loosen(cpu.log_p, nr * width, LOOSE_FLOATS, 4e-6, 1);
	loosen(cpu.loss, 1 + GCN_LOSS_PARTS, LOOSE_DOUBLES, 1e-6, 1);
	gpu = cpu;
	gpu.index = dev(cpu.index);
	gpu.label = dev(cpu.label);
	gpu.rows = dev(cpu.rows);
	gpu.log_p = dev(cpu.log_p);
	gpu.loss = dev(cpu.loss);
	RUN(loss, cpu, gpu, "%llu x %u at %zu", (unsigned long long)nr, width, offset);
}

static void case_loss_grad(uint64_t nr, uint32_t width, size_t offset)
{
	struct gcn_loss_grad_args cpu = {}, gpu;
	float *log_p;

	arena_reset();
	cpu.nr = nr;
	cpu.width = width;
	cpu.index = take_index(nr, 2 * nr);
	cpu.label = take_labels(2 * nr, width);
	log_p = take_random(nr * width, 0);
	for (uint64_t i = 0; i < nr * width; i++)
		log_p[i] = -2 * fabsf(log_p[i]);
	cpu.log_p = log_p;
	cpu.grad = take_floats(nr * width, offset);
	loosen(cpu.grad, nr * width, LOOSE_FLOATS, 1e-6, 1 / (double)nr);
	gpu = cpu;
	gpu.index = dev(cpu.index);
	gpu.label = dev(cpu.label);
	gpu.log_p = dev(cpu.log_p);
	gpu.grad = dev(cpu.grad);
	RUN(loss_grad, cpu, gpu, "%llu x %u at %zu", (unsigned long long)nr, width, offset);
}

/* Whole numbers: many rows have several largest elements. */
static void case_accuracy(uint64_t nr, uint32_t width)
{
	struct gcn_accuracy_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = nr;
	cpu.width = width;
	cpu.index = take_index(nr, 2 * nr);
	cpu.label = take_labels(2 * nr, width);
	cpu.rows = take_whole(nr * width, 0);
	cpu.right = (uint64_t *)take(8, 0);
	gpu = cpu;
	gpu.index = dev(cpu.index);
	gpu.label = dev(cpu.label);
	gpu.rows = dev(cpu.rows);
	gpu.right = dev(cpu.right);
	RUN(accuracy, cpu, gpu, "%llu x %u", (unsigned long long)nr, width);
}

static void cases_of_loss(void)
{
	static const uint32_t width[] = {1, 3, 7, 10, 16, 32, 33, 64, 256};
	static const uint64_t nr[] = {1, 63, 1003, 20011};

	for (uint32_t i = 0; i < COUNT(width); i++) {
		for (uint32_t j = 0; j < COUNT(nr); j++) {
			for (size_t at = 0; at <= 4; at += 4) {
				case_loss(nr[j], width[i], at);
				case_loss_grad(nr[j], width[i], at);
			}
			case_accuracy(nr[j], width[i]);
		}
	}
}

/* ------------------------------------------------------------------ layers */

struct layer_case {
	uint32_t width_in, width_out;
	uint64_t nr;
	size_t offset;
	bool whole;
};

#define LAYER_SHAPE "%llu x %u x %u at %zu, %s"
#define LAYER_VALUES(c)                                                          \
	(unsigned long long)(c)->nr, (c)->width_in, (c)->width_out, (c)->offset, \
		(c)->whole ? "whole" : "random"

/* A sum of terms of either sign may be small by chance: about half its usual size is the least that
 * its error is held against. */
static void loosen_product(const struct layer_case *c, float *at, uint64_t nr, uint64_t nr_terms)
{
	if (!c->whole)
		loosen(at, nr, LOOSE_NORM, 1e-5, 0.5 * sqrt((double)nr_terms));
}

static void case_linear(const struct layer_case *c)
{
	struct gcn_linear_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = c->nr;
	cpu.width_in = c->width_in;
	cpu.width_out = c->width_out;
	cpu.in = take_numbers(c->whole, c->nr * c->width_in, c->offset);
	cpu.weight = take_numbers(c->whole, (uint64_t)c->width_in * c->width_out, 0);
	cpu.bias = take_numbers(c->whole, c->width_out, c->offset);
	cpu.out = take_floats(c->nr * c->width_out, c->offset);
	loosen_product(c, cpu.out, c->nr * c->width_out, c->width_in);
	gpu = cpu;
	gpu.in = dev(cpu.in);
	gpu.weight = dev(cpu.weight);
	gpu.bias = dev(cpu.bias);
	gpu.out = dev(cpu.out);
	RUN(linear, cpu, gpu, LAYER_SHAPE, LAYER_VALUES(c));
}

static void case_linear_grad_in(const struct layer_case *c)
{
	struct gcn_linear_grad_in_args cpu = {}, gpu;

	arena_reset();
	cpu.nr = c->nr;
	cpu.width_in = c->width_in;
	cpu.width_out = c->width_out;
	cpu.grad_out = take_numbers(c->whole, c->nr * c->width_out, c->offset);
	cpu.weight = take_numbers(c->whole, (uint64_t)c->width_in * c->width_out, 0);
	cpu.grad_in = take_floats(c->nr * c->width_in, c->offset);
	loosen_product(c, cpu.grad_in, c->nr * c->width_in, c->width_out);
	gpu = cpu;
	gpu.grad_out = dev(cpu.grad_out);
	gpu.weight = dev(cpu.weight);
	gpu.grad_in = dev(cpu.grad_in);
	RUN(linear_grad_in, cpu, gpu, LAYER_SHAPE, LAYER_VALUES(c));
}

static void case_linear_grad_weight(const struct layer_case *c)
{
	uint64_t products = (uint64_t)c->width_in * c->width_out;
	struct gcn_linear_grad_weight_args cpu = {}, gpu;
	uint64_t partials;

	arena_reset();
	cpu.nr = c->nr;
	cpu.width_in = c->width_in;
	cpu.width_out = c->width_out;
	cut_parts(&cpu);
	partials = cpu.nr_parts * (products + c->width_out);
	cpu.in = take_numbers(c->whole, c->nr * c->width_in, c->offset);
	cpu.grad_out = take_numbers(c->whole, c->nr * c->width_out, c->offset);
	cpu.partial = take_floats(partials, c->offset);
	cpu.grad_weight = take_numbers(c->whole, products, c->offset);
	cpu.grad_bias = take_numbers(c->whole, c->width_out, c->offset);
	loosen(cpu.partial, partials, LOOSE_ANY, 0, 0); /* cut otherwise on the GPU */
	loosen_product(c, cpu.grad_weight, products, c->nr);
	loosen_product(c, cpu.grad_bias, c->width_out, c->nr);
	gpu = cpu;
	gpu.in = dev(cpu.in);
	gpu.grad_out = dev(cpu.grad_out);
	gpu.partial = dev(cpu.partial);
	gpu.grad_weight = dev(cpu.grad_weight);
	gpu.grad_bias = dev(cpu.grad_bias);
	RUN(linear_grad_weight, cpu, gpu, LAYER_SHAPE, LAYER_VALUES(c));
}

static void cases_of_layers(void)
{
	static const uint32_t shapes[][3] = {
		{1, 1, 1},     {1, 1, 777},	{3, 1, 500},	{1, 7, 500},	 {3, 7, 777},
		{7, 10, 3001}, {16, 7, 2708},	{64, 16, 3001}, {128, 256, 777}, {256, 10, 3001},
		{256, 10, 1},  {1433, 16, 999}, {5, 3000, 300}, {16, 7, 300007}, {7, 3, 1100003},
	};

	for (uint32_t i = 0; i < COUNT(shapes); i++) {
		for (int variant = 0; variant < 4; variant++) {
			struct layer_case c = {shapes[i][0], shapes[i][1], shapes[i][2],
					       variant & 2 ? 4u : 0u, (variant & 1) != 0};

			case_linear(&c);
			case_linear_grad_in(&c);
			case_linear_grad_weight(&c);
		}
	}
}

/* ------------------------------------------------------------------ beyond 32 bits */

/* Multiples of a prime: rows in an order that jumps, none twice before all others. */
__global__ void fill_index(int64_t *x, uint64_t nr, uint64_t below)
{
	for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < nr; i += gridDim.x * 256ull)
		x[i] = (int64_t)((i * UINT64_C(0x9e3779b1) + 12345) % below);
}

/* Elements of x that are not factor times the value of where they come from, or negative ones
 * where none may be. */
__global__ void count_wrong(const float *x, const int64_t *index, uint64_t nr, uint32_t width,
			    float factor, bool relu, unsigned long long *wrong)
{
	for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < nr; i += gridDim.x * 256ull) {
		uint64_t from = index ? (uint64_t)index[i / width] * width + i % width : i;
		float value = factor * value_at(from);

		if (x[i] != (relu && value < 0 ? 0 : value))
			atomicAdd(wrong, 1ull);
	}
}

static void far_report(const char *name, uint64_t nr, unsigned long long *wrong, int ret)
{
	unsigned long long found = 0;
	char shape[64], outcome[64];

	check(cudaDeviceSynchronize(), name);
	copy_now(&found, wrong, 8, name);
	fill_now(wrong, 0, 8);
	snprintf(shape, sizeof(shape), "%llu elements", (unsigned long long)nr);
	snprintf(outcome, sizeof(outcome), "%llu wrong", found);
	report(ret == 0 && found == 0, name, shape, outcome);
}

/* More than 2^32 elements: 17.2 GB twice. */
static void far_cases(void)
{
	const uint32_t width = 256;
	const uint64_t rows = ((uint64_t)1 << 24) + 77, nr = rows * width, few = 1000001;
	struct gcn_relu_args relu = {};
	struct gcn_gather_args gather = {};
	struct gcn_scatter_add_args scatter = {};
	struct gcn_zero_args zero = {};
	size_t free_bytes, total_bytes;
	unsigned long long *wrong;
	int64_t *index;
	float *a, *b;
	int ret;

	check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
	if (free_bytes < 2 * nr * 4 + ((size_t)2 << 30)) {
		printf("left out: beyond 32 bits: %.1f GB free, 37 needed\n",
		       (double)free_bytes / 1e9);
		return;
	}
	a = (float *)gpu_alloc(nr * 4);
	b = (float *)gpu_alloc(nr * 4);
	index = (int64_t *)gpu_alloc(few * 8);
	wrong = (unsigned long long *)gpu_alloc(8);
	fill_now(wrong, 0, 8);
	fill_values<<<grid(nr), 256>>>(a, nr);
	fill_index<<<grid(few), 256>>>(index, few, rows);
	check(cudaDeviceSynchronize(), "fill");

	relu.in = a;
	relu.out = b;
	relu.nr = nr;
	ret = gcn_cuda_run_relu(stream, &relu);
	check(cudaDeviceSynchronize(), "relu");
	count_wrong<<<grid(nr), 256>>>(b, NULL, nr, width, 1, true, wrong);
	far_report("relu", nr, wrong, ret);

	gather.index = index;
	gather.src = a;
	gather.out = b;
	gather.nr = few;
	gather.width = width;
	ret = gcn_cuda_run_gather(stream, &gather);
	check(cudaDeviceSynchronize(), "gather");
	count_wrong<<<grid(few * width), 256>>>(b, index, few * width, width, 1, false, wrong);
	far_report("gather", few * width, wrong, ret);

	/* a's own rows are added to a: the index names each at most once. */
	scatter.index = index;
	scatter.in = b;
	scatter.out = a;
	scatter.nr = few;
	scatter.out_rows = rows;
	scatter.width = width;
	ret = gcn_cuda_run_scatter_add(stream, &scatter);
	ret = ret ? ret : gcn_cuda_run_gather(stream, &gather);
	check(cudaDeviceSynchronize(), "scatter_add");
	count_wrong<<<grid(few * width), 256>>>(b, index, few * width, width, 2, false, wrong);
	far_report("scatter_add", few * width, wrong, ret);

	zero.out = a;
	zero.bytes = nr * 4;
	ret = gcn_cuda_run_zero(stream, &zero);
	check(cudaDeviceSynchronize(), "zero");
	count_wrong<<<grid(nr), 256>>>(a, NULL, nr, width, 0, false, wrong);
	far_report("zero", nr, wrong, ret);

	check(cudaFree(a), "cudaFree");
	check(cudaFree(b), "cudaFree");
	check(cudaFree(index), "cudaFree");
	check(cudaFree(wrong), "cudaFree");
}

/* ------------------------------------------------------------------ the same bits again */

static void case_again(void)
{
	struct gcn_loss_args loss = {};
	const uint64_t nr = 20011;
	double first[1 + GCN_LOSS_PARTS], second[1 + GCN_LOSS_PARTS];

	arena_reset();
	loss.nr = nr;
	loss.width = 10;
	loss.index = dev(take_index(nr, nr));
	loss.label = dev(take_labels(nr, 10));
	loss.rows = dev(take_random(nr * 10, 0));
	loss.log_p = dev(take_floats(nr * 10, 0));
	loss.loss = dev((double *)take(sizeof(first), 0));
	copy_now(arena.device, arena.host, arena.used, "upload");
	for (int i = 0; i < 2; i++) {
		if (gcn_cuda_run_loss(stream, &loss))
			die("loss", "does not run");
		check(cudaStreamSynchronize(stream), "loss");
		copy_now(i ? second : first, loss.loss, sizeof(first), "loss");
	}
	report(memcmp(first, second, sizeof(first)) == 0, "loss", "twice", "the same bits");
}

/* ------------------------------------------------------------------ main */

static void arena_create(void)
{
	arena.host = (char *)malloc(ARENA_BYTES);
	arena.got = (char *)malloc(ARENA_BYTES);
	if (!arena.host || !arena.got)
		die("arena", "no memory");
	arena.device = (char *)gpu_alloc(ARENA_BYTES);
}

/* near: without the cases of many gigabytes, for tools under which everything is slow. */
int main(int argc, char **argv)
{
	bool near = argc == 2 && strcmp(argv[1], "near") == 0;

	if (argc > 1 && !near)
		die("usage", "test_gcn_kernels [near]");
	gpu_begin();
	arena_create();
	cases_of_elements();
	cases_of_rows();
	cases_of_select();
	cases_of_loss();
	cases_of_layers();
	case_again();
	if (!near)
		far_cases();
	gcn_cuda_forget(stream);
	printf("%u cases on %s, %u failed\n", nr_cases, device_name, nr_failed);
	return nr_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
