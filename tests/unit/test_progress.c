/* SPDX-License-Identifier: Apache-2.0 */
/* How far work is: the line and its width, and that something shows while the work says nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/progress.h"

#define S UINT64_C(1000000000)

static void formatted(size_t columns, double fraction, uint64_t elapsed_ns, const char *label,
		      const char *expected)
{
	char text[160];

	progress_format(text, sizeof(text), columns, fraction, elapsed_ns, label);
	assert_string_equal(text, expected);
}

static void test_progress_format(void **state)
{
	(void)state;
	formatted(79, 0.5, 65 * S, "weir",
		  "[##############              ]  50 %  1 min 05 s left  weir");
	formatted(79, 0, 3 * S, "weir", "[                            ]   0 %  3 s so far  weir");
	formatted(79, 7, 3 * S, "weir", "[############################] 100 %  0 s left  weir");
}

/* The bar is shorter, then it is left out, then the label is cut. */
static void test_progress_fits_columns(void **state)
{
	char text[160];

	(void)state;
	formatted(39, 0.5, 65 * S, "weir", "[####    ]  50 %  1 min 05 s left  weir");
	formatted(39, 0.5, 65 * S, "uvm+prefetch", "50 %  1 min 05 s left  uvm+prefetch");
	formatted(20, 0.5, 65 * S, "uvm+prefetch", "50 %  1 min 05 s lef");
	for (size_t columns = 1; columns < 100; columns++) {
		progress_format(text, sizeof(text), columns, 0.99, 999 * 60 * S,
				"weir, pinning memory: 12.3 GB of 45.6 GB");
		assert_true(strlen(text) <= columns);
	}
}

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* What a pipe or terminal has to read by now. */
static void read_all(int fd, char *text, size_t bytes)
{
	ssize_t nr;

	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	nr = read(fd, text, bytes - 1);
	text[nr > 0 ? nr : 0] = '\0';
}

/* Work that says nothing after it began is drawn again, within the terminal. */
static void test_progress_silent_work_on_a_terminal(void **state)
{
	const struct winsize size = {.ws_row = 10, .ws_col = 40};
	struct progress progress = {0};
	char text[4096], *line, *rest = NULL;
	int ours, theirs, nr = 0;
	FILE *out;

	(void)state;
	assert_int_equal(openpty(&ours, &theirs, NULL, NULL, &size), 0);
	out = fdopen(theirs, "w");
	assert_non_null(out);
	progress_start(&progress, out);
	progress_set(&progress, 0.3, "a label that is much longer than the terminal is wide");
	sleep_ms(1500);
	read_all(ours, text, sizeof(text));
	progress_end(&progress);
	for (line = strtok_r(text, "\r", &rest); line; line = strtok_r(NULL, "\r", &rest)) {
		line[strcspn(line, "\033")] = '\0';
		assert_true(strlen(line) < 40);
		nr += strncmp(line, "30 %", 4) == 0;
	}
	assert_true(nr >= 2);
	/* After its end nothing is drawn. */
	read_all(ours, text, sizeof(text));
	sleep_ms(1200);
	read_all(ours, text, sizeof(text));
	assert_string_equal(text, "");
	fclose(out);
	close(ours);
}

/* Where there is no terminal, a line now and then, and none in short work. */
static void test_progress_lines_without_a_terminal(void **state)
{
	struct progress progress = {0};
	char text[4096];
	FILE *out;
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	out = fdopen(fd[1], "w");
	assert_non_null(out);
	progress_start(&progress, out);
	assert_true(progress.line_ns == 30 * S);
	progress_set(&progress, 0.5, "weir");
	progress_end(&progress);
	read_all(fd[0], text, sizeof(text));
	assert_string_equal(text, "");

	progress_start(&progress, out);
	pthread_mutex_lock(&progress.lock);
	progress.line_ns = S / 50;
	pthread_cond_signal(&progress.wake);
	pthread_mutex_unlock(&progress.lock);
	progress_set(&progress, 0.5, "weir");
	sleep_ms(200);
	progress_end(&progress);
	read_all(fd[0], text, sizeof(text));
	assert_memory_equal(text, "weir: [", 7);
	assert_non_null(strstr(text, "50 %  0 s left  weir\n"));
	assert_null(strchr(text, '\r'));
	fclose(out);
	close(fd[0]);
}

/* What is left out or done twice does no harm. */
static void test_progress_end_without_start(void **state)
{
	struct progress progress = {0};

	(void)state;
	progress_set(&progress, 0.5, "weir");
	progress_clear(&progress);
	progress_end(&progress);
	progress_start(&progress, stderr);
	progress_start(&progress, stderr);
	progress_end(&progress);
	progress_end(&progress);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_progress_format),
		cmocka_unit_test(test_progress_fits_columns),
		cmocka_unit_test(test_progress_silent_work_on_a_terminal),
		cmocka_unit_test(test_progress_lines_without_a_terminal),
		cmocka_unit_test(test_progress_end_without_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
