/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas: a range that several devices use has a copy in the memory of each device that reads it.
 * Kernels load from their own device's copy; what they store is sent to the devices that read it
 * next. docs/replica.md says how.
 *
 * A replicated range is reached at two kinds of addresses:
 *
 *  - A device's *window*, weir_replica(): that device's own addresses for the range. Kernels of the
 *    device use it as an ordinary pointer, in brackets that name it.
 *  - The address that weir_alloc() returned: the *one copy*. While a bracket names a part there,
 *    that part has no replicas (it is collapsed). It is what the CPU uses in host brackets.
 *
 * Consistency. Calls are the order, across streams and devices: the launches of a bracket see all
 * stores of brackets whose weir_end() returned before its weir_begin() was called. Threads order
 * their calls themselves. Stores that are not ordered so may be seen or not, by whole elements;
 * those of brackets that begin after its end never are. weir_read(), weir_write() and host brackets
 * obey the same rule. weir_publish() is the end of a bracket for a part of what it writes.
 *
 * Two brackets that are open at the same time may write one block, but not the same bytes: their
 * declared parts are disjoint, but for WEIR_ATOMIC at the one copy. A bracket that names a part at
 * the one copy and one that names it through a window are not open together. The simulator and the
 * debug mode of weir_machine_cuda() trap launches of the second bracket; the log names both. A
 * bracket that names the whole space names replicated ranges through the windows of its device, and
 * at the one copy those that it has no window for.
 */
#ifndef WEIR_REPLICA_H
#define WEIR_REPLICA_H

#include "weir/tracked.h"
#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Who receives what is written, beside those who ask for it as their brackets begin. */
enum weir_subscription {
	WEIR_SUBSCRIBE_LEARNED, /**< devices that read it the last times, as they are recognised */
	WEIR_SUBSCRIBE_MANUAL,	/**< those named by weir_subscribe() and by lists alone */
	WEIR_SUBSCRIBE_ALL,	/**< every device of the range, all of it */
	WEIR_SUBSCRIBE_NONE,	/**< nobody: each reader's bracket fetches as it begins */
};

struct weir_replica_params {
	/** WEIR_MEM_DEVICE() of the devices that get a window; 0: all of the space's. */
	uint64_t devices;
	/** What kernels store whole: 1, 2, 4, 8 or 16 bytes; 0: 4. Lists name elements of this
	 *  size, from the range's beginning; bytes behind the last whole one are in no list. Parts
	 *  of brackets begin and end with them. */
	uint32_t element_bytes;
	enum weir_subscription subscription;
};

/**
 * Make replicas of a range. Its contents stay what they are.
 *
 * @param [in] addr    As weir_alloc() returned it.
 * @param [in] params  Copied. NULL: all zero.
 * @return 0, or, and nothing changed:
 *   -EINVAL   no such range; elements of another size; no such device, or none of the space's; no
 *             known kind of subscription
 *   -EEXIST   the range is replicated
 *   -EBUSY    a bracket is open that names it
 *   -ENOTSUP  the range is paged, or the space is fixed
 *   -ENOMEM   no memory for the structures, or no addresses
 *   or an error of the machine.
 * Blocks: for its turn, as weir_alloc().
 */
WEIR_API WEIR_MUST_CHECK int weir_replicate(struct weir_space *space, void *addr,
					    const struct weir_replica_params *params);

/**
 * Turn a replicated range back into an ordinary one: its windows are gone, and what was written
 * last is at its address.
 *
 * @param [in] addr  As weir_alloc() returned it.
 * @return 0, or, and it is as it was: -EINVAL (it is not replicated), -EBUSY (a bracket that names
 *         it is open), -ENOMEM (the space has no room for the one copy), or an error of the
 *         machine, or of the work waited for.
 * Blocks: for brackets that ended and for copies.
 */
WEIR_API WEIR_MUST_CHECK int weir_unreplicate(struct weir_space *space, void *addr);

/**
 * A device's window: the address that its kernels use. Byte `offset` of the range is at window +
 * offset. It stays the same until the range is freed or turned back, and is not freed by itself.
 * A part of it can be used by brackets alone, which give it memory as they first name it.
 *
 * @param [in]  addr    Inside a replicated range, or inside one of its windows.
 * @param [out] window  Of the same byte.
 * @return 0, or -EINVAL: no replicated range, or a device that it has no window for.
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_replica(struct weir_space *space, void *addr, uint32_t device,
					  void **window);

/**
 * Subscribe a device to a part: what other devices write there is sent to it as their brackets end,
 * whether it was seen to read it or not. It gets a copy of its own, as far as its budget has room.
 * A hint: what is not sent is fetched when a bracket reads it.
 *
 * @param [in] addr   Inside a replicated range, or inside one of its windows.
 * @param [in] bytes  > 0; the part lies inside the range.
 * @return 0, -EINVAL (no such part, or a device that it has no window for), -ENOMEM, or an error of
 *         the machine. On error nothing changed.
 * Blocks: for its turn, as weir_alloc().
 */
WEIR_API WEIR_MUST_CHECK int weir_subscribe(struct weir_space *space, void *addr, uint64_t bytes,
					    uint32_t device);

/**
 * End that, and give back the device's copies of the part, in whole granules, where no bracket uses
 * them.
 *
 * @return 0; -EINVAL (as above); -EBUSY: the device's copy is the only one of some of the part; or
 *         -ENOMEM. On error nothing changed.
 * Blocks: for its turn, as weir_alloc().
 */
WEIR_API WEIR_MUST_CHECK int weir_unsubscribe(struct weir_space *space, void *addr, uint64_t bytes,
					      uint32_t device);

/**
 * Subscribe a device to single elements of a range, as those of a large vector that it gathers. The
 * device gets a copy of its own of the granules that have some, as far as its budget has room, and
 * what others write of these elements is sent to it as their brackets end. That is a hint, as
 * weir_subscribe() is; but a bracket's use of the kind WEIR_READ_ELEMENTS is brought these elements
 * alone. Each device has one list of a range, and a new one takes the place of the one before.
 *
 * @param [in] addr     As weir_alloc() returned it, or the beginning of a window.
 * @param [in] element  Copied. Numbers from the range's beginning, in elements of the
 *                      element_bytes that it was replicated with: each larger than the one before.
 * @param [in] nr       0: end it; element is not looked at.
 * @return 0, -EINVAL (no range or window begins there; a device that it has no window for; numbers
 *         that do not ascend, or beyond the range), -ENOMEM, or an error of the machine. On error
 *         nothing changed.
 * Blocks: for its turn, as weir_alloc(); the first time also for kernels that run, if the machine
 *   loads its own only then.
 */
WEIR_API WEIR_MUST_CHECK int weir_subscribe_elements(struct weir_space *space, void *addr,
						     const uint32_t *element, uint64_t nr,
						     uint32_t device);

/**
 * What the launches so far of an open bracket wrote in a part is finished, as if a bracket that
 * wrote the part had ended: brackets whose weir_begin() comes later see it, and devices that are
 * known to read it are sent it while the rest of the bracket runs. From here on the bracket only
 * reads the part: the simulator and the debug mode of weir_machine_cuda() trap launches that write
 * it.
 *
 * @param [in] stream  Has an open bracket.
 * @param [in] addr    In the window of the stream's device.
 * @param [in] bytes   > 0. All of the part is in uses of the bracket that write it, and was not
 *                     published before.
 * @return 0, or, and the bracket is as it was:
 *   -WEIR_ECONTRACT  no bracket is open on the stream, or it is being captured
 *   -EINVAL          no such part
 *   -ENOMEM          no memory for the structures
 *   or an error of the machine.
 * Blocks: no, but in that debug mode, for the stream.
 */
WEIR_API WEIR_MUST_CHECK int weir_publish(struct weir_space *space, struct weir_stream *stream,
					  void *addr, uint64_t bytes);

/**
 * Begin to note what kernels of a device read of a range, to make a list of it. Kernels read by the
 * functions of weir/tracked.h, in brackets that declare WEIR_READ; the marks that they set are not
 * declared. It costs memory of the device: a byte for each line of 128 bytes.
 *
 * @param [in]  addr  As weir_alloc() returned it, or the beginning of a window.
 * @param [out] out   For kernels of the device, until weir_tracking_stop(): its window, and the
 *                    marks.
 * @return 0, -EINVAL (no range or window begins there; a device that it has no window for),
 *         -EEXIST (it has begun), -ENOTSUP (a machine without bytes), -ENOMEM, or an error of the
 *         machine. On error nothing changed.
 * Blocks: for its turn, as weir_alloc(), and for the marks to be cleared.
 */
WEIR_API WEIR_MUST_CHECK int weir_tracking_start(struct weir_space *space, void *addr,
						 uint32_t device, struct weir_tracked *out);

/**
 * End that, and subscribe the device to all elements of the lines that were noted, as
 * weir_subscribe_elements() does: to none, if there are none.
 *
 * @return 0, -EINVAL (as above, or it has not begun), -EBUSY (a bracket that names the device's
 *         window is open), -ENOMEM, or an error of the machine. On error it goes on.
 * Blocks: for its turn, and for brackets that ended.
 */
WEIR_API WEIR_MUST_CHECK int weir_tracking_stop(struct weir_space *space, void *addr,
						uint32_t device);

/** Why bytes were sent to a copy. */
enum weir_message_kind {
	WEIR_FETCHED,	/**< a bracket, or the host, was about to read what was not there */
	WEIR_PUBLISHED, /**< as the bracket ended that wrote it, or by weir_publish() */
	WEIR_MESSAGE_KIND_NR
};

/** How. What is written in a part that is read as a whole is sent whole. */
enum weir_replica_mechanism {
	WEIR_SENT_WHOLE,   /**< one copy, with what lies between a list's elements */
	WEIR_SENT_RUNS,	   /**< a copy for each run of a list's elements */
	WEIR_SENT_PACKETS, /**< a list's elements side by side, packed and unpacked by kernels */
	WEIR_REPLICA_MECHANISM_NR
};

/** Of all replicated ranges of a space, since the first one. Indexes are the machine's. */
struct weir_replica_stats {
	uint64_t nr_messages[WEIR_MESSAGE_KIND_NR];
	uint64_t message_bytes[WEIR_MESSAGE_KIND_NR];
	/** The same messages, and bytes. */
	uint64_t nr_sent[WEIR_REPLICA_MECHANISM_NR];
	uint64_t sent_bytes[WEIR_REPLICA_MECHANISM_NR];
	/** Messages among them between copies in one memory, and their bytes: over no link. */
	uint64_t nr_local, local_bytes;
	/** Beside them: numbers of lists that devices got from the host's memory, each as it first
	 * packs or unpacks by it, and again where a budget had no room for them meanwhile. */
	uint64_t list_bytes;
	/** Parts, of the machine's mapping granularity, that a device had used over links and was
	 * given a copy of, since it used them more than others that it had copies of. */
	uint64_t nr_exchanged;
	uint64_t link_bytes[WEIR_LINKS_MAX][WEIR_DIRECTION_NR][WEIR_MESSAGE_KIND_NR];
	uint64_t copy_bytes[WEIR_MEMORIES_MAX]; /**< now, in each memory */
};

/** Copy the statistics. Does not block. */
WEIR_API void weir_replica_query(struct weir_space *space, struct weir_replica_stats *out);

#ifdef __cplusplus
}
#endif

#endif
