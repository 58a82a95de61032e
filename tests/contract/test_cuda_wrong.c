/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong on the CUDA backend: a context that is lost, a driver that refuses one call of
 * several, clocks that do not agree, streams that are captured, a process that forked. On the
 * driver without a GPU.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include "src/backend/machine.h"
#include "tests/contract/test_cuda.h"

#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------------ a context that is lost */

struct planned {
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	uint8_t *range[3];
};

#define BLOCKS 16

/* A space whose ranges are twice its budget. */
static void planned_open(struct planned *p)
{
	const struct weir_space_config config = {
		.budget_bytes = {[GPU0] = 24 * UNIT}, .block_bytes = UNIT, .mode = WEIR_PLANNED};
	struct backend *b;

	fakecuda_reset(&fake);
	assert_int_equal(test_kernels_load(), 0);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &p->machine), 0);
	assert_int_equal(weir_stream_create(p->machine, 0, &p->stream), 0);
	assert_int_equal(weir_space_create(p->machine, &config, &p->space), 0);
	for (int r = 0; r < 3; r++)
		assert_int_equal(
			weir_alloc(p->space, BLOCKS * UNIT, p->stream, (void **)&p->range[r]), 0);
}

/* range[to] = range[from] + 1, but the kernel goes `beyond` bytes beyond the end. */
static int planned_step(struct planned *p, int from, int to, uint64_t beyond)
{
	const struct test_add_args args = {p->range[from], p->range[to], BLOCKS * UNIT + beyond, 1};
	const struct weir_use uses[] = {use_of(p->range[from], BLOCKS * UNIT, WEIR_READ),
					use_of(p->range[to], BLOCKS * UNIT, WEIR_OVERWRITE)};
	const struct weir_launch launch = {.kernel = &test_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};
	int err = weir_begin(p->space, p->stream, uses, 2), err_end;

	if (err)
		return err;
	err = weir_stream_launch(p->stream, &launch);
	err_end = weir_end(p->space, p->stream);
	return err ? err : err_end;
}

static void planned_close(struct planned *p)
{
	weir_space_destroy(p->space);
	weir_stream_destroy(p->stream);
	weir_machine_close(p->machine);
	weir_log_set(NULL, NULL);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* One line, all that follows fails and nothing hangs, and nothing is left behind. */
static void test_lost_context(void **state)
{
	struct planned p;
	struct log_watch log;
	int err;

	(void)state;
	planned_open(&p);
	for (int i = 0; i < 6; i++)
		assert_int_equal(planned_step(&p, i % 3, (i + 1) % 3, 0), 0);
	log_watch(&log, WEIR_LOG_ERROR);
	(void)planned_step(&p, 0, 1, 64 * UNIT);
	err = weir_stream_sync(p.stream);
	if (!err) /* the space has waited for it before */
		err = weir_space_sync(p.space);
	assert_int_equal(err, -WEIR_ETRAP);
	assert_int_not_equal(planned_step(&p, 1, 2, 0), 0);
	assert_int_not_equal(weir_write(p.space, p.range[0], "x", 1), 0);
	assert_int_not_equal(weir_stream_sync(p.stream), 0);
	assert_int_equal(log.nr, 1);
	assert_has(log.first, "context is lost");
	planned_close(&p);
	assert_int_equal(log.nr, 1);
}

/* The program resets the device under a machine that is open. */
static void test_destroyed_context(void **state)
{
	struct planned p;
	struct log_watch log;

	(void)state;
	planned_open(&p);
	for (int i = 0; i < 3; i++)
		assert_int_equal(planned_step(&p, i % 3, (i + 1) % 3, 0), 0);
	/* It takes with it what runs, of which there is nothing here. */
	assert_int_equal(weir_stream_sync(p.stream), 0);
	assert_int_equal(weir_space_sync(p.space), 0);
	log_watch(&log, WEIR_LOG_ERROR);
	fakecuda_fail_symbol("cuCtxPushCurrent_v2", 0, CU_CONTEXT_IS_DESTROYED);
	assert_int_not_equal(planned_step(&p, 0, 1, 0), 0);
	assert_int_not_equal(weir_stream_sync(p.stream), 0);
	assert_int_not_equal(weir_space_sync(p.space), 0); /* and returns */
	assert_int_equal(log.nr, 1);
	fakecuda_fail_symbol("cuCtxPushCurrent_v2", 0, 0);
	planned_close(&p);
}

/* The context is lost just when a wait needs an event: the wait says so, and not that there is no
 * memory. */
static void test_lost_context_before_a_wait(void **state)
{
	struct planned p;

	(void)state;
	planned_open(&p);
	assert_int_equal(planned_step(&p, 0, 1, 0), 0);
	fakecuda_fail_symbol("cuEventCreate", 0, CU_LAUNCH_FAILED);
	(void)planned_step(&p, 1, 2, 0);
	assert_int_not_equal(weir_stream_sync(p.stream), -ENOMEM);
	assert_int_not_equal(weir_space_sync(p.space), -ENOMEM);
	fakecuda_fail_symbol("cuEventCreate", 0, 0);
	planned_close(&p);
}

/* ------------------------------------------------------------------ one call of several */

/* Copies of one call: the driver takes the first lot and refuses the second. */
static void test_copy_half_refused(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_copy pieces[100];
	struct backend_chunk host, gpu;

	assert_int_equal(b->ops->chunk_create(b, HOST, 100 * KIB(4), 0, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 100 * KIB(4), 0, &gpu), 0);
	for (uint32_t i = 0; i < 100; i++)
		pieces[i] = (struct backend_copy){(char *)gpu.alias + i * KIB(4),
						  (char *)host.alias + i * KIB(4), KIB(4)};
	fakecuda_delay(fakecuda_stream(1), 5000000);
	fakecuda_fail_symbol("cuMemcpyBatchAsync_v2", 1, CU_INVALID_VALUE);
	assert_int_equal(b->ops->copy(b, c->in, pieces, 100), -EINVAL);
	fakecuda_fail_symbol("cuMemcpyBatchAsync_v2", 0, 0);
	assert_int_equal(fakecuda_nr_pending(fakecuda_stream(1)), 0);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
}

/* Who gets access and who loses it: one call, so that it happens or it does not. */
static void test_access_changes_whole(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	uint64_t nr;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, 0, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	nr = fakecuda_nr_calls_of("cuMemSetAccess");
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 2), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuMemSetAccess"), nr + 1);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_NONE);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_READ);
	fakecuda_fail_symbol("cuMemSetAccess", 0, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 1), -ENOTSUP);
	fakecuda_fail_symbol("cuMemSetAccess", 0, 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_NONE);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_READ);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
}

/* What the driver may do with two buffers of the host is not relied on. */
static void test_host_blocks_are_the_cpus(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	uint8_t *va, in = 7, out = 0;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 0, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	fakecuda_delay(fakecuda_stream(0), 3000000);
	assert_int_equal(b->ops->upload(b, c->compute, va, &in, 1), 0);
	assert_int_equal(contract_add(b, c->compute, va, va, 1, 1), 0);
	assert_int_equal(b->ops->download(b, c->compute, &out, va, 1), 0);
	assert_int_equal(out, 8);
	assert_int_equal(fakecuda_nr_calls_of("cuMemcpyAsync"), 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
	assert_no_problem();
}

/* Who polls a fence hears that the driver gives no answer, instead of "not yet" for ever. */
static void test_fence_without_answer(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence;

	fakecuda_gate(fakecuda_stream(0), true);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	fakecuda_fail_symbol("cuCtxPushCurrent_v2", 0, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->fence_done(b, fence), -ENOTSUP);
	assert_int_equal(b->ops->fence_wait(b, fence), -ENOTSUP);
	fakecuda_fail_symbol("cuCtxPushCurrent_v2", 0, 0);
	assert_int_equal(b->ops->fence_done(b, fence), 0);
	fakecuda_gate(fakecuda_stream(0), false);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
}

/* ------------------------------------------------------------------ what others hold */

/* A management library that knows of three processes, one of them this one. */
static const char nvml_source[] =
	"#include <unistd.h>\n"
	"#include <string.h>\n"
	"struct p { unsigned pid; unsigned long long used; unsigned gi, ci; };\n"
	"int nvmlInit_v2(void) { return 0; }\n"
	"int nvmlShutdown(void) { return 0; }\n"
	"int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **out)\n"
	"{ *out = 0; return strcmp(pci, \"0000:19:00.0\") ? 6 : 0; }\n"
	"int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *nr, struct p *out)\n"
	"{\n"
	"	struct p p[] = {{getpid(), 5, 0, 0}, {1, 12345678901, 0, 0},\n"
	"			{0x7fffffff, -1, 0, 0}};\n"
	"	if (*nr < 3)\n"
	"		return 7;\n"
	"	memcpy(out, p, sizeof(p));\n"
	"	*nr = 3;\n"
	"	return 0;\n"
	"}\n";

/* The library, built with CC; the caller unlinks it. */
static void nvml_build(char path[64])
{
	char command[512];
	FILE *cc;
	int fd;

	snprintf(path, 64, "/tmp/weir-nvml-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "%s -w -shared -fPIC -o %s -x c -",
		 getenv("CC") ? getenv("CC") : "cc", path);
	cc = popen(command, "w");
	assert_non_null(cc);
	assert_true(fputs(nvml_source, cc) >= 0);
	assert_int_equal(pclose(cc), 0);
}

/* A budget beyond what another process leaves: told how much there is and who has the rest. */
static void test_budget_beyond_free(void **state)
{
	struct weir_space_config config = {
		.budget_bytes = {[GPU0] = MIB(8)}, .block_bytes = UNIT, .mode = WEIR_PLANNED};
	struct backend *mine, *theirs;
	struct weir_machine *machine;
	struct weir_space *space;
	struct log_watch log;
	char path[64];
	void *held;

	(void)state;
	nvml_build(path);
	fakecuda_reset(&fake);
	assert_int_equal(
		cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH, .nvml = path}, &mine),
		0);
	assert_int_equal(machine_wrap(mine, &machine), 0);
	assert_int_equal(open_backend(&theirs), 0);
	assert_int_equal(theirs->ops->device_alloc(theirs, GPU0, MIB(12), &held), 0);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(weir_space_create(machine, &config, &space), -ENOMEM);
	assert_int_equal(log.nr, 1);
	assert_has(log.first, "a budget of 8.4 MB is beyond the 4.2 MB that can be had of gpu0");
	assert_has(log.first, "(nothing is held; process 1 (");
	assert_has(log.first, "): 12.3 GB, process 2147483647");
	config.budget_bytes[GPU0] = MIB(17);
	assert_int_equal(weir_space_create(machine, &config, &space), -EINVAL);
	assert_int_equal(log.nr, 2);
	/* The same memory as a neighbour's. */
	config.devices = WEIR_MEM_DEVICE(1);
	config.budget_bytes[GPU0] = MIB(8);
	assert_int_equal(weir_space_create(machine, &config, &space), -ENOMEM);
	assert_has(log.last, "can be had of gpu0");
	assert_has(log.last, "): 12.3 GB, process 2147483647");
	config.budget_bytes[GPU0] = MIB(2);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	assert_int_equal(weir_space_set_budget(space, GPU0, MIB(8)), -ENOMEM);
	assert_has(log.last, "can be had of gpu0");
	assert_has(log.last, "): 12.3 GB, process 2147483647");
	weir_space_destroy(space);
	config.devices = 0;
	log.nr = 2;
	/* Of what is there; and all that is there, as far as it goes. */
	config.budget_bytes[GPU0] = MIB(4);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	weir_space_destroy(space);
	config.budget_bytes[GPU0] = 0;
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	weir_space_destroy(space);
	assert_int_equal(log.nr, 2);
	weir_log_set(NULL, NULL);
	theirs->ops->device_free(theirs, held);
	theirs->ops->destroy(theirs);
	weir_machine_close(machine);
	unlink(path);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* Another process takes the rest of the GPU's memory after the budget was granted: what is missing
 * is used on the host, with the same bytes; and when that has no room either, the call says so. */
static void test_memory_taken_meanwhile(void **state)
{
	struct planned p;
	struct backend *theirs;
	struct log_watch log;
	uint8_t back = 0;
	void *held;
	int err = 0;

	(void)state;
	planned_open(&p);
	assert_int_equal(open_backend(&theirs), 0);
	assert_int_equal(
		theirs->ops->device_alloc(
			theirs, GPU0, fake.hbm_bytes - fakecuda_used_bytes(0) - 5 * UNIT, &held),
		0);
	log_watch(&log, WEIR_LOG_WARNING);
	assert_int_equal(weir_write(p.space, p.range[0], "A", 1), 0);
	for (int i = 0; i < 12; i++)
		assert_int_equal(planned_step(&p, i % 3, (i + 1) % 3, 0), 0);
	assert_int_equal(weir_read(p.space, &back, p.range[0], 1), 0);
	assert_int_equal(back, 'A' + 12);
	assert_true(fakecuda_used_bytes(0) <= fake.hbm_bytes);
	/* One line, not one a block. */
	assert_int_equal(log.nr, 1);
	assert_has(log.first, "gpu0: cannot create a chunk beyond");
	assert_int_equal(weir_space_check(p.space), 0);
	/* The host refuses, too. */
	fakecuda_fail_symbol("cuMemCreate", 0, CU_OUT_OF_MEMORY);
	for (int r = 0; r < 3; r++)
		assert_int_equal(weir_free(p.space, p.range[r], p.stream), 0);
	for (int r = 0; r < 3; r++)
		assert_int_equal(weir_alloc(p.space, 24 * UNIT, p.stream, (void **)&p.range[r]), 0);
	for (int i = 0; i < 6 && !err; i++) {
		const struct weir_use use = use_of(p.range[i % 3], 24 * UNIT, WEIR_WRITE);

		err = weir_begin(p.space, p.stream, &use, 1);
		if (!err)
			err = weir_end(p.space, p.stream);
	}
	assert_int_equal(err, -ENOMEM);
	fakecuda_fail_symbol("cuMemCreate", 0, 0);
	assert_int_equal(weir_space_check(p.space), 0);
	theirs->ops->device_free(theirs, held);
	theirs->ops->destroy(theirs);
	planned_close(&p);
}

/* Nothing can be pinned, or the driver asks for something: one line at the start. */
static void test_refused_at_the_start(void **state)
{
	static const struct {
		const char *symbol;
		cu_result result;
		int err;
		const char *says;
	} cases[] = {
		{"cuMemCreate", CU_OUT_OF_MEMORY, -ENOMEM, "no host memory be pinned"},
		{"cuMemCreate", CU_OPERATING_SYSTEM, -EIO, "ulimit -l"},
		{"cuInit", CU_OUT_OF_MEMORY, -ENOMEM, "no memory to initialise with"},
		{"cuDevicePrimaryCtxRetain", CU_OUT_OF_MEMORY, -ENOMEM,
		 "no memory to open the GPUs"},
		{"cuEventCreate", CU_OUT_OF_MEMORY, -ENOMEM, "no memory to open the GPUs"},
		{"cuMemGetInfo_v2", CU_OUT_OF_MEMORY, -ENOMEM, "no memory to open the GPUs"},
		{"cuInit", CU_SYSTEM_NOT_READY, -EIO, "nvidia-fabricmanager"},
		{"cuInit", CU_SYSTEM_DRIVER_MISMATCH, -EIO, "restart the machine"},
		{"cuInit", CU_STUB_LIBRARY, -EIO, "LD_LIBRARY_PATH"},
		{"cuInit", CU_NO_DEVICE, -ENODEV, "CUDA_VISIBLE_DEVICES"},
		{"cuDevicePrimaryCtxRetain", CU_DEVICE_UNAVAILABLE, -EIO, "to itself"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct log_watch log;
		struct backend *b;

		fakecuda_reset(&fake);
		fakecuda_fail_symbol(cases[i].symbol, 0, cases[i].result);
		log_watch(&log, WEIR_LOG_ERROR);
		assert_int_equal(open_backend(&b), cases[i].err);
		assert_int_equal(log.nr, 1);
		assert_has(log.first, cases[i].says);
		assert_int_equal(fakecuda_leaks(stderr), 0);
	}
	weir_log_set(NULL, NULL);
}

/* ------------------------------------------------------------------ clocks, capture, fork */

/* A device's clock that is slow, or fast: times stay between the record and now. */
static void test_clocks_disagree(void **state)
{
	static const int percents[] = {60, 170};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fakecuda_config off = fake;
		stream_id_t stream;
		struct backend *b;

		off.clock_percent = percents[i];
		fakecuda_reset(&off);
		assert_int_equal(open_backend(&b), 0);
		assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream), 0);
		for (int n = 0; n < 20; n++) {
			uint64_t before, time;
			fence_t fence;

			b->ops->host_spend(b, 2000000);
			before = b->ops->now_ns(b);
			assert_int_equal(b->ops->fence_record(b, stream, &fence), 0);
			while (!b->ops->fence_done(b, fence))
				;
			time = b->observe->fence_time_ns(b, fence);
			assert_in_range(time, before, b->ops->now_ns(b));
		}
		b->ops->stream_destroy(b, stream);
		b->ops->destroy(b);
		assert_int_equal(fakecuda_leaks(stderr), 0);
	}
}

static void test_captured_stream(void **state)
{
	struct planned p;
	struct log_watch log;

	(void)state;
	planned_open(&p);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(fakecuda_capture(weir_stream_native(p.stream), true), 0);
	assert_int_equal(planned_step(&p, 0, 1, 0), -WEIR_ECONTRACT);
	assert_has(log.first, "captured");
	assert_int_equal(log.nr, 1);
	assert_int_equal(fakecuda_capture(weir_stream_native(p.stream), false), 0);
	assert_int_equal(planned_step(&p, 0, 1, 0), 0);
	planned_close(&p);
}

/* A child that ends like its parent would does not wait for threads that it does not have. */
static void test_forked_process(void **state)
{
	struct planned p;
	int status = -1;
	pid_t child;

	(void)state;
	planned_open(&p);
	child = fork();
	if (!child) {
		alarm(20);
		weir_machine_close(p.machine);
		_exit(7);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	planned_close(&p);
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_context),
		cmocka_unit_test(test_destroyed_context),
		cmocka_unit_test(test_lost_context_before_a_wait),
		CASE(test_copy_half_refused),
		CASE(test_access_changes_whole),
		CASE(test_host_blocks_are_the_cpus),
		CASE(test_fence_without_answer),
		cmocka_unit_test(test_budget_beyond_free),
		cmocka_unit_test(test_memory_taken_meanwhile),
		cmocka_unit_test(test_refused_at_the_start),
		cmocka_unit_test(test_clocks_disagree),
		cmocka_unit_test(test_captured_stream),
		cmocka_unit_test(test_forked_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
