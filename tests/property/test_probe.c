/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring a simulated machine gives that machine's description: every constant within 2 %. That
 * of the machines of machines/, and of machines whose constants are theirs times random factors.
 * Seeds are printed; WEIR_TEST_SEED and WEIR_TEST_CASES change the first one and how many there
 * are.
 *
 * What measuring starts from is wrong on purpose, so that a constant which is not measured shows:
 * only those may be assumed that nothing on the machine can tell.
 *
 * Takes 3 s of a processor: each of 20 machines is measured in whole.
 *
 * Long: yes
 */
#include "src/backend/flaky/flaky.h"
#include "tests/property/test_probe_machine.h"
#include "tests/support/amount.h"

#define FIRST_SEED 7100u
static const struct test_amount cases = {20, 3, 240};
static const struct test_amount failures = {100, 20, 400};
static const struct test_amount failures_of_two = {40, 10, 100};
#define MOST_S 30.0 /* of two GPUs' time, to be measured */
#define WRONG 3

/* ------------------------------------------------------------------ comparing */

/* A constant, by its name. may_assume: nothing can tell, so the (wrong) estimate stands. */
static void expect(const struct probe_result *r, const char *object, uint32_t index,
		   const char *field, double got, double truth, bool may_assume)
{
	const struct probe_record *record;
	char path[PROBE_PATH_MAX];
	double off = truth > 0 ? got / truth - 1 : got;

	if (index == UINT32_MAX)
		snprintf(path, sizeof(path), "%s.%s", object, field);
	else
		snprintf(path, sizeof(path), "%s[%u].%s", object, index, field);
	record = probe_record_find(r, path);
	if (!record) {
		fail_msg("%s: no record", path);
		return;
	}
	if (!record->nr && may_assume)
		return;
	if (!record->nr)
		fail_msg("%s: not measured: %s", path, record->how);
	assert_true(record->min <= record->median && record->median <= record->max);
	if (off > TOLERANCE || off < -TOLERANCE)
		fail_msg("%s: %.6g measured, is %.6g (seed %llu)", path, got, truth,
			 (unsigned long long)current_seed);
}

#define EXPECT(object, index, got, truth, field, may_assume) \
	expect(r, object, index, #field, (double)(got)->field, (double)(truth)->field, may_assume)

static void expect_device(const struct probe_result *r, uint32_t d,
			  const struct weir_device_desc *truth)
{
	const struct weir_device_desc *got = &r->desc.device[d];

	assert_string_equal(got->name, truth->name);
	EXPECT("device", d, got, truth, hbm_bytes_per_s, false);
	EXPECT("device", d, got, truth, hbm_random_bytes_per_s, false);
	EXPECT("device", d, got, truth, ops_per_s, false);
	EXPECT("device", d, got, truth, launch_ns, false);
	EXPECT("device", d, got, truth, launch_host_ns, false);
	EXPECT("device", d, got, truth, malloc_ns, false);
	EXPECT("device", d, got, truth, malloc_2mib_ns, false);
	EXPECT("device", d, got, truth, plan_work_ns, true);
}

/* host: of the host; footprints that can be tried go beyond reach. */
static void expect_link(const struct probe_result *r, uint32_t l,
			const struct weir_link_desc *truth, bool host)
{
	const struct weir_link_desc *got = &r->desc.link[l];
	bool request = truth->inplace_small_per_s * truth->inplace_request_bytes <
		       0.88 * truth->inplace_bytes_per_s;

	EXPECT("link", l, got, truth, a_to_b_bytes_per_s, false);
	EXPECT("link", l, got, truth, b_to_a_bytes_per_s, false);
	EXPECT("link", l, got, truth, duplex_bytes_per_s, false);
	EXPECT("link", l, got, truth, latency_ns, false);
	EXPECT("link", l, got, truth, copy_ns, false);
	EXPECT("link", l, got, truth, copy_host_ns, false);
	EXPECT("link", l, got, truth, inplace_bytes_per_s, false);
	EXPECT("link", l, got, truth, inplace_small_per_s, false);
	EXPECT("link", l, got, truth, inplace_large_per_s, !host);
	EXPECT("link", l, got, truth, inplace_reach_bytes, !host);
	EXPECT("link", l, got, truth, inplace_request_bytes, !request);
	EXPECT("link", l, got, truth, inplace_duplex_bytes_per_s, false);
	EXPECT("link", l, got, truth, inplace_both_bytes_per_s, false);
	EXPECT("link", l, got, truth, inplace_update_large_per_s, !host);
	EXPECT("link", l, got, truth, inplace_serial, host);
	EXPECT("link", l, got, truth, inplace_serial_random, host);
	EXPECT("link", l, got, truth, event_ns, host);
}

static void expect_vmm(const struct probe_result *r, const struct weir_machine_desc *truth)
{
	const struct weir_vmm_desc *got = &r->desc.vmm, *vmm = &truth->vmm;

	assert_int_equal(got->granularity_bytes, vmm->granularity_bytes);
	EXPECT("vmm", UINT32_MAX, got, vmm, map_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, set_access_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, set_access_device_ns, truth->nr_devices == 1);
	EXPECT("vmm", UINT32_MAX, got, vmm, unmap_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, set_access_host_mib_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, unmap_host_mib_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, set_access_busy_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, set_access_busy_in_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, unmap_busy_peer_ns, truth->nr_devices == 1);
	EXPECT("vmm", UINT32_MAX, got, vmm, create_hbm_ns, false);
	EXPECT("vmm", UINT32_MAX, got, vmm, create_host_ns, false);
}

/* A rate over several links at once, which is a link's, less what each copy takes beside its bytes:
 * 4 % of 64 MiB between two H200s. */
static void expect_at_once(const struct probe_result *r, const char *name, double truth)
{
	const struct probe_record *record;
	char path[PROBE_PATH_MAX];

	snprintf(path, sizeof(path), "at_once.%s_bytes_per_s", name);
	record = shown(r, path);
	if (!record || !record->nr || record->median > 1.001 * truth ||
	    record->median < 0.95 * truth)
		fail_msg("%s: %.6g, not %.6g", path, record ? record->median : NAN, truth);
}

/* A mapping call beside something. */
static void expect_beside(const struct probe_result *r, const char *name, const char *call,
			  uint64_t truth_ns)
{
	const struct probe_record *record;
	char path[PROBE_PATH_MAX];

	snprintf(path, sizeof(path), "beside.%s.%s_ns", name, call);
	record = shown(r, path);
	if (!record || !record->nr ||
	    fabs(record->median - (double)truth_ns) > TOLERANCE * record->median)
		fail_msg("%s: %.6g, not %.6g", path, record ? record->median : NAN,
			 (double)truth_ns);
}

/* A rate of copies: of nr pieces, which have so many latencies. */
static void expect_pieces_of(const struct probe_result *r, const char *name, uint32_t nr,
			     uint32_t nr_calls, uint64_t bytes, const struct weir_link_desc *link,
			     double rate)
{
	double ns = (double)(nr_calls * link->latency_ns + nr * link->copy_ns) +
		    (double)nr * (double)bytes / rate * 1e9;
	double truth = (double)nr * (double)bytes / ns * 1e9;
	const struct probe_record *record;
	char path[PROBE_PATH_MAX];

	snprintf(path, sizeof(path), "pieces.%s_bytes_per_s", name);
	record = shown(r, path);
	if (!record || !record->nr || fabs(record->median - truth) > TOLERANCE * truth)
		fail_msg("%s: %.6g, not %.6g", path, record ? record->median : NAN, truth);
}

/* A rate of elements packed, or unpacked: bytes go through the first device's memory for each. */
static void expect_packets_of(const struct probe_result *r, const struct weir_machine_desc *truth,
			      const char *name, uint32_t element_bytes, uint32_t bytes)
{
	const struct probe_record *record;
	double rate = truth->device[0].hbm_bytes_per_s / bytes;
	char path[PROBE_PATH_MAX];

	snprintf(path, sizeof(path), "%s_per_s", name);
	record = shown(r, path);
	if (!record || !record->nr || fabs(record->median - rate) > TOLERANCE * rate)
		fail_msg("%s: %.6g, not %.6g", path, record ? record->median : NAN, rate);
	snprintf(path, sizeof(path), "%s_bytes_per_s", name);
	record = shown(r, path);
	assert_non_null(record);
	assert_true(fabs(record->median / rate / element_bytes - 1) < TOLERANCE);
}

/* For each element 4 bytes of a list, itself, and its sector or the part of it that is its own; a
 * sector of which only a part is written is read, too. */
static void expect_packets(const struct probe_result *r, const struct weir_machine_desc *truth)
{
	expect_packets_of(r, truth, "pack.4_bytes.1_of_1", 4, 4 + 4 + 4);
	expect_packets_of(r, truth, "unpack.4_bytes.1_of_1", 4, 4 + 4 + 4);
	expect_packets_of(r, truth, "pack.4_bytes.1_of_2", 4, 4 + 4 + 8);
	expect_packets_of(r, truth, "unpack.4_bytes.1_of_2", 4, 4 + 4 + 2 * 8);
	expect_packets_of(r, truth, "pack.4_bytes.1_of_64", 4, 4 + 4 + 32);
	expect_packets_of(r, truth, "pack.16_bytes.1_of_1", 16, 4 + 16 + 16);
	expect_packets_of(r, truth, "unpack.16_bytes.1_of_8", 16, 4 + 16 + 2 * 32);
}

/* Copies between the two, by the size of their pieces. */
static void expect_pieces(const struct probe_result *r, const struct weir_link_desc *link)
{
	double alone = link->a_to_b_bytes_per_s, both = link->duplex_bytes_per_s;

	expect_pieces_of(r, "gpu0_to_gpu1.4_kib", 64, 64, UINT64_C(4) << 10, link, alone);
	expect_pieces_of(r, "gpu0_to_gpu1.1_mib", 64, 64, UINT64_C(1) << 20, link, alone);
	expect_pieces_of(r, "gpu0_to_gpu1.64_mib", 4, 4, UINT64_C(64) << 20, link, alone);
	expect_pieces_of(r, "gpu0_to_gpu1.4_kib_in_batches", 1024, 1, UINT64_C(4) << 10, link,
			 alone);
	expect_pieces_of(r, "gpu0_to_gpu1.256_kib_in_batches", 256, 1, UINT64_C(256) << 10, link,
			 alone);
	expect_pieces_of(r, "both_ways.64_kib_in_batches", 1024, 1, UINT64_C(64) << 10, link, both);
	expect_pieces_of(r, "both_ways.64_mib_in_batches", 1, 1, UINT64_C(64) << 20, link, both);
}

/* What the two GPUs of h200x2 do together: in the simulator links share nothing but what the
 * host's port carries, and copies hold up some mapping calls. */
static void expect_pair(const struct probe_result *r, const struct weir_machine_desc *truth)
{
	const struct probe_record *record;
	const struct weir_link_desc *host = &truth->link[0], *peer = &truth->link[2];
	const struct weir_vmm_desc *vmm = &truth->vmm;
	const struct {
		const char *name;
		uint64_t access_ns, unmap_ns;
	} beside[] = {{"nothing", 0, 0},
		      {"host_to_gpu0", vmm->set_access_busy_in_ns, 0},
		      {"gpu0_to_host", vmm->set_access_busy_ns, 0},
		      {"host_to_gpu1", 0, 0},
		      {"gpu1_to_host", vmm->set_access_busy_ns, 0},
		      {"gpu0_to_gpu1", 0, vmm->unmap_busy_peer_ns},
		      {"gpu1_to_gpu0", 0, vmm->unmap_busy_peer_ns},
		      {"kernels_at_gpu1", 0, 0}};

	expect_at_once(r, "to_gpus.host_to_gpu0", host->a_to_b_bytes_per_s);
	expect_at_once(r, "to_gpus.host_to_gpu1", host->a_to_b_bytes_per_s);
	expect_at_once(r, "to_gpus.all", 2 * host->a_to_b_bytes_per_s);
	expect_at_once(r, "to_host.gpu0_to_host", host->b_to_a_bytes_per_s);
	expect_at_once(r, "to_host.gpu1_to_host", host->b_to_a_bytes_per_s);
	expect_at_once(r, "to_host.all", 2 * host->b_to_a_bytes_per_s);
	expect_at_once(r, "host_both_ways.gpu1_to_host", host->duplex_bytes_per_s);
	expect_at_once(r, "host_both_ways.all", 4 * host->duplex_bytes_per_s);
	expect_at_once(r, "out.gpu0_to_gpu1", peer->a_to_b_bytes_per_s);
	expect_at_once(r, "out.gpu1_to_host", host->b_to_a_bytes_per_s);
	expect_at_once(r, "in.host_to_gpu1", host->a_to_b_bytes_per_s);
	expect_at_once(r, "in.gpu1_to_gpu0", peer->b_to_a_bytes_per_s);
	expect_at_once(r, "in_and_out.gpu1_to_gpu0", peer->duplex_bytes_per_s);
	expect_at_once(r, "in_and_out.host_to_gpu1", host->duplex_bytes_per_s);
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		expect_beside(r, beside[i].name, "map", vmm->map_ns);
		expect_beside(r, beside[i].name, "unmap", vmm->unmap_ns + beside[i].unmap_ns);
		expect_beside(r, beside[i].name, "set_access",
			      vmm->set_access_ns + beside[i].access_ns);
	}
	record = shown(r, "events.round_ns");
	assert_non_null(record);
	assert_int_equal(record->median, 2 * peer->event_ns);
	expect_pieces(r, &truth->link[2]);
}

/* Every rate and cost is another one. */
static void make_wrong(struct weir_machine_desc *desc)
{
	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		struct weir_device_desc *device = &desc->device[d];

		device->hbm_bytes_per_s *= WRONG;
		device->hbm_random_bytes_per_s *= WRONG;
		device->ops_per_s *= WRONG;
		device->launch_ns *= WRONG;
		device->launch_host_ns *= WRONG;
		device->malloc_ns *= WRONG;
		device->malloc_2mib_ns *= WRONG;
	}
	for (uint32_t l = 0; l < desc->nr_links; l++) {
		struct weir_link_desc *link = &desc->link[l];

		link->a_to_b_bytes_per_s *= WRONG;
		link->b_to_a_bytes_per_s *= WRONG;
		link->duplex_bytes_per_s *= WRONG;
		link->latency_ns *= WRONG;
		link->copy_ns *= WRONG;
		link->copy_host_ns = WRONG * link->copy_host_ns + 12345;
		link->inplace_bytes_per_s *= WRONG;
		link->inplace_small_per_s *= WRONG;
		link->inplace_large_per_s *= WRONG;
		link->inplace_reach_bytes *= WRONG;
		link->inplace_request_bytes *= WRONG;
		link->inplace_duplex_bytes_per_s *= WRONG;
		link->inplace_both_bytes_per_s *= WRONG;
		link->inplace_update_large_per_s *= WRONG;
		link->inplace_serial = 1 - link->inplace_serial;
		link->inplace_serial_random = 1 - link->inplace_serial_random;
		link->event_ns = WRONG * link->event_ns + 12345;
	}
	for (uint32_t i = 0; i < desc->nr_ports; i++) {
		desc->port[i].send_bytes_per_s *= WRONG;
		desc->port[i].receive_bytes_per_s *= WRONG;
	}
	desc->vmm.map_ns *= WRONG;
	desc->vmm.set_access_ns *= WRONG;
	desc->vmm.set_access_device_ns *= WRONG;
	desc->vmm.unmap_ns *= WRONG;
	desc->vmm.set_access_host_mib_ns *= WRONG;
	desc->vmm.unmap_host_mib_ns *= WRONG;
	desc->vmm.set_access_busy_ns *= WRONG;
	desc->vmm.set_access_busy_in_ns = WRONG * desc->vmm.set_access_busy_in_ns + 12345;
	desc->vmm.unmap_busy_peer_ns = WRONG * desc->vmm.unmap_busy_peer_ns + 12345;
	desc->vmm.create_hbm_ns *= WRONG;
	desc->vmm.create_host_ns *= WRONG;
}

static void expect_same(const struct weir_machine_desc *truth, bool quick)
{
	struct weir_machine_desc wrong = *truth;
	const struct probe_options options = {
		.device = PROBE_ALL_DEVICES, .quick = quick, .estimates = &wrong};
	struct probe_result r;
	char err[256] = "";

	make_wrong(&wrong);
	measure(truth, &options, INFINITY, &r);
	assert_int_equal(weir_machine_check(&r.desc, err, sizeof(err)), 0);
	assert_int_equal(r.desc.nr_memories, truth->nr_memories);
	for (uint32_t m = 0; m < truth->nr_memories; m++)
		assert_int_equal(r.desc.memory[m].bytes, truth->memory[m].bytes);
	for (uint32_t d = 0; d < truth->nr_devices; d++)
		expect_device(&r, d, &truth->device[d]);
	for (uint32_t l = 0; l < truth->nr_links; l++)
		expect_link(&r, l, &truth->link[l],
			    truth->memory[truth->link[l].a].kind == WEIR_MEMORY_HOST);
	expect_vmm(&r, truth);
	if (truth->nr_devices > 1)
		expect_ports(&r, truth);
	else
		assert_int_equal(r.desc.nr_ports, truth->nr_ports);
	probe_result_fini(&r);
}

/* ------------------------------------------------------------------ tests */

static void test_probe_described_machines(void **state)
{
	static const char *const names[] = {"h200",   "rtx5090", "laptop",	 "h200x2",
					    "h200x4", "h200x8",	 "gv100x4-pcie3"};
	struct weir_machine_desc truth;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		print_message("%s\n", names[i]);
		load(names[i], &truth);
		expect_same(&truth, false);
		expect_same(&truth, true);
	}
}

/* As many GPUs as there may be. */
static void test_probe_sixteen(void **state)
{
	struct weir_machine_desc truth;

	(void)state;
	load("gv100x16-pcie6", &truth);
	assert_int_equal(truth.nr_devices, WEIR_DEVICES_MAX);
	expect_same(&truth, true);
}

/* What is measured of two GPUs together, beside the constants, and in which time. */
static void test_probe_pair(void **state)
{
	struct probe_options options = {.device = PROBE_ALL_DEVICES};
	struct weir_machine_desc truth;
	struct probe_result r;

	(void)state;
	load("h200x2", &truth);
	measure(&truth, &options, MOST_S, &r);
	expect_pair(&r, &truth);
	expect_packets(&r, &truth);
	assert_null(shown(&r, "link.gpu0_to_gpu1_bytes_per_s"));
	probe_result_fini(&r);
	options.quick = true;
	measure(&truth, &options, MOST_S / 2, &r);
	expect_pair(&r, &truth);
	probe_result_fini(&r);
	/* One of the two was asked for: nothing of both. */
	options.device = 1;
	measure(&truth, &options, MOST_S / 2, &r);
	assert_non_null(shown(&r, "link[2].rows_added_to_bytes_per_s"));
	assert_null(shown(&r, "at_once.to_gpus.all_bytes_per_s"));
	assert_null(shown(&r, "beside.nothing.map_ns"));
	assert_null(shown(&r, "events.round_ns"));
	probe_result_fini(&r);
}

/* Two GPUs, neither of which reaches the other's memory: a line says so, the rest is measured. */
static void test_probe_pair_without_link(void **state)
{
	const struct probe_options options = {.device = PROBE_ALL_DEVICES, .quick = true};
	struct weir_machine_desc truth;
	const struct probe_record *record;
	struct probe_result r;

	(void)state;
	load("h200x2", &truth);
	truth.nr_links = 2;
	measure(&truth, &options, MOST_S / 2, &r);
	record = shown(&r, "link.gpu0_to_gpu1_bytes_per_s");
	assert_non_null(record);
	assert_int_equal(record->nr, 0);
	assert_non_null(strstr(record->how, "neither of the two GPUs"));
	record = shown(&r, "at_once.out.all_bytes_per_s");
	assert_non_null(record);
	assert_int_equal(record->nr, 0);
	assert_null(shown(&r, "beside.gpu0_to_gpu1.map_ns"));
	assert_null(shown(&r, "beside.kernels_at_gpu1.map_ns"));
	expect_at_once(&r, "to_gpus.all", 2 * truth.link[0].a_to_b_bytes_per_s);
	expect_beside(&r, "gpu1_to_host", "unmap", truth.vmm.unmap_ns);
	expect_rate(&r, "host.send.2_links", 110e9);
	expect_no_rate(&r, "gpu0.send.1_links", "no other GPU reaches");
	expect_no_rate(&r, "third.read_by_two.all", "takes three GPUs");
	/* Those of GPUs stay, since nothing was measured of them. */
	assert_int_equal(r.desc.nr_ports, truth.nr_ports);
	assert_null(shown(&r, "port[0].send_bytes_per_s"));
	expect_port(&r, &truth, 0, 0, 2);
	probe_result_fini(&r);
}

struct random {
	uint64_t state;
};

/* From low to high, evenly in the logarithm's first approximation: x = low * (high / low)^u. */
static double between(struct random *r, double low, double high)
{
	double u;

	r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	u = (double)(r->state >> 11) / (double)(UINT64_C(1) << 53);
	return low * pow(high / low, u);
}

static void vary(struct random *r, double *x)
{
	*x *= between(r, 0.5, 2);
}

static void vary_ns(struct random *r, uint64_t *x)
{
	*x = (uint64_t)((double)*x * between(r, 0.5, 2)) + 1;
}

/* A link stays one: both ways at once no faster than one, in place no faster than copies, and
 * random access held back by the rate of accesses before it is by the link. */
static void vary_link(struct random *r, struct weir_link_desc *link, bool host)
{
	double slower;

	vary(r, &link->a_to_b_bytes_per_s);
	vary(r, &link->b_to_a_bytes_per_s);
	slower = fmin(link->a_to_b_bytes_per_s, link->b_to_a_bytes_per_s);
	link->duplex_bytes_per_s = slower * between(r, 0.5, 1);
	link->inplace_bytes_per_s = slower * between(r, 0.5, 1);
	link->inplace_duplex_bytes_per_s =
		fmin(link->duplex_bytes_per_s, link->inplace_bytes_per_s) * between(r, 0.3, 1);
	link->inplace_both_bytes_per_s =
		fmin(link->duplex_bytes_per_s, link->inplace_bytes_per_s) * between(r, 0.5, 1);
	link->inplace_request_bytes = 32u << (unsigned int)between(r, 1, 3.99);
	link->inplace_small_per_s = link->inplace_bytes_per_s / 32 * between(r, 0.2, 0.9);
	vary_ns(r, &link->latency_ns);
	vary_ns(r, &link->copy_ns);
	link->copy_host_ns = 5 * link->copy_ns;
	if (!host) {
		link->inplace_serial = between(r, 0.05, 1);
		link->inplace_serial_random = between(r, 0.05, 1);
		return;
	}
	link->inplace_large_per_s = link->inplace_small_per_s * between(r, 0.02, 0.4);
	link->inplace_update_large_per_s = link->inplace_large_per_s * between(r, 0.5, 1);
	link->inplace_reach_bytes = (uint64_t)between(r, 0x1p26, 0x1p30);
}

static void vary_machine(uint64_t seed, struct weir_machine_desc *desc)
{
	struct random r = {.state = seed * UINT64_C(0x9e3779b97f4a7c15)};

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		struct weir_device_desc *device = &desc->device[d];

		vary(&r, &device->hbm_bytes_per_s);
		vary(&r, &device->hbm_random_bytes_per_s);
		vary(&r, &device->ops_per_s);
		vary_ns(&r, &device->launch_ns);
		vary_ns(&r, &device->launch_host_ns);
		vary_ns(&r, &device->malloc_ns);
		vary_ns(&r, &device->malloc_2mib_ns);
	}
	for (uint32_t l = 0; l < desc->nr_links; l++)
		vary_link(&r, &desc->link[l],
			  desc->memory[desc->link[l].a].kind == WEIR_MEMORY_HOST);
	vary_ns(&r, &desc->vmm.map_ns);
	vary_ns(&r, &desc->vmm.set_access_ns);
	vary_ns(&r, &desc->vmm.set_access_device_ns);
	vary_ns(&r, &desc->vmm.unmap_ns);
	vary_ns(&r, &desc->vmm.set_access_host_mib_ns);
	vary_ns(&r, &desc->vmm.unmap_host_mib_ns);
	vary_ns(&r, &desc->vmm.set_access_busy_ns);
	desc->vmm.set_access_busy_in_ns = (uint64_t)between(&r, 1e4, 2e6);
	desc->vmm.unmap_busy_peer_ns = (uint64_t)between(&r, 1e4, 2e6);
	vary_ns(&r, &desc->vmm.create_hbm_ns);
	vary_ns(&r, &desc->vmm.create_host_ns);
}

static uint64_t env_u64(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 10) : otherwise;
}

static void test_probe_perturbed_machines(void **state)
{
	static const char *const names[] = {"h200", "laptop", "h200x4"};
	uint64_t first = env_u64("WEIR_TEST_SEED", FIRST_SEED);
	uint64_t nr = test_amount("WEIR_TEST_CASES", cases);
	struct weir_machine_desc truth;

	(void)state;
	print_message("seeds %llu to %llu\n", (unsigned long long)first,
		      (unsigned long long)(first + nr - 1));
	for (uint64_t seed = first; seed < first + nr; seed++) {
		current_seed = seed;
		load(names[seed % 3], &truth);
		vary_machine(seed, &truth);
		expect_same(&truth, seed % 2);
	}
}

/* Measured with so much of the host's memory, are there host chunks of two sizes? Else the (wrong)
 * estimates stand. */
static void expect_host_sizes(uint64_t granules, bool two)
{
	struct probe_options options = {.device = PROBE_ALL_DEVICES, .quick = true};
	struct weir_machine_desc truth, wrong;
	const struct weir_vmm_desc *expected;
	struct weir_machine *machine;
	struct probe_result result, *r = &result;
	char err[256] = "";

	load("laptop", &truth);
	wrong = truth;
	make_wrong(&wrong);
	expected = two ? &truth.vmm : &wrong.vmm;
	options.estimates = &wrong;
	options.host_bytes = granules * truth.vmm.granularity_bytes;
	assert_int_equal(weir_machine_simulate(&truth, WEIR_DATA_PHANTOM, &machine), 0);
	if (probe_run(machine, &options, r, err, sizeof(err)))
		fail_msg("%s", err);
	weir_machine_close(machine);
	assert_int_equal(probe_record_find(r, "vmm.unmap_host_mib_ns")->nr > 0, two);
	EXPECT("vmm", UINT32_MAX, &r->desc.vmm, expected, set_access_host_mib_ns, !two);
	EXPECT("vmm", UINT32_MAX, &r->desc.vmm, expected, unmap_host_mib_ns, !two);
	if (!two)
		assert_int_equal(r->desc.vmm.unmap_host_mib_ns, expected->unmap_host_mib_ns);
	probe_result_fini(r);
}

static void test_probe_little_host_memory(void **state)
{
	(void)state;
	expect_host_sizes(2, false);
	expect_host_sizes(4, true);
}

/* Calls all over a measurement fail, one a run: it ends with an error, or goes on where there is
 * another way, and gives everything back. */
static void calls_fail(const char *name, uint32_t nr_runs)
{
	const struct probe_options options = {.device = PROBE_ALL_DEVICES, .quick = true};
	uint64_t nr = nr_runs, nr_failed = 0;
	struct weir_machine_desc desc;

	load(name, &desc);
	/* The first run, in which none fails, says how many there are. */
	for (uint64_t i = 0; i <= nr_runs; i++) {
		uint64_t at = i < nr_runs / 2 ? i : i * nr / nr_runs;
		struct backend *sim, *flaky;
		struct weir_machine *machine;
		struct probe_result r;
		char err[256] = "";
		int ret;

		assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &sim), 0);
		assert_int_equal(flaky_create(sim, &flaky), 0);
		assert_int_equal(machine_wrap(flaky, &machine), 0);
		flaky_arm(flaky, at, -EIO);
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
		      nr_runs, (unsigned long long)nr);
	/* Not those of giving back, which are tried again. */
	assert_true(nr_failed > nr_runs * 3 / 4);
}

static void test_probe_calls_fail(void **state)
{
	(void)state;
	calls_fail("h200", (uint32_t)test_amount(NULL, failures));
}

static void test_probe_calls_of_two_fail(void **state)
{
	(void)state;
	calls_fail("h200x2", (uint32_t)test_amount(NULL, failures_of_two));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probe_described_machines),
		cmocka_unit_test(test_probe_sixteen),
		cmocka_unit_test(test_probe_pair),
		cmocka_unit_test(test_probe_pair_without_link),
		cmocka_unit_test(test_probe_perturbed_machines),
		cmocka_unit_test(test_probe_little_host_memory),
		cmocka_unit_test(test_probe_calls_fail),
		cmocka_unit_test(test_probe_calls_of_two_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
