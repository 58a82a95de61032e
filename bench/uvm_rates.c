/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of managed memory on a simulated machine, as a probe of a real one measures them: data that
 * the CPU has written and that fits the GPU comes in by faults of a kernel that streams through it,
 * by faults of one that reads whole pages at random, and by a prefetch; and data of which the CPU
 * has no mappings, since it was prefetched to the host, by faults on pages at random, all of them
 * or 5 %.
 *
 * Usage: bench_uvm_rates MACHINE. One JSON object: bytes a second, and pages a second of those
 * that the random kernel reads.
 */
#include <stdio.h>
#include <stdlib.h>

#include "machine/machine_file.h"
#include "src/backend/backend.h"
#include "src/backend/machine.h"
#include "src/base/util.h"

#define GIB (UINT64_C(1) << 30)
#define PAGE_BYTES UINT64_C(4096)

/* What a kernel reads of a buffer. */
struct probe {
	const char *name;
	uint64_t bytes, read_bytes;
	enum weir_use_pattern pattern;
	bool prefetch; /* no kernel */
	bool unmapped; /* the CPU has no mappings */
	bool pages;    /* pages a second, of those read; else bytes of the buffer */
};

static const struct probe probes[] = {
	{"stream_bytes_per_s", 4 * GIB, 4 * GIB, WEIR_STREAM, false, false, false},
	{"random_pages_per_s", 4 * GIB, GIB / 2, WEIR_RANDOM, false, false, true},
	{"prefetch_bytes_per_s", 4 * GIB, 4 * GIB, WEIR_STREAM, true, false, false},
	{"unmapped_2gib_bytes_per_s", 2 * GIB, 2 * GIB, WEIR_RANDOM, false, true, false},
	{"unmapped_8gib_bytes_per_s", 8 * GIB, 8 * GIB, WEIR_RANDOM, false, true, false},
	{"unmapped_2gib_pages_per_s", 2 * GIB, GIB / 10, WEIR_RANDOM, false, true, true},
	{"unmapped_8gib_pages_per_s", 8 * GIB, 4 * GIB / 10, WEIR_RANDOM, false, true, true},
};

static const struct weir_kernel reader = {.name = "reader"};

static int queue_probe(struct backend *b, stream_id_t stream, const struct probe *probe, void *addr)
{
	const struct weir_use use = {
		.addr = addr,
		.bytes = probe->bytes,
		.kind = WEIR_READ,
		.pattern = probe->pattern,
		.read_bytes = probe->read_bytes,
		.granule = PAGE_BYTES,
	};
	const struct weir_launch launch = {.kernel = &reader, .uses = &use, .nr_uses = 1};

	if (probe->prefetch)
		return b->managed->prefetch(b, stream, addr, probe->bytes,
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

/* Seconds from data that the host holds to the end of a probe. */
static int run_probe(struct backend *b, stream_id_t stream, const struct probe *probe, double *s)
{
	uint64_t begin = 0, end = 0;
	void *addr;
	int err;

	err = b->managed->alloc(b, probe->bytes, &addr);
	if (err)
		return err;
	err = b->managed->prefetch(b, stream, addr, probe->bytes, host_memory(b));
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

static int run(struct backend *b, const struct probe *probe, const char *before)
{
	stream_id_t stream;
	double s;
	int err;

	err = b->ops->stream_create(b, 0, BACKEND_COMPUTE, &stream);
	if (err)
		return err;
	err = run_probe(b, stream, probe, &s);
	b->ops->stream_destroy(b, stream);
	if (!err)
		printf("%s\"%s\":%.5g", before, probe->name,
		       (probe->pages ? (double)probe->read_bytes / (double)PAGE_BYTES
				     : (double)probe->bytes) /
			       s);
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
	int err = 0;

	if (argc != 2) {
		fputs("usage: bench_uvm_rates MACHINE\n", stderr);
		return 2;
	}
	if (machine_file_load(argv[1], &desc, why, sizeof(why))) {
		fprintf(stderr, "uvm_rates: %s\n", why);
		return 2;
	}
	weir_log_set(print_error, NULL);
	for (size_t i = 0; !err && i < ARRAY_LEN(probes); i++) {
		struct weir_machine_desc own = desc;

		/* The model's prefetch leaves mappings: they are free here. */
		if (probes[i].unmapped)
			own.uvm.cpu_unmap_ns = 0;
		err = weir_machine_simulate(&own, WEIR_DATA_PHANTOM, &machine);
		if (err)
			break;
		err = run(machine_backend(machine), &probes[i], i ? "," : "{");
		weir_machine_close(machine);
	}
	if (err)
		fprintf(stderr, "uvm_rates: %s\n", weir_strerror(err));
	else
		puts("}");
	return err || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
