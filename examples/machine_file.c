/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulate a machine that a file describes, named or by the file's path, with half of its GPU's
 * memory. What was changed can be kept as a file, for `weir bench --machine`.
 *
 *     machine_file [MACHINE [FILE]]
 *
 *     cc machine_file.c $(pkg-config --cflags --libs weir-machine)
 */
#include <stdint.h>

#include <weir/machine_file.h>

#include "machine.h"

/* Functions of files say what is wrong in a line of text. */
static void must_file(int err, const char *why)
{
	if (!err)
		return;
	fprintf(stderr, "%s\n", why);
	exit(1);
}

int main(int argc, char **argv)
{
	const struct weir_machine_note note = {.about = "half of the GPU's memory",
					       .origin = WEIR_ORIGIN_ASSUMED,
					       .source = "examples/machine_file.c"};
	const struct weir_space_config config = {.mode = WEIR_PLANNED};
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_memory_desc *hbm;
	struct weir_space_stats stats;
	struct weir_space *space;
	char why[512];

	weir_log_set(print_message, NULL);
	must_file(weir_machine_file_read(argc > 1 ? argv[1] : "laptop", &desc, why, sizeof(why)),
		  why);
	hbm = &desc.memory[desc.device[0].memory];
	hbm->bytes /= 2;
	if (argc > 2)
		must_file(weir_machine_file_write(argv[2], &desc, &note, why, sizeof(why)), why);

	must(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), "machine");
	must(weir_space_create(machine, &config, &space), "space");
	weir_space_query(space, &stats);
	printf("%s: %s with %llu MiB, in blocks of %llu KiB\n", desc.name, hbm->name,
	       (unsigned long long)(hbm->bytes >> 20),
	       (unsigned long long)(stats.block_bytes >> 10));
	weir_space_destroy(space);
	weir_machine_close(machine);
	return 0;
}
