/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of src/backend/backend.h as cases that any backend passes: bytes, order, errors and
 * who waits for what, but not how long anything takes. A program names the backends that it has,
 * and runs every case on each; what is one backend's own it tests beside them.
 *
 *   cases.c    the list, opening and closing, what the others share
 *   memory.c   chunks and plain allocations      mapping.c  reservations and mappings
 *   work.c     copies, kernels, fences           packet.c   packets
 *   life.c     progress, threads, failing calls  digest.c   digests
 *   plain.c    objects of plain memory (weir.h), which behave alike on all of them
 */
#ifndef WEIR_CONTRACT_CASES_H
#define WEIR_CONTRACT_CASES_H

#include <errno.h>
#include <stdlib.h>

#include "tests/support/kernels.h"
#include "tests/unit/test_sim_machine.h"

/* What a backend can do beyond what all can. */
enum {
	CAN_BYTES = 1, /* its memories hold bytes */
	CAN_FULL = 2,  /* its GPUs' memories have 16 MiB, to the byte */
	CAN_TRAP = 4,  /* it goes on after a kernel that touched what is not there */
	CAN_FAIL = 8,  /* it is a flaky one */
	CAN_WAIT = 16, /* time is real: work goes on while nobody waits for it */
};

struct contract {
	const struct contract_target *target;
	struct backend *b;
	struct weir_machine *machine; /* NULL until contract_machine() is called */
	stream_id_t compute, in, out; /* on device 0 */
	uint64_t unit;		      /* of mappings: twice the granularity or more */
	uint64_t devices;	      /* mask of all */
	uint32_t *gate;		      /* see test_gate_args; NULL without CAN_WAIT */
	bool trapped;		      /* something was touched that is not there */
};

/* A backend. initial_state of its tests. */
struct contract_target {
	const char *name;
	int (*open)(struct backend **out);
	void (*check)(struct contract *c);  /* before it is destroyed; may be NULL */
	void (*closed)(struct contract *c); /* afterwards; may be NULL */
	unsigned int can;
};

/* Fixtures of a test on a target: the state is a struct contract *. */
int contract_setup(void **state);
int contract_teardown(void **state);

/* Run all cases on all targets that can do what they need, then the other tests. @return for
 * main() */
int contract_run(const struct contract_target *targets, size_t nr_targets,
		 const struct CMUnitTest *tests, size_t nr_tests);

/* The backend as a machine; closed with it. */
struct weir_machine *contract_machine(struct contract *c);

/* One of these tests. */
#define CONTRACT_TEST(test, target)                                                                \
	{                                                                                          \
#test " (" #target ")", test, contract_setup, contract_teardown, (void *)&(target) \
	}

/* ------------------------------------------------------------------ what cases share */

static inline bool can(const struct contract *c, unsigned int what)
{
	return (c->target->can & what) == what;
}

/* data where the backend takes any. */
static inline void *data_of(const struct contract *c, void *data)
{
	return can(c, CAN_BYTES) ? data : NULL;
}

/* Launch `add`, with its uses; in may be out. */
int contract_add(struct backend *b, stream_id_t stream, void *in, void *out, uint64_t bytes,
		 uint8_t add);

/* Launch a kernel that touches nothing. */
int contract_spin(struct backend *b, stream_id_t stream);

/* All work of a stream is done, without error. */
void contract_wait(struct backend *b, stream_id_t stream);

/* Hold back what is queued on a stream behind this, until the gate is opened; one at a time. Where
 * time is virtual nothing runs before the host waits for it. */
void contract_gate_close(struct contract *c, stream_id_t stream);
void contract_gate_open(struct contract *c);

/*
 * Everything once, on a machine of one device or more: the first error, with what was made taken
 * back.
 */
int contract_script(struct backend *b, uint64_t unit);

/* The cases: X(name, what a backend has to be able to do for it) */
#define CASES_OF_MEMORY(X)       \
	X(chunks, 0)             \
	X(chunk_arguments, 0)    \
	X(chunk_devices, 0)      \
	X(chunk_add_devices, 0)  \
	X(full_memory, CAN_FULL) \
	X(plain, 0)

#define CASES_OF_MAPPING(X)         \
	X(reserve_arguments, 0)     \
	X(map_rules, 0)             \
	X(map_host, 0)              \
	X(map_at_two_addresses, 0)  \
	X(map_at_many_addresses, 0) \
	X(access_of_others, 0)

#define CASES_OF_WORK(X)                 \
	X(upload_kernel_download, 0)     \
	X(copy_refused, 0)               \
	X(copies, 0)                     \
	X(copies_of_a_neighbour, 0)      \
	X(copies_on_a_compute_stream, 0) \
	X(engines_of_a_space, 0)         \
	X(in_place_by_memory, 0)         \
	X(fences_order_streams, 0)       \
	X(fence_arguments, 0)            \
	X(streams_come_and_go, 0)        \
	X(many_fences, 0)                \
	X(launch_arguments, 0)           \
	X(launch_no_version, 0)          \
	X(free_waits, 0)

#define CASES_OF_PACKETS(X)      \
	X(packets, 0)            \
	X(packet_far, CAN_BYTES) \
	X(packet_places, 0)      \
	X(packet_arguments, 0)

#define CASES_OF_DIGESTS(X)    \
	X(digest_values, 0)    \
	X(digest_changes, 0)   \
	X(digest_order, 0)     \
	X(digest_arguments, 0) \
	X(digest_devices, 0)

#define CASES_OF_LIFE(X)             \
	X(progress, 0)               \
	X(aside, 0)                  \
	X(marks, 0)                  \
	X(time_is_monotone, 0)       \
	X(threads, 0)                \
	X(each_call_fails, CAN_FAIL) \
	X(trap_is_told_once, CAN_TRAP)

#define CASES_OF_PLAIN(X)                 \
	X(plain_pages, 0)                 \
	X(plain_sizes_refused, 0)         \
	X(plain_cpu, 0)                   \
	X(plain_devices, 0)               \
	X(plain_all, 0)                   \
	X(plain_paths_agree, 0)           \
	X(plain_small_ones, 0)            \
	X(plain_zeroed, 0)                \
	X(plain_contiguous, 0)            \
	X(plain_unmapped_traps, CAN_TRAP) \
	X(plain_dma_counted, 0)           \
	X(plain_free_behind_work, 0)      \
	X(plain_guards, CAN_BYTES)        \
	X(plain_pressure, CAN_FULL)       \
	X(plain_each_call_fails, CAN_FAIL)

/* Those of these, as tests of one more target, for which more than two devices differ from two. */
#define CONTRACT_TESTS_OF_DEVICES(target)                                   \
	CONTRACT_TEST(contract_chunk_devices, target),                      \
		CONTRACT_TEST(contract_chunk_add_devices, target),          \
		CONTRACT_TEST(contract_map_at_many_addresses, target),      \
		CONTRACT_TEST(contract_access_of_others, target),           \
		CONTRACT_TEST(contract_copies, target),                     \
		CONTRACT_TEST(contract_copies_of_a_neighbour, target),      \
		CONTRACT_TEST(contract_copies_on_a_compute_stream, target), \
		CONTRACT_TEST(contract_engines_of_a_space, target),         \
		CONTRACT_TEST(contract_in_place_by_memory, target),         \
		CONTRACT_TEST(contract_plain_devices, target)

#define CONTRACT_CASES(X)   \
	CASES_OF_MEMORY(X)  \
	CASES_OF_MAPPING(X) \
	CASES_OF_WORK(X)    \
	CASES_OF_PACKETS(X) \
	CASES_OF_DIGESTS(X) \
	CASES_OF_LIFE(X)    \
	CASES_OF_PLAIN(X)

#define DECLARE(name, needs) void contract_##name(void **state);
CONTRACT_CASES(DECLARE)
#undef DECLARE

#endif
