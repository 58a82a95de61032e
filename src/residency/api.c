/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces: creation, modes, waiting, statistics. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/variables.h"
#include "src/core/kind.h"
#include "src/core/tracing.h"
#include "src/cost/cost.h"
#include "src/residency/residency.h"
#include "weir/trace.h"

/*
 * The default block size: the smallest of these for which mapping calls take a small part of what a
 * copy takes; but no larger than the budget has BLOCKS_MANY of. A mapping call takes as long for a
 * large block of HBM as for a small one; but a plan moves whole blocks, and what rounding up to
 * them wastes counts (56 MiB on an H200 with 34 GB: faster than 32, 48 and 64).
 */
static const uint64_t block_defaults[] = {56u << 20, 28u << 20, 16u << 20, 8u << 20};
#define BLOCKS_MANY 200u
#define CALLS_SHARE 0.13
/* Where the budget is small, blocks are halved while it has fewer than: */
#define BLOCKS_MIN 64u

/* Whether mapping calls are a small part of a copy over a device's link to the host. */
static bool calls_are_short(const struct weir_machine_desc *desc, uint32_t device, uint64_t bytes)
{
	const struct weir_link_desc *link = &desc->link[cost_host_link(desc, device)];
	const struct weir_vmm_desc *vmm = &desc->vmm;

	return (double)(vmm->map_ns + vmm->set_access_ns + vmm->unmap_ns) <=
	       CALLS_SHARE * (double)bytes / link->a_to_b_bytes_per_s * 1e9;
}

/* A block size for a budget, as far as the machine allows. */
static uint64_t pick_block_bytes(const struct weir_machine_desc *desc, uint32_t device,
				 uint64_t budget)
{
	uint64_t granularity = desc->vmm.granularity_bytes, bytes;
	uint32_t i = 0;

	while (i < ARRAY_LEN(block_defaults) - 1 &&
	       (budget / block_defaults[i] < BLOCKS_MANY ||
		calls_are_short(desc, device, block_defaults[i + 1])))
		i++;
	bytes = block_defaults[i];
	while (budget / bytes < BLOCKS_MIN && bytes / 2 >= granularity)
		bytes /= 2;
	return round_up(bytes, granularity);
}

/* How many of the config's devices have the memory as their own. */
static uint32_t own_devices(const struct weir_machine_desc *desc,
			    const struct weir_space_config *config, uint32_t memory)
{
	uint32_t nr = 0;

	for (uint32_t d = 0; d < desc->nr_devices; d++)
		nr += config->devices & BACKEND_DEVICE_BIT(d) && desc->device[d].memory == memory;
	return nr;
}

static int check_devices(const struct weir_machine_desc *desc, struct weir_space_config *config)
{
	if (!config->devices)
		config->devices = BACKEND_DEVICE_BIT(0);
	if (config->devices >= BACKEND_DEVICE_BIT(desc->nr_devices)) {
		log_error("space: devices 0x%llx, of %u that there are",
			  (unsigned long long)config->devices, desc->nr_devices);
		return -EINVAL;
	}
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (config->devices & BACKEND_DEVICE_BIT(d) &&
		    own_devices(desc, config, desc->device[d].memory) > 1) {
			log_error("space: several of its devices have the memory '%s' as their own",
				  desc->memory[desc->device[d].memory].name);
			return -ENOTSUP;
		}
	return 0;
}

/* As backend_budget(); where there is too little room, others of the machine give back first what
 * they do not use. */
static int check_budget(struct weir_machine *machine, uint32_t memory, uint64_t *bytes)
{
	struct backend *b = machine_backend(machine);
	struct phys_client client;

	if (*bytes > b->desc.memory[memory].bytes || *bytes <= b->ops->memory_room(b, memory))
		return backend_budget(b, memory, bytes);
	phys_client_add(&client, phys_of(machine, memory), "a new space", 0);
	(void)phys_reclaim(&client, *bytes);
	phys_client_del(&client);
	if (*bytes <= b->ops->memory_room(b, memory))
		return 0;
	budget_log_full(machine, memory, *bytes, b->ops->memory_room(b, memory));
	return -ENOMEM;
}

/* Whether each space of the config has the memory as a place. */
static bool is_needed(const struct weir_machine_desc *desc, const struct weir_space_config *config,
		      uint32_t memory)
{
	return memory == cost_host_memory(desc) || own_devices(desc, config, memory);
}

/* Fill in the budgets of the memories that a space needs, and check those that are asked for. */
static int check_budgets(struct weir_machine *machine, struct weir_space_config *config)
{
	const struct weir_machine_desc *desc = weir_machine_describe(machine);
	uint64_t *budget = config->budget_bytes;

	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++) {
		int err = 0;

		if (m >= desc->nr_memories && budget[m]) {
			log_error("space: a budget of memory %u, of %u that there are", m,
				  desc->nr_memories);
			return -EINVAL;
		}
		if (m < desc->nr_memories && (is_needed(desc, config, m) || budget[m]))
			err = check_budget(machine, m, &budget[m]);
		if (err)
			return err;
	}
	return 0;
}

/* Whether each budget holds two blocks, and is of a memory that blocks move to and from. */
static int check_blocks(const struct weir_machine_desc *desc,
			const struct weir_space_config *config)
{
	if (config->block_bytes % desc->vmm.granularity_bytes || config->block_bytes > UINT32_MAX) {
		log_error("space: the block size is no multiple of the granularity, or 4 GiB or "
			  "more");
		return -EINVAL;
	}
	for (uint32_t m = 0; m < desc->nr_memories; m++) {
		bool always = is_needed(desc, config, m);

		if ((always || config->budget_bytes[m]) &&
		    config->budget_bytes[m] / config->block_bytes < SPACE_CHUNKS_LEAST) {
			log_error("space: the budget of %s is below two blocks",
				  desc->memory[m].name);
			return -EINVAL;
		}
		if (!always && config->budget_bytes[m] && desc->memory[m].kind != WEIR_MEMORY_HBM) {
			log_error("space: %s is neither a GPU's memory nor the one of the host "
				  "that spaces use",
				  desc->memory[m].name);
			return -ENOTSUP;
		}
	}
	return 0;
}

static int check_config(struct weir_machine *machine, struct weir_space_config *config)
{
	const struct weir_machine_desc *desc = weir_machine_describe(machine);
	uint64_t least = UINT64_MAX; /* of the devices' own memories */
	int err;

	err = check_devices(desc, config);
	if (err)
		return err;
	if (config->mode > WEIR_PLANNED) {
		log_error("space: there is no mode %d", (int)config->mode);
		return -EINVAL;
	}
	err = check_budgets(machine, config);
	if (err)
		return err;
	for (uint32_t m = 0; m < desc->nr_memories; m++)
		if (own_devices(desc, config, m))
			least = MIN(least, config->budget_bytes[m]);
	if (!config->block_bytes)
		config->block_bytes =
			pick_block_bytes(desc, (uint32_t)__builtin_ctzll(config->devices), least);
	return check_blocks(desc, config);
}

static void residency_advance(struct weir_space *space)
{
	budget_advance(space);
	advice_advance(space);
	follow_advance(space);
	if (space_has_neighbours(space))
		save_advance(space);
}

static void range_reset(struct weir_space *space, struct range *range)
{
	advice_reset(space, range);
	home_reset(space, range);
	ask_reset(range);
	range->nr_same = range->nr_changed = 0;
}

/* Plans are made for a budget, and that has changed. They were not made in vain, by which planning
 * would become hasty: the program may well repeat itself. */
static void resized(struct weir_space *space)
{
	for (uint32_t d = 0; d < space->nr_devices; d++) {
		struct planner *p = &space->residency->planner[d];

		if (p->plan || p->suspended || p->job)
			p->nr_unproven -= MIN(p->nr_unproven,
					      MAX(p->record.period, p->record.suspended.period));
		learn_forget(space, p);
		record_drop(&p->record);
	}
}

static const struct space_ops residency_ops = {
	.range_bytes = sizeof(struct range_residency),
	.block_bytes = sizeof(((struct range_residency *)NULL)->block_word[0]),
	.range_reset = range_reset,
	.advance = residency_advance,
	.bracket_done = follow_done,
	.is_quiet = bracket_is_quiet,
	.moved = ask_moved,
	.make_room = room_make,
	.back = place_back,
	.unpinned = alloc_settle,
	.resized = resized,
	.move_failed = advice_move_failed,
};

static void residency_destroy(struct residency *r, uint32_t nr_devices)
{
	for (uint32_t d = 0; d < nr_devices; d++) {
		record_fini(&r->planner[d].record);
		free(r->planner[d].pending);
	}
	guesses_destroy(r->guesses);
	free(r->planner);
	free(r);
}

/* NULL: no memory. */
static struct residency *residency_create(uint32_t nr_devices)
{
	struct residency *r = calloc(1, sizeof(*r));
	bool ok;

	if (!r)
		return NULL;
	r->planner = calloc(nr_devices, sizeof(*r->planner));
	ok = r->planner != NULL;
	for (uint32_t d = 0; ok && d < nr_devices; d++) {
		r->planner[d].own = (place_t)d;
		ok = !record_init(&r->planner[d].record);
	}
	if (ok)
		return r;
	residency_destroy(r, r->planner ? nr_devices : 0);
	return NULL;
}

int weir_space_create(struct weir_machine *machine, const struct weir_space_config *config,
		      struct weir_space **out)
{
	struct weir_space_config checked = *config;
	struct weir_space *space;
	int err = phys_of(machine, 0) ? check_config(machine, &checked) : -ENOMEM;

	if (err)
		return err;
	space = calloc(1, sizeof(*space));
	if (!space)
		return -ENOMEM;
	space->residency = residency_create((uint32_t)__builtin_popcountll(checked.devices));
	if (!space->residency) {
		err = -ENOMEM;
		goto err_free;
	}
	space->process = getpid();
	space->residency->recording = checked.mode == WEIR_PLANNED;
	space->residency->plans = space->residency->trials = space->residency->aside = true;
	err = variable_bool(VARIABLE_PLANS, &space->residency->plans);
	err = err ? err : variable_bool(VARIABLE_PLANS_ASIDE, &space->residency->aside);
	if (err)
		goto err_residency;
	space->ops = &residency_ops;
	space->residency->decide = &decide_default;
	space->epoch = 1;
	err = space_init(space, machine, &checked);
	if (err)
		goto err_residency;
	save_init(space, &checked);
	/* A space without its trace is as good, and the log has the reason. */
	if (variable_text(VARIABLE_TRACE))
		(void)tracing_start(space, variable_text(VARIABLE_TRACE), true);
	for (uint32_t place = 0; place < space->nr_places; place++)
		phys_client_start(&space->pmm[place].client, give_unused, space);
	*out = space;
	return 0;

err_residency:
	residency_destroy(space->residency, (uint32_t)__builtin_popcountll(checked.devices));
err_free:
	free(space);
	return err;
}

/* What comes in between may queue more. */
static int quiesce_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	(void)arg;
	space_note_error(space, migrate_flush(space));
	return settle_on_any(space, settle);
}

/* Wait until everything that was queued is done. Lock held. */
static void quiesce(struct weir_space *space)
{
	(void)space_settle(space, quiesce_pass, NULL);
	while (migrate_drop_stale(space))
		;
}

/* Brackets that are open as the space is destroyed: what they launched is waited for. */
static void settle_open(struct weir_space *space)
{
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		struct weir_stream *stream = space->slot[i]->stream;

		if (!space->slot[i]->open)
			continue;
		log_warning("space: destroyed with an open bracket; waiting for its stream");
		space->backend->ops->access_end(space->backend, stream_id(stream), space);
		pthread_mutex_unlock(&space->lock);
		for (int t = 0; t < SPACE_TRIES && weir_stream_sync(stream); t++)
			;
		pthread_mutex_lock(&space->lock);
		kinds_release(space, space->slot[i]);
	}
}

void weir_space_destroy(struct weir_space *space)
{
	uint32_t nr_devices;

	/* A child process has no GPU, and its copy of the lock may be held by nobody that is
	 * left. */
	if (!space || space->process != getpid())
		return;
	for (uint32_t place = 0; place < space->nr_places; place++)
		phys_client_stop(&space->pmm[place].client);
	if (space->shared)
		space->shared_ops->stop(space);
	pthread_mutex_lock(&space->lock);
	for (uint32_t d = 0; d < space->nr_devices; d++)
		learn_forget(space, &space->residency->planner[d]);
	space->residency->recording = false;
	advice_cancel(space);
	host_cancel(space);
	settle_open(space);
	quiesce(space);
	advice_fini(space);
	if (space->shared)
		space->shared_ops->fini(space);
	space_owners_fini(space);
	tracing_stop(space);
	while (space->nr_ranges)
		range_destroy(space, space->range[space->nr_ranges - 1]);
	pthread_mutex_unlock(&space->lock);
	/* First: until then the backend's thread may call space_progress(). */
	nr_devices = space->nr_devices;
	space_fini(space);
	residency_destroy(space->residency, nr_devices);
	free(space);
}

static int take_error(struct weir_space *space)
{
	int err = space->error;

	space->error = 0;
	return err;
}

/* What is beyond a budget may want room that others have, and progress cannot ask them. */
static int sync_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	int err = quiesce_pass(space, arg, settle);

	return err ? err : budget_settle(space, settle);
}

int weir_space_sync(struct weir_space *space)
{
	uint64_t since_ns;
	int err;

	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	(void)space_settle(space, sync_pass, NULL);
	quiesce(space);
	tracing_sync(space, since_ns);
	err = take_error(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* Make a range fit for the mode. */
static int range_set_mode(struct weir_space *space, struct range *range, enum weir_space_mode mode)
{
	int err = 0;

	if (range->kind)
		return 0;			  /* it is used in brackets alone, in either mode */
	if (mode == WEIR_FIXED && !range->pooled) /* any launch may use it */
		err = migrate_set_devices(space, range, range->devices | space->devices);
	if (!err && mode == WEIR_FIXED && !range->pooled)
		err = place_back_all(space, range);
	if (err)
		return err;
	/* Unless it was freed in a wait. */
	if (mode == WEIR_FIXED && !range->pooled)
		alloc_expect_anything(space, range);
	if (range->arena)
		return 0; /* launches may touch it outside brackets in either mode */
	return alloc_guard(space, range, mode == WEIR_PLANNED);
}

/*
 * Whether brackets may be open and under way while the mode changes. Where they are guesses, what
 * was launched in a fixed space was in one, or is done: so what they name stays, as ever. The
 * program may have queued work that waits for what it does next, so nobody waits here.
 */
static bool moves_at_once(const struct weir_space *space, enum weir_space_mode mode)
{
	return space->guessed && mode == WEIR_PLANNED;
}

/*
 * Make the space fit for the mode, and say that it is in it: before the first range is looked at
 * where nothing may move from then on, or after the last.
 */
static int change_mode(struct weir_space *space, enum weir_space_mode mode)
{
	int err = 0;

	if (mode == WEIR_FIXED) {
		space->mode = mode;
		space->residency->recording = false;
		advice_cancel(space);
	}
	if (!moves_at_once(space, mode)) {
		quiesce(space);
		err = take_error(space);
	}
	for (uint32_t r = 0; !err && r < space->nr_ranges; r++)
		err = range_set_mode(space, space->range[r], mode);
	if (!err)
		space->mode = mode;
	return err;
}

/* Replicas live by brackets. */
static bool has_replicated(const struct weir_space *space)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++)
		if (space->range[r]->nr_replicated)
			return true;
	return false;
}

int weir_space_set_mode(struct weir_space *space, enum weir_space_mode mode)
{
	enum weir_space_mode old;
	int err;

	if (mode > WEIR_PLANNED)
		return -EINVAL;
	pthread_mutex_lock(&space->lock);
	/* Nobody else begins a bracket or allocates while this waits; others may free. */
	space_placing_begin(space);
	old = space->mode;
	err = space->nr_open && !moves_at_once(space, mode) ? -WEIR_ECONTRACT : 0;
	if (!err && mode == WEIR_FIXED && has_replicated(space))
		err = -EBUSY;
	if (err || old == mode)
		goto out;
	space->ops->resized(space); /* no plan is followed, no repetition known */
	err = change_mode(space, mode);
	if (err) {
		space->mode = old;
		for (uint32_t r = 0; r < space->nr_ranges; r++)
			(void)range_set_mode(space, space->range[r], old);
	}
	space->residency->recording = space->mode == WEIR_PLANNED;
	if (!err)
		tracing_mode(space);
	/* What was allocated while nothing was recorded has no number yet. */
	for (uint32_t r = 0; r < space->nr_ranges && !err && mode == WEIR_PLANNED; r++)
		if (!space->range[r]->pooled && !space->range[r]->arena && !space->range[r]->kind)
			home_allocated(space, space->range[r], -1);
	space_progress(space); /* what is beyond a budget may leave now */
out:
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

int weir_space_trace(struct weir_space *space, const char *path)
{
	int err = 0;

	pthread_mutex_lock(&space->lock);
	if (!path)
		tracing_stop(space);
	else
		err = is_traced(space) ? -EALREADY : tracing_start(space, path, false);
	pthread_mutex_unlock(&space->lock);
	return err;
}

void weir_space_trace_mark(struct weir_space *space, const char *name)
{
	pthread_mutex_lock(&space->lock);
	tracing_mark(space, name);
	pthread_mutex_unlock(&space->lock);
}

void weir_space_query(struct weir_space *space, struct weir_space_stats *out)
{
	pthread_mutex_lock(&space->lock);
	*out = space->stats;
	space_inplace_bytes(space, out->link_bytes);
	for (uint32_t place = 0; place < space->nr_places; place++) {
		const struct pmm *pmm = &space->pmm[place];

		out->memory[pmm->memory].bytes =
			(pmm_nr_out(pmm) + pmm->nr_lent) * space->block_bytes;
		out->memory[pmm->memory].peak_bytes = pmm->nr_peak * space->block_bytes;
		out->memory[pmm->memory].dirty_bytes =
			space_nr_dirty(space, (place_t)place) * space->block_bytes;
	}
	kinds_query(space, out);
	out->live_bytes = space->nr_live_blocks * space->block_bytes;
	out->block_bytes = space->block_bytes;
	pthread_mutex_unlock(&space->lock);
}

int weir_space_check(struct weir_space *space)
{
	int err;

	pthread_mutex_lock(&space->lock);
	err = space_check(space);
	if (!err)
		err = kinds_check(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}
