/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gnuplot as a child process: one run draws all pictures of a page, in a temporary folder that is
 * gone afterwards; and its SVG made fit for a page.
 */
#ifndef WEIR_CLI_REPORT_PLOT_H
#define WEIR_CLI_REPORT_PLOT_H

#include <stddef.h>
#include <stdio.h>

struct plot {
	char *dir;    /* owned; NULL: not open */
	FILE *script; /* commands go here */
};

/* Make the folder. On error (negative errno; err has one line) nothing is left to undo. */
int plot_open(struct plot *plot, char *err, size_t err_bytes);

/* The path of a file in the folder. The caller's to free(); NULL: no memory. */
char *plot_path(const struct plot *plot, const char *name);

/**
 * Have gnuplot do what the script says.
 *
 * @param [in]  timeout_s  It is killed after that.
 * @param [out] err        One line. Written on error.
 * @return 0; -ENOENT: it is missing; -ETIMEDOUT; -EIO: it failed; -EINTR: a signal asked to stop
 *   (interrupt_pending()), it was killed; or what starting a process says.
 */
int plot_run(struct plot *plot, double timeout_s, char *err, size_t err_bytes);

/* Remove the folder and what is in it. A zeroed one is allowed. */
void plot_close(struct plot *plot);

/**
 * gnuplot's SVG for use inside a page: colours by name, no ids, title and description for those who
 * cannot see it. Marks are references into plot_svg_marks(), which a page has once.
 *
 * @param [in]  id     For the ids of title and description.
 * @param [in]  about  A text of any characters.
 * @return 0, or -EIO: this is no SVG of gnuplot's.
 */
int plot_svg_write(FILE *out, const char *svg, const char *id, const char *css_class,
		   const char *title, const char *about);

/* The shapes that marks refer to, from any of gnuplot's SVGs. -EIO: as above. */
int plot_svg_marks(FILE *out, const char *svg);

/* Write a text with the characters that mean something in HTML and XML escaped. */
void html_text(FILE *out, const char *text);

#endif
