/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir/machine_file.h: what is written is read back to the same, nothing is written that cannot be
 * read, a file that is there stays until another is whole, and machines are found with nothing in
 * the environment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weir/machine_file.h"

#define WHY_BYTES 512

static const struct weir_machine_note good_note = {"a test's", WEIR_ORIGIN_FITTED, "nowhere"};
static char scratch[] = "/tmp/test_machine_public.XXXXXX";

static char *scratch_path(const char *name)
{
	static char path[sizeof(scratch) + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

/* Every file of the scratch folder: how many there are. */
static int nr_files(void)
{
	DIR *dir = opendir(scratch);
	int nr = 0;

	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
		nr += entry->d_name[0] != '.';
	closedir(dir);
	return nr;
}

static void read_laptop(struct weir_machine_desc *desc)
{
	char why[WHY_BYTES] = "";

	if (weir_machine_file_read("laptop", desc, why, sizeof(why)))
		fail_msg("%s", why);
}

/* With nothing in the environment: beside this program, as beside every one of the build tree. */
static void test_read_finds_its_own(void **state)
{
	struct weir_machine_desc desc;

	(void)state;
	assert_int_equal(unsetenv("WEIR_MACHINE_PATH"), 0);
	read_laptop(&desc);
	assert_string_equal(desc.name, "laptop");
	assert_int_equal(weir_machine_check(&desc, NULL, 0), 0);
}

static void test_read_errors(void **state)
{
	struct weir_machine_desc desc, untouched;
	char why[WHY_BYTES], little[8];

	(void)state;
	memset(&desc, 0x5a, sizeof(desc));
	memcpy(&untouched, &desc, sizeof(desc));
	assert_int_equal(weir_machine_file_read(NULL, &desc, why, sizeof(why)), -EINVAL);
	assert_int_equal(weir_machine_file_read("laptop", NULL, why, sizeof(why)), -EINVAL);
	assert_int_equal(weir_machine_file_read("", &desc, why, sizeof(why)), -ENOENT);
	assert_int_equal(weir_machine_file_read("cray", &desc, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "cray: no such machine; there are"));
	assert_non_null(strstr(why, "laptop"));
	assert_int_equal(weir_machine_file_read("cray", &desc, NULL, WHY_BYTES), -ENOENT);
	assert_int_equal(weir_machine_file_read("cray", &desc, little, sizeof(little)), -ENOENT);
	assert_string_equal(little, "cray: n");
	assert_int_equal(weir_machine_file_read(scratch, &desc, why, sizeof(why)), -EISDIR);
	assert_int_equal(weir_machine_file_read("/dev/null", &desc, why, sizeof(why)),
			 -WEIR_EMACHINE);
	assert_memory_equal(&desc, &untouched, sizeof(desc));
}

static void test_write_reads_back(void **state)
{
	struct weir_machine_desc desc, again;
	char why[WHY_BYTES] = "";
	struct stat st;

	(void)state;
	read_laptop(&desc);
	memcpy(desc.name, "own\0\0\0", sizeof("laptop"));
	desc.link[0].inplace_bytes_per_s = 1e9 / 3;
	desc.nr_kernels = 1;
	desc.kernel[0] = (struct weir_kernel_rate){.name = "gather", .factor = 1.1};
	desc.nr_ports = 2;
	desc.port[0] = (struct weir_port_desc){0, 2, 1e9 / 7, 3e9};
	desc.port[1] = (struct weir_port_desc){1, 16, 5e9, 4e9};
	for (int times = 0; times < 2; times++) {
		assert_int_equal(weir_machine_file_write(scratch_path("own.json"), &desc,
							 &good_note, why, sizeof(why)),
				 0);
		assert_int_equal(nr_files(), 1);
	}
	assert_int_equal(stat(scratch_path("own.json"), &st), 0);
	assert_int_equal(st.st_mode & 0600, 0600);
	assert_int_equal(weir_machine_file_read(scratch_path("own.json"), &again, why, sizeof(why)),
			 0);
	assert_memory_equal(&desc, &again, sizeof(desc));

	/* By name, too. */
	assert_int_equal(setenv("WEIR_MACHINE_PATH", scratch, 1), 0);
	memset(&again, 0, sizeof(again));
	assert_int_equal(weir_machine_file_read("own", &again, NULL, 0), 0);
	assert_memory_equal(&desc, &again, sizeof(desc));
	assert_int_equal(unsetenv("WEIR_MACHINE_PATH"), 0);
	assert_int_equal(unlink(scratch_path("own.json")), 0);
}

/* Refused, with a line that names the file, and nothing is written. */
static void refuse(const struct weir_machine_desc *desc, const struct weir_machine_note *note,
		   int err)
{
	char why[WHY_BYTES] = "";

	assert_int_equal(
		weir_machine_file_write(scratch_path("no.json"), desc, note, why, sizeof(why)),
		err);
	assert_int_equal(strncmp(why, scratch, strlen(scratch)), 0);
	for (const char *c = why; *c; c++)
		assert_in_range(*c, ' ', '~');
	assert_int_equal(weir_machine_file_write(scratch_path("no.json"), desc, note, NULL, 9),
			 err);
	assert_int_equal(nr_files(), 0);
}

static void test_write_refuses_notes(void **state)
{
	struct weir_machine_note note = good_note;
	struct weir_machine_desc desc;
	char text[1026];

	(void)state;
	read_laptop(&desc);
	refuse(&desc, NULL, -EINVAL);
	refuse(NULL, &good_note, -EINVAL);
	note.origin = WEIR_ORIGIN_NR;
	refuse(&desc, &note, -EINVAL);
	note.origin = (enum weir_machine_origin) - 1;
	refuse(&desc, &note, -EINVAL);
	memset(text, 'x', sizeof(text));
	text[1025] = '\0';
	for (const char *const *bad = (const char *const[]){"", "two\nlines", "\x7f", text, NULL};
	     *bad; bad++) {
		note = good_note;
		note.about = *bad;
		refuse(&desc, &note, -EINVAL);
		note = good_note;
		note.source = *bad;
		refuse(&desc, &note, -EINVAL);
	}
	note = good_note;
	note.about = text + 1025 - 128;
	refuse(&desc, &note, -EINVAL);
	note.about = NULL;
	refuse(&desc, &note, -EINVAL);
	note = good_note;
	note.source = NULL;
	refuse(&desc, &note, -EINVAL);

	/* The longest ones. */
	note = (struct weir_machine_note){text + 1025 - 127, WEIR_ORIGIN_VENDOR, text + 1};
	assert_int_equal(weir_machine_file_write(scratch_path("a.json"), &desc, &note, NULL, 0), 0);
	assert_int_equal(weir_machine_file_read(scratch_path("a.json"), &desc, NULL, 0), 0);
	assert_int_equal(unlink(scratch_path("a.json")), 0);
}

static void test_write_refuses_machines(void **state)
{
	struct weir_machine_desc good, desc;

	(void)state;
	read_laptop(&good);
	desc = good;
	desc.nr_devices = 0;
	refuse(&desc, &good_note, -WEIR_EMACHINE);
	/* weir_machine_check() lets these pass. */
	desc = good;
	(void)snprintf(desc.name, sizeof(desc.name), "a b");
	refuse(&desc, &good_note, -WEIR_EMACHINE);
	desc = good;
	(void)snprintf(desc.memory[0].name, sizeof(desc.memory[0].name), "ho\nst");
	refuse(&desc, &good_note, -WEIR_EMACHINE);
	desc = good;
	desc.vmm.map_ns = (UINT64_C(1) << 53) + 2;
	refuse(&desc, &good_note, -WEIR_EMACHINE);
}

/* Whoever stands in the way is named, and what was there is as it was. */
static void test_write_places(void **state)
{
	struct weir_machine_desc desc;
	char why[WHY_BYTES] = "";

	(void)state;
	read_laptop(&desc);
	assert_int_equal(weir_machine_file_write(NULL, &desc, &good_note, why, sizeof(why)),
			 -EINVAL);
	assert_int_equal(weir_machine_file_write(scratch_path("none/a.json"), &desc, &good_note,
						 why, sizeof(why)),
			 -ENOENT);
	assert_non_null(strstr(why, "none/a.json: No such file"));
	assert_int_equal(mkdir(scratch_path("folder"), 0700), 0);
	assert_int_equal(weir_machine_file_write(scratch_path("folder"), &desc, &good_note, why,
						 sizeof(why)),
			 -EISDIR);
	assert_int_equal(nr_files(), 1);
	assert_int_equal(rmdir(scratch_path("folder")), 0);

	assert_int_equal(
		weir_machine_file_write(scratch_path("a.json"), &desc, &good_note, NULL, 0), 0);
	desc.nr_links = 0;
	assert_int_equal(
		weir_machine_file_write(scratch_path("a.json"), &desc, &good_note, NULL, 0),
		-WEIR_EMACHINE);
	assert_int_equal(weir_machine_file_read(scratch_path("a.json"), &desc, NULL, 0), 0);
	assert_int_equal(unlink(scratch_path("a.json")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_finds_its_own),
		cmocka_unit_test(test_read_errors),
		cmocka_unit_test(test_write_reads_back),
		cmocka_unit_test(test_write_refuses_notes),
		cmocka_unit_test(test_write_refuses_machines),
		cmocka_unit_test(test_write_places),
	};
	int failed;

	if (!mkdtemp(scratch)) {
		perror(scratch);
		return 1;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(scratch);
	return failed;
}
