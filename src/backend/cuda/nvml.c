/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few functions of libnvidia-ml.so.1, opened for one question and closed again: it is asked only
 * where something is refused, and whatever goes wrong here is no error.
 */
#include "src/backend/cuda/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnvidia-ml.so.1"
#define PROCESSES_MAX 64u
#define UNKNOWN UINT64_MAX /* NVML_VALUE_NOT_AVAILABLE */
#define NAME_BYTES 32

/* nvmlProcessInfo_t, of nvmlDeviceGetComputeRunningProcesses_v3() */
struct process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance, compute_instance;
};

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*by_pci)(const char *pci, void **device);
	int (*processes)(void *device, unsigned int *nr, struct process *out);
};

static bool find(const struct nvml *n, const char *symbol, void *function)
{
	void *found = dlsym(n->library, symbol);

	memcpy(function, &found, sizeof(found)); /* ISO C does not cast data to functions */
	return found;
}

static bool nvml_open(struct nvml *n, const char *library)
{
	n->library = dlopen(library ? library : LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return false;
	if (find(n, "nvmlInit_v2", &n->init) && find(n, "nvmlShutdown", &n->shutdown) &&
	    find(n, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_pci) &&
	    find(n, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes) && !n->init())
		return true;
	dlclose(n->library);
	return false;
}

/* The command's name; empty where the process is not one of this system's. */
static void process_name(unsigned int pid, char name[NAME_BYTES])
{
	char path[64];
	FILE *file;

	name[0] = '\0';
	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	file = fopen(path, "r");
	if (!file)
		return;
	if (!fgets(name, NAME_BYTES, file))
		name[0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	(void)fclose(file);
}

/* Add one process; returns where the text ends. */
static size_t describe(const struct process *p, char *text, size_t at, size_t bytes)
{
	char name[NAME_BYTES], used[32] = "";

	process_name(p->pid, name);
	if (p->used_bytes != UNKNOWN)
		(void)snprintf(used, sizeof(used), ": %.1f GB", (double)p->used_bytes / 1e9);
	return at + (size_t)snprintf(text + at, bytes - at, "%sprocess %u%s%s%s%s", at ? ", " : "",
				     p->pid, name[0] ? " (" : "", name, name[0] ? ")" : "", used);
}

void nvml_holders(const char *library, const char *pci, char *text, size_t bytes)
{
	struct process process[PROCESSES_MAX];
	unsigned int nr = PROCESSES_MAX;
	size_t at = 0;
	struct nvml n;
	void *device;

	text[0] = '\0';
	if (!nvml_open(&n, library))
		return;
	if (n.by_pci(pci, &device) || n.processes(device, &nr, process) || nr > PROCESSES_MAX)
		nr = 0;
	for (unsigned int i = 0; i < nr && at < bytes; i++)
		if (process[i].pid != (unsigned int)getpid())
			at = describe(&process[i], text, at, bytes);
	(void)n.shutdown();
	dlclose(n.library);
}
