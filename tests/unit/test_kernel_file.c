/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of kernels, in a file: what is written is read again, states only grow, what
 * several processes add is all kept, and a file that is damaged is refused and left as it is.
 *
 * Links: weir_dropin
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/kernel_file.h"
#include "src/base/util.h"

#define HEAD "weir kernels 1\n"
#define CODE "00000000000000ab"
#define PLACES "ffffffffffffffff"
#define GOOD "closed\t" CODE "\t" PLACES "\tfill\t3 launches\n"

static char folder[] = "/tmp/test_kernel_file.XXXXXX", path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/kernels", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	/* Nothing else was left. */
	return rmdir(folder);
}

static void write_text(const char *text, size_t bytes)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void assert_text(const char *text, size_t bytes)
{
	char found[4096] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	assert_int_equal(fread(found, 1, sizeof(found), file), bytes);
	assert_memory_equal(found, text, bytes);
	assert_int_equal(fclose(file), 0);
}

static struct kernel_line *add(struct kernel_file *file, const char *name, uint64_t places,
			       enum kernel_state state, uint64_t nr_seen)
{
	struct kernel_line *line = kernel_file_add(file, name, 0xab, places);

	assert_non_null(line);
	line->state = state;
	line->nr_seen = nr_seen;
	line->changed = true;
	(void)snprintf(line->why, sizeof(line->why), "it was seen, %s", name);
	return line;
}

static void update(struct kernel_file *file)
{
	char err[256];

	assert_int_equal(kernel_file_update(file, path, err, sizeof(err)), 0);
	kernel_file_fini(file);
}

static void read_all(struct kernel_file *file)
{
	char err[256] = "";

	*file = (struct kernel_file){0};
	assert_int_equal(kernel_file_read(file, path, err, sizeof(err)), 0);
}

static void test_written_and_read(void **state)
{
	struct kernel_file file = {0};
	struct kernel_line *line;
	char err[256];

	(void)state;
	assert_int_equal(kernel_file_read(&file, path, err, sizeof(err)), -ENOENT);
	(void)add(&file, "fill", UINT64_MAX, KERNEL_CLOSED, 3);
	(void)add(&file, "void f<a b>(int*, #)", 0, KERNEL_OPEN, 0);
	(void)add(&file, "spin", 7, KERNEL_WAITS, 0);
	add(&file, "unchanged", 7, KERNEL_OPEN, 0)->changed = false;
	update(&file);
	read_all(&file);
	assert_int_equal(file.nr, 3);
	line = kernel_file_find(&file, "fill", 0xab, UINT64_MAX);
	assert_non_null(line);
	assert_int_equal(line->state, KERNEL_CLOSED);
	assert_int_equal(line->nr_launches, 3);
	line = kernel_file_find(&file, "void f<a b>(int*, #)", 0xab, 0);
	assert_non_null(line);
	assert_int_equal(line->state, KERNEL_OPEN);
	assert_string_equal(line->why, "it was seen, void f<a b>(int*, #)");
	assert_int_equal(kernel_file_find(&file, "spin", 0xab, 7)->state, KERNEL_WAITS);
	/* Any other name, code or set of places is another kernel. */
	assert_null(kernel_file_find(&file, "fill", 0xab, 0));
	assert_null(kernel_file_find(&file, "fill", 0xac, UINT64_MAX));
	assert_null(kernel_file_find(&file, "fil", 0xab, UINT64_MAX));
	kernel_file_fini(&file);
	assert_int_equal(unlink(path), 0);
}

/* Launches add up, and what was found open stays so. */
static void test_states_grow(void **state)
{
	static const enum kernel_state told[] = {KERNEL_CLOSED, KERNEL_CLOSED, KERNEL_OPEN,
						 KERNEL_CLOSED, KERNEL_WAITS,  KERNEL_OPEN};
	static const enum kernel_state known[] = {KERNEL_CLOSED, KERNEL_CLOSED, KERNEL_OPEN,
						  KERNEL_OPEN,	 KERNEL_WAITS,	KERNEL_WAITS};
	struct kernel_file file;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(told); i++) {
		file = (struct kernel_file){0};
		(void)add(&file, "fill", 1, told[i], 2);
		update(&file);
		read_all(&file);
		assert_int_equal(file.nr, 1);
		assert_int_equal(file.line[0]->state, known[i]);
		if (known[i] == KERNEL_CLOSED)
			assert_int_equal(file.line[0]->nr_launches, 2 * (i + 1));
		kernel_file_fini(&file);
	}
	assert_int_equal(unlink(path), 0);
}

/* As many as a large program has; each is found, and none that is not there. */
static void test_many(void **state)
{
	enum { MANY = 3000 };
	struct kernel_file file = {0};
	char name[32];

	(void)state;
	for (uint32_t n = 0; n < MANY; n++) {
		(void)snprintf(name, sizeof(name), "kernel_%" PRIu32, n / 3);
		(void)add(&file, name, n % 3, n % 3 ? KERNEL_OPEN : KERNEL_CLOSED, 1 + n);
	}
	assert_int_equal(file.nr, MANY);
	update(&file);
	read_all(&file);
	assert_int_equal(file.nr, MANY);
	for (uint32_t n = 0; n < MANY; n++) {
		const struct kernel_line *line;

		(void)snprintf(name, sizeof(name), "kernel_%" PRIu32, n / 3);
		line = kernel_file_find(&file, name, 0xab, n % 3);
		assert_non_null(line);
		assert_int_equal(line->nr_launches, n % 3 ? 0 : 1 + n);
		assert_null(kernel_file_find(&file, name, 0xab, 3));
		assert_int_equal(kernel_file_nr_open(&file, name, 0xab), 2);
	}
	assert_int_equal(kernel_file_nr_open(&file, "kernel_1", 0xac), 0);
	kernel_file_fini(&file);
	assert_int_equal(unlink(path), 0);
}

/* Processes that write at once: nothing is lost. */
static void test_at_once(void **state)
{
	enum { PROCESSES = 5, TIMES = 6 };
	struct kernel_file file = {0};
	int status;

	(void)state;
	for (int p = 0; p < PROCESSES; p++) {
		if (fork())
			continue;
		for (int t = 0; t < TIMES; t++) {
			char err[256];

			(void)add(&file, "all", 0, KERNEL_CLOSED, 1);
			(void)add(&file, "own", (uint64_t)p * TIMES + (uint64_t)t, KERNEL_CLOSED,
				  1);
			if (kernel_file_update(&file, path, err, sizeof(err)))
				_exit(1);
			kernel_file_fini(&file);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	read_all(&file);
	assert_int_equal(file.nr, 1 + PROCESSES * TIMES);
	assert_int_equal(kernel_file_find(&file, "all", 0xab, 0)->nr_launches, PROCESSES * TIMES);
	kernel_file_fini(&file);
	assert_int_equal(unlink(path), 0);
}

static const struct damage {
	const char *text, *line;
	size_t bytes; /* 0: those of the text */
} damages[] = {
	{"", "line 1: the file is empty", 0},
	{"weir kernels 2\n", "line 1: it is not 'weir kernels 1'", 0},
	{"weir kernels 1", "line 1: it is cut off", 0},
	{"weir kernels 1\r\n", "line 1: it is not", 0},
	{GOOD, "line 1: it is not", 0},
	{HEAD "\n", "line 2: it has too few columns", 0},
	{HEAD "closed\n", "line 2: it has too few columns", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\n", "line 2: it has too few", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\t3 launches\t\n", "line 2: it has too many", 0},
	{HEAD "Closed\t" CODE "\t" PLACES "\tfill\t3 launches\n", "line 2: it begins with none", 0},
	{HEAD "\t" CODE "\t" PLACES "\tfill\t3 launches\n", "line 2: it begins with none", 0},
	{HEAD "closed\tab\t" PLACES "\tfill\t3 launches\n", "line 2: code and places", 0},
	{HEAD "closed\t0x000000000000ab\t" PLACES "\tfill\t3 launches\n", "line 2: code and", 0},
	{HEAD "closed\t" CODE "\tFFFFFFFFFFFFFFFF\tfill\t3 launches\n", "line 2: code and", 0},
	{HEAD "closed\t" CODE "\t" PLACES "0\tfill\t3 launches\n", "line 2: code and places", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\t\t3 launches\n", "line 2: the kernel's name", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\ta\x01\t3 launches\n", "line 2: the kernel's name", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\t0 launches\n", "line 2: it does not end", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\t-3 launches\n", "line 2: it does not end", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\t3 lunches\n", "line 2: it does not end", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\t99999999999999999999 launches\n",
	 "line 2: it does not end", 0},
	{HEAD "open\t" CODE "\t" PLACES "\tfill\t\n", "line 2: it does not end with a reason", 0},
	{HEAD "open\t" CODE "\t" PLACES "\tfill\ta\x7f\n", "line 2: it does not end with a", 0},
	{HEAD GOOD GOOD, "line 3: an earlier one", 0},
	{HEAD "# a remark\n" GOOD "open\t" CODE "\t" PLACES "\tfill\tso\n",
	 "line 4: an earlier one", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfill\t3 launches", "line 2: it is cut off", 0},
	{HEAD "closed\t" CODE "\t" PLACES "\tfi\0l\t3 launches\n", "line 2: it is cut off",
	 sizeof(HEAD "closed\t" CODE "\t" PLACES "\tfi\0l\t3 launches\n") - 1},
};

static void test_damaged(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
		const struct damage *damage = &damages[i];
		const size_t bytes = damage->bytes ? damage->bytes : strlen(damage->text);
		struct kernel_file file = {0};
		char err[256] = "";

		write_text(damage->text, bytes);
		assert_int_equal(kernel_file_read(&file, path, err, sizeof(err)), -EINVAL);
		assert_int_equal(file.nr, 0);
		assert_non_null(strstr(err, path));
		if (!strstr(err, damage->line))
			fail_msg("case %zu: %s", i, err);
		/* It is not written over. */
		(void)add(&file, "fill", 1, KERNEL_OPEN, 0);
		assert_int_equal(kernel_file_update(&file, path, err, sizeof(err)), -EINVAL);
		assert_text(damage->text, bytes);
		kernel_file_fini(&file);
	}
	assert_int_equal(unlink(path), 0);
}

/* No line is too long to be refused, and none is read for long: one that has no end is no text. */
static void test_long_lines(void **state)
{
	enum { LONG = 1 << 20 };
	static const size_t names[] = {KERNEL_NAME_BYTES - 1, KERNEL_NAME_BYTES, LONG};
	char *text = malloc(LONG + 256), *name = malloc(LONG + 1), err[256];

	(void)state;
	assert_non_null(text);
	assert_non_null(name);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct kernel_file file = {0};
		int nr;

		memset(name, 'f', names[i]);
		name[names[i]] = '\0';
		nr = snprintf(text, LONG + 256, HEAD "open\t" CODE "\t" PLACES "\t%s\tso\n", name);
		write_text(text, (size_t)nr);
		assert_int_equal(kernel_file_read(&file, path, err, sizeof(err)), i ? -EINVAL : 0);
		assert_int_equal(file.nr, !i);
		assert_true(kernel_name_is_good(name) == !i);
		kernel_file_fini(&file);
	}
	assert_non_null(strstr(err, "line 2: it is cut off, too long, or no text"));
	free(text);
	free(name);
	assert_int_equal(unlink(path), 0);
}

/* There is no room for it: it stays as it was, and nothing else is left. */
static void test_no_room(void **state)
{
	struct kernel_file file = {0};
	struct rlimit before;
	char err[256];

	(void)state;
	write_text(HEAD GOOD, strlen(HEAD GOOD));
	(void)add(&file, "fill", 1, KERNEL_OPEN, 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, before.rlim_max}), 0);
	assert_int_equal(kernel_file_update(&file, path, err, sizeof(err)), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	(void)signal(SIGXFSZ, SIG_DFL);
	assert_non_null(strstr(err, "File too large"));
	assert_text(HEAD GOOD, strlen(HEAD GOOD));
	kernel_file_fini(&file);
	assert_int_equal(unlink(path), 0);
}

/* What a link leads to is written, and the link stays. */
static void test_link(void **state)
{
	struct kernel_file file = {0};
	struct stat status;
	char link[80], err[256];

	(void)state;
	(void)snprintf(link, sizeof(link), "%s/link", folder);
	write_text(HEAD GOOD, strlen(HEAD GOOD));
	assert_int_equal(symlink("kernels", link), 0);
	(void)add(&file, "copy", 1, KERNEL_OPEN, 0);
	assert_int_equal(kernel_file_update(&file, link, err, sizeof(err)), 0);
	kernel_file_fini(&file);
	assert_int_equal(lstat(link, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	read_all(&file);
	assert_int_equal(file.nr, 2);
	kernel_file_fini(&file);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(path), 0);
}

/* More launches than a file counts are as many as it counts. */
static void test_most_launches(void **state)
{
	static const char text[] =
		HEAD "closed\t" CODE "\t" PLACES "\tfill\t18446744073709551614 launches\n";
	struct kernel_file file = {0};

	(void)state;
	write_text(text, strlen(text));
	(void)add(&file, "fill", UINT64_MAX, KERNEL_CLOSED, 3);
	update(&file);
	read_all(&file);
	assert_true(file.line[0]->nr_launches == UINT64_MAX);
	kernel_file_fini(&file);
	assert_int_equal(unlink(path), 0);
}

/* Nothing is made of what is no file, and nothing is left where none can be made. */
static void test_no_file(void **state)
{
	struct kernel_file file = {0};
	struct stat before, after;
	char err[256];

	(void)state;
	assert_int_equal(stat("/dev/null", &before), 0);
	assert_int_equal(kernel_file_read(&file, "/dev/null", err, sizeof(err)), -EINVAL);
	assert_int_equal(kernel_file_update(&file, "/dev/null", err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "/dev/null: no regular file");
	assert_int_equal(stat("/dev/null", &after), 0);
	assert_true(before.st_rdev == after.st_rdev);
	assert_int_equal(kernel_file_update(&file, folder, err, sizeof(err)), -EINVAL);
	assert_int_equal(kernel_file_update(&file, "/nowhere/kernels", err, sizeof(err)), -ENOENT);
	assert_string_equal(err, "/nowhere/kernels: No such file or directory");
}

/* A file beside that of kernels. */
static void beside(char *name, size_t bytes, const char *suffix, const char *text)
{
	FILE *file;

	(void)snprintf(name, bytes, "%s%s", path, suffix);
	file = fopen(name, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* What a killed process wrote is removed; nothing else is. */
static void test_clean(void **state)
{
	static const char *const kept[] = {
		".7",	    ".part",	  ".x.part",	       ".07.part",
		".-7.part", ".1.partial", ".99999999999.part", ".copy"};
	struct kernel_file file = {0};
	char name[96], left[96], err[256];
	int status;
	pid_t pid;

	(void)state;
	write_text(HEAD GOOD, strlen(HEAD GOOD));
	(void)add(&file, "fill", 1, KERNEL_OPEN, 0);
	pid = fork();
	if (!pid) {
		/* The first byte that it writes ends it. */
		(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
		(void)kernel_file_update(&file, path, err, sizeof(err));
		_exit(0);
	}
	kernel_file_fini(&file);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	(void)snprintf(left, sizeof(left), "%s.%ld.part", path, (long)pid);
	assert_int_equal(access(left, F_OK), 0);
	kernel_file_clean(path);
	assert_int_equal(access(left, F_OK), -1);

	/* The same, cut off within its head, and with contents. */
	(void)snprintf(name, sizeof(name), ".%ld.part", (long)pid);
	for (size_t i = 0; i < 3; i++) {
		beside(left, sizeof(left), name, i == 0 ? "weir ker" : i == 1 ? HEAD : HEAD GOOD);
		kernel_file_clean(path);
		assert_int_equal(access(left, F_OK), -1);
	}
	/* One that is none; one whose process lives. */
	beside(left, sizeof(left), name, "weir trace 1\n");
	kernel_file_clean(path);
	assert_int_equal(unlink(left), 0);
	(void)snprintf(name, sizeof(name), ".%ld.part", (long)getpid());
	beside(left, sizeof(left), name, HEAD);
	kernel_file_clean(path);
	assert_int_equal(unlink(left), 0);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		beside(left, sizeof(left), kept[i], HEAD);
		kernel_file_clean(path);
		assert_int_equal(unlink(left), 0);
	}
	assert_text(HEAD GOOD, strlen(HEAD GOOD));
	assert_int_equal(unlink(path), 0);
	kernel_file_clean("/nowhere/kernels");
}

static void test_names(void **state)
{
	(void)state;
	assert_true(kernel_name_is_good("_Z4fillPj"));
	assert_true(kernel_name_is_good("void f<1, 2>(\xc3\xa9)"));
	assert_false(kernel_name_is_good(""));
	assert_false(kernel_name_is_good("a\tb"));
	assert_false(kernel_name_is_good("a\n"));
	assert_true(kernel_why_is_good("used too much"));
	assert_false(kernel_why_is_good(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_and_read),
		cmocka_unit_test(test_states_grow),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_most_launches),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
