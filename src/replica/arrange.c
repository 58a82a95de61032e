/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which granules a device has copies of, where it has no room for all that its brackets name. What
 * it has none of is used over a link, where it lies; and at first that is what was named last.
 *
 * Each use is noted, with the time that it takes over a link: the *heat* of the granules that it
 * names, of those with a copy as well. Now and then the hottest that are borrowed are exchanged for
 * the coldest copies, those whose contents are elsewhere, too. An exchange takes mapping calls, and
 * the device's brackets have to be done before; so it is made when what it would have saved since
 * the last look is more than it takes, as one buys what one has paid the price of in rent. The next
 * look comes when uses of borrowed granules have taken LOOK_TIMES as long as until this one. So a
 * program whose uses repeat comes to rest, and one whose uses do not is disturbed ever less.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/cost/cost.h"
#include "src/replica/replica.h"

#define NS_PER_S 1e9
/* Of use over links, until the first look. */
#define LOOK_NS 10e6
/* Until the next, of what they took until this one. With a larger factor a program has the worse
 * copies for longer, with a smaller one more looks are in vain. */
#define LOOK_TIMES 1.4
/* What it takes beside exchanges, about: the device is idle until the next launch. */
#define DRAIN_NS 1e6
#define MIX UINT32_C(0x9e3779b1) /* odd, its bits mixed: 2^32 over the golden ratio */

/* ------------------------------------------------------------------ heat */

static const struct weir_link_desc *host_link(const struct weir_space *space, place_t own)
{
	const struct weir_machine_desc *desc = &space->backend->desc;

	return &desc->link[cost_host_link(desc, space->device[own])];
}

/* A link of a device over which it may borrow: to a neighbour, if there is one. */
static const struct weir_link_desc *link_of(const struct weir_space *space, place_t own)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	uint32_t memory = desc->device[space->device[own]].memory;

	for (uint32_t d = 0; d < space->nr_devices; d++) {
		int link = cost_link_find(desc, memory, desc->device[space->device[d]].memory);

		if (d != own && link >= 0)
			return &desc->link[link];
	}
	return host_link(space, own);
}

/* The time that a byte of a use takes over a link. */
static double byte_ns(const struct weir_space *space, place_t own, const struct space_use *use)
{
	const struct weir_use declared = {.bytes = use->bytes,
					  .kind = use->kind,
					  .pattern = use->pattern,
					  .granule = use->granule};
	double rate = cost_inplace_bytes_per_s(link_of(space, own), &declared, use->bytes);

	return cost_expansion(&declared) * (use->read_bytes + use->write_bytes) /
	       (double)use->bytes / rate * NS_PER_S;
}

void arrange_note(struct weir_space *space, place_t own, const struct space_use *use,
		  const struct access *access)
{
	struct replica *r = access->replica;
	struct replica_memory *memory = &r->replicas->memory[own];
	uint64_t granule = r->replicas->granule_bytes, offset = access->offset, next;
	double ns;

	if (!memory->nr_borrowed || access->copy == COPY_ONE)
		return;
	if (!r->heat[own])
		r->heat[own] = calloc(r->nr_granules, sizeof(*r->heat[own]));
	if (!r->heat[own])
		return;
	ns = byte_ns(space, own, use);
	if (access->copy != own)
		memory->borrowed_ns += ns * (double)(access->end - offset);
	for (; offset < access->end; offset = next) {
		next = MIN((offset / granule + 1) * granule, access->end);
		r->heat[own][offset / granule] += (float)(ns * (double)(next - offset));
	}
}

/* ------------------------------------------------------------------ exchanges */

/* A granule that a window shows. */
struct warm {
	struct replica *replica;
	uint32_t granule;
	float heat;
	uint32_t order; /* among those that are as hot */
};

/* Those of a device, in one array: from the beginning the borrowed ones, hottest first; behind them
 * those that it has copies of, coldest first. */
struct warm_list {
	struct warm *warm;
	uint32_t nr_borrowed, nr;
};

/* Heat in steps of a quarter of an octave, 19 %, so that what is about as hot is alike. */
static int step_of(const struct warm *warm)
{
	return (int)(4 * log2f(MAX(warm->heat, 1.0f)));
}

static int compare_heat(const void *a, const void *b)
{
	const struct warm *x = a, *y = b;

	if (step_of(x) != step_of(y))
		return step_of(x) < step_of(y) ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_cold(const void *a, const void *b)
{
	return compare_heat(b, a);
}

/* Whether another device has a copy. */
static bool is_at_neighbour(const struct replica *r, place_t own, uint32_t g)
{
	for (uint32_t d = 0; d < r->replicas->space->nr_devices; d++)
		if (d != own && r->chunk[d] && r->chunk[d][g].backend.handle)
			return true;
	return false;
}

/* What the device writes counts twice: others read it where it is written, each device's in its own
 * memory if there is room, so that all ports have as much to send. What would have to be used in
 * the host's memory counts by that link. */
static float warm_heat(const struct replica *r, place_t own, uint32_t g)
{
	const struct weir_space *space = r->replicas->space;
	const struct piece *piece = &r->piece[pieces_find(r, g * r->replicas->granule_bytes)];
	double heat = (double)r->heat[own][g] * (piece->writer == own ? 2 : 1);

	if (!is_at_neighbour(r, own, g))
		heat *= link_of(space, own)->inplace_bytes_per_s /
			host_link(space, own)->inplace_bytes_per_s;
	return (float)heat;
}

/* Of granules that are as hot, some of each device's; and other ones than other devices take, so
 * that what one has no copy of others have. */
static uint32_t order_of(const struct replicas *rs, place_t own, uint32_t g)
{
	return g * MIX + own * (UINT32_MAX / rs->space->nr_devices);
}

/* Add those that are borrowed, or that are not. */
static void warm_add(const struct replicas *rs, place_t own, bool borrowed, struct warm_list *list)
{
	for (uint32_t n = 0; n < rs->nr_replicas; n++) {
		struct replica *r = rs->replica[n];

		for (uint32_t g = 0; r && !r->dying && r->heat[own] && g < r->nr_granules; g++)
			if (borrowed ? replica_borrows(r, own, g) : r->view[own][g] == own)
				list->warm[list->nr++] = (struct warm){r, g, warm_heat(r, own, g),
								       order_of(rs, own, g)};
	}
}

/* -ENOMEM. */
static int warm_make(const struct replicas *rs, place_t own, struct warm_list *list)
{
	uint64_t nr = 1;

	for (uint32_t n = 0; n < rs->nr_replicas; n++)
		nr += rs->replica[n] ? rs->replica[n]->nr_granules : 0;
	*list = (struct warm_list){.warm = malloc(nr * sizeof(*list->warm))};
	if (!list->warm)
		return -ENOMEM;
	warm_add(rs, own, true, list);
	list->nr_borrowed = list->nr;
	warm_add(rs, own, false, list);
	qsort(list->warm, list->nr_borrowed, sizeof(*list->warm), compare_cold);
	qsort(list->warm + list->nr_borrowed, list->nr - list->nr_borrowed, sizeof(*list->warm),
	      compare_heat);
	return 0;
}

/* What an exchange takes: each of two windows' parts is mapped anew, and one is brought. */
static double exchange_ns(const struct weir_space *space, place_t own)
{
	const struct weir_vmm_desc *vmm = &space->backend->desc.vmm;
	const struct replicas *rs = replicas_of(space);

	if (rs->arrange_soon)
		return 0;
	return 2 * (double)(vmm->map_ns + vmm->set_access_ns + vmm->unmap_ns) +
	       (double)rs->granule_bytes / link_of(space, own)->a_to_b_bytes_per_s * NS_PER_S;
}

/* Whether exchanges would have saved more than they take. */
static bool is_worth_while(const struct weir_space *space, place_t own)
{
	double price = exchange_ns(space, own), gain = 0;
	struct warm_list list;

	if (warm_make(replicas_of(space), own, &list))
		return false;
	for (uint32_t i = 0; i < MIN(list.nr_borrowed, list.nr - list.nr_borrowed); i++)
		gain += MAX((double)list.warm[i].heat -
				    (double)list.warm[list.nr_borrowed + i].heat - price,
			    0);
	free(list.warm);
	return gain > (replicas_of(space)->arrange_soon ? 0 : DRAIN_NS);
}

/* Nothing uses the device's windows but what others began meanwhile. */
static void exchange(struct weir_space *space, place_t own)
{
	const struct warm *cold, *end;
	double price = exchange_ns(space, own);
	struct warm_list list;
	int err = warm_make(replicas_of(space), own, &list);

	if (err)
		return;
	cold = list.warm + list.nr_borrowed;
	end = list.warm + list.nr;
	for (uint32_t i = 0; i < list.nr_borrowed && (!err || err == -EBUSY); i++) {
		const struct warm *hot = &list.warm[i];

		if ((double)hot->heat <= price)
			break;
		err = copies_bring(space, hot->replica, own, hot->granule);
		for (; err == -ENOMEM && cold < end && hot->heat - cold->heat > price; cold++)
			if (copies_let_go(space, cold->replica, own, cold->granule))
				err = copies_bring(space, hot->replica, own, hot->granule);
		replicas_of(space)->stats.nr_exchanged += !err;
	}
	for (uint32_t i = 0; i < list.nr_borrowed && (!err || err == -EBUSY || err == -ENOMEM); i++)
		err = copies_borrow(space, list.warm[i].replica, own, list.warm[i].granule);
	space_note_error(space, err == -EBUSY || err == -ENOMEM ? 0 : err);
	free(list.warm);
}

/* What was used counts for less from here on. */
static void look_later(struct replica_memory *memory, place_t own)
{
	const struct replicas *rs = memory->replicas;

	memory->look_ns = LOOK_TIMES * memory->borrowed_ns;
	memory->borrowed_ns = 0;
	memory->arrange_seq = 0;
	for (uint32_t n = 0; n < rs->nr_replicas; n++)
		for (uint32_t g = 0;
		     rs->replica[n] && rs->replica[n]->heat[own] && g < rs->replica[n]->nr_granules;
		     g++)
			rs->replica[n]->heat[own][g] /= 2;
}

int arrange(struct weir_space *space, place_t own, struct settle *settle)
{
	const struct replicas *rs = replicas_of(space);
	struct replica_memory *memory = &replicas_of(space)->memory[own];

	if (!memory->nr_borrowed ||
	    memory->borrowed_ns <= (rs->arrange_soon ? 0 : MAX(memory->look_ns, LOOK_NS)))
		return 0;
	if (!memory->arrange_seq && is_worth_while(space, own))
		memory->arrange_seq = space->last_seq;
	if (memory->arrange_seq) {
		if (settle_on_seq(space, memory->arrange_seq, settle))
			return SETTLE_WAIT;
		messages_retire(space, true);
		exchange(space, own);
	}
	look_later(memory, own);
	return 0;
}
