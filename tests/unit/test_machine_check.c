/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every contradiction that a machine description can hold is found and named; the machine and
 * stream handles of the public header.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "tests/unit/test_sim_machine.h"

static void expect_why(const struct weir_machine_desc *desc, const char *part)
{
	char why[128] = "";

	assert_int_equal(weir_machine_check(desc, why, sizeof(why)), -WEIR_EMACHINE);
	if (!strstr(why, part))
		fail_msg("\"%s\" does not say \"%s\"", why, part);
}

/* Break a sound description in one place. */
#define BROKEN(part, ...)                   \
	do {                                \
		struct weir_machine_desc m; \
                                            \
		test_machine(&m);           \
		__VA_ARGS__;                \
		expect_why(&m, part);       \
	} while (0)

static void test_check_sound(void **state)
{
	struct weir_machine_desc m;
	char why[8] = "keep";

	(void)state;
	test_machine(&m);
	assert_int_equal(weir_machine_check(&m, why, sizeof(why)), 0);
	assert_string_equal(why, "keep");
	assert_int_equal(weir_machine_check(&m, NULL, 0), 0);
}

static void test_check_counts_and_names(void **state)
{
	(void)state;
	BROKEN("no name", m.name[0] = 0);
	BROKEN("no name", memset(m.name, 'x', sizeof(m.name)));
	BROKEN("0 memories", m.nr_memories = 0);
	BROKEN("18 memories", m.nr_memories = WEIR_MEMORIES_MAX + 1);
	BROKEN("0 devices", m.nr_devices = 0);
	BROKEN("17 devices", m.nr_devices = WEIR_DEVICES_MAX + 1);
	BROKEN("137 links", m.nr_links = WEIR_LINKS_MAX + 1);
	BROKEN("memory 1", m.memory[1].name[0] = 0);
	BROKEN("called 'host'", strcpy(m.memory[2].name, "host"));
	BROKEN("called 'gpu0'", strcpy(m.device[1].name, "gpu0"));
	BROKEN("device 1", memset(m.device[1].name, 'x', WEIR_NAME_MAX));
}

static void test_check_memories(void **state)
{
	(void)state;
	BROKEN("unknown kind", m.memory[2].kind = (enum weir_memory_kind)7);
	BROKEN("bytes is zero", m.memory[2].bytes = 0);
	BROKEN("64 TiB", m.memory[0].bytes = UINT64_MAX);
	BROKEN("no memory of kind host", m.memory[0].kind = WEIR_MEMORY_HBM);
	BROKEN("smaller than granularity", m.memory[2].bytes = 4095);
	BROKEN("granularity", m.vmm.granularity_bytes = 2048);
	BROKEN("granularity", m.vmm.granularity_bytes = 12288);
	BROKEN("granularity", m.vmm.granularity_bytes = 0);
}

static void test_check_devices(void **state)
{
	(void)state;
	BROKEN("not an HBM", m.device[0].memory = 3);
	BROKEN("not an HBM", m.device[0].memory = HOST);
	BROKEN("have one HBM", m.device[1].memory = GPU0);
	BROKEN("HBM of no device", m.nr_devices = 1);
	BROKEN("hbm_bytes_per_s", m.device[0].hbm_bytes_per_s = 0);
	BROKEN("hbm_random_bytes_per_s", m.device[0].hbm_random_bytes_per_s = NAN);
	BROKEN("ops_per_s", m.device[1].ops_per_s = -1);
	BROKEN("ops_per_s", m.device[1].ops_per_s = INFINITY);
}

static void test_check_links(void **state)
{
	(void)state;
	BROKEN("no such memory", m.link[0].a = 3);
	BROKEN("one memory", m.link[2].b = GPU0);
	BROKEN("must be its end a", m.link[0].a = GPU0, m.link[0].b = HOST);
	BROKEN("is there twice", m.link[2].a = HOST);
	BROKEN("is there twice", m.link[1].b = GPU0);
	BROKEN("no link to the host", m.link[1] = m.link[2], m.nr_links = 2);
	BROKEN("in duplex", m.link[0].duplex_bytes_per_s = 5e9);
	BROKEN("a_to_b_bytes_per_s", m.link[0].a_to_b_bytes_per_s = 0);
	BROKEN("b_to_a_bytes_per_s", m.link[0].b_to_a_bytes_per_s = -1);
	BROKEN("duplex_bytes_per_s", m.link[0].duplex_bytes_per_s = 0);
	BROKEN("inplace_bytes_per_s", m.link[0].inplace_bytes_per_s = 0);
	BROKEN("inplace_small_per_s", m.link[0].inplace_small_per_s = 0);
	BROKEN("inplace_large_per_s", m.link[0].inplace_large_per_s = 0);
	BROKEN("inplace_reach_bytes", m.link[0].inplace_reach_bytes = 0);
	BROKEN("inplace_request_bytes", m.link[0].inplace_request_bytes = 0);
	BROKEN("inplace_duplex_bytes_per_s", m.link[0].inplace_duplex_bytes_per_s = 0);
	BROKEN("inplace_both_bytes_per_s", m.link[0].inplace_both_bytes_per_s = 0);
	BROKEN("inplace_update_large_per_s", m.link[0].inplace_update_large_per_s = 0);
	BROKEN("event_ns", m.link[2].event_ns = UINT64_C(1000000001));
	BROKEN("plan_work_ns", m.device[0].plan_work_ns = UINT64_C(1000000001));
	BROKEN("copy_host_ns", m.link[0].copy_host_ns = UINT64_C(1000000001));
	BROKEN("inplace_serial", m.link[0].inplace_serial = -0.1);
	BROKEN("inplace_serial", m.link[2].inplace_serial = 1.1);
	BROKEN("inplace_serial", m.link[2].inplace_serial = NAN);
	BROKEN("inplace_serial_random", m.link[0].inplace_serial_random = 1.1);
	BROKEN("inplace_serial_random", m.link[2].inplace_serial_random = NAN);
	assert_int_equal(weir_machine_check(NULL, NULL, 0), -WEIR_EMACHINE);
}

static void test_check_uvm(void **state)
{
	struct weir_machine_desc sound;

	(void)state;
	test_machine(&sound);
	sound.uvm = (struct weir_uvm_desc){.batch_faults = 256, .batch_ns = 1};
	assert_int_equal(weir_machine_check(&sound, NULL, 0), 0);
	BROKEN("uvm: batch_faults is zero", m.uvm.batch_ns = 1);
	BROKEN("uvm: batch_faults is zero", m.uvm.page_ns = 1);
	BROKEN("uvm: batch_faults is zero", m.uvm.populate_ns = 1);
	BROKEN("uvm: batch_faults is zero", m.uvm.cpu_unmap_ns = 1);
	BROKEN("uvm: batch_faults is zero", m.uvm.host_page_ns = 1);
	BROKEN("uvm: batch_faults is zero", m.uvm.context_bytes = 1);
	BROKEN("uvm: context_bytes leaves nothing", m.uvm.batch_faults = 1,
	       m.uvm.context_bytes = m.memory[1].bytes);
	BROKEN("uvm: batch_faults is beyond 4096", m.uvm.batch_faults = 4097);
	BROKEN("uvm: populate_ns is beyond a second", m.uvm.batch_faults = 1,
	       m.uvm.populate_ns = 1000000001);
}

static void count_message(void *arg, enum weir_log_level level, const char *message)
{
	(void)message;
	if (level == WEIR_LOG_ERROR)
		++*(int *)arg;
}

/* n kernels, named apart. */
static void list_kernels(struct weir_machine_desc *m, uint32_t n)
{
	m->nr_kernels = n;
	for (uint32_t i = 0; i < n && i < WEIR_KERNELS_MAX; i++) {
		snprintf(m->kernel[i].name, WEIR_NAME_MAX, "kernel%u", i);
		m->kernel[i].factor = 0.5 + i;
	}
}

static void test_check_kernels(void **state)
{
	struct weir_machine_desc sound;

	(void)state;
	test_machine(&sound);
	list_kernels(&sound, WEIR_KERNELS_MAX);
	assert_int_equal(weir_machine_check(&sound, NULL, 0), 0);
	BROKEN("65 kernels", list_kernels(&m, WEIR_KERNELS_MAX + 1));
	BROKEN("kernel 1: no name", list_kernels(&m, 2), m.kernel[1].name[0] = 0);
	BROKEN("kernel 0", list_kernels(&m, 1), memset(m.kernel[0].name, 'x', WEIR_NAME_MAX));
	BROKEN("'kernel0' is there twice", list_kernels(&m, 2), m.kernel[1] = m.kernel[0]);
	BROKEN("kernel 'kernel1': factor", list_kernels(&m, 2), m.kernel[1].factor = 0);
	BROKEN("factor", list_kernels(&m, 1), m.kernel[0].factor = INFINITY);
	BROKEN("factor", list_kernels(&m, 1), m.kernel[0].factor = NAN);
}

static void list_ports(struct weir_machine_desc *m, uint32_t n)
{
	m->nr_ports = n;
	for (uint32_t i = 0; i < n && i < WEIR_PORTS_MAX; i++)
		m->port[i] = (struct weir_port_desc){i % 3, i / 3 % 16 + 1, 6e9, 5e9};
}

static void test_check_ports(void **state)
{
	struct weir_machine_desc sound;

	(void)state;
	test_machine(&sound);
	list_ports(&sound, 48);
	assert_int_equal(weir_machine_check(&sound, NULL, 0), 0);
	BROKEN("137 ports", list_ports(&m, WEIR_PORTS_MAX + 1));
	BROKEN("port 3: no such memory", list_ports(&m, 4), m.port[3].memory = 3);
	BROKEN("port 'host-0': links is not 1 to 16", list_ports(&m, 1), m.port[0].links = 0);
	BROKEN("links", list_ports(&m, 2), m.port[1].links = 17);
	BROKEN("port 'host-1' is there twice", list_ports(&m, 5), m.port[3].links = 1);
	BROKEN("port 'gpu0-1': send_bytes_per_s", list_ports(&m, 2),
	       m.port[1].send_bytes_per_s = 0);
	BROKEN("receive_bytes_per_s", list_ports(&m, 2), m.port[1].receive_bytes_per_s = NAN);
}

static void test_machine_handles(void **state)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_stream *stream;
	int nr_errors = 0;

	(void)state;
	weir_log_set(count_message, &nr_errors);
	test_machine(&desc);
	desc.nr_devices = 0;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), -WEIR_EMACHINE);
	assert_int_equal(nr_errors, 1);
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, (enum weir_data)5, &machine), -EINVAL);
	assert_int_equal(nr_errors, 2);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	assert_string_equal(weir_machine_describe(machine)->name, "test");
	assert_int_equal(weir_memory_find(machine, "gpu1"), GPU1);
	assert_int_equal(weir_memory_find(machine, "gpu2"), -ENOENT);
	assert_int_equal(weir_memory_find(machine, NULL), -ENOENT);
	assert_int_equal(weir_stream_create(machine, 2, &stream), -EINVAL);
	assert_int_equal(weir_stream_create(machine, 1, &stream), 0);
	assert_int_equal(stream_device(stream), 1);
	assert_int_equal(weir_stream_launch(stream, NULL), -EINVAL);
	assert_int_equal(launch_touch(machine_backend(machine), stream_id(stream),
				      (struct touch){0}, NULL, 0),
			 0);
	assert_int_equal(weir_stream_sync(stream), 0);
	assert_int_equal(weir_machine_now_ns(machine), 300 + 500);
	weir_stream_destroy(stream);
	weir_stream_destroy(NULL);
	weir_machine_close(machine);
	weir_machine_close(NULL);
	assert_int_equal(nr_errors, 2);
	weir_log_set(NULL, NULL);
	log_error("nobody hears this");
	assert_int_equal(nr_errors, 2);
}

/* What was measured is checked before a driver is looked for, and before it is read. */
static void test_machine_measured_is_checked(void **state)
{
	struct weir_machine *machine = NULL;
	struct weir_machine_desc desc;

	(void)state;
	test_machine(&desc);
	desc.nr_links = UINT32_MAX;
	assert_int_equal(weir_machine_cuda(&desc, &machine), -WEIR_EMACHINE);
	assert_null(machine);
}

static void test_machine_leak_is_reported(void **state)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct backend *b;
	struct backend_chunk chunk;
	void *addr;
	int nr_errors = 0;

	(void)state;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	b = machine_backend(machine);
	assert_int_equal(sim_leaks(b), 0);
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), 0, &chunk), 0);
	assert_int_equal(b->ops->va_reserve(b, MIB(2), MIB(1), &addr), 0);
	assert_int_equal(b->ops->map(b, addr, &chunk, BACKEND_PROT_WRITE, 1), 0);
	/* Its work is not done either. */
	assert_int_equal(b->ops->upload(b, stream_id(stream), addr, "x", 1), 0);
	assert_int_equal(launch_touch(b, stream_id(stream), (struct touch){0}, NULL, 0), 0);
	assert_int_equal(sim_leaks(b), 4);
	weir_log_set(count_message, &nr_errors);
	weir_machine_close(machine);
	weir_log_set(NULL, NULL);
	assert_int_equal(nr_errors, 4); /* handle, memory, reservation, stream */
	free(stream);
}

static void test_strings(void **state)
{
	(void)state;
	assert_string_equal(weir_version(), "0.1.0");
	assert_string_equal(weir_strerror(-ENOMEM), weir_strerror(ENOMEM));
	assert_non_null(strstr(weir_strerror(-WEIR_ETRAP), "kernel"));
	assert_string_not_equal(weir_strerror(WEIR_ECONTRACT), weir_strerror(WEIR_EMACHINE));
	assert_non_null(weir_strerror(INT32_MIN));
	assert_non_null(weir_strerror(99999));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_sound),
		cmocka_unit_test(test_check_counts_and_names),
		cmocka_unit_test(test_check_memories),
		cmocka_unit_test(test_check_devices),
		cmocka_unit_test(test_check_links),
		cmocka_unit_test(test_check_kernels),
		cmocka_unit_test(test_check_ports),
		cmocka_unit_test(test_check_uvm),
		cmocka_unit_test(test_machine_handles),
		cmocka_unit_test(test_machine_measured_is_checked),
		cmocka_unit_test(test_machine_leak_is_reported),
		cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
