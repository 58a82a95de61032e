/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is allocated now, by address: for managers that give each tensor memory of its own. One
 * thread.
 */
#ifndef WEIR_TENSORS_H
#define WEIR_TENSORS_H

#include <stdint.h>

/* bytes = the sum over what was added and not taken. All zero: empty. */
struct tensors {
	void *tree;
	uint64_t bytes;
};

/* -ENOMEM: no memory for the note. */
int tensors_add(struct tensors *t, void *addr, uint64_t bytes);

/* Take one out. @return its bytes; 0: there is none at the address. */
uint64_t tensors_take(struct tensors *t, const void *addr);

/* The bytes of the one that an address lies in, and where it begins; 0: there is none. */
uint64_t tensors_find(const struct tensors *t, const void *addr, const void **begin);

/* Any one that is in; NULL: none is. */
void *tensors_any(const struct tensors *t);

/* Call fn for each, in order of address. */
void tensors_each(const struct tensors *t, void (*fn)(void *arg, void *addr, uint64_t bytes),
		  void *arg);

/* 0, or -EUCLEAN: bytes is not the sum. */
int tensors_check(const struct tensors *t);

#endif
