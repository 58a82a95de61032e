/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose bytes come out wrong when the library moves them wrongly: more data than budget,
 * all kinds of uses, whole blocks and parts, two streams, the host, addresses that are reused, and
 * everything repeated until a plan is followed, with vacated chunks poisoned; then the same with a
 * neighbour's memory, which comes and goes. Its kernels run twice, in the space and in order on
 * ordinary arrays; the two must agree. mutants.sh builds it with deliberate faults in the library.
 *
 * Exit status: 0 the bytes are right, 1 they are not or the simulator trapped a kernel, 2 the run
 * itself did not work.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/core/space.h"
#include "tests/unit/test_sim_machine.h"

#define BLOCK 4096u
#define WORDS (BLOCK / 4u)
/* Of so many words. */
#define BYTES(nr) ((uint64_t)(nr) * sizeof(uint32_t))
#define NEAR_BYTES ((uint64_t)12 * BLOCK)
#define NR_ITERATIONS 9 /* the time that plans take grows faster than this */
#define PERMANENT 3

/* One range and what it should hold. */
struct twin {
	uint32_t *addr, *words;
	uint32_t nr_words;
};

static struct weir_machine *machine;
static struct weir_space *space;
static struct weir_stream *stream[2];
static uint32_t value = 1;
static double ops; /* of each kernel: how long it takes at least */

static void must(int err, const char *what)
{
	if (!err)
		return;
	printf("%s: %s\n", what, weir_strerror(err));
	exit(err == -WEIR_ETRAP ? 1 : 2);
}

/* ------------------------------------------------------------------ kernels */

struct args {
	uint32_t *dst;
	const uint32_t *src;
	uint32_t nr, value;
};

static void fill_cpu(const void *arg)
{
	const struct args *a = arg;

	for (uint32_t i = 0; i < a->nr; i++)
		a->dst[i] = a->value * 2654435761u + i;
}

static void add_cpu(const void *arg)
{
	const struct args *a = arg;

	for (uint32_t i = 0; i < a->nr; i++)
		a->dst[i] += 3u * a->src[i] + 1u;
}

static void gather_cpu(const void *arg)
{
	const struct args *a = arg;

	for (uint32_t i = 0; i < 16; i++)
		a->dst[i] += a->src[i * 997u % a->nr];
}

static const struct weir_kernel fill_kernel = {.name = "fill", .cpu = fill_cpu},
				add_kernel = {.name = "add", .cpu = add_cpu},
				gather_kernel = {.name = "gather", .cpu = gather_cpu};

/* ------------------------------------------------------------------ steps */

static void launch_in_bracket(uint32_t s, const struct weir_kernel *kernel, const struct args *args,
			      const struct weir_use *uses, uint32_t nr_uses)
{
	struct weir_launch launch = {.kernel = kernel,
				     .args = args,
				     .args_bytes = sizeof(*args),
				     .uses = uses,
				     .nr_uses = nr_uses,
				     .ops = ops};

	must(weir_begin(space, stream[s], uses, nr_uses), "begin");
	must(weir_stream_launch(stream[s], &launch), "launch");
	must(weir_end(space, stream[s]), "end");
}

/* Overwrite words [first, first + nr). */
static void fill(uint32_t s, const struct twin *x, uint32_t first, uint32_t nr)
{
	struct args args = {.dst = x->addr + first, .nr = nr, .value = value};
	struct weir_use use = use_of(args.dst, BYTES(nr), WEIR_OVERWRITE);

	launch_in_bracket(s, &fill_kernel, &args, &use, 1);
	args.dst = x->words + first;
	fill_cpu(&args);
	value++;
}

static void add(uint32_t s, const struct twin *x, const struct twin *y)
{
	struct args args = {.dst = x->addr, .src = y->addr, .nr = MIN(x->nr_words, y->nr_words)};
	struct weir_use uses[2] = {use_of(x->addr, BYTES(args.nr), WEIR_WRITE),
				   use_of(y->addr, BYTES(args.nr), WEIR_READ)};

	launch_in_bracket(s, &add_kernel, &args, uses, 2);
	args.dst = x->words;
	args.src = y->words;
	add_cpu(&args);
}

/* A little of x changes, from a few words anywhere in y: too little to move either for. */
static void gather(uint32_t s, const struct twin *x, const struct twin *y)
{
	struct args args = {.dst = x->addr, .src = y->addr, .nr = y->nr_words};
	struct weir_use uses[2] = {use_of(x->addr, 64, WEIR_WRITE),
				   use_of(y->addr, BYTES(args.nr), WEIR_READ)};

	uses[1].pattern = WEIR_RANDOM;
	uses[1].granule = 4;
	uses[1].read_bytes = 64;
	launch_in_bracket(s, &gather_kernel, &args, uses, 2);
	args.dst = x->words;
	args.src = y->words;
	gather_cpu(&args);
}

/* x = 3 x + 1, declared as overwritten and as read: what it holds is needed. */
static void scale(uint32_t s, const struct twin *x)
{
	struct args args = {.dst = x->addr, .src = x->addr, .nr = x->nr_words};
	struct weir_use uses[2] = {use_of(x->addr, BYTES(args.nr), WEIR_OVERWRITE),
				   use_of(x->addr, BYTES(args.nr), WEIR_READ)};

	launch_in_bracket(s, &add_kernel, &args, uses, 2);
	args.dst = x->words;
	args.src = x->words;
	add_cpu(&args);
}

/* Parts of blocks at both ends keep what they hold; the rest is dead until it is filled. */
static void discard(uint32_t s, const struct twin *x, uint32_t first, uint32_t nr)
{
	struct weir_use use = use_of(x->addr + first, BYTES(nr), WEIR_DISCARD);

	must(weir_begin(space, stream[s], &use, 1), "begin");
	must(weir_end(space, stream[s]), "end");
}

static void put(const struct twin *x, uint32_t first, uint32_t nr)
{
	struct args args = {.dst = x->words + first, .nr = nr, .value = value};

	fill_cpu(&args);
	value++;
	must(weir_write(space, x->addr + first, x->words + first, BYTES(nr)), "write");
}

static void host_add(const struct twin *x, const struct twin *y)
{
	struct args args = {.dst = x->addr, .src = y->addr, .nr = MIN(x->nr_words, y->nr_words)};
	struct weir_use uses[2] = {use_of(x->addr, BYTES(args.nr), WEIR_WRITE),
				   use_of(y->addr, BYTES(args.nr), WEIR_READ)};

	must(weir_host_begin(space, uses, 2), "host begin");
	add_cpu(&args);
	must(weir_host_end(space, uses, 2), "host end");
	args.dst = x->words;
	args.src = y->words;
	add_cpu(&args);
}

static struct twin twin_alloc(uint32_t nr_words, uint32_t s)
{
	struct twin x = {.nr_words = nr_words, .words = calloc(nr_words, 4)};
	void *addr;

	if (!x.words)
		must(-ENOMEM, "array");
	must(weir_alloc(space, BYTES(nr_words), stream[s], &addr), "alloc");
	x.addr = addr;
	return x;
}

static void twin_free(struct twin *x, uint32_t s)
{
	must(weir_free(space, x->addr, stream[s]), "free");
	free(x->words);
}

static void compare(const struct twin *x, const char *when)
{
	uint32_t *data = malloc(x->nr_words * sizeof(*data));

	if (!data)
		must(-ENOMEM, "array");
	must(weir_read(space, data, x->addr, x->nr_words * sizeof(*data)), "read");
	for (uint32_t i = 0; i < x->nr_words; i++) {
		if (data[i] == x->words[i])
			continue;
		printf("%s: word %u of a range of %u blocks is %08x and should be %08x\n", when, i,
		       (x->nr_words + WORDS - 1) / WORDS, data[i], x->words[i]);
		exit(1);
	}
	free(data);
}

/* ------------------------------------------------------------------ the program */

/* t is freed in the bracket that reads it; its address must not serve others before the end. */
static void add_and_free(const struct twin *x, struct twin *t)
{
	struct args args = {.dst = x->addr, .src = t->addr, .nr = MIN(x->nr_words, t->nr_words)};
	struct weir_use uses[2] = {use_of(x->addr, BYTES(args.nr), WEIR_WRITE),
				   use_of(t->addr, BYTES(args.nr), WEIR_READ)};
	struct weir_launch launch = {.kernel = &add_kernel,
				     .args = &args,
				     .args_bytes = sizeof(args),
				     .uses = uses,
				     .nr_uses = 2};
	struct args shadow = {.dst = x->words, .src = t->words, .nr = args.nr};
	struct twin u;

	must(weir_begin(space, stream[0], uses, 2), "begin");
	add_cpu(&shadow);
	twin_free(t, 0);
	u = twin_alloc(t->nr_words, 1);
	fill(1, &u, 0, u.nr_words);
	must(weir_stream_sync(stream[1]), "sync");
	must(weir_stream_launch(stream[0], &launch), "launch");
	must(weir_end(space, stream[0]), "end");
	twin_free(&u, 1);
}

static void iteration(struct twin x[PERMANENT])
{
	struct twin t = twin_alloc(6 * WORDS, 0), u, v;

	fill(0, &t, 0, t.nr_words);
	add(0, &x[0], &t);
	add(0, &x[1], &x[0]);
	add(0, &x[2], &x[1]);
	/* t's kernels are still queued when its address serves another stream. */
	ops = 1e10;
	gather(0, &x[0], &x[1]);
	ops = 0;
	add(0, &x[0], &t);
	twin_free(&t, 0);
	u = twin_alloc(6 * WORDS, 1);
	fill(1, &u, 0, u.nr_words);
	must(weir_stream_sync(stream[0]), "sync");
	add(1, &x[0], &u);
	must(weir_stream_sync(stream[1]), "sync");
	/* Written once it came up unchanged, and pushed out again. */
	gather(0, &x[0], &x[1]);
	gather(0, &x[1], &x[2]);
	fill(0, &x[0], WORDS / 2, 2 * WORDS);
	scale(0, &x[1]);
	discard(0, &x[2], 3 * WORDS / 2, 2 * WORDS);
	add(0, &x[0], &u);
	scale(0, &x[1]);
	fill(0, &x[2], 3 * WORDS / 2, 2 * WORDS);
	twin_free(&u, 0);
	v = twin_alloc(4 * WORDS, 0);
	fill(0, &v, 0, v.nr_words);
	add_and_free(&x[1], &v);
	add(0, &x[1], &x[2]);
}

/* What is not repeated: the host's part. */
static void interlude(struct twin x[PERMANENT])
{
	struct twin t = twin_alloc(3 * WORDS, 0);

	must(weir_space_sync(space), "sync");
	put(&t, 0, t.nr_words);
	scale(0, &x[0]);
	scale(0, &x[2]);
	/* Comes up, is not written by a kernel, and goes out again. */
	add(0, &t, &x[1]);
	put(&x[1], WORDS / 2, 5 * WORDS);
	scale(0, &x[2]);
	scale(0, &x[0]);
	host_add(&x[0], &x[1]);
	add(0, &x[2], &t);
	compare(&t, "what was written");
	twin_free(&t, 0);
}

/* near: with a second GPU's memory between, of which little may be without a copy on the host. */
static void create(bool near)
{
	const struct weir_space_config config = {.budget_bytes = {[GPU0] = (uint64_t)16 * BLOCK,
								  [GPU1] = near ? NEAR_BYTES : 0,
								  [HOST] = (uint64_t)64 * BLOCK},
						 .dirty_max_bytes = {[GPU1] = BLOCK},
						 .block_bytes = BLOCK,
						 .mode = WEIR_PLANNED};
	struct weir_machine_desc desc;

	test_machine(&desc);
	/* A program is to meet copies that are still under way. */
	if (near)
		desc.vmm.map_ns = desc.vmm.set_access_ns = desc.vmm.unmap_ns = 100;
	must(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), "machine");
	for (int s = 0; s < 2; s++)
		must(weir_stream_create(machine, 0, &stream[s]), "stream");
	must(weir_space_create(machine, &config, &space), "space");
	space->poison = true;
}

/* Memory of the neighbour is taken back, and lent again. What is there is written before that while
 * it is on its way to the host in the background, so many times. */
static void take_back(int nr_scaled)
{
	struct twin x = twin_alloc(4 * WORDS, 0);

	must(weir_advise(space, x.addr, WEIR_ADVISE_PREFER_MEMORY, GPU1), "advise");
	fill(0, &x, 0, x.nr_words);
	for (int i = 0; i < nr_scaled; i++) {
		must(weir_stream_sync(stream[0]), "sync");
		scale(0, &x);
	}
	must(weir_space_set_budget(space, GPU1, 0), "budget");
	compare(&x, "what was at the neighbour");
	must(weir_space_set_budget(space, GPU1, NEAR_BYTES), "budget");
	twin_free(&x, 0);
}

static void destroy(void)
{
	weir_space_destroy(space);
	for (int s = 0; s < 2; s++)
		weir_stream_destroy(stream[s]);
	weir_machine_close(machine);
}

/* @return whether a plan was followed */
static bool run(bool near)
{
	static const uint32_t nr_words[PERMANENT] = {9 * WORDS, 8 * WORDS - 50, 7 * WORDS};
	struct twin x[PERMANENT];
	struct weir_space_stats stats;

	create(near);
	for (int i = 0; i < PERMANENT; i++) {
		x[i] = twin_alloc(nr_words[i], 0);
		fill(0, &x[i], 0, x[i].nr_words);
	}
	for (int n = 0; n < NR_ITERATIONS; n++) {
		iteration(x);
		if (n % 5 == 4)
			interlude(x);
		for (int i = 1; near && i <= 4; i++)
			take_back(i);
		if (n % 4 == 3)
			compare(&x[n / 4], "between");
	}
	for (int i = 0; i < PERMANENT; i++)
		compare(&x[i], "at the end");
	must(weir_space_sync(space), "sync");
	must(weir_space_check(space), "check");
	weir_space_query(space, &stats);
	printf("plans %llu, blocks up %llu + %llu, down %llu, dead %llu, clean %llu\n",
	       (unsigned long long)stats.nr_plans,
	       (unsigned long long)stats.nr_moves[WEIR_CAUSE_DEMAND],
	       (unsigned long long)stats.nr_moves[WEIR_CAUSE_PREFETCH],
	       (unsigned long long)stats.nr_moves[WEIR_CAUSE_EVICTION],
	       (unsigned long long)stats.nr_dead_dropped,
	       (unsigned long long)stats.nr_clean_dropped);
	for (int i = 0; i < PERMANENT; i++)
		twin_free(&x[i], 0);
	destroy();
	return stats.nr_plans != 0;
}

int main(void)
{
	return run(false) && run(true) ? 0 : 2;
}
