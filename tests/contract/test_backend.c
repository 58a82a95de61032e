/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of src/backend/backend.h on the simulator, with bytes and without, behind flaky and
 * behind watch, and parts of it with four GPUs and with sixteen; and what is the simulator's own:
 * what calls cost and when, what it refuses, guards, poison.
 *
 * Labels: threads
 * Links: backend-cases
 */
#include "src/backend/flaky/flaky.h"
#include "src/backend/watch/watch.h"
#include "src/base/util.h"
#include "tests/contract/cases/cases.h"
#include "tests/support/amount.h"

static int open_sim(uint32_t nr_gpus, enum weir_data data, struct backend **out)
{
	struct weir_machine_desc desc;

	test_machine_gpus(&desc, nr_gpus);
	for (uint32_t d = 0; d < nr_gpus; d++)
		desc.device[d].plan_work_ns = 1;
	return sim_create(&desc, data, out);
}

static int open_real(struct backend **out)
{
	return open_sim(2, WEIR_DATA_REAL, out);
}

static int open_phantom(struct backend **out)
{
	return open_sim(2, WEIR_DATA_PHANTOM, out);
}

static int open_four(struct backend **out)
{
	return open_sim(4, WEIR_DATA_REAL, out);
}

static int open_sixteen(struct backend **out)
{
	return open_sim(WEIR_DEVICES_MAX, WEIR_DATA_REAL, out);
}

static int open_flaky(struct backend **out)
{
	struct backend *sim;
	int err = open_real(&sim);

	return err ? err : flaky_create(sim, out);
}

/* It records, and is torn down while it does. */
static int open_watched(struct backend **out)
{
	struct backend *sim;
	int err = open_real(&sim);

	err = err ? err : watch_create(sim, out);
	return err ? err : watch_start(*out, 1000);
}

static void check_leaks(struct contract *c)
{
	assert_int_equal(sim_leaks(can(c, CAN_FAIL) ? flaky_inner(c->b) : c->b), 0);
}

static const struct contract_target targets[] = {
	{"real", open_real, check_leaks, NULL, CAN_BYTES | CAN_FULL | CAN_TRAP},
	{"watched", open_watched, NULL, NULL, CAN_BYTES | CAN_FULL | CAN_TRAP},
	{"phantom", open_phantom, check_leaks, NULL, CAN_FULL | CAN_TRAP},
	{"flaky", open_flaky, check_leaks, NULL, CAN_BYTES | CAN_FULL | CAN_TRAP | CAN_FAIL},
};
static const struct contract_target four = {"four GPUs", open_four, check_leaks, NULL,
					    CAN_BYTES | CAN_FULL | CAN_TRAP};
static const struct contract_target sixteen = {"sixteen GPUs", open_sixteen, check_leaks, NULL,
					       CAN_BYTES | CAN_FULL | CAN_TRAP};

/* ------------------------------------------------------------------ what calls take */

/* As a driver rounds them. */
static void test_plain_is_rounded(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *small, *large, *third = &small;

	assert_int_equal(b->ops->device_alloc(b, GPU0, 1, &small), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), 512);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(2) + 1, &large), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(4) + 512);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(12), &third), -ENOMEM);
	assert_int_equal(b->ops->device_alloc(b, GPU0, UINT64_MAX, &third), -ENOMEM);
	assert_ptr_equal(third, &small);
	b->ops->device_free(b, small);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(12), &third), 0);
	b->ops->device_free(b, large);
	b->ops->device_free(b, third);
}

static void test_map_cost(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const struct weir_vmm_desc *vmm = &b->desc.vmm;
	struct backend_chunk chunk;
	uint64_t t;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, (void **)&va), 0);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 1, &chunk), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->create_hbm_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 3), 0);
	assert_int_equal(b->ops->now_ns(b) - t,
			 vmm->map_ns + vmm->set_access_ns + vmm->set_access_device_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 1), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->set_access_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->unmap_ns);
	/* Without access for anybody the mapping alone is made. */
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 0), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->map_ns);
	assert_int_equal(b->ops->unmap(b, va), 0);
	t = b->ops->now_ns(b);
	b->ops->host_spend(b, 12345);
	assert_int_equal(b->ops->now_ns(b) - t, 12345);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, c->unit);
}

/* An alias costs more for each further device, and more again for a host chunk's pages. */
static void test_alias_cost(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const struct weir_vmm_desc *vmm = &b->desc.vmm;
	const struct {
		uint32_t memory;
		uint64_t devices, ns;
	} cases[] = {
		{GPU1, 2, vmm->create_hbm_ns},
		{GPU1, 3, vmm->create_hbm_ns + vmm->set_access_device_ns},
		{GPU1, 0, vmm->create_hbm_ns + vmm->set_access_device_ns},
		{HOST, 1, vmm->create_host_ns},
		{HOST, 0,
		 vmm->create_host_ns + vmm->set_access_device_ns + 2 * vmm->set_access_host_mib_ns},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t t = b->ops->now_ns(b);
		struct backend_chunk chunk;

		assert_int_equal(
			b->ops->chunk_create(b, cases[i].memory, MIB(2), cases[i].devices, &chunk),
			0);
		assert_int_equal(b->ops->now_ns(b) - t, cases[i].ns);
		b->ops->chunk_destroy(b, &chunk);
	}
}

/* Devices that are added cost what giving access costs; those that are there nothing. */
static void test_add_devices_cost(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const struct weir_vmm_desc *vmm = &b->desc.vmm;
	struct backend_chunk host;
	uint64_t t = b->ops->now_ns(b);

	assert_int_equal(b->ops->chunk_create(b, HOST, MIB(2), BACKEND_HOST_BIT, &host), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->create_host_ns);
	for (uint64_t d = 0; d < 3; d++) {
		t = b->ops->now_ns(b);
		assert_int_equal(b->ops->chunk_add_devices(b, &host, d < 2 ? d + 1 : 3), 0);
		assert_int_equal(b->ops->now_ns(b) - t,
				 d < 2 ? vmm->set_access_ns + 2 * vmm->set_access_host_mib_ns : 0);
	}
	b->ops->chunk_destroy(b, &host);
}

/* An engine for which there is no alias is refused, whichever end it is; so are uploads by it, but
 * to a host chunk, which the CPU reaches. */
static void test_alias_of_others(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host[2], gpu[2];
	struct backend_copy copy;
	char byte = 1;

	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, i + 1, &host[i]), 0);
		assert_int_equal(b->ops->chunk_create(b, GPU1, c->unit, i + 1, &gpu[i]), 0);
	}
	copy = (struct backend_copy){gpu[0].alias, host[0].alias, c->unit};
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), 0);
	copy.dst = gpu[1].alias;
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), -EACCES);
	copy = (struct backend_copy){gpu[0].alias, host[1].alias, c->unit};
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), -EACCES);
	assert_int_equal(b->ops->upload(b, c->in, gpu[1].alias, &byte, 1), -EINVAL);
	assert_int_equal(b->ops->download(b, c->in, &byte, gpu[1].alias, 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, c->in, host[1].alias, &byte, 1), 0);
	contract_wait(b, c->in);
	for (int i = 0; i < 2; i++) {
		b->ops->chunk_destroy(b, &host[i]);
		b->ops->chunk_destroy(b, &gpu[i]);
	}
}

/* Map a chunk for one device, change that, unmap; each takes what it takes for a device's memory,
 * and so much more. */
static void expect_map_cost(struct contract *c, uint32_t memory, uint64_t bytes, uint64_t access_ns,
			    uint64_t unmap_ns)
{
	struct backend *b = c->b;
	const struct weir_vmm_desc *vmm = &b->desc.vmm;
	struct backend_chunk chunk;
	uint64_t t;
	void *va;

	assert_int_equal(b->ops->va_reserve(b, bytes, bytes, &va), 0);
	assert_int_equal(b->ops->chunk_create(b, memory, bytes, 0, &chunk), 0);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->map_ns + vmm->set_access_ns + access_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 1), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->set_access_ns + access_ns);
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->unmap_ns + unmap_ns);
	/* Without access for anybody the mapping alone is made. */
	t = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 0), 0);
	assert_int_equal(b->ops->now_ns(b) - t, vmm->map_ns);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, bytes);
}

static void test_map_cost_by_size(void **state)
{
	struct contract *c = *state;
	const struct weir_vmm_desc *vmm = &c->b->desc.vmm;

	assert_true(vmm->set_access_host_mib_ns > 0 && vmm->unmap_host_mib_ns > 0);
	for (uint64_t mib = 1; mib <= 8; mib *= 2) {
		expect_map_cost(c, GPU0, MIB(mib), 0, 0);
		expect_map_cost(c, HOST, MIB(mib), mib * vmm->set_access_host_mib_ns,
				mib * vmm->unmap_host_mib_ns);
	}
}

struct progress {
	struct backend *b;
	fence_t fence;
	uint64_t nr, seen_ns;
};

static void progress_look(void *arg)
{
	struct progress *p = arg;

	p->nr++;
	if (!p->seen_ns && p->b->ops->fence_done(p->b, p->fence) == 1)
		p->seen_ns = p->b->ops->now_ns(p->b);
	/* Virtual time passes for the migrator; it is not called again from here. */
	p->b->ops->host_spend(p->b, 10);
}

static void test_progress_at_completion(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {.b = b};

	assert_int_equal(b->ops->set_progress(b, progress_look, &p), 0);
	assert_int_equal(contract_spin(b, c->compute), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &p.fence), 0);
	assert_int_equal(p.nr, 0);
	b->ops->host_spend(b, 100000);
	assert_int_equal(p.nr, 1);
	assert_int_equal(p.seen_ns, b->observe->fence_time_ns(b, p.fence));
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
}

/* A wait takes the host to the very time of the fence. */
static void test_wait_until_fence(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t now;
	fence_t fence;

	assert_int_equal(contract_spin(b, c->compute), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	now = b->ops->now_ns(b);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_true(b->ops->now_ns(b) > now);
	assert_int_equal(b->observe->fence_time_ns(b, fence), b->ops->now_ns(b));
}

/* ------------------------------------------------------------------ what is done aside */

struct aside {
	uint32_t nr_run, nr_done;
};

static uint64_t aside_run(void *arg)
{
	struct aside *a = arg;

	a->nr_run++;
	return 1000;
}

static void aside_done(void *arg)
{
	struct aside *a = arg;

	a->nr_done++;
}

/* It is over when the clock gets there, and the second one begins when the first is over; the
 * caller's clock does not move. */
static void test_aside_takes_virtual_time(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct aside a = {0};
	uint64_t t = b->ops->now_ns(b);

	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(b->ops->aside(b, aside_run, aside_done, &a), 0);
	assert_int_equal(a.nr_run, 2);
	assert_int_equal(b->ops->now_ns(b), t);
	b->ops->host_spend(b, 999);
	assert_int_equal(a.nr_done, 0);
	b->ops->host_spend(b, 1);
	assert_int_equal(a.nr_done, 1);
	b->ops->host_spend(b, 999);
	assert_int_equal(a.nr_done, 1);
	b->ops->host_spend(b, 1);
	assert_int_equal(a.nr_done, 2);
	/* The thread was idle meanwhile. */
	b->ops->host_spend(b, 5000);
	assert_int_equal(b->ops->aside(b, aside_run, aside_done, &a), 0);
	b->ops->host_spend(b, 999);
	assert_int_equal(a.nr_done, 2);
	b->ops->host_spend(b, 1);
	assert_int_equal(a.nr_done, 3);
}

/* Waiting for a fence does not wait for it, but passes it by. */
static void test_aside_holds_nothing_up(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct aside a = {0};
	uint64_t t, took[2];
	fence_t fence;

	for (uint32_t i = 0; i < 2; i++) {
		t = b->ops->now_ns(b);
		if (i)
			assert_int_equal(b->ops->aside(b, aside_run, aside_done, &a), 0);
		assert_int_equal(contract_spin(b, c->compute), 0);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		assert_int_equal(b->ops->fence_wait(b, fence), 0);
		took[i] = b->ops->now_ns(b) - t;
	}
	assert_int_equal(took[0], took[1]);
	assert_int_equal(a.nr_done, took[1] >= 1000);
	b->ops->host_spend(b, 1000);
	assert_int_equal(a.nr_done, 1);
}

/* What is not over at the end is over then. */
static void test_aside_ends_with_the_backend(void **state)
{
	struct aside a = {0};
	struct backend *b;

	(void)state;
	assert_int_equal(open_real(&b), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(b->ops->aside(b, aside_run, aside_done, &a), 0);
	b->ops->destroy(b);
	assert_int_equal(a.nr_run, 3);
	assert_int_equal(a.nr_done, 3);
}

/* Of a machine that does not say what plans take. */
static void test_aside_is_optional(void **state)
{
	struct weir_machine_desc desc;
	struct aside a = {0};
	struct backend *b;

	(void)state;
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &b), 0);
	assert_int_equal(b->ops->aside(b, aside_run, aside_done, &a), -ENOSYS);
	assert_int_equal(a.nr_run, 0);
	b->ops->destroy(b);
}

/* ------------------------------------------------------------------ what is refused */

static void test_copy_between_aliases_only(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu;
	struct backend_copy copy;

	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	copy = (struct backend_copy){gpu.alias, host.alias, c->unit + 1};
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), -EINVAL);
	copy.bytes = 0;
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), -EINVAL);
	copy = (struct backend_copy){gpu.alias, &copy, 8};
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), -EINVAL);
	copy = (struct backend_copy){gpu.alias, (char *)gpu.alias + 4, 8};
	assert_int_equal(b->ops->copy(b, c->in, &copy, 1), -EINVAL);
	assert_int_equal(b->ops->copy(b, c->in, &copy, 0), -EINVAL);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
}

static void test_empty_use(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct weir_use use;
	void *addr;

	assert_int_equal(b->ops->device_alloc(b, GPU0, 1000, &addr), 0);
	use = use_of(addr, 0, WEIR_READ);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), -EINVAL);
	b->ops->device_free(b, addr);
}

/* It has no stream of a driver's, and no name for a device but the description's. */
static void test_no_driver(void **state)
{
	struct contract *c = *state;
	char text[WEIR_NAME_MAX];
	stream_id_t adopted;

	c->b->observe->device_text(c->b, 1, text, sizeof(text));
	assert_string_equal(text, c->b->desc.device[1].name);
	assert_null(c->b->ops->stream_native(c->b, c->compute));
	assert_int_equal(c->b->ops->stream_adopt(c->b, 0, c, &adopted), -ENOSYS);
}

static void test_managed_is_optional(void **state)
{
	struct contract *c = *state;
	const struct backend_managed setup = {0};
	struct backend_managed_stats stats;
	void *addr;

	assert_int_equal(c->b->managed->setup(c->b, &setup), -ENOSYS);
	assert_int_equal(c->b->managed->stats(c->b, 0, &stats), -ENOSYS);
	assert_int_equal(c->b->managed->alloc(c->b, 4096, &addr), -ENOSYS);
	assert_int_equal(c->b->managed->prefetch(c->b, c->compute, NULL, 1, 0), -ENOSYS);
	assert_int_equal(c->b->managed->advise(c->b, NULL, 1, BACKEND_ADVICE_READ_MOSTLY, 0),
			 -ENOSYS);
}

/* ------------------------------------------------------------------ guards, poison */

static void test_guard_needs_bracket(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	struct weir_use use, declared;
	fence_t fence;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->access_guard(b, va + 1, true), -EINVAL);
	assert_int_equal(b->ops->access_guard(b, va, true), 0);
	use = use_of(va, c->unit, WEIR_WRITE);
	for (int kind = -1; kind <= WEIR_DISCARD; kind++) {
		bool enough = kind == WEIR_WRITE || kind == WEIR_OVERWRITE;

		declared = use_of(va, c->unit, kind < 0 ? WEIR_READ : (enum weir_use_kind)kind);
		if (kind >= 0)
			assert_int_equal(b->ops->access_begin(b, c->compute, c, &declared, 1), 0);
		assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), 0);
		if (kind >= 0)
			b->ops->access_end(b, c->compute, c);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		assert_int_equal(b->ops->fence_wait(b, fence), enough ? 0 : -WEIR_ETRAP);
	}
	assert_int_equal(b->ops->access_begin(b, 99, c, &declared, 1), -EINVAL);
	declared.bytes = 0;
	assert_int_equal(b->ops->access_begin(b, c->compute, c, &declared, 1), -EINVAL);
	assert_int_equal(b->ops->access_guard(b, va, false), 0);
	assert_int_equal(launch_touch(b, c->compute, (struct touch){0}, &use, 1), 0);
	contract_wait(b, c->compute);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->va_release(b, va, c->unit);
}

static void test_poison_behind_fence(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu;
	fence_t fence;

	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	if (can(c, CAN_BYTES)) {
		memset(gpu.alias, 7, c->unit);
		memset(host.alias, 0, c->unit);
	}
	assert_int_equal(
		b->ops->copy(b, c->out, &(struct backend_copy){host.alias, gpu.alias, c->unit}, 1),
		0);
	assert_int_equal(b->ops->fence_record(b, c->out, &fence), 0);
	b->ops->poison(b, &gpu, fence);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	if (can(c, CAN_BYTES)) {
		float value;

		assert_int_equal(((uint8_t *)host.alias)[c->unit - 1], 7);
		memcpy(&value, (char *)gpu.alias + c->unit - 4, 4);
		assert_true(value != value);
	}
	b->ops->poison(b, &host, 0);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
}

/* The chunk has no more block addresses than it may have; and at the last one a kernel meets the
 * copy that writes it just as at the first. */
static void test_all_addresses_are_looked_at(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const uint32_t nr = BACKEND_PLACES_MAX;
	struct backend_chunk gpu, host;
	struct backend_copy copy;
	uint8_t *va;

	assert_int_equal(b->ops->va_reserve(b, (nr + 1) * c->unit, c->unit, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	copy = (struct backend_copy){gpu.alias, host.alias, c->unit};
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(b->ops->map(b, va + i * c->unit, &gpu, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->map(b, va + nr * c->unit, &gpu, BACKEND_PROT_WRITE, 1), -EINVAL);
	for (uint32_t i = 0; i < nr; i++) {
		uint8_t *addr = va + i * c->unit;
		fence_t fence;

		assert_int_equal(b->ops->copy(b, c->in, &copy, 1), 0);
		assert_int_equal(contract_add(b, c->compute, addr, addr, 1, 1), 0);
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		assert_int_equal(b->ops->fence_wait(b, fence), -WEIR_ETRAP);
		contract_wait(b, c->in);
	}
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(b->ops->unmap(b, va + i * c->unit), 0);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->va_release(b, va, (nr + 1) * c->unit);
}

/* More streams than there are ids, one after the other. */
static void test_ids_are_used_again(void **state)
{
	struct backend *b = ((struct contract *)*state)->b;
	stream_id_t stream, first = 0;

	for (uint32_t i = 0; i <= 1u << 16; i++) {
		assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream), 0);
		b->ops->stream_destroy(b, stream);
		if (!i)
			first = stream;
	}
	assert_int_equal(stream, first);
}

/* ------------------------------------------------------------------ */

#define TESTS(target)                                                                         \
	CONTRACT_TEST(test_plain_is_rounded, target), CONTRACT_TEST(test_map_cost, target),   \
		CONTRACT_TEST(test_map_cost_by_size, target),                                 \
		CONTRACT_TEST(test_alias_cost, target),                                       \
		CONTRACT_TEST(test_add_devices_cost, target),                                 \
		CONTRACT_TEST(test_alias_of_others, target),                                  \
		CONTRACT_TEST(test_progress_at_completion, target),                           \
		CONTRACT_TEST(test_wait_until_fence, target),                                 \
		CONTRACT_TEST(test_aside_takes_virtual_time, target),                         \
		CONTRACT_TEST(test_aside_holds_nothing_up, target),                           \
		CONTRACT_TEST(test_copy_between_aliases_only, target),                        \
		CONTRACT_TEST(test_empty_use, target), CONTRACT_TEST(test_no_driver, target), \
		CONTRACT_TEST(test_managed_is_optional, target),                              \
		CONTRACT_TEST(test_guard_needs_bracket, target),                              \
		CONTRACT_TEST(test_all_addresses_are_looked_at, target),                      \
		CONTRACT_TEST(test_poison_behind_fence, target)

int main(void)
{
	const struct CMUnitTest tests[] = {TESTS(targets[0]),
					   TESTS(targets[1]),
					   TESTS(targets[2]),
					   TESTS(targets[3]),
					   CONTRACT_TEST(test_ids_are_used_again, targets[2]),
					   cmocka_unit_test(test_aside_ends_with_the_backend),
					   cmocka_unit_test(test_aside_is_optional),
					   CONTRACT_TESTS_OF_DEVICES(four),
					   CONTRACT_TESTS_OF_DEVICES(sixteen)};

	/* The last two have no more threads, which is what the thread sanitizer looks at. */
	return contract_run(targets, TEST_TSAN ? 2 : ARRAY_LEN(targets), tests, ARRAY_LEN(tests));
}
