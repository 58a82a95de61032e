/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir's paged mode: each allocation is a range of one pool, its bytes are in the host's memory,
 * pinned, and kernels page it for themselves through frames in the GPU's. The GPU budget is one of
 * frames. Launches of other kernels are refused: their addresses would be the host's. What a kernel
 * that pages some memory does not page, it uses there, over the link. What kernels only read is
 * paged once that pays, as the library chooses, the rest at once; options say the same of all. With
 * near, part of the bytes are in other GPUs' memory, as much as its budgets have.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "managers/weir_paged.h"
#include "src/backend/backend.h"
#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "src/paging/view.h"

#define PAGE_BYTES (UINT32_C(64) << 10) /* if nothing is said: as weir/paged.h has it */
#define SECTOR_BYTES 32u		/* the least that a link moves */
#define LATE_PASSES 2u

static struct paged_manager *paged_of(struct manager *m)
{
	return (struct paged_manager *)m;
}

/* ------------------------------------------------------------------ made and destroyed */

static void peaks_note(struct paged_manager *m)
{
	struct backend *b = m->base.backend;

	for (uint32_t i = 0; i < b->desc.nr_memories; i++) {
		uint64_t used = b->ops->memory_used(b, i);
		uint64_t own = used > m->before_bytes[i] ? used - m->before_bytes[i] : 0;

		if (m->peak_bytes[i] < own)
			m->peak_bytes[i] = own;
	}
}

static int pool_create(struct paged_manager *m, const struct manager_config *config)
{
	struct backend *b = m->base.backend;
	struct weir_paged_config pool = {
		.device = config->device,
		.page_bytes = config->page_bytes,
		.gpu_bytes = config->gpu_budget_bytes,
		.name = "table",
		.kernels = config->paged_kernels,
	};
	int err = backend_budget(b, m->gpu_memory, &pool.gpu_bytes);

	/* All there is: a sixteenth of it is for what a pool needs beside frames. */
	if (!err && !config->gpu_budget_bytes)
		pool.gpu_bytes -= pool.gpu_bytes / 16;
	m->page_bytes = pool.page_bytes ? pool.page_bytes : PAGE_BYTES;
	m->nr_frames = pool.gpu_bytes / m->page_bytes;
	return err ? err : weir_paged_create(config->machine, &pool, &m->pool);
}

/* near: whether other devices' memories are used. */
static int read_options(const char *options, enum paged_policy *policy, bool *near)
{
	static const char *const names[][2] = {[PAGED_USUAL] = {"", "near"},
					       [PAGED_PAGE] = {"page", "page+near"},
					       [PAGED_FILL] = {"fill", "fill+near"},
					       [PAGED_AUTO] = {"auto", "auto+near"}};

	for (uint32_t i = 0; i < 2 * ARRAY_LEN(names); i++) {
		*policy = (enum paged_policy)(i / 2);
		*near = i % 2;
		if (strcmp(options, names[i / 2][i % 2]) == 0)
			return 0;
	}
	log_error("no options '%s'; there are weir-paged, weir-paged+page, weir-paged+fill and "
		  "weir-paged+auto, and each with +near behind it",
		  options);
	return -EINVAL;
}

static int paged_create(const struct manager_config *config, struct manager **out)
{
	struct backend *b = machine_backend(config->machine);
	struct paged_manager *m;
	enum paged_policy policy;
	bool near;
	int err = read_options(config->options ? config->options : "", &policy, &near);

	if (err)
		return err;
	if (config->device >= b->desc.nr_devices)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->base.ops = &manager_weir_paged;
	m->base.backend = b;
	m->base.device = config->device;
	m->policy = policy;
	m->gpu_memory = b->desc.device[config->device].memory;
	m->host_memory = cost_host_memory(&b->desc);
	m->host_budget_bytes = config->host_budget_bytes;
	for (uint32_t i = 0; i < b->desc.nr_memories; i++)
		m->before_bytes[i] = b->ops->memory_used(b, i);
	err = backend_budget(b, m->host_memory, &m->host_budget_bytes);
	if (!err && near)
		err = paged_share_init(m, config);
	if (err)
		goto err_free;
	err = weir_stream_create(config->machine, config->device, &m->stream);
	if (err)
		goto err_free;
	err = pool_create(m, config);
	if (err)
		goto err_stream;
	peaks_note(m);
	*out = &m->base;
	return 0;

err_stream:
	weir_stream_destroy(m->stream);
err_free:
	free(m);
	return err;
}

static void paged_destroy(struct manager *base)
{
	struct paged_manager *m = paged_of(base);

	if (!m)
		return;
	weir_paged_destroy(m->pool);
	weir_stream_destroy(m->stream);
	free(m);
}

/* Of what is paged at once and filled only, some pages come in a few touches later than others, so
 * that the GPU's memory and the link are busy at the same time. */
static void fill_set(const struct paged_manager *m, struct weir_paged_range_config *config)
{
	config->fill_only = 1;
	if (config->read_only)
		config->late = LATE_PASSES * (m->page_bytes / SECTOR_BYTES);
}

static int range_alloc(struct paged_manager *m, uint64_t bytes, const char *name, bool read_only,
		       void **addr)
{
	struct weir_paged_range_config config = {
		.bytes = bytes, .name = name, .read_only = read_only};
	const bool automatic = m->policy == PAGED_AUTO || (m->policy == PAGED_USUAL && read_only);
	struct paged_manager_range range = {.bytes = bytes, .name = name, .automatic = automatic};
	uint64_t host_bytes = bytes - paged_share_get(m, bytes, config.near_bytes);
	uint32_t number;
	void *host;
	int err = host_bytes > m->host_budget_bytes - m->host_bytes ? -ENOMEM : 0;

	if (automatic)
		weir_paged_range_auto(m->pool, &config);
	else if (m->policy == PAGED_FILL)
		fill_set(m, &config);
	if (!err)
		err = weir_paged_range_add(m->pool, &config, &number, &host);
	if (err) {
		paged_share_put(m, config.near_bytes);
		return err;
	}
	range.host = host;
	range.host_bytes = host_bytes;
	memcpy(range.near_bytes, config.near_bytes, sizeof(range.near_bytes));
	m->range[number] = range;
	m->host_bytes += host_bytes;
	peaks_note(m);
	*addr = host;
	return 0;
}

static int paged_alloc(struct manager *base, uint64_t bytes, const char *name, void **addr)
{
	return range_alloc(paged_of(base), bytes, name, false, addr);
}

static int paged_alloc_constant(struct manager *base, uint64_t bytes, const char *name, void **addr)
{
	return range_alloc(paged_of(base), bytes, name, true, addr);
}

/* The range that has these bytes; WEIR_PAGED_RANGES_MAX: none. */
static uint32_t range_at(const struct paged_manager *m, const void *addr)
{
	uint32_t i = 0;

	while (i < WEIR_PAGED_RANGES_MAX &&
	       (!m->range[i].host || (uintptr_t)addr < (uintptr_t)m->range[i].host ||
		(uintptr_t)addr - (uintptr_t)m->range[i].host >= m->range[i].bytes))
		i++;
	return i;
}

/* ------------------------------------------------------------------ launches */

static void *paged_stream(struct manager *base)
{
	return weir_stream_native(paged_of(base)->stream);
}

static int paged_begin(struct manager *base, struct weir_paged_view *view)
{
	struct paged_manager *m = paged_of(base);
	int err = weir_paged_begin(m->pool, m->stream, &m->view);

	if (err)
		return err;
	m->open = true;
	*view = m->view;
	return 0;
}

static int paged_range(struct manager *base, const void *addr, uint32_t *range)
{
	struct paged_manager *m = paged_of(base);
	uint32_t number = range_at(m, addr);

	if (number == WEIR_PAGED_RANGES_MAX || m->range[number].host != addr)
		return -EINVAL;
	m->range[number].paged = true;
	*range = number;
	return 0;
}

static int paged_end(struct manager *base)
{
	struct paged_manager *m = paged_of(base);

	m->open = false;
	return weir_paged_end(m->pool, m->stream);
}

uint32_t paged_use_range(const struct paged_manager *m, const struct weir_use *use)
{
	uint32_t number = range_at(m, use->addr);

	return number < WEIR_PAGED_RANGES_MAX && m->range[number].paged ? number
									: WEIR_PAGED_RANGES_MAX;
}

/* said: of all ranges. @return whether it says something of one */
static bool launch_said(const struct paged_manager *m, const struct weir_launch *launch,
			struct paged_said *said)
{
	bool any = false;

	memset(said, 0, WEIR_PAGED_RANGES_MAX * sizeof(*said));
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];
		uint32_t number = paged_use_range(m, use);
		struct paged_said *s = said + number;

		if (number == WEIR_PAGED_RANGES_MAX)
			continue;
		any = true;
		s->read_bytes += use->read_bytes;
		s->write_bytes += use->write_bytes;
		s->granule = use->granule ? use->granule : view_page_bytes(&m->view);
		s->random |= use->pattern == WEIR_RANDOM;
	}
	return any;
}

static void in_place_add(const struct paged_manager_range *r, uint64_t nr_in_place,
			 uint64_t bytes[BACKEND_DIRECTION_NR])
{
	uint64_t in_place = (nr_in_place - r->nr_in_place) * r->granule;

	bytes[BACKEND_TO_DEVICE] += r->reads ? in_place : 0;
	bytes[BACKEND_TO_HOST] += r->writes ? in_place : 0;
}

/* A launch says what an access in place is. What was counted before it is told by the last one. */
static int range_said(struct paged_manager *m, uint32_t number, const struct paged_said *said)
{
	struct paged_manager_range *r = &m->range[number];
	bool reads = said->read_bytes > 0, writes = said->write_bytes > 0;
	uint64_t nr;
	int err;

	if (r->granule == said->granule && r->reads == reads && r->writes == writes)
		return 0;
	err = r->granule ? weir_paged_query(m->pool, &m->stats) : 0;
	if (err)
		return err;
	nr = r->granule ? m->stats.range[number].nr[WEIR_PAGED_IN_PLACE] : 0;
	in_place_add(r, nr, r->in_place_bytes);
	r->nr_in_place = nr;
	r->granule = said->granule;
	r->reads = reads;
	r->writes = writes;
	return 0;
}

/* 0, or -EINVAL, logged: outside a bracket a kernel would use what kernels page by its address. */
static int launch_check(const struct paged_manager *m, const struct weir_launch *launch)
{
	for (uint32_t i = 0; i < launch->nr_uses && !m->open; i++) {
		if (range_at(m, launch->uses[i].addr) == WEIR_PAGED_RANGES_MAX)
			continue;
		log_error("weir-paged: '%s' does not page for itself: run it under another manager",
			  launch->kernel->name);
		return -EINVAL;
	}
	return 0;
}

static int paged_launch(struct manager *base, const struct weir_launch *launch)
{
	struct paged_manager *m = paged_of(base);
	struct backend *b = base->backend;
	struct paged_said said[WEIR_PAGED_RANGES_MAX];
	bool pages = launch_said(m, launch, said), simulated = !paged_stream(base);
	int err = launch_check(m, launch);

	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX && !err && !simulated; i++)
		if (said[i].granule)
			err = range_said(m, i, &said[i]);
	if (err)
		return err;
	err = pages && simulated ? paged_sim_launch(m, launch, said)
				 : weir_stream_launch(m->stream, launch);
	if (err)
		return err;
	/* Without it the end is that of the wait. */
	if (b->observe->fence_mark(b, stream_id(m->stream), &m->done))
		m->done = 0;
	return 0;
}

static uint64_t paged_done_ns(struct manager *base)
{
	const struct paged_manager *m = paged_of(base);

	return m->done ? base->backend->observe->fence_time_ns(base->backend, m->done) : 0;
}

/* ------------------------------------------------------------------ home */

static int paged_sync(struct manager *base)
{
	struct paged_manager *m = paged_of(base);
	int err = weir_paged_sync(m->pool);
	int err_stream = weir_stream_sync(m->stream);

	return err ? err : err_stream;
}

static int paged_wait(struct manager *base)
{
	return weir_stream_sync(paged_of(base)->stream);
}

/* By memory. */
static void out_bytes(const struct paged_manager *m, uint64_t bytes[WEIR_MEMORIES_MAX])
{
	memset(bytes, 0, WEIR_MEMORIES_MAX * sizeof(bytes[0]));
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		paged_split(&m->stats.range[i], m->stats.range[i].out_bytes, bytes);
}

/* What is written back between these two is not the kernels'. */
static int home_begin(struct paged_manager *m, uint64_t before[WEIR_MEMORIES_MAX])
{
	int err = paged_sync(&m->base);

	if (!err)
		err = weir_paged_query(m->pool, &m->stats);
	if (!err)
		out_bytes(m, before);
	return err;
}

static int home_end(struct paged_manager *m, int err, const uint64_t before[WEIR_MEMORIES_MAX])
{
	int err_stats = weir_paged_query(m->pool, &m->stats);
	uint64_t after[WEIR_MEMORIES_MAX];

	out_bytes(m, after);
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX && !err_stats; i++)
		m->home_bytes[i] += paged_less(after[i], before[i]);
	return err ? err : err_stats;
}

static int paged_drain(struct manager *base)
{
	struct paged_manager *m = paged_of(base);
	uint64_t before[WEIR_MEMORIES_MAX];
	int err = home_begin(m, before);

	return err ? err : home_end(m, weir_paged_drain(m->pool), before);
}

static int paged_write(struct manager *base, void *addr, const void *data, uint64_t bytes)
{
	struct paged_manager *m = paged_of(base);
	uint32_t number = range_at(m, addr);
	uint64_t before[WEIR_MEMORIES_MAX];
	int err;

	if (number == WEIR_PAGED_RANGES_MAX)
		return -EINVAL;
	err = home_begin(m, before);
	if (err)
		return err;
	err = weir_paged_write(m->pool, number, (uint64_t)((char *)addr - m->range[number].host),
			       data, bytes);
	return home_end(m, err, before);
}

static int paged_read(struct manager *base, void *data, const void *addr, uint64_t bytes)
{
	struct paged_manager *m = paged_of(base);
	uint32_t number = range_at(m, addr);
	uint64_t before[WEIR_MEMORIES_MAX];
	int err;

	if (number == WEIR_PAGED_RANGES_MAX)
		return -EINVAL;
	err = home_begin(m, before);
	if (err)
		return err;
	err = weir_paged_read(m->pool, number,
			      (uint64_t)((const char *)addr - m->range[number].host), data, bytes);
	return home_end(m, err, before);
}

/* ------------------------------------------------------------------ statistics */

/* Of one range, added to what there is. In place, a count is an access of as many bytes as its
 * launch said. */
/* What was picked for a range. */
static void pick_add(const struct paged_manager *m, uint32_t i, struct manager_stats *out)
{
	const uint64_t *nr = m->stats.range[i].nr;
	const struct paged_manager_range *r = &m->range[i];
	struct manager_pick *pick;
	uint64_t room;

	if (!r->automatic || !r->paged || out->nr_picks == MANAGER_PICKS_MAX)
		return;
	pick = &out->pick[out->nr_picks++];
	snprintf(pick->name, sizeof(pick->name), "%s", r->name);
	pick->nr_pages = (r->bytes - 1) / m->page_bytes + 1;
	pick->nr_in = nr[WEIR_PAGED_IN];
	pick->nr_in_place = nr[WEIR_PAGED_IN_PLACE];
	room = MIN(pick->nr_pages, m->nr_frames);
	pick->paged = pick->nr_in > room / 2;
}

static void traffic_add(const struct paged_manager *m, const struct weir_paged_range_stats *s,
			enum backend_direction way, enum weir_cause cause, uint64_t bytes,
			struct manager_stats *out)
{
	uint64_t by_memory[WEIR_MEMORIES_MAX] = {0};

	paged_split(s, bytes, by_memory);
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		if (by_memory[i])
			*manager_traffic(&m->base, i, way, cause, out) += by_memory[i];
}

static void range_stats_add(const struct paged_manager *m, uint32_t i, struct manager_stats *out)
{
	const struct weir_paged_range_stats *s = &m->stats.range[i];
	const struct paged_manager_range *r = &m->range[i];
	uint64_t in_place[BACKEND_DIRECTION_NR];

	memcpy(in_place, r->in_place_bytes, sizeof(in_place));
	in_place_add(r, s->nr[WEIR_PAGED_IN_PLACE], in_place);

	pick_add(m, i, out);
	out->pages.nr_in += s->nr[WEIR_PAGED_IN];
	out->pages.nr_out += s->nr[WEIR_PAGED_OUT];
	out->pages.nr_in_place += s->nr[WEIR_PAGED_IN_PLACE];
	out->pages.nr_waits += s->nr[WEIR_PAGED_WAIT];
	traffic_add(m, s, BACKEND_TO_DEVICE, WEIR_CAUSE_DEMAND, s->in_bytes, out);
	for (int way = 0; way < BACKEND_DIRECTION_NR; way++)
		traffic_add(m, s, (enum backend_direction)way, WEIR_CAUSE_INPLACE, in_place[way],
			    out);
	traffic_add(m, s, BACKEND_TO_HOST, WEIR_CAUSE_EVICTION, s->out_bytes, out);
}

static void paged_free(struct manager *base, void *addr)
{
	struct paged_manager *m = paged_of(base);
	uint32_t number = range_at(m, addr);
	uint64_t before[WEIR_MEMORIES_MAX];
	int err;

	if (number == WEIR_PAGED_RANGES_MAX || home_begin(m, before))
		return;
	/* What is dirty is home before the counts are taken, which go with the range. */
	err = home_end(m, weir_paged_flush(m->pool), before);
	/* What cannot be removed now, the pool takes with it. */
	if (err || weir_paged_range_remove(m->pool, number))
		return;
	range_stats_add(m, number, &m->gone);
	m->host_bytes -= m->range[number].host_bytes;
	paged_share_put(m, m->range[number].near_bytes);
	m->range[number] = (struct paged_manager_range){.host = NULL};
}

static void paged_stats(struct manager *base, struct manager_stats *out)
{
	struct paged_manager *m = paged_of(base);

	*out = m->gone;
	/* If they cannot be had, as they were. */
	(void)!weir_paged_query(m->pool, &m->stats);
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		range_stats_add(m, i, out);
	/* What was written back between kernels is no eviction of theirs. */
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++) {
		uint64_t *evicted;

		if (!m->home_bytes[i])
			continue;
		evicted = manager_traffic(&m->base, i, BACKEND_TO_HOST, WEIR_CAUSE_EVICTION, out);
		*manager_traffic(&m->base, i, BACKEND_TO_HOST, WEIR_CAUSE_WRITEBACK, out) =
			m->home_bytes[i];
		*evicted = paged_less(*evicted, m->home_bytes[i]);
	}
	for (uint32_t i = 0; i < WEIR_MEMORIES_MAX; i++)
		out->peak_bytes[i] = m->peak_bytes[i];
}

static int paged_check(struct manager *base)
{
	return weir_paged_check(paged_of(base)->pool);
}

const struct manager_ops manager_weir_paged = {
	.name = "weir-paged",
	.help = "paged: kernels bring pages into frames themselves; +page: at once; +fill: and "
		"evict none; +auto: once that pays; +near behind any: from other GPUs' memory, too",
	.create = paged_create,
	.destroy = paged_destroy,
	.alloc = paged_alloc,
	.alloc_constant = paged_alloc_constant,
	.free = paged_free,
	.stream = paged_stream,
	.launch = paged_launch,
	.paged_begin = paged_begin,
	.paged_range = paged_range,
	.paged_end = paged_end,
	.done_ns = paged_done_ns,
	.drain = paged_drain,
	.write = paged_write,
	.read = paged_read,
	.sync = paged_sync,
	.wait = paged_wait,
	.stats = paged_stats,
	.check = paged_check,
};
