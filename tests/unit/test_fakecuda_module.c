/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries on the fake CUDA driver, the kernels that programs find in them, and all
 * ways to launch one: what each does, and that it is held to what it may touch.
 *
 * Labels: threads
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda_calls.h"

#define IMAGE FAKECUDA_IMAGE "global table 8\n"

static cu_function function(cu_module module, const char *name)
{
	cu_function found = NULL;

	ok(cu.module_function(&found, module, name));
	return found;
}

static cu_result launch(cu_function f, cu_stream stream, void **parameters)
{
	return cu.launch(f, 1, 1, 1, 128, 1, 1, 0, stream, parameters, NULL);
}

#define LAUNCH(f, stream, ...) launch(f, stream, (void *[]){__VA_ARGS__})

static uint32_t word_at(cu_ptr addr)
{
	uint32_t word;

	ok(more.copy_dtoh(&word, addr, sizeof(word)));
	return word;
}

static void test_images(void **state)
{
	cu_module module, other;
	cu_function found;
	cu_ptr addr;
	size_t bytes;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, IMAGE "global other 100\n"));
	ok(cu.module_load(&other, FAKECUDA_IMAGE, 0, NULL, NULL));
	ok(more.module_global(&addr, &bytes, module, "other"));
	assert_int_equal(bytes, 100);
	assert_int_equal(word_at(addr + 96), 0);
	assert_int_equal(more.module_global(&addr, &bytes, other, "other"), NOT_FOUND);
	assert_int_equal(cu.module_function(&found, module, "none"), NOT_FOUND);
	/* Without the variable that it reads there is no such kernel. */
	ok(cu.module_function(&found, module, "load_table"));
	assert_int_equal(cu.module_function(&found, other, "load_table"), NOT_FOUND);
	assert_int_equal(cu.mem_free(addr), CU_INVALID_VALUE);
	assert_int_equal(more.module_load_data(&other, FAKECUDA_IMAGE "kernel\n"), INVALID_IMAGE);
	ok(cu.module_unload(module));
	assert_int_equal(cu.module_unload(module), INVALID_HANDLE);
	assert_int_equal(LAUNCH(found, NULL, &addr), INVALID_HANDLE);
	ok(cu.module_unload(other));
	end();
}

static void test_layout(void **state)
{
	static const size_t offsets[] = {0, 8, 16}, sizes[] = {8, 8, 4};
	size_t offset, bytes;
	cu_module module, found;
	cu_library library;
	const char *name;
	cu_function f;
	int value;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, IMAGE));
	f = function(module, "fill");
	for (size_t i = 0; i < 3; i++) {
		ok(more.function_parameter(f, i, &offset, &bytes));
		assert_int_equal(offset, offsets[i]);
		assert_int_equal(bytes, sizes[i]);
	}
	assert_int_equal(more.function_parameter(f, 3, &offset, &bytes), CU_INVALID_VALUE);
	assert_int_equal(more.function_parameter((cu_function)&f, 0, &offset, &bytes),
			 INVALID_HANDLE);
	/* The variable is no parameter. */
	assert_int_equal(
		more.function_parameter(function(module, "load_table"), 2, &offset, &bytes),
		CU_INVALID_VALUE);
	ok(more.function_attribute(&value, 0, f));
	assert_int_equal(value, 1024);
	ok(more.kernel_attribute(&value, 6, (cu_kernel)f, 0));
	assert_int_equal(value, 90);
	assert_int_equal(more.kernel_attribute(&value, 0, (cu_kernel)f, -1), CU_INVALID_DEVICE);
	assert_int_equal(more.function_attribute(&value, 99, f), CU_INVALID_VALUE);
	ok(more.function_module(&found, f));
	assert_ptr_equal(found, module);
	assert_int_equal(more.kernel_library(&library, (cu_kernel)f), INVALID_HANDLE);
	ok(more.function_name(&name, f));
	assert_string_equal(name, "fill");
	ok(more.kernel_name(&name, (cu_kernel)f));
	assert_string_equal(name, "fill");
	assert_int_equal(more.function_name(&name, (cu_function)&f), INVALID_HANDLE);
	assert_int_equal(more.function_name(NULL, f), CU_INVALID_VALUE);
	ok(cu.module_unload(module));
	end();
}

/* One launch in each way there is, of kernels of a module and of a library. */
static void test_ways(void **state)
{
	struct cu_launch_config config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 0};
	struct {
		cu_ptr dst;
		uint64_t nr;
		uint32_t value;
	} buffer;
	size_t bytes = 20, offset;
	void *extra[] = {CU_LAUNCH_BUFFER, &buffer, CU_LAUNCH_BUFFER_BYTES, &bytes, CU_LAUNCH_END};
	void *parameters[] = {&buffer.dst, &buffer.nr, &buffer.value};
	cu_library library, found;
	cu_function f;
	cu_kernel kernel;
	cu_module module;

	(void)state;
	begin(NULL);
	buffer.dst = plain(UNIT);
	buffer.nr = 4;
	ok(more.library_load(&library, IMAGE, NULL, NULL, 0, NULL, NULL, 0));
	ok(more.library_kernel(&kernel, library, "fill"));
	ok(more.kernel_library(&found, kernel));
	assert_ptr_equal(found, library);
	assert_int_equal(more.function_module(&module, (cu_function)kernel), INVALID_HANDLE);
	ok(more.kernel_parameter(kernel, 2, &offset, &bytes));
	assert_int_equal(offset, 16);
	bytes = 20;
	ok(more.kernel_function(&f, kernel));
	buffer.value = 1;
	ok(launch(f, NULL, parameters));
	assert_int_equal(word_at(buffer.dst + 12), 1);
	buffer.value = 2;
	ok(launch((cu_function)kernel, NULL, parameters));
	assert_int_equal(word_at(buffer.dst), 2);
	buffer.value = 3;
	ok(cu.launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	buffer.value = 0; /* was copied */
	assert_int_equal(word_at(buffer.dst), 3);
	buffer.value = 4;
	ok(more.launch_config(&config, f, parameters, NULL));
	assert_int_equal(word_at(buffer.dst), 4);
	buffer.value = 5;
	ok(more.launch_cooperative(f, 1, 1, 1, 1, 1, 1, 0, NULL, parameters));
	assert_int_equal(word_at(buffer.dst), 5);
	buffer.value = 6;
	ok(own.launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	ok(own.stream_sync(NULL));
	assert_int_equal(word_at(buffer.dst), 6);
	bytes = 19;
	assert_int_equal(cu.launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), CU_INVALID_VALUE);
	assert_int_equal(cu.launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra),
			 CU_INVALID_VALUE);
	assert_int_equal(launch(f, NULL, NULL), CU_INVALID_VALUE);
	assert_int_equal(cu.launch(f, 1, 1, 1, 1025, 1, 1, 0, NULL, parameters, NULL),
			 CU_INVALID_VALUE);
	assert_int_equal(more.launch_config(NULL, f, parameters, NULL), CU_INVALID_VALUE);
	ok(more.library_unload(library));
	assert_int_equal(launch(f, NULL, parameters), INVALID_HANDLE);
	ok(cu.mem_free(buffer.dst));
	end();
}

static void test_arrays(void **state)
{
	uint32_t host[4] = {1, 2, 3, 4};
	float x[2] = {1.5f, -2}, factor = 3;
	cu_ptr a, b, c;
	uint64_t nr = 4, two = 2;
	cu_module module;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, FAKECUDA_IMAGE));
	a = plain(16);
	b = plain(16);
	c = plain(16);
	ok(more.copy_htod(a, host, sizeof(host)));
	ok(LAUNCH(function(module, "copy"), NULL, &b, &a, &nr));
	ok(LAUNCH(function(module, "add"), NULL, &c, &a, &b, &nr));
	ok(more.copy_dtoh(host, c, sizeof(host)));
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(host[i], 2 * (i + 1));
	ok(LAUNCH(function(module, "sum"), NULL, &b, &c, &nr));
	assert_int_equal(word_at(b), 20);
	ok(more.copy_htod(a, x, sizeof(x)));
	ok(LAUNCH(function(module, "scale"), NULL, &a, &two, &factor));
	ok(more.copy_dtoh(x, a, sizeof(x)));
	assert_true(x[0] == 4.5f && x[1] == -6);
	for (int i = 0; i < 3; i++)
		ok(cu.mem_free((cu_ptr[]){a, b, c}[i]));
	ok(cu.module_unload(module));
	end();
}

/* Addresses in an array that a kernel made, in a list, and in a variable. */
static void test_hidden(void **state)
{
	struct {
		uint64_t next, value;
	} nodes[3] = {{0, 5}, {0, 6}, {0, 7}};
	uint64_t nr = 3, stride = 8;
	cu_ptr data, at, out, list, table;
	uint32_t host[6] = {1, 2, 3, 4, 5, 6};
	cu_module module;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, IMAGE));
	data = plain(sizeof(host));
	at = plain(3 * 8);
	out = plain(3 * 4);
	list = plain(sizeof(nodes));
	ok(more.copy_htod(data, host, sizeof(host)));
	ok(LAUNCH(function(module, "addresses"), NULL, &at, &data, &stride, &nr));
	ok(LAUNCH(function(module, "gather"), NULL, &out, &at, &nr));
	ok(more.copy_dtoh(host, out, 12));
	assert_int_equal(host[0] + 10 * host[1] + 100 * host[2], 1 + 30 + 500);
	nodes[0].next = list + 2 * sizeof(nodes[0]);
	nodes[2].next = list + sizeof(nodes[0]);
	ok(more.copy_htod(list, nodes, sizeof(nodes)));
	ok(LAUNCH(function(module, "list_sum"), NULL, &out, &list, &nr));
	assert_int_equal(word_at(out), 18);
	ok(more.module_global(&table, NULL, module, "table"));
	ok(more.copy_htod(table, &data, sizeof(data)));
	ok(LAUNCH(function(module, "load_table"), NULL, &out, &nr));
	assert_int_equal(word_at(out + 8), 3);
	for (int i = 0; i < 4; i++)
		ok(cu.mem_free((cu_ptr[]){data, at, out, list}[i]));
	ok(cu.module_unload(module));
	end();
}

enum hidden { ARRAY, LIST, VARIABLE, PARAMETER, HIDDEN_NR };

/* Memory that is gone when a kernel reaches it by an address in memory. */
static void check_gone(enum hidden what)
{
	cu_ptr gone, at, out, table;
	uint64_t nr = 1;
	cu_module module;
	char text[256];

	begin(NULL);
	ok(more.module_load_data(&module, IMAGE));
	gone = plain(UNIT);
	at = plain(16);
	out = plain(4);
	ok(more.module_global(&table, NULL, module, "table"));
	ok(more.copy_htod(at, &gone, sizeof(gone)));
	ok(more.copy_htod(table, &gone, sizeof(gone)));
	ok(cu.mem_free(gone));
	nr = what == LIST ? 2 : 1;
	if (what == ARRAY)
		ok(LAUNCH(function(module, "gather"), NULL, &out, &at, &nr));
	else if (what == LIST)
		ok(LAUNCH(function(module, "list_sum"), NULL, &out, &at, &nr));
	else if (what == VARIABLE)
		ok(LAUNCH(function(module, "load_table"), NULL, &out, &nr));
	else
		ok(LAUNCH(function(module, "sum"), NULL, &out, &gone, &nr));
	assert_int_equal(cu.context_sync(), CU_ILLEGAL_ADDRESS);
	fakecuda_problem(text, sizeof(text));
	assert_non_null(strstr(text, "a kernel must not read"));
	fakecuda_reset(NULL);
}

static void test_gone(void **state)
{
	(void)state;
	for (enum hidden i = 0; i < HIDDEN_NR; i++)
		check_gone(i);
}

/* What a kernel will reach by a parameter is in use from its launch on; what it reaches by memory
 * is compared with copies when it starts. */
static void test_in_use(void **state)
{
	cu_stream stream, copies;
	cu_ptr data, at, out;
	cu_module module;
	uint64_t nr = 1;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, IMAGE));
	stream = stream_new();
	copies = stream_new();
	data = mapped(&in_hbm, UNIT);
	at = plain(8);
	out = plain(4);
	ok(more.copy_htod(at, &data, sizeof(data)));
	ok(fakecuda_gate(copies, true));
	fill(data, 1, 4, copies);
	ok(LAUNCH(function(module, "gather"), stream, &out, &at, &nr));
	ok(cu.stream_sync(stream));
	assert_int_equal(fakecuda_nr_races(), 1);
	ok(fakecuda_gate(copies, false));
	ok(cu.stream_sync(copies));
	ok(fakecuda_gate(stream, true));
	ok(LAUNCH(function(module, "sum"), stream, &out, &data, &nr));
	ok(cu.mem_unmap(data, UNIT));
	assert_int_equal(fakecuda_nr_unmaps_in_use(), 1);
	fakecuda_reset(NULL);
}

static void test_flags(void **state)
{
	uint32_t one = 1;
	cu_stream a, b;
	cu_module module;
	cu_ptr flag;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, FAKECUDA_IMAGE));
	a = stream_new();
	b = stream_new();
	flag = plain(4);
	ok(more.fill32(flag, 0, 1));
	ok(cu.stream_sync(NULL));
	ok(LAUNCH(function(module, "wait_flag"), a, &flag, &one));
	ok(cu.stream_sync(b));
	assert_int_equal(more.stream_query(a), CU_NOT_READY);
	ok(LAUNCH(function(module, "store_flag"), b, &flag, &one));
	ok(cu.stream_sync(a));
	ok(cu.stream_destroy(a));
	ok(cu.stream_destroy(b));
	ok(cu.mem_free(flag));
	ok(cu.module_unload(module));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images), cmocka_unit_test(test_layout),
		cmocka_unit_test(test_ways),   cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_hidden), cmocka_unit_test(test_gone),
		cmocka_unit_test(test_in_use), cmocka_unit_test(test_flags),
	};

	return cmocka_run_group_tests(tests, setup_more, teardown);
}
