/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manager is what a workload allocates from and launches through: weir, or one of the plain
 * ways of holding memory that weir is compared with. One file each; manager_list[] names them.
 *
 * A manager that cannot hold the workload returns -ENOMEM: a result, not a failure. One workload
 * runs on one manager from one thread.
 */
#ifndef WEIR_MANAGER_H
#define WEIR_MANAGER_H

#include <stdio.h>

#include "src/backend/backend.h"
#include "weir/paged.h"
#include "weir/policy.h"
#include "weir/replica.h"

struct manager;
struct explain; /* src/residency/explain.h */
struct plan_maker;

struct manager_config {
	struct weir_machine *machine; /* borrowed, outlives the manager */
	uint32_t device;
	/* How many devices run its kernels, from `device` on in the machine's order; 0: 1. Only a
	 * manager that has launch_on() takes more than 1. */
	uint32_t nr_devices;
	uint64_t gpu_budget_bytes;  /* of each device's memory; 0: all of it */
	uint64_t host_budget_bytes; /* 0: all of the host's */
	uint64_t block_bytes;	    /* 0: the manager's default */
	uint32_t page_bytes;	    /* of memory that kernels page; 0: the manager's default */
	/* Of other devices' memories, by memory: how much a manager that uses them may have. */
	uint64_t near_bytes[WEIR_MEMORIES_MAX];
	uint64_t needs_bytes;	 /* that the workload allocates of the manager; 0: not known */
	double near_bytes_per_s; /* to be read and written in each, on average; 0: no limit */
	/* Of the workload, for memory that its kernels page for themselves; borrowed for as long as
	 * the manager lives. NULL: its kernels do not. */
	const struct weir_paged_kernels *paged_kernels;
	const struct plan_maker *plans; /* who makes weir's plans, for as long as it lives; NULL:
					 * weir */
	const char *options;		/* text after '+' in the name, or "" */
};

#define MANAGER_GLOBALS_MAX 16u

/* What became of a manager's policy, since it was opened. */
struct manager_policy_stats {
	bool set; /* else it has none, and the rest is 0 */
	struct weir_policy_stats counts;
	uint32_t nr_globals;
	struct {
		char name[32];
		struct weir_policy_global is; /* but for its name */
	} global[MANAGER_GLOBALS_MAX];
};

/* What kernels did that page for themselves. */
struct manager_pages {
	uint64_t nr_in, nr_out; /* pages copied by them */
	uint64_t nr_in_place;	/* accesses to the host's memory */
	uint64_t nr_waits;	/* looks at a page that was being copied */
};

#define MANAGER_PICKS_MAX 16u

/* What became of one allocation where the manager picks: whether the device's memory is used for it
 * as far as there is any. */
struct manager_pick {
	char name[32];
	bool paged; /* else it was mostly left where it is */
	uint64_t nr_pages, nr_in, nr_in_place;
};

/* What a manager reports after a run; bytes and counts since creation. */
struct manager_stats {
	/* Held of each memory, at most: what it took of the machine, used or kept for reuse. Of
	 * managed memory on a real GPU, which does not tell: what was allocated, as the GPU's. */
	uint64_t peak_bytes[WEIR_MEMORIES_MAX];
	uint64_t bytes[BACKEND_DIRECTION_NR]
		      [WEIR_CAUSE_NR]; /* over the (first) device's host link */
	/* Over other links, by link; 0 of managers that do not use other devices' memories. With
	 * several devices the host links of all but the first one are among these. */
	uint64_t near[WEIR_LINKS_MAX][WEIR_DIRECTION_NR][WEIR_CAUSE_NR];
	/* Of managers of solvers, else 0: messages between devices, and their bytes, by how they
	 * are sent. What kernels read in place is no message. */
	uint64_t nr_sent[WEIR_REPLICA_MECHANISM_NR], sent_bytes[WEIR_REPLICA_MECHANISM_NR];
	uint64_t nr_local, local_bytes; /* those among them inside one memory, over no link */
	uint64_t list_bytes;		/* beside them: lists from the host, for packets */
	uint64_t moved_bytes;		/* of the same managers: of blocks that moved beside that */
	uint64_t nr_faults, nr_first_touches; /* managed memory only */
	/* Of managers that move blocks, else 0: a block's size; how many of the device's memory are
	 * there for what moves, the rest of the budget being taken by what does not. */
	uint64_t block_bytes, movable_blocks;
	struct manager_pages pages; /* of managers whose memory kernels page, else 0 */
	struct manager_pick pick[MANAGER_PICKS_MAX]; /* of those that pick, else none: */
	uint32_t nr_picks; /* of allocations that there are, or were last */
	struct manager_policy_stats policy;
};

/* A block is in the device's own memory, in another device's, or in the host's or nowhere. */
enum manager_where { MANAGER_OWN, MANAGER_NEAR, MANAGER_HOST };

/*
 * Where a launch finds its blocks while it runs (enum manager_where): each that its use number
 * `use` names, wholly or in part, in order of address. A discard touches nothing.
 */
typedef void (*manager_where_fn)(void *arg, uint32_t use, const uint8_t *where, uint32_t nr_blocks);

struct manager_ops {
	const char *name; /* as written on the command line */
	const char *help; /* one line */

	/* -EINVAL: options this manager does not have, or devices that the machine lacks; -ENOMEM;
	 * -WEIR_*. */
	int (*create)(const struct manager_config *config, struct manager **out);

	/* Frees what is still allocated, and closes its policy. Waits for queued work. */
	void (*destroy)(struct manager *m);

	/* Let a policy take decisions, before anything is allocated; of its machine's managed
	 * memory one manager at a time. It is closed when the manager is destroyed. Managers lack
	 * this who take no decision that a policy could. -ENOTSUP: not on this machine. */
	int (*set_policy)(struct manager *m, struct weir_policy *policy);

	/* Memory that kernels launched through this manager may touch. name: static text, for
	 * reports. -ENOMEM: it does not fit, under this manager's rules. */
	int (*alloc)(struct manager *m, uint64_t bytes, const char *name, void **addr);

	/* The same, of memory that kernels only read; write() may change it. Not required:
	 * manager_alloc_constant() is what to call. */
	int (*alloc_constant)(struct manager *m, uint64_t bytes, const char *name, void **addr);

	/* Advise to keep what alloc() gave in the device's own memory, or in the host's. Not
	 * required: manager_prefer() is what to call. */
	int (*prefer)(struct manager *m, void *addr, enum manager_where where);

	/* Queued work may still use it. */
	void (*free)(struct manager *m, void *addr);

	/* The CUstream that the first device's kernels are queued on; NULL on a simulated machine.
	 * Not required. */
	void *(*stream)(struct manager *m);

	/* Queue a kernel. Returns at once, or when there is room for what it touches. */
	int (*launch)(struct manager *m, const struct weir_launch *launch);

	/* The same on the index-th of the manager's devices; launch() is on the first one. Launches
	 * on different devices run at the same time, unless one writes what the other uses: then
	 * they run in the order of the calls. For managers of several devices; others lack it.
	 * -EINVAL: no such device. */
	int (*launch_on)(struct manager *m, uint32_t index, const struct weir_launch *launch);

	/* Call fn for each use of each launch from now on, in order, before launch() returns; NULL:
	 * no more. For managers that move blocks; not required. -ENOMEM; -ENOTSUP: the manager has
	 * several devices, each of which has memory of its own. */
	int (*tell_where)(struct manager *m, manager_where_fn fn, void *arg);

	/*
	 * Launches between begin and end are of kernels that page memory for themselves, through
	 * the view: what alloc() gave, as range *range of it, addr being where it begins. Their
	 * uses say what they ask for of each; granule is the bytes of one access, whatever the
	 * pattern, and the uses of one memory agree on it. Memory whose range nobody asked for is
	 * used by its address; other memory no more, and outside brackets none. For managers whose
	 * memory is paged; others lack all three, and kernels use addresses. paged_range() may be
	 * called at any time; -EINVAL: no such address.
	 */
	int (*paged_begin)(struct manager *m, struct weir_paged_view *view);
	int (*paged_range)(struct manager *m, const void *addr, uint32_t *range);
	int (*paged_end)(struct manager *m);

	/* Have nothing in the device's memory that can be elsewhere: as before it was ever used
	 * there. Waits for queued work. For managers that move contents; not required. */
	int (*drain)(struct manager *m);

	/* Copy a buffer of the program into allocated memory, or back; waits for it, in order with
	 * the launches. data is NULL on phantom machines: then only time and state change. */
	int (*write)(struct manager *m, void *addr, const void *data, uint64_t bytes);
	int (*read)(struct manager *m, void *data, const void *addr, uint64_t bytes);

	/* As weir_advise() and weir_prefetch(), of what alloc() gave; where is a memory or a device
	 * of this machine. What the manager holds differently it does not do: -ENOTSUP, -EINVAL,
	 * -ENOMEM, and nothing has changed. Not required. */
	int (*advise)(struct manager *m, void *addr, enum weir_advice advice, uint32_t where);
	int (*prefetch)(struct manager *m, void *addr, uint64_t bytes, uint32_t memory);

	/* As weir_space_set_budget(). Not required. */
	int (*set_budget)(struct manager *m, uint32_t memory, uint64_t bytes);

	/* Wait for all queued work. 0, or its first error. */
	int (*sync)(struct manager *m);

	/* Wait until kernels are done, and look at nothing else that sync() looks at. Not required:
	 * manager_wait() is what to call. */
	int (*wait)(struct manager *m);

	/* After sync(): when the last launch was done, by the machine's clock; 0: not known. Not
	 * required: as sync() returns. */
	uint64_t (*done_ns)(struct manager *m);

	void (*stats)(struct manager *m, struct manager_stats *out);

	/* Set a mark in the trace that the manager's space may be writing. Not required:
	 * manager_mark_epoch() is what to call. */
	void (*mark)(struct manager *m, const char *name);

	/* As weir_space_trace(). Not required. */
	int (*trace)(struct manager *m, const char *path);

	/* As explain_get(), of managers that plan. Not required: manager_explain() is what to call.
	 */
	int (*explain)(struct manager *m, struct explain **out);

	/* For tests: check every structure; 0 or -EUCLEAN. */
	int (*check)(struct manager *m);
};

/* Every manager begins with this. */
struct manager {
	const struct manager_ops *ops;
	struct backend *backend;
	uint32_t device;	    /* that its kernels run on; of several, the first */
	struct weir_policy *policy; /* owned, but by a wrapper of a manager; NULL: none */
};

extern const struct manager_ops manager_native, manager_malloc, manager_zerocopy, manager_uvm,
	manager_weir, manager_weir_paged;

/* All managers, NULL at the end. */
extern const struct manager_ops *const manager_list[];

/*
 * Create a manager by the name on the command line: "weir", "uvm+prefetch"; or, with a policy of
 * its own, "uvm policy=lru": weir_policy_open() says what can stand there. -ENOENT: no such
 * manager; -ENOTSUP: it cannot have several devices, or a policy; otherwise as ops->create,
 * set_policy and weir_policy_open().
 */
int manager_create(const char *name, const struct manager_config *config, struct manager **out);

/* The policy in a manager's name: what follows " policy="; NULL: none. */
const char *manager_policy(const char *name);

/* The manager of a name, without its options and its policy. NULL: there is none such. */
const struct manager_ops *manager_find(const char *name);

/* For managers: what became of their policy, if they have one. */
void manager_policy_stats(const struct manager *m, struct manager_policy_stats *out);

/* Whether the manager of this name uses other devices' memories, as near_bytes says, and cannot be
 * without: those that end in +near or +near-copy. */
bool manager_is_near(const char *name);

/* As ops->alloc(), of memory that kernels only read. */
int manager_alloc_constant(struct manager *m, uint64_t bytes, const char *name, void **addr);

/* As ops->prefer(), or nothing. where: MANAGER_OWN or MANAGER_HOST. */
int manager_prefer(struct manager *m, void *addr, enum manager_where where);

/* As ops->explain(); *out NULL: it plans nothing. */
int manager_explain(struct manager *m, struct explain **out);

/* As ops->wait(), or ops->sync(). */
int manager_wait(struct manager *m);

/* As ops->mark(), or nothing: so many epochs of all are done. "epoch 1" before the first, "end". */
void manager_mark_epoch(struct manager *m, uint32_t done, uint32_t total);

/* The same of the moment at which an epoch's time ends: what follows belongs to no epoch. */
void manager_mark_pause(struct manager *m);

/* For managers: where bytes are counted that cross between the device and another memory. */
uint64_t *manager_traffic(const struct manager *m, uint32_t memory, enum backend_direction way,
			  enum weir_cause cause, struct manager_stats *stats);

#endif
