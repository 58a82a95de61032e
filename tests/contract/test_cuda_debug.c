/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug mode of the CUDA backend, on the driver without a GPU: what is refused, what devices may do
 * where and when, how a fault is told, and that results are the same.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include "src/backend/machine.h"
#include "src/base/variables.h"
#include "tests/contract/test_cuda.h"

#define UNITS 8u

enum { NONE = CU_ACCESS_NONE, READ = CU_ACCESS_READ, WRITE = CU_ACCESS_READWRITE };

/* A guarded reservation whose units are mapped, but for the last one. */
struct debug {
	struct backend *b;
	stream_id_t first, second;
	struct backend_chunk chunk[UNITS], spare;
	uint8_t *va;
	struct log_watch log;
};

static int open_debug(struct backend **out)
{
	return cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH, .debug = true}, out);
}

static uint8_t *unit(const struct debug *d, uint32_t i)
{
	return d->va + i * UNIT;
}

static int debug_setup(void **state)
{
	struct debug *d = calloc(1, sizeof(*d));
	struct backend *b;

	assert_non_null(d);
	fakecuda_reset(&fake);
	assert_int_equal(test_kernels_load(), 0);
	assert_int_equal(open_debug(&d->b), 0);
	b = d->b;
	assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &d->first), 0);
	assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &d->second), 0);
	assert_int_equal(b->ops->va_reserve(b, UNITS * UNIT, UNIT, (void **)&d->va), 0);
	assert_int_equal(b->ops->access_guard(b, d->va, true), 0);
	for (uint32_t i = 0; i < UNITS; i++)
		assert_int_equal(
			b->ops->chunk_create(b, i % 2 ? HOST : GPU0, UNIT, 0, &d->chunk[i]), 0);
	for (uint32_t i = 0; i + 1 < UNITS; i++)
		assert_int_equal(b->ops->map(b, unit(d, i), &d->chunk[i], BACKEND_PROT_WRITE, 1),
				 0);
	log_watch(&d->log, WEIR_LOG_ERROR);
	*state = d;
	return 0;
}

static int debug_teardown(void **state)
{
	struct debug *d = *state;
	unsigned int nr_errors = d->log.nr;
	struct backend *b = d->b;

	for (uint32_t i = 0; i + 1 < UNITS; i++)
		assert_int_equal(b->ops->unmap(b, unit(d, i)), 0);
	for (uint32_t i = 0; i < UNITS; i++)
		b->ops->chunk_destroy(b, &d->chunk[i]);
	b->ops->va_release(b, d->va, UNITS * UNIT);
	b->ops->stream_destroy(b, d->first);
	b->ops->stream_destroy(b, d->second);
	b->ops->destroy(b);
	weir_log_set(NULL, NULL);
	assert_int_equal(d->log.nr, nr_errors);
	free(d);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	return 0;
}

static void begin(struct debug *d, stream_id_t stream, const void *owner, struct weir_use use)
{
	assert_int_equal(d->b->ops->access_begin(d->b, stream, owner, &use, 1), 0);
}

/* As core ends a bracket: a fence first. */
static fence_t end(struct debug *d, stream_id_t stream, const void *owner)
{
	fence_t fence;

	assert_int_equal(d->b->ops->fence_record(d->b, stream, &fence), 0);
	d->b->ops->access_end(d->b, stream, owner);
	return fence;
}

/* What device 0 may do in each unit. */
static void assert_access(const struct debug *d, const int expected[UNITS])
{
	for (uint32_t i = 0; i < UNITS; i++)
		if (fakecuda_access(unit(d, i), 0) != expected[i])
			fail_msg("unit %u: %d, not %d", i, fakecuda_access(unit(d, i), 0),
				 expected[i]);
}

#define ASSERT_ACCESS(d, ...) assert_access(d, (const int[UNITS]){__VA_ARGS__})

/* ------------------------------------------------------------------ access */

static void test_access_follows_brackets(void **state)
{
	struct debug *d = *state;
	struct weir_use uses[] = {
		use_of(unit(d, 1) + 100, 2 * UNIT, WEIR_READ), /* units 1 to 3 */
		use_of(unit(d, 5), UNIT, WEIR_OVERWRITE),
		use_of(unit(d, 6), UNIT, WEIR_DISCARD),
	};
	int a = 0, b = 0;

	ASSERT_ACCESS(d, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
	assert_int_equal(d->b->ops->access_begin(d->b, d->first, &a, uses, 3), 0);
	ASSERT_ACCESS(d, NONE, READ, READ, READ, NONE, WRITE, NONE, NONE);
	/* Another stream writes one of them, another owner on the same stream one more. */
	begin(d, d->second, &a, use_of(unit(d, 3), 1, WEIR_WRITE));
	begin(d, d->first, &b, use_of(unit(d, 4), UNIT, WEIR_READ));
	ASSERT_ACCESS(d, NONE, READ, READ, WRITE, READ, WRITE, NONE, NONE);
	/* In the order that they began in. */
	(void)end(d, d->first, &a);
	ASSERT_ACCESS(d, NONE, NONE, NONE, WRITE, READ, NONE, NONE, NONE);
	(void)end(d, d->first, &b);
	ASSERT_ACCESS(d, NONE, NONE, NONE, WRITE, NONE, NONE, NONE, NONE);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->second, &a)), 0);
	ASSERT_ACCESS(d, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
	d->b->ops->access_end(d->b, d->second, &a); /* not open: nothing */
	assert_int_equal(d->log.nr, 0);
	/* For the teardown: core is told. */
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, &a)), 0);
}

/* What a bracket does not write any more is read-only, as far as units go. */
static void test_access_is_narrowed(void **state)
{
	struct debug *d = *state;
	struct backend *b = d->b;

	begin(d, d->first, d, use_of(unit(d, 1), 4 * UNIT, WEIR_WRITE));
	assert_int_equal(b->ops->access_narrow(b, d->first, d, unit(d, 2), UNIT + 1), 0);
	ASSERT_ACCESS(d, NONE, WRITE, READ, WRITE, WRITE, NONE, NONE, NONE);
	assert_int_equal(b->ops->access_narrow(b, d->first, d, unit(d, 3), 2 * UNIT), 0);
	ASSERT_ACCESS(d, NONE, WRITE, READ, READ, READ, NONE, NONE, NONE);
	assert_int_equal(contract_add(b, d->first, unit(d, 3), unit(d, 3), 1, 1), -WEIR_ECONTRACT);
	assert_has(d->log.first, "declares to write");
	d->log.nr = 0;
	assert_int_equal(b->ops->access_narrow(b, d->second, d, unit(d, 1), UNIT), -EINVAL);
	assert_int_equal(b->ops->access_narrow(b, 99, d, unit(d, 1), UNIT), -EINVAL);
	assert_int_equal(b->ops->fence_wait(b, end(d, d->first, d)), 0);
	ASSERT_ACCESS(d, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
}

/* Neighbours that change alike take one call. */
static void test_access_in_few_calls(void **state)
{
	struct debug *d = *state;
	uint64_t nr = fakecuda_nr_calls_of("cuMemSetAccess");

	begin(d, d->first, d, use_of(d->va, (UNITS - 1) * UNIT, WEIR_WRITE));
	assert_int_equal(fakecuda_nr_calls_of("cuMemSetAccess"), nr + 1);
	begin(d, d->second, d, use_of(d->va, (UNITS - 1) * UNIT, WEIR_READ));
	assert_int_equal(fakecuda_nr_calls_of("cuMemSetAccess"), nr + 1);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->second, d)), 0);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	assert_int_equal(fakecuda_nr_calls_of("cuMemSetAccess"), nr + 2);
}

/* What core gives is the most; more devices come in while a bracket is open. */
static void test_access_never_beyond_cores(void **state)
{
	struct debug *d = *state;
	struct backend *b = d->b;

	assert_int_equal(b->ops->set_access(b, unit(d, 0), BACKEND_PROT_READ, 1), 0);
	assert_int_equal(fakecuda_access(unit(d, 0), 0), NONE);
	begin(d, d->first, d, use_of(unit(d, 0), 2 * UNIT, WEIR_WRITE));
	ASSERT_ACCESS(d, READ, WRITE, NONE, NONE, NONE, NONE, NONE, NONE);
	assert_int_equal(b->ops->set_access(b, unit(d, 1), BACKEND_PROT_WRITE, 3), 0);
	assert_int_equal(fakecuda_access(unit(d, 1), 1), WRITE);
	/* The CPU's access is core's business alone. */
	assert_int_equal(
		b->ops->set_access(b, unit(d, 3), BACKEND_PROT_WRITE, 1 | BACKEND_HOST_BIT), 0);
	assert_int_equal(fakecuda_access(unit(d, 3), -1), WRITE);
	assert_int_equal(fakecuda_access(unit(d, 3), 0), NONE);
	assert_int_equal(b->ops->set_access(b, unit(d, 3), BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(unit(d, 3), -1), NONE);
	assert_int_equal(b->ops->fence_wait(b, end(d, d->first, d)), 0);
	assert_int_equal(fakecuda_access(unit(d, 1), 1), NONE);
	assert_int_equal(d->log.nr, 0);
}

static void test_guard_comes_and_goes(void **state)
{
	struct debug *d = *state;
	struct backend *b = d->b;

	assert_int_equal(b->ops->access_guard(b, d->va, false), 0);
	ASSERT_ACCESS(d, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, NONE);
	begin(d, d->first, d, use_of(unit(d, 2), UNIT, WEIR_READ));
	ASSERT_ACCESS(d, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, NONE);
	assert_int_equal(b->ops->access_guard(b, d->va, true), 0);
	ASSERT_ACCESS(d, NONE, NONE, READ, NONE, NONE, NONE, NONE, NONE);
	assert_int_equal(b->ops->fence_wait(b, end(d, d->first, d)), 0);
	assert_int_equal(b->ops->access_guard(b, d->va + UNIT, true), -EINVAL);
	fakecuda_fail_symbol("cuMemSetAccess", 0, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->access_guard(b, d->va, false), -ENOTSUP);
	fakecuda_fail_symbol("cuMemSetAccess", 0, 0);
	ASSERT_ACCESS(d, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
}

/* A begin that fails leaves everything as it was. */
static void test_begin_fails(void **state)
{
	struct debug *d = *state;
	const struct weir_use uses[] = {use_of(unit(d, 0), UNIT, WEIR_READ),
					use_of(unit(d, 2), UNIT, WEIR_WRITE)};
	const struct weir_use bad = {.addr = d->va};

	fakecuda_fail_at(3, CU_OUT_OF_MEMORY); /* after the capture status, and the first unit */
	assert_int_equal(d->b->ops->access_begin(d->b, d->first, d, uses, 2), -ENOMEM);
	assert_int_equal(d->b->ops->access_begin(d->b, d->first, d, &bad, 1), -EINVAL);
	assert_int_equal(d->b->ops->access_begin(d->b, 99, d, uses, 2), -EINVAL);
	assert_int_equal(d->b->ops->unmap(d->b, unit(d, 2)), 0);
	assert_int_equal(d->b->ops->map(d->b, unit(d, 2), &d->chunk[2], BACKEND_PROT_WRITE, 1), 0);
	/* Nor is there anything to wait for where the fence behind it failed. */
	begin(d, d->first, d, uses[1]);
	d->b->ops->access_end(d->b, d->first, d);
	ASSERT_ACCESS(d, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
}

/* A packet gets at its elements without a bracket, beside one that is open; then nobody does. */
static void test_packet_in_a_guarded_reservation(void **state)
{
	struct debug *d = *state;
	struct backend *b = d->b;
	uint8_t *host = d->chunk[UNITS - 1].alias;
	struct backend_packet packet = {.elements = d->va,
					.packet = host,
					.index = (uint32_t *)(void *)(host + 16),
					.nr = 2,
					.element_bytes = 4,
					.last = UNIT / 4,
					.sector_bytes = 64,
					.unpack = true};
	const uint32_t list[] = {0, UNIT / 4}, sent[] = {77, 78};

	memcpy(host, sent, sizeof(sent));
	memcpy(host + 16, list, sizeof(list));
	begin(d, d->second, d, use_of(unit(d, 1), UNIT, WEIR_READ));
	assert_int_equal(b->ops->packet(b, d->first, &packet), 0);
	ASSERT_ACCESS(d, NONE, READ, NONE, NONE, NONE, NONE, NONE, NONE);
	assert_int_equal(b->ops->fence_wait(b, end(d, d->second, d)), 0);
	memset(host, 0, sizeof(sent));
	packet.unpack = false;
	assert_int_equal(b->ops->packet(b, d->first, &packet), 0);
	ASSERT_ACCESS(d, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
	assert_memory_equal(host, sent, sizeof(sent));
	assert_int_equal(d->log.nr, 0);
	assert_no_problem();
}

/* ------------------------------------------------------------------ remaps */

static void expect_refused(struct debug *d, int err, const char *how)
{
	char addr[32];

	snprintf(addr, sizeof(addr), "%p", (void *)unit(d, 2));
	assert_int_equal(err, -WEIR_ECONTRACT);
	assert_int_equal(d->log.nr, 1);
	assert_has(d->log.first, addr);
	assert_has(d->log.first, how);
	d->log.nr = 0;
}

static void test_remap_under_a_bracket(void **state)
{
	struct debug *d = *state;
	struct backend *b = d->b;
	uint8_t *at = unit(d, 2);
	fence_t fence, later;

	begin(d, d->second, d, use_of(at + 5, 1, WEIR_WRITE));
	assert_int_equal(b->ops->fence_record(b, d->second, &fence), 0);
	expect_refused(d, b->ops->unmap(b, at), "stream 1 names it and is open");
	assert_int_equal(contract_add(b, d->second, at + 5, at + 5, 1, 1), 0);
	expect_refused(d, b->ops->unmap(b, at), "'add'");
	expect_refused(d, b->ops->set_access(b, at, BACKEND_PROT_READ, 1), "is open");
	expect_refused(d, b->ops->set_access(b, at, BACKEND_PROT_WRITE, 2), "is open");
	/* Ended and done, but nobody has asked; then somebody has, for what comes before. */
	fence = end(d, d->second, d);
	expect_refused(d, b->ops->unmap(b, at), "ended");
	assert_int_equal(b->ops->fence_record(b, d->first, &later), 0);
	assert_int_equal(b->ops->fence_wait(b, later), 0);
	expect_refused(d, b->ops->unmap(b, at), "ended");
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	assert_int_equal(b->ops->unmap(b, at), 0);
	/* An address that a bracket names and that has no mapping. */
	begin(d, d->first, d, use_of(at, UNIT, WEIR_READ));
	assert_int_equal(b->ops->fence_record(b, d->first, &fence), 0);
	expect_refused(d, b->ops->map(b, at, &d->chunk[2], BACKEND_PROT_WRITE, 1), "is open");
	assert_int_equal(b->ops->fence_wait(b, end(d, d->first, d)), 0);
	assert_int_equal(b->ops->map(b, at, &d->chunk[2], BACKEND_PROT_WRITE, 1), 0);
	assert_no_problem();
}

/* Who could not wait knows no more than before. */
static void test_remap_after_a_failed_wait(void **state)
{
	struct debug *d = *state;
	struct backend *b = d->b;
	uint8_t *at = unit(d, 2);
	fence_t fence;

	begin(d, d->first, d, use_of(at, 1, WEIR_WRITE));
	fence = end(d, d->first, d);
	fakecuda_fail_symbol("cuEventSynchronize", 0, CU_NOT_SUPPORTED);
	fakecuda_fail_symbol("cuEventQuery", 0, CU_NOT_SUPPORTED);
	assert_int_equal(b->ops->fence_wait(b, fence), -ENOTSUP);
	assert_int_equal(b->ops->fence_done(b, fence), -ENOTSUP);
	fakecuda_fail_symbol("cuEventSynchronize", 0, 0);
	fakecuda_fail_symbol("cuEventQuery", 0, 0);
	d->log.nr = 0;
	log_watch(&d->log, WEIR_LOG_ERROR);
	expect_refused(d, b->ops->unmap(b, at), "ended");
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->unmap(b, at), 0);
	assert_int_equal(b->ops->map(b, at, &d->chunk[2], BACKEND_PROT_WRITE, 1), 0);
}

/* What a bracket discards may move under it, and so may all the rest. */
static void test_remap_beside_a_bracket(void **state)
{
	struct debug *d = *state;
	const struct weir_use uses[] = {use_of(unit(d, 0), 2 * UNIT, WEIR_WRITE),
					use_of(unit(d, 3), UNIT, WEIR_DISCARD)};

	assert_int_equal(d->b->ops->access_begin(d->b, d->first, d, uses, 2), 0);
	for (uint32_t i = 2; i < 4; i++) {
		assert_int_equal(d->b->ops->unmap(d->b, unit(d, i)), 0);
		assert_int_equal(
			d->b->ops->map(d->b, unit(d, i), &d->chunk[i], BACKEND_PROT_WRITE, 1), 0);
	}
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	assert_int_equal(d->log.nr, 0);
}

/* ------------------------------------------------------------------ launches */

static void test_undeclared_launch(void **state)
{
	struct debug *d = *state;

	assert_int_equal(contract_add(d->b, d->first, unit(d, 0), unit(d, 1), 1, 1),
			 -WEIR_ECONTRACT);
	assert_has(d->log.first, "'add'");
	assert_has(d->log.first, "declares to overwrite");
	d->log.nr = 0;
	begin(d, d->first, d, use_of(unit(d, 0), 2 * UNIT, WEIR_READ));
	assert_int_equal(contract_add(d->b, d->first, unit(d, 0), unit(d, 1), 1, 1),
			 -WEIR_ECONTRACT);
	assert_has(d->log.first, "declares to overwrite");
	assert_int_equal(d->log.nr, 1);
	d->log.nr = 0;
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	begin(d, d->first, d, use_of(unit(d, 1), UNIT, WEIR_WRITE));
	assert_int_equal(contract_add(d->b, d->first, unit(d, 0), unit(d, 1), 1, 1),
			 -WEIR_ECONTRACT);
	assert_has(d->log.first, "declares to read");
	assert_int_equal(d->log.nr, 1);
	/* The context lives. */
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	begin(d, d->first, d, use_of(unit(d, 0), 2 * UNIT, WEIR_WRITE));
	assert_int_equal(contract_add(d->b, d->first, unit(d, 0), unit(d, 1), 1, 1), 0);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	assert_no_problem();
}

/* Two streams with open brackets: what one writes the other does not name. Bytes count. */
static void test_brackets_open_together(void **state)
{
	struct debug *d = *state;

	begin(d, d->first, d, use_of(unit(d, 0), 2 * UNIT, WEIR_WRITE));
	begin(d, d->second, d, use_of(unit(d, 1), 2 * UNIT, WEIR_WRITE));
	assert_int_equal(contract_add(d->b, d->first, unit(d, 0), unit(d, 1), 1, 1), 0);
	assert_int_equal(contract_add(d->b, d->second, unit(d, 1), unit(d, 2), 1, 1),
			 -WEIR_ECONTRACT);
	assert_int_equal(d->log.nr, 1);
	assert_has(d->log.first, "with kernel 'add'");
	assert_has(d->log.first, "offset");
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	/* Alone it may. */
	assert_int_equal(contract_add(d->b, d->second, unit(d, 1), unit(d, 2), 1, 1), 0);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->second, d)), 0);
	/* Beside each other in a unit, and reading the same. */
	begin(d, d->first, d, use_of(unit(d, 0), UNIT + UNIT / 2, WEIR_WRITE));
	begin(d, d->second, d, use_of(unit(d, 1) + UNIT / 2, UNIT, WEIR_WRITE));
	assert_int_equal(contract_add(d->b, d->first, unit(d, 0), unit(d, 1), 1, 1), 0);
	assert_int_equal(contract_add(d->b, d->second, unit(d, 1) + UNIT / 2, unit(d, 2), 1, 1), 0);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->first, d)), 0);
	assert_int_equal(d->b->ops->fence_wait(d->b, end(d, d->second, d)), 0);
	assert_no_problem();
}

/* Kernels that do not do what they say: beyond what they name, or writing what they read. */
static int lying_cuda(void *stream, const void *p)
{
	const struct test_add_args *a = p;
	const struct fakecuda_touch touch = {a->out, a->bytes, a->add};

	return fakecuda_launch(stream, test_cpu_add, a, 0, &touch, 1) ? -EIO : 0;
}

static void test_fault_names_the_kernel(void **state)
{
	static const struct weir_kernel liar = {.name = "liar", .cuda = lying_cuda};

	(void)state;
	for (int writes = 0; writes < 2; writes++) {
		struct debug *d;
		struct test_add_args args;
		struct weir_use use;
		struct weir_launch launch = {
			.kernel = &liar, .args = &args, .uses = &use, .nr_uses = 1};
		void *opened;

		debug_setup(&opened);
		d = opened;
		/* Reads on into the next block; or writes the one it has. */
		args = (struct test_add_args){
			.out = unit(d, 1), .bytes = writes ? 1 : UNIT + 1, .add = (uint8_t)writes};
		use = use_of(unit(d, 1), UNIT, WEIR_READ);
		begin(d, d->first, d, use);
		assert_int_equal(d->b->ops->launch(d->b, d->first, &launch), -WEIR_ETRAP);
		assert_int_equal(d->log.nr, 1);
		assert_has(d->log.first, "kernel 'liar'");
		assert_has(d->log.first, "CUDA_ERROR_ILLEGAL_ADDRESS");
		assert_has(d->log.first, "context is lost");
		assert_has(d->log.first, "(read 0x");
		assert_int_equal(d->b->ops->launch(d->b, d->first, &launch), -EIO);
		d->b->ops->access_end(d->b, d->first, d);
		assert_int_equal(d->log.nr, 1);
		debug_teardown(&opened);
	}
}

/* ------------------------------------------------------------------ whole spaces */

#define BLOCKS 12u
#define RANGES 4

struct trial {
	struct weir_machine *machine;
	struct weir_stream *stream[2];
	struct weir_space *space[2];
	uint8_t *range[2][RANGES];
};

/* A step of one space: its stream alternates. */
static void trial_step(struct trial *t, int s, int step)
{
	uint8_t *from = t->range[s][step % RANGES], *to = t->range[s][(step + 1) % RANGES];
	const struct weir_use uses[] = {use_of(from, BLOCKS * UNIT, WEIR_READ),
					use_of(to, BLOCKS * UNIT, WEIR_OVERWRITE)};
	const struct test_add_args args = {from, to, BLOCKS * UNIT, 3};
	const struct weir_launch launch = {.kernel = &test_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};
	struct weir_stream *stream = t->stream[step / 7 % 2];

	if (step % 7 == 0)
		assert_int_equal(weir_stream_sync(t->stream[0]) | weir_stream_sync(t->stream[1]),
				 0);
	assert_int_equal(weir_begin(t->space[s], stream, uses, 2), 0);
	assert_int_equal(weir_stream_launch(stream, &launch), 0);
	assert_int_equal(weir_end(t->space[s], stream), 0);
}

/* Two spaces over their budgets, in turn on the same two streams: the same bytes, and no remap that
 * debug mode refuses. */
static void test_two_spaces(void **state)
{
	const struct weir_space_config config = {
		.budget_bytes = {[GPU0] = 20 * UNIT}, .block_bytes = UNIT, .mode = WEIR_PLANNED};
	struct trial t;
	struct log_watch log;
	struct backend *b;
	uint8_t *bytes = malloc(BLOCKS * UNIT);

	(void)state;
	assert_non_null(bytes);
	fakecuda_reset(&fake);
	log_watch(&log, WEIR_LOG_ERROR);
	assert_int_equal(open_debug(&b), 0);
	assert_int_equal(machine_wrap(b, &t.machine), 0);
	for (int s = 0; s < 2; s++) {
		assert_int_equal(weir_stream_create(t.machine, 0, &t.stream[s]), 0);
		assert_int_equal(weir_space_create(t.machine, &config, &t.space[s]), 0);
		for (int r = 0; r < RANGES; r++) {
			assert_int_equal(weir_alloc(t.space[s], BLOCKS * UNIT, NULL,
						    (void **)&t.range[s][r]),
					 0);
			memset(bytes, s, BLOCKS * UNIT);
			assert_int_equal(
				weir_write(t.space[s], t.range[s][r], bytes, BLOCKS * UNIT), 0);
		}
	}
	for (int step = 0; step < 42; step++)
		for (int s = 0; s < 2; s++)
			trial_step(&t, s, step);
	for (int s = 0; s < 2; s++) {
		assert_int_equal(
			weir_read(t.space[s], bytes, t.range[s][42 % RANGES], BLOCKS * UNIT), 0);
		for (uint64_t i = 0; i < BLOCKS * UNIT; i++)
			assert_int_equal(bytes[i], s + 42 * 3);
		assert_int_equal(weir_space_check(t.space[s]), 0);
	}
	for (int s = 0; s < 2; s++)
		weir_space_destroy(t.space[s]);
	for (int s = 0; s < 2; s++)
		weir_stream_destroy(t.stream[s]);
	weir_machine_close(t.machine);
	weir_log_set(NULL, NULL);
	free(bytes);
	assert_int_equal(log.nr, 0);
	assert_no_problem();
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ switching it on */

static void test_variable(void **state)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {{"1", 0}, {"0", 0}, {"", 0}, {"yes", -EINVAL}, {"11", -EINVAL}};
	struct log_watch log;

	(void)state;
	fakecuda_reset(&fake);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct backend *b = NULL;

		assert_int_equal(setenv(VARIABLE_CUDA_DEBUG, cases[i].text, 1), 0);
		log_watch(&log, WEIR_LOG_ERROR);
		assert_int_equal(open_backend(&b), cases[i].err);
		assert_int_equal(log.nr, cases[i].err != 0);
		if (cases[i].err)
			assert_has(log.first, VARIABLE_CUDA_DEBUG " is '");
		else
			b->ops->destroy(b);
	}
	weir_log_set(NULL, NULL);
	assert_int_equal(unsetenv(VARIABLE_CUDA_DEBUG), 0);
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_setup_teardown(test, debug_setup, debug_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_access_follows_brackets),
		CASE(test_access_is_narrowed),
		CASE(test_access_in_few_calls),
		CASE(test_access_never_beyond_cores),
		CASE(test_guard_comes_and_goes),
		CASE(test_begin_fails),
		CASE(test_packet_in_a_guarded_reservation),
		CASE(test_remap_under_a_bracket),
		CASE(test_remap_after_a_failed_wait),
		CASE(test_remap_beside_a_bracket),
		CASE(test_undeclared_launch),
		CASE(test_brackets_open_together),
		cmocka_unit_test(test_fault_names_the_kernel),
		cmocka_unit_test(test_two_spaces),
		cmocka_unit_test(test_variable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
