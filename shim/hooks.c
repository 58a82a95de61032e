/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions are weir's, how a program gets their addresses, and when they step aside. */
#include "shim/hooks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/real.h"
#include "shim/settings.h"
#include "src/base/util.h"

struct real real;

enum streams { BOTH, LEGACY, PER_THREAD };

static const struct hook {
	const char *symbol, *name;
	int since;
	enum streams streams;
	void (*own)(void);
	size_t member; /* of struct real */
} hooks[] = {
#define HOOK_ROW(symbol, name, since, streams, parameters) \
	{#symbol,                                          \
	 name,                                             \
	 since,                                            \
	 streams,                                          \
	 (void (*)(void))hook_##symbol,                    \
	 offsetof(struct real, symbol)},
	HOOKS(HOOK_ROW)
#undef HOOK_ROW
};

static const struct {
	const char *symbol;
	size_t member;
} others[] = {
#define OTHER(symbol)                                  \
	{                                              \
#symbol, offsetof(struct real, symbol) \
	}
	OTHER(cuFuncGetAttribute),
	OTHER(cuFuncGetModule),
	OTHER(cuFuncGetName),
	OTHER(cuFuncGetParamInfo),
	OTHER(cuKernelGetAttribute),
	OTHER(cuKernelGetLibrary),
	OTHER(cuKernelGetName),
	OTHER(cuKernelGetParamInfo),
	OTHER(cuCtxGetDevice),
	OTHER(cuCtxGetCurrent),
	OTHER(cuCtxPushCurrent_v2),
	OTHER(cuCtxPopCurrent_v2),
	OTHER(cuStreamQuery),
	OTHER(cuDevicePrimaryCtxRetain),
	OTHER(cuDevicePrimaryCtxGetState),
	OTHER(cuDeviceGetDefaultMemPool),
	OTHER(cuDeviceTotalMem_v2),
	OTHER(cuDriverGetVersion),
	OTHER(cuStreamGetCtx),
	OTHER(cuStreamIsCapturing),
	OTHER(cuThreadExchangeStreamCaptureMode),
#undef OTHER
};

/* POSIX has dlsym() give functions as objects. */
static void take_real(size_t member, const char *symbol)
{
	void *found = real_find(symbol);

	memcpy((char *)&real + member, &found, sizeof(found));
}

static void *real_of(const struct hook *hook)
{
	void *fn;

	memcpy(&fn, (const char *)&real + hook->member, sizeof(fn));
	return fn;
}

static void *own_of(const struct hook *hook)
{
	void *fn;

	memcpy(&fn, &hook->own, sizeof(fn));
	return fn;
}

static void find_all(void)
{
	for (size_t i = 0; i < ARRAY_LEN(hooks); i++)
		take_real(hooks[i].member, hooks[i].symbol);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		take_real(others[i].member, others[i].symbol);
}

void *hooks_find(const char *symbol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, find_all);
	for (size_t i = 0; i < ARRAY_LEN(hooks); i++)
		if (!strcmp(hooks[i].symbol, symbol))
			return real_of(&hooks[i]) ? own_of(&hooks[i]) : NULL;
	return NULL;
}

/* ------------------------------------------------------------------ stepping aside */

static _Thread_local unsigned int depth;

/* In a page that a child finds cleared: CUDA does not work after fork(), nor does weir. */
static _Atomic(atomic_bool *) started;

static void map_started(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return;
	if (madvise(at, page, MADV_WIPEONFORK)) {
		(void)munmap(at, page);
		return;
	}
	atomic_store(&started, at);
}

void hooks_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, map_started);
	if (!atomic_load(&started))
		settings_fail("no page that fork() clears can be had: Linux 4.14 and later have "
			      "them");
	atomic_store(atomic_load(&started), true);
}

/* CUDA may have been started past the stub, by who opened the driver by its path: where a context
 * is current, it was. */
static atomic_bool *notice_start(void)
{
	cu_device device;

	if (!real.cuCtxGetDevice || real.cuCtxGetDevice(&device))
		return NULL;
	hooks_start();
	return atomic_load(&started);
}

bool hook_enter(void)
{
	atomic_bool *const at = atomic_load_explicit(&started, memory_order_acquire);

	if (depth)
		return false;
	depth++;
	if (at ? atomic_load_explicit(at, memory_order_relaxed) : notice_start() != NULL)
		return true;
	depth--;
	return false;
}

void hook_leave(void)
{
	depth--;
}

bool hook_is_within(void)
{
	return depth > 0;
}

cu_result hook_relax(int *mode)
{
	*mode = CU_CAPTURE_MODE_RELAXED;
	return real.cuThreadExchangeStreamCaptureMode ? real.cuThreadExchangeStreamCaptureMode(mode)
						      : CU_NOT_SUPPORTED;
}

void hook_unrelax(int mode)
{
	(void)real.cuThreadExchangeStreamCaptureMode(&mode);
}

/* ------------------------------------------------------------------ look-ups */

/* Whether the driver has a later function of the name than the hook: "_v3" where it is "_v2". Then
 * what a look-up means cannot be told by name. */
static bool is_outdated(const struct hook *hook)
{
	const char *v = strstr(hook->symbol, "_v");
	char later[64];
	size_t nr = v ? (size_t)(v - hook->symbol) : strcspn(hook->symbol, "_");

	if (nr + 4 > sizeof(later))
		return true;
	memcpy(later, hook->symbol, nr);
	memcpy(later + nr, "_v", 2);
	later[nr + 2] = (char)(v ? v[2] + 1 : '2');
	later[nr + 3] = '\0';
	return real_find(later) != NULL;
}

static bool is_named(const struct hook *hook, const char *name, uint64_t flags)
{
	const enum streams streams = flags & CU_PROC_PER_THREAD ? PER_THREAD : LEGACY;

	return (hook->streams == BOTH || hook->streams == streams) && !strcmp(hook->name, name);
}

/* A function that the driver tells of, but does not export. Nobody has called it yet. */
static void set_real(const struct hook *hook, void *found)
{
	__atomic_store_n((void **)((char *)&real + hook->member), found, __ATOMIC_SEQ_CST);
}

/* Which of the hooks a look-up means that gave an address which the driver does not export. NULL:
 * none, or the driver has a later version than weir knows, which it may be. */
static const struct hook *meant_by(const char *name, int version, uint64_t flags)
{
	const struct hook *meant = NULL;
	bool has_later = false; /* whose first version of CUDA is known, and was not asked for */

	for (size_t i = 0; i < ARRAY_LEN(hooks); i++) {
		const struct hook *hook = &hooks[i];

		if (!is_named(hook, name, flags))
			continue;
		has_later |= hook->since > version;
		if (hook->since <= version && (!meant || hook->since > meant->since))
			meant = hook;
	}
	return meant && (has_later || !is_outdated(meant)) ? meant : NULL;
}

/*
 * Our function in the place of what the driver found. An address that the library exports says what
 * it is, whatever was asked for. The driver has addresses of its own for some functions; those are
 * told by name, version and flags.
 */
static void *in_place_of(void *found, const char *name, int version, uint64_t flags)
{
	const struct hook *meant;

	for (size_t i = 0; i < ARRAY_LEN(hooks); i++)
		if (found == real_of(&hooks[i]))
			return own_of(&hooks[i]);
	meant = meant_by(name, version, flags);
	if (!meant)
		return found;
	if (!real_of(meant))
		set_real(meant, found);
	return own_of(meant);
}

cu_result hook_cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	cu_result result = real.cuGetProcAddress(name, fn, version, flags);

	if (result == CU_SUCCESS && name && fn && *fn)
		*fn = in_place_of(*fn, name, version, flags);
	return result;
}

cu_result hook_cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
				   int *status)
{
	cu_result result = real.cuGetProcAddress_v2(name, fn, version, flags, status);

	if (result == CU_SUCCESS && name && fn && *fn)
		*fn = in_place_of(*fn, name, version, flags);
	return result;
}
