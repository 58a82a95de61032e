/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir info --memory` on this very process: what it prints, and what the file is that it reads.
 * The file is torn, stale, hostile, somebody else's, and read while it is written without a break.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/mem/mem.h"
#include "tests/unit/test_sim_machine.h"

static char folder[64], path[128];
static struct weir_machine *machine;
static struct weir_pool *pool;
static char complaint[256];

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level <= WEIR_LOG_WARNING)
		(void)snprintf(complaint, sizeof(complaint), "%s", message);
}

/* Run the program; what it prints on either stream. @return its status */
static int info(const char *pid, const char *more, char *text, size_t bytes)
{
	char command[512];
	size_t nr;
	FILE *pipe;

	(void)snprintf(command, sizeof(command), "'%s' info --memory %s %s 2>&1", getenv("WEIR"),
		       pid, more);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	nr = fread(text, 1, bytes - 1, pipe);
	text[nr] = '\0';
	return WEXITSTATUS(pclose(pipe));
}

static int info_of_me(const char *more, char *text, size_t bytes)
{
	char pid[32];

	(void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	return info(pid, more, text, bytes);
}

/* The last file of this process: one pool lives at a time. */
static void find_file(void)
{
	static unsigned number;

	for (; number < 1000; number++) {
		(void)snprintf(path, sizeof(path), "%s/weir/memory-%ld-%u", folder, (long)getpid(),
			       number);
		if (!access(path, F_OK))
			return;
	}
	fail_msg("there is no file in %s/weir", folder);
}

static int setup(void **state)
{
	const struct weir_pool_config config = {.name = "under test"};
	struct weir_machine_desc desc;

	(void)state;
	test_machine(&desc);
	complaint[0] = '\0';
	assert_int_equal(setenv("WEIR_MEMORY_FILE", "1", 1), 0);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &machine), 0);
	assert_int_equal(weir_pool_create(machine, &config, &pool), 0);
	find_file();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	weir_pool_destroy(pool);
	weir_machine_close(machine);
	assert_int_equal(access(path, F_OK), -1);
	return 0;
}

static struct weir_mem *get(uint32_t memory, uint64_t bytes, const char *owner)
{
	const struct weir_mem_params params = {.bytes = bytes, .memory = memory, .owner = owner};
	struct weir_mem *mem;

	assert_int_equal(weir_mem_alloc(pool, &params, &mem), 0);
	return mem;
}

#define expect_text(text, part)                                 \
	do {                                                    \
		if (!strstr(text, part))                        \
			fail_msg("no '%s' in: %s", part, text); \
	} while (0)

static void test_info_memory_shows(void **state)
{
	struct weir_mem *mem = get(GPU0, KIB(100), "weights"), *host = get(HOST, 5, NULL);
	char text[8192];

	(void)state;
	assert_int_equal(
		weir_mem_map(host, WEIR_MEM_CPU | WEIR_MEM_DEVICE(1), WEIR_MEM_DEVICE(0), NULL), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
	expect_text(text, "pool 'under test'");
	expect_text(text, "weights");
	expect_text(text, "100 KiB");
	expect_text(text, "64 KiB");
	expect_text(text, "test_info_memory.c:");
	expect_text(text, "cpu gpu0(dma) gpu1");
	expect_text(text, "nobody");
	expect_text(text, "4 KiB of other memories are mapped for its copy engines");
	assert_int_equal(info_of_me("--json", text, sizeof(text)), 0);
	expect_text(text, "\"owner\": \"weights\"");
	expect_text(text, "\"physical_bytes\": 131072");
	expect_text(text, "\"choice\": \"asked for\"");
	weir_mem_free(mem, NULL);
	weir_mem_free(host, NULL);
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
	assert_null(strstr(text, "weights"));
}

/* More than there are records: counted, and listed as soon as there is room. */
static void test_info_memory_many(void **state)
{
	enum { NR = MEM_FILE_RECORDS + 7 };
	static struct weir_mem *mem[NR];
	static char text[1 << 20];

	(void)state;
	for (uint32_t i = 0; i < NR; i++)
		mem[i] = get(HOST, 1, i == NR - 1 ? "the last" : "one of them");
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
	expect_text(text, "and 7 more");
	assert_null(strstr(text, "the last"));
	for (uint32_t i = 0; i < 7; i++)
		weir_mem_free(mem[i], NULL);
	assert_int_equal(weir_mem_map(mem[NR - 1], WEIR_MEM_CPU, 0, NULL), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
	expect_text(text, "the last");
	expect_text(text, "and 6 more");
	for (uint32_t i = 7; i < NR; i++)
		weir_mem_free(mem[i], NULL);
	assert_string_equal(complaint, "");
}

static void test_info_memory_nobody_else(void **state)
{
	struct stat stat_of;

	(void)state;
	assert_int_equal(stat(path, &stat_of), 0);
	assert_int_equal(stat_of.st_mode & 0777, 0600);
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &stat_of), 0);
	assert_int_equal(stat_of.st_mode & 0777, 0700);
	path[strlen(path)] = '/';
}

/* ------------------------------------------------------------------ files that are not as they
 * should be */

static void write_at(const void *data, size_t bytes, off_t offset)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, bytes, offset), bytes);
	(void)close(fd);
}

/* Put a wrong value where a field is, expect one line with that text, and put it back. */
static void expect_refused(size_t offset, const void *wrong, size_t bytes, const char *part)
{
	char text[1024], right[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && bytes <= sizeof(right));
	assert_int_equal(pread(fd, right, bytes, (off_t)offset), bytes);
	(void)close(fd);
	write_at(wrong, bytes, (off_t)offset);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	expect_text(text, part);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	write_at(right, bytes, (off_t)offset);
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
}

#define AT(field) offsetof(struct mem_file_header, field)
#define RECORD_AT(field) \
	(offsetof(struct mem_file, record) + offsetof(struct mem_file_record, field))

static void test_info_memory_hostile(void **state)
{
	struct weir_mem *mem = get(HOST, 5, "it");
	const uint64_t torn = 7, pid = 1, ticks = 3, little = 0, many_objects = 5000;
	const uint32_t version = MEM_FILE_VERSION + 1, many = 18, memory = 3, choice = 99;
	char text[1024];

	(void)state;
	expect_refused(AT(magic), "nonsense", 8, "no file of a pool");
	expect_refused(AT(version), &version, 4, "another version");
	expect_refused(AT(nr_records), &version, 4, "another version");
	expect_refused(AT(pid), &pid, 8, "of process 1");
	expect_refused(AT(nr_memories), &many, 4, "18 memories");
	expect_refused(AT(nr_devices), &many, 4, "18 devices");
	expect_refused(AT(nr_top), &many_objects, 8, "5000 objects");
	expect_refused(AT(seq), &torn, 8, "never finishes writing");
	expect_refused(AT(start_ticks), &ticks, 8, "has ended");
	expect_refused(RECORD_AT(memory), &memory, 4, "lies in memory 3");
	expect_refused(RECORD_AT(physical_bytes), &little, 8, "larger than its pages");
	expect_refused(RECORD_AT(choice), &choice, 4, "reason of its own");
	/* What a terminal would act on, without an end. */
	write_at("\033[2J\033[2J\033[2J\033[2J\033[2J\033[2J\033[2J\033[2J", 32,
		 (off_t)RECORD_AT(owner));
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
	assert_null(strchr(text, '\033'));
	expect_text(text, "?[2J");
	weir_mem_free(mem, NULL);
}

/* Cut short, a pipe, a link, a folder that others can write. */
static void test_info_memory_no_file(void **state)
{
	char text[1024], aside[160];

	(void)state;
	(void)snprintf(aside, sizeof(aside), "%s.aside", path);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	expect_text(text, "WEIR_MEMORY_FILE=1");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	expect_text(text, "no file of yours");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(aside, path), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(aside, path), 0);
	assert_int_equal(truncate(path, 70), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	expect_text(text, "has 70 bytes alone");
	assert_int_equal(truncate(path, sizeof(struct mem_file)), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	expect_text(text, "0 memories");
	*strrchr(path, '/') = '\0';
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	expect_text(text, "open to others");
	assert_int_equal(chmod(path, 0700), 0);
	path[strlen(path)] = '/';
	assert_int_equal(info("4000000", "", text, sizeof(text)), 2);
	assert_int_equal(info("0", "", text, sizeof(text)), 2);
	assert_int_equal(info("1", "--machine h200", text, sizeof(text)), 2);
}

/* A process that ends in the middle of everything leaves its file; that is told. */
static void test_info_memory_stale(void **state)
{
	char pid[32], text[1024];
	pid_t child = fork();
	int status;

	(void)state;
	if (!child) {
		struct weir_machine_desc desc;
		struct weir_machine *own;
		struct weir_pool *left;

		test_machine(&desc);
		if (weir_machine_simulate(&desc, WEIR_DATA_REAL, &own) ||
		    weir_pool_create(own, NULL, &left))
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	(void)snprintf(pid, sizeof(pid), "%ld", (long)child);
	assert_int_equal(info(pid, "", text, sizeof(text)), 2);
	expect_text(text, "has ended");
	(void)snprintf(text, sizeof(text), "rm -f '%s/weir/memory-%s-'*", folder, pid);
	assert_int_equal(system(text), 0);
}

/* ------------------------------------------------------------------ processes, threads */

/* A child has its parent's pool in its memory, and leaves it and its file alone. */
static void test_info_memory_fork(void **state)
{
	struct weir_mem *mem = get(HOST, 5, "parent's");
	char text[4096];
	pid_t child = fork();
	int status;

	(void)state;
	if (!child) {
		const struct weir_mem_params params = {.bytes = 1};
		struct weir_mem *more;
		void *addr;

		weir_mem_free(mem, NULL);
		weir_mem_unmap(mem, WEIR_MEM_ALL, 0);
		if (weir_mem_alloc(pool, &params, &more) != -ECHILD ||
		    weir_mem_map(mem, WEIR_MEM_CPU, 0, &addr) != -ECHILD ||
		    weir_pool_check(pool) != -ECHILD || weir_pool_report(pool) ||
		    weir_pool_trim(pool))
			_exit(1);
		weir_pool_destroy(pool);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 0);
	expect_text(text, "parent's");
	weir_mem_free(mem, NULL);
	assert_int_equal(weir_pool_check(pool), 0);
}

static atomic_bool stop;

static void *writer_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		weir_mem_free(get(HOST, 5, "comes and goes"), NULL);
	return NULL;
}

/* While it is written without a break, what is read is whole: figures and records agree. */
static void test_info_memory_torn(void **state)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	struct mem_file *file = malloc(sizeof(*file));
	struct timespec begin, now;
	uint32_t nr_read = 0;
	pthread_t writer;
	char why[256];
	int dir;

	(void)state;
	assert_non_null(file);
	dir = mem_file_dir(false, why, sizeof(why), why, sizeof(why));
	assert_true(dir >= 0);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&writer, NULL, writer_main, NULL), 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		int err = mem_file_read(dir, strrchr(path, '/') + 1, getpid(), file, why,
					sizeof(why));
		uint64_t nr = 0;

		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		assert_true(!err || err == -EBUSY);
		if (err)
			continue;
		nr_read++;
		for (uint32_t i = 0; i < MEM_FILE_RECORDS; i++)
			nr += file->record[i].bytes != 0;
		assert_int_equal(nr + file->header.nr_unlisted,
				 file->header.memory[HOST].nr_objects);
	} while (now.tv_sec < begin.tv_sec + 2 && nr_read < 300);
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(writer, NULL), 0);
	/* With no writer it is there at once. */
	(void)nanosleep(&pause, NULL);
	assert_int_equal(
		mem_file_read(dir, strrchr(path, '/') + 1, getpid(), file, why, sizeof(why)), 0);
	assert_true(nr_read > 0);
	(void)close(dir);
	free(file);
}

/* ------------------------------------------------------------------ switching it on */

static void test_info_memory_off(void **state)
{
	struct weir_pool *other = NULL;
	struct weir_machine_desc desc;
	struct weir_machine *own;
	char text[1024];

	(void)state;
	test_machine(&desc);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_REAL, &own), 0);
	assert_int_equal(setenv("WEIR_MEMORY_FILE", "yes", 1), 0);
	assert_int_equal(weir_pool_create(own, NULL, &other), -EINVAL);
	expect_text(complaint, "write 0 or 1");
	assert_int_equal(setenv("WEIR_MEMORY_FILE", "0", 1), 0);
	assert_int_equal(weir_pool_create(own, NULL, &other), 0);
	assert_int_equal(info_of_me("", text, sizeof(text)), 2);
	weir_pool_destroy(other);
	/* Where it cannot be, the pool does without. */
	complaint[0] = '\0';
	assert_int_equal(setenv("WEIR_MEMORY_FILE", "1", 1), 0);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/proc/nowhere", 1), 0);
	assert_int_equal(weir_pool_create(own, NULL, &other), 0);
	expect_text(complaint, "/proc/nowhere/weir");
	weir_pool_destroy(other);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
	weir_machine_close(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_info_memory_shows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_nobody_else, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(test_info_memory_torn, setup, teardown),
		cmocka_unit_test(test_info_memory_off),
	};
	int failed;

	weir_log_set(on_log, NULL);
	strcpy(folder, "/tmp/weir-test-XXXXXX");
	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)snprintf(path, sizeof(path), "%s/weir", folder);
	(void)rmdir(path);
	return rmdir(folder) || failed;
}
