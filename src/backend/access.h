/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What open brackets declared, as sorted intervals, so that an address is looked up in logarithmic
 * time even in a bracket that names a whole space. For backends that check touches.
 */
#ifndef WEIR_BACKEND_ACCESS_H
#define WEIR_BACKEND_ACCESS_H

#include "src/backend/backend.h"

static inline bool use_reads(const struct weir_use *use)
{
	return use->kind != WEIR_DISCARD;
}

static inline bool use_writes(const struct weir_use *use)
{
	return use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE || use->kind == WEIR_ATOMIC;
}

struct access_interval {
	uintptr_t begin, end;
};

/*
 * One bracket: disjoint sorted intervals of what may be read, of the part of it that may be
 * written, of what may be used by atomics, which is that part and uses of WEIR_ATOMIC, and of the
 * part of this that may be used in any way (BACKEND_ANY). What a bracket overwrites or writes an
 * earlier launch of it may have filled: it may be read. What it discards nobody may touch.
 */
struct access_bracket {
	struct access_bracket *outer; /* another owner's, open on the same stream */
	const void *owner;
	struct access_interval *reads, *writes, *any,
		*atomics; /* without such uses the last is writes */
	size_t nr_reads, nr_writes, nr_any, nr_atomics;
	/* Memory of lists of what is written and of atomics that are not in list[]; owned. */
	struct access_interval *made_writes, *made_atomics;
	/* The last kernel in it; the backend's own: the stream's fences when it began and ended. */
	uint64_t begin, end;
	const struct weir_kernel *kernel; /* NULL: none yet */
	struct access_interval list[];	  /* reads, writes and any, as it was created */
};

/* -EINVAL: a use without bytes, or beyond the end of memory. -ENOMEM. NULL is freed as well. */
int access_bracket_create(const void *owner, const struct weir_use *uses, uint32_t nr,
			  struct access_bracket **out);
void access_bracket_free(struct access_bracket *bracket);

/* The bracket may not write [begin, begin + bytes) any more, of which it uses nothing in any way.
 * -ENOMEM: nothing changed. */
int access_narrow(struct access_bracket *bracket, uintptr_t begin, uint64_t bytes);

/* Whether one of a chain of brackets allows the use. */
bool access_covers(const struct access_bracket *innermost, const struct weir_use *use);

/* Whether the bracket allows anything in [begin, begin + bytes). */
bool access_meets(const struct access_bracket *bracket, uintptr_t begin, uint64_t bytes);

/*
 * A bracket of `others` in which a kernel was launched and which may not be open beside one of
 * `mine`: it may write what that one may touch, or the other way round, and not both by atomics.
 * at: the first such address. NULL: none.
 */
const struct access_bracket *access_conflict(const struct access_bracket *mine,
					     const struct access_bracket *others, uintptr_t *at);

/* Note a launch in a chain of brackets. */
void access_launched(struct access_bracket *innermost, const struct weir_kernel *kernel);

/* The owner's bracket in a chain, or NULL: it has none there. And take it out of the chain. */
struct access_bracket *access_find(struct access_bracket *innermost, const void *owner);
struct access_bracket *access_take(struct access_bracket **innermost, const void *owner);

#endif
