/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the running program is: what belongs to it lies beside it, or in ../lib from there. For
 * programs and workloads, not for the library, which is loaded into other people's programs. It is
 * inline, so that the library does not have it.
 */
#ifndef WEIR_BASE_PROGRAM_H
#define WEIR_BASE_PROGRAM_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/*
 * The folder of the running program.
 *
 * @param [out] out   Its absolute name, without a slash at its end: "" for the root. Written only
 *                    on success.
 * @param [in]  bytes Size of out, > 0.
 * @return 0, or
 *   -ENAMETOOLONG  the program's name does not fit into out
 *   an error of readlink(): /proc is not mounted, say
 */
static inline int program_folder(char *out, size_t bytes)
{
	char path[4096]; /* PATH_MAX */
	const ssize_t nr = readlink("/proc/self/exe", path, sizeof(path));
	const char *slash;
	size_t length;

	if (nr < 0)
		return -errno;
	slash = memrchr(path, '/', (size_t)nr);
	length = slash ? (size_t)(slash - path) : 0;
	if ((size_t)nr == sizeof(path) || length >= bytes)
		return -ENAMETOOLONG;
	memcpy(out, path, length);
	out[length] = '\0';
	return 0;
}

#endif
