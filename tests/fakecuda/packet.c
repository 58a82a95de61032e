/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that pack scattered elements and spread them again, which weir's library launches.
 * Which elements one touches it learns from the list as it starts.
 */
#include <stdlib.h>
#include <string.h>

#include "src/backend/backend.h"
#include "tests/fakecuda/fake.h"

/* Elements of a packet, at most, that are looked at one by one: of more, what lies between them in
 * a page counts as touched, too. */
#define EXACT_MAX 4096u

static void packet_run(const void *args)
{
	const struct backend_packet *p = args;

	for (uint64_t i = 0; i < p->nr; i++) {
		char *element = (char *)p->elements + (uint64_t)p->index[i] * p->element_bytes;
		char *packed = (char *)p->packet + i * p->element_bytes;

		memcpy(p->unpack ? element : packed, p->unpack ? packed : element,
		       p->element_bytes);
	}
}

/* The kernel's number says what the packet's own fields may not. */
static void packet_touch(struct op *op)
{
	size_t number = (size_t)(op->kernel - packet_kernels);
	struct backend_packet *p = op->args;

	p->element_bytes = 1u << number / 2;
	p->unpack = number % 2;
	op_touch(op, (uintptr_t)p->index, p->nr * sizeof(*p->index), false);
	op_touch(op, (uintptr_t)p->packet, p->nr * p->element_bytes, !p->unpack);
}

static void packet_find(struct op *op)
{
	const struct backend_packet *p = op->args;
	/* No page lies whole in a gap that is less. */
	uint64_t gap = p->nr > EXACT_MAX ? page_up(1) - 1 : 0, end = 0;
	uint64_t bytes = p->nr * sizeof(*p->index);
	uint32_t *index = malloc(bytes + 1);
	struct touch *touch;

	if (!index)
		fake_panic("no memory");
	if (!op_read(op, (uintptr_t)p->index, index, bytes)) {
		free(index);
		return;
	}
	touch = realloc(op->touch, (op->nr_touches + p->nr + 1) * sizeof(*touch));
	if (!touch)
		fake_panic("no memory");
	op->touch = touch;
	for (uint64_t i = 0; i < p->nr; i++) {
		uint64_t addr = (uintptr_t)p->elements + (uint64_t)index[i] * p->element_bytes;

		if (i && addr - end <= gap)
			touch[op->nr_touches - 1].bytes += addr - end + p->element_bytes;
		else
			touch[op->nr_touches++] = (struct touch){addr, p->element_bytes, p->unpack};
		end = addr + p->element_bytes;
	}
	free(index);
}

#define PACKET(label)                                                                  \
	{                                                                              \
		.name = (label), .nr_parameters = 1,                                   \
		.parameter_bytes = {sizeof(struct backend_packet)}, .run = packet_run, \
		.touch = packet_touch, .find = packet_find                             \
	}

const struct kernel packet_kernels[PACKET_KERNELS] = {
	PACKET("weir_pack1"),	 PACKET("weir_unpack1"), PACKET("weir_pack2"),
	PACKET("weir_unpack2"),	 PACKET("weir_pack4"),	 PACKET("weir_unpack4"),
	PACKET("weir_pack8"),	 PACKET("weir_unpack8"), PACKET("weir_pack16"),
	PACKET("weir_unpack16"),
};
