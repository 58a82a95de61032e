/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which live ranges a kernel launch names: see infer.h. Most 64-bit values in parameters are no
 * addresses, and their upper halves show it: one comparison of each 32-bit word with the upper
 * halves of the lowest and the highest live address rejects them, sixteen words at a time. What
 * remains is looked up among the ranges, which is so cheap that the ranges of earlier launches are
 * not remembered: a memory of them is wrong at nearly every launch where each tensor is a range.
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

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the upper half of a value comes second");

/* A parameter that can hold an address: of 8 bytes or more. */
struct param {
	uint32_t index, offset, bytes;
};

/* Never changes while it is declared, but for what it has seen. */
struct kernel {
	struct kernel *next; /* with the same hash */
	const void *key;
	bool has_layout;
	uint32_t nr_params, nr_words; /* of param; of seen */

	/*
	 * Bit n: a launch had a pointer at place 4 n, and so many had. Changed by launches, which
	 * share the lock; they say nothing of other memory, so no order is needed.
	 */
	_Atomic uint64_t *seen;
	_Atomic uint32_t *nr_seen;
	_Atomic uint32_t nr_launches;
	struct param param[];
};

struct infer {
	pthread_rwlock_t lock; /* guards all that follows; infer.h has more */
	struct ranges ranges;
	struct kernel *kernel[1u << KERNEL_BITS]; /* by the hash of the key */
};

/* One launch. */
struct search {
	const struct ranges *ranges;
	struct kernel *kernel;
	struct infer_uses *uses;
	uint32_t nr_launches;	    /* of the kernel, with this one */
	uint64_t lowest, span;	    /* lowest live address; distance of the highest one from it */
	uint32_t upper, upper_span; /* the same of the upper halves of addresses */
	const struct range_live
		*last; /* the one found last: the next pointer is often to it, too */
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
	const uint32_t next = atomic_load_explicit(nr, memory_order_relaxed) + 1;

	atomic_store_explicit(nr, next, memory_order_relaxed);
	return next;
}

/* @return whether a pointer there is rare */
static bool place_note(struct search *search, uint32_t place)
{
	_Atomic uint64_t *word = &search->kernel->seen[place / PLACE_BYTES / 64];
	const uint64_t nr = count(&search->kernel->nr_seen[place / PLACE_BYTES]);
	uint64_t bit = UINT64_C(1) << place / PLACE_BYTES % 64;

	search->uses->places_hash += infer_place_hash(place);
	if (!(atomic_load_explicit(word, memory_order_relaxed) & bit) &&
	    !(atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit))
		search->uses->new_place = true;
	return nr * INFER_RARE <= search->nr_launches;
}

/* A range that is among the uses was found again, where that is not rare. */
static void use_confirm(struct infer_uses *uses, uint32_t id)
{
	for (uint32_t u = 0; u < uses->nr; u++)
		if (uses->use[u].id == id && uses->use[u].rare) {
			uses->use[u].rare = false;
			uses->nr_rare--;
		}
}

static inline int look_up(struct search *search, uint64_t value, uint32_t place)
{
	const struct range_live *range = search->last;
	struct infer_uses *uses = search->uses;
	bool rare;

	if (value - search->lowest > search->span)
		return 0;
	if (value - range->addr >= range->bytes) {
		range = ranges_find(search->ranges, value);
		if (!range)
			return 0;
		search->last = range;
	}
	rare = place_note(search, place);
	if (uses->mark[range->id] == uses->number) {
		if (uses->nr_rare && !rare)
			use_confirm(uses, range->id);
		return 0;
	}
	if (uses->nr == uses->capacity && uses_grow(uses))
		return -ENOMEM;
	uses->mark[range->id] = uses->number;
	uses->use[uses->nr++] = (struct infer_use){.addr = range->addr,
						   .bytes = range->bytes,
						   .serial = range->serial,
						   .id = range->id,
						   .place = place,
						   .rare = rare};
	uses->nr_rare += rare;
	return 0;
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
		err = look_up(search, value, place + at);
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
			err = search_bytes(search, launch->params[param->index], param->bytes,
					   param->offset);
		else if (param->offset < launch->buffer_bytes)
			err = search_bytes(search, buffer + param->offset,
					   MIN(param->bytes, launch->buffer_bytes - param->offset),
					   param->offset);
	}
	return err;
}

static int search_launch(struct search *search, const struct infer_launch *launch)
{
	if (search->kernel->has_layout)
		return search_layout(search, launch);
	if (launch->params || !launch->buffer)
		return -EINVAL;
	if (launch->buffer_bytes > INFER_BYTES_MAX)
		return -E2BIG;
	return search_bytes(search, launch->buffer, launch->buffer_bytes, 0);
}

/* A new launch: nothing is found, and no mark has its number. */
static int uses_begin(struct infer_uses *uses, uint32_t nr_ids)
{
	uses->nr = 0;
	uses->places_hash = 0;
	uses->new_place = false;
	uses->nr_rare = 0;
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
	return 0;
}

/* ------------------------------------------------------------------ kernels */

/* Where the pointer to the kernel is, or would be appended. */
static struct kernel **kernel_find(struct infer *infer, const void *key)
{
	uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
	struct kernel **at = &infer->kernel[hash >> (64 - KERNEL_BITS)];

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static void kernel_free(struct kernel *kernel)
{
	if (kernel) {
		free(kernel->seen);
		free(kernel->nr_seen);
	}
	free(kernel);
}

/* Takes over the parameters in which an address has room. */
static int kernel_make(const void *key, const struct infer_param *param, uint32_t nr,
		       struct kernel **out)
{
	struct kernel *kernel;
	uint32_t end = 0;

	if (!key)
		return -EINVAL;
	for (uint32_t i = 0; param && i < nr; i++) {
		if (param[i].offset < end)
			return -EINVAL;
		if (param[i].offset > INFER_BYTES_MAX ||
		    param[i].bytes > INFER_BYTES_MAX - param[i].offset)
			return -E2BIG;
		end = param[i].offset + param[i].bytes;
	}
	kernel = calloc(1, sizeof(*kernel) + (param ? nr : 0) * sizeof(*kernel->param));
	if (!kernel)
		return -ENOMEM;
	kernel->key = key;
	kernel->has_layout = param;
	for (uint32_t i = 0; param && i < nr; i++)
		if (param[i].bytes >= VALUE_BYTES)
			kernel->param[kernel->nr_params++] =
				(struct param){i, param[i].offset, param[i].bytes};
	kernel->nr_words = (param ? end : INFER_BYTES_MAX) / PLACE_BYTES / 64 + 1;
	kernel->seen = calloc(kernel->nr_words, sizeof(*kernel->seen));
	kernel->nr_seen = calloc(64 * (size_t)kernel->nr_words, sizeof(*kernel->nr_seen));
	if (!kernel->seen || !kernel->nr_seen) {
		kernel_free(kernel);
		return -ENOMEM;
	}
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
	kernel_free(kernel);
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
	kernel_free(kernel);
	return kernel ? 0 : -ENOENT;
}

static uint64_t places_hash(const struct kernel *kernel)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < kernel->nr_words; i++) {
		uint64_t bits = atomic_load_explicit(&kernel->seen[i], memory_order_relaxed);

		for (; bits; bits &= bits - 1)
			hash += infer_place_hash(PLACE_BYTES *
						 (64 * i + (uint32_t)__builtin_ctzll(bits)));
	}
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
	uint64_t lowest, highest, value;

	ranges_bounds(&infer->ranges, &lowest, &highest);
	for (uint64_t at = 0; at + VALUE_BYTES <= bytes; at += PLACE_BYTES) {
		memcpy(&value, buffer + at, sizeof(value));
		if (value - lowest <= highest - lowest && ranges_find(&infer->ranges, value))
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
	static const struct range_live none = {.bytes = 0};
	struct search search = {.ranges = &infer->ranges, .uses = uses, .last = &none};
	uint64_t highest;
	int err;

	search.kernel = *kernel_find(infer, launch->kernel);
	if (!search.kernel)
		return -ENOENT;
	err = uses_begin(uses, infer->ranges.nr_ids);
	if (err)
		return err;
	search.nr_launches = count(&search.kernel->nr_launches);
	ranges_bounds(&infer->ranges, &search.lowest, &highest);
	search.span = highest - search.lowest;
	search.upper = (uint32_t)(search.lowest >> 32);
	search.upper_span = (uint32_t)(highest >> 32) - search.upper;
	return search_launch(&search, launch);
}

int infer_launch(struct infer *infer, const struct infer_launch *launch, struct infer_uses *uses)
{
	int err;

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
	struct infer *new = calloc(1, sizeof(*new));
	pthread_rwlockattr_t attr;
	int err = -ENOMEM;

	if (!new)
		return -ENOMEM;
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

			kernel_free(kernel);
			kernel = next;
		}
	}
	pthread_rwlock_destroy(&infer->lock);
	ranges_fini(&infer->ranges);
	free(infer);
}
