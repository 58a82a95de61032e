/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the managers have in common that keep each device's slab in its own memory, as plain memory:
 * slabs, with room for copies of halos or mapped for the devices that read them; a stream a device
 * for kernels; copies of halos; statistics.
 */
#ifndef WEIR_SOLVER_SLABS_H
#define WEIR_SOLVER_SLABS_H

#include "workloads/solver/manager.h"

struct solver_slab {
	struct weir_mem *mem;
	char *addr;	     /* of the slab's first byte */
	uint64_t lead_bytes; /* of the object, before it: room for a halo */
};

/* What a step wrote. */
struct solver_written {
	uint32_t device;
	struct solver_use use;
};

/* Every such manager begins with this. */
struct solver_slabs {
	struct solver_manager base;
	struct weir_machine *machine; /* borrowed */
	struct solver_layout layout[SOLVER_ARRAYS_MAX];
	bool halos; /* slabs have copies of halos; else devices read each other's slabs */
	struct weir_pool *pool;
	struct solver_slab slab[SOLVER_ARRAYS_MAX][WEIR_DEVICES_MAX];
	uint32_t nr_arrays;
	struct weir_stream *stream[WEIR_DEVICES_MAX];
	/* Since nr_written was last set to 0, by the manager. */
	struct solver_written *written;
	uint32_t nr_written, room_written;
	struct manager_stats stats;
	/* Of managers that send elements of lists: by from * nr_devices + to. Else NULL. */
	struct solver_pair *pair;
	struct solver_list list[WEIR_DEVICES_MAX];
};

/* Make one, of `bytes` in all, zeroed. */
int solver_slabs_create(const struct solver_config *config, const struct solver_manager_ops *ops,
			size_t bytes, bool halos, struct solver_slabs **out);

/* What ops of managers are that do no more: free all of it, and so on. */
void solver_slabs_destroy(struct solver_manager *m);
int solver_slabs_alloc(struct solver_manager *m, const char *name);
void *solver_slabs_at(struct solver_manager *m, uint32_t array, uint32_t device, uint64_t offset);
int solver_slabs_step(struct solver_manager *m, const struct solver_step *step);
int solver_slabs_sync(struct solver_manager *m);
int solver_slabs_read(struct solver_manager *m, uint32_t array, uint64_t offset, void *data,
		      uint64_t bytes);
void solver_slabs_stats(struct solver_manager *m, struct manager_stats *out);
int solver_slabs_check(struct solver_manager *m);

static inline struct solver_slabs *solver_slabs_of(struct solver_manager *m)
{
	return (struct solver_slabs *)m;
}

/* Whether two devices read of each other's slabs, of any array. */
bool solver_slabs_share(const struct solver_slabs *s, uint32_t a, uint32_t b);

/* Queue a step's launch on a stream of its device, and note what it writes. */
int solver_slabs_launch(struct solver_slabs *s, struct weir_stream *stream,
			const struct solver_step *step);

/* Count a message between two devices, a part of an array of so many bytes; what is queued until
 * message_end() of the backend is its work. */
void solver_slabs_begin(struct solver_slabs *s, uint32_t from, uint32_t to,
			const struct solver_use *part, uint64_t bytes,
			enum weir_replica_mechanism how, enum weir_cause cause);

/* Queue the copy of what a device wrote, and another one has in its halos. Nothing of it: none. */
int solver_slabs_send(struct solver_slabs *s, struct weir_stream *stream,
		      const struct solver_use *written, uint32_t from, uint32_t to,
		      enum weir_cause cause);

#endif
