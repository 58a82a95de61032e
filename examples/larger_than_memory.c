/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Train something twice as large as what the GPU may hold: 16 layers of 1 to 3 MiB, a GPU budget of
 * 16 MiB. An epoch goes through the layers forwards and backwards. The kernels see raw pointers and
 * know of nothing; once an epoch has been seen, weir knows what comes next, and moves blocks ahead
 * of use, or leaves them where they are when that is faster.
 */
#include <stdint.h>
#include <string.h>

#include "machine.h"

#define NR_LAYERS 16u
#define NR_REPEATS 4u /* each layer's work is that many launches */
#define NR_EPOCHS 8u

struct model {
	uint32_t *layer[NR_LAYERS];
	uint32_t *x; /* what goes from layer to layer; as large as the largest */
};

static uint32_t nr_values(uint32_t layer)
{
	return (1u << 18) + layer * (1u << 15);
}

static uint64_t nr_bytes(uint32_t layer)
{
	return nr_values(layer) * sizeof(uint32_t);
}

struct add_args {
	const uint32_t *from;
	uint32_t *to;
	uint32_t nr;
};

/* What the GPU runs; on a simulated machine with real bytes, the CPU does. */
static void add(const void *data)
{
	const struct add_args *args = data;

	for (uint32_t i = 0; i < args->nr; i++)
		args->to[i] += args->from[i];
}

static const struct weir_kernel add_kernel = {.name = "add", .cpu = add};

/* One bracket: say what will be touched and how, launch, say that it is over. */
static void launch_add(struct weir_space *space, struct weir_stream *stream,
		       const struct add_args *args)
{
	const uint64_t bytes = args->nr * sizeof(uint32_t);
	const struct weir_use uses[] = {
		{.addr = (void *)args->from,
		 .bytes = bytes,
		 .kind = WEIR_READ,
		 .read_bytes = bytes},
		{.addr = args->to,
		 .bytes = bytes,
		 .kind = WEIR_WRITE,
		 .read_bytes = bytes,
		 .write_bytes = bytes},
	};
	const struct weir_launch launch = {.kernel = &add_kernel,
					   .args = args,
					   .args_bytes = sizeof(*args),
					   .uses = uses,
					   .nr_uses = 2};

	must(weir_begin(space, stream, uses, 2), "begin");
	must(weir_stream_launch(stream, &launch), "launch");
	must(weir_end(space, stream), "end");
}

/* On the GPU where there is a space, else on the CPU. */
static void run(struct weir_space *space, struct weir_stream *stream, const struct add_args *args)
{
	if (space)
		launch_add(space, stream, args);
	else
		add(args);
}

static void train_epoch(struct weir_space *space, struct weir_stream *stream, struct model *m)
{
	for (uint32_t n = 0; n < NR_LAYERS * NR_REPEATS; n++) {
		uint32_t l = n / NR_REPEATS;

		run(space, stream, &(struct add_args){m->layer[l], m->x, nr_values(l)});
	}
	for (uint32_t n = NR_LAYERS * NR_REPEATS; n-- > 0;) {
		uint32_t l = n / NR_REPEATS;

		run(space, stream, &(struct add_args){m->x, m->layer[l], nr_values(l)});
	}
}

/* Bytes that came in between two reports, over the one link, whose end a is the host; in MiB. */
static unsigned long long mib_in(const struct weir_space_stats *before,
				 const struct weir_space_stats *after, enum weir_cause cause)
{
	const uint64_t *then = before->link_bytes[0][WEIR_A_TO_B];
	const uint64_t *now = after->link_bytes[0][WEIR_A_TO_B];

	return (now[cause] - then[cause]) >> 20;
}

static void print_epoch(uint32_t epoch, uint64_t ns, const struct weir_space_stats *before,
			const struct weir_space_stats *after)
{
	printf("epoch %u: %.2f ms; MiB fetched on demand %llu, ahead of use %llu; read in place "
	       "%llu\n",
	       epoch, (double)ns / 1e6, mib_in(before, after, WEIR_CAUSE_DEMAND),
	       mib_in(before, after, WEIR_CAUSE_PREFETCH),
	       mib_in(before, after, WEIR_CAUSE_INPLACE));
}

static void train(struct weir_machine *machine, struct weir_space *space,
		  struct weir_stream *stream, struct model *m)
{
	for (uint32_t epoch = 0; epoch < NR_EPOCHS; epoch++) {
		uint64_t start = weir_machine_now_ns(machine);
		struct weir_space_stats before, after;

		weir_space_query(space, &before);
		train_epoch(space, stream, m);
		must(weir_stream_sync(stream), "sync");
		weir_space_query(space, &after);
		print_epoch(epoch, weir_machine_now_ns(machine) - start, &before, &after);
	}
}

/* Values of the program's own, not in the space. */
static uint32_t *make_values(uint32_t nr, uint32_t first)
{
	uint32_t *values = malloc(nr * sizeof(*values));

	if (!values)
		exit(1);
	for (uint32_t i = 0; i < nr; i++)
		values[i] = first + i;
	return values;
}

/* A model on the CPU, which is also what the GPU's starts from. */
static void make_model(struct model *m)
{
	m->x = make_values(nr_values(NR_LAYERS - 1), 1);
	for (uint32_t l = 0; l < NR_LAYERS; l++)
		m->layer[l] = make_values(nr_values(l), l);
}

static uint32_t *upload(struct weir_space *space, struct weir_stream *stream,
			const uint32_t *values, uint64_t bytes)
{
	void *addr;

	must(weir_alloc(space, bytes, stream, &addr), "alloc");
	must(weir_write(space, addr, values, bytes), "write");
	return addr;
}

/* Train the CPU's model too, and compare. */
static uint32_t count_wrong_layers(struct weir_space *space, const struct model *m,
				   struct model *on_cpu)
{
	uint32_t *values = make_values(nr_values(NR_LAYERS - 1), 0), nr = 0;

	for (uint32_t epoch = 0; epoch < NR_EPOCHS; epoch++)
		train_epoch(NULL, NULL, on_cpu);
	for (uint32_t l = 0; l < NR_LAYERS; l++) {
		must(weir_read(space, values, m->layer[l], nr_bytes(l)), "read");
		nr += memcmp(values, on_cpu->layer[l], nr_bytes(l)) != 0;
	}
	free(values);
	return nr;
}

int main(void)
{
	const struct weir_space_config config = {.budget_bytes = {[1] = 16u << 20}, /* of "gpu0" */
						 .mode = WEIR_PLANNED};
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	struct weir_space_stats stats;
	struct model m, on_cpu;
	uint32_t nr_wrong;

	weir_log_set(print_message, NULL);
	must(weir_machine_simulate(&example_machine, WEIR_DATA_REAL, &machine), "machine");
	must(weir_stream_create(machine, 0, &stream), "stream");
	must(weir_space_create(machine, &config, &space), "space");

	make_model(&on_cpu);
	m.x = upload(space, stream, on_cpu.x, nr_bytes(NR_LAYERS - 1));
	for (uint32_t l = 0; l < NR_LAYERS; l++)
		m.layer[l] = upload(space, stream, on_cpu.layer[l], nr_bytes(l));
	train(machine, space, stream, &m);
	nr_wrong = count_wrong_layers(space, &m, &on_cpu);

	weir_space_query(space, &stats);
	printf("%llu MiB of data, at most %llu MiB of them in GPU memory; %u wrong layers\n",
	       (unsigned long long)(stats.live_peak_bytes >> 20),
	       (unsigned long long)(stats.memory[1].peak_bytes >> 20), nr_wrong);

	for (uint32_t l = 0; l < NR_LAYERS; l++) {
		must(weir_free(space, m.layer[l], stream), "free");
		free(on_cpu.layer[l]);
	}
	must(weir_free(space, m.x, stream), "free");
	free(on_cpu.x);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return nr_wrong != 0;
}
