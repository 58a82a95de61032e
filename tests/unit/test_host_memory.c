/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the host's memory there is, read from files that are made up. */
#include "src/backend/cuda/host_memory.h"

#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB(n) ((uint64_t)(n) << 10)

static char root[] = "/tmp/weir-memory-XXXXXX";

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
	(void)s;
	(void)type;
	return ftw->level ? remove(path) : 0;
}

static int clear(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void file(const char *path, const char *text)
{
	char name[512];
	FILE *out;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *at = strchr(name + sizeof(root), '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(name, 0700);
		*at = '/';
	}
	out = fopen(name, "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void expect(int node, uint64_t bytes, uint64_t room)
{
	struct host_memory memory = host_memory_read(root, node);

	if (memory.bytes != bytes || memory.room_bytes != room)
		fail_msg("%" PRIu64 " bytes and room for %" PRIu64 ", not %" PRIu64 " and %" PRIu64,
			 memory.bytes, memory.room_bytes, bytes, room);
}

static void system_file(void)
{
	file("proc/meminfo", "MemTotal:        1000 kB\nMemFree:          100 kB\n"
			     "MemAvailable:     900 kB\nBuffers: 7 kB\n");
}

/* ------------------------------------------------------------------ nodes */

static void test_no_files(void **state)
{
	(void)state;
	expect(0, UINT64_C(1) << 30, UINT64_C(1) << 30);
}

static void test_no_nodes(void **state)
{
	(void)state;
	system_file();
	expect(0, KIB(1000), KIB(900));
}

static void test_the_node_of_chunks(void **state)
{
	(void)state;
	system_file();
	file("sys/devices/system/node/node0/meminfo",
	     "Node 0 MemTotal:     600 kB\nNode 0 MemFree:      90 kB\n"
	     "Node 0 Active(file):   20 kB\nNode 0 Inactive(file): 30 kB\n"
	     "Node 0 Active(anon):  200 kB\nNode 0 SReclaimable:   5 kB\n");
	file("sys/devices/system/node/node1/meminfo",
	     "Node 1 MemTotal:     400 kB\nNode 1 MemFree:     390 kB\n");
	expect(0, KIB(600), KIB(145));
	expect(1, KIB(400), KIB(390));
	expect(2, KIB(1000), KIB(900));
}

/* A virtual machine whose memory grew: its only node still tells what there was at first. */
static void test_the_only_node(void **state)
{
	(void)state;
	system_file();
	file("sys/devices/system/node/node0/meminfo",
	     "Node 0 MemTotal:     60 kB\nNode 0 MemFree:      9 kB\n");
	file("sys/devices/system/node/has_memory", "0\n");
	expect(0, KIB(1000), KIB(900));
	file("sys/devices/system/node/has_memory", "0-1\n");
	expect(0, KIB(60), KIB(9));
	file("sys/devices/system/node/has_memory", "");
	expect(0, KIB(60), KIB(9));
}

/* What files say that is no number of kilobytes is not believed. */
static void test_odd_files(void **state)
{
	static const char *const odd[] = {
		"",
		"MemTotal:",
		"MemTotal: -1 kB\n",
		"MemTotal: many kB\n",
		"MemTotal: 99999999999999999999999 kB\n",
		"MemTotal: 18446744073709551615 kB\n",
		"MemTotal: 12x kB\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		file("proc/meminfo", odd[i]);
		expect(0, UINT64_C(1) << 30, UINT64_C(1) << 30);
	}
	system_file();
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		file("sys/devices/system/node/node0/meminfo", odd[i]);
		expect(0, KIB(1000), KIB(900));
	}
	/* More is free than there is. */
	file("sys/devices/system/node/node0/meminfo",
	     "Node 0 MemTotal: 100 kB\nNode 0 MemFree: 300 kB\nNode 0 SReclaimable: 300 kB\n");
	expect(0, KIB(100), KIB(100));
}

/* ------------------------------------------------------------------ control groups */

static void test_group_v2(void **state)
{
	(void)state;
	system_file();
	file("proc/self/cgroup", "0::/a/b\n");
	expect(0, KIB(1000), KIB(900));
	file("sys/fs/cgroup/a/b/memory.max", "max\n");
	file("sys/fs/cgroup/a/b/memory.current", "409600\n");
	expect(0, KIB(1000), KIB(900));
	file("sys/fs/cgroup/a/b/memory.max", "819200\n");
	expect(0, KIB(800), KIB(400));
	/* Pages of files that nobody has looked at lately go when there is need. */
	file("sys/fs/cgroup/a/b/memory.stat", "anon 7\nfile 9\ninactive_file 102400\n");
	expect(0, KIB(800), KIB(500));
	/* A group above is smaller, and fuller. */
	file("sys/fs/cgroup/a/memory.max", "716800\n");
	file("sys/fs/cgroup/a/memory.current", "614400\n");
	expect(0, KIB(700), KIB(100));
	file("sys/fs/cgroup/a/memory.current", "99999999999\n");
	expect(0, KIB(700), 0);
}

/* Of both versions at a time, as systemd has it. */
static void test_group_unified(void **state)
{
	(void)state;
	system_file();
	file("proc/self/cgroup", "1:name=systemd:/x\n0::/x\n");
	file("sys/fs/cgroup/unified/x/memory.max", "512000\n");
	file("sys/fs/cgroup/unified/x/memory.current", "0\n");
	expect(0, KIB(500), KIB(500));
}

static void test_group_v1(void **state)
{
	(void)state;
	system_file();
	file("proc/self/cgroup", "12:cpu,cpuacct:/other\n5:hugetlb,memory:/job/1\n4:pids:/p\n");
	file("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1024\n");
	file("sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "9223372036854771712\n");
	file("sys/fs/cgroup/memory/job/1/memory.usage_in_bytes", "204800\n");
	expect(0, KIB(1000), KIB(900));
	file("sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "409600\n");
	file("sys/fs/cgroup/memory/job/1/memory.stat", "inactive_file 1\n"
						       "total_inactive_file 51200\n");
	expect(0, KIB(400), KIB(250));
	file("sys/fs/cgroup/memory/memory.limit_in_bytes", "307200\n");
	expect(0, KIB(300), KIB(250));
}

/* A container sees its own group as the mount's root, and its path outside. */
static void test_group_of_a_container(void **state)
{
	static const char *const paths[] = {"4:memory:/docker/0123\n", "4:memory:/../../other\n",
					    "4:memory:/\n"};

	(void)state;
	system_file();
	file("sys/fs/cgroup/memory/memory.limit_in_bytes", "204800\n");
	file("sys/fs/cgroup/memory/memory.usage_in_bytes", "102400\n");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		file("proc/self/cgroup", paths[i]);
		expect(0, KIB(200), KIB(100));
	}
}

static void test_odd_groups(void **state)
{
	static const char *const lines[] = {"",
					    "\n",
					    "0",
					    "0:",
					    "0::",
					    ":::",
					    "0::relative\n",
					    "4:memory\n",
					    "4:memorial:/a\n",
					    "7::/a\n"};
	static const char *const limits[] = {"",    "\n",    "-5\n",
					     "max", "1e3\n", "184467440737095516160\n"};
	char *line = malloc(3 * PATH_MAX + 8);

	(void)state;
	assert_non_null(line);
	system_file();
	file("sys/fs/cgroup/a/memory.max", "1024\n");
	file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1024\n");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		file("proc/self/cgroup", lines[i]);
		expect(0, KIB(1000), KIB(900));
	}
	/* Longer than any path. */
	memset(line, '/', 3 * PATH_MAX);
	memcpy(line, "0::", 3);
	line[3 * PATH_MAX] = '\0';
	file("proc/self/cgroup", line);
	expect(0, KIB(1000), KIB(900));
	free(line);
	file("proc/self/cgroup", "0::/a\n");
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		file("sys/fs/cgroup/a/memory.max", limits[i]);
		expect(0, KIB(1000), KIB(900));
	}
	file("sys/fs/cgroup/a/memory.max", "0");
	expect(0, 0, 0);
}

/* This system's own files, whatever they are. */
static void test_this_system(void **state)
{
	struct host_memory memory = host_memory_read("", 0);

	(void)state;
	assert_true(memory.bytes > 0);
	assert_true(memory.room_bytes <= memory.bytes);
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_teardown(test, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_no_files),
		CASE(test_no_nodes),
		CASE(test_the_only_node),
		CASE(test_the_node_of_chunks),
		CASE(test_odd_files),
		CASE(test_group_v2),
		CASE(test_group_unified),
		CASE(test_group_v1),
		CASE(test_group_of_a_container),
		CASE(test_odd_groups),
		CASE(test_this_system),
	};
	int nr;

	if (!mkdtemp(root))
		return 1;
	nr = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(root);
	return nr;
}
