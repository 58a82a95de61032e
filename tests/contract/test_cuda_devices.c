/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend with several devices, and several machines in one process, on the driver without
 * a GPU: which devices there are and whose a thread is on, what the host's memory has, and that
 * managed memory stays below its share whoever asks.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include <ftw.h>
#include <sys/stat.h>

#include "src/backend/machine.h"
#include "src/core/space.h"
#include "src/mem/mem.h"
#include "tests/contract/test_cuda.h"

/* ------------------------------------------------------------------ parts of a GPU */

/* One GPU as four devices: each has its memory, to the byte, and a link to each other; there is one
 * context, which all of them hold. */
static void test_parts_of_a_gpu(void **state)
{
	const struct fakecuda_config one = {
		.devices = 1, .hbm_bytes = MIB(16), .host_bytes = MIB(64), .granularity = KIB(4)};
	struct cuda_config config = {.library = FAKECUDA_PATH, .nr_parts = 4};
	struct backend_chunk full, other;
	stream_id_t stream[4];
	struct backend *b;
	void *plain;

	(void)state;
	fakecuda_reset(&one);
	assert_int_equal(cuda_create(&config, &b), 0);
	assert_int_equal(b->desc.nr_devices, 4);
	assert_int_equal(b->desc.nr_memories, 5);
	assert_int_equal(b->desc.nr_links, 4 + 6);
	for (uint32_t d = 0; d < 4; d++) {
		assert_int_equal(b->desc.memory[GPU0 + d].bytes, MIB(4));
		assert_int_equal(b->desc.device[d].memory, GPU0 + d);
		assert_int_equal(b->ops->stream_create(b, d, BACKEND_COMPUTE, &stream[d]), 0);
		assert_int_equal(fakecuda_stream_device(b->ops->stream_native(b, stream[d])), 0);
	}
	assert_string_equal(b->desc.device[3].name, "gpu3");
	assert_int_equal(b->ops->chunk_create(b, GPU2, MIB(3), 0, &full), 0);
	assert_int_equal(b->ops->memory_used(b, GPU2), MIB(3));
	assert_int_equal(b->ops->memory_room(b, GPU2), MIB(1));
	assert_int_equal(b->ops->memory_room(b, GPU3), MIB(4));
	assert_int_equal(b->ops->chunk_create(b, GPU2, MIB(2), 0, &other), -ENOMEM);
	assert_int_equal(b->ops->device_alloc(b, GPU2, MIB(2), &plain), -ENOMEM);
	assert_int_equal(b->ops->device_alloc(b, GPU2, UINT64_MAX, &plain), -ENOMEM);
	assert_int_equal(b->ops->memory_used(b, GPU2), MIB(3));
	assert_int_equal(b->ops->chunk_create(b, GPU3, MIB(2), 0, &other), 0);
	assert_int_equal(b->ops->device_alloc(b, GPU2, MIB(1), &plain), 0);
	assert_int_equal(b->ops->memory_room(b, GPU2), 0);
	assert_int_equal(fakecuda_used_bytes(0), MIB(6));
	b->ops->device_free(b, plain);
	b->ops->chunk_destroy(b, &full);
	b->ops->chunk_destroy(b, &other);
	for (uint32_t d = 0; d < 4; d++)
		b->ops->stream_destroy(b, stream[d]);
	b->ops->destroy(b);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
	config.nr_parts = WEIR_DEVICES_MAX + 1;
	assert_int_equal(cuda_create(&config, &b), -EINVAL);
}

/* The GPU may do what any of its parts may, and is named once: it keeps its access while one of
 * them has any, and others' coming and going change nothing for it. */
static void test_access_of_parts(void **state)
{
	const struct fakecuda_config one = {
		.devices = 1, .hbm_bytes = MIB(16), .host_bytes = MIB(64), .granularity = KIB(4)};
	const struct cuda_config config = {.library = FAKECUDA_PATH, .nr_parts = 4};
	struct backend_chunk chunk;
	struct backend *b;
	uint64_t nr;
	void *va;

	(void)state;
	fakecuda_reset(&one);
	assert_int_equal(cuda_create(&config, &b), 0);
	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, &va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, UNIT, 0, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 6), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READWRITE);
	nr = fakecuda_nr_calls_of("cuMemSetAccess");
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 4), 0);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 9), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuMemSetAccess"), nr);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READWRITE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 2), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READ);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 0), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_NONE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 15), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READWRITE);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
	b->ops->destroy(b);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* Two GPUs as four devices, in turn: each part has half of its GPU's memory, and a GPU is named
 * once for the parts of it that have access, the other one not at all. */
static void test_parts_of_two_gpus(void **state)
{
	const struct fakecuda_config two = {
		.devices = 2, .hbm_bytes = MIB(16), .host_bytes = MIB(64), .granularity = KIB(4)};
	const struct cuda_config config = {.library = FAKECUDA_PATH, .nr_parts = 4};
	struct backend_chunk chunk;
	stream_id_t stream;
	struct backend *b;
	void *va;

	(void)state;
	fakecuda_reset(&two);
	assert_int_equal(cuda_create(&config, &b), 0);
	assert_int_equal(b->desc.nr_devices, 4);
	assert_int_equal(b->desc.nr_links, 4 + 6);
	for (uint32_t d = 0; d < 4; d++) {
		assert_int_equal(b->desc.memory[GPU0 + d].bytes, MIB(8));
		assert_int_equal(b->ops->stream_create(b, d, BACKEND_COMPUTE, &stream), 0);
		assert_int_equal(fakecuda_stream_device(b->ops->stream_native(b, stream)), d % 2);
		b->ops->stream_destroy(b, stream);
	}
	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, &va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU3, UNIT, 0, &chunk), 0);
	assert_int_equal(fakecuda_used_bytes(0), 0);
	assert_int_equal(fakecuda_used_bytes(1), UNIT);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 5), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 8), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_NONE);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_READ);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
	b->ops->destroy(b);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ the thread's device */

static int device_of_call = -2;

static int note_device(void *native)
{
	assert_int_equal(fakecuda_stream_device(native), fakecuda_current_device());
	device_of_call = fakecuda_current_device();
	return -E2BIG;
}

static void test_call_on_a_streams_device(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;

	for (uint32_t d = 0; d < 2; d++) {
		stream_id_t stream;

		assert_int_equal(b->ops->stream_create(b, d, BACKEND_COMPUTE, &stream), 0);
		assert_int_equal(
			b->ops->stream_call(b, b->ops->stream_native(b, stream), note_device),
			-E2BIG);
		assert_int_equal(device_of_call, d);
		assert_int_equal(fakecuda_current_device(), -1);
		b->ops->stream_destroy(b, stream);
	}
	device_of_call = -2;
	assert_int_equal(b->ops->stream_call(b, NULL, note_device), -EINVAL);
	assert_int_equal(b->ops->stream_call(b, c, note_device), -EINVAL);
	assert_int_equal(device_of_call, -2);
}

/* Spaces of two devices at a time, each with its memory. */
static void test_spaces_of_two_devices(void **state)
{
	struct weir_machine *machine;
	struct weir_stream *stream[2];
	struct weir_space *space[2];
	struct backend *b;
	uint8_t *range[2], back = 0;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	for (uint32_t d = 0; d < 2; d++) {
		struct weir_space_config config = {
			.devices = WEIR_MEM_DEVICE(d), .block_bytes = UNIT, .mode = WEIR_PLANNED};

		config.budget_bytes[b->desc.device[d].memory] = 8 * UNIT;
		assert_int_equal(weir_stream_create(machine, d, &stream[d]), 0);
		assert_int_equal(weir_space_create(machine, &config, &space[d]), 0);
		assert_int_equal(weir_alloc(space[d], 12 * UNIT, stream[d], (void **)&range[d]), 0);
		assert_int_equal(weir_write(space[d], range[d], &(uint8_t){7}, 1), 0);
	}
	for (int step = 0; step < 20; step++)
		for (int d = 0; d < 2; d++) {
			const struct weir_use use = use_of(range[d], 12 * UNIT, WEIR_WRITE);
			const struct test_add_args args = {range[d], range[d], 1, (uint8_t)(d + 1)};
			const struct weir_launch launch = {.kernel = &test_kernel_add,
							   .args = &args,
							   .args_bytes = sizeof(args),
							   .uses = &use,
							   .nr_uses = 1};

			assert_int_equal(weir_begin(space[d], stream[d], &use, 1), 0);
			assert_int_equal(weir_stream_launch(stream[d], &launch), 0);
			assert_int_equal(weir_end(space[d], stream[d]), 0);
		}
	for (int d = 0; d < 2; d++) {
		assert_int_equal(weir_read(space[d], &back, range[d], 1), 0);
		assert_int_equal(back, 7 + 20 * (d + 1));
		assert_true(b->ops->memory_used(b, d ? GPU1 : GPU0) >= 8 * UNIT);
		weir_space_destroy(space[d]);
		weir_stream_destroy(stream[d]);
	}
	weir_machine_close(machine);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* Copies between a neighbour's memory and the host's are the neighbour's engine's, all others the
 * space's own device's; and each chunk is mapped for those that copy it. */
static void test_engines_of_a_space(void **state)
{
	struct weir_space_config config = {
		.devices = WEIR_MEM_DEVICE(1), .block_bytes = UNIT, .mode = WEIR_PLANNED};
	const uint32_t memory[] = {GPU1, GPU0, HOST};
	const uint64_t users[] = {2, 3, 3};
	struct weir_machine *machine;
	struct weir_space *space;
	struct backend *b;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	for (int m = 0; m < 3; m++)
		config.budget_bytes[m] = 8 * UNIT;
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	for (uint32_t p = 0; p < space->nr_paths; p++) {
		const struct path *path = &space->path[p];
		bool own = path->from == PLACE_OWN || path->to == PLACE_OWN;

		assert_int_equal(fakecuda_stream_device(b->ops->stream_native(b, path->stream)),
				 own);
	}
	for (int place = 0; place < 3; place++) {
		struct chunk *chunk = pmm_chunk_get(&space->pmm[place]);

		assert_non_null(chunk);
		assert_int_equal(chunk->backend.memory, memory[place]);
		for (int d = 0; d < 2; d++)
			assert_int_equal(fakecuda_access(chunk->backend.alias, d) != CU_ACCESS_NONE,
					 users[place] >> d & 1);
		pmm_chunk_put(&space->pmm[place], chunk);
	}
	weir_space_destroy(space);
	weir_machine_close(machine);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* A device has a context from its first stream on; its memory can be had, and copied to by others,
 * before. The first has one, since some memory is pinned for it when the machine is opened. */
static void test_context_with_the_first_stream(void **state)
{
	struct backend_chunk near, host;
	struct backend_copy copy;
	stream_id_t stream[2];
	struct backend *b;
	uint64_t nr;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&b), 0);
	nr = fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain");
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRelease_v2"), nr - 1);
	assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COPY_IN, &stream[0]), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, UNIT, 1, &near), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 1, &host), 0);
	memset(host.alias, 7, UNIT);
	copy = (struct backend_copy){near.alias, host.alias, UNIT};
	assert_int_equal(b->ops->copy(b, stream[0], &copy, 1), 0);
	copy = (struct backend_copy){(char *)host.alias + UNIT / 2, near.alias, UNIT / 2};
	assert_int_equal(b->ops->copy(b, stream[0], &copy, 1), 0);
	contract_wait(b, stream[0]);
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain"), nr);
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COPY_IN, &stream[1]), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain"), nr + 1);
	for (int d = 0; d < 2; d++)
		b->ops->stream_destroy(b, stream[d]);
	/* Kept, for the next one. */
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COPY_IN, &stream[1]), 0);
	b->ops->stream_destroy(b, stream[1]);
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain"), nr + 1);
	b->ops->chunk_destroy(b, &near);
	b->ops->chunk_destroy(b, &host);
	b->ops->destroy(b);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* A context that cannot be taken is an error of the call that needs it, which can be made again. */
static void test_context_refused(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	stream_id_t stream;
	void *addr;

	for (uint64_t nr = 0; nr < 3; nr++) {
		const char *const symbol[] = {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2",
					      "cuEventRecord"};

		fakecuda_fail_symbol(symbol[nr], 0, CU_OUT_OF_MEMORY);
		assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COMPUTE, &stream), -ENOMEM);
		assert_int_equal(b->ops->device_alloc(b, GPU1, 8, &addr), -ENOMEM);
		fakecuda_fail_symbol(symbol[nr], 0, 0);
	}
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COMPUTE, &stream), 0);
	b->ops->stream_destroy(b, stream);
}

/* What a device may use has it take its context: an alias, and a block address. */
static void test_context_with_the_first_mapping(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t nr = fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain");
	struct backend_chunk chunk;
	void *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, &va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, UNIT, 1, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain"), nr);
	fakecuda_fail_symbol("cuDevicePrimaryCtxRetain", 0, CU_OUT_OF_MEMORY);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 3), -ENOMEM);
	assert_int_equal(b->ops->chunk_add_devices(b, &chunk, 2), -ENOMEM);
	fakecuda_fail_symbol("cuDevicePrimaryCtxRetain", 0, 0);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_NONE);
	nr = fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain");
	assert_int_equal(b->ops->chunk_add_devices(b, &chunk, 2), 0);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 3), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain"), nr + 1);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_READWRITE);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, UNIT);
}

static void *first_stream(void *arg)
{
	struct backend *b = arg;
	stream_id_t stream;
	intptr_t failures = b->ops->stream_create(b, 1, BACKEND_COMPUTE, &stream) != 0;

	if (!failures)
		b->ops->stream_destroy(b, stream);
	return (void *)failures;
}

static void test_context_for_many_threads(void **state)
{
	struct contract *c = *state;
	uint64_t nr = fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain");
	pthread_t thread[6];

	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, first_stream, c->b), 0);
	for (int i = 0; i < 6; i++) {
		void *failures;

		pthread_join(thread[i], &failures);
		assert_null(failures);
	}
	assert_int_equal(fakecuda_nr_calls_of("cuDevicePrimaryCtxRetain"), nr + 1);
}

/* Who is mapped reaches plain memory, nobody else but the device whose memory it is. */
static void test_engines_of_plain_memory(void **state)
{
	static const struct {
		uint32_t memory;
		uint64_t users, engines, first, then; /* masks: mapped for, and who reaches it */
	} cases[] = {
		{HOST, 0, 2, 0, 2},
		{HOST, WEIR_MEM_CPU | 1, 0, 0, 1},
		{HOST, WEIR_MEM_ALL, 0, 0, 3},
		{GPU1, 0, 1, 2, 3},
		{GPU0, 1, 0, 1, 1},
	};
	struct weir_machine *machine;
	struct backend *b;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct weir_mem_params params = {.bytes = MIB(5), .memory = cases[i].memory};
		struct weir_pool *pool;
		struct weir_mem *mem;

		assert_int_equal(weir_pool_create(machine, NULL, &pool), 0);
		assert_int_equal(weir_mem_alloc(pool, &params, &mem), 0);
		for (uint32_t p = 0; p < mem->nr_pieces; p++)
			for (int d = 0; d < 2; d++)
				assert_int_equal(fakecuda_access(chunk_addr(mem->piece[p]), d) !=
							 CU_ACCESS_NONE,
						 cases[i].first >> d & 1);
		assert_int_equal(weir_mem_map(mem, cases[i].users, cases[i].engines, NULL), 0);
		for (uint32_t p = 0; p < mem->nr_pieces; p++)
			for (int d = 0; d < 2; d++)
				assert_int_equal(fakecuda_access(chunk_addr(mem->piece[p]), d) !=
							 CU_ACCESS_NONE,
						 cases[i].then >> d & 1);
		weir_mem_free(mem, NULL);
		weir_pool_destroy(pool);
	}
	weir_machine_close(machine);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* What the driver does of a copy by an engine for which there is no alias. */
static void test_copy_without_an_alias(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu;
	struct backend_copy copy;
	fence_t fence;
	char text[256];
	int err;

	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 1, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, 2, &gpu), 0);
	copy = (struct backend_copy){gpu.alias, host.alias, UNIT};
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), 0);
	err = b->ops->fence_record(b, c->in, &fence); /* or it is noticed already */
	assert_int_not_equal(err ? err : b->ops->fence_wait(b, fence), 0);
	fakecuda_problem(text, sizeof(text));
	assert_has(text, "must not write");
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
}

/* GPUs that cannot map are left out; the others are the machine. */
static void test_gpu_left_out(void **state)
{
	struct fakecuda_config some = fake;
	struct contract *c = calloc(1, sizeof(*c));
	struct log_watch log;
	stream_id_t stream;

	(void)state;
	assert_non_null(c);
	some.devices = 4;
	some.no_vmm = 1u << 0;
	some.no_host_vmm = 1u << 2;
	fakecuda_reset(&some);
	log_watch(&log, WEIR_LOG_WARNING);
	assert_int_equal(open_backend(&c->b), 0);
	assert_int_equal(log.nr, 2);
	assert_has(log.first, "GPU 0 is left out: it cannot map its memory");
	assert_has(log.last, "GPU 2 is left out: it cannot map host memory");
	assert_int_equal(c->b->desc.nr_devices, 2);
	assert_int_equal(c->b->desc.nr_memories, 3);
	for (uint32_t d = 0; d < 2; d++) {
		assert_int_equal(c->b->ops->stream_create(c->b, d, BACKEND_COMPUTE, &stream), 0);
		assert_int_equal(fakecuda_stream_device(c->b->ops->stream_native(c->b, stream)),
				 2 * d + 1);
		c->b->ops->stream_destroy(c->b, stream);
	}
	assert_int_equal(contract_script(c->b, UNIT), 0);
	c->b->ops->destroy(c->b);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	/* None is left. */
	some.no_vmm = 0xf;
	fakecuda_reset(&some);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(open_backend(&c->b), -ENOTSUP);
	assert_int_equal(log.nr, 1);
	assert_has(log.first, "no GPU is left");
	assert_int_equal(fakecuda_leaks(stderr), 0);
	weir_log_set(NULL, NULL);
	free(c);
}

/* ------------------------------------------------------------------ the host's memory */

static void write_file(const char *root, const char *path, const char *text)
{
	char name[256];
	FILE *file;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *at = strchr(name + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(name, 0700);
		*at = '/';
	}
	file = fopen(name, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
	(void)s;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* A space gets what the node of host chunks has, within the process's limit. */
static void test_host_room(void **state)
{
	char root[] = "/tmp/weir-host-XXXXXX";
	const struct cuda_config config = {.library = FAKECUDA_PATH, .root = root};
	struct backend *b;

	(void)state;
	fakecuda_reset(&fake);
	assert_non_null(mkdtemp(root));
	write_file(root, "proc/meminfo",
		   "MemTotal:       4096000 kB\nMemFree: 1 kB\nMemAvailable:   3200000 kB\n");
	write_file(root, "sys/devices/system/node/node0/meminfo",
		   "Node 0 MemTotal:       2048000 kB\nNode 0 MemFree:        1600000 kB\n");
	assert_int_equal(cuda_create(&config, &b), 0);
	assert_int_equal(b->desc.memory[HOST].bytes, 2048000u / 16 * 15 * UINT64_C(1024));
	assert_int_equal(b->ops->memory_room(b, HOST), 1600000u / 16 * 15 * UINT64_C(1024));
	write_file(root, "proc/self/cgroup", "0::/job\n");
	write_file(root, "sys/fs/cgroup/job/memory.max", "1024000000\n");
	write_file(root, "sys/fs/cgroup/job/memory.current", "24000000\n");
	assert_int_equal(b->ops->memory_room(b, HOST), 1000000000u / 16 * 15);
	b->ops->destroy(b);
	assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ managed memory */

#define SHARE (MIB(16) / 8)

/* At its edges: exactly the share, one byte more, sums that overflow, freed and taken again. */
static void test_managed_edges(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct log_watch log;
	void *addr[3], *none = c;

	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(b->managed->alloc(b, SHARE, &addr[0]), 0);
	assert_int_equal(b->managed->alloc(b, 1, &none), -EDQUOT);
	assert_has(log.first, "managed memory beyond 1/8 of the card");
	assert_int_equal(b->managed->alloc(b, UINT64_MAX, &none), -EDQUOT);
	assert_int_equal(b->managed->alloc(b, UINT64_MAX - SHARE + 1, &none), -EDQUOT);
	b->managed->free(b, addr[0]);
	assert_int_equal(b->managed->alloc(b, SHARE + 1, &none), -EDQUOT);
	/* What the driver refuses takes nothing. */
	fakecuda_fail_symbol("cuMemAllocManaged", 0, CU_OUT_OF_MEMORY);
	for (int i = 0; i < 3; i++)
		assert_int_equal(b->managed->alloc(b, SHARE, &none), -ENOMEM);
	fakecuda_fail_symbol("cuMemAllocManaged", 0, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(b->managed->alloc(b, SHARE / 3, &addr[i]), 0);
	assert_int_equal(b->managed->alloc(b, SHARE % 3 + 1, &none), -EDQUOT);
	/* Freed twice, or never allocated: nothing comes back for that. */
	b->managed->free(b, addr[1]);
	b->managed->free(b, addr[1]);
	b->managed->free(b, &none);
	assert_int_equal(b->managed->alloc(b, SHARE / 3, &addr[1]), 0);
	assert_int_equal(b->managed->alloc(b, SHARE % 3 + 1, &none), -EDQUOT);
	assert_ptr_equal(none, c);
	for (int i = 0; i < 3; i++)
		b->managed->free(b, addr[i]);
	assert_int_equal(fakecuda_managed_bytes(), 0);
	weir_log_set(NULL, NULL);
}

/* Two machines of one process have one share; what a machine is closed with comes back. */
static void test_managed_of_two_machines(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b, *second;
	void *mine, *theirs, *none;

	assert_int_equal(open_backend(&second), 0);
	assert_int_equal(b->managed->alloc(b, SHARE / 2, &mine), 0);
	assert_int_equal(second->managed->alloc(second, SHARE / 2 + 1, &none), -EDQUOT);
	assert_int_equal(second->managed->alloc(second, SHARE / 2, &theirs), 0);
	assert_int_equal(b->managed->alloc(b, 1, &none), -EDQUOT);
	assert_int_equal(fakecuda_managed_bytes(), SHARE);
	second->ops->destroy(second);
	assert_int_equal(fakecuda_managed_bytes(), SHARE / 2);
	assert_int_equal(b->managed->alloc(b, SHARE / 2, &theirs), 0);
	assert_int_equal(b->managed->alloc(b, 1, &none), -EDQUOT);
	b->managed->free(b, mine);
	b->managed->free(b, theirs);
}

static void *take_and_give(void *arg)
{
	struct contract *c = arg;
	intptr_t beyond = 0;

	for (int i = 0; i < 300; i++) {
		void *addr;

		if (c->b->managed->alloc(c->b, SHARE / 4, &addr))
			continue;
		beyond += fakecuda_managed_bytes() > SHARE;
		c->b->managed->free(c->b, addr);
	}
	return (void *)beyond;
}

static void test_managed_threads(void **state)
{
	pthread_t thread[6];

	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, *state), 0);
	for (int i = 0; i < 6; i++) {
		void *beyond;

		pthread_join(thread[i], &beyond);
		assert_null(beyond);
	}
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_of_a_gpu),
		cmocka_unit_test(test_access_of_parts),
		cmocka_unit_test(test_parts_of_two_gpus),
		CASE(test_call_on_a_streams_device),
		cmocka_unit_test(test_spaces_of_two_devices),
		cmocka_unit_test(test_engines_of_a_space),
		CASE(test_copy_without_an_alias),
		cmocka_unit_test(test_engines_of_plain_memory),
		cmocka_unit_test(test_context_with_the_first_stream),
		CASE(test_context_refused),
		CASE(test_context_with_the_first_mapping),
		CASE(test_context_for_many_threads),
		cmocka_unit_test(test_gpu_left_out),
		cmocka_unit_test(test_host_room),
		CASE(test_managed_edges),
		CASE(test_managed_of_two_machines),
		CASE(test_managed_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
