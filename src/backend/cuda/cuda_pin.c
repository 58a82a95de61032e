/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are made ahead: pinning host memory takes 375 us for 2 MiB, so tens of GB take
 * seconds, which a thread here spends while the program does something else. It sleeps while
 * nothing is expected. A hint that cannot be followed is no error of anybody's: whoever then needs
 * the chunk makes it, and hears why he cannot.
 *
 * Invariants, for each size of each memory and each mask of devices: nr_ready chunks are on the
 * list, whose bytes count as used; the thread makes more while nr_ready < nr_wanted; each
 * chunk_create() of the size is one wanted fewer, wherever it came from.
 */
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/clock.h"
#include "src/base/log.h"

/* Between two messages about progress. */
#define TELL_NS UINT64_C(1000000000)

struct cuda_expected {
	struct cuda_expected *next;
	uint32_t memory;
	uint64_t bytes, devices; /* as of chunk_create */
	uint64_t nr_wanted, nr_ready;
	struct cuda_chunk *ready;
	uint64_t nr_made; /* since there was nothing to do, by anybody */
	uint64_t since_ns, told_ns;
};

/* The entry of a size; NULL: nothing of it was ever expected. Lock held. */
static struct cuda_expected *expected_find(const struct cuda *cuda, uint32_t memory, uint64_t bytes,
					   uint64_t devices)
{
	struct cuda_expected *e = cuda->expected;

	while (e && (e->memory != memory || e->bytes != bytes || e->devices != devices))
		e = e->next;
	return e;
}

/* Take a chunk that is ready, or NULL. Lock held. */
static struct cuda_chunk *ready_pop(struct cuda *cuda, struct cuda_expected *e)
{
	struct cuda_chunk *chunk = e->ready;

	if (!chunk)
		return NULL;
	e->ready = chunk->next;
	e->nr_ready--;
	chunk->next = NULL;
	cuda->used_bytes[e->memory] -= e->bytes;
	return chunk;
}

/* Move what is ready beyond nr to a list, which is returned. Lock held. */
static struct cuda_chunk *ready_trim(struct cuda *cuda, struct cuda_expected *e, uint64_t nr,
				     struct cuda_chunk *list)
{
	while (e->nr_ready > nr) {
		struct cuda_chunk *chunk = ready_pop(cuda, e);

		chunk->next = list;
		list = chunk;
	}
	return list;
}

/* Chunks of a memory are made ahead, or given back, from here to the other: whoever finds no room
 * there meanwhile waits for it. Lock held on entry and exit, not in between. */
static void ahead_begin(struct cuda *cuda, uint32_t memory)
{
	cuda->nr_ahead[memory]++;
	pthread_mutex_unlock(&cuda->lock);
}

static void ahead_end(struct cuda *cuda, uint32_t memory)
{
	pthread_mutex_lock(&cuda->lock);
	cuda->nr_ahead[memory]--;
	pthread_cond_broadcast(&cuda->given);
}

/* Give back the chunks of a list, all of one memory. Lock held on entry and exit, not meanwhile. */
static void list_unmake(struct cuda *cuda, struct cuda_chunk *list)
{
	uint32_t memory = list ? list->memory : 0;

	if (!list)
		return;
	ahead_begin(cuda, memory);
	while (list) {
		struct cuda_chunk *next = list->next;

		cuda_chunk_unmake(cuda, list);
		list = next;
	}
	ahead_end(cuda, memory);
}

/* Now and then how far it is, and at the end what it was. Lock held. */
static void tell_progress(const struct cuda *cuda, struct cuda_expected *e)
{
	const char *name = cuda->base.desc.memory[e->memory].name;
	uint64_t now = clock_now_ns(), left = e->nr_wanted - e->nr_ready;
	double made = (double)(e->nr_made * e->bytes) / 1e9;

	if (left && now - e->told_ns < TELL_NS)
		return;
	e->told_ns = now;
	if (left)
		log_info("pinning %s memory: %.1f of %.1f GB", name, made,
			 made + (double)(left * e->bytes) / 1e9);
	else
		log_info("pinned %s memory: %.1f GB in %.1f s", name, made,
			 (double)(now - e->since_ns) / 1e9);
}

struct cuda_chunk *cuda_ready_take(struct cuda *cuda, uint32_t memory, uint64_t bytes,
				   uint64_t devices)
{
	struct cuda_expected *e = expected_find(cuda, memory, bytes, devices);
	struct cuda_chunk *chunk = e ? ready_pop(cuda, e) : NULL;

	if (!e || !e->nr_wanted)
		return chunk;
	e->nr_wanted--;
	if (!chunk) {
		e->nr_made++; /* by the caller, now */
		tell_progress(cuda, e);
	}
	return chunk;
}

uint64_t cuda_ready_bytes(const struct cuda *cuda, uint32_t memory)
{
	uint64_t bytes = 0;

	for (const struct cuda_expected *e = cuda->expected; e; e = e->next)
		if (e->memory == memory)
			bytes += e->nr_ready * e->bytes;
	return bytes;
}

bool cuda_ready_drop(struct cuda *cuda, uint32_t memory)
{
	struct cuda_chunk *list = NULL;
	bool any;

	pthread_mutex_lock(&cuda->lock);
	for (struct cuda_expected *e = cuda->expected; e; e = e->next) {
		if (e->memory != memory)
			continue;
		e->nr_wanted = 0; /* or the thread would take the room again */
		list = ready_trim(cuda, e, 0, list);
	}
	any = list || cuda->nr_ahead[memory];
	list_unmake(cuda, list);
	while (cuda->nr_ahead[memory])
		pthread_cond_wait(&cuda->given, &cuda->lock);
	pthread_mutex_unlock(&cuda->lock);
	return any;
}

/* ------------------------------------------------------------------ the thread */

/* Make one chunk ahead. Lock held on entry and exit, not while the driver makes it. */
static void make_ahead(struct cuda *cuda, struct cuda_expected *e)
{
	struct cuda_chunk *chunk;
	int err;

	ahead_begin(cuda, e->memory);
	err = cuda_chunk_make(cuda, e->memory, e->bytes, e->devices, true, &chunk);
	ahead_end(cuda, e->memory);
	if (err) {
		log_info("pinned %s memory: no more of it ahead: %s",
			 cuda->base.desc.memory[e->memory].name, weir_strerror(err));
		e->nr_wanted = e->nr_ready;
	} else if (cuda->stop || e->nr_ready >= e->nr_wanted) {
		list_unmake(cuda, chunk); /* nobody wants it any more */
	} else {
		chunk->next = e->ready;
		e->ready = chunk;
		e->nr_ready++;
		e->nr_made++;
		cuda->used_bytes[e->memory] += e->bytes;
		tell_progress(cuda, e);
	}
}

static void *pinner(void *arg)
{
	struct cuda *cuda = arg;

	pthread_mutex_lock(&cuda->lock);
	while (!cuda->stop) {
		struct cuda_expected *e = cuda->expected;

		while (e && e->nr_ready >= e->nr_wanted)
			e = e->next;
		if (e)
			make_ahead(cuda, e);
		else
			pthread_cond_wait(&cuda->expect, &cuda->lock);
	}
	pthread_mutex_unlock(&cuda->lock);
	return NULL;
}

/* ------------------------------------------------------------------ what is expected */

/* The entry of a size, made where there is none; NULL: no memory. Lock held. */
static struct cuda_expected *expected_get(struct cuda *cuda, uint32_t memory, uint64_t bytes,
					  uint64_t devices)
{
	struct cuda_expected *e = expected_find(cuda, memory, bytes, devices);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->memory = memory;
	e->bytes = bytes;
	e->devices = devices;
	e->next = cuda->expected;
	cuda->expected = e;
	return e;
}

/* Expect more, and see to it that there is a thread. Lock held. */
static void expect_more(struct cuda *cuda, struct cuda_expected *e, uint64_t nr)
{
	if (e->nr_ready >= e->nr_wanted) {
		e->nr_made = 0;
		e->since_ns = e->told_ns = clock_now_ns();
	}
	e->nr_wanted += nr;
	if (!cuda->pins && !cuda_thread_start(&cuda->pinner, pinner, cuda))
		cuda->pins = true;
	if (cuda->pins)
		pthread_cond_signal(&cuda->expect);
	else
		log_info("cuda: no thread to pin memory ahead: it is pinned when it is needed");
}

void cuda_chunk_expect(struct backend *b, uint32_t memory, uint64_t bytes, uint64_t devices,
		       int64_t nr)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_expected *e;
	uint64_t fewer = nr < 0 ? -(uint64_t)nr : 0;

	if (!cuda_chunk_valid(cuda, memory, bytes, &devices))
		return;
	pthread_mutex_lock(&cuda->lock);
	e = nr > 0 ? expected_get(cuda, memory, bytes, devices)
		   : expected_find(cuda, memory, bytes, devices);
	if (e && nr > 0) {
		expect_more(cuda, e, (uint64_t)nr);
	} else if (e) {
		e->nr_wanted = e->nr_wanted > fewer ? e->nr_wanted - fewer : 0;
		list_unmake(cuda, ready_trim(cuda, e, e->nr_wanted, NULL));
	}
	pthread_mutex_unlock(&cuda->lock);
}

void cuda_pin_stop(struct cuda *cuda)
{
	bool pins;

	pthread_mutex_lock(&cuda->lock);
	pins = cuda->pins;
	cuda->stop = true;
	pthread_cond_signal(&cuda->expect);
	pthread_mutex_unlock(&cuda->lock);
	if (pins)
		pthread_join(cuda->pinner, NULL);
	pthread_mutex_lock(&cuda->lock);
	while (cuda->expected) {
		struct cuda_expected *e = cuda->expected;

		cuda->expected = e->next;
		list_unmake(cuda, ready_trim(cuda, e, 0, NULL));
		free(e);
	}
	pthread_mutex_unlock(&cuda->lock);
}
