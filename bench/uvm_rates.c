/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of managed memory on a simulated machine, as a probe of a real one measures them: data that
 * the CPU has written and that fits the GPU comes in by faults of a kernel that streams through it,
 * by faults of one that reads whole pages at random, and by a prefetch.
 *
 * Usage: bench_uvm_rates MACHINE. One JSON object: bytes a second, and pages a second of those
 * that the random kernel reads.
 */
#include <stdio.h>
#include <stdlib.h>

#include "machine/machine_file.h"
#include "src/backend/backend.h"
#include "src/backend/machine.h"

#define BUFFER_BYTES (UINT64_C(4) << 30)
#define PAGE_BYTES UINT64_C(4096)
#define RANDOM_SHARE 8 /* one page in so many is read */

enum probe { STREAM, RANDOM, PREFETCH };

static const struct weir_kernel reader = {.name = "reader"};

static int queue_probe(struct backend *b, stream_id_t stream, enum probe probe, void *addr)
{
	const struct weir_use use = {
		.addr = addr,
		.bytes = BUFFER_BYTES,
		.kind = WEIR_READ,
		.pattern = probe == RANDOM ? WEIR_RANDOM : WEIR_STREAM,
		.read_bytes = probe == RANDOM ? BUFFER_BYTES / RANDOM_SHARE : BUFFER_BYTES,
		.granule = PAGE_BYTES,
	};
	const struct weir_launch launch = {.kernel = &reader, .uses = &use, .nr_uses = 1};

	if (probe == PREFETCH)
		return b->managed->prefetch(b, stream, addr, BUFFER_BYTES,
					    b->desc.device[0].memory);
	return b->ops->launch(b, stream, &launch);
}

static uint32_t host_memory(const struct backend *b)
{
	uint32_t i = 0;

	while (b->desc.memory[i].kind != WEIR_MEMORY_HOST)
		i++;
	return i;
}

static int wait_ns(struct backend *b, stream_id_t stream, uint64_t *ns)
{
	fence_t fence;
	int err;

	err = b->ops->fence_record(b, stream, &fence);
	if (!err)
		err = b->ops->fence_wait(b, fence);
	*ns = b->ops->now_ns(b);
	return err;
}

/* Seconds from data that the CPU holds to the end of a probe. */
static int run_probe(struct backend *b, stream_id_t stream, enum probe probe, double *s)
{
	uint64_t begin = 0, end = 0;
	void *addr;
	int err;

	err = b->managed->alloc(b, BUFFER_BYTES, &addr);
	if (err)
		return err;
	err = b->managed->prefetch(b, stream, addr, BUFFER_BYTES, host_memory(b));
	if (!err)
		err = wait_ns(b, stream, &begin);
	if (!err)
		err = queue_probe(b, stream, probe, addr);
	if (!err)
		err = wait_ns(b, stream, &end);
	b->managed->free(b, addr);
	*s = (double)(end - begin) / 1e9;
	return err;
}

static int run(struct backend *b)
{
	double s[PREFETCH + 1];
	stream_id_t stream;
	int err;

	err = b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream);
	if (err)
		return err;
	for (int probe = STREAM; !err && probe <= PREFETCH; probe++)
		err = run_probe(b, stream, (enum probe)probe, &s[probe]);
	b->ops->stream_destroy(b, stream);
	if (!err)
		printf("{\"stream_bytes_per_s\":%.5g,\"random_pages_per_s\":%.5g,"
		       "\"prefetch_bytes_per_s\":%.5g}\n",
		       (double)BUFFER_BYTES / s[STREAM],
		       (double)BUFFER_BYTES / PAGE_BYTES / RANDOM_SHARE / s[RANDOM],
		       (double)BUFFER_BYTES / s[PREFETCH]);
	return err;
}

static void print_error(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR)
		fprintf(stderr, "uvm_rates: %s\n", message);
}

int main(int argc, char **argv)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	char why[512];
	int err;

	if (argc != 2) {
		fputs("usage: bench_uvm_rates MACHINE\n", stderr);
		return 2;
	}
	if (machine_file_load(argv[1], &desc, why, sizeof(why))) {
		fprintf(stderr, "uvm_rates: %s\n", why);
		return 2;
	}
	weir_log_set(print_error, NULL);
	err = weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine);
	if (!err) {
		err = run(machine_backend(machine));
		weir_machine_close(machine);
	}
	if (err)
		fprintf(stderr, "uvm_rates: %s\n", weir_strerror(err));
	return err || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
