/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring through the CUDA backend, on a driver without a GPU: the figures mean nothing, but all
 * are there, the driver sees no race and no leak, the description can be written, read, and handed
 * to weir_machine_cuda(); and whichever driver call fails, the measurement ends with an error, or
 * without one where there is another way, and gives everything back. Under the thread sanitizer,
 * which looks at every byte that is copied, no call fails but with WEIR_TEST_LONG. Under the
 * address sanitizer there are two devices, and one where calls fail.
 *
 * Takes 50 s of a processor: a whole measurement of one to three devices, and one for each call
 * that fails.
 *
 * Labels: threads
 * Timeout: 300
 * Long: yes
 * Links: cuda-fake
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/machine_fields.h"
#include "machine/machine_make.h"
#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "src/backend/machine.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/amount.h"
#include "workloads/gcn/cuda.h"
#include "workloads/probe/cuda.h"
#include "workloads/probe/probe.h"

/* The build says where the libraries are; this is for tools that read single files. */
#ifndef GCN_FAKE_PATH
#define GCN_FAKE_PATH "libweir-gcn-fake.so"
#endif
#ifndef PROBE_FAKE_PATH
#define PROBE_FAKE_PATH "libweir-probe-fake.so"
#endif

#define MIB(n) ((uint64_t)(n) << 20)

static struct fakecuda_config fake = {
	.devices = 1,
	.hbm_bytes = MIB(32),
	.host_bytes = MIB(64),
	.granularity = 4096,
};

static const struct probe_options quick = {
	.device = PROBE_ALL_DEVICES, .quick = true, .host_bytes = MIB(16)};

/* On a driver as it was never used. */
static struct weir_machine *machine_open(const struct weir_machine_desc *measured)
{
	struct cuda_config config = {.library = FAKECUDA_PATH, .measured = measured};
	struct weir_machine *machine = NULL;
	struct backend *b = NULL;

	fakecuda_reset(&fake);
	assert_int_equal(cuda_create(&config, &b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	return machine;
}

static void assert_nothing_left(void)
{
	char problem[256];

	fakecuda_problem(problem, sizeof(problem));
	assert_string_equal(problem, "");
	assert_int_equal(fakecuda_nr_races(), 0);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	assert_int_equal(fakecuda_managed_bytes(), 0);
}

static void measure(struct probe_result *result)
{
	struct weir_machine *machine;
	char err[256] = "";

	machine = machine_open(NULL);
	if (probe_run(machine, &quick, result, err, sizeof(err)))
		fail_msg("%s", err);
	weir_machine_close(machine);
	assert_nothing_left();
	assert_int_equal(fakecuda_nr_calls_of("cuMemAllocManaged"), 0);
}

/* ------------------------------------------------------------------ the description */

/* Every field of a section has a record. */
static void expect_records(const struct probe_result *r, const char *object,
			   const struct machine_section *section)
{
	char path[128];

	for (const struct machine_field *field = section->fields; field->key; field++) {
		const struct probe_record *record;

		if (!strcmp(field->key, "granularity_bytes"))
			continue; /* the driver says */
		snprintf(path, sizeof(path), "%s.%s", object, field->key);
		record = probe_record_find(r, path);
		if (!record) {
			fail_msg("no record of %s", path);
			return;
		}
		assert_true(!record->nr || (isfinite(record->median) && record->median >= 0));
		assert_true(isfinite(record->estimate));
		assert_non_null(record->how);
	}
}

static void origin_of(void *arg, const char *path, enum weir_machine_origin *origin, char **source)
{
	(void)arg;
	*origin = WEIR_ORIGIN_MEASURED;
	*source = strdup(path);
}

/* Written and read back, it is the same, and a real machine takes its rates. */
static void expect_usable(const struct weir_machine_desc *desc)
{
	struct machine_file made, read;
	struct weir_machine *machine;
	const struct weir_machine_desc *taken;
	char err[512] = "";
	char *text;

	assert_int_equal(machine_make(desc, "a fake", origin_of, NULL, &made), 0);
	text = machine_format(&made);
	assert_non_null(text);
	if (machine_parse(text, strlen(text), "text", &read, err, sizeof(err)))
		fail_msg("%s", err);
	free(text);
	machine_file_fini(&made);
	assert_memory_equal(&read.desc.device, &desc->device, sizeof(desc->device));
	assert_memory_equal(&read.desc.link, &desc->link, sizeof(desc->link));
	assert_memory_equal(&read.desc.vmm, &desc->vmm, sizeof(desc->vmm));

	machine = machine_open(&read.desc);
	taken = weir_machine_describe(machine);
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		assert_memory_equal(&taken->device[d], &desc->device[d], sizeof(desc->device[d]));
	for (uint32_t l = 0; l < desc->nr_links; l++)
		assert_memory_equal(&taken->link[l], &desc->link[l], sizeof(desc->link[l]));
	assert_memory_equal(&taken->vmm, &desc->vmm, sizeof(desc->vmm));
	assert_int_equal(taken->nr_ports, desc->nr_ports);
	assert_memory_equal(&taken->port, &desc->port, sizeof(desc->port[0]) * desc->nr_ports);
	weir_machine_close(machine);
	machine_file_fini(&read);
}

/* A record that is no constant's, measured or not. */
static void expect_shown(const struct probe_result *r, const char *path, bool measured)
{
	const struct probe_record *record = probe_record_find(r, path);

	if (!record || (record->nr > 0) != measured || !record->how)
		fail_msg("%s: %s", path, record ? record->how : "no record");
	else
		assert_true(!measured || (isfinite(record->median) && record->median >= 0));
}

/* What two devices do together, linked or not. Calls may all be over later than what they run
 * beside. */
static void expect_pair(const struct probe_result *r, bool linked)
{
	static const char *const beside[] = {"host_to_gpu0",   "gpu0_to_host", "host_to_gpu1",
					     "gpu1_to_host",   "gpu0_to_gpu1", "gpu1_to_gpu0",
					     "kernels_at_gpu1"};
	char path[PROBE_PATH_MAX];

	expect_shown(r, "at_once.to_gpus.host_to_gpu1_bytes_per_s", true);
	expect_shown(r, "at_once.to_host.all_bytes_per_s", true);
	expect_shown(r, "at_once.host_both_ways.all_bytes_per_s", true);
	expect_shown(r, "at_once.out.all_bytes_per_s", linked);
	expect_shown(r, "at_once.in.all_bytes_per_s", linked);
	expect_shown(r, "at_once.in_and_out.all_bytes_per_s", linked);
	expect_shown(r, "events.round_ns", true);
	expect_shown(r, "pieces.both_ways.4_kib_in_batches_bytes_per_s", linked);
	assert_true(!probe_record_find(r, "pieces.gpu0_to_gpu1.64_kib_bytes_per_s") == !linked);
	/* There is no room for such. */
	assert_null(probe_record_find(r, "pieces.gpu0_to_gpu1.64_mib_bytes_per_s"));
	expect_shown(r, "beside.nothing.unmap_ns", true);
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		snprintf(path, sizeof(path), "beside.%s.set_access_ns", beside[i]);
		assert_true((probe_record_find(r, path) != NULL) == (linked || i < 4));
	}
	if (!linked)
		expect_shown(r, "link.gpu0_to_gpu1_bytes_per_s", false);
}

/* What memories do over several links at once. */
static void expect_ports(const struct probe_result *r, int nr_devices, bool linked)
{
	uint32_t nr_ports = 0;

	expect_shown(r, "ports.host.send.2_links_bytes_per_s", true);
	expect_shown(r, "ports.host.both_ways.receive.2_links_bytes_per_s", true);
	expect_shown(r, "ports.gpu0.send.1_links_bytes_per_s", linked);
	if (linked && nr_devices == 3) {
		expect_shown(r, "ports.host.receive.3_links_bytes_per_s", true);
		expect_shown(r, "ports.gpu0.both_ways.send.2_links_bytes_per_s", true);
		expect_shown(r, "ports.gpu0.stores.2_links_bytes_per_s", true);
		expect_shown(r, "ports.gpu0.loads.2_links_bytes_per_s", true);
		expect_shown(r, "ports.gpu2.read_by_two.gpu1_bytes_per_s", true);
		expect_shown(r, "ports.gpu2.written_by_two.all_bytes_per_s", true);
		nr_ports = 2 + 3 * 2;
	} else {
		expect_shown(r, "ports.third.read_by_two.all_bytes_per_s", false);
		nr_ports = 1;
	}
	assert_int_equal(r->desc.nr_ports, nr_ports);
	expect_shown(r, "port[0].send_bytes_per_s", true);
}

static void measure_whole(int nr_devices, bool linked)
{
	struct probe_result result;
	char object[32];

	fake.devices = nr_devices;
	fake.no_peers = !linked;
	measure(&result);
	assert_int_equal(result.desc.nr_devices, nr_devices);
	assert_int_equal(result.desc.nr_links,
			 linked ? nr_devices * (nr_devices + 1) / 2 : nr_devices);
	for (uint32_t d = 0; d < result.desc.nr_devices; d++) {
		snprintf(object, sizeof(object), "device[%u]", d);
		expect_records(&result, object, &machine_device_section);
	}
	for (uint32_t l = 0; l < result.desc.nr_links; l++) {
		snprintf(object, sizeof(object), "link[%u]", l);
		expect_records(&result, object, &machine_link_section);
	}
	expect_records(&result, "vmm", &machine_vmm_section);
	expect_shown(&result, "pack.4_bytes.1_of_1_per_s", true);
	expect_shown(&result, "unpack.16_bytes.1_of_64_bytes_per_s", true);
	if (nr_devices > 1) {
		expect_pair(&result, linked);
		expect_ports(&result, nr_devices, linked);
	}
	expect_usable(&result.desc);
	probe_result_fini(&result);
	fake.devices = 1;
	fake.no_peers = false;
}

static void test_probe_cuda_one_device(void **state)
{
	(void)state;
	if (TEST_SANITIZED && !TEST_TSAN)
		skip();
	measure_whole(1, true);
}

static void test_probe_cuda_three_devices(void **state)
{
	(void)state;
	if (TEST_SANITIZED)
		skip();
	measure_whole(3, true);
}

static void test_probe_cuda_two_devices_apart(void **state)
{
	(void)state;
	if (TEST_TSAN)
		skip();
	measure_whole(2, false);
}

/* ------------------------------------------------------------------ failures */

static int stop_at(void *arg, double fraction, const char *label)
{
	uint32_t *left = arg;

	assert_true(fraction >= 0 && fraction <= 1);
	assert_non_null(label);
	return --*left == 0;
}

static void test_probe_cuda_stopped(void **state)
{
	struct probe_options options = quick;
	struct weir_machine *machine;
	struct probe_result result;
	char err[256];

	(void)state;
	if (TEST_TSAN)
		skip();
	options.progress = stop_at;
	for (uint32_t stop = 1; stop < 90; stop += TEST_SANITIZED ? 89 : 44) {
		uint32_t left = stop;

		options.progress_arg = &left;
		machine = machine_open(NULL);
		assert_int_equal(probe_run(machine, &options, &result, err, sizeof(err)), -EINTR);
		weir_machine_close(machine);
		assert_nothing_left();
	}
}

static void test_probe_cuda_no_such_device(void **state)
{
	struct probe_options options = quick;
	struct weir_machine *machine;
	struct probe_result result;
	char err[256];

	(void)state;
	options.device = 1;
	machine = machine_open(NULL);
	assert_int_equal(probe_run(machine, &options, &result, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "no device 1"));
	weir_machine_close(machine);
	assert_nothing_left();
}

/* Calls all over a measurement fail, one a run; nr_tried of them, four at least. */
static void calls_fail(int nr_devices, uint64_t nr_tried)
{
	uint64_t first, nr, half = nr_tried / 2;
	struct weir_machine *machine;
	struct probe_result result;
	uint32_t nr_failed = 0;
	char err[256];

	fake.devices = nr_devices;
	machine = machine_open(NULL);
	first = fakecuda_nr_calls();
	assert_int_equal(probe_run(machine, &quick, &result, err, sizeof(err)), 0);
	nr = fakecuda_nr_calls() - first;
	probe_result_fini(&result);
	weir_machine_close(machine);
	for (uint64_t i = 0; i < nr_tried; i++) {
		/* The first ones open what the rest is measured with: each of them, then here and
		 * there. */
		uint64_t at = i < half ? i + 1 : nr / half * (i - half) + i;

		machine = machine_open(NULL);
		fakecuda_fail_at(at, i % 2 ? CU_OUT_OF_MEMORY : CU_NOT_SUPPORTED);
		err[0] = '\0';
		if (probe_run(machine, &quick, &result, err, sizeof(err))) {
			assert_non_null(strstr(err, "measuring"));
			nr_failed++;
		} else {
			probe_result_fini(&result);
		}
		fakecuda_fail_at(0, 0);
		weir_machine_close(machine);
		assert_int_equal(fakecuda_leaks(stderr), 0);
	}
	print_message("%u of %llu failures showed, of %llu calls\n", nr_failed,
		      (unsigned long long)nr_tried, (unsigned long long)nr);
	/* How often the host is looked at to be ahead, and so how many calls there are, varies. */
	assert_true(nr_failed > nr_tried / 3);
	fake.devices = 1;
}

static void test_probe_cuda_driver_calls_fail(void **state)
{
	static const struct test_amount failures = {3, 2, 200};

	(void)state;
	if (TEST_TSAN && !getenv("WEIR_TEST_LONG"))
		skip();
	calls_fail(1, test_amount(NULL, failures));
}

static void test_probe_cuda_driver_calls_of_two_fail(void **state)
{
	static const struct test_amount failures = {2, 2, 100};

	(void)state;
	if (TEST_SANITIZED && !getenv("WEIR_TEST_LONG"))
		skip();
	calls_fail(2, test_amount(NULL, failures));
}

static int kernels_load(void **state)
{
	(void)state;
	if (setenv("WEIR_CUDA_KERNELS", GCN_FAKE_PATH, 1) ||
	    setenv("WEIR_PROBE_KERNELS", PROBE_FAKE_PATH, 1))
		return -1;
	return gcn_cuda_load() || probe_cuda_load() ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probe_cuda_one_device),
		cmocka_unit_test(test_probe_cuda_three_devices),
		cmocka_unit_test(test_probe_cuda_two_devices_apart),
		cmocka_unit_test(test_probe_cuda_stopped),
		cmocka_unit_test(test_probe_cuda_no_such_device),
		cmocka_unit_test(test_probe_cuda_driver_calls_fail),
		cmocka_unit_test(test_probe_cuda_driver_calls_of_two_fail),
	};

	return cmocka_run_group_tests(tests, kernels_load, NULL);
}
