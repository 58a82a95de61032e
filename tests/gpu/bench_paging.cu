/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast GPU-driven paging is on a real GPU, each kernel beside the same one on bare pointers.
 *
 *   bench_paging [--gib N] [--table N] [--part cold|hit|evict|gups]...
 *
 *   cold   every page of N GiB (2) of pinned host memory is brought in and read, by at most 16
 *          blocks of 1,024 threads; beside it the same warps reading the same memory in place
 *   hit    a table of N GiB (16), all of it resident; beside it the frames read directly
 *   evict  frames for an eighth of it: pages come in while others go out, also when the hand that
 *          takes frames begins 8 ahead of the one that prepares them; beside it warps that copy
 *          both ways at once
 *   gups   random read-modify-writes to 4 times the frames; beside it the same in place
 *
 * One line of JSON a kernel. bytes: what has to cross the link (cold, evict), or what the kernel
 * reads (hit, gups). share: its rate beside that of the baseline, the last line before of share 1.
 * All samples are listed; pages in, out and in place are those of the last one.
 */
#include "tests/gpu/paging.cuh"

#define WARM_UPS 1
#define SAMPLES 5
#define UNROLL 8u      /* elements */
#define PAGE_UNROLL 4u /* 16 bytes */

static char device_name[256];
static double baseline_gb_s; /* 0: what is measured next is it */

__device__ static inline uint64_t thread_nr()
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t nr_threads()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

/* SplitMix64's finalizer (Steele, Lea, Flood, 2014). */
__device__ static inline uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The i-th of nr pages, a power of 2: in order, or each once in an order without one. */
__device__ static inline uint64_t page_at(uint64_t i, uint64_t nr, bool at_random)
{
	if (!at_random)
		return i;
	i = i * 0x9e3779b97f4a7c15ull & (nr - 1);
	i ^= i >> 7;
	return i * 0xbf58476d1ce4e5b9ull & (nr - 1);
}

/* ------------------------------------------------------------------ measuring */

struct job {
	const char *part, *kernel, *pattern;
	uint32_t page_shift;
	double bytes;
	struct pool *pool;	      /* NULL: bare */
	void (*before)(struct job *); /* each launch, not timed */
	uint32_t blocks, threads;
	/* Of kernels: */
	unsigned char *bare;
	uint64_t nr_pages;
	bool at_random, write;
	uint64_t *sink;
};

static struct job job_of(const char *part, const char *kernel, const char *pattern,
			 uint32_t page_shift, double bytes)
{
	struct job job = {};

	job.part = part;
	job.kernel = kernel;
	job.pattern = pattern;
	job.page_shift = page_shift;
	job.bytes = bytes;
	return job;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void job_print(const struct job *job, float *ms, const struct weir_paged_counts *stats)
{
	double bytes = job->bytes;
	double gb_s;

	printf("{\"part\": \"%s\", \"kernel\": \"%s\", \"page\": %u, \"pattern\": \"%s\", "
	       "\"blocks\": %u, \"threads\": %u, \"bytes\": %.0f, \"s\": [",
	       job->part, job->kernel, 1u << job->page_shift, job->pattern, job->blocks,
	       job->threads, bytes);
	for (int i = 0; i < SAMPLES; i++)
		printf("%s%.4e", i ? ", " : "", ms[i] / 1e3);
	qsort(ms, SAMPLES, sizeof(ms[0]), by_value);
	gb_s = bytes / ms[SAMPLES / 2] / 1e6;
	printf("], \"s_min\": %.4e, \"s_median\": %.4e, \"gb_s\": %.2f, \"share\": %.3f, "
	       "\"in\": %llu, \"out\": %llu, \"in_place\": %llu, \"waits\": %llu, \"scans\": %llu, "
	       "\"device\": \"%s\", \"version\": \"%s\"}\n",
	       ms[0] / 1e3, ms[SAMPLES / 2] / 1e3, gb_s,
	       baseline_gb_s > 0 ? gb_s / baseline_gb_s : 1,
	       (unsigned long long)stats->nr[WEIR_PAGED_IN],
	       (unsigned long long)stats->nr[WEIR_PAGED_OUT],
	       (unsigned long long)stats->nr[WEIR_PAGED_IN_PLACE],
	       (unsigned long long)stats->nr[WEIR_PAGED_WAIT],
	       (unsigned long long)stats->nr[WEIR_PAGED_SCAN], device_name, weir_version());
	fflush(stdout);
	if (!(baseline_gb_s > 0))
		baseline_gb_s = gb_s;
}

/* launch: of the job, on stream. */
template <typename F> static void measure(struct job job, F launch)
{
	struct weir_paged_counts stats = {};
	cudaEvent_t begin, end;
	float ms[SAMPLES];

	check(cudaEventCreate(&begin), "cudaEventCreate");
	check(cudaEventCreate(&end), "cudaEventCreate");
	for (int i = 0; i < WARM_UPS + SAMPLES; i++) {
		if (job.before)
			job.before(&job);
		if (job.pool)
			pool_counts(job.pool);
		check(cudaEventRecord(begin, stream), job.kernel);
		launch(&job);
		check(cudaGetLastError(), job.kernel);
		check(cudaEventRecord(end, stream), job.kernel);
		if (job.pool)
			pool_wait(job.pool, job.kernel);
		check(cudaEventSynchronize(end), job.kernel);
		if (i >= WARM_UPS)
			check(cudaEventElapsedTime(&ms[i - WARM_UPS], begin, end), job.kernel);
		if (job.pool)
			stats = pool_counts(job.pool);
	}
	check(cudaEventDestroy(begin), "cudaEventDestroy");
	check(cudaEventDestroy(end), "cudaEventDestroy");
	job_print(&job, ms, &stats);
}

static void before_drain(struct job *job)
{
	pool_drain(job->pool);
}

/* As many blocks as are resident. */
template <typename K> static uint32_t full_grid(K kernel, uint32_t threads)
{
	cudaDeviceProp gpu;
	int blocks;

	check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
	check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, (int)threads, 0),
	      "occupancy");
	return (uint32_t)(blocks * gpu.multiProcessorCount);
}

/* ------------------------------------------------------------------ two ways to memory */

/* By name: what kernels are written over. Range 0 of the view, or memory. */
struct bare {
	unsigned char *base;
	uint32_t page_shift;

	__device__ void begin()
	{
	}
	__device__ int4 *get(uint64_t page, bool)
	{
		return (int4 *)(base + (page << page_shift));
	}
	__device__ void put()
	{
	}
	template <typename T, uint32_t nr> __device__ void row(uint64_t index, T (&value)[nr])
	{
#pragma unroll
		for (uint32_t i = 0; i < nr; i++)
			value[i] = ((const T *)base)[index + i * 32];
	}
	template <typename T, uint32_t nr>
	__device__ void read_n(const uint64_t (&index)[nr], T (&value)[nr])
	{
#pragma unroll
		for (uint32_t i = 0; i < nr; i++)
			value[i] = __ldcs((const T *)base + index[i]);
	}
	template <typename T> __device__ void add(uint64_t index, T value)
	{
		atomicAdd((T *)base + index, value);
	}
	__device__ void quiesce()
	{
	}
	__device__ void end()
	{
	}
};

struct paged {
	const struct weir_paged_view *view;
	struct weir_paged_warp w;
	struct weir_paged_place span;

	__device__ void begin()
	{
		w = weir_paged_enter(view);
	}
	__device__ int4 *get(uint64_t page, bool write)
	{
		return (int4 *)weir_paged_span_get(&w, 0, page << view->page_shift,
						   write ? PT_WRITE : PT_READ, &span);
	}
	__device__ void put()
	{
		weir_paged_span_put(&w, &span);
	}
	template <typename T, uint32_t nr> __device__ void row(uint64_t index, T (&value)[nr])
	{
		weir_paged_read_row<T, nr, 32>(&w, 0, index, value);
	}
	template <typename T, uint32_t nr>
	__device__ void read_n(const uint64_t (&index)[nr], T (&value)[nr])
	{
		weir_paged_read_n<T, nr, false>(&w, 0, index, value);
	}
	template <typename T> __device__ void add(uint64_t index, T value)
	{
		weir_paged_atomic_add<T>(&w, 0, index, value);
	}
	__device__ void quiesce()
	{
		weir_paged_quiesce(&w);
	}
	__device__ void end()
	{
		weir_paged_leave(&w);
	}
};

/* A warp a page, 16 bytes a lane, PAGE_UNROLL loads under way. write: each is changed, too. */
template <bool write, typename A>
__device__ static inline void pages_body(A a, uint32_t page_shift, uint64_t nr_pages,
					 bool at_random, uint64_t *sink)
{
	const uint32_t lane = threadIdx.x % 32, step = 32 * PAGE_UNROLL;
	const uint32_t nr = 1u << (page_shift - 4);
	uint32_t sum = 0;

	a.begin();
	for (uint64_t i = thread_nr() / 32; i < nr_pages; i += nr_threads() / 32) {
		int4 *at = a.get(page_at(i, nr_pages, at_random), write);

#pragma unroll 1
		for (uint32_t j = lane; j < nr; j += step) {
			int4 x[PAGE_UNROLL];

#pragma unroll
			for (uint32_t k = 0; k < PAGE_UNROLL; k++)
				x[k] = at[j + k * 32];
#pragma unroll
			for (uint32_t k = 0; k < PAGE_UNROLL; k++) {
				sum += (uint32_t)(x[k].x ^ x[k].y ^ x[k].z ^ x[k].w);
				x[k].x++;
				if (write)
					at[j + k * 32] = x[k];
			}
		}
		a.put();
		a.quiesce();
	}
	a.end();
	if (sum == 0x12345679u) /* hardly ever: that the loads are not left out */
		*sink = sum;
}

template <bool write>
__global__ void __launch_bounds__(1024, 1)
	pages_paged(const __grid_constant__ struct weir_paged_view view, uint64_t nr_pages,
		    bool at_random, uint64_t *sink)
{
	struct paged a = {&view, {}, {}};

	pages_body<write>(a, view.page_shift, nr_pages, at_random, sink);
}

__global__ void __launch_bounds__(1024, 1)
	pages_bare(unsigned char *base, uint32_t page_shift, uint64_t nr_pages, bool at_random,
		   uint64_t *sink)
{
	struct bare a = {base, page_shift};

	pages_body<false>(a, page_shift, nr_pages, at_random, sink);
}

/* Elements in order: a warp has UNROLL x 32 in a row at a time. */
template <typename A> __device__ static inline void stream_body(A a, uint64_t nr, uint64_t *sink)
{
	uint64_t warp = thread_nr() / 32, nr_warps = nr_threads() / 32;
	uint32_t sum = 0;

	a.begin();
	for (uint64_t i = warp * 32 * UNROLL + threadIdx.x % 32; i < nr;
	     i += nr_warps * 32 * UNROLL) {
		uint32_t x[UNROLL];

		a.template row<uint32_t, UNROLL>(i, x);
#pragma unroll
		for (uint32_t k = 0; k < UNROLL; k++)
			sum += x[k];
		a.quiesce();
	}
	a.end();
	if (sum == 0x12345679u)
		*sink = sum;
}

__global__ void __launch_bounds__(256, 6)
	stream_paged(const __grid_constant__ struct weir_paged_view view, uint64_t nr,
		     uint64_t *sink)
{
	struct paged a = {&view, {}, {}};

	stream_body(a, nr, sink);
}

__global__ void stream_bare(unsigned char *base, uint64_t nr, uint64_t *sink)
{
	struct bare a = {base, 0};

	stream_body(a, nr, sink);
}

/* Elements at random, 4 at a time, of nr_elements. */
template <typename A>
__device__ static inline void random_body(A a, uint64_t nr_elements, uint64_t nr, uint64_t *sink)
{
	uint32_t sum = 0;

	a.begin();
	for (uint64_t i = thread_nr() * 4; i < nr; i += nr_threads() * 4) {
		uint64_t index[4];
		uint32_t x[4];

#pragma unroll
		for (uint32_t k = 0; k < 4; k++)
			index[k] = __umul64hi(mix(i + k), nr_elements);
		a.template read_n<uint32_t, 4>(index, x);
		sum += x[0] ^ x[1] ^ x[2] ^ x[3];
		a.quiesce();
	}
	a.end();
	if (sum == 0x12345679u)
		*sink = sum;
}

__global__ void random_paged(const __grid_constant__ struct weir_paged_view view,
			     uint64_t nr_elements, uint64_t nr, uint64_t *sink)
{
	struct paged a = {&view, {}, {}};

	random_body(a, nr_elements, nr, sink);
}

__global__ void random_bare(unsigned char *base, uint64_t nr_elements, uint64_t nr, uint64_t *sink)
{
	struct bare a = {base, 0};

	random_body(a, nr_elements, nr, sink);
}

/* Random additions to 64-bit words. */
template <typename A> __device__ static inline void gups_body(A a, uint64_t mask, uint64_t nr)
{
	a.begin();
	for (uint64_t i = thread_nr(); i < nr; i += nr_threads()) {
		a.template add<unsigned long long>(mix(i) & mask, 1);
		a.quiesce();
	}
	a.end();
}

__global__ void gups_paged(const __grid_constant__ struct weir_paged_view view, uint64_t mask,
			   uint64_t nr)
{
	struct paged a = {&view, {}, {}};

	gups_body(a, mask, nr);
}

__global__ void gups_bare(unsigned char *base, uint64_t mask, uint64_t nr)
{
	struct bare a = {base, 0};

	gups_body(a, mask, nr);
}

/* Pages in by even warps, out by odd ones: half of the memory each. */
__global__ void __launch_bounds__(1024, 1)
	both_ways(unsigned char *host, unsigned char *own, uint64_t own_pages, uint32_t page_shift,
		  uint64_t nr_pages)
{
	uint64_t warp = thread_nr() / 32, nr_warps = nr_threads() / 32;
	uint32_t lane = threadIdx.x % 32, nr = 1u << (page_shift - 4);
	bool in = warp % 2 == 0;

	for (uint64_t i = warp / 2; i < nr_pages / 2; i += nr_warps / 2) {
		int4 *far = (int4 *)(host + ((in ? i : nr_pages / 2 + i) << page_shift));
		int4 *near = (int4 *)(own + ((i * 2 + !in) % own_pages << page_shift));
		const int4 *from = in ? far : near;
		int4 *to = in ? near : far;

		for (uint32_t j = lane; j < nr; j += 32 * PAGE_UNROLL) {
			int4 x[PAGE_UNROLL];

#pragma unroll
			for (uint32_t k = 0; k < PAGE_UNROLL; k++)
				x[k] = from[j + k * 32];
#pragma unroll
			for (uint32_t k = 0; k < PAGE_UNROLL; k++)
				to[j + k * 32] = x[k];
		}
	}
}

/* ------------------------------------------------------------------ parts */

static uint64_t *sink;

static void launch_pages(struct job *j)
{
	if (!j->pool)
		pages_bare<<<j->blocks, j->threads, 0, stream>>>(
			j->bare, j->page_shift, j->nr_pages, j->at_random, j->sink);
	else if (j->write)
		pages_paged<true><<<j->blocks, j->threads, 0, stream>>>(j->pool->view, j->nr_pages,
									j->at_random, j->sink);
	else
		pages_paged<false><<<j->blocks, j->threads, 0, stream>>>(j->pool->view, j->nr_pages,
									 j->at_random, j->sink);
}

static void cold_page(unsigned char *host, uint64_t bytes, uint32_t page_shift)
{
	static const char *const patterns[] = {"stream", "random pages"};
	struct pool pool;

	pool_create(&pool, page_shift, bytes >> page_shift);
	pool_range_add(&pool, host, bytes, 1, false);
	pool_agents(&pool, 512); /* warps of the launch */
	for (int random = 0; random < 2; random++) {
		struct job job =
			job_of("cold", "bare warps", patterns[random], page_shift, (double)bytes);

		job.blocks = 16;
		job.threads = 1024;
		job.bare = host;
		job.nr_pages = bytes >> page_shift;
		job.at_random = random;
		job.sink = sink;
		baseline_gb_s = 0;
		measure(job, launch_pages);
		job.kernel = "paged spans";
		job.pool = &pool;
		job.before = before_drain;
		measure(job, launch_pages);
		job.blocks = 8;
		measure(job, launch_pages);
	}
	pool_destroy(&pool);
}

static void part_cold(uint64_t bytes)
{
	unsigned char *host = (unsigned char *)pool_host_alloc(bytes);

	memset(host, 1, bytes);
	cold_page(host, bytes, 12);
	cold_page(host, bytes, 13);
	cold_page(host, bytes, 16);
	check(cudaFreeHost(host), "cudaFreeHost");
}

/* Every page in the frame of its number, since long. */
__global__ void make_resident(struct weir_paged_view view)
{
	for (uint64_t i = thread_nr(); i < view.range[0].nr_pages; i += nr_threads()) {
		view.range[0].entry[i] = pt_entry(PT_RESIDENT, 1, i) | PT_REF;
		view.table.owner[i] = PT_ID(0, i) + 1;
	}
	if (!thread_nr())
		view.table.shared->epoch = 8;
}

static void hit_stream(struct job job)
{
	uint64_t nr = (uint64_t)job.bytes / 4;
	struct pool *pool = job.pool;

	job.pattern = "elements in order";
	baseline_gb_s = 0;
	job.kernel = "bare elements";
	job.pool = NULL;
	job.threads = 256;
	job.blocks = full_grid(stream_bare, 256);
	measure(job, [nr](struct job *j) {
		stream_bare<<<j->blocks, j->threads, 0, stream>>>(j->bare, nr, j->sink);
	});
	job.kernel = "paged elements";
	job.pool = pool;
	job.blocks = full_grid(stream_paged, 256);
	measure(job, [nr](struct job *j) {
		stream_paged<<<j->blocks, j->threads, 0, stream>>>(j->pool->view, nr, j->sink);
	});
}

static void hit_random(struct job job)
{
	uint64_t nr_elements = (uint64_t)job.bytes / 4, nr = 1u << 28;
	struct pool *pool = job.pool;

	job.pattern = "4 bytes at random";
	job.bytes = 4.0 * (double)nr;
	baseline_gb_s = 0;
	job.kernel = "bare elements";
	job.pool = NULL;
	job.threads = 256;
	job.blocks = full_grid(random_bare, 256);
	measure(job, [nr_elements, nr](struct job *j) {
		random_bare<<<j->blocks, j->threads, 0, stream>>>(j->bare, nr_elements, nr,
								  j->sink);
	});
	job.kernel = "paged elements";
	job.pool = pool;
	job.blocks = full_grid(random_paged, 256);
	measure(job, [nr_elements, nr](struct job *j) {
		random_paged<<<j->blocks, j->threads, 0, stream>>>(j->pool->view, nr_elements, nr,
								   j->sink);
	});
}

static void hit_page(uint64_t bytes, uint32_t page_shift)
{
	struct job job = job_of("hit", "bare warps", "stream", page_shift, (double)bytes);
	struct pool pool;

	pool_create(&pool, page_shift, bytes >> page_shift);
	pool_range_add(&pool, pool.view.frames, bytes, 1, true); /* its host is never looked at */
	fill_now(pool.view.frames, 1, bytes);
	make_resident<<<pool.nr_sms, 256, 0, stream>>>(pool.view);
	pool_wait(&pool, "make_resident");
	job.bare = pool.view.frames;
	job.nr_pages = bytes >> page_shift;
	job.sink = sink;
	for (job.threads = 256; job.threads <= 1024; job.threads *= 4) {
		job.kernel = "bare warps";
		job.pool = NULL;
		baseline_gb_s = 0;
		job.blocks = full_grid(pages_bare, job.threads);
		measure(job, launch_pages);
		job.kernel = "paged spans";
		job.pool = &pool;
		job.blocks = full_grid(pages_paged<false>, job.threads);
		measure(job, launch_pages);
	}
	hit_stream(job);
	hit_random(job);
	pool_destroy(&pool);
}

/* The hand that takes frames is ahead of the one that prepares them. */
static void before_crossed(struct job *job)
{
	struct pt_shared *shared = job->pool->view.table.shared;
	uint64_t take = pool_download(job->pool, &shared->prepare, 1)[0] + 8;

	copy_now(&shared->take, &take, sizeof(take), "upload");
}

static void evict_page(unsigned char *host, uint64_t bytes, uint32_t page_shift, uint32_t blocks)
{
	uint64_t nr_frames = (bytes >> page_shift) / 8;
	struct job job = job_of("evict", "bare warps", "reads", page_shift, (double)bytes);
	struct pool pool;

	pool_create(&pool, page_shift, nr_frames);
	pool_range_add(&pool, host, bytes, 1, false);
	pool_agents(&pool, blocks * 32);
	job.blocks = blocks;
	job.threads = 1024;
	job.bare = host;
	job.nr_pages = bytes >> page_shift;
	job.sink = sink;
	baseline_gb_s = 0;
	measure(job, launch_pages);
	job.kernel = "paged spans";
	job.pool = &pool;
	measure(job, launch_pages);
	job.kernel = "paged spans, hands crossed";
	job.before = before_crossed;
	measure(job, launch_pages);
	job.before = NULL;

	baseline_gb_s = 0;
	job.kernel = "bare warps, both ways";
	job.pattern = "writes";
	job.bytes = (double)bytes;
	job.pool = NULL;
	measure(job, [&pool](struct job *j) {
		both_ways<<<j->blocks, j->threads, 0, stream>>>(j->bare, pool.view.frames,
								pool.view.table.nr_frames,
								j->page_shift, j->nr_pages);
	});
	job.kernel = "paged spans";
	job.bytes = 2 * (double)bytes; /* each page comes in, and goes out */
	job.pool = &pool;
	job.write = true;
	measure(job, launch_pages);
	pool_destroy(&pool);
}

static void part_evict(uint64_t bytes)
{
	unsigned char *host = (unsigned char *)pool_host_alloc(bytes);

	memset(host, 1, bytes);
	for (uint32_t shift = 12; shift <= 16; shift += 4) {
		evict_page(host, bytes, shift, 16);
		evict_page(host, bytes, shift, 64);
	}
	check(cudaFreeHost(host), "cudaFreeHost");
}

static void part_gups(uint64_t bytes)
{
	const uint64_t nr = 1u << 20, mask = bytes / 8 - 1;
	struct job job = job_of("gups", "in place", "8 bytes at random", 12, 8.0 * (double)nr);
	unsigned char *host = (unsigned char *)pool_host_alloc(bytes);
	struct pool pool;

	memset(host, 0, bytes);
	pool_create(&pool, 12, bytes / 4 >> 12);
	pool_range_add(&pool, host, bytes, 1, false);
	job.bare = host;
	job.threads = 256;
	job.blocks = full_grid(gups_bare, 256);
	baseline_gb_s = 0;
	measure(job, [=](struct job *j) {
		gups_bare<<<j->blocks, j->threads, 0, stream>>>(j->bare, mask, nr);
	});
	job.kernel = "paged elements";
	job.pool = &pool;
	job.blocks = full_grid(gups_paged, 256);
	measure(job, [=](struct job *j) {
		gups_paged<<<j->blocks, j->threads, 0, stream>>>(j->pool->view, mask, nr);
	});
	pool_destroy(&pool);
	check(cudaFreeHost(host), "cudaFreeHost");
}

/* ------------------------------------------------------------------ main */

/* In GiB. power: of 2. */
static uint64_t gib_of(const char *text, bool power)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (*end || !n || n > 64 || (power && n & (n - 1)))
		die(text, power ? "is no power of 2 of GiB, from 1 to 64" : "is not 1 to 64 GiB");
	return (uint64_t)n << 30;
}

int main(int argc, char **argv)
{
	static const char *const parts[] = {"cold", "hit", "evict", "gups"};
	uint64_t bytes = UINT64_C(2) << 30, table = UINT64_C(16) << 30;
	cudaDeviceProp gpu;
	uint32_t chosen = 0;

	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && strcmp(argv[i], "--gib") == 0) {
			bytes = gib_of(argv[++i], true);
		} else if (i + 1 < argc && strcmp(argv[i], "--table") == 0) {
			table = gib_of(argv[++i], false);
		} else if (i + 1 < argc && strcmp(argv[i], "--part") == 0) {
			uint32_t part = 0;

			i++;
			while (part < 4 && strcmp(argv[i], parts[part]) != 0)
				part++;
			if (part == 4)
				die(argv[i], "is no part: cold, hit, evict, gups");
			chosen |= 1u << part;
		} else {
			die("usage", "bench_paging [--gib N] [--table N] [--part PART]...");
		}
	}
	chosen = chosen ? chosen : 15;
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
	snprintf(device_name, sizeof(device_name), "%s", gpu.name);
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	sink = (uint64_t *)pool_zeroed(sizeof(*sink));
	if (chosen & 1)
		part_cold(bytes);
	if (chosen & 2) {
		hit_page(table, 12);
		hit_page(table, 16);
	}
	if (chosen & 4)
		part_evict(bytes);
	if (chosen & 8)
		part_gups(bytes);
	return EXIT_SUCCESS;
}
