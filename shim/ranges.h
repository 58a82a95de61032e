/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live ranges of a process: which of them holds an address. Any sizes and alignments, thousands
 * of ranges; no locks, and nothing of what a range is for.
 *
 * A range holds the addresses from its first byte to its last one. The address one past the last
 * byte belongs to the neighbour if there is one, and else to nobody: if it counted, then every
 * pointer to a range would also name the range that ends there, and allocators place them without
 * gaps. Some kernels get such a pointer alone and count down from it. A caller for whom it is to
 * count leaves gaps, and adds ranges one byte longer than they are.
 *
 * Two structures share the work, since neither is fast enough alone. Nearly all pointers that
 * programs pass are the first byte of a range: a hash table answers those. For all others, and to
 * refuse ranges that overlap, leaves of up to RANGES_LEAF ranges hold them in order, and one array
 * holds the leaves in order.
 */
#ifndef WEIR_SHIM_RANGES_H
#define WEIR_SHIM_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define RANGES_LEAF 64u

struct range_live {
	uint64_t addr, bytes;
	uint64_t serial; /* number of the range in the order of addition, from 1; 0: not live */
	uint32_t id;	 /* index in ranges.range; taken again after the range was deleted */
};

struct range_leaf {
	uint32_t nr;
	uint32_t id[RANGES_LEAF];
	uint64_t addr[RANGES_LEAF]; /* the first byte of each, ascending */
};

/*
 * Guarded by the caller: ranges_find() and ranges_bounds() may run in several threads at once, the
 * others alone.
 *
 * nr_ids = nr + nr_spare. leaf_addr[0] = 0, leaf_addr ascends, and a range is in the last leaf
 * whose leaf_addr is not above its address. A leaf is empty only if it is the only one.
 */
struct ranges {
	struct range_live *range; /* by id; nr_ids of them, room for capacity */
	uint32_t *spare;	  /* the ids below nr_ids that are not live; as much room */
	uint32_t nr, nr_ids, nr_spare, capacity;
	uint64_t nr_added;

	/* The ids by the hash of the first byte, plus 1; 0: empty. Open addressing. */
	uint32_t *table;
	uint32_t table_bits;

	struct range_leaf **leaf;
	uint64_t *leaf_addr;
	uint32_t nr_leaves, leaf_capacity;
};

/* @return 0 or -ENOMEM */
int ranges_init(struct ranges *ranges);

void ranges_fini(struct ranges *ranges);

/**
 * Add a range.
 *
 * @param [out] range  Valid until the next addition or deletion. Written only on success.
 * @return 0, or with nothing changed:
 *   -EINVAL  bytes is 0, or the range goes beyond the last address
 *   -EEXIST  a live range holds one of its bytes
 *   -ENOMEM  no memory of the C library
 */
int ranges_add(struct ranges *ranges, uint64_t addr, uint64_t bytes,
	       const struct range_live **range);

/**
 * Delete a range by its first byte.
 *
 * @param [out] range  The range as it was; NULL: not wanted. Written only on success.
 * @return 0, or -ENOENT: no range begins there
 */
int ranges_del(struct ranges *ranges, uint64_t addr, struct range_live *range);

/* @return the range that holds the address, or NULL; valid until the next addition or deletion */
const struct range_live *ranges_find(const struct ranges *ranges, uint64_t addr);

/* The lowest and the highest address that a range holds; both 0 if there is none. */
void ranges_bounds(const struct ranges *ranges, uint64_t *lowest, uint64_t *highest);

/* Walk over all of it. @return whether what is said above of the structures holds */
bool ranges_check(const struct ranges *ranges);

#endif
