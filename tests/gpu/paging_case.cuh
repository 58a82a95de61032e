/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cases of test_paging.cu stand on: words that say which one they are and how often they
 * were written, a pool with a range of them, what is looked at after a kernel, and a case's line.
 */
#ifndef WEIR_TEST_GPU_PAGING_CASE_CUH
#define WEIR_TEST_GPU_PAGING_CASE_CUH

#include <stdarg.h>

#include "tests/gpu/paging.cuh"

static bool small;
static uint32_t nr_cases, nr_failed;

/* ------------------------------------------------------------------ words */

#define VERSION_BITS 24

/* Word `index` after it was written `version` times. */
__host__ __device__ static inline uint64_t stamp(uint64_t index, uint64_t version)
{
	return index << VERSION_BITS | version;
}

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
__host__ __device__ static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* What kernels find wrong. */
struct found {
	unsigned long long nr, index, got, wanted;
};

__device__ static void expect(struct found *found, uint64_t index, uint64_t got, uint64_t wanted)
{
	if (got == wanted || atomicAdd(&found->nr, 1ull))
		return;
	found->index = index;
	found->got = got;
	found->wanted = wanted;
}

__device__ static inline uint64_t thread_nr()
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t nr_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

/* ------------------------------------------------------------------ a case */

/* A pool with one range of words on the host; result: of kernels. */
struct test {
	struct pool pool;
	uint64_t *words, nr_words;
	uint32_t range, blocks, threads;
	struct found *found;
};

static void words_fill(struct test *t)
{
	for (uint64_t i = 0; i < t->nr_words; i++)
		t->words[i] = stamp(i, 0);
}

/* nr_words: not whole pages, so that the last one is cut short. */
static void test_begin(struct test *t, uint32_t page_shift, uint64_t nr_frames, uint64_t nr_words,
		       uint32_t admit)
{
	pool_create(&t->pool, page_shift, nr_frames);
	t->nr_words = nr_words;
	t->words = pool_host_alloc(nr_words * sizeof(uint64_t));
	words_fill(t);
	t->range = pool_range_add(&t->pool, t->words, nr_words * sizeof(uint64_t), admit, false);
	t->found = (struct found *)pool_zeroed(sizeof(*t->found));
	t->blocks = small ? 4 : 2 * t->pool.nr_sms;
	t->threads = small ? 64 : 256;
}

static void test_end(struct test *t)
{
	pool_destroy(&t->pool);
	check(cudaFreeHost(t->words), "cudaFreeHost");
	check(cudaFree(t->found), "cudaFree");
}

static bool found_nothing(struct test *t, const char *name)
{
	struct found found;

	copy_now(&found, t->found, sizeof(found), "download");
	if (found.nr)
		fprintf(stderr, "%s: %llu wrong; word %llu (page %llu) is %llx, not %llx\n", name,
			found.nr, found.index,
			found.index * sizeof(uint64_t) >> t->pool.view.page_shift, found.got,
			found.wanted);
	return !found.nr;
}

/* After a kernel: what it found, the table before and after a flush, and the line of the case. */
static bool test_settle(struct test *t, const char *name)
{
	bool good;

	pool_wait(&t->pool, name);
	good = found_nothing(t, name) && pool_right(&t->pool);
	pool_flush(&t->pool);
	return good && pool_right(&t->pool);
}

__attribute__((format(printf, 4, 5))) static void report(struct test *t, bool good,
							 const char *name, const char *format, ...)
{
	struct weir_paged_counts stats = pool_counts(&t->pool);
	char shape[128];
	va_list args;

	va_start(args, format);
	vsnprintf(shape, sizeof(shape), format, args);
	va_end(args);
	nr_cases++;
	nr_failed += !good;
	printf("%-4s %-16s %-40s in %llu, out %llu, in place %llu, waits %llu\n",
	       good ? "ok" : "FAIL", name, shape, (unsigned long long)stats.nr[WEIR_PAGED_IN],
	       (unsigned long long)stats.nr[WEIR_PAGED_OUT],
	       (unsigned long long)stats.nr[WEIR_PAGED_IN_PLACE],
	       (unsigned long long)stats.nr[WEIR_PAGED_WAIT]);
	fflush(stdout);
}

/* Whether each word on the host is the one that it should be, at this version. */
static bool words_are(const struct test *t, uint64_t version)
{
	for (uint64_t i = 0; i < t->nr_words; i++)
		if (t->words[i] != stamp(i, version)) {
			fprintf(stderr, "word %llu on the host is %llx, not %llx\n",
				(unsigned long long)i, (unsigned long long)t->words[i],
				(unsigned long long)stamp(i, version));
			return false;
		}
	return true;
}

#endif
