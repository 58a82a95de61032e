/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on memory that lies on the host and is used in place, over the link, and on the same
 * memory of the GPU's own: many threads add to few words and to many, and what comes out is exact.
 * Kinds that programs' kernels are known to use have to be right in both; of the others it is said
 * what they do. Each is tried in a process of its own, as one that faults takes its context along.
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
 * Each has its word; add(), by a thread; value(), what was added to a word, or less than 0 if its
 * parts differ; and far: a word counts exactly as far as all threads add to one of few.
 */

/* Of 16 bytes, as a 128-bit comparison has them. */
struct __align__(16) pair
{
	unsigned long long low, high;
};

template <typename T> struct add_one {
	static const bool far = true;
	typedef T word;
	__device__ static void add(word *at)
	{
		atomicAdd(at, (T)1);
	}
	static double value(word w)
	{
		return (double)w;
	}
};

/* Sums of so few bits that they are exact: each thread adds once to a word of many. */
struct add_half2 {
	static const bool far = false;
	typedef __half2 word;
	__device__ static void add(word *at)
	{
		atomicAdd(at, __floats2half2_rn(1, 1));
	}
	static double value(word w)
	{
		return (__low2float(w) + __high2float(w)) / 2;
	}
};

struct add_bf162 {
	static const bool far = false;
	typedef __nv_bfloat162 word;
	__device__ static void add(word *at)
	{
		atomicAdd(at, __floats2bfloat162_rn(1, 1));
	}
	static double value(word w)
	{
		return (__low2float(w) + __high2float(w)) / 2;
	}
};

/* Counted by the lowest value that nobody has raised yet. */
struct max_u32 {
	static const bool far = true;
	typedef unsigned int word;
	__device__ static void add(word *at)
	{
		unsigned int seen = *(volatile word *)at;

		/* The one that raises it from what it saw has counted. */
		while (atomicMax(at, seen + 1) != seen)
			seen = *(volatile word *)at;
	}
	static double value(word w)
	{
		return w;
	}
};

template <typename T> struct cas {
	static const bool far = sizeof(T) > 2;
	typedef T word;
	__device__ static void add(word *at)
	{
		T seen = *(volatile T *)at, was;

		while ((was = atomicCAS(at, seen, (T)(seen + 1))) != seen)
			seen = was;
	}
	static double value(word w)
	{
		return (double)w;
	}
};

struct cas_128 {
	static const bool far = true;
	typedef struct pair word;
	__device__ static void add(word *at)
	{
#if __CUDA_ARCH__ >= 900
		struct pair seen = {0, 0}, was;

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
				return;
			seen = was;
		}
#else
		(void)at;
#endif
	}
	static double value(word w)
	{
		return w.high == 2 * w.low ? (double)w.low : -1;
	}
};

/* Four floats by one reduction; one word is four of them. */
struct add_v4f32 {
	static const bool far = true;
	typedef float4 word;
	__device__ static void add(word *at)
	{
#if __CUDA_ARCH__ >= 900
		asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(at), "f"(1.0f)
			     : "memory");
#else
		(void)at;
#endif
	}
	static double value(word w)
	{
		return w.x == w.y && w.x == w.z && w.x == w.w ? w.x : -1;
	}
};

/* The bulk engine adds 16 bytes of shared memory. */
struct add_bulk {
	static const bool far = true;
	typedef uint4 word;
	__device__ static void add(word *at)
	{
#if __CUDA_ARCH__ >= 900
		__shared__ __align__(16) uint4 ones[THREADS];
		const unsigned int from =
			(unsigned int)__cvta_generic_to_shared(&ones[threadIdx.x]);

		ones[threadIdx.x] = make_uint4(1, 1, 1, 1);
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], "
			     "[%1], 16;" ::"l"(at),
			     "r"(from)
			     : "memory");
		asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::
				     : "memory");
#else
		(void)at;
#endif
	}
	static double value(word w)
	{
		return w.x == w.y && w.x == w.z && w.x == w.w ? (double)w.x : -1.0;
	}
};

/* ------------------------------------------------------------------ a try */

/* Each thread adds ADDS times to one of few words, and to as many of many. */
template <typename K>
__global__ void kernel_add(typename K::word *word, unsigned int nr, unsigned int adds)
{
	const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;

	for (unsigned int i = 0; i < adds; i++)
		K::add(&word[(thread + i * 31) % nr]);
}

/* Whether nr words have what was added to them, in the end. */
template <typename K> static bool sums(void *at, unsigned int nr, unsigned int adds)
{
	typedef typename K::word word;
	word *got = (word *)malloc(nr * sizeof(word));
	double sum = 0;
	bool right = true;

	check(cudaMemsetAsync(at, 0, nr * sizeof(word), stream), "cudaMemsetAsync");
	kernel_add<K><<<BLOCKS, THREADS, 0, stream>>>((word *)at, nr, adds);
	check(cudaGetLastError(), "launch");
	check(cudaMemcpyAsync(got, at, nr * sizeof(word), cudaMemcpyDefault, stream), "copy");
	check(cudaStreamSynchronize(stream), "atomics");
	for (unsigned int i = 0; i < nr; i++) {
		right = right && K::value(got[i]) >= 0;
		sum += K::value(got[i]);
	}
	free(got);
	return right && sum == (double)ADDERS * adds;
}

/* Few words, for which threads contend, and many. */
template <typename K> static bool tries(void *at)
{
	if (!K::far)
		return sums<K>(at, ADDERS / 32, 2);
	return sums<K>(at, 4, ADDS) && sums<K>(at, MANY, ADDS);
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
	{"cas, 16 bits", tries<cas<unsigned short>>, true, 0},
	{"cas, 32 bits", tries<cas<unsigned int>>, true, 0},
	{"cas, 64 bits", tries<cas<unsigned long long>>, true, 0},
	{"cas, 128 bits", tries<cas_128>, false, 90},
	{"red, 4 floats", tries<add_v4f32>, false, 90},
	{"bulk add, 32 bits", tries<add_bulk>, false, 90},
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
