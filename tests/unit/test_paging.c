/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory with one or two agents of one thread: what its headers promise, page by page. Wrong
 * use has a defined error and leaves the data as it is. Interleavings are test_paging_stress.c's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "src/paging/cpu.h"

#define KIB 1024u

struct fixture {
	struct paging *pool;
	struct paging_agent *agent;
	uint8_t *host;
	uint64_t bytes;
	uint32_t range;
};

static void make(struct fixture *f, uint32_t page_bytes, uint64_t nr_frames, uint64_t bytes,
		 uint32_t admit)
{
	struct paging_config config = {.page_bytes = page_bytes,
				       .max_agents = 3,
				       .nr_frames = nr_frames,
				       .max_frames = nr_frames * 2,
				       .quiesce_every = 1};
	struct paging_range_config range = {.bytes = bytes, .admit = admit};

	f->bytes = bytes;
	f->host = malloc(bytes);
	assert_non_null(f->host);
	for (uint64_t i = 0; i < bytes; i++)
		f->host[i] = (uint8_t)(i * 7 + i / 251);
	range.host = f->host;
	assert_int_equal(paging_create(&config, &f->pool), 0);
	assert_int_equal(paging_range_add(f->pool, &range, &f->range), 0);
	assert_int_equal(paging_enter(f->pool, &f->agent), 0);
}

static void destroy(struct fixture *f)
{
	if (f->agent)
		assert_int_equal(paging_leave(f->agent), 0);
	assert_int_equal(paging_check(f->pool), 0);
	paging_destroy(f->pool);
	free(f->host);
}

static uint64_t read8(struct fixture *f, uint64_t offset)
{
	uint64_t value = 0;

	assert_int_equal(paging_read(f->agent, f->range, offset, &value, 8), 0);
	return value;
}

static void write8(struct fixture *f, uint64_t offset, uint64_t value)
{
	assert_int_equal(paging_write(f->agent, f->range, offset, &value, 8), 0);
}

static enum pt_state state(const struct fixture *f, uint64_t page)
{
	return pt_state_of(*pt_entry_at(&f->pool->view.table, PT_ID(f->range, page)));
}

/* The same work at every page size gives the same bytes, the cut last page too. */
static void paging_same_at_every_page_size(void **unused)
{
	static const uint32_t sizes[] = {4, 8, 16, 64};
	const uint64_t bytes = 300 * KIB + 24;
	uint8_t *first = malloc(bytes);

	(void)unused;
	assert_non_null(first);
	for (uint32_t i = 0; i < 4; i++) {
		struct fixture f;
		uint64_t at = 1;

		make(&f, sizes[i] * KIB, 3, bytes, 1);
		for (uint32_t n = 0; n < 5000; n++) {
			at = (at * 6364136223846793005ull + 1442695040888963407ull);
			write8(&f, (at >> 20) % (bytes / 8) * 8, at);
		}
		assert_int_equal(paging_leave(f.agent), 0);
		f.agent = NULL;
		assert_int_equal(paging_drain(f.pool), 0);
		if (i)
			assert_memory_equal(first, f.host, bytes);
		memcpy(first, f.host, bytes);
		destroy(&f);
	}
	free(first);
}

static void paging_elements_of_every_size(void **unused)
{
	struct fixture f;
	uint64_t old;

	(void)unused;
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2) {
		uint64_t put = 0x1122334455667788ull, got = 0;

		assert_int_equal(paging_write(f.agent, f.range, 64 * bytes, &put, bytes), 0);
		assert_int_equal(paging_read(f.agent, f.range, 64 * bytes, &got, bytes), 0);
		assert_memory_equal(&put, &got, bytes);
		assert_int_equal(f.host[64 * bytes + bytes],
				 (uint8_t)((64 * bytes + bytes) * 7 + (64 * bytes + bytes) / 251));
	}
	write8(&f, 4096, 5);
	assert_int_equal(paging_add(f.agent, f.range, 4096, 8, 3, &old), 0);
	assert_int_equal(old, 5);
	assert_int_equal(paging_cas(f.agent, f.range, 4096, 8, 7, 9, &old), 0);
	assert_int_equal(old, 8);
	assert_int_equal(paging_cas(f.agent, f.range, 4096, 8, 8, 9, &old), 0);
	assert_int_equal(paging_add(f.agent, f.range, 4096, 4, 1, &old), 0);
	assert_int_equal(paging_cas(f.agent, f.range, 4096, 4, 10, 11, &old), 0);
	assert_int_equal(read8(&f, 4096), 11);
	assert_int_equal(paging_add(f.agent, f.range, 4096, 2, 1, &old), -EINVAL);
	destroy(&f);
}

/* One frame: a page beside the one that has it is used in place, and gets the frame in the end. */
static void paging_one_frame_suffices(void **unused)
{
	struct fixture f;
	uint32_t nr = 0;

	(void)unused;
	make(&f, 4 * KIB, 1, 16 * KIB, 1);
	write8(&f, 0, 77);
	assert_int_equal(state(&f, 0), PT_RESIDENT);
	write8(&f, 4096, 88);
	assert_int_equal(state(&f, 1), PT_ABSENT);
	assert_int_equal(*(uint64_t *)(void *)(f.host + 4096), 88); /* in place */
	while (state(&f, 1) != PT_RESIDENT && nr++ < 20)
		assert_int_equal(read8(&f, 4096), 88);
	assert_int_equal(state(&f, 1), PT_RESIDENT);
	assert_int_equal(state(&f, 0), PT_ABSENT);
	assert_int_equal(*(uint64_t *)(void *)f.host, 77); /* written back */
	destroy(&f);
}

/* Somebody who passes no quiescent point costs the others their frames, and nothing else. */
static void paging_sleeper_costs_speed_alone(void **unused)
{
	struct paging_agent *sleeper;
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 1, 16 * KIB, 1);
	assert_int_equal(paging_enter(f.pool, &sleeper), 0);
	write8(&f, 0, 1);
	for (uint32_t i = 0; i < 1000; i++)
		write8(&f, 4096 + 8 * (i % 512), i);
	assert_int_equal(state(&f, 1), PT_ABSENT);
	assert_int_equal(read8(&f, 0), 1);
	assert_int_equal(paging_leave(sleeper), 0);
	for (uint32_t i = 0; i < 20; i++)
		write8(&f, 4096, 1000 + i);
	assert_int_equal(state(&f, 1), PT_RESIDENT);
	assert_int_equal(read8(&f, 4096), 1019);
	destroy(&f);
}

static void paging_admits_at_nth_touch(void **unused)
{
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 4, 64 * KIB, 3);
	for (uint32_t i = 0; i < 2; i++) {
		(void)read8(&f, 8192);
		assert_int_equal(state(&f, 2), PT_ABSENT);
	}
	(void)read8(&f, 8192);
	assert_int_equal(state(&f, 2), PT_RESIDENT);
	assert_int_equal(paging_prefetch(f.agent, f.range, 0, 1),
			 0); /* does not wait for touches */
	assert_int_equal(state(&f, 0), PT_RESIDENT);
	destroy(&f);
}

static void paging_hints_change_no_contents(void **unused)
{
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 4, 64 * KIB, 1);
	write8(&f, 0, 5);
	assert_int_equal(paging_drop(f.agent, f.range, 0, 4096), 0);
	assert_int_equal(state(&f, 0), PT_LIMBO);
	assert_int_equal(read8(&f, 0), 5);
	assert_int_equal(state(&f, 0), PT_RESIDENT);
	assert_int_equal(paging_prefetch(f.agent, f.range, 0, 64 * KIB), 0);
	assert_int_equal(paging_drop(f.agent, f.range, 0, 64 * KIB), 0);
	assert_int_equal(paging_prefetch(f.agent, f.range, 60 * KIB, 4 * KIB + 1), -EINVAL);
	assert_int_equal(read8(&f, 0), 5);
	destroy(&f);
}

static void paging_abort_goes_in_place(void **unused)
{
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 4, 64 * KIB, 1);
	write8(&f, 0, 1);
	assert_int_equal(paging_drop(f.agent, f.range, 0, 1), 0);
	paging_abort(f.pool, true);
	assert_int_equal(read8(&f, 0), 1); /* limbo comes back: that takes no frame */
	write8(&f, 4096, 2);
	assert_int_equal(state(&f, 1), PT_ABSENT);
	assert_int_equal(*(uint64_t *)(void *)(f.host + 4096), 2);
	paging_abort(f.pool, false);
	assert_int_equal(read8(&f, 4096), 2);
	assert_int_equal(state(&f, 1), PT_RESIDENT);
	destroy(&f);
}

static void paging_pinned_span_stays(void **unused)
{
	struct paging_span span, other;
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 1, 64 * KIB, 1);
	assert_int_equal(paging_span_get(f.agent, f.range, 8, PAGING_WRITE | PAGING_PIN, &span), 0);
	assert_int_equal(span.bytes, 4088);
	assert_int_equal(state(&f, 0), PT_RESIDENT);
	for (uint32_t i = 0; i < 100; i++)
		write8(&f, 4096 + 4096 * (i % 8), i);
	*(uint64_t *)span.addr = 99;
	assert_int_equal(state(&f, 0), PT_RESIDENT);
	assert_int_equal(paging_drop(f.agent, f.range, 0, 1), 0);
	assert_int_equal(state(&f, 0), PT_RESIDENT);
	assert_int_equal(read8(&f, 8), 99);
	/* A span in place keeps the page where it is. */
	assert_int_equal(paging_span_get(f.agent, f.range, 4096, PAGING_WRITE, &other), 0);
	assert_int_equal(paging_span_put(f.agent, &span), 0);
	for (uint32_t i = 0; i < 20; i++)
		(void)read8(&f, 4096);
	assert_int_equal(state(&f, 1), PT_ABSENT);
	assert_ptr_equal(other.addr, f.host + 4096);
	assert_int_equal(paging_span_put(f.agent, &other), 0);
	assert_int_equal(paging_span_put(f.agent, &other), -EINVAL);
	destroy(&f);
}

static void paging_wrong_use(void **unused)
{
	struct paging_config config = {.page_bytes = 4096, .max_agents = 1};
	struct paging_span span[PAGING_SPANS_MAX + 1];
	struct paging_range_config range = {0};
	struct paging_agent *agents[3];
	struct paging *none = NULL;
	uint64_t value = 1;
	struct fixture f;
	uint32_t fixed;

	(void)unused;
	assert_int_equal(paging_create(&config, &none), -EINVAL); /* no frames */
	config.nr_frames = 1;
	config.page_bytes = 12 * KIB;
	assert_int_equal(paging_create(&config, &none), -EINVAL);
	config.page_bytes = 4096;
	config.max_agents = 0;
	assert_int_equal(paging_create(&config, &none), -EINVAL);
	assert_null(none);

	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	range.host = f.host;
	range.bytes = 4096;
	range.read_only = true;
	assert_int_equal(paging_range_add(f.pool, &range, &fixed), -EBUSY);
	assert_int_equal(paging_flush(f.pool), -EBUSY);
	assert_int_equal(paging_drain(f.pool), -EBUSY);
	assert_int_equal(paging_check(f.pool), -EBUSY);
	assert_int_equal(paging_set_frames(f.pool, 1), -EBUSY);
	assert_int_equal(paging_host_read(f.pool, 0, 0, &value, 8), -EBUSY);
	assert_int_equal(paging_leave(f.agent), 0);
	assert_int_equal(paging_range_add(f.pool, &range, &fixed), 0);
	range.bytes = 0;
	assert_int_equal(paging_range_add(f.pool, &range, &fixed), -EINVAL);
	assert_int_equal(paging_set_frames(f.pool, 0), -EINVAL);
	assert_int_equal(paging_set_frames(f.pool, 5), -EINVAL);
	assert_int_equal(paging_host_read(f.pool, 0, 64 * KIB, &value, 8), -EINVAL);
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);

	assert_int_equal(paging_read(f.agent, 0, 64 * KIB, &value, 8), -EINVAL);
	assert_int_equal(paging_read(f.agent, 0, ~0ull - 7, &value, 8), -EINVAL);
	assert_int_equal(paging_read(f.agent, 2, 0, &value, 8), -EINVAL);
	assert_int_equal(paging_read(f.agent, 0, 4, &value, 8), -EINVAL);
	assert_int_equal(paging_read(f.agent, 0, 0, &value, 3), -EINVAL);
	assert_int_equal(paging_read_n(f.agent, 0, 8, f.host, ~0ull), -EINVAL);
	assert_int_equal(paging_write(f.agent, fixed, 0, &value, 8), -EROFS);
	assert_int_equal(paging_write_n(f.agent, fixed, 0, &value, 8), -EROFS);
	assert_int_equal(paging_span_get(f.agent, fixed, 0, PAGING_WRITE, span), -EROFS);
	for (uint32_t i = 0; i < PAGING_SPANS_MAX; i++)
		assert_int_equal(paging_span_get(f.agent, 0, 4096 * i, PAGING_WRITE, &span[i]), 0);
	assert_int_equal(paging_span_get(f.agent, 0, 0, 0, &span[8]), -ENOSPC);
	assert_int_equal(paging_leave(f.agent), -EBUSY);
	assert_int_equal(paging_enter(f.pool, &agents[1]), 0);
	assert_int_equal(paging_enter(f.pool, &agents[2]), 0);
	assert_int_equal(paging_enter(f.pool, &agents[0]), -EAGAIN);
	assert_int_equal(paging_leave(agents[1]), 0);
	assert_int_equal(paging_leave(agents[2]), 0);
	/* It ends without leaving: nothing hangs, and its data is there. */
	*(uint64_t *)span[0].addr = 4711;
	assert_int_equal(paging_flush(f.pool), -EBUSY);
	paging_abandon(f.agent);
	assert_int_equal(paging_read(f.agent, 0, 0, &value, 8), -EINVAL);
	assert_int_equal(paging_write_n(f.agent, 0, 0, &value, 8), -EINVAL);
	f.agent = NULL;
	assert_int_equal(paging_flush(f.pool), 0);
	assert_int_equal(*(uint64_t *)(void *)f.host, 4711);
	destroy(&f);
}

/* Address space runs out: an error, nothing lost, and what was there works on. */
static void paging_out_of_memory(void **unused)
{
	struct paging_config config = {.page_bytes = 64 * KIB,
				       .max_agents = 1,
				       .nr_frames = 1,
				       .max_frames = PT_FRAMES_MAX};
	struct paging_range_config range = {.bytes = 1ull << 59};
	struct paging *pool[64];
	uint32_t nr = 0, number = 77;
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	assert_int_equal(paging_leave(f.agent), 0);
	f.agent = NULL;
	range.host = f.host;
	assert_int_equal(paging_range_add(f.pool, &range, &number), -ENOMEM);
	assert_int_equal(number, 77);
	for (uint32_t round = 0; round < 2; round++) {
		uint32_t before = nr;

		nr = 0;
		while (nr < 64 && !paging_create(&config, &pool[nr]))
			nr++;
		assert_in_range(nr, 0, 63);
		if (round)
			assert_int_equal(nr, before);
		for (uint32_t i = 0; i < nr; i++)
			paging_destroy(pool[i]);
	}
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	write8(&f, 0, 3);
	assert_int_equal(read8(&f, 0), 3);
	destroy(&f);
}

static void paging_frames_grow_and_shrink(void **unused)
{
	static const uint64_t numbers[] = {1, 4, 2, 3, 1};
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	for (uint64_t n = 0; n < 5; n++) {
		for (uint64_t i = 0; i < 64; i++)
			write8(&f, 1024 * i, n << 32 | i);
		assert_int_equal(paging_leave(f.agent), 0);
		assert_int_equal(paging_set_frames(f.pool, numbers[n]), 0);
		assert_int_equal(paging_check(f.pool), 0);
		assert_int_equal(paging_enter(f.pool, &f.agent), 0);
		for (uint64_t i = 0; i < 64; i++)
			assert_int_equal(read8(&f, 1024 * i), n << 32 | i);
	}
	destroy(&f);
}

static void paging_host_between_launches(void **unused)
{
	uint64_t value = 0;
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 4, 64 * KIB, 1);
	for (uint64_t round = 1; round < 4; round++) {
		write8(&f, 4096, round);
		assert_int_equal(paging_leave(f.agent), 0);
		assert_int_equal(paging_host_read(f.pool, 0, 4096, &value, 8), 0);
		assert_int_equal(value, round);
		value = round * 100;
		assert_int_equal(paging_host_write(f.pool, 0, 4096, &value, 8), 0);
		assert_int_equal(paging_enter(f.pool, &f.agent), 0);
		assert_int_equal(read8(&f, 4096), round * 100);
	}
	destroy(&f);
}

/* A count of pins at its limit: an error, and the entry as before. */
static void paging_pins_do_not_overflow(void **unused)
{
	struct paging_span span;
	uint64_t *entry, before;
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	for (uint32_t resident = 0; resident < 2; resident++) {
		if (resident)
			(void)read8(&f, 0);
		entry = pt_entry_at(&f.pool->view.table, PT_ID(0, 0));
		*entry += PT_PINS_MAX << PT_PIN_SHIFT;
		before = *entry | (resident ? PT_REF : 0);
		assert_int_equal(paging_span_get(f.agent, 0, 0, PAGING_PIN, &span), -EOVERFLOW);
		assert_int_equal(*entry | (resident ? PT_REF : 0), before);
		*entry -= PT_PINS_MAX << PT_PIN_SHIFT;
	}
	destroy(&f);
}

/* Tags are 8 bits of an epoch: a long time is at worst a needless wait, never a missed one. */
static void paging_tags_wrap(void **unused)
{
	(void)unused;
	for (uint64_t epoch = 1; epoch < 2000; epoch++) {
		/* What an agent can meet: from one epoch ahead of it to long ago. */
		for (int64_t age = -1; age < 600; age++) {
			uint64_t tag = epoch - (uint64_t)age;
			uint64_t limbo = pt_entry(PT_LIMBO, tag, 7);

			if (age >= (int64_t)epoch)
				break;
			assert_false(pt_ready(limbo, epoch) && age < 3);
			assert_false(pt_settled(limbo, epoch) && age < 2);
			if (age >= 3 && age <= PT_AGE_MAX)
				assert_true(pt_ready(limbo, epoch) && pt_settled(limbo, epoch));
		}
	}
	/* The next 256 epochs hold one at which any tag is ready. */
	for (uint64_t tag = 0; tag < 256; tag++)
		assert_true(pt_ready(pt_entry(PT_LIMBO, tag, 0), tag + 256 + 3));
}

/* A whole run at epochs beyond 32 bits and across a wrap of the tag. */
static void paging_runs_across_wrap(void **unused)
{
	struct fixture f;

	(void)unused;
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	assert_int_equal(paging_leave(f.agent), 0);
	f.pool->view.table.shared->epoch = (1ull << 40) - 100;
	f.pool->view.table.shared->prepare = f.pool->view.table.shared->take = ~0ull - 300;
	assert_int_equal(paging_enter(f.pool, &f.agent), 0);
	for (uint64_t i = 0; i < 4000; i++)
		write8(&f, 4096 * (i % 16) + 8 * (i / 16), i);
	for (uint64_t i = 0; i < 4000; i++)
		assert_int_equal(read8(&f, 4096 * (i % 16) + 8 * (i / 16)), i);
	assert_true(f.pool->view.table.shared->epoch > 1ull << 40);
	destroy(&f);
}

/* Byte offsets and page numbers beyond 32 bits. The machine alone for the latter: nobody has the
 * bytes. */
static void paging_beyond_32_bits(void **unused)
{
	const uint64_t bytes = 6ull << 30, nr_pages = (1ull << 32) + 9;
	struct paging_config config = {.page_bytes = 4096, .max_agents = 1, .nr_frames = 2};
	struct paging_range_config range = {.bytes = bytes};
	struct paging_agent *agent;
	struct paging *pool;
	uint64_t value = 5, *far;
	uint32_t number;

	(void)unused;
	range.host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(range.host != MAP_FAILED);
	assert_int_equal(paging_create(&config, &pool), 0);
	assert_int_equal(paging_range_add(pool, &range, &number), 0);
	assert_int_equal(paging_enter(pool, &agent), 0);
	for (uint64_t i = 0; i < 12; i++) {
		value = i + 1;
		assert_int_equal(paging_write(agent, 0, i * (bytes / 12), &value, 8), 0);
	}
	assert_int_equal(paging_leave(agent), 0);
	assert_int_equal(paging_drain(pool), 0);
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(((uint64_t *)range.host)[i * (bytes / 12) / 8], i + 1);

	far = mmap(NULL, nr_pages * 8, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(far != MAP_FAILED);
	{
		struct pt_range beyond[2] = {{.admit = 1},
					     {.entry = far, .nr_pages = nr_pages, .admit = 1}};
		struct pt_table t = pool->view.table;
		struct pt_agent a = {0};
		enum pt_do verdict = pt_enter(&a);

		t.range = beyond;
		t.nr_ranges = 2;
		while (!pt_final(verdict))
			verdict = pt_step(&t, &a);
		assert_int_equal(pt_begin(&t, &a, PT_ID(1, nr_pages), PT_READ), PT_FAIL);
		assert_int_equal(pt_begin(&t, &a, PT_ID(2, 0), PT_READ), PT_FAIL);
		verdict = pt_begin(&t, &a, PT_ID(1, nr_pages - 1), PT_WRITE);
		while (!pt_final(verdict))
			verdict = pt_step(&t, &a);
		assert_int_equal(verdict, PT_HIT);
		assert_int_equal(pt_state_of(far[nr_pages - 1]), PT_RESIDENT);
		assert_int_equal(pt_state_of(far[8]), PT_ABSENT);
		assert_int_equal(t.owner[a.frame], PT_ID(1, nr_pages - 1) + 1);
		t.owner[a.frame] = PT_OWNER_FREE;
		*t.slot = 0;
	}
	munmap(far, nr_pages * 8);
	paging_destroy(pool);
	munmap(range.host, bytes);
}

/* The checker finds what is wrong. */
static void paging_check_finds(void **unused)
{
	struct fixture f;
	uint64_t *entry, right;

	(void)unused;
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	(void)read8(&f, 0);
	(void)read8(&f, 4096);
	assert_int_equal(paging_leave(f.agent), 0);
	f.agent = NULL;
	entry = pt_entry_at(&f.pool->view.table, PT_ID(0, 0));
	right = *entry;
	{
		const uint64_t wrong[] = {
			0,
			right + PT_PIN_ONE,
			right ^ 1, /* the other page's frame */
			right + 5,
			pt_entry(PT_LOADING, 0, 0),
			pt_entry(PT_WRITEBACK, 0, pt_frame_of(right)),
		};

		for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			*entry = wrong[i];
			assert_int_equal(paging_check(f.pool), -EUCLEAN);
		}
	}
	*entry = right;
	f.pool->view.table.shared->scan = 1;
	assert_int_equal(paging_check(f.pool), -EUCLEAN);
	f.pool->view.table.shared->scan = 0;
	f.pool->view.table.slot[1] = 4;
	assert_int_equal(paging_check(f.pool), -EUCLEAN);
	f.pool->view.table.slot[1] = 0;
	*view_frame(&f.pool->view, pt_frame_of(right)) ^= 1; /* clean, and not the host's */
	assert_int_equal(paging_check(f.pool), -EUCLEAN);
	*view_frame(&f.pool->view, pt_frame_of(right)) ^= 1;
	destroy(&f);
}

static void paging_dump_says(void **unused)
{
	char text[2048] = "";
	struct fixture f;
	FILE *to = fmemopen(text, sizeof(text) - 1, "w");

	(void)unused;
	assert_non_null(to);
	make(&f, 4 * KIB, 2, 64 * KIB, 1);
	write8(&f, 0, 1);
	paging_dump(f.pool, to);
	fclose(to);
	assert_non_null(strstr(text, "agent 0: online, epoch 1"));
	assert_non_null(
		strstr(text, "range 0: 16 pages, 1 dirty, 0 pinned, 15 absent, 1 resident"));
	destroy(&f);
}

/* The hand that takes got ahead of the one that prepares: the next faults bring that up to it, and
 * do not move both. */
static void paging_hands_meet_again(void **unused)
{
	const uint64_t nr_pages = 2048;
	struct paging_stats before, after;
	struct pt_shared *shared;
	struct fixture f;
	uint64_t page = 0;

	(void)unused;
	make(&f, 4 * KIB, 1024, nr_pages * 4 * KIB, 1);
	shared = f.pool->view.table.shared;
	for (; page < 2 * nr_pages; page++)
		read8(&f, page % nr_pages * 4 * KIB);
	shared->take = shared->prepare + 8;
	paging_stats(f.pool, &before);
	for (uint32_t n = 0; n < 100; n++)
		read8(&f, page++ % nr_pages * 4 * KIB);
	paging_stats(f.pool, &after);
	assert_in_range(after.nr_in_place - before.nr_in_place, 1, 5);
	destroy(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paging_same_at_every_page_size),
		cmocka_unit_test(paging_elements_of_every_size),
		cmocka_unit_test(paging_one_frame_suffices),
		cmocka_unit_test(paging_sleeper_costs_speed_alone),
		cmocka_unit_test(paging_admits_at_nth_touch),
		cmocka_unit_test(paging_hints_change_no_contents),
		cmocka_unit_test(paging_abort_goes_in_place),
		cmocka_unit_test(paging_pinned_span_stays),
		cmocka_unit_test(paging_wrong_use),
		cmocka_unit_test(paging_out_of_memory),
		cmocka_unit_test(paging_frames_grow_and_shrink),
		cmocka_unit_test(paging_host_between_launches),
		cmocka_unit_test(paging_pins_do_not_overflow),
		cmocka_unit_test(paging_hands_meet_again),
		cmocka_unit_test(paging_tags_wrap),
		cmocka_unit_test(paging_runs_across_wrap),
		cmocka_unit_test(paging_beyond_32_bits),
		cmocka_unit_test(paging_check_finds),
		cmocka_unit_test(paging_dump_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
