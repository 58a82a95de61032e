/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read whole, up to a limit. */
#ifndef WEIR_MACHINE_FILE_READ_H
#define WEIR_MACHINE_FILE_READ_H

#include <stddef.h>

/**
 * Read what is left of a file, a pipe or a terminal. No output replaces the file afterwards: see
 * kept.h.
 *
 * @param [in]  bytes_max  More than this is an error.
 * @param [out] text       Written on success only; the caller's to free(). A NUL follows it.
 * @return 0, -EFBIG: there is more, -ENOMEM, or what read() says.
 */
int file_read(int fd, size_t bytes_max, char **text, size_t *bytes);

#endif
