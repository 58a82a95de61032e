/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads as agents of paged memory: coming online, elements, spans, hints. Everything about a
 * page but for the plain hit is the step machine's; here it is driven, and bytes are copied.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/paging/cpu.h"

/* For tests: leave the processor to others in the middle of things. */
static void yield_sometimes(struct paging_agent *agent)
{
	uint32_t every = agent->pool->yield_every;

	agent->random = agent->random * 1664525u + 1013904223u; /* Numerical Recipes */
	if (every && (agent->random >> 8) % every == 0)
		sched_yield();
}

static void scan(const struct weir_paged_view *v, struct pt_agent *a)
{
	const struct pt_table *t = &v->table;
	uint32_t i = 0;

	while (i <= t->nr_slots && !pt_slot_lags(t, i, a->global))
		i++;
	a->scan_ok = i > t->nr_slots;
	view_count_scan(v, a->slot, a->scan_ok ? NULL : &i);
}

/* Do what the machine says until it has come to an end. */
static enum pt_do drive(struct paging_agent *agent, enum pt_do verdict)
{
	const struct weir_paged_view *v = &agent->pool->view;
	const struct pt_table *t = &v->table;
	struct pt_agent *a = &agent->a;

	while (!pt_final(verdict)) {
		switch (verdict) {
		case PT_WAIT:
			view_count(v, a->slot, a->id, WEIR_PAGED_WAIT);
			sched_yield();
			break;
		case PT_COPY_IN:
			view_count(v, a->slot, a->id, WEIR_PAGED_IN);
			memcpy(view_frame(v, a->frame), view_host(v, a->id), view_bytes(v, a->id));
			break;
		case PT_COPY_OUT:
			view_count(v, a->slot, a->victim, WEIR_PAGED_OUT);
			memcpy(view_host(v, a->victim), view_frame(v, a->frame),
			       view_bytes(v, a->victim));
			break;
		case PT_SCAN:
			scan(v, a);
			break;
		default:
			break;
		}
		yield_sometimes(agent);
		verdict = pt_step(t, a);
	}
	return verdict;
}

/* ------------------------------------------------------------------ epochs */

int paging_enter(struct paging *pool, struct paging_agent **out)
{
	uint64_t gate = pt_add(&pool->gate, 1, PT_ACQ_REL);

	if (gate & CPU_QUIET) {
		pt_add(&pool->gate, 0 - 1ull, PT_ACQ_REL);
		log_error("paging: coming online while the pool is being changed: try again");
		return -EBUSY;
	}
	for (uint32_t i = 0; i < pool->view.table.nr_slots; i++) {
		struct paging_agent *agent = &pool->agent[i];
		uint64_t unused = 0;

		/* A slot without an agent may say an epoch: somebody else ended without leaving. */
		if (pt_load(&agent->used, PT_RELAXED) || !pt_cas(&agent->used, &unused, 1))
			continue;
		if (pt_load(&pool->view.table.slot[i], PT_RELAXED)) {
			pt_store(&agent->used, 0, PT_RELEASE);
			continue;
		}
		agent->pool = pool;
		agent->a.slot = i;
		agent->nr_since = 0;
		drive(agent, pt_enter(&agent->a));
		*out = agent;
		return 0;
	}
	pt_add(&pool->gate, 0 - 1ull, PT_ACQ_REL);
	log_error("paging: all %u agents are online: make the pool for more",
		  pool->view.table.nr_slots);
	return -EAGAIN;
}

static void go_offline(struct paging_agent *agent)
{
	struct paging *pool = agent->pool;

	drive(agent, pt_leave(&agent->a));
	pt_store(&agent->used, 0, PT_RELEASE);
	pt_add(&pool->gate, 0 - 1ull, PT_ACQ_REL);
}

int paging_leave(struct paging_agent *agent)
{
	if (agent->nr_spans) {
		log_error("paging: agent %u leaves with %u spans: put them first", agent->a.slot,
			  agent->nr_spans);
		return -EBUSY;
	}
	go_offline(agent);
	return 0;
}

static void span_drop(struct paging_agent *agent, struct cpu_span *span)
{
	if (span->pinned)
		pt_unpin(&agent->pool->view.table, span->id);
	agent->nr_passing -= span->passing;
	agent->nr_spans--;
	span->held = false;
}

void paging_abandon(struct paging_agent *agent)
{
	log_warning("paging: agent %u ended without leaving, with %u spans", agent->a.slot,
		    agent->nr_spans);
	for (uint32_t i = 0; i < PAGING_SPANS_MAX; i++)
		if (agent->span[i].held)
			span_drop(agent, &agent->span[i]);
	go_offline(agent);
}

void paging_quiesce(struct paging_agent *agent)
{
	agent->nr_since = 0;
	if (!agent->nr_passing)
		drive(agent, pt_quiesce(&agent->a));
}

/* ------------------------------------------------------------------ reaching a page */

/* Where the byte is. agent->in_frame: in one, and not on the host; a.pinned: pt_unpin() is due. 0,
 * -EINVAL: the agent left, -EOVERFLOW: the page has all the pins that it can have. */
static int reach(struct paging_agent *agent, uint32_t range, uint64_t offset, unsigned op,
		 uint8_t **addr)
{
	struct paging *pool = agent->pool;
	const struct weir_paged_view *v = &pool->view;
	uint64_t id = PT_ID(range, offset >> v->page_shift);
	uint64_t rest = offset & (view_page_bytes(v) - 1);
	uint64_t entry = pt_load(pt_entry_at(&v->table, id), PT_RELAXED);

	if (!agent->a.epoch) {
		log_error("paging: agent %u is used after it left", agent->a.slot);
		return -EINVAL;
	}
	agent->a.pinned = false;
	agent->in_frame = true;
	if (!(op & PT_PIN) && pt_hit(entry, op & PT_WRITE) && pt_settled(entry, agent->a.epoch)) {
		*addr = view_frame(v, pt_frame_of(entry)) + rest;
		return 0;
	}
	switch (drive(agent, pt_begin(&v->table, &agent->a, id, op))) {
	case PT_HIT:
		*addr = view_frame(v, agent->a.frame) + rest;
		return 0;
	case PT_IN_PLACE:
		view_count(v, agent->a.slot, id, WEIR_PAGED_IN_PLACE);
		agent->in_frame = false;
		*addr = view_host(v, id) + rest;
		return 0;
	default:
		view_count(v, agent->a.slot, id, WEIR_PAGED_PINS);
		log_error("paging: page %llu of range %u has all the pins that it can have",
			  (unsigned long long)(offset >> v->page_shift), range);
		return -EOVERFLOW;
	}
}

/* The access is over. */
static void reached(struct paging_agent *agent)
{
	if (agent->a.pinned)
		pt_unpin(&agent->pool->view.table, agent->a.id);
	agent->a.pinned = false;
	if (++agent->nr_since >= agent->pool->quiesce_every)
		paging_quiesce(agent);
}

/* Whether the part may be used so; if not, that is counted. */
static int may_use(const struct paging_agent *agent, uint32_t range, uint64_t offset,
		   uint64_t bytes, bool write)
{
	const struct paging *pool = agent->pool;
	int err = cpu_part_check(pool, range, offset, bytes);

	if (!err && (!write || !pool->view.table.range[range].read_only))
		return 0;
	view_count(&pool->view, agent->a.slot, PT_ID(range, 0), WEIR_PAGED_REFUSED);
	if (err)
		return err;
	log_error("paging: a write to range %u, which is read-only", range);
	return -EROFS;
}

static int reach_element(struct paging_agent *agent, uint32_t range, uint64_t offset,
			 uint32_t bytes, unsigned op, uint8_t **addr)
{
	int err;

	if (!is_power_of_2(bytes) || bytes > 8 || offset % bytes) {
		log_error("paging: an element of %u bytes at %llu: 1, 2, 4 or 8, aligned", bytes,
			  (unsigned long long)offset);
		return -EINVAL;
	}
	err = may_use(agent, range, offset, bytes, op & PT_WRITE);
	return err ? err : reach(agent, range, offset, op, addr);
}

int paging_read(struct paging_agent *agent, uint32_t range, uint64_t offset, void *value,
		uint32_t bytes)
{
	uint8_t *addr;
	uint64_t wide;
	int err = reach_element(agent, range, offset, bytes, PT_READ, &addr);

	if (err)
		return err;
	if (bytes == 8)
		wide = __atomic_load_n((uint64_t *)(void *)addr, __ATOMIC_RELAXED);
	else if (bytes == 4)
		wide = __atomic_load_n((uint32_t *)(void *)addr, __ATOMIC_RELAXED);
	else if (bytes == 2)
		wide = __atomic_load_n((uint16_t *)(void *)addr, __ATOMIC_RELAXED);
	else
		wide = __atomic_load_n(addr, __ATOMIC_RELAXED);
	memcpy(value, &wide, bytes); /* little-endian, as all that has GPUs is */
	reached(agent);
	return 0;
}

int paging_write(struct paging_agent *agent, uint32_t range, uint64_t offset, const void *value,
		 uint32_t bytes)
{
	uint8_t *addr;
	uint64_t wide = 0;
	int err = reach_element(agent, range, offset, bytes, PT_WRITE, &addr);

	if (err)
		return err;
	memcpy(&wide, value, bytes);
	if (bytes == 8)
		__atomic_store_n((uint64_t *)(void *)addr, wide, __ATOMIC_RELAXED);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)(void *)addr, (uint32_t)wide, __ATOMIC_RELAXED);
	else if (bytes == 2)
		__atomic_store_n((uint16_t *)(void *)addr, (uint16_t)wide, __ATOMIC_RELAXED);
	else
		__atomic_store_n(addr, (uint8_t)wide, __ATOMIC_RELAXED);
	reached(agent);
	return 0;
}

static int reach_atomic(struct paging_agent *agent, uint32_t range, uint64_t offset, uint32_t bytes,
			uint8_t **addr)
{
	if (bytes != 4 && bytes != 8) {
		log_error("paging: an atomic of %u bytes: 4 or 8", bytes);
		return -EINVAL;
	}
	return reach_element(agent, range, offset, bytes, PT_WRITE, addr);
}

int paging_add(struct paging_agent *agent, uint32_t range, uint64_t offset, uint32_t bytes,
	       uint64_t value, uint64_t *old)
{
	uint8_t *addr;
	int err = reach_atomic(agent, range, offset, bytes, &addr);

	if (err)
		return err;
	if (bytes == 8)
		*old = __atomic_fetch_add((uint64_t *)(void *)addr, value, __ATOMIC_RELAXED);
	else
		*old = __atomic_fetch_add((uint32_t *)(void *)addr, (uint32_t)value,
					  __ATOMIC_RELAXED);
	reached(agent);
	return 0;
}

int paging_cas(struct paging_agent *agent, uint32_t range, uint64_t offset, uint32_t bytes,
	       uint64_t expected, uint64_t value, uint64_t *old)
{
	uint32_t narrow = (uint32_t)expected;
	uint8_t *addr;
	int err = reach_atomic(agent, range, offset, bytes, &addr);

	if (err)
		return err;
	if (bytes == 8) {
		__atomic_compare_exchange_n((uint64_t *)(void *)addr, &expected, value, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		*old = expected;
	} else {
		__atomic_compare_exchange_n((uint32_t *)(void *)addr, &narrow, (uint32_t)value,
					    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		*old = narrow;
	}
	reached(agent);
	return 0;
}

/* ------------------------------------------------------------------ more than elements */

/* Copy a part page by page: from the range to `to`, or, if that is NULL, from `from` to it. */
static int copy_n(struct paging_agent *agent, uint32_t range, uint64_t offset, uint8_t *to,
		  const uint8_t *from, uint64_t bytes)
{
	uint64_t page_bytes = view_page_bytes(&agent->pool->view), done = 0;
	int err = may_use(agent, range, offset, bytes, !to);

	while (!err && done < bytes) {
		uint64_t nr = page_bytes - (offset + done) % page_bytes;
		uint8_t *addr;

		nr = nr < bytes - done ? nr : bytes - done;
		err = reach(agent, range, offset + done, PT_SPAN | (to ? PT_READ : PT_WRITE),
			    &addr);
		if (err)
			return err;
		if (to)
			memcpy(to + done, addr, nr);
		else if (from)
			memcpy(addr, from + done, nr);
		reached(agent);
		done += nr;
	}
	return err;
}

int paging_read_n(struct paging_agent *agent, uint32_t range, uint64_t offset, void *to,
		  uint64_t bytes)
{
	return copy_n(agent, range, offset, to, NULL, bytes);
}

int paging_write_n(struct paging_agent *agent, uint32_t range, uint64_t offset, const void *from,
		   uint64_t bytes)
{
	return copy_n(agent, range, offset, NULL, from, bytes);
}

int paging_span_get(struct paging_agent *agent, uint32_t range, uint64_t offset, unsigned flags,
		    struct paging_span *out)
{
	unsigned op = PT_SPAN | (flags & PAGING_WRITE ? PT_WRITE : 0) |
		      (flags & PAGING_PIN ? PT_PIN : 0) | (flags & ~0xffu);
	const struct weir_paged_view *v = &agent->pool->view;
	uint64_t rest = offset & (view_page_bytes(v) - 1);
	struct cpu_span *span = agent->span;
	uint8_t *addr;
	int err = may_use(agent, range, offset, 1, flags & PAGING_WRITE);

	if (!err && agent->nr_spans == PAGING_SPANS_MAX) {
		log_error("paging: agent %u holds %u spans: put one first", agent->a.slot,
			  PAGING_SPANS_MAX);
		err = -ENOSPC;
	}
	if (!err)
		err = reach(agent, range, offset, op, &addr);
	if (err)
		return err;
	while (span->held)
		span++;
	span->held = true;
	span->id = PT_ID(range, offset >> v->page_shift);
	span->pinned = agent->a.pinned;
	span->passing = agent->in_frame && !span->pinned;
	agent->a.pinned = false;
	agent->nr_spans++;
	agent->nr_passing += span->passing;
	out->addr = addr;
	out->bytes = view_bytes(v, span->id) - rest;
	out->number = (uint32_t)(span - agent->span);
	return 0;
}

int paging_span_put(struct paging_agent *agent, const struct paging_span *span)
{
	if (span->number >= PAGING_SPANS_MAX || !agent->span[span->number].held) {
		log_error("paging: agent %u puts a span that it does not hold", agent->a.slot);
		return -EINVAL;
	}
	span_drop(agent, &agent->span[span->number]);
	reached(agent);
	return 0;
}

static int hint(struct paging_agent *agent, uint32_t range, uint64_t offset, uint64_t bytes,
		unsigned op)
{
	struct paging *pool = agent->pool;
	uint32_t shift = pool->view.page_shift;
	uint64_t page = offset >> shift;
	int err = cpu_part_check(pool, range, offset, bytes);

	for (; !err && bytes && page <= (offset + bytes - 1) >> shift; page++) {
		drive(agent, pt_begin(&pool->view.table, &agent->a, PT_ID(range, page), op));
		reached(agent);
	}
	return err;
}

int paging_prefetch(struct paging_agent *agent, uint32_t range, uint64_t offset, uint64_t bytes)
{
	return hint(agent, range, offset, bytes, PT_PREFETCH);
}

int paging_drop(struct paging_agent *agent, uint32_t range, uint64_t offset, uint64_t bytes)
{
	return hint(agent, range, offset, bytes, PT_DROP);
}

void paging_abort(struct paging *pool, bool on)
{
	if (pool->words) /* else it is the owner's */
		pt_store(&pool->words->abort, on, PT_RELEASE);
}
