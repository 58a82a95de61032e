/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the CUDA backend on the fake driver share, beside what all contract tests do: a
 * machine of two GPUs, what was logged.
 */
#ifndef WEIR_TESTS_TEST_CUDA_H
#define WEIR_TESTS_TEST_CUDA_H

#include <pthread.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/cuda/driver.h"
#include "tests/contract/cases/cases.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/log_watch.h"

#define UNIT KIB(64)

static const struct fakecuda_config fake = {
	.devices = 2,
	.hbm_bytes = MIB(16),
	.host_bytes = MIB(64),
	.granularity = KIB(4),
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
	assert_int_equal(test_kernels_load(), 0);
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

/* ------------------------------------------------------------------ the log */

static inline void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in '%s'", part, text);
}

#endif
