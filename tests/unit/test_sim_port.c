/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports and shared HBM of the simulator against times worked out by hand: four GPUs with a link
 * between each two, on a machine that says what memories send and receive over several links.
 */
#include "src/cost/cost.h"
#include "tests/unit/test_sim_fixture.h"

enum { NR_GPUS = 4, NR_MEMORIES };

#define PEER 20e9 /* of each link between GPUs, as test_machine_gpus() has it; in place half */

struct ports {
	struct backend *b;
	stream_id_t compute[NR_GPUS], in[NR_GPUS], out[NR_GPUS];
	struct backend_chunk chunk[NR_MEMORIES];
	void *plain[NR_MEMORIES]; /* 1 MiB each */
	uint64_t t0;
};

static void add_port(struct weir_machine_desc *desc, uint32_t memory, uint32_t links, double send,
		     double receive)
{
	desc->port[desc->nr_ports++] = (struct weir_port_desc){memory, links, send, receive};
}

static void four_gpus(struct weir_machine_desc *desc)
{
	test_machine_gpus(desc, NR_GPUS);
	for (uint32_t l = 0; l < desc->nr_links; l++) {
		struct weir_link_desc *link = &desc->link[l];

		if (link->a == HOST)
			link->b_to_a_bytes_per_s = link->duplex_bytes_per_s = 4e9;
		else
			link->inplace_bytes_per_s = link->inplace_both_bytes_per_s = PEER / 2;
	}
}

static void ports_open(struct ports *p, const struct weir_machine_desc *desc)
{
	char why[128] = "";

	memset(p, 0, sizeof(*p));
	if (weir_machine_check(desc, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(sim_create(desc, WEIR_DATA_PHANTOM, &p->b), 0);
	for (uint32_t d = 0; d < NR_GPUS; d++) {
		const struct backend_ops *ops = p->b->ops;

		assert_int_equal(ops->stream_create(p->b, d, BACKEND_COMPUTE, &p->compute[d]), 0);
		assert_int_equal(ops->stream_create(p->b, d, BACKEND_COPY_IN, &p->in[d]), 0);
		assert_int_equal(ops->stream_create(p->b, d, BACKEND_COPY_OUT, &p->out[d]), 0);
	}
	for (uint32_t m = 0; m < NR_MEMORIES; m++) {
		assert_int_equal(p->b->ops->chunk_create(p->b, m, MIB(4), 0, &p->chunk[m]), 0);
		assert_int_equal(p->b->ops->device_alloc(p->b, m, MIB(1), &p->plain[m]), 0);
	}
	p->t0 = p->b->ops->now_ns(p->b);
}

static void ports_close(struct ports *p)
{
	for (uint32_t m = 0; m < NR_MEMORIES; m++) {
		p->b->ops->chunk_destroy(p->b, &p->chunk[m]);
		p->b->ops->device_free(p->b, p->plain[m]);
	}
	for (uint32_t d = 0; d < NR_GPUS; d++) {
		p->b->ops->stream_destroy(p->b, p->compute[d]);
		p->b->ops->stream_destroy(p->b, p->in[d]);
		p->b->ops->stream_destroy(p->b, p->out[d]);
	}
	assert_int_equal(sim_leaks(p->b), 0);
	p->b->ops->destroy(p->b);
}

/* Queue a copy; its fence. */
static fence_t copy(struct ports *p, stream_id_t stream, uint32_t from, uint32_t to, uint64_t bytes)
{
	const struct backend_copy piece = {p->chunk[to].alias, p->chunk[from].alias, bytes};
	fence_t fence;

	assert_int_equal(p->b->ops->copy(p->b, stream, &piece, 1), 0);
	assert_int_equal(p->b->ops->fence_record(p->b, stream, &fence), 0);
	return fence;
}

static fence_t kernel(struct ports *p, uint32_t device, const struct weir_use *uses, uint32_t nr,
		      double ops)
{
	const struct touch touch = {0};
	const struct weir_launch launch = {.kernel = &touch_kernel,
					   .args = &touch,
					   .args_bytes = sizeof(touch),
					   .uses = uses,
					   .nr_uses = nr,
					   .ops = ops};
	fence_t fence;

	assert_int_equal(p->b->ops->launch(p->b, p->compute[device], &launch), 0);
	assert_int_equal(p->b->ops->fence_record(p->b, p->compute[device], &fence), 0);
	return fence;
}

static void expect_after(struct ports *p, fence_t fence, uint64_t ns)
{
	assert_int_equal(p->b->ops->fence_wait(p->b, fence), 0);
	assert_int_equal(p->b->observe->fence_time_ns(p->b, fence) - p->t0, ns);
}

/* ------------------------------------------------------------------ the host */

/* 4 to one GPU, 6 to two, 6.6 to three, 7.2 to four: the row with the most links that are busy. */
static void test_host_sends_to_several(void **state)
{
	static const double rate[] = {4, 3, 2.2, 1.8};
	struct weir_machine_desc desc;
	struct ports p;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, HOST, 4, 7.2e9, 1e9);
	add_port(&desc, HOST, 2, 6e9, 1e9);
	add_port(&desc, HOST, 3, 6.6e9, 1e9);
	ports_open(&p, &desc);
	for (uint32_t nr = 1; nr <= NR_GPUS; nr++) {
		fence_t fence[NR_GPUS];

		p.t0 = p.b->ops->now_ns(p.b);
		for (uint32_t d = 0; d < nr; d++)
			fence[d] = copy(&p, p.in[d], HOST, GPU0 + d, 990000);
		for (uint32_t d = 0; d < nr; d++)
			expect_after(&p, fence[d], SETUP + (uint64_t)(990000 / rate[nr - 1] + 0.5));
	}
	ports_close(&p);
}

/* One of two ends, and the other has its link's rate; ways do not count together. */
static void test_host_port_frees_and_ways(void **state)
{
	struct weir_machine_desc desc;
	struct ports p;
	fence_t one, two, three;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, HOST, 2, 6e9, 5e9);
	ports_open(&p, &desc);
	one = copy(&p, p.in[0], HOST, GPU0, 300000);
	two = copy(&p, p.in[1], HOST, GPU1, 700000);
	expect_after(&p, one, SETUP + 100000);
	expect_after(&p, two, SETUP + 100000 + 100000);
	/* One in, one out: 4 each. */
	p.t0 = p.b->ops->now_ns(p.b);
	one = copy(&p, p.in[0], HOST, GPU0, 400000);
	two = copy(&p, p.out[1], GPU1, HOST, 400000);
	expect_after(&p, one, SETUP + 100000);
	expect_after(&p, two, SETUP + 100000);
	/* Two out: 2.5 each; the third one is alone its way. */
	p.t0 = p.b->ops->now_ns(p.b);
	one = copy(&p, p.out[0], GPU0, HOST, 250000);
	two = copy(&p, p.out[1], GPU1, HOST, 250000);
	three = copy(&p, p.in[2], HOST, GPU2, 400000);
	expect_after(&p, one, SETUP + 100000);
	expect_after(&p, two, SETUP + 100000);
	expect_after(&p, three, SETUP + 100000);
	ports_close(&p);
}

/* A kernel that takes 2 at most leaves 3 of 5 to a copy on another link. */
static void test_port_shares_max_min(void **state)
{
	struct weir_machine_desc desc;
	struct weir_use use;
	struct ports p;
	fence_t in_place, copied;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, HOST, 2, 5e9, 5e9);
	ports_open(&p, &desc);
	copied = copy(&p, p.in[1], HOST, GPU1, 1000000);
	use = use_of(p.plain[HOST], 600000, WEIR_READ);
	in_place = kernel(&p, 0, &use, 1, 0); /* begins at 300, the copy at 1,100 */
	expect_after(&p, in_place, LAUNCH_HOST + 300000);
	expect_after(&p, copied, LAUNCH_HOST + 300000 + (1000000 - 3 * (300300 - SETUP)) / 4);
	ports_close(&p);
}

/* ------------------------------------------------------------------ GPUs */

/* One kernel that stores to one, two and three neighbours: 10, 6 and 4 a nanosecond to each. */
static void test_stores_divide_the_egress(void **state)
{
	static const uint64_t rate[] = {10, 6, 4};
	struct weir_machine_desc desc;
	struct weir_use use[3];
	struct ports p;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, GPU0, 2, 12e9, 30e9);
	ports_open(&p, &desc);
	for (uint32_t nr = 1; nr <= 3; nr++) {
		use[nr - 1] = use_of(p.plain[GPU0 + nr], 600000, WEIR_OVERWRITE);
		p.t0 = p.b->ops->now_ns(p.b);
		expect_after(&p, kernel(&p, 0, use, nr, 0), LAUNCH_HOST + 600000 / rate[nr - 1]);
	}
	/* What it reads comes in, where there is room for all: 10 from each. */
	use[0].kind = use[1].kind = WEIR_READ;
	for (int i = 0; i < 2; i++) {
		use[i].read_bytes = 600000;
		use[i].write_bytes = 0;
	}
	p.t0 = p.b->ops->now_ns(p.b);
	expect_after(&p, kernel(&p, 0, use, 2, 0), LAUNCH_HOST + 60000);
	ports_close(&p);
}

/* A kernel that reads and writes gets 6 a nanosecond each way of one neighbour, and as much of two
 * together, though it reads 20 from these when it does nothing else. */
static void test_both_ways_divide_the_port(void **state)
{
	struct weir_machine_desc desc;
	struct weir_use use[2];
	struct ports p;

	(void)state;
	four_gpus(&desc);
	for (uint32_t l = 0; l < desc.nr_links; l++)
		if (desc.link[l].a != HOST)
			desc.link[l].inplace_both_bytes_per_s = 6e9;
	add_port(&desc, GPU0, 2, 30e9, 30e9);
	ports_open(&p, &desc);
	for (uint32_t nr = 1; nr <= 2; nr++) {
		use[nr - 1] = use_of(p.plain[GPU0 + nr], 600000, WEIR_WRITE);
		use[nr - 1].read_bytes = use[nr - 1].write_bytes = 600000;
		p.t0 = p.b->ops->now_ns(p.b);
		expect_after(&p, kernel(&p, 0, use, nr, 0), LAUNCH_HOST + nr * 100000);
	}
	/* So do reads from one and writes to the other. */
	use[0].kind = WEIR_READ;
	use[0].write_bytes = 0;
	use[1].kind = WEIR_OVERWRITE;
	use[1].read_bytes = 0;
	p.t0 = p.b->ops->now_ns(p.b);
	expect_after(&p, kernel(&p, 0, use, 2, 0), LAUNCH_HOST + 100000);
	ports_close(&p);
}

/* A flow may be held back at either end; others then have what it leaves. */
static void test_ports_at_both_ends(void **state)
{
	struct weir_machine_desc desc;
	struct ports p;
	fence_t a, b, c;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, GPU0, 2, 24e9, 24e9);
	add_port(&desc, GPU3, 2, 40e9, 10e9);
	ports_open(&p, &desc);
	/* gpu0 and gpu2 to gpu3: 5 each. gpu0 to gpu1: 24 - 5, which is below the link's 20. */
	a = copy(&p, p.in[3], GPU0, GPU3, 500000);
	b = copy(&p, p.out[2], GPU2, GPU3, 500000);
	c = copy(&p, p.out[0], GPU0, GPU1, 1900000);
	expect_after(&p, a, SETUP + 100000);
	expect_after(&p, b, SETUP + 100000);
	expect_after(&p, c, SETUP + 100000);
	ports_close(&p);
}

/* The link to the host is no part of a device's port. */
static void test_port_without_the_host_link(void **state)
{
	struct weir_machine_desc desc;
	struct ports p;
	fence_t near, far;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, GPU0, 2, 1e9, 1e9);
	ports_open(&p, &desc);
	near = copy(&p, p.out[0], GPU0, GPU1, 2000000);
	far = copy(&p, p.in[0], GPU0, HOST, 400000);
	expect_after(&p, near, SETUP + 100000);
	expect_after(&p, far, SETUP + 100000);
	ports_close(&p);
}

/* ------------------------------------------------------------------ the HBM */

/* 1 MB at 100 a nanosecond, 10,000 ns; copies to a neighbour at 20 leave it four fifths. */
static void test_kernel_shares_its_hbm(void **state)
{
	uint64_t before[BACKEND_TIME_NR], ns[BACKEND_TIME_NR];
	struct weir_machine_desc desc;
	struct weir_use use;
	fence_t fence[2];
	struct ports p;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, GPU0, 2, 40e9, 40e9);
	ports_open(&p, &desc);
	use = use_of(p.plain[GPU0], 1000000, WEIR_READ);
	expect_after(&p, kernel(&p, 0, &use, 1, 0), LAUNCH_HOST + 10000);
	/* The copy runs before and after. */
	assert_int_equal(p.b->observe->device_times(p.b, 0, before), 0);
	fence[0] = copy(&p, p.out[0], GPU0, GPU1, 2000000);
	p.b->ops->host_spend(p.b, 10000);
	p.t0 = p.b->ops->now_ns(p.b);
	expect_after(&p, kernel(&p, 0, &use, 1, 0), LAUNCH_HOST + 12500);
	assert_int_equal(p.b->ops->fence_wait(p.b, fence[0]), 0);
	assert_int_equal(p.b->observe->device_times(p.b, 0, ns), 0);
	assert_int_equal(ns[BACKEND_TIME_COMPUTE] - before[BACKEND_TIME_COMPUTE], 12500);
	assert_int_equal(ns[BACKEND_TIME_IN_PLACE], before[BACKEND_TIME_IN_PLACE]);
	/* It begins and ends meanwhile: 5,000 ns at four fifths, of 80,000 bytes, cost 1,000. */
	p.t0 = p.b->ops->now_ns(p.b);
	fence[0] = copy(&p, p.out[0], GPU0, GPU1, 100000);
	fence[1] = kernel(&p, 0, &use, 1, 0);
	expect_after(&p, fence[0], SETUP + 5000);
	expect_after(&p, fence[1], LAUNCH_HOST + 11000);
	/* A kernel that computes for longer than that does not notice. */
	p.t0 = p.b->ops->now_ns(p.b);
	fence[0] = copy(&p, p.out[0], GPU0, GPU1, 2000000);
	fence[1] = kernel(&p, 0, &use, 1, 13e6);
	expect_after(&p, fence[1], LAUNCH_HOST + 13000);
	expect_after(&p, fence[0], SETUP + 100000);
	/* Nor does one of a GPU whose memory has no port. */
	use = use_of(p.plain[GPU1], 1000000, WEIR_READ);
	p.t0 = p.b->ops->now_ns(p.b);
	fence[0] = copy(&p, p.out[0], GPU0, GPU1, 2000000);
	expect_after(&p, kernel(&p, 1, &use, 1, 0), LAUNCH_HOST + 10000);
	expect_after(&p, fence[0], SETUP + 100000);
	ports_close(&p);
}

/* A copy goes through the memories at both its ends, whoever's engine makes it; a third GPU's own
 * memory has no part in it. */
static void test_copy_takes_both_hbms(void **state)
{
	/* Of the engine's stream. */
	static const uint32_t engines[] = {0, 1, 2};
	struct weir_machine_desc desc;
	struct weir_use use[3];
	fence_t fence[3], copied;
	struct ports p;

	(void)state;
	four_gpus(&desc);
	for (uint32_t m = GPU0; m < NR_MEMORIES; m++)
		add_port(&desc, m, 2, 40e9, 40e9);
	ports_open(&p, &desc);
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		copied = copy(&p, p.out[engines[i]], GPU0, GPU1, 2000000);
		p.b->ops->host_spend(p.b, 10000);
		p.t0 = p.b->ops->now_ns(p.b);
		for (uint32_t d = 0; d < 3; d++) {
			use[d] = use_of(p.plain[GPU0 + d], 1000000, WEIR_READ);
			fence[d] = kernel(&p, d, &use[d], 1, 0);
		}
		/* The host launches one after the other. */
		expect_after(&p, fence[0], LAUNCH_HOST + 12500);
		expect_after(&p, fence[1], 2 * LAUNCH_HOST + 12500);
		expect_after(&p, fence[2], 3 * LAUNCH_HOST + 10000);
		assert_int_equal(p.b->ops->fence_wait(p.b, copied), 0);
	}
	ports_close(&p);
}

/* A compute stream has copies made by an engine of its device, between memories of others, too:
 * they are in its order, and kernels of the device's other streams run beside them. */
static void test_copy_on_a_compute_stream(void **state)
{
	struct weir_machine_desc desc;
	fence_t copied, before, behind;
	stream_id_t other;
	struct weir_use use;
	struct ports p;

	(void)state;
	four_gpus(&desc);
	add_port(&desc, GPU2, 1, 40e9, 40e9);
	ports_open(&p, &desc);
	assert_int_equal(p.b->ops->stream_create(p.b, 2, BACKEND_COMPUTE, &other), 0);
	p.t0 = p.b->ops->now_ns(p.b);
	use = use_of(p.plain[GPU2], 1000000, WEIR_READ);
	copied = copy(&p, other, GPU0, GPU1, 2000000);
	before = kernel(&p, 2, &use, 1, 0);
	assert_int_equal(launch_touch(p.b, other, (struct touch){0}, &use, 1), 0);
	assert_int_equal(p.b->ops->fence_record(p.b, other, &behind), 0);
	expect_after(&p, before, LAUNCH_HOST + 10000);
	expect_after(&p, copied, SETUP + 100000);
	expect_after(&p, behind, SETUP + 100000 + 10000);
	p.b->ops->stream_destroy(p.b, other);
	ports_close(&p);
}

/* A neighbour's kernel that uses the memory in place slows its owner's, not itself by that. */
static void test_kernel_beside_a_neighbours(void **state)
{
	struct weir_machine_desc desc;
	struct weir_use own, far;
	struct ports p;
	fence_t theirs;

	(void)state;
	four_gpus(&desc);
	for (uint32_t m = GPU0; m < NR_MEMORIES; m++)
		add_port(&desc, m, 2, 40e9, 40e9);
	ports_open(&p, &desc);
	own = use_of(p.plain[GPU0], 900000, WEIR_READ);
	far = use_of(p.plain[GPU0], 1000000, WEIR_WRITE);
	/* It reads and writes 10 a nanosecond: four fifths again are left. */
	theirs = kernel(&p, 1, &far, 1, 0);
	p.b->ops->host_spend(p.b, 1000);
	p.t0 = p.b->ops->now_ns(p.b);
	expect_after(&p, kernel(&p, 0, &own, 1, 0), LAUNCH_HOST + 11250);
	p.t0 -= 1000 + LAUNCH_HOST;
	expect_after(&p, theirs, LAUNCH_HOST + 100000);
	/* What a kernel itself uses in place does not go through its device's memory. */
	for (int writes = 0; writes < 2; writes++) {
		const struct weir_use both[2] = {
			use_of(p.plain[GPU0], 950000, WEIR_READ),
			use_of(p.plain[GPU1], 50000, writes ? WEIR_OVERWRITE : WEIR_READ)};

		p.t0 = p.b->ops->now_ns(p.b);
		expect_after(&p, kernel(&p, 0, both, 2, 0), LAUNCH_HOST + 10000);
	}
	ports_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_sends_to_several),
		cmocka_unit_test(test_host_port_frees_and_ways),
		cmocka_unit_test(test_port_shares_max_min),
		cmocka_unit_test(test_stores_divide_the_egress),
		cmocka_unit_test(test_both_ways_divide_the_port),
		cmocka_unit_test(test_ports_at_both_ends),
		cmocka_unit_test(test_port_without_the_host_link),
		cmocka_unit_test(test_kernel_shares_its_hbm),
		cmocka_unit_test(test_copy_takes_both_hbms),
		cmocka_unit_test(test_copy_on_a_compute_stream),
		cmocka_unit_test(test_kernel_beside_a_neighbours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
