/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that stays where it is: the CPU and a GPU share a table at one address; a copy engine
 * brings another one, in the GPU's memory, from a buffer of the program; weir says where a third
 * is best; and what a program forgets to free is told with the line that allocated it.
 */
#include <stdint.h>
#include <string.h>

#include "machine.h"

#define NR_WORDS 10000u
#define BYTES (NR_WORDS * sizeof(uint32_t))

struct sum_args {
	const uint32_t *words;
	uint64_t *sum;
};

static void sum_cpu(const void *data)
{
	const struct sum_args *args = data;

	*args->sum = 0;
	for (uint32_t i = 0; i < NR_WORDS; i++)
		*args->sum += args->words[i];
}

static const struct weir_kernel sum_kernel = {.name = "sum", .cpu = sum_cpu};

/* Let the GPU add up words, into memory that the CPU reads afterwards at the same address. */
static uint64_t sum_on_gpu(struct weir_stream *stream, const uint32_t *words, uint64_t *sum)
{
	const struct sum_args args = {words, sum};
	const struct weir_use uses[] = {
		{.addr = (void *)(uintptr_t)words,
		 .bytes = BYTES,
		 .kind = WEIR_READ,
		 .read_bytes = BYTES},
		{.addr = sum, .bytes = 8, .kind = WEIR_OVERWRITE, .write_bytes = 8},
	};
	const struct weir_launch launch = {.kernel = &sum_kernel,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};

	must(weir_stream_launch(stream, &launch), "launch");
	must(weir_stream_sync(stream), "sync");
	return *sum;
}

/* Where weir would put it, and why. */
static struct weir_mem *choose(struct weir_pool *pool, const char *what, struct weir_mem_use use)
{
	const struct weir_mem_params params = {
		.bytes = BYTES, .memory = WEIR_MEMORY_ANY, .owner = what, .use = use};
	struct weir_mem_info info;
	struct weir_mem *mem;

	must(weir_mem_alloc(pool, &params, &mem), "alloc");
	weir_mem_query(mem, &info);
	printf("%-18s goes to '%s': %s\n", what, example_machine.memory[info.memory].name,
	       weir_choice_text(info.choice));
	return mem;
}

int main(void)
{
	const struct weir_mem_params shared = {.bytes = BYTES, .memory = 0, .owner = "table"};
	const struct weir_mem_params result = {.bytes = 8, .memory = 0, .zero = 1};
	static uint32_t words[NR_WORDS];
	struct weir_mem *table, *sum, *copied, *once;
	void *table_addr, *sum_addr, *copied_addr;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_pool *pool;
	uint64_t expected = 0, there, here;

	weir_log_set(print_message, NULL);
	must(weir_machine_simulate(&example_machine, WEIR_DATA_REAL, &machine), "machine");
	must(weir_stream_create(machine, 0, &stream), "stream");
	must(weir_pool_create(machine, NULL, &pool), "pool");
	must(weir_mem_alloc(pool, &shared, &table), "alloc");
	must(weir_mem_alloc(pool, &result, &sum), "alloc");
	must(weir_mem_map(table, WEIR_MEM_ALL, 0, &table_addr), "map");
	must(weir_mem_map(sum, WEIR_MEM_ALL, 0, &sum_addr), "map");

	/* Host memory, written by the CPU and read by the GPU at one address. */
	for (uint32_t i = 0; i < NR_WORDS; i++) {
		words[i] = i * 3;
		expected += words[i];
	}
	memcpy(table_addr, words, BYTES);
	here = sum_on_gpu(stream, table_addr, sum_addr);
	printf("in the host's memory: %llu\n", (unsigned long long)here);

	/* A GPU's memory, filled by its copy engine. */
	copied = choose(pool, "used often", (struct weir_mem_use){.devices = 1});
	must(weir_mem_map(copied, WEIR_MEM_DEVICE(0), 0, &copied_addr), "map");
	must(weir_mem_write(copied, 0, 0, words, BYTES), "write");
	there = sum_on_gpu(stream, copied_addr, sum_addr);
	printf("in the GPU's memory:  %llu\n", (unsigned long long)there);
	once = choose(pool, "used once", (struct weir_mem_use){.devices = 1, .times = 1});

	/* One is forgotten. */
	weir_mem_free(copied, stream);
	weir_mem_free(sum, NULL);
	weir_mem_free(table, NULL);
	(void)once;
	weir_pool_destroy(pool);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return here != expected || there != expected;
}
