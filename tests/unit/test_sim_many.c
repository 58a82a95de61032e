/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator with as many devices as there can be: 16, 17 memories and 136 links, ports of all
 * memories, two compute streams a device and a stream for each way between two of them.
 */
#include "tests/unit/test_sim_fixture.h"

enum { NR_GPUS = WEIR_DEVICES_MAX, NR_MEMORIES, NR_LINKS = NR_GPUS * NR_MEMORIES / 2 };

#define PEER 20 /* bytes a nanosecond over a link and through a port */

struct many {
	struct backend *b;
	stream_id_t compute[NR_GPUS][2];
	stream_id_t way[NR_GPUS][NR_GPUS]; /* from, to; between one and itself there is none */
	fence_t computed[NR_GPUS][2], copied[NR_GPUS][NR_GPUS];
	struct backend_chunk chunk[NR_MEMORIES];
	void *plain[NR_GPUS]; /* 1 MiB each */
	uint64_t t0;
};

static void many_open(struct many *m)
{
	struct weir_machine_desc desc;
	char why[128] = "";

	memset(m, 0, sizeof(*m));
	test_machine_gpus(&desc, NR_GPUS);
	for (uint32_t i = 0; i < NR_MEMORIES; i++)
		desc.port[desc.nr_ports++] =
			(struct weir_port_desc){i, i == HOST ? 2 : 1, PEER * 1e9, PEER * 1e9};
	assert_int_equal(desc.nr_memories, WEIR_MEMORIES_MAX);
	assert_int_equal(desc.nr_links, NR_LINKS);
	assert_int_equal(desc.nr_links, WEIR_LINKS_MAX);
	if (weir_machine_check(&desc, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &m->b), 0);
	for (uint32_t i = 0; i < NR_MEMORIES; i++)
		assert_int_equal(m->b->ops->chunk_create(m->b, i, MIB(2), 0, &m->chunk[i]), 0);
	for (uint32_t d = 0; d < NR_GPUS; d++) {
		for (int i = 0; i < 2; i++)
			assert_int_equal(m->b->ops->stream_create(m->b, d, BACKEND_COMPUTE,
								  &m->compute[d][i]),
					 0);
		for (uint32_t to = 0; to < NR_GPUS; to++)
			if (to != d)
				assert_int_equal(m->b->ops->stream_create(m->b, d, BACKEND_COPY_OUT,
									  &m->way[d][to]),
						 0);
		assert_int_equal(m->b->ops->device_alloc(m->b, GPU0 + d, MIB(1), &m->plain[d]), 0);
	}
	m->t0 = m->b->ops->now_ns(m->b);
}

static void many_close(struct many *m)
{
	for (uint32_t d = 0; d < NR_GPUS; d++) {
		for (int i = 0; i < 2; i++)
			m->b->ops->stream_destroy(m->b, m->compute[d][i]);
		for (uint32_t to = 0; to < NR_GPUS; to++)
			if (to != d)
				m->b->ops->stream_destroy(m->b, m->way[d][to]);
		m->b->ops->device_free(m->b, m->plain[d]);
	}
	for (uint32_t i = 0; i < NR_MEMORIES; i++)
		m->b->ops->chunk_destroy(m->b, &m->chunk[i]);
	assert_int_equal(sim_leaks(m->b), 0);
	m->b->ops->destroy(m->b);
}

static void send(struct many *m, uint32_t from, uint32_t to, uint64_t bytes)
{
	const struct backend_copy piece = {m->chunk[GPU0 + to].alias, m->chunk[GPU0 + from].alias,
					   bytes};

	assert_int_equal(m->b->ops->copy(m->b, m->way[from][to], &piece, 1), 0);
	assert_int_equal(m->b->ops->fence_record(m->b, m->way[from][to], &m->copied[from][to]), 0);
}

static void expect_after(struct many *m, fence_t fence, uint64_t ns)
{
	assert_int_equal(m->b->ops->fence_wait(m->b, fence), 0);
	assert_int_equal(m->b->observe->fence_time_ns(m->b, fence) - m->t0, ns);
}

/* Over all links at once each port's 15 flows share it alike; then one sends to all others while
 * another receives from several, which have what the first one cannot use there. */
static void test_ports_of_sixteen(void **state)
{
	const uint64_t bytes = 300000, others = NR_GPUS - 1;
	struct many m;

	(void)state;
	many_open(&m);
	for (uint32_t from = 0; from < NR_GPUS; from++)
		for (uint32_t to = 0; to < NR_GPUS; to++)
			if (from != to)
				send(&m, from, to, bytes);
	for (uint32_t from = 0; from < NR_GPUS; from++)
		for (uint32_t to = 0; to < NR_GPUS; to++)
			if (from != to)
				expect_after(&m, m.copied[from][to], SETUP + others * bytes / PEER);
	/* The first GPU sends to all others, to each at a 15th of its port. Seven more send to the
	 * last one, and share what that leaves of its port: 8/3 each. */
	m.t0 = m.b->ops->now_ns(m.b);
	for (uint32_t d = 1; d < NR_GPUS; d++)
		send(&m, 0, d, bytes);
	for (uint32_t d = 1; d <= 7; d++)
		send(&m, d, NR_GPUS - 1, 2 * bytes);
	for (uint32_t d = 1; d < NR_GPUS; d++)
		expect_after(&m, m.copied[0][d], SETUP + others * bytes / PEER);
	for (uint32_t d = 1; d <= 7; d++)
		expect_after(&m, m.copied[d][NR_GPUS - 1], SETUP + 2 * bytes * 3 / 8);
	many_close(&m);
}

/* What a GPU sends to each other one in a round. Two send the most: none waits for itself. */
static uint64_t round_bytes(uint32_t from)
{
	return 20000 + 1280 * (uint64_t)(from / 2);
}

/* On both streams of a device a kernel behind what all others have sent to it. */
static void round_compute(struct many *m, uint32_t d, bool first)
{
	const struct weir_use use = use_of(m->plain[d], 1000000, WEIR_READ);
	const struct backend_ops *ops = m->b->ops;

	for (int s = 0; s < 2; s++) {
		for (uint32_t from = 0; from < NR_GPUS; from++)
			if (from != d && !first)
				assert_int_equal(ops->stream_wait(m->b, m->compute[d][s],
								  m->copied[from][d]),
						 0);
		assert_int_equal(launch_touch(m->b, m->compute[d][s], (struct touch){0}, &use, 1),
				 0);
		assert_int_equal(ops->fence_record(m->b, m->compute[d][s], &m->computed[d][s]), 0);
	}
}

/* Behind the first of these, copies to all others. */
static void round_send(struct many *m, uint32_t d)
{
	for (uint32_t to = 0; to < NR_GPUS; to++) {
		if (to == d)
			continue;
		assert_int_equal(m->b->ops->stream_wait(m->b, m->way[d][to], m->computed[d][0]), 0);
		send(m, d, to, round_bytes(d));
	}
}

/* Some 40,000 kernels, copies, fences and waits on 272 streams, in a time that programs can wait
 * for. The senders of most bytes are the slowest in each round, and all wait for them; the second
 * kernel of each device runs beside the copies and is done before them. */
static void test_rounds_of_sixteen(void **state)
{
	const uint64_t nr_rounds = 32, first = MIB(2), most = round_bytes(NR_GPUS - 1);
	const uint64_t round_ns = 10000 + SETUP + (NR_GPUS - 1) * most / PEER;
	struct many m;

	(void)state;
	many_open(&m);
	/* It holds them all back while the first rounds are queued. */
	send(&m, 0, 1, first);
	for (uint32_t d = 0; d < NR_GPUS; d++)
		for (int s = 0; s < 2; s++)
			assert_int_equal(
				m.b->ops->stream_wait(m.b, m.compute[d][s], m.copied[0][1]), 0);
	for (uint32_t round = 0; round < nr_rounds; round++) {
		for (uint32_t d = 0; d < NR_GPUS; d++)
			round_compute(&m, d, !round);
		for (uint32_t d = 0; d < NR_GPUS; d++)
			round_send(&m, d);
	}
	for (uint32_t d = 0; d < NR_GPUS; d++)
		expect_after(&m, m.copied[d][(d + 1) % NR_GPUS],
			     SETUP + (first + PEER - 1) / PEER + nr_rounds * round_ns -
				     (NR_GPUS - 1) * (most - round_bytes(d)) / PEER);
	many_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports_of_sixteen),
		cmocka_unit_test(test_rounds_of_sixteen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
