/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of packets: elements packed by a list and unpacked, and what is refused. */
#include "tests/contract/cases/cases.h"

/* Elements in two blocks side by side, the second of them on the host, and room for one more. The
 * list is the host's; the packet is in the GPU's memory, and comes to the host to be looked at. */
struct fixture {
	struct contract *c;
	char *va;
	struct backend_chunk block[2], packet, back;
	uint32_t *list;
	/* What the elements' memory has before a packet, is to have after it, and has. */
	unsigned char *before, *after, *got;
};

static void fixture_init(struct fixture *f, struct contract *c)
{
	struct backend *b = c->b;
	uint64_t bytes = 2 * c->unit;
	void *list;

	*f = (struct fixture){
		.c = c, .before = malloc(bytes), .after = malloc(bytes), .got = malloc(bytes)};
	assert_true(f->before && f->after && f->got);
	for (uint64_t i = 0; i < bytes; i++)
		f->before[i] = (unsigned char)(i * 7 + i / 256 * 11);
	assert_int_equal(b->ops->va_reserve(b, 3 * c->unit, c->unit, (void **)&f->va), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->chunk_create(b, i ? HOST : GPU0, c->unit, 0, &f->block[i]),
				 0);
		assert_int_equal(
			b->ops->map(b, f->va + i * c->unit, &f->block[i], BACKEND_PROT_WRITE, 1),
			0);
	}
	assert_int_equal(b->ops->chunk_create(b, GPU0, bytes, 0, &f->packet), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, bytes, 0, &f->back), 0);
	assert_int_equal(b->ops->device_alloc(b, HOST, c->unit * sizeof(*f->list), &list), 0);
	f->list = list;
}

static void fixture_fini(struct fixture *f)
{
	struct backend *b = f->c->b;

	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->unmap(b, f->va + i * f->c->unit), 0);
		b->ops->chunk_destroy(b, &f->block[i]);
	}
	b->ops->va_release(b, f->va, 3 * f->c->unit);
	b->ops->chunk_destroy(b, &f->packet);
	b->ops->chunk_destroy(b, &f->back);
	b->ops->device_free(b, f->list);
	free(f->before);
	free(f->after);
	free(f->got);
}

/* The i-th number of a list of one of each step elements. */
static uint32_t index_of(uint32_t i, uint32_t step)
{
	return i * step + i * UINT32_C(0x9e3779b1) % step;
}

/* A packet of nr elements, the first of them in front of the border between the blocks. */
static struct backend_packet packet_make(struct fixture *f, uint32_t element_bytes, uint32_t step,
					 uint32_t nr)
{
	uint64_t sector = 0, nr_sectors = 0, before = f->c->unit / 2 / element_bytes;
	struct backend_packet packet = {
		.elements = f->va + (f->c->unit - (nr == 1 ? 1 : before) * element_bytes),
		.packet = f->packet.alias,
		.index = f->list,
		.nr = nr,
		.element_bytes = element_bytes,
		.first = index_of(0, step),
		.last = index_of(nr - 1, step),
	};

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t at =
			(uintptr_t)packet.elements + (uint64_t)index_of(i, step) * element_bytes;

		nr_sectors += at / 32 != sector;
		sector = at / 32;
		if (can(f->c, CAN_BYTES))
			f->list[i] = index_of(i, step);
	}
	packet.sector_bytes = nr_sectors * 32;
	return packet;
}

/* Pack, look at the packet, unpack it one element further on, look at the elements. */
static void check_packet(struct fixture *f, uint32_t element_bytes, uint32_t step, uint32_t nr)
{
	struct backend *b = f->c->b;
	const uint64_t bytes = 2 * f->c->unit, packed_bytes = (uint64_t)nr * element_bytes;
	struct backend_packet packet = packet_make(f, element_bytes, step, nr);
	const struct backend_copy copy = {f->back.alias, f->packet.alias, packed_bytes};
	uint64_t at = (uint64_t)((char *)packet.elements - f->va);
	stream_id_t stream = f->c->compute;

	assert_int_equal(b->ops->upload(b, stream, f->va, data_of(f->c, f->before), bytes), 0);
	assert_int_equal(b->ops->packet(b, stream, &packet), 0);
	assert_int_equal(b->ops->copy(b, stream, &copy, 1), 0);
	contract_wait(b, stream);
	memset(f->after, 0xee, bytes);
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t from = at + (uint64_t)index_of(i, step) * element_bytes;

		memcpy(f->got + (uint64_t)i * element_bytes, f->before + from, element_bytes);
	}
	if (can(f->c, CAN_BYTES))
		assert_memory_equal(f->back.alias, f->got, packed_bytes);
	assert_int_equal(b->ops->upload(b, stream, f->va, data_of(f->c, f->after), bytes), 0);
	packet.unpack = true;
	packet.elements = (char *)packet.elements + element_bytes;
	assert_int_equal(b->ops->packet(b, stream, &packet), 0);
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t from = at + (uint64_t)index_of(i, step) * element_bytes;

		memcpy(f->after + from + element_bytes, f->before + from, element_bytes);
	}
	assert_int_equal(b->ops->download(b, stream, data_of(f->c, f->got), f->va, bytes), 0);
	if (can(f->c, CAN_BYTES))
		assert_memory_equal(f->got, f->after, bytes);
}

/* All sizes of elements, dense and sparse, as many as are groups of a GPU's threads and not, and as
 * there is room for; both ways. */
void contract_packets(void **state)
{
	static const uint32_t numbers[] = {1, 16, 999, UINT32_MAX};
	struct fixture f;

	fixture_init(&f, *state);
	for (uint32_t element_bytes = 1; element_bytes <= 16; element_bytes *= 2)
		for (uint32_t step = 1; step <= 5; step += 4)
			for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
				uint64_t room = f.c->unit / element_bytes / step - 2;

				room = numbers[i] < room ? numbers[i] : room;
				check_packet(&f, element_bytes, step, (uint32_t)room);
			}
	fixture_fini(&f);
}

/* An element beyond 4 GiB, where there is room for it. */
void contract_packet_far(void **state)
{
	const uint64_t bytes = UINT64_C(5) << 30, room = bytes + (UINT64_C(1) << 30);
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_packet packet = {.nr = 1, .element_bytes = 16, .sector_bytes = 32};
	unsigned char sent[16] = "a far element", got[16] = "";
	void *elements, *packed, *list;

	if (b->desc.memory[GPU0].bytes < room || b->ops->memory_room(b, GPU0) < room)
		return;
	packet.first = packet.last = (uint32_t)(bytes / 16) - 1;
	assert_int_equal(b->ops->device_alloc(b, GPU0, bytes, &elements), 0);
	assert_int_equal(b->ops->device_alloc(b, GPU0, 16, &packed), 0);
	assert_int_equal(b->ops->device_alloc(b, HOST, sizeof(uint32_t), &list), 0);
	*(uint32_t *)list = packet.first;
	packet.elements = elements;
	packet.packet = packed;
	packet.index = list;
	assert_int_equal(
		b->ops->upload(b, c->compute, (char *)elements + bytes - 16, sent, sizeof(sent)),
		0);
	assert_int_equal(b->ops->packet(b, c->compute, &packet), 0);
	assert_int_equal(b->ops->download(b, c->compute, got, packed, sizeof(got)), 0);
	assert_memory_equal(got, sent, sizeof(sent));
	b->ops->device_free(b, elements);
	b->ops->device_free(b, packed);
	b->ops->device_free(b, list);
}

/* All three by aliases, or in plain memory; what lies between the elements may be unmapped. */
void contract_packet_places(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_packet packet;
	unsigned char byte[2] = {0};
	struct fixture f;
	void *plain;

	fixture_init(&f, c);
	assert_int_equal(b->ops->device_alloc(b, GPU0, 64, &plain), 0);
	packet = (struct backend_packet){.elements = f.back.alias,
					 .packet = plain,
					 .index = f.list,
					 .nr = 2,
					 .element_bytes = 1,
					 .last = 70,
					 .sector_bytes = 64};
	if (can(c, CAN_BYTES)) {
		memset(f.back.alias, 1, 70);
		((unsigned char *)f.back.alias)[70] = 2;
		f.list[0] = 0;
		f.list[1] = 70;
	}
	assert_int_equal(b->ops->packet(b, c->compute, &packet), 0);
	assert_int_equal(b->ops->download(b, c->compute, data_of(c, byte), plain, 2), 0);
	if (can(c, CAN_BYTES))
		assert_true(byte[0] == 1 && byte[1] == 2);
	/* The last byte of the first block, and the first one of the third. */
	assert_int_equal(b->ops->unmap(b, f.va + c->unit), 0);
	assert_int_equal(b->ops->map(b, f.va + 2 * c->unit, &f.block[1], BACKEND_PROT_WRITE, 1), 0);
	packet.elements = f.va + c->unit - 1;
	packet.last = (uint32_t)c->unit + 1;
	packet.unpack = true;
	if (can(c, CAN_BYTES))
		f.list[1] = packet.last;
	assert_int_equal(b->ops->packet(b, c->compute, &packet), 0);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(b->ops->download(b, c->compute, data_of(c, byte),
						  f.va + c->unit - 1 + i * packet.last, 1),
				 0);
		assert_int_equal(byte[0], can(c, CAN_BYTES) ? i + 1 : 0);
	}
	assert_int_equal(b->ops->unmap(b, f.va + 2 * c->unit), 0);
	assert_int_equal(b->ops->map(b, f.va + c->unit, &f.block[1], BACKEND_PROT_WRITE, 1), 0);
	b->ops->device_free(b, plain);
	fixture_fini(&f);
}

/* The same packet with one thing wrong: that is said, and nothing is queued. */
void contract_packet_arguments(void **state)
{
	struct contract *c = *state;
	struct fixture f;
	struct backend_packet good;
	struct backend *b = c->b;

	fixture_init(&f, c);
	good = packet_make(&f, 4, 3, 100);
#define REFUSED(...)                                                            \
	do {                                                                    \
		struct backend_packet bad = good;                               \
		__VA_ARGS__;                                                    \
		assert_int_equal(b->ops->packet(b, c->compute, &bad), -EINVAL); \
	} while (0)
	REFUSED(bad.elements = NULL);
	REFUSED(bad.elements = (char *)bad.elements + 2);
	REFUSED(bad.packet = NULL);
	REFUSED(bad.packet = (char *)bad.packet + 8);
	REFUSED(bad.index = NULL);
	REFUSED(bad.index++);
	REFUSED(bad.nr = 0);
	REFUSED(bad.nr = (uint64_t)bad.last - bad.first + 2);
	REFUSED(bad.nr = 1);
	REFUSED(bad.first = bad.last + 1);
	REFUSED(bad.element_bytes = 0);
	REFUSED(bad.element_bytes = 3);
	REFUSED(bad.element_bytes = 32);
	REFUSED(bad.sector_bytes = 399);
	assert_int_equal(b->ops->packet_prepare(b, b->desc.nr_devices), -EINVAL);
	for (uint32_t d = 0; d < b->desc.nr_devices; d++)
		assert_int_equal(b->ops->packet_prepare(b, d), 0);
	assert_int_equal(b->ops->packet(b, c->compute, NULL), -EINVAL);
	assert_int_equal(b->ops->packet(b, 1234, &good), -EINVAL);
	assert_int_equal(b->ops->packet(b, c->compute, &good), 0);
	contract_wait(b, c->compute);
	fixture_fini(&f);
}
