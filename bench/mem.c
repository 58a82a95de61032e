/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What objects of plain memory cost, on a simulated machine without bytes: pairs of a call and the
 * one that undoes it, beside a thousand other objects of the size. "host" is the host's own time,
 * the simulator's too; "machine" what the calls of the driver take by the machine's description.
 *
 *   alloc     weir_mem_alloc(), weir_mem_free()
 *   joined    the same, mapped for device 0 in between, for which the root is mapped already
 *   new user  the same, with device 0 the only one that uses the root
 *
 * With WEIR_MEMORY_FILE=1 in the environment, what keeping the file costs is in it.
 *
 * Usage: bench_mem. One JSON object a line; times are nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "machine/machine_file.h"
#include "src/base/clock.h"
#include "src/base/util.h"

#define MACHINE "h200"
#define PAIRS 16u
#define SAMPLES 5000u
#define WARM_UP 500u
#define NR_OTHERS 1000u

static struct weir_pool *pool;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_mem: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void pair(const struct weir_mem_params *params, bool map)
{
	struct weir_mem *mem;

	must(weir_mem_alloc(pool, params, &mem), "alloc");
	if (map)
		must(weir_mem_map(mem, WEIR_MEM_DEVICE(0), 0, NULL), "map");
	weir_mem_free(mem, NULL);
}

static void measure(struct weir_machine *machine, const char *what, uint32_t memory, uint64_t bytes,
		    bool map, bool others_mapped)
{
	const struct weir_mem_params params = {.bytes = bytes, .memory = memory, .owner = "bench"};
	static uint64_t sample[SAMPLES];
	static struct weir_mem *other[NR_OTHERS];
	uint64_t machine_ns;

	for (uint32_t i = 0; i < NR_OTHERS; i++) {
		must(weir_mem_alloc(pool, &params, &other[i]), "alloc");
		if (others_mapped)
			must(weir_mem_map(other[i], WEIR_MEM_DEVICE(0), 0, NULL), "map");
	}
	for (uint32_t i = 0; i < WARM_UP; i++)
		pair(&params, map);
	machine_ns = weir_machine_now_ns(machine);
	for (uint32_t s = 0; s < SAMPLES; s++) {
		uint64_t begin = clock_now_ns();

		for (uint32_t i = 0; i < PAIRS; i++)
			pair(&params, map);
		sample[s] = (clock_now_ns() - begin) / PAIRS;
	}
	machine_ns = (weir_machine_now_ns(machine) - machine_ns) / ((uint64_t)SAMPLES * PAIRS);
	qsort(sample, SAMPLES, sizeof(sample[0]), by_size);
	printf("{\"what\": \"%s\", \"memory\": \"%s\", \"bytes\": %llu, \"host_min_ns\": %llu, "
	       "\"host_median_ns\": %llu, \"host_p99_ns\": %llu, \"machine_ns\": %llu}\n",
	       what, weir_machine_describe(machine)->memory[memory].name, (unsigned long long)bytes,
	       (unsigned long long)sample[0], (unsigned long long)sample[SAMPLES / 2],
	       (unsigned long long)sample[SAMPLES - SAMPLES / 100], (unsigned long long)machine_ns);
	for (uint32_t i = 0; i < NR_OTHERS; i++)
		weir_mem_free(other[i], NULL);
}

int main(void)
{
	static const uint64_t sizes[] = {4096, UINT64_C(64) << 10, UINT64_C(2) << 20,
					 UINT64_C(16) << 20};
	struct weir_machine *machine;
	struct machine_file file;
	char why[512];

	if (machine_file_read(MACHINE, &file, why, sizeof(why))) {
		fprintf(stderr, "bench_mem: %s\n", why);
		return 1;
	}
	must(weir_machine_simulate(&file.desc, WEIR_DATA_PHANTOM, &machine), "machine");
	must(weir_pool_create(machine, &(struct weir_pool_config){.guard = WEIR_GUARD_OFF}, &pool),
	     "pool");
	for (uint32_t memory = 0; memory < 2; memory++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			measure(machine, "alloc", memory, sizes[i], false, false);
			measure(machine, "joined", memory, sizes[i], true, true);
			measure(machine, "new user", memory, sizes[i], true, false);
		}
	weir_pool_destroy(pool);
	weir_machine_close(machine);
	machine_file_fini(&file);
	return 0;
}
