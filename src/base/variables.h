/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables of the library and of the commands, but for those of options, which
 * stand in the options' own tables. `weir --help` prints this table, and a test holds weir(1)
 * against it.
 *
 * A program that runs with more rights than its user, setuid say, takes none of them: they name
 * files that are read and libraries that are loaded, and one has files written.
 */
#ifndef WEIR_BASE_VARIABLES_H
#define WEIR_BASE_VARIABLES_H

#include <stdbool.h>
#include <stdlib.h>

#define VARIABLE_MACHINE_PATH "WEIR_MACHINE_PATH"
#define VARIABLE_MEMORY_FILE "WEIR_MEMORY_FILE"
#define VARIABLE_TRACE "WEIR_TRACE"
#define VARIABLE_PLANS "WEIR_PLANS"
#define VARIABLE_PLANS_ASIDE "WEIR_PLANS_ASIDE"
#define VARIABLE_CUDA_DEBUG "WEIR_CUDA_DEBUG"
#define VARIABLE_GCN_KERNELS "WEIR_CUDA_KERNELS"
#define VARIABLE_GRAPH_KERNELS "WEIR_GRAPH_KERNELS"
#define VARIABLE_MATRIX_KERNELS "WEIR_MATRIX_KERNELS"
#define VARIABLE_PROBE_KERNELS "WEIR_PROBE_KERNELS"
#define VARIABLE_SOLVER_KERNELS "WEIR_SOLVER_KERNELS"
#define VARIABLE_TOUCH_KERNELS "WEIR_TOUCH_KERNELS"

struct variable {
	const char *name;
	const char *values; /* what it may be */
	const char *preset; /* what holds when it is not set, or empty */
	const char *reader; /* which part of weir reads it */
	const char *help;   /* one sentence, with a full stop */
};

/* All of them; one without a name ends the table. */
extern const struct variable variables[];

/* The value; NULL: it is not set, or empty. Inline, since libweir-machine, which uses it, is linked
 * with no object of base. */
static inline const char *variable_text(const char *name)
{
	const char *text = secure_getenv(name);

	return text && *text ? text : NULL;
}

/*
 * The value of one of the table that is 0 or 1; where it is not set *out stays as it is.
 * @return 0, or -EINVAL: it is neither, logged.
 */
int variable_bool(const char *name, bool *out);

#endif
