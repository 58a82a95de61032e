/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on memory that lies on the host and is used in place, over the link, and on the same
 * memory of the GPU's own: many threads add to few words and to many. Each word has to have exactly
 * what was added to it, both where nobody looks at what an atomic returns, which the compiler may
 * turn into a reduction, and where the values that were there before are summed, too. Kinds that
 * programs' kernels are known to use have to be right in both; of the others it is said what they
 * do. Each is tried in a process of its own, as one that faults takes its context along.
 *
 * One line a kind; the exit status is 1 when one that is promised is wrong, 2 when it cannot run.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <sys/wait.h>

#include "tests/gpu/base.cuh"

#define BLOCK (UINT64_C(2) << 20)
#define BLOCKS 132
#define THREADS 256
#define ADDS 8u /* by each thread, to each set of words */
#define MANY 4096u
#define ADDERS (BLOCKS * THREADS)

/* ------------------------------------------------------------------ kinds */

/*
 * Each has its word; add(), by a thread, which returns the word as it was before; value(), how
 * often a word was added to, or less than 0 if its parts differ; far: a word counts exactly as far
 * as all threads add to one of few; before: add() knows what was there, so that the values of a
 * word that is added to n times are 0 to n - 1, each once.
 */

/* Of 16 bytes, as a 128-bit comparison has them. */
struct __align__(16) pair
{
	unsigned long long low, high;
};

template <typename T> struct add_one {
	static const bool far = true, before = true;
	typedef T word;
	__device__ static word add(word *at)
	{
		return atomicAdd(at, (T)1);
	}
	__host__ __device__ static double value(word w)
	{
		return (double)w;
	}
};

/* Sums of so few bits that they are exact: 64 are added to a word. */
struct add_half2 {
	static const bool far = false, before = true;
	typedef __half2 word;
	__device__ static word add(word *at)
	{
		return atomicAdd(at, __floats2half2_rn(1, 1));
	}
	__host__ __device__ static double value(word w)
	{
		return (__low2float(w) + __high2float(w)) / 2;
	}
};

struct add_bf162 {
	static const bool far = false, before = true;
	typedef __nv_bfloat162 word;
	__device__ static word add(word *at)
	{
		return atomicAdd(at, __floats2bfloat162_rn(1, 1));
	}
	__host__ __device__ static double value(word w)
	{
		return (__low2float(w) + __high2float(w)) / 2;
	}
};

/* Counted by the lowest value that nobody has raised yet. */
struct max_u32 {
	static const bool far = true, before = true;
	typedef unsigned int word;
	__device__ static word add(word *at)
	{
		word seen = *(volatile word *)at;

		/* The one that raises it from what it saw has counted. */
		while (atomicMax(at, seen + 1) != seen)
			seen = *(volatile word *)at;
		return seen;
	}
	__host__ __device__ static double value(word w)
	{
		return w;
	}
};

/* The same downwards from 0. */
struct min_s32 {
	static const bool far = true, before = true;
	typedef int word;
	__device__ static word add(word *at)
	{
		word seen = *(volatile word *)at;

		while (atomicMin(at, seen - 1) != seen)
			seen = *(volatile word *)at;
		return seen;
	}
	__host__ __device__ static double value(word w)
	{
		return -(double)w;
	}
};

/* A bit for each time: 64 in all. */
struct or_u64 {
	static const bool far = false, before = true;
	typedef unsigned long long word;
	__device__ static word add(word *at)
	{
		for (;;) {
			const word seen = *(volatile word *)at, bit = ~seen & (seen + 1);
			const word was = atomicOr(at, bit);

			if (!(was & bit))
				return was;
		}
	}
	__host__ __device__ static double value(word w)
	{
		double bits = 0;

		for (; w; w &= w - 1)
			bits++;
		return bits;
	}
};

/* A lock of one bit, a counter under it. */
struct exchange {
	static const bool far = false, before = true;
	typedef uint2 word;
	__device__ static word add(word *at)
	{
		uint2 was = make_uint2(0, 0);
		bool done = false;

		/* The threads of a warp leave it one by one. */
		while (!done)
			if (!atomicExch(&at->x, 1u)) {
				__threadfence();
				was.y = *(volatile unsigned int *)&at->y;
				*(volatile unsigned int *)&at->y = was.y + 1;
				__threadfence();
				atomicExch(&at->x, 0u);
				done = true;
			}
		return was;
	}
	__host__ __device__ static double value(word w)
	{
		return w.x ? -1.0 : (double)w.y;
	}
};

template <typename T> struct cas {
	static const bool far = sizeof(T) > 2, before = true;
	typedef T word;
	__device__ static word add(word *at)
	{
		T seen = *(volatile T *)at, was;

		while ((was = atomicCAS(at, seen, (T)(seen + 1))) != seen)
			seen = was;
		return seen;
	}
	__host__ __device__ static double value(word w)
	{
		return (double)w;
	}
};

struct cas_128 {
	static const bool far = true, before = true;
	typedef struct pair word;
	__device__ static word add(word *at)
	{
		struct pair seen = {0, 0};
#if __CUDA_ARCH__ >= 900
		struct pair was;

		for (;;) {
			asm volatile("{\n\t.reg .b128 c, n, o;\n\t"
				     "mov.b128 c, {%2, %3};\n\tmov.b128 n, {%4, %5};\n\t"
				     "atom.global.cas.b128 o, [%6], c, n;\n\t"
				     "mov.b128 {%0, %1}, o;\n\t}"
				     : "=l"(was.low), "=l"(was.high)
				     : "l"(seen.low), "l"(seen.high), "l"(seen.low + 1),
				       "l"(seen.high + 2), "l"(at)
				     : "memory");
			if (was.low == seen.low && was.high == seen.high)
				break;
			seen = was;
		}
#else
		(void)at;
#endif
		return seen;
	}
	__host__ __device__ static double value(word w)
	{
		return w.high == 2 * w.low ? (double)w.low : -1;
	}
};

/* Four floats by one reduction; one word is four of them. */
struct add_v4f32 {
	static const bool far = true, before = false;
	typedef float4 word;
	__device__ static word add(word *at)
	{
#if __CUDA_ARCH__ >= 900
		asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(at), "f"(1.0f)
			     : "memory");
#else
		(void)at;
#endif
		return make_float4(0, 0, 0, 0);
	}
	__host__ __device__ static double value(word w)
	{
		return w.x == w.y && w.x == w.z && w.x == w.w ? w.x : -1;
	}
};

/* The bulk engine adds 16 bytes of shared memory: four words, or eight numbers in bfloat16. */
template <bool BFLOAT> struct add_bulk {
	static const bool far = !BFLOAT, before = false;
	typedef uint4 word;
	__device__ static word add(word *at)
	{
#if __CUDA_ARCH__ >= 900
		const unsigned int one = BFLOAT ? 0x3f803f80u : 1u; /* 1 twice in bfloat16 */
		__shared__ __align__(16) uint4 ones[THREADS];
		const unsigned int from =
			(unsigned int)__cvta_generic_to_shared(&ones[threadIdx.x]);

		ones[threadIdx.x] = make_uint4(one, one, one, one);
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		if (BFLOAT)
			asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add."
				     "noftz.bf16 [%0], [%1], 16;" ::"l"(at),
				     "r"(from)
				     : "memory");
		else
			asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 "
				     "[%0], [%1], 16;" ::"l"(at),
				     "r"(from)
				     : "memory");
		asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::
				     : "memory");
#else
		(void)at;
#endif
		return make_uint4(0, 0, 0, 0);
	}
	__host__ __device__ static double value(word w)
	{
		const unsigned int upper = w.x & 0xffff0000u;
		float number;

		if (w.x != w.y || w.x != w.z || w.x != w.w)
			return -1;
		if (!BFLOAT)
			return w.x;
		if (upper >> 16 != (w.x & 0xffffu))
			return -1;
		memcpy(&number, &upper, sizeof(number)); /* the upper half of a float */
		return number;
	}
};

/* ------------------------------------------------------------------ a try */

/* The word that a thread adds to the i-th time. */
__host__ __device__ static unsigned int word_at(unsigned int thread, unsigned int i,
						unsigned int nr)
{
	return (thread + i * 31) % nr;
}

/*
 * Each thread adds ADDS times to one of few words, and to as many of many. BEFORE: what was there
 * is summed.
 */
template <typename K, bool BEFORE>
__global__ void kernel_add(typename K::word *word, unsigned int nr, unsigned int adds, double *sum)
{
	const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
	double mine = 0;

	for (unsigned int i = 0; i < adds; i++) {
		const typename K::word was = K::add(&word[word_at(thread, i, nr)]);

		if (BEFORE)
			mine += K::value(was);
	}
	if (BEFORE)
		atomicAdd(sum, mine);
}

/* Whether each of nr words has what was added to it, and was each number below that before. */
template <typename K, bool BEFORE> static bool counts(void *at, unsigned int nr, unsigned int adds)
{
	typedef typename K::word word;
	word *got = (word *)malloc(nr * sizeof(word));
	unsigned int *times = (unsigned int *)calloc(nr, sizeof(*times));
	double *sum, before, expected = 0;
	bool right = true;

	if (!got || !times)
		die("counts", "no memory");
	for (unsigned int thread = 0; thread < ADDERS; thread++)
		for (unsigned int i = 0; i < adds; i++)
			times[word_at(thread, i, nr)]++;
	check(cudaMalloc(&sum, sizeof(*sum)), "cudaMalloc");
	check(cudaMemsetAsync(sum, 0, sizeof(*sum), stream), "cudaMemsetAsync");
	check(cudaMemsetAsync(at, 0, nr * sizeof(word), stream), "cudaMemsetAsync");
	kernel_add<K, BEFORE><<<BLOCKS, THREADS, 0, stream>>>((word *)at, nr, adds, sum);
	check(cudaGetLastError(), "launch");
	check(cudaMemcpyAsync(got, at, nr * sizeof(word), cudaMemcpyDefault, stream), "copy");
	check(cudaMemcpyAsync(&before, sum, sizeof(before), cudaMemcpyDefault, stream), "copy");
	check(cudaStreamSynchronize(stream), "atomics");
	for (unsigned int i = 0; i < nr; i++) {
		right = right && K::value(got[i]) == (double)times[i];
		expected += (double)times[i] * (times[i] - 1.0) / 2;
	}
	check(cudaFree(sum), "cudaFree");
	free(got);
	free(times);
	return right && (!BEFORE || before == expected);
}

template <typename K, bool BEFORE> static bool few_and_many(void *at)
{
	if (!K::far)
		return counts<K, BEFORE>(at, ADDERS / 32, 2);
	return counts<K, BEFORE>(at, 4, ADDS) && counts<K, BEFORE>(at, MANY, ADDS);
}

template <typename K> static bool tries(void *at)
{
	return few_and_many<K, false>(at) && (!K::before || few_and_many<K, true>(at));
}

struct kind {
	const char *name;
	bool (*tries)(void *at);
	bool promised;
	int arch; /* that it needs, as 90 */
};

static const struct kind kinds[] = {
	{"add, 32 bits", tries<add_one<int>>, true, 0},
	{"add, 64 bits", tries<add_one<unsigned long long>>, true, 0},
	{"add, float", tries<add_one<float>>, true, 0},
	{"add, double", tries<add_one<double>>, true, 0},
	{"add, half2", tries<add_half2>, true, 0},
	{"add, bfloat162", tries<add_bf162>, true, 0},
	{"max, 32 bits", tries<max_u32>, true, 0},
	{"min, 32 bits", tries<min_s32>, true, 0},
	{"or, 64 bits", tries<or_u64>, true, 0},
	{"exchange, 32 bits", tries<exchange>, true, 0},
	{"cas, 16 bits", tries<cas<unsigned short>>, true, 0},
	{"cas, 32 bits", tries<cas<unsigned int>>, true, 0},
	{"cas, 64 bits", tries<cas<unsigned long long>>, true, 0},
	{"cas, 128 bits", tries<cas_128>, false, 90},
	{"red, 4 floats", tries<add_v4f32>, false, 90},
	{"bulk add, 32 bits", tries<add_bulk<false>>, false, 90},
	{"bulk add, bfloat16", tries<add_bulk<true>>, false, 90},
};

static void must(int err, const char *what)
{
	if (err)
		die(what, weir_strerror(err));
}

enum { RIGHT, WRONG, BROKEN, NEEDS_MORE = 77 };

/* In a process of its own: in the host's memory, or the GPU's. */
static int try_kind(const struct kind *kind, bool on_host)
{
	struct weir_space_config config = {};
	struct weir_machine *machine;
	struct weir_stream *ours;
	struct weir_space *space;
	cudaDeviceProp properties;
	void *own, *beyond;
	bool right;

	weir_log_set(log_print, NULL);
	must(weir_machine_cuda(NULL, &machine), "weir_machine_cuda");
	check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
	if (10 * properties.major + properties.minor < kind->arch)
		_exit(NEEDS_MORE);
	must(weir_stream_create(machine, 0, &ours), "weir_stream_create");
	stream = (cudaStream_t)weir_stream_native(ours);
	/* What does not fit its GPU memory is on the host, and stays there. */
	config.block_bytes = BLOCK;
	config.budget_bytes[0] = 2 * BLOCK;
	config.budget_bytes[1] = 4 * BLOCK;
	config.mode = WEIR_FIXED;
	must(weir_space_create(machine, &config, &space), "weir_space_create");
	must(weir_alloc(space, 2 * BLOCK, ours, &own), "weir_alloc");
	must(weir_alloc(space, 2 * BLOCK, ours, &beyond), "weir_alloc");
	right = kind->tries(on_host ? beyond : own);
	must(weir_free(space, own, ours), "weir_free");
	must(weir_free(space, beyond, ours), "weir_free");
	must(weir_space_sync(space), "weir_space_sync");
	weir_space_destroy(space);
	weir_stream_destroy(ours);
	weir_machine_close(machine);
	_exit(right ? RIGHT : WRONG);
}

static int try_apart(const struct kind *kind, bool on_host)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(20);
		try_kind(kind, on_host);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("fork", "failed");
	return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}

static const char *word_of(int result)
{
	return result == RIGHT	      ? "right"
	       : result == WRONG      ? "wrong"
	       : result == NEEDS_MORE ? "not on this GPU"
				      : "fails";
}

int main(void)
{
	bool failed = false;

	for (const struct kind &kind : kinds) {
		const int own = try_apart(&kind, false), host = try_apart(&kind, true);

		printf("%-20s own memory: %s; the host's, in place: %s%s\n", kind.name,
		       word_of(own), word_of(host), kind.promised ? "" : " (not promised)");
		failed = failed || (kind.promised && (own != RIGHT || host != RIGHT));
	}
	return failed;
}
