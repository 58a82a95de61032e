/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watching backend on the simulator: what is recorded of work, of calls of the host and of
 * residency, against times worked out by hand; that time is the same with it and without; bounds.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/watch/watch.h"
#include "tests/unit/test_sim_machine.h"

#define UNIT KIB(64)
#define LAUNCH_HOST 300

struct fixture {
	struct weir_machine_desc desc;
	struct backend *b;
	stream_id_t compute, in, out;
	struct backend_chunk hbm, host;
	char *va; /* four units */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct backend *sim;

	assert_non_null(f);
	test_machine(&f->desc);
	assert_int_equal(sim_create(&f->desc, WEIR_DATA_PHANTOM, &sim), 0);
	assert_int_equal(watch_create(sim, &f->b), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COMPUTE, &f->compute), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_IN, &f->in), 0);
	assert_int_equal(f->b->ops->stream_create(f->b, 0, BACKEND_COPY_OUT, &f->out), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, GPU0, UNIT, 0, &f->hbm), 0);
	assert_int_equal(f->b->ops->chunk_create(f->b, HOST, UNIT, 0, &f->host), 0);
	assert_int_equal(f->b->ops->va_reserve(f->b, 4 * UNIT, UNIT, (void **)&f->va), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;

	b->ops->va_release(b, f->va, 4 * UNIT);
	b->ops->chunk_destroy(b, &f->hbm);
	b->ops->chunk_destroy(b, &f->host);
	b->ops->stream_destroy(b, f->compute);
	b->ops->stream_destroy(b, f->in);
	b->ops->stream_destroy(b, f->out);
	b->ops->destroy(b);
	free(f);
	return 0;
}

static void sync_stream(struct fixture *f, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(f->b->ops->fence_record(f->b, stream, &fence), 0);
	assert_int_equal(f->b->ops->fence_wait(f->b, fence), 0);
}

static void launch(struct fixture *f, const struct weir_use *uses, uint32_t nr, double ops)
{
	const struct weir_launch l = {
		.kernel = &touch_kernel, .uses = uses, .nr_uses = nr, .ops = ops};

	assert_int_equal(f->b->ops->launch(f->b, f->compute, &l), 0);
}

static struct watch_log *stop(struct fixture *f)
{
	struct watch_log *log;

	assert_int_equal(watch_stop(f->b, &log), 0);
	return log;
}

/* The n-th event of a kind; NULL: there are fewer. */
static const struct watch_event *event_of(const struct watch_log *log, enum watch_kind kind,
					  uint32_t n)
{
	for (uint32_t i = 0; i < log->nr_events; i++)
		if (log->event[i].kind == kind && !n--)
			return &log->event[i];
	return NULL;
}

/* What is resident at the end of a record. */
static int64_t resident(const struct watch_log *log, uint32_t memory, const char *name)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < log->nr_changes; i++) {
		const struct watch_change *change = &log->change[i];
		const char *of = log->name[change->name];

		assert_true(!i || change->ns >= log->change[i - 1].ns);
		if (change->memory == memory && (name ? of && !strcmp(of, name) : !change->name))
			sum += change->bytes;
	}
	return sum;
}

/* ------------------------------------------------------------------ work */

/* A launch begins when it could: after its call, after the work before it, after what its stream
 * waits for. */
static void test_launch_begins_when_it_could(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	const struct backend_copy copy = {f->hbm.alias, f->host.alias, UNIT};
	const struct watch_event *first, *second, *third;
	struct watch_log *log;
	fence_t copied;
	uint64_t t0;

	assert_int_equal(watch_start(b, 100), 0);
	t0 = b->ops->now_ns(b);
	launch(f, NULL, 0, 1e7); /* 10,000 ns */
	launch(f, NULL, 0, 0);
	assert_int_equal(b->ops->copy(b, f->in, &copy, 1), 0);
	assert_int_equal(b->ops->fence_record(b, f->in, &copied), 0);
	assert_int_equal(b->ops->stream_wait(b, f->compute, copied), 0);
	launch(f, NULL, 0, 0);
	sync_stream(f, f->compute);
	log = stop(f);
	first = event_of(log, WATCH_LAUNCH, 0);
	second = event_of(log, WATCH_LAUNCH, 1);
	third = event_of(log, WATCH_LAUNCH, 2);
	assert_non_null(third);
	assert_null(event_of(log, WATCH_LAUNCH, 3));
	assert_int_equal(log->nr_launches, 3);
	assert_int_equal(log->nr_dropped, 0);
	assert_string_equal(first->name, "touch");
	assert_int_equal(first->begin_ns, t0 + LAUNCH_HOST);
	assert_int_equal(first->end_ns, t0 + LAUNCH_HOST + 10000);
	assert_int_equal(second->begin_ns, first->end_ns);
	assert_int_equal(second->end_ns, first->end_ns + 500);
	assert_int_equal(third->begin_ns, b->observe->fence_time_ns(b, copied));
	assert_int_equal(third->end_ns, third->begin_ns + 500);
	assert_int_equal(log->stream[first->track].id, f->compute);
	watch_log_free(log);
}

/* Batches by direction, with bytes and pieces; transfers; both from the stream's own time on. */
static void test_copies_have_direction_and_bytes(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_copy copies[2] = {
		{f->hbm.alias, f->host.alias, KIB(16)},
		{(char *)f->hbm.alias + KIB(32), (char *)f->host.alias + KIB(32), KIB(8)},
	};
	const struct watch_event *in, *out, *up, *down;
	struct watch_log *log;
	uint64_t t0;

	assert_int_equal(b->ops->map(b, f->va, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(watch_start(b, 100), 0);
	t0 = b->ops->now_ns(b);
	assert_int_equal(b->ops->copy(b, f->in, copies, 2), 0);
	sync_stream(f, f->in);
	copies[0] = (struct backend_copy){f->host.alias, f->hbm.alias, KIB(4)};
	assert_int_equal(b->ops->copy(b, f->out, copies, 1), 0);
	sync_stream(f, f->out);
	assert_int_equal(b->ops->upload(b, f->compute, f->va, NULL, 100), 0);
	assert_int_equal(b->ops->download(b, f->compute, NULL, f->va, 50), 0);
	log = stop(f);
	in = event_of(log, WATCH_COPY, 0);
	out = event_of(log, WATCH_COPY, 1);
	up = event_of(log, WATCH_UPLOAD, 0);
	down = event_of(log, WATCH_DOWNLOAD, 0);
	assert_true(in && out && up && down);
	assert_int_equal(in->bytes[BACKEND_TO_DEVICE], KIB(24));
	assert_int_equal(in->bytes[BACKEND_TO_HOST], 0);
	assert_int_equal(in->pieces, 2);
	assert_int_equal(in->begin_ns, t0);
	assert_int_equal(in->end_ns, t0 + 1000 + 2 * 100 + KIB(24) / 4);
	assert_int_equal(log->stream[in->track].kind, BACKEND_COPY_IN);
	assert_int_equal(out->bytes[BACKEND_TO_HOST], KIB(4));
	assert_int_equal(out->begin_ns, in->end_ns);
	assert_int_equal(up->bytes[BACKEND_TO_DEVICE], 100);
	assert_int_equal(down->bytes[BACKEND_TO_HOST], 50);
	assert_true(up->end_ns > up->begin_ns && down->begin_ns >= up->end_ns);
	watch_log_free(log);
	assert_int_equal(b->ops->unmap(b, f->va), 0);
}

/* What a launch moves in place is as the simulator counts it. */
static void test_launch_bytes_in_place(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	uint64_t before[BACKEND_DIRECTION_NR], after[BACKEND_DIRECTION_NR];
	const struct watch_event *event;
	struct watch_log *log;
	struct weir_use uses[2];
	void *plain;

	assert_int_equal(b->ops->map(b, f->va, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->map(b, f->va + UNIT, &f->host, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->device_alloc(b, HOST, UNIT, &plain), 0);
	/* A quarter of the first use lies in the host's memory, all of the second. */
	uses[0] = use_of(f->va + UNIT / 4, UNIT, WEIR_WRITE);
	uses[1] = use_of((char *)plain + 512, KIB(4), WEIR_READ);
	b->observe->inplace_bytes(b, 0, HOST, before);
	assert_int_equal(watch_start(b, 100), 0);
	launch(f, uses, 2, 0);
	sync_stream(f, f->compute);
	log = stop(f);
	b->observe->inplace_bytes(b, 0, HOST, after);
	event = event_of(log, WATCH_LAUNCH, 0);
	assert_non_null(event);
	assert_int_equal(event->bytes[BACKEND_TO_DEVICE], UNIT / 4 + KIB(4));
	assert_int_equal(event->bytes[BACKEND_TO_HOST], UNIT / 4);
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		assert_int_equal(event->bytes[d], after[d] - before[d]);
	watch_log_free(log);
	b->ops->device_free(b, plain);
	assert_int_equal(b->ops->unmap(b, f->va), 0);
	assert_int_equal(b->ops->unmap(b, f->va + UNIT), 0);
}

/* A packet is a launch of its kernel. Here its elements are the host's: sectors cross the link. */
static void test_packet_is_a_launch(void **state)
{
	struct fixture *f = *state;
	struct backend_packet packet = {.elements = f->host.alias,
					.packet = f->hbm.alias,
					.index = (uint32_t *)f->hbm.alias + 1024,
					.nr = 10,
					.element_bytes = 8,
					.last = 99,
					.sector_bytes = 320,
					.unpack = true};
	const struct watch_event *event;
	struct watch_log *log;

	assert_int_equal(watch_start(f->b, 100), 0);
	assert_int_equal(f->b->ops->packet(f->b, f->compute, &packet), 0);
	packet.unpack = false;
	assert_int_equal(f->b->ops->packet(f->b, f->compute, &packet), 0);
	packet.nr = 0;
	assert_int_equal(f->b->ops->packet(f->b, f->compute, &packet), -EINVAL);
	assert_int_equal(f->b->ops->packet(f->b, f->compute, NULL), -EINVAL);
	sync_stream(f, f->compute);
	log = stop(f);
	assert_int_equal(log->nr_launches, 2);
	event = event_of(log, WATCH_LAUNCH, 0);
	assert_string_equal(event->name, "unpack");
	assert_int_equal(event->bytes[BACKEND_TO_HOST], 320);
	assert_int_equal(event->bytes[BACKEND_TO_DEVICE], 320);
	event = event_of(log, WATCH_LAUNCH, 1);
	assert_string_equal(event->name, "pack");
	assert_int_equal(event->bytes[BACKEND_TO_HOST], 0);
	assert_int_equal(event->bytes[BACKEND_TO_DEVICE], 320);
	watch_log_free(log);
}

/* What two GPUs' memories exchange is not the host's: copies and uses in place, by memory, with the
 * events that they are of, also where others are dropped. */
static void test_flows_between_gpus(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct backend_chunk near;
	struct backend_copy copies[2];
	const struct watch_flow *flow;
	struct weir_use uses[1];
	struct watch_log *log;

	assert_int_equal(b->ops->chunk_create(b, GPU1, UNIT, 0, &near), 0);
	assert_int_equal(b->ops->map(b, f->va, &near, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->map(b, f->va + UNIT, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(watch_start(b, 100), 0);
	copies[0] = (struct backend_copy){f->hbm.alias, near.alias, KIB(16)};
	copies[1] = (struct backend_copy){f->hbm.alias, near.alias, KIB(8)};
	assert_int_equal(b->ops->copy(b, f->in, copies, 2), 0);
	sync_stream(f, f->in);
	uses[0] = use_of(f->va, UNIT, WEIR_READ);
	launch(f, uses, 1, 1e12);
	copies[0] = (struct backend_copy){f->hbm.alias, f->host.alias, KIB(4)};
	copies[1] = (struct backend_copy){f->hbm.alias, near.alias, KIB(4)};
	assert_int_equal(b->ops->copy(b, f->out, copies, 2), 0);
	sync_stream(f, f->out);
	log = stop(f); /* while the launch goes on */
	assert_null(event_of(log, WATCH_LAUNCH, 0));
	assert_int_equal(log->nr_dropped, 1);
	assert_int_equal(log->nr_flows, 2);
	flow = log->flow;
	assert_int_equal(flow[0].bytes, KIB(24));
	assert_true(flow[0].from == GPU1 && flow[0].to == GPU0);
	assert_ptr_equal(&log->event[flow[0].event], event_of(log, WATCH_COPY, 0));
	assert_int_equal(log->event[flow[0].event].bytes[BACKEND_TO_DEVICE], 0);
	assert_int_equal(flow[1].bytes, KIB(4));
	assert_true(flow[1].from == GPU1 && flow[1].to == GPU0);
	assert_ptr_equal(&log->event[flow[1].event], event_of(log, WATCH_COPY, 1));
	assert_int_equal(log->event[flow[1].event].bytes[BACKEND_TO_DEVICE], KIB(4));
	watch_log_free(log);

	sync_stream(f, f->compute);
	assert_int_equal(watch_start(b, 100), 0);
	/* Half of it is in the own memory. */
	uses[0] = use_of(f->va + UNIT / 2, UNIT, WEIR_WRITE);
	launch(f, uses, 1, 0);
	sync_stream(f, f->compute);
	log = stop(f);
	flow = log->flow;
	assert_int_equal(log->nr_flows, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(flow[i].bytes, UNIT / 2);
		assert_int_equal(log->event[flow[i].event].bytes[i], 0);
		assert_ptr_equal(&log->event[flow[i].event], event_of(log, WATCH_LAUNCH, 0));
	}
	assert_true(flow[0].from + flow[0].to == GPU0 + GPU1);
	assert_true(flow[0].from == flow[1].to && flow[0].to == flow[1].from);
	watch_log_free(log);
	assert_int_equal(b->ops->unmap(b, f->va), 0);
	assert_int_equal(b->ops->unmap(b, f->va + UNIT), 0);
	b->ops->chunk_destroy(b, &near);
}

/* Work between the two calls is the message's, and no other; what failed is not sent; no more are
 * kept than events. */
static void test_messages(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	const struct backend_message message = {
		.range = 3, .offset = 8, .end = 24, .bytes = 12, .from = GPU0, .to = HOST};
	const struct backend_copy copy = {f->host.alias, f->hbm.alias, KIB(4)};
	struct watch_log *log;

	b->observe->message_begin(b, &message); /* before the record, and into it */
	assert_int_equal(watch_start(b, 5), 0);
	assert_int_equal(b->ops->copy(b, f->out, &copy, 1), 0);
	b->observe->message_end(b, true);
	b->observe->message_begin(b, &message);
	b->observe->message_end(b, false);
	b->observe->message_begin(b, &message);
	assert_int_equal(b->ops->copy(b, f->out, &copy, 1), 0);
	assert_int_equal(b->ops->copy(b, f->out, &copy, 1), 0);
	b->observe->message_end(b, true);
	assert_int_equal(b->ops->copy(b, f->out, &copy, 1), 0);
	for (int i = 0; i < 4; i++) {
		b->observe->message_begin(b, &message);
		b->observe->message_end(b, true);
	}
	sync_stream(f, f->out);
	log = stop(f);
	assert_int_equal(log->nr_messages, 5);
	assert_int_equal(log->nr_dropped, 1);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(event_of(log, WATCH_COPY, i)->message, i == 1 || i == 2 ? 2 : 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_memory_equal(&log->message[i].message, &message, sizeof(message));
		assert_int_equal(log->message[i].sent, i > 0);
	}
	watch_log_free(log);
}

/* ------------------------------------------------------------------ the host, residency */

static void test_calls_of_the_host(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	const struct watch_event *map, *access, *unmap, *create, *wait;
	struct backend_chunk chunk;
	struct watch_log *log;
	uint64_t t0;

	assert_int_equal(watch_start(b, 100), 0);
	t0 = b->ops->now_ns(b);
	assert_int_equal(b->ops->map(b, f->va, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->set_access(b, f->va, BACKEND_PROT_READ, 1), 0);
	assert_int_equal(b->ops->unmap(b, f->va), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UNIT, 1, &chunk), 0);
	launch(f, NULL, 0, 0);
	sync_stream(f, f->compute);
	sync_stream(f, f->compute); /* takes no time: not recorded */
	log = stop(f);
	map = event_of(log, WATCH_MAP, 0);
	access = event_of(log, WATCH_ACCESS, 0);
	unmap = event_of(log, WATCH_UNMAP, 0);
	create = event_of(log, WATCH_CREATE, 0);
	wait = event_of(log, WATCH_WAIT, 0);
	assert_true(map && access && unmap && create && wait);
	assert_null(event_of(log, WATCH_WAIT, 1));
	assert_int_equal(map->begin_ns, t0);
	assert_int_equal(map->end_ns, t0 + 600 + 19000);
	assert_int_equal(map->bytes[0], UNIT);
	assert_int_equal(access->end_ns - access->begin_ns, 19000);
	assert_int_equal(unmap->end_ns - unmap->begin_ns, 13000);
	assert_int_equal(create->end_ns - create->begin_ns, 11000);
	assert_int_equal(wait->end_ns - wait->begin_ns, 500);
	assert_int_equal(map->track, WATCH_PROGRAM);
	watch_log_free(log);
	b->ops->chunk_destroy(b, &chunk);
}

struct migrator {
	struct fixture *f;
	uint64_t nr;
};

static void migrate_once(void *arg)
{
	struct migrator *m = arg;

	if (!m->nr++)
		assert_int_equal(
			m->f->b->ops->map(m->f->b, m->f->va, &m->f->hbm, BACKEND_PROT_WRITE, 1), 0);
}

/* Calls that are made in a progress function are the migrator's, on its own clock. */
static void test_calls_of_the_migrator(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct migrator m = {.f = f}, other = {.f = f, .nr = 1};
	const struct watch_event *map;
	struct watch_log *log;

	assert_int_equal(b->ops->set_progress(b, migrate_once, &m), 0);
	assert_int_equal(b->ops->set_progress(b, migrate_once, &other), 0);
	assert_int_equal(watch_start(b, 100), 0);
	launch(f, NULL, 0, 0);
	sync_stream(f, f->compute);
	b->ops->host_spend(b, 100000);
	log = stop(f);
	map = event_of(log, WATCH_MAP, 0);
	assert_non_null(map);
	assert_int_equal(map->track, WATCH_MIGRATOR);
	assert_int_equal(event_of(log, WATCH_WAIT, 0)->track, WATCH_PROGRAM);
	watch_log_free(log);
	assert_true(m.nr > 0 && other.nr == m.nr + 1);
	assert_int_equal(b->ops->set_progress(b, NULL, &m), 0);
	assert_int_equal(b->ops->unmap(b, f->va), 0);
	launch(f, NULL, 0, 0);
	sync_stream(f, f->compute);
	b->ops->host_spend(b, 100000);
	assert_true(other.nr > m.nr + 1);
	assert_int_equal(b->ops->set_progress(b, NULL, &other), 0);
	assert_int_equal(b->ops->set_progress(b, NULL, &other), 0);
}

static void test_residency_by_memory_and_name(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct watch_log *log;
	void *plain;

	/* What was there before the start is known at the start. */
	assert_int_equal(b->ops->map(b, f->va, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	watch_name(b, f->va, UNIT + UNIT / 2, "x");
	watch_name(b, f->va + UNIT + UNIT / 2, UNIT / 2, "y");
	assert_int_equal(watch_start(b, 100), 0);
	/* Mapped at two addresses, a chunk is there once. */
	assert_int_equal(b->ops->map(b, f->va + 3 * UNIT, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	/* A unit with two names. */
	assert_int_equal(b->ops->map(b, f->va + UNIT, &f->host, BACKEND_PROT_WRITE, 1), 0);
	assert_int_equal(b->ops->device_alloc(b, GPU0, 1000, &plain), 0);
	watch_name(b, plain, 900, "z");
	log = stop(f);
	assert_int_equal(resident(log, GPU0, NULL), UNIT + 1000);
	assert_int_equal(resident(log, HOST, NULL), UNIT);
	assert_int_equal(resident(log, GPU0, "x"), UNIT);
	assert_int_equal(resident(log, HOST, "x"), UNIT / 2);
	assert_int_equal(resident(log, HOST, "y"), UNIT / 2);
	assert_int_equal(resident(log, GPU0, "z"), 900);
	watch_log_free(log);

	assert_int_equal(watch_start(b, 100), 0);
	watch_name(b, f->va, 0, NULL);
	watch_name(b, f->va, UNIT, "again");
	watch_name(b, plain, 0, NULL);
	watch_name(b, f->va + 7, 0, NULL); /* nothing begins there */
	b->ops->device_free(b, plain);
	assert_int_equal(b->ops->unmap(b, f->va + UNIT), 0);
	assert_int_equal(b->ops->unmap(b, f->va + 3 * UNIT), 0);
	log = stop(f);
	assert_int_equal(resident(log, GPU0, NULL), UNIT);
	assert_int_equal(resident(log, HOST, NULL), 0);
	assert_int_equal(resident(log, GPU0, "x"), 0);
	assert_int_equal(resident(log, GPU0, "again"), UNIT);
	assert_int_equal(resident(log, HOST, "y"), 0);
	assert_int_equal(resident(log, GPU0, "z"), 0);
	watch_log_free(log);
	assert_int_equal(b->ops->unmap(b, f->va), 0);
}

/* ------------------------------------------------------------------ bounds */

static void test_memory_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct backend *b = f->b;
	struct watch_log *log;

	assert_int_equal(watch_start(b, 4), 0);
	assert_int_equal(watch_start(b, 4), -EBUSY);
	for (int i = 0; i < 10; i++)
		launch(f, NULL, 0, 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(b->ops->map(b, f->va, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
		assert_int_equal(b->ops->unmap(b, f->va), 0);
	}
	sync_stream(f, f->compute);
	log = stop(f);
	assert_int_equal(log->nr_events, 4);
	assert_int_equal(log->nr_changes, 8);
	assert_int_equal(log->nr_launches, 10);
	/* 6 launches, 20 calls and 12 changes; nothing was waited for any more. */
	assert_int_equal(log->nr_dropped, 6 + 20 + 12);
	watch_log_free(log);
	assert_int_equal(watch_stop(b, &log), -EINVAL);
}

/* What is not done when recording stops has no time. */
static void test_unfinished_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct watch_log *log;

	assert_int_equal(watch_start(f->b, 100), 0);
	launch(f, NULL, 0, 0);
	sync_stream(f, f->compute);
	launch(f, NULL, 0, 1e9);
	log = stop(f);
	assert_non_null(event_of(log, WATCH_LAUNCH, 0));
	assert_null(event_of(log, WATCH_LAUNCH, 1));
	assert_int_equal(log->nr_launches, 2);
	assert_int_equal(log->nr_dropped, 1);
	watch_log_free(log);
	/* Nor does it come up in the next record. */
	assert_int_equal(watch_start(f->b, 100), 0);
	sync_stream(f, f->compute);
	log = stop(f);
	assert_null(event_of(log, WATCH_LAUNCH, 0));
	assert_int_equal(log->nr_dropped, 0);
	watch_log_free(log);
}

/* More work in flight than a simulated stream keeps times of: the newest are recorded. */
static void test_too_old_is_dropped(void **state)
{
	enum { NR = 40000 };
	struct fixture *f = *state;
	struct watch_log *log;

	assert_int_equal(watch_start(f->b, 2 * NR), 0);
	launch(f, NULL, 0, 1e9 * NR); /* all others are queued behind it */
	for (int i = 1; i < NR; i++)
		launch(f, NULL, 0, 0);
	sync_stream(f, f->compute);
	log = stop(f);
	assert_int_equal(log->nr_launches, NR);
	assert_true(log->nr_dropped > 0 && log->nr_dropped < NR / 2);
	assert_true(log->nr_events + log->nr_dropped >= NR);
	for (uint32_t i = 1; i < log->nr_events; i++)
		assert_true(log->event[i].kind != WATCH_LAUNCH ||
			    log->event[i].end_ns > log->event[i].begin_ns);
	watch_log_free(log);
}

/* A mark that fails costs a time, never the launch; a launch that fails is not recorded. */
static void test_marks_that_fail(void **state)
{
	struct backend *sim, *flaky;
	struct fixture f;
	struct watch_log *log;

	(void)state;
	test_machine(&f.desc);
	assert_int_equal(sim_create(&f.desc, WEIR_DATA_PHANTOM, &sim), 0);
	assert_int_equal(flaky_create(sim, &flaky), 0);
	assert_int_equal(watch_create(flaky, &f.b), 0);
	assert_int_equal(f.b->ops->stream_create(f.b, 0, BACKEND_COMPUTE, &f.compute), 0);
	assert_int_equal(watch_start(f.b, 100), 0);
	for (uint64_t n = 1; n <= 3; n++) { /* mark, launch, mark */
		const struct weir_launch l = {.kernel = &touch_kernel};

		flaky_arm(flaky, flaky_nr_calls(flaky) + n, -EIO);
		assert_int_equal(f.b->ops->launch(f.b, f.compute, &l), n == 2 ? -EIO : 0);
	}
	launch(&f, NULL, 0, 0);
	sync_stream(&f, f.compute);
	log = stop(&f);
	assert_non_null(event_of(log, WATCH_LAUNCH, 0));
	assert_null(event_of(log, WATCH_LAUNCH, 1));
	assert_int_equal(log->nr_launches, 3);
	assert_int_equal(log->nr_dropped, 2);
	watch_log_free(log);
	f.b->ops->stream_destroy(f.b, f.compute);
	f.b->ops->destroy(f.b);
}

static void test_names_are_bounded(void **state)
{
	struct fixture *f = *state;
	static char name[WATCH_NAMES_MAX + 10][8];
	struct watch_log *log;

	assert_int_equal(f->b->ops->map(f->b, f->va, &f->hbm, BACKEND_PROT_WRITE, 1), 0);
	for (int i = 0; i < WATCH_NAMES_MAX + 10; i++) {
		snprintf(name[i], sizeof(name[i]), "n%d", i);
		watch_name(f->b, f->va + i, 1, name[i]);
	}
	assert_int_equal(watch_start(f->b, 1000), 0);
	log = stop(f);
	assert_int_equal(log->nr_names, WATCH_NAMES_MAX);
	assert_int_equal(resident(log, GPU0, name[WATCH_NAMES_MAX - 2]), 1);
	assert_int_equal(resident(log, GPU0, name[WATCH_NAMES_MAX]), 0);
	watch_log_free(log);
	for (int i = 0; i < WATCH_NAMES_MAX + 10; i++)
		watch_name(f->b, f->va + i, 0, NULL);
	assert_int_equal(f->b->ops->unmap(f->b, f->va), 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(test_launch_begins_when_it_could),
		CASE(test_copies_have_direction_and_bytes),
		CASE(test_launch_bytes_in_place),
		CASE(test_packet_is_a_launch),
		CASE(test_calls_of_the_host),
		CASE(test_calls_of_the_migrator),
		CASE(test_residency_by_memory_and_name),
		CASE(test_memory_is_bounded),
		CASE(test_unfinished_is_dropped),
		CASE(test_too_old_is_dropped),
		cmocka_unit_test(test_marks_that_fail),
		CASE(test_names_are_bounded),
		CASE(test_flows_between_gpus),
		CASE(test_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
