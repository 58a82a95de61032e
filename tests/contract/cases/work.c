/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of copies, kernels, fences, and of what waits for what. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "src/core/space.h"
#include "tests/contract/cases/cases.h"

/* More pieces than any driver is handed at once. */
#define NR_PIECES 100u
/* More than a backend begins with; fewer than a driver queues before a call waits for room. */
#define NR_FENCES 300
/* As many as show in the process's memory if each left its times there. */
#define NR_STREAMS 400u

/* ------------------------------------------------------------------ copies */

/* Two blocks side by side, the second of them on the host. */
static uint8_t *mixed_create(struct contract *c, struct backend_chunk chunk[2])
{
	struct backend *b = c->b;
	uint8_t *va;

	assert_int_equal(b->ops->va_reserve(b, 2 * c->unit, c->unit, (void **)&va), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->chunk_create(b, i ? HOST : GPU0, c->unit, 0, &chunk[i]),
				 0);
		assert_int_equal(b->ops->map(b, va + i * c->unit, &chunk[i], BACKEND_PROT_WRITE, 1),
				 0);
	}
	return va;
}

static void mixed_destroy(struct contract *c, uint8_t *va, struct backend_chunk chunk[2])
{
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(c->b->ops->unmap(c->b, va + i * c->unit), 0);
		c->b->ops->chunk_destroy(c->b, &chunk[i]);
	}
	c->b->ops->va_release(c->b, va, 2 * c->unit);
}

/* Buffers of the program, unaligned, across the border between two blocks; and a kernel that reads
 * one of them over the link. */
void contract_upload_kernel_download(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t nr = 2 * c->unit, inplace[BACKEND_DIRECTION_NR];
	uint8_t *bytes = malloc(nr), *back = calloc(1, nr), *va;
	struct backend_chunk chunk[2];

	assert_true(bytes && back);
	for (uint64_t i = 0; i < nr; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	va = mixed_create(c, chunk);
	assert_int_equal(b->ops->upload(b, c->compute, va + 3, data_of(c, bytes), nr - 3), 0);
	assert_int_equal(contract_add(b, c->compute, va + c->unit, va, c->unit, 1), 0);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, back), va, nr), 0);
	b->observe->inplace_bytes(b, 0, HOST, inplace);
	assert_int_equal(inplace[BACKEND_TO_DEVICE], c->unit);
	assert_int_equal(inplace[BACKEND_TO_HOST], 0);
	for (uint64_t i = 0; i < c->unit && can(c, CAN_BYTES); i++)
		assert_int_equal(back[i], (uint8_t)(back[c->unit + i] + 1));
	if (can(c, CAN_BYTES))
		assert_memory_equal(back + c->unit, bytes + c->unit - 3, c->unit);
	mixed_destroy(c, va, chunk);
	free(bytes);
	free(back);
}

void contract_copy_refused(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint8_t *back = malloc(2 * c->unit + 1), *va;
	struct backend_chunk chunk[2];

	assert_non_null(back);
	memset(back, 9, 2 * c->unit + 1);
	va = mixed_create(c, chunk);
	assert_int_equal(b->ops->upload(b, c->compute, va, back, 2 * c->unit + 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, c->compute, va, back, 0), -EINVAL);
	assert_int_equal(b->ops->upload(b, c->compute, back, back, 1), -EINVAL);
	assert_int_equal(b->ops->upload(b, 1234, va, back, 1), -EINVAL);
	if (can(c, CAN_BYTES))
		assert_int_equal(b->ops->download(b, c->compute, NULL, va, 1), -EINVAL);
	assert_int_equal(b->ops->unmap(b, va + c->unit), 0);
	assert_int_equal(b->ops->download(b, c->compute, back, va, c->unit + 1), -EINVAL);
	assert_int_equal(back[0], 9);
	assert_int_equal(b->ops->map(b, va + c->unit, &chunk[1], BACKEND_PROT_WRITE, 1), 0);
	mixed_destroy(c, va, chunk);
	free(back);
}

/* Host to GPU in many pieces that are named backwards, from there (where there is another GPU, by
 * way of it) back to the host. */
void contract_copies(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t piece = c->unit / 64, bytes = 2 * c->unit;
	struct backend_chunk host, gpu, peer, back;
	struct backend_copy pieces[NR_PIECES] = {0};

	assert_int_equal(b->ops->chunk_create(b, HOST, bytes, 0, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, bytes, 0, &back), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, bytes, 0, &gpu), 0);
	assert_int_equal(b->ops->chunk_create(b, b->desc.nr_memories - 1, bytes, 0, &peer), 0);
	for (uint64_t i = 0; i < bytes && can(c, CAN_BYTES); i++) {
		((uint8_t *)host.alias)[i] = (uint8_t)(i / piece + i);
		((uint8_t *)back.alias)[i] = 0xee;
	}
	for (uint32_t i = 0; i < NR_PIECES; i++) {
		uint64_t at = (NR_PIECES - 1 - i) * piece;

		pieces[i] = (struct backend_copy){(char *)gpu.alias + at, (char *)host.alias + at,
						  piece};
	}
	assert_int_equal(b->ops->copy(b, c->in, pieces, NR_PIECES), 0);
	contract_wait(b, c->in);
	pieces[0] = (struct backend_copy){peer.alias, gpu.alias, NR_PIECES * piece};
	pieces[1] = (struct backend_copy){back.alias, peer.alias, NR_PIECES * piece};
	assert_int_equal(b->ops->copy(b, c->out, &pieces[0], 1), 0);
	assert_int_equal(b->ops->copy(b, c->out, &pieces[1], 1), 0);
	contract_wait(b, c->out);
	if (can(c, CAN_BYTES)) {
		assert_memory_equal(back.alias, host.alias, NR_PIECES * piece);
		assert_int_equal(((uint8_t *)back.alias)[NR_PIECES * piece], 0xee);
	}
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &back);
	b->ops->chunk_destroy(b, &gpu);
	b->ops->chunk_destroy(b, &peer);
}

/* From the host to the last GPU and back, by that GPU's engine, for which alone the aliases are. */
void contract_copies_of_a_neighbour(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint32_t last = b->desc.nr_devices - 1;
	uint64_t only = BACKEND_DEVICE_BIT(last);
	struct backend_chunk host, back, near;
	struct backend_copy copy;
	stream_id_t stream;

	assert_int_equal(b->ops->stream_create(b, last, BACKEND_COPY_OUT, &stream), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, only, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, only, &back), 0);
	assert_int_equal(b->ops->chunk_create(b, b->desc.device[last].memory, c->unit, only, &near),
			 0);
	if (can(c, CAN_BYTES)) {
		memset(host.alias, 5, c->unit);
		memset(back.alias, 0xee, c->unit);
	}
	copy = (struct backend_copy){near.alias, host.alias, c->unit};
	assert_int_equal(b->ops->copy(b, stream, &copy, 1), 0);
	copy = (struct backend_copy){back.alias, near.alias, c->unit};
	assert_int_equal(b->ops->copy(b, stream, &copy, 1), 0);
	contract_wait(b, stream);
	if (can(c, CAN_BYTES))
		assert_memory_equal(back.alias, host.alias, c->unit);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &back);
	b->ops->chunk_destroy(b, &near);
	b->ops->stream_destroy(b, stream);
}

/* Between memories of others, or of its device and another, on a compute stream: in its order, and
 * a kernel of another stream of the device is not waited for. */
void contract_copies_on_a_compute_stream(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint32_t last = b->desc.nr_devices - 1, second = last ? last - 1 : last;
	const uint32_t memory[] = {b->desc.device[0].memory, b->desc.device[second].memory,
				   b->desc.device[0].memory};
	struct backend_chunk chunk[3];
	stream_id_t own, other;
	uint8_t byte = 40;
	fence_t fence;
	void *va;

	assert_int_equal(b->ops->stream_create(b, last, BACKEND_COMPUTE, &own), 0);
	assert_int_equal(b->ops->stream_create(b, last, BACKEND_COMPUTE, &other), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(b->ops->chunk_create(b, memory[i], c->unit, 0, &chunk[i]), 0);
	assert_int_equal(b->ops->va_reserve(b, c->unit, c->unit, &va), 0);
	assert_int_equal(b->ops->map(b, va, &chunk[0], BACKEND_PROT_WRITE, c->devices), 0);
	assert_int_equal(b->ops->upload(b, c->compute, va, data_of(c, &byte), 1), 0);
	contract_gate_close(c, other);
	assert_int_equal(contract_spin(b, other), 0);
	/* Behind a kernel of the stream, there and back. */
	assert_int_equal(contract_add(b, own, va, va, 1, 1), 0);
	for (int i = 0; i < 2; i++) {
		const struct backend_copy copy = {chunk[i + 1].alias, chunk[i].alias, c->unit};

		assert_int_equal(b->ops->copy(b, own, &copy, 1), 0);
	}
	assert_int_equal(b->ops->fence_record(b, own, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	contract_gate_open(c);
	contract_wait(b, other);
	assert_int_equal(b->ops->unmap(b, va), 0);
	assert_int_equal(b->ops->map(b, va, &chunk[2], BACKEND_PROT_READ, 1), 0);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, &byte), va, 1), 0);
	assert_int_equal(byte, can(c, CAN_BYTES) ? 41 : 40);
	assert_int_equal(b->ops->unmap(b, va), 0);
	b->ops->va_release(b, va, c->unit);
	for (int i = 0; i < 3; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
	b->ops->stream_destroy(b, own);
	b->ops->stream_destroy(b, other);
}

/* A block's way over a path: its engine reaches both ends, by aliases that are for it alone. */
static void check_path(struct contract *c, const struct weir_space *space, const struct path *path)
{
	struct backend *b = c->b;
	const struct weir_link_desc *link = &b->desc.link[path->link];
	uint32_t from = space->pmm[path->from].memory, to = space->pmm[path->to].memory;
	bool own = path->from == PLACE_OWN || path->to == PLACE_OWN;
	/* Between neighbours, the one that the copies come to. */
	uint32_t engine = own ? 0 : (to == HOST ? from : to) - GPU0;
	uint64_t only = BACKEND_DEVICE_BIT(engine);
	/* From the host, over the path, and to the host, all by that engine. */
	const uint32_t memory[] = {HOST, from, to, HOST};
	struct backend_chunk chunk[4];

	assert_true((link->a == from && link->b == to) || (link->a == to && link->b == from));
	for (int i = 0; i < 4; i++)
		assert_int_equal(b->ops->chunk_create(b, memory[i], c->unit, only, &chunk[i]), 0);
	if (can(c, CAN_BYTES)) {
		memset(chunk[0].alias, (int)(from * 16 + to), c->unit);
		memset(chunk[3].alias, 0xee, c->unit);
	}
	for (int i = 0; i < 3; i++) {
		const struct backend_copy copy = {chunk[i + 1].alias, chunk[i].alias, c->unit};

		assert_int_equal(b->ops->copy(b, path->stream, &copy, 1), 0);
	}
	contract_wait(b, path->stream);
	if (can(c, CAN_BYTES))
		assert_memory_equal(chunk[3].alias, chunk[0].alias, c->unit);
	for (int i = 0; i < 4; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
}

/* Every path of a space that uses all memories: between its own device, neighbours and the host,
 * both ways, and between neighbours. */
void contract_engines_of_a_space(void **state)
{
	struct contract *c = *state;
	uint32_t nr = c->b->desc.nr_devices;
	struct weir_space_config config = {
		.devices = 1, .block_bytes = c->unit, .mode = WEIR_PLANNED};
	struct weir_space *space;

	for (uint32_t m = 0; m <= nr; m++)
		config.budget_bytes[m] = 8 * c->unit;
	assert_int_equal(weir_space_create(contract_machine(c), &config, &space), 0);
	assert_int_equal(space->nr_paths, (nr + 1) * nr);
	for (uint32_t p = 0; p < space->nr_paths; p++)
		check_path(c, space, &space->path[p]);
	weir_space_destroy(space);
}

/* What a kernel uses in place counts by the memory that it lies in; its own device's does not. */
void contract_in_place_by_memory(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint32_t nr = b->desc.nr_memories;
	struct backend_chunk chunk[3];
	uint64_t bytes[BACKEND_DIRECTION_NR];
	char *va;

	if (nr < 3)
		return;
	assert_int_equal(b->ops->va_reserve(b, 3 * c->unit, c->unit, (void **)&va), 0);
	for (uint32_t m = 0; m < 3; m++) {
		assert_int_equal(b->ops->chunk_create(b, m, c->unit, 0, &chunk[m]), 0);
		assert_int_equal(b->ops->map(b, va + m * c->unit, &chunk[m], BACKEND_PROT_WRITE, 1),
				 0);
	}
	/* Host to own; own to the neighbour; the neighbour to half of the host. */
	assert_int_equal(contract_add(b, c->compute, va, va + c->unit, c->unit, 1), 0);
	assert_int_equal(contract_add(b, c->compute, va + c->unit, va + 2 * c->unit, c->unit, 1),
			 0);
	assert_int_equal(contract_add(b, c->compute, va + 2 * c->unit, va, c->unit / 2, 1), 0);
	contract_wait(b, c->compute);
	b->observe->inplace_bytes(b, 0, HOST, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE], c->unit);
	assert_int_equal(bytes[BACKEND_TO_HOST], c->unit / 2);
	b->observe->inplace_bytes(b, 0, GPU1, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE], c->unit / 2);
	assert_int_equal(bytes[BACKEND_TO_HOST], c->unit);
	b->observe->inplace_bytes(b, 0, GPU0, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE] + bytes[BACKEND_TO_HOST], 0);
	b->observe->inplace_bytes(b, 1, HOST, bytes);
	assert_int_equal(bytes[BACKEND_TO_DEVICE] + bytes[BACKEND_TO_HOST], 0);
	for (uint32_t m = 0; m < 3; m++) {
		assert_int_equal(b->ops->unmap(b, va + m * c->unit), 0);
		b->ops->chunk_destroy(b, &chunk[m]);
	}
	b->ops->va_release(b, va, 3 * c->unit);
}

/* ------------------------------------------------------------------ fences */

/* A copy on one stream waits for a copy on another, which is held back. */
void contract_fences_order_streams(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu, back;
	uint64_t begin = b->ops->now_ns(b);
	fence_t first, second;

	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &back), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &gpu), 0);
	if (can(c, CAN_BYTES)) {
		memset(host.alias, 1, c->unit);
		memset(back.alias, 3, c->unit);
	}
	contract_gate_close(c, c->in);
	assert_int_equal(
		b->ops->copy(b, c->in, &(struct backend_copy){gpu.alias, host.alias, c->unit}, 1),
		0);
	assert_int_equal(b->ops->fence_record(b, c->in, &first), 0);
	assert_int_not_equal(first, 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, first), 0);
	assert_int_equal(b->ops->stream_wait(b, c->out, 0), 0);
	assert_int_equal(
		b->ops->copy(b, c->out, &(struct backend_copy){back.alias, gpu.alias, c->unit}, 1),
		0);
	assert_int_equal(b->ops->fence_record(b, c->out, &second), 0);
	assert_int_equal(b->ops->fence_done(b, first), 0);
	assert_int_equal(b->observe->fence_time_ns(b, first), 0);
	assert_int_equal(b->ops->fence_done(b, second), 0);
	contract_gate_open(c);
	assert_int_equal(b->ops->fence_wait(b, second), 0);
	assert_int_equal(b->ops->fence_done(b, first), 1);
	assert_in_range(b->observe->fence_time_ns(b, first), begin, b->ops->now_ns(b));
	assert_in_range(b->observe->fence_time_ns(b, second), begin, b->ops->now_ns(b));
	/* A real device's clock is not the host's, and is set by it now and then: times of two
	 * streams may be off by as much. */
	if (!can(c, CAN_WAIT))
		assert_true(b->observe->fence_time_ns(b, first) <
			    b->observe->fence_time_ns(b, second));
	if (can(c, CAN_BYTES))
		assert_memory_equal(back.alias, host.alias, c->unit);
	b->ops->chunk_destroy(b, &host);
	b->ops->chunk_destroy(b, &back);
	b->ops->chunk_destroy(b, &gpu);
}

void contract_fence_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint32_t nr = b->desc.nr_devices;
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
	assert_int_equal(b->ops->stream_create(b, nr, BACKEND_COMPUTE, &gone), -EINVAL);
	assert_null(b->ops->stream_native(b, 99));
	/* A fence outlives its stream. */
	assert_int_equal(b->ops->stream_create(b, nr - 1, BACKEND_COMPUTE, &gone), 0);
	assert_int_equal(b->ops->fence_record(b, gone, &fence), 0);
	b->ops->stream_destroy(b, gone);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_record(b, gone, &fence), -EINVAL);
}

/* Of the process's memory; 0: the system does not say. */
static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	char line[128] = "", *all;

	if (!file)
		return 0;
	(void)fgets(line, sizeof(line), file);
	assert_int_equal(fclose(file), 0);
	(void)strtoull(line, &all, 10);
	return strtoull(all, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Streams one after the other, beside one that stays: they take the memory of one, the ids of
 * former ones name none, fences of former ones stay done while the present one's are not. */
void contract_streams_come_and_go(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence, former = 0;
	stream_id_t stream, gone = 0;
	uint64_t before = 0;

	for (uint32_t i = 0; i < NR_STREAMS; i++) {
		assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream), 0);
		if (i) {
			assert_int_not_equal(stream, gone);
			assert_int_equal(b->ops->fence_record(b, gone, &fence), -EINVAL);
			assert_int_equal(b->ops->stream_wait(b, gone, 0), -EINVAL);
		}
		for (uint32_t n = 0; n <= i % 3; n++)
			assert_int_equal(b->ops->fence_record(b, stream, &fence), 0);
		assert_true(fence != former);
		assert_int_equal(b->ops->fence_done(b, former), 1);
		assert_int_equal(b->ops->stream_wait(b, c->compute, former), 0);
		assert_int_equal(b->ops->fence_wait(b, fence), 0);
		assert_true(b->observe->fence_time_ns(b, fence) <= b->ops->now_ns(b));
		assert_int_equal(b->ops->fence_done(b, fence + 1), -EINVAL);
		b->ops->stream_destroy(b, stream);
		former = fence;
		gone = stream;
		if (i == NR_STREAMS / 4)
			before = resident_bytes();
	}
	assert_true(resident_bytes() < before + MIB(8));
	contract_gate_close(c, c->compute);
	assert_int_equal(contract_spin(b, c->compute), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 0);
	assert_int_equal(b->ops->fence_done(b, former), 1);
	contract_gate_open(c);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
}

/* Many fences that are not reached, then all of them, again and again. */
void contract_many_fences(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	fence_t fence[NR_FENCES];

	for (int round = 0; round < 3; round++) {
		contract_gate_close(c, c->compute);
		assert_int_equal(contract_spin(b, c->compute), 0);
		for (int i = 0; i < NR_FENCES; i++)
			assert_int_equal(b->ops->fence_record(b, c->compute, &fence[i]), 0);
		assert_int_equal(b->ops->fence_done(b, fence[0]), 0);
		contract_gate_open(c);
		assert_int_equal(b->ops->fence_wait(b, fence[NR_FENCES / 2]), 0);
		assert_int_equal(b->ops->fence_done(b, fence[0]), 1);
		assert_int_equal(b->ops->fence_wait(b, fence[NR_FENCES - 1]), 0);
		for (int i = 1; i < NR_FENCES; i++)
			assert_true(b->observe->fence_time_ns(b, fence[i]) >=
				    b->observe->fence_time_ns(b, fence[i - 1]));
	}
}

/* ------------------------------------------------------------------ launches */

/* A kernel for other machines: where there are no bytes, none is called. */
void contract_launch_no_version(void **state)
{
	struct contract *c = *state;
	const struct weir_kernel kernel = {.name = "elsewhere"};
	const struct weir_launch launch = {.kernel = &kernel};

	assert_int_equal(c->b->ops->launch(c->b, c->compute, &launch),
			 c->b->data == WEIR_DATA_REAL ? -ENOSYS : 0);
	contract_wait(c->b, c->compute);
}

void contract_launch_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	const struct weir_kernel nameless = {.cpu = test_kernel_spin.cpu,
					     .cuda = test_kernel_spin.cuda};
	const struct weir_launch none = {.kernel = &test_kernel_spin, .nr_uses = 1};
	const struct weir_launch no_args = {.kernel = &test_kernel_spin, .args_bytes = 1};
	const struct weir_launch no_name = {.kernel = &nameless}, no_kernel = {.kernel = NULL};
	uint8_t own = 0, *addr;

	assert_int_equal(b->ops->device_alloc(b, GPU0, 1000, (void **)&addr), 0);
	assert_int_equal(contract_add(b, c->compute, addr, addr, 1001, 1), -EINVAL);
	assert_int_equal(contract_add(b, c->compute, addr, addr, UINT64_MAX, 1), -EINVAL);
	assert_int_equal(contract_add(b, c->compute, &own, addr, 1, 1), -EINVAL);
	assert_int_equal(contract_add(b, c->compute, addr, &own, 1, 1), -EINVAL);
	assert_int_equal(contract_add(b, 99, addr, addr, 1, 1), -EINVAL);
	assert_int_equal(b->ops->launch(b, c->compute, &none), -EINVAL);
	assert_int_equal(b->ops->launch(b, c->compute, &no_args), -EINVAL);
	assert_int_equal(b->ops->launch(b, c->compute, &no_name), -EINVAL);
	assert_int_equal(b->ops->launch(b, c->compute, &no_kernel), -EINVAL);
	assert_int_equal(contract_spin(b, c->compute), 0);
	contract_wait(b, c->compute);
	assert_int_equal(own, 0);
	b->ops->device_free(b, addr);
}

static void *open_later(void *arg)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	contract_gate_open(arg);
	return NULL;
}

/* Giving back a plain allocation waits for the work of the device. */
void contract_free_waits(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	pthread_t thread;
	fence_t fence;
	void *addr;

	assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(2), &addr), 0);
	contract_gate_close(c, c->compute);
	assert_int_equal(contract_add(b, c->compute, addr, addr, MIB(2), 1), 0);
	assert_int_equal(b->ops->fence_record(b, c->compute, &fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 0);
	assert_int_equal(pthread_create(&thread, NULL, open_later, c), 0);
	b->ops->device_free(b, addr);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
}
