/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of 96 MiB, of which the program's own GPU may hold 32 MiB and a second GPU, its neighbour,
 * 48 MiB: what does not fit goes to the neighbour first, over the link between the two GPUs, and
 * then to the host. After some rounds the neighbour needs its memory itself: the program gives it
 * back while its launches are still queued, and goes on with the host alone.
 *
 *     near_memory [MACHINE]
 *
 *     cc near_memory.c $(pkg-config --cflags --libs weir-machine)
 */
#include <stdint.h>

#include <weir/machine_file.h>

#include "machine.h"

#define NR_PARTS 12u
#define PART_BYTES (8u << 20)
#define PART_WORDS (PART_BYTES / sizeof(uint32_t))
#define OWN_BYTES (32u << 20)
#define NEAR_BYTES (48u << 20)
#define NR_ROUNDS 6u
#define LAST_WITH 3u /* the round in which the neighbour gets its memory back */

struct program {
	struct weir_machine *machine;
	const struct weir_machine_desc *desc;
	struct weir_space *space;
	struct weir_stream *stream;
	uint32_t own, near, host; /* memories: the GPU's, its neighbour's, the host's */
	void *part[NR_PARTS];
};

struct add_args {
	uint32_t *words;
};

/* What the GPU runs; on a simulated machine with real bytes, the CPU does. */
static void add_one(const void *data)
{
	const struct add_args *args = data;

	for (uint32_t i = 0; i < PART_WORDS; i++)
		args->words[i]++;
}

static const struct weir_kernel add_kernel = {.name = "add_one", .cpu = add_one};

static void launch_add(struct program *p, void *part)
{
	const struct add_args args = {part};
	const struct weir_use use = {.addr = part,
				     .bytes = PART_BYTES,
				     .kind = WEIR_WRITE,
				     .read_bytes = PART_BYTES,
				     .write_bytes = PART_BYTES};
	const struct weir_launch launch = {.kernel = &add_kernel,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = &use,
					   .nr_uses = 1};

	must(weir_begin(p->space, p->stream, &use, 1), "begin");
	must(weir_stream_launch(p->stream, &launch), "launch");
	must(weir_end(p->space, p->stream), "end");
}

/* Nothing waits for the launches that were queued; what they use leaves behind them. */
static void give_back(struct program *p)
{
	uint64_t start = weir_machine_now_ns(p->machine);
	struct weir_space_stats stats;

	must(weir_space_set_budget(p->space, p->near, 0), "give back");
	weir_space_query(p->space, &stats);
	printf("%s has its memory back after %.2f ms; %llu MiB are left there\n",
	       p->desc->memory[p->near].name,
	       (double)(weir_machine_now_ns(p->machine) - start) / 1e6,
	       (unsigned long long)(stats.memory[p->near].bytes >> 20));
}

/* What crossed each link, copied and used in place, between two looks; where that is anything. */
static void print_links(const struct program *p, const struct weir_space_stats *before,
			const struct weir_space_stats *after)
{
	for (uint32_t l = 0; l < p->desc->nr_links * WEIR_DIRECTION_NR; l++) {
		const struct weir_link_desc *link = &p->desc->link[l / WEIR_DIRECTION_NR];
		const uint32_t end[] = {link->a, link->b}, direction = l % WEIR_DIRECTION_NR;
		const uint64_t *then = before->link_bytes[l / WEIR_DIRECTION_NR][direction];
		const uint64_t *now = after->link_bytes[l / WEIR_DIRECTION_NR][direction];
		uint64_t copied = 0, in_place = now[WEIR_CAUSE_INPLACE] - then[WEIR_CAUSE_INPLACE];

		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			copied += now[cause] - then[cause];
		copied -= in_place;
		if (!copied && !in_place)
			continue;
		printf("  %s to %s: %llu MiB copied, %llu MiB used in place\n",
		       p->desc->memory[end[direction]].name, p->desc->memory[end[!direction]].name,
		       (unsigned long long)(copied >> 20), (unsigned long long)(in_place >> 20));
	}
}

static void run_round(struct program *p, uint32_t round)
{
	uint64_t start = weir_machine_now_ns(p->machine);
	struct weir_space_stats before, after;

	weir_space_query(p->space, &before);
	for (uint32_t i = 0; i < NR_PARTS; i++) {
		launch_add(p, p->part[i]);
		if (round == LAST_WITH && i == NR_PARTS / 2)
			give_back(p);
	}
	must(weir_stream_sync(p->stream), "sync");
	weir_space_query(p->space, &after);
	printf("round %u: %.2f ms; MiB held: %s %llu, %s %llu, host %llu\n", round,
	       (double)(weir_machine_now_ns(p->machine) - start) / 1e6,
	       p->desc->memory[p->own].name, (unsigned long long)(after.memory[p->own].bytes >> 20),
	       p->desc->memory[p->near].name,
	       (unsigned long long)(after.memory[p->near].bytes >> 20),
	       (unsigned long long)(after.memory[p->host].bytes >> 20));
	print_links(p, &before, &after);
}

/* Each word began as its number, and was added to in each round. */
static uint32_t count_wrong_words(struct program *p, uint32_t *words)
{
	uint32_t nr = 0;

	for (uint32_t part = 0; part < NR_PARTS; part++) {
		must(weir_read(p->space, words, p->part[part], PART_BYTES), "read");
		for (uint32_t i = 0; i < PART_WORDS; i++)
			nr += words[i] != part + i + NR_ROUNDS;
	}
	return nr;
}

static void allocate(struct program *p, uint32_t *words)
{
	for (uint32_t part = 0; part < NR_PARTS; part++) {
		must(weir_alloc(p->space, PART_BYTES, p->stream, &p->part[part]), "alloc");
		for (uint32_t i = 0; i < PART_WORDS; i++)
			words[i] = part + i;
		must(weir_write(p->space, p->part[part], words, PART_BYTES), "write");
	}
}

static uint32_t find_memory(const struct program *p, const char *name)
{
	int memory = weir_memory_find(p->machine, name);

	must(memory < 0 ? memory : 0, name);
	return (uint32_t)memory;
}

/* A machine with two GPUs whose memories have a link, and a space on the first. */
static void open_space(struct program *p, const char *name)
{
	struct weir_space_config config = {.mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	char why[512];

	if (weir_machine_file_read(name, &desc, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	must(weir_machine_simulate(&desc, WEIR_DATA_REAL, &p->machine), "machine");
	p->desc = weir_machine_describe(p->machine);
	p->own = p->desc->device[0].memory;
	p->near = find_memory(p, "gpu1");
	p->host = find_memory(p, "host");
	config.budget_bytes[p->own] = OWN_BYTES;
	config.budget_bytes[p->near] = NEAR_BYTES; /* which makes it a place of the space */
	must(weir_stream_create(p->machine, 0, &p->stream), "stream");
	must(weir_space_create(p->machine, &config, &p->space), "space");
}

int main(int argc, char **argv)
{
	uint32_t *words = malloc(PART_BYTES), nr_wrong;
	struct program p;

	if (!words)
		return 1;
	weir_log_set(print_message, NULL);
	open_space(&p, argc > 1 ? argv[1] : "h200x4");
	allocate(&p, words);
	for (uint32_t round = 0; round < NR_ROUNDS; round++)
		run_round(&p, round);
	nr_wrong = count_wrong_words(&p, words);
	printf("%u wrong words\n", nr_wrong);

	for (uint32_t part = 0; part < NR_PARTS; part++)
		must(weir_free(p.space, p.part[part], p.stream), "free");
	weir_space_destroy(p.space);
	weir_stream_destroy(p.stream);
	weir_machine_close(p.machine);
	free(words);
	return nr_wrong != 0;
}
