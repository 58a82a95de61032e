/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which CUDA driver tests run on, and that nothing of theirs is left there. WEIR_TEST_MACHINE says
 * which machine a program runs on:
 *
 *   not set   simulated ones, where the program can
 *   cuda      the CUDA backend on the driver without a GPU that FAKECUDA names
 *   gpu       the CUDA backend on the real driver, first GPU
 *
 * WEIR_TEST_SPLIT=N has the GPUs taken for N devices, in turn (struct cuda_config), which are then
 * all there are; on the driver without a GPU, one GPU for as many as the test asks for, if that is
 * fewer.
 *
 * With one of the last two machines, WEIR_TEST_KERNELS names the kernels' library for it. The
 * functions here assert. On a real GPU the driver itself keeps memory that it once had, and other
 * programs may use the card: what is free is compared with what was free at first, with some slack
 * and patience.
 */
#ifndef WEIR_TEST_DRIVER_H
#define WEIR_TEST_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "src/backend/backend.h"
#include "tests/fakecuda/fakecuda.h"

enum test_machine { TEST_SIMULATED, TEST_FAKE, TEST_GPU };

enum test_machine test_machine_kind(void);

/* The fake driver's functions; loaded with the first backend, and only with TEST_FAKE. */
#define TEST_FAKE_FUNCTIONS(X) \
	X(reset)               \
	X(leaks)               \
	X(problem)             \
	X(nr_races)            \
	X(nr_unmaps_in_use)    \
	X(used_bytes)

struct test_fake {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name */
#define MEMBER(name) __typeof__(&fakecuda_##name) name;
	TEST_FAKE_FUNCTIONS(MEMBER)
#undef MEMBER
};
extern struct test_fake test_fake;

/* What the fake driver's machine is in programs that do not say; with a real GPU's proportions. */
extern const struct fakecuda_config test_fake_config;

/*
 * Open the CUDA backend with the kernels. fake: what the fake driver's machine is, which forgets
 * all it was before; not looked at on a real GPU. NULL: go on with what it is.
 * @return 0, or what cuda_create() returns
 */
int test_cuda_open(const struct fakecuda_config *fake, struct backend **out);

/* The driver's library for cuda_create(); loads the fake one. NULL: the real one's own name. */
const char *test_cuda_library(void);

/* The same with the first GPU taken for so many devices, whatever WEIR_TEST_SPLIT says; on the fake
 * driver each has the memory that `fake` says, and its number of devices is not looked at. */
int test_cuda_open_parts(const struct fakecuda_config *fake, uint32_t nr_parts,
			 struct backend **out);

/* For cmocka's group setup: fails where WEIR_TEST_MACHINE names no CUDA driver. */
int test_cuda_required(void **state);

/*
 * All backends are closed: nothing is left on the driver, and the fake one has seen no race, no
 * mapping taken away under work, and no illegal address; but for what `expected` says, a part of
 * its text, if it is not NULL.
 */
void test_cuda_nothing_left(const char *expected);

/* Bytes that are free on the first GPU now, by the driver. After the first test_cuda_open(). */
uint64_t test_gpu_free_bytes(void);

/* Whether what other processes have of the GPU's memory is missing there. Each process has a fake
 * driver's card for itself, also where that stands in for the real one. */
bool test_gpu_is_shared(void);

/* Another process uses the card at the same time: from now on test_cuda_nothing_left() does not
 * look at what is free there. */
void test_gpu_not_alone(void);

/* Whether so many bytes are free, now or in the next seconds. What other programs gave back may be
 * some time coming. */
bool test_gpu_free_soon(uint64_t bytes, unsigned seconds);

/* Bytes by which a real GPU's free memory may differ from what it was: 32 MiB, or what
 * WEIR_TEST_SLACK says, for tools that take some of it themselves. */
uint64_t test_gpu_slack(void);

/* Messages of weir go to standard error with WEIR_TEST_LOG in the environment, else nowhere. */
void test_log_begin(void);

#endif
