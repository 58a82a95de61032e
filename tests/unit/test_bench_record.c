/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording during a run: from which epoch on, what becomes of it, times of launches, names; and
 * what is left of it when a run ends early.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli/bench_record.h"
#include "cli/bench_fit.h"
#include "tests/unit/test_sim_machine.h"

#define EPOCHS 4u

struct fixture {
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct manager *manager;
	struct bench_record record;
};

static void open_run(struct fixture *f, struct bench_record record)
{
	struct manager_config config = {.options = ""};

	test_machine(&f->desc);
	f->record = record;
	assert_int_equal(weir_machine_simulate(&f->desc, WEIR_DATA_PHANTOM, &f->machine), 0);
	assert_int_equal(bench_record_machine(&f->record, f->machine), 0);
	config.machine = f->machine;
	assert_int_equal(manager_create("native", &config, &f->manager), 0);
	assert_int_equal(bench_record_manager(&f->record, &f->manager), 0);
}

static void close_run(struct fixture *f)
{
	f->manager->ops->destroy(f->manager);
	weir_machine_close(f->machine);
	bench_record_fini(&f->record);
}

static void launch(struct fixture *f, void *addr, double ops)
{
	const struct weir_use use = use_of(addr, KIB(64), WEIR_READ);
	const struct weir_launch l = {
		.kernel = &touch_kernel, .uses = &use, .nr_uses = 1, .ops = ops};

	assert_int_equal(f->manager->ops->launch(f->manager, &l), 0);
}

/* Epochs of three launches, in which progress is reported too. */
static void train(struct fixture *f)
{
	void *addr;

	assert_int_equal(f->manager->ops->alloc(f->manager, KIB(64), "tensor", &addr), 0);
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		for (int i = 0; i < 3; i++) {
			launch(f, addr, 1e6 * (i + 1)); /* 1, 2, 3 us */
			assert_int_equal(bench_record_progress(&f->record, epoch, EPOCHS), 0);
		}
		assert_int_equal(f->manager->ops->sync(f->manager), 0);
		assert_int_equal(bench_record_progress(&f->record, epoch + 1, EPOCHS), 0);
	}
	f->manager->ops->free(f->manager, addr);
	assert_int_equal(bench_record_end(&f->record), 0);
}

/* From the end of so many epochs on, to the end of the last. */
static void test_record_epochs(void **state)
{
	(void)state;
	for (uint32_t first = 1; first < EPOCHS; first++) {
		struct fixture f;

		open_run(&f, (struct bench_record){.trace_wanted = true,
						   .log_wanted = true,
						   .first_epoch = first});
		train(&f);
		assert_int_equal(f.record.trace->nr_steps, 3 * (EPOCHS - first));
		assert_int_equal(f.record.log->nr_launches, 3 * (EPOCHS - first));
		assert_true(bench_record_times(&f.record));
		for (uint32_t s = 0; s < f.record.trace->nr_steps; s++)
			assert_true(f.record.trace->steps[s].compute_ns == 1000.0 * (s % 3 + 1));
		close_run(&f);
	}
}

/* All of it: with what goes before the first epoch, and what follows the last. */
static void test_record_whole(void **state)
{
	const struct watch_log *log;
	struct fixture f;
	int64_t bytes = 0;
	bool named = false;

	(void)state;
	open_run(&f, (struct bench_record){.log_wanted = true, .to_end = true});
	train(&f);
	log = f.record.log;
	assert_null(f.record.trace);
	assert_int_equal(log->nr_launches, 3 * EPOCHS);
	for (uint32_t i = 0; i < log->nr_changes; i++) {
		const char *name = log->name[log->change[i].name];

		if (name && !strcmp(name, "tensor")) {
			named = true;
			bytes += log->change[i].bytes;
		}
	}
	assert_true(named);
	assert_int_equal(bytes, 0); /* it was freed */
	close_run(&f);
}

/* Not all launches have a time: none is taken. */
static void test_record_times_are_all_or_none(void **state)
{
	struct fixture f;

	(void)state;
	open_run(&f,
		 (struct bench_record){.trace_wanted = true, .log_wanted = true, .first_epoch = 1});
	train(&f);
	f.record.log->nr_events--;
	while (f.record.log->event[f.record.log->nr_events].kind != WATCH_LAUNCH)
		f.record.log->nr_events--;
	assert_false(bench_record_times(&f.record));
	for (uint32_t s = 0; s < f.record.trace->nr_steps; s++)
		assert_true(f.record.trace->steps[s].compute_ns == 0);
	close_run(&f);
}

/* A run that ends early leaves nothing behind, and no record. */
static void test_record_ends_early(void **state)
{
	struct fixture f;

	(void)state;
	open_run(&f,
		 (struct bench_record){.trace_wanted = true, .log_wanted = true, .first_epoch = 0});
	close_run(&f);
	open_run(&f, (struct bench_record){.trace_wanted = true, .first_epoch = 1});
	assert_int_equal(bench_record_end(&f.record), -EIO);
	close_run(&f);
}

/* ------------------------------------------------------------------ fitting */

/* Launches whose modelled time is the least of a kernel are left out; sums are over the others. */
static void test_fit_sums_over_launches(void **state)
{
	struct trace_step steps[] = {
		{.name = "a", .ops = 1e7, .compute_ns = 11000},	 /* modelled: 10,000 */
		{.name = "a", .ops = 3e7, .compute_ns = 49000},	 /* 30,000 */
		{.name = "a", .ops = 1e5, .compute_ns = 999999}, /* 100, so 500 */
		{.name = NULL, .ops = 1e7, .compute_ns = 1},
		{.name = "small", .ops = 1, .compute_ns = 777},
		{.name = "b", .ops = 1e7, .compute_ns = 5000},
	};
	const struct trace trace = {.steps = steps, .nr_steps = sizeof(steps) / sizeof(*steps)};
	struct machine_file machine;
	char err[256] = "", *text = NULL;
	const char *source = getenv("SOURCE_DIR");
	size_t bytes = 0;
	char path[512];
	FILE *out;

	(void)state;
	snprintf(path, sizeof(path), "%s/machines/laptop.json", source ? source : ".");
	assert_int_equal(machine_file_read(path, &machine, err, sizeof(err)), 0);
	machine.desc.device[0].ops_per_s = 1e12;
	machine.desc.device[0].launch_ns = 500;
	out = open_memstream(&text, &bytes);
	assert_non_null(out);
	assert_int_equal(bench_fit_write(out, &machine, 0, &trace, "a test"), 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(machine.desc.nr_kernels, 2);
	assert_string_equal(machine.desc.kernel[0].name, "a");
	assert_true(machine.desc.kernel[0].factor == 60000.0 / 40000);
	assert_string_equal(machine.desc.kernel[1].name, "b");
	assert_true(machine.desc.kernel[1].factor == 0.5);
	assert_non_null(strstr(text, "\"value\": 1.5"));
	free(text);
	machine_file_fini(&machine);
}

static void test_fit_has_room_for_so_many(void **state)
{
	static char name[WEIR_KERNELS_MAX + 1][40];
	struct trace_step steps[WEIR_KERNELS_MAX + 1] = {{0}};
	struct trace trace = {.steps = steps, .nr_steps = WEIR_KERNELS_MAX + 1};
	struct machine_file machine = {.nr_constants = 0};

	(void)state;
	test_machine(&machine.desc);
	for (uint32_t i = 0; i <= WEIR_KERNELS_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "kernel%u", i);
		steps[i] = (struct trace_step){.name = name[i], .ops = 1e9, .compute_ns = 1e6};
	}
	assert_int_equal(bench_fit_write(stderr, &machine, 0, &trace, "a test"), -E2BIG);
	trace.nr_steps = 1;
	memset(name[0], 'x', WEIR_NAME_MAX);
	assert_int_equal(bench_fit_write(stderr, &machine, 0, &trace, "a test"), -EINVAL);
	assert_int_equal(machine.desc.nr_kernels, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_epochs),
		cmocka_unit_test(test_record_whole),
		cmocka_unit_test(test_record_times_are_all_or_none),
		cmocka_unit_test(test_record_ends_early),
		cmocka_unit_test(test_fit_sums_over_launches),
		cmocka_unit_test(test_fit_has_room_for_so_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
