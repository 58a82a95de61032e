/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is taken from work, running or queued: what it names, what is open for it. */
#include <string.h>

#include "tests/fakecuda/fake.h"

static bool op_names(const struct op *op, uint64_t addr, uint64_t bytes)
{
	for (size_t i = 0; i < op->nr_touches; i++)
		if (ranges_meet(op->touch[i].addr, op->touch[i].bytes, addr, bytes))
			return true;
	return false;
}

/* Call fn for all work that is queued or runs. */
static void work_each(void (*fn)(struct op *op, void *arg), void *arg)
{
	for (int i = 0; i < STREAMS_MAX; i++) {
		struct stream *stream = fake.slot[i];

		if (!stream || stream_is_dead(stream))
			continue;
		for (struct op *op = stream->first; op; op = op->next)
			fn(op, arg);
	}
}

struct change {
	uint64_t addr, bytes;
	const struct mapping *mapping;
	const uint8_t *device;
	const struct op *met;
};

static void check_unmap(struct op *op, void *arg)
{
	struct change *change = arg;

	if (!op_names(op, change->addr, change->bytes))
		return;
	op->disturbed |= op->started;
	change->met = op;
}

void work_check_unmap(uint64_t addr, uint64_t bytes)
{
	struct change change = {.addr = addr, .bytes = bytes};

	work_each(check_unmap, &change);
	if (!change.met)
		return;
	fake.nr_unmaps_in_use++;
	problem_note("unmap of %llu bytes at %#llx, which a %s %s", (unsigned long long)bytes,
		     (unsigned long long)addr, op_name(change.met),
		     change.met->started ? "uses now" : "that is queued names");
}

static void check_access(struct op *op, void *arg)
{
	struct change *change = arg;
	struct mapping after = *change->mapping;

	memcpy(after.device, change->device, sizeof(after.device));
	for (size_t i = 0; i < op->nr_touches; i++) {
		const struct touch *touch = &op->touch[i];

		if (!ranges_meet(touch->addr, touch->bytes, after.range.addr, after.range.bytes) ||
		    !access_allows(change->mapping, op, touch->write) ||
		    access_allows(&after, op, touch->write))
			continue;
		op->disturbed |= op->started;
		change->met = op;
	}
}

void work_check_access(const struct mapping *mapping, const uint8_t device[DEVICES_MAX])
{
	struct change change = {.mapping = mapping, .device = device};

	work_each(check_access, &change);
	if (!change.met)
		return;
	fake.nr_races++;
	problem_note("access to %llu bytes at %#llx is taken away, which a %s %s",
		     (unsigned long long)mapping->range.bytes,
		     (unsigned long long)mapping->range.addr, op_name(change.met),
		     change.met->started ? "uses now" : "that is queued names");
}

int kernels_access(uint64_t addr, uint64_t bytes)
{
	int access = CU_ACCESS_NONE;

	for (int i = 0; i < STREAMS_MAX; i++) {
		const struct op *op = fake.slot[i] ? fake.slot[i]->running : NULL;

		if (!op || op->kind != OP_KERNEL)
			continue;
		for (size_t j = 0; j < op->nr_touches; j++)
			if (ranges_meet(op->touch[j].addr, op->touch[j].bytes, addr, bytes))
				access |= op->touch[j].write ? CU_ACCESS_READWRITE : CU_ACCESS_READ;
	}
	return access;
}
