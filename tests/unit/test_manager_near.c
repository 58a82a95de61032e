/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managers whose memory is another GPU's, on a simulated machine: what zerocopy+near and
 * weir-paged+near take of which memory, what they count over which link, and what they refuse.
 */
#include <errno.h>

#include "managers/manager.h"
#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/paging/paging.h"
#include "tests/unit/test_sim_machine.h"

#define PAGE KIB(4)
#define NEAR_LINK 2u /* gpu0 is its end a */

struct held {
	struct weir_machine *machine;
	struct backend *flaky;
	struct manager_config config;
	struct manager *m;
};

static void open_machine(struct held *h)
{
	struct weir_machine_desc desc;
	struct backend *sim;

	test_machine(&desc);
	memset(h, 0, sizeof(*h));
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
	assert_int_equal(flaky_create(sim, &h->flaky), 0);
	assert_int_equal(machine_wrap(h->flaky, &h->machine), 0);
	h->config = (struct manager_config){
		.machine = h->machine, .gpu_budget_bytes = 64 * PAGE, .page_bytes = PAGE};
}

static void close_machine(struct held *h)
{
	if (h->m) {
		assert_int_equal(h->m->ops->check(h->m), 0);
		h->m->ops->destroy(h->m);
	}
	assert_int_equal(sim_leaks(flaky_inner(h->flaky)), 0);
	weir_machine_close(h->machine);
}

static void open_manager(struct held *h, const char *name, uint64_t near, uint64_t needs)
{
	open_machine(h);
	h->config.near_bytes[GPU1] = near;
	h->config.needs_bytes = needs;
	assert_int_equal(manager_create(name, &h->config, &h->m), 0);
}

static uint64_t used(const struct held *h, uint32_t memory)
{
	return h->flaky->ops->memory_used(h->flaky, memory);
}

static void *alloc(struct held *h, uint64_t bytes)
{
	void *addr = NULL;

	assert_int_equal(h->m->ops->alloc(h->m, bytes, "table", &addr), 0);
	return addr;
}

/* ------------------------------------------------------------------ names and budgets */

static void test_names(void **unused)
{
	static const char *const near[] = {"weir+near", "weir+near-copy", "weir-paged+near",
					   "weir-paged+page+near", "zerocopy+near"};
	static const char *const far[] = {"weir",     "weir-paged",  "weir-paged+page", "near",
					  "zerocopy", "weir+nearer", "weir-near"};

	(void)unused;
	for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++)
		assert_true(manager_is_near(near[i]));
	for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++)
		assert_false(manager_is_near(far[i]));
}

static void test_refused(void **unused)
{
	static const char *const good[] = {"zerocopy+near", "weir-paged+near",
					   "weir-paged+page+near", "weir-paged+fill+near",
					   "weir-paged+auto+near"};
	static const char *const bad[] = {"zerocopy+far", "weir-paged+near+page",
					  "weir-paged+near+near", "weir-paged+near-copy",
					  "native+near"};
	struct held h;

	(void)unused;
	open_machine(&h);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		h.config.near_bytes[GPU1] = 0;
		assert_int_equal(manager_create(good[i], &h.config, &h.m), -EINVAL);
		h.config.near_bytes[GPU1] = MIB(4);
		assert_int_equal(manager_create(good[i], &h.config, &h.m), 0);
		h.m->ops->destroy(h.m);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(manager_create(bad[i], &h.config, &h.m), -EINVAL);
	h.config.near_bytes[GPU1] = MIB(64);
	assert_int_equal(manager_create("zerocopy+near", &h.config, &h.m), -EINVAL);
	h.config.near_bytes[GPU1] = MIB(4);
	h.config.near_bytes[GPU0] = MIB(4);
	assert_int_equal(manager_create("zerocopy+near", &h.config, &h.m), -EINVAL);
	h.m = NULL;
	close_machine(&h);
}

/* ------------------------------------------------------------------ zerocopy+near */

static void test_zerocopy(void **unused)
{
	const uint64_t bytes = MIB(4);
	struct manager_stats stats;
	uint64_t word = 17, took_ns;
	struct weir_use use;
	struct weir_launch l = {.kernel = &touch_kernel, .uses = &use, .nr_uses = 1};
	struct touch touch = {.value = 5};
	void *addr, *more;
	struct held h;

	(void)unused;
	open_manager(&h, "zerocopy+near", MIB(6), 0);
	addr = alloc(&h, bytes);
	assert_int_equal(used(&h, GPU1), bytes);
	assert_int_equal(used(&h, HOST) + used(&h, GPU0), 0);
	assert_int_equal(h.m->ops->write(h.m, addr, &word, sizeof(word)), 0);
	use = use_of(addr, bytes, WEIR_READ);
	touch.write = addr;
	l.args = &touch;
	l.args_bytes = sizeof(touch);
	took_ns = h.m->backend->ops->now_ns(h.m->backend);
	assert_int_equal(h.m->ops->launch(h.m, &l), 0);
	assert_int_equal(h.m->ops->sync(h.m), 0);
	took_ns = h.m->backend->ops->now_ns(h.m->backend) - took_ns;
	assert_in_range(took_ns, bytes / 2, bytes / 2 + 2000); /* 2 bytes a nanosecond */
	assert_int_equal(h.m->ops->read(h.m, &word, addr, sizeof(word)), 0);
	assert_int_equal(word, 5);
	h.m->ops->stats(h.m, &stats);
	assert_int_equal(stats.near[NEAR_LINK][WEIR_B_TO_A][WEIR_CAUSE_INPLACE], bytes);
	assert_int_equal(stats.near[NEAR_LINK][WEIR_A_TO_B][WEIR_CAUSE_INPLACE], 0);
	assert_int_equal(stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE], 0);
	assert_int_equal(stats.peak_bytes[GPU1], bytes);
	assert_int_equal(h.m->ops->alloc(h.m, MIB(4), "more", &more), -ENOMEM);
	h.m->ops->free(h.m, addr);
	assert_int_equal(h.m->ops->alloc(h.m, MIB(6), "more", &more), 0);
	assert_int_equal(used(&h, GPU1), MIB(6));
	close_machine(&h);
}

/* Each call that making an allocation takes fails in turn. */
static void test_zerocopy_fails_anywhere(void **unused)
{
	uint32_t nr_failed = 0;
	struct held h;
	void *addr;
	int err = -EIO;

	(void)unused;
	open_manager(&h, "zerocopy+near", MIB(6), 0);
	for (uint64_t at = 1; err; at++) {
		flaky_arm(h.flaky, flaky_nr_calls(h.flaky) + at, -EIO);
		err = h.m->ops->alloc(h.m, MIB(4), "table", &addr);
		nr_failed += err != 0;
		assert_int_equal(used(&h, GPU1), err ? 0 : MIB(4));
	}
	flaky_arm(h.flaky, 0, 0);
	assert_int_equal(nr_failed, 3);
	close_machine(&h);
}

/* ------------------------------------------------------------------ weir-paged+near */

/* Of each range its share, in whole chunks; what is left for the last ones is what is left. */
static void test_shares(void **unused)
{
	struct held h;
	void *addr;

	(void)unused;
	open_manager(&h, "weir-paged+near", 24 * PAGE, 32 * PAGE);
	alloc(&h, 16 * PAGE);
	assert_int_equal(used(&h, GPU1), 12 * PAGE);
	assert_int_equal(used(&h, HOST), 4 * PAGE);
	alloc(&h, 8); /* too small */
	assert_int_equal(used(&h, GPU1), 12 * PAGE);
	addr = alloc(&h, 15 * PAGE);
	assert_int_equal(used(&h, GPU1), 23 * PAGE);
	h.m->ops->free(h.m, addr);
	assert_int_equal(used(&h, GPU1), 12 * PAGE);
	alloc(&h, 32 * PAGE); /* half of what its share would be */
	assert_int_equal(used(&h, GPU1), 24 * PAGE);
	alloc(&h, PAGE);
	assert_int_equal(used(&h, GPU1), 24 * PAGE);
	close_machine(&h);
	/* All of it, and sizes that are no whole chunks. */
	open_manager(&h, "weir-paged+near", 40 * PAGE, 20 * PAGE);
	alloc(&h, 10 * PAGE + 8);
	assert_int_equal(used(&h, GPU1), 11 * PAGE);
	assert_int_equal(used(&h, HOST), 0);
	close_machine(&h);
	/* Where nobody knows how much there is going to be, the first have what they need. */
	open_manager(&h, "weir-paged+near", 24 * PAGE, 0);
	alloc(&h, 20 * PAGE);
	assert_int_equal(used(&h, GPU1), 20 * PAGE);
	alloc(&h, 20 * PAGE);
	assert_int_equal(used(&h, GPU1), 24 * PAGE);
	assert_int_equal(used(&h, HOST), 16 * PAGE);
	close_machine(&h);
}

/* What is at a neighbour is not of the host's budget, and does not count where it was refused. */
static void test_budgets(void **unused)
{
	struct held h;
	void *addr;

	(void)unused;
	open_machine(&h);
	h.config.near_bytes[GPU1] = 16 * PAGE;
	h.config.needs_bytes = 32 * PAGE;
	h.config.host_budget_bytes = 10 * PAGE;
	assert_int_equal(manager_create("weir-paged+near", &h.config, &h.m), 0);
	assert_int_equal(h.m->ops->alloc(h.m, 24 * PAGE, "large", &addr), -ENOMEM);
	assert_int_equal(used(&h, GPU1) + used(&h, HOST), 0);
	addr = alloc(&h, 20 * PAGE);
	assert_int_equal(used(&h, GPU1), 10 * PAGE);
	h.m->ops->free(h.m, addr);
	alloc(&h, 20 * PAGE);
	assert_int_equal(used(&h, GPU1), 10 * PAGE);
	close_machine(&h);
}

/* A kernel that adds to a word of each page. */
struct add_args {
	struct weir_paged_view view;
	uint32_t range, *nr_wrong;
	uint64_t nr_pages;
};

static void add_cpu(const void *p)
{
	const struct add_args *a = p;
	struct paging_agent *agent;
	struct paging *pool;
	uint64_t old;

	if (paging_over(&a->view, 1, &pool) || paging_enter(pool, &agent)) {
		++*a->nr_wrong;
		return;
	}
	for (uint64_t i = 0; i < a->nr_pages; i++)
		*a->nr_wrong += paging_add(agent, a->range, i * PAGE, 8, 1, &old) != 0;
	*a->nr_wrong += paging_leave(agent) != 0;
	paging_destroy(pool);
}

static const struct weir_kernel add_kernel = {.name = "add", .cpu = add_cpu};

/* @return nanoseconds */
static uint64_t add_all(struct held *h, void *addr, uint64_t nr_pages)
{
	struct backend *b = h->m->backend;
	uint32_t nr_wrong = 0;
	struct add_args args = {.nr_wrong = &nr_wrong, .nr_pages = nr_pages};
	const struct weir_use use = {.addr = addr,
				     .bytes = nr_pages * PAGE,
				     .kind = WEIR_WRITE,
				     .read_bytes = nr_pages * PAGE,
				     .write_bytes = nr_pages * PAGE,
				     .granule = PAGE};
	const struct weir_launch l = {.kernel = &add_kernel,
				      .args = &args,
				      .args_bytes = sizeof(args),
				      .uses = &use,
				      .nr_uses = 1};
	uint64_t begun_ns = b->ops->now_ns(b);

	assert_int_equal(h->m->ops->paged_range(h->m, addr, &args.range), 0);
	assert_int_equal(h->m->ops->paged_begin(h->m, &args.view), 0);
	assert_int_equal(h->m->ops->launch(h->m, &l), 0);
	assert_int_equal(h->m->ops->paged_end(h->m), 0);
	assert_int_equal(h->m->ops->sync(h->m), 0);
	assert_int_equal(nr_wrong, 0);
	return h->m->ops->done_ns(h->m) - begun_ns;
}

/* Pages come and go over the link of the memory that they are of, and so is their time. */
static void test_traffic(void **unused)
{
	const uint64_t nr = 64, nr_near = 48, bytes = nr * PAGE;
	struct manager_stats stats;
	uint64_t words[2], took_ns[2], in[2], out[2], (*near)[WEIR_CAUSE_NR];
	struct held h;
	void *addr;

	(void)unused;
	for (uint32_t i = 0; i < 2; i++) {
		open_manager(&h, i ? "weir-paged+page+near" : "weir-paged+page", nr_near * PAGE,
			     bytes);
		addr = alloc(&h, bytes);
		words[0] = 7;
		for (uint64_t page = 0; page < nr; page++)
			assert_int_equal(h.m->ops->write(h.m, (char *)addr + page * PAGE, words, 8),
					 0);
		took_ns[i] = add_all(&h, addr, nr);
		for (uint64_t page = 0; page < nr; page++) {
			assert_int_equal(h.m->ops->read(h.m, words, (char *)addr + page * PAGE, 8),
					 0);
			assert_int_equal(words[0], 8);
		}
		h.m->ops->stats(h.m, &stats);
		near = stats.near[NEAR_LINK];
		in[0] = stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND];
		in[1] = near[WEIR_B_TO_A][WEIR_CAUSE_DEMAND];
		out[0] = stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] +
			 stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_WRITEBACK];
		out[1] = near[WEIR_A_TO_B][WEIR_CAUSE_EVICTION] +
			 near[WEIR_A_TO_B][WEIR_CAUSE_WRITEBACK];
		assert_int_equal(in[0] + in[1], bytes);
		assert_int_equal(out[0] + out[1], bytes);
		assert_int_equal(in[1], i ? nr_near * PAGE : 0);
		assert_int_equal(out[1], i ? nr_near * PAGE : 0);
		assert_int_equal(near[WEIR_A_TO_B][WEIR_CAUSE_DEMAND], 0);
		assert_int_equal(stats.peak_bytes[GPU1], i ? nr_near * PAGE : 0);
		close_machine(&h);
	}
	/* Both links have the same rates: three quarters over the one is what counts. */
	assert_in_range(took_ns[1], took_ns[0] * 7 / 10, took_ns[0] * 8 / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	 cmocka_unit_test(test_refused),
		cmocka_unit_test(test_zerocopy), cmocka_unit_test(test_zerocopy_fails_anywhere),
		cmocka_unit_test(test_shares),	 cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_traffic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
