/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warps without a GPU: enough of CUDA C++ and of its runtime, for a C++ compiler, that
 * tests/gpu/test_paging.cu and the sources in tests/paging run on the CPU. Included before anything
 * else in its place.
 *
 * Every lane is a fiber, and all run in one thread, in an order drawn from WEIR_SEED: a lane can be
 * left at each atomic operation and wherever lanes meet. Lanes that are together (__activemask())
 * are some of those that wait at one place: divergence is what chance makes it. What real hardware
 * would hang on, or leave undefined, ends the program with a line: lanes that meet with different
 * masks or in different operations, and lanes that none can release. As there, a lane that has
 * ended does not count where lanes meet, but that is allowed in ballots alone: elsewhere it is a
 * mistake.
 *
 * It knows nothing of memory order or caches: those are for a GPU.
 */
#ifndef WEIR_TEST_PAGING_WARPS_H
#define WEIR_TEST_PAGING_WARPS_H

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __global__ __attribute__((unused))
#define __device__
#define __host__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __launch_bounds__(...)

/* ------------------------------------------------------------------ lanes as fibers */

namespace warps
{
constexpr uint32_t nr_sms = 2, warps_per_sm = 6, lanes_max = nr_sms * warps_per_sm * 32;
constexpr size_t stack_bytes = 128 << 10;

enum kind { NONE, ACTIVE, MEET, BLOCK }; /* what a lane waits for */

/* The lanes of one warp, a bit each. waits: for something of the kind; who waits is alive. */
struct lane_bits {
	uint32_t alive, waits[BLOCK + 1];
};

struct lane {
	void *stack;
	bool started;
	enum kind kind;
	const void *site; /* ACTIVE: the place; MEET: the operation */
	uint32_t mask;
	uint64_t value, result;
	uint32_t from; /* whose value __shfl_sync() wants */
	uint32_t nr;   /* BLOCK: of threads that wait for each other; site: at which barrier */
	uint32_t block, thread;
};

static std::vector<struct lane> lanes(lanes_max);
static jmp_buf where[lanes_max]; /* where each lane was left */
static struct lane_bits bits[lanes_max / 32];
static struct lane *self;
static jmp_buf scheduler;
static ucontext_t scheduler_context;
static std::function<void()> kernel;
static uint32_t nr_blocks, block_threads, next_block;
static uint64_t random_state = 1;

static inline uint32_t number_of(const struct lane *l)
{
	return (uint32_t)(l - &lanes[0]);
}

static inline struct lane_bits *bits_of(const struct lane *l)
{
	return &bits[number_of(l) / 32];
}

static inline uint32_t bit_of(const struct lane *l)
{
	return 1u << number_of(l) % 32;
}

static inline uint32_t runnable(const struct lane_bits *b)
{
	return b->alive & ~(b->waits[ACTIVE] | b->waits[MEET] | b->waits[BLOCK]);
}

__attribute__((noreturn)) static void die_of(const char *what)
{
	fprintf(stderr, "warps: %s\n", what);
	for (struct lane &l : lanes)
		if (bits_of(&l)->alive & bit_of(&l) && (!self || bits_of(&l) == bits_of(self)))
			fprintf(stderr, "  block %u thread %u: kind %d, mask %08x%s\n", l.block,
				l.thread, l.kind, l.mask, &l == self ? " (here)" : "");
	_Exit(3);
}

/* xorshift64* (Vigna, 2016) */
static uint64_t chance(uint64_t below)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 0x2545f4914f6cdd1dull >> 33) % below;
}

static void leave()
{
	if (!_setjmp(where[number_of(self)]))
		_longjmp(scheduler, 1);
}

static inline void perhaps_leave()
{
	if (self && chance(4) == 0)
		leave();
}

static uint64_t wait_for(enum kind kind, const void *site, uint32_t mask, uint64_t value)
{
	self->kind = kind;
	self->site = site;
	self->mask = mask;
	self->value = value;
	bits_of(self)->waits[kind] |= bit_of(self);
	leave();
	return self->result;
}

static void lane_main()
{
	kernel();
	bits_of(self)->alive &= ~bit_of(self);
	_longjmp(scheduler, 1);
}

static void lane_run(struct lane *l)
{
	ucontext_t context;

	self = l;
	if (_setjmp(scheduler)) {
		self = nullptr;
		return;
	}
	if (l->started)
		_longjmp(where[number_of(l)], 1);
	l->started = true;
	if (getcontext(&context))
		die_of("no context");
	if (!l->stack)
		l->stack = malloc(stack_bytes);
	context.uc_stack.ss_sp = l->stack;
	context.uc_stack.ss_size = stack_bytes;
	context.uc_link = &scheduler_context;
	makecontext(&context, lane_main, 0);
	setcontext(&context);
}

/* Each operation at which lanes meet is called so: what lane l is told. */
using meet_fn = uint64_t (*)(const struct lane *warp, uint32_t mask, const struct lane *l);

static uint64_t meet_sync(const struct lane *, uint32_t, const struct lane *)
{
	return 0;
}

static uint64_t meet_any(const struct lane *warp, uint32_t mask, const struct lane *)
{
	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1 && warp[i].value)
			return 1;
	return 0;
}

static uint64_t meet_ballot(const struct lane *warp, uint32_t mask, const struct lane *)
{
	uint64_t set = 0;

	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1 && warp[i].value)
			set |= 1ull << i;
	return set;
}

static uint64_t meet_all(const struct lane *warp, uint32_t mask, const struct lane *)
{
	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1 && !warp[i].value)
			return 0;
	return 1;
}

static uint64_t meet_match(const struct lane *warp, uint32_t mask, const struct lane *l)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1 && warp[i].value == l->value)
			same |= 1u << i;
	return same;
}

static uint64_t meet_min(const struct lane *warp, uint32_t mask, const struct lane *)
{
	uint64_t least = ~0ull;

	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1 && warp[i].value < least)
			least = warp[i].value;
	return least;
}

static uint64_t meet_add(const struct lane *warp, uint32_t mask, const struct lane *)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1)
			sum += warp[i].value;
	return sum;
}

static uint64_t meet_from(const struct lane *warp, uint32_t mask, const struct lane *l)
{
	if (!(mask >> l->from & 1))
		die_of("a lane asks one that its mask does not name");
	return warp[l->from].value;
}

static void release(struct lane *l, uint64_t result)
{
	l->result = result;
	bits_of(l)->waits[l->kind] &= ~bit_of(l);
	l->kind = NONE;
}

/* Who is to come to the meeting of lane i. */
static uint32_t who_comes(const struct lane *warp, uint32_t i)
{
	uint32_t mask = warp[i].mask, alive = bits_of(warp)->alive;

	if (mask & ~alive && warp[i].site != (const void *)(uintptr_t)meet_ballot)
		die_of("a lane waits for one that has ended");
	return mask & alive;
}

/* Who has come to it. */
static uint32_t who_came(const struct lane *warp, uint32_t i)
{
	uint32_t mask = warp[i].mask, here = 0, elsewhere = 0;

	if (!(mask >> i & 1))
		die_of("a lane meets others with a mask that does not name it");
	for (uint32_t left = mask & bits_of(warp)->waits[MEET]; left; left &= left - 1) {
		uint32_t j = (uint32_t)__builtin_ctz(left);

		if (warp[j].mask != mask) { /* others, before it comes here */
			elsewhere |= warp[j].mask;
			continue;
		}
		if (warp[j].site != warp[i].site)
			die_of("two lanes meet in different operations");
		here |= 1u << j;
	}
	if (elsewhere & here)
		die_of("two lanes meet with different masks");
	return here;
}

/* The first of those that are left, from one on and then round. */
static uint32_t next_of(uint32_t left, uint32_t first)
{
	uint32_t turned = left >> first | (first ? left << (32 - first) : 0);

	return (first + (uint32_t)__builtin_ctz(turned)) % 32;
}

/* A meeting that all lanes of its mask have come to. */
static bool release_meeting(struct lane *warp)
{
	uint32_t first = (uint32_t)chance(32), left = bits_of(warp)->waits[MEET];
	uint64_t result[32];

	while (left) {
		uint32_t i = next_of(left, first), mask = who_comes(warp, i);
		uint32_t here = who_came(warp, i);

		left &= ~here;
		if (here != mask)
			continue;
		for (uint32_t j = 0; j < 32; j++)
			if (mask >> j & 1)
				result[j] =
					((meet_fn)(uintptr_t)warp[i].site)(warp, mask, &warp[j]);
		for (uint32_t j = 0; j < 32; j++)
			if (mask >> j & 1)
				release(&warp[j], result[j]);
		return true;
	}
	return false;
}

/* Those that ask who is together: some, by chance, of those who ask at one place. */
static bool release_active(struct lane *warp)
{
	uint32_t first = (uint32_t)chance(32), mask = 0;
	bool all = chance(4) != 0;

	for (uint32_t left = bits_of(warp)->waits[ACTIVE]; left;) {
		uint32_t i = next_of(left, first);

		left &= ~(1u << i);
		if (mask && warp[i].site != warp[__builtin_ctz(mask)].site)
			continue;
		if (!mask || all || chance(2))
			mask |= 1u << i;
	}
	for (uint32_t i = 0; i < 32; i++)
		if (mask >> i & 1)
			release(&warp[i], mask);
	return mask != 0;
}

/* The barrier that a thread waits at, if all that do have come to it. */
static bool release_barrier(const struct lane *first)
{
	std::vector<struct lane *> here;

	for (uint32_t w = 0; w < lanes_max / 32; w++) {
		for (uint32_t left = bits[w].waits[BLOCK]; left; left &= left - 1) {
			struct lane *l = &lanes[w * 32 + (uint32_t)__builtin_ctz(left)];

			if (l->block == first->block && l->site == first->site)
				here.push_back(l);
		}
	}
	if (here.size() != first->nr)
		return false;
	for (struct lane *l : here)
		release(l, 0);
	return true;
}

/* A barrier that a lane of the warp has come to. */
static bool release_block(const struct lane *warp)
{
	for (uint32_t left = bits_of(warp)->waits[BLOCK]; left; left &= left - 1)
		if (release_barrier(&warp[__builtin_ctz(left)]))
			return true;
	return false;
}

/* One lane of a warp that can go on; if there is none, some are made to, and now and then so too:
 * one that waits for another in a loop must not keep it from going on. */
static bool warp_run(struct lane *warp)
{
	uint32_t first = (uint32_t)chance(32), ready;

	if (chance(8) == 0)
		release_meeting(warp);
	if (chance(512) == 0)
		release_active(warp);
	ready = runnable(bits_of(warp));
	if (ready) {
		lane_run(&warp[next_of(ready, first)]);
		return true;
	}
	return bits_of(warp)->alive &&
	       (release_meeting(warp) || release_active(warp) || release_block(warp));
}

/* Places for a block's warps are next to each other. */
static void start_blocks()
{
	uint32_t warps = (block_threads + 31) / 32;

	for (uint32_t at = 0; at + warps * 32 <= lanes_max && next_block < nr_blocks;
	     at += warps * 32) {
		bool used = false;

		for (uint32_t i = 0; i < warps; i++)
			used |= bits[at / 32 + i].alive != 0;
		if (used)
			continue;
		for (uint32_t i = 0; i < block_threads; i++) {
			struct lane *l = &lanes[at + i];

			bits_of(l)->alive |= bit_of(l);
			l->started = false;
			l->kind = NONE;
			l->block = next_block;
			l->thread = i;
		}
		next_block++;
	}
}

static void launch(uint32_t blocks, uint32_t threads, std::function<void()> run)
{
	const uint64_t idle_max = 1000000;
	const char *seed = getenv("WEIR_SEED");

	if (random_state == 1 && seed)
		random_state = strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15ull | 1;
	if (threads % 32 || threads > lanes_max)
		die_of("blocks are of whole warps, as many as are resident at most");
	kernel = run;
	nr_blocks = blocks;
	block_threads = threads;
	next_block = 0;
	for (uint64_t idle = 0; idle < idle_max; idle++) {
		bool alive = false;

		start_blocks();
		for (uint32_t n = 0; n < 64; n++) {
			struct lane *warp = &lanes[chance(lanes_max / 32) * 32];

			if (warp_run(warp))
				idle = 0;
		}
		for (const struct lane_bits &b : bits)
			alive |= b.alive != 0;
		if (!alive && next_block == nr_blocks)
			return;
	}
	for (struct lane &l : lanes)
		if (l.kind != NONE) {
			self = &l;
			die_of("lanes wait for each other");
		}
	die_of("no lane comes to an end");
}
} // namespace warps

#define LAUNCH(kernel, blocks, threads, ...) \
	warps::launch(blocks, threads, [=]() { kernel(__VA_ARGS__); })

/* ------------------------------------------------------------------ CUDA C++ */

struct warps_dim {
	uint32_t x;
};
#define threadIdx (warps_dim{warps::self->thread})
#define blockIdx (warps_dim{warps::self->block})
#define blockDim (warps_dim{warps::block_threads})
#define gridDim (warps_dim{warps::nr_blocks})

struct int4 {
	int x, y, z, w;
};
struct float4 {
	float x, y, z, w;
};
struct longlong2 {
	long long x, y;
};

__attribute__((noinline, unused)) static uint32_t __activemask()
{
	return (uint32_t)warps::wait_for(warps::ACTIVE, __builtin_return_address(0), 0, 0);
}

#define WARPS_MEET(fn, mask, value) \
	warps::wait_for(warps::MEET, (const void *)(uintptr_t)(warps::fn), mask, (uint64_t)(value))

static inline void __syncwarp(uint32_t mask = ~0u)
{
	WARPS_MEET(meet_sync, mask, 0);
}

static inline bool __any_sync(uint32_t mask, bool value)
{
	return WARPS_MEET(meet_any, mask, value);
}

static inline uint32_t __ballot_sync(uint32_t mask, bool value)
{
	return (uint32_t)WARPS_MEET(meet_ballot, mask, value);
}

static inline bool __all_sync(uint32_t mask, bool value)
{
	return WARPS_MEET(meet_all, mask, value);
}

static inline uint32_t __match_any_sync(uint32_t mask, unsigned long long value)
{
	return (uint32_t)WARPS_MEET(meet_match, mask, value);
}

static inline uint32_t __reduce_min_sync(uint32_t mask, uint32_t value)
{
	return (uint32_t)WARPS_MEET(meet_min, mask, value);
}

static inline int32_t __reduce_add_sync(uint32_t mask, int32_t value)
{
	return (int32_t)WARPS_MEET(meet_add, mask, value);
}

template <typename T> static inline T __shfl_sync(uint32_t mask, T value, int from)
{
	uint64_t word = 0;

	memcpy(&word, &value, sizeof(value));
	warps::self->from = (uint32_t)from & 31;
	word = WARPS_MEET(meet_from, mask, word);
	memcpy(&value, &word, sizeof(value));
	return value;
}

/* A barrier of a block, by its number, for so many of its threads. */
static inline void warps_barrier(uint32_t barrier, uint32_t nr_threads)
{
	warps::self->nr = nr_threads;
	warps::wait_for(warps::BLOCK, (const void *)(uintptr_t)barrier, 0, 0);
}

/* Blocks that have some are too large for two to be resident. */
#define __shared__ static

static inline void __syncthreads()
{
	warps_barrier(0, warps::block_threads);
}

template <typename T> static inline T __ldcs(const T *at)
{
	return *at;
}

template <typename T> static inline T __ldcg(const T *at)
{
	return *at;
}

static inline void __threadfence()
{
}

template <typename T> static inline T __ldg(const T *at)
{
	return *at;
}

template <typename T> static inline T min(T a, T b)
{
	return a < b ? a : b;
}

static inline void __nanosleep(unsigned)
{
	warps::leave();
}

static inline int __ffs(uint32_t x)
{
	return __builtin_ffs((int)x);
}

static inline int __popc(uint32_t x)
{
	return __builtin_popcount(x);
}

template <typename T> static inline T atomicAdd(T *at, T value)
{
	T old = *at;

	*at = old + value;
	warps::perhaps_leave();
	return old;
}

static inline uint32_t weir_paged_lane()
{
	return warps::self->thread % 32;
}

static inline uint32_t weir_paged_hint()
{
	return (uint32_t)(warps::self - &warps::lanes[0]) / 32;
}

static inline uint32_t weir_paged_clock()
{
	return (uint32_t)warps::chance(1u << 20);
}

/* ------------------------------------------------------------------ the runtime */

typedef int cudaStream_t;
typedef enum { cudaSuccess, cudaErrorNotReady, cudaErrorMemoryAllocation } cudaError_t;
struct cudaDeviceProp {
	int multiProcessorCount, maxThreadsPerMultiProcessor;
};
enum { cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
#define cudaStreamLegacy 0
#define cudaStreamNonBlocking 1
#define cudaHostAllocDefault 0

static inline cudaError_t warps_alloc(void **p, size_t bytes)
{
	*p = aligned_alloc(256, (bytes + 255) / 256 * 256);
	if (!*p)
		return cudaErrorMemoryAllocation;
	memset(*p, 0xa5, bytes);
	return cudaSuccess;
}

static inline cudaError_t warps_free(void *p)
{
	free(p);
	return cudaSuccess;
}

static inline cudaError_t warps_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return cudaSuccess;
}

static inline cudaError_t warps_fill(void *to, int value, size_t bytes)
{
	memset(to, value, bytes);
	return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *gpu, int)
{
	gpu->multiProcessorCount = warps::nr_sms;
	gpu->maxThreadsPerMultiProcessor = warps::warps_per_sm * 32;
	return cudaSuccess;
}

#define cudaMalloc(p, bytes) warps_alloc((void **)(p), bytes)
#define cudaHostAlloc(p, bytes, flags) warps_alloc((void **)(p), bytes)
#define cudaFree(p) warps_free(p)
#define cudaFreeHost(p) warps_free(p)
#define cudaMemcpy(to, from, bytes, way) warps_copy(to, from, bytes)
#define cudaMemcpyAsync(to, from, bytes, way, stream) ((void)(stream), warps_copy(to, from, bytes))
#define cudaMemsetAsync(to, value, bytes, stream) ((void)(stream), warps_fill(to, value, bytes))
#define cudaMemset(to, value, bytes) warps_fill(to, value, bytes)
#define cudaSetDevice(device) cudaSuccess
#define cudaStreamCreateWithFlags(stream, flags) (*(stream) = 1, cudaSuccess)
#define cudaStreamDestroy(stream) cudaSuccess
#define cudaStreamSynchronize(stream) cudaSuccess
#define cudaStreamQuery(stream) cudaSuccess
#define cudaGetLastError() cudaSuccess
#define cudaGetErrorString(error) "no memory"

/* ------------------------------------------------------------------ atomics */

/* A lane can be left before each of them. */
#include "weir/paging/pt_arch.h"

#define pt_load(...) (warps::perhaps_leave(), pt_load(__VA_ARGS__))
#define pt_store(...) (warps::perhaps_leave(), pt_store(__VA_ARGS__))
#define pt_cas(...) (warps::perhaps_leave(), pt_cas(__VA_ARGS__))
#define pt_add(...) (warps::perhaps_leave(), pt_add(__VA_ARGS__))

#endif
