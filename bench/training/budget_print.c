/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is printed of --what budget: a line for each sample, one for each class, and what they are
 * compared with: 1.2 times the bare mapping calls of the chunks that left (the median of those
 * before and after the training), and 1.1 times the bytes that were copied to the host over the
 * link's rate, and what the launches still took that used the memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/shared/samples.h"
#include "bench/training/budget.h"
#include "src/cost/cost.h"

#define CALLS_FACTOR 1.2
#define LINK_FACTOR 1.1
#define TIMES_NR 4u /* of a class */

struct expectation {
	double chunk_ns;     /* of mapping calls */
	double host_bytes_s; /* from the memory to the host */
	uint64_t block_bytes;
};

static void expectation_make(const struct training_options *asked, struct expectation *out)
{
	const struct weir_machine_desc *desc = &asked->params.machine;
	const struct budget_samples *samples = budget_samples();
	const int link = cost_link_find(desc, asked->memory, bench_host_memory(&asked->params));
	uint64_t ns[2 * BUDGET_CALLS];

	memcpy(ns, samples->before_ns, sizeof(samples->before_ns));
	memcpy(ns + BUDGET_CALLS, samples->after_ns, sizeof(samples->after_ns));
	samples_sort(ns, 2 * BUDGET_CALLS);
	*out = (struct expectation){
		.chunk_ns = (double)ns[BUDGET_CALLS] / samples->nr_chunks,
		.host_bytes_s = cost_copy_bytes_per_s(&desc->link[link], asked->memory),
		.block_bytes = samples->block_bytes,
	};
}

static uint64_t expected_ns(const struct expectation *e, const struct budget_sample *s)
{
	const double chunks = (double)s->taken.freed_bytes / (double)e->block_bytes;
	const double bytes = (double)(s->evicted_bytes + s->written_back_bytes);

	return (uint64_t)(CALLS_FACTOR * e->chunk_ns * chunks +
			  LINK_FACTOR * bytes / e->host_bytes_s * 1e9) +
	       s->used_ns;
}

static void print_sample(const struct expectation *e, const struct budget_sample *s)
{
	const struct taken *t = &s->taken;

	printf(",\"epoch\":%" PRIu32 ",\"point\":%" PRIu32 ",\"class\":\"%s\",\"busy\":%s",
	       s->epoch + 1, s->point + 1, budget_class_name[budget_class_of(s)],
	       s->busy ? "true" : "false");
	printf(",\"set_budget_ns\":%" PRIu64 ",\"expected_ns\":%" PRIu64 ",\"grow_ns\":%" PRIu64,
	       s->shrink_ns, expected_ns(e, s), s->grow_ns);
	printf(",\"held_bytes\":%" PRIu64 ",\"freed_bytes\":%" PRIu64 ",\"evicted_bytes\":%" PRIu64
	       ",\"written_back_bytes\":%" PRIu64 ",\"elsewhere_bytes\":%" PRIu64,
	       t->held_bytes, t->freed_bytes, s->evicted_bytes, s->written_back_bytes,
	       s->elsewhere_bytes);
	printf(",\"blocks\":%" PRIu32 ",\"used_blocks\":%" PRIu32 ",\"used_ns\":%" PRIu64
	       ",\"queued_launches\":%" PRIu32 ",\"queued_ns\":%" PRIu64,
	       t->nr_blocks, t->nr_used, s->used_ns, t->nr_queued, s->queued_ns);
	printf(",\"calls\":%" PRIu32 ",\"calls_ns\":%" PRIu64 ",\"waits\":%" PRIu32
	       ",\"waited_ns\":%" PRIu64 "}\n",
	       t->nr_calls, t->calls_ns, t->nr_waits, t->waited_ns);
}

/* Samples of one class, in the arrays of ns, which have room for all. */
static void print_class(const struct expectation *e, enum budget_class class,
			uint64_t *ns[TIMES_NR])
{
	const struct budget_samples *samples = budget_samples();
	uint32_t nr = 0, nr_busy = 0, nr_within = 0;

	for (uint32_t i = 0; i < samples->nr; i++) {
		const struct budget_sample *s = &samples->sample[i];

		if (budget_class_of(s) != class)
			continue;
		ns[0][nr] = s->shrink_ns;
		ns[1][nr] = expected_ns(e, s);
		ns[2][nr] = s->taken.calls_ns;
		ns[3][nr] = s->grow_ns;
		nr_busy += s->busy;
		nr_within += ns[0][nr] <= ns[1][nr];
		nr++;
	}
	printf(",\"class\":\"%s\",\"samples\":%" PRIu32 ",\"busy\":%" PRIu32 ",\"within\":%" PRIu32,
	       budget_class_name[class], nr, nr_busy, nr_within);
	samples_print("set_budget_ns", ns[0], nr);
	samples_print("expected_ns", ns[1], nr);
	samples_print("calls_ns", ns[2], nr);
	samples_print("grow_ns", ns[3], nr);
	printf("}\n");
}

static void print_calls(void)
{
	struct budget_samples samples = *budget_samples();

	printf(",\"bytes\":%u,\"block_bytes\":%" PRIu64 ",\"calls_chunks\":%" PRIu32,
	       TRAINING_BUDGET_STEP, samples.block_bytes, samples.nr_chunks);
	samples_print("calls_before_ns", samples.before_ns, BUDGET_CALLS);
	samples_print("calls_after_ns", samples.after_ns, BUDGET_CALLS);
	samples_print("calls_training_ns", &samples.training_ns, samples.training_ns ? 1 : 0);
	printf("}\n");
}

int budget_print(const struct training_options *asked, void (*begin)(void))
{
	const struct budget_samples *samples = budget_samples();
	uint64_t *ns = calloc(TIMES_NR * (size_t)asked->samples, sizeof(*ns)), *arrays[TIMES_NR];
	struct expectation e;

	if (!ns)
		return -ENOMEM;
	for (size_t i = 0; i < TIMES_NR; i++)
		arrays[i] = ns + i * asked->samples;
	expectation_make(asked, &e);
	for (uint32_t i = 0; i < samples->nr; i++) {
		begin();
		printf(",\"sample\":%" PRIu32, i + 1);
		print_sample(&e, &samples->sample[i]);
	}
	begin();
	print_calls();
	for (int i = 0; i < BUDGET_CLASS_NR; i++) {
		begin();
		print_class(&e, (enum budget_class)i, arrays);
	}
	free(ns);
	return 0;
}
