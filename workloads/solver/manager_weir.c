/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir: arrays are replicated ranges, each step is a bracket. What devices read of each other's
 * slabs weir finds out and sends. Boundaries are brackets on a stream of their own, so that they
 * are sent while the interior is computed, and where they have several steps every second one is on
 * the interior's, which has none then; nothing else is done for that here. Where a device reads
 * some elements of others' slabs it is subscribed to their list.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/replica/replica.h"
#include "src/residency/explain.h"
#include "workloads/solver/manager.h"

struct weir_solver {
	struct solver_manager base;
	struct weir_space *space;
	struct weir_stream *stream[WEIR_DEVICES_MAX], *boundary[WEIR_DEVICES_MAX];
	enum weir_subscription subscription;
	bool move_nothing, no_lists;
	struct solver_list list[WEIR_DEVICES_MAX];
	uint64_t bytes[SOLVER_ARRAYS_MAX]; /* of arrays, by their numbers */
	uint32_t nr_arrays;
	char *array[SOLVER_ARRAYS_MAX];
	char *window[SOLVER_ARRAYS_MAX][WEIR_DEVICES_MAX];
};

static void destroy(struct solver_manager *m)
{
	struct weir_solver *w = (struct weir_solver *)m;

	weir_space_destroy(w->space);
	for (uint32_t d = 0; d < m->nr_devices; d++) {
		weir_stream_destroy(w->stream[d]);
		weir_stream_destroy(w->boundary[d]);
	}
	free(w);
}

static int create(const struct solver_config *config, struct solver_manager **out)
{
	struct weir_space_config space = {.mode = WEIR_PLANNED,
					  .devices = (UINT64_C(1) << config->nr_devices) - 1};
	struct weir_solver *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->base.backend = machine_backend(config->machine);
	w->base.nr_devices = config->nr_devices;
	for (uint32_t i = 0; i < SOLVER_ARRAYS_MAX; i++)
		w->bytes[i] = config->layout[i].offset[config->nr_devices];
	w->subscription =
		strcmp(config->options, "all") ? WEIR_SUBSCRIBE_LEARNED : WEIR_SUBSCRIBE_ALL;
	w->move_nothing = strcmp(config->options, "nopublish") == 0;
	w->no_lists = strcmp(config->options, "whole") == 0;
	memcpy(w->list, config->list, sizeof(w->list));
	w->base.ops = w->move_nothing			      ? &solver_manager_weir_nopublish
		      : w->no_lists			      ? &solver_manager_weir_whole
		      : w->subscription == WEIR_SUBSCRIBE_ALL ? &solver_manager_weir_all
							      : &solver_manager_weir;
	w->no_lists |= w->subscription == WEIR_SUBSCRIBE_ALL;
	for (uint32_t d = 0; d < config->nr_devices; d++)
		space.budget_bytes[w->base.backend->desc.device[d].memory] =
			config->budget_bytes[d];
	err = weir_space_create(config->machine, &space, &w->space);
	for (uint32_t d = 0; d < config->nr_devices && !err; d++) {
		err = weir_stream_create(config->machine, d, &w->stream[d]);
		if (!err)
			err = weir_stream_create(config->machine, d, &w->boundary[d]);
	}
	if (err)
		destroy(&w->base);
	else
		*out = &w->base;
	return err;
}

static int alloc(struct solver_manager *m, const char *name)
{
	struct weir_solver *w = (struct weir_solver *)m;
	const struct weir_replica_params params = {.subscription = w->subscription};
	uint32_t n = w->nr_arrays;
	void *addr;
	int err = weir_alloc(w->space, w->bytes[n], NULL, &addr);

	(void)name;
	if (err)
		return err;
	w->array[n] = addr;
	err = weir_replicate(w->space, addr, &params);
	for (uint32_t d = 0; d < m->nr_devices && !err; d++) {
		err = weir_replica(w->space, addr, d, &addr);
		w->window[n][d] = addr;
		addr = w->array[n];
		if (!err && !w->no_lists && w->list[d].nr)
			err = weir_subscribe_elements(w->space, addr, w->list[d].element,
						      w->list[d].nr, d);
	}
	if (err)
		return err;
	if (w->move_nothing)
		replicas_move_nothing(w->space);
	w->nr_arrays++;
	return 0;
}

static void *at(struct solver_manager *m, uint32_t array, uint32_t device, uint64_t offset)
{
	return ((struct weir_solver *)m)->window[array][device] + offset;
}

static int step(struct solver_manager *m, const struct solver_step *step)
{
	struct weir_solver *w = (struct weir_solver *)m;
	const bool boundary = step->part == SOLVER_BOUNDARY && !solver_slice_is_aside(step->slice);
	struct weir_stream *stream = boundary ? w->boundary[step->device] : w->stream[step->device];
	struct weir_use uses[SOLVER_USES_MAX + SOLVER_OWN_USES_MAX];
	const struct weir_launch launch = {
		.kernel = step->kernel,
		.args = step->args,
		.args_bytes = step->args_bytes,
		.uses = uses,
		.nr_uses = step->nr_uses + step->nr_own,
	};
	int err, end;

	for (uint32_t i = 0; i < step->nr_uses; i++) {
		const struct solver_use *use = &step->use[i];

		uses[i] = solver_use_at(use, w->window[use->array][step->device] + use->offset,
					use->bytes);
		if (use->listed && !w->no_lists && w->list[step->device].nr)
			uses[i].kind = WEIR_READ_ELEMENTS;
	}
	for (uint32_t i = 0; i < step->nr_own; i++)
		uses[step->nr_uses + i] = step->own[i];
	err = weir_begin(w->space, stream, uses, step->nr_uses);
	if (err)
		return err;
	for (uint32_t i = 0; i < step->nr_uses; i++)
		uses[i].kind = step->use[i].kind;
	err = solver_step_launch(m, stream, step, &launch);
	end = weir_end(w->space, stream);
	return err ? err : end;
}

/* Brackets are ordered by themselves. */
static int iteration_end(struct solver_manager *m)
{
	(void)m;
	return 0;
}

static int sync(struct solver_manager *m)
{
	struct weir_solver *w = (struct weir_solver *)m;
	int first = weir_space_sync(w->space);

	for (uint32_t d = 0; d < 2 * m->nr_devices; d++) {
		int err = weir_stream_sync(d % 2 ? w->boundary[d / 2] : w->stream[d / 2]);

		first = first ? first : err;
	}
	return first;
}

static int read(struct solver_manager *m, uint32_t array, uint64_t offset, void *data,
		uint64_t bytes)
{
	struct weir_solver *w = (struct weir_solver *)m;

	return weir_read(w->space, data, w->array[array] + offset, bytes);
}

/* Of blocks, over all links. */
static uint64_t moved_bytes(const struct weir_space_stats *space)
{
	uint64_t bytes = 0;

	for (uint32_t l = 0; l < WEIR_LINKS_MAX; l++)
		for (int way = 0; way < WEIR_DIRECTION_NR; way++)
			for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
				if (cause != WEIR_CAUSE_INPLACE)
					bytes += space->link_bytes[l][way][cause];
	return bytes;
}

static int explain(struct solver_manager *m, struct explain **out)
{
	return explain_get(((struct weir_solver *)m)->space, out);
}

static void stats(struct solver_manager *m, struct manager_stats *out)
{
	static const enum weir_cause causes[WEIR_MESSAGE_KIND_NR] = {
		[WEIR_FETCHED] = WEIR_CAUSE_DEMAND, [WEIR_PUBLISHED] = WEIR_CAUSE_PREFETCH};
	struct weir_solver *w = (struct weir_solver *)m;
	struct weir_replica_stats replica;
	struct weir_space_stats space;

	weir_space_query(w->space, &space);
	weir_replica_query(w->space, &replica);
	*out = (struct manager_stats){.block_bytes = space.block_bytes};
	for (uint32_t i = 0; i < m->backend->desc.nr_memories; i++)
		out->peak_bytes[i] = space.memory[i].peak_bytes;
	memcpy(out->near, space.link_bytes, sizeof(out->near));
	out->nr_local = replica.nr_local;
	out->local_bytes = replica.local_bytes;
	out->list_bytes = replica.list_bytes;
	out->moved_bytes = moved_bytes(&space);
	memcpy(out->nr_sent, replica.nr_sent, sizeof(out->nr_sent));
	memcpy(out->sent_bytes, replica.sent_bytes, sizeof(out->sent_bytes));
	for (uint32_t l = 0; l < m->backend->desc.nr_links; l++)
		for (int way = 0; way < WEIR_DIRECTION_NR; way++)
			for (int kind = 0; kind < WEIR_MESSAGE_KIND_NR; kind++)
				out->near[l][way][causes[kind]] += replica.link_bytes[l][way][kind];
}

static int check(struct solver_manager *m)
{
	return weir_space_check(((struct weir_solver *)m)->space);
}

#define WEIR_MANAGER(name_, options_, lists_, help_)                                               \
	.lists = (lists_), .name = (name_), .help = (help_), .options = (options_), .split = true, \
	.spills = true, .create = create, .destroy = destroy, .alloc = alloc, .at = at,            \
	.step = step, .iteration_end = iteration_end, .sync = sync, .read = read, .stats = stats,  \
	.explain = explain, .check = check

const struct solver_manager_ops solver_manager_weir = {
	WEIR_MANAGER("weir", "", true, "replicated ranges: what is read is sent as it is written"),
};
const struct solver_manager_ops solver_manager_weir_all = {
	WEIR_MANAGER("weir+all", "all", false, "the same, and every device is sent everything"),
};
const struct solver_manager_ops solver_manager_weir_whole = {
	WEIR_MANAGER("weir+whole", "whole", false, "the same as weir, without lists of elements"),
};
const struct solver_manager_ops solver_manager_weir_nopublish = {
	WEIR_MANAGER("weir+nopublish", "nopublish", true,
		     "the same calls and nothing is sent: the limit; fields are wrong"),
	.limit = true,
};
