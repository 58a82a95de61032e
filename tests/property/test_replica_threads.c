/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread a device: each uses parts of two replicated ranges through its windows and at the one
 * copy, reads and writes them from the host, subscribes and unsubscribes itself, also to elements,
 * which it gathers; makes and frees
 * replicated ranges of its own; and one changes budgets. Parts have locks, which order the
 * threads' calls as the consistency of weir/replica.h has them do: what is read is what was written
 * last. The checker runs meanwhile.
 *
 * REPLICA_SECONDS=n in the environment: for so long.
 *
 * Labels: threads
 * Timeout: 300
 * Long: yes
 */
#include <pthread.h>

#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"
#include "tests/support/threads.h"
#include "src/replica/replica.h"

#define DEVICES 4u
#define RANGES 2u
#define PARTS 5u
#define PART KIB(7) /* they share granules */
#define BYTES (PARTS * PART)
#define BLOCK block_bytes()
#define SECONDS 0.5
#define BRACKETS 30u /* of each thread at least: on a slow machine they take longer */

/* Two granules, or one of a real GPU's. */
static uint64_t block_bytes(void)
{
	return test_machine_kind() == TEST_GPU ? MIB(2) : KIB(8);
}

struct part {
	pthread_rwlock_t lock;
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	uint32_t device;
	struct test_random random;
	uint32_t last_seed;
	uint8_t *own; /* a range that it made; NULL: none */
	uint64_t nr_brackets, nr_refused;
};

static struct test_space t;
static uint8_t *range[RANGES];
static struct part part[RANGES][PARTS];
static struct worker worker[DEVICES];

static uint32_t below(struct worker *w, uint32_t n)
{
	return random_below(&w->random, n);
}

static void launch(struct worker *w, uint8_t *addr, uint8_t *as, uint32_t words,
		   enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	struct weir_use use = use_of(addr, 8ull * words, kind);
	struct test_cells_args args = {
		.addr = (uint64_t *)addr,
		.as = (uint64_t *)as,
		.words = words,
		.nr_wrong = t.nr_wrong_cuda ? t.nr_wrong_cuda : &t.nr_wrong,
		.nr = 1,
		.cell = {{expect, put}},
	};
	struct weir_launch what = {.kernel = &test_kernel_cells,
				   .args = &args,
				   .args_bytes = sizeof(args),
				   .uses = &use,
				   .nr_uses = 1};

	require(!weir_stream_launch(t.stream[w->device], &what));
}

/* publish: whether what it writes is published before the end, as far as it can be. */
static void bracket(struct worker *w, uint8_t *addr, uint8_t *as, enum weir_use_kind kind,
		    uint32_t expect, uint32_t put, bool publish)
{
	struct weir_use use = use_of(addr, PART, kind);

	require(!weir_begin(t.space, t.stream[w->device], &use, 1));
	launch(w, addr, as, PART / 8, kind, expect, put);
	require(!publish || !weir_publish(t.space, t.stream[w->device], addr, PART - PART / 8));
	require(!weir_end(t.space, t.stream[w->device]));
	w->nr_brackets++;
}

/* Words from where one run of a list begins in a part to where the next one does; and of a run,
 * which every list has, whatever else it has. */
#define APART 300u
#define RUN 20u

/* Its device's list, another one each time: or none. */
static void give_list(struct worker *w, uint32_t r)
{
	uint32_t element[BYTES / 8], nr = 0, more = below(w, 50);
	int err;

	for (uint32_t i = 0; i < BYTES / 8 && more; i++)
		if (i % (PART / 8) % APART < RUN + more)
			element[nr++] = i;
	err = weir_subscribe_elements(t.space, range[r], element, nr, w->device);
	require(!err || err == -ENOMEM);
}

/* Read the elements of a part that are in all lists. */
static void gather(struct worker *w, uint8_t *addr, uint8_t *as, uint32_t expect)
{
	struct weir_use use = use_of(addr, PART, WEIR_READ_ELEMENTS);

	require(!weir_begin(t.space, t.stream[w->device], &use, 1));
	for (uint32_t i = 0; i < PART / 8; i += APART)
		launch(w, addr + 8ull * i, as + 8ull * i, RUN, WEIR_READ, expect, 0);
	require(!weir_end(t.space, t.stream[w->device]));
	w->nr_brackets++;
}

/* A part in order with the others' uses of it. */
static void use_part(struct worker *w, uint32_t r, uint32_t p)
{
	static const enum weir_use_kind kinds[] = {WEIR_READ, WEIR_READ, WEIR_WRITE,
						   WEIR_OVERWRITE};
	enum weir_use_kind kind = kinds[below(w, 4)];
	uint32_t put = kind == WEIR_READ ? 0 : ++w->last_seed;
	uint8_t *as = range[r] + p * PART;
	void *addr = as;
	bool one = below(w, 12) == 0, elements = !one && !put && below(w, 2);

	/* The one copy has no readers beside it. */
	if (put || one)
		require(!pthread_rwlock_wrlock(&part[r][p].lock));
	else
		require(!pthread_rwlock_rdlock(&part[r][p].lock));
	if (!one)
		require(!weir_replica(t.space, as, w->device, &addr));
	if (elements)
		gather(w, addr, as, part[r][p].seed);
	else
		bracket(w, addr, as, kind, kind == WEIR_OVERWRITE ? 0 : part[r][p].seed, put,
			put && !one && below(w, 3) == 0);
	if (put)
		part[r][p].seed = put;
	pthread_rwlock_unlock(&part[r][p].lock);
}

/* The host's, likewise; others may have it open without a lock. */
static void copy_part(struct worker *w, uint32_t r, uint32_t p)
{
	uint8_t buffer[PART], *addr = range[r] + p * PART;
	int err;

	require(!pthread_rwlock_wrlock(&part[r][p].lock));
	if (below(w, 2)) {
		pattern_put(buffer, addr, PART, ++w->last_seed);
		err = weir_write(t.space, addr, buffer, PART);
		if (!err)
			part[r][p].seed = w->last_seed;
	} else {
		err = weir_read(t.space, buffer, addr, PART);
		require(err || !pattern_wrong(buffer, addr, PART, part[r][p].seed));
	}
	pthread_rwlock_unlock(&part[r][p].lock);
	require(!err || err == -EBUSY);
	w->nr_refused += err != 0;
}

/* A range of its own: made, used on its device and the host, freed. */
static void use_own(struct worker *w)
{
	void *addr;
	int err;

	if (w->own) {
		require(!weir_free(t.space, w->own, NULL));
		w->own = NULL;
		return;
	}
	err = weir_alloc(t.space, PART, NULL, &addr);
	require(!err || err == -ENOMEM);
	if (err)
		return;
	w->own = addr;
	require(!weir_replicate(t.space, addr, NULL));
	require(!weir_replica(t.space, addr, w->device, &addr));
	bracket(w, addr, w->own, WEIR_OVERWRITE, 0, ++w->last_seed, true);
	bracket(w, addr, w->own, WEIR_READ, w->last_seed, 0, false);
}

static void step(struct worker *w)
{
	uint32_t r = below(w, RANGES), p = below(w, PARTS);
	uint8_t *as = range[r] + p * PART;
	void *addr;
	int err = 0;

	switch (below(w, 17)) {
	case 0:
		copy_part(w, r, p);
		break;
	case 1:
		err = weir_subscribe(t.space, as, PART, w->device);
		require(!err || err == -ENOMEM);
		break;
	case 2:
		err = weir_unsubscribe(t.space, range[r], BYTES, w->device);
		require(!err || err == -EBUSY);
		break;
	case 3:
		use_own(w);
		break;
	case 4:
		require(!weir_space_check(t.space));
		break;
	case 5:
		if (!w->device)
			err = weir_space_set_budget(t.space, GPU1, (8 + below(w, 24)) * BLOCK);
		require(!err || err == -EBUSY || err == -ENOMEM);
		break;
	case 6:
		require(!weir_stream_sync(t.stream[w->device]));
		break;
	case 7:
		give_list(w, r);
		break;
	default:
		use_part(w, r, p);
	}
	/* In the way of others, now and then. */
	if (below(w, 8) == 0 && !pthread_rwlock_tryrdlock(&part[r][p].lock)) {
		require(!weir_replica(t.space, as, w->device, &addr));
		bracket(w, addr, as, WEIR_READ, part[r][p].seed, 0, false);
		pthread_rwlock_unlock(&part[r][p].lock);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop) || (w->nr_brackets < BRACKETS && !failed_line))
		step(w);
	return NULL;
}

static void open_space(void)
{
	static const struct weir_replica_params params = {.element_bytes = 8};
	static const uint32_t devices[TEST_STREAMS] = {0, 1, 2, 3};
	struct weir_space_config config = {
		.devices = 15,
		.block_bytes = BLOCK,
		.mode = WEIR_PLANNED,
		.budget_bytes = {256 * BLOCK, 32 * BLOCK, 32 * BLOCK, 6 * BLOCK, 32 * BLOCK}};

	test_machine_open_gpus(&t, WEIR_DATA_REAL, DEVICES, devices);
	assert_int_equal(test_space_create_config(&t, &config), 0);
	for (uint32_t r = 0; r < RANGES; r++) {
		range[r] = do_alloc(&t, BYTES, 0);
		for (uint32_t p = 0; p < PARTS; p++) {
			assert_int_equal(pthread_rwlock_init(&part[r][p].lock, NULL), 0);
			part[r][p].seed = 1;
		}
		do_write(&t, range[r], BYTES, 1);
		assert_int_equal(weir_replicate(t.space, range[r], &params), 0);
	}
}

static void test_replica_threads_each_a_device(void **state)
{
	uint64_t nr_brackets = 0, nr_refused = 0;

	(void)state;
	open_space();
	replicas_of(t.space)->forced = WEIR_SENT_PACKETS + 1;
	for (uint32_t d = 0; d < DEVICES; d++) {
		worker[d] = (struct worker){.device = d, .last_seed = (d + 1) << 24};
		worker[d].random.state = d + 1;
		assert_int_equal(pthread_create(&worker[d].thread, NULL, work, &worker[d]), 0);
	}
	sleep_seconds(test_seconds("REPLICA_SECONDS", SECONDS), NULL);
	atomic_store(&stop, true);
	for (uint32_t d = 0; d < DEVICES; d++) {
		pthread_join(worker[d].thread, NULL);
		nr_brackets += worker[d].nr_brackets;
		nr_refused += worker[d].nr_refused;
	}
	if (failed_line)
		fail_msg("line %d", failed_line);
	printf("%llu brackets, %llu copies refused\n", (unsigned long long)nr_brackets,
	       (unsigned long long)nr_refused);
	do_sync(&t);
	for (uint32_t r = 0; r < RANGES; r++)
		for (uint32_t p = 0; p < PARTS; p++) {
			do_read(&t, range[r] + p * PART, PART, part[r][p].seed);
			pthread_rwlock_destroy(&part[r][p].lock);
		}
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replica_threads_each_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
