/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions a driver exports, read of its file: see stub.h. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/stub.h"

struct file {
	const uint8_t *data;
	uint64_t bytes;
};

/* Part of the file; NULL: it does not have that. */
static const void *part(const struct file *file, uint64_t at, uint64_t bytes)
{
	return at <= file->bytes && bytes <= file->bytes - at ? file->data + at : NULL;
}

/* The section of a kind, or the one of a number if the kind is SHT_NULL. */
static const Elf64_Shdr *section(const struct file *file, uint32_t kind, uint32_t number)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)file->data;
	const Elf64_Shdr *all = part(file, e->e_shoff, (uint64_t)e->e_shnum * sizeof(*all));

	if (!all || e->e_shentsize != sizeof(*all) || e->e_shoff % 8)
		return NULL;
	if (kind == SHT_NULL)
		return number < e->e_shnum ? &all[number] : NULL;
	for (uint32_t n = 0; n < e->e_shnum; n++)
		if (all[n].sh_type == kind)
			return &all[n];
	return NULL;
}

static bool is_elf(const struct file *file)
{
	const Elf64_Ehdr *e = part(file, 0, sizeof(*e));

	return e && !memcmp(e->e_ident, ELFMAG, SELFMAG) && e->e_ident[EI_CLASS] == ELFCLASS64 &&
	       e->e_ident[EI_DATA] == ELFDATA2LSB && e->e_machine == EM_X86_64 &&
	       e->e_type == ET_DYN;
}

static bool is_exported(const Elf64_Sym *symbol, const char *name)
{
	const int type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
	       (bind == STB_GLOBAL || bind == STB_WEAK) && !strncmp(name, "cu", 2);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void drop_repeated(struct stub_names *names)
{
	size_t kept = 0;

	qsort(names->name, names->nr, sizeof(*names->name), by_name);
	for (size_t n = 0; n < names->nr; n++)
		if (kept && !strcmp(names->name[kept - 1], names->name[n]))
			free(names->name[n]);
		else
			names->name[kept++] = names->name[n];
	names->nr = kept;
}

/* @return 0, -ENOMEM, or -EINVAL: the file contradicts itself, or has no dynamic symbols. */
static int take_names(const struct file *file, struct stub_names *names)
{
	const Elf64_Shdr *s = section(file, SHT_DYNSYM, 0);
	const Elf64_Shdr *t = s ? section(file, SHT_NULL, s->sh_link) : NULL;
	const Elf64_Sym *symbol = s ? part(file, s->sh_offset, s->sh_size) : NULL;
	const char *strings = t ? part(file, t->sh_offset, t->sh_size) : NULL;
	const uint64_t nr = symbol ? s->sh_size / sizeof(*symbol) : 0;

	if (!strings || !t->sh_size || strings[t->sh_size - 1] || s->sh_offset % 8)
		return -EINVAL;
	names->name = calloc(nr ? nr : 1, sizeof(*names->name));
	if (!names->name)
		return -ENOMEM;
	for (uint64_t n = 0; n < nr; n++) {
		if (symbol[n].st_name >= t->sh_size)
			return -EINVAL;
		if (!is_exported(&symbol[n], strings + symbol[n].st_name))
			continue;
		names->name[names->nr] = strdup(strings + symbol[n].st_name);
		if (!names->name[names->nr++])
			return -ENOMEM;
	}
	drop_repeated(names);
	return names->nr ? 0 : -EINVAL;
}

void stub_names_free(struct stub_names *names)
{
	for (size_t n = 0; n < names->nr; n++)
		free(names->name[n]);
	free(names->name);
	*names = (struct stub_names){0};
}

int stub_names_read(const char *path, struct stub_names *names, char *err, size_t err_bytes)
{
	struct file file = {0};
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	*names = (struct stub_names){0};
	if (fd < 0 || fstat(fd, &status)) {
		rc = -errno;
		(void)snprintf(err, err_bytes, "%s: %s", path, strerror(errno));
		goto out;
	}
	file.bytes = (uint64_t)status.st_size;
	file.data = file.bytes ? mmap(NULL, file.bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	rc = -EINVAL;
	if (file.data != MAP_FAILED) {
		if (is_elf(&file))
			rc = take_names(&file, names);
		(void)munmap((void *)file.data, file.bytes);
	}
	if (rc) {
		stub_names_free(names);
		(void)snprintf(err, err_bytes,
			       rc == -ENOMEM ? "no memory on the host"
					     : "%s is no CUDA driver for this processor: it "
					       "exports no function whose name begins with cu",
			       path);
	}
out:
	if (fd >= 0)
		(void)close(fd);
	return rc;
}
