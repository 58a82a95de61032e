/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of memories: see phys.h. */
#include "src/phys/phys.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/base/util.h"

/* The client that this thread asks: it must not ask in turn, for it would wait for itself. */
static _Thread_local const struct phys_client *asking;

int phys_memory_init(struct phys_memory *memory, struct backend *b, uint32_t index)
{
	*memory = (struct phys_memory){.backend = b, .index = index};
	list_init(&memory->clients);
	if (pthread_mutex_init(&memory->lock, NULL))
		return -ENOMEM;
	if (pthread_cond_init(&memory->changed, NULL)) {
		pthread_mutex_destroy(&memory->lock);
		return -ENOMEM;
	}
	return 0;
}

void phys_memory_fini(struct phys_memory *memory)
{
	pthread_cond_destroy(&memory->changed);
	pthread_mutex_destroy(&memory->lock);
}

struct accounts {
	uint32_t nr;
	struct phys_memory memory[];
};

static void accounts_destroy(void *kept)
{
	struct accounts *accounts = kept;

	while (accounts->nr)
		phys_memory_fini(&accounts->memory[--accounts->nr]);
	free(accounts);
}

static void *accounts_make(struct backend *b)
{
	uint32_t nr = b->desc.nr_memories;
	struct accounts *accounts = malloc(sizeof(*accounts) + nr * sizeof(accounts->memory[0]));

	if (!accounts)
		return NULL;
	for (accounts->nr = 0; accounts->nr < nr; accounts->nr++)
		if (phys_memory_init(&accounts->memory[accounts->nr], b, accounts->nr)) {
			accounts_destroy(accounts);
			return NULL;
		}
	return accounts;
}

struct phys_memory *phys_of(struct weir_machine *machine, uint32_t memory)
{
	struct accounts *accounts = machine_kept(machine, accounts_make, accounts_destroy);

	return accounts ? &accounts->memory[memory] : NULL;
}

/* ------------------------------------------------------------------ clients */

static struct phys_client *client_of(struct list_link *link)
{
	return (struct phys_client *)link;
}

void phys_client_add(struct phys_client *client, struct phys_memory *memory, const char *name,
		     uint64_t budget_bytes)
{
	*client = (struct phys_client){
		.memory = memory, .budget_bytes = budget_bytes, .most_bytes = budget_bytes};
	(void)snprintf(client->name, sizeof(client->name), "%s", name);
	pthread_mutex_lock(&memory->lock);
	list_add(&memory->clients, &client->link);
	pthread_mutex_unlock(&memory->lock);
}

void phys_client_adopt(struct phys_client *client, const struct phys_client *parent)
{
	pthread_mutex_lock(&client->memory->lock);
	client->parent = parent;
	pthread_mutex_unlock(&client->memory->lock);
}

void phys_client_start(struct phys_client *client, phys_give_fn give, void *owner)
{
	pthread_mutex_lock(&client->memory->lock);
	client->owner = owner;
	client->give = give;
	pthread_mutex_unlock(&client->memory->lock);
}

void phys_client_stop(struct phys_client *client)
{
	struct phys_memory *memory = client->memory;

	pthread_mutex_lock(&memory->lock);
	client->give = NULL;
	while (memory->asked == client)
		pthread_cond_wait(&memory->changed, &memory->lock);
	pthread_mutex_unlock(&memory->lock);
}

/* The memory's lock is held. */
static void limit_most(struct phys_client *client)
{
	client->most_bytes = MAX(client->budget_bytes, client->held_bytes);
}

void phys_client_set_budget(struct phys_client *client, uint64_t budget_bytes)
{
	pthread_mutex_lock(&client->memory->lock);
	client->budget_bytes = budget_bytes;
	limit_most(client);
	pthread_mutex_unlock(&client->memory->lock);
}

void phys_client_del(struct phys_client *client)
{
	struct phys_memory *memory = client->memory;
	uint64_t held;

	pthread_mutex_lock(&memory->lock);
	assert(!client->give && memory->asked != client);
	held = client->held_bytes;
	memory->held_bytes -= held;
	list_del(&client->link);
	pthread_mutex_unlock(&memory->lock);
	if (held)
		log_error("memory '%s': %s is gone with %llu bytes",
			  memory->backend->desc.memory[memory->index].name, client->name,
			  (unsigned long long)held);
}

/* ------------------------------------------------------------------ taking */

/* Add to what a client holds, within its budget. */
static bool count_more(struct phys_client *client, uint64_t bytes)
{
	struct phys_memory *memory = client->memory;
	bool fits;

	pthread_mutex_lock(&memory->lock);
	fits = client->held_bytes <= client->budget_bytes &&
	       bytes <= client->budget_bytes - client->held_bytes;
	if (fits) {
		client->held_bytes += bytes;
		memory->held_bytes += bytes;
	}
	pthread_mutex_unlock(&memory->lock);
	return fits;
}

/* @return whether other clients hold anything */
static bool count_less(struct phys_client *client, uint64_t bytes)
{
	struct phys_memory *memory = client->memory;
	bool others;

	pthread_mutex_lock(&memory->lock);
	client->held_bytes -= bytes;
	memory->held_bytes -= bytes;
	limit_most(client);
	others = memory->held_bytes > client->held_bytes;
	pthread_mutex_unlock(&memory->lock);
	return others;
}

int phys_take(struct phys_client *client, uint64_t bytes, struct backend_chunk *out)
{
	struct backend *b = client->memory->backend;
	int err;

	if (!count_more(client, bytes))
		return -ENOMEM;
	err = b->ops->chunk_create(b, client->memory->index, bytes, client->devices, out);
	if (!err)
		return 0;
	return count_less(client, bytes) && err == -ENOMEM ? -EAGAIN : err;
}

void phys_put(struct phys_client *client, const struct backend_chunk *chunk)
{
	struct backend *b = client->memory->backend;
	uint64_t bytes = chunk->bytes;

	b->ops->chunk_destroy(b, chunk);
	(void)count_less(client, bytes);
}

/* ------------------------------------------------------------------ asking */

uint64_t phys_held(const struct phys_client *client)
{
	struct phys_memory *memory = client->memory;
	uint64_t bytes;

	pthread_mutex_lock(&memory->lock);
	bytes = client->held_bytes;
	pthread_mutex_unlock(&memory->lock);
	return bytes;
}

uint64_t phys_others(const struct phys_client *client)
{
	struct phys_memory *memory = client->memory;
	uint64_t bytes;

	pthread_mutex_lock(&memory->lock);
	bytes = memory->held_bytes - client->held_bytes;
	pthread_mutex_unlock(&memory->lock);
	return bytes;
}

uint64_t phys_room(const struct phys_memory *memory)
{
	struct backend *b = memory->backend;
	uint64_t all = b->desc.memory[memory->index].bytes;
	uint64_t used = b->ops->memory_used(b, memory->index);
	uint64_t others = b->ops->memory_room(b, memory->index);
	uint64_t left = all > used ? all - used : 0;

	return left < others ? left : others;
}

/* Become the one that asks. @return bytes that those got whom this waited for; if any, it is not
 * the one */
static uint64_t turn_begin(struct phys_memory *memory)
{
	uint64_t given;

	pthread_mutex_lock(&memory->lock);
	given = memory->given_bytes;
	while (memory->reclaiming && given == memory->given_bytes) {
		uint64_t round = memory->round;

		while (memory->reclaiming && round == memory->round)
			pthread_cond_wait(&memory->changed, &memory->lock);
	}
	given = memory->given_bytes - given;
	if (!given) {
		memory->reclaiming = true;
		memory->round++;
	}
	pthread_mutex_unlock(&memory->lock);
	return given;
}

static void turn_end(struct phys_memory *memory)
{
	pthread_mutex_lock(&memory->lock);
	memory->reclaiming = false;
	pthread_cond_broadcast(&memory->changed);
	pthread_mutex_unlock(&memory->lock);
}

/* The client to ask next, which is then not unregistered until ask_end(). NULL: all were asked.
 * own: of the children of the one who asks. */
static struct phys_client *ask_begin(struct phys_memory *memory, const struct phys_client *who,
				     bool own, phys_give_fn *give)
{
	struct phys_client *found = NULL;

	pthread_mutex_lock(&memory->lock);
	for (struct list_link *l = memory->clients.next; l != &memory->clients && !found;
	     l = l->next) {
		struct phys_client *client = client_of(l);

		if (client != who && (!own || client->parent == who) && client->give &&
		    client->held_bytes && client->round != memory->round)
			found = client;
	}
	if (found) {
		found->round = memory->round;
		list_del(&found->link);
		list_add_tail(&memory->clients, &found->link);
		memory->asked = found;
		*give = found->give;
	}
	pthread_mutex_unlock(&memory->lock);
	return found;
}

static void ask_end(struct phys_memory *memory, uint64_t given)
{
	pthread_mutex_lock(&memory->lock);
	memory->asked = NULL;
	memory->given_bytes += given;
	pthread_cond_broadcast(&memory->changed);
	pthread_mutex_unlock(&memory->lock);
}

static uint64_t reclaim(struct phys_client *client, uint64_t bytes, bool own)
{
	struct phys_memory *memory = client->memory;
	struct phys_client *asked;
	uint64_t given, sum, room;
	phys_give_fn give;

	assert(!asking);
	if (asking)
		return 0;
	sum = turn_begin(memory);
	if (sum)
		return sum;
	room = own ? 0 : phys_room(memory);
	/* Where it was refused in spite of room, the machine's figure is of no use. */
	bytes = bytes > room ? bytes - room : bytes;
	while (sum < bytes && (asked = ask_begin(memory, client, own, &give))) {
		asking = asked;
		given = give(asked, bytes - sum);
		asking = NULL;
		ask_end(memory, given);
		sum += given;
	}
	turn_end(memory);
	return sum;
}

uint64_t phys_reclaim(struct phys_client *client, uint64_t bytes)
{
	return reclaim(client, bytes, false);
}

uint64_t phys_reclaim_own(struct phys_client *client, uint64_t bytes)
{
	return reclaim(client, bytes, true);
}

/* ------------------------------------------------------------------ reports */

void phys_holders(struct phys_memory *memory, char text[PHYS_HOLDERS_MAX])
{
	size_t at = 0;

	(void)snprintf(text, PHYS_HOLDERS_MAX, "nothing is held");
	pthread_mutex_lock(&memory->lock);
	for (struct list_link *l = memory->clients.next;
	     l != &memory->clients && at < PHYS_HOLDERS_MAX; l = l->next) {
		const struct phys_client *client = client_of(l);

		if (client->held_bytes)
			at += (size_t)snprintf(text + at, PHYS_HOLDERS_MAX - at, "%s%.1f MiB in %s",
					       at ? ", " : "", (double)client->held_bytes / 0x1p20,
					       client->name);
	}
	pthread_mutex_unlock(&memory->lock);
}

int phys_check(struct phys_memory *memory)
{
	uint64_t sum = 0, held;
	bool beyond = false;

	pthread_mutex_lock(&memory->lock);
	for (struct list_link *l = memory->clients.next; l != &memory->clients; l = l->next) {
		const struct phys_client *client = client_of(l);

		sum += client->held_bytes;
		beyond = beyond || client->held_bytes > client->most_bytes;
	}
	held = memory->held_bytes;
	pthread_mutex_unlock(&memory->lock);
	if (sum == held && !beyond)
		return 0;
	log_error("memory '%s': its clients hold %llu bytes, %llu are counted%s",
		  memory->backend->desc.memory[memory->index].name, (unsigned long long)sum,
		  (unsigned long long)held, beyond ? ", and one is beyond its budget" : "");
	return -EUCLEAN;
}
