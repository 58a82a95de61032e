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

#include "src/backend/backend.h"

struct manager;

struct manager_config {
	struct weir_machine *machine; /* borrowed, outlives the manager */
	uint32_t device;
	uint64_t gpu_budget_bytes;  /* 0: all of the device's memory */
	uint64_t host_budget_bytes; /* 0: all of the host's */
	uint64_t block_bytes;	    /* 0: the manager's default */
	const char *options;	    /* text after '+' in the name, or "" */
};

/* What a manager reports after a run; bytes and counts since creation. */
struct manager_stats {
	uint64_t peak_bytes[WEIR_MEMORIES_MAX]; /* taken of each memory, at most */
	uint64_t bytes[WEIR_DIRECTION_NR][WEIR_CAUSE_NR];
	uint64_t nr_faults, nr_first_touches; /* managed memory only */
	/* Of managers that move blocks, else 0: a block's size; how many of the device's memory are
	 * there for what moves, the rest of the budget being taken by what does not. */
	uint64_t block_bytes, movable_blocks;
};

/*
 * Where a launch finds its blocks: whether each that its use number `use` names, wholly or in part,
 * is in the device's memory while it runs, in order of address. A discard touches nothing.
 */
typedef void (*manager_where_fn)(void *arg, uint32_t use, const bool *resident, uint32_t nr_blocks);

struct manager_ops {
	const char *name; /* as written on the command line */
	const char *help; /* one line */

	/* -EINVAL: options this manager does not have; -ENOMEM; -WEIR_*. */
	int (*create)(const struct manager_config *config, struct manager **out);

	/* Frees what is still allocated. Waits for queued work. */
	void (*destroy)(struct manager *m);

	/* Memory that kernels launched through this manager may touch. name: static text, for
	 * reports. -ENOMEM: it does not fit, under this manager's rules. */
	int (*alloc)(struct manager *m, uint64_t bytes, const char *name, void **addr);

	/* Queued work may still use it. */
	void (*free)(struct manager *m, void *addr);

	/* The CUstream that kernels are queued on; NULL on a simulated machine. Not required. */
	void *(*stream)(struct manager *m);

	/* Queue a kernel. Returns at once, or when there is room for what it touches. */
	int (*launch)(struct manager *m, const struct weir_launch *launch);

	/* Call fn for each use of each launch from now on, in order, before launch() returns; NULL:
	 * no more. For managers that move blocks; not required. -ENOMEM. */
	int (*tell_where)(struct manager *m, manager_where_fn fn, void *arg);

	/* Copy a buffer of the program into allocated memory, or back; waits for it, in order with
	 * the launches. data is NULL on phantom machines: then only time and state change. */
	int (*write)(struct manager *m, void *addr, const void *data, uint64_t bytes);
	int (*read)(struct manager *m, void *data, const void *addr, uint64_t bytes);

	/* Wait for all queued work. 0, or its first error. */
	int (*sync)(struct manager *m);

	void (*stats)(struct manager *m, struct manager_stats *out);

	/* For tests: check every structure; 0 or -EUCLEAN. */
	int (*check)(struct manager *m);
};

/* Every manager begins with this. */
struct manager {
	const struct manager_ops *ops;
	struct backend *backend;
	uint32_t device; /* that its kernels run on */
};

extern const struct manager_ops manager_native, manager_malloc, manager_zerocopy, manager_uvm,
	manager_weir;

/* All managers, NULL at the end. */
extern const struct manager_ops *const manager_list[];

/*
 * Create a manager by the name on the command line: "weir", "uvm+prefetch". -ENOENT: no such
 * manager; otherwise as ops->create.
 */
int manager_create(const char *name, const struct manager_config *config, struct manager **out);

#endif
