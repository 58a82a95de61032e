/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend on a driver that has no GPU: the contract of src/backend/backend.h as far as it
 * speaks of bytes, order and errors, every driver call failing in turn, and a planned space whose
 * blocks move between brackets.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "src/backend/watch/watch.h"
#include "src/core/cost.h"
#include "tests/fakecuda/fakecuda.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define UNIT KIB(64)

enum { HOST, GPU0, GPU1 };

static const struct fakecuda_config fake = {
	.devices = 2,
	.hbm_bytes = MIB(16),
	.host_bytes = MIB(64),
	.granularity = KIB(4),
};

struct contract {
	struct backend *b;
	stream_id_t compute, in, out;
};

static int open_backend(struct backend **out)
{
	return cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, out);
}

static int setup_wrapped(void **state, bool watched)
{
	struct contract *c = calloc(1, sizeof(*c));
	struct backend *cuda;

	assert_non_null(c);
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&cuda), 0);
	c->b = cuda;
	if (watched) {
		assert_int_equal(watch_create(cuda, &c->b), 0);
		assert_int_equal(watch_start(c->b, 1000), 0);
	}
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COMPUTE, &c->compute), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_IN, &c->in), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_OUT, &c->out), 0);
	*state = c;
	return 0;
}

static int setup(void **state)
{
	return setup_wrapped(state, false);
}

/* Behind the backend that records, which does while it is torn down. */
static int setup_watched(void **state)
{
	return setup_wrapped(state, true);
}

static void assert_no_problem(void)
{
	char text[256];

	fakecuda_problem(text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(fakecuda_nr_races(), 0);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
}

static int teardown(void **state)
{
	struct contract *c = *state;

	c->b->ops->stream_destroy(c->b, c->compute);
	c->b->ops->stream_destroy(c->b, c->in);
	c->b->ops->stream_destroy(c->b, c->out);
	c->b->ops->destroy(c->b);
	free(c);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	return 0;
}

static void wait_for(struct backend *b, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(b->ops->fence_record(b, stream, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
}

/* ------------------------------------------------------------------ kernels */

/* out[i] = in[i] + add, bytes; in may be out. */
struct add_args {
	const uint8_t *in;
	uint8_t *out;
	uint64_t bytes;
	uint8_t add;
};

static void add_fn(const void *p)
{
	const struct add_args *a = p;

	for (uint64_t i = 0; i < a->bytes; i++)
		a->out[i] = (uint8_t)(a->in[i] + a->add);
}

static int add_cuda(void *stream, const void *p)
{
	const struct add_args *a = p;
	const struct fakecuda_touch touch[] = {{a->in, a->bytes, false}, {a->out, a->bytes, true}};

	return fakecuda_launch(stream, add_fn, a, sizeof(*a), touch, 2) ? -EIO : 0;
}

static const struct weir_kernel add_kernel = {.name = "add", .cuda = add_cuda};

static struct weir_use use_of(const void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){
		.addr = (void *)(uintptr_t)addr,
		.bytes = bytes,
		.kind = kind,
		.read_bytes = kind == WEIR_READ || kind == WEIR_WRITE ? bytes : 0,
		.write_bytes = kind == WEIR_WRITE || kind == WEIR_OVERWRITE ? bytes : 0,
	};
}

static int launch_add(struct backend *b, stream_id_t stream, const uint8_t *in, uint8_t *out,
		      uint64_t bytes, uint8_t add)
{
	const struct add_args args = {in, out, bytes, add};
	const struct weir_use uses[] = {use_of(in, bytes, WEIR_READ),
					use_of(out, bytes, WEIR_OVERWRITE)};
	const struct weir_launch launch = {.kernel = &add_kernel,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};

	return b->ops->launch(b, stream, &launch);
}

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
	assert_int_equal(open_backend(&b), -ENODEV);
	fakecuda_reset(&old);
	assert_int_equal(open_backend(&b), -ENOTSUP);
	fakecuda_reset(&fake);
	fakecuda_fail_symbol("cuInit", 0, CU_SYSTEM_DRIVER_MISMATCH);
	assert_int_equal(open_backend(&b), -EIO);
	assert_null(b);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

static void test_description(void **state)
{
	struct contract *c = *state;
	const struct weir_machine_desc *desc = &c->b->desc;
	struct weir_machine_desc measured = *desc;
	struct backend *b;

	assert_int_equal(weir_machine_check(desc, NULL, 0), 0);
	assert_int_equal(desc->nr_devices, 2);
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
	assert_int_equal(
		cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH, .measured = &measured},
			    &b),
		0);
	assert_true(b->desc.link[0].inplace_bytes_per_s == 12345);
	assert_true(b->desc.device[0].hbm_bytes_per_s == 54321);
	assert_int_equal(b->desc.memory[GPU0].bytes, MIB(16));
	assert_int_equal(b->desc.vmm.unmap_ns, 77);
	assert_true(cost_kernel_factor(&b->desc, "touch") == 2);
	assert_int_equal(b->desc.vmm.granularity_bytes, KIB(4));
	b->ops->destroy(b);
}

/* ------------------------------------------------------------------ memory */

static void test_chunks(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[16], more = {.handle = 77};

	for (int i = 0; i < 16; i++) {
		assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), &chunk[i]), 0);
		assert_int_not_equal(chunk[i].handle, 0);
		assert_int_equal(chunk[i].bytes, MIB(1));
		assert_int_equal(chunk[i].memory, GPU0);
		/* The other device's copy engine reaches it, too; the CPU does not. */
		assert_int_equal(fakecuda_access(chunk[i].alias, 0), CU_ACCESS_READWRITE);
		assert_int_equal(fakecuda_access(chunk[i].alias, 1), CU_ACCESS_READWRITE);
		assert_int_equal(fakecuda_access(chunk[i].alias, -1), CU_ACCESS_NONE);
	}
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(16));
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(4), &more), -ENOMEM);
	assert_int_equal(more.handle, 77);
	for (int i = 0; i < 16; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
	assert_int_equal(fakecuda_used_bytes(0), 0);
	assert_int_equal(b->ops->chunk_create(b, 3, KIB(4), &more), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 0, &more), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(4) + 1, &more), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UINT64_MAX - KIB(4) + 1, &more), -ENOMEM);
	assert_int_equal(b->ops->chunk_create(b, HOST, KIB(4), &more), 0);
	memset(more.alias, 1, KIB(4));
	b->ops->chunk_destroy(b, &more);
}

static void test_plain(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *gpu, *host, *third = &gpu;

	assert_int_equal(b->ops->device_alloc(b, GPU1, 1000, &gpu), 0);
	assert_int_equal(b->ops->memory_used(b, GPU1), 1000);
	assert_true(fakecuda_used_bytes(1) >= 1000);
	assert_int_equal(b->ops->device_alloc(b, HOST, 1000, &host), 0);
	memset(host, 1, 1000);
	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(17), &third), -ENOMEM);
	assert_int_equal(b->ops->device_alloc(b, GPU0, 0, &third), -EINVAL);
	assert_int_equal(b->ops->device_alloc(b, 3, 1, &third), -EINVAL);
	assert_ptr_equal(third, &gpu);
	b->ops->device_free(b, gpu);
	b->ops->device_free(b, host);
	b->ops->device_free(b, NULL);
	assert_int_equal(b->ops->memory_used(b, GPU1), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
}

/* Never more than 1/8 of a card, whatever is asked for, and in however many pieces. */
static void test_managed_guard(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *addr[2], *more = NULL;

	assert_int_equal(b->ops->managed_alloc(b, MIB(2) + 1, &more), -EDQUOT);
	assert_int_equal(b->ops->managed_alloc(b, UINT64_MAX, &more), -EDQUOT);
	assert_int_equal(b->ops->managed_alloc(b, MIB(1), &addr[0]), 0);
	assert_int_equal(b->ops->managed_alloc(b, MIB(1), &addr[1]), 0);
	assert_int_equal(b->ops->managed_alloc(b, 1, &more), -EDQUOT);
	assert_null(more);
	assert_int_equal(fakecuda_managed_bytes(), MIB(2));
	assert_int_equal(b->ops->managed_prefetch(b, c->compute, addr[0], MIB(1), GPU0), 0);
	assert_int_equal(b->ops->managed_prefetch(b, c->compute, addr[0], MIB(1), HOST), 0);
	assert_int_equal(b->ops->managed_prefetch(b, c->compute, &more, 1, GPU0), -EINVAL);
	wait_for(b, c->compute);
	b->ops->managed_free(b, addr[0]);
	assert_int_equal(b->ops->managed_alloc(b, MIB(1), &addr[0]), 0);
	b->ops->managed_free(b, addr[0]);
	b->ops->managed_free(b, addr[1]);
	assert_int_equal(fakecuda_managed_bytes(), 0);
}

/* ------------------------------------------------------------------ mappings */

static void test_map_rules(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk, small, other, host;
	void *bad = c;
	char *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, 0, &bad), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, UNIT + KIB(4), UNIT, &bad), -EINVAL);
	assert_int_equal(b->ops->va_reserve(b, UNIT, 100, &bad), -EINVAL);
	assert_ptr_equal(bad, c);
	assert_int_equal(b->ops->va_reserve(b, 4 * UNIT, UNIT, (void **)&va), 0);
	assert_int_equal((uintptr_t)va % UNIT, 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &other), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, KIB(4), &small), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, &host), 0);
	assert_int_equal(b->ops->map(b, va + KIB(4), &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va + 4 * UNIT, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &small, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1u << 2), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, BACKEND_HOST_BIT), -EINVAL);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READWRITE);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->map(b, va, &other, BACKEND_PROT_WRITE, 1), -EINVAL);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 3), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_READ);
	assert_int_equal(fakecuda_access(va, 1), CU_ACCESS_READ);
	/* Who is not named any more has no access any more. */
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 2), 0);
	assert_int_equal(fakecuda_access(va, 0), CU_ACCESS_NONE);
	assert_int_equal(b->ops->set_access(b, va + UNIT, BACKEND_PROT_READ, 1), -EINVAL);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_READ, 1u << 5), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + UNIT), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->unmap(b, va), -EINVAL);
	/* Host memory: the CPU gets in, and is kept out again. */
	assert_int_equal(b->ops->map(b, va, &host, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(va, -1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, BACKEND_HOST_BIT | 1), 0);
	memset(va, 5, UNIT);
	assert_int_equal(((uint8_t *)host.alias)[7], 5);
	assert_int_equal(b->ops->set_access(b, va, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(fakecuda_access(va, -1), CU_ACCESS_NONE);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->chunk_destroy(b, &chunk);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), -EINVAL);
	b->ops->chunk_destroy(b, &other);
	b->ops->chunk_destroy(b, &small);
	b->ops->chunk_destroy(b, &host);
	b->ops->va_release(b, va, 4 * UNIT);
	assert_no_problem();
}

/* A chunk changes hands under a kernel that is held back. */
static void test_map_at_two_addresses(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk, sum;
	void *stream = fakecuda_stream(0);
	fence_t first;
	uint8_t *va, back = 0;

	assert_int_equal(b->ops->va_reserve(b, 3 * UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &chunk), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, &sum), 0);
	assert_int_equal(b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->map(b, va + 2 * UNIT, &sum, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->upload(b, c->compute, va, &(uint8_t){40}, 1), 0);
	fakecuda_gate(stream, true);
	assert_int_equal(launch_add(b, c->compute, va, va, 1, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &first), 0);
	assert_int_equal(b->ops->map(b, va + UNIT, &chunk, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(launch_add(b, c->compute, va + UNIT, va + 2 * UNIT, 1, 1), 0);
	assert_int_equal(b->ops->fence_done(b, first), 0);
	fakecuda_gate(stream, false);
	assert_int_equal(b->ops->fence_wait(b, first), 0);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->download(b, c->compute, &back, va + 2 * UNIT, 1), 0);
	assert_int_equal(back, 42);
	assert_int_equal(b->ops->unmap(b, va + UNIT), 0);
	assert_int_equal(b->ops->unmap(b, va + 2 * UNIT), 0);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->chunk_destroy(b, &sum);
	b->ops->va_release(b, va, 3 * UNIT);
	assert_no_problem();
}

/* ------------------------------------------------------------------ work */

static void test_upload_kernel_download(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[2];
	uint8_t *bytes = malloc(2 * UNIT), *back = calloc(1, 2 * UNIT), *va;
	uint64_t inplace[WEIR_DIRECTION_NR];

	assert_true(bytes && back);
	for (uint64_t i = 0; i < 2 * UNIT; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	assert_int_equal(b->ops->va_reserve(b, 2 * UNIT, UNIT, (void **)&va), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->chunk_create(b, i ? HOST : GPU0, UNIT, &chunk[i]), 0);
		assert_int_equal(b->ops->map(b, va + i * UNIT, &chunk[i], BACKEND_PROT_WRITE, 1),
				 0);
	}
	/* Across the border between a block in HBM and one on the host, unaligned. */
	assert_int_equal(b->ops->upload(b, c->compute, va + 3, bytes, 2 * UNIT - 3), 0);
	assert_int_equal(launch_add(b, c->compute, va + UNIT, va, UNIT, 1), 0);
	b->ops->inplace_bytes(b, 0, inplace);
	assert_int_equal(inplace[WEIR_TO_DEVICE], UNIT);
	assert_int_equal(inplace[WEIR_TO_HOST], 0);
	assert_int_equal(b->ops->download(b, c->compute, back, va, 2 * UNIT), 0);
	for (uint64_t i = 0; i < UNIT; i++)
		assert_int_equal(back[i], (uint8_t)(back[UNIT + i] + 1));
	assert_memory_equal(back + UNIT, bytes + UNIT - 3, UNIT);
	assert_int_equal(b->ops->upload(b, c->compute, va, bytes, 2 * UNIT + 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, c->compute, back, bytes, 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, 1234, va, bytes, 1), -EINVAL);
	assert_int_equal(b->ops->download(b, c->compute, NULL, va, 1), -EINVAL);
	assert_int_equal(launch_add(b, c->compute, back, va, 1, 1), -EINVAL);
	assert_int_equal(launch_add(b, 1234, va, va, 1, 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + UNIT), 0);
	memset(back, 9, 2 * UNIT);
	assert_int_equal(b->ops->download(b, c->compute, back, va, UNIT + 1), -EINVAL);
	assert_int_equal(back[0], 9);
	assert_int_equal(b->ops->unmap(b, va), 0);
	for (uint32_t i = 0; i < 2; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
	b->ops->va_release(b, va, 2 * UNIT);
	free(bytes);
	free(back);
	assert_no_problem();
}

static void test_no_cuda_version(void **state)
{
	struct contract *c = *state;
	const struct weir_kernel kernel = {.name = "cpu-only"};
	const struct weir_launch launch = {.kernel = &kernel};

	assert_int_equal(c->b->ops->launch(c->b, c->compute, &launch), -ENOSYS);
}

static void test_copies_and_fences(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu, peer, back;
	struct backend_copy pieces[100];
	void *in = fakecuda_stream(1);
	fence_t first, second;

	assert_int_equal(b->ops->chunk_create(b, HOST, 100 * KIB(4), &host), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, 100 * KIB(4), &back), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 100 * KIB(4), &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU1, 100 * KIB(4), &peer), 0);
	for (uint32_t i = 0; i < 100 * KIB(4); i++)
		((uint8_t *)host.alias)[i] = (uint8_t)(i / 4096 + i);
	fakecuda_gate(in, true);
	/* In the other order; more pieces than the driver takes at once. */
	for (uint32_t i = 0; i < 100; i++)
		pieces[i] = (struct backend_copy){(char *)gpu.alias + (99 - i) * KIB(4),
						  (char *)host.alias + (99 - i) * KIB(4), KIB(4)};
	assert_int_equal(b->ops->copy(b, c->in, pieces, 100), 0);
	assert_int_equal(b->ops->fence_record(b, c->in, &first), 0);
	assert_int_not_equal(first, 0);
	assert_int_equal(b->ops->fence_done(b, first), 0);
	assert_int_equal(b->ops->fence_time_ns(b, first), 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, first), 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, 0), 0);
	pieces[0] = (struct backend_copy){peer.alias, gpu.alias, gpu.bytes};
	pieces[1] = (struct backend_copy){back.alias, peer.alias, gpu.bytes};
	assert_int_equal(b->ops->copy(b, c->out, pieces, 1), 0);
	assert_int_equal(b->ops->copy(b, c->out, pieces + 1, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->out, &second), 0);
	assert_int_equal(b->ops->fence_done(b, second), 0);
	fakecuda_gate(in, false);
	assert_int_equal(b->ops->fence_wait(b, second), 0);
	assert_int_equal(b->ops->fence_done(b, first), 1);
	assert_true(b->ops->fence_time_ns(b, first) > 0);
	assert_true(b->ops->fence_time_ns(b, first) <= b->ops->fence_time_ns(b, second));
	assert_true(b->ops->fence_time_ns(b, second) <= b->ops->now_ns(b));
	assert_memory_equal(back.alias, host.alias, host.bytes);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &peer);
	b->ops->chunk_destroy(b, &back);
	assert_no_problem();
}

static void test_fence_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	stream_id_t gone;
	fence_t fence;

	assert_int_equal(b->ops->fence_done(b, 0), 1);
	assert_int_equal(b->ops->fence_wait(b, 0), 0);
	assert_int_equal(b->ops->fence_record(b, 99, &fence), -EINVAL);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence + 1), -EINVAL);
	assert_int_equal(b->ops->fence_wait(b, fence + 1), -EINVAL);
	assert_int_equal(b->ops->stream_wait(b, c->compute, fence + 1), -EINVAL);
	assert_int_equal(b->ops->stream_wait(b, 99, fence), -EINVAL);
	assert_int_equal(b->ops->stream_create(b, 2, BACKEND_COMPUTE, &gone), -EINVAL);
	assert_ptr_equal(b->ops->stream_native(b, c->compute), fakecuda_stream(0));
	assert_null(b->ops->stream_native(b, 99));
	/* A fence outlives its stream. */
	assert_int_equal(b->ops->stream_create(b, 1, BACKEND_COMPUTE, &gone), 0);
	assert_int_equal(b->ops->fence_record(b, gone, &fence), 0);
	b->ops->stream_destroy(b, gone);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_record(b, gone, &fence), -EINVAL);
}

/* Many fences that are not reached, then all of them. */
static void test_many_fences(void **state)
{
	enum { NR = 1000 };
	struct contract *c = *state;
	struct backend *b = c->b;
	void *stream = fakecuda_stream(0);
	fence_t fence[NR];

	for (int round = 0; round < 3; round++) {
		fakecuda_gate(stream, true);
		for (int i = 0; i < NR; i++)
			assert_int_equal(b->ops->fence_record(b, c->compute, &fence[i]), 0);
		assert_int_equal(b->ops->fence_done(b, fence[0]), 0);
		fakecuda_gate(stream, false);
		assert_int_equal(b->ops->fence_wait(b, fence[NR / 2]), 0);
		assert_int_equal(b->ops->fence_done(b, fence[0]), 1);
		assert_int_equal(b->ops->fence_wait(b, fence[NR - 1]), 0);
		for (int i = 1; i < NR; i++)
			assert_true(b->ops->fence_time_ns(b, fence[i]) >=
				    b->ops->fence_time_ns(b, fence[i - 1]));
	}
	/* Events are used again: no more than were open at a time, and a few. */
	assert_true(fakecuda_nr_calls_of("cuEventCreate") < NR + 10);
}

static void test_trap_is_reported(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	void *stream = fakecuda_stream(0);
	fence_t before, after;
	uint8_t *va;

	assert_int_equal(b->ops->va_reserve(b, UNIT, UNIT, (void **)&va), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &before), 0);
	assert_int_equal(b->ops->fence_wait(b, before), 0);
	fakecuda_gate(stream, true);
	assert_int_equal(launch_add(b, c->compute, va, va, 1, 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &after), 0);
	fakecuda_gate(stream, false);
	assert_int_equal(b->ops->fence_wait(b, after), -WEIR_ETRAP);
	/* Once; after that nothing that was queued is waited for. */
	assert_int_equal(b->ops->fence_wait(b, after), 0);
	assert_int_equal(b->ops->fence_done(b, after), 1);
	b->ops->va_release(b, va, UNIT);
}

/* ------------------------------------------------------------------ progress, threads */

struct progress {
	struct backend *b;
	pthread_mutex_t lock;
	pthread_cond_t called;
	uint64_t nr;
};

static void count(void *arg)
{
	struct progress *p = arg;

	pthread_mutex_lock(&p->lock);
	p->nr++;
	pthread_cond_signal(&p->called);
	pthread_mutex_unlock(&p->lock);
	/* It may call what does not block. */
	(void)p->b->ops->now_ns(p->b);
	(void)p->b->ops->memory_used(p->b, GPU0);
}

static void wait_until_called(struct progress *p, uint64_t more_than)
{
	pthread_mutex_lock(&p->lock);
	while (p->nr <= more_than)
		pthread_cond_wait(&p->called, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void test_progress(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {
		.b = b, .lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};
	void *stream = fakecuda_stream(0);
	fence_t fence;
	uint64_t nr;

	assert_int_equal(b->ops->set_progress(b, count, &p), 0);
	fakecuda_gate(stream, true);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	b->ops->host_spend(b, 5000000);
	assert_int_equal(p.nr, 0);
	fakecuda_gate(stream, false);
	wait_until_called(&p, 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	/* Idle again, and woken again. */
	nr = p.nr;
	assert_int_equal(b->ops->fence_record(b, c->in, &fence), 0);
	wait_until_called(&p, nr);
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
	nr = p.nr;
	wait_for(b, c->compute);
	b->ops->host_spend(b, 2000000);
	assert_int_equal(p.nr, nr);
}

/* When a fence was reached, waiting for it as one who only asks for times does. */
static uint64_t time_of(struct backend *b, fence_t fence)
{
	uint64_t ns;

	while (!(ns = b->ops->fence_time_ns(b, fence)))
		b->ops->host_spend(b, 100000);
	return ns;
}

/* A mark calls nobody; a fence does, also when somebody who asked for its time noticed it first. */
static void test_marks(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct progress p = {
		.b = b, .lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};
	void *stream = fakecuda_stream(0);
	fence_t before, after, fence;

	assert_int_equal(b->ops->set_progress(b, count, &p), 0);
	fakecuda_gate(stream, true);
	assert_int_equal(b->ops->fence_mark(b, c->compute, &before), 0);
	assert_int_equal(b->ops->fence_mark(b, c->compute, &after), 0);
	assert_int_equal(b->ops->fence_time_ns(b, before), 0);
	fakecuda_gate(stream, false);
	assert_true(time_of(b, after) >= time_of(b, before));
	assert_true(b->ops->now_ns(b) >= time_of(b, after));
	b->ops->host_spend(b, 2000000);
	assert_int_equal(p.nr, 0);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
		while (!b->ops->fence_time_ns(b, fence))
			;
		wait_until_called(&p, i);
	}
	assert_int_equal(b->ops->set_progress(b, NULL, &p), 0);
}

static void *hammer(void *arg)
{
	struct contract *c = arg;
	struct backend *b = c->b;
	intptr_t failures = 0;

	for (int i = 0; i < 100; i++) {
		struct backend_chunk chunk;
		uint8_t byte = 1, back = 0, *va;
		fence_t fence;

		failures += b->ops->va_reserve(b, UNIT, UNIT, (void **)&va) != 0;
		failures += b->ops->chunk_create(b, GPU0, UNIT, &chunk) != 0;
		failures += b->ops->map(b, va, &chunk, BACKEND_PROT_WRITE, 1) != 0;
		failures += b->ops->upload(b, c->in, va, &byte, 1) != 0;
		failures += launch_add(b, c->compute, va, va, 1, (uint8_t)i) != 0;
		failures += b->ops->fence_record(b, c->compute, &fence) != 0;
		failures += b->ops->stream_wait(b, c->out, fence) != 0;
		failures += b->ops->download(b, c->out, &back, va, 1) != 0;
		failures += back != (uint8_t)(i + 1);
		failures += b->ops->fence_wait(b, fence) != 0;
		failures += b->ops->unmap(b, va) != 0;
		b->ops->chunk_destroy(b, &chunk);
		b->ops->va_release(b, va, UNIT);
	}
	return (void *)failures;
}

static void test_threads(void **state)
{
	struct contract *c = *state;
	struct progress p = {
		.b = c->b, .lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};
	pthread_t thread[3];

	assert_int_equal(c->b->ops->set_progress(c->b, count, &p), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, c), 0);
	for (int i = 0; i < 3; i++) {
		void *failures;

		pthread_join(thread[i], &failures);
		assert_null(failures);
	}
	assert_int_equal(c->b->ops->set_progress(c->b, NULL, &p), 0);
	assert_no_problem();
}

/* ------------------------------------------------------------------ injected failures */

/* Everything once; the first error, with what was made taken back. */
static int scripted_run(void)
{
	struct backend_chunk host = {0}, gpu = {0};
	void *va = NULL, *plain = NULL, *pinned = NULL, *managed = NULL;
	stream_id_t stream = UINT32_MAX;
	uint8_t byte = 1;
	fence_t fence = 0;
	struct backend *b;
	bool mapped = false;
	int err = open_backend(&b);

	if (err)
		return err;
	(void)((err = b->ops->chunk_create(b, HOST, UNIT, &host)) ||
	       (err = b->ops->chunk_create(b, GPU0, UNIT, &gpu)) ||
	       (err = b->ops->va_reserve(b, UNIT, UNIT, &va)) ||
	       (err = b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream)) ||
	       (err = b->ops->map(b, va, &gpu, BACKEND_PROT_WRITE, 1)));
	mapped = !err;
	(void)(err || (err = b->ops->set_access(b, va, BACKEND_PROT_READ, 2)) ||
	       (err = b->ops->set_access(b, va, BACKEND_PROT_WRITE, 1)) ||
	       (err = b->ops->device_alloc(b, GPU0, 100, &plain)) ||
	       (err = b->ops->device_alloc(b, HOST, 100, &pinned)) ||
	       (err = b->ops->managed_alloc(b, 100, &managed)) ||
	       (err = b->ops->managed_prefetch(b, stream, managed, 100, GPU0)) ||
	       (err = b->ops->upload(b, stream, va, &byte, 1)) ||
	       (err = launch_add(b, stream, va, va, 1, 1)) ||
	       (err = b->ops->copy(b, stream, &(struct backend_copy){host.alias, gpu.alias, UNIT},
				   1)) ||
	       (err = b->ops->download(b, stream, &byte, va, 1)) ||
	       (err = b->ops->fence_record(b, stream, &fence)) ||
	       (err = b->ops->fence_wait(b, fence)) ||
	       (err = b->ops->fence_done(b, fence) == 1 ? 0 : -EIO));
	if (!err)
		assert_int_equal(byte, 2);
	b->ops->device_free(b, plain);
	b->ops->device_free(b, pinned);
	b->ops->managed_free(b, managed);
	if (stream != UINT32_MAX)
		b->ops->stream_destroy(b, stream);
	while (mapped && b->ops->unmap(b, va))
		err = err ? err : -EIO;
	if (va)
		b->ops->va_release(b, va, UNIT);
	if (gpu.handle)
		b->ops->chunk_destroy(b, &gpu);
	if (host.handle)
		b->ops->chunk_destroy(b, &host);
	b->ops->destroy(b);
	return err;
}

static void test_each_driver_call_fails(void **state)
{
	uint64_t nr;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(scripted_run(), 0);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	nr = fakecuda_nr_calls();
	assert_true(nr > 60);
	for (uint64_t i = 1; i <= nr; i++) {
		unsigned int leaks;
		int err;

		fakecuda_reset(&fake);
		fakecuda_fail_at(i, i % 2 ? CU_OUT_OF_MEMORY : CU_NOT_SUPPORTED);
		err = scripted_run();
		leaks = fakecuda_leaks(NULL);
		if (leaks)
			print_message("call %llu of %llu: %u things leak\n", (unsigned long long)i,
				      (unsigned long long)nr, leaks);
		assert_int_equal(leaks, 0);
		/* Pushing a context for a look at a fence may fail unseen: there is a next look. */
		(void)err;
	}
	fakecuda_reset(&fake);
	assert_int_equal(scripted_run(), 0);
}

/* ------------------------------------------------------------------ a planned space */

#define BLOCKS 24
#define RANGES 4

/* Ranges of three times the budget, each step reads one and writes the next, again and again. */
static void test_planned_space(void **state)
{
	struct contract *c = *state;
	struct weir_space_config config = {
		.gpu_budget_bytes = 32 * UNIT, .block_bytes = UNIT, .mode = WEIR_PLANNED};
	uint8_t *range[RANGES], expected[RANGES] = {0};
	uint8_t *bytes = malloc(BLOCKS * UNIT);
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	struct weir_stats stats;
	struct backend *b;

	(void)c;
	assert_non_null(bytes);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	for (int r = 0; r < RANGES; r++) {
		assert_int_equal(weir_alloc(space, BLOCKS * UNIT, stream, (void **)&range[r]), 0);
		memset(bytes, r, BLOCKS * UNIT);
		assert_int_equal(weir_write(space, range[r], bytes, BLOCKS * UNIT), 0);
		expected[r] = (uint8_t)r;
	}
	for (int step = 0; step < 60; step++) {
		int from = step % RANGES, to = (step + 1) % RANGES;
		const struct add_args args = {range[from], range[to], BLOCKS * UNIT, 3};
		const struct weir_use uses[] = {use_of(range[from], BLOCKS * UNIT, WEIR_READ),
						use_of(range[to], BLOCKS * UNIT, WEIR_OVERWRITE)};
		const struct weir_launch launch = {.kernel = &add_kernel,
						   .args = &args,
						   .args_bytes = sizeof(args),
						   .uses = uses,
						   .nr_uses = 2};

		assert_int_equal(weir_begin(space, stream, uses, 2), 0);
		assert_int_equal(weir_launch(stream, &launch), 0);
		assert_int_equal(weir_end(space, stream), 0);
		expected[to] = (uint8_t)(expected[from] + 3);
	}
	assert_int_equal(weir_space_sync(space), 0);
	assert_int_equal(weir_space_check(space), 0);
	for (int r = 0; r < RANGES; r++) {
		assert_int_equal(weir_read(space, bytes, range[r], BLOCKS * UNIT), 0);
		for (uint64_t i = 0; i < BLOCKS * UNIT; i++)
			if (bytes[i] != expected[r])
				fail_msg("range %d, byte %llu: %u, not %u", r,
					 (unsigned long long)i, bytes[i], expected[r]);
		assert_int_equal(weir_free(space, range[r], stream), 0);
	}
	weir_space_stats(space, &stats);
	assert_true(stats.nr_plans > 0);
	assert_true(stats.nr_moves[WEIR_CAUSE_EVICTION] > 20);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	free(bytes);
	assert_no_problem();
}

/* ------------------------------------------------------------------ */

#define CASE(test, setup)                                          \
	{                                                          \
#test " (" #setup ")", test, setup, teardown, NULL \
	}
#define SUITE(setup)                                                                              \
	CASE(test_description, setup), CASE(test_chunks, setup), CASE(test_plain, setup),         \
		CASE(test_managed_guard, setup), CASE(test_map_rules, setup),                     \
		CASE(test_map_at_two_addresses, setup), CASE(test_upload_kernel_download, setup), \
		CASE(test_no_cuda_version, setup), CASE(test_copies_and_fences, setup),           \
		CASE(test_fence_arguments, setup), CASE(test_many_fences, setup),                 \
		CASE(test_trap_is_reported, setup), CASE(test_progress, setup),                   \
		CASE(test_marks, setup), CASE(test_threads, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_driver),
		SUITE(setup),
		SUITE(setup_watched),
		cmocka_unit_test(test_each_driver_call_fails),
		CASE(test_planned_space, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
