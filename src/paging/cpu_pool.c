/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of paged memory on the CPU, and what is done with them while nobody is online. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/log.h"
#include "src/paging/cpu.h"

/* Zeroed on demand: a range of which few pages are touched costs few entries. NULL: no memory. */
static void *reserve(uint64_t bytes)
{
	void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (addr == MAP_FAILED)
		return NULL;
	return addr;
}

static void release(void *addr, uint64_t bytes)
{
	if (addr)
		munmap(addr, bytes);
}

static int config_check(const struct paging_config *config)
{
	uint64_t max = config->max_frames;

	if (!view_page_valid(config->page_bytes)) {
		log_error("paging: pages of %u bytes: choose 4, 8, 16 or 64 KiB",
			  config->page_bytes);
		return -EINVAL;
	}
	if (!config->nr_frames || (max && max < config->nr_frames) ||
	    config->nr_frames > PT_FRAMES_MAX || max > PT_FRAMES_MAX) {
		log_error("paging: %llu frames, at most %llu: at least 1 and at most %llu",
			  (unsigned long long)config->nr_frames, (unsigned long long)max,
			  (unsigned long long)PT_FRAMES_MAX);
		return -EINVAL;
	}
	if (!config->max_agents || config->max_agents > 1u << 16) {
		log_error("paging: %u agents: at least 1 and at most 65536", config->max_agents);
		return -EINVAL;
	}
	return 0;
}

_Static_assert((PAGING_SPANS_MAX + 1) * (1ull << 16) <= PT_PINS_MAX, "every span can be pinned");

/* What paging_create() reserved; parts may be missing. */
static void words_free(struct weir_paged_view *v, struct cpu_words *words, uint64_t max_frames)
{
	struct pt_table *t = &v->table;

	for (uint32_t i = 0; i < t->nr_ranges; i++)
		release(t->range[i].entry, t->range[i].nr_pages * sizeof(uint64_t));
	free(t->range);
	release(t->owner, max_frames * sizeof(uint64_t));
	free(t->slot);
	release(v->frames, max_frames << v->page_shift);
	release(words, sizeof(*words));
}

static uint64_t agents_bytes(const struct weir_paged_view *view)
{
	return view->table.nr_slots * sizeof(struct paging_agent);
}

static void pool_free(struct paging *pool)
{
	if (pool->words)
		words_free(&pool->view, pool->words, pool->max_frames);
	release(pool->agent, agents_bytes(&pool->view));
	free(pool);
}

int paging_over(const struct weir_paged_view *view, uint32_t quiesce_every, struct paging **out)
{
	struct paging *pool = aligned_alloc(PT_LINE, sizeof(*pool));
	/* A launch uses a few of a GPU's thousands of slots. */
	struct paging_agent *agent = reserve(agents_bytes(view));

	if (!pool || !agent) {
		free(pool);
		release(agent, agents_bytes(view));
		log_error("paging: no memory for %u agents: make the pool for fewer",
			  view->table.nr_slots);
		return -ENOMEM;
	}
	memset(pool, 0, sizeof(*pool));
	pool->view = *view;
	pool->quiesce_every = quiesce_every ? quiesce_every : 64;
	pool->agent = agent;
	*out = pool;
	return 0;
}

int paging_create(const struct paging_config *config, struct paging **out)
{
	uint64_t max_frames = config->max_frames ? config->max_frames : config->nr_frames;
	struct weir_paged_view view = {0};
	struct pt_table *t = &view.table;
	struct cpu_words *words;
	int err = config_check(config);

	if (err)
		return err;
	view.page_shift = (uint32_t)__builtin_ctz(config->page_bytes);
	t->nr_slots = config->max_agents;
	t->nr_frames = config->nr_frames;
	t->window = pt_window(t->nr_frames, t->nr_slots);
	t->owner = reserve(max_frames * sizeof(uint64_t));
	t->slot = calloc(t->nr_slots + 1ul, sizeof(uint64_t));
	view.frames = reserve(max_frames << view.page_shift);
	words = reserve(sizeof(*words));
	err = -ENOMEM;
	if (!t->owner || !t->slot || !view.frames || !words) {
		log_error("paging: no memory for a pool of %llu frames: take fewer",
			  (unsigned long long)config->nr_frames);
		goto err_free;
	}
	words->shared.epoch = 1;
	t->shared = &words->shared;
	t->abort = &words->abort;
	view.counts = words->counts;
	err = paging_over(&view, config->quiesce_every, out);
	if (err)
		goto err_free;
	(*out)->words = words;
	(*out)->max_frames = max_frames;
	(*out)->yield_every = config->yield_every;
	return 0;

err_free:
	words_free(&view, words, max_frames);
	return err;
}

void paging_destroy(struct paging *pool)
{
	if (!pool)
		return;
	if (pool->words && !cpu_quiet_begin(pool, "destroying the pool"))
		view_home(&pool->view, false);
	pool_free(pool);
}

static int range_check(const struct paging *pool, const struct paging_range_config *config)
{
	uint64_t nr_pages = config->bytes >> pool->view.page_shift;

	if (!config->host || (uintptr_t)config->host % 8 || !config->bytes ||
	    nr_pages >= PT_PAGE_MAX || config->admit > 1u << 20 || config->late > 1u << 20 ||
	    config->whole > UINT16_MAX || config->word > UINT16_MAX) {
		log_error("paging: a range of %llu bytes at %p, admitted at touch %u: it must have "
			  "bytes, at an address that 8 divides, and at most 2^20 touches, of one "
			  "access 2^16 - 1",
			  (unsigned long long)config->bytes, config->host, config->admit);
		return -EINVAL;
	}
	if (pool->view.table.nr_ranges == PT_RANGES_MAX - 1) {
		log_error("paging: %u ranges are all that a pool can have", PT_RANGES_MAX - 1);
		return -ENOSPC;
	}
	return 0;
}

int paging_range_add(struct paging *pool, const struct paging_range_config *config, uint32_t *out)
{
	struct pt_table *t = &pool->view.table;
	struct pt_range *range, new = {0};
	int err = range_check(pool, config);

	if (err)
		return err;
	err = cpu_quiet_begin(pool, "adding a range");
	if (err)
		return err;
	new.nr_pages = ((config->bytes - 1) >> pool->view.page_shift) + 1;
	new.host = config->host;
	new.bytes = config->bytes;
	new.admit = config->admit ? config->admit : 1;
	new.late = config->late;
	new.whole = config->whole;
	new.word = config->word;
	new.read_only = config->read_only;
	new.fill_only = config->fill_only;
	new.entry = reserve(new.nr_pages * sizeof(uint64_t));
	range = new.entry ? realloc(t->range, (t->nr_ranges + 1) * sizeof(*range)) : NULL;
	if (range) {
		t->range = range;
		range[t->nr_ranges] = new;
		*out = t->nr_ranges++;
		view_choose(range, t->nr_ranges, t->nr_frames);
	} else {
		release(new.entry, new.nr_pages * sizeof(uint64_t));
		log_error("paging: no memory for the entries of %llu pages",
			  (unsigned long long)new.nr_pages);
		err = -ENOMEM;
	}
	cpu_quiet_end(pool);
	return err;
}

int cpu_part_check(const struct paging *pool, uint32_t range, uint64_t offset, uint64_t bytes)
{
	uint32_t nr = pool->view.table.nr_ranges;
	uint64_t have = range < nr ? pool->view.table.range[range].bytes : 0;

	if (offset <= have && bytes <= have - offset && range < nr)
		return 0;
	log_error("paging: %llu bytes at %llu of range %u, which has %llu: index out of range",
		  (unsigned long long)bytes, (unsigned long long)offset, range,
		  (unsigned long long)have);
	return -EINVAL;
}

/* ------------------------------------------------------------------ while nobody is online */

int cpu_quiet_begin(struct paging *pool, const char *what)
{
	uint64_t nobody = 0;

	if (!pool->words) {
		log_error("paging: %s is for the owner of the table alone", what);
		return -EBUSY;
	}
	if (pt_cas(&pool->gate, &nobody, CPU_QUIET))
		return 0;
	log_error("paging: %s needs that nobody is online: %llu agents are%s", what,
		  (unsigned long long)(nobody & ~CPU_QUIET),
		  nobody & CPU_QUIET ? ", and another such call is" : "; leave first");
	return -EBUSY;
}

void cpu_quiet_end(struct paging *pool)
{
	/* By addition: somebody who tries to come may have counted himself. */
	pt_add(&pool->gate, 0 - CPU_QUIET, PT_ACQ_REL);
}

int paging_flush(struct paging *pool)
{
	int err = cpu_quiet_begin(pool, "flush");

	if (err)
		return err;
	view_home(&pool->view, false);
	cpu_quiet_end(pool);
	return 0;
}

int paging_drain(struct paging *pool)
{
	int err = cpu_quiet_begin(pool, "drain");

	if (err)
		return err;
	view_home(&pool->view, true);
	cpu_quiet_end(pool);
	return 0;
}

int paging_set_frames(struct paging *pool, uint64_t nr_frames)
{
	uint64_t old;
	int err;

	if (!nr_frames || nr_frames > pool->max_frames) {
		log_error("paging: %llu frames: at least 1, and at most %llu, as the pool was made",
			  (unsigned long long)nr_frames, (unsigned long long)pool->max_frames);
		return -EINVAL;
	}
	err = cpu_quiet_begin(pool, "changing the number of frames");
	if (err)
		return err;
	old = pool->view.table.nr_frames;
	for (uint64_t i = nr_frames; i < old; i++)
		view_frame_evict(&pool->view, i);
	if (nr_frames < old) /* a failure costs memory alone */
		madvise(view_frame(&pool->view, nr_frames),
			(old - nr_frames) << pool->view.page_shift, MADV_DONTNEED);
	pool->view.table.nr_frames = nr_frames;
	pool->view.table.window = pt_window(nr_frames, pool->view.table.nr_slots);
	pool->view.table.shared->prepare = pool->view.table.shared->take = 0;
	pool->view.table.shared->fill = 0;
	view_choose(pool->view.table.range, pool->view.table.nr_ranges, nr_frames);
	cpu_quiet_end(pool);
	return 0;
}

/* Pages of a part: cleaned, or evicted. */
static void bring_home(struct paging *pool, uint32_t range, uint64_t offset, uint64_t bytes,
		       bool evict)
{
	uint32_t shift = pool->view.page_shift;
	uint64_t first = offset >> shift, last = (offset + bytes - 1) >> shift;

	for (uint64_t page = first; bytes && page <= last; page++) {
		uint64_t entry = *pt_entry_at(&pool->view.table, PT_ID(range, page));

		if (pt_state_of(entry) == PT_ABSENT)
			continue;
		if (evict)
			view_frame_evict(&pool->view, pt_frame_of(entry));
		else
			view_frame_clean(&pool->view, pt_frame_of(entry));
	}
}

int paging_host_read(struct paging *pool, uint32_t range, uint64_t offset, void *to, uint64_t bytes)
{
	int err = cpu_quiet_begin(pool, "reading on the host");

	if (err)
		return err;
	err = cpu_part_check(pool, range, offset, bytes);
	if (!err) {
		bring_home(pool, range, offset, bytes, false);
		memcpy(to, (uint8_t *)pool->view.table.range[range].host + offset, bytes);
	}
	cpu_quiet_end(pool);
	return err;
}

int paging_host_write(struct paging *pool, uint32_t range, uint64_t offset, const void *from,
		      uint64_t bytes)
{
	int err = cpu_quiet_begin(pool, "writing on the host");

	if (err)
		return err;
	err = cpu_part_check(pool, range, offset, bytes);
	if (!err) {
		bring_home(pool, range, offset, bytes, true);
		memcpy((uint8_t *)pool->view.table.range[range].host + offset, from, bytes);
	}
	cpu_quiet_end(pool);
	return err;
}
