/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to a pool's table while nobody is online, by a kernel: pages are brought home, and
 * what agents left behind is taken back. On a GPU the kernels are the program's, which has them of
 * weir/paged_home.cuh; on a simulated machine they are the functions of view.c.
 */
#include <errno.h>

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
