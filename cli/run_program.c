/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a library can be preloaded into a program: the dynamic linker does that, so there has to
 * be one (a program that is linked statically has none), and the program must not run with more
 * rights than its user, since then it ignores the environment.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/run_internal.h"

/* A script's interpreter may be a script, and so on: as deep as Linux goes. */
#define SCRIPTS_MAX 4

static bool is_program(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

/* In the folders of PATH. @return whether it is in one of them */
static bool search(const char *command, char *path)
{
	const char *at = getenv("PATH");

	if (!at)
		at = "/usr/local/bin:/usr/bin:/bin"; /* nearly what execvp() takes */
	for (;;) {
		const int nr = (int)strcspn(at, ":");
		const int bytes =
			snprintf(path, PATH_MAX, "%.*s%s%s", nr, at, nr ? "/" : "./", command);

		if (bytes > 0 && bytes < PATH_MAX && is_program(path))
			return true;
		if (!at[nr])
			return false;
		at += nr + 1;
	}
}

/* What of a file is looked at. */
struct head {
	unsigned char byte[4096];
	size_t nr;
};

static int read_head(const char *path, struct head *head)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t nr = -1;

	if (fd >= 0) {
		nr = read(fd, head->byte, sizeof(head->byte) - 1);
		(void)close(fd);
	}
	if (nr < 0)
		return command_complain("run: %s: %s", path, strerror(errno));
	head->nr = (size_t)nr;
	head->byte[head->nr] = 0;
	return 0;
}

/* Whether an ELF program names a dynamic linker. What is not in the head counts as if it did. */
static bool has_linker(const struct head *head)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	memcpy(&e, head->byte, sizeof(e));
	for (uint32_t n = 0; n < e.e_phnum; n++) {
		const uint64_t at = e.e_phoff + n * sizeof(p);

		if (at > head->nr || head->nr - at < sizeof(p))
			return true;
		memcpy(&p, head->byte + at, sizeof(p));
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

static int check_elf(const char *path, const struct head *head)
{
	const unsigned char *e = head->byte;

	if (head->nr < sizeof(Elf64_Ehdr) || e[EI_CLASS] != ELFCLASS64)
		return command_complain("run: %s is no 64-bit program", path);
	if (!has_linker(head))
		return command_complain("run: %s is linked statically: nothing can be put before "
					"its CUDA driver",
					path);
	return 0;
}

/* The interpreter of a script, in place: "#!" is cut off. @return NULL: it names none */
static char *interpreter(struct head *head)
{
	char *name = (char *)head->byte + 2;

	name += strspn(name, " \t");
	name[strcspn(name, " \t\n")] = '\0';
	return *name ? name : NULL;
}

/* setuid, setgid and capabilities of the file make the dynamic linker ignore LD_PRELOAD. */
static int check_rights(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return command_complain("run: %s: %s", path, strerror(errno));
	if (((status.st_mode & S_ISUID) && status.st_uid != geteuid()) ||
	    ((status.st_mode & S_ISGID) && status.st_gid != getegid()) ||
	    getxattr(path, "security.capability", NULL, 0) > 0)
		return command_complain("run: %s runs with more rights than its user has (setuid, "
					"setgid or capabilities): no library can be put before its "
					"CUDA driver",
					path);
	return 0;
}

int run_find_file(const char *command, char *path)
{
	if (strchr(command, '/') ? snprintf(path, PATH_MAX, "%s", command) >= PATH_MAX
				 : !search(command, path))
		return command_complain("run: there is no program '%s' in the folders of PATH",
					command);
	return 0;
}

/* Say why a program, or the interpreter of a script, cannot be started. */
static int complain_of(const char *path, const char *at, bool is_script)
{
	struct stat status;
	const char *why;

	if (stat(at, &status))
		why = strerror(errno);
	else
		why = S_ISREG(status.st_mode) ? strerror(EACCES) : "it is no file";
	if (is_script)
		return command_complain("run: the script %s cannot be started: its interpreter %s: "
					"%s",
					path, at, why);
	return command_complain("run: %s is no program that can be started: %s", at, why);
}

int run_find_program(const char *command, char *path)
{
	char at[PATH_MAX];
	struct head head = {.nr = 0};

	if (run_find_file(command, path))
		return COMMAND_EXIT_BAD;
	(void)snprintf(at, sizeof(at), "%s", path);
	for (int depth = 0; depth <= SCRIPTS_MAX; depth++) {
		const char *next;

		if (!is_program(at))
			return complain_of(path, at, depth > 0);
		if (check_rights(at) || read_head(at, &head))
			return COMMAND_EXIT_BAD;
		if (!memcmp(head.byte, ELFMAG, SELFMAG))
			return check_elf(at, &head);
		next = !memcmp(head.byte, "#!", 2) ? interpreter(&head) : NULL;
		if (!next)
			return command_complain("run: %s is neither a program nor a script that "
						"names its interpreter",
						at);
		(void)snprintf(at, sizeof(at), "%s", next);
	}
	return command_complain("run: %s: its interpreter is a script whose interpreter is a "
				"script, and so on",
				path);
}
