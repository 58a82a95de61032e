/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which live ranges a kernel launch names: those that hold a 64-bit value which stands in the
 * launch's parameters. Each parameter is searched at every *place*, a multiple of 4 bytes from its
 * first byte; where the layout of the parameters is not known, the buffer that holds them all.
 * Values that happen to be addresses count, too: what is found is more than what the kernel uses,
 * and never less than what its parameters show. It is searched anew at each launch; nothing that is
 * remembered of earlier ones decides what is found.
 *
 * What is remembered of each kernel is the set of places where a range was ever found. A kernel
 * that takes a pointer at another place than before may do other things with it.
 *
 * Nothing here knows CUDA: keys of kernels are the caller's handles, and the caller asks the driver
 * for layouts.
 *
 * Threads: any call in any threads at once, but for the creation and the destruction. One lock for
 * readers and writers guards ranges and kernels: launches share it, so they are searched side by
 * side, and adding and deleting ranges or kernels takes it alone. A range that was found may be
 * deleted by another thread as soon as the call has returned: who must know holds a lock of its own
 * around both, or compares serials. The lock is a leaf: under it nothing is called but the C
 * library's allocator.
 */
#ifndef WEIR_SHIM_INFER_H
#define WEIR_SHIM_INFER_H

#include <stddef.h>

#include "shim/ranges.h"

/* The most bytes of parameters that a launch can have; CUDA's limit is 32,764. */
#define INFER_BYTES_MAX 32768u

/* See struct infer_use: launches from which on a place can be rare, and the part of all launches,
 * one of so many, up to which it is. PyTorch's index_add had an address in an unused stride in 0
 * to 45 % of an epoch's launches, and in 35 % of its first hundred; what a kernel is given by
 * choice is there more often. */
#define INFER_RARE 16u
#define INFER_RARE_PART 2u

struct infer;

/* One parameter in the kernel's layout. */
struct infer_param {
	uint32_t offset, bytes;
};

/* A launch's parameters. Borrowed during the call. */
struct infer_launch {
	const void *kernel;  /* its key */
	void *const *params; /* a pointer to each parameter, in the order of the layout; or NULL */
	const void *buffer;  /* all parameters, used if params is NULL */
	uint32_t buffer_bytes; /* size of the buffer */
};

/* A range that a launch names. */
struct infer_use {
	uint64_t addr, bytes, serial; /* the range's, as in struct range_live */
	uint32_t id;
	uint32_t place; /* the lowest one where it was found, but for those where that is rare, in
			   bytes from the layout's start */
	uint32_t nr;	/* such places; 1 at least */
	uint64_t at;	/* the value at the lowest one of these */

	/*
	 * None of the places where it was found has had a range in more than one of INFER_RARE_PART
	 * launches of the kernel, which were INFER_RARE at least: more likely than a pointer it is
	 * what was left on the stack, in a part of a structure that the kernel does not read. It
	 * counts all the same; but who moves it for that, or takes it for what the program does
	 * each time, errs.
	 */
	bool rare;
};

/*
 * What a launch names. Belongs to one thread at a time, which uses it for one launch after another:
 * it keeps its memory. All zeros to begin with.
 */
struct infer_uses {
	struct infer_use *use; /* each range once, places ascending */
	uint32_t nr, capacity;

	/*
	 * The set of places where this launch has pointers, as a number: infer_places_hash(). For
	 * decisions about a kernel this counts, and not new_place: of two launches at once that
	 * show the same new place one alone is told.
	 */
	uint64_t places_hash;
	bool new_place;	  /* no earlier launch of the kernel had a pointer at one of the places */
	uint32_t nr_rare; /* ranges */

	uint32_t *mark; /* by id: the number of the last launch of many ranges that named it */
	uint32_t nr_marks, number;
};

/* @return 0 or -ENOMEM */
int infer_create(struct infer **infer);

/* No other call may run. */
void infer_destroy(struct infer *infer);

/* ranges_add() and ranges_del(), with copies. */
int infer_range_add(struct infer *infer, uint64_t addr, uint64_t bytes, struct range_live *range);
int infer_range_del(struct infer *infer, uint64_t addr, struct range_live *range);

/* ranges_find(), with a copy. @return 0 or -ENOENT */
int infer_range_find(struct infer *infer, uint64_t addr, struct range_live *range);

/* Whether an address in a live range stands in a buffer, at any multiple of 4 bytes. */
bool infer_range_any(struct infer *infer, const void *buffer, uint64_t bytes);

/**
 * Declare a kernel, so that its launches can be searched.
 *
 * @param [in] key    What launches name it by. Not NULL.
 * @param [in] param  Its layout, offsets ascending, no two overlapping; copied. NULL: not known.
 * @param [in] nr     The number of parameters; 0 is a layout, too, unless param is NULL.
 * @return 0, or:
 *   -EINVAL  the key is NULL, or the layout is not as described
 *   -E2BIG   a parameter ends beyond INFER_BYTES_MAX
 *   -EEXIST  it is declared already: not an error where two threads launch it for the first time
 *   -ENOMEM  no memory of the C library
 */
int infer_kernel_add(struct infer *infer, const void *key, const struct infer_param *param,
		     uint32_t nr);

/*
 * Forget a kernel: its module is unloaded, and the driver may give another kernel the same key. No
 * launch of it may be under way. @return 0 or -ENOENT
 */
int infer_kernel_del(struct infer *infer, const void *key);

/*
 * The set of places where launches of a kernel have had pointers so far, as a number.
 * @return 0 or -ENOENT
 */
int infer_kernel_places(struct infer *infer, const void *key, uint64_t *hash);

/**
 * Find the ranges that a launch names.
 *
 * Of a buffer, if the layout is known, each parameter is searched as far as the buffer goes.
 *
 * @param [in,out] uses  What was found. On an error its contents are undefined, but it can be used
 *                       for other launches, and the launch may name any range.
 * @return 0, or:
 *   -ENOENT  the kernel is not declared
 *   -EINVAL  params, but the layout is not known; or neither params nor a buffer, unless the
 *            layout is known and has no parameter of 8 bytes or more
 *   -E2BIG   the layout is not known and the buffer is larger than INFER_BYTES_MAX
 *   -ENOMEM  no memory of the C library
 */
int infer_launch(struct infer *infer, const struct infer_launch *launch, struct infer_uses *uses);

/* @return whether ranges_check() and the table of kernels are right */
bool infer_check(struct infer *infer);

/* Free what it keeps. It can be used again. */
void infer_uses_fini(struct infer_uses *uses);

/*
 * The number of one place. That of a set is the sum of those of its members, modulo 2^64; of the
 * empty set: 0. It is the same in all versions of weir and on all machines, so that it can be kept
 * in files.
 */
uint64_t infer_place_hash(uint32_t place);

#endif
