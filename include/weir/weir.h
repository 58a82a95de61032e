/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir: unified virtual memory for GPUs, in user space.
 *
 * This header is the host interface but for paged memory (weir/paged.h), replicas (weir/replica.h)
 * traces (weir/trace.h) and policies (weir/policy.h), and its reference. The order is the order in
 * which a program meets it: machine, space, allocation, brackets, advice, plain memory, statistics.
 *
 * Conventions, unless a function says otherwise:
 *  - A function that acts on an object as a whole has the object in its name: weir_space_sync(),
 *    weir_pool_trim(), weir_mem_map(). What acts on a space's ranges and brackets, which programs
 *    call most, has none: weir_alloc(), weir_free(), weir_begin(), weir_end(), weir_advise(),
 *    weir_prefetch(), weir_read().
 *  - Devices, memories and links are named by their indexes in the machine's description. A mask of
 *    devices has WEIR_MEM_DEVICE(d) for device d.
 *  - Sizes are bytes, times are nanoseconds, ranges of addresses are half-open.
 *  - A function that returns int returns 0, or a negative errno, or a negative WEIR_E* code; see
 *    weir_strerror(). Outputs are written on success only.
 *  - Every function may be called from any thread. "Blocks" means: it may wait for work queued on
 *    the machine. No function blocks on anything that only the calling thread could release.
 *  - Objects are destroyed in the reverse order of creation. Destroying NULL is allowed.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#define WEIR_API __attribute__((visibility("default")))
#define WEIR_MUST_CHECK __attribute__((warn_unused_result))

/** Error codes of weir's own; all others are errno values. */
enum weir_error {
	/** A kernel touched an address that its bracket did not declare, or a moving one. */
	WEIR_ETRAP = 256,
	/** Calls out of order: a bracket ended twice, a space changed while in use. */
	WEIR_ECONTRACT,
	/** A machine description contradicts itself. */
	WEIR_EMACHINE,
};

/** "0.1.0". Never NULL, never freed. */
WEIR_API const char *weir_version(void);

/** A short text for a return value, negative or positive. Never NULL, never freed. */
WEIR_API const char *weir_strerror(int err);

enum weir_log_level { WEIR_LOG_ERROR, WEIR_LOG_WARNING, WEIR_LOG_INFO, WEIR_LOG_DEBUG };

/** One message, without a newline. Called with weir's locks held: it must not call weir. */
typedef void (*weir_log_fn)(void *arg, enum weir_log_level level, const char *message);

/**
 * Set where messages go. The default drops them: a library does not print.
 *
 * @param [in] fn   NULL restores the default.
 * @param [in] arg  Passed through. Borrowed for as long as it is set.
 */
WEIR_API void weir_log_set(weir_log_fn fn, void *arg);

/* ------------------------------------------------------------------ machine */

#define WEIR_NAME_MAX 32
#define WEIR_MEMORIES_MAX 17 /**< those of all devices and the host's */
#define WEIR_DEVICES_MAX 16
#define WEIR_LINKS_MAX 136 /**< one for each pair of memories */
#define WEIR_KERNELS_MAX 64
#define WEIR_PORTS_MAX 136 /**< eight for each memory */

enum weir_memory_kind { WEIR_MEMORY_HOST, WEIR_MEMORY_HBM };

/** A pool of bytes at one place. */
struct weir_memory_desc {
	char name[WEIR_NAME_MAX]; /**< "host", "gpu0" */
	enum weir_memory_kind kind;
	uint64_t bytes; /**< what programs can use of it */
};

/** A GPU. All rates are sustained ones. */
struct weir_device_desc {
	char name[WEIR_NAME_MAX];
	uint32_t memory;	       /**< index of its HBM */
	double hbm_bytes_per_s;	       /**< reads plus writes, streaming */
	double hbm_random_bytes_per_s; /**< same, whole 32-byte sectors at random */
	double ops_per_s;	       /**< fp32 operations, as matrix products reach them */
	uint64_t launch_ns;	       /**< least time of a kernel on the device */
	uint64_t launch_host_ns;       /**< time of a launch call on the host */
	uint64_t malloc_ns;	       /**< cudaMalloc + cudaFree of one tensor, fixed part */
	uint64_t malloc_2mib_ns;       /**< same, for each 2 MiB of it */
	/** Time of a thread of the host to make a plan for the device, for each unit of its
	 * search's work, while the program goes on; 0: a plan is there at once. Counts where the
	 * machine is simulated. */
	uint64_t plan_work_ns;
};

/** A path between two memories, both ways. */
struct weir_link_desc {
	uint32_t a, b;		      /**< memories; for a GPU's host link, a is the host */
	double a_to_b_bytes_per_s;    /**< copy engine, alone */
	double b_to_a_bytes_per_s;    /**< copy engine, alone */
	double duplex_bytes_per_s;    /**< each way when both ways are busy */
	uint64_t latency_ns;	      /**< of one copy, added to its transfer time */
	uint64_t copy_ns;	      /**< engine time of one piece beyond its bytes */
	double inplace_bytes_per_s;   /**< a kernel that reads or writes over the link, streaming */
	double inplace_small_per_s;   /**< random accesses a second, footprint within reach */
	double inplace_large_per_s;   /**< those that miss address translation */
	uint64_t inplace_reach_bytes; /**< translation reach: what it holds of a footprint */
	uint32_t inplace_request_bytes; /**< bytes of one access: a larger piece is several */
	/** Each way when a kernel reads in place one way and copies go the other. */
	double inplace_duplex_bytes_per_s;
	double inplace_both_bytes_per_s;   /**< each way when a kernel reads and writes in place */
	double inplace_update_large_per_s; /**< random pieces read and written that miss */
	/** Of a kernel's time on the link and that of its work in own memory, the share of the
	 * shorter one that does not overlap with the other, 0 to 1: when it uses memory over the
	 * link in order (WEIR_STREAM), */
	double inplace_serial;
	double inplace_serial_random; /**< and at random. With both: the mean, by link time */
	/** From a fence of the device at one end to what waits for it on the other. */
	uint64_t event_ns;
	uint64_t copy_host_ns; /**< time of the calling thread for one piece of a copy */
};

/**
 * What a memory sends and receives over several of its links together, where that is less than the
 * links' rates add up to. The port of a device's memory has its links to other devices' memories,
 * not those to the host's; a host memory's has all. A memory may be in several of these: the one
 * with the most links that are not more than those busy in the direction counts; with fewer busy
 * links the port limits nothing. Kernels of a device whose memory is in any share
 * hbm_bytes_per_s with what else goes through that memory.
 */
struct weir_port_desc {
	uint32_t memory;
	uint32_t links;		    /**< busy in one direction; at least that number */
	double send_bytes_per_s;    /**< out of the memory, over all of them together */
	double receive_bytes_per_s; /**< into it, the same */
};

/** What the mapping calls cost. For a device's memory it does not depend on the size mapped. */
struct weir_vmm_desc {
	uint64_t granularity_bytes; /**< a chunk's size is a multiple of this */
	uint64_t map_ns;
	uint64_t set_access_ns;	       /**< with one device in the access list */
	uint64_t set_access_device_ns; /**< for each further one */
	uint64_t unmap_ns;
	/** More for each MiB of host memory and each device: the host's pages are small. */
	uint64_t set_access_host_mib_ns;
	uint64_t unmap_host_mib_ns;  /**< more for each MiB of host memory */
	uint64_t set_access_busy_ns; /**< more while copies go to the host or kernels read there */
	/** More while copies come from the host to a device that is given access. */
	uint64_t set_access_busy_in_ns;
	/** More while copies go between a device that had access and another one, either way. */
	uint64_t unmap_busy_peer_ns;
	uint64_t create_hbm_ns;	 /**< one chunk, mapped for copies by one device */
	uint64_t create_host_ns; /**< the same of host memory, pinned */
};

/** What the driver's managed memory costs. Pages are of 4 KiB, blocks of 2 MiB. */
struct weir_uvm_desc {
	uint32_t batch_faults; /**< taken at a time, at most; 0: there is no managed memory */
	uint64_t batch_ns;     /**< one batch of faults on one block, from interrupt to replay */
	uint64_t page_ns;      /**< going through one page, in a fault or an eviction */
	uint64_t populate_ns;  /**< giving one block device memory, cleared and mapped */
	uint64_t cpu_unmap_ns; /**< taking one page away from the CPU, in a fault */
	uint64_t host_page_ns; /**< one page of the host: allocate, clear, map for DMA, give back */
	/** What the driver takes of each GPU's memory for the program itself, its context: managed
	 * memory never has it. */
	uint64_t context_bytes;
};

/**
 * How a kernel compares with what the device's rates make of its declared bytes and operations. For
 * kernels that are not listed: 1.
 */
struct weir_kernel_rate {
	char name[WEIR_NAME_MAX]; /**< of struct weir_kernel */
	double factor; /**< time of its bytes in HBM and of its operations, over the modelled */
};

/** A whole machine: what a simulated one is made from, and what a real one was found to be. */
struct weir_machine_desc {
	char name[WEIR_NAME_MAX];
	uint32_t nr_memories, nr_devices, nr_links, nr_kernels;
	struct weir_memory_desc memory[WEIR_MEMORIES_MAX];
	struct weir_device_desc device[WEIR_DEVICES_MAX];
	struct weir_link_desc link[WEIR_LINKS_MAX];
	struct weir_vmm_desc vmm;
	struct weir_uvm_desc uvm;
	struct weir_kernel_rate kernel[WEIR_KERNELS_MAX]; /**< no name twice */
	uint32_t nr_ports;
	struct weir_port_desc port[WEIR_PORTS_MAX]; /**< no memory twice with one number of links */
};

/** How a simulated machine holds bytes. */
enum weir_data {
	WEIR_DATA_REAL,	   /**< memories are bytes and kernels run, on the CPU */
	WEIR_DATA_PHANTOM, /**< no bytes, kernels only take time: any size fits a laptop */
};

struct weir_machine;

/**
 * Make a simulated machine.
 *
 * @param [in]  desc  Copied.
 * @param [in]  data  Whether it holds bytes.
 * @param [out] out   Owned by the caller; weir_machine_close() it.
 * @return 0, or
 *   -WEIR_EMACHINE  desc contradicts itself (the log says where)
 *   -EINVAL         data is neither of the two
 *   -ENOMEM         no memory for its structures, or no addresses for its memories
 */
WEIR_API WEIR_MUST_CHECK int weir_machine_simulate(const struct weir_machine_desc *desc,
						   enum weir_data data, struct weir_machine **out);

/**
 * Open the GPUs of this computer, as many of them as the process may see, as one machine. The CUDA
 * driver is opened here, and needed nowhere else. It uses the devices' primary contexts, as the
 * program's own CUDA calls do; addresses of spaces serve any kernel that runs there.
 *
 * GPUs that cannot map memory by handles are left out, with a warning. The memory of the host is
 * that of the first GPU's NUMA node, within the limits of the process's control groups. Threads of
 * weir's own take none of the program's signals.
 *
 * The environment variable WEIR_CUDA_DEBUG, set to 1, switches debug mode on: blocks of planned
 * spaces can be touched only inside brackets and only as these declare, each launch is waited for
 * and its fault told with the kernel's name. It costs time and changes no result.
 *
 * @param [in]  measured  Rates and costs that were measured on this very computer; copied. NULL:
 *                        estimates. Sizes are always the computer's own.
 * @param [out] out       Owned by the caller; weir_machine_close() it.
 * @return 0, or
 *   -ENODEV   no driver, or no GPU that this process may see
 *   -ENOTSUP  the driver is too old, or every GPU
 *   -EIO      the driver does not start
 *   -EINVAL   WEIR_CUDA_DEBUG is neither 0 nor 1
 *   -ENOMEM   no memory for its structures or a GPU's context, or none that can be pinned
 *   -WEIR_EMACHINE  with measured, the description contradicts itself
 *   or another error of the driver. The log says what to do about it.
 */
WEIR_API WEIR_MUST_CHECK int weir_machine_cuda(const struct weir_machine_desc *measured,
					       struct weir_machine **out);

/** Close a machine. Its spaces, pools and streams are destroyed before. */
WEIR_API void weir_machine_close(struct weir_machine *machine);

/** The machine's description. Borrowed, valid until the machine is closed. */
WEIR_API const struct weir_machine_desc *weir_machine_describe(const struct weir_machine *machine);

/**
 * Check a description: counts, indexes, names, rates, sizes and factors above zero, one HBM a
 * device, a host memory, a link between the host and each device, managed memory whole or not at
 * all.
 *
 * @param [out] why   Text of the first contradiction, cut to bytes. May be NULL.
 * @return 0 or -WEIR_EMACHINE.
 */
WEIR_API WEIR_MUST_CHECK int weir_machine_check(const struct weir_machine_desc *desc, char *why,
						size_t bytes);

/**
 * Find a memory by name.
 * @return its index, or -ENOENT.
 */
WEIR_API WEIR_MUST_CHECK int weir_memory_find(const struct weir_machine *machine, const char *name);

/** Time since the machine was opened: virtual on a simulated machine. */
WEIR_API uint64_t weir_machine_now_ns(const struct weir_machine *machine);

/* ------------------------------------------------------------------ streams, kernels */

struct weir_stream;

/**
 * Create a stream: work queued on it runs in order.
 *
 * @param [in]  device  Index of the device that runs it.
 * @param [out] out     Owned by the caller; weir_stream_destroy() it.
 * @return 0, -EINVAL (no such device), -ENOMEM (65,535 of the machine live, those of spaces and
 *         pools among them; or no memory), or an error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_stream_create(struct weir_machine *machine, uint32_t device,
						struct weir_stream **out);

/**
 * A stream of the program's own as one of weir's: brackets on it cover what the program queues on
 * it by CUDA's own calls.
 *
 * @param [in]  device  Index of the device that runs it. The stream is of that device's primary
 *                      context, which is what the CUDA runtime uses.
 * @param [in]  native  A CUstream (or cudaStream_t). Borrowed: it outlives the stream made here.
 *                      CU_STREAM_LEGACY is the default stream of the device's primary context.
 *                      CU_STREAM_PER_THREAD is the calling thread's, and in each later call the
 *                      stream of the thread that makes that one. Not NULL.
 * @param [out] out     Owned by the caller; weir_stream_destroy() leaves the native one as it is.
 * @return 0; -EINVAL: no such device, no stream, or one of another context; -ENOSYS: a simulated
 *         machine; -ENOMEM, or another error of the machine, as weir_stream_create().
 */
WEIR_API WEIR_MUST_CHECK int weir_stream_adopt(struct weir_machine *machine, uint32_t device,
					       void *native, struct weir_stream **out);

/** Destroy a stream. It has no open bracket. Blocks until its work is done. */
WEIR_API void weir_stream_destroy(struct weir_stream *stream);

/**
 * The CUstream that stands behind a stream of weir_machine_cuda(), for the program's own kernels
 * and copies. Borrowed: valid until the stream is destroyed. NULL on a simulated machine.
 *
 * Capturing streams into CUDA graphs: while a stream is captured, no bracket begins or ends on it,
 * since what a bracket places may move before the graph runs, and nothing waits for it. Captures of
 * other streams, by any thread and in any mode, disturb weir in nothing and weir does not disturb
 * them.
 */
WEIR_API void *weir_stream_native(const struct weir_stream *stream);

/**
 * Wait until all work queued on the stream is done. Blocks; on real GPUs the thread keeps its
 * processor for the first 2 ms, since one that sleeps wakes 50 to 200 us late (H200).
 * @return 0, or the first error of that work since the last call: -WEIR_ETRAP, -EIO. Where a space
 *         has waited for the work before, to reuse what it used, weir_space_sync() has the error.
 *         -WEIR_ECONTRACT: the stream is being captured into a CUDA graph, and nothing was waited
 *         for. Or an error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_stream_sync(struct weir_stream *stream);

/**
 * Make what is queued on a stream from here on wait, on the device, for what is queued on another
 * one so far. For launches outside brackets (in a fixed space, on plain memory): brackets are
 * ordered by themselves, see weir_begin().
 *
 * @param [in] other  Of the same machine, of any device. May be the stream itself.
 * @return 0, -EINVAL (streams of two machines), or an error of the machine; then it does not wait.
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_stream_wait(struct weir_stream *stream,
					      struct weir_stream *other);

/**
 * The same, for what is queued so far on a CUstream of the program's own.
 *
 * @param [in] native  A CUstream (or cudaStream_t) of any context of this process. Borrowed. NULL:
 *                     the default stream of the stream's device.
 * @return 0; -ENOSYS: a simulated machine; -WEIR_ECONTRACT: one of the two is being captured into a
 *         CUDA graph; or an error of the machine. On error it does not wait.
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_stream_wait_native(struct weir_stream *stream, void *native);

/** How a launch touches a range: a contract. The first four are in order of strength. */
enum weir_use_kind {
	WEIR_READ,	/**< reads only */
	WEIR_WRITE,	/**< may read and write: what was there is still needed */
	WEIR_OVERWRITE, /**< writes every byte before any read: what was there is dead */
	WEIR_DISCARD,	/**< touches nothing; what was there is dead, see weir_begin() */
	/**
	 * For brackets: WEIR_READ of those elements of the part that the stream's device subscribed
	 * to by weir_subscribe_elements() (weir/replica.h); what else the part has is undefined in
	 * the device's window. Without such a list, and anywhere but in a window, it is WEIR_READ.
	 * Launches in the bracket declare WEIR_READ.
	 */
	WEIR_READ_ELEMENTS,
	WEIR_ATOMIC, /**< may read and write, by atomics of system scope alone; see weir_begin() */
};

/** How the touched bytes lie in the part. A hint: wrong ones cost speed only. */
enum weir_use_pattern {
	WEIR_STREAM, /**< in order, each once */
	WEIR_RANDOM, /**< pieces of granule bytes, anywhere in the part */
};

/** What a bracket's launches do with one part of one range. */
struct weir_use {
	void *addr;	/**< first byte, any alignment */
	uint64_t bytes; /**< > 0, inside one range */
	enum weir_use_kind kind;
	enum weir_use_pattern pattern;
	uint64_t read_bytes;  /**< bytes read in all, repeats included; hint */
	uint64_t write_bytes; /**< bytes written in all; hint */
	uint32_t granule;     /**< for WEIR_RANDOM: bytes of one contiguous piece; 0: one word */
};

/**
 * A kernel. It must touch only what the launch's uses name. On a simulated machine with real data,
 * cpu runs on the host.
 */
struct weir_kernel {
	const char *name; /**< static text, for reports */
	void (*cpu)(const void *args);
	/** Queue it on a CUstream of the device whose context is current. It has read args when it
	 * returns 0 or a negative error. NULL: it does not run on real GPUs. */
	int (*cuda)(void *stream, const void *args);
};

/** One execution of a kernel. */
struct weir_launch {
	const struct weir_kernel *kernel; /**< borrowed for as long as the machine lives */
	const void *args;		  /**< args_bytes are copied */
	size_t args_bytes;
	const struct weir_use *uses; /**< copied */
	uint32_t nr_uses;
	double ops; /**< fp32 operations that go through matrix units */
};

/**
 * Queue one execution of a kernel. Does not block, but in the debug mode of weir_machine_cuda().
 *
 * Inside a bracket of a space the uses lie within the bracket's; the simulator traps what does
 * not (weir_stream_sync() then returns -WEIR_ETRAP, and the log names kernel, range and block).
 *
 * @return 0, or, and nothing was queued:
 *   -EINVAL  a use outside all memory, or of no bytes; no kernel, or one without a name; uses or
 *            arguments that are counted and not there. On a simulated machine also a use of no
 *            known kind or pattern, and ops that are negative or not finite
 *   -ENOSYS  the kernel has no version for this machine, logged: it needs cpu on a simulated one
 *            with bytes and cuda on real GPUs; on one without bytes it needs neither
 *   -ENOMEM
 *   or an error of the machine, or the one that kernel->cuda returned.
 *   In debug mode also -WEIR_ECONTRACT: no open bracket of the stream allows a use, and nothing
 *   was queued; -WEIR_ETRAP: the kernel was queued and faulted. Both are logged.
 */
WEIR_API WEIR_MUST_CHECK int weir_stream_launch(struct weir_stream *stream,
						const struct weir_launch *launch);

/* ------------------------------------------------------------------ spaces */

struct weir_space;

enum weir_space_mode {
	WEIR_FIXED,   /**< nothing moves: any kernel may run at any time, no brackets needed */
	WEIR_PLANNED, /**< blocks move between brackets: a kernel runs inside a bracket */
};

struct weir_space_config {
	/** WEIR_MEM_DEVICE() of the devices whose streams open brackets in it; 0: device 0. Of
	 *  several, what one device alone uses is kept in its memory and planned for it. Of what
	 *  several use, each block is kept where the device that made its last two uses has it in
	 *  its own memory; the others use it there, in place. */
	uint64_t devices;
	/** How much of each memory it may use, by its index. 0: of the devices' own memory and the
	 *  host's all that is free, of any other none. With another GPU's memory, what does not fit
	 *  goes there and then to the host's. */
	uint64_t budget_bytes[WEIR_MEMORIES_MAX];
	/** Of another GPU's memory: how much of what is there may be without a copy on the host, so
	 *  that it can be given back at once; see weir_space_set_budget(). 0: 1 GB. What is beyond
	 *  it is copied to the host in the background, over that GPU's own link, where the host's
	 *  budget has room; nobody waits for that, so that there is more while a program writes
	 *  faster than the link carries. In a planned space. */
	uint64_t dirty_max_bytes[WEIR_MEMORIES_MAX];
	/** A multiple of the machine's granularity, below 4 GiB. 0: the largest of 56, 28, 16
	 *  and 8 MiB of which the budget of the device's own memory has 512 (of several devices',
	 *  the smallest); with less than 64 of 8 MiB, halved until it has. */
	uint64_t block_bytes;
	enum weir_space_mode mode;
};

/**
 * Create a space. A budget is a limit, and memory is taken within it as it is needed. What a space
 * then does not use (of freed ranges, of blocks without contents, second copies on the host) others
 * of the machine get that have no room, and the other way round.
 *
 * @param [in]  machine  Outlives the space. Borrowed.
 * @param [in]  config   Copied.
 * @param [out] out      Owned by the caller; weir_space_destroy() it.
 * @return 0, or
 *   -EINVAL   a budget beyond the memory or below two blocks, a block size that is not a multiple
 *             of the granularity or not below 4 GiB, an unknown device, memory or mode
 *   -ENOTSUP  a budget of a memory that has no link to the others, or is not the host's memory
 *             that spaces use; several devices with the same memory of their own
 *   -ENOMEM   a budget beyond what other programs leave free now (the log says how much that is,
 *             and who they are), or no memory for its structures
 *   or an error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_space_create(struct weir_machine *machine,
					       const struct weir_space_config *config,
					       struct weir_space **out);

/**
 * Destroy a space and free its ranges. Paged pools that are in it are destroyed before; those that
 * are not go on without it. Blocks until work of ended brackets is done. In another
 * process than the one that created it (after a fork) it does nothing.
 */
WEIR_API void weir_space_destroy(struct weir_space *space);

/**
 * Change the mode. Blocks until the brackets that ended are done and nothing moves; brackets that
 * other threads begin meanwhile open afterwards. In a fixed space prefetches that are not done end
 * where they are.
 * @return 0, or -EINVAL (an unknown mode), -WEIR_ECONTRACT (a bracket is open), -EBUSY (fixed, and
 *         a range is replicated, which needs brackets), -ENOMEM (not all ranges can be backed), or
 *         an error of the work waited for or of the machine. On error the mode is the old one.
 */
WEIR_API WEIR_MUST_CHECK int weir_space_set_mode(struct weir_space *space,
						 enum weir_space_mode mode);

/**
 * Change the budget of a memory that the space was made with. It binds at once for whatever is
 * taken. What is beyond it leaves: first what holds nothing that is needed, then blocks that have a
 * copy below, then others, to the next memory of the space with room. The plan is made anew.
 *
 * @param [in] memory  Index.
 * @param [in] bytes   As in struct weir_space_config; but 0 for another memory than the device's
 *                     own and the host's gives all of it back.
 * @return 0, or
 *   -EINVAL  the space has no such memory; below two blocks, or below what allocations below one
 *            block hold there; beyond the memory
 *   -ENOMEM  beyond what others leave free; or what is to leave has nowhere else to be. Nothing
 *            changed but that some of it may have moved
 *   -EBUSY   open brackets, or a fixed space, hold the rest (the log says how much): the new budget
 *            is in force, and the rest leaves as they end, or when the space is no longer fixed
 *   or an error of the machine; then the budget is the old one.
 * Blocks: for brackets that ended and for copies; for its turn, as weir_alloc().
 */
WEIR_API WEIR_MUST_CHECK int weir_space_set_budget(struct weir_space *space, uint32_t memory,
						   uint64_t bytes);

/**
 * Wait until every ended bracket and every migration of the space is done, and until what is beyond
 * a budget and can leave has left; see weir_space_set_budget(). Blocks. Work counts as
 * done when the driver says that it is, or that its context is lost: while it gives no answer, this
 * and all that waits for work in a space goes on waiting.
 * @return 0, or the first error of that work since the last call, or of asking for it.
 */
WEIR_API WEIR_MUST_CHECK int weir_space_sync(struct weir_space *space);

/**
 * Allocate a range. Its contents are undefined. It is reachable from the space's device and, in
 * host brackets, from the CPU, at this one address until it is freed.
 *
 * Freed addresses are reused, exact size first, last in first out. Brackets of the new range come
 * after those of the old one, see weir_begin(). In a fixed space, where launches need no bracket,
 * the stream named here waits on the device for the one that weir_free() named.
 *
 * @param [in]  bytes   > 0. Rounded up to whole blocks, or to 256 below one block.
 * @param [in]  stream  Where it is used first. May be NULL: anywhere; in a fixed space it then
 *                      blocks until the work that weir_free() was told of is done.
 * @param [out] addr    Free it with weir_free().
 * @return 0, or
 *   -EINVAL  bytes is 0 or too large to round up
 *   -ENOMEM  the budgets together have no room for it; the log says what each has left
 *   or an error of the machine
 * Blocks: for its turn, while another thread's call places blocks; in a fixed space and below one
 * block, for chunks that freed ranges still use.
 */
WEIR_API WEIR_MUST_CHECK int weir_alloc(struct weir_space *space, uint64_t bytes,
					struct weir_stream *stream, void **addr);

/**
 * Free a range. Brackets begun before may still use it; its contents are dead when they are done.
 *
 * @param [in] addr    As weir_alloc() returned it. NULL is allowed.
 * @param [in] stream  In a fixed space: what is queued on it so far may still use the range. NULL:
 *                     it is no longer in use. In a planned space brackets tell, and it may be NULL.
 * @return 0, -EINVAL (no such range), or in a fixed space -ENOMEM or an error of the machine. On
 *         error nothing was freed.
 */
WEIR_API int weir_free(struct weir_space *space, void *addr, struct weir_stream *stream);

/* ------------------------------------------------------------------ brackets */

/**
 * Open a bracket on a stream: place and pin what its launches use. In a planned space a stream
 * has at most one open bracket, and every launch that touches the space's ranges is inside one.
 *
 * Kinds are a contract, never weaker than the truth; pattern and byte counts are hints. A block
 * only partly covered by WEIR_OVERWRITE counts as WEIR_WRITE. Uses may overlap: the strongest
 * kind that keeps the contents counts. When it returns, the mappings are final until weir_end().
 *
 * Order: calls are the order. Two brackets conflict where bytes that they declare overlap and one
 * of the two uses is not WEIR_READ (a discard counts as a write; of WEIR_ATOMIC see below). A
 * bracket comes after every bracket that it conflicts with and whose weir_end() returned before
 * this was called: its stream waits for that one on the device, the host does not wait. Readers do
 * not wait for readers.
 * weir_read(), weir_write() and host brackets keep the same order. Brackets that conflict and are
 * open together have none: the simulator and debug mode trap launches in the second of them. What
 * is launched outside brackets (in fixed spaces, on plain memory, by the program's own CUDA calls)
 * the program orders, with weir_stream_wait() or as it likes; streams do not wait for CUDA's
 * default stream.
 *
 * WEIR_ATOMIC is WEIR_WRITE but that uses of this kind have no order with each other, on whatever
 * stream or device: brackets with them may be open together, and their launches run together. They
 * use the bytes where these are, which is one place while such a bracket is open: their own memory,
 * the host's, or another GPU's if the link carries atomics (NVLink does). Kernels that wait for
 * what each other store (flags) are launched in brackets that are all open before one of them ends,
 * since weir_begin() may wait for those that ended. Not on a simulated machine, nor in debug mode:
 * there one launch is done before the next one begins. Such a use names memory of weir_alloc() at
 * its own address. In host brackets it counts as WEIR_WRITE.
 *
 * A discard takes the contents at once, but for blocks that another open bracket names, which keep
 * them, and in a fixed space, where all do.
 *
 * Uses may name ranges of paged memory that is in the space (weir/paged.h), by their addresses on
 * the host: their pools are online until what was queued before weir_end() is done, and
 * weir_paged_view_get() has what kernels need. WEIR_OVERWRITE counts as WEIR_WRITE there, and a
 * discard does nothing. A pool that is online on another stream, by brackets that ended, is waited
 * for.
 *
 * @param [in] uses     Copied. NULL with nr_uses 0 names the whole space, WEIR_WRITE.
 * @return 0, or
 *   -EINVAL          the stream is of a device that the space was made without; a use is empty,
 *                    not inside one range or of no known kind; nr_uses is 0 and
 *                    uses not NULL, or the other way round; a use of paged memory or of a
 *                    replicated range's window is WEIR_ATOMIC; of replicated ranges, a use names
 *                    another device's window, or bytes both through a window and at the one copy
 *   -WEIR_ECONTRACT  the stream has an open bracket, or is being captured into a CUDA graph
 *   -EBUSY           an open host bracket conflicts with it, or another bracket is open that
 *                    uses the same paged pool
 *   -ENOMEM          no memory for the structures; nothing was pinned
 *   or an error of the machine. On error no bracket is open, and what it was to overwrite or to
 *   discard may be lost.
 * Blocks: for brackets that ended, when blocks they used must move. Never for open ones.
 */
WEIR_API WEIR_MUST_CHECK int weir_begin(struct weir_space *space, struct weir_stream *stream,
					const struct weir_use *uses, uint32_t nr_uses);

/**
 * Open a bracket for launches that may touch any range of the space, by pointers that nobody
 * knows of, say. All ranges are mapped, and stay where they are until what is queued before
 * weir_end() is done. What `uses` names is placed as weir_begin() places it, and is what plans are
 * made of; all else is left where it lies, here or there, unless it has to make room for that, and
 * counts as WEIR_ATOMIC: so it has no order with other uses of this kind, and counts as written. In
 * it launches may declare uses of any kind.
 *
 * It costs more than weir_begin(): in work for each range that is new or has moved, in mapping on
 * the host what was not used since it went there, and since what it may touch cannot move while it
 * runs.
 *
 * @param [in] uses  What is known to be used, as for weir_begin(). NULL with nr_uses 0: nothing is.
 * @return as weir_begin(); also -ENOTSUP: the space has several devices or replicated ranges. Paged
 *         ranges are left out: they have no addresses that kernels could hold.
 */
WEIR_API WEIR_MUST_CHECK int weir_begin_open(struct weir_space *space, struct weir_stream *stream,
					     const struct weir_use *uses, uint32_t nr_uses);

/**
 * Close the stream's bracket: what was queued on the stream up to here is what it covers. Work
 * forked to other streams has joined before. A bracket whose launches failed is ended as any other.
 * Does not block.
 * What goes wrong with paged memory as the bracket ends is told by weir_space_sync(), and what its
 * kernels did wrong by weir_paged_sync().
 * @return 0; or -WEIR_ECONTRACT: no bracket is open, or the stream is being captured into a CUDA
 *         graph; or an error of the machine. On error the bracket is as it was: what it names stays
 *         where it is until weir_end() returns 0.
 */
WEIR_API WEIR_MUST_CHECK int weir_end(struct weir_space *space, struct weir_stream *stream);

/**
 * Open a host bracket: bring what the CPU will touch to the host. CPU access outside one faults.
 * Blocks until it is there and no launch uses it. Any number may be open; each use is pinned on
 * the host until weir_host_end() is called with the same uses.
 *
 * @return 0, or
 *   -EINVAL  no uses, or a use is empty, not inside one range or of no known kind
 *   -EBUSY   an open bracket on a stream holds a block, or a block of a fixed space is not on the
 *            host (weir_read() and weir_write() reach it there)
 *   -ENOMEM  the host budget has no room, or no memory for the structures
 *   -ENOTSUP a use is of a paged range: the host reaches its bytes after weir_paged_flush()
 *   or an error of the machine. On error no bracket is open.
 */
WEIR_API WEIR_MUST_CHECK int weir_host_begin(struct weir_space *space, const struct weir_use *uses,
					     uint32_t nr_uses);

/**
 * Close a host bracket. Ranges that were freed meanwhile are still named as they were.
 *
 * @param [in] uses  As weir_host_begin() got them: addresses, sizes, kinds, order.
 * @return 0, -EINVAL (no uses), or -WEIR_ECONTRACT (no such bracket is open).
 */
WEIR_API WEIR_MUST_CHECK int weir_host_end(struct weir_space *space, const struct weir_use *uses,
					   uint32_t nr_uses);

/**
 * Copy a buffer of the program into a range, or a range into a buffer, wherever its blocks are;
 * nothing moves. In order with the brackets that ended, on every stream. Of a paged range it is
 * what weir_paged_write() and weir_paged_read() are, once the pool is not online.
 *
 * @param [in] addr    Inside a live range.
 * @param [in] data    bytes of them. NULL on a machine without bytes: only time and state change.
 * @param [in] bytes   > 0. The whole of it lies inside one range.
 * @return 0, -EINVAL (not inside one range; no data on a machine with bytes), -EBUSY (an open
 *         bracket uses it), -ENOMEM (a block never used before finds no room), or the error of the
 *         work waited for, or of the machine.
 * Blocks.
 */
WEIR_API WEIR_MUST_CHECK int weir_write(struct weir_space *space, void *addr, const void *data,
					uint64_t bytes);
WEIR_API WEIR_MUST_CHECK int weir_read(struct weir_space *space, void *data, const void *addr,
				       uint64_t bytes);

/* ------------------------------------------------------------------ advice, prefetch */

enum weir_advice {
	WEIR_ADVISE_DEFAULT,	   /**< undo the others */
	WEIR_ADVISE_PREFER_MEMORY, /**< where = memory: keep it there, in place if need be */
	WEIR_ADVISE_READ_MOSTLY,   /**< keep the lower copy valid: evicting costs no copy */
	WEIR_ADVISE_ACCESSED_BY,   /**< where = device: map for it ahead of its first use */
};

/**
 * Advise on a range. Advice costs or gains speed, never correctness.
 *
 * @param [in] addr    Inside a live range; the advice is on the whole of it.
 * @param [in] where   A memory or a device, as the advice says; else 0.
 * @return 0, -EINVAL (no such range, memory, device or advice), -ENOTSUP (a paged range), or an
 *         error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_advise(struct weir_space *space, void *addr,
					 enum weir_advice advice, uint32_t where);

struct weir_fence;

/**
 * Start moving part of a range into a memory ahead of use.
 *
 * @param [in]  addr    First byte; any alignment; widened to whole blocks.
 * @param [in]  bytes   > 0. The whole of it lies inside one range.
 * @param [in]  memory  Index from weir_memory_find(): the device's HBM or the host.
 * @param [out] fence   Owned by the caller; weir_fence_put() it. May be NULL.
 * @return 0: queued, not finished; blocks that a launch uses or that an open bracket pins stay.
 *   On error nothing was queued:
 *   -EINVAL  bytes is 0, or not inside one range, or no such memory
 *   -ENOTSUP a paged range
 *   -ENOMEM  the memory is full and every candidate is pinned, or no memory for the structures
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_prefetch(struct weir_space *space, void *addr, uint64_t bytes,
					   uint32_t memory, struct weir_fence **fence);

/** @return 1 when done, 0 when not, or the error of the work. Does not block. */
WEIR_API WEIR_MUST_CHECK int weir_fence_query(struct weir_fence *fence);

/** Wait for a fence. Blocks. @return 0 or the error of the work. */
WEIR_API WEIR_MUST_CHECK int weir_fence_wait(struct weir_fence *fence);

/** Give a fence back, done or not. NULL is allowed. */
WEIR_API void weir_fence_put(struct weir_fence *fence);

/* ------------------------------------------------------------------ plain memory */

/*
 * Memory that is where the program wants it, and stays: shared by the CPU and several GPUs at one
 * address, or used by copy engines alone. A pool allocates objects of it; docs/memory.md says how.
 */

struct weir_pool;
struct weir_mem;

enum weir_guard {
	WEIR_GUARD_DEFAULT, /**< on in builds that check invariants, else off */
	WEIR_GUARD_OFF,
	WEIR_GUARD_ON, /**< a pattern behind each object shows who wrote beyond its end */
};

struct weir_pool_config {
	const char *name;			 /**< for reports; copied, cut. NULL: "pool" */
	uint64_t limit_bytes[WEIR_MEMORIES_MAX]; /**< of objects, by memory; 0: all there is */
	enum weir_guard guard;
};

/**
 * Make a pool of plain memory. It takes memory of the machine as objects need it.
 *
 * The environment variable WEIR_MEMORY_FILE, set to 1, has each pool keep a file that says what is
 * in it, for `weir info --memory`; only the user can read it.
 *
 * @param [in]  machine  Outlives the pool. Borrowed.
 * @param [in]  config   Copied. NULL: all zero.
 * @param [out] out      Owned by the caller; weir_pool_destroy() it.
 * @return 0, -EINVAL (no such guard mode, WEIR_MEMORY_FILE is neither 0 nor 1) or -ENOMEM.
 */
WEIR_API WEIR_MUST_CHECK int weir_pool_create(struct weir_machine *machine,
					      const struct weir_pool_config *config,
					      struct weir_pool **out);

/**
 * Destroy a pool. Objects that are left are told as warnings, each with its size, age, owner and
 * the line that allocated it, and freed: no queued work uses them. In another process than the one
 * that created it (after a fork) it does nothing. Blocks until the pool's own work is done.
 */
WEIR_API void weir_pool_destroy(struct weir_pool *pool);

/** Tell each live object of the pool as a message of level WEIR_LOG_INFO. @return how many. */
WEIR_API uint64_t weir_pool_report(struct weir_pool *pool);

/** Give back memory that no object uses. @return bytes given back to the machine. */
WEIR_API uint64_t weir_pool_trim(struct weir_pool *pool);

struct weir_pool_stats {
	uint64_t nr_objects[WEIR_MEMORIES_MAX];
	uint64_t object_bytes[WEIR_MEMORIES_MAX]; /**< of their pages */
	uint64_t held_bytes[WEIR_MEMORIES_MAX];	  /**< had from the machine, unused ones too */
	/** By device: of objects not in its own memory, what its copy engines may use. */
	uint64_t dma_bytes[WEIR_DEVICES_MAX];
	uint64_t nr_unmaps_late; /**< frees that wait for work, or for an unmapping that failed */
};

/** Copy the pool's statistics. Does not block. */
WEIR_API void weir_pool_query(struct weir_pool *pool, struct weir_pool_stats *out);

/**
 * Walk every structure of the pool, and with guards look at each object's. Objects are neither
 * freed nor written beyond their end meanwhile.
 * @return 0; -EUCLEAN: the log says which invariant, or which object was written beyond its end;
 *         -ECHILD: the pool is the parent process's; or an error of the machine, which did not let
 *         guards be read.
 * Blocks: with guards.
 */
WEIR_API WEIR_MUST_CHECK int weir_pool_check(struct weir_pool *pool);

/** For struct weir_mem_params: let weir choose the memory by the use. */
#define WEIR_MEMORY_ANY UINT32_MAX

/** How an object is going to be used; for the choice of its memory. */
struct weir_mem_use {
	uint64_t devices; /**< WEIR_MEM_DEVICE() of those that use it; 0: the CPU alone */
	int cpu;	  /**< the CPU uses it too, at its address */
	enum weir_use_pattern pattern;
	uint32_t granule; /**< for WEIR_RANDOM: bytes of one contiguous piece; 0: one word */
	uint32_t times;	  /**< each device goes through it, once it is filled; 0: often */
};

/** Why a memory was chosen. */
enum weir_choice {
	WEIR_CHOICE_ASKED,    /**< the program named it */
	WEIR_CHOICE_CPU,      /**< the CPU uses it, and reaches the host's memory alone */
	WEIR_CHOICE_OWN,      /**< one device uses it: its own memory is the fastest */
	WEIR_CHOICE_SHARED,   /**< several do: together they are fastest with it there */
	WEIR_CHOICE_SELDOM,   /**< left on the host: it is used too seldom to pay for a copy */
	WEIR_CHOICE_PRESSURE, /**< the memory that would be better has no room */
	WEIR_CHOICE_NR
};

/** A choice in words: "one device uses it". Never NULL, never freed. */
WEIR_API const char *weir_choice_text(enum weir_choice choice);

/**
 * Choose a memory. A pure function of its arguments: the one that gives the least time of all uses
 * and of filling it from the host, among those that every user reaches and that have room.
 *
 * @param [in]  room    Free bytes by memory.
 * @param [in]  bytes   > 0.
 * @param [in]  use     What is going to be done with it.
 * @param [out] memory  Its index.
 * @param [out] choice  Why.
 * @return 0, -EINVAL (bytes is 0, no such device or pattern) or -ENOMEM (none has room).
 */
WEIR_API WEIR_MUST_CHECK int weir_memory_choose(const struct weir_machine_desc *desc,
						const uint64_t room[WEIR_MEMORIES_MAX],
						uint64_t bytes, const struct weir_mem_use *use,
						uint32_t *memory, enum weir_choice *choice);

struct weir_mem_params {
	uint64_t bytes;		 /**< > 0 */
	uint32_t memory;	 /**< index, or WEIR_MEMORY_ANY */
	int zero;		 /**< contents are zero; else undefined */
	uint64_t page_bytes;	 /**< a power of two from 4 KiB on; 0: chosen, see below */
	const char *owner;	 /**< for reports; copied, cut. May be NULL */
	struct weir_mem_use use; /**< read with WEIR_MEMORY_ANY alone */
};

/**
 * Allocate an object: weir_mem_alloc(pool, params, &mem). It is mapped nowhere.
 *
 * Pages are asked for each in one piece and aligned to its size (see weir_mem_contiguous() for what
 * that says of physical memory); an object is as many of them as it takes. With page_bytes 0 they
 * are of 4 KiB in the host's memory; in a GPU's of 4 KiB below 64 KiB, of 64 KiB below 2 MiB, else
 * of 2 MiB. What is larger than 2 MiB (or the machine's granularity) is made of whole pieces of
 * that size, or of its pages where those are larger.
 *
 * @param [in]  pool    Live pool. Borrowed.
 * @param [in]  params  Copied.
 * @param [out] mem     Owned by the caller; weir_mem_free() it.
 * @return 0, or, and nothing was allocated:
 *   -EINVAL  bytes is 0, no such memory, device or pattern, or a page that is no power of two,
 *            below 4 KiB or larger than the memory
 *   -ENOMEM  the memory, or the pool's limit of it, has no room, though others of the machine
 *            (spaces, paged memory, pools) were asked for what they do not use: the log says who
 *            holds how much
 *   -ECHILD  the pool is the parent process's
 *   or an error of the machine.
 * Blocks: with zero; with guards, until they are written; and where there is no room, for others
 * that are asked.
 */
#define weir_mem_alloc(...) weir_mem_alloc_at(__FILE__, __LINE__, __VA_ARGS__)

/** What weir_mem_alloc() calls. file: for reports; copied, its end. May be NULL. */
WEIR_API WEIR_MUST_CHECK int weir_mem_alloc_at(const char *file, unsigned line,
					       struct weir_pool *pool,
					       const struct weir_mem_params *params,
					       struct weir_mem **mem);

/**
 * Free an object, mapped or not. Cannot fail: what cannot be unmapped now is, later.
 *
 * @param [in] mem     NULL is allowed. A guard that was written over is logged, as an error.
 * @param [in] stream  What is queued on it so far may still use the object. NULL: no work does.
 * Blocks: with guards, until the work is done and they are read.
 */
WEIR_API void weir_mem_free(struct weir_mem *mem, struct weir_stream *stream);

/** Bits of the masks of weir_mem_map(). */
#define WEIR_MEM_DEVICE(device) ((uint64_t)1 << (device)) /**< a device, in either mask */
#define WEIR_MEM_CPU ((uint64_t)1 << 63) /**< of users: the CPU; host memory only */
#define WEIR_MEM_ALL ((uint64_t)1 << 62) /**< of users: all devices, and of host memory the CPU */

/**
 * Let the CPU, devices or copy engines use an object: all that are named or none. Who may already
 * use it is no error.
 *
 * @param [in]  users    Who uses it at its address: kernels of devices, whose copy engines may then
 *                       use it, too, and the CPU.
 * @param [in]  engines  Devices whose copy engines use it, and need no address.
 * @param [out] addr     The object's address: the same for all, contiguous, aligned to its pages,
 *                       and the same whenever it is mapped again. May be NULL; not written if users
 *                       is 0.
 * @return 0, or, and nothing changed:
 *   -EINVAL   both masks are 0, or one has other bits, no such device
 *   -ENOTSUP  the CPU and a GPU's memory; a device without a link to the memory
 *   -ECHILD   the pool is the parent process's
 *   or an error of the machine: -ENOMEM and others.
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_mem_map(struct weir_mem *mem, uint64_t users, uint64_t engines,
					  void **addr);

/**
 * Take back what weir_mem_map() gave. A device in users loses the address, its copy engines keep
 * what they may do; one in engines loses both; WEIR_MEM_ALL takes all from all. Those who may not
 * use it are left alone, and so are bits that name nobody. No queued work of theirs uses the
 * object. Objects up to 2 MiB share their mappings: others may keep one alive.
 */
WEIR_API void weir_mem_unmap(struct weir_mem *mem, uint64_t users, uint64_t engines);

struct weir_mem_info {
	uint32_t memory;
	uint64_t users;		 /**< who may use it at its address: bits, without WEIR_MEM_ALL */
	uint64_t engines;	 /**< devices whose copy engines may */
	uint64_t bytes;		 /**< as asked for */
	uint64_t page_bytes;	 /**< of its pages, */
	uint64_t physical_bytes; /**< and of all of them */
	void *addr;		 /**< NULL: never mapped at an address */
	uint64_t age_ns;	 /**< real time since it was allocated */
	enum weir_choice choice; /**< of its memory */
};

/** Copy what is known of an object. Does not block. */
WEIR_API void weir_mem_query(const struct weir_mem *mem, struct weir_mem_info *out);

/**
 * Whether a part of an object is in one piece of memory as weir asked for it. The driver is asked
 * for each piece as a whole, aligned to its pages, and says nothing of where it lies: within a page
 * of page_bytes that the hardware has, too, memory is contiguous; within a larger piece it may not
 * be.
 * @return 1, 0 (pieces that are next to each other may be contiguous all the same), or -EINVAL: the
 *         part is empty or not inside the object.
 */
WEIR_API WEIR_MUST_CHECK int weir_mem_contiguous(const struct weir_mem *mem, uint64_t offset,
						 uint64_t bytes);

/**
 * Copy between an object and a buffer of the program, by a device's copy engine.
 *
 * @param [in] device  Its engine may use the object: see weir_mem_map().
 * @param [in] data    bytes of them. NULL on a machine without bytes.
 * @return 0, -EINVAL (not inside the object, no such device, no data), -EACCES (the engine may not
 *         use it), -ECHILD (the pool is the parent process's), -ENOMEM (no room for a buffer
 *         between) or an error of the machine.
 * Blocks. Behind no other work: that is for the caller to wait for.
 */
WEIR_API WEIR_MUST_CHECK int weir_mem_write(struct weir_mem *mem, uint32_t device, uint64_t offset,
					    const void *data, uint64_t bytes);
WEIR_API WEIR_MUST_CHECK int weir_mem_read(struct weir_mem *mem, uint32_t device, uint64_t offset,
					   void *data, uint64_t bytes);

/**
 * Queue a copy from one object to another, by the copy engine of the stream's device. Of objects of
 * one machine; the parts do not overlap.
 *
 * @return 0, -EINVAL (not inside the objects, parts that overlap, or of two machines), -EACCES (the
 *         engine may not use one of them), -ECHILD (a pool is the parent process's), or an error of
 *         the machine: then part of it may have been queued.
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_mem_copy(struct weir_stream *stream, struct weir_mem *dst,
					   uint64_t dst_offset, struct weir_mem *src,
					   uint64_t src_offset, uint64_t bytes);

/* ------------------------------------------------------------------ statistics, checks */

/** Why bytes crossed a link. */
enum weir_cause {
	WEIR_CAUSE_DEMAND,    /**< copied because a bracket was about to begin */
	WEIR_CAUSE_PREFETCH,  /**< copied ahead of use */
	WEIR_CAUSE_EVICTION,  /**< copied out to make room */
	WEIR_CAUSE_WRITEBACK, /**< copied out ahead of eviction; the block stays */
	WEIR_CAUSE_INPLACE,   /**< used by kernels where it is, over the link (declared bytes) */
	WEIR_CAUSE_NR
};

/** Of a link's two ends, see struct weir_link_desc. On a host link a is the host. */
enum weir_direction { WEIR_A_TO_B, WEIR_B_TO_A, WEIR_DIRECTION_NR };

/** Chunks that a space holds in one memory, and those that paged pools have of its budget. */
struct weir_memory_stats {
	uint64_t bytes, peak_bytes; /**< now; at most so far */
	uint64_t dirty_bytes;	    /**< whose contents are nowhere else */
};

/** Indexes of memories and links are those of the machine's description. */
struct weir_space_stats {
	struct weir_memory_stats memory[WEIR_MEMORIES_MAX];
	uint64_t link_bytes[WEIR_LINKS_MAX][WEIR_DIRECTION_NR][WEIR_CAUSE_NR];
	uint64_t nr_moves[WEIR_CAUSE_NR];	    /**< blocks */
	uint64_t nr_brackets, nr_waits;		    /**< begun; that waited for memory */
	uint64_t nr_remaps;			    /**< blocks mapped elsewhere */
	uint64_t nr_dead_dropped, nr_clean_dropped; /**< evictions that copied nothing */
	/** Where uses are inferred: evictions that digests were taken for, and of these the ones
	 * that found the block unchanged; they are among nr_clean_dropped. */
	uint64_t nr_compared, nr_unchanged;
	uint64_t nr_overwrites_saved;	       /**< copies in saved so */
	uint64_t nr_pool_hits, nr_pool_misses; /**< allocations */
	uint64_t nr_plans, nr_divergences;     /**< repetitions recognised; plans dropped */
	uint64_t nr_given_up;		       /**< repetitions that may have been missed */
	uint64_t live_bytes, live_peak_bytes;  /**< ranges, rounded up to blocks */
	uint64_t paged_bytes;		       /**< paged ranges, not among live_bytes */
	uint64_t block_bytes;
	uint64_t nr_resumed; /**< plans followed again after events that differed */
};

/** Copy the space's statistics. Does not block. */
WEIR_API void weir_space_query(struct weir_space *space, struct weir_space_stats *out);

/**
 * Walk every structure of the space and check its invariants.
 * @return 0, or -EUCLEAN; the log says which invariant and where.
 */
WEIR_API WEIR_MUST_CHECK int weir_space_check(struct weir_space *space);

#ifdef __cplusplus
}
#endif
#endif
