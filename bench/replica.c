/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir_begin() and weir_end() cost the host with replicated ranges, on a simulated machine
 * without bytes: devices in a ring, each of which reads its part of one array with an edge of both
 * neighbours' parts, and writes its part of another one, so that each bracket is sent two messages
 * and causes two. One thread drives all devices, or each has a thread, and all meet after each
 * step. The time of the backend's calls is measured by itself and taken off: weir's own is what is
 * left. Of several threads that is time of the processor, which has no waits for a lock in it.
 *
 * Usage: bench_replica [SAMPLES]. One JSON object a line; times are nanoseconds of the host.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/backend/machine.h"
#include "src/base/clock.h"
#include "src/base/util.h"
#include "weir/machine_file.h"
#include "weir/replica.h"

#define PART (UINT64_C(8) << 20) /* of each device, in each array */
#define EDGE (UINT64_C(64) << 10)
#define WARM_UP 100u

struct ring {
	bool threads; /* one a device */
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
static _Thread_local uint64_t calls_ns, nr_calls, nr_asked;
static uint64_t clock_ns; /* that it takes to look at the clock */

/* The time since then, with that of looking at the clock: twice in all, of which the difference has
 * one. */
static void take_off(uint64_t start)
{
	calls_ns += clock_now_ns() - start + clock_ns;
}

static int note(uint64_t start, int err)
{
	take_off(start);
	nr_calls++;
	return err;
}

static int compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void time_clock(void)
{
	int64_t ns[1001], start = (int64_t)clock_now_ns();

	for (size_t i = 0; i < ARRAY_LEN(ns); i++) {
		for (int n = 0; n < 10; n++)
			ns[i] = (int64_t)clock_now_ns();
		ns[i] -= start;
		start += ns[i];
	}
	qsort(ns, ARRAY_LEN(ns), sizeof(*ns), compare);
	clock_ns = (uint64_t)ns[ARRAY_LEN(ns) / 2] / 10;
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

	take_off(start);
	nr_asked += !done; /* what is done is known mostly, and no call of the driver */
	return done;
}

static int timed_access_begin(struct backend *b, stream_id_t stream, const void *owner,
			      const struct weir_use *uses, uint32_t nr)
{
	uint64_t start = clock_now_ns();
	int err = plain.access_begin(b, stream, owner, uses, nr);

	take_off(start); /* the simulator's alone */
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

static uint64_t now_ns(const struct ring *r)
{
	struct timespec t;

	if (!r->threads || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		return clock_now_ns();
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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

	start = now_ns(r);
	must(weir_begin(r->space, r->stream[d], uses, 2), "begin");
	ns = now_ns(r) - start;
	must(weir_stream_launch(r->stream[d], &launch), "launch");
	start = now_ns(r);
	must(weir_end(r->space, r->stream[d]), "end");
	return ns + now_ns(r) - start;
}

/* What drives some of the devices. */
struct driver {
	struct ring *r;
	uint32_t first, nr;
	pthread_barrier_t *step; /* NULL: there is one driver */
	uint32_t nr_steps;
	int64_t *own; /* a sample for each device and step */
	uint64_t calls, asked;
	pthread_t thread;
};

static void *drive(void *arg)
{
	struct driver *v = arg;

	for (uint32_t step = 0; step < v->nr_steps; step++) {
		for (uint32_t d = v->first; d < v->first + v->nr; d++) {
			int64_t *own = &v->own[step * v->r->nr_devices + d];

			calls_ns = nr_calls = nr_asked = 0;
			*own = (int64_t)bracket(v->r, d, step);
			*own -= (int64_t)calls_ns;
			v->calls += nr_calls;
			v->asked += nr_asked;
		}
		if (v->step)
			(void)pthread_barrier_wait(v->step);
	}
	return NULL;
}

/* calls: of the backend; asked: of these, beside them, whether something is done that was not. */
static void drive_all(struct ring *r, uint32_t nr_steps, int64_t *own, uint64_t *calls,
		      uint64_t *asked)
{
	struct driver driver[WEIR_DEVICES_MAX] = {
		{.r = r, .nr = r->nr_devices, .nr_steps = nr_steps, .own = own}};
	pthread_barrier_t step;

	if (!r->threads) {
		(void)drive(&driver[0]);
		*calls = driver[0].calls;
		*asked = driver[0].asked;
		return;
	}
	*calls = *asked = 0;
	must(-pthread_barrier_init(&step, NULL, r->nr_devices), "barrier");
	for (uint32_t d = 0; d < r->nr_devices; d++) {
		driver[d] = (struct driver){r, d, 1, &step, nr_steps, own, 0, 0, 0};
		must(-pthread_create(&driver[d].thread, NULL, drive, &driver[d]), "thread");
	}
	for (uint32_t d = 0; d < r->nr_devices; d++) {
		must(-pthread_join(driver[d].thread, NULL), "thread");
		*calls += driver[d].calls;
		*asked += driver[d].asked;
	}
	pthread_barrier_destroy(&step);
}

static void measure(uint32_t nr_devices, bool threads, uint32_t nr_samples)
{
	uint32_t nr_steps = nr_samples / nr_devices + 1;
	int64_t *own = calloc((MAX(nr_steps, WARM_UP) + 1) * (size_t)nr_devices, sizeof(*own));
	struct weir_replica_stats before, after;
	struct ring r = {.threads = threads};
	uint64_t calls, asked, messages = 0;

	if (!own) {
		fprintf(stderr, "bench_replica: no memory for samples\n");
		exit(1);
	}
	ring_open(&r, nr_devices);
	drive_all(&r, WARM_UP, own, &calls, &asked);
	weir_replica_query(r.space, &before);
	drive_all(&r, nr_steps, own, &calls, &asked);
	weir_replica_query(r.space, &after);
	for (int kind = 0; kind < WEIR_MESSAGE_KIND_NR; kind++)
		messages += after.nr_messages[kind] - before.nr_messages[kind];
	must(weir_space_sync(r.space), "sync");
	nr_samples = nr_steps * nr_devices;
	qsort(own, nr_samples, sizeof(*own), compare);
	printf("{\"devices\": %u, \"threads\": %u, \"messages_per_bracket\": %.2f, "
	       "\"calls_per_bracket\": %.2f, \"asked_per_bracket\": %.2f, "
	       "\"own_ns\": {\"min\": %lld, \"median\": %lld, \"p99\": %lld}, \"samples\": %u}\n",
	       nr_devices, threads ? nr_devices : 1, (double)messages / nr_samples,
	       (double)calls / nr_samples, (double)asked / nr_samples, (long long)own[0],
	       (long long)own[nr_samples / 2], (long long)own[nr_samples - 1 - nr_samples / 100],
	       nr_samples);
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
	time_clock();
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		measure(devices[i], false, (uint32_t)nr);
	measure(8, true, (uint32_t)nr);
	return 0;
}
