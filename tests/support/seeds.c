/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences by their seeds: see seeds.h. */
#include "tests/support/seeds.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SEQUENCE_S 60

uint32_t test_step;

static uint64_t current;
static bool finished;

static void say_seed(void)
{
	char text[128];
	int length = snprintf(text, sizeof(text), "failed: WEIR_SEED=%llu (step %u)\n",
			      (unsigned long long)current, test_step);

	(void)!write(STDERR_FILENO, text, (size_t)length);
}

static void on_signal(int sig)
{
	say_seed();
	signal(sig, SIG_DFL);
	raise(sig);
}

int test_seeds_teardown(void **state)
{
	(void)state;
	alarm(0);
	if (!finished)
		say_seed();
	return 0;
}

static void run_one(uint64_t seed, void (*run)(uint64_t seed))
{
	current = seed;
	alarm(SEQUENCE_S);
	run(seed);
}

uint32_t test_seeds_run(struct test_amount sequences, bool *tracing, void (*run)(uint64_t seed))
{
	const char *only = getenv("WEIR_SEED");
	uint32_t nr = only ? 0 : (uint32_t)test_amount("WEIR_SEQUENCES", sequences);

	signal(SIGABRT, on_signal);
	signal(SIGALRM, on_signal);
	if (only) {
		*tracing = true;
		run_one(strtoull(only, NULL, 10), run);
	} else {
		printf("seeds 1 to %u\n", nr);
	}
	for (uint64_t seed = 1; seed <= nr; seed++)
		run_one(seed, run);
	finished = true;
	return nr;
}
