/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How times under managed memory move when the machine changes: as the mechanism says, part by
 * part. GCN training without bytes, an eighth of the published sizes on an eighth of the memory.
 *
 * Takes 13 s of a processor: a training run for each machine that is compared.
 *
 * Labels: slow
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine/machine_file.h"
#include "src/backend/sim/sim_uvm.h"
#include "workloads/gcn/gcn.h"

#define SLICE 250000u
#define EPOCHS 3u
#define FITS 625000u	/* 5M: nothing is evicted */
#define BEYOND 1500000u /* 12M: tensors are evicted, and come back once */
/* 14.4M: the rows of an aggregation do not fit, what is missing fits the room of a slice. */
#define ROUND 1800000u
#define THRASH 1875000u /* 15M: the rows of an aggregation do not fit */

static struct weir_machine_desc base;

/* The last epoch. */
struct epoch {
	double s, time_s[BACKEND_TIME_NR];
	struct manager_stats all; /* of the whole run */
};

static int setup(void **state)
{
	char err[256];

	(void)state;
	if (machine_file_load("rtx5090", &base, err, sizeof(err))) {
		print_error("%s\n", err);
		return -1;
	}
	base.memory[base.device[0].memory].bytes /= 8;
	base.uvm.context_bytes /= 8;
	return 0;
}

static struct epoch train(const struct weir_machine_desc *desc, const char *name, uint64_t nodes)
{
	const struct gcn_params params = {.nodes = nodes, .slice = SLICE, .epochs = EPOCHS};
	struct manager_config config = {.options = ""};
	struct workload_result result;
	struct manager *manager;
	struct epoch out;

	assert_int_equal(weir_machine_simulate(desc, WEIR_DATA_PHANTOM, &config.machine), 0);
	assert_int_equal(manager_create(name, &config, &manager), 0);
	assert_int_equal(gcn_run(manager, &params, &result, NULL, 0), 0);
	out.s = result.epoch_s[EPOCHS - 1];
	memcpy(out.time_s, result.time_s[EPOCHS - 1], sizeof(out.time_s));
	manager->ops->stats(manager, &out.all);
	gcn_result_free(&result);
	manager->ops->destroy(manager);
	weir_machine_close(config.machine);
	return out;
}

static double relative_off(double a, double b)
{
	return (a > b ? a - b : b - a) / (a > b ? a : b);
}

static bool close_to(double a, double b)
{
	return relative_off(a, b) <= 1e-4; /* each kernel rounds up to a nanosecond */
}

/* A part of both epochs is the same, but for what kernels hide and what is evicted half filled. */
static void same(const struct epoch *a, const struct epoch *b, enum backend_time part)
{
	if (relative_off(a->time_s[part], b->time_s[part]) > 1e-3)
		fail_msg("part %d: %g s, %g s", (int)part, a->time_s[part], b->time_s[part]);
}

static struct weir_machine_desc slower_link(unsigned int by)
{
	struct weir_machine_desc desc = base;

	for (uint32_t i = 0; i < desc.nr_links; i++) {
		desc.link[i].a_to_b_bytes_per_s /= by;
		desc.link[i].b_to_a_bytes_per_s /= by;
		desc.link[i].duplex_bytes_per_s /= by;
	}
	return desc;
}

/* A slower link: what crosses it takes as much longer, and nothing else changes. */
static void test_uvm_half_the_link(void **state)
{
	static const char *const names[] = {"uvm", "uvm+max"};
	const struct weir_machine_desc half = slower_link(2), third = slower_link(3);

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct epoch a = train(&base, names[i], BEYOND);
		struct epoch b = train(&half, names[i], BEYOND);
		struct epoch c = train(&third, names[i], BEYOND);

		same(&a, &b, BACKEND_TIME_COMPUTE);
		same(&a, &b, BACKEND_TIME_ALLOCATION);
		same(&a, &b, BACKEND_TIME_FIRST_TOUCH);
		for (int part = BACKEND_TIME_DEMAND; part <= BACKEND_TIME_EVICTION; part++) {
			double more = b.time_s[part] - a.time_s[part];

			assert_true(more > 0.02 * a.time_s[part]);
			assert_true(close_to(c.time_s[part] - b.time_s[part], more));
		}
		/* In and out are about as many bytes, at about the same rate. */
		assert_in_range(
			(uint64_t)(100 *
				   (b.time_s[BACKEND_TIME_DEMAND] - a.time_s[BACKEND_TIME_DEMAND]) /
				   (b.time_s[BACKEND_TIME_EVICTION] -
				    a.time_s[BACKEND_TIME_EVICTION])),
			70, 130);
	}
	/* What fits does not know the link. */
	assert_true(close_to(train(&base, "uvm", FITS).s, train(&half, "uvm", FITS).s));
}

static struct weir_machine_desc slower_thread(unsigned int by)
{
	struct weir_machine_desc desc = base;

	desc.uvm.batch_ns *= by;
	desc.uvm.page_ns *= by;
	desc.uvm.populate_ns *= by;
	desc.uvm.cpu_unmap_ns *= by;
	desc.uvm.host_page_ns *= by;
	return desc;
}

/* Half the rate of service: what no link is in takes twice as long. */
static void test_uvm_half_the_service(void **state)
{
	const struct weir_machine_desc half = slower_thread(2), third = slower_thread(3);
	struct epoch a = train(&base, "uvm", BEYOND), b = train(&half, "uvm", BEYOND);
	struct epoch c = train(&third, "uvm", BEYOND);

	(void)state;
	same(&a, &b, BACKEND_TIME_COMPUTE);
	same(&a, &b, BACKEND_TIME_ALLOCATION);
	assert_true(close_to(b.time_s[BACKEND_TIME_FIRST_TOUCH],
			     2 * a.time_s[BACKEND_TIME_FIRST_TOUCH]));
	for (int part = BACKEND_TIME_DEMAND; part <= BACKEND_TIME_EVICTION; part++) {
		double more = b.time_s[part] - a.time_s[part];

		assert_true(more > 0.5 * a.time_s[part] && more < a.time_s[part]);
		assert_true(close_to(c.time_s[part] - b.time_s[part], more));
	}
	a = train(&base, "uvm+prefetch", FITS);
	b = train(&half, "uvm+prefetch", FITS);
	assert_true(close_to(b.time_s[BACKEND_TIME_FIRST_TOUCH],
			     2 * a.time_s[BACKEND_TIME_FIRST_TOUCH]));
}

/* Streams fault one page at a time: larger batches do nothing for them. What thrashes at random
 * has them full, and pays for half as many. */
static void test_uvm_twice_the_batch(void **state)
{
	struct weir_machine_desc twice = base, one = base;
	struct epoch a, b, c;

	(void)state;
	twice.uvm.batch_faults *= 2;
	one.uvm.batch_faults = 1;
	assert_true(close_to(train(&base, "uvm", FITS).s, train(&twice, "uvm", FITS).s));
	a = train(&base, "uvm", THRASH);
	b = train(&twice, "uvm", THRASH);
	c = train(&one, "uvm", THRASH);
	same(&a, &b, BACKEND_TIME_FIRST_TOUCH);
	assert_true(b.time_s[BACKEND_TIME_DEMAND] <= a.time_s[BACKEND_TIME_DEMAND]);
	assert_true(c.time_s[BACKEND_TIME_DEMAND] > 1.5 * a.time_s[BACKEND_TIME_DEMAND]);
}

/* Bytes of a run, by whatever cause. */
static double moved(const struct epoch *of, enum backend_direction way)
{
	double bytes = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		bytes += (double)of->all.bytes[way][cause];
	return bytes;
}

/*
 * Where rows thrash, the tree moves about the bytes that whole blocks do: a block's chunk is what
 * others are evicted for, however little of it came. But it goes through each block at every fault,
 * so that the time apart is faults times what one more block takes, and little besides. What is
 * evicted is gone through once, as well.
 */
static void test_uvm_blocks_one_by_one(void **state)
{
	struct weir_machine_desc twice = base;
	struct epoch tree, whole, slower;
	double faults, block_s = UVM_BLOCK_SHARE * (double)base.uvm.batch_ns / 1e9;
	double apart, evicted;

	(void)state;
	tree = train(&base, "uvm+prefetch", ROUND);
	whole = train(&base, "uvm+prefetch+max", ROUND);
	assert_true(relative_off(moved(&tree, BACKEND_TO_DEVICE),
				 moved(&whole, BACKEND_TO_DEVICE)) < 0.03);
	faults = (double)(tree.all.nr_faults - whole.all.nr_faults) / EPOCHS;
	apart = tree.time_s[BACKEND_TIME_DEMAND] - whole.time_s[BACKEND_TIME_DEMAND];
	assert_true(apart > faults * block_s && apart < 1.2 * faults * block_s);

	twice.uvm.batch_ns *= 2;
	slower = train(&twice, "uvm+prefetch+max", ROUND);
	apart = slower.time_s[BACKEND_TIME_EVICTION] - whole.time_s[BACKEND_TIME_EVICTION];
	evicted = moved(&whole, BACKEND_TO_HOST) / EPOCHS / (double)UVM_BLOCK_BYTES;
	assert_true(relative_off(apart, block_s * evicted) < 0.05);
}

/* Half the memory: the same first touches, and what did not move moves; never faster. */
static void test_uvm_half_the_memory(void **state)
{
	static const char *const names[] = {"uvm", "uvm+max", "uvm+prefetch", "uvm+prefetch+max"};
	struct weir_machine_desc half = base;

	(void)state;
	half.memory[half.device[0].memory].bytes /= 2;
	for (size_t i = 0; i < 4; i++) {
		struct epoch a = train(&base, names[i], FITS), b = train(&half, names[i], FITS);

		same(&a, &b, BACKEND_TIME_COMPUTE);
		same(&a, &b, BACKEND_TIME_FIRST_TOUCH);
		assert_true(a.time_s[BACKEND_TIME_DEMAND] == 0);
		assert_true(a.time_s[BACKEND_TIME_EVICTION] == 0);
		assert_true(b.time_s[BACKEND_TIME_DEMAND] > 0);
		assert_true(b.time_s[BACKEND_TIME_EVICTION] > 0);
		assert_true(b.s > a.s);
	}
}

/* The managers' order, and the cliff. */
static void test_uvm_cliff(void **state)
{
	static const char *const names[] = {"uvm", "uvm+max", "uvm+prefetch"};
	double before = 1e9;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		double fits = train(&base, names[i], FITS).s / FITS;
		double beyond = train(&base, names[i], BEYOND).s / BEYOND;
		double thrash = train(&base, names[i], THRASH).s / THRASH;

		assert_true(fits < before);
		assert_true(beyond > 1.05 * fits);
		/* Half as much again a node for stock, twice and more for the others. */
		assert_true(thrash > (i ? 2 : 1.5) * beyond);
		before = fits;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uvm_half_the_link),
		cmocka_unit_test(test_uvm_half_the_service),
		cmocka_unit_test(test_uvm_twice_the_batch),
		cmocka_unit_test(test_uvm_blocks_one_by_one),
		cmocka_unit_test(test_uvm_half_the_memory),
		cmocka_unit_test(test_uvm_cliff),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
