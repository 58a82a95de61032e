/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the fake CUDA driver that only programs call, in tables of their own. */
#ifndef WEIR_TESTS_UNIT_TEST_FAKECUDA_CALLS_H
#define WEIR_TESTS_UNIT_TEST_FAKECUDA_CALLS_H

#include "tests/fakecuda/functions.h"
#include "tests/unit/test_fakecuda.h"

enum { INVALID_IMAGE = 200, NOT_FOUND = 500, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713 };

static struct {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define MEMBER(member, symbol, parameters) cu_result(*member) parameters;
	FAKE_FUNCTIONS(MEMBER)
#undef MEMBER
} more;

/* The same with a stream 0 for each thread. */
static struct {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define MEMBER(member, symbol, parameters, arguments) cu_result(*member) parameters;
	FAKE_PER_THREAD(MEMBER)
#undef MEMBER
} own;

static inline void load_more(void)
{
#define LOAD(member, symbol, parameters)                    \
	*(void **)&more.member = dlsym(cu.library, symbol); \
	assert_non_null(more.member);
	FAKE_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(member, symbol, parameters, arguments)        \
	*(void **)&own.member = dlsym(cu.library, symbol); \
	assert_non_null(own.member);
	FAKE_PER_THREAD(LOAD)
#undef LOAD
}

static inline int setup_more(void **state)
{
	setup(state);
	load_more();
	return 0;
}

static inline cu_ptr plain(size_t bytes)
{
	cu_ptr addr = 0;

	ok(cu.mem_alloc(&addr, bytes));
	return addr;
}

#endif
