/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a bracket declares is a contract, and the simulator holds kernels to it. This program breaks
 * it in two ways that would be silent corruption on a real machine, and is told where.
 */
#include <stdint.h>
#include <string.h>

#include "machine.h"

#define BYTES (1u << 20)

/* Double a word: of the range that the bracket names, or of another one. */
static void touch(const void *data)
{
	uint32_t *word;

	memcpy(&word, data, sizeof(word));
	*word *= 2;
}

static const struct weir_kernel touch_kernel = {.name = "touch", .cpu = touch};

/* A bracket that names one range; the launch in it declares one use, and touches one word. */
static int run(struct weir_space *space, struct weir_stream *stream, const struct weir_use *bracket,
	       const struct weir_use *declared, uint32_t *touched)
{
	const struct weir_launch launch = {.kernel = &touch_kernel,
					   .args = &touched,
					   .args_bytes = sizeof(touched),
					   .uses = declared,
					   .nr_uses = 1};
	int err;

	must(weir_begin(space, stream, bracket, 1), "begin");
	must(weir_stream_launch(stream, &launch), "launch");
	must(weir_end(space, stream), "end");
	err = weir_stream_sync(stream);
	printf("  the stream reports: %s\n", err ? weir_strerror(err) : "nothing");
	return err;
}

int main(void)
{
	const struct weir_space_config config = {.mode = WEIR_PLANNED};
	struct weir_use a = {.bytes = BYTES, .kind = WEIR_WRITE, .read_bytes = 4, .write_bytes = 4};
	struct weir_use b = a, a_read_only;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	int honest, undeclared, weaker;

	weir_log_set(print_message, NULL);
	must(weir_machine_simulate(&example_machine, WEIR_DATA_REAL, &machine), "machine");
	must(weir_stream_create(machine, 0, &stream), "stream");
	must(weir_space_create(machine, &config, &space), "space");
	must(weir_alloc(space, BYTES, stream, &a.addr), "alloc");
	must(weir_alloc(space, BYTES, stream, &b.addr), "alloc");
	a_read_only = a;
	a_read_only.kind = WEIR_READ;
	a_read_only.write_bytes = 0;

	printf("honest: names a, touches a\n");
	honest = run(space, stream, &a, &a, a.addr);
	printf("undeclared: names a, the launch says it uses b\n");
	undeclared = run(space, stream, &a, &b, b.addr);
	printf("weaker than the truth: says that a is read, writes it\n");
	weaker = run(space, stream, &a_read_only, &a_read_only, a.addr);

	must(weir_free(space, b.addr, stream), "free");
	must(weir_free(space, a.addr, stream), "free");
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return honest || undeclared != -WEIR_ETRAP || weaker != -WEIR_ETRAP;
}
