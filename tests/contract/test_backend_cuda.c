/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the driver without a GPU can tell of the CUDA backend: opening in every way that fails,
 * who has access to what, how many events it takes, every driver call failing in turn. The contract
 * itself, on this driver and on real ones, is tests/gpu/test_backend.c.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "src/cost/cost.h"
#include "tests/contract/cases/cases.h"
#include "tests/fakecuda/fakecuda.h"

static const struct fakecuda_config fake = {
	.devices = 2,
	.hbm_bytes = MIB(16),
	.host_bytes = MIB(64),
	.granularity = KIB(4),
};

static int open_again(struct backend **out)
{
	return cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, out);
}

static int open_new(struct backend **out)
{
	fakecuda_reset(&fake);
	assert_int_equal(test_kernels_load(), 0);
	return open_again(out);
}

static void nothing_left(struct contract *c)
{
	char text[256];

	(void)c;
	fakecuda_problem(text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

static const struct contract_target target = {"fake", open_new, NULL, nothing_left,
					      CAN_BYTES | CAN_FULL | CAN_WAIT};

static void nothing_alive(struct contract *c)
{
	(void)c;
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* Whose tests make races on purpose. */
static const struct contract_target racy = {"racy fake", open_new, NULL, nothing_alive,
					    CAN_BYTES | CAN_FULL | CAN_WAIT};

/* ------------------------------------------------------------------ opening */

static void test_no_driver(void **state)
{
	struct fakecuda_config none = fake, old = fake;
	struct backend *b = NULL;

	(void)state;
	none.devices = -1;
	old.version = 12010;
	assert_int_equal(cuda_create(&(struct cuda_config){.library = "/none/libcuda.so.1"}, &b),
			 -ENODEV);
	/* A library, but not the driver's. */
	assert_int_equal(cuda_create(&(struct cuda_config){.library = "libm.so.6"}, &b), -ENOTSUP);
	fakecuda_reset(&none);
	assert_int_equal(open_again(&b), -ENODEV);
	fakecuda_reset(&old);
	assert_int_equal(open_again(&b), -ENOTSUP);
	fakecuda_reset(&fake);
	fakecuda_fail_symbol("cuInit", 0, CU_SYSTEM_DRIVER_MISMATCH);
	assert_int_equal(open_again(&b), -EIO);
	assert_null(b);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

static void test_description(void **state)
{
	struct contract *c = *state;
	const struct weir_machine_desc *desc = &c->b->desc;
	struct weir_machine_desc measured = *desc;
	struct backend *b;
	char text[64];

	assert_int_equal(weir_machine_check(desc, NULL, 0), 0);
	assert_int_equal(desc->nr_devices, 2);
	c->b->observe->device_text(c->b, 1, text, sizeof(text));
	assert_string_equal(text, "Fake H200, CUDA 13.0");
	assert_int_equal(desc->nr_memories, 3);
	assert_int_equal(desc->memory[GPU0].bytes, MIB(16));
	assert_int_equal(desc->vmm.granularity_bytes, KIB(4));
	assert_true(desc->device[0].hbm_bytes_per_s > 1e11);
	/* Rates are taken over, sizes are not. */
	measured.link[0].inplace_bytes_per_s = 12345;
	measured.device[0].hbm_bytes_per_s = 54321;
	measured.memory[GPU0].bytes = MIB(1);
	measured.vmm.unmap_ns = 77;
	measured.vmm.granularity_bytes = 1;
	measured.nr_kernels = 1;
	measured.kernel[0] = (struct weir_kernel_rate){"touch", 2};
	measured.nr_ports = 2;
	measured.port[0] = (struct weir_port_desc){9, 2, 1, 2}; /* of a GPU that is not there */
	measured.port[1] = (struct weir_port_desc){GPU1, 2, 3, 4};
	assert_int_equal(
		cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH, .measured = &measured},
			    &b),
		0);
	assert_true(b->desc.link[0].inplace_bytes_per_s == 12345);
	assert_true(b->desc.device[0].hbm_bytes_per_s == 54321);
	assert_int_equal(b->desc.memory[GPU0].bytes, MIB(16));
	assert_int_equal(b->desc.vmm.unmap_ns, 77);
	assert_true(cost_kernel_factor(&b->desc, "touch") == 2);
	assert_int_equal(b->desc.nr_ports, 1);
	assert_int_equal(b->desc.port[0].memory, GPU1);
	assert_int_equal(b->desc.vmm.granularity_bytes, KIB(4));
	b->ops->destroy(b);
}

/* ------------------------------------------------------------------ access */

static void test_alias_access(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;

	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), 0, &chunk), 0);
	assert_int_equal(fakecuda_used_bytes(0), MIB(1));
	/* The other device's copy engine reaches it, too; the CPU does not. */
	assert_int_equal(fakecuda_access(chunk.alias, 0), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(chunk.alias, 1), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(chunk.alias, -1), CU_ACCESS_NONE);
	b->ops->chunk_destroy(b, &chunk);
	assert_int_equal(fakecuda_used_bytes(0), 0);
	/* Or one device's alone. */
	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), 2, &chunk), 0);
	assert_int_equal(fakecuda_access(chunk.alias, 0), CU_ACCESS_NONE);
	assert_int_equal(fakecuda_access(chunk.alias, 1), CU_ACCESS_READWRITE);
	b->ops->chunk_destroy(b, &chunk);
	assert_int_equal(b->ops->chunk_create(b, HOST, MIB(1), 1, &chunk), 0);
	assert_int_equal(fakecuda_access(chunk.alias, 0), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(chunk.alias, 1), CU_ACCESS_NONE);
	assert_int_equal(fakecuda_access(chunk.alias, -1), CU_ACCESS_READWRITE);
	b->ops->chunk_destroy(b, &chunk);
}

static void test_mapping_access(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk gpu, host;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->map(b, va, &gpu, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 3), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READ);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_READ);
	/* Who is not named any more has no access any more. */
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 2), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_NONE);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->map(b, va, &host, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(va, -1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, BACKEND_HOST_BIT | 1), 0);
	assert_int_equal(fakecuda_access(va, -1), CU_ACCESS_READWRITE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(va, -1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &host);
	b->ops->va_release(b, va, c->unit);
}

/* ------------------------------------------------------------------ memory, work */

static void test_managed_guard(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *addr[2], *more = NULL;

	assert_int_equal(b->managed->alloc(b, MIB(2) + 1, &more), -EDQUOT);
	assert_int_equal(b->managed->alloc(b, UINT64_MAX, &more), -EDQUOT);
	assert_int_equal(b->managed->alloc(b, MIB(1), &addr[0]), 0);
	assert_int_equal(b->managed->alloc(b, MIB(1), &addr[1]), 0);
	assert_int_equal(b->managed->alloc(b, 1, &more), -EDQUOT);
	assert_null(more);
	assert_int_equal(fakecuda_managed_bytes(), MIB(2));
	assert_int_equal(b->managed->prefetch(b, c->compute, addr[0], MIB(1), GPU0), 0);
	assert_int_equal(b->managed->prefetch(b, c->compute, addr[0], MIB(1), HOST), 0);
	assert_int_equal(b->managed->prefetch(b, c->compute, &more, 1, GPU0), -EINVAL);
	contract_wait(b, c->compute);
	b->managed->free(b, addr[0]);
	assert_int_equal(b->managed->alloc(b, MIB(1), &addr[0]), 0);
	b->managed->free(b, addr[0]);
	b->managed->free(b, addr[1]);
	assert_int_equal(fakecuda_managed_bytes(), 0);
}

/* All kinds reach the driver as it knows them; what is wrong does not. */
static void test_managed_advise(void **state)
{
	static const struct {
		enum backend_advice advice;
		uint32_t to;
	} said[] = {
		{BACKEND_ADVICE_READ_MOSTLY, 99},    {BACKEND_ADVICE_UNSET_READ_MOSTLY, 99},
		{BACKEND_ADVICE_PREFERRED, HOST},    {BACKEND_ADVICE_PREFERRED, GPU0},
		{BACKEND_ADVICE_UNSET_PREFERRED, 9}, {BACKEND_ADVICE_ACCESSED_BY, 1},
		{BACKEND_ADVICE_ACCESSED_BY, 0},     {BACKEND_ADVICE_UNSET_ACCESSED_BY, 0},
	};
	struct contract *c = *state;
	struct backend *b = c->b;
	void *addr;

	assert_int_equal(b->managed->alloc(b, MIB(1), &addr), 0);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		fakecuda_fail_symbol("cuMemAdvise_v2", 0, CU_INVALID_VALUE);
		assert_int_not_equal(
			b->managed->advise(b, addr, MIB(1), said[i].advice, said[i].to), 0);
		fakecuda_fail_symbol("cuMemAdvise_v2", 0, 0);
		assert_int_equal(b->managed->advise(b, addr, MIB(1), said[i].advice, said[i].to),
				 0);
	}
	assert_int_equal(b->managed->advise(b, addr, MIB(1), BACKEND_ADVICE_PREFERRED, 9), -EINVAL);
	assert_int_equal(b->managed->advise(b, addr, MIB(1), BACKEND_ADVICE_ACCESSED_BY, 9),
			 -EINVAL);
	assert_int_equal(b->managed->advise(b, addr, MIB(1), BACKEND_ADVICE_NR, 0), -EINVAL);
	assert_int_equal(b->managed->advise(b, addr, MIB(1) - 1, BACKEND_ADVICE_READ_MOSTLY, 0),
			 -EINVAL);
	assert_int_equal(b->managed->advise(b, &addr, 1, BACKEND_ADVICE_READ_MOSTLY, 0), -EINVAL);
	b->managed->free(b, addr);
}

/* A budget of it is one more limit, and policies that the driver does not have are refused. */
static void test_managed_setup(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_managed setup = {.gpu_bytes = MIB(1)};
	void *addr = NULL;

	assert_int_equal(b->managed->setup(b, &setup), 0);
	assert_int_equal(b->managed->alloc(b, MIB(1) + 1, &addr), -EDQUOT);
	assert_int_equal(b->managed->alloc(b, MIB(1), &addr), 0);
	assert_int_equal(b->managed->setup(b, &setup), -EBUSY);
	b->managed->free(b, addr);
	setup.whole_blocks = true;
	assert_int_equal(b->managed->setup(b, &setup), -ENOTSUP);
	setup = (struct backend_managed){.device = 9};
	assert_int_equal(b->managed->setup(b, &setup), -EINVAL);
	setup = (struct backend_managed){.gpu_bytes = UINT64_MAX};
	assert_int_equal(b->managed->setup(b, &setup), -EINVAL);
	setup = (struct backend_managed){0};
	assert_int_equal(b->managed->setup(b, &setup), 0);
	assert_int_equal(b->managed->alloc(b, MIB(2), &addr), 0);
	b->managed->free(b, addr);
}

static void test_no_cuda_version(void **state)
{
	struct contract *c = *state;
	const struct weir_kernel kernel = {.name = "cpu-only"};
	const struct weir_launch launch = {.kernel = &kernel};

	assert_int_equal(c->b->ops->launch(c->b, c->compute, &launch), -ENOSYS);
}

static void test_native_stream(void **state)
{
	struct contract *c = *state;

	assert_ptr_equal(c->b->ops->stream_native(c->b, c->compute), fakecuda_stream(0));
}

/* What is queued afterwards waits for a stream of the program's own, as far as that is. */
static void test_waits_for_a_native_stream(void **state)
{
	static const char *const calls[] = {"cuStreamIsCapturing", "cuStreamGetCtx",
					    "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"};
	struct contract *c = *state;
	struct backend *b = c->b;
	void *native = fakecuda_stream(0); /* whose it is makes no difference */
	fence_t before, after;

	fakecuda_gate(native, true);
	assert_int_equal(b->ops->fence_record(b, c->in, &before), 0);
	assert_int_equal(b->ops->stream_wait_native(b, c->in, native), 0);
	assert_int_equal(b->ops->fence_record(b, c->in, &after), 0);
	assert_int_equal(b->ops->fence_wait(b, before), 0);
	b->ops->host_spend(b, 3000000);
	assert_int_equal(b->ops->fence_done(b, after), 0);
	fakecuda_gate(native, false);
	assert_int_equal(b->ops->fence_wait(b, after), 0);
	assert_int_equal(b->ops->stream_wait_native(b, c->in, NULL), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fakecuda_fail_symbol(calls[i], 0, CU_INVALID_VALUE);
		assert_true(b->ops->stream_wait_native(b, c->in, native) < 0);
		fakecuda_fail_symbol(calls[i], 0, 0);
	}
	assert_true(b->ops->stream_wait_native(b, 77, native) < 0);
	assert_int_equal(b->ops->stream_wait_native(b, c->in, native), 0);
}

/* A stream of the program's own, in weir's hands: its work is waited for, and it stays. */
static void test_adopts_a_native_stream(void **state)
{
	static const char *const calls[] = {"cuCtxPushCurrent_v2", "cuStreamGetCtx"};
	struct contract *c = *state;
	struct backend *b = c->b;
	void *native = fakecuda_stream(0);
	stream_id_t adopted = 0;
	fence_t fence;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fakecuda_fail_symbol(calls[i], 0, CU_INVALID_VALUE);
		assert_true(b->ops->stream_adopt(b, 0, native, &adopted) < 0);
		fakecuda_fail_symbol(calls[i], 0, 0);
	}
	assert_int_equal(b->ops->stream_adopt(b, 77, native, &adopted), -EINVAL);
	assert_int_equal(b->ops->stream_adopt(b, 0, native, &adopted), 0);
	assert_ptr_equal(b->ops->stream_native(b, adopted), native);
	fakecuda_gate(native, true);
	assert_int_equal(b->ops->fence_record(b, adopted, &fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 0);
	fakecuda_gate(native, false);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	b->ops->stream_destroy(b, adopted);
	assert_true(fakecuda_stream_device(native) == 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
}

/* No more than were open at a time, those whose times can be asked for, and a few. */
static void test_events_are_used_again(void **state)
{
	enum { NR = 1000, TIMES = 2048 };
	struct contract *c = *state;
	void *stream = fakecuda_stream(0);
	fence_t fence = 0;

	for (int round = 0; round < 5; round++) {
		fakecuda_gate(stream, true);
		for (int i = 0; i < NR; i++)
			assert_int_equal(c->b->ops->fence_record(c->b, c->compute, &fence), 0);
		fakecuda_gate(stream, false);
		assert_int_equal(c->b->ops->fence_wait(c->b, fence), 0);
	}
	assert_true(fakecuda_nr_calls_of("cuEventCreate") < NR + TIMES + 10);
}

/* ------------------------------------------------------------------ packets */

/* Elements 0 and 4 of a chunk, which is on the first GPU. */
static struct backend_packet packet_make(const struct backend_chunk *gpu,
					 const struct backend_chunk *host)
{
	uint32_t *list = host->alias;

	list[0] = 0;
	list[1] = 4;
	return (struct backend_packet){.elements = gpu->alias,
				       .packet = list + 4,
				       .index = list,
				       .nr = 2,
				       .element_bytes = 4,
				       .last = 4,
				       .sector_bytes = 32,
				       .unpack = true};
}

/* Kernels are loaded once a device, with its first packet, and tried again after a failure. */
static void test_packet_kernels_load(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk gpu, host;
	struct backend_packet packet;
	stream_id_t other;

	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COPY_IN, &other), 0);
	packet = packet_make(&gpu, &host);
	fakecuda_fail_symbol("cuModuleLoadDataEx", 0, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->packet(b, c->compute, &packet), -ENOTSUP);
	fakecuda_fail_symbol("cuModuleLoadDataEx", 0, 0);
	fakecuda_fail_symbol("cuModuleGetFunction", 7, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->packet(b, c->compute, &packet), -ENOTSUP);
	fakecuda_fail_symbol("cuModuleGetFunction", 0, 0);
	fakecuda_fail_symbol("cuLaunchKernel", 0, CU_OUT_OF_MEMORY);
	assert_int_equal(b->ops->packet(b, c->compute, &packet), -ENOMEM);
	fakecuda_fail_symbol("cuLaunchKernel", 0, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(b->ops->packet(b, c->compute, &packet), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuModuleLoadDataEx"), 3);
	/* Or ahead of that. */
	assert_int_equal(b->ops->packet_prepare(b, 1), 0);
	assert_int_equal(b->ops->packet_prepare(b, 1), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuModuleLoadDataEx"), 4);
	contract_wait(b, c->compute); /* both write the same elements */
	assert_int_equal(b->ops->packet(b, other, &packet), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuModuleLoadDataEx"), 4);
	contract_wait(b, other);
	b->ops->stream_destroy(b, other);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &host);
}

/* The same of digests, with the memory for their results; a failed one takes no ticket. */
static void test_digest_kernel_loads(void **state)
{
	static const char *const calls[] = {"cuModuleLoadDataEx", "cuModuleGetFunction",
					    "cuMemHostAlloc", "cuLaunchKernel"};
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t nr_loads = fakecuda_nr_calls_of("cuModuleLoadDataEx"), nr_allocs;
	uint32_t ticket[BACKEND_DIGESTS_MAX];
	struct backend_chunk gpu;

	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fakecuda_fail_symbol(calls[i], 0, CU_NOT_SUPPORTED);
		assert_int_equal(b->ops->digest(b, c->compute, &gpu, c->unit, &ticket[0]),
				 -ENOTSUP);
		fakecuda_fail_symbol(calls[i], 0, 0);
	}
	assert_int_equal(fakecuda_nr_calls_of("cuModuleLoadDataEx"), nr_loads + 4);
	nr_allocs = fakecuda_nr_calls_of("cuMemHostAlloc");
	for (uint32_t i = 0; i < BACKEND_DIGESTS_MAX; i++)
		assert_int_equal(b->ops->digest(b, c->compute, &gpu, DIGEST_TILE_BYTES, &ticket[i]),
				 0);
	contract_wait(b, c->compute);
	for (uint32_t i = 0; i < BACKEND_DIGESTS_MAX; i++)
		assert_int_equal(b->ops->digest_take(b, ticket[i], NULL), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuModuleLoadDataEx"), nr_loads + 4);
	assert_int_equal(fakecuda_nr_calls_of("cuMemHostAlloc"), nr_allocs);
	/* Or ahead of that, on each device. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(b->ops->digest_prepare(b, 1), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuModuleLoadDataEx"), nr_loads + 5);
	b->ops->chunk_destroy(b, &gpu);
}

/* Another machine has another key. */
static void test_digest_keys(void **state)
{
	struct contract *c = *state;
	const struct digest_key before = *c->b->digest_key;
	struct backend *other;

	assert_int_equal(open_again(&other), 0);
	assert_true(memcmp(&before, other->digest_key, sizeof(before)));
	other->ops->destroy(other);
}

/* The driver's check of order knows the elements: a copy between them is no race, of one it is. */
static void test_packet_races(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk gpu, host;
	struct backend_packet packet;

	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	packet = packet_make(&gpu, &host);
	for (uint32_t i = 0; i < 2; i++) {
		/* Elements 1 to 3, or one more. */
		const struct backend_copy copy = {(char *)gpu.alias + 4, (char *)host.alias + 4096,
						  12 + i * 4};

		fakecuda_gate(fakecuda_stream(1), true);
		assert_int_equal(b->ops->copy(b, c->in, &copy, 1), 0);
		assert_int_equal(b->ops->packet(b, c->compute, &packet), 0);
		contract_wait(b, c->compute);
		fakecuda_gate(fakecuda_stream(1), false);
		contract_wait(b, c->in);
		assert_int_equal(fakecuda_nr_races(), i);
	}
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &host);
}

/* ------------------------------------------------------------------ injected failures */

static int open_and_run(void)
{
	struct backend *b;
	int err = open_again(&b);

	if (err)
		return err;
	err = contract_script(b, KIB(64));
	b->ops->destroy(b);
	return err;
}

static void test_each_driver_call_fails(void **state)
{
	uint64_t nr;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(test_kernels_load(), 0);
	assert_int_equal(open_and_run(), 0);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	nr = fakecuda_nr_calls();
	assert_true(nr > 60);
	for (uint64_t i = 1; i <= nr; i++) {
		unsigned int leaks;

		fakecuda_reset(&fake);
		fakecuda_fail_at(i, i % 2 ? CU_OUT_OF_MEMORY : CU_NOT_SUPPORTED);
		/* Pushing a context for a look at a fence may fail unseen: there is a next look. */
		(void)open_and_run();
		leaks = fakecuda_leaks(NULL);
		if (leaks)
			fail_msg("call %llu of %llu: %u things leak", (unsigned long long)i,
				 (unsigned long long)nr, leaks);
	}
	fakecuda_reset(&fake);
	assert_int_equal(open_and_run(), 0);
}

/* ------------------------------------------------------------------ */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_driver),
		CONTRACT_TEST(test_description, target),
		CONTRACT_TEST(test_alias_access, target),
		CONTRACT_TEST(test_mapping_access, target),
		CONTRACT_TEST(test_managed_guard, target),
		CONTRACT_TEST(test_managed_advise, target),
		CONTRACT_TEST(test_managed_setup, target),
		CONTRACT_TEST(test_no_cuda_version, target),
		CONTRACT_TEST(test_native_stream, target),
		CONTRACT_TEST(test_waits_for_a_native_stream, target),
		CONTRACT_TEST(test_adopts_a_native_stream, target),
		CONTRACT_TEST(test_events_are_used_again, target),
		CONTRACT_TEST(test_packet_kernels_load, target),
		CONTRACT_TEST(test_digest_kernel_loads, target),
		CONTRACT_TEST(test_digest_keys, target),
		CONTRACT_TEST(test_packet_races, racy),
		cmocka_unit_test(test_each_driver_call_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
