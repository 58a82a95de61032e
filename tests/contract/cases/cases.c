/* SPDX-License-Identifier: Apache-2.0 */
/* The list of cases, their fixtures, and what they share: see cases.h. */
#include "tests/contract/cases/cases.h"

#include "src/backend/machine.h"

/* A gate that nobody opens is a failure, and must not hold the machine for long. */
#define GATE_NS UINT64_C(10000000000)
#define NAME_BYTES 128

#define ENTRY(name, needs) {#name, contract_##name, (needs)},
static const struct contract_case {
	const char *name;
	CMUnitTestFunction test;
	unsigned int needs;
} cases[] = {CONTRACT_CASES(ENTRY)};
#undef ENTRY

#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

int contract_run(const struct contract_target *targets, size_t nr_targets,
		 const struct CMUnitTest *tests, size_t nr_tests)
{
	size_t nr_max = nr_targets * NR_CASES + nr_tests, nr = 0;
	struct CMUnitTest *all = calloc(nr_max, sizeof(*all));
	char(*names)[NAME_BYTES] = calloc(nr_max, sizeof(*names));
	int failed = 1;

	for (size_t i = 0; i < nr_targets * NR_CASES && all && names; i++) {
		const struct contract_target *target = &targets[i / NR_CASES];
		const struct contract_case *this = &cases[i % NR_CASES];

		if (this->needs & ~target->can)
			continue;
		(void)snprintf(names[nr], NAME_BYTES, "%s (%s)", this->name, target->name);
		all[nr] = (struct CMUnitTest){names[nr], this->test, contract_setup,
					      contract_teardown, (void *)target};
		nr++;
	}
	if (all && names) {
		if (nr_tests)
			memcpy(&all[nr], tests, nr_tests * sizeof(*all));
		/* What cmocka's macro calls, which takes arrays only. */
		failed = _cmocka_run_group_tests("contract", all, nr + nr_tests, NULL, NULL);
	}
	free(all);
	free(names);
	return failed;
}

/* ------------------------------------------------------------------ fixtures */

int contract_setup(void **state)
{
	struct contract *c = calloc(1, sizeof(*c));
	void *gate;

	assert_non_null(c);
	c->target = *state;
	assert_int_equal(c->target->open(&c->b), 0);
	c->unit = 2 * c->b->desc.vmm.granularity_bytes;
	c->unit = c->unit < KIB(64) ? KIB(64) : c->unit;
	c->devices = BACKEND_DEVICE_BIT(c->b->desc.nr_devices) - 1;
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COMPUTE, &c->compute), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_IN, &c->in), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_OUT, &c->out), 0);
	if (can(c, CAN_WAIT)) {
		assert_int_equal(c->b->ops->device_alloc(c->b, HOST, 8, &gate), 0);
		c->gate = gate;
		memset(c->gate, 0, 8);
	}
	*state = c;
	return 0;
}

int contract_teardown(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	bool late = c->gate && c->gate[1];

	if (c->gate)
		b->ops->device_free(b, c->gate);
	b->ops->stream_destroy(b, c->compute);
	b->ops->stream_destroy(b, c->in);
	b->ops->stream_destroy(b, c->out);
	for (uint32_t m = 0; m < b->desc.nr_memories; m++)
		assert_int_equal(b->ops->memory_used(b, m), 0);
	if (c->target->check)
		c->target->check(c);
	if (c->machine)
		weir_machine_close(c->machine);
	else
		b->ops->destroy(b);
	if (c->target->closed)
		c->target->closed(c);
	free(c);
	assert_false(late);
	return 0;
}

struct weir_machine *contract_machine(struct contract *c)
{
	if (!c->machine)
		assert_int_equal(machine_wrap(c->b, &c->machine), 0);
	return c->machine;
}

/* ------------------------------------------------------------------ launches */

int contract_add(struct backend *b, stream_id_t stream, void *in, void *out, uint64_t bytes,
		 uint8_t add)
{
	const struct test_add_args args = {in, out, bytes, add};
	const struct weir_use uses[] = {
		use_of(out, bytes, in == out ? WEIR_WRITE : WEIR_OVERWRITE),
		use_of(in, bytes, WEIR_READ),
	};
	const struct weir_launch launch = {.kernel = &test_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = in == out ? 1 : 2};

	return b->ops->launch(b, stream, &launch);
}

int contract_spin(struct backend *b, stream_id_t stream)
{
	const struct test_spin_args args = {.ns = 1000};
	const struct weir_launch launch = {
		.kernel = &test_kernel_spin, .args = &args, .args_bytes = sizeof(args)};

	return b->ops->launch(b, stream, &launch);
}

void contract_wait(struct backend *b, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(b->ops->fence_record(b, stream, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
}

void contract_gate_close(struct contract *c, stream_id_t stream)
{
	const struct test_gate_args args = {.word = c->gate, .most_ns = GATE_NS};
	const struct weir_launch launch = {
		.kernel = &test_kernel_gate, .args = &args, .args_bytes = sizeof(args)};

	if (!c->gate)
		return;
	__atomic_store_n(&c->gate[0], 0, __ATOMIC_SEQ_CST);
	assert_int_equal(c->b->ops->launch(c->b, stream, &launch), 0);
}

void contract_gate_open(struct contract *c)
{
	if (c->gate)
		__atomic_store_n(&c->gate[0], 1, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------ everything once */

#define NO_TICKET UINT32_MAX

struct script {
	struct backend *b;
	uint64_t unit;
	struct backend_chunk host, gpu;
	void *va, *plain, *pinned, *managed;
	stream_id_t stream;
	bool mapped, has_stream;
	uint32_t ticket; /* of a digest; NO_TICKET: none */
	uint8_t byte;
};

static int script_make(struct script *s)
{
	const struct backend_ops *ops = s->b->ops;
	uint64_t last = BACKEND_DEVICE_BIT(s->b->desc.nr_devices - 1);
	int err;

	(void)((err = ops->chunk_create(s->b, HOST, s->unit, 0, &s->host)) ||
	       (err = ops->chunk_create(s->b, GPU0, s->unit, 0, &s->gpu)) ||
	       (err = ops->va_reserve(s->b, s->unit, s->unit, &s->va)) ||
	       (err = ops->map(s->b, s->va, &s->gpu, BACKEND_PROT_WRITE, 1)));
	s->mapped = !err;
	if (!err)
		err = ops->stream_create(s->b, 0, BACKEND_COMPUTE, &s->stream);
	s->has_stream = !err;
	(void)(err || (err = ops->set_access(s->b, s->va, BACKEND_PROT_READ, last)) ||
	       (err = ops->set_access(s->b, s->va, BACKEND_PROT_WRITE, 1)) ||
	       (err = ops->device_alloc(s->b, GPU0, 100, &s->plain)) ||
	       (err = ops->device_alloc(s->b, HOST, 100, &s->pinned)) ||
	       (err = s->b->managed->alloc(s->b, 100, &s->managed)) ||
	       (err = s->b->managed->prefetch(s->b, s->stream, s->managed, 100, GPU0)) ||
	       (err = s->b->managed->advise(s->b, s->managed, 100, BACKEND_ADVICE_PREFERRED,
					    HOST)));
	return err == -ENOSYS ? 0 : err; /* managed memory is not required */
}

static int script_work(struct script *s)
{
	const struct backend_ops *ops = s->b->ops;
	const struct weir_use use = use_of(s->va, s->unit, WEIR_WRITE);
	const struct backend_copy copy = {s->host.alias, s->gpu.alias, s->unit};
	const struct backend_packet packet = {.elements = s->va,
					      .packet = s->plain,
					      .index = s->pinned,
					      .nr = 1,
					      .element_bytes = 1,
					      .sector_bytes = 32};
	bool bytes = s->b->data == WEIR_DATA_REAL;
	fence_t fence = 0;
	int err;

	s->byte = 1;
	if (bytes)
		memset(s->pinned, 0, sizeof(uint32_t));
	(void)((err = ops->access_guard(s->b, s->va, true)) ||
	       (err = ops->access_begin(s->b, s->stream, s, &use, 1)) ||
	       (err = ops->upload(s->b, s->stream, s->va, bytes ? &s->byte : NULL, 1)) ||
	       (err = contract_add(s->b, s->stream, s->va, s->va, 1, 1)) ||
	       (err = ops->copy(s->b, s->stream, &copy, 1)) ||
	       (err = ops->upload(s->b, s->stream, s->plain, bytes ? &s->byte : NULL, 1)) ||
	       (err = ops->packet(s->b, s->stream, &packet)) ||
	       (err = ops->digest_prepare(s->b, 0)) ||
	       (err = ops->digest(s->b, s->stream, &s->gpu, s->unit, &s->ticket)) ||
	       (err = ops->download(s->b, s->stream, bytes ? &s->byte : NULL, s->plain, 1)) ||
	       (err = ops->fence_record(s->b, s->stream, &fence)) ||
	       (err = ops->stream_wait(s->b, s->stream, fence)) ||
	       (err = ops->fence_wait(s->b, fence)));
	if (!err) {
		int done = ops->fence_done(s->b, fence);

		err = done < 0 ? done : done ? 0 : -EIO;
	}
	if (!err && bytes)
		assert_int_equal(s->byte, 2);
	ops->access_end(s->b, s->stream, s);
	return err;
}

int contract_script(struct backend *b, uint64_t unit)
{
	struct script s = {.b = b, .unit = unit, .ticket = NO_TICKET};
	int err = script_make(&s);

	if (!err)
		err = script_work(&s);
	b->ops->device_free(b, s.plain);
	b->ops->device_free(b, s.pinned);
	b->managed->free(b, s.managed);
	if (s.has_stream)
		b->ops->stream_destroy(b, s.stream);
	if (s.ticket != NO_TICKET && b->ops->digest_take(b, s.ticket, NULL))
		err = err ? err : -EIO;
	while (s.mapped && b->ops->unmap(b, s.va))
		err = err ? err : -EIO;
	if (s.va)
		b->ops->va_release(b, s.va, unit);
	if (s.gpu.handle)
		b->ops->chunk_destroy(b, &s.gpu);
	if (s.host.handle)
		b->ops->chunk_destroy(b, &s.host);
	return err;
}
