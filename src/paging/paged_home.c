/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to a pool's table while nobody is online, by a kernel: pages are brought home, and
 * what agents left behind is taken back. On a GPU the kernels are the program's, which has them of
 * weir/paged_home.cuh; on a simulated machine they are the functions of view.c.
 */
#include <errno.h>
#include <string.h>

#include "src/base/log.h"
#include "src/paging/paged.h"

/* Arguments of both kernels. */
struct home_args {
	struct weir_paged_view view;
	const struct weir_paged_kernels *kernels;
	struct weir_paged_left *left;
	int evict;
};

static void home_cpu(const void *args)
{
	const struct home_args *a = args;

	view_home(&a->view, a->evict);
}

static int home_cuda(void *stream, const void *args)
{
	const struct home_args *a = args;

	return a->kernels->home(stream, &a->view, a->evict);
}

static void settle_cpu(const void *args)
{
	const struct home_args *a = args;

	view_settle(&a->view, a->left);
}

static int settle_cuda(void *stream, const void *args)
{
	const struct home_args *a = args;

	return a->kernels->settle(stream, &a->view, a->left);
}

static const struct weir_kernel home_kernel = {"paged-home", home_cpu, home_cuda};
static const struct weir_kernel settle_kernel = {"paged-settle", settle_cpu, settle_cuda};

int paged_side_wait(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	fence_t fence;
	int err;

	if (!pool->busy)
		return 0;
	err = b->ops->fence_record(b, pool->side, &fence);
	if (!err)
		err = b->ops->fence_wait(b, fence);
	pool->busy = err != 0;
	return err;
}

static int queue(struct weir_paged *pool, stream_id_t stream, const struct weir_kernel *kernel,
		 const struct home_args *args)
{
	const struct weir_launch launch = {
		.kernel = kernel, .args = args, .args_bytes = sizeof(*args)};
	struct backend *b = pool->backend;
	int err = b->ops->launch(b, stream, &launch);

	if (!err)
		return 0;
	log_error("paged pool '%s': kernel %s cannot be queued: %s", pool->name, kernel->name,
		  weir_strerror(err));
	return err < 0 ? err : -EIO;
}

static int run(struct weir_paged *pool, const struct weir_kernel *kernel,
	       const struct home_args *args)
{
	int err = paged_side_wait(pool);

	if (err)
		return err;
	pool->busy = true; /* a launch that failed may have queued something */
	err = queue(pool, pool->side, kernel, args);
	return err ? err : paged_side_wait(pool);
}

/* Frames are told by their owner words alone, so that those of a view may be the later ones. */
int paged_home(struct weir_paged *pool, uint64_t first, bool evict)
{
	struct home_args args = {.view = pool->view, .kernels = pool->kernels, .evict = evict};

	if (!pool->used)
		return 0;
	args.view.table.owner += first;
	args.view.table.nr_frames -= first;
	args.view.frames += first << args.view.page_shift;
	return run(pool, &home_kernel, &args);
}

static struct home_args settle_args(struct weir_paged *pool)
{
	return (struct home_args){
		.view = pool->view, .kernels = pool->kernels, .left = &pool->words->left};
}

int paged_slots_free(struct weir_paged *pool)
{
	struct home_args args = settle_args(pool);

	args.view.table.nr_ranges = 0;
	return queue(pool, pool->stream, &settle_kernel, &args);
}

int paged_settle(struct weir_paged *pool, struct weir_paged_left *left)
{
	const struct home_args args = settle_args(pool);
	struct weir_paged_left sum = {0};
	int err = run(pool, &settle_kernel, &args);

	if (!err)
		err = paged_get(pool, &sum, args.left, sizeof(sum));
	if (!err)
		err = paged_zero(pool, args.left, sizeof(*args.left));
	if (!err)
		*left = sum;
	return err;
}

/* ------------------------------------------------------------------ by the host */

static int bring_home(struct weir_paged *pool, const char *what, bool evict)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = paged_quiet(pool, what);
	if (!err)
		err = paged_home(pool, 0, evict);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_flush(struct weir_paged *pool)
{
	return bring_home(pool, "weir_flush()", false);
}

int weir_paged_drain(struct weir_paged *pool)
{
	return bring_home(pool, "weir_paged_drain()", true);
}

/* Where a part of a range is, with its pages brought home. */
static int part_open(struct weir_paged *pool, const char *what, uint32_t range, uint64_t offset,
		     uint64_t bytes, bool evict, uint8_t **out)
{
	const struct pt_range *r = range < WEIR_PAGED_RANGES_MAX ? &pool->view.range[range] : NULL;
	int err;

	if (!r || !r->nr_pages || offset > r->bytes || bytes > r->bytes - offset) {
		log_error("paged pool '%s': %s of %llu bytes at %llu of range %u, which has %llu",
			  pool->name, what, (unsigned long long)bytes, (unsigned long long)offset,
			  range, (unsigned long long)(r ? r->bytes : 0));
		return -EINVAL;
	}
	err = paged_quiet(pool, what);
	if (!err && bytes)
		err = paged_home(pool, 0, evict);
	*out = (uint8_t *)r->host + offset;
	return err;
}

int weir_paged_read(struct weir_paged *pool, uint32_t range, uint64_t offset, void *data,
		    uint64_t bytes)
{
	uint8_t *at;
	int err;

	pthread_mutex_lock(&pool->lock);
	err = part_open(pool, "weir_paged_read()", range, offset, bytes, false, &at);
	if (!err && bytes)
		memcpy(data, at, bytes);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_paged_write(struct weir_paged *pool, uint32_t range, uint64_t offset, const void *data,
		     uint64_t bytes)
{
	uint8_t *at;
	int err;

	pthread_mutex_lock(&pool->lock);
	err = part_open(pool, "weir_paged_write()", range, offset, bytes, true, &at);
	if (!err && bytes)
		memcpy(at, data, bytes);
	pthread_mutex_unlock(&pool->lock);
	return err;
}
