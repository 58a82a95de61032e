/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary: everything that weir asks of a machine. What is not here, core cannot do.
 *
 * Conventions
 *  - Implementations: sim (virtual time), cuda (real); flaky and watch wrap either, to fail the
 *    n-th call and to record what happens.
 *  - Calls return 0 or a negative error; outputs are written on success only; a failed call
 *    changed nothing.
 *  - Physical memory comes as chunks. A chunk is mapped once, for good, at its alias when it is
 *    created; copies name aliases. A chunk can also be mapped, whole and from offset 0, at block
 *    addresses inside a reservation; those serve kernels and the CPU. A chunk may be mapped at
 *    BACKEND_PLACES_MAX block addresses at a time: one for each device that a machine may have,
 *    and one more. Most chunks have one or two, which is what an implementation is to be good at.
 *  - Mapping calls cost time per call, for host memory per MiB too (see struct weir_vmm_desc), and
 *    do not wait for kernels: the caller has made sure that no kernel uses the address.
 *  - Work is queued on streams and runs in order on each. A fence marks a point of a stream;
 *    it is a number, needs no freeing, and 0 is always done.
 *  - Threads: every call may come from any thread, and several at once. No call takes a lock of
 *    its callers.
 *  - The progress function (set_progress) is called when work completes: by sim from inside calls
 *    that block or that let virtual time pass, by cuda from its migrator thread. It may call
 *    everything here but the calls that block, and must return at once when core is busy.
 *  - Three tables: what the library stands on (struct backend_ops), managed memory for baselines,
 *    what is only watched. An optional entry that an implementation leaves out is a stub, so that
 *    callers never test a pointer. The last lines of an entry say:
 *      Required, or Optional with what the stub does.
 *      By: who calls it, in brackets the lock that the caller may hold. core (S): a space,
 *        space.lock; mem (M): plain memory, the lock of its pool; paging (P): the host's side of
 *        paging, the lock of its pool; program: handles of weir.h, managers and workloads, no
 *        lock. watch and flaky pass calls on, with what their callers hold.
 *      Blocks: whether it waits for queued work, or for threads; then neither S nor M is held,
 *        but in the cases that chunk_create, access_end and access_narrow tell of. "no": it
 *        takes the time that the machine's description has for it.
 */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stdbool.h>

#include "src/backend/digest.h"
#include "weir/weir.h"

typedef uint64_t fence_t; /* 0: done */
typedef uint32_t stream_id_t;

struct backend;
struct weir_policy;

/* Where a chunk's bytes are. Filled by chunk_create, then constant. */
struct backend_chunk {
	uint64_t handle; /* backend's own; never 0 */
	void *alias;	 /* its address for copies; phantom memories have one too */
	uint64_t bytes;
	uint32_t memory;
};

enum backend_stream_kind {
	BACKEND_COMPUTE,
	BACKEND_COPY_IN,  /* copies towards the device, on a copy engine */
	BACKEND_COPY_OUT, /* copies from the device */
	BACKEND_URGENT,	  /* digests, packets: kernels that go before other streams' */
};

enum backend_prot { BACKEND_PROT_NONE, BACKEND_PROT_READ, BACKEND_PROT_WRITE /* and read */ };

/* A use of access_begin() alone: launches may touch the bytes in any way, and beside other brackets
 * it is a WEIR_ATOMIC one. */
#define BACKEND_ANY ((enum weir_use_kind)(WEIR_ATOMIC + 1))

/* Block addresses that a chunk may be mapped at, at a time. */
#define BACKEND_PLACES_MAX (WEIR_DEVICES_MAX + 1u)

/* The most faults that a description's batch of managed memory may have. */
#define BACKEND_UVM_BATCH_MAX 4096u

/* Bits of a mask of devices: a device's, and beside them the CPU's. */
#define BACKEND_DEVICE_BIT(device) (UINT64_C(1) << (device))
#define BACKEND_HOST_BIT (UINT64_C(1) << 63)

/* Over a device's host link, whose end a is the host: as enum weir_direction has it. */
enum backend_direction {
	BACKEND_TO_DEVICE = WEIR_A_TO_B,
	BACKEND_TO_HOST = WEIR_B_TO_A,
	BACKEND_DIRECTION_NR
};

/* One piece of a batched copy: between aliases, or memory from device_alloc. */
struct backend_copy {
	void *dst;
	const void *src;
	uint64_t bytes;
};

/*
 * What the host takes to queue a packet's kernel, in launches: with what the kernel waits for, the
 * fence that others wait for, and half of the copy. Measured on two H200s (2026-11-29): 20 to 30 us
 * of the host for both kernels of a packet, where a launch takes 4 to 5. A description that does
 * not know what queueing copies takes the host (copy_host_ns) has launches alone.
 */
static inline uint32_t backend_packet_host_launches(const struct weir_link_desc *link)
{
	return link->copy_host_ns ? 3 : 1;
}

/*
 * Elements of memory, by a list of their numbers, and a packet, in which they lie side by side. All
 * three are where kernels of the stream's device use them: at block addresses, in a chunk by its
 * alias, which is mapped for the device, or in plain memory. What lies between the elements may be
 * unmapped.
 */
struct backend_packet {
	void *elements;		/* where element 0 is, or would be; aligned to element_bytes */
	void *packet;		/* nr * element_bytes; aligned to 16 bytes */
	const uint32_t *index;	/* nr numbers, ascending, each once; aligned to 16 bytes */
	uint64_t nr;		/* > 0 */
	uint32_t element_bytes; /* 1, 2, 4, 8, 16 */
	uint32_t first, last;	/* index[0] and index[nr - 1]: the elements' span */
	uint64_t sector_bytes;	/* of whole sectors of 32 bytes that elements lie in: the cost */
	bool unpack;		/* from the packet to the elements; else the other way */
};

/* Digests of a machine that were queued and not taken, at most. */
#define BACKEND_DIGESTS_MAX 256u

/*
 * What a device's time goes into. A kernel's time is divided into the first two and what faults on
 * managed memory add, by cause; the rest is idle time: while the program is inside a call that
 * allocates, frees or maps; else while a copy to the device runs; else while one from it runs.
 */
enum backend_time {
	BACKEND_TIME_COMPUTE,	  /* kernels, as if all that they use were in HBM */
	BACKEND_TIME_IN_PLACE,	  /* what use over a link adds */
	BACKEND_TIME_ALLOCATION,  /* idle in such a call */
	BACKEND_TIME_FIRST_TOUCH, /* managed memory that has no contents yet gets its place */
	BACKEND_TIME_DEMAND,	  /* managed memory comes in, by a fault or prefetched; copies in */
	BACKEND_TIME_EVICTION,	  /* managed memory goes out to make room; copies out */
	BACKEND_TIME_OTHER,	  /* idle otherwise */
	BACKEND_TIME_NR
};

/* How managed memory is to behave on a device. */
struct backend_managed {
	uint32_t device;
	bool whole_blocks;  /* a fault brings all of its 2 MiB: a policy that is not the driver's */
	uint64_t gpu_bytes; /* of the device's memory it may fill; 0: all */
	uint64_t host_bytes; /* the same of the host's, for all devices */
	/* Asked about all managed memory of the machine until it is set up again: what a fault
	 * brings, who is evicted; told of what moves. Borrowed. NULL: as the driver does. */
	struct weir_policy *policy;
};

/*
 * What is said of a part of managed memory, as cudaMemAdvise says it. Where several are said of one
 * part, one that stands further up goes first; none unsays another.
 */
enum backend_advice {
	BACKEND_ADVICE_READ_MOSTLY, /* who reads it gets a copy; who writes it, the only one */
	BACKEND_ADVICE_UNSET_READ_MOSTLY,
	BACKEND_ADVICE_PREFERRED, /* to a memory: there it stays; devices use the host's in place */
	BACKEND_ADVICE_UNSET_PREFERRED,
	BACKEND_ADVICE_ACCESSED_BY, /* by a device: what of it is on the host is mapped for it */
	BACKEND_ADVICE_UNSET_ACCESSED_BY,
	BACKEND_ADVICE_NR
};

/* The driver cuts managed memory there; a part that is advised begins and ends so. */
#define BACKEND_MANAGED_BLOCK_BYTES (UINT64_C(2) << 20)

struct backend_managed_stats {
	uint64_t nr_faults;	   /* that were serviced; several on one page at a time are one */
	uint64_t nr_first_touches; /* blocks of 2 MiB that got their first place on the device */
	uint64_t bytes[BACKEND_DIRECTION_NR][WEIR_CAUSE_NR];
	uint64_t gpu_peak_bytes, host_peak_bytes; /* taken of the memories; the host's by all */
};

struct backend_ops {
	const char *name;

	/*
	 * Close the backend. All chunks, reservations and streams are gone. Cannot fail.
	 * Required. By: program, as the last call. Blocks: for the backend's own threads.
	 */
	void (*destroy)(struct backend *b);

	/*
	 * Virtual or monotonic time since creation.
	 * Required. By: paging (P), program, watch. Blocks: no.
	 */
	uint64_t (*now_ns)(struct backend *b);

	/*
	 * Create a chunk and map its alias for the devices in the mask: those whose copy engines
	 * use it. Kernels that use it at block addresses need no alias. 0: all devices that reach
	 * the memory. The CPU reaches the alias of a host chunk, whatever the mask;
	 * BACKEND_HOST_BIT alone: no device does yet. bytes: a multiple of the granularity.
	 * -EINVAL: also a device that does not reach the memory; -ENOMEM: the memory is full.
	 * Contents are undefined. Takes create_*_ns, and for each device but one
	 * set_access_device_ns (+ host memory's set_access_host_mib_ns).
	 * Required. By: phys, for core (S), mem (M) and paging (P); program. Blocks: no; where
	 * there is no room, for what is made ahead in the memory just then, see chunk_expect.
	 */
	int (*chunk_create)(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			    struct backend_chunk *out);

	/*
	 * Map a chunk's alias for more devices. Those that have it, whose engines may be using it,
	 * keep it. -EINVAL: also a device that does not reach the memory. Takes nothing for those
	 * that have it, for the others what set_access takes.
	 * Required. By: mem (M). Blocks: no.
	 */
	int (*chunk_add_devices)(struct backend *b, const struct backend_chunk *chunk,
				 uint64_t devices);

	/*
	 * Destroy a chunk that is mapped at no block address and that no queued work names.
	 * Required. By: phys, for core (S), mem (M) and paging (P); program. Blocks: no.
	 */
	void (*chunk_destroy)(struct backend *b, const struct backend_chunk *chunk);

	/*
	 * A hint: nr more chunks of this size are going to be created there, for these devices; a
	 * negative nr: so many fewer than was said. Each that is created is one fewer by itself. A
	 * backend may make them ahead, in the background; they count as used then, and give way to
	 * whoever needs the room.
	 * Optional: nothing. By: core (S). Blocks: no.
	 */
	void (*chunk_expect)(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
			     int64_t nr);

	/*
	 * Reserve addresses. unit: the size of every mapping made in it (a multiple of the
	 * granularity); bytes: a multiple of unit. Address aligned to the largest power of two
	 * that divides unit.
	 * Required. By: core (S), mem (M), paging (P), program. Blocks: no.
	 */
	int (*va_reserve)(struct backend *b, uint64_t bytes, uint64_t unit, void **addr);

	/*
	 * Release a whole reservation in which nothing is mapped.
	 * Required. By: core (S), mem (M), paging (P), program. Blocks: no.
	 */
	void (*va_release)(struct backend *b, void *addr, uint64_t bytes);

	/*
	 * Map a chunk at an address that has no mapping, with access for the devices in the mask
	 * (and the CPU with BACKEND_HOST_BIT; host chunks only). Takes map_ns, and unless the mask
	 * is empty what set_access takes. -EINVAL: also a chunk that is mapped at
	 * BACKEND_PLACES_MAX block addresses; cuda does not count them.
	 * Required. By: core (S), mem (M), paging (P), program. Blocks: no.
	 */
	int (*map)(struct backend *b, void *addr, const struct backend_chunk *chunk,
		   enum backend_prot prot, uint64_t devices);

	/*
	 * Unmap one mapping. Takes unmap_ns (+ host memory's unmap_host_mib_ns, and
	 * + unmap_busy_peer_ns beside copies between devices).
	 * Required. By: core (S), mem (M), paging (P), program. Blocks: no.
	 */
	int (*unmap)(struct backend *b, void *addr);

	/*
	 * Change protection and devices of one mapping. Kernels of devices that keep what they had
	 * may be using it. Takes set_access_ns (+ set_access_device_ns for each device but one,
	 * + host memory's set_access_host_mib_ns for each device, + set_access_busy_ns or
	 * set_access_busy_in_ns beside copies to or from the host).
	 * Required. By: core (S), mem (M), program. Blocks: no.
	 */
	int (*set_access)(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices);

	/*
	 * Create a stream. -ENOMEM: also when 65,535 live; a destroyed one makes room.
	 * Required. By: core, mem (M), paging, program. Blocks: no.
	 */
	int (*stream_create)(struct backend *b, uint32_t device, enum backend_stream_kind kind,
			     stream_id_t *out);

	/*
	 * Take a stream of the driver's own, which the caller keeps: what stream_native() gives for
	 * it. It is not destroyed with the stream that this makes.
	 * -EINVAL: no such device, or none of its streams.
	 * Optional: -ENOSYS. By: program; no lock held. Blocks: no.
	 */
	int (*stream_adopt)(struct backend *b, uint32_t device, void *native, stream_id_t *out);

	/*
	 * Destroy a stream whose work is done. Its id is that of no stream then, until 65,536
	 * others had its place; its fences stay done.
	 * Required. By: core, mem, paging, program; no lock held. Blocks: for work that is left.
	 */
	void (*stream_destroy)(struct backend *b, stream_id_t stream);

	/*
	 * The driver's own stream (a CUstream), for kernels that do not come through launch.
	 * Optional: NULL, there is none. By: paging, program. Blocks: no.
	 */
	void *(*stream_native)(struct backend *b, stream_id_t stream);

	/*
	 * Call fn with a stream of stream_native(), as launch calls a kernel's CUDA version: the
	 * stream's device is the thread's. -EINVAL: no such stream; else what fn returns.
	 * Optional: -ENOSYS, there are no such streams. By: program. Blocks: as fn does.
	 */
	int (*stream_call)(struct backend *b, void *native, int (*fn)(void *native));

	/*
	 * Queue a kernel. The uses say what it touches: in sim they give its time and what it may
	 * touch; in cuda only the debug mode reads them. -EINVAL: a use names no memory; -ENOSYS:
	 * the kernel has no version for this backend, logged.
	 * Required. By: paging (P), program. Blocks: in cuda's debug mode, for the kernel.
	 */
	int (*launch)(struct backend *b, stream_id_t stream, const struct weir_launch *launch);

	/*
	 * Queue copies, as one batch, in order. Pieces do not overlap. The aliases are mapped for
	 * the stream's device, see chunk_create: sim refuses others with -EACCES, logged; cuda does
	 * not look, and the copy is an illegal access. Neither end has to be in the device's own
	 * memory. Streams of all kinds take copies, and have them done by copy engines of their
	 * device: on a compute stream, too, they run beside kernels of the device's other streams.
	 * Required. By: core (S), mem (M), program. Blocks: no.
	 */
	int (*copy)(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
		    uint32_t nr);

	/*
	 * The same of bytes that launches of brackets may meet which are open now: they have no
	 * order with it, so a backend that traps what meets without one lets these be.
	 * Optional: copy. By: core (S). Blocks: no.
	 */
	int (*copy_beside)(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
			   uint32_t nr);

	/*
	 * Queue a kernel that packs elements, or unpacks them: it takes the device as launches do.
	 * As with copy_beside, launches of brackets that are open now have no order with it. The
	 * others, and copies of copy_beside, are trapped by sim where they meet its packet, its
	 * list or the elements' span without one. -EINVAL: also memory that is none, which cuda
	 * does not look for; -EACCES, logged: an alias that the device does not have.
	 * Required. By: core (S), program. Blocks: no; in cuda's debug mode for the stream, and
	 * see packet_prepare.
	 */
	int (*packet)(struct backend *b, stream_id_t stream, const struct backend_packet *packet);

	/*
	 * See that a device's packets can be queued without delay: cuda loads their kernels, which
	 * may wait for kernels that run. Else the device's first packet does that. -EINVAL: no such
	 * device.
	 * Optional: nothing. By: core. Blocks: in cuda, the first time for a device, for its work.
	 */
	int (*packet_prepare)(struct backend *b, uint32_t device);

	/*
	 * Queue the digest of a chunk's first bytes (see digest.h), by a key of this machine's, and
	 * name it by *ticket, which the caller gives back by digest_take. A few blocks of a kernel
	 * read the chunk's alias, beside the kernels of other streams. What is written meanwhile,
	 * from when the digest's turn on its stream comes until it is done, may be in it or not.
	 * The chunk is not destroyed before. bytes: a multiple of DIGEST_TILE_BYTES.
	 * -EINVAL: also a chunk that is not in the stream's device's own memory; -EACCES, logged:
	 * the device has no alias of it; -EBUSY: BACKEND_DIGESTS_MAX are not taken.
	 * Optional: -ENOSYS. By: core (S). Blocks: no, but see digest_prepare.
	 */
	int (*digest)(struct backend *b, stream_id_t stream, const struct backend_chunk *chunk,
		      uint64_t bytes, uint32_t *ticket);

	/*
	 * Take a digest, once a later fence of its stream is done. What it is after an error of the
	 * stream's work is not defined, and may equal others. *out may be NULL: the ticket alone is
	 * given back. -EINVAL: no such ticket; sim: -EBUSY, the digest is not done, and
	 * -WEIR_ETRAP, logged, where `out` is asked for though the chunk was written meanwhile.
	 * Optional: -ENOSYS. By: as digest. Blocks: no.
	 */
	int (*digest_take)(struct backend *b, uint32_t ticket, struct digest *out);

	/*
	 * See that a device's digests can be queued without delay, as packet_prepare does that for
	 * packets. -EINVAL: no such device.
	 * Optional: -ENOSYS. By: as digest; no lock held. Blocks: in cuda, the first time for a
	 * device, for its work.
	 */
	int (*digest_prepare)(struct backend *b, uint32_t device);

	/*
	 * Copy between memory of the machine, be it a chunk by its alias, and a buffer of the
	 * program, in stream order, and wait for it. data may be NULL where the machine is phantom.
	 * Required. By: core, mem, paging (P), program. Blocks: for the copy.
	 */
	int (*upload)(struct backend *b, stream_id_t stream, void *dst, const void *data,
		      uint64_t bytes);
	int (*download)(struct backend *b, stream_id_t stream, void *data, const void *src,
			uint64_t bytes);

	/*
	 * Between the two, which nest, a thread makes many calls that are about a stream, or its
	 * device: what each of them has to do first is done once. calls_end is only called where
	 * calls_begin returned 0; failing costs time only.
	 * Optional: nothing. By: core (S). Blocks: no.
	 */
	int (*calls_begin)(struct backend *b, stream_id_t stream);
	void (*calls_end)(struct backend *b);

	/*
	 * Later work on the stream waits for the fence.
	 * Required. By: core (S), program. Blocks: no.
	 */
	int (*stream_wait)(struct backend *b, stream_id_t stream, fence_t fence);

	/*
	 * The same for what is queued so far on a driver's own stream that is not the machine's;
	 * NULL: the default stream of the stream's device. -WEIR_ECONTRACT: one of the two is being
	 * captured.
	 * Optional: -ENOSYS, there are no such streams. By: program. Blocks: no.
	 */
	int (*stream_wait_native)(struct backend *b, stream_id_t stream, void *native);

	/*
	 * A fence for all work queued on the stream so far. -EINVAL: no such stream;
	 * -WEIR_ECONTRACT: the stream is being captured into a graph, and nothing was recorded.
	 * Required. By: core (S), mem (M), paging (P), program. Blocks: no.
	 */
	int (*fence_record)(struct backend *b, stream_id_t stream, fence_t *out);

	/*
	 * The same for a fence whose time nobody is going to ask for (fence_time_ns; 0 is right),
	 * which may take less.
	 * Optional: fence_record. By: core (S). Blocks: no.
	 */
	int (*fence_untimed)(struct backend *b, stream_id_t stream, fence_t *out);

	/*
	 * 1: done, 0: not yet, or an error: of the work before it, once, and the fence is done
	 * (asked again it is 1); or there was no answer, which says nothing of the work. Whoever
	 * asks again finds out which. -EINVAL: there never was such a fence.
	 * Required. By: core (S), mem (M), paging (P), program. Blocks: no.
	 */
	int (*fence_done)(struct backend *b, fence_t fence);

	/*
	 * The same for who asks often and needs no prompt answer: 0 may also be said of a fence
	 * that was reached some 100 us ago, while the backend calls functions of set_progress,
	 * unless somebody has waited for a fence since.
	 * Optional: fence_done. By: core (S). Blocks: no.
	 */
	int (*fence_seen)(struct backend *b, fence_t fence);

	/*
	 * Wait for a fence. 0: done, or an error as above: of the work before it on its stream, or
	 * of the wait.
	 * Required. By: core, mem, paging (P), program. Blocks: for the fence.
	 */
	int (*fence_wait)(struct backend *b, fence_t fence);

	/*
	 * The same for a thread of the program that waits for what it launched: it goes on sooner,
	 * and may keep its processor busy for up to 2 ms. Not for a space's own waits: to ask a
	 * driver so often delays the mapping calls that others make meanwhile.
	 * Optional: fence_wait. By: program. Blocks: for the fence.
	 */
	int (*fence_wait_awake)(struct backend *b, fence_t fence);

	/*
	 * A space, the owner, tells what launches on the stream may touch from here on, until it
	 * calls access_end: one bracket an owner on a stream at a time, those of several end in any
	 * order. A use may be BACKEND_ANY. Other touches of planned reservations (see access_guard)
	 * are trapped by sim and by cuda's debug mode. -WEIR_ECONTRACT: the stream is being
	 * captured.
	 * Optional: nothing, 0. By: core (S). Blocks: no; access_end in cuda's debug mode, for the
	 * stream.
	 */
	int (*access_begin)(struct backend *b, stream_id_t stream, const void *owner,
			    const struct weir_use *uses, uint32_t nr);
	void (*access_end)(struct backend *b, stream_id_t stream, const void *owner);

	/*
	 * The bracket that the owner has open on the stream does not write a part any more, and may
	 * read it as before.
	 * -ENOMEM: nothing changed.
	 * Optional: nothing, 0. By: core (S). Blocks: no; in cuda's debug mode, for the stream.
	 */
	int (*access_narrow)(struct backend *b, stream_id_t stream, const void *owner,
			     const void *addr, uint64_t bytes);

	/*
	 * Set whether launches may touch a reservation only inside such brackets.
	 * Optional: nothing, 0. By: core (S). Blocks: no.
	 */
	int (*access_guard)(struct backend *b, void *reservation, bool guarded);

	/*
	 * Fill part of a chunk with a pattern that no computation expects (a signalling NaN), where
	 * bytes are real: vacated and dead chunks show when somebody reads them. Ordered behind
	 * queued work that names the chunk by the fence.
	 * Optional: nothing. By: core (S). Blocks: no.
	 */
	void (*poison)(struct backend *b, const struct backend_chunk *chunk, fence_t after);

	/*
	 * Plain allocation, as cudaMalloc (HBM) and cudaHostAlloc (host) do it and at their cost.
	 * Required. By: mem, paging (P), program. Blocks: device_alloc as chunk_create; device_free
	 * for all work of the device.
	 */
	int (*device_alloc)(struct backend *b, uint32_t memory, uint64_t bytes, void **addr);
	void (*device_free)(struct backend *b, void *addr);

	/*
	 * Warps that can be resident on a device at a time, at most.
	 * Optional: 64, as many as a simulated device has. By: paging. Blocks: no.
	 */
	uint32_t (*device_warps)(struct backend *b, uint32_t device);

	/*
	 * Bytes of a memory that are taken now, by chunks and plain allocations, and in sim by
	 * managed memory.
	 * Required. By: mem (M), program. Blocks: no.
	 */
	uint64_t (*memory_used)(struct backend *b, uint32_t memory);

	/*
	 * Bytes of a memory that can be taken now beside what is, which others than this machine
	 * may change at any time.
	 * Optional: UINT64_MAX, there are no others. By: core, mem (M), program. Blocks: no.
	 */
	uint64_t (*memory_room)(struct backend *b, uint32_t memory);

	/*
	 * Let the host spend time, as a thread that computes would.
	 * Required. By: core, mem, paging, program. Blocks: for that time.
	 */
	void (*host_spend)(struct backend *b, uint64_t ns);

	/*
	 * fn(arg) after completions; see the top. One a space; fn NULL removes that of arg, which
	 * cannot fail.
	 * Required. By: core, as a space is made and destroyed, no lock held. Blocks: removing, for
	 * a call of the function that is under way.
	 */
	int (*set_progress)(struct backend *b, void (*fn)(void *arg), void *arg);

	/*
	 * Call run(arg) once and then done(arg), on a thread that does nothing else, after what was
	 * given before: for what takes long and nobody waits for. run returns how long it takes
	 * such a thread by the machine's description, ns, which counts where time is virtual:
	 * there the caller's thread may do it at once, and done is called when the clock has come
	 * so far. Neither calls anything of the backend, and done takes no lock. The backend's end
	 * waits for all of them.
	 * Optional: -ENOSYS; on any error nothing is called, and the caller may do so.
	 * By: core (S). Blocks: no.
	 */
	int (*aside)(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg),
		     void *arg);
};

/*
 * The driver's managed memory, for baselines: no part of weir stands on it. All are optional:
 * -ENOSYS, and free does nothing. By: program.
 */
struct backend_managed_ops {
	/*
	 * How it is to behave on a device; with none of it allocated. Without it, limits are the
	 * memories' own. -EINVAL: no such device, a limit beyond its memory; -EBUSY: some is
	 * allocated; -ENOTSUP: this machine's driver cannot behave so (the log says why).
	 * Blocks: no.
	 */
	int (*setup)(struct backend *b, const struct backend_managed *setup);

	/*
	 * As cudaMallocManaged. -ENOMEM; -EDQUOT: beyond what the machine lets have.
	 * Blocks: no.
	 */
	int (*alloc)(struct backend *b, uint64_t bytes, void **addr);

	/*
	 * As cudaMemPrefetchAsync, in order on the stream, to the memory of its device or to the
	 * host's.
	 * Blocks: no.
	 */
	int (*prefetch)(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
			uint32_t memory);

	/*
	 * As cudaMemAdvise, of a part of one allocation, which begins a multiple of 2 MiB into it
	 * and ends so, or at its end. to: the memory that is preferred, or the device that
	 * accesses, or is not to any more; of no account for the other kinds. For what starts from
	 * then on; moves nothing, but unset read mostly leaves one copy. -EINVAL: no such part,
	 * kind, memory or device; -ENOMEM; -ENOTSUP: the driver takes none.
	 * Blocks: no.
	 */
	int (*advise)(struct backend *b, void *addr, uint64_t bytes, enum backend_advice advice,
		      uint32_t to);

	/* Blocks: for all queued work. */
	void (*free)(struct backend *b, void *addr);

	/*
	 * What became of it on a device since creation. -ENOSYS: it is not known.
	 * Blocks: no.
	 */
	int (*stats)(struct backend *b, uint32_t device, struct backend_managed_stats *out);
};

/* What a message between two memories brings: for those who show what happens. */
struct backend_message {
	uint32_t range;	       /* a number that the sender has for what it is a part of */
	uint64_t offset, end;  /* in the range, from the first byte to behind the last one */
	uint64_t bytes;	       /* that are sent: fewer where it has gaps */
	uint16_t from, to;     /* memories */
	const char *mechanism; /* static text */
	const char *reason;    /* static text */
};

/*
 * What is only watched: times, counts, texts. Calls change nothing that others see, and none
 * blocks. All are optional.
 */
struct backend_observe_ops {
	/*
	 * A fence that is only to be asked for its time: that it is reached is no completion, and
	 * calls no progress function.
	 * Optional: fence_record. By: program, watch.
	 */
	int (*fence_mark)(struct backend *b, stream_id_t stream, fence_t *out);

	/*
	 * When a fence was reached; 0 when it is not, or was too long ago to be known.
	 * Optional: 0. By: core (S), which learns from it, program, watch.
	 */
	uint64_t (*fence_time_ns)(struct backend *b, fence_t fence);

	/*
	 * What a device's time went into since creation, kernels that run now left out: while
	 * none does, the times add up to now_ns. -ENOSYS: it is not known.
	 * Optional: -ENOSYS. By: program.
	 */
	int (*device_times)(struct backend *b, uint32_t device, uint64_t ns[BACKEND_TIME_NR]);

	/*
	 * What a device's kernels read from a memory in place so far (BACKEND_TO_DEVICE), and what
	 * they wrote there (BACKEND_TO_HOST, also where it is a neighbour's memory): declared
	 * bytes. 0 for the device's own memory.
	 * Optional: 0. By: core (S), for statistics, program.
	 */
	void (*inplace_bytes)(struct backend *b, uint32_t device, uint32_t memory,
			      uint64_t bytes[BACKEND_DIRECTION_NR]);

	/*
	 * What a device is, in words: its maker's name for it and the driver's version.
	 * Optional: its name in the description. By: program.
	 */
	void (*device_text)(struct backend *b, uint32_t device, char *text, size_t bytes);

	/*
	 * Who the others are that have part of a memory, as text, empty where nobody knows.
	 * Optional: empty. By: core, where a budget is beyond memory_room.
	 */
	void (*memory_holders)(struct backend *b, uint32_t memory, char *text, size_t bytes);

	/*
	 * The work that the calling thread queues between these two calls is one message. sent:
	 * false: it could not be queued, and does not count.
	 * Optional: nothing. By: core (S), program. Blocks: no.
	 */
	void (*message_begin)(struct backend *b, const struct backend_message *message);
	void (*message_end)(struct backend *b, bool sent);
};

/* Every backend begins with this. The tables and desc never change. */
struct backend {
	const struct backend_ops *ops;
	const struct backend_managed_ops *managed;
	const struct backend_observe_ops *observe;
	struct weir_machine_desc desc;
	enum weir_data data;
	const struct digest_key *digest_key; /* of its digests; NULL: it takes none */
	bool checks;			     /* access_begin looks at the uses */
};

/* Registration: fill the optional entries that a table leaves out with their stubs. */
void backend_ops_complete(struct backend_ops *ops);
void backend_managed_complete(struct backend_managed_ops *managed);
void backend_observe_complete(struct backend_observe_ops *observe);

/*
 * Check a budget of a memory against what it has and what is free there now. *bytes 0: becomes all
 * that can be had. @return 0, -EINVAL (beyond the memory) or -ENOMEM (beyond what others left);
 * logged, with who they are.
 */
int backend_budget(struct backend *b, uint32_t memory, uint64_t *bytes);

/*
 * Check a mask of a chunk's devices. *devices 0: becomes that of all that reach the memory. The
 * CPU, which may be named of the host's memory, is left out of it.
 * @return 0, or -EINVAL: there is no such device, or it does not reach the memory.
 */
int backend_chunk_devices(const struct backend *b, uint32_t memory, uint64_t *devices);

/* Check what packet is given, but for what its addresses are. @return 0 or -EINVAL. */
int backend_packet_check(const struct backend_packet *packet);

#define BACKEND_PACKET_USES 3u

/*
 * A packet's kernel as a launch of it: named "pack" or "unpack", with no version for any machine.
 * uses: its uses, which stand there then: of the elements' span, the list, the packet. Streaming;
 * sectors that are written in part are read, too, the first and the last one of a run on average.
 */
struct weir_launch backend_packet_launch(const struct backend_packet *packet,
					 struct weir_use uses[BACKEND_PACKET_USES]);

/* Check what digest is given of a chunk. @return 0 or -EINVAL. */
int backend_digest_check(const struct backend *b, uint32_t device,
			 const struct backend_chunk *chunk, uint64_t bytes);

/* A digest's kernel as a launch of it, named "digest", in the same way. use: its only one. */
struct weir_launch backend_digest_launch(const struct backend_chunk *chunk, uint64_t bytes,
					 struct weir_use *use);

/*
 * Check what managed_advise is given: the part of bytes at an offset of an allocation of whole
 * bytes. @return 0 or -EINVAL.
 */
int backend_advice_check(const struct backend *b, enum backend_advice advice, uint32_t to,
			 uint64_t offset, uint64_t bytes, uint64_t whole);

#endif
