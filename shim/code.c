/* SPDX-License-Identifier: Apache-2.0 */
/* See code.h. */
#include "shim/code.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/util.h"

/* What a compiler puts into a program leads to a fat binary, which begins with the other one. */
#define WRAPPER_MAGIC 0x466243b1u
#define FAT_MAGIC 0xba55ed50u

struct wrapper {
	uint32_t magic, version;
	const void *fat;
};

struct fat {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* behind the header */
};

struct loaded {
	const void *handle;
	const void *later; /* an image that is hashed when it is asked for; NULL: none */
	uint64_t hash;	   /* else; 0: not known */
};

static struct {
	pthread_mutex_t lock;
	struct loaded *loaded;
	uint32_t nr, max;
} code = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ images */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

uint64_t code_hash(uint64_t hash, const void *bytes, uint64_t nr)
{
	const unsigned char *at = bytes;
	uint64_t word;

	hash = mix(hash, nr);
	for (; nr >= sizeof(word); nr -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = mix(hash, word);
	}
	word = 0;
	memcpy(&word, at, nr);
	return mix(hash, word);
}

/* Up to the end of what its tables name. */
static uint64_t elf_bytes(const void *image)
{
	const unsigned char *at = image;
	Elf64_Ehdr head;
	Elf64_Shdr section;
	uint64_t end;

	memcpy(&head, at, sizeof(head));
	if (head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    (head.e_shnum && head.e_shentsize != sizeof(section)))
		return 0;
	end = MAX(head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize,
		  head.e_phoff + (uint64_t)head.e_phnum * head.e_phentsize);
	for (uint32_t s = 0; s < head.e_shnum; s++) {
		memcpy(&section, at + head.e_shoff + s * sizeof(section), sizeof(section));
		if (section.sh_type != SHT_NOBITS)
			end = MAX(end, section.sh_offset + section.sh_size);
	}
	return end;
}

/* A text ends with a zero, and has no other byte that is none of a text's at its beginning. */
static uint64_t text_bytes(const char *text)
{
	const unsigned char first = (unsigned char)*text;

	return (first >= ' ' && first < 0x7f) || first == '\n' || first == '\r' || first == '\t'
		       ? strlen(text)
		       : 0;
}

/* 0: of a text that is shorter than that. */
static uint32_t magic_of(const void *image)
{
	uint32_t magic = 0;

	if (!memchr(image, 0, sizeof(magic)))
		memcpy(&magic, image, sizeof(magic));
	return magic;
}

uint64_t code_image_bytes(const void *image, const void **bytes)
{
	uint32_t magic = magic_of(image);
	struct wrapper wrapper;
	struct fat fat;

	*bytes = image;
	if (magic == WRAPPER_MAGIC) {
		memcpy(&wrapper, image, sizeof(wrapper));
		*bytes = wrapper.fat;
		if (!wrapper.fat)
			return 0;
		magic = magic_of(wrapper.fat);
		if (magic != FAT_MAGIC)
			return 0;
	}
	if (magic == FAT_MAGIC) {
		memcpy(&fat, *bytes, sizeof(fat));
		return fat.header_bytes >= sizeof(fat) ? fat.header_bytes + fat.bytes : 0;
	}
	return memcmp(&magic, ELFMAG, SELFMAG) ? text_bytes(image) : elf_bytes(image);
}

/* 0: not known. */
static uint64_t image_hash(const void *image)
{
	const void *bytes;
	const uint64_t nr = code_image_bytes(image, &bytes);

	return nr ? code_hash(0, bytes, nr) : 0;
}

static uint64_t file_hash(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at = MAP_FAILED;
	struct stat status;
	uint64_t hash = 0;

	if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0)
		at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at != MAP_FAILED) {
		hash = code_hash(0, at, (uint64_t)status.st_size);
		(void)munmap(at, (size_t)status.st_size);
	}
	if (fd >= 0)
		(void)close(fd);
	return hash;
}

/* ------------------------------------------------------------------ what is loaded */

static struct loaded *find(const void *handle)
{
	for (uint32_t n = 0; n < code.nr; n++)
		if (code.loaded[n].handle == handle)
			return &code.loaded[n];
	return NULL;
}

/* A handle that is there already is one whose module went with its context. */
static void note(const struct loaded *loaded)
{
	struct loaded *at;

	pthread_mutex_lock(&code.lock);
	at = find(loaded->handle);
	if (!at && code.nr == code.max) {
		const uint32_t max = MAX(64u, 2 * code.max);
		struct loaded *more = realloc(code.loaded, max * sizeof(*more));

		if (more) {
			code.loaded = more;
			code.max = max;
		}
	}
	if (!at && code.nr < code.max)
		at = &code.loaded[code.nr++];
	if (at)
		*at = *loaded;
	pthread_mutex_unlock(&code.lock);
}

/*
 * What lies where it is until the module is unloaded is read when a kernel of it is launched:
 * libraries have gigabytes of code, and programs use little of it. What a compiler put into a
 * program lies there, and what the program says of. Other images may be freed once they are loaded.
 */
void code_loaded(const void *handle, const void *image, bool stays)
{
	if (!image)
		return;
	if (stays || magic_of(image) == WRAPPER_MAGIC)
		note(&(struct loaded){.handle = handle, .later = image});
	else
		note(&(struct loaded){.handle = handle, .hash = image_hash(image)});
}

void code_loaded_file(const void *handle, const char *path)
{
	if (path)
		note(&(struct loaded){.handle = handle, .hash = file_hash(path)});
}

void code_unload(const void *handle)
{
	struct loaded *loaded;

	pthread_mutex_lock(&code.lock);
	loaded = find(handle);
	if (loaded)
		*loaded = code.loaded[--code.nr];
	pthread_mutex_unlock(&code.lock);
}

/* The hash of the image of a module or library; 0: not known. */
static uint64_t hash_of(const void *handle)
{
	struct loaded *loaded;
	uint64_t hash;

	pthread_mutex_lock(&code.lock);
	loaded = find(handle);
	if (loaded && loaded->later) {
		loaded->hash = image_hash(loaded->later);
		loaded->later = NULL;
	}
	hash = loaded ? loaded->hash : 0;
	pthread_mutex_unlock(&code.lock);
	return hash;
}

/* ------------------------------------------------------------------ kernels */

/* A kernel of a library may be a function of a module, too, which the program did not load. */
static uint64_t image_of(cu_function function)
{
	cu_library library = NULL;
	cu_module module = NULL;
	uint64_t hash = 0;

	if (real.cuFuncGetModule && !real.cuFuncGetModule(&module, function))
		hash = hash_of(module);
	if (!hash && real.cuKernelGetLibrary && !real.cuKernelGetLibrary(&library, function))
		hash = hash_of(library);
	return hash;
}

/* One of CUfunction_attribute; -1: the driver does not say. */
static int attribute_of(cu_function function, int attribute)
{
	cu_device device;
	int value = -1;

	if (real.cuFuncGetAttribute && !real.cuFuncGetAttribute(&value, attribute, function))
		return value;
	if (real.cuKernelGetAttribute && !real.cuCtxGetDevice(&device) &&
	    !real.cuKernelGetAttribute(&value, attribute, function, device))
		return value;
	return -1;
}

uint64_t code_of(cu_function function, const struct infer_param *param, uint32_t nr,
		 bool *image_is_known)
{
	/* Bytes (shared, constant, local), registers, versions (PTX, binary): what programs cannot
	 * set. */
	static const int attributes[] = {1, 2, 3, 4, 5, 6};
	const uint64_t image = image_of(function);
	uint64_t hash = mix(0, image);

	for (size_t a = 0; a < ARRAY_LEN(attributes); a++)
		hash = mix(hash, (uint64_t)(int64_t)attribute_of(function, attributes[a]));
	hash = mix(hash, param ? nr : UINT64_MAX);
	for (uint32_t p = 0; param && p < nr; p++)
		hash = mix(mix(hash, param[p].offset), param[p].bytes);
	*image_is_known = image != 0;
	return hash;
}
