/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manager for the tests of the GCN workload: plain host memory, launches run at once. It counts
 * the bytes it has given out, can fail its n-th call, refuses to exceed a capacity, displaces
 * addresses, and shows each launch to a hook before and in place of running it.
 *
 * Bytes are real or, on a fake phantom machine, addresses without memory behind them.
 */
#ifndef WEIR_TEST_GCN_FAKE_H
#define WEIR_TEST_GCN_FAKE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "managers/manager.h"

#define FAKE_TENSORS_MAX 64

struct fake_tensor {
	char *addr, *base; /* base: as the host allocated it */
	uint64_t bytes, mapped_bytes;
	const char *name;
};

struct fake {
	struct manager manager;
	struct backend backend;
	struct backend_ops backend_ops;
	struct backend_observe_ops observe_ops;

	struct fake_tensor tensor[FAKE_TENSORS_MAX]; /* those with an address live */
	uint64_t live_bytes, peak_bytes, capacity_bytes;
	uint64_t next_phantom; /* address */
	uint64_t offset;       /* what addresses are displaced by; it varies by allocation */
	bool own_pages;	       /* each tensor has whole pages, and nothing else is in them */

	uint64_t nr_calls, fail_at; /* over all calls that can fail; 0: never */
	int fail_with;

	uint64_t nr_allocs, nr_launches, nr_unknown_frees, nr_bad_uses;
	/* Instead of running the kernel; may be NULL. */
	void (*hook)(struct fake *f, const struct weir_launch *launch);
	void *hook_arg;
};

static inline struct fake *fake_of(struct manager *m)
{
	return (struct fake *)(void *)m;
}

static inline int fake_count_call(struct fake *f)
{
	return ++f->nr_calls == f->fail_at ? f->fail_with : 0;
}

/* The live tensor that holds a part, or NULL. */
static inline struct fake_tensor *fake_find(struct fake *f, const void *addr, uint64_t bytes)
{
	uint64_t first = (uint64_t)(uintptr_t)addr;

	for (int i = 0; i < FAKE_TENSORS_MAX; i++) {
		struct fake_tensor *t = &f->tensor[i];
		uint64_t begin = (uint64_t)(uintptr_t)t->addr;

		if (t->addr && first >= begin && bytes <= t->bytes &&
		    first - begin <= t->bytes - bytes)
			return t;
	}
	return NULL;
}

static inline int fake_place(struct fake *f, struct fake_tensor *t, uint64_t bytes)
{
	uint64_t offset = f->offset ? (f->nr_allocs % 7) * f->offset : 0;

	if (f->backend.data == WEIR_DATA_PHANTOM) {
		t->base = NULL;
		t->addr = (char *)(uintptr_t)f->next_phantom;
		f->next_phantom += (bytes + 511) / 256 * 256;
		return 0;
	}
	if (f->own_pages) {
		t->mapped_bytes = (bytes + 4095) / 4096 * 4096;
		t->base = mmap(NULL, t->mapped_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (t->base == MAP_FAILED)
			return -ENOMEM;
		t->addr = t->base;
		memset(t->addr, 0xff, t->mapped_bytes);
		return 0;
	}
	t->base = aligned_alloc(256, (bytes + offset + 255) / 256 * 256);
	if (!t->base)
		return -ENOMEM;
	t->addr = t->base + offset;
	memset(t->addr, 0xff, bytes); /* NaNs, and indexes out of range */
	return 0;
}

static inline int fake_alloc(struct manager *m, uint64_t bytes, const char *name, void **addr)
{
	struct fake *f = fake_of(m);
	struct fake_tensor *t = f->tensor;
	int ret = fake_count_call(f);

	if (ret)
		return ret;
	if (!bytes)
		return -EINVAL;
	if (f->capacity_bytes && bytes > f->capacity_bytes - f->live_bytes)
		return -ENOMEM;
	while (t->addr)
		if (++t == f->tensor + FAKE_TENSORS_MAX)
			return -ENOMEM;
	ret = fake_place(f, t, bytes);
	if (ret) {
		*t = (struct fake_tensor){0};
		return ret;
	}
	f->nr_allocs++;
	t->bytes = bytes;
	t->name = name;
	f->live_bytes += bytes;
	if (f->live_bytes > f->peak_bytes)
		f->peak_bytes = f->live_bytes;
	*addr = t->addr;
	return 0;
}

static inline void fake_free(struct manager *m, void *addr)
{
	struct fake *f = fake_of(m);
	struct fake_tensor *t = fake_find(f, addr, 1);

	if (!t || t->addr != addr) {
		f->nr_unknown_frees++;
		return;
	}
	f->live_bytes -= t->bytes;
	if (f->own_pages)
		munmap(t->base, t->mapped_bytes);
	else
		free(t->base);
	*t = (struct fake_tensor){0};
}

static inline int fake_launch(struct manager *m, const struct weir_launch *launch)
{
	struct fake *f = fake_of(m);
	int ret = fake_count_call(f);

	if (ret)
		return ret;
	f->nr_launches++;
	for (uint32_t i = 0; i < launch->nr_uses; i++) {
		const struct weir_use *use = &launch->uses[i];

		if (!use->bytes || !fake_find(f, use->addr, use->bytes))
			f->nr_bad_uses++;
	}
	if (f->hook)
		f->hook(f, launch);
	else if (f->backend.data == WEIR_DATA_REAL)
		launch->kernel->cpu(launch->args);
	return 0;
}

static inline int fake_write(struct manager *m, void *addr, const void *data, uint64_t bytes)
{
	struct fake *f = fake_of(m);
	int ret = fake_count_call(f);

	if (ret)
		return ret;
	if (!fake_find(f, addr, bytes) || !data != (f->backend.data == WEIR_DATA_PHANTOM))
		return -EINVAL;
	if (data)
		memcpy(addr, data, bytes);
	return 0;
}

static inline int fake_read(struct manager *m, void *data, const void *addr, uint64_t bytes)
{
	struct fake *f = fake_of(m);
	int ret = fake_count_call(f);

	if (ret)
		return ret;
	if (!fake_find(f, addr, bytes) || !data != (f->backend.data == WEIR_DATA_PHANTOM))
		return -EINVAL;
	if (data)
		memcpy(data, addr, bytes);
	return 0;
}

static inline int fake_sync(struct manager *m)
{
	return fake_count_call(fake_of(m));
}

static inline uint64_t fake_now_ns(struct backend *b)
{
	struct timespec t;

	(void)b;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void fake_init(struct fake *f, enum weir_data data)
{
	static const struct manager_ops ops = {
		.name = "fake",
		.alloc = fake_alloc,
		.free = fake_free,
		.launch = fake_launch,
		.write = fake_write,
		.read = fake_read,
		.sync = fake_sync,
	};

	*f = (struct fake){.next_phantom = UINT64_C(1) << 40, .fail_with = -EIO};
	f->backend_ops.now_ns = fake_now_ns;
	backend_ops_complete(&f->backend_ops);
	f->backend.ops = &f->backend_ops;
	backend_observe_complete(&f->observe_ops);
	f->backend.observe = &f->observe_ops;
	f->backend.data = data;
	f->manager.ops = &ops;
	f->manager.backend = &f->backend;
}

#endif
