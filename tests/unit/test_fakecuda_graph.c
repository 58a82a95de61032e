/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs on the fake CUDA driver: what a stream is given while it is captured is done by the
 * graph's launches, in that order, and not before.
 *
 * Links: cuda-fake
 */
#include "tests/unit/test_fakecuda_calls.h"

enum { NR = 64, BYTES = 4 * NR, RELAXED = CU_CAPTURE_MODE_RELAXED };
enum { INVALIDATED = 901, UNMATCHED = 903, ISOLATION = 905 };

static uint32_t word_at(cu_ptr addr)
{
	uint32_t word;

	ok(more.copy_dtoh(&word, addr, sizeof(word)));
	return word;
}

static cu_graph_exec instantiated(cu_stream stream)
{
	cu_graph_exec exec = NULL;
	cu_graph graph = NULL;

	ok(more.capture_end(stream, &graph));
	ok(more.graph_instantiate(&exec, graph, 0));
	ok(more.graph_destroy(graph));
	return exec;
}

/* A fill, a kernel, a copy and a word for the stream: a = 3; b = a + b; copy b to c. */
static void capture_work(cu_stream stream, cu_module module, const cu_ptr at[3], cu_ptr flag)
{
	cu_function add = NULL;
	uint64_t nr = NR;
	void *parameters[] = {(void *)&at[1], (void *)&at[0], (void *)&at[1], &nr};

	ok(cu.module_function(&add, module, "add"));
	ok(more.capture_begin(stream, RELAXED));
	ok(cu.fill(at[0], 3, NR, stream));
	ok(cu.launch(add, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
	ok(more.copy_dtod_async(at[2], at[1], BYTES, stream));
	ok(more.write32(stream, flag, 7, 0));
}

static void test_graph(void **state)
{
	cu_stream stream, other;
	cu_graph_exec exec;
	cu_module module;
	cu_ptr at[3], flag;

	(void)state;
	begin(NULL);
	ok(more.module_load_data(&module, FAKECUDA_IMAGE));
	stream = stream_new();
	other = stream_new();
	flag = plain(4);
	for (int i = 0; i < 3; i++) {
		at[i] = plain(BYTES);
		ok(more.fill32(at[i], 1, NR));
	}
	capture_work(stream, module, at, flag);
	exec = instantiated(stream);
	ok(cu.context_sync());
	assert_int_equal(word_at(at[0]) + word_at(at[2]), 2);
	for (uint32_t time = 1; time < 4; time++) {
		ok(more.fill32(flag, 0, 1));
		ok(cu.context_sync());
		ok(more.graph_launch(exec, time % 2 ? stream : other));
		ok(cu.context_sync());
		assert_int_equal(word_at(at[0]), 3);
		assert_int_equal(word_at(at[2] + BYTES - 4), 1 + 3 * time);
		assert_int_equal(word_at(flag), 7);
	}
	/* What is queued is done though the graph is gone. */
	ok(fakecuda_gate(stream, true));
	ok(own.graph_launch(exec, stream));
	ok(more.graph_exec_destroy(exec));
	ok(fakecuda_gate(stream, false));
	ok(cu.stream_sync(stream));
	assert_int_equal(word_at(at[2]), 13);
	for (int i = 0; i < 3; i++)
		ok(cu.mem_free(at[i]));
	ok(cu.mem_free(flag));
	ok(cu.stream_destroy(stream));
	ok(cu.stream_destroy(other));
	ok(cu.module_unload(module));
	end();
}

/* What is refused, and what a graph is not. */
static void test_wrong(void **state)
{
	cu_stream stream;
	cu_graph_exec exec = NULL;
	cu_graph graph = NULL;
	cu_event event;
	cu_ptr addr;

	(void)state;
	begin(NULL);
	stream = stream_new();
	addr = plain(BYTES);
	ok(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
	ok(cu.event_record(event, NULL));
	assert_int_equal(more.capture_end(stream, &graph), UNMATCHED);
	assert_int_equal(more.capture_begin(NULL, RELAXED), CU_CAPTURE_UNSUPPORTED);
	assert_int_equal(more.capture_begin(stream, 3), CU_INVALID_VALUE);
	ok(more.capture_begin(stream, RELAXED));
	assert_int_equal(more.capture_begin(stream, RELAXED), CU_CAPTURE_UNSUPPORTED);
	assert_int_equal(more.pool_alloc(&addr, BYTES, stream), CU_CAPTURE_UNSUPPORTED);
	assert_int_equal(more.pool_free(addr, stream), CU_CAPTURE_UNSUPPORTED);
	ok(cu.fill(addr, 3, NR, stream));
	assert_int_equal(cu.stream_wait(stream, event, 0), ISOLATION);
	assert_int_equal(more.capture_end(stream, &graph), INVALIDATED);
	assert_null(graph);
	/* Who waits for the context spoils it, whatever its mode. */
	ok(more.capture_begin(stream, RELAXED));
	assert_int_equal(cu.context_sync(), CU_CAPTURE_UNSUPPORTED);
	assert_int_equal(more.capture_end(stream, &graph), INVALIDATED);
	ok(cu.context_sync());
	ok(more.capture_begin(stream, RELAXED));
	ok(more.capture_end(stream, &graph));
	assert_int_equal(more.graph_instantiate(&exec, graph, 1), CU_INVALID_VALUE);
	assert_int_equal(more.graph_launch((cu_graph_exec)graph, stream), CU_INVALID_VALUE);
	ok(more.graph_instantiate(&exec, graph, 0));
	ok(more.graph_launch(exec, NULL));
	assert_int_equal(fakecuda_leaks(NULL), 6);
	ok(more.graph_destroy(graph));
	assert_int_equal(more.graph_destroy(graph), CU_INVALID_VALUE);
	ok(more.graph_exec_destroy(exec));
	/* A stream that ends while it is captured. */
	ok(more.capture_begin(stream, RELAXED));
	ok(cu.fill(addr, 3, NR, stream));
	ok(cu.stream_destroy(stream));
	ok(cu.event_destroy(event));
	ok(cu.mem_free(addr));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests(tests, setup_more, teardown);
}
