/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tests steer libcuda-fake.so.1, a CUDA driver for machines without a GPU (see call.c for what
 * it is and is not). Two ways to these functions: link the library, with the line
 *
 *   Links: cuda-fake
 *
 * in a test's head comment, or dlsym() them by name on the handle that dlopen(FAKECUDA_PATH) gave;
 * __typeof__(&fakecuda_gate) is the type then. Both reach the same state: the library is loaded
 * once in a process, and stays loaded with its state when it is closed.
 *
 * Programs that know nothing of it find the same driver under its own name: driver/libcuda.so.1,
 * beside this library, in LD_LIBRARY_PATH. That is another library, with a state of its own. With
 * FAKECUDA_REPORT=FILE in the environment it adds a line to the file when the process ends:
 *
 *   calls N races N unmaps N leaks N problem TEXT|none
 *
 * which are fakecuda_nr_calls(), fakecuda_nr_races(), fakecuda_nr_unmaps_in_use(), fakecuda_leaks()
 * and fakecuda_problem().
 *
 * Streams are named by what cuStreamCreate() gave, as void *. Results are CUresult, as int.
 * Threads: every function may be called from any thread, kernels too; fakecuda_reset() only while
 * no other thread is inside the driver.
 */
#ifndef WEIR_TESTS_FAKECUDA_H
#define WEIR_TESTS_FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The build says where the library is; this is for tools that read single files. */
#ifndef FAKECUDA_PATH
#define FAKECUDA_PATH "libcuda-fake.so.1"
#endif

#define FAKECUDA_API __attribute__((visibility("default")))

enum { FAKECUDA_DEVICES_MAX = 4, FAKECUDA_STREAMS_MAX = 96 };

/** What the machine is; 0 asks for the environment variable, and where that is not set the value
 *  in brackets. */
struct fakecuda_config {
	/** FAKECUDA_DEVICES [1], up to 4; negative: none. None either where that is asked for and
	 *  CUDA_VISIBLE_DEVICES is set to nothing; it is not looked at otherwise. */
	int devices;
	uint64_t hbm_bytes;   /**< FAKECUDA_HBM_BYTES [64 MiB], of each device */
	uint64_t host_bytes;  /**< FAKECUDA_HOST_BYTES [256 MiB], of handles and pinned memory */
	uint64_t granularity; /**< FAKECUDA_GRANULARITY [64 KiB]; power of two, whole pages */
	int version;	      /**< FAKECUDA_VERSION [13000] */
	bool pageable_blocks; /**< a copy that names program memory waits until it is done */
	unsigned no_vmm;      /**< mask of devices that cannot map their memory by handles */
	unsigned no_host_vmm; /**< the same of the host's */
	bool no_peers;	      /**< FAKECUDA_NO_PEERS [0]: no device reaches another's memory */
	bool unexported;      /**< FAKECUDA_UNEXPORTED [0]: look-ups of copies, of fills of
				   pictures and of words for streams give addresses of their own */
	bool reuse;	      /**< FAKECUDA_REUSE [0]: handles of modules and of streams are used
				   again, those of a context's streams once it has ended */
	bool hide_maps;	      /**< FAKECUDA_HIDE_MAPS [0]: no address stands in a tensor map */
	bool copies_beside;   /**< FAKECUDA_COPIES_BESIDE [0]: copies and kernels do not race */
	uint64_t delay_ns;    /**< FAKECUDA_DELAY_NS [0]: as fakecuda_delay() of all streams */
	int clock_percent;    /**< how fast events' clock runs, of the host's; 0: as fast */
};

/**
 * Back to a driver that was never used: abandon what is queued, wait for what runs, open all gates,
 * free everything, forget counters and faults. cuInit() is needed again.
 *
 * @param [in]  config  Copied. NULL: all from the environment, read at the next call.
 */
FAKECUDA_API void fakecuda_reset(const struct fakecuda_config *config);

/* ------------------------------------------------------------------ work */

/** Memory that a kernel touches: all bytes of it, for the checks. */
struct fakecuda_touch {
	const void *addr;
	size_t bytes;
	bool write; /**< false: only read */
};

/**
 * Queue a function of the CPU on a stream, as cuLaunchKernel() would a kernel. When its turn comes
 * each touch is looked up: if a byte is not mapped, or not for the stream's device in this way, fn
 * does not run and the context is broken (CUDA_ERROR_ILLEGAL_ADDRESS, see call.c). While fn runs,
 * the CPU reaches the touched mappings at their addresses; any other device memory is a SIGSEGV.
 *
 * @param [in]  args   bytes are copied; fn gets the copy
 * @param [in]  touch  Copied.
 * @return 0, 201 no current context, 400 no such stream, or one of another context
 */
FAKECUDA_API int fakecuda_launch(void *stream, void (*fn)(const void *args), const void *args,
				 size_t bytes, const struct fakecuda_touch *touch, unsigned nr);

/** Close or open a stream's gate: behind a closed one nothing starts; what runs goes on. NULL: one
 *  gate before all streams, also those that are created later. Destroying a stream opens its own.
 *  400: no such stream. */
FAKECUDA_API int fakecuda_gate(void *stream, bool closed);

/** Wait this long before each operation of a stream, once it could run. NULL: of all streams, also
 *  later ones; the longer of the two counts. 400: no such stream. */
FAKECUDA_API int fakecuda_delay(void *stream, uint64_t ns);

/**
 * Begin to capture a stream into a graph, as the calling thread and in the mode global, or end it.
 * Until then threads whose own mode is not relaxed are refused what asks, waits, allocates or maps
 * (900), and a refused call spoils the capture; events recorded in the stream are never reached.
 * Other work queued on it is done as ever. 400: no such stream; at the end 901: it was spoiled.
 */
FAKECUDA_API int fakecuda_capture(void *stream, bool capturing);

/** The calling thread's capture mode; 0: global, as at first. */
FAKECUDA_API int fakecuda_capture_mode(void);

/** The n-th of the streams that live, in the order of their creation; NULL: there are fewer. */
FAKECUDA_API void *fakecuda_stream(unsigned n);

/** Device of a stream; -1: no such stream. */
FAKECUDA_API int fakecuda_stream_device(void *stream);

/** Device of the caller's current context; -1: none is. */
FAKECUDA_API int fakecuda_current_device(void);

/** Operations of a stream that are not done, NULL: of all, destroyed ones included. */
FAKECUDA_API uint64_t fakecuda_nr_pending(void *stream);

/* ------------------------------------------------------------------ kernels of programs */

/*
 * A program loads its kernels as any other does, by cuModuleLoadData() or cuLibraryLoadData(). The
 * image is a text: FAKECUDA_IMAGE, then a line "global NAME BYTES" for each variable of the module,
 * 8 of them at most, full of zeros at first; a line "shift N" has the kernels' handles in another
 * order. All kernels below are in it; one launch of a kernel
 * does the whole of its work, whatever the grid is. Words are uint32_t, and sums of them wrap.
 *
 *   fill        (word *dst, uint64_t nr, word value)
 *   copy        (word *dst, const word *src, uint64_t nr)
 *   add         (word *dst, const word *a, const word *b, uint64_t nr)
 *   scale       (float *x, uint64_t nr, float factor)
 *   sum         (word *out, const word *src, uint64_t nr)
 *   gather      (word *dst, const word *const *from, uint64_t nr)    dst[i] = *from[i]
 *   list_sum    (word *out, const struct node *first, uint64_t nr)   of nr nodes at most; a node is
 *               the address of the next one, or 0, and a uint64_t value
 *   load_table  (word *dst, uint64_t nr)    dst[i] = table[i], where the module has a variable
 *               "table" that holds the address of words
 *   addresses   (uint64_t *dst, uint64_t base, uint64_t stride, uint64_t nr)
 *               dst[i] = base + i * stride
 *   wait_flag   (const word *flag, word value)    until a kernel elsewhere stores that value
 *   store_flag  (word *flag, word value)
 *   read_texture  (word *dst, uint64_t texture, uint64_t nr)    through a texture object of words
 *   read_map    (word *dst, tensor map, uint64_t nr)    dst[i] = the i-th word of its memory
 *
 * What a kernel touches is known from its parameters when it is launched, and what it reaches by
 * addresses in memory when it starts.
 */
#define FAKECUDA_IMAGE "fakecuda kernels\n"

/* ------------------------------------------------------------------ what went wrong */

/**
 * Pairs of operations that met in memory without an order between them, at least one a copy or a
 * fill, and at least one writing. Looked at when one of them starts: the other runs, or is queued
 * and no event makes it wait for this one. Bytes are compared, not addresses. Two kernels are never
 * a pair. Copies of one batch that depend on each other count as well, and so does a change of
 * access that takes from work, running or queued, what it needs.
 */
FAKECUDA_API uint64_t fakecuda_nr_races(void);

/** Calls that unmapped or released addresses that running or queued work names. */
FAKECUDA_API uint64_t fakecuda_nr_unmaps_in_use(void);

/** One line on the first race, unmap in use or illegal address since the reset; empty: none. */
FAKECUDA_API void fakecuda_problem(char *text, size_t bytes);

/* ------------------------------------------------------------------ faults */

/**
 * Make the n-th driver call from now, counted from 1 over all that can fail, return result without
 * doing anything; once. 0: never. Calls that undo something (unmap, release, free, destroy, pop)
 * and those that only tell names and the version are not counted.
 */
FAKECUDA_API void fakecuda_fail_at(uint64_t n, int result);

/** Make a function, named "cuMemCreate" and so on, fail after skip more calls, from then on every
 *  time; result 0 ends it. Any function can fail in this way. "cuLaunchKernel" is
 *  fakecuda_launch(), too. False: no such function, or 8 others are set. */
FAKECUDA_API bool fakecuda_fail_symbol(const char *symbol, uint64_t skip, int result);

/** Calls that fakecuda_fail_at() counts, since the reset. */
FAKECUDA_API uint64_t fakecuda_nr_calls(void);

/** Calls of one function since the reset, failed ones included. */
FAKECUDA_API uint64_t fakecuda_nr_calls_of(const char *symbol);

/* ------------------------------------------------------------------ memory */

/** Bytes taken of a device's memory, or with -1 of the host's: handles, also released ones that are
 *  mapped, and plain allocations. */
FAKECUDA_API uint64_t fakecuda_used_bytes(int device);

/** Bytes of managed memory; they count nowhere else and have no limit. */
FAKECUDA_API uint64_t fakecuda_managed_bytes(void);

/**
 * What the caller may do at an address: CU_ACCESS_* bits (1 read, 3 read and write).
 *
 * @param [in]  device  -1: the CPU, outside kernels
 */
FAKECUDA_API int fakecuda_access(const void *addr, int device);

/** Number of things alive: handles, mappings, reservations, allocations, streams, events, modules,
 *  retains of contexts. file: one line on each; may be NULL. */
FAKECUDA_API unsigned fakecuda_leaks(FILE *file);

#ifdef __cplusplus
}
#endif

#endif
