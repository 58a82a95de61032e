/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program under weir is started with: the CUDA driver's path and a stub of it (shim/stub.h).
 * Stubs are kept in the user's cache folder, named by their contents, so that the next run finds
 * its own there and programs that are still running keep theirs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/run_internal.h"
#include "shim/stub.h"
#include "src/backend/cuda/driver.h"
#include "src/base/hash.h"
#include "src/base/program.h"

#define DRIVER "libcuda.so.1"
#define DROPIN "libweir-dropin.so"

/* ------------------------------------------------------------------ the driver */

/*
 * What is in LD_PRELOAD and has functions of the driver's name would never be called: weir's
 * library comes before it, and calls the driver. One that is named as the driver is counts as that.
 */
static int check_preloaded(void *library)
{
	static const char *const functions[] = {"cuInit", "cuMemAlloc_v2", "cuLaunchKernel",
						"cuGetProcAddress_v2"};
	Dl_info info;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *first = dlsym(RTLD_DEFAULT, functions[i]);

		if (first && first != dlsym(library, functions[i]) && dladdr(first, &info))
			return command_complain("run: %s is in LD_PRELOAD and has the driver's %s, "
						"too, which would not be called: leave it out",
						info.dli_fname, functions[i]);
	}
	return 0;
}

/* Where the driver is that the dynamic linker finds; it is not started. */
static int find_driver(char *path)
{
	cu_result (*version_get)(int *version);
	struct link_map *map = NULL;
	void *library = dlopen(DRIVER, RTLD_LAZY | RTLD_LOCAL);
	void *found = NULL;
	int version = 0;

	if (!library)
		return command_complain("run: no NVIDIA driver: %s", dlerror());
	if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map || !realpath(map->l_name, path))
		return command_complain("run: the file of the NVIDIA driver cannot be told");
	if (dlsym(library, STUB_MARK))
		return command_complain("run: this runs under weir run already: one of them is "
					"enough");
	if (check_preloaded(library))
		return COMMAND_EXIT_BAD;
	found = dlsym(library, "cuDriverGetVersion");
	memcpy(&version_get, &found, sizeof(version_get));
	if (!found || version_get(&version) || version < CUDA_DRIVER_MIN)
		return command_complain("run: %s serves CUDA %d.%d, weir needs %d.%d: update the "
					"driver",
					path, version / 1000, version % 1000 / 10,
					CUDA_DRIVER_MIN / 1000, CUDA_DRIVER_MIN % 1000 / 10);
	return 0;
}

/* The drop-in library: beside the running program, or in ../lib from there. */
static int find_dropin(char *path)
{
	static const char *const places[] = {"%s/" DROPIN, "%s/../lib/" DROPIN,
					     "%s/../lib/x86_64-linux-gnu/" DROPIN};
	char folder[PATH_MAX], at[PATH_MAX + 64];
	const int err = program_folder(folder, sizeof(folder));

	if (err)
		return command_complain("run: /proc/self/exe: %s", strerror(-err));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		/* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): one of the table above */
		(void)snprintf(at, sizeof(at), places[i], folder);
		if (realpath(at, path))
			return 0;
	}
	return command_complain("run: %s is neither in %s nor in ../lib from there: install weir "
				"again",
				DROPIN, folder);
}

/* ------------------------------------------------------------------ the folder */

/* Make a folder that the user alone may write to, or see that there is one. */
static int make_folder(const char *path)
{
	struct stat status;

	if (mkdir(path, 0700) && errno != EEXIST)
		return command_complain("run: %s: %s", path, strerror(errno));
	if (lstat(path, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & (S_IWGRP | S_IWOTH)))
		return command_complain("run: %s is no folder that you alone may write to: what "
					"is in it is loaded into your programs",
					path);
	return 0;
}

/* The folder of stubs with these contents. */
static int find_folder(const void *image, size_t bytes, char *folder)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	const uint8_t *byte = image;
	char base[PATH_MAX], own[PATH_MAX];
	uint64_t hash = 0;
	int nr;

	for (size_t i = 0; i < bytes; i++)
		hash = hash_mix(hash, byte[i]);
	if (cache && *cache == '/')
		nr = snprintf(base, sizeof(base), "%s", cache);
	else if (home && *home == '/')
		nr = snprintf(base, sizeof(base), "%s/.cache", home);
	else
		return command_complain("run: neither XDG_CACHE_HOME nor HOME names a folder, "
					"where what the program is started with can be kept");
	if (nr >= PATH_MAX - 64)
		return command_complain("run: the name of the cache folder is too long");
	/* What is above weir's own folder may belong to others. */
	(void)mkdir(base, 0700);
	(void)snprintf(own, sizeof(own), "%.*s/weir", nr, base);
	if (make_folder(own))
		return COMMAND_EXIT_BAD;
	(void)snprintf(folder, PATH_MAX, "%.*s/weir/cuda-%016" PRIx64, nr, base, hash);
	return make_folder(folder);
}

/* ------------------------------------------------------------------ the stub */

static bool is_there(const char *path, const void *image, size_t bytes)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *found = fd >= 0 ? malloc(bytes + 1) : NULL;
	bool same = found && read(fd, found, bytes + 1) == (ssize_t)bytes &&
		    !memcmp(found, image, bytes);

	free(found);
	if (fd >= 0)
		(void)close(fd);
	return same;
}

/* Write a file under another name and rename it: it is whole, or not there. */
static int write_file(const char *path, const void *image, size_t bytes)
{
	char part[PATH_MAX + 32];
	int fd;
	bool ok;

	(void)snprintf(part, sizeof(part), "%s.%ld", path, (long)getpid());
	(void)unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ok = fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes;
	if (fd >= 0 && close(fd))
		ok = false;
	if (ok && !rename(part, path))
		return 0;
	fd = errno;
	(void)unlink(part);
	return command_complain("run: %s: %s", path, strerror(fd));
}

static int put_stub(const void *image, size_t bytes, char *folder)
{
	char path[PATH_MAX + 16], link[PATH_MAX + 16];

	if (find_folder(image, bytes, folder))
		return COMMAND_EXIT_BAD;
	(void)snprintf(path, sizeof(path), "%s/libcuda.so.1", folder);
	(void)snprintf(link, sizeof(link), "%s/libcuda.so", folder);
	if (!is_there(path, image, bytes) && write_file(path, image, bytes))
		return COMMAND_EXIT_BAD;
	if (symlink("libcuda.so.1", link) && errno != EEXIST)
		return command_complain("run: %s: %s", link, strerror(errno));
	return 0;
}

int run_prepare(struct run_files *files)
{
	char dropin[PATH_MAX], err[PATH_MAX + 128];
	struct stub_names names;
	size_t bytes = 0;
	void *image = NULL;
	int rc;

	if (find_driver(files->driver) || find_dropin(dropin))
		return COMMAND_EXIT_BAD;
	if (stub_names_read(files->driver, &names, err, sizeof(err)))
		return command_complain("run: %s", err);
	rc = stub_make(&names, dropin, &image, &bytes);
	stub_names_free(&names);
	if (rc == -ENOTSUP)
		return command_complain("run: programs run under weir on x86-64 alone");
	if (rc)
		return command_complain("run: no memory on the host");
	rc = put_stub(image, bytes, files->folder);
	free(image);
	return rc;
}
