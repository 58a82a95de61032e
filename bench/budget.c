/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir_space_set_budget() takes to give back 1 GiB of a GPU's memory, its own or that of a
 * neighbour, by what that holds:
 *
 *   free   of a range that was freed
 *   dead   of a range that a bracket discarded
 *   clean  with a copy on the host
 *   dirty  written: it is copied there
 *   held   clean, named by an open bracket: the call says so and returns, and the rest goes with
 *          the bracket ("after_ns": from its end until the memory is given back)
 *
 * and to have it again ("grow_ns"). Beside it what the machine takes to unmap and destroy as many
 * chunks of that memory ("calls_ns"), in the same run. Times are the machine's: virtual on a
 * simulated one. Each is the median, the 95th percentile and the most of SAMPLES.
 *
 * Usage: bench_budget [MACHINE [MEMORY [SAMPLES]]]. A machine file or its name, or "cuda"; h200
 * without one. MEMORY: gpu0, which is the space's own, or a neighbour's. One JSON object a line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/shared/calls.h"
#include "bench/shared/samples.h"
#include "machine/machine_file.h"
#include "src/backend/machine.h"

#define GIB (UINT64_C(1) << 30)
#define BLOCK (UINT64_C(32) << 20)
#define BUDGET (2 * GIB)
#define LEFT (BUDGET - GIB)
#define NR_CHUNKS (GIB / BLOCK)
#define SAMPLES_MAX 1000u

enum what { IS_FREE, IS_DEAD, IS_CLEAN, IS_DIRTY, IS_HELD, WHAT_NR };

static const char *const what_name[WHAT_NR] = {"free", "dead", "clean", "dirty", "held"};

static struct weir_machine *machine;
static struct weir_space *space;
static struct weir_stream *stream;
static uint32_t gpu, own, host; /* memories: measured; the space's device's; the host's */
static uint32_t nr_samples = 5;

struct samples {
	uint64_t ns[SAMPLES_MAX];
};

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
	own = gpu = weir_machine_describe(machine)->device[0].memory;
	for (host = 0; weir_machine_describe(machine)->memory[host].kind != WEIR_MEMORY_HOST;)
		host++;
}

static void find_memory(const char *name)
{
	const struct weir_machine_desc *desc = weir_machine_describe(machine);

	for (gpu = 0; gpu < desc->nr_memories; gpu++)
		if (!strcmp(desc->memory[gpu].name, name) && gpu != host)
			return;
	fprintf(stderr, "bench_budget: %s has no GPU memory %s\n", desc->name, name);
	exit(2);
}

/* What the machine takes to unmap and destroy as many chunks. */
static uint64_t measure_calls(void)
{
	const struct calls calls = {.memory = gpu, .block_bytes = BLOCK, .nr_chunks = NR_CHUNKS};
	uint64_t ns;

	must(calls_measure(machine, &calls, &ns), "calls");
	return ns;
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
	if (what == IS_CLEAN || what == IS_HELD)
		move(addr, host);
	move(addr, gpu);
	if (what == IS_DEAD)
		use(addr, WEIR_DISCARD);
	if (what == IS_HELD) {
		must(weir_advise(space, addr, WEIR_ADVISE_PREFER_MEMORY, gpu), "advise");
		use(addr, WEIR_READ);
	}
	if (what == IS_FREE)
		must(weir_free(space, addr, NULL), "free");
	if (what != IS_HELD)
		must(weir_space_sync(space), "sync");
	return what == IS_FREE ? NULL : addr;
}

/* Give the GiB back, and take it again. */
static void measure_once(enum what what, void *addr, uint64_t *shrink, uint64_t *after,
			 uint64_t *grow)
{
	uint64_t start = weir_machine_now_ns(machine), end;
	int err = weir_space_set_budget(space, gpu, LEFT);

	end = weir_machine_now_ns(machine);
	*shrink = end - start;
	*after = 0;
	if (what == IS_HELD && err == -EBUSY) {
		must(weir_end(space, stream), "end");
		must(weir_space_sync(space), "sync");
		*after = weir_machine_now_ns(machine) - end;
	} else {
		must(err, "set_budget");
	}
	if (get_held() > LEFT) {
		fprintf(stderr, "bench_budget: more is held than the budget\n");
		exit(1);
	}
	start = weir_machine_now_ns(machine);
	must(weir_space_set_budget(space, gpu, BUDGET), "set_budget");
	*grow = weir_machine_now_ns(machine) - start;
	must(weir_free(space, addr, NULL), "free");
	must(weir_space_sync(space), "sync");
}

static void measure(enum what what)
{
	static struct samples calls, shrink, after, grow;

	for (uint32_t i = 0; i < nr_samples; i++) {
		calls.ns[i] = measure_calls();
		measure_once(what, prepare(what), &shrink.ns[i], &after.ns[i], &grow.ns[i]);
	}
	printf("{\"schema\":\"weir-bench-budget-2\",\"version\":\"%s\",\"machine\":\"%s\","
	       "\"memory\":\"%s\",\"holds\":\"%s\",\"bytes\":%llu,\"block_bytes\":%llu,"
	       "\"samples\":%u",
	       weir_version(), weir_machine_describe(machine)->name,
	       weir_machine_describe(machine)->memory[gpu].name, what_name[what],
	       (unsigned long long)GIB, (unsigned long long)BLOCK, nr_samples);
	samples_print("calls_ns", calls.ns, nr_samples);
	samples_print("set_budget_ns", shrink.ns, nr_samples);
	samples_print("after_ns", after.ns, nr_samples);
	samples_print("grow_ns", grow.ns, nr_samples);
	printf("}\n");
	fflush(stdout);
}

static int usage(FILE *out, int status)
{
	fprintf(out, "usage: bench_budget [MACHINE [MEMORY [SAMPLES]]]\n"
		     "What weir_space_set_budget() takes to give back 1 GiB, by what that\n"
		     "holds. MACHINE: a machine file, its name [h200], or cuda. MEMORY: gpu0,\n"
		     "the space's own, or a neighbour's [gpu0]. SAMPLES: up to 1000 [5].\n");
	return status;
}

int main(int argc, char **argv)
{
	struct weir_space_config config = {.block_bytes = BLOCK, .mode = WEIR_PLANNED};

	if (argc == 2 && !strcmp(argv[1], "--help"))
		return usage(stdout, 0);
	if (argc > 3)
		nr_samples = (uint32_t)strtoul(argv[3], NULL, 10);
	if (argc > 4 || (argc > 1 && argv[1][0] == '-') || !nr_samples || nr_samples > SAMPLES_MAX)
		return usage(stderr, 2);
	open_machine(argc > 1 ? argv[1] : "h200");
	find_memory(argc > 2 ? argv[2] : weir_machine_describe(machine)->memory[own].name);
	config.budget_bytes[own] = config.budget_bytes[gpu] = BUDGET;
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
