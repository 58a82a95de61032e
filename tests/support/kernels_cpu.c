/* SPDX-License-Identifier: Apache-2.0 */
/* The test kernels on the CPU, for the simulator and for the driver without a GPU. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/base/clock.h"
#include "tests/support/kernels.h"

void test_cpu_cells(const void *args)
{
	const struct test_cells_args *a = args;

	for (uint32_t c = 0; c < a->nr; c++) {
		uint64_t *at = a->addr + c * a->words;
		const uint64_t *as = (a->as ? a->as : a->addr) + c * a->words;
		uint32_t nr_wrong = 0;

		for (uint64_t i = 0; i < a->words; i++) {
			if (a->cell[c].expect)
				nr_wrong += at[i] != test_word_at(a->cell[c].expect, &as[i]);
			if (a->cell[c].put)
				at[i] = test_word_at(a->cell[c].put, &as[i]);
		}
		if (!nr_wrong)
			continue;
		__atomic_fetch_add(a->nr_wrong, nr_wrong, __ATOMIC_RELAXED);
		if (getenv("WEIR_TEST_LOG"))
			fprintf(stderr, "cell at %p: %u of %llu words wrong\n", (void *)at,
				nr_wrong, (unsigned long long)a->words);
	}
}

void test_cpu_fill(const void *args)
{
	const struct test_fill_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->out[i] = test_word(a->seed, i);
}

void test_cpu_add(const void *args)
{
	const struct test_add_args *a = args;

	for (uint64_t i = 0; i < a->bytes; i++)
		a->out[i] = (uint8_t)(a->in[i] + a->add);
}

void test_cpu_churn(const void *args)
{
	const struct test_churn_args *a = args;

	for (uint32_t round = 0; round < a->rounds; round++)
		for (uint64_t i = 0; i < a->nr; i++) {
			volatile uint64_t *at = a->data + i;

			*at = *at + a->add;
		}
}

void test_cpu_checksum(const void *args)
{
	const struct test_checksum_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		*a->sum += test_checksum_of(a->in[i], i);
}

void test_cpu_gather(const void *args)
{
	const struct test_gather_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		a->out[i] = a->in[test_word(a->seed, i) % a->nr_in];
}

/* ------------------------------------------------------------------ time */

static void sleep_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				     .tv_nsec = (long)(ns % 1000000000u)},
		  NULL);
}

void test_cpu_gate(const void *args)
{
	const struct test_gate_args *a = args;
	uint64_t end = clock_now_ns() + a->most_ns;

	while (!__atomic_load_n(&a->word[0], __ATOMIC_ACQUIRE)) {
		if (clock_now_ns() > end) {
			__atomic_store_n(&a->word[1], 1, __ATOMIC_RELEASE);
			break;
		}
		sleep_ns(20000);
	}
}

void test_cpu_spin(const void *args)
{
	const struct test_spin_args *a = args;

	sleep_ns(a->ns);
}

void test_cpu_count(const void *args)
{
	const struct test_count_args *a = args;

	for (uint64_t i = 0; i < a->nr; i++)
		__atomic_fetch_add(&a->at[i], a->add, __ATOMIC_RELAXED);
}

void test_cpu_rally(const void *args)
{
	const struct test_rally_args *a = args;

	for (uint32_t turn = 0; turn < a->turns; turn++) {
		uint64_t end = clock_now_ns() + a->most_ns;

		while (__atomic_load_n(&a->ball[0], __ATOMIC_ACQUIRE) % 2 != a->player) {
			if (clock_now_ns() > end) {
				__atomic_store_n(&a->ball[1], 1, __ATOMIC_RELEASE);
				return;
			}
			sched_yield(); /* the other player may be waiting for this processor */
		}
		__atomic_fetch_add(&a->ball[0], 1, __ATOMIC_RELEASE);
	}
}

void test_cpu_poke(const void *args)
{
	const struct test_poke_args *a = args;

	*(volatile uint8_t *)a->addr = a->value;
}
