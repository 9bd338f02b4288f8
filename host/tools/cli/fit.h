/* cli/fit.h - fits what a verb prints to the width of the terminal.
 *
 * Tables keep their columns: gaps become narrower, then the longest texts of the widest columns are shortened in the
 * middle, then the last columns are left out. Other lines are wrapped at words. Output to a file or a pipe is not
 * changed, unless COLUMNS is set. */
#ifndef CLI_FIT_H
#define CLI_FIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* From this call on, standard output is collected, and printed in the width of the terminal by fit_flush() and at the
 * end of the process. No-op if its width does not matter. */
void fit_begin(void);
/* Prints the collected text; for text that should be seen now, and before writing to stderr. Otherwise fflush(). */
void fit_flush(void);

/* The width that standard output is fitted to; 0: it is not. */
int fit_columns(void);
/* Restores standard output, before another program replaces this one. A signal handler may call
 * it. */
void fit_restore(void);

/* Writes text[bytes] to a stream in lines of at most `width` columns. A word longer than a line stays whole. colours:
 * titles of tables are bold, and the results of checks have colours. */
void fit_text(const char *text, size_t bytes, int width, bool colours, FILE *to);
#endif
