/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells the code of a kernel from other code of the same name, in this process and the next: a
 * hash of the image that the program loaded it with, of what the driver says of the kernel
 * (registers, shared, constant and local memory, versions), and of its parameters' layout. Images
 * are noted as they are loaded; of what came to the driver in another way the rest has to do.
 * Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_CODE_H
#define WEIR_SHIM_CODE_H

#include "shim/hooks.h"
#include "shim/infer.h"

/*
 * The bytes of an image as the driver is given it, whose beginning says what it is and how long: an
 * ELF file, a fat binary, a text. bytes: the first of the image itself, where `image` only leads to
 * it. @return 0: another kind
 */
uint64_t code_image_bytes(const void *image, const void **bytes);

/* A hash of bytes: the same in all versions of weir and on all machines. */
uint64_t code_hash(uint64_t hash, const void *bytes, uint64_t nr);

/* A module or a library was loaded from an image, or from a file. stays: the program says
 * that the image lies where it is until code_unload(). */
void code_loaded(const void *handle, const void *image, bool stays);
void code_loaded_file(const void *handle, const char *path);

/* It is about to be unloaded. */
void code_unload(const void *handle);

/* Of a kernel of a library, or a function of a module. param: its layout; NULL: not known.
 * image_is_known: whether the image is in it. */
uint64_t code_of(cu_function function, const struct infer_param *param, uint32_t nr,
		 bool *image_is_known);

#endif
