/* SPDX-License-Identifier: Apache-2.0 */
/* The library that stands before the driver: which functions it has, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/stub.h"
#include "src/base/hash.h"
#include "tests/fakecuda/fakecuda.h"

static char file[] = "/tmp/weir-stub-XXXXXX";

static int remove_file(void **state)
{
	(void)state;
	(void)unlink(file);
	return 0;
}

static int make_file(void **state)
{
	int fd = mkstemp(file);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static void put(const void *data, size_t bytes)
{
	FILE *out = fopen(file, "w");

	assert_non_null(out);
	assert_int_equal(fwrite(data, 1, bytes, out), bytes);
	assert_int_equal(fclose(out), 0);
}

/* The driver without a GPU, as bytes. */
static uint8_t *driver_read(size_t *bytes)
{
	struct stat status;
	FILE *in = fopen(FAKECUDA_PATH, "r");
	uint8_t *data;

	assert_non_null(in);
	assert_int_equal(fstat(fileno(in), &status), 0);
	*bytes = (size_t)status.st_size;
	data = malloc(*bytes);
	assert_non_null(data);
	assert_int_equal(fread(data, 1, *bytes, in), *bytes);
	assert_int_equal(fclose(in), 0);
	return data;
}

static bool has(const struct stub_names *names, const char *name)
{
	for (size_t n = 0; n < names->nr; n++)
		if (!strcmp(names->name[n], name))
			return true;
	return false;
}

static void test_names_of_a_driver(void **state)
{
	struct stub_names names;
	char err[256];

	(void)state;
	assert_int_equal(stub_names_read(FAKECUDA_PATH, &names, err, sizeof(err)), 0);
	assert_true(has(&names, "cuInit"));
	assert_true(has(&names, "cuMemFree_v2"));
	assert_false(has(&names, "fakecuda_reset"));
	for (size_t n = 1; n < names.nr; n++)
		assert_true(strcmp(names.name[n - 1], names.name[n]) < 0);
	stub_names_free(&names);
	assert_int_equal(names.nr, 0);
}

static void test_no_driver(void **state)
{
	struct stub_names names;
	char err[256];

	(void)state;
	assert_int_equal(stub_names_read("/nowhere", &names, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "/nowhere"));
	put("", 0);
	assert_int_equal(stub_names_read(file, &names, err, sizeof(err)), -EINVAL);
	put("#!/bin/sh\n", 10);
	assert_int_equal(stub_names_read(file, &names, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, file));
	assert_int_equal(stub_names_read("/proc/self/exe", &names, err, sizeof(err)), -EINVAL);
}

/* Cut anywhere, and with bytes changed in what is looked at: an error, or names. */
static void test_damaged(void **state)
{
	struct stub_names names;
	Elf64_Ehdr header;
	uint64_t random = 1;
	size_t bytes;
	uint8_t *data = driver_read(&bytes);
	char err[256];

	(void)state;
	memcpy(&header, data, sizeof(header));
	for (size_t nr = bytes; nr > bytes / 50; nr -= bytes / 50) {
		put(data, nr - 1);
		if (!stub_names_read(file, &names, err, sizeof(err)))
			stub_names_free(&names);
	}
	for (int n = 0; n < 300; n++) {
		size_t tables = (size_t)header.e_shnum * sizeof(Elf64_Shdr), at;
		uint8_t was;

		random = hash_mix(random, (uint64_t)n);
		at = n % 3 ? header.e_shoff + random % tables : random % 4096;
		was = data[at];
		data[at] = (uint8_t)(random >> 32);
		put(data, bytes);
		if (!stub_names_read(file, &names, err, sizeof(err)))
			stub_names_free(&names);
		data[at] = was;
	}
	free(data);
}

static void test_refused(void **state)
{
	struct stub_names none = {0};
	size_t bytes;
	void *image;

	(void)state;
	assert_int_equal(stub_make(&none, "/lib/x.so", &image, &bytes), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_a_driver),
		cmocka_unit_test(test_no_driver),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
