/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies: programs that take weir's decisions about residency. docs/policies.md is the manual.
 *
 * A policy is one C file that includes this header and defines one to four hooks. The same file is
 * compiled by `clang -O2 -target bpf` to an object that weir loads and interprets, or by the C
 * compiler into weir. Each hook is passed one structure of those below, its context:
 *
 *     #include <weir/policy.h>
 *
 *     WEIR_POLICY_TUNABLE(uint32_t, least, 2, "uses until a range is copied in")
 *
 *     WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
 *     {
 *             q->level = q->range.uses >= least ? q->range.nr_blocks : 0;
 *             q->evict = 1;
 *             return WEIR_POLICY_ANSWER;
 *     }
 *
 *     WEIR_POLICY_PROGRAM(second_use, "copy a range in when it is used again", .admit = weir_admit)
 *
 * A context is a copy. Of what a hook writes there, its answer and the words are read back; the
 * rest has no effect. *Words*, two of each range and two of each block, are the policy's own: weir
 * keeps them for as long as the range is allocated, wherever its contents are, and sets them to 0
 * when it is allocated and when another policy is set. Globals live as long as the loaded policy.
 *
 * What a policy is told of as leaving does not include what is freed.
 *
 * In the context of a space a *block* is its unit of residency and a *step* a bracket; in that of
 * the simulated driver's managed memory a block has 2 MiB and a step is a launch, or a copy to or
 * from it. Ages count steps: 0 is this one, 1 the one before. Only the simulated driver asks
 * weir_fault(); only spaces ask weir_admit().
 *
 * Of a range that several devices use, a block counts as resident, comes and leaves in the memory
 * of the device that it is kept for. That may become another device's without a move, and
 * weir_moved() is not called for it: a candidate may then lie where it does not count.
 *
 * An answer that is out of range is counted, and the default is taken in its stead; after 16 of
 * them the policy is detached. So it is after a fault, or when a call needs more instructions than
 * its budget has (WEIR_POLICY_BUDGET; only objects are counted).
 */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include <stdint.h>

/** Of this header. Objects that were compiled with another one are refused. */
#define WEIR_POLICY_VERSION 1

/** Instructions that one decision may take, over all its windows. */
#define WEIR_POLICY_BUDGET 100000u

/** No such number, or it is not known. */
#define WEIR_POLICY_UNKNOWN UINT32_MAX
#define WEIR_POLICY_NEVER UINT64_MAX

/** What a hook returns. */
enum weir_policy_result {
	WEIR_POLICY_DEFAULT = 0, /**< what weir does without a policy */
	WEIR_POLICY_ANSWER = 1,	 /**< what the context's answer says */
	WEIR_POLICY_NEXT = 2,	 /**< weir_victim(): show the next window of candidates */
};

/** A range, as steps have used it. */
struct weir_policy_range {
	uint64_t word[2];
	uint64_t uses;		 /**< by steps, since a block of it last came or left; discards
				  * are among them */
	uint64_t touched_bytes;	 /**< declared by these uses: read and written */
	uint64_t in_place_bytes; /**< of these, in blocks that were not resident */
	uint64_t moved_age;	 /**< since a block of it last came or left */
	uint64_t used_age;	 /**< since its last use; 1: by the step before this one */
	uint32_t number;	 /**< the same for as long as it is allocated; may be used again */
	uint32_t nr_blocks;
	uint32_t nr_resident; /**< blocks in the device's own memory */
	uint32_t nr_dirty;    /**< resident blocks that have to be copied out when they leave */
};

/**
 * Asked when a step uses a range of which blocks are not resident, and no plan speaks of the range:
 * how many blocks of it should be? Blocks that stay away are used in place, over the link.
 */
struct weir_policy_admit {
	struct weir_policy_range range;
	/** Whom the default would evict first, if has_victim. Its words are shown, and not read
	 * back. */
	struct weir_policy_range victim;
	uint64_t now;				  /**< steps that began */
	uint64_t use_read_bytes, use_write_bytes; /**< declared */
	uint64_t use_bytes;			  /**< size of the part that is used */
	uint64_t free_blocks;			  /**< that can come without an eviction */
	uint64_t all_blocks;			  /**< of the device's budget */
	uint64_t block_bytes;
	uint64_t in_ns;	      /**< to copy one block in, the link being idle */
	uint64_t out_ns;      /**< the same out */
	uint64_t in_place_ns; /**< of this use over the link, if no more blocks come in; the longer
			       * of its reads and its writes, each as if alone */
	uint32_t use_kind;    /**< enum weir_use_kind */
	uint32_t use_random;  /**< 1: WEIR_RANDOM */
	uint32_t has_victim;
	/** Answer: blocks of the range that should be resident, to range.nr_blocks. Those that are
	 * resident already stay. */
	uint32_t level;
	/** Answer: 1: others may be evicted for them; 0: they come into free room only. */
	uint32_t evict;
	uint32_t reserved;
};

/** What can give its chunk away: in a space, the next block that a range would give. */
struct weir_policy_candidate {
	uint64_t range_word[2], block_word[2];
	uint64_t arrived_age; /**< since part of it, in a space a block of its range, last came */
	uint64_t used_age;    /**< since it, in a space its range, was last used; a step that began
			       * uses all that it is going to */
	uint64_t uses;	      /**< since it came, in a space since a block of its range moved */
	uint64_t next_use;    /**< steps until its next use; WEIR_POLICY_NEVER: not used again;
			       * known in replays alone, else 0 */
	uint32_t range, block;
	uint32_t nr_blocks;   /**< of the range */
	uint32_t nr_resident; /**< blocks of it; of the simulated driver, pages of the block */
	uint32_t nr_dirty;    /**< the same that have to be copied out */
	uint32_t nr_faults;   /**< on it since it came; 0 in spaces */
};

#define WEIR_POLICY_CANDIDATES 32u
#define WEIR_POLICY_FAR 8u
#define WEIR_POLICY_WINDOWS 64u

/**
 * Asked when a device's memory has no free chunk for a block that is to come, and no plan speaks of
 * it: who gives one? Candidates are in order of arrival, the oldest first, a window of 32 at a
 * time: WEIR_POLICY_NEXT shows the following one, up to 64 of them, and then ends in the default.
 */
struct weir_policy_victim {
	uint64_t now;
	uint32_t window; /**< 0: the first */
	uint32_t nr;	 /**< candidates in it; > 0 in the first one */
	uint32_t nr_far; /**< in far[]: in replays, else 0 */
	/** Answer: an index into candidate[]; or WEIR_POLICY_CANDIDATES + an index into far[]. */
	uint32_t chosen;
	uint32_t by_default; /**< the index that the default would choose; WEIR_POLICY_UNKNOWN: it
			      * is in another window */
	uint32_t reserved;
	struct weir_policy_candidate candidate[WEIR_POLICY_CANDIDATES];
	/** Those of all whose next use is farthest away, the farthest first. Their words are shown,
	 * and not read back. */
	struct weir_policy_candidate far[WEIR_POLICY_FAR];
};

#define WEIR_POLICY_PAGES 512u	/**< of 4 KiB, in a block of the simulated driver's */
#define WEIR_POLICY_LEVELS 10u	/**< subtrees of 1, 2, 4, ... 512 pages around a page */
#define WEIR_POLICY_MORE_MAX 8u /**< whole blocks beside the one of a fault */

/**
 * Asked by the simulated driver as a device faults on a page that is away: what comes with it?
 * Pages without contents come, too, but cross no link. Not asked about memory with a preferred
 * place.
 */
struct weir_policy_fault {
	uint64_t range_word[2], block_word[2];
	uint64_t now;
	uint64_t resident[WEIR_POLICY_PAGES / 64]; /**< bits of the block's resident pages */
	uint32_t range, block;
	uint32_t nr_blocks; /**< of the range */
	uint32_t page;	    /**< in the block: of the fault */
	uint32_t nr_pages;  /**< of the block: the last one of a range may be shorter */
	/** Of the subtree of 2^n pages around the page, within the block: pages that are resident
	 * or in the same 64 KiB as the page. */
	uint32_t level[WEIR_POLICY_LEVELS];
	uint32_t last_block, last_page; /**< of the range's fault before; WEIR_POLICY_UNKNOWN */
	uint32_t write;			/**< 1: the page is going to be written */
	uint32_t free_blocks;		/**< blocks that can come without an eviction */
	uint32_t threshold; /**< percent, of the default: a subtree comes if more of it is there */
	/** Answer: the block's pages that are to come; the fault's own comes in any case, those
	 * that are resident are not looked at. */
	uint64_t bring[WEIR_POLICY_PAGES / 64];
	/** Answer: whole blocks to come behind this one, or before it if negative. Those beyond the
	 * range are left out. */
	int32_t more;
	uint32_t reserved;
};

/** A block came to the device's own memory, or left it. Nothing is asked. */
struct weir_policy_moved {
	uint64_t range_word[2], block_word[2];
	uint64_t now;
	uint64_t uses; /**< in a space, of its range since a block of it last moved; else those of
			* the block since it came, if it left */
	uint32_t range, block;
	uint32_t nr_blocks, nr_resident; /**< of the range, after the move */
	uint32_t came;			 /**< 1: came; 0: left */
	uint32_t cause;			 /**< enum weir_cause */
};

/** Add the pages in [first, end) to what a fault brings; those beyond the block are left out. */
static inline void weir_policy_bring(struct weir_policy_fault *q, uint32_t first, uint32_t end)
{
	if (end > q->nr_pages)
		end = q->nr_pages;
	for (uint32_t word = first / 64; word < WEIR_POLICY_PAGES / 64 && 64 * word < end; word++) {
		uint64_t bits = UINT64_MAX;

		if (word == first / 64)
			bits <<= first % 64;
		if (end < 64 * (word + 1))
			bits &= (UINT64_C(1) << end % 64) - 1;
		q->bring[word] |= bits;
	}
}

/* ---- Definitions, in objects and in C */

#ifdef __bpf__

#define WEIR_POLICY_HOOK
/** A scalar global that the user may set when the policy is loaded: NAME:name=value. */
#define WEIR_POLICY_TUNABLE(type, name, value, help) \
	const char weir_policy_help_##name[] = help; \
	const volatile type name = (value);
/** Scalar globals that start as 0, and are shown in results; arrays, which are not. */
#define WEIR_POLICY_GLOBAL(type, name) type name;
#define WEIR_POLICY_ARRAY(type, name, nr) type name[nr];
#define WEIR_POLICY_PROGRAM(name, help, ...)                               \
	const volatile uint32_t weir_policy_version = WEIR_POLICY_VERSION; \
	const char weir_policy_help[] = help;

/** Log up to 63 characters and a number; costs as many instructions as characters. */
extern void weir_policy_log(const char *text, uint64_t number);

#else

#include <stdbool.h>
#include <stddef.h>

#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weir_policy;

/** Counts of a loaded policy since it was opened. */
struct weir_policy_stats {
	uint64_t asked[4];    /**< calls: admit, victim, fault, moved */
	uint64_t answered[4]; /**< of them, answers that were taken; 0 for moved */
	uint64_t nr_wrong;    /**< answers out of range */
	uint64_t max_instructions, nr_instructions; /**< of a decision; of all; objects alone */
	uint64_t ns;				    /**< in calls, the context's copies included */
	bool detached;
};

/** A global of a policy. */
struct weir_policy_global {
	const char *name; /**< the policy's, as help is */
	const char *help; /**< of a tunable; NULL: none */
	uint64_t value;	  /**< sign-extended if is_signed */
	bool is_signed, tunable;
};

/**
 * Load a policy.
 *
 * @param [in]  spec  "NAME" of a built-in one or "FILE.o" (a '/' or the ending tells), and behind
 *                    it, optionally, ":tunable=value,...". An object is tried first: each hook is
 *                    called with some ten thousand contexts that are made up, which takes tens of
 *                    milliseconds; ":trial=0" leaves that out.
 * @param [out] out   Owned by the caller: weir_policy_close(). Borrowed by each space that it is
 *                    set on; several may share it, and its globals with it.
 * @param [out] err   On failure, one line that names object, function, instruction, source line and
 *                    reason, as far as they are known.
 * @return 0; -ENOENT: no such policy or file; -EINVAL: no such object, or tunable, or one that is
 *         given twice, or it failed its trial, or spec has control characters; -EIO, -EACCES and
 *         others of reading files; -ENOMEM.
 * Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_policy_open(const char *spec, struct weir_policy **out, char *err,
					      size_t err_bytes);

/** Unload it. It is set on no space. */
WEIR_API void weir_policy_close(struct weir_policy *policy);

/** "tree", or the file's name. Never NULL; as long as the policy. */
WEIR_API const char *weir_policy_name(const struct weir_policy *policy);

WEIR_API void weir_policy_query(struct weir_policy *policy, struct weir_policy_stats *out);

/** The n-th global; arrays and structures are left out. @return false: there are no more. */
WEIR_API bool weir_policy_global_nth(struct weir_policy *policy, uint32_t n,
				     struct weir_policy_global *out);

/**
 * Let a policy take a space's decisions from now on, in the place of the one before; words start
 * as 0. Nothing moves because of it.
 *
 * @param [in] policy  Borrowed until another one is set or the space is destroyed. NULL: the
 *                     built-in rules.
 * @return 0; -EINVAL: a policy for a fixed space, where nothing is decided: the one before, of when
 *         it was planned, stays set, and NULL takes it away.
 * Threads: safe, at any time. Blocks: no.
 */
WEIR_API WEIR_MUST_CHECK int weir_space_set_policy(struct weir_space *space,
						   struct weir_policy *policy);

#ifdef __cplusplus
}
#endif

/* A policy that is compiled into weir itself. */
#ifdef WEIR_POLICY_SECTION
#include "src/policy/builtin.h"
#endif

#endif

#endif
