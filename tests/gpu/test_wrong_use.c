/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong where weir is used: no GPU to be seen, a driver that is too old, a budget beyond
 * the card, host memory that is not to be had. Each gives its error and says one line, and nothing
 * hangs. Each in a process of its own; this program is also theirs.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/machine.h"
#include "tests/support/child.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

#define LIMIT_SECONDS 60u
#define TOO_MUCH (UINT64_C(4) << 30) /* of host memory, under the limit below */
#define ROOM (UINT64_C(256) << 20)

/* ------------------------------------------------------------------ children */

static void say(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR)
		printf("error: %s\n", message);
}

/* Open what the environment describes; said is what the caller wants. */
static void open_backend(struct backend **b)
{
	const struct cuda_config config = {.library = test_cuda_library()};
	int err = cuda_create(&config, b);

	if (!err)
		return;
	printf("open: %d\n", err);
	exit(0);
}

static void over_budget(void)
{
	struct weir_space_config config = {.mode = WEIR_PLANNED};
	struct weir_machine *machine;
	struct weir_space *space = NULL;
	struct backend *b;

	open_backend(&b);
	assert_int_equal(machine_wrap(b, &machine), 0);
	config.budget_bytes[GPU0] = b->desc.memory[GPU0].bytes + b->desc.vmm.granularity_bytes;
	printf("space: %d\n", weir_space_create(machine, &config, &space));
	weir_space_destroy(space);
	weir_machine_close(machine);
}

/* The process may not have much more memory than it has now. */
static void limit_memory(void)
{
	struct rlimit limit;
	char pages[128];
	FILE *file = fopen("/proc/self/statm", "r");

	assert_non_null(file);
	assert_non_null(fgets(pages, sizeof(pages), file));
	(void)fclose(file);
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = strtoul(pages, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) + ROOM;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static void lift_limit(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Pinning more than the process may have. A driver that pins memory which the limit does not count
 * may manage: then it is given back, like everything. */
static void pin_too_much(void)
{
	struct backend_chunk chunk;
	struct backend *b;
	void *addr;
	int err;

	open_backend(&b);
	limit_memory();
	err = b->ops->chunk_create(b, HOST, TOO_MUCH, 0, &chunk);
	if (!err)
		b->ops->chunk_destroy(b, &chunk);
	printf("chunk: %d\n", err);
	err = b->ops->device_alloc(b, HOST, TOO_MUCH, &addr);
	if (!err)
		b->ops->device_free(b, addr);
	printf("plain: %d\n", err);
	lift_limit();
	/* It goes on as if nothing had been asked. */
	printf("used: %llu\n", (unsigned long long)b->ops->memory_used(b, HOST));
	assert_int_equal(b->ops->chunk_create(b, HOST, b->desc.vmm.granularity_bytes, 0, &chunk),
			 0);
	memset(chunk.alias, 1, b->desc.vmm.granularity_bytes);
	b->ops->chunk_destroy(b, &chunk);
	b->ops->destroy(b);
	printf("done\n");
}

static void only_open(void)
{
	struct backend *b;

	open_backend(&b);
	b->ops->destroy(b);
}

static int child_main(const char *task)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tasks[] = {
		{"open", only_open}, {"over-budget", over_budget}, {"pin-too-much", pin_too_much}};

	child_begin(LIMIT_SECONDS);
	weir_log_set(say, NULL);
	for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
		if (strcmp(tasks[i].name, task) == 0) {
			tasks[i].fn();
			return 0;
		}
	return 2;
}

/* ------------------------------------------------------------------ tests */

static void run_child(struct test_child *child, const char *task, const char *set)
{
	int status;

	child_start(child, task, set);
	status = child_wait(child, LIMIT_SECONDS);
	if (status)
		fail_msg("%s ends with %d: %s", task, status, child->text);
}

/* It said this, and one line of error that contains that. */
static void expect_said(const struct test_child *child, const char *said, const char *error)
{
	if (!strstr(child->text, said) || !strstr(child->text, error) ||
	    child_count(child, "error: ") != 1)
		fail_msg("instead of '%s' and one line with '%s': %s", said, error, child->text);
}

static void test_wrong_use_no_visible_device(void **state)
{
	struct test_child child;
	char said[32];

	(void)state;
	run_child(&child, "open", "CUDA_VISIBLE_DEVICES=");
	snprintf(said, sizeof(said), "open: %d\n", -ENODEV);
	expect_said(&child, said, "no GPU");
}

static void test_wrong_use_old_driver(void **state)
{
	struct test_child child;
	char said[32];

	(void)state;
	run_child(&child, "open", "FAKECUDA_VERSION=12010");
	snprintf(said, sizeof(said), "open: %d\n", -ENOTSUP);
	expect_said(&child, said, "update the driver");
}

static void test_wrong_use_over_budget(void **state)
{
	struct test_child child;
	char said[32];

	(void)state;
	run_child(&child, "over-budget", NULL);
	snprintf(said, sizeof(said), "space: %d\n", -EINVAL);
	expect_said(&child, said, "budget");
}

static void test_wrong_use_host_memory_not_to_be_had(void **state)
{
	struct test_child child;
	char said[32];

	(void)state;
	run_child(&child, "pin-too-much", "FAKECUDA_HOST_BYTES=0x200000000");
	assert_non_null(strstr(child.text, "used: 0\ndone\n"));
	assert_int_equal(child_count(&child, "chunk: "), 1);
	assert_int_equal(child_count(&child, "plain: "), 1);
	if (test_machine_kind() == TEST_GPU) {
		print_message("%s", child.text);
		return;
	}
	snprintf(said, sizeof(said), "chunk: %d\n", -ENOMEM);
	assert_non_null(strstr(child.text, said));
	snprintf(said, sizeof(said), "plain: %d\n", -ENOMEM);
	assert_non_null(strstr(child.text, said));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_use_no_visible_device),
		cmocka_unit_test(test_wrong_use_over_budget),
		cmocka_unit_test(test_wrong_use_host_memory_not_to_be_had),
	};
	/* A real driver is as old as it is. */
	const struct CMUnitTest tests_fake[] = {cmocka_unit_test(test_wrong_use_old_driver)};
	int failed;

	if (argc == 2)
		return child_main(argv[1]);
	failed = cmocka_run_group_tests(tests, test_cuda_required, NULL);
	if (!failed && test_machine_kind() == TEST_FAKE)
		failed = cmocka_run_group_tests(tests_fake, NULL, NULL);
	return failed;
}
