/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts of memories: what is counted, who is asked, in which order and for how much, waiting for
 * others that ask, leaving while being asked; each call of the machine failing.
 *
 * Labels: threads
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "src/backend/flaky/flaky.h"
#include "src/phys/phys.h"
#include "tests/unit/test_sim_machine.h"

#define PIECE KIB(64)
#define PIECES 8u /* of the memory */
#define THREADS 8u

/* Holds pieces, of which the last nr_idle may go. */
struct holder {
	struct phys_client client;
	pthread_mutex_t lock;
	struct backend_chunk chunk[PIECES];
	uint32_t nr, nr_idle;
	atomic_uint nr_asked;
	uint64_t asked_bytes;
	/* While it is asked, it waits for this. NULL: it does not. */
	pthread_barrier_t *entered, *leave;
};

static struct backend *flaky;
static struct phys_memory memory;

static uint64_t holder_give(struct phys_client *client, uint64_t bytes)
{
	struct holder *h = client->owner;
	uint64_t given = 0;

	atomic_fetch_add(&h->nr_asked, 1);
	if (h->entered) {
		pthread_barrier_wait(h->entered);
		pthread_barrier_wait(h->leave);
	}
	pthread_mutex_lock(&h->lock);
	h->asked_bytes = bytes;
	while (given < bytes && h->nr_idle) {
		h->nr_idle--;
		phys_put(client, &h->chunk[--h->nr]);
		given += PIECE;
	}
	pthread_mutex_unlock(&h->lock);
	return given;
}

static void memory_open(void)
{
	struct weir_machine_desc desc;
	struct backend *sim;

	test_machine(&desc);
	desc.memory[GPU0].bytes = PIECES * PIECE;
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &sim), 0);
	assert_int_equal(flaky_create(sim, &flaky), 0);
	assert_int_equal(phys_memory_init(&memory, flaky, GPU0), 0);
}

static void memory_close(void)
{
	assert_int_equal(phys_check(&memory), 0);
	assert_int_equal(memory.held_bytes, 0);
	assert_true(list_empty(&memory.clients));
	phys_memory_fini(&memory);
	assert_int_equal(sim_leaks(flaky_inner(flaky)), 0);
	flaky->ops->destroy(flaky);
}

static int holder_take(struct holder *h)
{
	int err;

	pthread_mutex_lock(&h->lock);
	err = h->nr < PIECES ? phys_take(&h->client, PIECE, &h->chunk[h->nr]) : -ENOSPC;
	h->nr += !err;
	pthread_mutex_unlock(&h->lock);
	return err;
}

static void holder_open(struct holder *h, const char *name, uint32_t nr, uint32_t nr_idle)
{
	memset(h, 0, sizeof(*h));
	pthread_mutex_init(&h->lock, NULL);
	phys_client_add(&h->client, &memory, name, PHYS_NO_LIMIT);
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(holder_take(h), 0);
	h->nr_idle = nr_idle;
	phys_client_start(&h->client, holder_give, h);
}

static void holder_close(struct holder *h)
{
	phys_client_stop(&h->client);
	while (h->nr)
		phys_put(&h->client, &h->chunk[--h->nr]);
	phys_client_del(&h->client);
	pthread_mutex_destroy(&h->lock);
}

/* ------------------------------------------------------------------ accounts */

static void test_phys_counts_what_is_held(void **state)
{
	struct holder a, b;
	char text[PHYS_HOLDERS_MAX];

	(void)state;
	memory_open();
	phys_holders(&memory, text);
	assert_string_equal(text, "nothing is held");
	holder_open(&a, "space 1", 3, 0);
	holder_open(&b, "pool 'x'", 4, 0);
	assert_int_equal(a.client.held_bytes, 3 * PIECE);
	assert_int_equal(b.client.held_bytes, 4 * PIECE);
	assert_int_equal(memory.held_bytes, 7 * PIECE);
	assert_int_equal(phys_room(&memory), PIECE);
	phys_holders(&memory, text);
	assert_string_equal(text, "0.2 MiB in pool 'x', 0.2 MiB in space 1");
	assert_int_equal(phys_check(&memory), 0);
	memory.held_bytes += PIECE;
	assert_int_equal(phys_check(&memory), -EUCLEAN);
	memory.held_bytes -= PIECE;
	/* A budget that is lowered binds at once; what is beyond it may stay for a while. */
	phys_client_set_budget(&a.client, PIECE);
	assert_int_equal(phys_check(&memory), 0);
	a.client.most_bytes = PIECE;
	assert_int_equal(phys_check(&memory), -EUCLEAN);
	phys_client_set_budget(&a.client, PHYS_NO_LIMIT);
	holder_close(&a);
	assert_int_equal(memory.held_bytes, 4 * PIECE);
	holder_close(&b);
	memory_close();
}

/* Names that do not fit are cut, and nothing is written behind the text. */
static void test_phys_holders_are_cut(void **state)
{
	struct {
		char text[PHYS_HOLDERS_MAX], behind;
	} out;
	struct holder h[PIECES];
	char name[PHYS_NAME_MAX + 8];

	(void)state;
	memory_open();
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (uint32_t i = 0; i < PIECES; i++)
		holder_open(&h[i], name, 1, 0);
	out.behind = 'x';
	phys_holders(&memory, out.text);
	assert_int_equal(strlen(out.text), PHYS_HOLDERS_MAX - 1);
	assert_int_equal(out.behind, 'x');
	for (uint32_t i = 0; i < PIECES; i++)
		holder_close(&h[i]);
	memory_close();
}

static void test_phys_take_refusals(void **state)
{
	struct backend_chunk chunk;
	struct holder a, b;

	(void)state;
	memory_open();
	holder_open(&a, "a", 0, 0);
	a.client.budget_bytes = 2 * PIECE - 1;
	assert_int_equal(holder_take(&a), 0);
	assert_int_equal(holder_take(&a), -ENOMEM); /* its budget */
	a.client.budget_bytes = PHYS_NO_LIMIT;
	assert_int_equal(phys_take(&a.client, PIECES * PIECE, &chunk), -ENOMEM); /* nobody else */
	holder_open(&b, "b", 1, 0);
	assert_int_equal(phys_take(&a.client, PIECES * PIECE, &chunk), -EAGAIN);
	assert_int_equal(phys_take(&a.client, UINT64_MAX - PIECE + 1, &chunk), -ENOMEM);
	flaky_arm(flaky, flaky_nr_calls(flaky) + 1, -EIO);
	assert_int_equal(holder_take(&a), -EIO);
	flaky_arm(flaky, 0, 0);
	assert_int_equal(a.client.held_bytes, PIECE);
	assert_int_equal(memory.held_bytes, 2 * PIECE);
	holder_close(&a);
	holder_close(&b);
	memory_close();
}

/* ------------------------------------------------------------------ asking */

static void test_phys_asks_for_what_is_missing(void **state)
{
	struct holder a, b, c;

	(void)state;
	memory_open();
	holder_open(&a, "a", 0, 0);
	holder_open(&b, "b", 3, 3);
	holder_open(&c, "c", 4, 4);
	/* One piece is free: two are missing, and one client has them. */
	assert_int_equal(phys_reclaim(&a.client, 3 * PIECE), 2 * PIECE);
	assert_int_equal(b.nr_asked + c.nr_asked, 1);
	assert_int_equal(b.nr_idle + c.nr_idle, 5);
	assert_int_equal(phys_room(&memory), 3 * PIECE);
	/* It asks all if need be, the other one first, and each for the rest. */
	assert_int_equal(phys_reclaim(&a.client, 8 * PIECE), 5 * PIECE);
	assert_int_equal(b.nr_asked + c.nr_asked, 3);
	assert_int_equal(phys_reclaim(&a.client, 9 * PIECE), 0);
	holder_close(&a);
	holder_close(&b);
	holder_close(&c);
	memory_close();
}

/* It is not always the same one's turn. */
static void test_phys_asks_in_turn(void **state)
{
	struct holder h[3], a;

	(void)state;
	memory_open();
	holder_open(&a, "a", 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		holder_open(&h[i], "h", 2, 2);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(phys_reclaim(&a.client, (3 + i) * PIECE), PIECE);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(h[i].nr_asked, 2);
	for (uint32_t i = 0; i < 3; i++)
		holder_close(&h[i]);
	holder_close(&a);
	memory_close();
}

/* Not who asks, nor who holds nothing, nor who is not started or has stopped. */
static void test_phys_whom_it_does_not_ask(void **state)
{
	struct holder a, empty, stopped;

	(void)state;
	memory_open();
	holder_open(&a, "a", 3, 3);
	holder_open(&empty, "empty", 0, 0);
	holder_open(&stopped, "stopped", 3, 3);
	phys_client_stop(&stopped.client);
	assert_int_equal(phys_reclaim(&a.client, PIECES * PIECE), 0);
	assert_int_equal(a.nr_asked + empty.nr_asked + stopped.nr_asked, 0);
	holder_close(&a);
	holder_close(&empty);
	holder_close(&stopped);
	memory_close();
}

/* The machine refuses though it says that there is room: all that was wanted is asked for. */
static void test_phys_room_that_is_none(void **state)
{
	struct holder a, b;

	(void)state;
	memory_open();
	holder_open(&a, "a", 0, 0);
	holder_open(&b, "b", 2, 2);
	assert_int_equal(phys_reclaim(&a.client, PIECE), PIECE);
	assert_int_equal(b.asked_bytes, PIECE);
	holder_close(&a);
	holder_close(&b);
	memory_close();
}

/* ------------------------------------------------------------------ several threads */

struct asker {
	struct holder *who;
	uint64_t bytes, got;
	atomic_bool done;
};

static void *asker_main(void *arg)
{
	struct asker *asker = arg;

	asker->got = phys_reclaim(&asker->who->client, asker->bytes);
	atomic_store(&asker->done, true);
	return NULL;
}

static void nap(void)
{
	nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* While one asks, another waits; it returns with what the first one got, and asks nobody. If that
 * got nothing, it asks itself. */
static void second_asker(uint32_t nr_idle, uint32_t nr_asked)
{
	struct asker first, second;
	struct holder a, b, held;
	pthread_barrier_t entered, leave;
	pthread_t thread[2];

	memory_open();
	pthread_barrier_init(&entered, NULL, 2);
	pthread_barrier_init(&leave, NULL, 2);
	holder_open(&a, "a", 0, 0);
	holder_open(&b, "b", 0, 0);
	holder_open(&held, "held", PIECES, nr_idle);
	held.entered = &entered;
	held.leave = &leave;
	first = (struct asker){.who = &a, .bytes = PIECE};
	second = (struct asker){.who = &b, .bytes = PIECE};
	pthread_create(&thread[0], NULL, asker_main, &first);
	pthread_barrier_wait(&entered);
	pthread_create(&thread[1], NULL, asker_main, &second);
	nap();
	assert_int_equal(held.nr_asked, 1);
	assert_false(second.done);
	pthread_barrier_wait(&leave);
	for (uint32_t i = 1; i < nr_asked; i++) {
		pthread_barrier_wait(&entered);
		pthread_barrier_wait(&leave);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(first.got, nr_idle * PIECE);
	assert_int_equal(second.got, nr_idle * PIECE);
	assert_int_equal(held.nr_asked, nr_asked);
	pthread_barrier_destroy(&entered);
	pthread_barrier_destroy(&leave);
	holder_close(&a);
	holder_close(&b);
	holder_close(&held);
	memory_close();
}

static void test_phys_one_asks_at_a_time(void **state)
{
	(void)state;
	second_asker(1, 1);
	second_asker(0, 2);
}

static void *stopper_main(void *arg)
{
	struct asker *stopper = arg;

	phys_client_stop(&stopper->who->client);
	atomic_store(&stopper->done, true);
	return NULL;
}

static void test_phys_stop_waits_for_who_asks(void **state)
{
	struct asker asker, stopper;
	struct holder a, held;
	pthread_barrier_t entered, leave;
	pthread_t thread[2];

	(void)state;
	memory_open();
	pthread_barrier_init(&entered, NULL, 2);
	pthread_barrier_init(&leave, NULL, 2);
	holder_open(&a, "a", 0, 0);
	holder_open(&held, "held", PIECES, 1);
	held.entered = &entered;
	held.leave = &leave;
	asker = (struct asker){.who = &a, .bytes = PIECE};
	stopper = (struct asker){.who = &held};
	pthread_create(&thread[0], NULL, asker_main, &asker);
	pthread_barrier_wait(&entered);
	pthread_create(&thread[1], NULL, stopper_main, &stopper);
	nap();
	assert_false(stopper.done);
	pthread_barrier_wait(&leave);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(asker.got, PIECE);
	/* And is not asked again. */
	held.entered = NULL;
	assert_int_equal(phys_reclaim(&a.client, 2 * PIECE), 0);
	assert_int_equal(held.nr_asked, 1);
	pthread_barrier_destroy(&entered);
	pthread_barrier_destroy(&leave);
	holder_close(&a);
	holder_close(&held);
	memory_close();
}

/* Each takes what it can, uses it for a moment, and leaves it idle; they come and go. */
static void *worker_main(void *arg)
{
	uint64_t random = (uintptr_t)arg * 0x9e3779b97f4a7c15ull + 1;
	uint32_t nr_wrong = 0;

	for (uint32_t i = 0; i < 400; i++) {
		struct holder h;
		uint32_t wanted;
		int err = 0;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		wanted = (uint32_t)(random >> 33) % 3 + 1;
		holder_open(&h, "worker", 0, 0);
		while (h.nr < wanted && !err) {
			err = holder_take(&h);
			if (err == -EAGAIN && phys_reclaim(&h.client, (wanted - h.nr) * PIECE))
				err = 0;
		}
		nr_wrong += err && err != -EAGAIN && err != -ENOMEM;
		pthread_mutex_lock(&h.lock);
		h.nr_idle = h.nr;
		pthread_mutex_unlock(&h.lock);
		if (random >> 40 & 1)
			sched_yield();
		nr_wrong += phys_check(&memory) != 0;
		holder_close(&h);
	}
	return (void *)(uintptr_t)nr_wrong;
}

static void test_phys_threads(void **state)
{
	pthread_t thread[THREADS];
	void *nr_wrong;

	(void)state;
	memory_open();
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, worker_main, (void *)(i + 1));
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &nr_wrong);
		assert_null(nr_wrong);
	}
	memory_close();
}

/* Beyond a budget that was lowered nothing is taken, and what is held counts. */
static void test_phys_budget_below_what_is_held(void **state)
{
	struct phys_client client;
	struct backend_chunk chunk[3];

	(void)state;
	memory_open();
	phys_client_add(&client, &memory, "the test", 4 * PIECE);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(phys_take(&client, PIECE, &chunk[i]), 0);
	phys_client_set_budget(&client, PIECE);
	assert_int_equal(phys_check(&memory), 0);
	assert_int_equal(phys_take(&client, PIECE, &chunk[0]), -ENOMEM);
	for (uint32_t i = 0; i < 3; i++)
		phys_put(&client, &chunk[i]);
	assert_int_equal(phys_take(&client, PIECE, &chunk[0]), 0);
	phys_put(&client, &chunk[0]);
	phys_client_del(&client);
	memory_close();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phys_counts_what_is_held),
		cmocka_unit_test(test_phys_holders_are_cut),
		cmocka_unit_test(test_phys_take_refusals),
		cmocka_unit_test(test_phys_budget_below_what_is_held),
		cmocka_unit_test(test_phys_asks_for_what_is_missing),
		cmocka_unit_test(test_phys_asks_in_turn),
		cmocka_unit_test(test_phys_whom_it_does_not_ask),
		cmocka_unit_test(test_phys_room_that_is_none),
		cmocka_unit_test(test_phys_one_asks_at_a_time),
		cmocka_unit_test(test_phys_stop_waits_for_who_asks),
		cmocka_unit_test(test_phys_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
