/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring what memories of a simulated machine send and receive over several links: a port that
 * limits shows where it is, and nowhere else; it takes no longer than it may; and wherever it is
 * stopped, or fails, everything is given back. That a description's ports come back is in
 * test_probe.c.
 *
 * Takes 4 s of a processor: a machine of three GPUs is measured in whole for each call that fails.
 */
#include "src/backend/flaky/flaky.h"
#include "tests/property/test_probe_machine.h"
#include "tests/support/amount.h"

#define FAILURES (TEST_SANITIZED ? 30u : 120u)
#define MOST_S 10.0 /* of eight GPUs' time, for what ports carry */

/* Of h200x4, those that are stopped, or that fail. */
#define GPUS 3u

/* The machine with its first GPUs alone. */
static void gpus_leave(struct weir_machine_desc *desc, uint32_t nr_gpus)
{
	uint32_t nr_links = 0, nr_ports = 0;

	desc->nr_devices = nr_gpus;
	desc->nr_memories = 1 + nr_gpus;
	for (uint32_t l = 0; l < desc->nr_links; l++)
		if (desc->link[l].a <= nr_gpus && desc->link[l].b <= nr_gpus)
			desc->link[nr_links++] = desc->link[l];
	for (uint32_t i = 0; i < desc->nr_ports; i++)
		if (desc->port[i].memory <= nr_gpus)
			desc->port[nr_ports++] = desc->port[i];
	desc->nr_links = nr_links;
	desc->nr_ports = nr_ports;
}

static void port_set(struct weir_machine_desc *desc, uint32_t memory, uint32_t links, double send,
		     double receive)
{
	desc->port[desc->nr_ports++] = (struct weir_port_desc){memory, links, send, receive};
}

/* Without ports links carry as much beside others as alone; a port that limits shows from its
 * number of links on, in its direction, and in no other line. */
static void test_probe_ports_limit(void **state)
{
	const struct probe_options options = {.device = PROBE_ALL_DEVICES, .quick = true};
	const struct weir_link_desc *host, *peer;
	struct weir_machine_desc truth;
	struct probe_result r;

	(void)state;
	load("h200x4", &truth);
	host = &truth.link[0];
	peer = &truth.link[truth.nr_links - 1];
	truth.nr_ports = 0;
	measure(&truth, &options, INFINITY, &r);
	expect_ports(&r, &truth);
	expect_rate(&r, "host.send.4_links", 4 * host->a_to_b_bytes_per_s);
	expect_rate(&r, "host.both_ways.receive.4_links", 4 * host->duplex_bytes_per_s);
	expect_rate(&r, "gpu0.receive.3_links", 3 * peer->a_to_b_bytes_per_s);
	expect_rate(&r, "gpu0.stores.3_links", 3 * peer->inplace_bytes_per_s);
	expect_rate(&r, "gpu2.read_by_two.all", 2 * peer->inplace_bytes_per_s);
	probe_result_fini(&r);

	port_set(&truth, 0, 3, 70e9, 90e9);
	port_set(&truth, 1, 2, 200e9, 1e13);
	port_set(&truth, 1, 3, 150e9, 250e9);
	port_set(&truth, 3, 2, 300e9, 400e9);
	measure(&truth, &options, INFINITY, &r);
	expect_ports(&r, &truth);
	expect_rate(&r, "host.send.2_links", 2 * host->a_to_b_bytes_per_s);
	expect_rate(&r, "host.send.3_links", 70e9);
	expect_rate(&r, "host.receive.4_links", 90e9);
	expect_rate(&r, "gpu0.send.2_links", 200e9);
	expect_rate(&r, "gpu0.send.3_links", 150e9);
	expect_rate(&r, "gpu0.receive.2_links", 2 * peer->a_to_b_bytes_per_s);
	expect_rate(&r, "gpu0.both_ways.receive.3_links", 250e9);
	expect_rate(&r, "gpu0.stores.2_links", 200e9);
	expect_rate(&r, "gpu0.loads.2_links", 2 * peer->inplace_bytes_per_s);
	expect_rate(&r, "gpu0.loads.3_links", 250e9);
	expect_rate(&r, "gpu2.read_by_two.gpu1", 150e9);
	expect_rate(&r, "gpu2.written_by_two.all", 400e9);
	probe_result_fini(&r);
}

/* A GPU that has fewer links than the first one has no port with more than these. */
static void test_probe_ports_fewer_links(void **state)
{
	const struct probe_options options = {.device = PROBE_ALL_DEVICES, .quick = true};
	struct weir_machine_desc truth;
	struct probe_result r;
	uint32_t l = 0;

	(void)state;
	load("h200x4", &truth);
	while (truth.link[l].a != 2 || truth.link[l].b != 3)
		l++;
	truth.link[l] = truth.link[--truth.nr_links];
	measure(&truth, &options, INFINITY, &r);
	for (uint32_t n = 1; n <= 3; n++) {
		expect_port(&r, &truth, 1, 1, n);
		expect_port(&r, &truth, 4, 1, n);
		assert_true(!port_find(&r.desc, 2, n) == (n == 3));
		assert_true(!port_find(&r.desc, 3, n) == (n == 3));
	}
	expect_no_rate(&r, "third.read_by_two.all", "do not both reach");
	probe_result_fini(&r);
}

/* Whether ports come next, by what a step is called. */
static bool is_ports(const char *label)
{
	return strcmp(label, "what host sends and receives over several links") == 0;
}

struct began {
	struct backend *b;
	uint64_t at_ns; /* of the machine's time, when ports began; 0: not yet */
};

static int note_began(void *arg, double fraction, const char *label)
{
	struct began *began = arg;

	assert_true(fraction >= 0 && fraction <= 1);
	if (!began->at_ns && is_ports(label))
		began->at_ns = began->b->ops->now_ns(began->b);
	return 0;
}

/* How long they take on eight GPUs. */
static void test_probe_ports_time(void **state)
{
	struct began began = {.b = NULL};
	struct probe_options options = {
		.device = PROBE_ALL_DEVICES, .progress = note_began, .progress_arg = &began};
	struct weir_machine_desc truth;
	struct weir_machine *machine;
	struct probe_result r;
	char err[256] = "";
	double s;

	(void)state;
	load("h200x8", &truth);
	assert_int_equal(weir_machine_simulate(&truth, WEIR_DATA_PHANTOM, &machine), 0);
	began.b = machine_backend(machine);
	if (probe_run(machine, &options, &r, err, sizeof(err)))
		fail_msg("%s", err);
	assert_true(began.at_ns > 0);
	s = (double)(began.b->ops->now_ns(began.b) - began.at_ns) / 1e9;
	print_message("ports of 8 GPUs: %.2f s\n", s);
	assert_true(s < MOST_S);
	weir_machine_close(machine);
	probe_result_fini(&r);
}

struct call {
	struct backend *flaky;
	uint64_t first; /* that ports make; 0: not known */
};

static int note_call(void *arg, double fraction, const char *label)
{
	struct call *call = arg;

	(void)fraction;
	if (!call->first && is_ports(label))
		call->first = flaky_nr_calls(call->flaky);
	return 0;
}

/* Calls all over it fail, one a run, most of them among the first ones, which take memory:
 * measuring ends with an error, or goes on where there is another way, and gives all of it back. */
static void test_probe_ports_calls_fail(void **state)
{
	struct call call = {.first = 0};
	const struct probe_options options = {.device = PROBE_ALL_DEVICES,
					      .quick = true,
					      .progress = note_call,
					      .progress_arg = &call};
	uint64_t nr = 0, nr_failed = 0;
	struct weir_machine_desc desc;

	(void)state;
	load("h200x4", &desc);
	gpus_leave(&desc, GPUS);
	/* The first run, in which none fails, says how many there are. */
	for (uint64_t i = 0; i <= FAILURES; i++) {
		uint64_t at = i < FAILURES / 2 ? i : i * (nr - call.first) / FAILURES;
		struct backend *sim, *flaky;
		struct weir_machine *machine;
		struct probe_result r;
		char err[256] = "";
		int ret;

		assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &sim), 0);
		assert_int_equal(flaky_create(sim, &flaky), 0);
		assert_int_equal(machine_wrap(flaky, &machine), 0);
		call.flaky = flaky;
		flaky_arm(flaky, i ? call.first + at : 0, -EIO);
		ret = probe_run(machine, &options, &r, err, sizeof(err));
		if (!i)
			nr = flaky_nr_calls(flaky);
		if (ret) {
			assert_int_equal(ret, -EIO);
			assert_non_null(strstr(err, "measuring "));
			nr_failed++;
		} else {
			probe_result_fini(&r);
		}
		assert_int_equal(sim_leaks(sim), 0);
		weir_machine_close(machine);
	}
	print_message("%llu of %u failures showed, of %llu calls\n", (unsigned long long)nr_failed,
		      FAILURES, (unsigned long long)(nr - call.first));
	/* Not those of giving back, which are tried again. */
	assert_true(nr_failed > FAILURES * 3 / 4);
}

struct stop {
	uint32_t nr, at; /* questions since ports began; the one that is answered with stop */
	bool began;
};

static int note_stop(void *arg, double fraction, const char *label)
{
	struct stop *stop = arg;

	(void)fraction;
	stop->began |= is_ports(label);
	return stop->began && ++stop->nr == stop->at;
}

/* Wherever it is stopped, it ends there and gives everything back. */
static void test_probe_ports_stop(void **state)
{
	struct weir_machine_desc desc;
	uint32_t at = 1;

	(void)state;
	load("h200x4", &desc);
	gpus_leave(&desc, GPUS);
	for (bool stopped = true; stopped; at += TEST_SANITIZED ? 7 : 1) {
		struct stop stop = {.at = at};
		const struct probe_options options = {.device = PROBE_ALL_DEVICES,
						      .quick = true,
						      .progress = note_stop,
						      .progress_arg = &stop};
		struct weir_machine *machine;
		struct probe_result r;
		char err[256] = "";
		int ret;

		assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
		ret = probe_run(machine, &options, &r, err, sizeof(err));
		stopped = stop.nr >= at;
		assert_int_equal(ret, stopped ? -EINTR : 0);
		if (stopped)
			assert_int_equal(stop.nr, at);
		else
			probe_result_fini(&r);
		assert_int_equal(sim_leaks(machine_backend(machine)), 0);
		weir_machine_close(machine);
	}
	print_message("stopped at each of %u questions\n", at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probe_ports_limit),
		cmocka_unit_test(test_probe_ports_fewer_links),
		cmocka_unit_test(test_probe_ports_time),
		cmocka_unit_test(test_probe_ports_calls_fail),
		cmocka_unit_test(test_probe_ports_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
