/* SPDX-License-Identifier: Apache-2.0 */
/* The files of /proc and /sys that say how much memory there is: see host_memory.h. */
#include "src/backend/cuda/host_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

/* Where no file says how much there is. */
#define BYTES_UNKNOWN (UINT64_C(1) << 30)

/* ------------------------------------------------------------------ files */

/* A decimal number and no sign; `max` and other words are none. */
static bool number_parse(const char *text, uint64_t *out)
{
	unsigned long long value;
	char *end;

	text += strspn(text, " \t");
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || (*end && !strchr(" \t\n", *end)))
		return false;
	*out = value;
	return true;
}

/* The number behind a name, in the first line that has it, or with name "" the file's first word.
 * Lines are short; what is cut off a long one is not looked at. */
static bool file_number(const char *path, const char *name, uint64_t *out)
{
	FILE *file = fopen(path, "r");
	bool found = false;
	char line[256];

	while (file && !found && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, name);

		found = at && number_parse(at + strlen(name), out);
		if (!*name)
			break;
	}
	if (file)
		(void)fclose(file);
	return found;
}

/* The same of a file that counts in kB. */
static bool file_kib(const char *path, const char *name, uint64_t *bytes)
{
	uint64_t kib;

	if (!file_number(path, name, &kib) || kib > UINT64_MAX >> 10)
		return false;
	*bytes = kib << 10;
	return true;
}

/* ------------------------------------------------------------------ the node */

/* Whether one node alone has memory, "0" in the list of those that have. What the host has is what
 * that node has, and its own file need not be asked: in virtual machines whose memory grew after
 * they had started (virtio-mem) it has been seen to name what they had then, 4.5 GB of 135. */
static bool one_node(const char *root)
{
	char path[PATH_MAX], list[64];
	FILE *file = NULL;
	bool one = false;

	if ((size_t)snprintf(path, sizeof(path), "%s/sys/devices/system/node/has_memory", root) <
	    sizeof(path))
		file = fopen(path, "r");
	if (file) {
		one = fgets(list, sizeof(list), file) && list[strspn(list, "0123456789")] == '\n';
		(void)fclose(file);
	}
	return one;
}

/* What a node has, and what of it is free or would be given back. False: the system has no such
 * file. */
static bool node_read(const char *root, int node, struct host_memory *out)
{
	static const char *const room[] = {
		"MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:"};
	char path[PATH_MAX];
	uint64_t bytes;

	if ((size_t)snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%d/meminfo", root,
			     node) >= sizeof(path) ||
	    !file_kib(path, "MemTotal:", &out->bytes))
		return false;
	out->room_bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(room); i++)
		if (file_kib(path, room[i], &bytes))
			out->room_bytes += MIN(bytes, out->bytes);
	return true;
}

static struct host_memory system_read(const char *root, int node)
{
	struct host_memory all = {BYTES_UNKNOWN, BYTES_UNKNOWN}, own;
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/proc/meminfo", root) < sizeof(path)) {
		if (file_kib(path, "MemTotal:", &all.bytes))
			all.room_bytes = all.bytes;
		(void)file_kib(path, "MemAvailable:", &all.room_bytes);
	}
	if (!one_node(root) && node_read(root, node, &own)) {
		all.bytes = own.bytes;
		all.room_bytes = MIN(all.room_bytes, own.room_bytes);
	}
	return all;
}

/* ------------------------------------------------------------------ control groups */

/* What the two versions call it. */
static const struct version {
	const char *mounts[2]; /* where a hierarchy is found; a second place, or NULL */
	const char *limit, *use, *files;
} versions[] = {
	{{"sys/fs/cgroup/memory", NULL},
	 "memory.limit_in_bytes",
	 "memory.usage_in_bytes",
	 "total_inactive_file "},
	{{"sys/fs/cgroup", "sys/fs/cgroup/unified"},
	 "memory.max",
	 "memory.current",
	 "inactive_file "},
};

static bool group_number(const char *group, const char *file, const char *name, uint64_t *out)
{
	char path[PATH_MAX + 64];

	return (size_t)snprintf(path, sizeof(path), "%s/%s", group, file) < sizeof(path) &&
	       file_number(path, name, out);
}

/* Keep to one group's limit. */
static void group_apply(const char *group, const struct version *version, struct host_memory *out)
{
	uint64_t limit, use = 0, files = 0;

	if (!group_number(group, version->limit, "", &limit))
		return;
	(void)group_number(group, version->use, "", &use);
	if (group_number(group, "memory.stat", version->files, &files))
		use -= MIN(use, files);
	out->bytes = MIN(out->bytes, limit);
	out->room_bytes = MIN(out->room_bytes, limit - MIN(limit, use));
}

/* Keep to the limits of a group and of those above it. In a container the path may be the one
 * outside, and what is mounted the group itself: then only the mount's own files are there. */
static void path_apply(const char *root, const char *mount, const char *path,
		       const struct version *version, struct host_memory *out)
{
	char group[PATH_MAX];
	size_t top = (size_t)snprintf(group, sizeof(group), "%s/%s", root, mount);
	size_t bytes = strlen(path);
	char *cut;

	if (top >= sizeof(group))
		return;
	/* A path that leads out of what is mounted names a group that is not there. */
	if (!strstr(path, "..") && bytes < sizeof(group) - top)
		memcpy(group + top, path, bytes + 1);
	do {
		group_apply(group, version, out);
		cut = strrchr(group + top, '/');
		if (cut)
			*cut = '\0';
	} while (cut);
}

/* Whether a list separated by commas has `memory`. */
static bool has_memory(char *controllers)
{
	char *rest = controllers, *name;

	while ((name = strsep(&rest, ",")))
		if (!strcmp(name, "memory"))
			return true;
	return false;
}

/* One line of /proc/self/cgroup: number:controllers:path. */
static void line_apply(const char *root, char *line, struct host_memory *out)
{
	char *path = line, *number = strsep(&path, ":"), *controllers = strsep(&path, ":");
	const struct version *version = &versions[0];

	if (!path || *path != '/')
		return;
	path[strcspn(path, "\n")] = '\0';
	if (!strcmp(number, "0") && !*controllers)
		version = &versions[1];
	else if (!has_memory(controllers))
		return;
	for (int i = 0; i < 2 && version->mounts[i]; i++)
		path_apply(root, version->mounts[i], path, version, out);
}

struct host_memory host_memory_read(const char *root, int node)
{
	struct host_memory memory = system_read(root, node);
	char name[PATH_MAX], *line = NULL;
	size_t bytes = 0;
	FILE *file = NULL;

	if ((size_t)snprintf(name, sizeof(name), "%s/proc/self/cgroup", root) < sizeof(name))
		file = fopen(name, "r");
	while (file && getline(&line, &bytes, file) > 0)
		line_apply(root, line, &memory);
	free(line);
	if (file)
		(void)fclose(file);
	memory.room_bytes = MIN(memory.room_bytes, memory.bytes);
	return memory;
}
