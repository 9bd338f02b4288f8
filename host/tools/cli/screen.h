/* cli/screen.h - what a verb prints, in the width of the terminal: wider lines are wrapped at words. Tables fit into it
 * by themselves (tables/table.h). Output to a file or a pipe is not changed, unless COLUMNS is set. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H
#include "tables/words.h"
#include <stdio.h>

/* From this call on, standard output is collected, and printed in the width of the terminal by screen_flush() and at
 * the end of the process. No-op if its width does not matter. */
void screen_begin(void);
/* Prints the collected text; for text that should be seen now, and before writing to stderr. Otherwise fflush(). */
void screen_flush(void);
/* Restores standard output, before another program replaces this one. A signal handler may call it. */
void screen_restore(void);

/* From this call on, standard output is no longer collected, for texts that come in pieces. */
void screen_end(void);

/* Standard output as a sink of tables. */
explain_sink screen_sink(void);

/* Writes text[bytes] to a stream in lines of at most `width` columns. A word longer than a line stays whole. */
void screen_wrap(const char *text, size_t bytes, int width, FILE *to);
#endif
