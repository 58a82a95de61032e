/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies in eBPF objects. A hook is given one region, a copy of its context; of what it leaves
 * there, its answer and the words go back. An object that is opened is tried first, on an instance
 * of its own, so that the one that is used begins with the globals of the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/bpf.h"
#include "src/policy/builtin.h"
#include "src/policy/policy.h"
#include "src/policy/trial.h"

struct policy_bpf {
	struct weir_policy base;
	struct bpf_object *object;
	uint32_t function[POLICY_HOOKS]; /* of those that it has */
	union {
		struct weir_policy_admit admit;
		struct weir_policy_victim victim;
		struct weir_policy_fault fault;
		struct weir_policy_moved moved;
	} context; /* of a call */
};

static struct policy_bpf *policy_bpf(struct weir_policy *policy)
{
	return (struct policy_bpf *)policy; /* its first member */
}

/* ------------------------------------------------------------------ calls */

static void take_candidates(const struct weir_policy_candidate *from,
			    struct weir_policy_candidate *to, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		memcpy(to[i].range_word, from[i].range_word, sizeof(to[i].range_word));
		memcpy(to[i].block_word, from[i].block_word, sizeof(to[i].block_word));
	}
}

static void take_victim(const struct weir_policy_victim *from, struct weir_policy_victim *to)
{
	take_candidates(from->candidate, to->candidate, to->nr);
	take_candidates(from->far, to->far, to->nr_far);
	to->chosen = from->chosen;
}

static void take_admit(const struct weir_policy_admit *from, struct weir_policy_admit *to)
{
	memcpy(to->range.word, from->range.word, sizeof(to->range.word));
	memcpy(to->victim.word, from->victim.word, sizeof(to->victim.word));
	to->level = from->level;
	to->evict = from->evict;
}

static void take_fault(const struct weir_policy_fault *from, struct weir_policy_fault *to)
{
	memcpy(to->range_word, from->range_word, sizeof(to->range_word));
	memcpy(to->block_word, from->block_word, sizeof(to->block_word));
	memcpy(to->bring, from->bring, sizeof(to->bring));
	to->more = from->more;
}

static void take_moved(const struct weir_policy_moved *from, struct weir_policy_moved *to)
{
	memcpy(to->range_word, from->range_word, sizeof(to->range_word));
	memcpy(to->block_word, from->block_word, sizeof(to->block_word));
}

void policy_take_back(enum policy_hook hook, const void *from, void *to)
{
	switch (hook) {
	case POLICY_ADMIT:
		take_admit(from, to);
		break;
	case POLICY_VICTIM:
		take_victim(from, to);
		break;
	case POLICY_FAULT:
		take_fault(from, to);
		break;
	default:
		take_moved(from, to);
		break;
	}
}

static void log_bpf(void *arg, const char *text, uint64_t number)
{
	(void)arg;
	weir_policy_log(text, number);
}

static int call_bpf(struct weir_policy *policy, enum policy_hook hook, void *context,
		    uint64_t *budget, char *why, size_t why_bytes)
{
	struct policy_bpf *p = policy_bpf(policy);
	struct bpf_fault fault;
	struct bpf_run run;
	int err;

	memcpy(&p->context, context, policy_context_bytes[hook]);
	run.given[0] = (struct bpf_region){&p->context, policy_context_bytes[hook], true};
	run.nr_given = 1;
	memset(run.arg, 0, sizeof(run.arg));
	run.arg[0] = BPF_GIVEN_ADDRESS(0);
	run.budget = *budget;
	run.log = log_bpf;
	err = bpf_function_run(p->object, p->function[hook], &run, &fault);
	*budget = run.budget;
	if (err) {
		snprintf(why, why_bytes, "%s", fault.text);
		return err;
	}
	policy_take_back(hook, &p->context, context);
	/* A hook returns an int, of which the upper half of the register says nothing. */
	return (uint32_t)run.answer > WEIR_POLICY_NEXT ? POLICY_NO_RESULT : (int)run.answer;
}

/* ------------------------------------------------------------------ globals */

/* Whether a user sees a variable: those of WEIR_POLICY_PROGRAM() are weir's own. */
static bool is_shown(const struct bpf_global *global)
{
	return global->exported && global->is_integer &&
	       (!global->constant || global->is_volatile) &&
	       strncmp(global->name, "weir_policy_", strlen("weir_policy_")) != 0;
}

/*
 * The text in a constant that weir alone reads, NULL: there is none. A hook could write a variable,
 * and remove the zero at its end, after it was found here.
 */
static const char *text_of(const struct bpf_object *object, const char *name)
{
	struct bpf_global global;

	if (!bpf_global_find(object, name, &global) || !global.constant ||
	    !memchr(global.bytes, 0, global.nr))
		return NULL;
	bpf_make_printable(global.bytes);
	return global.bytes;
}

static bool global_nth_bpf(struct weir_policy *policy, uint32_t n, struct weir_policy_global *out)
{
	struct policy_bpf *p = policy_bpf(policy);
	struct bpf_global global;
	char help[128];

	for (uint32_t i = 0; bpf_global_nth(p->object, i, &global); i++) {
		if (!is_shown(&global) || n--)
			continue;
		snprintf(help, sizeof(help), "weir_policy_help_%s", global.name);
		*out = (struct weir_policy_global){
			.name = global.name,
			.help = global.constant ? text_of(p->object, help) : NULL,
			.value = policy_number_get(global.bytes, global.nr, global.is_signed),
			.is_signed = global.is_signed,
			.tunable = global.constant,
		};
		return true;
	}
	return false;
}

/* ------------------------------------------------------------------ opening */

static void destroy_bpf(struct weir_policy *policy)
{
	struct policy_bpf *p = policy_bpf(policy);

	bpf_object_destroy(p->object);
	policy_fini(&p->base);
	free(p);
}

static const struct policy_form form_bpf = {
	.call = call_bpf,
	.global_nth = global_nth_bpf,
	.destroy = destroy_bpf,
};

/* Whether an object was made with this header, and its hooks. 0, -EINVAL. */
static int find_hooks(struct policy_bpf *p, char *err, size_t err_bytes)
{
	const char *name = p->base.name;
	struct bpf_global version;
	bool any = false;
	uint64_t number;

	if (!bpf_global_find(p->object, "weir_policy_version", &version) || version.nr != 4) {
		snprintf(err, err_bytes,
			 "%s: no policy: it has no WEIR_POLICY_PROGRAM() of <weir/policy.h>", name);
		return -EINVAL;
	}
	number = policy_number_get(version.bytes, version.nr, false);
	if (number != WEIR_POLICY_VERSION) {
		snprintf(err, err_bytes,
			 "%s: it was compiled with version %llu of <weir/policy.h>, here it is %d",
			 name, (unsigned long long)number, WEIR_POLICY_VERSION);
		return -EINVAL;
	}
	for (uint32_t hook = 0; hook < POLICY_HOOKS; hook++) {
		char function[32];
		int found;

		snprintf(function, sizeof(function), "weir_%s", policy_hook_name[hook]);
		found = bpf_function_find(p->object, function);
		p->base.has[hook] = found >= 0;
		p->function[hook] = found >= 0 ? (uint32_t)found : 0;
		any |= found >= 0;
	}
	if (!any)
		snprintf(err, err_bytes,
			 "%s: it has none of the hooks weir_admit, weir_victim, weir_fault and "
			 "weir_moved",
			 name);
	return any ? 0 : -EINVAL;
}

struct opening {
	struct policy_bpf *policy;
	bool without_trial;
};

static int set_bpf(void *arg, const char *name, const char *value, char *err, size_t err_bytes)
{
	struct opening *o = arg;
	const char *path = o->policy->base.name;
	struct bpf_global global;
	char why[128];

	if (!strcmp(name, "trial") && (!strcmp(value, "0") || !strcmp(value, "1"))) {
		o->without_trial = *value == '0';
		return 0;
	}
	if (!bpf_global_find(o->policy->object, name, &global) || !is_shown(&global) ||
	    !global.constant) {
		snprintf(err, err_bytes, "%s: it has no tunable '%s'", path, name);
		return -EINVAL;
	}
	if (policy_number_set(value, global.nr, global.is_signed, global.bytes, why, sizeof(why))) {
		snprintf(err, err_bytes, "%s: tunable %s: %s", path, name, why);
		return -EINVAL;
	}
	return 0;
}

/* An instance, that has its tunables. */
static int open_one(const char *path, const char *tunables, struct opening *out, char *err,
		    size_t err_bytes)
{
	struct policy_bpf *p = calloc(1, sizeof(*p));
	int ret;

	if (!p || policy_init(&p->base, &form_bpf, path)) {
		free(p);
		snprintf(err, err_bytes, "out of memory");
		return -ENOMEM;
	}
	*out = (struct opening){.policy = p};
	ret = bpf_object_open(path, &p->object, err, err_bytes);
	if (!ret)
		ret = find_hooks(p, err, err_bytes);
	if (!ret)
		ret = policy_set_tunables(tunables, set_bpf, out, err, err_bytes);
	if (ret) {
		destroy_bpf(&p->base);
		return ret;
	}
	p->base.help = text_of(p->object, "weir_policy_help");
	return 0;
}

int policy_bpf_open(const char *path, const char *tunables, struct weir_policy **out, char *err,
		    size_t err_bytes)
{
	struct policy_trial trial = {.nr = POLICY_TRIAL_CONTEXTS, .seed = 1};
	struct opening tried, opened;
	int ret = open_one(path, tunables, &tried, err, err_bytes);

	if (ret)
		return ret;
	if (tried.without_trial) {
		*out = &tried.policy->base;
		return 0;
	}
	ret = policy_trial_run(&tried.policy->base, &trial, err, err_bytes);
	destroy_bpf(&tried.policy->base);
	if (!ret)
		ret = open_one(path, tunables, &opened, err, err_bytes);
	if (!ret)
		*out = &opened.policy->base;
	return ret;
}
