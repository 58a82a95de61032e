/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a kernel's function on the CPU, fenced in by page protections. Pages of guarded
 * reservations are opened for the launch's uses and closed again; a touch beyond them faults, is
 * noted, and goes to a scratch page so that the function can finish, on whatever thread it was.
 * What was touched keeps its contents: scratch pages are thrown away.
 *
 * Signal handlers belong to the process, so one kernel runs at a time in all of its simulators. A
 * fault of another thread of the program in a guarded reservation, meanwhile, is taken for the
 * kernel's. Faults elsewhere go to the handler that was there before.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

#define PAGE_BYTES 4096u
#define FAULTS_BY_THE_PAGE 256u /* then by the block: the host's mappings are limited */

/* Held while a kernel runs; guards the rest, which the handler reads. */
static pthread_mutex_t exec_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim *exec_sim;
static struct sigaction exec_before;

/* Between handlers on several threads: guards exec_fault, nr_faults and the scratching. */
static atomic_flag exec_handling = ATOMIC_FLAG_INIT;
static struct sim_fault exec_fault;
static unsigned int nr_faults;

static bool fault_writes(const void *context)
{
#ifdef __x86_64__
	return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
	(void)context;
	return false;
#endif
}

/* Put scratch memory where a kernel touched what it may not. Async-signal-safe. */
static bool scratch_at(struct sim_region *region, char *addr)
{
	uint64_t offset = (uint64_t)(addr - region->base), bytes = PAGE_BYTES;
	struct sim_mapping *mapping = &region->mapping[offset / region->unit];

	if (nr_faults++ >= FAULTS_BY_THE_PAGE)
		bytes = region->unit;
	if (!sim_pages_replace(region->base + offset / bytes * bytes, bytes, PROT_READ | PROT_WRITE,
			       -1, 0))
		return false;
	mapping->scratched = 1;
	region->scratched = 1;
	return true;
}

static void exec_chain(int sig, siginfo_t *info, void *context)
{
	if (exec_before.sa_flags & SA_SIGINFO)
		exec_before.sa_sigaction(sig, info, context);
	else if (exec_before.sa_handler == SIG_DFL || exec_before.sa_handler == SIG_IGN)
		/* The fault comes again, and ends the process. */
		sigaction(sig, &exec_before, NULL);
	else
		exec_before.sa_handler(sig);
}

static void exec_handler(int sig, siginfo_t *info, void *context)
{
	struct sim_region *region = sim_region_at(exec_sim, info->si_addr);
	int saved = errno;
	bool scratched;

	if (!region) {
		exec_chain(sig, info, context);
		return;
	}
	while (atomic_flag_test_and_set(&exec_handling))
		;
	if (!exec_fault.addr)
		exec_fault = (struct sim_fault){info->si_addr, fault_writes(context)};
	scratched = scratch_at(region, info->si_addr);
	atomic_flag_clear(&exec_handling);
	if (!scratched)
		exec_chain(sig, info, context);
	errno = saved;
}

/* ------------------------------------------------------------------ opening and closing */

/* The guarded reservation that a use touches, or NULL; its pages in there. */
static struct sim_region *use_pages(struct sim *sim, const struct weir_use *use, char **addr,
				    size_t *bytes)
{
	struct sim_region *region = sim_region_at(sim, use->addr);
	uintptr_t begin = (uintptr_t)use->addr, end = begin + use->bytes;

	if (!region || !region->guarded || !use_reads(use))
		return NULL;
	begin -= begin % PAGE_BYTES;
	end = round_up(end, PAGE_BYTES);
	*addr = region->base + (begin - (uintptr_t)region->base);
	*bytes = end - begin;
	return region;
}

static int uses_open(struct sim *sim, const struct sim_kernel *kernel, bool write)
{
	for (uint32_t i = 0; i < kernel->nr_uses; i++) {
		char *addr;
		size_t bytes;

		if (use_writes(&kernel->uses[i]) != write ||
		    !use_pages(sim, &kernel->uses[i], &addr, &bytes))
			continue;
		if (mprotect(addr, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ))
			return -ENOMEM;
	}
	return 0;
}

/* One unit's part of [addr, addr + bytes), back to what the CPU may do. */
static int unit_close(const struct sim_region *region, uint64_t unit, char *addr, size_t bytes)
{
	char *begin = region->base + unit * region->unit, *end = begin + region->unit;

	if (begin < addr)
		begin = addr;
	if (end > addr + bytes)
		end = addr + bytes;
	return mprotect(begin, (size_t)(end - begin),
			sim_region_cpu_prot(region, &region->mapping[unit]));
}

static void use_close(struct sim *sim, const struct weir_use *use)
{
	const struct sim_region *region;
	char *addr;
	size_t bytes;
	int err = 0;

	region = use_pages(sim, use, &addr, &bytes);
	if (!region)
		return;
	if (region->nr_host) {
		uint64_t first = (uint64_t)(addr - region->base) / region->unit;
		uint64_t last = ((uint64_t)(addr - region->base) + bytes - 1) / region->unit;

		for (uint64_t unit = first; unit <= last; unit++)
			err |= unit_close(region, unit, addr, bytes);
	} else {
		err = mprotect(addr, bytes, PROT_NONE);
	}
	/* Less is trapped from here on; nothing that is right goes wrong. */
	if (err)
		log_warning("sim: the host refused to close %zu bytes at %p", bytes, (void *)addr);
}

/* Throw scratch pages away. */
static void scratch_drop(struct sim *sim)
{
	for (size_t i = 0; i < sim->nr_regions; i++) {
		struct sim_region *region = sim->region[i];

		for (uint64_t unit = 0; region->scratched && unit < region->nr_units; unit++) {
			if (!region->mapping[unit].scratched)
				continue;
			region->mapping[unit].scratched = 0;
			if (sim_region_remap(sim, region, unit))
				log_error("sim: block %llu of reservation %p keeps scratch pages",
					  (unsigned long long)unit, (void *)region->base);
		}
		region->scratched = 0;
	}
}

int sim_exec_run(struct sim *sim, const struct sim_kernel *kernel, struct sim_fault *fault)
{
	struct sigaction action = {.sa_sigaction = exec_handler,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK};
	int err;

	pthread_mutex_lock(&exec_lock);
	err = uses_open(sim, kernel, false);
	if (!err)
		err = uses_open(sim, kernel, true);
	if (err)
		goto out_close;
	sigemptyset(&action.sa_mask);
	exec_sim = sim;
	exec_fault = (struct sim_fault){NULL, false};
	nr_faults = 0;
	sigaction(SIGSEGV, &action, &exec_before);
	kernel->kernel->cpu(kernel->args);
	sigaction(SIGSEGV, &exec_before, NULL);
	*fault = exec_fault;
	if (fault->addr)
		scratch_drop(sim);
out_close:
	for (uint32_t i = 0; i < kernel->nr_uses; i++)
		use_close(sim, &kernel->uses[i]);
	pthread_mutex_unlock(&exec_lock);
	return err;
}
