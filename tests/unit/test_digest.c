/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of contents: values that another program computed from the definition, contents that come
 * in parts, and contents that differ a little, whose digests all have to differ in both halves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "src/backend/digest.h"

#define TILE DIGEST_TILE_BYTES
#define CONTENTS_MAX 80000u

/* Contents, and the digests of all variants that were looked at. */
struct fixture {
	struct digest_key key;
	unsigned char data[8 * TILE];
	uint64_t *seen[DIGEST_HALVES];
	size_t nr;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	digest_key_seed(&f->key, 1);
	for (uint64_t i = 0; i < sizeof(f->data); i++)
		f->data[i] = (unsigned char)(i * 7 + i / 256 * 11 + i / 65536 * 13);
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		f->seen[h] = calloc(CONTENTS_MAX, sizeof(uint64_t));
		assert_non_null(f->seen[h]);
	}
	*state = f;
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void see(struct fixture *f, uint64_t bytes)
{
	struct digest d = digest_of(&f->key, f->data, bytes);

	assert_true(f->nr < CONTENTS_MAX);
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		f->seen[h][f->nr] = d.half[h];
	f->nr++;
}

static void assert_all_differ(struct fixture *f)
{
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		qsort(f->seen[h], f->nr, sizeof(uint64_t), compare);
		for (size_t i = 1; i < f->nr; i++)
			assert_int_not_equal(f->seen[h][i - 1], f->seen[h][i]);
	}
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		free(f->seen[h]);
	free(f);
	return 0;
}

/* ------------------------------------------------------------------ values */

/* The sum over all coefficients, each by its own power of the point, in numbers of any length. */
static void test_known_answers(void **state)
{
	static const struct {
		uint64_t seed, bytes;
		int fill; /* -1: the fixture's contents */
		struct digest digest;
	} known[] = {
		{1, 0, -1, {{1, 1}}},
		{1, TILE, 0, {{0xa4eb69d2fd42688, 0x1936324cdf7f3cdc}}},
		{1, 2 * TILE, 0, {{0x160ced7cae2bc715, 0x18ed83a271d22616}}},
		{1, TILE, 0xff, {{0x55df606323dd3f0, 0x1e308bf47c191042}}},
		{1, TILE, -1, {{0xe2fe1593ea58b97, 0x154a8da8907e4c7d}}},
		{2, TILE, -1, {{0xbd5ed1b2e0f271d, 0x1c941ac3d9f3138b}}},
		{1, 8 * TILE, -1, {{0x1c77fcbeedc1b3c7, 0x1a9e93b6267214a3}}},
	};
	static unsigned char filled[2 * TILE];
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct digest_key key;
		struct digest d;

		digest_key_seed(&key, known[i].seed);
		memset(filled, known[i].fill, sizeof(filled));
		d = digest_of(&key, known[i].fill < 0 ? f->data : filled, known[i].bytes);
		for (uint32_t h = 0; h < DIGEST_HALVES; h++)
			assert_int_equal(d.half[h], known[i].digest.half[h]);
	}
}

/* Contents are what they are, however they come. */
static void test_parts(void **state)
{
	struct fixture *f = *state;
	struct digest whole = digest_of(&f->key, f->data, sizeof(f->data));

	for (uint64_t at = 0; at <= sizeof(f->data); at += TILE) {
		uint64_t rest = sizeof(f->data) - at;
		struct digest before = digest_of(&f->key, f->data, at), part;

		assert_true(digest_equal(digest_add(&f->key, before, f->data + at, rest), whole));
		part = digest_add(&f->key, (struct digest){{0, 0}}, f->data + at, rest);
		assert_true(digest_equal(digest_join(&f->key, before, part, rest), whole));
		assert_false(digest_equal(part, whole) && at);
	}
	for (uint64_t a = TILE; a < sizeof(f->data); a += TILE)
		for (uint64_t b = a; b < sizeof(f->data); b += TILE) {
			struct digest none = {{0, 0}}, d = digest_of(&f->key, f->data, a);
			struct digest second = digest_add(&f->key, none, f->data + a, b - a);
			struct digest third =
				digest_add(&f->key, none, f->data + b, sizeof(f->data) - b);

			second = digest_join(&f->key, second, third, sizeof(f->data) - b);
			d = digest_join(&f->key, d, second, sizeof(f->data) - a);
			assert_true(digest_equal(d, whole));
		}
}

static void test_arithmetic(void **state)
{
	const uint64_t p = DIGEST_PRIME;

	(void)state;
	assert_int_equal(digest_multiply_add(p - 1, p - 1, 0), 1);
	assert_int_equal(digest_multiply_add(p - 1, 1, 1), 0);
	assert_int_equal(digest_multiply_add(p, p, p), 0);
	assert_int_equal(digest_multiply_add(2 * p, p - 1, 5), 5);
	assert_int_equal(digest_multiply_add(3, 5, 7), 22);
	assert_int_equal(digest_power(2, 61), 1);
	assert_int_equal(digest_power(2, 60), UINT64_C(1) << 60);
	assert_int_equal(digest_power(5, 0), 1);
	assert_int_equal(digest_power(5, p - 1), 1); /* Fermat's little theorem */
	assert_int_equal(digest_power(0, 3), 0);
}

static void test_keys(void **state)
{
	struct fixture *f = *state;
	struct digest_key a, b;

	assert_int_equal(digest_key_random(&a), 0);
	assert_int_equal(digest_key_random(&b), 0);
	assert_true(memcmp(&a, &b, sizeof(a)));
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		assert_true(a.point[h] < DIGEST_PRIME && b.point[h] < DIGEST_PRIME);
	assert_false(digest_equal(digest_of(&a, f->data, TILE), digest_of(&b, f->data, TILE)));
	digest_key_seed(&a, 1);
	assert_memory_equal(&a, &f->key, sizeof(a));
	/* No part of a key is without effect. */
	for (uint32_t i = 0; i < sizeof(a.nh) / sizeof(uint32_t); i++) {
		((uint32_t *)a.nh)[i] ^= 1;
		f->key = a;
		see(f, TILE);
		((uint32_t *)a.nh)[i] ^= 1;
	}
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		const uint64_t *seen = f->seen[h];
		uint32_t each = DIGEST_PASSES * DIGEST_WORDS;

		/* The other half's words have none on this one. */
		for (uint32_t i = 0; i < f->nr; i++)
			assert_true((seen[i] == seen[(1 - h) * each]) == (i / each != h));
	}
}

/* ------------------------------------------------------------------ contents that differ */

static void test_bit_flips(void **state)
{
	struct fixture *f = *state;

	see(f, TILE);
	for (uint32_t bit = 0; bit < 8 * TILE; bit++) {
		f->data[bit / 8] ^= (unsigned char)(1u << bit % 8);
		see(f, TILE);
		f->data[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	assert_all_differ(f);
}

static void swap(unsigned char *a, unsigned char *b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned char x = a[i];

		a[i] = b[i];
		b[i] = x;
	}
}

/* Swap pieces of a size, each with the next one and with the one so many further on. */
static void swap_pieces(struct fixture *f, uint64_t bytes, uint64_t far)
{
	uint64_t nr = 4 * TILE / bytes;

	for (uint64_t i = 0; i < nr; i++)
		for (uint64_t by = 1; by <= far; by += far > 1 ? far - 1 : 1) {
			unsigned char *a = f->data + i * bytes,
				      *b = f->data + (i + by) % nr * bytes;

			if (!memcmp(a, b, bytes))
				continue;
			swap(a, b, bytes);
			see(f, 4 * TILE);
			swap(a, b, bytes);
		}
}

/* Words, lanes, rows, tiles. No two pieces of the contents are equal, so that all swaps show. */
static void test_swaps(void **state)
{
	struct fixture *f = *state;
	uint32_t x = 1;

	for (size_t i = 0; i < sizeof(f->data); i++) {
		x = x * 1664525u + 1013904223u;
		f->data[i] = (unsigned char)(x >> 24);
	}
	see(f, 4 * TILE);
	swap_pieces(f, 4, 2);
	swap_pieces(f, 16, DIGEST_LANES);
	swap_pieces(f, DIGEST_ROW_BYTES, DIGEST_ROWS);
	swap_pieces(f, 4096, 3);
	see(f, 2 * TILE);
	swap(f->data, f->data + TILE, TILE);
	see(f, 2 * TILE);
	assert_true(f->nr > 15000);
	assert_all_differ(f);
}

/* The same words at another place. */
static void test_shifts(void **state)
{
	struct fixture *f = *state;

	memset(f->data, 0, sizeof(f->data));
	for (uint64_t at = 0; at < 2 * TILE; at += 4) {
		memcpy(f->data + at, "weir", 4);
		see(f, 2 * TILE);
		memset(f->data + at, 0, 4);
	}
	assert_all_differ(f);
}

/* Contents of one value, of all lengths. */
static void test_lengths(void **state)
{
	static const int fills[] = {0, 0xff, 0x55};
	struct fixture *f = *state;

	see(f, 0);
	for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
		memset(f->data, fills[i], sizeof(f->data));
		for (uint64_t bytes = TILE; bytes <= sizeof(f->data); bytes += TILE)
			see(f, bytes);
	}
	assert_all_differ(f);
}

/* Of digests of contents that differ in one bit, each bit is set in about half. */
static void test_bits_are_even(void **state)
{
	struct fixture *f = *state;
	const size_t nr = 4000;

	for (size_t i = 0; i < nr; i++) {
		f->data[i] ^= 1;
		see(f, TILE);
		f->data[i] ^= 1;
	}
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		for (uint32_t bit = 0; bit < 61; bit++) {
			size_t set = 0;

			for (size_t i = 0; i < nr; i++)
				set += f->seen[h][i] >> bit & 1;
			assert_in_range(set, nr / 2 - 200, nr / 2 + 200); /* 6 sigma */
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_known_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
		cmocka_unit_test(test_arithmetic),
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bit_flips, setup, teardown),
		cmocka_unit_test_setup_teardown(test_swaps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shifts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lengths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bits_are_even, setup, teardown),
	};

	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
