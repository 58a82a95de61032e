/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manager of a solver: where arrays lie that several devices compute on, how each device reads
 * what its neighbours wrote, and what waits for what. managers/manager.h, for other workloads, has
 * one address for an allocation; here each device has addresses of its own. One file each;
 * solver_managers[] names them.
 *
 * An array is split into slabs, one behind the other, one for each device, which alone writes it.
 * Each iteration the devices read one array, their slab and up to halo_bytes on either side of it,
 * which may be all of it, and write their slab of another one. A manager is used by one thread.
 */
#ifndef WEIR_SOLVER_MANAGER_H
#define WEIR_SOLVER_MANAGER_H

#include "managers/manager.h"

#define SOLVER_ARRAYS_MAX 4u
#define SOLVER_USES_MAX 8u
#define SOLVER_OWN_USES_MAX 8u

/* How an array is split. Offsets are of bytes and rise: no slab is empty. */
struct solver_layout {
	uint32_t nr_devices;
	uint64_t offset[WEIR_DEVICES_MAX + 1]; /* where slabs begin; then the array's bytes */
	/* Read beyond a slab on either side: no more than any slab has, or all that there is. */
	uint64_t halo_bytes;
};

/* What a step does with a part of an array. */
struct solver_use {
	uint32_t array;
	uint64_t offset, bytes;
	enum weir_use_kind kind; /* WEIR_READ, WEIR_OVERWRITE */
	uint64_t random_bytes;	 /* read in pieces of granule bytes, in all; 0: each byte once */
	uint32_t granule;
	bool listed; /* read: only what the device's list has of the part */
};

/* Part of that at an address, as a launch has it. */
struct weir_use solver_use_at(const struct solver_use *use, void *addr, uint64_t bytes);

/* Of a device's work in an iteration. */
enum solver_part {
	SOLVER_WHOLE,	 /* all of it: it has one step */
	SOLVER_BOUNDARY, /* first, what neighbours read in the next iteration, */
	SOLVER_INTERIOR, /* then the rest */
};

/* Boundaries of several steps are computed on two streams in turn: as the last blocks of one run,
 * which rows or vertices with most work keep longest, the next one fills the device. */
static inline bool solver_slice_is_aside(uint32_t slice)
{
	return slice % 2;
}

/* One launch on one device. */
struct solver_step {
	uint32_t device; /* the index-th of the manager's */
	enum solver_part part;
	uint32_t slice; /* of a boundary that has several steps: which it is, from 0 on. Steps of
			 * one number are in order, in all iterations; others need not be. */
	/* Step 1 begins behind the beginning of step 0: both wait for the same, and of two launches
	 * that may begin a device takes either one first. */
	bool in_turn;
	const struct weir_kernel *kernel;
	const void *args; /* args_bytes, copied */
	size_t args_bytes;
	struct solver_use use[SOLVER_USES_MAX];
	uint32_t nr_uses;
	/* Of the device's own plain memory, which the manager knows nothing of; borrowed. */
	const struct weir_use *own;
	uint32_t nr_own; /* up to SOLVER_OWN_USES_MAX */
	fence_t *done;	 /* if not NULL: receives a fence behind the launch */
};

/* Elements of 4 bytes: their numbers from the beginning of an array, each larger than the one
 * before. */
struct solver_list {
	const uint32_t *element;
	uint64_t nr;
};

struct solver_config {
	struct weir_machine *machine;			/* borrowed, outlives the manager */
	uint32_t nr_devices;				/* the machine's first ones */
	struct solver_layout layout[SOLVER_ARRAYS_MAX]; /* of arrays, by their numbers */
	/* What each device reads of others' slabs, of all arrays alike, where uses say so. Borrowed
	 * until alloc() returns. */
	struct solver_list list[WEIR_DEVICES_MAX];
	bool lists_by_hand; /* managers that copy by hand send elements of lists */
	/* How much of its own memory each device may use; 0: all. Of managers that spill. */
	uint64_t budget_bytes[WEIR_DEVICES_MAX];
	const char *options; /* of the entry of solver_managers[] */
};

struct solver_manager;

/* All are required, and return 0 or a negative error, unless they say otherwise. */
struct solver_manager_ops {
	const char *name; /* as written on the command line */
	const char *help; /* one line */
	const char *options;

	/* An iteration comes as two steps a device: first the boundary of each device, then the
	 * interior of each. Else as one. */
	bool split;
	bool one_device; /* it takes one device, whatever the machine has */
	bool in_place;	 /* kernels read what is in their neighbours' memory */
	bool limit;	 /* it sends nothing: fields are wrong, and are not looked at */
	bool by_hand;	 /* it copies halos, or the lists of the configuration if it says so */
	bool lists;	 /* it looks at the lists of the configuration */
	bool spills;	 /* what devices' memories have no room for is elsewhere */

	/* -ENOMEM: it does not fit (a result, not a failure); -ENOTSUP: devices without a link. */
	int (*create)(const struct solver_config *config, struct solver_manager **out);

	/* Waits for queued work, frees everything. Cannot fail. */
	void (*destroy)(struct solver_manager *m);

	/* The next array, number 0 and on; contents are undefined. name: static text. */
	int (*alloc)(struct solver_manager *m, const char *name);

	/* The address at which a device's kernels have the byte at this offset: of its slab, where
	 * addresses follow each other, and of its halos. Never NULL, and it does not change. */
	void *(*at)(struct solver_manager *m, uint32_t array, uint32_t device, uint64_t offset);

	/* Queue a launch, ordered behind what the other devices' steps of the iteration before
	 * wrote that it reads, and read that it writes. When a boundary or a whole is queued, what
	 * it writes may be sent as soon as it is done. */
	int (*step)(struct solver_manager *m, const struct solver_step *step);

	/* All steps of an iteration are queued: what is queued next sees what they write. */
	int (*iteration_end)(struct solver_manager *m);

	/* Wait for all queued work. 0, or its first error. */
	int (*sync)(struct solver_manager *m);

	/* After sync(): copy a part of an array to a buffer. data is NULL on phantom machines. */
	int (*read)(struct solver_manager *m, uint32_t array, uint64_t offset, void *data,
		    uint64_t bytes);

	/* What it held, and what crossed links, by cause: all of them in near. */
	void (*stats)(struct solver_manager *m, struct manager_stats *out);

	/* As manager_explain(). Not required. */
	int (*explain)(struct solver_manager *m, struct explain **out);

	/* For tests: check every structure; 0 or -EUCLEAN. */
	int (*check)(struct solver_manager *m);
};

/* Every manager begins with this. */
struct solver_manager {
	const struct solver_manager_ops *ops;
	struct backend *backend; /* borrowed */
	uint32_t nr_devices;
	fence_t begun[WEIR_DEVICES_MAX]; /* before the last step 0 of those in turn */
};

/* Queue a step's launch, and record its fence if one is wanted. */
int solver_step_launch(struct solver_manager *m, struct weir_stream *stream,
		       const struct solver_step *step, const struct weir_launch *launch);

extern const struct solver_manager_ops solver_manager_single, solver_manager_memcpy,
	solver_manager_overlap, solver_manager_rdl, solver_manager_weir, solver_manager_weir_all,
	solver_manager_weir_whole, solver_manager_weir_nopublish;

/* All managers, NULL at the end. */
extern const struct solver_manager_ops *const solver_managers[];

/* By its name on the command line. NULL: there is none. */
const struct solver_manager_ops *solver_manager_find(const char *name);

#endif
