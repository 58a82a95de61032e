/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch names, case by case: the edges of ranges, places, lists of pointers, layouts and
 * buffers, the set of places, ranges that come and go, wrong use; and launches in several threads
 * beside allocations. Random launches against a plain search: tests/property/test_infer_random.c.
 *
 * Labels: threads
 * Links: weir_dropin
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "shim/infer.h"
#include "src/base/util.h"
#include "tests/support/amount.h"

#define BASE UINT64_C(0x7f1200000000)
#define BYTES UINT64_C(0x10000)

static struct infer *infer;
static struct infer_uses uses;
static char keys[4]; /* their addresses are keys of kernels */

static int setup(void **state)
{
	(void)state;
	return infer_create(&infer);
}

static int teardown(void **state)
{
	(void)state;
	assert_true(infer_check(infer));
	infer_destroy(infer);
	infer_uses_fini(&uses);
	return 0;
}

static struct range_live add(uint64_t addr, uint64_t bytes)
{
	struct range_live range;

	assert_int_equal(infer_range_add(infer, addr, bytes, &range), 0);
	return range;
}

/* The n-th kernel has one parameter of so many bytes. */
static void declare(uint32_t n, uint32_t bytes)
{
	const struct infer_param param = {0, bytes};

	assert_int_equal(infer_kernel_add(infer, &keys[n], &param, 1), 0);
}

static void launch(uint32_t n, const void *param)
{
	void *params[] = {(void *)(uintptr_t)param};
	const struct infer_launch what = {.kernel = &keys[n], .params = params};

	assert_int_equal(infer_launch(infer, &what, &uses), 0);
}

/* Whether one value as a parameter names a range: nothing, or that one. */
static bool names(uint64_t value)
{
	launch(0, &value);
	assert_in_range(uses.nr, 0, 1);
	return uses.nr;
}

static void test_range_from_first_to_last_byte(void **state)
{
	(void)state;
	declare(0, 8);
	assert_false(names(0));
	assert_false(names(BASE));
	add(BASE, BYTES);
	add(BASE + 4 * BYTES, 1);
	assert_true(names(BASE));
	assert_true(names(BASE + 1));
	assert_true(names(BASE + BYTES - 1));
	assert_false(names(BASE + BYTES));
	assert_false(names(BASE - 1));
	assert_true(names(BASE + 4 * BYTES));
	assert_false(names(BASE + 4 * BYTES + 1));
	assert_false(names(0));
	assert_false(names(UINT64_MAX));
	assert_false(names(BASE & UINT32_MAX));

	/* An end that is the neighbour's first byte names the neighbour alone. */
	add(BASE + BYTES, BYTES);
	assert_true(names(BASE + BYTES));
	assert_int_equal(uses.use[0].addr, BASE + BYTES);
}

static void test_range_across_upper_halves(void **state)
{
	uint64_t addr = BASE + 0xfffff000u;

	(void)state;
	declare(0, 8);
	add(addr, UINT64_C(3) << 32);
	assert_true(names(addr));
	assert_true(names(BASE + (UINT64_C(1) << 32)));
	assert_true(names(addr + (UINT64_C(3) << 32) - 1));
	assert_false(names(addr + (UINT64_C(3) << 32)));
	assert_false(names(addr - 1));
}

static void test_each_place_of_a_large_parameter(void **state)
{
	_Alignas(8) unsigned char param[4096];
	uint64_t value = BASE + 17;

	(void)state;
	add(BASE, BYTES);
	declare(0, sizeof(param));
	for (uint32_t at = 0; at + 8 <= sizeof(param); at++) {
		memset(param, 0, sizeof(param));
		memcpy(param + at, &value, sizeof(value));
		launch(0, param);
		assert_int_equal(uses.nr, at % 4 == 0);
		if (uses.nr) {
			assert_int_equal(uses.use[0].place, at);
			assert_true(uses.places_hash == infer_place_hash(at));
			assert_true(uses.new_place);
		}
	}
}

static void test_list_names_each_range_once(void **state)
{
	static const uint32_t nr = 110;
	uint64_t list[512] = {0}, hash = 0;

	(void)state;
	declare(0, sizeof(list));
	for (uint32_t i = 0; i < nr; i++)
		add(BASE + i * BYTES, BYTES);
	for (uint32_t i = 0; i < 3 * nr; i++) {
		list[i] = BASE + i % nr * BYTES + i;
		hash += infer_place_hash(8 * i);
	}
	for (uint32_t times = 0; times < 3; times++) {
		/* As if so many launches had been: marks of old ones must not count. */
		if (times == 1)
			uses.number = UINT32_MAX - 1;
		launch(0, list);
		assert_int_equal(uses.nr, nr);
		for (uint32_t i = 0; i < nr; i++) {
			assert_int_equal(uses.use[i].addr, BASE + i * BYTES);
			assert_int_equal(uses.use[i].place, 8 * i);
		}
		assert_true(uses.places_hash == hash);
		assert_int_equal(uses.new_place, times == 0);
	}
	launch(0, list);
	assert_int_equal(uses.number, 2);
	assert_int_equal(uses.nr, nr);
}

/* Halves of two parameters are no address, unless it is not known where parameters are. */
static void test_layout_and_buffer(void **state)
{
	static const struct infer_param param[] = {{0, 1}, {4, 4}, {8, 4}, {16, 8}};
	_Alignas(8) unsigned char buffer[24] = {0};
	uint64_t value = BASE;
	void *params[] = {buffer, buffer + 4, buffer + 8, buffer + 16};
	struct infer_launch what = {.kernel = &keys[1], .params = params};

	(void)state;
	add(BASE, BYTES);
	assert_int_equal(infer_kernel_add(infer, &keys[1], param, ARRAY_LEN(param)), 0);
	assert_int_equal(infer_kernel_add(infer, &keys[2], NULL, 0), 0);
	memcpy(buffer + 4, &value, sizeof(value));
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 0);
	what.params = NULL;
	what.buffer = buffer;
	what.buffer_bytes = sizeof(buffer);
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 0);
	what.kernel = &keys[2];
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 1);
	assert_int_equal(uses.use[0].place, 4);

	/* A buffer that ends early is not read further. */
	memcpy(buffer + 16, &value, sizeof(value));
	what.kernel = &keys[1];
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 1);
	assert_int_equal(uses.use[0].place, 16);
	what.buffer_bytes = sizeof(buffer) - 1;
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 0);
	what.buffer_bytes = 10;
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 0);
}

static void test_places_are_a_set(void **state)
{
	uint64_t param[3] = {BASE, 0, 0}, hash;

	(void)state;
	add(BASE, BYTES);
	declare(0, sizeof(param));
	assert_int_equal(infer_kernel_places(infer, &keys[0], &hash), 0);
	assert_true(hash == 0);
	launch(0, param);
	assert_true(uses.new_place);
	launch(0, param);
	assert_false(uses.new_place);
	param[0] = 0;
	param[2] = BASE + 1;
	launch(0, param);
	assert_true(uses.new_place);
	assert_true(uses.places_hash == infer_place_hash(16));
	param[0] = BASE + 2;
	launch(0, param); /* both, which were seen each alone */
	assert_false(uses.new_place);
	assert_true(uses.places_hash == infer_place_hash(0) + infer_place_hash(16));
	assert_int_equal(infer_kernel_places(infer, &keys[0], &hash), 0);
	assert_true(hash == uses.places_hash);
	param[0] = param[2] = 0;
	launch(0, param);
	assert_int_equal(uses.nr, 0);
	assert_true(uses.places_hash == 0);
	assert_false(uses.new_place);

	/* Another kernel with the same key has its own. */
	assert_int_equal(infer_kernel_del(infer, &keys[0]), 0);
	assert_int_equal(infer_kernel_places(infer, &keys[0], &hash), -ENOENT);
	declare(0, sizeof(param));
	param[0] = BASE;
	launch(0, param);
	assert_true(uses.new_place);
}

/* What stands at a place by chance is told from what is given there. */
static void test_rare_places(void **state)
{
	uint64_t param[4] = {BASE, 0, BASE + 4 * BYTES, 0};

	(void)state;
	for (uint32_t n = 0; n < 3; n++)
		add(BASE + 4 * n * BYTES, BYTES);
	declare(0, sizeof(param));
	for (uint32_t n = 0; n < 8 * INFER_RARE; n++) {
		const bool chance = n % 20 > 10, rare = chance && n + 1 >= INFER_RARE;

		/* By choice two times of three; by chance nine times of twenty. */
		param[2] = n % 3 == 2 ? 0 : BASE + 4 * BYTES;
		param[3] = chance ? BASE + 8 * BYTES : 0;
		launch(0, param);
		assert_int_equal(uses.nr, 1u + (n % 3 != 2) + chance);
		assert_int_equal(uses.nr_rare, rare);
		for (uint32_t u = 0; u < uses.nr; u++)
			assert_int_equal(uses.use[u].rare,
					 uses.use[u].addr == BASE + 8 * BYTES && rare);
	}
	/* Where it is found again at a place where it belongs, it is not rare; in either order. */
	param[1] = BASE;
	launch(0, param);
	assert_int_equal(uses.nr_rare, 0);
	param[0] = BASE + 8 * BYTES;
	param[3] = BASE + 4 * BYTES;
	param[1] = param[2] = BASE + 4 * BYTES;
	launch(0, param);
	assert_int_equal(uses.nr, 2);
	assert_int_equal(uses.nr_rare, 0);
	param[2] = param[3] = 0;
	launch(0, param);
	assert_int_equal(uses.nr, 2);
	assert_int_equal(uses.nr_rare, 1);
	assert_true(uses.use[1].rare);
}

/* At how many places a range is found, and what stands at the lowest; those that are rare are left
 * out. */
static void test_values(void **state)
{
	uint64_t param[4] = {0};

	(void)state;
	add(BASE, BYTES);
	declare(0, sizeof(param));
	for (uint32_t n = 0; n < 2 * INFER_RARE; n++) {
		const bool chance = n > INFER_RARE && n % 4 == 0;

		param[0] = chance ? BASE : 0;
		param[1] = BASE + 8;
		param[3] = n % 2 ? BASE + 16 : 0;
		launch(0, param);
		assert_int_equal(uses.nr, 1);
		assert_int_equal(uses.use[0].at, BASE + 8);
		assert_int_equal(uses.use[0].nr, n % 2 && n + 1 < INFER_RARE ? 2 : 1);
	}
}

/* Neither the order of what is found nor its places hang on chance. */
static void test_order(void **state)
{
	uint64_t param[4] = {0, BASE, 0, BASE + 4 * BYTES};

	(void)state;
	add(BASE, BYTES);
	add(BASE + 4 * BYTES, BYTES);
	declare(0, sizeof(param));
	for (uint32_t n = 0; n < 4 * INFER_RARE; n++) {
		param[0] = n >= INFER_RARE && n % 4 == 0 ? BASE + 4 * BYTES + 1 : 0;
		param[2] = n >= INFER_RARE && n % 4 == 1 ? BASE + 4 * BYTES + 1 : 0;
		launch(0, param);
		assert_int_equal(uses.nr, 2);
		assert_int_equal(uses.nr_rare, 0);
		for (uint32_t u = 0; u < 2; u++) {
			assert_int_equal(uses.use[u].addr, BASE + u * 4 * BYTES);
			assert_int_equal(uses.use[u].place, 8 + 16 * u);
			assert_int_equal(uses.use[u].at, uses.use[u].addr);
			assert_int_equal(uses.use[u].nr, 1);
		}
	}
}

/* Files keep them. */
static void test_place_hash_stays(void **state)
{
	(void)state;
	assert_true(infer_place_hash(0) == UINT64_C(0x5b1fe52de1a2e9e9));
	assert_true(infer_place_hash(4) == UINT64_C(0x0d6527f795627935));
	assert_true(infer_place_hash(32764) == UINT64_C(0x70d5f6aa361c4dd1));
}

static void test_range_comes_back(void **state)
{
	struct range_live first, second, found;

	(void)state;
	declare(0, 8);
	first = add(BASE, BYTES);
	assert_true(names(BASE + 5));
	assert_int_equal(infer_range_del(infer, BASE, &found), 0);
	assert_int_equal(found.serial, first.serial);
	assert_false(names(BASE + 5));
	assert_false(names(BASE));
	second = add(BASE, 2 * BYTES);
	assert_int_equal(second.id, first.id);
	assert_true(second.serial > first.serial);
	assert_true(names(BASE + BYTES));
	assert_int_equal(uses.use[0].serial, second.serial);
	assert_int_equal(infer_range_find(infer, BASE + 2 * BYTES, &found), -ENOENT);
	assert_int_equal(infer_range_find(infer, BASE + 2 * BYTES - 1, &found), 0);
	assert_int_equal(found.serial, second.serial);
}

/* Thousands, so that several have one hash; each of them keeps its own layout. */
static void test_many_kernels(void **state)
{
	static char key[3000];
	uint64_t param[2] = {BASE, BASE + BYTES};
	void *params[] = {param};

	(void)state;
	add(BASE, 2 * BYTES);
	for (uint32_t i = 0; i < ARRAY_LEN(key); i++) {
		const struct infer_param layout = {0, 8 + i % 2 * 8};

		assert_int_equal(infer_kernel_add(infer, &key[i], &layout, 1), 0);
	}
	for (uint32_t gone = 0; gone < ARRAY_LEN(key); gone++) {
		uint32_t at = gone * 1009 % (uint32_t)ARRAY_LEN(key); /* in an order of its own */

		for (uint32_t i = 0; i < 2; i++) {
			const struct infer_launch what = {.kernel = &key[at], .params = params};

			assert_int_equal(infer_launch(infer, &what, &uses), 0);
			assert_true(uses.places_hash ==
				    infer_place_hash(0) + (at % 2 ? infer_place_hash(8) : 0));
			assert_int_equal(uses.new_place, i == 0);
		}
		assert_int_equal(infer_kernel_del(infer, &key[at]), 0);
	}
}

/* An address in a range, at any multiple of 4 bytes of a buffer, and nothing else. */
static void test_range_any(void **state)
{
	uint32_t word[8] = {0};
	uint64_t value;

	(void)state;
	assert_false(infer_range_any(infer, word, sizeof(word)));
	add(BASE, BYTES);
	add(BASE + 4 * BYTES, BYTES);
	assert_false(infer_range_any(infer, word, sizeof(word)));
	for (uint32_t at = 0; at < 8; at++) {
		const uint64_t address[] = {BASE - 1,	      BASE,
					    BASE + BYTES - 1, BASE + BYTES,
					    BASE + 2 * BYTES, BASE + 5 * BYTES - 1,
					    BASE + 5 * BYTES};

		for (uint32_t a = 0; a < 7; a++) {
			const bool in = a == 1 || a == 2 || a == 5;

			value = address[a];
			memset(word, 0xa5, sizeof(word));
			memcpy(word + MIN(at, 6u), &value, sizeof(value));
			assert_int_equal(infer_range_any(infer, word, sizeof(word)), in);
			/* A part of it is no address. */
			assert_false(infer_range_any(infer, word, 4 * MIN(at, 6u) + 7));
			assert_false(infer_range_any(infer, word, 4));
		}
	}
}

static void test_wrong_ranges(void **state)
{
	struct range_live range = {.id = 77};

	(void)state;
	add(BASE, BYTES);
	assert_int_equal(infer_range_add(infer, BASE - 8, 0, &range), -EINVAL);
	assert_int_equal(infer_range_add(infer, UINT64_MAX - 7, 8, &range), -EINVAL);
	assert_int_equal(infer_range_add(infer, BASE, BYTES, &range), -EEXIST);
	assert_int_equal(infer_range_add(infer, BASE + BYTES - 1, 1, &range), -EEXIST);
	assert_int_equal(infer_range_add(infer, BASE - 1, 2, &range), -EEXIST);
	assert_int_equal(infer_range_add(infer, BASE - 1, 3 * BYTES, &range), -EEXIST);
	assert_int_equal(infer_range_del(infer, BASE + 1, &range), -ENOENT);
	assert_int_equal(range.id, 77);
	add(BASE - 1, 1);
	add(BASE + BYTES, 1);
}

static void test_wrong_launches(void **state)
{
	static const struct infer_param later[] = {{8, 8}, {0, 8}}, over[] = {{0, 8}, {4, 8}},
					large[] = {{INFER_BYTES_MAX - 7, 8}};
	static unsigned char buffer[INFER_BYTES_MAX + 1];
	uint64_t value = 0;
	void *params[] = {&value};
	struct infer_launch what = {.kernel = &keys[0], .params = params};

	(void)state;
	assert_int_equal(infer_kernel_add(infer, NULL, later, 1), -EINVAL);
	assert_int_equal(infer_kernel_add(infer, &keys[0], later, 2), -EINVAL);
	assert_int_equal(infer_kernel_add(infer, &keys[0], over, 2), -EINVAL);
	assert_int_equal(infer_kernel_add(infer, &keys[0], large, 1), -E2BIG);
	assert_int_equal(infer_launch(infer, &what, &uses), -ENOENT);
	assert_int_equal(infer_kernel_del(infer, &keys[0]), -ENOENT);

	assert_int_equal(infer_kernel_add(infer, &keys[0], NULL, 0), 0);
	assert_int_equal(infer_kernel_add(infer, &keys[0], later, 1), -EEXIST);
	assert_int_equal(infer_launch(infer, &what, &uses), -EINVAL);
	what.params = NULL;
	assert_int_equal(infer_launch(infer, &what, &uses), -EINVAL);
	what.buffer = buffer;
	what.buffer_bytes = sizeof(buffer);
	assert_int_equal(infer_launch(infer, &what, &uses), -E2BIG);
	what.buffer_bytes--;
	assert_int_equal(infer_launch(infer, &what, &uses), 0);

	declare(1, 8);
	what = (struct infer_launch){.kernel = &keys[1]};
	assert_int_equal(infer_launch(infer, &what, &uses), -EINVAL);
	declare(2, 4);
	what.kernel = &keys[2]; /* no parameter that could hold an address */
	assert_int_equal(infer_launch(infer, &what, &uses), 0);
	assert_int_equal(uses.nr, 0);
}

/* ------------------------------------------------------------------ threads */

#define NR_THREADS 3u
#define NR_KEPT 50u

static atomic_bool stop;
static atomic_int nr_missed; /* launches that did not name a range which was live all the time */

/* Each second range stays; those between come and go, and may be found or not. */
static void *launches(void *arg)
{
	struct infer_uses own = {.nr = 0};
	uint64_t param[2 * NR_KEPT];
	void *params[] = {param};
	const struct infer_launch what = {.kernel = arg, .params = params};

	for (uint32_t i = 0; i < 2 * NR_KEPT; i++)
		param[i] = BASE + i * BYTES + i % 3;
	while (!atomic_load(&stop)) {
		uint32_t nr = 0;

		if (infer_launch(infer, &what, &own))
			atomic_fetch_add(&nr_missed, 1);
		for (uint32_t i = 0; i < own.nr; i++)
			nr += own.use[i].addr % (2 * BYTES) == 0;
		if (nr != NR_KEPT)
			atomic_fetch_add(&nr_missed, 1);
	}
	infer_uses_fini(&own);
	return NULL;
}

static void test_threads(void **state)
{
	static const struct test_amount amount = {2000, 300, 100000};
	pthread_t thread[NR_THREADS];
	struct range_live range;

	(void)state;
	atomic_store(&stop, false);
	declare(0, 2 * NR_KEPT * 8);
	declare(1, 2 * NR_KEPT * 8);
	for (uint32_t i = 0; i < NR_KEPT; i++)
		add(BASE + 2 * i * BYTES, BYTES);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, launches, &keys[i % 2]), 0);
	for (uint64_t round = test_amount(NULL, amount); round; round--) {
		for (uint32_t i = 1; i < 2 * NR_KEPT; i += 2)
			add(BASE + i * BYTES, 1 + round % BYTES);
		declare(2, 8);
		assert_int_equal(infer_kernel_del(infer, &keys[2]), 0);
		for (uint32_t i = 1; i < 2 * NR_KEPT; i += 2)
			assert_int_equal(infer_range_del(infer, BASE + i * BYTES, &range), 0);
	}
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(atomic_load(&nr_missed), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_range_from_first_to_last_byte),
		TEST(test_range_across_upper_halves),
		TEST(test_each_place_of_a_large_parameter),
		TEST(test_list_names_each_range_once),
		TEST(test_layout_and_buffer),
		TEST(test_rare_places),
		TEST(test_order),
		TEST(test_values),
		TEST(test_places_are_a_set),
		TEST(test_place_hash_stays),
		TEST(test_range_comes_back),
		TEST(test_many_kernels),
		TEST(test_range_any),
		TEST(test_wrong_ranges),
		TEST(test_wrong_launches),
		TEST(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
