/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words, one meaning each; the rest of the source uses no others for these things.
 *
 *   machine    devices, memories and links
 *   memory     a pool of bytes at one place: a GPU's HBM, the host's DRAM
 *   budget     how much of a memory a space may use
 *   chunk      a piece of physical memory, one backend handle, one block in size
 *   space      one unified address space
 *   range      one allocation in it
 *   block      the unit of residency: so many bytes of a range, mapped to one chunk
 *   life       a range from one allocation to its free: what the record knows a range as
 *   place      a memory that a space may use: its devices' own first, the host's last
 *   own        the place where a block is resident: the memory of the device that uses it
 *   path       an ordered pair of places: what is copied from the one to the other
 *   copy       a chunk at a place that belongs to a block: its home, a move's source, or one below
 *   resident   in the memory of the device that uses it
 *   migrate    move a block to another place; fetch: up; evict: down, to make room
 *   in place   used where it is, over a link
 *   dirty      differs from the copy below; clean: a valid copy is below
 *   dead       contents not needed: never copied
 *   pin        forbid migration for now
 *   bracket    begin, launches, end; use: what it declares about a part of a range
 *   step       a bracket's position in the record; stage: a step, or a loop of alike steps
 */
#ifndef WEIR_CORE_TYPES_H
#define WEIR_CORE_TYPES_H

#include "src/backend/backend.h"
#include "src/base/util.h"

/*
 * A memory that a space may use, by its number there: those of its devices, in the devices' order,
 * then other devices', the host's last. A space of one device has its own memory at PLACE_OWN.
 */
typedef uint8_t place_t;

#define PLACE_OWN 0
#define PLACES_MAX WEIR_MEMORIES_MAX

/*
 * The rank of a place for blocks that are resident at `own`: 0 for that one, then the others in
 * their order, the host's memory last. A lower place is one of a higher rank. And the place of a
 * rank.
 */
static inline place_t place_rank(place_t own, place_t place)
{
	return place == own ? 0 : (place_t)(place + (place < own));
}

static inline place_t place_ranked(place_t own, place_t rank)
{
	return rank ? (place_t)(rank - (rank <= own)) : own;
}

/* Number of a bracket in the order of their ends; 0: none. */
typedef uint64_t bracket_seq_t;

/* Number of an allocation in the order they were made; 0: none. */
typedef uint64_t life_t;

struct chunk;
struct block;
struct range;
struct space_use;
struct residency;
struct range_residency;

/*
 * Deliberate faults, for the tests that must notice them: compiled in only by those tests.
 * 1: a copy-in left out. 2: a write-back lost. 3: a live block taken for dead.
 * In spaces with neighbours: 4: a block that came up keeps its copy at a neighbour as a valid one
 * when it is written. 5: a bracket does not wait for copies from a neighbour. 6: a write-back from
 * a neighbour to the host lost. 7: a copy to the host in the background counts as valid although
 * the block was written meanwhile.
 * Of replicated ranges, which tests/property/replica_random notices: 8: a message left out. 9: one
 * sent to another device. Not waited for: 10: a message, by launches that read or write where it
 * goes. 11: readers of a copy, by those who write it. 12: brackets, by a message that goes where
 * they read. 13: a message, by the next one to the same bytes. 14: the bracket that wrote them, by
 * a message. 15: what is sent from a copy, by those who write there. 16: replicas that others wrote
 * since count as current. 17: the last copy of something is given up. 18: the launches before a
 * part was published, by whoever reads it. 19: an element of a list is not sent. 20: a copy that
 * was sent a list's elements counts as current. 21: what a window shows is changed while
 * launches use it.
 */
#ifndef WEIR_MUTANT
#define WEIR_MUTANT 0
#endif

#endif
