/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of paged memory on a GPU, for the programs in this folder: its table, frames and ranges,
 * what is done with it while no kernel runs, and a watchdog for kernels that do. Ranges' bytes are
 * pinned host memory, which the caller has.
 */
#ifndef WEIR_TEST_GPU_PAGING_CUH
#define WEIR_TEST_GPU_PAGING_CUH

#include <time.h>
#include <vector>

#include "weir/paged_home.cuh"
#include "tests/gpu/base.cuh"

#ifndef LAUNCH
#define LAUNCH(kernel, blocks, threads, ...) kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__)
#endif

#define POOL_WATCH_S 10 /* no kernel of a test takes so long */
#define POOL_COUNTS_NR (WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX)

/* abort lies in the GPU's memory: who faults looks at it each time. */
struct pool {
	struct weir_paged_view view;
	uint64_t *abort;
	uint32_t nr_slots; /* warps that can be resident at a time */
	uint32_t nr_sms;
	cudaStream_t side; /* for what is done while a kernel runs */
};

static uint64_t pool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *pool_zeroed(size_t bytes)
{
	void *p;

	check(cudaMalloc(&p, bytes), "cudaMalloc");
	fill_now(p, 0, bytes);
	return p;
}

static inline uint64_t *pool_host_alloc(size_t bytes)
{
	void *p;

	check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "cudaHostAlloc");
	return (uint64_t *)p;
}

static uint64_t pool_page_bytes(const struct pool *pool)
{
	return 1ull << pool->view.page_shift;
}

static void pool_create(struct pool *pool, uint32_t page_shift, uint64_t nr_frames)
{
	struct weir_paged_view *v = &pool->view;
	struct pt_shared shared = {};
	cudaDeviceProp gpu;

	*pool = {};
	check(cudaGetDeviceProperties(&gpu, 0), "cudaGetDeviceProperties");
	check(cudaStreamCreateWithFlags(&pool->side, cudaStreamNonBlocking), "cudaStreamCreate");
	pool->nr_sms = (uint32_t)gpu.multiProcessorCount;
	pool->nr_slots = pool->nr_sms * (uint32_t)gpu.maxThreadsPerMultiProcessor / 32;
	shared.epoch = 1;
	v->page_shift = page_shift;
	v->table.range = (struct pt_range *)pool_zeroed(sizeof(v->range));
	v->table.owner = (uint64_t *)pool_zeroed(nr_frames * sizeof(uint64_t));
	v->table.slot = (uint64_t *)pool_zeroed((pool->nr_slots + 1ul) * sizeof(uint64_t));
	v->table.shared = (struct pt_shared *)pool_zeroed(sizeof(shared));
	copy_now(v->table.shared, &shared, sizeof(shared), "upload");
	pool->abort = (uint64_t *)pool_zeroed(PT_LINE);
	v->table.abort = pool->abort;
	v->table.nr_frames = nr_frames;
	v->table.nr_slots = pool->nr_slots;
	v->table.window = pt_window(nr_frames, pool->nr_slots);
	check(cudaMalloc((void **)&v->frames, nr_frames << page_shift), "cudaMalloc: frames");
	v->counts = (struct weir_paged_counts *)pool_zeroed(POOL_COUNTS_NR * sizeof(*v->counts));
}

static void pool_destroy(struct pool *pool)
{
	struct pt_table *t = &pool->view.table;

	for (uint32_t i = 0; i < t->nr_ranges; i++)
		check(cudaFree(pool->view.range[i].entry), "cudaFree");
	check(cudaFree(t->range), "cudaFree");
	check(cudaFree(t->owner), "cudaFree");
	check(cudaFree(t->slot), "cudaFree");
	check(cudaFree(t->shared), "cudaFree");
	check(cudaFree(pool->abort), "cudaFree");
	check(cudaFree(pool->view.frames), "cudaFree");
	check(cudaFree(pool->view.counts), "cudaFree");
	check(cudaStreamDestroy(pool->side), "cudaStreamDestroy");
}

/* @return its number */
static uint32_t pool_range_add(struct pool *pool, void *host, uint64_t bytes, uint32_t admit,
			       bool read_only, bool fill_only = false)
{
	struct pt_table *t = &pool->view.table;
	struct pt_range *range = &pool->view.range[t->nr_ranges];

	if (t->nr_ranges == WEIR_PAGED_RANGES_MAX)
		die("pool", "no more ranges");
	range->nr_pages = (bytes - 1) / pool_page_bytes(pool) + 1;
	range->entry = (uint64_t *)pool_zeroed(range->nr_pages * sizeof(uint64_t));
	range->host = host;
	range->bytes = bytes;
	range->admit = admit;
	range->read_only = read_only;
	range->fill_only = fill_only;
	copy_now(t->range, pool->view.range, sizeof(pool->view.range), "upload");
	return t->nr_ranges++;
}

/* At most so many warps are resident at a time. */
static inline void pool_agents(struct pool *pool, uint32_t nr)
{
	pool->view.table.nr_slots = nr;
	pool->view.table.window = pt_window(pool->view.table.nr_frames, nr);
}

/* ------------------------------------------------------------------ while no kernel runs */

static void pool_home(struct pool *pool, bool evict)
{
	LAUNCH(weir_paged_home_kernel, pool->nr_sms, 256, pool->view, evict);
	check(cudaGetLastError(), "flush");
	check(cudaStreamSynchronize(stream), "flush");
}

static inline void pool_flush(struct pool *pool)
{
	pool_home(pool, false);
}

static inline void pool_drain(struct pool *pool)
{
	pool_home(pool, true);
}

static void pool_set_abort(struct pool *pool, bool on)
{
	check(cudaMemsetAsync(pool->abort, on, sizeof(*pool->abort), pool->side), "the abort word");
	check(cudaStreamSynchronize(pool->side), "the abort word");
}

/* What happened in a range since the last call of pool_counts(). */
static inline struct weir_paged_counts pool_range_counts(const struct pool *pool, uint32_t range)
{
	static struct weir_paged_counts all[POOL_COUNTS_NR];
	struct weir_paged_counts sum = {};

	copy_now(all, pool->view.counts, sizeof(all), "counts");
	for (uint32_t i = range; i < POOL_COUNTS_NR; i += WEIR_PAGED_RANGES_MAX)
		for (int event = 0; event < WEIR_PAGED_EVENT_NR; event++)
			sum.nr[event] += all[i].nr[event];
	return sum;
}

/* What happened since the last call, in all ranges. */
static inline struct weir_paged_counts pool_counts(struct pool *pool)
{
	struct weir_paged_counts sum = {};

	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++) {
		struct weir_paged_counts counts = pool_range_counts(pool, i);

		for (int event = 0; event < WEIR_PAGED_EVENT_NR; event++)
			sum.nr[event] += counts.nr[event];
	}
	fill_now(pool->view.counts, 0, POOL_COUNTS_NR * sizeof(*pool->view.counts));
	return sum;
}

/* ------------------------------------------------------------------ what the table says */

/* On the side: a kernel may be running. */
template <typename T>
static std::vector<T> pool_download(const struct pool *pool, const T *from, uint64_t nr)
{
	std::vector<T> to(nr);

	check(cudaMemcpyAsync(to.data(), from, nr * sizeof(T), cudaMemcpyDeviceToHost, pool->side),
	      "download");
	check(cudaStreamSynchronize(pool->side), "download");
	return to;
}

static void pool_dump(const struct pool *pool)
{
	static const char *const names[8] = {"absent",	  "loading", "resident", "limbo",
					     "writeback", "?",	     "?",	 "?"};
	const struct pt_table *t = &pool->view.table;
	struct pt_shared shared = pool_download(pool, t->shared, 1)[0];
	std::vector<uint64_t> slot = pool_download(pool, t->slot, pool->nr_slots + 1ul);

	fprintf(stderr,
		"epoch %llu, prepare %llu, take %llu, fill %llu, %llu frames, window %llu%s\n",
		(unsigned long long)shared.epoch, (unsigned long long)shared.prepare,
		(unsigned long long)shared.take, (unsigned long long)shared.fill,
		(unsigned long long)t->nr_frames, (unsigned long long)t->window,
		shared.scan ? ", scanning" : "");
	for (uint32_t i = 0, nr = 0; i <= pool->nr_slots && nr < 16; i++) {
		if (!slot[i])
			continue;
		fprintf(stderr, "slot %u: online, epoch %llu\n", i, (unsigned long long)slot[i]);
		nr++;
	}
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		uint64_t nr[8] = {}, nr_dirty = 0, nr_pinned = 0;

		for (uint64_t entry :
		     pool_download(pool, pool->view.range[i].entry, pool->view.range[i].nr_pages)) {
			nr[pt_state_of(entry)]++;
			nr_dirty += (entry & PT_DIRTY) != 0;
			nr_pinned += pt_pins_of(entry) != 0;
		}
		fprintf(stderr, "range %u: %llu dirty, %llu pinned", i,
			(unsigned long long)nr_dirty, (unsigned long long)nr_pinned);
		for (int state = 0; state < 8; state++)
			if (nr[state])
				fprintf(stderr, ", %llu %s", (unsigned long long)nr[state],
					names[state]);
		fputc('\n', stderr);
	}
}

/* What is wrong with a page, or NULL. owner: that of each frame, each taken once. */
static const char *pool_page_wrong(const struct pool *pool, uint64_t id, uint64_t entry,
				   std::vector<uint64_t> &owner,
				   const std::vector<unsigned char> &frames)
{
	const struct pt_range *range = &pool->view.range[id >> PT_PAGE_BITS];
	uint64_t page = id & (PT_PAGE_MAX - 1), bytes = pool_page_bytes(pool);
	uint64_t left = range->bytes - page * bytes, frame = pt_frame_of(entry);

	if (pt_pins_of(entry))
		return "is pinned";
	if (pt_state_of(entry) == PT_ABSENT)
		return entry & ~PT_FRAME_MASK || frame >= range->admit ? "is absent, and more"
								       : NULL;
	if (pt_state_of(entry) != PT_RESIDENT && pt_state_of(entry) != PT_LIMBO)
		return "is being moved";
	if (frame >= owner.size() || owner[frame] != id + 1)
		return "is in a frame that is not its own";
	owner[frame] = PT_OWNER_FREE;
	if (range->read_only && entry & PT_DIRTY)
		return "is dirty, and read-only";
	if (!(entry & PT_DIRTY) &&
	    memcmp(frames.data() + frame * bytes, (unsigned char *)range->host + page * bytes,
		   left < bytes ? left : bytes) != 0)
		return "is clean, and differs from the host's copy";
	return NULL;
}

/* Walk all of it; nobody is online. Downloads the frames. */
static inline bool pool_right(const struct pool *pool)
{
	const struct pt_table *t = &pool->view.table;
	struct pt_shared shared = pool_download(pool, t->shared, 1)[0];
	std::vector<uint64_t> owner = pool_download(pool, t->owner, t->nr_frames);
	std::vector<unsigned char> frames =
		pool_download(pool, pool->view.frames, t->nr_frames << pool->view.page_shift);

	for (uint64_t i = 0; i < shared.fill && i < owner.size(); i++)
		if (owner[i] == PT_OWNER_FREE) {
			fprintf(stderr, "frame %llu is free, and filling is at %llu\n",
				(unsigned long long)i, (unsigned long long)shared.fill);
			return false;
		}
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		std::vector<uint64_t> entry = pool_download(pool, pool->view.range[i].entry,
							    pool->view.range[i].nr_pages);

		for (uint64_t page = 0; page < entry.size(); page++) {
			const char *wrong =
				pool_page_wrong(pool, PT_ID(i, page), entry[page], owner, frames);

			if (!wrong)
				continue;
			fprintf(stderr, "page %llu of range %u %s: entry %016llx\n",
				(unsigned long long)page, i, wrong,
				(unsigned long long)entry[page]);
			return false;
		}
	}
	for (uint64_t word : owner)
		if (word != PT_OWNER_FREE) {
			fprintf(stderr, "a frame says owner %016llx, and no page is in it\n",
				(unsigned long long)word);
			return false;
		}
	for (uint64_t epoch : pool_download(pool, t->slot, pool->nr_slots + 1ul))
		if (epoch) {
			fprintf(stderr, "a slot says epoch %llu, and nobody is online\n",
				(unsigned long long)epoch);
			return false;
		}
	if (!shared.scan)
		return true;
	fprintf(stderr, "the scan is locked, and nobody is online\n");
	return false;
}

/* ------------------------------------------------------------------ kernels that run */

static bool pool_ends_by(uint64_t deadline_ns, const char *what)
{
	cudaError_t error;

	while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) {
		if (pool_now_ns() > deadline_ns)
			return false;
		usleep(200);
	}
	check(error, what);
	return true;
}

/* Wait for what was launched. After POOL_WATCH_S it is told to use pages where they are, and the
 * table is printed; ended so or not, it failed. */
static void pool_wait(struct pool *pool, const char *what)
{
	const uint64_t s = 1000000000;

	check(cudaGetLastError(), what);
	if (pool_ends_by(pool_now_ns() + POOL_WATCH_S * s, what))
		return;
	fprintf(stderr, "%s: does not end within %d s\n", what, POOL_WATCH_S);
	pool_dump(pool);
	pool_set_abort(pool, true);
	fprintf(stderr, "%s: %s after admissions were stopped\n", what,
		pool_ends_by(pool_now_ns() + 2 * s, what) ? "ends" : "does not end");
	pool_dump(pool);
	_exit(1); /* a kernel may be running still */
}

#endif
