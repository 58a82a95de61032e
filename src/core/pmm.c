/* SPDX-License-Identifier: Apache-2.0 */
/* Chunk pools: see pmm.h. */
#include "src/core/pmm.h"

#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"

void pmm_init(struct pmm *pmm, struct phys_memory *memory, const char *name, place_t place,
	      uint64_t chunk_bytes, uint64_t budget_bytes)
{
	*pmm = (struct pmm){.backend = memory->backend,
			    .place = place,
			    .memory = memory->index,
			    .chunk_bytes = chunk_bytes,
			    .max_chunks = budget_bytes / chunk_bytes};
	pmm->most_chunks = pmm->max_chunks;
	phys_client_add(&pmm->client, memory, name, pmm->max_chunks * chunk_bytes);
}

void pmm_expect(struct pmm *pmm, uint64_t nr)
{
	uint64_t most = MIN(nr, pmm->max_chunks), nr_known = pmm->nr_created + pmm->nr_expected;

	if (most <= nr_known)
		return;
	pmm->backend->ops->chunk_expect(pmm->backend, pmm->memory, pmm->chunk_bytes,
					pmm->client.devices, (int64_t)(most - nr_known));
	pmm->nr_expected += most - nr_known;
}

void pmm_fini(struct pmm *pmm)
{
	if (pmm->nr_expected)
		pmm->backend->ops->chunk_expect(pmm->backend, pmm->memory, pmm->chunk_bytes,
						pmm->client.devices, -(int64_t)pmm->nr_expected);
	pmm->nr_expected = 0;
	(void)pmm_give(pmm, UINT64_MAX);
	phys_client_del(&pmm->client);
}

uint64_t pmm_give(struct pmm *pmm, uint64_t bytes)
{
	uint64_t before = pmm->nr_free;
	struct chunk **at = &pmm->free;

	while (*at && (before - pmm->nr_free) * pmm->chunk_bytes < bytes) {
		struct chunk *chunk = *at;

		if (chunk->stale) {
			at = &chunk->next;
			continue;
		}
		*at = chunk->next;
		phys_put(&pmm->client, &chunk->backend);
		free(chunk);
		pmm->nr_free--;
		pmm->nr_created--;
	}
	pmm->most_chunks = MAX(pmm->max_chunks, pmm->nr_created);
	return (before - pmm->nr_free) * pmm->chunk_bytes;
}

void pmm_set_budget(struct pmm *pmm, uint64_t nr_chunks)
{
	uint64_t max_chunks = nr_chunks - pmm->nr_lent;
	uint64_t room = max_chunks > pmm->nr_created ? max_chunks - pmm->nr_created : 0;

	if (pmm->nr_expected > room) {
		pmm->backend->ops->chunk_expect(pmm->backend, pmm->memory, pmm->chunk_bytes,
						pmm->client.devices,
						-(int64_t)(pmm->nr_expected - room));
		pmm->nr_expected = room;
	}
	pmm->max_chunks = max_chunks;
	pmm->most_chunks = MAX(max_chunks, pmm->nr_created);
	phys_client_set_budget(&pmm->client, nr_chunks * pmm->chunk_bytes);
}

/* Another program may hold the rest of the memory: make do with what we have, and try again
 * whenever one is wanted. */
static void log_refused(struct pmm *pmm, int err)
{
	char holders[PHYS_HOLDERS_MAX];

	if (pmm->nr_refused == pmm->nr_created + 1)
		return;
	pmm->nr_refused = pmm->nr_created + 1;
	phys_holders(pmm->client.memory, holders);
	log_warning("%s: cannot create a chunk beyond %llu of %llu: %s (%s)",
		    pmm->backend->desc.memory[pmm->memory].name,
		    (unsigned long long)pmm->nr_created, (unsigned long long)pmm->max_chunks,
		    weir_strerror(err), holders);
}

void pmm_refused(struct pmm *pmm)
{
	pmm->ask = false;
	log_refused(pmm, -ENOMEM);
}

static struct chunk *chunk_new(struct pmm *pmm)
{
	struct chunk *chunk = malloc(sizeof(*chunk));
	int err;

	if (!chunk)
		return NULL;
	err = phys_take(&pmm->client, pmm->chunk_bytes, &chunk->backend);
	if (err) {
		pmm->ask = err == -EAGAIN;
		if (!pmm->ask)
			log_refused(pmm, err);
		free(chunk);
		return NULL;
	}
	chunk->place = pmm->place;
	chunk->next = NULL;
	chunk->stale = 0;
	pmm->nr_created++;
	if (pmm->nr_expected)
		pmm->nr_expected--;
	return chunk;
}

static void note_peak(struct pmm *pmm)
{
	pmm->nr_peak = MAX(pmm->nr_peak, pmm_nr_out(pmm) + pmm->nr_lent);
}

struct chunk *pmm_chunk_get(struct pmm *pmm)
{
	struct chunk *chunk = pmm->free;

	pmm->ask = false;
	if (pmm_nr_out(pmm) >= pmm->max_chunks)
		return NULL;
	if (chunk) {
		pmm->free = chunk->next;
		chunk->next = NULL;
		pmm->nr_free--;
	} else if (pmm->nr_created < pmm->max_chunks) {
		chunk = chunk_new(pmm);
	}
	if (chunk)
		note_peak(pmm);
	return chunk;
}

void pmm_chunk_put(struct pmm *pmm, struct chunk *chunk)
{
	if (!chunk)
		return;
	chunk->next = pmm->free;
	pmm->free = chunk;
	pmm->nr_free++;
}

bool pmm_lend(struct pmm *pmm)
{
	if (pmm_nr_beyond(pmm) ||
	    (pmm->nr_created == pmm->max_chunks && !pmm_give(pmm, pmm->chunk_bytes)))
		return false;
	pmm->max_chunks--;
	pmm->nr_lent++;
	note_peak(pmm);
	return true;
}

void pmm_lend_back(struct pmm *pmm, uint64_t nr)
{
	pmm->max_chunks += nr;
	pmm->most_chunks = MAX(pmm->max_chunks, pmm->nr_created);
	pmm->nr_lent -= nr;
}

uint64_t pmm_nr_available(const struct pmm *pmm)
{
	uint64_t out = pmm_nr_out(pmm);

	return pmm->max_chunks > out ? pmm->max_chunks - out : 0;
}

int pmm_check(const struct pmm *pmm, uint64_t nr_out)
{
	const char *name = pmm->backend->desc.memory[pmm->memory].name;
	uint64_t nr_free = 0;

	for (const struct chunk *chunk = pmm->free; chunk; chunk = chunk->next) {
		nr_free++;
		if (chunk->backend.memory != pmm->memory ||
		    chunk->backend.bytes != pmm->chunk_bytes) {
			log_error("pmm %s: a foreign chunk is on the free list", name);
			return -EUCLEAN;
		}
	}
	if (nr_free != pmm->nr_free || pmm->nr_created != nr_free + nr_out ||
	    pmm->nr_created > pmm->most_chunks ||
	    pmm->client.held_bytes != pmm->nr_created * pmm->chunk_bytes) {
		log_error("pmm %s: %llu created, %llu free (counted: %llu), %llu in use of %llu",
			  name, (unsigned long long)pmm->nr_created,
			  (unsigned long long)pmm->nr_free, (unsigned long long)nr_free,
			  (unsigned long long)nr_out, (unsigned long long)pmm->max_chunks);
		return -EUCLEAN;
	}
	return 0;
}
