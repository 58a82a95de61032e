/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program can say beside brackets: that the CPU is going to touch a range, that a range is
 * used soon, that it is mostly read, that it is best left on the host.
 */
#include <stdint.h>
#include <string.h>

#include "machine.h"

#define BYTES (4u << 20)
#define NR_WORDS (BYTES / sizeof(uint32_t))

struct count_args {
	const uint32_t *table;
	uint32_t *result;
};

/* Count the odd words of a table. */
static void count_odd(const void *data)
{
	const struct count_args *args = data;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR_WORDS; i++)
		nr += args->table[i] & 1;
	*args->result = nr;
}

static const struct weir_kernel count_kernel = {.name = "count_odd", .cpu = count_odd};

/* The CPU writes a table in place: between these calls it may use the address as its own. */
static void fill_on_host(struct weir_space *space, uint32_t *table)
{
	const struct weir_use use = {
		.addr = table, .bytes = BYTES, .kind = WEIR_OVERWRITE, .write_bytes = BYTES};

	must(weir_host_begin(space, &use, 1), "host begin");
	for (uint32_t i = 0; i < NR_WORDS; i++)
		table[i] = i;
	must(weir_host_end(space, &use, 1), "host end");
}

static uint32_t run(struct weir_space *space, struct weir_stream *stream, uint32_t *table,
		    uint32_t *result)
{
	const struct count_args args = {table, result};
	const struct weir_use uses[] = {
		{.addr = table, .bytes = BYTES, .kind = WEIR_READ, .read_bytes = BYTES},
		{.addr = result,
		 .bytes = sizeof(*result),
		 .kind = WEIR_OVERWRITE,
		 .write_bytes = sizeof(*result)},
	};
	const struct weir_launch launch = {.kernel = &count_kernel,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};
	uint32_t value;

	must(weir_begin(space, stream, uses, 2), "begin");
	must(weir_stream_launch(stream, &launch), "launch");
	must(weir_end(space, stream), "end");
	must(weir_read(space, &value, result, sizeof(value)), "read");
	return value;
}

static void print_use(struct weir_space *space, const char *what, uint32_t value)
{
	struct weir_space_stats stats;
	const uint64_t *in;

	weir_space_query(space, &stats);
	in = stats.link_bytes[0][WEIR_A_TO_B]; /* the machine's one link; its end a is the host */
	printf("%-34s counted %u; so far prefetched %llu KiB, read in place %llu KiB\n", what,
	       value, (unsigned long long)(in[WEIR_CAUSE_PREFETCH] >> 10),
	       (unsigned long long)(in[WEIR_CAUSE_INPLACE] >> 10));
}

int main(void)
{
	const struct weir_space_config config = {.mode = WEIR_PLANNED};
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_fence *fence;
	struct weir_space *space;
	void *table, *rare, *result;
	uint32_t soon, seldom;
	int gpu;

	weir_log_set(print_message, NULL);
	must(weir_machine_simulate(&example_machine, WEIR_DATA_REAL, &machine), "machine");
	must(weir_stream_create(machine, 0, &stream), "stream");
	must(weir_space_create(machine, &config, &space), "space");
	must(weir_alloc(space, BYTES, stream, &table), "alloc");
	must(weir_alloc(space, BYTES, stream, &rare), "alloc");
	must(weir_alloc(space, sizeof(uint32_t), stream, &result), "alloc");
	fill_on_host(space, table);
	fill_on_host(space, rare);

	/* Read again and again: keep the copy on the host valid, and bring it up now. */
	gpu = weir_memory_find(machine, "gpu0");
	must(gpu < 0 ? gpu : 0, "gpu0");
	must(weir_advise(space, table, WEIR_ADVISE_READ_MOSTLY, 0), "advise");
	must(weir_prefetch(space, table, BYTES, (uint32_t)gpu, &fence), "prefetch");
	must(weir_fence_wait(fence), "wait");
	weir_fence_put(fence);
	soon = run(space, stream, table, result);
	print_use(space, "prefetched, read mostly:", soon);

	/* Touched once in a while: not worth GPU memory. */
	must(weir_advise(space, rare, WEIR_ADVISE_PREFER_MEMORY, 0), "advise");
	seldom = run(space, stream, rare, result);
	print_use(space, "preferred on the host:", seldom);

	must(weir_free(space, result, stream), "free");
	must(weir_free(space, rare, stream), "free");
	must(weir_free(space, table, stream), "free");
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return soon != NR_WORDS / 2 || seldom != NR_WORDS / 2;
}
