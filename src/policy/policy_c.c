/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies that are compiled in. Their hooks are plain functions with globals, which exist once in
 * a process; each opening has a copy of them, and puts it in their place for its calls. It stays
 * there until another opening of the same policy is called, so that one alone copies nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/policy/builtin.h"
#include "src/policy/policy.h"

struct policy_c {
	struct weir_policy base;
	const struct policy_builtin *builtin;
	uint32_t number;   /* of it */
	size_t nr_globals; /* bytes */
	char globals[];	   /* while another one is in */
};

/* Guards all globals of all policies, and in[]: whose globals are in place, by policy; NULL: those
 * that it started with, or nobody's. Taken below a policy's own lock. */
static pthread_mutex_t globals_lock = PTHREAD_MUTEX_INITIALIZER;
static struct policy_c *in[POLICY_BUILTINS_MAX];

static struct policy_c *policy_c(struct weir_policy *policy)
{
	return (struct policy_c *)policy; /* its first member */
}

/* Put a policy's globals in place. Under globals_lock. */
static void swap_in(struct policy_c *p)
{
	struct policy_c *old = in[p->number];

	if (old == p)
		return;
	if (old)
		memcpy(old->globals, p->builtin->globals, p->nr_globals);
	memcpy(p->builtin->globals, p->globals, p->nr_globals);
	in[p->number] = p;
}

static int call_c(struct weir_policy *policy, enum policy_hook hook, void *context,
		  uint64_t *budget, char *why, size_t why_bytes)
{
	struct policy_c *p = policy_c(policy);
	int did;

	(void)budget, (void)why, (void)why_bytes;
	pthread_mutex_lock(&globals_lock);
	if (p->nr_globals)
		swap_in(p);
	switch (hook) {
	case POLICY_ADMIT:
		did = p->builtin->admit(context);
		break;
	case POLICY_VICTIM:
		did = p->builtin->victim(context);
		break;
	case POLICY_FAULT:
		did = p->builtin->fault(context);
		break;
	default:
		did = p->builtin->moved(context);
		break;
	}
	pthread_mutex_unlock(&globals_lock);
	return did < 0 ? POLICY_NO_RESULT : did;
}

static bool global_nth_c(struct weir_policy *policy, uint32_t n, struct weir_policy_global *out)
{
	struct policy_c *p = policy_c(policy);
	const struct policy_variable *v;

	if (n >= (size_t)(p->builtin->variable_end - p->builtin->variable))
		return false;
	v = &p->builtin->variable[n];
	pthread_mutex_lock(&globals_lock);
	swap_in(p);
	*out = (struct weir_policy_global){
		.name = v->name,
		.help = v->help,
		.value = policy_number_get(v->value, v->bytes, v->is_signed),
		.is_signed = v->is_signed,
		.tunable = v->help != NULL,
	};
	pthread_mutex_unlock(&globals_lock);
	return true;
}

static void destroy_c(struct weir_policy *policy)
{
	struct policy_c *p = policy_c(policy);

	pthread_mutex_lock(&globals_lock);
	if (in[p->number] == p)
		in[p->number] = NULL;
	pthread_mutex_unlock(&globals_lock);
	policy_fini(policy);
	free(p);
}

static const struct policy_form form_c = {
	.call = call_c,
	.global_nth = global_nth_c,
	.destroy = destroy_c,
};

/* The globals that a policy starts with: of the first opening of any policy. */
static char *initial[POLICY_BUILTINS_MAX];

/* Copy them, under globals_lock. 0, -ENOMEM. */
static int get_initial(struct policy_c *p)
{
	char **start = &initial[p->number];

	if (!*start && p->nr_globals) {
		*start = malloc(p->nr_globals);
		if (!*start)
			return -ENOMEM;
		memcpy(*start, p->builtin->globals, p->nr_globals);
	}
	if (p->nr_globals)
		memcpy(p->globals, *start, p->nr_globals);
	return 0;
}

static int set_c(void *arg, const char *name, const char *value, char *err, size_t err_bytes)
{
	struct policy_c *p = arg;
	char why[128];

	for (const struct policy_variable *v = p->builtin->variable; v < p->builtin->variable_end;
	     v++) {
		char *at = p->globals + ((volatile char *)v->value - p->builtin->globals);

		if (strcmp(v->name, name) != 0 || !v->help)
			continue;
		if (!policy_number_set(value, v->bytes, v->is_signed, at, why, sizeof(why)))
			return 0;
		snprintf(err, err_bytes, "policy %s: tunable %s: %s", p->builtin->name, name, why);
		return -EINVAL;
	}
	snprintf(err, err_bytes, "policy %s has no tunable '%s'", p->builtin->name, name);
	return -EINVAL;
}

static int find_builtin(const char *name, uint32_t *out, char *err, size_t err_bytes)
{
	for (uint32_t n = 0; policy_builtins[n]; n++)
		if (!strcmp(policy_builtins[n]->name, name)) {
			*out = n;
			return 0;
		}
	snprintf(err, err_bytes,
		 "there is no built-in policy '%s'; `weir policy list` shows those that there are, "
		 "and the name of an object ends in .o",
		 name);
	return -ENOENT;
}

int policy_c_open(const char *name, const char *tunables, struct weir_policy **out, char *err,
		  size_t err_bytes)
{
	const struct policy_builtin *builtin;
	struct policy_c *p;
	uint32_t number;
	size_t nr;
	int ret = find_builtin(name, &number, err, err_bytes);

	if (ret)
		return ret;
	builtin = policy_builtins[number];
	nr = (size_t)(builtin->globals_end - builtin->globals);
	p = calloc(1, sizeof(*p) + nr);
	if (!p || policy_init(&p->base, &form_c, name))
		goto err_free;
	p->builtin = builtin;
	p->number = number;
	p->nr_globals = nr;
	p->base.help = builtin->help;
	p->base.has[POLICY_ADMIT] = builtin->admit;
	p->base.has[POLICY_VICTIM] = builtin->victim;
	p->base.has[POLICY_FAULT] = builtin->fault;
	p->base.has[POLICY_MOVED] = builtin->moved;
	pthread_mutex_lock(&globals_lock);
	ret = get_initial(p);
	pthread_mutex_unlock(&globals_lock);
	if (ret) {
		policy_fini(&p->base);
		goto err_free;
	}
	ret = policy_set_tunables(tunables, set_c, p, err, err_bytes);
	if (ret) {
		destroy_c(&p->base);
		return ret;
	}
	*out = &p->base;
	return 0;
err_free:
	free(p);
	snprintf(err, err_bytes, "out of memory");
	return -ENOMEM;
}
