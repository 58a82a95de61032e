/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: policies' objects. What is refused must be explained in one line; the hooks of what
 * is accepted run on a context of their own, which is as large as it should be and no larger.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/bpf.h"
#include "src/policy/policy.h"

#define BUDGET 2000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void run(struct bpf_object *object, uint32_t function, uint32_t bytes)
{
	void *context = calloc(1, bytes);
	struct bpf_run run = {.given = {{context, bytes, true}},
			      .nr_given = 1,
			      .arg = {BPF_GIVEN_ADDRESS(0)},
			      .budget = BUDGET};
	struct bpf_fault fault = {.text = ""};
	int ret;

	require(context != NULL);
	ret = bpf_function_run(object, function, &run, &fault);
	require(ret == 0 || ret == -EFAULT || ret == -ETIME || ret == -ELOOP);
	require(run.budget < BUDGET);
	require(!ret || (fault.text[0] && !strchr(fault.text, '\n')));
	free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const hooks[] = {"weir_admit", "weir_victim", "weir_fault",
					    "weir_moved"};
	struct bpf_object *object;
	struct bpf_global global;
	char err[512] = "";

	if (bpf_object_load("fuzz.o", data, bytes, &object, err, sizeof(err))) {
		require(err[0] && !strchr(err, '\n'));
		return 0;
	}
	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++) {
		const int function = bpf_function_find(object, hooks[hook]);

		if (function >= 0)
			run(object, (uint32_t)function, policy_context_bytes[hook]);
	}
	for (uint32_t n = 0; bpf_global_nth(object, n, &global); n++)
		if (global.is_integer)
			(void)policy_number_get(global.bytes, global.nr, global.is_signed);
	bpf_object_destroy(object);
	return 0;
}
