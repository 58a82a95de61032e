/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a machine description: refused with one printable line, or accepted, and then what
 * is written from it reads back to the same.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine/json_where.h"
#include "machine/machine_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int truth)
{
	if (!truth)
		abort();
}

static void check_accepted(const struct machine_file *machine)
{
	struct machine_file again;
	char *text = machine_format(machine);
	char *text_again;

	check(text != NULL);
	check(!machine_parse(text, strlen(text), "again", &again, NULL, 0));
	text_again = machine_format(&again);
	check(text_again && !strcmp(text, text_again));
	machine_file_fini(&again);
	free(text_again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *text = (const char *)data;
	struct machine_file machine;
	char err[128] = "";

	/* Not only texts that a parser accepted: it must not read beyond the end of any. */
	(void)json_where(text, bytes, "device[0].ops_per_s.value");
	if (!machine_parse(text, bytes, "file", &machine, err, sizeof(err))) {
		check(!*err);
		check_accepted(&machine);
		machine_file_fini(&machine);
		return 0;
	}
	check(!strncmp(err, "file", 4));
	for (const char *c = err; *c; c++)
		check(*c >= ' ' && *c <= '~');
	return 0;
}
