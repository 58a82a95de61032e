/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which live ranges a kernel launch names: see infer.h. Most 64-bit values in parameters are no
 * addresses, and their upper halves show it: one comparison of each 32-bit word with the upper
 * halves of the lowest and the highest live address rejects them, sixteen words at a time. What
 * remains is looked up among the ranges, which is so cheap that the ranges of earlier launches are
 * not remembered: a memory of them is wrong at nearly every launch where each tensor is a range.
 *
 * Programs launch seldom and do much in between, so next to nothing of this is in the processor's
 * caches, and the time goes to waiting for memory. Hence little is read, what is read together
 * stands together, and it is asked for (prefetched) before it is needed: values are collected
 * first, and looked up once all accesses that they need are under way.
 */
#include "shim/infer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

#define PLACE_BYTES 4u
#define VALUE_BYTES 8u
#define BLOCK_WORDS 16u
#define KERNEL_BITS 10u
#define USES_MIN 32u
#define CANDIDATES 32u
#define SCANNED_MAX 16u /* uses that are searched one by one */
#define LINE_BYTES 64u	/* of the processor's caches */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the upper half of a value comes second");

/* A parameter that can hold an address: of 8 bytes or more. */
struct param {
	uint32_t index, offset, bytes;
};

/* Never changes while it is declared, but for what it has seen. */
struct kernel {
	struct kernel *next; /* with the same hash */
	const void *key;
	/*
	 * How many launches there were, and how many had a pointer at place 4 n. Changed by
	 * launches, which share the lock; they say nothing of other memory, so no order is needed.
	 */
	_Atomic uint32_t *nr_seen; /* in the same piece of memory, behind param */
	_Atomic uint32_t nr_launches;
	uint32_t nr_params, nr_places; /* of param; of nr_seen */
	bool has_layout;
	struct param param[];
};

struct infer {
	_Alignas(2 * LINE_BYTES) pthread_rwlock_t lock; /* guards all that follows; see infer.h */
	_Alignas(LINE_BYTES) struct ranges ranges;
	struct kernel *kernel[1u << KERNEL_BITS]; /* by the hash of the key */
};

/* A value that lies between the lowest and the highest live address. */
struct candidate {
	uint64_t value;
	uint32_t place;
};

/* One launch. */
struct search {
	const struct ranges *ranges;
	struct kernel *kernel;
	struct infer_uses *uses;
	uint32_t nr_launches;	    /* of the kernel, with this one */
	uint64_t lowest, span;	    /* lowest live address; distance of the highest one from it */
	uint32_t upper, upper_span; /* the same of the upper halves of addresses */
	bool marked;		    /* the uses are marked, in infer_uses.mark */
	uint32_t nr;		    /* of candidate */
	struct candidate candidate[CANDIDATES];
};

/* ------------------------------------------------------------------ the search */

/* With one multiplication alone, sets whose places have the same sum would have one number. */
uint64_t infer_place_hash(uint32_t place)
{
	uint64_t hash = (place + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);

	hash = (hash ^ hash >> 32) * UINT64_C(0x243f6a8885a308d3);
	return hash ^ hash >> 32;
}

static int uses_grow(struct infer_uses *uses)
{
	uint32_t capacity = MAX(2 * uses->capacity, USES_MIN);
	struct infer_use *use = realloc(uses->use, capacity * sizeof(*use));

	if (!use)
		return -ENOMEM;
	uses->use = use;
	uses->capacity = capacity;
	return 0;
}

/* One more, which two launches at once may count as one: it is cheap. @return the number so far */
static uint32_t count(_Atomic uint32_t *nr)
{
	uint32_t next = atomic_load_explicit(nr, memory_order_relaxed);

	next += next != UINT32_MAX;
	atomic_store_explicit(nr, next, memory_order_relaxed);
	return next;
}

/* @return whether a pointer there is rare */
static bool place_note(struct search *search, uint32_t place)
{
	_Atomic uint32_t *nr_seen = &search->kernel->nr_seen[place / PLACE_BYTES];

	search->uses->places_hash += infer_place_hash(place);
	/* Of the first launches one alone is to find it new. */
	if (!atomic_load_explicit(nr_seen, memory_order_relaxed) &&
	    !atomic_fetch_add_explicit(nr_seen, 1, memory_order_relaxed)) {
		search->uses->new_place = true;
		return INFER_RARE <= search->nr_launches;
	}
	return (uint64_t)count(nr_seen) * INFER_RARE_PART <= search->nr_launches &&
	       INFER_RARE <= search->nr_launches;
}

/* Mark each range that is among the uses; from there on, each one that joins them. */
static int uses_mark(struct infer_uses *uses, uint32_t nr_ids)
{
	if (nr_ids > uses->nr_marks) {
		uint32_t nr = MAX(nr_ids, 2 * uses->nr_marks);
		uint32_t *mark = realloc(uses->mark, nr * sizeof(*mark));

		if (!mark)
			return -ENOMEM;
		memset(mark + uses->nr_marks, 0, (nr - uses->nr_marks) * sizeof(*mark));
		uses->mark = mark;
		uses->nr_marks = nr;
	}
	if (!++uses->number) {
		memset(uses->mark, 0, uses->nr_marks * sizeof(*uses->mark));
		uses->number = 1;
	}
	for (uint32_t u = 0; u < uses->nr; u++)
		uses->mark[uses->use[u].id] = uses->number;
	return 0;
}

/* Where a range is among the uses; the number of them: it is not. Not among many unless it is
 * marked: that is one access, and most launches have few. */
static uint32_t use_find(const struct search *search, uint32_t id)
{
	const struct infer_uses *uses = search->uses;
	uint32_t u = 0;

	if (search->marked && uses->mark[id] != uses->number)
		return uses->nr;
	while (u < uses->nr && uses->use[u].id != id)
		u++;
	return u;
}

static int use_add(struct search *search, const struct range_live *range,
		   const struct candidate *candidate, bool rare)
{
	struct infer_uses *uses = search->uses;
	int err = 0;

	if (uses->nr == uses->capacity)
		err = uses_grow(uses);
	if (err)
		return err;
	uses->use[uses->nr++] = (struct infer_use){.addr = range->addr,
						   .bytes = range->bytes,
						   .serial = range->serial,
						   .id = range->id,
						   .place = candidate->place,
						   .nr = 1,
						   .at = candidate->value,
						   .rare = rare};
	uses->nr_rare += rare;
	if (search->marked) {
		uses->mark[range->id] = uses->number;
	} else if (uses->nr > SCANNED_MAX) {
		err = uses_mark(uses, search->ranges->nr_ids);
		search->marked = !err;
	}
	return err;
}

/* What was found at rare places alone stands where it belongs: it comes behind those that were
 * found before, so that their order does not hang on chance. */
static void use_belongs(struct infer_uses *uses, uint32_t at, const struct candidate *candidate)
{
	struct infer_use use = uses->use[at];

	use.place = candidate->place;
	use.at = candidate->value;
	use.rare = false;
	memmove(&uses->use[at], &uses->use[at + 1], (uses->nr - at - 1) * sizeof(use));
	uses->use[uses->nr - 1] = use;
	uses->nr_rare--;
}

/* Look up what was collected. */
static int look_up(struct search *search)
{
	static const struct range_live none = {.bytes = 0};
	/* The next pointer is often to the range of the last one, too. */
	const struct range_live *range = &none;
	struct infer_uses *uses = search->uses;
	int err = 0;

	for (uint32_t c = 0; c < search->nr && !err; c++) {
		const struct candidate *candidate = &search->candidate[c];
		const struct range_live *last = range;
		uint32_t at;
		bool rare;

		if (candidate->value - range->addr >= range->bytes)
			range = ranges_find(search->ranges, candidate->value);
		if (!range) {
			range = last;
			continue;
		}
		rare = place_note(search, candidate->place);
		at = use_find(search, range->id);
		if (at == uses->nr) {
			err = use_add(search, range, candidate, rare);
			continue;
		}
		if (rare)
			continue;
		if (uses->use[at].rare)
			use_belongs(uses, at, candidate);
		else
			uses->use[at].nr++;
	}
	search->nr = 0;
	return err;
}

static inline int collect(struct search *search, uint64_t value, uint32_t place)
{
	if (value - search->lowest > search->span)
		return 0;
	ranges_prefetch(search->ranges, value);
	__builtin_prefetch(&search->kernel->nr_seen[place / PLACE_BYTES], 1);
	search->candidate[search->nr++] = (struct candidate){value, place};
	return search->nr == CANDIDATES ? look_up(search) : 0;
}

/* Whether one of sixteen words can be the upper half of a live address. */
static bool block_may_name(const struct search *search, const unsigned char *block)
{
	uint32_t word[BLOCK_WORDS], any = 0;

	memcpy(word, block, sizeof(word));
	for (uint32_t i = 0; i < BLOCK_WORDS; i++)
		any |= word[i] - search->upper <= search->upper_span;
	return any;
}

/* Values whose upper halves are the words from one index up to another one. */
static int search_words(struct search *search, const unsigned char *data, uint32_t place,
			uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		uint32_t at = (i - 1) * PLACE_BYTES;
		uint64_t value;
		int err;

		memcpy(&value, data + at, sizeof(value));
		err = collect(search, value, place + at);
		if (err)
			return err;
	}
	return 0;
}

/* place: that of the first byte. */
static int search_bytes(struct search *search, const unsigned char *data, uint32_t bytes,
			uint32_t place)
{
	uint32_t nr = bytes / PLACE_BYTES, i = 1;

	for (; i + BLOCK_WORDS <= nr; i += BLOCK_WORDS) {
		int err = 0;

		if (block_may_name(search, data + (size_t)i * PLACE_BYTES))
			err = search_words(search, data, place, i, i + BLOCK_WORDS);
		if (err)
			return err;
	}
	return search_words(search, data, place, i, nr);
}

/* Most parameters have room for one address alone. */
static inline int search_param(struct search *search, const unsigned char *data, uint32_t bytes,
			       uint32_t place)
{
	uint64_t value;

	if (bytes != VALUE_BYTES)
		return search_bytes(search, data, bytes, place);
	memcpy(&value, data, sizeof(value));
	return collect(search, value, place);
}

static int search_layout(struct search *search, const struct infer_launch *launch)
{
	const struct kernel *kernel = search->kernel;
	const unsigned char *buffer = launch->buffer;
	int err = 0;

	if (!launch->params && !buffer && kernel->nr_params)
		return -EINVAL;
	for (uint32_t i = 0; i < kernel->nr_params && !err; i++) {
		const struct param *param = &kernel->param[i];

		if (launch->params)
			err = search_param(search, launch->params[param->index], param->bytes,
					   param->offset);
		else if (param->offset < launch->buffer_bytes)
			err = search_param(search, buffer + param->offset,
					   MIN(param->bytes, launch->buffer_bytes - param->offset),
					   param->offset);
	}
	return err;
}

static int search_launch(struct search *search, const struct infer_launch *launch)
{
	int err;

	if (search->kernel->has_layout)
		err = search_layout(search, launch);
	else if (launch->params || !launch->buffer)
		return -EINVAL;
	else if (launch->buffer_bytes > INFER_BYTES_MAX)
		return -E2BIG;
	else
		err = search_bytes(search, launch->buffer, launch->buffer_bytes, 0);
	return err ? err : look_up(search);
}

/* ------------------------------------------------------------------ kernels */

static struct kernel **kernel_slot(struct infer *infer, const void *key)
{
	uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);

	return &infer->kernel[hash >> (64 - KERNEL_BITS)];
}

/* Where the pointer to the kernel is, or would be appended. */
static struct kernel **kernel_find(struct infer *infer, const void *key)
{
	struct kernel **at = kernel_slot(infer, key);

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

/* Whether a layout is as infer_kernel_add() says. *end: of its last parameter, in bytes. *nr_wide:
 * of its parameters, those in which an address has room. */
static int layout_check(const struct infer_param *param, uint32_t nr, uint32_t *end,
			uint32_t *nr_wide)
{
	*end = *nr_wide = 0;
	for (uint32_t i = 0; i < nr; i++) {
		if (param[i].offset < *end)
			return -EINVAL;
		if (param[i].offset > INFER_BYTES_MAX ||
		    param[i].bytes > INFER_BYTES_MAX - param[i].offset)
			return -E2BIG;
		*end = param[i].offset + param[i].bytes;
		*nr_wide += param[i].bytes >= VALUE_BYTES;
	}
	return 0;
}

static int kernel_make(const void *key, const struct infer_param *param, uint32_t nr,
		       struct kernel **out)
{
	uint32_t end, nr_wide, nr_places;
	struct kernel *kernel;
	size_t bytes;
	int err;

	if (!key)
		return -EINVAL;
	err = layout_check(param, param ? nr : 0, &end, &nr_wide);
	if (err)
		return err;
	nr_places = (param ? end : INFER_BYTES_MAX) / PLACE_BYTES + 1;
	bytes = sizeof(*kernel) + nr_wide * sizeof(*kernel->param) +
		nr_places * sizeof(*kernel->nr_seen);
	bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	kernel = aligned_alloc(LINE_BYTES, bytes);
	if (!kernel)
		return -ENOMEM;
	memset(kernel, 0, bytes);
	kernel->key = key;
	kernel->has_layout = param;
	kernel->nr_places = nr_places;
	kernel->nr_seen = (void *)(kernel->param + nr_wide);
	for (uint32_t i = 0; param && i < nr; i++)
		if (param[i].bytes >= VALUE_BYTES)
			kernel->param[kernel->nr_params++] =
				(struct param){i, param[i].offset, param[i].bytes};
	*out = kernel;
	return 0;
}

int infer_kernel_add(struct infer *infer, const void *key, const struct infer_param *param,
		     uint32_t nr)
{
	struct kernel *kernel, **at;
	int err = kernel_make(key, param, nr, &kernel);

	if (err)
		return err;
	pthread_rwlock_wrlock(&infer->lock);
	at = kernel_find(infer, key);
	if (!*at) {
		*at = kernel;
		kernel = NULL;
	}
	pthread_rwlock_unlock(&infer->lock);
	if (!kernel)
		return 0;
	free(kernel);
	return -EEXIST;
}

int infer_kernel_del(struct infer *infer, const void *key)
{
	struct kernel *kernel, **at;

	pthread_rwlock_wrlock(&infer->lock);
	at = kernel_find(infer, key);
	kernel = *at;
	if (kernel)
		*at = kernel->next;
	pthread_rwlock_unlock(&infer->lock);
	free(kernel);
	return kernel ? 0 : -ENOENT;
}

static uint64_t places_hash(const struct kernel *kernel)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < kernel->nr_places; i++)
		if (atomic_load_explicit(&kernel->nr_seen[i], memory_order_relaxed))
			hash += infer_place_hash(PLACE_BYTES * i);
	return hash;
}

int infer_kernel_places(struct infer *infer, const void *key, uint64_t *hash)
{
	const struct kernel *kernel;

	pthread_rwlock_rdlock(&infer->lock);
	kernel = *kernel_find(infer, key);
	if (kernel)
		*hash = places_hash(kernel);
	pthread_rwlock_unlock(&infer->lock);
	return kernel ? 0 : -ENOENT;
}

/* ------------------------------------------------------------------ ranges and launches */

int infer_range_add(struct infer *infer, uint64_t addr, uint64_t bytes, struct range_live *range)
{
	const struct range_live *added;
	int err;

	pthread_rwlock_wrlock(&infer->lock);
	err = ranges_add(&infer->ranges, addr, bytes, &added);
	if (!err)
		*range = *added;
	pthread_rwlock_unlock(&infer->lock);
	return err;
}

int infer_range_del(struct infer *infer, uint64_t addr, struct range_live *range)
{
	int err;

	pthread_rwlock_wrlock(&infer->lock);
	err = ranges_del(&infer->ranges, addr, range);
	pthread_rwlock_unlock(&infer->lock);
	return err;
}

int infer_range_find(struct infer *infer, uint64_t addr, struct range_live *range)
{
	const struct range_live *found;

	pthread_rwlock_rdlock(&infer->lock);
	found = ranges_find(&infer->ranges, addr);
	if (found)
		*range = *found;
	pthread_rwlock_unlock(&infer->lock);
	return found ? 0 : -ENOENT;
}

/* Values beyond all live addresses, which most are, cost next to nothing. */
static bool any_locked(const struct infer *infer, const unsigned char *buffer, uint64_t bytes)
{
	const uint64_t lowest = infer->ranges.lowest, span = infer->ranges.highest - lowest;
	uint64_t value;

	for (uint64_t at = 0; at + VALUE_BYTES <= bytes; at += PLACE_BYTES) {
		memcpy(&value, buffer + at, sizeof(value));
		if (value - lowest <= span && ranges_find(&infer->ranges, value))
			return true;
	}
	return false;
}

bool infer_range_any(struct infer *infer, const void *buffer, uint64_t bytes)
{
	bool any;

	pthread_rwlock_rdlock(&infer->lock);
	any = any_locked(infer, buffer, bytes);
	pthread_rwlock_unlock(&infer->lock);
	return any;
}

static int launch_locked(struct infer *infer, const struct infer_launch *launch,
			 struct infer_uses *uses)
{
	const struct ranges *ranges = &infer->ranges;
	struct search search; /* not all of it is written: that would take longer than the rest */

	search.kernel = *kernel_find(infer, launch->kernel);
	if (!search.kernel)
		return -ENOENT;
	search.ranges = ranges;
	search.uses = uses;
	search.nr_launches = count(&search.kernel->nr_launches);
	search.lowest = ranges->lowest;
	search.span = ranges->highest - ranges->lowest;
	search.upper = (uint32_t)(ranges->lowest >> 32);
	search.upper_span = (uint32_t)(ranges->highest >> 32) - search.upper;
	search.marked = false;
	search.nr = 0;
	return search_launch(&search, launch);
}

int infer_launch(struct infer *infer, const struct infer_launch *launch, struct infer_uses *uses)
{
	int err;

	/* Processors do not read ahead over an atomic operation on the lock. */
	__builtin_prefetch(kernel_slot(infer, launch->kernel));
	__builtin_prefetch(&infer->ranges);
	__builtin_prefetch(uses->use, 1);
	uses->nr = 0;
	uses->places_hash = 0;
	uses->new_place = false;
	uses->nr_rare = 0;
	pthread_rwlock_rdlock(&infer->lock);
	err = launch_locked(infer, launch, uses);
	pthread_rwlock_unlock(&infer->lock);
	return err;
}

void infer_uses_fini(struct infer_uses *uses)
{
	free(uses->use);
	free(uses->mark);
	memset(uses, 0, sizeof(*uses));
}

bool infer_check(struct infer *infer)
{
	bool right;

	pthread_rwlock_rdlock(&infer->lock);
	right = ranges_check(&infer->ranges);
	for (uint32_t i = 0; i < ARRAY_LEN(infer->kernel); i++)
		for (const struct kernel *k = infer->kernel[i]; k; k = k->next)
			right = right && *kernel_find(infer, k->key) == k;
	pthread_rwlock_unlock(&infer->lock);
	return right;
}

/* ------------------------------------------------------------------ life */

int infer_create(struct infer **infer)
{
	struct infer *new = aligned_alloc(_Alignof(struct infer), sizeof(*new));
	pthread_rwlockattr_t attr;
	int err = -ENOMEM;

	if (!new)
		return -ENOMEM;
	memset(new, 0, sizeof(*new));
	err = ranges_init(&new->ranges);
	if (err)
		goto err_memory;
	err = -pthread_rwlockattr_init(&attr);
	if (err)
		goto err_ranges;
	/* Launches that never end to share the lock would keep an allocation waiting for ever. */
	(void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	err = -pthread_rwlock_init(&new->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	if (err)
		goto err_ranges;
	*infer = new;
	return 0;

err_ranges:
	ranges_fini(&new->ranges);
err_memory:
	free(new);
	return err;
}

void infer_destroy(struct infer *infer)
{
	for (uint32_t i = 0; i < ARRAY_LEN(infer->kernel); i++) {
		struct kernel *kernel = infer->kernel[i];

		while (kernel) {
			struct kernel *next = kernel->next;

			free(kernel);
			kernel = next;
		}
	}
	pthread_rwlock_destroy(&infer->lock);
	ranges_fini(&infer->ranges);
	free(infer);
}
