/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy answers the same as C and as an eBPF object: each of policies/ is asked both ways, with
 * contexts of two worlds that begin alike and stay so as long as all answers and words are the
 * same. Skipped where objects are not built.
 *
 * Long: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/policy/builtin.h"
#include "src/policy/trial.h"
#include "tests/support/amount.h"

static const struct test_amount contexts = {10000, 2000, 1000000};

/* One of the two. */
struct form {
	struct weir_policy *policy;
	struct trial_world world;
	union trial_context context;
};

static void open_form(struct form *form, const char *spec)
{
	char err[512];

	if (weir_policy_open(spec, &form->policy, err, sizeof(err)))
		fail_msg("%s", err);
}

/* Ask about the present context. What is there afterwards is what goes back to weir. */
static int ask(struct form *form, enum policy_hook hook)
{
	union trial_context context = form->context;
	uint64_t budget = WEIR_POLICY_BUDGET;
	char why[256];
	int did = form->policy->form->call(form->policy, hook, &context, &budget, why, sizeof(why));

	if (did < 0)
		fail_msg("%s", why);
	policy_take_back(hook, &context, &form->context);
	trial_take(&form->world, hook, &form->context);
	return did;
}

static void compare_one(struct form form[2], enum policy_hook hook, uint64_t n)
{
	const uint32_t bytes = policy_context_bytes[hook];
	int did[2];

	do {
		if (memcmp(&form[0].context, &form[1].context, bytes) != 0)
			fail_msg("context %llu differs before the call", (unsigned long long)n);
		did[0] = ask(&form[0], hook);
		did[1] = ask(&form[1], hook);
		if (did[0] != did[1] || memcmp(&form[0].context, &form[1].context, bytes) != 0)
			fail_msg("%s: weir_%s differs on context %llu", form[0].policy->name,
				 policy_hook_name[hook], (unsigned long long)n);
	} while (did[0] == WEIR_POLICY_NEXT &&
		 trial_window(&form[0].world, &form[0].context.victim) &&
		 trial_window(&form[1].world, &form[1].context.victim));
}

/* All globals, which may stand in another order. */
static void compare_globals(struct form form[2])
{
	struct weir_policy_global of_c, of_object = {.name = ""};
	uint32_t nr = 0;

	for (; weir_policy_global_nth(form[0].policy, nr, &of_c); nr++) {
		for (uint32_t n = 0;; n++) {
			assert_true(weir_policy_global_nth(form[1].policy, n, &of_object));
			if (strcmp(of_c.name, of_object.name) == 0)
				break;
		}
		assert_true(of_c.value == of_object.value);
		assert_int_equal(of_c.is_signed, of_object.is_signed);
		assert_int_equal(of_c.tunable, of_object.tunable);
		if (of_c.tunable)
			assert_string_equal(of_c.help, of_object.help);
	}
	assert_false(weir_policy_global_nth(form[1].policy, nr, &of_object));
}

static void compare_forms(const char *name, const char *object)
{
	const uint64_t nr = test_amount("POLICY_CONTEXTS", contexts);
	static struct form form[2];

	open_form(&form[0], name);
	open_form(&form[1], object);
	assert_string_equal(form[0].policy->help, form[1].policy->help);
	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++)
		assert_int_equal(form[0].policy->has[hook], form[1].policy->has[hook]);
	memset(form[0].context.victim.candidate, 0, sizeof(form[0].context.victim.candidate));
	form[1].context = form[0].context;
	trial_world_init(&form[0].world, 7);
	trial_world_init(&form[1].world, 7);
	for (uint64_t n = 0; n < nr * POLICY_HOOKS; n++) {
		const enum policy_hook hook = (enum policy_hook)(n % POLICY_HOOKS);

		if (!form[0].policy->has[hook])
			continue;
		trial_context(&form[0].world, hook, &form[0].context);
		trial_context(&form[1].world, hook, &form[1].context);
		compare_one(form, hook, n / POLICY_HOOKS);
	}
	compare_globals(form);
	weir_policy_close(form[0].policy);
	weir_policy_close(form[1].policy);
}

static void test_policy_answers_the_same_in_both_forms(void **state)
{
	const char *folder = getenv("BUILD_DIR");
	uint32_t nr = 0;

	(void)state;
	for (uint32_t n = 0; policy_builtins[n]; n++) {
		const char *name = policy_builtins[n]->name;
		char object[512];

		snprintf(object, sizeof(object), "%s/policies/%s.o", folder ? folder : "build",
			 name);
		if (access(object, R_OK))
			continue;
		compare_forms(name, object);
		nr++;
	}
	if (!nr)
		skip();
	/* All of them or none. */
	assert_null(policy_builtins[nr]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policy_answers_the_same_in_both_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
