/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that a program under `weir run` takes for the CUDA driver: a shared object, made when
 * the program is started, that has the driver's name (SONAME libcuda.so.1) and exports the very
 * functions that the driver found on this machine exports. Each is a jump through a table of the
 * stub's own, which is filled at a function's first call by the library that the stub needs
 * (dropin_bind() in bind.c). It is made and not built, since no list of names that weir could carry
 * is that of the next driver.
 */
#ifndef WEIR_SHIM_STUB_H
#define WEIR_SHIM_STUB_H

#include <stddef.h>
#include <stdint.h>

/* What a stub has in its data, for who fills its table: offsets are from this header. */
struct stub_header {
	uint64_t magic;
	uint64_t nr;	 /* functions */
	int64_t slots;	 /* to nr addresses, in the order of the symbols */
	int64_t symbols; /* to Elf64_Sym of the first function, the others behind it */
	int64_t strings; /* to the table of names */
};

#define STUB_MAGIC UINT64_C(0x31627574732d7277) /* "wr-stub1" */

/* The function of the library that the stub needs; and the header, by which a stub is known. */
#define STUB_BIND "dropin_bind_entry"
#define STUB_MARK "weir_stub"

struct stub_names {
	char **name; /* sorted, each once */
	size_t nr;
};

/*
 * The functions that a driver's file exports: all whose name begins with "cu". An ELF file of this
 * processor with a table of dynamic symbols.
 *
 * @param [out] names  stub_names_free() it.
 * @param [out] err    One line on what is wrong with the file, cut to err_bytes.
 * @return 0, -EINVAL, -ENOMEM or the errno of reading it.
 */
int stub_names_read(const char *file, struct stub_names *names, char *err, size_t err_bytes);
void stub_names_free(struct stub_names *names);

/*
 * Make a stub in memory.
 *
 * @param [in]  needed  Path of the library that has STUB_BIND. Absolute.
 * @param [out] image   The file's bytes; free() it.
 * @return 0, -ENOMEM, -ENOTSUP (no such processor), or -EINVAL: no names, or far too many.
 */
int stub_make(const struct stub_names *names, const char *needed, void **image, size_t *bytes);

#endif
