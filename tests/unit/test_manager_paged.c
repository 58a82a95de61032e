/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager weir-paged, on a simulated machine: kernels that page several allocations in one
 * bracket, and use others by their addresses; what each is charged and reported with; memory that
 * is only read; what is refused.
 */
#include <errno.h>

#include "managers/manager.h"
#include "src/paging/paging.h"
#include "tests/unit/test_sim_machine.h"

#define PAGE KIB(4)
#define NR_WORDS (PAGE / sizeof(uint64_t))

/* Two allocations that are paged, and one word that is not. */
struct held {
	struct weir_machine *machine;
	struct manager *m;
	uint64_t *a, *b, *word;
	uint64_t bytes; /* of a, and of b */
};

/* What a kernel gets. Words read are added to *word. */
struct args {
	struct weir_paged_view view;
	uint32_t a, b;
	uint64_t bytes, *word;
	uint32_t nr_elements; /* of b that are read one by one; 0: all of it, by pages */
	bool pin;	      /* a's pages are pinned meanwhile */
	int *err;
};

static void *alloc(struct manager *m, uint64_t bytes, const char *name)
{
	void *addr = NULL;

	assert_int_equal(m->ops->alloc(m, bytes, name, &addr), 0);
	return addr;
}

static void fill(struct manager *m, uint64_t *at, uint64_t bytes, uint64_t first)
{
	uint64_t words[NR_WORDS];

	for (uint64_t page = 0; page < bytes / PAGE; page++) {
		for (uint64_t i = 0; i < NR_WORDS; i++)
			words[i] = first + page * NR_WORDS + i;
		assert_int_equal(m->ops->write(m, at + page * NR_WORDS, words, PAGE), 0);
	}
}

/* The sum of n words from `first` on. */
static uint64_t sum_of(uint64_t first, uint64_t n)
{
	return n * first + n * (n - 1) / 2;
}

static void setup(struct held *h, uint64_t bytes, uint64_t nr_frames)
{
	const uint64_t zero = 0;
	struct weir_machine_desc desc;
	struct manager_config config = {.gpu_budget_bytes = nr_frames * PAGE, .page_bytes = PAGE};

	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &h->machine), 0);
	config.machine = h->machine;
	assert_int_equal(manager_create("weir-paged", &config, &h->m), 0);
	h->bytes = bytes;
	h->word = alloc(h->m, sizeof(*h->word), "word");
	h->a = alloc(h->m, bytes, "a");
	h->b = alloc(h->m, bytes, "b");
	assert_int_equal(h->m->ops->write(h->m, h->word, &zero, sizeof(zero)), 0);
	fill(h->m, h->a, bytes, 1);
	fill(h->m, h->b, bytes, 1000000);
}

static void teardown(struct held *h)
{
	assert_int_equal(h->m->ops->check(h->m), 0);
	h->m->ops->destroy(h->m);
	weir_machine_close(h->machine);
}

/* ------------------------------------------------------------------ a kernel */

static int read_pages(struct paging_agent *agent, const struct args *a, uint32_t range, bool pin,
		      struct paging_span *span)
{
	uint64_t nr = a->bytes / PAGE;
	int err = 0;

	for (uint64_t page = 0; page < nr && !err; page++) {
		const uint64_t *word;

		err = paging_span_get(agent, range, page * PAGE, pin ? PAGING_PIN : 0, &span[page]);
		word = span[page].addr;
		for (uint64_t i = 0; i < NR_WORDS && !err; i++)
			*a->word += word[i];
		if (!err && !pin)
			err = paging_span_put(agent, &span[page]);
	}
	return err;
}

static int read_all(struct paging_agent *agent, const struct args *a)
{
	struct paging_span span[64];
	int err = read_pages(agent, a, a->a, a->pin, span);

	if (!err && !a->nr_elements)
		err = read_pages(agent, a, a->b, false, span + a->bytes / PAGE);
	for (uint64_t i = 0; i < a->nr_elements && !err; i++) {
		uint64_t value = 0;

		err = paging_read(agent, a->b, i * PAGE, &value, sizeof(value));
		*a->word += value;
	}
	for (uint64_t page = 0; page < a->bytes / PAGE && a->pin && !err; page++)
		err = paging_span_put(agent, &span[page]);
	return err;
}

static void read_cpu(const void *p)
{
	const struct args *a = p;
	struct paging_agent *agent;
	struct paging *pool;

	*a->err = paging_over(&a->view, 1, &pool);
	if (*a->err)
		return;
	*a->err = paging_enter(pool, &agent);
	if (!*a->err)
		*a->err = read_all(agent, a);
	if (!*a->err)
		*a->err = paging_leave(agent);
	paging_destroy(pool);
}

static const struct weir_kernel read_kernel = {.name = "read", .cpu = read_cpu};

/* One launch in one bracket; elements: see struct args. */
static void launch(struct held *h, uint32_t nr_elements, bool pin)
{
	uint32_t granule = nr_elements ? sizeof(uint64_t) : PAGE;
	int failed = 0;
	struct args args = {
		.bytes = h->bytes,
		.word = h->word,
		.nr_elements = nr_elements,
		.pin = pin,
		.err = &failed,
	};
	const struct weir_use uses[] = {
		{.addr = h->a, .bytes = h->bytes, .read_bytes = h->bytes, .granule = PAGE},
		{.addr = h->word,
		 .bytes = 8,
		 .kind = WEIR_WRITE,
		 .read_bytes = 8,
		 .write_bytes = 8},
		/* In two parts, which are one range's. */
		{.addr = h->b,
		 .bytes = h->bytes / 2,
		 .read_bytes = h->bytes / 2,
		 .granule = granule},
		{.addr = h->b + h->bytes / 2 / sizeof(*h->b),
		 .bytes = h->bytes / 2,
		 .read_bytes = h->bytes / 2,
		 .granule = granule},
	};
	const struct weir_launch l = {.kernel = &read_kernel,
				      .args = &args,
				      .args_bytes = sizeof(args),
				      .uses = uses,
				      .nr_uses = 4};

	assert_int_equal(h->m->ops->paged_range(h->m, h->a, &args.a), 0);
	assert_int_equal(h->m->ops->paged_range(h->m, h->b, &args.b), 0);
	assert_int_not_equal(args.a, args.b);
	assert_int_equal(h->m->ops->paged_begin(h->m, &args.view), 0);
	assert_int_equal(h->m->ops->launch(h->m, &l), 0);
	assert_int_equal(h->m->ops->paged_end(h->m), 0);
	assert_int_equal(h->m->ops->sync(h->m), 0);
	assert_int_equal(failed, 0);
}

/* ------------------------------------------------------------------ options */

static void test_paged_options(void **state)
{
	static const char *const good[] = {"weir-paged", "weir-paged+page", "weir-paged+fill",
					   "weir-paged+auto"};
	static const char *const bad[] = {"weir-paged+",	  "weir-paged+filled",
					  "weir-paged+fill+",	  "weir-paged++fill",
					  "weir-paged+fill+fill", "weir-paged+max"};
	struct manager_config config = {.gpu_budget_bytes = 4 * PAGE, .page_bytes = PAGE};
	struct weir_machine_desc desc;
	struct manager *m;

	(void)state;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &config.machine), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(manager_create(good[i], &config, &m), 0);
		m->ops->destroy(m);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(manager_create(bad[i], &config, &m), -EINVAL);
	weir_machine_close(config.machine);
}

/* Without options a manager picks for what kernels only read, else for all or nothing. */
static void test_paged_picks(void **state)
{
	static const struct {
		const char *name;
		uint32_t nr_picks;
	} managers[] = {{"weir-paged", 1},
			{"weir-paged+page", 0},
			{"weir-paged+fill", 0},
			{"weir-paged+auto", 2}};
	struct manager_config config = {.gpu_budget_bytes = 4 * PAGE, .page_bytes = PAGE};
	struct weir_machine_desc desc;
	struct manager_stats stats;
	struct manager *m;
	uint32_t range;
	void *addr;

	(void)state;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &config.machine), 0);
	for (size_t i = 0; i < sizeof(managers) / sizeof(*managers); i++) {
		assert_int_equal(manager_create(managers[i].name, &config, &m), 0);
		assert_int_equal(m->ops->alloc(m, PAGE, "table", &addr), 0);
		assert_int_equal(m->ops->paged_range(m, addr, &range), 0);
		assert_int_equal(manager_alloc_constant(m, PAGE, "edges", &addr), 0);
		assert_int_equal(m->ops->paged_range(m, addr, &range), 0);
		m->ops->stats(m, &stats);
		assert_int_equal(stats.nr_picks, managers[i].nr_picks);
		if (stats.nr_picks)
			assert_string_equal(stats.pick[stats.nr_picks - 1].name, "edges");
		m->ops->destroy(m);
	}
	weir_machine_close(config.machine);
}

/* ------------------------------------------------------------------ several ranges */

static void test_paged_two_ranges(void **state)
{
	struct held h;
	struct manager_stats stats;
	struct weir_machine_desc desc;
	uint64_t begun_ns, sum = 0, nr = 16;
	double took_s, link_s;

	(void)state;
	test_machine(&desc);
	setup(&h, nr * PAGE, 2 * nr);
	begun_ns = h.m->backend->ops->now_ns(h.m->backend);
	launch(&h, 0, false);
	took_s = (double)(h.m->ops->done_ns(h.m) - begun_ns) * 1e-9;
	h.m->ops->stats(h.m, &stats);
	assert_int_equal(stats.pages.nr_in, 2 * nr);
	assert_int_equal(stats.pages.nr_in_place, 0);
	assert_int_equal(stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND], 2 * nr * PAGE);
	/* What both brought in went over the link, and little else did. */
	link_s = (double)(2 * nr * PAGE) / desc.link[0].inplace_bytes_per_s;
	if (took_s < link_s || took_s > 2 * link_s)
		fail_msg("%.9f s, and not from %.9f on", took_s, link_s);
	assert_int_equal(h.m->ops->read(h.m, &sum, h.word, sizeof(sum)), 0);
	assert_int_equal(sum, sum_of(1, nr * NR_WORDS) + sum_of(1000000, nr * NR_WORDS));
	/* Warm, nothing goes over it but the word. */
	begun_ns = h.m->backend->ops->now_ns(h.m->backend);
	launch(&h, 0, false);
	assert_true((double)(h.m->ops->done_ns(h.m) - begun_ns) * 1e-9 < link_s / 2);
	teardown(&h);
}

/* In place, an access has as many bytes as the uses of its own range say. */
static void test_paged_two_granules(void **state)
{
	struct held h;
	struct manager_stats stats;

	(void)state;
	setup(&h, 6 * PAGE, 6);
	launch(&h, 5, true); /* no frame is left for b */
	h.m->ops->stats(h.m, &stats);
	assert_int_equal(stats.pages.nr_in, 6);
	assert_int_equal(stats.pages.nr_in_place, 5);
	assert_int_equal(stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_INPLACE], 5 * sizeof(uint64_t));
	assert_int_equal(stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_INPLACE], 0);
	teardown(&h);
}

/* ------------------------------------------------------------------ launches of others */

static void count_cpu(const void *p)
{
	++**(uint64_t *const *)p;
}

/* In a bracket, what pages nothing is launched as it is. Outside, what uses memory is refused. */
static void test_paged_launch_others(void **state)
{
	const struct weir_kernel kernel = {.name = "count", .cpu = count_cpu};
	struct weir_use use = {.bytes = 8, .kind = WEIR_WRITE, .read_bytes = 8, .write_bytes = 8};
	struct weir_launch l = {
		.kernel = &kernel, .args_bytes = sizeof(uint64_t *), .uses = &use, .nr_uses = 1};
	struct weir_paged_view view;
	struct manager_stats stats;
	uint64_t count = 0;
	uint32_t range;
	struct held h;

	(void)state;
	setup(&h, PAGE, 2);
	use.addr = h.word;
	l.args = &h.word;
	assert_int_equal(h.m->ops->launch(h.m, &l), -EINVAL);
	assert_int_equal(h.m->ops->paged_begin(h.m, &view), 0);
	assert_int_equal(h.m->ops->paged_begin(h.m, &view), -WEIR_ECONTRACT);
	assert_int_equal(h.m->ops->launch(h.m, &l), 0);
	assert_int_equal(h.m->ops->paged_end(h.m), 0);
	assert_int_equal(h.m->ops->launch(h.m, &l), -EINVAL);
	l.nr_uses = 0;
	assert_int_equal(h.m->ops->launch(h.m, &l), 0);
	assert_int_equal(h.m->ops->read(h.m, &count, h.word, sizeof(count)), 0);
	assert_int_equal(count, 2);
	h.m->ops->stats(h.m, &stats);
	assert_int_equal(stats.pages.nr_in + stats.pages.nr_in_place, 0);
	assert_int_equal(h.m->ops->paged_range(h.m, h.a + 1, &range), -EINVAL);
	assert_int_equal(h.m->ops->paged_range(h.m, &h, &range), -EINVAL);
	teardown(&h);
}

/* ------------------------------------------------------------------ constants */

static void write_cpu(const void *p)
{
	const struct args *a = p;
	struct paging_agent *agent;
	struct paging *pool;
	uint64_t value = 1;

	assert_int_equal(paging_over(&a->view, 1, &pool), 0);
	assert_int_equal(paging_enter(pool, &agent), 0);
	*a->err = paging_write(agent, a->a, 0, &value, sizeof(value));
	assert_int_equal(paging_leave(agent), 0);
	paging_destroy(pool);
}

static void test_paged_constant(void **state)
{
	const struct weir_kernel kernel = {.name = "write", .cpu = write_cpu};
	struct manager_config config = {.machine = NULL};
	int failed = 0;
	struct args args = {.err = &failed};
	struct weir_use use = {.bytes = PAGE, .kind = WEIR_WRITE, .write_bytes = 8, .granule = 8};
	const struct weir_launch l = {.kernel = &kernel,
				      .args = &args,
				      .args_bytes = sizeof(args),
				      .uses = &use,
				      .nr_uses = 1};
	uint64_t value = 7;
	struct manager *plain;
	struct held h;
	void *addr;

	(void)state;
	setup(&h, PAGE, 2);
	assert_int_equal(manager_alloc_constant(h.m, PAGE, "constant", &addr), 0);
	assert_int_equal(h.m->ops->write(h.m, addr, &value, sizeof(value)), 0);
	use.addr = addr;
	assert_int_equal(h.m->ops->paged_range(h.m, addr, &args.a), 0);
	assert_int_equal(h.m->ops->paged_begin(h.m, &args.view), 0);
	assert_int_equal(h.m->ops->launch(h.m, &l), 0);
	assert_int_equal(h.m->ops->paged_end(h.m), 0);
	assert_int_equal(h.m->ops->sync(h.m), -EFAULT);
	assert_int_equal(failed, -EROFS);
	value = 0;
	assert_int_equal(h.m->ops->read(h.m, &value, addr, sizeof(value)), 0);
	assert_int_equal(value, 7);
	/* A manager without it gives memory as any. */
	config.machine = h.machine;
	assert_int_equal(manager_create("zerocopy", &config, &plain), 0);
	assert_null(plain->ops->alloc_constant);
	assert_int_equal(manager_alloc_constant(plain, PAGE, "constant", &addr), 0);
	assert_int_equal(plain->ops->write(plain, addr, &value, sizeof(value)), 0);
	plain->ops->destroy(plain);
	teardown(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paged_options),
		cmocka_unit_test(test_paged_picks),
		cmocka_unit_test(test_paged_two_ranges),
		cmocka_unit_test(test_paged_two_granules),
		cmocka_unit_test(test_paged_launch_others),
		cmocka_unit_test(test_paged_constant),
	};

	return cmocka_run_group_tests_name("manager_paged", tests, NULL, NULL);
}
