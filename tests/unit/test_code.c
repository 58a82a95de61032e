/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells one kernel's code from another's: images of all kinds are measured, each bit of them
 * counts, and so do what the driver says of a kernel and the layout of its parameters.
 *
 * Links: weir_dropin
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/code.h"
#include "src/base/util.h"

#define FAT_BYTES 100u

static char handles[4]; /* their addresses are modules and kernels */

/* ------------------------------------------------------------------ images */

static void fat_make(unsigned char *fat)
{
	const uint32_t magic = 0xba55ed50;
	const uint16_t header = 16;
	const uint64_t payload = FAT_BYTES - header;

	memset(fat, 0, FAT_BYTES);
	memcpy(fat, &magic, sizeof(magic));
	memcpy(fat + 6, &header, sizeof(header));
	memcpy(fat + 8, &payload, sizeof(payload));
}

struct wrapper {
	uint32_t magic, version;
	const void *fat;
	void *more;
};

/* Two sections, the table of them, and behind it the program's. */
struct elf {
	Elf64_Ehdr head;
	unsigned char code[40];
	Elf64_Shdr section[2];
	Elf64_Phdr segment;
};

static struct elf elf_make(void)
{
	struct elf elf = {
		.head = {.e_shoff = offsetof(struct elf, section),
			 .e_shnum = 2,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_phoff = offsetof(struct elf, segment),
			 .e_phnum = 1,
			 .e_phentsize = sizeof(Elf64_Phdr)},
		.section = {{.sh_type = SHT_PROGBITS,
			     .sh_offset = offsetof(struct elf, code),
			     .sh_size = 40},
			    {.sh_type = SHT_NOBITS, .sh_offset = 64, .sh_size = 1 << 30}},
	};

	memcpy(elf.head.e_ident, ELFMAG, SELFMAG);
	elf.head.e_ident[EI_CLASS] = ELFCLASS64;
	return elf;
}

static void test_image_bytes(void **state)
{
	unsigned char fat[FAT_BYTES];
	struct wrapper wrapper = {0x466243b1, 1, fat, NULL};
	struct elf elf = elf_make();
	const void *bytes;

	(void)state;
	fat_make(fat);
	assert_int_equal(code_image_bytes(fat, &bytes), FAT_BYTES);
	assert_ptr_equal(bytes, fat);
	assert_int_equal(code_image_bytes(&wrapper, &bytes), FAT_BYTES);
	assert_ptr_equal(bytes, fat);
	assert_int_equal(code_image_bytes(&elf, &bytes), sizeof(elf));
	elf.section[0].sh_size += 1000;
	assert_int_equal(code_image_bytes(&elf, &bytes), offsetof(struct elf, code) + 1040);
	assert_int_equal(code_image_bytes(".version 8.0\n", &bytes), 13);
	assert_int_equal(code_image_bytes("\n", &bytes), 1);
}

static void test_other_images(void **state)
{
	unsigned char fat[FAT_BYTES];
	struct wrapper wrapper = {0x466243b1, 1, NULL, NULL};
	struct elf elf = elf_make();
	const void *bytes;

	(void)state;
	assert_int_equal(code_image_bytes(&wrapper, &bytes), 0);
	wrapper.fat = "text";
	assert_int_equal(code_image_bytes(&wrapper, &bytes), 0);
	fat_make(fat);
	fat[6] = 4; /* a header that is shorter than one */
	assert_int_equal(code_image_bytes(fat, &bytes), 0);
	elf.head.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(code_image_bytes(&elf, &bytes), 0);
	elf = elf_make();
	elf.head.e_shentsize = 1;
	assert_int_equal(code_image_bytes(&elf, &bytes), 0);
	assert_int_equal(code_image_bytes("", &bytes), 0);
	assert_int_equal(code_image_bytes("\x7fTile", &bytes), 0);
}

static void test_each_bit_counts(void **state)
{
	unsigned char bytes[37] = {0};
	const uint64_t plain = code_hash(0, bytes, sizeof(bytes));

	(void)state;
	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_true(code_hash(0, bytes, sizeof(bytes)) != plain);
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	for (size_t nr = 0; nr < sizeof(bytes); nr++)
		assert_true(code_hash(0, bytes, nr) != plain);
	/* It is kept in files: the same in all versions. */
	assert_true(code_hash(0, "weir kernels", 12) == UINT64_C(0xb4e21400bd222cc9));
}

/* ------------------------------------------------------------------ kernels */

static const void *owner; /* of the kernel that is asked for */
static bool is_library;
static int attribute[16];

static cu_result module_get(cu_module *module, cu_function function)
{
	(void)function;
	*module = (cu_module)(uintptr_t)owner;
	return is_library ? CU_INVALID_HANDLE : CU_SUCCESS;
}

static cu_result library_get(cu_library *library, cu_function kernel)
{
	(void)kernel;
	*library = (cu_library)(uintptr_t)owner;
	return is_library ? CU_SUCCESS : CU_INVALID_HANDLE;
}

static cu_result attribute_get(int *value, int number, cu_function function)
{
	(void)function;
	*value = attribute[number];
	return is_library ? CU_INVALID_HANDLE : CU_SUCCESS;
}

static cu_result kernel_attribute_get(int *value, int number, cu_function function,
				      cu_device device)
{
	(void)function;
	*value = attribute[number];
	return device == 3 ? CU_SUCCESS : CU_INVALID_VALUE;
}

static cu_result device_get(cu_device *device)
{
	*device = 3;
	return CU_SUCCESS;
}

static int setup(void **state)
{
	(void)state;
	real = (struct real){.cuFuncGetModule = module_get,
			     .cuKernelGetLibrary = library_get,
			     .cuFuncGetAttribute = attribute_get,
			     .cuKernelGetAttribute = kernel_attribute_get,
			     .cuCtxGetDevice = device_get};
	owner = &handles[0];
	is_library = false;
	memset(attribute, 0, sizeof(attribute));
	return 0;
}

static const struct infer_param layout[] = {{0, 8}, {8, 8}};

static uint64_t code(bool known)
{
	bool image_is_known = !known;
	uint64_t hash = code_of((cu_function)(uintptr_t)&handles[3], layout, 2, &image_is_known);

	assert_int_equal(image_is_known, known);
	return hash;
}

static void test_kernels(void **state)
{
	uint64_t first, other;
	bool known;

	(void)state;
	code_loaded(&handles[0], ".version 1", false);
	code_loaded(&handles[1], ".version 2", false);
	first = code(true);
	assert_true(code(true) == first);
	owner = &handles[1];
	assert_true(code(true) != first);
	/* Of a library, with the same image. */
	owner = &handles[0];
	is_library = true;
	assert_true(code(true) == first);
	is_library = false;
	for (int a = 1; a < 7; a++) {
		attribute[a]++;
		assert_true(code(true) != first);
		attribute[a]--;
	}
	attribute[8]++; /* what programs set */
	assert_true(code(true) == first);
	other = code_of((cu_function)(uintptr_t)&handles[3], layout, 1, &known);
	assert_true(other != first);
	assert_true(code_of((cu_function)(uintptr_t)&handles[3], NULL, 0, &known) != other);
	/* What is unloaded is not known, and another may have its handle. */
	code_unload(&handles[0]);
	assert_true(code(false) != first);
	code_loaded(&handles[0], ".version 1", false);
	assert_true(code(true) == first);
	/* Or without that, where the module went with its context. */
	code_loaded(&handles[0], ".version 2", false);
	other = code(true);
	assert_true(other != first);
	owner = &handles[1];
	assert_true(code(true) == other);
	code_unload(&handles[0]);
	code_unload(&handles[1]);
	code_unload(&handles[2]);
}

/* What stays is read when it is asked for; what may be freed, at once. */
static void test_when_it_is_read(void **state)
{
	unsigned char fat[FAT_BYTES];
	struct wrapper wrapper = {0x466243b1, 1, fat, NULL};
	char text[] = ".version 1";
	uint64_t first, at_once;

	(void)state;
	fat_make(fat);
	code_loaded(&handles[0], &wrapper, false);
	fat[50] = 1;
	first = code(true);
	code_unload(&handles[0]);
	code_loaded(&handles[0], fat, false);
	assert_true(code(true) == first);
	code_unload(&handles[0]);

	code_loaded(&handles[0], text, false);
	text[9] = '2';
	at_once = code(true);
	code_unload(&handles[0]);
	code_loaded(&handles[0], text, true);
	text[9] = '1';
	assert_true(code(true) == at_once);
	code_unload(&handles[0]);
	code_loaded(&handles[0], NULL, false);
	(void)code(false);
}

static void test_files(void **state)
{
	char path[] = "/tmp/test_code.XXXXXX";
	const int fd = mkstemp(path);
	uint64_t first;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "first", 5), 5);
	code_loaded_file(&handles[0], path);
	first = code(true);
	code_unload(&handles[0]);
	assert_int_equal(pwrite(fd, "other", 5, 0), 5);
	code_loaded_file(&handles[0], path);
	assert_true(code(true) != first);
	code_unload(&handles[0]);
	assert_int_equal(ftruncate(fd, 0), 0);
	code_loaded_file(&handles[0], path);
	(void)code(false);
	code_unload(&handles[0]);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
	code_loaded_file(&handles[0], path);
	(void)code(false);
	code_unload(&handles[0]);
}

/* More modules than the first table has room for. */
static void test_many(void **state)
{
	static char many[300];
	char text[32];
	uint64_t hash[ARRAY_LEN(many)];

	(void)state;
	for (size_t m = 0; m < ARRAY_LEN(many); m++) {
		(void)snprintf(text, sizeof(text), ".version %zu", m);
		code_loaded(&many[m], text, false);
	}
	for (size_t m = 0; m < ARRAY_LEN(many); m++) {
		owner = &many[m];
		hash[m] = code(true);
		assert_true(!m || hash[m] != hash[m - 1]);
	}
	for (size_t m = 0; m < ARRAY_LEN(many); m += 2)
		code_unload(&many[m]);
	for (size_t m = 1; m < ARRAY_LEN(many); m += 2) {
		owner = &many[m];
		assert_true(code(true) == hash[m]);
		code_unload(&many[m]);
	}
}

/* A driver without these functions. */
static void test_old_driver(void **state)
{
	(void)state;
	code_loaded(&handles[0], ".version 1", false);
	real = (struct real){.cuFuncGetName = NULL};
	(void)code(false);
	code_unload(&handles[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_image_bytes),
		cmocka_unit_test(test_other_images),
		cmocka_unit_test(test_each_bit_counts),
		cmocka_unit_test_setup(test_kernels, setup),
		cmocka_unit_test_setup(test_when_it_is_read, setup),
		cmocka_unit_test_setup(test_files, setup),
		cmocka_unit_test_setup(test_many, setup),
		cmocka_unit_test_setup(test_old_driver, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
