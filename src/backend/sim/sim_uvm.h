/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's managed memory as a model of its mechanism; docs/uvm-model.md has the whole of it.
 * Internal to the simulator, guarded by its lock.
 *
 * Bytes do not move: a managed range has one address, at which kernels find them. What moves is
 * where the model says that its pages are, in blocks of 2 MiB: on one device, on the host, or
 * nowhere yet. What a launch touches is brought to its device as the launch starts, a batch of
 * faults at a time, by the device's one service thread, while the launch waits.
 *
 * Files, each of which uses those before it only: sim_uvm_tree.c what a fault brings of a block;
 * sim_uvm_range.c ranges; sim_uvm_advice.c what advice means for blocks, and what it has mapped;
 * sim_uvm_ask.c a policy, and what it sees; sim_uvm_move.c blocks in and out, and what that costs;
 * sim_uvm_touch.c which blocks a launch touches, in which order; sim_uvm.c services and the
 * boundary's calls.
 */
#ifndef WEIR_BACKEND_SIM_UVM_H
#define WEIR_BACKEND_SIM_UVM_H

#include "src/backend/backend.h"
#include "src/backend/sim/sim_uvm_tree.h"

#define UVM_NOWHERE UINT32_MAX

/*
 * What one more block takes that the service thread goes through, as a share of batch_ns, which is
 * a batch of one block: in its lock, what the tree says, its copies and mappings. The rest is the
 * batch's own: fetching, sorting, flushing, replay. Measured on an H200: docs/uvm-model.md.
 */
#define UVM_BLOCK_SHARE 0.56

struct sim;
struct uvm_range;

/*
 * What has been said of a block. remote: pages whose contents are on the host alone, mapped there
 * for a device; part of the block's host without its gpu.
 */
struct uvm_advice {
	bool read_mostly;
	uint32_t preferred;   /* memory; UVM_NOWHERE: none */
	uint64_t accessed_by; /* mask of devices */
	struct uvm_pages remote[WEIR_DEVICES_MAX];
};

/*
 * A block. gpu and host say where contents are; a page in neither has none. They are disjoint
 * unless the block is read mostly: what is in both has two copies. cpu_mapped is part of host, host
 * of backed. It has a chunk of 2 MiB on a device exactly while gpu is not empty, and is in that
 * device's list exactly then.
 */
struct uvm_block {
	struct uvm_block *older, *newer; /* in the device's list */
	struct uvm_range *range;
	uint32_t index; /* in the range */
	uint32_t nr_pages;
	uint32_t device;	     /* whose chunk it has; UVM_NOWHERE: none */
	struct uvm_pages gpu;	     /* contents are in the chunk */
	struct uvm_pages host;	     /* contents are on the host */
	struct uvm_pages cpu_mapped; /* there, and the CPU has a mapping */
	struct uvm_pages backed;     /* a host page is allocated, with contents or without */
};

/* What a policy sees of a block beside where it is, and its words. Steps are numbers of the launch
 * that was the latest then. */
struct uvm_block_note {
	uint64_t word[2];
	uint64_t arrived;   /* the step in which part of it last came */
	uint64_t used;	    /* the step that last used it; 0: none */
	uint64_t uses;	    /* steps that used it since its chunk came */
	uint32_t nr_faults; /* since its chunk came */
	uint32_t nr_pages;  /* on its device */
	uint32_t far;	    /* its place in the device's struct uvm_far, from 1 on; 0: none */
};

/* The same of a range. */
struct uvm_note {
	uint64_t word[2];
	uint32_t number;
	uint32_t nr_resident;		/* blocks with a chunk */
	uint32_t last_block, last_page; /* of its last fault; UVM_NOWHERE: none yet */
	struct uvm_block_note block[];
};

/*
 * An allocation. away has a bit for each block that a touch must look at, since it is not whole on
 * its device, or the range is advised; bits beyond the blocks are clear.
 */
struct uvm_range {
	char *base;
	uint64_t bytes; /* asked for */
	uint32_t nr_blocks;
	uint64_t *away;
	struct uvm_advice *advice; /* of each block; NULL: nothing was ever said */
	struct uvm_note *note;	   /* NULL: no policy is set, nobody would look */
	struct uvm_block block[];
};

/*
 * The blocks in a device's list, as a heap: the one that is used again latest is the first, of
 * equals the one that came first. It is kept only where the policy has a future. max >= the blocks
 * of all ranges that have notes, so that a block that comes needs no memory for it.
 */
struct uvm_far {
	struct uvm_far_entry {
		uint64_t next;	/* the step of the next use plus 1; UINT64_MAX: there is none */
		uint64_t order; /* of coming in */
		struct uvm_block *block;
	} * entry;
	uint32_t nr, max;
	uint64_t now;	    /* entries were last looked through in this step */
	uint64_t nr_orders; /* given so far */
};

/* A device's share. chunk_bytes = the chunks of the blocks in the list <= limit_bytes, which leaves
 * room for the program's context. */
struct uvm_device {
	struct uvm_block *oldest,
		*newest; /* in the order of coming in, which is that of eviction */
	uint64_t chunk_bytes, limit_bytes;
	uint32_t threshold;	/* of the tree */
	uint64_t thread_ns;	/* its service thread is free from here on */
	struct uvm_block *held; /* not evicted while others come with it; NULL: none */
	struct uvm_far far;
	struct backend_managed_stats stats;
};

/* host_bytes = 4 KiB times the backed pages of all blocks <= host_limit_bytes. */
struct uvm {
	struct uvm_device device[WEIR_DEVICES_MAX];
	uint64_t host_bytes, host_limit_bytes;
	struct uvm_range **range; /* sorted by address */
	size_t nr_ranges, max_ranges;
	struct weir_policy *policy; /* borrowed; NULL: none, and no range has notes */
	uint64_t nr_steps;	    /* launches and copies that began while one was set */
};

/* What a service costs the device, by cause; others of enum backend_time stay 0. */
struct uvm_cost {
	double ns[BACKEND_TIME_NR];
};

/* ------------------------------------------------------------------ policies (sim_uvm_ask.c) */

/* Give a range that is about to be added its notes, where a policy is set. 0 or -ENOMEM. */
int uvm_note_create(struct sim *sim, struct uvm_range *range);

/* A step uses a block, which may be anywhere. The range has notes. */
void uvm_note_use(const struct sim *sim, struct uvm_block *block);

/* Part of a block is coming to its device, in whose list it is; is_new: its chunk came with it. */
void uvm_note_came(struct sim *sim, struct uvm_block *block, bool is_new, enum weir_cause cause);

/* A block's chunk is gone. */
void uvm_note_left(struct sim *sim, struct uvm_block *block, enum weir_cause cause);

/*
 * What a fault on a page brings of its block, and, as *more, how many whole blocks come behind it,
 * or before it if negative. The block has its chunk. false: as without a policy.
 */
bool uvm_ask_fault(struct sim *sim, struct uvm_block *block, uint32_t page, bool write,
		   struct uvm_pages *region, int32_t *more);

/* Who is to be evicted of a device's list; NULL: there is nobody. */
struct uvm_block *uvm_ask_victim(struct sim *sim, uint32_t device);

/* ------------------------------------------------------------------ futures (sim_uvm_far.c) */

/* Steps until a block's next use, as policy_future's next_use(); 0: not known. */
uint64_t uvm_next_use(const struct sim *sim, const struct uvm_block *block);

/* Room for the blocks of a range that is about to be added, where the policy has a future. 0 or
 * -ENOMEM. */
int uvm_far_reserve(struct uvm *uvm, uint32_t nr_devices, uint32_t nr_blocks);
void uvm_far_fini(struct uvm_far *far);

/* A block was appended to a device's list, or is about to be taken off it. */
void uvm_far_add(struct sim *sim, uint32_t device, struct uvm_block *block);
void uvm_far_del(struct uvm_device *device, struct uvm_block *block);

/* The blocks in a device's list that are used again latest, but for the held one, in the order of
 * struct uvm_far. @return how many, at most WEIR_POLICY_FAR; 0 where the policy has no future. */
uint32_t uvm_far_find(struct sim *sim, uint32_t device, struct uvm_block **out);

/* ------------------------------------------------------------------ blocks (sim_uvm_move.c) */

/* A batch of faults that is being serviced. */
struct uvm_batch {
	struct sim *sim;
	uint32_t device;
	uint32_t nr_first, nr_demand; /* faults on pages without and with contents */
	uint32_t nr_remote;	      /* that were mapped where they are */
	bool copies;		      /* something came over the link */
	struct uvm_cost *cost;
};

/*
 * Service a fault on a page that the batch's device cannot use, see uvm_usable(). 0; -ENOMEM: no
 * block can be evicted, or the host has no room for what is evicted or stays there.
 */
int uvm_fault(struct uvm_batch *batch, struct uvm_block *block, uint32_t page, bool write);

/* End a batch: what it costs beside its faults. */
void uvm_batch_end(struct uvm_batch *batch);

/* Bring the blocks of a use's part to a memory, the device's or the host's, as
 * cudaMemPrefetchAsync does. As uvm_fault(). */
int uvm_prefetch(struct sim *sim, uint32_t device, const struct weir_use *use, uint32_t memory,
		 struct uvm_cost *cost);

/* Evict until so many bytes of a device's memory are free, or there is nothing more to evict. */
int uvm_make_room(struct sim *sim, uint32_t device, uint64_t bytes, struct uvm_cost *cost);

/* Leave one copy of each page that has two: the host's, or the device's. */
void uvm_leave_one(struct sim *sim, struct uvm_block *block, bool host);

/* Give back all that a block has. */
void uvm_block_free(struct sim *sim, struct uvm_block *block);

/* ------------------------------------------------------------------ touches (sim_uvm_touch.c) */

/* Bring what a launch's uses touch to its device, as far as they lie in managed ranges. As
 * uvm_fault(); and -EINTR: it was asked to stop. */
int uvm_touch(struct sim *sim, uint32_t device, const struct weir_use *uses, uint32_t nr_uses,
	      struct uvm_cost *cost);

/* ------------------------------------------------------------------ advice (sim_uvm_advice.c) */

/* What has been said of a block, or NULL. */
struct uvm_advice *uvm_advice_of(const struct uvm_block *block);
/* Whether who reads a block gets a copy. */
bool uvm_duplicates(const struct uvm_block *block);

/* The pages of a block that a device can use, or write, without a fault. */
struct uvm_pages uvm_usable(const struct uvm_block *block, uint32_t device, bool write);
/* Those that it uses on the host: mapped there, or going to be when it touches them. */
struct uvm_pages uvm_in_place(const struct sim *sim, const struct uvm_block *block,
			      uint32_t device);
/* The bytes of a use in a range that a device uses on the host. */
uint64_t uvm_in_place_bytes(const struct sim *sim, uint32_t device, const struct weir_use *use);
/* The threshold of the tree for a fault that moves pages of a block to a device. */
uint32_t uvm_threshold(const struct sim *sim, const struct uvm_block *block, uint32_t device);

/* Map what of a block came to the host for who accesses it. @return how many pages. */
uint32_t uvm_map_accessed(const struct sim *sim, struct uvm_block *block);
/* Pages of a block are on a device now: none is mapped on the host any more. */
void uvm_unmap(struct uvm_block *block, const struct uvm_pages *pages);

/* ------------------------------------------------------------------ ranges (sim_uvm_range.c) */

/* A range that is in no table yet, without contents. -ENOMEM. */
int uvm_range_create(const struct sim *sim, uint64_t bytes, struct uvm_range **out);
void uvm_range_destroy(struct uvm_range *range);
/* Put it in the table: 0 or -ENOMEM; take it off, and destroy it. */
int uvm_range_add(struct uvm *uvm, struct uvm_range *range);
void uvm_range_del(struct uvm *uvm, struct uvm_range *range);

/* The range that an address lies in, or NULL. */
struct uvm_range *uvm_range_at(const struct sim *sim, const void *addr);
/* Whether [addr, addr + bytes) is part of one. */
bool uvm_holds(const struct sim *sim, const void *addr, uint64_t bytes);

/* ------------------------------------------------------------------ services (sim_uvm.c) */

void uvm_init(struct sim *sim);
void uvm_fini(struct sim *sim);

/* Take a device's thread for a service, behind those that it has. @return how long from now that
 * takes; parts_ns: the same by cause, set to what it is. */
uint64_t uvm_service_ns(struct sim *sim, uint32_t device, const struct uvm_cost *cost,
			uint64_t parts_ns[BACKEND_TIME_NR]);

int sim_managed_setup(struct backend *b, const struct backend_managed *setup);
int sim_managed_alloc(struct backend *b, uint64_t bytes, void **addr);
int sim_managed_advise(struct backend *b, void *addr, uint64_t bytes, enum backend_advice advice,
		       uint32_t to);
void sim_managed_free(struct backend *b, void *addr);
int sim_managed_stats(struct backend *b, uint32_t device, struct backend_managed_stats *out);

#endif
