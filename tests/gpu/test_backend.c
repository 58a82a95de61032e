/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of src/backend/backend.h on the CUDA backend, bare, with four devices that are one
 * GPU, behind flaky and behind watch.
 * What breaks the device for the rest of the process is test_trap.c.
 *
 * Labels: threads
 * Links: backend-cases
 */
#include "src/backend/flaky/flaky.h"
#include "src/backend/watch/watch.h"
#include "src/base/util.h"
#include "tests/contract/cases/cases.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"

static const struct fakecuda_config fake_gpus = {
	.devices = 2,
	.hbm_bytes = MIB(16),
	.host_bytes = MIB(64),
	.granularity = KIB(4),
};

/* With so many GPUs, where that can be chosen. */
static int open_gpus(int nr_gpus, struct backend **out)
{
	struct fakecuda_config fake = fake_gpus;

	fake.devices = nr_gpus;
	return test_cuda_open(&fake, out);
}

static int open_parts(struct backend **out)
{
	return test_cuda_open_parts(&fake_gpus, 4, out);
}

static int open_cuda(struct backend **out)
{
	return open_gpus(2, out);
}

static int open_four(struct backend **out)
{
	return open_gpus(4, out);
}

static int open_flaky(struct backend **out)
{
	struct backend *b;
	int err = open_cuda(&b);

	return err ? err : flaky_create(b, out);
}

/* It records, and is torn down while it does. */
static int open_watched(struct backend **out)
{
	struct backend *b;
	int err = open_cuda(&b);

	err = err ? err : watch_create(b, out);
	return err ? err : watch_start(*out, 1000);
}

static void nothing_left(struct contract *c)
{
	(void)c;
	test_cuda_nothing_left(NULL);
}

/* Beyond an eighth of the card nothing is had, and what is had can be prefetched both ways. */
static void test_managed(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t limit = b->desc.memory[GPU0].bytes / 8;
	void *addr, *more = NULL;

	assert_int_equal(b->managed->alloc(b, limit + 1, &more), -EDQUOT);
	assert_int_equal(b->managed->alloc(b, MIB(1), &addr), 0);
	assert_int_equal(b->managed->alloc(b, limit - MIB(1) + 1, &more), -EDQUOT);
	assert_null(more);
	for (int to = GPU0; to >= HOST; to--)
		assert_int_equal(b->managed->prefetch(b, c->compute, addr, MIB(1), (uint32_t)to),
				 0);
	contract_wait(b, c->compute);
	assert_int_equal(b->managed->prefetch(b, c->compute, &more, 1, GPU0), -EINVAL);
	/* Every kind, of the host and of the first device, which are both 0 or stand for them. */
	for (int kind = 0; kind < BACKEND_ADVICE_NR; kind++)
		assert_int_equal(b->managed->advise(b, addr, MIB(1), (enum backend_advice)kind, 0),
				 0);
	b->managed->free(b, addr);
}

int main(void)
{
	bool fake = test_machine_kind() == TEST_FAKE;
	unsigned int full = fake ? CAN_FULL : 0;
	const struct contract_target targets[] = {
		{"cuda", open_cuda, NULL, nothing_left, CAN_BYTES | CAN_WAIT | full},
		{"watched", open_watched, NULL, nothing_left, CAN_BYTES | CAN_WAIT | full},
		{"parts", open_parts, NULL, nothing_left, CAN_BYTES | CAN_WAIT | full},
		{"flaky", open_flaky, NULL, nothing_left, CAN_BYTES | CAN_WAIT | CAN_FAIL | full},
	};
	/* The last two have no more threads, which is what the thread sanitizer looks at. */
	const size_t nr = TEST_TSAN ? 2 : ARRAY_LEN(targets);
	const struct contract_target four = {"four GPUs", open_four, NULL, nothing_left,
					     CAN_BYTES | CAN_WAIT | full};
	const struct CMUnitTest tests[] = {CONTRACT_TEST(test_managed, targets[0]),
					   CONTRACT_TESTS_OF_DEVICES(four)};

	/* A real machine has as many GPUs as it has. */
	return contract_run(targets, nr, tests, fake ? ARRAY_LEN(tests) : 1);
}
