/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace says of where blocks were: under weir, and under a manager made up for the test. */
#include <errno.h>

#include "src/backend/machine.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/trace.h"

#define BLOCK UINT64_C(4096)

static void do_nothing(const void *args)
{
	(void)args;
}

static const struct weir_kernel kernel = {.name = "kernel", .cpu = do_nothing};

/* ------------------------------------------------------------------ under weir */

struct setup {
	struct weir_machine *machine;
	struct manager *m;
};

static void open_weir(struct setup *s, uint32_t gpu_blocks)
{
	struct manager_config config = {
		.gpu_budget_bytes = gpu_blocks * BLOCK, .block_bytes = BLOCK, .options = ""};
	struct weir_machine_desc desc;
	struct manager *inner;

	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &s->machine), 0);
	config.machine = s->machine;
	assert_int_equal(manager_create("weir", &config, &inner), 0);
	assert_int_equal(trace_manager_create(inner, &s->m), 0);
}

static void close_weir(struct setup *s)
{
	s->m->ops->destroy(s->m);
	assert_int_equal(sim_leaks(machine_backend(s->machine)), 0);
	weir_machine_close(s->machine);
}

static char *alloc(struct setup *s, uint64_t bytes)
{
	void *addr;

	assert_int_equal(s->m->ops->alloc(s->m, bytes, "test", &addr), 0);
	return addr;
}

static int launch_try(struct manager *m, char *addr, uint64_t bytes, enum weir_use_kind kind)
{
	const struct weir_use use = {
		.addr = addr, .bytes = bytes, .kind = kind, .read_bytes = bytes};
	const struct weir_launch launch = {.kernel = &kernel, .uses = &use, .nr_uses = 1};

	return m->ops->launch(m, &launch);
}

static void launch(struct setup *s, char *addr, uint64_t bytes, enum weir_use_kind kind)
{
	assert_int_equal(launch_try(s->m, addr, bytes, kind), 0);
}

static uint32_t count(const struct trace *t, uint32_t nr, enum manager_where where)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += t->where[i] == where;
	return sum;
}

static void test_where_parts_begin_and_end(void **state)
{
	struct trace *t;
	struct setup s;
	char *a, *small;

	(void)state;
	open_weir(&s, 16);
	a = alloc(&s, 4 * BLOCK - 5);
	small = alloc(&s, 100);
	launch(&s, a, 4 * BLOCK - 5, WEIR_OVERWRITE); /* not recorded */
	assert_int_equal(trace_manager_start(s.m), 0);
	launch(&s, a, 1, WEIR_READ);			/* 1 block */
	launch(&s, a + BLOCK - 1, 2, WEIR_READ);	/* 2 */
	launch(&s, a + 1, 4 * BLOCK - 6, WEIR_WRITE);	/* 4 */
	launch(&s, small, 100, WEIR_OVERWRITE);		/* 1, of an arena */
	launch(&s, a + BLOCK, 2 * BLOCK, WEIR_DISCARD); /* 2 */
	assert_int_equal(launch_try(s.m, a + 4 * BLOCK - 5, 1, WEIR_READ), -EINVAL);
	assert_int_equal(trace_manager_stop(s.m, &t), 0);
	launch(&s, a, 1, WEIR_READ); /* not recorded */
	assert_int_equal(trace_check(t), 0);
	assert_int_equal(t->block_bytes, BLOCK);
	assert_int_equal(t->nr_steps, 5);
	assert_int_equal(t->nr_where, 10);
	assert_int_equal(count(t, 10, MANAGER_OWN), 10);
	t->nr_where = 9;
	assert_int_equal(trace_check(t), -EINVAL);
	t->nr_where = 10;
	trace_destroy(t);
	close_weir(&s);
}

/* Of more than fits, as much is resident as fits. */
static void test_where_some_is_in_place(void **state)
{
	struct manager_stats stats;
	struct trace *t;
	struct setup s;
	uint32_t nr;
	char *a;

	(void)state;
	open_weir(&s, 8);
	a = alloc(&s, 20 * BLOCK);
	assert_int_equal(trace_manager_start(s.m), 0);
	launch(&s, a, 20 * BLOCK, WEIR_OVERWRITE);
	assert_int_equal(s.m->ops->sync(s.m), 0);
	s.m->ops->stats(s.m, &stats);
	assert_int_equal(trace_manager_stop(s.m, &t), 0);
	assert_int_equal(stats.block_bytes, BLOCK);
	assert_int_equal(stats.movable_blocks, 8);
	assert_int_equal(t->nr_where, 20);
	nr = count(t, 20, MANAGER_OWN);
	assert_in_range(nr, 1, 8);
	assert_int_equal(stats.peak_bytes[GPU0], nr * BLOCK);
	trace_destroy(t);
	close_weir(&s);
}

/* What an arena has of the GPU's memory is not there for what moves. */
/* A range larger than the device's and the host's memory together, mostly at a neighbour. */
static void test_where_a_neighbour_has_most(void **state)
{
	struct manager_config config = {.block_bytes = BLOCK, .options = ""};
	struct weir_machine_desc desc;
	struct manager_stats stats;
	struct manager *inner;
	struct trace *t;
	struct setup s;
	char *a;

	(void)state;
	test_machine(&desc);
	desc.memory[HOST].bytes = desc.memory[GPU0].bytes = 8 * BLOCK;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &s.machine), 0);
	config.machine = s.machine;
	/* No memory to go with the name, or a name that it has not. */
	assert_int_equal(manager_create("weir+near", &config, &inner), -EINVAL);
	config.near_bytes[GPU1] = 64 * BLOCK;
	assert_int_equal(manager_create("weir+nearer", &config, &inner), -EINVAL);
	assert_int_equal(manager_create("weir+near", &config, &inner), 0);
	assert_int_equal(trace_manager_create(inner, &s.m), 0);
	a = alloc(&s, 40 * BLOCK);
	assert_int_equal(trace_manager_start(s.m), 0);
	launch(&s, a, 40 * BLOCK, WEIR_OVERWRITE);
	assert_int_equal(trace_manager_stop(s.m, &t), 0);
	assert_int_equal(trace_check(t), 0);
	assert_int_equal(t->nr_where, 40);
	assert_in_range(count(t, 40, MANAGER_OWN), 1, 8);
	assert_in_range(count(t, 40, MANAGER_NEAR), 24, 38);
	s.m->ops->stats(s.m, &stats);
	assert_in_range(stats.peak_bytes[GPU1], 24 * BLOCK, 64 * BLOCK);
	trace_destroy(t);
	close_weir(&s);
	/* Without options what there is of others' memory is left alone. */
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &s.machine), 0);
	config.machine = s.machine;
	assert_int_equal(manager_create("weir", &config, &s.m), 0);
	assert_int_equal(s.m->ops->alloc(s.m, 40 * BLOCK, "test", (void **)&a), -ENOMEM);
	close_weir(&s);
}

static void test_where_arenas_take_room(void **state)
{
	struct manager_stats stats;
	struct setup s;
	char *a;

	(void)state;
	open_weir(&s, 8);
	a = alloc(&s, 64);
	s.m->ops->stats(s.m, &stats);
	assert_int_equal(stats.movable_blocks, 7);
	s.m->ops->free(s.m, a);
	s.m->ops->stats(s.m, &stats);
	assert_int_equal(stats.movable_blocks, 8);
	close_weir(&s);
}

/* ------------------------------------------------------------------ a manager that fails */

struct faker {
	struct manager base;
	manager_where_fn fn;
	void *arg;
	int err; /* of the next launch, which fails after its blocks were told */
	char memory[2 * BLOCK];
};

static int faker_tell_where(struct manager *m, manager_where_fn fn, void *arg)
{
	struct faker *f = (struct faker *)m;

	f->fn = fn;
	f->arg = arg;
	return f->err;
}

static int faker_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	(void)name;
	(void)bytes;
	*addr = ((struct faker *)m)->memory;
	return 0;
}

static int faker_launch(struct manager *m, const struct weir_launch *l)
{
	static const uint8_t where[] = {MANAGER_OWN, MANAGER_HOST};
	struct faker *f = (struct faker *)m;

	for (uint32_t u = 0; f->fn && u < l->nr_uses; u++)
		f->fn(f->arg, u, where, 2);
	return f->err;
}

static void faker_stats(struct manager *m, struct manager_stats *out)
{
	(void)m;
	*out = (struct manager_stats){.block_bytes = BLOCK};
}

static void faker_destroy(struct manager *m)
{
	(void)m;
}

static void test_where_forgets_failed_launches(void **state)
{
	static const struct manager_ops ops = {.tell_where = faker_tell_where,
					       .alloc = faker_alloc,
					       .launch = faker_launch,
					       .stats = faker_stats,
					       .destroy = faker_destroy};
	struct faker f = {.base = {.ops = &ops}};
	struct manager *m;
	struct trace *t;
	void *a;

	(void)state;
	assert_int_equal(trace_manager_create(&f.base, &m), 0);
	assert_int_equal(m->ops->alloc(m, 2 * BLOCK, "test", &a), 0);
	f.err = -ENOMEM;
	assert_int_equal(trace_manager_start(m), -ENOMEM);
	assert_int_equal(trace_manager_stop(m, &t), -EINVAL);
	f.err = 0;
	assert_int_equal(trace_manager_start(m), 0);
	assert_int_equal(launch_try(m, a, 2 * BLOCK, WEIR_READ), 0);
	f.err = -EIO;
	assert_int_equal(launch_try(m, a, 2 * BLOCK, WEIR_READ), -EIO);
	f.err = 0;
	assert_int_equal(launch_try(m, a, 2 * BLOCK, WEIR_READ), 0);
	assert_int_equal(trace_manager_stop(m, &t), 0);
	assert_null(f.fn);
	assert_int_equal(trace_check(t), 0);
	assert_int_equal(t->nr_steps, 2);
	assert_int_equal(t->nr_where, 4);
	assert_true(t->where[2] == MANAGER_OWN && t->where[3] == MANAGER_HOST);
	trace_destroy(t);
	m->ops->destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_parts_begin_and_end),
		cmocka_unit_test(test_where_some_is_in_place),
		cmocka_unit_test(test_where_a_neighbour_has_most),
		cmocka_unit_test(test_where_arenas_take_room),
		cmocka_unit_test(test_where_forgets_failed_launches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
