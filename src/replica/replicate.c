/* SPDX-License-Identifier: Apache-2.0 */
/* Replicated ranges: making them, finding their windows, turning them back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/replica/parcel.h"

/* Below. */
static const struct shared_ops shared_ops;

/* ------------------------------------------------------------------ of a space */

static void replicas_free(struct replicas *rs)
{
	free(rs->replica);
	free(rs);
}

static int replicas_get(struct weir_space *space, struct replicas **out)
{
	struct replicas *rs = replicas_of(space);

	if (!rs) {
		rs = calloc(1, sizeof(*rs));
		if (!rs)
			return -ENOMEM;
		rs->space = space;
		rs->granule_bytes = space->backend->desc.vmm.granularity_bytes;
		rs->packet_bytes = round_up(PACKET_BYTES, rs->granule_bytes);
		memories_init(rs);
		space->shared = rs;
		space->shared_ops = &shared_ops;
	}
	*out = rs;
	return 0;
}

/* A number for one more. */
static int number_get(struct replicas *rs, uint32_t *number)
{
	uint32_t n = 0, max = MAX(8u, 2 * rs->max_replicas);
	struct replica **table;

	while (n < rs->nr_replicas && rs->replica[n])
		n++;
	*number = n;
	if (n < rs->max_replicas)
		return 0;
	table = realloc(rs->replica, max * sizeof(*table));
	if (!table)
		return -ENOMEM;
	rs->replica = table;
	rs->max_replicas = max;
	return 0;
}

/* ------------------------------------------------------------------ windows */

static void window_del(struct replica *r, place_t own)
{
	struct weir_space *space = r->replicas->space;
	void *addr = r->window_addr[own];

	if (r->window[own])
		space_range_del_locked(space, r->window[own]);
	r->window[own] = NULL;
	if (addr) {
		(void)space->backend->ops->access_guard(space->backend, addr, false);
		space->backend->ops->va_release(space->backend, addr,
						r->nr_granules * r->replicas->granule_bytes);
	}
	free(r->chunk[own]);
	free(r->view[own]);
	free(r->heat[own]);
}

static int window_add(struct replica *r, place_t own)
{
	struct weir_space *space = r->replicas->space;
	struct backend *b = space->backend;
	uint64_t granule = r->replicas->granule_bytes;
	int err;

	r->chunk[own] = calloc(r->nr_granules, sizeof(*r->chunk[own]));
	r->view[own] = malloc(r->nr_granules);
	if (!r->chunk[own] || !r->view[own])
		return -ENOMEM;
	memset(r->view[own], (int)COPY_NONE, r->nr_granules);
	err = b->ops->va_reserve(b, r->nr_granules * granule, granule, &r->window_addr[own]);
	if (err)
		return err;
	err = b->ops->access_guard(b, r->window_addr[own], true);
	if (err && err != -ENOSYS)
		return err;
	return space_range_add_locked(space, &r->replicas->memory[own].owner, r->number,
				      r->window_addr[own], r->bytes, &r->window[own]);
}

/* ------------------------------------------------------------------ a range */

/* Nothing of it is under way. */
static void replica_destroy(struct replica *r)
{
	struct weir_space *space = r->replicas->space;

	copies_drop_all(r);
	for (uint32_t own = 0; own < space->nr_devices; own++) {
		list_end(space, r->list[own]);
		chunks_put(space, (uint8_t)own, &r->tracked[own]);
	}
	for (uint32_t own = 0; own < space->nr_devices; own++)
		window_del(r, (place_t)own);
	for (uint32_t place = 0; place < space->nr_places; place++)
		if (r->replicas->memory[place].replicas)
			copies_lend_back(space, &r->replicas->memory[place]);
	for (uint32_t c = 0; c < COPIES_MAX; c++)
		free(r->used[c]);
	free(r->chunk[COPY_HOST]);
	free(r->piece);
	free(r->subscribed);
	r->replicas->replica[r->number] = NULL;
	free(r);
}

/* Which copies have what: the one copy has its blocks' contents, where there are any. */
static int pieces_init(struct replica *r, const struct weir_space *space)
{
	const struct range *one = r->one;
	int err;

	r->nr_pieces = 0;
	err = pieces_reserve(r, one->nr_blocks + 3);
	if (err)
		return err;
	r->nr_pieces = 1;
	r->piece[0] =
		(struct piece){.current = COPIES_ANY, .listed = COPIES_ANY, .writer = COPY_NONE};
	if (one->arena)
		pieces_write(r, 0, r->bytes, COPY_ONE, COPY_NONE, 0);
	for (uint32_t i = 0; !one->arena && i < one->nr_blocks; i++)
		if (!one->block[i].at.dead)
			pieces_write(r, i * space->block_bytes,
				     MIN((i + 1) * space->block_bytes, r->bytes), COPY_ONE,
				     COPY_NONE, 0);
	return 0;
}

static int replica_create(struct replicas *rs, struct range *one, uint64_t offset, uint64_t bytes,
			  const struct weir_replica_params *params, uint64_t devices,
			  struct replica **out)
{
	struct replica *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = number_get(rs, &r->number);
	if (err) {
		free(r);
		return err;
	}
	rs->nr_replicas = MAX(rs->nr_replicas, r->number + 1);
	rs->replica[r->number] = r;
	r->replicas = rs;
	r->bytes = bytes;
	r->nr_granules = (uint32_t)div_round_up(bytes, rs->granule_bytes);
	r->devices = devices;
	r->element_bytes = params->element_bytes ? params->element_bytes : 4;
	r->subscription = params->subscription;
	r->one = one;
	r->one_offset = offset;
	r->chunk[COPY_HOST] = calloc(r->nr_granules, sizeof(*r->chunk[COPY_HOST]));
	err = r->chunk[COPY_HOST] ? pieces_init(r, rs->space) : -ENOMEM;
	for (uint32_t own = 0; !err && own < rs->space->nr_devices; own++)
		if (devices >> own & 1)
			err = window_add(r, (place_t)own);
	if (err) {
		replica_destroy(r);
		return err;
	}
	one->nr_replicated++;
	*out = r;
	return 0;
}

/* Whether a use, be it a discard, names some of the range, at the one copy or through a window. */
static bool is_named(const struct space_use *use, const struct range *one, uint64_t offset,
		     uint64_t bytes)
{
	const struct replica *r;

	if (use->range == one)
		return use->offset < offset + bytes && offset < use->offset + use->bytes;
	r = use->range->kind == &replica_kind && use->range->owner ? replica_of_window(use->range)
								   : NULL;
	return r && !r->dying && r->one == one && r->one_offset == offset;
}

/* Whether an open bracket, or one on the host, names some of the range. */
static bool is_open(const struct weir_space *space, const struct range *one, uint64_t offset,
		    uint64_t bytes)
{
	if (range_is_in_open(space, one))
		return true;
	for (uint32_t i = 0; i < space->nr_slots; i++)
		for (uint32_t u = 0; space->slot[i]->open && u < space->slot[i]->uses.nr; u++)
			if (is_named(&space->slot[i]->uses.use[u], one, offset, bytes))
				return true;
	/* Host brackets pin whole blocks, which an arena's allocations share. */
	for (uint64_t i = offset / space->block_bytes;
	     i <= (offset + bytes - 1) / space->block_bytes; i++)
		if (one->block[i].host_pins)
			return true;
	return false;
}

/* The places of a mask of devices. */
static int find_devices(const struct weir_space *space, uint64_t devices, uint64_t *places)
{
	*places = devices ? 0 : (UINT64_C(1) << space->nr_devices) - 1;
	if (devices & ~space->devices)
		return -EINVAL;
	for (uint32_t own = 0; own < space->nr_devices; own++)
		if (devices & BACKEND_DEVICE_BIT(space->device[own]))
			*places |= UINT64_C(1) << own;
	return 0;
}

static int check_params(const struct weir_space *space, const struct weir_replica_params *p,
			uint64_t *places)
{
	uint32_t element = p->element_bytes;

	if (element > 16 || (element & (element - 1)) || p->subscription > WEIR_SUBSCRIBE_NONE ||
	    find_devices(space, p->devices, places)) {
		log_error("replicate: elements are of 1, 2, 4, 8 or 16 bytes, devices those of the "
			  "space, and the subscription is one of enum weir_subscription");
		return -EINVAL;
	}
	if (space->mode != WEIR_PLANNED) {
		log_error("replicate: in a fixed space, where launches need no brackets");
		return -ENOTSUP;
	}
	return 0;
}

/* The allocation that begins at an address. */
static int find_allocation(struct weir_space *space, const void *addr, struct range **range,
			   uint64_t *offset, uint64_t *bytes)
{
	*range = range_find(space, addr);
	*offset = 0;
	if (*range && (*range)->kind)
		return -ENOTSUP;
	if (!*range || !range_lives(*range))
		return -EINVAL;
	*bytes = (*range)->arena ? arena_find(*range, addr, offset) : (*range)->bytes;
	return *bytes && (char *)(*range)->addr + *offset == (const char *)addr ? 0 : -EINVAL;
}

static int replicate(struct weir_space *space, void *addr, const struct weir_replica_params *params,
		     struct replica **out)
{
	struct space_use part = {.bytes = 1};
	uint64_t offset, bytes, places;
	struct replicas *rs;
	uint8_t copy;
	int err = check_params(space, params, &places);

	if (!err)
		err = find_allocation(space, addr, &part.range, &part.offset, &bytes);
	if (err) {
		if (err == -EINVAL)
			log_error("replicate: %p is no allocation of the space", addr);
		return err;
	}
	if (space->shared && replica_of_use(space, &part, &copy, &offset))
		return -EEXIST;
	if (is_open(space, part.range, part.offset, bytes))
		return -EBUSY;
	err = replicas_get(space, &rs);
	return err ? err : replica_create(rs, part.range, part.offset, bytes, params, places, out);
}

/* Everybody gets a copy of everything, as far as there is room. */
static int prepare_all(struct weir_space *space, struct replica *r)
{
	int err = 0;

	for (uint32_t own = 0; own < space->nr_devices && !err; own++)
		if (r->window[own])
			err = publish_prepare(space, r, (uint8_t)own, 0, r->bytes);
	if (err && !r->dying) { /* else it goes by itself: another thread freed it meanwhile */
		r->one->nr_replicated--;
		replica_destroy(r);
	}
	return err;
}

int weir_replicate(struct weir_space *space, void *addr, const struct weir_replica_params *params)
{
	static const struct weir_replica_params defaults;
	struct replica *r;
	int err;

	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	space_fence_all(space); /* from here on each bracket has its own */
	err = replicate(space, addr, params ? params : &defaults, &r);
	if (!err && r->subscription == WEIR_SUBSCRIBE_ALL)
		err = prepare_all(space, r);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

int weir_replica(struct weir_space *space, void *addr, uint32_t device, void **window)
{
	const struct replica *r;
	uint64_t offset;
	int err = -EINVAL, own;

	pthread_mutex_lock(&space->lock);
	r = replica_find(space, addr, &offset);
	own = space_own(space, device);
	if (r && own >= 0 && r->window[own]) {
		*window = (char *)r->window[own]->addr + offset;
		err = 0;
	}
	pthread_mutex_unlock(&space->lock);
	if (err)
		log_error("replica: %p is in no replicated range that device %u has a window for",
			  addr, device);
	return err;
}

/* ------------------------------------------------------------------ turning back, freeing */

struct back_to_one {
	struct replica *r;
	struct back_pass back;
	bool backed;
};

/* Everything is at the one copy, and nothing else is under way. */
static int unreplicate_pass(struct weir_space *space, void *arg, struct settle *settle)
{
	struct back_to_one *p = arg;
	int err = p->r->dying ? -EINVAL : settle_on_seq(space, space->last_seq, settle);

	if (!err && !p->backed)
		err = space->ops->back(space, &p->back, settle);
	if (!err)
		err = message_fill(space, p->r, NULL, COPY_ONE, 0, p->r->bytes, false);
	if (err)
		return err;
	p->backed = true;
	return messages_settle(space, settle);
}

int weir_unreplicate(struct weir_space *space, void *addr)
{
	struct back_to_one pass = {.backed = false};
	uint64_t offset;
	int err = -EINVAL;

	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	space_progress(space);
	pass.r = replica_find(space, addr, &offset);
	if (!pass.r || (char *)pass.r->one->addr + pass.r->one_offset != (char *)addr)
		goto out;
	err = -EBUSY;
	if (is_open(space, pass.r->one, pass.r->one_offset, pass.r->bytes))
		goto out;
	pass.back.part = (struct space_use){
		.range = pass.r->one,
		.first = one_first_block(pass.r, 0),
		.nr = one_last_block(pass.r, pass.r->bytes) - one_first_block(pass.r, 0) + 1,
	};
	pass.r->nr_busy++;
	err = space_settle(space, unreplicate_pass, &pass);
	pass.r->nr_busy--;
	if (pass.r->dying) /* another thread freed it meanwhile: it goes by itself */
		err = -EINVAL;
	if (!err) {
		pass.r->one->nr_replicated--;
		replica_destroy(pass.r);
	}
out:
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

static void freed(struct weir_space *space, struct range *range, uint64_t offset)
{
	const struct space_use part = {.range = range, .offset = offset, .bytes = 1};
	uint64_t at;
	uint8_t copy;
	struct replica *r = replica_of_use(space, &part, &copy, &at);

	if (!r)
		return;
	r->dying = true;
	range->nr_replicated--;
}

/* Whether nothing uses a range that was freed. */
static bool is_idle(const struct weir_space *space, const struct replica *r)
{
	if (r->nr_busy)
		return false;
	for (uint32_t own = 0; own < space->nr_devices; own++)
		if (r->window[own] && (range_is_named(space, r->window[own]) ||
				       r->window[own]->last_use > space->done_seq))
			return false;
	return !message_uses(r, COPY_NONE, 0, r->bytes);
}

/* How long readers of elements have time for says when they are best sent. */
static bool wants_times(const struct weir_space *space)
{
	return replicas_of(space)->lists;
}

static void progress(struct weir_space *space)
{
	struct replicas *rs = replicas_of(space);
	bool dying = false;

	for (uint32_t n = 0; n < rs->nr_replicas; n++)
		dying |= rs->replica[n] && rs->replica[n]->dying;
	messages_retire(space, dying);
	for (uint32_t n = 0; n < rs->nr_replicas; n++)
		if (rs->replica[n] && rs->replica[n]->dying && is_idle(space, rs->replica[n]))
			replica_destroy(rs->replica[n]);
}

static void fini(struct weir_space *space)
{
	struct replicas *rs = replicas_of(space);

	messages_retire(space, true);
	for (uint32_t n = 0; n < rs->nr_replicas; n++)
		if (rs->replica[n]) {
			rs->replica[n]->one->nr_replicated -= !rs->replica[n]->dying;
			replica_destroy(rs->replica[n]);
		}
	packets_fini(space);
	memories_fini(rs);
	lanes_fini(rs);
	learn_fini(rs);
	space->shared = NULL;
	replicas_free(rs);
}

void weir_replica_query(struct weir_space *space, struct weir_replica_stats *out)
{
	const struct replicas *rs;

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&space->lock);
	rs = replicas_of(space);
	if (rs)
		*out = rs->stats;
	for (uint32_t place = 0; rs && place < space->nr_places; place++)
		if (rs->memory[place].replicas)
			out->copy_bytes[space->pmm[place].memory] =
				phys_held(&rs->memory[place].client);
	pthread_mutex_unlock(&space->lock);
}

void replicas_move_nothing(struct weir_space *space)
{
	pthread_mutex_lock(&space->lock);
	if (space->shared)
		replicas_of(space)->move_nothing = true;
	pthread_mutex_unlock(&space->lock);
}

static void stop(struct weir_space *space)
{
	struct replicas *rs = replicas_of(space);

	for (uint32_t place = 0; place < space->nr_places; place++)
		if (rs->memory[place].replicas)
			phys_client_stop(&rs->memory[place].client);
}

static const struct shared_ops shared_ops = {
	.ready = use_ready,
	.open = use_open,
	.cancel = use_cancel,
	.ended = use_ended,
	.contradict = replica_contradict,
	.contradicts = use_contradicts,
	.fill = one_fill,
	.filled = one_filled,
	.settle = messages_settle,
	.progress = progress,
	.wants_times = wants_times,
	.give = copies_give,
	.spill = copies_spill,
	.resolve = replica_resolve,
	.stop = stop,
	.freed = freed,
	.fini = fini,
};
