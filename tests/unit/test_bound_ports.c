/* SPDX-License-Identifier: Apache-2.0 */
/* Ports in the lower bound: what several links of one memory carry together. */
#include "tests/unit/test_bound_machine.h"
#include "workloads/bound_model.h"

static void add_port(struct weir_machine_desc *d, uint32_t memory, uint32_t links, double send,
		     double receive)
{
	d->port[d->nr_ports++] = (struct weir_port_desc){memory, links, send, receive};
}

static const uint64_t three_10_gb[WEIR_MEMORIES_MAX] = {
	[2] = 10 * GB, [3] = 10 * GB, [4] = 10 * GB};

/* ------------------------------------------------------------------ rates */

static void assert_rates(const struct bound_rates *r, double in, double out)
{
	assert_near(r->in_ns, 1e9 / in, 1e-12);
	assert_near(r->out_ns, 1e9 / out, 1e-12);
}

/* What the links of the host, four of them, and those to the neighbours carry, towards the device
 * and away from it. */
static void rates_are(const struct weir_machine_desc *d, double in, double out, double near_in,
		      double near_out)
{
	const struct trace empty = {0};
	struct bound_model *m;

	assert_int_equal(bound_model_create(&empty, d, 0, GB, three_10_gb, &m), 0);
	assert_rates(&m->rates, in, out);
	assert_rates(&m->near_rates, near_in, near_out);
	bound_model_destroy(m);
}

static void test_rates_through_ports(void **state)
{
	const double host = 4 * 55e9, near = 3 * 385e9;
	struct weir_machine_desc d;

	(void)state;
	machine_with_neighbours(&d, 3);
	rates_are(&d, host, host, near, near);
	/* The device receives what comes in, and the host sends it. */
	add_port(&d, 1, 1, 100e9, 200e9);
	rates_are(&d, host, host, 200e9, 100e9);
	add_port(&d, 0, 1, 40e9, 50e9);
	rates_are(&d, 40e9, 50e9, 200e9, 100e9);
	/* With fewer links busy nothing is limited. */
	d.port[0].links = 3;
	d.port[1].links = 4;
	rates_are(&d, 3 * 55e9, 3 * 55e9, 2 * 385e9, 2 * 385e9);
	d.port[0].links = 4;
	d.port[1].links = 5;
	rates_are(&d, host, host, near, near);
	/* The entry with the most links counts, also where it lets through more, or less. */
	d.port[0] = (struct weir_port_desc){1, 1, 100e9, 600e9};
	d.port[1] = (struct weir_port_desc){1, 2, 500e9, 300e9};
	rates_are(&d, host, host, 385e9, 500e9);
	/* A neighbour's port is not looked at. */
	d.port[0].memory = d.port[1].memory = 2;
	rates_are(&d, host, host, near, near);
	/* Of two host memories neither one's port has all of the links. */
	d.port[0].memory = 0;
	d.port[1].memory = 5;
	d.memory[5] = d.memory[0];
	d.link[7] = d.link[0];
	d.link[7].a = 5;
	d.nr_memories++;
	d.nr_links++;
	rates_are(&d, host + 55e9, host + 55e9, near, near);
}

/* Where a port is what limits, nothing is known of both ways at once. */
static void test_rates_both_ways(void **state)
{
	const struct trace empty = {0};
	struct weir_machine_desc d;
	struct bound_model *m;

	(void)state;
	machine_with_neighbours(&d, 3);
	for (int limited = 0; limited < 2; limited++) {
		if (limited)
			add_port(&d, 0, 1, 9e12, 60e9);
		assert_int_equal(bound_model_create(&empty, &d, 0, GB, three_10_gb, &m), 0);
		assert_near(m->rates.in_of_out_ns, (1e9 / 49e9 - 1e9 / 55e9) / 4, 1e-9);
		if (limited)
			assert_true(m->rates.out_of_in_ns == 0);
		else
			assert_near(m->rates.out_of_in_ns, m->rates.in_of_out_ns, 1e-12);
		bound_model_destroy(m);
	}
}

/* ------------------------------------------------------------------ bounds */

/* The bound with three neighbours and one port. */
static double with_port(const struct trace *t, uint32_t memory, uint32_t links, double send,
			double receive)
{
	struct weir_machine_desc d;
	struct bound_result r;

	machine_with_neighbours(&d, 3);
	d.device[0].hbm_bytes_per_s = 4000e9;
	add_port(&d, memory, links, send, receive);
	assert_int_equal(bound_compute(t, &d, 0, 10 * GB, three_10_gb, &r), 0);
	return r.bound_s;
}

/* Three neighbours behind a port that lets through what one link carries are like one that has
 * their room. */
static void test_bound_near_ports(void **state)
{
	const uint64_t one[WEIR_MEMORIES_MAX] = {[2] = 30 * GB};
	const double beyond = 30e9, three_s = 10 * beyond / (3 * 385e9 + 51e9);
	struct manager *m = tracer();
	struct weir_use use = stream(alloc(m, 40 * GB), 40 * GB, WEIR_READ);
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace *t;

	(void)state;
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 10; i++)
		launch(m, &use, 1, 0);
	t = stop(m);
	machine_with_near(&d);
	d.device[0].hbm_bytes_per_s = 4000e9;
	assert_int_equal(bound_compute(t, &d, 0, 10 * GB, one, &r), 0);
	assert_near(with_port(t, 1, 1, 385e9, 385e9), r.bound_s, 0.01);
	/* What is read is received; and no more than three of these links are ever busy. */
	assert_near(with_port(t, 1, 1, 100e9, 9e12), three_s, 0.03);
	assert_near(with_port(t, 1, 4, 100e9, 100e9), three_s, 0.03);
	/* Two links carry this much, and three do not; then it is best to use two. */
	assert_near(with_port(t, 1, 3, 9e12, 100e9), 10 * beyond / (2 * 385e9 + 51e9), 0.03);
	/* The host's port has nothing to do with it, but for what comes from there. */
	assert_near(with_port(t, 0, 1, 51e9, 1e9), three_s, 0.03);
	trace_destroy(t);
	m->ops->destroy(m);
}

/* What comes from the host, to own and to near memory, comes through its port. */
static void test_bound_host_port(void **state)
{
	const uint64_t size = 20 * GB;
	struct manager *m = tracer();
	struct trace *t;
	void *x[8];
	double free_s;

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		x[i] = alloc(m, size);
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 24; i++) {
		const struct weir_use use = stream(x[i % 8], size, WEIR_READ);

		launch(m, &use, 1, 0);
	}
	t = stop(m);
	/* Four links of 55 GB/s. */
	free_s = with_port(t, 0, 5, 1e9, 1e9);
	assert_near(with_port(t, 0, 1, 9e12, 55e9), free_s, 0.03);
	assert_near(with_port(t, 0, 1, 110e9, 55e9), 2 * free_s, 0.03);
	assert_near(with_port(t, 0, 4, 110e9, 55e9), free_s * 4 / 3, 0.03);
	/* Not through that of the device's memory. */
	assert_near(with_port(t, 1, 1, 385e9, 385e9), free_s, 0.03);
	trace_destroy(t);
	m->ops->destroy(m);
}

/* Two uses of near memory in one launch, a slow one and a fast one: the port has time for the fast
 * one's bytes while the slow one's come, and no use takes longer for its sake. */
static void test_bound_port_of_unlike_uses(void **state)
{
	const uint64_t near_bytes[WEIR_MEMORIES_MAX] = {[2] = 20 * GB};
	const double expected = 10 * (10e9 / 128e9 + 10e9 / 385e9);
	struct manager *m = tracer();
	struct weir_use uses[] = {stream(alloc(m, 10 * GB), 10 * GB, WEIR_READ),
				  stream(alloc(m, 10 * GB), 10 * GB, WEIR_READ)};
	struct weir_machine_desc d;
	struct bound_result r;
	struct trace *t;

	(void)state;
	uses[0].pattern = WEIR_RANDOM;
	uses[0].granule = 1024;
	machine_with_near(&d);
	d.link[0].inplace_bytes_per_s = 1e9;
	d.link[2].inplace_small_per_s = 1e9; /* of 128 bytes */
	add_port(&d, 1, 1, 9e12, 200e9);
	assert_int_equal(trace_manager_start(m), 0);
	for (uint32_t i = 0; i < 10; i++)
		launch(m, uses, 2, 0);
	t = stop(m);
	assert_int_equal(bound_compute(t, &d, 0, MB, near_bytes, &r), 0);
	/* All of both can be there. */
	assert_true(r.bound_s <= expected);
	assert_true(r.bound_s > 0.85 * expected);
	trace_destroy(t);
	m->ops->destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates_through_ports),
		cmocka_unit_test(test_rates_both_ways),
		cmocka_unit_test(test_bound_near_ports),
		cmocka_unit_test(test_bound_host_port),
		cmocka_unit_test(test_bound_port_of_unlike_uses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
