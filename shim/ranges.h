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
 * programs pass are the first byte of a range: a hash table answers those, with one access to
 * memory as a rule, since its entries are the ranges. For all others, and to refuse ranges that
 * overlap, leaves of up to RANGES_LEAF first bytes hold them in order, and one array holds the
 * leaves in order.
 */
#ifndef WEIR_SHIM_RANGES_H
#define WEIR_SHIM_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define RANGES_LEAF 64u

struct range_live {
	uint64_t addr, bytes;
	uint64_t serial; /* number of the range in the order of addition, from 1; 0: not live */
	uint32_t id;	 /* below ranges.nr_ids; taken again after the range was deleted */
};

struct range_leaf {
	uint32_t nr;
	uint64_t addr[RANGES_LEAF]; /* the first byte of each, ascending */
};

/*
 * Guarded by the caller: ranges_find() may run in several threads at once, the others alone.
 *
 * nr_ids = nr + nr_spare. leaf_addr[0] = 0, leaf_addr ascends, and a range is in the last leaf
 * whose leaf_addr is not above its address. A leaf is empty only if it is the only one.
 */
struct ranges {
	/* What a search reads stands first. Both 0: there is no range. */
	uint64_t lowest, highest; /* addresses that a range holds */

	/* By the hash of the first byte; serial 0: empty. Open addressing. */
	struct range_live *table;
	uint32_t table_bits;

	uint32_t nr, nr_ids, nr_spare, capacity;
	uint32_t *spare; /* the ids below nr_ids that are not live; room for capacity */
	uint64_t nr_added;

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

/* Where the search of the table for an address begins. */
static inline uint32_t ranges_home(const struct ranges *ranges, uint64_t addr)
{
	return (uint32_t)(addr * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ranges->table_bits));
}

/* The address will be looked for: its place in the table is fetched from memory meanwhile. */
static inline void ranges_prefetch(const struct ranges *ranges, uint64_t addr)
{
	__builtin_prefetch(&ranges->table[ranges_home(ranges, addr)]);
}

/* Walk over all of it. @return whether what is said above of the structures holds */
bool ranges_check(const struct ranges *ranges);

#endif
