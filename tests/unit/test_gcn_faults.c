/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that cannot go on: each call of the manager failing in turn, too little memory, an
 * interrupt at each look at progress, parameters out of range. Whatever it is, there is one line
 * that says so, the result is not written, and nothing stays allocated (leaks on the host are the
 * address sanitizer's to find).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/test_gcn_fake.h"
#include "tests/unit/test_gcn_planted.h"
#include "workloads/gcn/gcn.h"

static const struct gcn_params small = {
	.nodes = 40, .slice = 300, .epochs = 2, .seed = 1, .hidden = 8, .threads = 1};

/* A run that must fail with want: nothing is left, and one line says why. */
static void run_failing(struct fake *f, const struct gcn_params *p, int want, char *err,
			size_t err_bytes)
{
	struct workload_result r = {.nr_epochs = 77};
	int ret;

	err[0] = '\0';
	ret = gcn_run(&f->manager, p, &r, err, err_bytes);
	if (ret != want)
		fail_msg("returned %d, not %d: %s", ret, want, err);
	assert_int_equal(r.nr_epochs, 77);
	assert_int_equal(f->live_bytes, 0);
	assert_int_equal(f->nr_unknown_frees, 0);
	assert_int_equal(f->nr_bad_uses, 0);
	assert_true(err[0] != '\0');
	assert_null(strchr(err, '\n'));
}

/* The run succeeds once without a failure, which tells how many calls there are to fail. */
static void fail_each_call(const struct gcn_params *p, enum weir_data data, uint64_t min_calls)
{
	struct workload_result r;
	struct fake f;
	char err[256];
	uint64_t nr_calls;

	fake_init(&f, data);
	assert_int_equal(gcn_run(&f.manager, p, &r, NULL, 0), 0);
	gcn_result_free(&r);
	nr_calls = f.nr_calls;
	assert_true(nr_calls > min_calls);
	for (uint64_t n = 1; n <= nr_calls; n++) {
		fake_init(&f, data);
		f.fail_at = n;
		f.fail_with = n % 2 ? -EIO : -ENOMEM;
		run_failing(&f, p, f.fail_with, err, sizeof(err));
		assert_true(f.nr_calls <= n + 2); /* nothing more than waiting is asked after it */
	}
}

static void gcn_fault_random_graph(void **state)
{
	(void)state;
	fail_each_call(&small, WEIR_DATA_REAL, 150);
}

static void gcn_fault_phantom(void **state)
{
	(void)state;
	fail_each_call(&small, WEIR_DATA_PHANTOM, 150);
}

static void gcn_fault_real_graph(void **state)
{
	struct gcn_params p = small;
	char dir[PLANTED_DIR_BYTES];

	(void)state;
	assert_int_equal(planted_create(dir, 60, 2), 0);
	p.graph_dir = dir;
	p.threads = 2;
	fail_each_call(&p, WEIR_DATA_REAL, 150);
	planted_remove(dir);
}

/* Capacities up to the peak are too small, the peak is enough. */
static void gcn_fault_capacity(void **state)
{
	struct gcn_params p = small;
	uint64_t peak = gcn_peak_bytes(&p);
	struct workload_result r;
	struct fake f;
	char err[256];

	(void)state;
	for (uint64_t i = 0; i < 40; i++) {
		fake_init(&f, WEIR_DATA_REAL);
		f.capacity_bytes = i < 39 ? peak * (i + 1) / 40 : peak - 1;
		run_failing(&f, &p, -ENOMEM, err, sizeof(err));
		assert_non_null(strstr(err, "no memory for '"));
	}
	fake_init(&f, WEIR_DATA_REAL);
	f.capacity_bytes = peak;
	assert_int_equal(gcn_run(&f.manager, &p, &r, NULL, 0), 0);
	gcn_result_free(&r);
}

struct progress {
	struct fake *f;
	uint64_t nr_calls, stop_at;
	uint64_t launches_at, longest;
	uint32_t done;
};

static int progress(void *arg, uint32_t done, uint32_t total)
{
	struct progress *p = arg;
	uint64_t launches = p->f->nr_launches - p->launches_at;

	assert_true(done <= total && done >= p->done);
	p->done = done;
	p->launches_at = p->f->nr_launches;
	p->longest = launches > p->longest ? launches : p->longest;
	return ++p->nr_calls == p->stop_at;
}

static void gcn_fault_interrupt(void **state)
{
	struct gcn_params p = small;
	struct workload_result r;
	struct fake f;
	struct progress seen = {.f = &f};
	uint64_t nr_polls;
	char err[256];

	(void)state;
	p.slice = 10; /* hundreds of launches an epoch */
	p.progress = progress;
	p.progress_arg = &seen;
	fake_init(&f, WEIR_DATA_REAL);
	assert_int_equal(gcn_run(&f.manager, &p, &r, NULL, 0), 0);
	gcn_result_free(&r);
	assert_int_equal(seen.done, 2);
	assert_true(seen.longest <= 100);
	nr_polls = seen.nr_calls;
	assert_true(nr_polls > 20);
	for (uint64_t n = 1; n <= nr_polls; n++) {
		fake_init(&f, WEIR_DATA_REAL);
		seen = (struct progress){.f = &f, .stop_at = n};
		run_failing(&f, &p, -EINTR, err, sizeof(err));
		assert_int_equal(seen.nr_calls, n); /* not asked again */
		assert_non_null(strstr(err, "interrupted"));
	}
}

static void gcn_fault_parameters(void **state)
{
	const struct {
		struct gcn_params p;
		enum weir_data data;
		int want;
		const char *says;
	} cases[] = {
		{{.nodes = 100}, WEIR_DATA_REAL, -EINVAL, "no epochs"},
		{{.nodes = 9, .epochs = 1}, WEIR_DATA_REAL, -EINVAL, "9 nodes is out of range"},
		{{.epochs = 1}, WEIR_DATA_PHANTOM, -EINVAL, "0 nodes is out of range"},
		{{.nodes = UINT64_MAX, .epochs = 1}, WEIR_DATA_PHANTOM, -EINVAL, "out of range"},
		{{.nodes = GCN_NODES_MAX, .epochs = 1}, WEIR_DATA_REAL, -EINVAL, "for real data"},
		{{.nodes = 100, .epochs = 1, .hidden = UINT32_MAX},
		 WEIR_DATA_REAL,
		 -EINVAL,
		 "too wide"},
		{{.graph_dir = "/nonexistent", .epochs = 1},
		 WEIR_DATA_REAL,
		 -ENOENT,
		 "/nonexistent/nodes.txt: No such file"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake f;
		char err[256];

		fake_init(&f, cases[i].data);
		run_failing(&f, &cases[i].p, cases[i].want, err, sizeof(err));
		if (!strstr(err, cases[i].says))
			fail_msg("'%s' does not say '%s'", err, cases[i].says);
		assert_int_equal(f.nr_calls, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gcn_fault_random_graph), cmocka_unit_test(gcn_fault_phantom),
		cmocka_unit_test(gcn_fault_real_graph),	  cmocka_unit_test(gcn_fault_capacity),
		cmocka_unit_test(gcn_fault_interrupt),	  cmocka_unit_test(gcn_fault_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
