/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and tensor maps on the fake CUDA driver: kernels read through them what lies at their
 * addresses, and what is gone is an illegal address.
 *
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda_calls.h"

enum { NR = 8, PITCH = 64 };

static cu_function function(cu_module module, const char *name)
{
	cu_function found = NULL;

	ok(cu.module_function(&found, module, name));
	return found;
}

static void launch(cu_function f, void **parameters)
{
	ok(cu.launch(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

#define LAUNCH(f, ...) launch(f, (void *[]){__VA_ARGS__})

/* Words that count up. */
static cu_ptr numbers(size_t nr)
{
	uint32_t word[NR * PITCH];
	cu_ptr addr = plain(nr * sizeof(*word));

	for (uint32_t i = 0; i < nr; i++)
		word[i] = i;
	ok(more.copy_htod(addr, word, nr * sizeof(*word)));
	return addr;
}

static void expect(cu_ptr addr, const uint32_t wanted[NR])
{
	uint32_t word[NR];

	ok(more.copy_dtoh(word, addr, sizeof(word)));
	assert_memory_equal(word, wanted, sizeof(word));
}

static void test_textures(void **state)
{
	struct cu_resource line = {.type = CU_RESOURCE_LINEAR}, rows = {.type = CU_RESOURCE_PITCH};
	const uint32_t in_line[NR] = {0, 1, 2, 3, 4, 5, 6, 7};
	const uint32_t in_rows[NR] = {0, 1, 2, 16, 17, 18, 32, 33};
	cu_ptr data, out;
	cu_module module;
	uint64_t texture, nr = NR;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, FAKECUDA_IMAGE));
	data = numbers(4 * PITCH);
	out = plain(4 * NR);
	line.linear.addr = rows.rows.addr = data;
	line.linear.bytes = 4 * NR;
	rows.rows.width = 3;
	rows.rows.height = 4;
	rows.rows.pitch = PITCH;
	assert_int_equal(more.texture_create(&texture, &line, NULL, NULL), CU_INVALID_VALUE);
	ok(more.texture_create(&texture, &line, "", NULL));
	LAUNCH(function(module, "read_texture"), &out, &texture, &nr);
	expect(out, in_line);
	ok(more.texture_destroy(texture));
	assert_int_equal(more.texture_destroy(texture), CU_INVALID_VALUE);
	ok(more.texture_create(&texture, &rows, "", NULL));
	LAUNCH(function(module, "read_texture"), &out, &texture, &nr);
	expect(out, in_rows);
	ok(more.texture_destroy(texture));
	rows.rows.pitch = 8;
	assert_int_equal(more.texture_create(&texture, &rows, "", NULL), CU_INVALID_VALUE);
	rows.type = 0; /* an array, which there is none of */
	assert_int_equal(more.texture_create(&texture, &rows, "", NULL), CU_INVALID_VALUE);
	ok(cu.mem_free(data));
	ok(cu.mem_free(out));
	ok(cu.module_unload(module));
	end();
}

/* hide: the address does not stand in the map. */
static void check_maps(bool hide)
{
	const struct fakecuda_config config = {.hide_maps = hide};
	const uint32_t wanted[NR] = {0, 1, 2, 3, 4, 5, 6, 7}, next[NR] = {4, 5, 6, 7, 8, 9, 10, 11};
	uint64_t dims[1] = {NR}, nr = NR;
	struct cu_tensor_map map;
	cu_module module;
	cu_ptr data, out;

	begin(&config);
	ok(more.module_load_data(&module, FAKECUDA_IMAGE));
	data = numbers(2 * NR);
	out = plain(4 * NR);
	ok(more.map_tiled(&map, 2, 1, pointer(data), dims, NULL, NULL, NULL, 0, 0, 0, 0));
	assert_true((map.word[0] == data) != hide);
	LAUNCH(function(module, "read_map"), &out, &map, &nr);
	expect(out, wanted);
	ok(more.map_address(&map, pointer(data + 16)));
	LAUNCH(function(module, "read_map"), &out, &map, &nr);
	expect(out, next);
	assert_int_equal(more.map_address(&map, pointer(data + 4)), CU_INVALID_VALUE);
	ok(cu.mem_free(data));
	LAUNCH(function(module, "read_map"), &out, &map, &nr);
	assert_int_equal(cu.context_sync(), CU_ILLEGAL_ADDRESS);
	fakecuda_reset(NULL);
}

static void test_maps(void **state)
{
	(void)state;
	check_maps(false);
	check_maps(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_textures),
		cmocka_unit_test(test_maps),
	};

	return cmocka_run_group_tests(tests, setup_more, teardown);
}
