/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random ranges, and launches with random parameters, against a plain search: every place of every
 * parameter is held against every range. Parameters hold first and last bytes, addresses beside a
 * range and of freed ones, at places and between them, and other numbers; layouts are known or not.
 * Ranges come back at the same address, stand without gaps, are refused where they overlap.
 *
 * WEIR_SEED=n: that sequence of each test alone; WEIR_SEQUENCES=n: so many of each.
 *
 * Links: weir_dropin
 * Long: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/infer.h"
#include "src/base/util.h"
#include "tests/support/seeds.h"
#include "tests/support/space.h"

#define NR_SLOTS 200u /* of the model's ranges, live or freed */
#define NR_STEPS 120u
#define NR_KERNELS 4u
#define PARAMS_MAX 8u
#define NR_PLACES (INFER_BYTES_MAX / 4)

/* A range of the model; live: it was added and not deleted. */
struct slot {
	uint64_t addr, bytes, serial;
	uint32_t id;
	bool live;
};

struct kernel {
	bool declared, has_layout;
	uint32_t nr;
	struct infer_param param[PARAMS_MAX];
	uint32_t nr_launches, nr_seen[NR_PLACES]; /* with a pointer at a place */
};

/* What a plain search finds. */
struct expected {
	uint32_t nr, nr_rare;
	struct infer_use use[NR_SLOTS];
	uint64_t hash;
	bool new_place;
};

static struct test_random rng;
static bool tracing;
static struct slot slot[NR_SLOTS];
static uint32_t nr_slots;
static struct kernel kernel[NR_KERNELS];
static uint32_t nr_kernels; /* of them that are launched: one is launched often */
static struct infer *infer;
static struct infer_uses uses;

static uint32_t below(uint32_t n)
{
	return random_below(&rng, n);
}

static const void *key_of(const struct kernel *k)
{
	return k;
}

/* ------------------------------------------------------------------ ranges */

static struct slot *plain_find(uint64_t addr)
{
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slot[i].live && addr >= slot[i].addr && addr < slot[i].addr + slot[i].bytes)
			return &slot[i];
	return NULL;
}

static bool plain_overlaps(uint64_t addr, uint64_t bytes)
{
	for (uint32_t i = 0; i < nr_slots; i++)
		if (slot[i].live && addr < slot[i].addr + slot[i].bytes &&
		    slot[i].addr < addr + bytes)
			return true;
	return false;
}

static uint64_t random_bytes(void)
{
	switch (below(5)) {
	case 0:
		return 256;
	case 1:
		return 1 + below(16);
	case 2:
		return 1 + below(100000);
	case 3:
		return (uint64_t)(1 + below(64)) << 20;
	default:
		return (uint64_t)(1 + below(8)) << 30;
	}
}

/* Near others as a rule, sometimes far away, below 4 GiB and above 2^47 among them. */
static uint64_t random_addr(void)
{
	const struct slot *near = nr_slots ? &slot[below(nr_slots)] : NULL;

	if (!near || !below(8))
		return UINT64_C(0x7f1200000000) + ((uint64_t)below(1 << 16) << 18);
	switch (below(16)) {
	case 0:
		return (uint64_t)below(1 << 16) << below(24);
	case 1:
		return UINT64_C(0xff120000000000) + ((uint64_t)below(1 << 16) << below(24));
	case 2:
		return near->addr + 1 + below(1000);
	case 3:
		return near->addr - below(1000);
	case 4:
	case 5:
		return near->addr;
	default:
		return near->addr + near->bytes + (below(2) ? 0 : below(3) * 256);
	}
}

static void live_add(void)
{
	uint64_t addr = random_addr(), bytes = random_bytes();
	struct slot *to = &slot[nr_slots < NR_SLOTS ? nr_slots : below(NR_SLOTS)];
	struct range_live range;
	int err;

	if (to->live)
		return;
	err = infer_range_add(infer, addr, bytes, &range);
	if (tracing)
		printf("add %llx + %llx: %d\n", (unsigned long long)addr, (unsigned long long)bytes,
		       err);
	if (bytes > UINT64_MAX - addr)
		assert_int_equal(err, -EINVAL);
	else
		assert_int_equal(err, plain_overlaps(addr, bytes) ? -EEXIST : 0);
	if (err)
		return;
	for (uint32_t i = 0; i < nr_slots; i++)
		assert_false(slot[i].live && slot[i].id == range.id);
	assert_int_equal(range.addr, addr);
	assert_int_equal(range.bytes, bytes);
	*to = (struct slot){addr, bytes, range.serial, range.id, true};
	nr_slots += to == &slot[nr_slots];
}

static void live_del(void)
{
	struct slot *gone = nr_slots ? &slot[below(nr_slots)] : NULL;
	bool begins = false;
	struct range_live range;

	if (!gone)
		return;
	if (!gone->live || !below(8)) {
		uint64_t addr = gone->addr + below(2);

		for (uint32_t i = 0; i < nr_slots; i++)
			begins = begins || (slot[i].live && slot[i].addr == addr);
		if (!begins)
			assert_int_equal(infer_range_del(infer, addr, &range), -ENOENT);
		return;
	}
	assert_int_equal(infer_range_del(infer, gone->addr, &range), 0);
	assert_int_equal(range.id, gone->id);
	assert_int_equal(range.serial, gone->serial);
	gone->live = false;
}

static void live_find(uint64_t addr)
{
	const struct slot *plain = plain_find(addr);
	struct range_live range;

	assert_int_equal(infer_range_find(infer, addr, &range), plain ? 0 : -ENOENT);
	if (plain)
		assert_int_equal(range.serial, plain->serial);
}

/* ------------------------------------------------------------------ launches */

static uint64_t random_value(void)
{
	const struct slot *s = nr_slots ? &slot[below(nr_slots)] : NULL;

	if (!s)
		return below(1000);
	switch (below(10)) {
	case 0:
		return s->addr + s->bytes - 1;
	case 1:
		return s->addr + s->bytes;
	case 2:
		return s->addr - 1;
	case 3:
		return s->addr + below((uint32_t)MIN(s->bytes, UINT32_C(1) << 31));
	case 4:
		return below(1000);
	case 5:
		return (uint64_t)below(UINT32_C(1) << 31) << 32 | below(UINT32_C(1) << 31);
	default:
		return s->addr;
	}
}

/* Values at places and, now and then, between them; the rest zeros or noise. */
static void fill(unsigned char *data, uint32_t bytes)
{
	uint32_t nr = bytes / 8;

	memset(data, below(4) ? 0 : (int)below(256), bytes);
	if (!below(4))
		for (uint32_t i = 0; i < bytes; i++)
			data[i] = (unsigned char)below(256);
	if (nr && below(3))
		nr = 1 + below(MIN(nr, 4));
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t value = random_value();
		uint32_t at = below(bytes - 7);

		if (below(4))
			at &= ~3u;
		memcpy(data + at, &value, sizeof(value));
	}
}

/* The use of a range, by whether pointers at these places are rare: see struct infer_use. */
static void plain_use(struct expected *e, const struct slot *s, uint32_t place, uint64_t value,
		      bool rare)
{
	const struct infer_use found = {.addr = s->addr,
					.bytes = s->bytes,
					.serial = s->serial,
					.id = s->id,
					.place = place,
					.nr = 1,
					.at = value,
					.rare = rare};
	uint32_t i = 0;

	while (i < e->nr && e->use[i].id != s->id)
		i++;
	if (i == e->nr)
		e->use[e->nr++] = found;
	else if (!rare && e->use[i].rare)
		e->use[i] = found;
	else if (!rare)
		e->use[i].nr++;
}

static void plain_search(struct kernel *k, const unsigned char *data, uint32_t bytes,
			 uint32_t place, struct expected *e)
{
	for (uint32_t at = 0; at + 8 <= bytes; at += 4) {
		uint32_t *nr_seen = &k->nr_seen[(place + at) / 4];
		const struct slot *s;
		uint64_t value;

		memcpy(&value, data + at, sizeof(value));
		s = plain_find(value);
		if (!s)
			continue;
		e->hash += infer_place_hash(place + at);
		e->new_place = e->new_place || !*nr_seen;
		++*nr_seen;
		plain_use(e, s, place + at, value,
			  k->nr_launches >= INFER_RARE &&
				  *nr_seen * INFER_RARE_PART <= k->nr_launches);
	}
}

/* They stand in the order of their places. */
static void plain_sort(struct expected *e)
{
	for (uint32_t i = 0; i < e->nr; i++) {
		e->nr_rare += e->use[i].rare;
		for (uint32_t j = i; j && e->use[j].place < e->use[j - 1].place; j--) {
			const struct infer_use use = e->use[j];

			e->use[j] = e->use[j - 1];
			e->use[j - 1] = use;
		}
	}
}

static void compare(struct kernel *k, struct expected *e)
{
	uint64_t hash = 0, found;

	if (tracing)
		printf("launch of kernel %u: %u ranges, expected %u\n", (uint32_t)(k - kernel),
		       uses.nr, e->nr);
	plain_sort(e);
	assert_int_equal(uses.nr, e->nr);
	assert_int_equal(uses.nr_rare, e->nr_rare);
	for (uint32_t i = 0; i < e->nr; i++) {
		assert_int_equal(uses.use[i].id, e->use[i].id);
		assert_int_equal(uses.use[i].serial, e->use[i].serial);
		assert_int_equal(uses.use[i].addr, e->use[i].addr);
		assert_int_equal(uses.use[i].bytes, e->use[i].bytes);
		assert_int_equal(uses.use[i].place, e->use[i].place);
		assert_int_equal(uses.use[i].nr, e->use[i].nr);
		assert_int_equal(uses.use[i].at, e->use[i].at);
		assert_int_equal(uses.use[i].rare, e->use[i].rare);
	}
	assert_true(uses.places_hash == e->hash);
	assert_int_equal(uses.new_place, e->new_place);
	for (uint32_t i = 0; i < NR_PLACES; i++)
		if (k->nr_seen[i])
			hash += infer_place_hash(4 * i);
	assert_int_equal(infer_kernel_places(infer, key_of(k), &found), 0);
	assert_true(found == hash);
}

/* Each parameter in memory of its own and of its size, at any alignment. */
static void launch_params(struct kernel *k)
{
	void *params[PARAMS_MAX] = {0}, *memory[PARAMS_MAX] = {0};
	const struct infer_launch launch = {.kernel = key_of(k), .params = params};
	struct expected e = {.nr = 0};

	k->nr_launches++;
	for (uint32_t i = 0; i < k->nr; i++) {
		uint32_t shift = below(4);

		memory[i] = malloc(k->param[i].bytes + shift);
		assert_non_null(memory[i]);
		params[i] = (unsigned char *)memory[i] + shift;
		fill(params[i], k->param[i].bytes);
		plain_search(k, params[i], k->param[i].bytes, k->param[i].offset, &e);
	}
	assert_int_equal(infer_launch(infer, &launch, &uses), 0);
	compare(k, &e);
	for (uint32_t i = 0; i < k->nr; i++)
		free(memory[i]);
}

/* One buffer, which may end before the layout does, or go on. */
static void launch_buffer(struct kernel *k)
{
	uint32_t end = k->nr ? k->param[k->nr - 1].offset + k->param[k->nr - 1].bytes : 8;
	uint32_t bytes = below(8) ? end : 1 + below(2 * end), shift = below(4);
	unsigned char *memory, *buffer;
	struct infer_launch launch = {.kernel = key_of(k)};
	struct expected e = {.nr = 0};

	if (!k->has_layout)
		bytes = 1 + below(below(4) ? 200 : 5000);
	memory = malloc(bytes + shift);
	assert_non_null(memory);
	buffer = memory + shift;
	fill(buffer, bytes);
	k->nr_launches++;
	for (uint32_t i = 0; i < k->nr; i++)
		if (k->param[i].offset < bytes)
			plain_search(k, buffer + k->param[i].offset,
				     MIN(k->param[i].bytes, bytes - k->param[i].offset),
				     k->param[i].offset, &e);
	if (!k->has_layout)
		plain_search(k, buffer, bytes, 0, &e);
	launch.buffer = buffer;
	launch.buffer_bytes = bytes;
	assert_int_equal(infer_launch(infer, &launch, &uses), 0);
	compare(k, &e);
	free(memory);
}

static void kernel_declare(struct kernel *k)
{
	static const uint32_t sizes[] = {1,  2,	 4,  8,	 8,  8,	  8,   12,
					 16, 64, 68, 72, 76, 136, 600, 4096};
	uint32_t at = 0;

	if (k->declared)
		assert_int_equal(infer_kernel_del(infer, key_of(k)), 0);
	memset(k, 0, sizeof(*k));
	k->declared = true;
	k->has_layout = below(4);
	k->nr = k->has_layout ? below(PARAMS_MAX + 1) : 0;
	for (uint32_t i = 0; i < k->nr; i++) {
		uint32_t bytes = sizes[below(ARRAY_LEN(sizes))];

		at = (uint32_t)round_up(at, bytes % 8 ? bytes % 4 ? bytes : 4 : 8);
		k->param[i] = (struct infer_param){at, bytes};
		at += bytes;
	}
	assert_int_equal(infer_kernel_add(infer, key_of(k), k->has_layout ? k->param : NULL, k->nr),
			 0);
	assert_int_equal(infer_kernel_add(infer, key_of(k), k->param, k->nr), -EEXIST);
}

/* ------------------------------------------------------------------ sequences */

static void step(uint32_t adds)
{
	struct kernel *k = &kernel[below(nr_kernels)];

	if (!k->declared || !below(80 / nr_kernels))
		kernel_declare(k);
	switch (below(8)) {
	case 0:
	case 1:
		for (uint32_t i = 0; i < 8; i++)
			below(10) < adds ? live_add() : live_del();
		assert_true(infer_check(infer));
		break;
	case 2:
		live_find(random_value());
		break;
	default:
		if (k->has_layout && below(3))
			launch_params(k);
		else
			launch_buffer(k);
	}
}

static void run_launches(uint64_t seed)
{
	rng.state = seed;
	nr_slots = 0;
	nr_kernels = seed % 2 ? NR_KERNELS : 1;
	memset(slot, 0, sizeof(slot));
	memset(kernel, 0, sizeof(kernel));
	assert_int_equal(infer_create(&infer), 0);
	for (test_step = 0; test_step < NR_STEPS; test_step++)
		step(test_step / 40 % 2 ? 4 : 7);
	infer_destroy(infer);
	if (seed % 4 == 0)
		infer_uses_fini(&uses);
}

static void test_launches(void **state)
{
	static const struct test_amount amount = {400, 60, 20000};

	(void)state;
	test_seeds_run(amount, &tracing, run_launches);
	infer_uses_fini(&uses);
}

/* ------------------------------------------------------------------ many ranges */

#define GRAIN UINT64_C(256)
#define NR_GRAINS 6000u

/* Thousands of ranges of one to four grains on a line; owner: which range's first grain, plus 1. */
static void run_many(uint64_t seed)
{
	static uint32_t owner[NR_GRAINS + 4];
	const uint64_t base = UINT64_C(0x7f1234000000);
	struct ranges ranges;

	rng.state = seed;
	memset(owner, 0, sizeof(owner));
	assert_int_equal(ranges_init(&ranges), 0);
	for (test_step = 0; test_step < 40000; test_step++) {
		uint32_t at = below(NR_GRAINS), nr = 1 + below(4), first = owner[at];
		bool fill_up = test_step / 10000 % 2 == 0;
		const struct range_live *range =
			ranges_find(&ranges, base + at * GRAIN + below(256));
		bool taken = false;

		assert_int_equal(range != NULL, first != 0);
		if (range)
			assert_int_equal(range->addr, base + (first - 1) * GRAIN);
		if (first && (!fill_up || !below(8))) {
			assert_int_equal(ranges_del(&ranges, base + (first - 1) * GRAIN, NULL), 0);
			for (uint32_t i = first - 1; i < NR_GRAINS + 4 && owner[i] == first; i++)
				owner[i] = 0;
		} else if (fill_up) {
			for (uint32_t i = at; i < at + nr; i++)
				taken = taken || owner[i];
			assert_int_equal(ranges_add(&ranges, base + at * GRAIN, nr * GRAIN, &range),
					 taken ? -EEXIST : 0);
			for (uint32_t i = at; !taken && i < at + nr; i++)
				owner[i] = at + 1;
		}
		if (test_step % 500 == 0)
			assert_true(ranges_check(&ranges));
	}
	assert_true(ranges_check(&ranges));
	ranges_fini(&ranges);
}

static void test_many_ranges(void **state)
{
	static const struct test_amount amount = {10, 2, 500};

	(void)state;
	test_seeds_run(amount, &tracing, run_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_launches, test_seeds_teardown),
		cmocka_unit_test_teardown(test_many_ranges, test_seeds_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
