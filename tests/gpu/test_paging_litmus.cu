/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the paging protocol takes for granted of a GPU, each by itself: that data is seen by who
 * acquired, or who acquired from somebody who acquired; that a warp's barrier is part of that; that
 * fences order stores before loads; and that changes in place are seen by who copies. In the GPU's
 * memory and in the host's, with old lines in the first cache.
 *
 *   test_paging_litmus
 *
 * Blocks of one warp play the roles, on many multiprocessors at a time. In each of many rounds they
 * use words that nobody has used before, so that nothing has to be set back.
 */
#include <cstring>

#include "tests/gpu/base.cuh"
#include "weir/paging/pt_arch.h"

#define ROUNDS 2000u
#define TEAMS 40u
#define APART 32u /* words of 4 bytes between the lanes' and between the rounds': a line */

/* What a team shares. Words of each round, of 32 lanes. */
struct team {
	uint32_t *data;	  /* [ROUNDS][32], a line a round */
	uint64_t *first;  /* [ROUNDS] */
	uint64_t *second; /* [ROUNDS] */
};

__device__ static inline uint32_t lane()
{
	return threadIdx.x % 32;
}

/* As a program's own loads are: not volatile to the hardware, but not left out either. */
__device__ static inline uint32_t plain(const uint32_t *at)
{
	uint32_t value;

	asm volatile("ld.weak.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
	return value;
}

__device__ static inline uint32_t *word(const struct team *t, uint32_t round)
{
	return t->data + (size_t)round * APART + lane();
}

/* By one lane, for all. */
__device__ static inline void wait(uint64_t *flag)
{
	if (!lane())
		while (!pt_load(flag, PT_ACQUIRE))
			;
	__syncwarp();
}

__device__ static inline void set(uint64_t *flag)
{
	__syncwarp();
	if (!lane())
		pt_store(flag, 1, PT_RELEASE);
}

__device__ static inline void expect(uint32_t got, uint32_t wanted, unsigned long long *wrong)
{
	if (got != wanted)
		atomicAdd(wrong, 1);
}

/* ------------------------------------------------------------------ the litmus tests */

/* All lanes write, one releases; one acquires, all lanes read what their cache has an old line of:
 * publishing a page. */
__device__ static void publish(const struct team *t, uint32_t role, uint32_t r,
			       unsigned long long *wrong)
{
	if (role == 0) {
		*word(t, r) = r + 1;
		set(&t->first[r]);
	} else if (role == 1) {
		plain(word(t, r));
		wait(&t->first[r]);
		expect(plain(word(t, r)), r + 1, wrong);
	}
}

/* The same by an addition that other changes of the word come between: an entry with pins. */
__device__ static void publish_by_adding(const struct team *t, uint32_t role, uint32_t r,
					 unsigned long long *wrong)
{
	const uint64_t published = 1ull << 32;

	if (role == 0) {
		*word(t, r) = r + 1;
		__syncwarp();
		if (!lane())
			pt_add(&t->first[r], published, PT_ACQ_REL);
	} else if (role == 1) {
		plain(word(t, r));
		if (!lane())
			while (!(pt_load(&t->first[r], PT_ACQUIRE) & published))
				;
		__syncwarp();
		expect(plain(word(t, r)), r + 1, wrong);
	} else if (!lane()) {
		pt_add(&t->first[r], 1, PT_ACQ_REL);
		pt_add(&t->first[r], 0 - 1ull, PT_ACQ_REL);
	}
}

/* Who reads has acquired from a third, who has acquired from the writer: epochs. */
__device__ static void epochs(const struct team *t, uint32_t role, uint32_t r,
			      unsigned long long *wrong)
{
	if (role == 0) {
		*word(t, r) = r + 1;
		set(&t->first[r]);
	} else if (role == 1) {
		plain(word(t, r));
		wait(&t->second[r]);
		expect(plain(word(t, r)), r + 1, wrong);
	} else {
		wait(&t->first[r]);
		set(&t->second[r]);
	}
}

/* Slots looked at relaxed, with one fence after all of them: the scan. */
__device__ static void scan(const struct team *t, uint32_t role, uint32_t r,
			    unsigned long long *wrong)
{
	if (role == 0) {
		*word(t, r) = r + 1;
		set(&t->first[r]);
	} else if (role == 1) {
		plain(word(t, r));
		if (!lane())
			while (!pt_load(&t->first[r], PT_RELAXED))
				;
		pt_fence_sc(nullptr);
		__syncwarp();
		expect(plain(word(t, r)), r + 1, wrong);
	}
}

/* Each stores a word, fences, and loads the other's: one at least sees the other: coming online,
 * beside a scan. */
__device__ static void online(const struct team *t, uint32_t role, uint32_t r,
			      unsigned long long *wrong)
{
	uint64_t *mine = role == 0 ? &t->first[r] : &t->second[r];
	uint64_t *other = role == 0 ? &t->second[r] : &t->first[r];

	if (role > 1 || lane())
		return;
	pt_store(mine, 1, PT_RELEASE);
	pt_fence_sc(nullptr);
	if (!pt_load(other, PT_RELAXED)) /* both so: 2 in the round's word */
		expect(atomicAdd(t->data + (size_t)r * APART, 1), 0, wrong);
}

/* Two warps change words atomically and release; a third acquires and copies: host pins, or a
 * write-back. */
__device__ static void atomics(const struct team *t, uint32_t role, uint32_t r,
			       unsigned long long *wrong)
{
	if (role == 2) {
		plain(word(t, r));
		wait(&t->first[r]);
		wait(&t->second[r]);
		expect(plain(word(t, r)), 8, wrong);
		return;
	}
	for (int i = 0; i < 4; i++)
		atomicAdd(word(t, r), 1u);
	set(role == 0 ? &t->first[r] : &t->second[r]);
}

/* A word is written plainly, then atomically by another, then read: in place, in a frame, in place
 * again. */
__device__ static void in_turn(const struct team *t, uint32_t role, uint32_t r,
			       unsigned long long *wrong)
{
	if (role == 0) {
		plain(word(t, r));
		*word(t, r) = 1;
		set(&t->first[r]);
		wait(&t->second[r]);
		expect(plain(word(t, r)), 3, wrong);
	} else if (role == 1) {
		plain(word(t, r));
		wait(&t->first[r]);
		expect(atomicAdd(word(t, r), 2u), 1, wrong);
		set(&t->second[r]);
	}
}

static const char *const names[] = {"publish", "publish by adding", "epochs", "scan",
				    "online",  "atomics",	    "in turn"};
#define NR_TESTS (sizeof(names) / sizeof(names[0]))

__global__ void run(uint32_t test, struct team all, unsigned long long *wrong)
{
	uint32_t number = blockIdx.x / 3, role = blockIdx.x % 3;
	struct team t = {all.data + (size_t)number * ROUNDS * APART, all.first + number * ROUNDS,
			 all.second + number * ROUNDS};

	for (uint32_t r = 0; r < ROUNDS; r++) {
		switch (test) {
		case 0:
			publish(&t, role, r, wrong);
			break;
		case 1:
			publish_by_adding(&t, role, r, wrong);
			break;
		case 2:
			epochs(&t, role, r, wrong);
			break;
		case 3:
			scan(&t, role, r, wrong);
			break;
		case 4:
			online(&t, role, r, wrong);
			break;
		case 5:
			atomics(&t, role, r, wrong);
			break;
		default:
			in_turn(&t, role, r, wrong);
		}
		__syncwarp();
	}
}

/* All roles are resident at a time: they wait for each other. */
static bool litmus(uint32_t test, bool host)
{
	const size_t data_bytes = (size_t)TEAMS * ROUNDS * APART * sizeof(uint32_t);
	const size_t flag_bytes = (size_t)TEAMS * ROUNDS * sizeof(uint64_t);
	unsigned long long *wrong, nr;
	struct team all;

	check(host ? cudaHostAlloc((void **)&all.data, data_bytes, cudaHostAllocDefault)
		   : cudaMalloc((void **)&all.data, data_bytes),
	      "data");
	check(cudaMalloc((void **)&all.first, 2 * flag_bytes), "flags");
	all.second = all.first + TEAMS * ROUNDS;
	check(cudaMalloc((void **)&wrong, sizeof(*wrong)), "count");
	fill_now(all.data, 0, data_bytes);
	fill_now(all.first, 0, 2 * flag_bytes);
	fill_now(wrong, 0, sizeof(*wrong));
	run<<<3 * TEAMS, 32, 0, stream>>>(test, all, wrong);
	check(cudaGetLastError(), names[test]);
	check(cudaStreamSynchronize(stream), names[test]);
	copy_now(&nr, wrong, sizeof(nr), "count");
	printf("%s %-18s %s memory: %llu wrong of %u rounds\n", nr ? "FAIL" : "ok  ", names[test],
	       host ? "the host's" : "the GPU's ", nr, TEAMS * ROUNDS);
	fflush(stdout);
	check(host ? cudaFreeHost(all.data) : cudaFree(all.data), "data");
	check(cudaFree(all.first), "flags");
	check(cudaFree(wrong), "count");
	return !nr;
}

int main(void)
{
	uint32_t nr_failed = 0;

	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	for (uint32_t test = 0; test < NR_TESTS; test++)
		for (int host = 0; host < 2; host++)
			nr_failed += !litmus(test, host);
	printf("%zu tests, %u failed\n", 2 * NR_TESTS, nr_failed);
	return nr_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
