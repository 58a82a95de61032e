/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat that spreads along a rod, computed by all GPUs of a machine: each has a part of the rod, and
 * reads one element of either neighbour's. The rod is two replicated arrays, read and written in
 * turn. A GPU's kernels use its own addresses of them; the elements at the borders are sent to
 * those who read them, ahead of time once weir has seen who that is.
 *
 *     replicas [MACHINE]
 *
 *     cc replicas.c $(pkg-config --cflags --libs weir-machine)
 */
#include <stdint.h>
#include <string.h>

#include <weir/machine_file.h>
#include <weir/replica.h>

#include "machine.h"

#define NR_ELEMENTS (1u << 20)
#define ROD_BYTES (NR_ELEMENTS * sizeof(float))
#define NR_STEPS 20u

struct program {
	struct weir_machine *machine;
	struct weir_space *space;
	uint32_t nr_devices;
	struct weir_stream *stream[WEIR_DEVICES_MAX];
	void *rod[2];			   /* the one copy of each array */
	void *window[2][WEIR_DEVICES_MAX]; /* where each device has it */
};

struct step_args {
	const float *in;
	float *out;
	uint32_t first, end;
};

/* What a GPU runs; on a simulated machine with real bytes, the CPU does. */
static void step(const void *data)
{
	const struct step_args *a = data;

	for (uint32_t i = a->first; i < a->end; i++) {
		float before = i ? a->in[i - 1] : 0,
		      behind = i + 1 < NR_ELEMENTS ? a->in[i + 1] : 0;

		a->out[i] = 0.25f * before + 0.5f * a->in[i] + 0.25f * behind;
	}
}

static const struct weir_kernel step_kernel = {.name = "step", .cpu = step};

static struct weir_use use_of(void *window, uint32_t first, uint32_t end, enum weir_use_kind kind)
{
	uint64_t bytes = (end - first) * sizeof(float);

	return (struct weir_use){.addr = (float *)window + first,
				 .bytes = bytes,
				 .kind = kind,
				 .read_bytes = kind == WEIR_READ ? bytes : 0,
				 .write_bytes = kind == WEIR_READ ? 0 : bytes};
}

/* One device's part of a step: it reads an element more on either side than it writes. */
static void launch_step(struct program *p, uint32_t device, uint32_t number)
{
	void *in = p->window[number % 2][device], *out = p->window[!(number % 2)][device];
	uint32_t first = (uint32_t)((uint64_t)NR_ELEMENTS * device / p->nr_devices);
	uint32_t end = (uint32_t)((uint64_t)NR_ELEMENTS * (device + 1) / p->nr_devices);
	const struct step_args args = {in, out, first, end};
	const struct weir_use uses[] = {
		use_of(in, first ? first - 1 : 0, end < NR_ELEMENTS ? end + 1 : end, WEIR_READ),
		use_of(out, first, end, WEIR_OVERWRITE),
	};
	const struct weir_launch launch = {.kernel = &step_kernel,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};

	must(weir_begin(p->space, p->stream[device], uses, 2), "begin");
	must(weir_stream_launch(p->stream[device], &launch), "launch");
	must(weir_end(p->space, p->stream[device]), "end");
}

/* Steps are queued, and waited for once, at the end. */
static void run(struct program *p)
{
	struct weir_replica_stats stats;
	uint64_t start = weir_machine_now_ns(p->machine);

	for (uint32_t number = 0; number < NR_STEPS; number++)
		for (uint32_t device = 0; device < p->nr_devices; device++)
			launch_step(p, device, number);
	must(weir_space_sync(p->space), "sync");
	weir_replica_query(p->space, &stats);
	printf("%u steps on %u GPUs: %.2f ms; messages: %llu fetched as a step began (%llu bytes), "
	       "%llu sent ahead (%llu bytes)\n",
	       NR_STEPS, p->nr_devices, (double)(weir_machine_now_ns(p->machine) - start) / 1e6,
	       (unsigned long long)stats.nr_messages[WEIR_FETCHED],
	       (unsigned long long)stats.message_bytes[WEIR_FETCHED],
	       (unsigned long long)stats.nr_messages[WEIR_PUBLISHED],
	       (unsigned long long)stats.message_bytes[WEIR_PUBLISHED]);
}

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
	p->nr_devices = desc.nr_devices;
	config.devices = ((uint64_t)1 << p->nr_devices) - 1;
	config.block_bytes = desc.vmm.granularity_bytes;
	must(weir_space_create(p->machine, &config, &p->space), "space");
	for (uint32_t d = 0; d < p->nr_devices; d++)
		must(weir_stream_create(p->machine, d, &p->stream[d]), "stream");
}

static void allocate(struct program *p, const float *rod)
{
	for (int i = 0; i < 2; i++) {
		must(weir_alloc(p->space, ROD_BYTES, NULL, &p->rod[i]), "alloc");
		must(weir_replicate(p->space, p->rod[i], NULL), "replicate");
		for (uint32_t d = 0; d < p->nr_devices; d++)
			must(weir_replica(p->space, p->rod[i], d, &p->window[i][d]), "window");
	}
	must(weir_write(p->space, p->rod[0], rod, ROD_BYTES), "write");
}

/* The same steps by the CPU alone; rod has the beginning, and is used up. */
static uint32_t count_wrong(struct program *p, float *rod)
{
	float *other = malloc(ROD_BYTES), *in = rod, *out = other;
	uint32_t nr = 0;

	if (!other)
		return 1;
	for (uint32_t number = 0; number < NR_STEPS; number++) {
		const struct step_args args = {in, out, 0, NR_ELEMENTS};

		step(&args);
		in = out;
		out = out == other ? rod : other;
	}
	must(weir_read(p->space, out, p->rod[NR_STEPS % 2], ROD_BYTES), "read");
	for (uint32_t i = 0; i < NR_ELEMENTS; i++)
		nr += in[i] != out[i];
	free(other);
	return nr;
}

int main(int argc, char **argv)
{
	float *rod = calloc(NR_ELEMENTS, sizeof(*rod));
	struct program p;
	uint32_t nr_wrong;

	if (!rod)
		return 1;
	memset(&p, 0, sizeof(p));
	weir_log_set(print_message, NULL);
	open_space(&p, argc > 1 ? argv[1] : "h200x4");
	for (uint32_t i = 0; i < NR_ELEMENTS; i += NR_ELEMENTS / 16)
		rod[i] = 1000;
	allocate(&p, rod);
	run(&p);
	nr_wrong = count_wrong(&p, rod);
	printf("%u wrong elements\n", nr_wrong);

	for (int i = 0; i < 2; i++)
		must(weir_free(p.space, p.rod[i], NULL), "free");
	weir_space_destroy(p.space);
	for (uint32_t d = 0; d < p.nr_devices; d++)
		weir_stream_destroy(p.stream[d]);
	weir_machine_close(p.machine);
	free(rod);
	return nr_wrong != 0;
}
