/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain memory: objects of one memory each, made of equal pieces of physical memory, and windows of
 * addresses in which they are mapped. weir.h says what objects do for their users; this is how the
 * files of it share the work:
 *
 *   chunk.h          chunks of physical memory, a layer of its own: chunk_internal.h has its files
 *   choose.c         which memory an object goes to
 *   mem_pool.c       what a pool has: its process, its pools of chunks, their figures
 *   mem_file.c       the file for `weir info --memory`
 *   mem_window.c     windows
 *   mem_object.c     objects: made of pieces; given up, or doomed
 *   mem_copy.c       reading and writing by copy engines, guards
 *   mem_map.c        who may use an object
 *   mem_report.c     leak reports, statistics, the checker
 *   mem.c            pools made and destroyed, objects allocated and freed
 *
 * They stand in order: a file uses those above it alone. mem_file_read.c is the program's, which
 * reads the file.
 */
#ifndef WEIR_MEM_MEM_H
#define WEIR_MEM_MEM_H

#include <pthread.h>
#include <sys/types.h>

#include "src/base/list.h"
#include "src/mem/chunk.h"
#include "src/mem/mem_file.h"

#define MEM_PAGE_MIN UINT64_C(4096)
#define MEM_PAGE_MIDDLE (UINT64_C(64) << 10)
#define MEM_PAGE_LARGE (UINT64_C(2) << 20)
/* Of chunk pools: what is kept unused, at least two roots, and unmerged. */
#define MEM_IDLE_PER_MILLE 100u
#define MEM_POOLED 8u
#define MEM_CLASSES 64u /* of pages above a root: one for each power of two */
#define MEM_WINDOW_BUCKETS 256u
#define MEM_USERS (WEIR_DEVICES_MAX + 1) /* devices, then the CPU */
#define MEM_GUARD_BYTES 64u		 /* at least so many behind an object */
#define MEM_GUARD_MOST 512u

/*
 * Addresses for whole roots, nr_units of unit bytes each. Small objects share the window of the
 * root that they lie in; it is found by the root's handle. A larger object has one of its own. Made
 * when the first object is mapped at an address, gone with the last that was.
 *
 * wanted = the users u with nr_users[u] > 0; wanted is a part of access[i] for each unit i, and is
 * access[i] but where taking something back failed. nr_users[u] = objects of the window that u may
 * use. All of it is guarded by the pool's lock.
 */
struct mem_window {
	struct mem_window *next; /* in its bucket */
	uint64_t handle;	 /* of the shared root; 0: one object's own */
	char *base;
	uint64_t unit;
	uint32_t nr_units;
	uint32_t nr_objects;
	uint32_t nr_users[MEM_USERS];
	uint32_t found_objects, found_users[MEM_USERS]; /* by the checker */
	struct {
		struct backend_chunk chunk;
		uint64_t access; /* mask for the backend; 0: not mapped */
	} at[];
};

/* An object. Nothing changes but what is marked so, which the pool's lock guards. */
struct weir_mem {
	struct list_link link; /* first; guarded: in pool->live or pool->doomed, or none */
	struct weir_pool *pool;
	struct chunk_pool *chunks;
	uint32_t memory;
	uint64_t bytes, page_bytes, physical_bytes;
	uint64_t offset;     /* in its window; 0 unless it has one piece */
	uint64_t created_ns; /* real time, on simulated machines too */
	enum weir_choice choice;
	unsigned line;
	uint32_t guard_bytes; /* behind bytes; 0: none */
	uint32_t slot;	      /* in the pool's file; MEM_FILE_RECORDS: none. Guarded */
	char owner[MEM_FILE_OWNER];
	char file[MEM_FILE_SOURCE];
	uint64_t users, engines;   /* who may use it: bits of weir.h. Guarded */
	struct mem_window *window; /* NULL: never mapped at an address. Guarded */
	fence_t fence;		   /* doomed: not before that. Guarded */
	stream_id_t stream;	   /* doomed and unfenced: not before what is queued there */
	bool unfenced;		   /* Guarded */
	bool uncounted; /* the pool's own: not in its figures, and no limit holds for it */
	uint32_t nr_pieces;
	struct mem_chunk *piece[];
};

/*
 * allocated_bytes[m] = sum of physical_bytes over objects in m, live and doomed, and of those being
 * made, but for uncounted ones; dma_bytes[d] = the same of those not in d's own memory that
 * have d in engines.
 */
struct weir_pool {
	/* Nothing down to the lock ever changes. */
	struct weir_machine *machine;
	struct backend *backend;
	uint64_t root_bytes;
	uint64_t limit_bytes[WEIR_MEMORIES_MAX];
	char name[MEM_FILE_OWNER];
	bool guard;
	pid_t pid;
	struct phys_client client[WEIR_MEMORIES_MAX]; /* accounts: see phys.h */

	/* Taken with a space's lock held or without, never in a progress function, which may run
	 * inside a call that is made under it. Calls of the backend that do not block, calls
	 * of chunk pools that do not, and the log are allowed under it. */
	pthread_mutex_t lock;
	struct chunk_pool *chunks[WEIR_MEMORIES_MAX][MEM_CLASSES]; /* made once, then constant */
	struct list_link live, doomed;
	struct mem_window *window[MEM_WINDOW_BUCKETS];
	stream_id_t stream[WEIR_DEVICES_MAX]; /* for copies of the pool's own */
	bool has_stream[WEIR_DEVICES_MAX];
	uint64_t nr_objects[WEIR_MEMORIES_MAX], allocated_bytes[WEIR_MEMORIES_MAX];
	uint64_t dma_bytes[WEIR_DEVICES_MAX];
	uint64_t nr_late;
	struct mem_file_writer *writer; /* NULL: there is no file */
};

static inline struct weir_mem *mem_of(struct list_link *link)
{
	return (struct weir_mem *)link;
}

static inline bool mem_is_host(const struct weir_pool *pool, uint32_t memory)
{
	return pool->backend->desc.memory[memory].kind == WEIR_MEMORY_HOST;
}

/* ------------------------------------------------------------------ which memory (choose.c) */

/* Whether a device has a memory, or a link to it. */
bool mem_reaches(const struct weir_machine_desc *desc, uint32_t device, uint32_t memory);

/* ------------------------------------------------------------------ pools (mem_pool.c) */

/* Whether this process made the pool; else logged. */
bool mem_pool_is_mine(const struct weir_pool *pool);

/* The pool of chunks for a page; made on first use. Takes the lock. Blocks: then. */
int mem_pool_chunks(struct weir_pool *pool, uint32_t memory, uint64_t page,
		    struct chunk_pool **out);

/* Free bytes of each memory, as far as is known, within the pool's limits. With the lock. */
void mem_pool_room(struct weir_pool *pool, uint64_t room[WEIR_MEMORIES_MAX]);

/* What weir_pool_query() does. With the lock. */
void mem_pool_figures(struct weir_pool *pool, struct weir_pool_stats *out);

/* ------------------------------------------------------------------ the file (mem_file.c) */

/* Begin the pool's file, if one is wanted; that it cannot be made is a warning. @return 0, or
 * -EINVAL, logged: what the environment says of it is wrong */
int mem_file_begin(struct weir_pool *pool);
/* Take the file away, if there is one. */
void mem_file_end(struct weir_pool *pool);

/* Write an object into it, or out of it. With the lock. */
void mem_file_show(struct weir_mem *mem);
void mem_file_hide(struct weir_mem *mem);

/* ------------------------------------------------------------------ windows (mem_window.c) */

/* The users of a window, as a mask for the backend. */
uint64_t mem_window_wanted(const struct mem_window *window);

/* What weir_mem_map(), with masks that are complete, and weir_mem_unmap() do; the file is not told.
 * With the lock. */
int mem_map_locked(struct weir_mem *mem, uint64_t users, uint64_t engines);
void mem_unmap_locked(struct weir_mem *mem, uint64_t users, uint64_t engines);

/* Have the engines of these devices reach an object's physical memory, from here on. */
int mem_add_engines(struct weir_mem *mem, uint64_t engines);

/* Take an object from all who may use it, and out of its window. With the lock. false: some of it
 * could not be unmapped, and it is still in its window: to be tried again. */
bool mem_window_leave(struct weir_mem *mem);

/* ------------------------------------------------------------------ objects (mem_object.c) */

/* An object of the pool's own: without guard or zeros, in no list, counted nowhere. Does not block,
 * but for the first one of a memory. */
int mem_make(struct weir_pool *pool, uint32_t memory, uint64_t bytes, uint64_t page_bytes,
	     struct weir_mem **out);

/* What a program asks for: counted, within the limit, in no list. Zeroed if so asked, unless it is
 * the host's. */
int mem_create(struct weir_pool *pool, uint32_t memory, uint64_t page,
	       const struct weir_mem_params *params, struct weir_mem **out);

/* Take an object from the live ones. With the lock. */
void mem_retire(struct weir_mem *mem);

/* Give an object up that is in no list: at once or, if that is not possible, doomed. With the lock.
 * What it may not be given up before is set in it. */
void mem_give_up(struct weir_mem *mem);

/* Try the doomed ones again. With the lock. */
void mem_reap(struct weir_pool *pool);

/* What others ask a pool for, see phys_give_fn: that, and unused memory given back. Takes the
 * lock. */
uint64_t mem_give(struct phys_client *client, uint64_t bytes);

/* The same with all that is unused in all memories. @return bytes given back */
uint64_t mem_trim(struct weir_pool *pool);

/* ------------------------------------------------------------------ copies (mem_copy.c) */

/* Make an object's bytes zero, where the chunk pool did not; put its guard behind it. Block. */
void mem_zero_host(struct weir_mem *mem);
int mem_guard_put(struct weir_mem *mem);

/* Whether the guard is as it was: 0, -EUCLEAN (logged), or an error of the machine. Blocks. */
int mem_guard_check(struct weir_mem *mem);

/* ------------------------------------------------------------------ reports (mem_report.c) */

/* Log each live object. With the lock. @return how many */
uint64_t mem_pool_tell(struct weir_pool *pool, enum weir_log_level level, const char *what);

#endif
