/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: their bytes, and the limit to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "machine/file_read.h"

#define BYTES 200000 /* more than is read at first */

/* A file of BYTES bytes, at its beginning. */
static FILE *sample(void)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	for (int i = 0; i < BYTES; i++)
		fputc(i % 251, file);
	assert_int_equal(fflush(file), 0);
	rewind(file);
	return file;
}

static void test_file_read_whole(void **state)
{
	FILE *file = sample();
	char *text;
	size_t bytes;

	(void)state;
	assert_int_equal(file_read(fileno(file), BYTES, &text, &bytes), 0);
	assert_int_equal(bytes, BYTES);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal((unsigned char)text[i], i % 251);
	assert_int_equal(text[BYTES], 0);
	free(text);
	fclose(file);
}

static void test_file_read_limit(void **state)
{
	FILE *file = sample();
	char *text;
	size_t bytes;

	(void)state;
	assert_int_equal(file_read(fileno(file), BYTES - 1, &text, &bytes), -EFBIG);
	fclose(file);
}

static void test_file_read_empty_and_bad(void **state)
{
	FILE *file = tmpfile();
	char *text;
	size_t bytes;

	(void)state;
	assert_non_null(file);
	assert_int_equal(file_read(fileno(file), 0, &text, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_string_equal(text, "");
	free(text);
	fclose(file);
	assert_int_equal(file_read(-1, 10, &text, &bytes), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_read_whole),
		cmocka_unit_test(test_file_read_limit),
		cmocka_unit_test(test_file_read_empty_and_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
