/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine descriptions: what a program may change in one that was read. The constants of kernels
 * are the last ones, behind those of the mapping calls.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine_fields.h"

/* The constant of one kernel. Its source is NULL: no memory. */
static struct machine_constant kernel_constant(uint32_t i, double factor,
					       enum weir_machine_origin origin, const char *source)
{
	const struct machine_field *field = &machine_kernel_section.fields[0];
	struct machine_constant constant = {
		.help = field->help,
		.unit = field->unit,
		.value = factor,
		.origin = origin,
		.source = strdup(source),
	};

	(void)snprintf(constant.path, sizeof(constant.path), "kernel[%u].%s", i, field->key);
	return constant;
}

/* Drop constants from the end of a list. */
static void constants_cut(struct machine_constant *constant, size_t *nr, size_t keep)
{
	while (*nr > keep)
		free(constant[--*nr].source);
}

int machine_set_kernels(struct machine_file *machine, const struct weir_kernel_rate *kernel,
			uint32_t nr, enum weir_machine_origin origin, const char *source)
{
	size_t before = machine->nr_constants - machine->desc.nr_kernels, nr_new = 0;
	struct machine_constant *fresh = calloc(nr + 1, sizeof(*fresh)), *all = NULL;

	if (!fresh)
		return -ENOMEM;
	while (nr_new < nr) {
		uint32_t i = (uint32_t)nr_new;

		fresh[nr_new++] = kernel_constant(i, kernel[i].factor, origin, source);
		if (!fresh[i].source)
			goto err_fresh;
	}
	all = realloc(machine->constant, (before + machine->desc.nr_kernels + nr) * sizeof(*all));
	if (!all)
		goto err_fresh;
	machine->constant = all;
	constants_cut(all, &machine->nr_constants, before);
	memcpy(&all[before], fresh, nr * sizeof(*all));
	machine->nr_constants += nr;
	memset(machine->desc.kernel, 0, sizeof(machine->desc.kernel));
	memcpy(machine->desc.kernel, kernel, nr * sizeof(*kernel));
	machine->desc.nr_kernels = nr;
	free(fresh);
	return 0;

err_fresh:
	constants_cut(fresh, &nr_new, 0);
	free(fresh);
	return -ENOMEM;
}
