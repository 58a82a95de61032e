/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on the CUDA driver: each is made from a seed. It allocates and frees, copies,
 * fills, launches kernels and graphs, on several streams and in several threads, in an order that
 * CUDA's own rules make certain, and does the same on the CPU, at once; at random points and at the
 * end it compares. A program that is wrong ends with status 1 and says how to repeat it. All are
 * right on the driver alone, so one that is wrong under weir shows a fault of weir's.
 *
 * Each seed's program is a process of its own, made by fork(). The kernels are those of
 * tests/fakecuda/fakecuda.h; with --kernels FILE, an image of the same for a real GPU. It includes
 * nothing of weir.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/dropin/random/random.h"

#define SECONDS_MAX 120u /* of a seed */

struct options options = {.seed = 1, .nr_seeds = 1, .ops = 150, .jobs = 1, .bytes = 768 << 10};

CUcontext context;
_Thread_local struct thread *self;

/* ------------------------------------------------------------------ saying */

static uint64_t seed; /* this process's */

void fail(const char *format, ...)
{
	char text[400];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fprintf(stderr,
		"random: seed %llu, thread %u, operation %u: %s\n"
		"random: repeat it with: random --seed %llu --ops %u --bytes %zu\n",
		(unsigned long long)seed, self ? self->number : 0, self ? self->op : 0, text,
		(unsigned long long)seed, options.ops, options.bytes);
	exit(1);
}

void say(const char *format, ...)
{
	char text[400];
	va_list list;

	if (!options.verbose)
		return;
	va_start(list, format);
	(void)vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fprintf(stderr, "%u.%u: %s\n", self->number, self->op, text);
}

/* ------------------------------------------------------------------ drawing */

/* splitmix64 */
uint64_t draw(struct thread *t)
{
	uint64_t z = t->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

size_t below(struct thread *t, size_t nr)
{
	return (size_t)(draw(t) % nr);
}

bool chance(struct thread *t, unsigned percent)
{
	return below(t, 100) < percent;
}

void *make(size_t nr, size_t bytes)
{
	void *at = calloc(nr, bytes);

	if (!at)
		fail("no memory on the host");
	return at;
}

/* ------------------------------------------------------------------ threads */

static pthread_barrier_t barrier;
static struct buffer *given[THREADS];

/* Each thread gives a buffer to the next one. */
static void swap(struct thread *t)
{
	struct buffer *buffer = NULL;

	for (unsigned n = 0; n < t->nr_buffers && !buffer; n++)
		if (!t->buffer[n]->pins && !t->buffer[n]->pointers) {
			buffer = t->buffer[n];
			buffer_sync(t, buffer);
			memset(buffer->part, 0, sizeof(buffer->part));
			buffer_drop(t, n);
		}
	given[t->number] = buffer;
	(void)pthread_barrier_wait(&barrier);
	buffer = given[(t->number + 1) % t->plan->threads];
	(void)pthread_barrier_wait(&barrier);
	if (!buffer)
		return;
	buffer->number = ++t->nr_made;
	t->bytes += buffer->bytes;
	t->buffer[t->nr_buffers++] = buffer;
	say("buffer %u is another thread's", buffer->number);
}

static void follow(struct thread *t)
{
	const unsigned s = stream_any(t);
	struct step step;
	bool *found;

	if (!array_draw(t, &step))
		return;
	found = &t->found[step.way == 1][step.what == STEP_LIST ? K_LIST : K_GATHER];
	/* Where nothing but a look shows that the kernel follows pointers, there is to be one. */
	if (!*found && !step.array->shown) {
		if (step.array->at->bytes > SMALL_BYTES)
			return;
		step_uses(t, &step);
		uses_sync(t);
		uses_forget(t);
		stream_sync(t, s);
	}
	*found = true;
	step_do(t, &step, s);
}

static void some_step(struct thread *t)
{
	struct step step;

	if (step_draw(t, &step))
		step_do(t, &step, stream_any(t));
}

static void some_memory(struct thread *t)
{
	const bool full = t->bytes > t->limit / 10 * 9;

	if (t->nr_buffers && (full || chance(t, 40)))
		buffer_free(t, (unsigned)below(t, t->nr_buffers));
	if (t->bytes < t->limit / 10 * 9)
		(void)buffer_new(t, bytes_any(t), false);
}

static void some_host_copy(struct thread *t)
{
	struct buffer *buffer = buffer_any(t, NULL);
	size_t off, bytes;

	if (!buffer)
		return;
	off = below(t, buffer->bytes);
	bytes = 1 + below(t, buffer->bytes - off);
	if (bytes > t->limit / 8)
		bytes = t->limit / 8;
	if (chance(t, 30))
		buffer_rows(t, buffer, chance(t, 50));
	else if (chance(t, 50))
		buffer_check(t, buffer, off, bytes);
	else
		buffer_write(t, buffer, off, NULL, bytes);
}

static void some_wait(struct thread *t)
{
	const size_t what = below(t, 8);

	if (what < 3)
		stream_sync(t, stream_any(t));
	else if (what < 4)
		all_sync(t);
	else if (what < 6)
		stream_renew(t, stream_any(t));
	else if (what < 7)
		slots_check(t);
	else if (t->plan->threads == 1)
		spin_do(t);
}

static void some_hidden(struct thread *t)
{
	const size_t what = below(t, t->plan->hidden == 2 ? 14 : 10);

	if (what < 4)
		array_make(t);
	else if (what < 10)
		follow(t);
	else if (what < 13)
		table_do(t);
	else
		list_do(t);
}

static void operation(struct thread *t)
{
	const size_t what = below(t, 100);

	if (what < 45)
		some_step(t);
	else if (what < 60)
		some_memory(t);
	else if (what < 72)
		some_host_copy(t);
	else if (what < 79)
		some_wait(t);
	else if (what < 86)
		graph_do(t);
	else if (t->plan->hidden)
		some_hidden(t);
	else
		some_step(t);
}

/* A byte that the shadow knows nothing of. */
static void plant(struct thread *t)
{
	const struct buffer *buffer = buffer_any(t, NULL);
	const size_t off = buffer ? below(t, buffer->bytes) : 0;

	all_sync(t);
	if (buffer)
		CU(cuMemsetD8, buffer->addr + off, (unsigned char)~buffer->shadow[off], 1);
	all_sync(t);
}

static void thread_end(struct thread *t)
{
	if (options.plant)
		plant(t);
	for (unsigned g = 0; g < GRAPHS; g++)
		graph_end(t, &t->graph[g]);
	for (unsigned n = 0; n < t->nr_buffers; n++)
		buffer_check(t, t->buffer[n], 0, t->buffer[n]->bytes);
	slots_check(t);
	while (t->nr_buffers)
		buffer_free(t, t->nr_buffers - 1);
	slots_close(t);
	all_sync(t);
	streams_close(t);
	kernels_close(t);
}

static void *thread_run(void *arg)
{
	struct thread *t = self = arg;

	CU(cuCtxSetCurrent, context);
	t->limit = options.bytes / t->plan->threads;
	streams_open(t);
	kernels_open(t);
	slots_open(t);
	while (t->bytes < t->limit / 10 * 9 && buffer_new(t, bytes_any(t), false))
		;
	for (t->op = 1; t->op <= options.ops; t->op++) {
		operation(t);
		if (t->plan->threads > 1 && t->op % 40 == 0)
			swap(t);
	}
	thread_end(t);
	return NULL;
}

/* ------------------------------------------------------------------ a seed */

static void seed_run(void)
{
	struct thread of_seed = {.random = seed * 1000003}, *thread;
	struct plan plan = {.per_thread = chance(&of_seed, 25)};
	const size_t threads = below(&of_seed, 10);
	pthread_t id[THREADS];
	const char *missing;
	int device;

	plan.hidden = seed % 8 < 4 ? 0 : seed % 8 == 7 ? 2 : 1;
	plan.threads = threads < 6 ? 1 : threads < 8 ? 2 : 3;
	missing = driver_open(plan.per_thread);
	if (missing)
		fail("no %s", missing);
	CU(cuInit, 0);
	CU(cuDeviceGet, &device, 0);
	CU(cuDevicePrimaryCtxRetain, &context, device);
	thread = make(THREADS, sizeof(*thread));
	(void)pthread_barrier_init(&barrier, NULL, plan.threads);
	for (unsigned n = 0; n < plan.threads; n++) {
		thread[n] = (struct thread){.number = n, .plan = &plan, .random = draw(&of_seed)};
		if (pthread_create(&id[n], NULL, thread_run, &thread[n]))
			fail("no thread");
	}
	for (unsigned n = 0; n < plan.threads; n++)
		(void)pthread_join(id[n], NULL);
	CU(cuDevicePrimaryCtxRelease, device);
	free(thread);
}

static void seed_start(uint64_t number)
{
	seed = number;
	if (options.nr_seeds == 1) {
		seed_run();
		exit(0);
	}
	switch (fork()) {
	case -1:
		fail("no process");
	case 0:
		(void)alarm(SECONDS_MAX);
		seed_run();
		exit(0);
	default:
		return;
	}
}

/* @return whether a process ended as it should */
static bool seed_wait(void)
{
	int status = 0;

	if (wait(&status) < 0)
		return false;
	if (WIFSIGNALED(status))
		fprintf(stderr, "random: a seed's process ended by signal %d\n", WTERMSIG(status));
	return !status;
}

static int seeds_run(void)
{
	uint64_t started = 0, ended = 0;
	bool good = true;

	while (ended < started || (good && started < options.nr_seeds))
		if (good && started < options.nr_seeds && started - ended < options.jobs) {
			seed_start(options.seed + started++);
		} else {
			good = seed_wait() && good;
			ended++;
		}
	if (good)
		printf("%llu random programs from seed %llu: right\n",
		       (unsigned long long)options.nr_seeds, (unsigned long long)options.seed);
	return !good;
}

/* ------------------------------------------------------------------ the command line */

static void usage(void)
{
	fprintf(stderr, "random [--seed N] [--seeds N] [--ops N] [--bytes N] [--jobs N]\n"
			"       [--kernels FILE] [--verbose] [--plant]\n");
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	const uint64_t value = strtoull(text, &end, 0);

	if (!value || *end)
		usage();
	return value;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"seed", 1, NULL, 's'},	   {"seeds", 1, NULL, 'n'}, {"ops", 1, NULL, 'o'},
		{"bytes", 1, NULL, 'b'},   {"jobs", 1, NULL, 'j'},  {"kernels", 1, NULL, 'k'},
		{"verbose", 0, NULL, 'v'}, {"plant", 0, NULL, 'p'}, {NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0)
		switch (option) {
		case 's':
			options.seed = number(optarg);
			break;
		case 'n':
			options.nr_seeds = number(optarg);
			break;
		case 'o':
			options.ops = (unsigned)number(optarg);
			break;
		case 'b':
			options.bytes = number(optarg);
			break;
		case 'j':
			options.jobs = (unsigned)number(optarg);
			break;
		case 'k':
			options.kernels = optarg;
			break;
		case 'p':
			options.plant = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			usage();
		}
	if (optind < argc || options.bytes < 65536)
		usage();
	return seeds_run();
}
