/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case: its elements, and rounds by each way in turn, so that what changes meanwhile changes
 * for all of them. A round is what a program sees, by the machine's clock: device 0 has written its
 * part, its bracket ends, which sends the elements, the readers' brackets begin, each launches an
 * empty kernel behind what it is sent, and their streams are waited for. The time has the calls of
 * the host in it, which a program whose devices are busy hides.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/mechanisms/mechanisms.h"
#include "bench/shared/samples.h"
#include "bench/shared/say.h"
#include "src/base/hash.h"
#include "src/replica/parcel.h"
#include "workloads/probe/kernels.h"

#define WARM_UP 2u /* rounds of each way that do not count: devices get lists, lanes chunks */

/* ------------------------------------------------------------------ elements */

/* Each run lies anywhere in its share of the range. Where two meet they are one. */
static void choose_elements(struct bench_case *c)
{
	uint32_t element = element_size[c->size], of_run = (uint32_t)(c->run_bytes / element);
	uint32_t apart = (uint32_t)(c->apart / element);

	c->nr_runs = 0;
	for (uint64_t run = 0, i = 0; i < c->nr; run++) {
		uint64_t off = hash_mix(hash_mix(run, apart), of_run) % (apart - of_run + 1);
		uint32_t first = (uint32_t)(run * apart + off);

		c->nr_runs += !i || first != c->element[i - 1] + 1;
		for (uint32_t n = 0; n < of_run && i < c->nr; n++)
			c->element[i++] = first + n;
	}
}

static int subscribe(struct rig *rig, const struct bench_case *c, uint64_t nr)
{
	int err = 0;

	for (uint32_t i = 0; i < c->nr_readers && !err; i++)
		err = weir_subscribe_elements(rig->space, rig->range[c->size], c->element, nr,
					      rig->reader[i]);
	return err ? say_error(err, "a list of %llu elements", (unsigned long long)nr) : 0;
}

int case_prepare(struct rig *rig, struct bench_case *c)
{
	uint64_t nr_runs = c->bytes / c->run_bytes;

	c->nr = c->bytes / element_size[c->size];
	c->span = round_up(nr_runs * c->apart, PATTERN_STEP);
	c->element = malloc(c->nr * sizeof(*c->element));
	if (!c->element)
		return say_error(-ENOMEM, "a list of %llu elements", (unsigned long long)c->nr);
	choose_elements(c);
	return subscribe(rig, c, c->nr);
}

void case_release(struct rig *rig, struct bench_case *c)
{
	if (c->element)
		(void)subscribe(rig, c, 0);
	free(c->element);
	c->element = NULL;
}

/* ------------------------------------------------------------------ a round */

/* The writer's bracket: it is open when this returns, and what it wrote is there. */
static int write_open(struct rig *rig, const struct bench_case *c, uint32_t shift)
{
	const struct weir_use uses[] = {
		{.addr = rig->window[c->size][0],
		 .bytes = c->span,
		 .kind = WEIR_OVERWRITE,
		 .write_bytes = c->span},
		{.addr = rig->pattern + (size_t)shift * PATTERN_STEP,
		 .bytes = c->span,
		 .kind = WEIR_READ,
		 .read_bytes = c->span},
	};
	const struct probe_copy_args args = {uses[1].addr, uses[0].addr, c->span};
	const struct weir_launch launch = {.kernel = &probe_kernel_copy,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = ARRAY_LEN(uses)};
	int err = weir_begin(rig->space, rig->stream[0], uses, ARRAY_LEN(uses));

	if (!err)
		err = weir_stream_launch(rig->stream[0], &launch);
	return err ? err : weir_stream_sync(rig->stream[0]);
}

/* The same of one that writes nothing. */
static int idle_open(struct rig *rig)
{
	const struct weir_use use = {
		.addr = rig->pattern, .bytes = PATTERN_STEP, .kind = WEIR_READ};

	return weir_begin(rig->space, rig->stream[0], &use, 1);
}

/* A kernel of each reader has run when this returns; their brackets are open. */
static int read_open(struct rig *rig, const struct bench_case *c)
{
	static const struct probe_empty_args args;
	const struct weir_launch launch = {
		.kernel = &probe_kernel_empty, .args = &args, .args_bytes = sizeof(args)};
	int err = 0;

	for (uint32_t i = 0; i < c->nr_readers && !err; i++) {
		const uint32_t d = rig->reader[i];
		const struct weir_use use = {.addr = rig->window[c->size][d],
					     .bytes = c->span,
					     .kind = WEIR_READ_ELEMENTS};

		err = weir_begin(rig->space, rig->stream[d], &use, 1);
		if (!err)
			err = weir_stream_launch(rig->stream[d], &launch);
	}
	for (uint32_t i = 0; i < c->nr_readers && !err; i++)
		err = weir_stream_sync(rig->stream[rig->reader[i]]);
	return err;
}

static int read_close(struct rig *rig, const struct bench_case *c)
{
	int err = 0;

	for (uint32_t i = 0; i < c->nr_readers && !err; i++)
		err = weir_end(rig->space, rig->stream[rig->reader[i]]);
	return err ? err : weir_space_sync(rig->space);
}

/* idle: nothing is written, and so nothing is sent. */
static int run_round(struct rig *rig, const struct bench_case *c, uint32_t shift, bool idle,
		     uint64_t *ns)
{
	int err = idle ? idle_open(rig) : write_open(rig, c, shift);
	uint64_t start = weir_machine_now_ns(rig->machine);

	if (!err)
		err = weir_end(rig->space, rig->stream[0]);
	if (!err)
		err = read_open(rig, c);
	*ns = weir_machine_now_ns(rig->machine) - start;
	if (!err)
		err = read_close(rig, c);
	return err ? say_error(err, "a publication of %llu bytes", (unsigned long long)c->bytes)
		   : 0;
}

/* ------------------------------------------------------------------ what arrived */

/* A reader's window, as its kernels find it, into a range of its own, and to the host. */
static int copy_window(struct rig *rig, const struct bench_case *c, uint32_t d)
{
	const struct weir_use uses[] = {
		{.addr = rig->window[c->size][d], .bytes = c->span, .kind = WEIR_READ_ELEMENTS},
		{.addr = rig->copied[d], .bytes = c->span, .kind = WEIR_OVERWRITE},
	};
	const struct weir_use touched[] = {
		{.addr = uses[0].addr, .bytes = c->span, .kind = WEIR_READ},
		uses[1],
	};
	const struct probe_copy_args args = {uses[0].addr, uses[1].addr, c->span};
	const struct weir_launch launch = {.kernel = &probe_kernel_copy,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = touched,
					   .nr_uses = ARRAY_LEN(touched)};
	int err = weir_begin(rig->space, rig->stream[d], uses, ARRAY_LEN(uses)), ended;

	if (err)
		return err;
	err = weir_stream_launch(rig->stream[d], &launch);
	ended = weir_end(rig->space, rig->stream[d]);
	err = err ? err : ended;
	return err ? err : weir_read(rig->space, rig->found, rig->copied[d], c->span);
}

/* Count the elements that are not those of a round. */
static int check(struct rig *rig, const struct bench_case *c, uint32_t shift, uint64_t *nr_wrong)
{
	const uint32_t element = element_size[c->size];
	const unsigned char *wanted = rig->wanted + (size_t)shift * PATTERN_STEP;

	for (uint32_t r = 0; r < c->nr_readers; r++) {
		int err = copy_window(rig, c, rig->reader[r]);

		if (err)
			return say_error(err, "what arrived at device %u", rig->reader[r]);
		for (uint64_t i = 0, next; i < c->nr; i = next) {
			uint64_t at = (uint64_t)c->element[i] * element;

			for (next = i + 1; next < c->nr; next++)
				if (c->element[next] != c->element[i] + (next - i))
					break;
			if (!memcmp(rig->found + at, wanted + at, (next - i) * element))
				continue;
			for (uint64_t n = 0; n < next - i; n++, at += element)
				*nr_wrong += memcmp(rig->found + at, wanted + at, element) != 0;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ all rounds */

/* Whether a way can send the case: of more runs than it copies, the library does not copy each. */
static bool is_possible(const struct bench_case *c, int way)
{
	return way != WEIR_SENT_RUNS || c->nr_runs <= PARCEL_RUNS_MAX;
}

/* What a round sent, by the statistics before and after it. */
struct sent {
	uint64_t nr[WEIR_REPLICA_MECHANISM_NR], nr_fetched;
	struct weir_replica_stats before;
};

static void sent_begin(struct rig *rig, struct sent *sent)
{
	weir_replica_query(rig->space, &sent->before);
}

static void sent_end(struct rig *rig, struct sent *sent)
{
	struct weir_replica_stats now;

	weir_replica_query(rig->space, &now);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		sent->nr[how] = now.nr_sent[how] - sent->before.nr_sent[how];
	sent->nr_fetched = now.nr_messages[WEIR_FETCHED] - sent->before.nr_messages[WEIR_FETCHED];
}

/* Note what a round by some way did. @return whether it went that way. */
static bool note_sent(const struct sent *sent, int way, struct case_times *out)
{
	int most = 0, nr_used = 0;

	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++) {
		nr_used += sent->nr[how] > 0;
		if (sent->nr[how] > sent->nr[most])
			most = how;
	}
	out->nr_fetched += sent->nr_fetched;
	if (way == BY_CHOICE) {
		out->chosen = (enum weir_replica_mechanism)most;
		out->nr_mixed += nr_used > 1;
		return true;
	}
	return nr_used == 1 && most == way;
}

/* One round by each way, and after the last one the bytes. Rounds below 0 do not count. */
static int run_ways(struct rig *rig, const struct bench_case *c, int round, bool last,
		    uint64_t ns[NR_WAYS][ROUNDS_MAX], bool *failed, struct case_times *out)
{
	static uint32_t shift;
	int err = 0;

	for (int way = 0; way < NR_WAYS && !err; way++) {
		struct sent sent;
		uint64_t took;

		if (failed[way])
			continue;
		shift = (shift + 1) % PATTERN_SHIFTS;
		replicas_of(rig->space)->forced = way == BY_CHOICE ? 0 : (uint32_t)way + 1;
		sent_begin(rig, &sent);
		err = run_round(rig, c, shift, false, &took);
		if (err)
			break;
		sent_end(rig, &sent);
		if (round >= 0) {
			ns[way][round] = took;
			failed[way] |= !note_sent(&sent, way, out);
		}
		if (last && rig->has_bytes)
			err = check(rig, c, shift, &out->nr_wrong);
	}
	return err;
}

static uint64_t median(uint64_t *ns, uint32_t nr)
{
	samples_sort(ns, nr);
	return ns[nr / 2];
}

int case_measure(struct rig *rig, const struct bench_case *c,
		 const struct mechanisms_options *asked, struct case_times *out)
{
	static uint64_t ns[NR_WAYS][ROUNDS_MAX], idle_ns[ROUNDS_MAX];
	const int nr = (int)asked->nr_rounds;
	bool failed[NR_WAYS];
	int err = 0;

	memset(out, 0, sizeof(*out));
	for (int way = 0; way < NR_WAYS; way++)
		failed[way] = !is_possible(c, way);
	for (int round = -(int)WARM_UP; round < nr && !err; round++) {
		err = run_ways(rig, c, round, round == nr - 1, ns, failed, out);
		if (!err)
			err = run_round(rig, c, 0, true, &idle_ns[MAX(round, 0)]);
	}
	if (err)
		return err;
	for (int way = 0; way < NR_WAYS; way++)
		out->ns[way] = failed[way] ? 0 : median(ns[way], asked->nr_rounds);
	out->idle_ns = median(idle_ns, asked->nr_rounds);
	return 0;
}
