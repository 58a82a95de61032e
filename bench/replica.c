/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir_begin() and weir_end() cost the host with replicated ranges, on a simulated machine
 * without bytes: devices in a ring, each of which reads its part of one array with an edge of both
 * neighbours' parts, and writes its part of another one, so that each bracket is sent two messages
 * and causes two. One thread drives all devices. The time of the backend's calls is measured by
 * itself and taken off: weir's own is what is left.
 *
 * Usage: bench_replica [SAMPLES]. One JSON object a line; times are nanoseconds of the host.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "weir/machine_file.h"
#include "weir/replica.h"

#define PART (UINT64_C(8) << 20) /* of each device, in each array */
#define EDGE (UINT64_C(64) << 10)
#define WARM_UP 100u

struct ring {
	struct weir_machine *machine;
	struct weir_space *space;
	uint32_t nr_devices;
	struct weir_stream *stream[WEIR_DEVICES_MAX];
	char *window[2][WEIR_DEVICES_MAX];
};

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_replica: %s: %s\n", what, weir_strerror(err));
	exit(1);
}

/* ------------------------------------------------------------------ the backend's share */

static struct backend_ops plain, timed;
static uint64_t calls_ns, nr_calls;

static int note(uint64_t start, int err)
{
	calls_ns += clock_now_ns() - start;
	nr_calls++;
	return err;
}

static int timed_wait(struct backend *b, stream_id_t stream, fence_t fence)
{
	uint64_t start = clock_now_ns();

	return note(start, plain.stream_wait(b, stream, fence));
}

static int timed_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copies,
		      uint32_t nr)
{
	uint64_t start = clock_now_ns();

	return note(start, plain.copy_beside(b, stream, copies, nr));
}

static int timed_record(struct backend *b, stream_id_t stream, fence_t *out)
{
	uint64_t start = clock_now_ns();

	return note(start, plain.fence_record(b, stream, out));
}

static int timed_done(struct backend *b, fence_t fence)
{
	uint64_t start = clock_now_ns();
	int done = plain.fence_done(b, fence);

	calls_ns += clock_now_ns() - start; /* no call of the driver, where it is known */
	return done;
}

static int timed_access_begin(struct backend *b, stream_id_t stream, const void *owner,
			      const struct weir_use *uses, uint32_t nr)
{
	uint64_t start = clock_now_ns();
	int err = plain.access_begin(b, stream, owner, uses, nr);

	calls_ns += clock_now_ns() - start; /* the simulator's alone */
	return err;
}

static void time_calls(struct weir_machine *machine)
{
	struct backend *b = machine_backend(machine);

	plain = timed = *b->ops;
	timed.stream_wait = timed_wait;
	timed.copy_beside = timed_copy;
	timed.fence_record = timed_record;
	timed.fence_done = timed_done;
	timed.access_begin = timed_access_begin;
	b->ops = &timed;
}

/* ------------------------------------------------------------------ the ring */

static void ring_open(struct ring *r, uint32_t nr_devices)
{
	struct weir_space_config config = {.mode = WEIR_PLANNED,
					   .devices = (UINT64_C(1) << nr_devices) - 1};
	struct weir_machine_desc desc;
	char why[512];
	void *addr;

	if (weir_machine_file_read("h200x8", &desc, why, sizeof(why))) {
		fprintf(stderr, "bench_replica: %s\n", why);
		exit(1);
	}
	config.block_bytes = desc.vmm.granularity_bytes;
	r->nr_devices = nr_devices;
	must(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &r->machine), "machine");
	time_calls(r->machine);
	must(weir_space_create(r->machine, &config, &r->space), "space");
	for (uint32_t d = 0; d < nr_devices; d++)
		must(weir_stream_create(r->machine, d, &r->stream[d]), "stream");
	for (int i = 0; i < 2; i++) {
		must(weir_alloc(r->space, PART * nr_devices, NULL, &addr), "alloc");
		must(weir_replicate(r->space, addr, NULL), "replicate");
		for (uint32_t d = 0; d < nr_devices; d++) {
			void *window;

			must(weir_replica(r->space, addr, d, &window), "window");
			r->window[i][d] = window;
		}
	}
}

static void ring_close(struct ring *r)
{
	weir_space_destroy(r->space);
	for (uint32_t d = 0; d < r->nr_devices; d++)
		weir_stream_destroy(r->stream[d]);
	weir_machine_close(r->machine);
}

/* The bracket of one device in one step, with a kernel that takes 100 us. @return ns */
static uint64_t bracket(struct ring *r, uint32_t d, uint32_t step)
{
	static const struct weir_kernel kernel = {.name = "ring"};
	char *in = r->window[step % 2][d], *out = r->window[!(step % 2)][d];
	uint64_t first = d * PART - (d ? EDGE : 0);
	uint64_t end = (d + 1) * PART + (d + 1 < r->nr_devices ? EDGE : 0), start, ns;
	const struct weir_use uses[] = {
		{.addr = in + first, .bytes = end - first, .kind = WEIR_READ},
		{.addr = out + d * PART, .bytes = PART, .kind = WEIR_OVERWRITE},
	};
	const struct weir_launch launch = {
		.kernel = &kernel, .uses = uses, .nr_uses = 2, .ops = 5e9};

	start = clock_now_ns();
	must(weir_begin(r->space, r->stream[d], uses, 2), "begin");
	ns = clock_now_ns() - start;
	must(weir_stream_launch(r->stream[d], &launch), "launch");
	start = clock_now_ns();
	must(weir_end(r->space, r->stream[d]), "end");
	return ns + clock_now_ns() - start;
}

static int compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void measure(uint32_t nr_devices, uint32_t nr_samples)
{
	int64_t *own = calloc(nr_samples, sizeof(*own));
	struct weir_replica_stats before, after;
	uint64_t calls = 0, messages = 0;
	struct ring r;
	uint32_t n = 0;

	if (!own)
		must(-12, "samples");
	ring_open(&r, nr_devices);
	for (uint32_t step = 0; step < WARM_UP; step++)
		for (uint32_t d = 0; d < nr_devices; d++)
			(void)bracket(&r, d, step);
	weir_replica_query(r.space, &before);
	for (uint32_t step = WARM_UP; n < nr_samples; step++)
		for (uint32_t d = 0; d < nr_devices && n < nr_samples; d++) {
			calls_ns = nr_calls = 0;
			own[n] = (int64_t)bracket(&r, d, step);
			own[n++] -= (int64_t)calls_ns;
			calls += nr_calls;
		}
	weir_replica_query(r.space, &after);
	for (int kind = 0; kind < WEIR_MESSAGE_KIND_NR; kind++)
		messages += after.nr_messages[kind] - before.nr_messages[kind];
	must(weir_space_sync(r.space), "sync");
	qsort(own, nr_samples, sizeof(*own), compare);
	printf("{\"devices\": %u, \"messages_per_bracket\": %.2f, \"calls_per_bracket\": %.2f, "
	       "\"own_ns\": {\"min\": %lld, \"median\": %lld, \"p99\": %lld}, \"samples\": %u}\n",
	       nr_devices, (double)messages / nr_samples, (double)calls / nr_samples,
	       (long long)own[0], (long long)own[nr_samples / 2],
	       (long long)own[nr_samples - 1 - nr_samples / 100], nr_samples);
	ring_close(&r);
	free(own);
}

int main(int argc, char **argv)
{
	static const uint32_t devices[] = {1, 2, 4, 8};
	unsigned long nr = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000;

	if (argc > 2 || !nr || nr > UINT32_MAX) {
		fprintf(stderr, "usage: bench_replica [SAMPLES]\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		measure(devices[i], (uint32_t)nr);
	return 0;
}
