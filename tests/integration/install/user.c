/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of a stranger's, in C: reads a machine by name, writes it to a file, reads that, and
 * simulates it. Prints the library's version.
 *
 *     user MACHINE FILE
 */
#include <stdio.h>
#include <string.h>

#include <weir/machine_file.h>
#include <weir/paged.h>
#include <weir/trace.h>
#include <weir/weir.h>

int main(int argc, char **argv)
{
	const struct weir_machine_note note = {"read and written", WEIR_ORIGIN_ASSUMED, "user.c"};
	struct weir_machine_desc desc, again;
	struct weir_machine *machine;
	char why[512] = "";

	if (argc != 3 || weir_machine_file_read(argv[1], &desc, why, sizeof(why)) ||
	    weir_machine_file_write(argv[2], &desc, &note, why, sizeof(why)) ||
	    weir_machine_file_read(argv[2], &again, why, sizeof(why))) {
		fprintf(stderr, "user: %s\n", why);
		return 1;
	}
	if (strcmp(again.name, argv[1]) != 0 || again.memory[0].bytes != desc.memory[0].bytes)
		return 2;
	if (weir_machine_simulate(&again, WEIR_DATA_PHANTOM, &machine))
		return 3;
	weir_machine_close(machine);
	return puts(weir_version()) < 0;
}
