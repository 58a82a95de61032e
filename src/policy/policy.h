/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies, as who takes decisions asks them: a space (src/residency/ask.c) and the simulated
 * driver (src/backend/sim/sim_uvm_ask.c). These fill in a context, and take the answer where there
 * is one; the asking itself, whether an answer can be taken, counts and the end of a policy that
 * answers wrongly are here. Two forms of policies: C that is compiled in (policy_c.c), and eBPF
 * objects (policy_bpf.c).
 *
 * Threads: any; a policy's own lock is held for each call. It is a leaf lock: no hook calls weir.
 */
#ifndef WEIR_POLICY_POLICY_H
#define WEIR_POLICY_POLICY_H

#include <pthread.h>
#include <stdatomic.h>

#include "weir/policy.h"

enum policy_hook { POLICY_ADMIT, POLICY_VICTIM, POLICY_FAULT, POLICY_MOVED, POLICY_HOOKS };

/* "admit", ... */
extern const char *const policy_hook_name[POLICY_HOOKS];
/* Of its context. */
extern const uint32_t policy_context_bytes[POLICY_HOOKS];

/* What call() returns of a hook that returned nothing of enum weir_policy_result. */
#define POLICY_NO_RESULT 3

/* Answers out of range after which a policy is detached. */
#define POLICY_WRONG_MAX 16u

/* Decisions of a hook. */
struct policy_cost {
	uint64_t nr;			   /* decisions */
	uint64_t nr_wrong;		   /* answers out of range */
	uint64_t instructions, ns;	   /* together; instructions of objects alone */
	uint64_t max_instructions, max_ns; /* of one */
};

void policy_cost_add(struct policy_cost *cost, uint64_t instructions, uint64_t ns);

/* Called with the policy's lock held. */
struct policy_form {
	/* Call a hook that the policy has. budget: of instructions; what is left of it is written
	 * (C leaves it alone). @return what the hook did; a negative errno: it ended in a fault,
	 * and why says which. */
	int (*call)(struct weir_policy *policy, enum policy_hook hook, void *context,
		    uint64_t *budget, char *why, size_t why_bytes);
	/* As weir_policy_global_nth(). */
	bool (*global_nth)(struct weir_policy *policy, uint32_t n, struct weir_policy_global *out);
	void (*destroy)(struct weir_policy *policy);
};

/* What is going to be used, where somebody knows it: a replay of a trace. Called under the locks of
 * who asks the policy. */
struct policy_future {
	/* Steps from the present one until the next use of some of [addr, addr + bytes); 0: it is
	 * one of this step's; WEIR_POLICY_NEVER: there is none. */
	uint64_t (*next_use)(void *arg, const void *addr, uint64_t bytes);
	/* The number of the present step, which never decreases. Added to what next_use() returns
	 * it is the number of the step of that use: the same until that step is over. */
	uint64_t (*now)(void *arg);
	/* A launch or a copy begins, in the order in which they were queued, or all that it uses
	 * has come: what follows is for later ones. Called by who takes its decisions then, and
	 * not as work is queued. */
	void (*begin)(void *arg);
	void (*end)(void *arg);
	void *arg;
};

/* The head of a policy of either form. */
struct weir_policy {
	const struct policy_form *form;
	char *name; /* owned */
	const char *help;
	bool has[POLICY_HOOKS]; /* never changes */
	atomic_bool detached;	/* never again attached */
	const struct policy_future
		*future; /* borrowed; NULL: nobody knows. Set before anything is allocated */
	pthread_mutex_t lock;
	struct weir_policy_stats stats;	       /* guarded by the lock, as what follows */
	struct policy_cost cost[POLICY_HOOKS]; /* the same, by hook */
};

/* The head of a policy that is being opened: 0, -ENOMEM. */
int policy_init(struct weir_policy *policy, const struct policy_form *form, const char *name);
void policy_fini(struct weir_policy *policy);

/* Open a built-in one, or one of a file; tunables: "name=value,..." or NULL. See
 * weir_policy_open(). */
int policy_c_open(const char *name, const char *tunables, struct weir_policy **out, char *err,
		  size_t err_bytes);
int policy_bpf_open(const char *path, const char *tunables, struct weir_policy **out, char *err,
		    size_t err_bytes);

/* Call set(arg, name, value, err, err_bytes) for each of "name=value,...". Its first error, or
 * -EINVAL. */
typedef int (*policy_set_fn)(void *arg, const char *name, const char *value, char *err,
			     size_t err_bytes);
int policy_set_tunables(const char *tunables, policy_set_fn set, void *arg, char *err,
			size_t err_bytes);

/* A number of 1, 2, 4 or 8 bytes: from decimal or 0x text, 0 or -EINVAL; and sign-extended. */
int policy_number_set(const char *text, uint32_t bytes, bool is_signed, void *out, char *err,
		      size_t err_bytes);
uint64_t policy_number_get(const volatile void *at, uint32_t bytes, bool is_signed);

/* Copy a context's answer and words from what a hook was given to what the caller has. */
void policy_take_back(enum policy_hook hook, const void *from, void *to);

/* Whether a hook is to be called. policy may be NULL. */
static inline bool policy_has(const struct weir_policy *policy, enum policy_hook hook)
{
	return policy && policy->has[hook] &&
	       !atomic_load_explicit(&policy->detached, memory_order_relaxed);
}

/*
 * Ask. The hook is there. true: the context has an answer that can be taken. false: the default.
 * Words in the context are the hook's in any case, unless it ended in a fault.
 */
bool policy_admit(struct weir_policy *policy, struct weir_policy_admit *q);
bool policy_fault(struct weir_policy *policy, struct weir_policy_fault *q);
void policy_moved(struct weir_policy *policy, struct weir_policy_moved *q);

/* Put a candidate among q->far[], in its place, if it is one of those: next_use farthest first, of
 * equals whoever came first. @return its index there, behind which others moved by one;
 * WEIR_POLICY_FAR: it is none. */
uint32_t policy_put_far(struct weir_policy_victim *q, uint64_t next_use);

/* The same, with window 0 filled in. next: fill in the window after this one; false: there is none.
 * Words of a window are to be taken back by next(), and after the call. */
typedef bool (*policy_next_fn)(void *arg, struct weir_policy_victim *q);
bool policy_victim(struct weir_policy *policy, struct weir_policy_victim *q, policy_next_fn next,
		   void *arg);

#endif
