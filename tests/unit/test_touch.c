/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads that touch a table, on a simulated machine: the same words under every manager, as
 * a plain model has them, for parameters at random; what is wrong is found; every failure of a
 * backend leaves nothing behind.
 *
 * Labels: threads
 * Long: yes
 */
#include <errno.h>
#include <math.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/paging/paging.h"
#include "tests/support/amount.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/touch/bound.h"
#include "workloads/touch/touch.h"

#define RANDOM_CASES 60
#define RANDOM_SEED 20251u

static const char *const managers[] = {"native", "malloc",     "zerocopy",	 "uvm",
				       "weir",	 "weir-paged", "weir-paged+fill"};
#define NR_MANAGERS (sizeof(managers) / sizeof(*managers))

static const struct touch_params usual = {
	.bytes = MIB(1),
	.page_bytes = 16384,
	.updates = 5000,
	.seed = 7,
	.passes = 3,
	.warm_up = 1,
	.check = true,
	.shape = {.blocks = 4, .threads = 64, .agents = 1},
};

static void machine_of(struct weir_machine_desc *desc)
{
	test_machine(desc);
	desc->uvm = (struct weir_uvm_desc){256, 1000, 10, 5000, 100, 50, 0};
}

static struct weir_machine *open_machine(enum weir_data data)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;

	machine_of(&desc);
	assert_int_equal(weir_machine_simulate(&desc, data, &machine), 0);
	return machine;
}

/* frames: of weir-paged, with its option or not; others have room for all. */
static int run(struct weir_machine *machine, const char *name, const struct touch_params *p,
	       uint64_t frame_bytes, struct passes_result *out, struct manager_stats *stats,
	       char *err)
{
	bool paged = strncmp(name, "weir-paged", strlen("weir-paged")) == 0;
	struct manager_config config = {.machine = machine,
					.gpu_budget_bytes = paged ? frame_bytes : 0,
					.page_bytes = p->page_bytes,
					.options = ""};
	struct manager *m;
	int ret = manager_create(name, &config, &m), check;

	err[0] = '\0';
	if (ret)
		return ret;
	ret = touch_run(m, p, out, err, 256);
	m->ops->stats(m, stats);
	check = m->ops->check(m);
	if (!ret && check != -EIO) /* which a test injects */
		assert_int_equal(check, 0);
	m->ops->destroy(m);
	return ret;
}

/* ------------------------------------------------------------------ right and wrong */

static void run_everywhere(const struct touch_params *p, uint64_t frame_bytes)
{
	struct manager_stats stats = {.block_bytes = 0};
	struct passes_result r = {0};
	char err[256];

	for (size_t i = 0; i < NR_MANAGERS; i++) {
		struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
		int ret = run(machine, managers[i], p, frame_bytes, &r, &stats, err);

		if (ret || !r.passed)
			fail_msg("%s: %d, %s %s", managers[i], ret, err, ret ? "" : r.wrong);
		assert_true(r.checked);
		assert_int_equal(r.nr_passes, p->passes - p->warm_up);
		for (uint32_t k = 0; k < r.nr_passes; k++)
			assert_true(r.pass_s[k] > 0);
		passes_result_free(&r);
		weir_machine_close(machine);
	}
}

static void test_touch_same(void **state)
{
	(void)state;
	for (int pattern = 0; pattern < TOUCH_PATTERN_NR; pattern++) {
		for (int access = 0; access < TOUCH_ACCESS_NR; access++) {
			struct touch_params p = usual;

			p.pattern = (enum touch_pattern)pattern;
			p.access = (enum touch_access)access;
			if (access == TOUCH_READ)
				p.check = false;
			run_everywhere(&p, MIB(1));
		}
	}
}

static void test_touch_random(void **state)
{
	static const uint32_t pages[] = {4096, 8192, 16384, 65536};
	uint64_t random = RANDOM_SEED;

	(void)state;
	print_message("seed %u\n", RANDOM_SEED);
	for (int i = 0; i < RANDOM_CASES; i++) {
		uint64_t r = touch_mix(random += TOUCH_STEP);
		struct touch_params p = usual;

		p.kind = r & 1 ? TOUCH_GUPS : TOUCH_PAGEIN;
		p.page_bytes = pages[r >> 1 & 3];
		p.bytes = p.page_bytes *
			  (p.kind == TOUCH_GUPS ? UINT64_C(1) << (r >> 3 & 3) : 1 + (r >> 3) % 11);
		p.pattern = (enum touch_pattern)((r >> 8) % TOUCH_PATTERN_NR);
		p.access = (enum touch_access)(1 + (r >> 12) % 2);
		p.elements = r >> 16 & 1;
		p.warm = r >> 17 & 1;
		p.updates = 1 + (r >> 20) % 3000;
		p.seed = r;
		p.shape.agents = (uint32_t)(1 + (r >> 32) % 3);
		run_everywhere(&p, p.page_bytes * (1 + (r >> 40) % 6));
	}
}

/* Orders: each page once; elements of a stride are that far apart. */
static void test_touch_orders(void **state)
{
	(void)state;
	for (uint64_t nr = 1; nr < 200; nr++) {
		struct touch_order order = {.nr = nr, .stride = 1, .nr_bits = 1};
		uint8_t seen[200] = {0};

		while (UINT64_C(1) << order.nr_bits < nr)
			order.nr_bits++;
		for (uint64_t i = 0; i < nr; i++)
			seen[touch_page_at(&order, i)]++;
		for (uint64_t i = 0; i < nr; i++)
			assert_int_equal(seen[i], 1);
	}
}

/* A manager that flips a bit of what is read, of the table or of the sum. */
static const struct manager_ops *inner;
static uint64_t flip_at; /* byte of what is read */
static uint64_t flip_least;

static int flipping_read(struct manager *m, void *data, const void *addr, uint64_t bytes)
{
	int err = inner->read(m, data, addr, bytes);

	if (!err && bytes >= flip_least && flip_at < bytes)
		((uint8_t *)data)[flip_at] ^= 0x10;
	return err;
}

static void wrong_found(const struct touch_params *p, uint64_t least, uint64_t at)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct manager_config config = {.machine = machine, .options = ""};
	struct manager_ops ops;
	struct passes_result r = {0};
	struct manager *m;
	char err[256];

	assert_int_equal(manager_create("native", &config, &m), 0);
	inner = m->ops;
	ops = *inner;
	ops.read = flipping_read;
	flip_least = least;
	flip_at = at;
	m->ops = &ops;
	assert_int_equal(touch_run(m, p, &r, err, sizeof(err)), 0);
	assert_true(r.checked);
	assert_false(r.passed);
	assert_true(r.wrong[0]);
	passes_result_free(&r);
	m->ops = inner;
	m->ops->destroy(m);
	weir_machine_close(machine);
}

static void test_touch_wrong(void **state)
{
	struct touch_params p = usual;

	(void)state;
	wrong_found(&p, 8, 3); /* a sum */
	p.access = TOUCH_WRITE;
	for (uint64_t at = 0; at < p.bytes; at += p.bytes / 7 + 1)
		wrong_found(&p, 4096, at);
	p.kind = TOUCH_GUPS;
	for (uint64_t at = 0; at < p.bytes; at += p.bytes / 7 + 1)
		wrong_found(&p, 4096, at);
}

/* What a pass moves: with frames for all each page once, cold; nothing, warm. */
static void test_touch_pages(void **state)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct touch_params p = usual;
	struct manager_stats stats = {.block_bytes = 0};
	struct passes_result r = {0};
	char err[256];

	(void)state;
	assert_int_equal(run(machine, "weir-paged", &p, p.bytes, &r, &stats, err), 0);
	assert_int_equal(r.pages.nr_in, 2 * 64);
	assert_int_equal(r.pages.nr_out + r.pages.nr_in_place, 0);
	/* Filling the table brought its pages in, too. */
	assert_int_equal(stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_DEMAND], 4 * p.bytes);
	passes_result_free(&r);
	p.warm = true;
	assert_int_equal(run(machine, "weir-paged", &p, p.bytes, &r, &stats, err), 0);
	assert_int_equal(r.pages.nr_in, 0);
	passes_result_free(&r);
	/* Half of them: what does not stay is moved, or used in place. */
	p.access = TOUCH_BOTH;
	p.warm = false;
	assert_int_equal(run(machine, "weir-paged", &p, p.bytes / 2, &r, &stats, err), 0);
	assert_int_equal(r.pages.nr_in + r.pages.nr_in_place, 2 * 64);
	assert_true(r.pages.nr_out > 0);
	assert_int_equal(stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] +
				 stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_WRITEBACK] +
				 stats.bytes[BACKEND_TO_HOST][WEIR_CAUSE_INPLACE],
			 4 * p.bytes);
	passes_result_free(&r);
	weir_machine_close(machine);
}

/* A table that does not fit, again and again: filled once, a pass finds what there are frames for.
 * With eviction it finds next to nothing. */
static void test_touch_filled(void **state)
{
	struct touch_params p = usual;
	struct manager_stats stats = {.block_bytes = 0};
	struct passes_result r = {0};
	uint64_t nr_moved;
	char err[256];

	(void)state;
	p.warm = true;
	p.pattern = TOUCH_STREAM;
	p.access = TOUCH_READ;
	for (uint64_t frames = 4; frames < 64; frames *= 2) {
		struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
		double filled_s = 0, evicting_s = 0;

		assert_int_equal(
			run(machine, "weir-paged+fill", &p, frames * p.page_bytes, &r, &stats, err),
			0);
		assert_int_equal(r.pages.nr_in, 0);
		assert_int_equal(r.pages.nr_in_place, 2 * (64 - frames));
		for (uint32_t i = 0; i < r.nr_passes; i++)
			filled_s += r.pass_s[i];
		passes_result_free(&r);
		assert_int_equal(
			run(machine, "weir-paged", &p, frames * p.page_bytes, &r, &stats, err), 0);
		nr_moved = r.pages.nr_in + r.pages.nr_in_place;
		assert_true(nr_moved > 2 * (64 - frames));
		for (uint32_t i = 0; i < r.nr_passes; i++)
			evicting_s += r.pass_s[i];
		assert_true(filled_s < evicting_s);
		passes_result_free(&r);
		weir_machine_close(machine);
	}
}

/* ------------------------------------------------------------------ bounds, refusals */

/* No manager is faster than the bound; and cold, it is the link's time. */
static void test_touch_bound(void **state)
{
	struct weir_machine_desc desc;
	struct manager_stats stats = {.block_bytes = 0};

	(void)state;
	machine_of(&desc);
	for (int access = 0; access < TOUCH_ACCESS_NR; access++) {
		for (uint64_t frames = MIB(1); frames >= MIB(1) / 4; frames /= 2) {
			struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
			struct passes_held held = {.end_bytes = frames};
			struct touch_params p = usual;
			struct passes_result r = {0};
			char err[256];
			double bound_s;

			p.access = (enum touch_access)access;
			assert_int_equal(run(machine, "weir-paged", &p, frames, &r, &stats, err),
					 0);
			bound_s = touch_bound_s(&desc, 0, &p, &r, &held);
			assert_true(bound_s > 0);
			for (uint32_t i = 0; i < r.nr_passes; i++)
				assert_true(r.pass_s[i] >= bound_s);
			if (access == TOUCH_READ)
				assert_true(fabs(bound_s -
						 (double)p.bytes /
							 desc.link[0].a_to_b_bytes_per_s) < 1e-12);
			passes_result_free(&r);
			weir_machine_close(machine);
		}
	}
}

static void test_touch_refused(void **state)
{
	struct weir_machine *machine = open_machine(WEIR_DATA_PHANTOM);
	struct touch_params p = usual;
	struct manager_stats stats = {.block_bytes = 0};
	struct passes_result r = {0};
	char err[256];

	(void)state;
	assert_int_equal(run(machine, "weir-paged", &p, p.bytes, &r, &stats, err), -ENOTSUP);
	assert_int_equal(run(machine, "native", &p, 0, &r, &stats, err), 0);
	assert_false(r.checked);
	passes_result_free(&r);
	p.page_bytes = 4097;
	assert_int_equal(run(machine, "native", &p, 0, &r, &stats, err), -EINVAL);
	assert_string_equal(err, "pagein: pages have 4, 8, 16 or 64 KiB");
	p.page_bytes = 4096;
	p.bytes = 4096 * 3;
	p.kind = TOUCH_GUPS;
	assert_int_equal(touch_params_check(&p, err, sizeof(err)), -EINVAL);
	p.bytes = 4096 * 4;
	assert_int_equal(touch_params_check(&p, err, sizeof(err)), 0);
	p.updates = 0;
	assert_int_equal(touch_params_check(&p, err, sizeof(err)), -EINVAL);
	p.updates = 1;
	p.warm_up = p.passes;
	assert_int_equal(touch_params_check(&p, err, sizeof(err)), -EINVAL);
	p.warm_up = 0;
	p.shape.threads = 33;
	assert_int_equal(touch_params_check(&p, NULL, 0), -EINVAL);
	weir_machine_close(machine);
}

static int stop_at(void *arg, uint32_t done, uint32_t total)
{
	(void)total;
	return done == *(const uint32_t *)arg;
}

static void test_touch_interrupted(void **state)
{
	uint32_t at = 2;
	struct weir_machine *machine = open_machine(WEIR_DATA_REAL);
	struct touch_params p = usual;
	struct manager_stats stats = {.block_bytes = 0};
	struct passes_result r = {0};
	char err[256];

	(void)state;
	p.progress = stop_at;
	p.progress_arg = &at;
	assert_int_equal(run(machine, "weir-paged", &p, p.bytes, &r, &stats, err), -EINTR);
	assert_string_equal(err, "pagein: interrupted after 2 of 3 passes");
	weir_machine_close(machine);
}

/* ------------------------------------------------------------------ failures */

/* Fail each call of a run in turn, usually every second one, and fewer if sanitized; it ends with
 * the error or goes well, and leaves nothing. */
static void faults(const char *name, const struct touch_params *p)
{
	static const struct test_amount steps = {2, TEST_TSAN ? 61 : 11, 1};
	const uint64_t each = test_amount(NULL, steps);
	uint64_t nr_calls = 1;

	for (uint64_t at = 0; at <= nr_calls; at += at ? each : 1) {
		struct weir_machine_desc desc;
		struct backend *sim, *flaky;
		struct weir_machine *machine;
		struct manager_stats stats = {.block_bytes = 0};
		struct passes_result r = {0};
		char err[256];
		int ret;

		machine_of(&desc);
		assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &sim), 0);
		assert_int_equal(flaky_create(sim, &flaky), 0);
		assert_int_equal(machine_wrap(flaky, &machine), 0);
		flaky_arm(flaky, at, -EIO);
		ret = run(machine, name, p, p->bytes / 2, &r, &stats, err);
		if (!at)
			nr_calls = flaky_nr_calls(flaky);
		if (ret && ret != -EIO)
			fail_msg("%s: call %llu: %d, %s", name, (unsigned long long)at, ret, err);
		if (!ret && !r.passed)
			fail_msg("%s: call %llu: %s", name, (unsigned long long)at, r.wrong);
		if (!ret)
			passes_result_free(&r);
		if (!at)
			assert_int_equal(ret, 0);
		assert_int_equal(sim->ops->memory_used(sim, 0), 0);
		assert_int_equal(sim->ops->memory_used(sim, 1), 0);
		weir_machine_close(machine);
	}
	print_message("%s: %llu calls\n", name, (unsigned long long)nr_calls);
}

static void test_touch_faults(void **state)
{
	struct touch_params p = usual;

	(void)state;
	p.bytes = 4 * 16384;
	p.passes = 2;
	p.access = TOUCH_BOTH;
	for (size_t i = 0; i < NR_MANAGERS; i++)
		faults(managers[i], &p);
	p.kind = TOUCH_GUPS;
	p.updates = 50;
	faults("weir-paged", &p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_touch_same),	  cmocka_unit_test(test_touch_random),
		cmocka_unit_test(test_touch_orders),	  cmocka_unit_test(test_touch_wrong),
		cmocka_unit_test(test_touch_pages),	  cmocka_unit_test(test_touch_filled),
		cmocka_unit_test(test_touch_bound),	  cmocka_unit_test(test_touch_refused),
		cmocka_unit_test(test_touch_interrupted), cmocka_unit_test(test_touch_faults),
	};

	return cmocka_run_group_tests_name("touch", tests, NULL, NULL);
}
