/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's handle. Opening is here too: the one place of the library that names the backends
 * of real and of simulated machines.
 */
#include "src/backend/machine.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda.h"
#include "src/backend/sim/sim.h"
#include "src/base/log.h"

struct weir_machine {
	struct backend *backend; /* owned */
	atomic_uint nr_spaces;	 /* made so far */
	atomic_uint nr_streams;	 /* live handles, for the leak report */
	atomic_uint nr_pools;	 /* the same */
	atomic_uint nr_askers;	 /* for waited_ns */
	atomic_uint_least64_t waited_ns;
	bool simulated;	      /* never changes */
	pthread_mutex_t lock; /* of what follows; a leaf but for what make() does */
	void *kept;	      /* see machine_kept() */
	void (*kept_destroy)(void *kept);
};

int machine_wrap(struct backend *b, struct weir_machine **out)
{
	struct weir_machine *machine = malloc(sizeof(*machine));

	if (!machine) {
		log_error("no memory to open a machine with");
		return -ENOMEM;
	}
	machine->backend = b;
	machine->kept = NULL;
	machine->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_init(&machine->nr_spaces, 0);
	atomic_init(&machine->nr_streams, 0);
	atomic_init(&machine->nr_pools, 0);
	atomic_init(&machine->nr_askers, 0);
	atomic_init(&machine->waited_ns, 0);
	machine->simulated = false;
	*out = machine;
	return 0;
}

struct backend *machine_backend(const struct weir_machine *machine)
{
	return machine->backend;
}

void machine_set_backend(struct weir_machine *machine, struct backend *wrapper)
{
	machine->backend = wrapper;
}

void *machine_kept(struct weir_machine *machine, void *(*make)(struct backend *b),
		   void (*destroy)(void *kept))
{
	void *kept;

	pthread_mutex_lock(&machine->lock);
	if (!machine->kept) {
		machine->kept = make(machine->backend);
		machine->kept_destroy = destroy;
	}
	kept = machine->kept;
	pthread_mutex_unlock(&machine->lock);
	return kept;
}

uint32_t machine_space_number(struct weir_machine *machine)
{
	return atomic_fetch_add(&machine->nr_spaces, 1) + 1;
}

void machine_pool_count(struct weir_machine *machine, bool more)
{
	if (more)
		atomic_fetch_add(&machine->nr_pools, 1);
	else
		atomic_fetch_sub(&machine->nr_pools, 1);
}

void machine_stream_count(struct weir_machine *machine, bool more)
{
	if (more)
		atomic_fetch_add(&machine->nr_streams, 1);
	else
		atomic_fetch_sub(&machine->nr_streams, 1);
}

bool machine_is_simulated(const struct weir_machine *machine)
{
	return machine->simulated;
}

void machine_waits_count(struct weir_machine *machine, bool more)
{
	if (more)
		atomic_fetch_add(&machine->nr_askers, 1);
	else
		atomic_fetch_sub(&machine->nr_askers, 1);
}

uint64_t machine_waited_ns(const struct weir_machine *machine)
{
	return atomic_load_explicit(&machine->waited_ns, memory_order_relaxed);
}

uint64_t machine_wait_begin(const struct weir_machine *machine)
{
	if (!atomic_load_explicit(&machine->nr_askers, memory_order_relaxed))
		return 0;
	return machine->backend->ops->now_ns(machine->backend);
}

void machine_wait_end(struct weir_machine *machine, uint64_t since_ns)
{
	if (since_ns)
		atomic_fetch_add_explicit(&machine->waited_ns,
					  machine->backend->ops->now_ns(machine->backend) -
						  since_ns,
					  memory_order_relaxed);
}

void weir_machine_close(struct weir_machine *machine)
{
	unsigned int left;

	if (!machine)
		return;
	left = atomic_load(&machine->nr_streams);
	if (left)
		log_error("machine '%s' closed with %u streams left", machine->backend->desc.name,
			  left);
	left = atomic_load(&machine->nr_pools);
	if (left)
		log_error("machine '%s' closed with %u pools left: their memory goes",
			  machine->backend->desc.name, left);
	machine->backend->ops->destroy(machine->backend);
	if (machine->kept)
		machine->kept_destroy(machine->kept);
	pthread_mutex_destroy(&machine->lock);
	free(machine);
}

const struct weir_machine_desc *weir_machine_describe(const struct weir_machine *machine)
{
	return &machine->backend->desc;
}

int weir_memory_find(const struct weir_machine *machine, const char *name)
{
	const struct weir_machine_desc *desc = &machine->backend->desc;

	if (!name)
		return -ENOENT;
	for (uint32_t i = 0; i < desc->nr_memories; i++)
		if (!strcmp(desc->memory[i].name, name))
			return (int)i;
	return -ENOENT;
}

uint64_t weir_machine_now_ns(const struct weir_machine *machine)
{
	return machine->backend->ops->now_ns(machine->backend);
}

/* ------------------------------------------------------------------ opening */

/* The handle of a backend that was just created, or not. */
static int wrap_new(int err, struct backend *const *b, struct weir_machine **out)
{
	if (err)
		return err;
	err = machine_wrap(*b, out);
	if (err)
		(*b)->ops->destroy(*b);
	return err;
}

static int check_logged(const struct weir_machine_desc *desc)
{
	char why[128];
	int err = weir_machine_check(desc, why, sizeof(why));

	if (err)
		log_error("machine description: %s", why);
	return err;
}

int weir_machine_simulate(const struct weir_machine_desc *desc, enum weir_data data,
			  struct weir_machine **out)
{
	struct backend *b;
	int err;

	if (data != WEIR_DATA_REAL && data != WEIR_DATA_PHANTOM) {
		log_error("simulated machine: %d is not a way of holding data", (int)data);
		return -EINVAL;
	}
	err = check_logged(desc);
	if (err)
		return err;
	err = wrap_new(sim_create(desc, data, &b), &b, out);
	if (!err)
		(*out)->simulated = true;
	return err;
}

int weir_machine_cuda(const struct weir_machine_desc *measured, struct weir_machine **out)
{
	const struct cuda_config config = {.measured = measured};
	struct backend *b;
	int err = measured ? check_logged(measured) : 0;

	if (err)
		return err;
	return wrap_new(cuda_create(&config, &b), &b, out);
}
