/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory, the host's side: ranges of the host's memory that kernels page for themselves,
 * through frames in a GPU's memory. What kernels call is weir/device.cuh; docs/paging-protocol.md
 * says why it holds. Conventions are those of weir/weir.h.
 *
 *     weir_paged_create(machine, &config, &pool);
 *     weir_paged_range_add(pool, &range_config, &range, &host);
 *     ... fill host ...
 *     weir_paged_begin(pool, stream, &view);
 *     kernel<<<..., weir_stream_native(stream)>>>(view, range, ...);
 *     weir_paged_end(pool, stream);
 *     weir_paged_sync(pool);
 *     weir_paged_flush(pool);
 *     ... read host ...
 *
 * A pool can be in a space (config.space): its frames count against the space's budget, and its
 * ranges are ranges of the space, at their addresses on the host. Then weir_begin() may name them
 * beside others, in place of weir_paged_begin():
 *
 *     weir_begin(space, stream, uses, nr_uses);    (uses that name host among others)
 *     weir_paged_view_get(pool, stream, &view);
 *     kernel<<<..., weir_stream_native(stream)>>>(view, range, ...);
 *     weir_end(space, stream);
 *
 * A pool is *online* from weir_paged_begin() until what was queued before weir_paged_end() is done.
 * Meanwhile the host touches no byte of its ranges, and functions that say so return -EBUSY, with
 * nothing done. Otherwise the host's bytes are the program's, with this rule: after a kernel wrote,
 * weir_paged_flush() before the host reads them; weir_paged_drain() before it writes them. Ranges
 * with near_bytes the host reads and writes by weir_paged_read() and weir_paged_write() alone.
 *
 * Every function may be called from any thread.
 */
#ifndef WEIR_PAGED_H
#define WEIR_PAGED_H

#include "weir/paging/view.h"
#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Frames of one GPU, all of one page size, and the ranges that share them. */
struct weir_paged;

/**
 * Kernels of the pool's own. They are compiled with the program's, by nvcc: weir/paged_home.cuh has
 * them, as weir_paged_kernels_cuda. On a simulated machine the CPU does what they do, and nobody
 * calls them. Nobody is online. Streams are CUstreams. Both return 0 or a negative error.
 */
struct weir_paged_kernels {
	/** Queue on a stream: write back what is dirty, and with evict make the frames free; those
	 *  of the view, which may be some of the pool's. */
	int (*home)(void *stream, const struct weir_paged_view *view, int evict);
	/** Queue on a stream: take all slots and pins back, and add how many there were to *left,
	 *  in the GPU's memory. The view may have no ranges: then slots alone. */
	int (*settle)(void *stream, const struct weir_paged_view *view,
		      struct weir_paged_left *left);
};

struct weir_paged_config {
	uint32_t device;
	uint32_t page_bytes;	/**< 4, 8, 16 or 64 KiB; 0: 64 KiB */
	uint64_t gpu_bytes;	/**< for frames; at least one page, cut to whole pages */
	uint64_t gpu_max_bytes; /**< that weir_paged_set_budget() may give; 0: gpu_bytes */
	uint32_t watch_ms;	/**< see weir_paged_sync(); 0: 2,000 */
	const char *name;	/**< for reports; copied, cut. NULL: "paged" */
	const struct weir_paged_kernels *kernels; /**< borrowed for as long as the pool lives */
	/** The space that it is in, of the same machine and device; outlives the pool. NULL: it is
	 *  in none, and its frames are the machine's. */
	struct weir_space *space;
};

/**
 * Make a pool. Its frames are taken of the device's memory at once, in pieces of at most 64 MiB
 * that are at most a 512th of the maximum, or the least that the machine gives; beside them it
 * takes 8 bytes a frame of the maximum and some 200 KB, and with each range 8 bytes a page.
 *
 * In a space, frames are taken out of its budget of the device's memory, which has as many blocks
 * less as the frames need: what is free, and what can be evicted in a planned space, but never what
 * live ranges need. The other way round, weir_alloc() takes frames of pools that are not online
 * where it finds no room otherwise, see weir_paged_set_budget().
 *
 * @param [in]  machine  Outlives the pool. Borrowed.
 * @param [in]  config   Copied.
 * @param [out] out      Owned by the caller; weir_paged_destroy() it.
 * @return 0, or, and nothing was made:
 *   -EINVAL   no such device or page size, no frame, more than 2^28 of them, a maximum below
 *             them, a space of another machine or device
 *   -ENOMEM   the device's memory, or the space's budget of it, has no room (the log says how much
 *             is asked for), or no memory for structures
 *   -ENOTSUP  the machine is simulated without bytes
 *   -ENOSYS   a GPU, and no kernels
 *   or an error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_paged_create(struct weir_machine *machine,
					       const struct weir_paged_config *config,
					       struct weir_paged **out);

/**
 * Destroy a pool, its ranges with it. What is dirty is written back first. Blocks until it is not
 * online. Cannot fail; what could not be written back is logged as an error.
 *
 * It is destroyed before its space. A space that is destroyed first says so in the log, and the
 * pool goes on as one that was made without a space, with the frames that it has.
 */
WEIR_API void weir_paged_destroy(struct weir_paged *pool);

struct weir_paged_range_config {
	uint64_t bytes; /**< > 0, below 2^48 pages; the last page may be cut short */
	/** Memory that all devices reach (pinned, mapped), aligned to 16; borrowed until the range
	 *  is removed. NULL: weir allocates it, pinned; contents are zero. */
	void *host;
	/** How many of its bytes are in other GPUs' memories, by index, rounded up to whole chunks;
	 *  the rest is the host's. Kernels use all of it at one address, and each part comes over
	 *  the link of its memory. The parts lie evenly over the range, in chunks of the machine's
	 *  granularity (2 MiB, and 4 where there would be more than 8,192 of them), and stay there
	 *  for as long as the range lives. Weir allocates all of it (host is NULL), and the CPU
	 *  reaches none of it but by weir_paged_read() and weir_paged_write(). 0: none. */
	uint64_t near_bytes[WEIR_MEMORIES_MAX];
	/** A page is brought in at this touch, up to 2^20; 0: at once. After weir_paged_drain() one
	 *  that had come so far is brought in at the next, and others are counted anew. */
	uint32_t admit;
	/** Of ranges that do not fit: as many pages as there are frames, evenly over the range,
	 *  come in as admit says, and the others so many touches later, up to 2^20; 0: all alike.
	 *  So of a pass over all of it some goes to frames and some over the link at any time, and
	 *  neither waits for the other. */
	uint32_t late;
	/** One of those chosen comes in at an access that counts as so many touches, too, whatever
	 *  admit says: it uses so much of the page that bringing it in moves hardly more. Up to
	 *  2^16 - 1, what an access can say that it is; 0: not so. */
	uint32_t whole;
	/** Touches that an access is which does not say how many, with PT_TOUCHES(): of a word
	 *  somewhere. Up to 2^16 - 1; 0: one. */
	uint32_t word;
	int read_only; /**< kernels do not write it: writes are refused */
	/** Its pages come in only while there are free frames, and nothing is evicted for them; the
	 *  rest is used where it is. For data that is gone through again and again, in the same
	 *  order, and does not fit: what is there stays there. Frames become free by
	 *  weir_paged_drain() and what does that too, or by a larger budget. */
	int fill_only;
	const char *name; /**< for reports; copied, cut. NULL: "range" */
};

/**
 * Add a range to a pool that is not online.
 *
 * @param [out] range  Its number, for kernels: the least that is free, below WEIR_PAGED_RANGES_MAX.
 * @param [out] host   Its bytes: in a space, the address to name it by. May be NULL. With
 *                     near_bytes it is for kernels alone.
 * @return 0, or, and nothing was added: -EINVAL (a size, alignment or touch count out of range; in
 *         a space, bytes of which some are another range's; near_bytes that are more than the
 *         range or a memory has, beside a host of the program's own, or of a memory that there is
 *         not, that is the device's own or the host's, or that it has no link to),
 *         -ENOSPC (WEIR_PAGED_RANGES_MAX are there), -ENOMEM (with near_bytes the log says who
 *         holds the memory; others of the machine were asked for what they do not use), -EBUSY
 *         (online), or an error of the machine.
 * Blocks where memory of others is asked for.
 */
WEIR_API WEIR_MUST_CHECK int weir_paged_range_add(struct weir_paged *pool,
						  const struct weir_paged_range_config *config,
						  uint32_t *range, void **host);

/**
 * Choose when pages of a range come in, for a range of which it is not known how it will be used:
 * sets admit, late, whole, word and fill_only; bytes, near_bytes and read_only are looked at.
 * Without it they come in at their first touch. Kernels say with PT_TOUCHES() how many sectors of
 * 32 bytes an access uses; what is used thinly stays where it is, and what has been used in place
 * for about as long as it takes to bring it in comes in, if a frame is free.
 *
 * @param [in]     pool    Borrowed.
 * @param [in,out] config  For weir_paged_range_add(). What it set may be changed before.
 */
WEIR_API void weir_paged_range_auto(const struct weir_paged *pool,
				    struct weir_paged_range_config *config);

/** Remove a range from a pool that is not online; weir_paged_drain() is done first. Blocks.
 *  @return 0, -EINVAL (no such range), -EBUSY (online), or an error of the machine: it is still
 *  there. */
WEIR_API WEIR_MUST_CHECK int weir_paged_range_remove(struct weir_paged *pool, uint32_t range);

/**
 * Come online: kernels queued on the stream from here to weir_paged_end() may use the pool. One
 * bracket is open at a time; the next may begin before the last one's kernels are done if it is on
 * the same stream.
 * Frames that others of the machine needed meanwhile (see weir_paged_set_budget()) are taken again,
 * as many as there is room for. Blocks for that alone: others may have to write back first.
 *
 * @param [out] view  For kernels, as an argument declared const __grid_constant__; valid for this
 *                    bracket.
 * @return 0, -WEIR_ECONTRACT (a bracket is open), -EBUSY (online on another stream), -EINVAL (a
 *         stream of another device), or an error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_paged_begin(struct weir_paged *pool, struct weir_stream *stream,
					      struct weir_paged_view *view);

/**
 * The view of the bracket that is open on the stream: after a weir_begin() that named ranges of the
 * pool. Does not block.
 *
 * @param [out] view  As weir_paged_begin() has it.
 * @return 0, or -WEIR_ECONTRACT (none is open on this stream).
 */
WEIR_API WEIR_MUST_CHECK int weir_paged_view_get(struct weir_paged *pool,
						 struct weir_stream *stream,
						 struct weir_paged_view *view);

/** Close the bracket: behind its kernels a small one is queued, which takes slots back that warps
 *  left. Does not block. @return 0, -WEIR_ECONTRACT (none is open on this stream, or it is one of
 *  weir_begin(), which weir_end() ends), or an error of the machine: then the pool is online until
 *  weir_paged_sync() succeeds. */
WEIR_API WEIR_MUST_CHECK int weir_paged_end(struct weir_paged *pool, struct weir_stream *stream);

/**
 * Wait until the pool is not online. Blocks, and watches: when accesses have waited for
 * config.watch_ms and no page was moved meanwhile, admission is stopped (kernels go on in place,
 * slower, nothing is lost), the log says so and has a dump of the table, and the statistics'
 * nr_stalls counts it; admission is allowed again with the next bracket.
 *
 * @return 0, or what the kernels since the last call did wrong, logged; contents are whole:
 *   -EFAULT          an access outside its range, or a write to a read-only one; none was made
 *   -WEIR_ECONTRACT  a warp ended without weir_paged_leave(), or with a pinned span, and was made
 *                    to leave; or accesses were refused since a page could have no more pins;
 *                    or a bracket is open
 *   or an error of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_paged_sync(struct weir_paged *pool);

/** Look once, as weir_paged_sync() does while it waits: for programs that wait by other means.
 *  It asks the machine for more than whether kernels are done every eighth of config.watch_ms at
 *  most. @return 1: not online; 0: online; or an error of the machine, or of the kernels. */
WEIR_API WEIR_MUST_CHECK int weir_paged_watch(struct weir_paged *pool);

/** Write back what kernels changed: the host's bytes are right to read. Pages stay in their frames.
 *  Blocks. @return 0, -EBUSY (online), or an error of the machine. */
WEIR_API WEIR_MUST_CHECK int weir_paged_flush(struct weir_paged *pool);

/** weir_paged_flush(), and all frames become free: the host's bytes may be written, too. Blocks.
 *  @return as weir_paged_flush(). */
WEIR_API WEIR_MUST_CHECK int weir_paged_drain(struct weir_paged *pool);

/**
 * Use another number of frames, up to the maximum the pool was made for. Pages in frames that are
 * taken away are evicted, and their memory is given back. Memory that others of the machine hold
 * and do not use is taken from them. In the same way, while the pool is not online, others may take
 * frames of it, and it has fewer than its budget until the next weir_paged_begin(), one at least;
 * what is dirty in them is written back. In a space its budget has to have room, too, and
 * weir_alloc() takes frames in the same way, before it returns -ENOMEM. Blocks.
 * @param [in] gpu_bytes  At least one page.
 * @return 0, or, and nothing changed: -EINVAL (below one page, or beyond the maximum), -EBUSY
 *         (online), -ENOMEM (the device's memory, or the space's budget, has no room), or an error
 *         of the machine.
 */
WEIR_API WEIR_MUST_CHECK int weir_paged_set_budget(struct weir_paged *pool, uint64_t gpu_bytes);

/** Copy between a range and a buffer of the program: to read, weir_paged_flush() is done first, to
 *  write weir_paged_drain(). Read-only ranges may be written so. Blocks.
 *  @return 0, -EINVAL (not inside the range), -EBUSY (online), or an error of the machine. */
WEIR_API WEIR_MUST_CHECK int weir_paged_read(struct weir_paged *pool, uint32_t range,
					     uint64_t offset, void *data, uint64_t bytes);
WEIR_API WEIR_MUST_CHECK int weir_paged_write(struct weir_paged *pool, uint32_t range,
					      uint64_t offset, const void *data, uint64_t bytes);

/** Counts since the range was added. Hits are not counted: they touch nothing shared. */
struct weir_paged_range_stats {
	uint64_t nr[WEIR_PAGED_EVENT_NR];
	uint64_t in_bytes, out_bytes; /**< of those pages; one that is cut short counts whole */
	uint64_t home_bytes[WEIR_MEMORIES_MAX]; /**< of the range, by memory */
};

struct weir_paged_stats {
	struct weir_paged_range_stats range[WEIR_PAGED_RANGES_MAX];
	uint64_t nr_frames, nr_max_frames;
	uint64_t nr_resident; /**< frames that hold a page */
	uint64_t epoch;
	uint64_t nr_stalls;
	/** The slot that the last scan which failed (WEIR_PAGED_LAG, of range 0) found behind, + 1;
	 *  0: none did. On a GPU mostly 64 times the multiprocessor, and the warp's place there;
	 *  the one behind all others is that of warps without a slot. */
	uint64_t lagged;
};

/** What has happened so far, also while kernels run: then it is of no one moment. May wait for a
 *  copy of 128 KiB and 8 bytes a frame, not for the program's kernels; on a simulated machine a
 *  kernel runs within a call, which is waited for. @return 0 or an error of the machine. */
WEIR_API WEIR_MUST_CHECK int weir_paged_query(struct weir_paged *pool,
					      struct weir_paged_stats *out);

/** Log the state of the table, as warnings: epoch, hands, who is online, pages by state. At any
 *  time. */
WEIR_API void weir_paged_dump(struct weir_paged *pool);

/** Walk all of it: every page's frame, every frame's owner, nothing pinned or locked, clean pages
 *  equal to the host's. Slow. @return 0, -EUCLEAN (the log says what), -EBUSY (online), -ENOMEM,
 *  or an error of the machine. */
WEIR_API WEIR_MUST_CHECK int weir_paged_check(struct weir_paged *pool);

#ifdef __cplusplus
}
#endif

#endif
