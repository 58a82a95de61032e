/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of addresses. */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/fakecuda/fake.h"

/* Aligned addresses, at the hint if they are free there; MAP_FAILED. */
static void *addresses_reserve(uint64_t bytes, uint64_t align, uint64_t hint)
{
	char *all, *begin;

	if (hint && !(hint & (align - 1))) {
		void *there = mmap(pointer(hint), bytes, PROT_NONE,
				   PAGES_OF_NOBODY | MAP_FIXED_NOREPLACE, -1, 0);

		if (there != MAP_FAILED)
			return there;
	}
	all = mmap(NULL, bytes + align, PROT_NONE, PAGES_OF_NOBODY, -1, 0);
	if (all == MAP_FAILED)
		return MAP_FAILED;
	begin = all + (align - (uintptr_t)all % align) % align;
	if (begin > all)
		munmap(all, (size_t)(begin - all));
	munmap(begin + bytes, (size_t)(all + align - begin));
	return begin;
}

static cu_result reserve(cu_ptr *addr, size_t bytes, size_t align, cu_ptr hint,
			 unsigned long long flags)
{
	struct range *range;
	void *begin;

	if (!addr || !bytes || bytes != page_up(bytes) || hint != page_up(hint) ||
	    (align & (align - 1)) || flags)
		return CU_INVALID_VALUE;
	if (align < fake.config.granularity)
		align = fake.config.granularity;
	if (bytes > SIZE_MAX / 4 || align > SIZE_MAX / 4)
		return CU_OUT_OF_MEMORY;
	range = malloc(sizeof(*range));
	if (!range)
		return CU_OUT_OF_MEMORY;
	begin = addresses_reserve(bytes, align, hint);
	if (begin == MAP_FAILED)
		goto err_free;
	*range = (struct range){(uintptr_t)begin, bytes};
	if (!ranges_add(&fake.reservations, range))
		goto err_unmap;
	*addr = range->addr;
	return CU_SUCCESS;

err_unmap:
	munmap(begin, bytes);
err_free:
	free(range);
	return CU_OUT_OF_MEMORY;
}

cu_result fake_mem_reserve(cu_ptr *addr, size_t bytes, size_t align, cu_ptr hint,
			   unsigned long long flags)
{
	cu_result result = call_enter(CALL_mem_reserve);

	return call_leave(result ? result : reserve(addr, bytes, align, hint, flags));
}

static cu_result unreserve(uint64_t addr, size_t bytes)
{
	struct range *range = ranges_find(&fake.reservations, addr);

	if (!range || range->addr != addr || range->bytes != bytes ||
	    ranges_any(&fake.mappings, addr, bytes))
		return CU_INVALID_VALUE;
	work_check_unmap(addr, bytes);
	/* A kernel may still run there: the addresses stay, and are lost. */
	if (!kernels_access(addr, bytes))
		munmap(pointer(addr), bytes);
	ranges_del(&fake.reservations, range);
	free(range);
	return CU_SUCCESS;
}

cu_result fake_mem_unreserve(cu_ptr addr, size_t bytes)
{
	cu_result result = call_enter(CALL_mem_unreserve);

	return call_leave(result ? result : unreserve(addr, bytes));
}

void reservations_fini(void)
{
	for (size_t i = 0; i < fake.reservations.nr; i++) {
		munmap(pointer(fake.reservations.at[i]->addr), fake.reservations.at[i]->bytes);
		free(fake.reservations.at[i]);
	}
	free(fake.reservations.at);
	fake.reservations = (struct ranges){0};
}
