/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of weir/paged.h on simulated machines share: a machine, a pool, and kernels in C, in
 * which one agent does what a list says. Functions assert.
 */
#ifndef WEIR_TESTS_UNIT_TEST_PAGED_H
#define WEIR_TESTS_UNIT_TEST_PAGED_H

#include <errno.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/paging/paged.h"
#include "src/paging/paging.h"
#include "tests/unit/test_sim_machine.h"

/* ------------------------------------------------------------------ kernels */

enum paged_do {
	PAGED_READ,	/* the word must be value */
	PAGED_ADD,	/* value to it */
	PAGED_WRITE,	/* value */
	PAGED_REFUSED,	/* read; it must be refused */
	PAGED_NO_WRITE, /* write; the same */
	PAGED_HOLD,	/* a pinned span of it, until the kernel ends */
	PAGED_ADMIT,	/* a hint that it is wanted */
};

/* Of words of 8 bytes. */
struct paged_op {
	enum paged_do what;
	uint32_t range;
	uint64_t index, value;
};

#define PAGED_OPS_MAX 64u

struct paged_kernel {
	struct weir_paged_view view;
	uint32_t nr;
	bool stays; /* ends without leaving */
	uint32_t *nr_wrong;
	struct paged_op op[PAGED_OPS_MAX];
};

static inline bool paged_op_right(struct paging_agent *agent, const struct paged_op *op)
{
	uint64_t value = op->value, at = op->index * 8;
	struct paging_span span;

	switch (op->what) {
	case PAGED_READ:
		return !paging_read(agent, op->range, at, &value, 8) && value == op->value;
	case PAGED_ADD:
		return !paging_add(agent, op->range, at, 8, op->value, &value);
	case PAGED_WRITE:
		return !paging_write(agent, op->range, at, &value, 8);
	case PAGED_REFUSED:
		return paging_read(agent, op->range, at, &value, 8) == -EINVAL;
	case PAGED_NO_WRITE:
		return paging_write(agent, op->range, at, &value, 8) == -EROFS;
	case PAGED_HOLD:
		return !paging_span_get(agent, op->range, at, PAGING_PIN, &span);
	case PAGED_ADMIT:
		return !paging_prefetch(agent, op->range, at, 8);
	}
	return false;
}

static inline void paged_kernel_cpu(const void *args)
{
	const struct paged_kernel *k = args;
	struct paging_agent *agent;
	struct paging *pool;

	if (paging_over(&k->view, 1, &pool) || paging_enter(pool, &agent)) {
		++*k->nr_wrong;
		return;
	}
	for (uint32_t i = 0; i < k->nr; i++)
		*k->nr_wrong += !paged_op_right(agent, &k->op[i]);
	if (!k->stays)
		*k->nr_wrong += paging_leave(agent) != 0;
	paging_destroy(pool);
}

static const struct weir_kernel paged_kernel = {.name = "paged", .cpu = paged_kernel_cpu};

/* ------------------------------------------------------------------ a pool */

struct paged_test {
	struct weir_machine *machine;
	struct backend *flaky; /* of its machine */
	struct weir_paged *pool;
	struct weir_stream *stream, *other;
	const struct weir_kernel *kernel; /* paged_kernel, or the machine's version of it */
	uint32_t nr_wrong;
};

/* Over any backend, which is the test's from then on. */
static inline void paged_machine_over(struct paged_test *t, struct backend *backend)
{
	memset(t, 0, sizeof(*t));
	t->kernel = &paged_kernel;
	assert_int_equal(flaky_create(backend, &t->flaky), 0);
	assert_int_equal(machine_wrap(t->flaky, &t->machine), 0);
	assert_int_equal(weir_stream_create(t->machine, 0, &t->stream), 0);
	assert_int_equal(weir_stream_create(t->machine, 0, &t->other), 0);
}

static inline void paged_machine_open(struct paged_test *t, enum weir_data data)
{
	struct weir_machine_desc desc;
	struct backend *sim;

	test_machine(&desc);
	assert_int_equal(sim_create(&desc, data, &sim), 0);
	paged_machine_over(t, sim);
}

static inline void paged_machine_close(struct paged_test *t)
{
	weir_stream_destroy(t->stream);
	weir_stream_destroy(t->other);
	assert_int_equal(sim_leaks(flaky_inner(t->flaky)), 0);
	weir_machine_close(t->machine);
}

static inline void paged_open(struct paged_test *t, uint64_t nr_frames, uint64_t max_frames)
{
	const struct weir_paged_config config = {.page_bytes = 4096,
						 .gpu_bytes = nr_frames * 4096,
						 .gpu_max_bytes = max_frames * 4096,
						 .name = "test"};

	paged_machine_open(t, WEIR_DATA_REAL);
	assert_int_equal(weir_paged_create(t->machine, &config, &t->pool), 0);
}

static inline void paged_close(struct paged_test *t)
{
	assert_int_equal(weir_paged_check(t->pool), 0);
	weir_paged_destroy(t->pool);
	assert_int_equal(t->nr_wrong, 0);
	paged_machine_close(t);
}

static inline uint32_t paged_range(struct paged_test *t, uint64_t bytes, int read_only,
				   uint64_t **words)
{
	const struct weir_paged_range_config config = {.bytes = bytes, .read_only = read_only};
	void *host;
	uint32_t range;

	assert_int_equal(weir_paged_range_add(t->pool, &config, &range, &host), 0);
	*words = host;
	return range;
}

/* Queue a kernel that does nr operations. */
static inline int paged_launch(struct paged_test *t, const struct weir_paged_view *view, bool stays,
			       const struct paged_op *ops, uint32_t nr)
{
	struct paged_kernel k = {.view = *view, .nr = nr, .stays = stays, .nr_wrong = &t->nr_wrong};
	const struct weir_launch launch = {
		.kernel = t->kernel, .args = &k, .args_bytes = sizeof(k)};

	assert_true(nr <= PAGED_OPS_MAX);
	memcpy(k.op, ops, nr * sizeof(*ops));
	return weir_stream_launch(t->stream, &launch);
}

/* One bracket with one kernel; what weir_paged_sync() says. */
static inline int paged_run(struct paged_test *t, bool stays, const struct paged_op *ops,
			    uint32_t nr)
{
	struct weir_paged_view view;

	assert_int_equal(weir_paged_begin(t->pool, t->stream, &view), 0);
	assert_int_equal(paged_launch(t, &view, stays, ops, nr), 0);
	assert_int_equal(weir_paged_end(t->pool, t->stream), 0);
	return weir_paged_sync(t->pool);
}

#define PAGED_RUN(t, stays, ...)                                    \
	paged_run(t, stays, (const struct paged_op[]){__VA_ARGS__}, \
		  sizeof((const struct paged_op[]){__VA_ARGS__}) / sizeof(struct paged_op))

/* ------------------------------------------------------------------ the log */

/* Messages since paged_log_begin(), one a line; of all levels. */
struct paged_log {
	char text[8192];
	size_t nr;
};

static inline void paged_log_take(void *arg, enum weir_log_level level, const char *message)
{
	struct paged_log *log = arg;
	int nr = snprintf(log->text + log->nr, sizeof(log->text) - log->nr, "%s\n", message);

	(void)level;
	if (nr > 0 && log->nr + (size_t)nr < sizeof(log->text))
		log->nr += (size_t)nr;
}

static inline void paged_log_begin(struct paged_log *log)
{
	memset(log, 0, sizeof(*log));
	weir_log_set(paged_log_take, log);
}

/* It said this; begin anew. */
static inline void paged_log_has(struct paged_log *log, const char *part)
{
	if (!strstr(log->text, part))
		fail_msg("no '%s' in '%s'", part, log->text);
	memset(log, 0, sizeof(*log));
}

static inline struct weir_paged_stats paged_stats(struct paged_test *t)
{
	struct weir_paged_stats stats;

	assert_int_equal(weir_paged_query(t->pool, &stats), 0);
	return stats;
}

#endif
