/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend's state.
 *
 * The files, each of which uses those before it only:
 *
 *   driver.c         the driver library, results
 *   host_memory.c    how much of the host's memory there is
 *   nvml.c           which other processes hold a device's memory
 *   cuda_context.c   what every call of the driver needs; places, the clock, threads
 *   cuda_event.c     events: to record, to sleep on, their times
 *   cuda_kernel.c    the library's own kernels
 *   cuda_device.c    the devices' contexts, taken on first use
 *   cuda_chunk.c     chunks, and the table of them
 *   cuda_pin.c       chunks made ahead, by a thread
 *   cuda_memory.c    the boundary's memory: chunks, plain allocations, what others leave
 *   cuda_region.c    reservations, and what an address is
 *   cuda_stream.c    streams, and what of them is reached
 *   cuda_fence.c     fences: recorded, asked for, waited for
 *   cuda_debug.c     debug mode: brackets, and what they let devices do
 *   cuda_map.c       mappings in reservations
 *   cuda_work.c      what is queued on streams: copies, kernels, packets
 *   cuda_digest.c    digests
 *   cuda_managed.c   managed memory
 *   cuda_migrator.c  the thread that notices what is done
 *   cuda_describe.c  the machine's description
 *   cuda.c           opening, the table of operations, the end
 *
 * Locks: cuda.lock, a leaf: no lock is taken while it is held, and no driver call that waits for
 * the device is made (but for an event on a full stream, which core avoids). It protects every list
 * and count below. A region's mappings are changed by their space alone, one call at a time; they
 * are read under the lock. cuda.starting is held while a device's context is taken, when nothing of
 * the device is in those lists yet, and while its kernels are loaded; never together with
 * cuda.lock.
 */
#ifndef WEIR_CUDA_INTERNAL_H
#define WEIR_CUDA_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "src/backend/access.h"
#include "src/backend/cuda/driver.h"

/* Reached fences of a stream whose times can be asked for: more than it can have queued, 1,021
 * launches and events, so that who looks in between misses none. */
#define CUDA_TIMES 2048u
/* From one look of the migrator to the next. A look takes about 2 us, so this is 4 % of a core. */
#define CUDA_LOOK_NS UINT64_C(50000)
/* A fence has the index of its stream's slot above so many bits; a stream's id is that index, with
 * how often the slot was taken above it. */
#define CUDA_SEQ_BITS 48
#define CUDA_MAX_STREAMS (1u << (64 - CUDA_SEQ_BITS))
/* Managed memory of the process, at most, as a share of a card: more can hang the GPU. */
#define CUDA_MANAGED_SHARE 8u

/* A piece of physical memory. */
struct cuda_chunk {
	uint64_t number; /* its handle in struct backend_chunk, see table_add() */
	cu_handle handle;
	cu_ptr alias;
	uint64_t bytes;
	uint64_t devices; /* that the alias is mapped for; once in the table, with the lock */
	uint32_t memory;
	struct cuda_chunk *next; /* of those made ahead */
};

/* A unit of a reservation; chunk NULL: nothing is mapped. */
struct cuda_mapping {
	const struct cuda_chunk *chunk;
	uint64_t devices;
	enum backend_prot prot;	 /* as core says; the CPU's */
	enum backend_prot given; /* what the devices have: less, at times, in debug mode */
	uint32_t readers,
		writers; /* open brackets that do, in debug mode; also of what is unmapped */
};

struct cuda_region {
	cu_ptr base;
	uint64_t bytes, unit;
	uint64_t nr_mapped, nr_in[WEIR_MEMORIES_MAX]; /* units; by memory */
	bool guarded; /* devices get in inside brackets only: see cuda_debug.c */
	struct cuda_mapping mapping[];
};

enum cuda_plain_kind { CUDA_PLAIN_HBM, CUDA_PLAIN_HOST, CUDA_PLAIN_MANAGED };

/* An allocation that is no chunk. */
struct cuda_plain {
	cu_ptr addr;
	uint64_t bytes;
	uint32_t memory;
	enum cuda_plain_kind kind;
	struct cuda_plain *next;
};

/* An event of a fence that is not known to be reached, or whose time nobody has asked for. */
struct cuda_event {
	cu_event event;
	uint32_t device;
	uint64_t recorded_ns;	 /* by the clock of now_ns(), just before it was recorded; */
	uint64_t noticed_ns;	 /* and when it was seen to be reached */
	bool mark;		 /* nobody is told when it is reached */
	bool timed;		 /* the driver notes when it is reached */
	struct cuda_event *next; /* free list */
};

/* When a fence was reached. To ask the driver takes 3 us, so that only who wants to know does. */
struct cuda_time {
	uint64_t ns;		  /* 0: not known */
	struct cuda_event *event; /* NULL: ns is what there is */
};

/* What one thread waits with: an event that it sleeps on, on a stream that waits for a fence's. */
struct cuda_waiter {
	cu_stream stream;
	cu_event event;
	struct cuda_waiter *next; /* free list */
};

/*
 * A stream, or the slot of one. A fence is the slot's index and a sequence number; those up to
 * `done` are reached, the events of the later ones are in a ring. A destroyed stream's slot goes to
 * a later one when all its fences are reached. Fences outlive their stream, so the sequence goes
 * on; the id is another one each time.
 */
struct cuda_stream {
	cu_stream stream; /* NULL: destroyed */
	bool adopted;	  /* it is the program's, which destroys it */
	bool threads;	  /* it is another one in each thread, whose fences are in no order */
	stream_id_t id;
	uint32_t device;
	uint64_t first; /* fences up to it are of earlier streams */
	uint64_t last, done;
	struct cuda_event **event; /* [seq % max_events], done < seq <= last */
	uint64_t max_events;	   /* a power of two */
	struct cuda_time *time;	   /* [seq % CUDA_TIMES], of the newest reached */
	int error;		   /* of work before the last reached fence, not reported yet */
	bool refused;		   /* the driver gave no answer, which the log has */

	uint64_t told;		      /* the last fence that core was told is reached */
	struct access_bracket *open;  /* in debug mode: innermost first, */
	struct access_bracket *ended; /* and those that core does not know to be done */
};

/* Sizes of elements that packets have: 1 to 16. */
#define CUDA_PACKET_SIZES 5u

/* What a device takes digests with. module NULL: not loaded. Guarded by cuda.starting, constant
 * from then on; but taken, by cuda.lock. */
struct cuda_digests {
	cu_module module;
	cu_function function;
	void *parts; /* of results, by place: host memory, which the kernel writes */
	bool taken[BACKEND_DIGESTS_MAX]; /* places that a ticket names */
};

struct cuda_device {
	cu_device device;
	cu_context context; /* NULL: not taken yet; guarded by cuda.starting */
	/* The library's kernels, NULL: not loaded; and those of packets, to pack and to unpack
	 * elements of 1, 2, 4... bytes. Guarded by cuda.starting, constant from then on. */
	cu_module packets;
	cu_function packet[2 * CUDA_PACKET_SIZES];
	struct cuda_digests digests;
	uint32_t nr_warps;	 /* that can be resident */
	struct cuda_event *base; /* reached at base_ns: times are counted from it */
	uint64_t base_ns;
	struct cuda_event *free_events[2]; /* by whether they are timed */
	struct cuda_waiter *free_waiters;
};

/* A function to call when work is done. */
struct cuda_progress {
	void (*fn)(void *arg);
	void *arg;
};

struct cuda {
	struct backend base;
	struct backend_ops ops;
	struct backend_managed_ops managed;
	struct backend_observe_ops observe;
	struct cuda_driver driver;
	uint64_t start_ns; /* CLOCK_MONOTONIC when it was opened */
	pid_t process;	   /* that opened it */
	int host_node;	   /* NUMA node of host chunks */
	bool debug;
	uint32_t nr_parts;	 /* devices that the GPUs are taken for; 1: a device is a GPU */
	uint32_t nr_gpus;	 /* that are used: device d is (a part of) GPU d % nr_gpus */
	uint32_t nr_each;	 /* devices of a GPU, at most */
	const char *nvml, *root; /* see struct cuda_config */
	struct digest_key digest_key;
	struct cuda_device device[WEIR_DEVICES_MAX];

	pthread_mutex_t starting, lock;
	struct cuda_chunk **chunk;		    /* NULL: a free place */
	uint32_t nr_chunks, max_chunks, free_place; /* places; none below free_place is free */
	uint64_t nr_created;
	struct cuda_plain *plains;
	struct cuda_region **region; /* by address */
	uint32_t nr_regions, max_regions;
	struct cuda_stream **stream; /* by index; slots stay */
	uint32_t nr_streams, max_streams;
	uint64_t used_bytes[WEIR_MEMORIES_MAX];
	uint64_t managed_bytes;	      /* of this machine's */
	uint64_t managed_limit_bytes; /* asked for, beside the guard's; 0: none */
	uint64_t inplace_bytes[WEIR_DEVICES_MAX][WEIR_MEMORIES_MAX][BACKEND_DIRECTION_NR];

	struct cuda_expected *expected;	      /* chunks to make ahead, by size */
	pthread_t pinner;		      /* who makes them, if pins */
	pthread_cond_t expect, given;	      /* something is expected; nr_ahead is less */
	uint32_t nr_ahead[WEIR_MEMORIES_MAX]; /* threads that make or give back such chunks */
	bool pins;

	struct cuda_aside *aside;   /* to be called, the oldest first */
	pthread_t caller;	    /* who calls them, if has_caller */
	pthread_cond_t given_aside; /* there is one */
	bool has_caller;

	pthread_t migrator;
	pthread_cond_t wake, idle; /* the migrator has work; it has called a function */
	struct cuda_progress *progress;
	uint32_t nr_progress, max_progress;
	uint32_t next_progress; /* to be called in this round */
	void *called;		/* whose function is being called, if calling */
	bool running, calling;
	bool stop;	    /* all threads */
	bool noticed;	    /* fences were found reached, and the migrator does not know yet */
	uint64_t looked_ns; /* when the migrator last began to look; 0: never */
	uint64_t waited_ns; /* when somebody last had waited for a fence */
};

static inline struct cuda *cuda_of(struct backend *b)
{
	return (struct cuda *)(void *)b; /* base comes first */
}

/* ---- cuda_context.c */

/*
 * Around every call of the driver: the thread's capture mode is relaxed, and put back. While any
 * thread captures a stream into a graph, in the mode that is the usual one, the driver refuses what
 * others ask of it in that mode (900 to 908), and the refused call spoils the capture. They nest.
 */
void cuda_relax(struct cuda *cuda);
void cuda_unrelax(struct cuda *cuda);

/* The same, with a device's context, which was taken before, as the thread's; then the one before
 * is put back. Nothing is asked of the driver by who enters again what the thread entered last. */
int cuda_enter(struct cuda *cuda, uint32_t device);
void cuda_leave(struct cuda *cuda);

/* cuda_enter() without translation or message. */
cu_result cuda_push(struct cuda *cuda, uint32_t device);

/* The same where giving something back depends on it: tried more than once. */
int cuda_enter_surely(struct cuda *cuda, uint32_t device);

/* As pthread_create(). The program's signals go to its own threads: this one takes none but those
 * that it causes itself. */
int cuda_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg);

bool cuda_is_host(const struct cuda *cuda, uint32_t memory);

/* The device that a memory belongs to, which is not the host's. */
uint32_t cuda_device_of(const struct cuda *cuda, uint32_t memory);

/* A memory as the driver names it. */
struct cu_location cuda_location(const struct cuda *cuda, uint32_t memory);

/* A mask of devices with one for each GPU among them: all parts of a GPU have what one of them has.
 * The CPU's bit stays. */
uint64_t cuda_gpus_of(const struct cuda *cuda, uint64_t devices);

/* Add a mask of devices to an access list that has nr of others. @return its length. */
size_t cuda_access_add(const struct cuda *cuda, enum backend_prot prot, uint64_t devices,
		       struct cu_access list[WEIR_DEVICES_MAX + 1], size_t nr);

/* Have the driver set it; the bare call, for who has errors of its own. No lock is needed. */
cu_result cuda_access_call(struct cuda *cuda, cu_ptr addr, uint64_t bytes,
			   const struct cu_access *list, size_t nr);
int cuda_access_set(struct cuda *cuda, cu_ptr addr, uint64_t bytes, const struct cu_access *list,
		    size_t nr);

/* ---- cuda_event.c */

/*
 * An event to record, timed or not. It is none to sleep on: of those a stream takes 56 (measured on
 * an H200, driver 580.159), then cuEventRecord() waits; of others, and launches, 1,021.
 * Lock held, the device's context current. @return 0, -ENOMEM, or the driver's error.
 */
int cuda_event_get(struct cuda *cuda, uint32_t device, bool timed, struct cuda_event **out);
void cuda_event_put(struct cuda *cuda, struct cuda_event *event);

/* What to wait with. Lock held, the device's context current. @return as above. */
int cuda_waiter_get(struct cuda *cuda, uint32_t device, struct cuda_waiter **out);
void cuda_waiter_put(struct cuda *cuda, uint32_t device, struct cuda_waiter *waiter);

/* Have the waiter's event be reached after another, which may be recorded anew right away. */
int cuda_waiter_aim(struct cuda *cuda, struct cuda_waiter *waiter, const struct cuda_event *event);

/*
 * When a reached event was, by the clock of now_ns(); 0: the driver does not say. The device's
 * clock does not run as the host's does, but the event lies between its record and when it was
 * seen to be reached: that keeps the two together for as long as the machine is open. The event
 * goes to the free ones, or becomes the base of later times. Lock held, the context current.
 */
uint64_t cuda_event_time_ns(struct cuda *cuda, struct cuda_event *event);

/* Whether the device's base is too old to count a reached event's time from it later on. */
bool cuda_event_is_far(const struct cuda *cuda, const struct cuda_event *event);

/* Begin to count a device's times. Its context is current, and nobody else uses it yet. */
int cuda_time_base(struct cuda *cuda, uint32_t device);

/* Destroy a device's, all of which are free: nobody uses any more. */
void cuda_events_fini(struct cuda *cuda, uint32_t device);

/* ---- cuda_kernel.c */

/* See that a device has the library's kernels. Its context is current; no lock held. */
int cuda_kernels_load(struct cuda *cuda, uint32_t device);

/* Queue a packet's kernel, which is loaded if it is the device's first. The same holds. */
int cuda_packet_queue(struct cuda *cuda, uint32_t device, cu_stream stream,
		      const struct backend_packet *packet);

/* See that a device can take digests: the kernel, and memory for results. The same holds. */
int cuda_digests_load(struct cuda *cuda, uint32_t device);

/* Unload a device's kernels, if they are loaded. Nobody uses the device. */
void cuda_kernels_fini(struct cuda *cuda, uint32_t device);

/* ---- cuda_device.c */

/* cuda_enter() for whatever may be the first to need the device's context. No lock held. */
int cuda_device_enter(struct cuda *cuda, uint32_t device);

/* Have the contexts of a mask of devices, which are going to be mapped something; the CPU's bit is
 * ignored. No lock held. */
int cuda_devices_start(struct cuda *cuda, uint64_t devices);

/* Have no context any more, if there is one. Nobody uses the device. */
void cuda_device_stop(struct cuda *cuda, uint32_t device);

/* ---- cuda_chunk.c */

/* Whether there can be such a chunk; devices as backend_chunk_devices() takes them. */
bool cuda_chunk_valid(const struct cuda *cuda, uint32_t memory, uint64_t bytes, uint64_t *devices);

/* A chunk that is in no table yet, and its end. quiet: failing is no message. The lock not held. */
int cuda_chunk_make(struct cuda *cuda, uint32_t memory, uint64_t bytes, uint64_t devices,
		    bool quiet, struct cuda_chunk **out);
void cuda_chunk_unmake(struct cuda *cuda, struct cuda_chunk *chunk);

/* Give a chunk a place in the table, and a number: the place + 1 in the lower half, so that it is
 * found, a count of chunks made in the upper, so that one of a former chunk is not; and its end
 * there. Lock held. */
int cuda_chunk_add(struct cuda *cuda, struct cuda_chunk *chunk);
void cuda_chunk_del(struct cuda *cuda, const struct cuda_chunk *chunk);

/* The chunk that core means; NULL: there is none of this handle. Lock held. */
struct cuda_chunk *cuda_chunk_find(const struct cuda *cuda, const struct backend_chunk *chunk);

/* The chunk at whose alias some bytes lie; NULL: none. Looks at all. Lock held. */
const struct cuda_chunk *cuda_chunk_at(const struct cuda *cuda, cu_ptr addr, uint64_t bytes);

/* Whether there is a chunk, of host memory. */
bool cuda_chunk_is_host(const struct cuda *cuda, const struct cuda_chunk *chunk);

/* ---- cuda_pin.c */

void cuda_chunk_expect(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
		       int64_t nr);

/* A chunk is going to be created: one that was made ahead, or NULL. Lock held. */
struct cuda_chunk *cuda_ready_take(struct cuda *cuda, uint32_t memory, uint64_t bytes,
				   uint64_t devices);

/* Bytes that were made ahead in a memory and nobody has taken. Lock held. */
uint64_t cuda_ready_bytes(const struct cuda *cuda, uint32_t memory);

/* A memory has no room left: give back what was made ahead there, and make no more. What other
 * threads are making ahead there just now, or are giving back, is waited for. @return whether there
 * was any: there may be room. */
bool cuda_ready_drop(struct cuda *cuda, uint32_t memory);

/* Stop the thread, if it runs, and give back what is ready. */
void cuda_pin_stop(struct cuda *cuda);

/* ---- cuda_memory.c */

int cuda_chunk_create(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
		      struct backend_chunk *out);
int cuda_chunk_add_devices(struct backend *b, const struct backend_chunk *chunk, uint64_t devices);
void cuda_chunk_destroy(struct backend *b, const struct backend_chunk *chunk);
int cuda_device_alloc(struct backend *b, uint32_t memory, uint64_t bytes, void **addr);
void cuda_device_free(struct backend *b, void *addr);
uint64_t cuda_memory_used(struct backend *b, uint32_t memory);
uint64_t cuda_memory_room(struct backend *b, uint32_t memory);
void cuda_memory_holders(struct backend *b, uint32_t memory, char *text, size_t bytes);

/* Bytes of the host's memory that chunks may have, with some to spare for the system. */
uint64_t cuda_host_bytes(const struct cuda *cuda);

/* Whether a device's memory has room for so many bytes more, as far as the driver does not know
 * that: it keeps no account of parts of a GPU. Lock held. */
static inline bool cuda_part_has_room(const struct cuda *cuda, uint32_t memory, uint64_t bytes)
{
	uint64_t limit = cuda->base.desc.memory[memory].bytes;

	return cuda->nr_parts == 1 || cuda_is_host(cuda, memory) ||
	       (bytes <= limit && cuda->used_bytes[memory] <= limit - bytes);
}

/* Note an allocation that the driver made. The lock not held. */
void cuda_plain_add(struct cuda *cuda, struct cuda_plain *plain);

/* Take so much of what the process and this machine may have of managed memory; give it back. 0 or
 * -EDQUOT, logged. The lock not held. */
int cuda_managed_take(struct cuda *cuda, uint64_t bytes);
void cuda_managed_give(struct cuda *cuda, uint64_t bytes);

/* The plain allocation that holds all of [addr, addr + bytes); NULL: none. Lock held. */
const struct cuda_plain *cuda_plain_at(const struct cuda *cuda, cu_ptr addr, uint64_t bytes);

/* ---- cuda_region.c */

int cuda_va_reserve(struct backend *b, uint64_t bytes, uint64_t unit, void **addr);
void cuda_va_release(struct backend *b, void *addr, uint64_t bytes);

/* Where a copy finds bytes: in an alias or a plain allocation. */
struct cuda_place {
	cu_ptr at;
	uint64_t bytes; /* so many lie together there */
	bool host;	/* memory that the CPU reaches as well */
};

/* The first part of bytes from addr on. -EINVAL: memory of nobody. Lock held. */
int cuda_resolve(const struct cuda *cuda, cu_ptr addr, uint64_t bytes, struct cuda_place *out);

/* The region that holds an address; NULL: none. Lock held. */
struct cuda_region *cuda_region_at(const struct cuda *cuda, cu_ptr addr);

/* Bytes of a use by memory, those of `own` left out. -EINVAL: it is no memory of this machine. Lock
 * held. */
int cuda_use_away(const struct cuda *cuda, const struct weir_use *use, uint32_t own,
		  uint64_t bytes[WEIR_MEMORIES_MAX]);

/* What devices may do in a unit now. Lock held, or the region's space the caller. */
enum backend_prot cuda_unit_allowed(const struct cuda *cuda, const struct cuda_region *region,
				    const struct cuda_mapping *mapping);

/* ---- cuda_stream.c */

int cuda_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
		       stream_id_t *out);
void cuda_stream_destroy(struct backend *b, stream_id_t stream);
int cuda_stream_adopt(struct backend *b, uint32_t device, void *native, stream_id_t *out);
void *cuda_stream_native(struct backend *b, stream_id_t stream);
int cuda_stream_wait_native(struct backend *b, stream_id_t stream, void *native);

/* A stream that is not destroyed, or NULL. Lock held. */
struct cuda_stream *cuda_stream_find(const struct cuda *cuda, stream_id_t stream);

/* The driver's stream, and its device. -EINVAL: no such stream. */
int cuda_stream_get(struct cuda *cuda, stream_id_t stream, cu_stream *out, uint32_t *device);

/* Whether a stream takes work, or is being captured into a graph and only notes it. 0,
 * -WEIR_ECONTRACT, or an error of the driver. quiet: that it is captured is no message. */
int cuda_capture_check(struct cuda *cuda, stream_id_t id, cu_stream stream, bool quiet);

/* -EINVAL says that there is no such fence or stream: what the driver refused is something else. */
int cuda_refusal(int err);

/*
 * Notice which of a stream's fences are reached: up to `known`, where somebody has waited, those of
 * which the driver says so, and all when the context is lost, since what was queued is over then;
 * that error is the stream's, and kept until it is asked for. Any other error is no answer, and
 * leaves the ring as it is. Of what is a stream of each thread one that is reached says nothing of
 * those before it: none is reached before these are. Lock held.
 * @return 0, or that there was no answer. *any is set when any but marks are reached.
 */
int cuda_stream_retire(struct cuda *cuda, struct cuda_stream *stream, uint64_t known, bool *any);

/* Notice what is reached on all streams. any: whether anything but marks was; waits: whether fences
 * are left. Lock held on entry and exit, not while the driver is asked. For the migrator. */
void cuda_streams_retire(struct cuda *cuda, bool *any, bool *waits);

/* Give back all streams; their events become free. Nobody uses them any more. */
void cuda_streams_fini(struct cuda *cuda);

/* ---- cuda_fence.c */

int cuda_calls_begin(struct backend *b, stream_id_t stream);
void cuda_calls_end(struct backend *b);
int cuda_stream_wait(struct backend *b, stream_id_t stream, fence_t fence);
int cuda_fence_record(struct backend *b, stream_id_t stream, fence_t *out);
int cuda_fence_untimed(struct backend *b, stream_id_t stream, fence_t *out);
int cuda_fence_mark(struct backend *b, stream_id_t stream, fence_t *out);
int cuda_fence_done(struct backend *b, fence_t fence);
int cuda_fence_seen(struct backend *b, fence_t fence);
int cuda_fence_wait(struct backend *b, fence_t fence);
int cuda_fence_wait_awake(struct backend *b, fence_t fence);
uint64_t cuda_fence_time_ns(struct backend *b, fence_t fence);

/* ---- cuda_debug.c */

int cuda_access_begin(struct backend *b, stream_id_t stream, const void *owner,
		      const struct weir_use *uses, uint32_t nr);
void cuda_access_end(struct backend *b, stream_id_t stream, const void *owner);
int cuda_access_narrow(struct backend *b, stream_id_t stream, const void *owner, const void *addr,
		       uint64_t bytes);
int cuda_access_guard(struct backend *b, void *reservation, bool guarded);

/* Whether a unit may be remapped. call: for the message. 0 or -WEIR_ECONTRACT, logged. */
int cuda_debug_remap(struct cuda *cuda, const char *call, cu_ptr addr, uint64_t bytes);

/* Before and after a kernel is queued: -WEIR_ECONTRACT, or the error of its work; logged. */
int cuda_debug_launch_begin(struct cuda *cuda, stream_id_t stream,
			    const struct weir_launch *launch);
int cuda_debug_launch_end(struct cuda *cuda, cu_stream stream, uint32_t device,
			  const struct weir_launch *launch);

/* ---- cuda_map.c */

int cuda_map(struct backend *b, void *addr, const struct backend_chunk *chunk,
	     enum backend_prot prot, uint64_t devices);
int cuda_unmap(struct backend *b, void *addr);
int cuda_set_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices);

/* ---- cuda_work.c */

int cuda_launch(struct backend *b, stream_id_t stream, const struct weir_launch *launch);
int cuda_stream_call(struct backend *b, void *native, int (*fn)(void *native));
int cuda_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
	      uint32_t nr);
int cuda_packet_prepare(struct backend *b, uint32_t device);
int cuda_packet(struct backend *b, stream_id_t stream, const struct backend_packet *packet);
int cuda_upload(struct backend *b, stream_id_t stream, void *dst, const void *data, uint64_t bytes);
int cuda_download(struct backend *b, stream_id_t stream, void *data, const void *src,
		  uint64_t bytes);
void cuda_inplace_bytes(struct backend *b, uint32_t device, uint32_t memory,
			uint64_t bytes[BACKEND_DIRECTION_NR]);

/* ---- cuda_digest.c */

int cuda_digest(struct backend *b, stream_id_t stream, const struct backend_chunk *chunk,
		uint64_t bytes, uint32_t *ticket);
int cuda_digest_take(struct backend *b, uint32_t ticket, struct digest *out);
int cuda_digest_prepare(struct backend *b, uint32_t device);

/* ---- cuda_managed.c */

int cuda_managed_setup(struct backend *b, const struct backend_managed *setup);
int cuda_managed_alloc(struct backend *b, uint64_t bytes, void **addr);
int cuda_managed_prefetch(struct backend *b, stream_id_t stream, void *addr, uint64_t bytes,
			  uint32_t memory);
int cuda_managed_advise(struct backend *b, void *addr, uint64_t bytes, enum backend_advice advice,
			uint32_t to);
void cuda_managed_free(struct backend *b, void *addr);

/* ---- cuda_aside.c */

int cuda_aside(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg), void *arg);

/* Stop the thread, if it runs, when all that was given to it is called. */
void cuda_aside_stop(struct cuda *cuda);

/* ---- cuda_migrator.c */

int cuda_set_progress(struct backend *b, void (*fn)(void *arg), void *arg);

/* Stop the thread, if it runs. */
void cuda_migrator_stop(struct cuda *cuda);

/* ---- cuda_describe.c */

int cuda_attribute(const struct cuda *cuda, uint32_t device, int which, int *value);

/* Fill the machine's description, with rates and costs as measured, if not NULL. */
int cuda_describe(struct cuda *cuda, const struct weir_machine_desc *measured);
void cuda_device_text(struct backend *b, uint32_t device, char *text, size_t bytes);

#endif
