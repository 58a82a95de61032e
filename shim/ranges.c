/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live ranges of a process: see ranges.h. Leaves are split when they are full, and joined with
 * the next one when both together fill less than half of one.
 */
#include "shim/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 64u
#define TABLE_BITS_MIN 8u
#define LINE_BYTES 64u /* of the processor's caches */

_Static_assert(LINE_BYTES % sizeof(struct range_live) == 0, "entries fill lines of the cache");

/* ------------------------------------------------------------------ the table of first bytes */

static uint32_t table_mask(const struct ranges *ranges)
{
	return (UINT32_C(1) << ranges->table_bits) - 1;
}

/* Where the range with this first byte is, or where it would be put. */
static struct range_live *table_find(const struct ranges *ranges, uint64_t addr)
{
	uint32_t at = ranges_home(ranges, addr), mask = table_mask(ranges);

	while (ranges->table[at].serial && ranges->table[at].addr != addr)
		at = (at + 1) & mask;
	return &ranges->table[at];
}

/* What follows moves up, so that no search ends at the gap before it finds what it looks for. */
static void table_del(struct ranges *ranges, uint32_t gap)
{
	struct range_live *table = ranges->table;
	uint32_t mask = table_mask(ranges);

	for (uint32_t at = (gap + 1) & mask; table[at].serial; at = (at + 1) & mask) {
		if (((at - ranges_home(ranges, table[at].addr)) & mask) < ((at - gap) & mask))
			continue;
		table[gap] = table[at];
		gap = at;
	}
	table[gap].serial = 0;
}

/* Entries do not go across lines of the cache. */
static struct range_live *table_alloc(uint32_t bits)
{
	const size_t bytes = sizeof(struct range_live) << bits;
	struct range_live *table = aligned_alloc(LINE_BYTES, bytes);

	if (table)
		memset(table, 0, bytes);
	return table;
}

/* At most half of the table is used. */
static int table_make_room(struct ranges *ranges)
{
	struct range_live *old = ranges->table;
	uint32_t nr_old = table_mask(ranges) + 1;

	if (2 * (ranges->nr + 1) <= nr_old)
		return 0;
	ranges->table = table_alloc(ranges->table_bits + 1);
	if (!ranges->table) {
		ranges->table = old;
		return -ENOMEM;
	}
	ranges->table_bits++;
	for (uint32_t i = 0; i < nr_old; i++)
		if (old[i].serial)
			*table_find(ranges, old[i].addr) = old[i];
	free(old);
	return 0;
}

/* ------------------------------------------------------------------ leaves */

/*
 * The index of the last address that is not above addr; 0 if there is none, too. Without branches,
 * which would be mispredicted.
 */
static uint32_t last_upto(const uint64_t *address, uint32_t nr, uint64_t addr)
{
	const uint64_t *base = address;

	while (nr > 1) {
		uint32_t half = nr / 2;

		base = base[half] <= addr ? base + half : base;
		nr -= half;
	}
	return (uint32_t)(base - address);
}

/* How many ranges of a leaf begin at addr or below. */
static uint32_t leaf_count(const struct range_leaf *leaf, uint64_t addr)
{
	uint32_t at = last_upto(leaf->addr, leaf->nr, addr);

	return at + (leaf->nr && leaf->addr[at] <= addr);
}

/* The index of the leaf that a range with this first byte is in. */
static uint32_t leaf_of(const struct ranges *ranges, uint64_t addr)
{
	return last_upto(ranges->leaf_addr, ranges->nr_leaves, addr);
}

/*
 * The range before one of a leaf, or before the place behind its last one; NULL: there is none. It
 * may be in the leaf before, and reach into the addresses of this one.
 */
static const struct range_live *range_before(const struct ranges *ranges, uint32_t leaf,
					     uint32_t at)
{
	const struct range_leaf *in = ranges->leaf[leaf];

	if (!at && leaf) {
		in = ranges->leaf[leaf - 1];
		at = in->nr;
	}
	return at ? table_find(ranges, in->addr[at - 1]) : NULL;
}

static void leaf_insert(struct range_leaf *leaf, uint32_t at, uint64_t addr)
{
	memmove(leaf->addr + at + 1, leaf->addr + at, (leaf->nr - at) * sizeof(*leaf->addr));
	leaf->addr[at] = addr;
	leaf->nr++;
}

static void leaf_remove(struct range_leaf *leaf, uint32_t at)
{
	leaf->nr--;
	memmove(leaf->addr + at, leaf->addr + at + 1, (leaf->nr - at) * sizeof(*leaf->addr));
}

/* Append the ranges of a leaf, from one on, to another one. */
static void leaf_append(struct range_leaf *to, struct range_leaf *from, uint32_t first)
{
	uint32_t nr = from->nr - first;

	memcpy(to->addr + to->nr, from->addr + first, nr * sizeof(*to->addr));
	to->nr += nr;
	from->nr = first;
}

static int leaves_make_room(struct ranges *ranges)
{
	uint32_t capacity = 2 * ranges->leaf_capacity;
	struct range_leaf **leaf;
	uint64_t *addr;

	if (ranges->nr_leaves < ranges->leaf_capacity)
		return 0;
	leaf = realloc(ranges->leaf, capacity * sizeof(struct range_leaf *));
	if (!leaf)
		return -ENOMEM;
	ranges->leaf = leaf;
	addr = realloc(ranges->leaf_addr, capacity * sizeof(*addr));
	if (!addr)
		return -ENOMEM;
	ranges->leaf_addr = addr;
	ranges->leaf_capacity = capacity;
	return 0;
}

/* The upper half of a full leaf becomes a leaf after it. */
static int leaf_split(struct ranges *ranges, uint32_t at)
{
	uint32_t nr_after = ranges->nr_leaves - at - 1;
	struct range_leaf *upper;
	int err = leaves_make_room(ranges);

	if (err)
		return err;
	upper = calloc(1, sizeof(*upper));
	if (!upper)
		return -ENOMEM;
	leaf_append(upper, ranges->leaf[at], RANGES_LEAF / 2);
	memmove(ranges->leaf + at + 2, ranges->leaf + at + 1,
		nr_after * sizeof(struct range_leaf *));
	memmove(ranges->leaf_addr + at + 2, ranges->leaf_addr + at + 1,
		nr_after * sizeof(*ranges->leaf_addr));
	ranges->leaf[at + 1] = upper;
	ranges->leaf_addr[at + 1] = upper->addr[0];
	ranges->nr_leaves++;
	return 0;
}

/* What a leaf holds goes into the one before it. */
static void leaf_join(struct ranges *ranges, uint32_t at)
{
	uint32_t nr_after = ranges->nr_leaves - at - 1;

	leaf_append(ranges->leaf[at - 1], ranges->leaf[at], 0);
	free(ranges->leaf[at]);
	memmove(ranges->leaf + at, ranges->leaf + at + 1, nr_after * sizeof(struct range_leaf *));
	memmove(ranges->leaf_addr + at, ranges->leaf_addr + at + 1,
		nr_after * sizeof(*ranges->leaf_addr));
	ranges->nr_leaves--;
}

/* After a deletion: join the leaf with a neighbour if both are small, so that none is empty. */
static void leaf_tidy(struct ranges *ranges, uint32_t at)
{
	if (at + 1 == ranges->nr_leaves && at)
		at--;
	if (at + 1 < ranges->nr_leaves &&
	    (!ranges->leaf[at]->nr || !ranges->leaf[at + 1]->nr ||
	     ranges->leaf[at]->nr + ranges->leaf[at + 1]->nr < RANGES_LEAF / 2))
		leaf_join(ranges, at + 1);
}

/* ------------------------------------------------------------------ ranges */

int ranges_init(struct ranges *ranges)
{
	memset(ranges, 0, sizeof(*ranges));
	ranges->capacity = ranges->leaf_capacity = CAPACITY_MIN;
	ranges->table_bits = TABLE_BITS_MIN;
	ranges->spare = malloc(CAPACITY_MIN * sizeof(*ranges->spare));
	ranges->table = table_alloc(TABLE_BITS_MIN);
	ranges->leaf = calloc(CAPACITY_MIN, sizeof(struct range_leaf *));
	ranges->leaf_addr = calloc(CAPACITY_MIN, sizeof(*ranges->leaf_addr));
	if (!ranges->spare || !ranges->table || !ranges->leaf || !ranges->leaf_addr)
		goto err_arrays;
	ranges->leaf[0] = calloc(1, sizeof(struct range_leaf));
	if (!ranges->leaf[0])
		goto err_arrays;
	ranges->nr_leaves = 1;
	return 0;

err_arrays:
	ranges_fini(ranges);
	return -ENOMEM;
}

void ranges_fini(struct ranges *ranges)
{
	for (uint32_t i = 0; ranges->leaf && i < ranges->nr_leaves; i++)
		free(ranges->leaf[i]);
	free(ranges->leaf);
	free(ranges->leaf_addr);
	free(ranges->table);
	free(ranges->spare);
}

static int ids_make_room(struct ranges *ranges)
{
	uint32_t capacity = 2 * ranges->capacity;
	uint32_t *spare;

	if (ranges->nr_spare || ranges->nr_ids < ranges->capacity)
		return 0;
	spare = realloc(ranges->spare, capacity * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	ranges->spare = spare;
	ranges->capacity = capacity;
	return 0;
}

/* Whether a live range holds one of the bytes; leaf, at: as leaf_of() and leaf_count() say. */
static bool overlaps(const struct ranges *ranges, uint32_t leaf, uint32_t at, uint64_t addr,
		     uint64_t bytes)
{
	const struct range_live *before = range_before(ranges, leaf, at);
	uint64_t next = addr + bytes;

	if (before && addr - before->addr < before->bytes)
		return true;
	if (at < ranges->leaf[leaf]->nr)
		next = ranges->leaf[leaf]->addr[at];
	else if (leaf + 1 < ranges->nr_leaves)
		next = ranges->leaf[leaf + 1]->addr[0];
	return next - addr < bytes;
}

/* The lowest and the highest address, by the leaves. */
static void find_bounds(struct ranges *ranges)
{
	const struct range_live *top = range_before(ranges, ranges->nr_leaves - 1,
						    ranges->leaf[ranges->nr_leaves - 1]->nr);

	ranges->lowest = top ? ranges->leaf[0]->addr[0] : 0;
	ranges->highest = top ? top->addr + top->bytes - 1 : 0;
}

int ranges_add(struct ranges *ranges, uint64_t addr, uint64_t bytes,
	       const struct range_live **range)
{
	struct range_live *new;
	uint32_t leaf, at, id;
	int err;

	if (!bytes || bytes > UINT64_MAX - addr)
		return -EINVAL;
	leaf = leaf_of(ranges, addr);
	at = leaf_count(ranges->leaf[leaf], addr);
	if (overlaps(ranges, leaf, at, addr, bytes))
		return -EEXIST;
	err = ids_make_room(ranges);
	if (!err)
		err = table_make_room(ranges);
	if (!err && ranges->leaf[leaf]->nr == RANGES_LEAF) {
		err = leaf_split(ranges, leaf);
		if (!err && addr >= ranges->leaf_addr[leaf + 1]) {
			leaf++;
			at -= RANGES_LEAF / 2;
		}
	}
	if (err)
		return err;

	id = ranges->nr_spare ? ranges->spare[--ranges->nr_spare] : ranges->nr_ids++;
	new = table_find(ranges, addr);
	*new = (struct range_live){addr, bytes, ++ranges->nr_added, id};
	leaf_insert(ranges->leaf[leaf], at, addr);
	ranges->nr++;
	find_bounds(ranges);
	*range = new;
	return 0;
}

int ranges_del(struct ranges *ranges, uint64_t addr, struct range_live *range)
{
	struct range_live *gone = table_find(ranges, addr);
	uint32_t leaf;

	if (!gone->serial)
		return -ENOENT;
	if (range)
		*range = *gone;
	ranges->spare[ranges->nr_spare++] = gone->id;
	table_del(ranges, (uint32_t)(gone - ranges->table));
	leaf = leaf_of(ranges, addr);
	leaf_remove(ranges->leaf[leaf], leaf_count(ranges->leaf[leaf], addr) - 1);
	leaf_tidy(ranges, leaf);
	ranges->nr--;
	find_bounds(ranges);
	return 0;
}

const struct range_live *ranges_find(const struct ranges *ranges, uint64_t addr)
{
	const struct range_live *range = table_find(ranges, addr), *before;
	uint32_t leaf;

	if (range->serial)
		return range;
	leaf = leaf_of(ranges, addr);
	/* All of it at once, since a search in it waits at each step for what the step needs. */
	for (uint32_t i = 0; i < RANGES_LEAF; i += LINE_BYTES / sizeof(addr))
		__builtin_prefetch(&ranges->leaf[leaf]->addr[i]);
	before = range_before(ranges, leaf, leaf_count(ranges->leaf[leaf], addr));
	return before && addr - before->addr < before->bytes ? before : NULL;
}

/* ------------------------------------------------------------------ checking */

/* The ranges of a leaf are in order behind *end, which becomes the end of its last one. */
static bool leaf_is_right(const struct ranges *ranges, uint32_t index, uint64_t *end)
{
	const struct range_leaf *leaf = ranges->leaf[index];

	if (leaf->nr > RANGES_LEAF || (!leaf->nr && ranges->nr_leaves > 1))
		return false;
	for (uint32_t i = 0; i < leaf->nr; i++) {
		const struct range_live *range = table_find(ranges, leaf->addr[i]);

		if (!range->serial || range->id >= ranges->nr_ids || range->addr < *end ||
		    range->addr < ranges->leaf_addr[index] ||
		    (index + 1 < ranges->nr_leaves && range->addr >= ranges->leaf_addr[index + 1]))
			return false;
		*end = range->addr + range->bytes;
	}
	return true;
}

bool ranges_check(const struct ranges *ranges)
{
	uint32_t nr = 0, nr_used = 0;
	uint64_t end = 0;

	for (uint32_t i = 0; i < ranges->nr_leaves; i++) {
		if (!leaf_is_right(ranges, i, &end))
			return false;
		nr += ranges->leaf[i]->nr;
	}
	for (uint32_t i = 0; i <= table_mask(ranges); i++)
		nr_used += ranges->table[i].serial != 0;
	if (nr && (ranges->lowest != ranges->leaf[0]->addr[0] || ranges->highest != end - 1))
		return false;
	return nr == ranges->nr && (nr || (!ranges->lowest && !ranges->highest)) && nr_used == nr &&
	       !ranges->leaf_addr[0] && ranges->nr_ids == nr + ranges->nr_spare &&
	       ranges->nr_ids <= ranges->capacity;
}
