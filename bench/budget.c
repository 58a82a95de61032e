/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir_space_set_budget() takes to give back 1 GiB of a GPU's memory, by what that holds:
 *
 *   free   of a range that was freed
 *   dead   of a range that a bracket discarded
 *   clean  with a copy on the host
 *   dirty  written: it is copied there
 *   held   clean, named by an open bracket: the call says so and returns, and the rest goes with
 *          the bracket ("after_ns": from its end until the memory is given back)
 *
 * and to have it again ("grow_ns"). Times are the machine's: virtual on a simulated one.
 *
 * Usage: bench_budget [MACHINE]. A machine file or its name, or "cuda"; h200 without one. One JSON
 * object a line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_file.h"

#define GIB (UINT64_C(1) << 30)
#define BLOCK (UINT64_C(32) << 20)
#define BUDGET (2 * GIB)
#define LEFT (BUDGET - GIB)
#define TIMES 5

enum what { IS_FREE, IS_DEAD, IS_CLEAN, IS_DIRTY, IS_HELD, WHAT_NR };

static const char *const what_name[WHAT_NR] = {"free", "dead", "clean", "dirty", "held"};

static struct weir_machine *machine;
static struct weir_space *space;
static struct weir_stream *stream;
static uint32_t gpu, host;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_budget: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

static void show(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR)
		fprintf(stderr, "bench_budget: %s\n", message);
}

static void open_machine(const char *name)
{
	struct weir_machine_desc desc;
	char why[256];

	weir_log_set(show, NULL);
	if (!strcmp(name, "cuda")) {
		must(weir_machine_cuda(NULL, &machine), "cuda");
	} else {
		if (weir_machine_file_read(name, &desc, why, sizeof(why))) {
			fprintf(stderr, "bench_budget: %s\n", why);
			exit(1);
		}
		must(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), "simulate");
	}
	gpu = weir_machine_describe(machine)->device[0].memory;
	for (host = 0; weir_machine_describe(machine)->memory[host].kind != WEIR_MEMORY_HOST;)
		host++;
}

static void use(void *addr, enum weir_use_kind kind)
{
	const struct weir_use uses = {.addr = addr, .bytes = BUDGET - 4 * BLOCK, .kind = kind};

	must(weir_begin(space, stream, &uses, 1), "begin");
	if (kind == WEIR_DISCARD || kind == WEIR_OVERWRITE)
		must(weir_end(space, stream), "end");
}

static void move(void *addr, uint32_t memory)
{
	struct weir_fence *fence;

	must(weir_prefetch(space, addr, BUDGET - 4 * BLOCK, memory, &fence), "prefetch");
	must(weir_fence_wait(fence), "prefetch");
	weir_fence_put(fence);
}

static uint64_t get_held(void)
{
	struct weir_space_stats stats;

	weir_space_query(space, &stats);
	return stats.memory[gpu].bytes;
}

/* A range that fills the GPU's budget, in that state. */
static void *prepare(enum what what)
{
	void *addr;

	must(weir_alloc(space, BUDGET - 4 * BLOCK, stream, &addr), "alloc");
	use(addr, WEIR_OVERWRITE);
	must(weir_space_sync(space), "sync");
	if (what == IS_CLEAN || what == IS_HELD) {
		move(addr, host);
		move(addr, gpu);
	}
	if (what == IS_DEAD)
		use(addr, WEIR_DISCARD);
	if (what == IS_HELD)
		use(addr, WEIR_READ);
	if (what == IS_FREE)
		must(weir_free(space, addr, NULL), "free");
	if (what != IS_HELD)
		must(weir_space_sync(space), "sync");
	return what == IS_FREE ? NULL : addr;
}

static void measure(enum what what)
{
	uint64_t shrink = UINT64_MAX, after = UINT64_MAX, grow = UINT64_MAX;

	for (int i = 0; i < TIMES; i++) {
		void *addr = prepare(what);
		uint64_t start = weir_machine_now_ns(machine), end;
		int err = weir_space_set_budget(space, gpu, LEFT);

		end = weir_machine_now_ns(machine);
		shrink = end - start < shrink ? end - start : shrink;
		if (what == IS_HELD && err == -EBUSY) {
			must(weir_end(space, stream), "end");
			must(weir_space_sync(space), "sync");
			start = weir_machine_now_ns(machine) - end;
			after = start < after ? start : after;
		} else {
			must(err, "set_budget");
		}
		if (get_held() > LEFT) {
			fprintf(stderr, "bench_budget: more is held than the budget\n");
			exit(1);
		}
		start = weir_machine_now_ns(machine);
		must(weir_space_set_budget(space, gpu, BUDGET), "set_budget");
		end = weir_machine_now_ns(machine) - start;
		grow = end < grow ? end : grow;
		must(weir_free(space, addr, NULL), "free");
	}
	printf("{\"schema\":\"weir-bench-budget-1\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"holds\":\"%s\",\"bytes\":%llu,\"block_bytes\":%llu,\"set_budget_ns\":%llu,"
	       "\"after_ns\":%llu,\"grow_ns\":%llu}\n",
	       weir_version(), weir_machine_describe(machine)->name, what_name[what],
	       (unsigned long long)GIB, (unsigned long long)BLOCK, (unsigned long long)shrink,
	       (unsigned long long)(what == IS_HELD ? after : 0), (unsigned long long)grow);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct weir_space_config config = {.block_bytes = BLOCK, .mode = WEIR_PLANNED};

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fprintf(argc == 2 && !strcmp(argv[1], "--help") ? stdout : stderr,
			"usage: bench_budget [MACHINE]\n"
			"What weir_space_set_budget() takes to give back 1 GiB, by what that\n"
			"holds. MACHINE: a machine file, its name [h200], or cuda.\n");
		return argc == 2 && !strcmp(argv[1], "--help") ? 0 : 2;
	}
	open_machine(argc == 2 ? argv[1] : "h200");
	config.budget_bytes[gpu] = BUDGET;
	config.budget_bytes[host] = 2 * BUDGET;
	must(weir_stream_create(machine, 0, &stream), "stream");
	must(weir_space_create(machine, &config, &space), "space");
	for (int what = 0; what < WHAT_NR; what++)
		measure((enum what)what);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return 0;
}
