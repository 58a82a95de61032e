/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies that are compiled into weir. Each file of policies/ is compiled with WEIR_POLICY_SECTION
 * "weir_policy_NAME", NAME being the file's; its globals lie in the section of that name, what is
 * known of them in "weir_policy_NAME_info". So policy_c.c can give each opening of a policy globals
 * of its own, as each loading of an object has.
 */
#ifndef WEIR_POLICY_BUILTIN_H
#define WEIR_POLICY_BUILTIN_H

#include "weir/policy.h"

struct policy_variable {
	const char *name;
	const char *help; /* NULL: no tunable */
	volatile void *value;
	uint32_t bytes; /* 1, 2, 4 or 8 */
	bool is_signed;
};

struct policy_builtin {
	const char *name;
	const char *help; /* one line */
	int (*admit)(struct weir_policy_admit *q);
	int (*victim)(struct weir_policy_victim *q);
	int (*fault)(struct weir_policy_fault *q);
	int (*moved)(struct weir_policy_moved *q);
	/* The two sections; NULL: it has none such. */
	char *globals, *globals_end;
	const struct policy_variable *variable, *variable_end;
};

#define POLICY_BUILTINS_MAX 32u

/* All of them, by name, NULL at the end: one for each file of policies/. CMake makes it. */
extern const struct policy_builtin *const policy_builtins[];

/* As objects call it. */
void weir_policy_log(const char *text, uint64_t number);

#ifdef WEIR_POLICY_SECTION

#define WEIR_POLICY_HOOK static
#define POLICY_GLOBAL __attribute__((section(WEIR_POLICY_SECTION)))
#define POLICY_VARIABLE(type, variable, text)                                               \
	static const struct policy_variable variable##_info                                 \
		__attribute__((section(WEIR_POLICY_SECTION "_info"), used, aligned(8))) = { \
			#variable, text, &(variable), sizeof(type), (type)-1 < (type)1};
#define WEIR_POLICY_TUNABLE(type, name, value, help)       \
	static POLICY_GLOBAL volatile type name = (value); \
	POLICY_VARIABLE(type, name, help)
#define WEIR_POLICY_GLOBAL(type, name)            \
	static POLICY_GLOBAL type name = (type)0; \
	POLICY_VARIABLE(type, name, NULL)
#define WEIR_POLICY_ARRAY(type, name, nr) static POLICY_GLOBAL type name[nr] = {0};

#define WEIR_POLICY_PROGRAM(id, text, ...)                                                         \
	extern char __start_weir_policy_##id[] __attribute__((weak, visibility("hidden")));        \
	extern char __stop_weir_policy_##id[] __attribute__((weak, visibility("hidden")));         \
	extern const struct policy_variable __start_weir_policy_##id##_info[]                      \
		__attribute__((weak, visibility("hidden")));                                       \
	extern const struct policy_variable __stop_weir_policy_##id##_info[]                       \
		__attribute__((weak, visibility("hidden")));                                       \
	extern const struct policy_builtin policy_##id;                                            \
	const struct policy_builtin policy_##id = {.name = #id,                                    \
						   .help = text,                                   \
						   .globals = __start_weir_policy_##id,            \
						   .globals_end = __stop_weir_policy_##id,         \
						   .variable = __start_weir_policy_##id##_info,    \
						   .variable_end = __stop_weir_policy_##id##_info, \
						   __VA_ARGS__};

#endif
#endif
