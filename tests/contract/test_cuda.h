/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the CUDA backend on the fake driver share: a machine of two GPUs, a kernel,
 * what was logged.
 */
#ifndef WEIR_TESTS_TEST_CUDA_H
#define WEIR_TESTS_TEST_CUDA_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "tests/fakecuda/fakecuda.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define UNIT KIB(64)

enum { HOST, GPU0, GPU1 };

static const struct fakecuda_config fake = {
	.devices = 2,
	.hbm_bytes = MIB(16),
	.host_bytes = MIB(64),
	.granularity = KIB(4),
};

struct contract {
	struct backend *b;
	stream_id_t compute, in, out;
};

static inline int open_backend(struct backend **out)
{
	return cuda_create(&(struct cuda_config){.library = FAKECUDA_PATH}, out);
}

static inline int setup(void **state)
{
	struct contract *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&c->b), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COMPUTE, &c->compute), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_IN, &c->in), 0);
	assert_int_equal(c->b->ops->stream_create(c->b, 0, BACKEND_COPY_OUT, &c->out), 0);
	*state = c;
	return 0;
}

static inline void assert_no_problem(void)
{
	char text[256];

	fakecuda_problem(text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(fakecuda_nr_races(), 0);
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 0);
}

static inline int teardown(void **state)
{
	struct contract *c = *state;

	c->b->ops->stream_destroy(c->b, c->compute);
	c->b->ops->stream_destroy(c->b, c->in);
	c->b->ops->stream_destroy(c->b, c->out);
	c->b->ops->destroy(c->b);
	free(c);
	assert_int_equal(fakecuda_leaks(stderr), 0);
	return 0;
}

static inline void wait_for(struct backend *b, stream_id_t stream)
{
	fence_t fence;

	assert_int_equal(b->ops->fence_record(b, stream, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
	assert_int_equal(b->ops->fence_done(b, fence), 1);
}

/* ------------------------------------------------------------------ kernels */

/* out[i] = in[i] + add, bytes; in may be out. */
struct add_args {
	const uint8_t *in;
	uint8_t *out;
	uint64_t bytes;
	uint8_t add;
};

static inline void add_fn(const void *p)
{
	const struct add_args *a = p;

	for (uint64_t i = 0; i < a->bytes; i++)
		a->out[i] = (uint8_t)(a->in[i] + a->add);
}

static inline int add_cuda(void *stream, const void *p)
{
	const struct add_args *a = p;
	const struct fakecuda_touch touch[] = {{a->in, a->bytes, false}, {a->out, a->bytes, true}};

	return fakecuda_launch(stream, add_fn, a, sizeof(*a), touch, 2) ? -EIO : 0;
}

static const struct weir_kernel add_kernel = {.name = "add", .cuda = add_cuda};

static inline struct weir_use use_of(const void *addr, uint64_t bytes, enum weir_use_kind kind)
{
	return (struct weir_use){
		.addr = (void *)(uintptr_t)addr,
		.bytes = bytes,
		.kind = kind,
		.read_bytes = kind == WEIR_READ || kind == WEIR_WRITE ? bytes : 0,
		.write_bytes = kind == WEIR_WRITE || kind == WEIR_OVERWRITE ? bytes : 0,
	};
}

static inline int launch_add(struct backend *b, stream_id_t stream, const uint8_t *in, uint8_t *out,
			     uint64_t bytes, uint8_t add)
{
	const struct add_args args = {in, out, bytes, add};
	const struct weir_use uses[] = {use_of(in, bytes, WEIR_READ),
					use_of(out, bytes, WEIR_OVERWRITE)};
	const struct weir_launch launch = {.kernel = &add_kernel,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = uses,
					   .nr_uses = 2};

	return b->ops->launch(b, stream, &launch);
}

/* ------------------------------------------------------------------ the log */

/* Messages of one level since log_watch(), any thread's: how many, the first and the last. */
struct log_watch {
	pthread_mutex_t lock;
	enum weir_log_level level;
	char first[512], last[512];
	unsigned int nr;
};

static inline void log_watch_take(void *arg, enum weir_log_level level, const char *message)
{
	struct log_watch *w = arg;

	pthread_mutex_lock(&w->lock);
	if (level == w->level) {
		if (!w->nr++)
			snprintf(w->first, sizeof(w->first), "%s", message);
		snprintf(w->last, sizeof(w->last), "%s", message);
	}
	pthread_mutex_unlock(&w->lock);
}

static inline void log_watch(struct log_watch *w, enum weir_log_level level)
{
	*w = (struct log_watch){.lock = PTHREAD_MUTEX_INITIALIZER, .level = level};
	weir_log_set(log_watch_take, w);
}

static inline void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in '%s'", part, text);
}

#endif
