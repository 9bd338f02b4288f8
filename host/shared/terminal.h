/* shared/terminal.h - the size and the colours of the terminal. */
#ifndef SHARED_TERMINAL_H
#define SHARED_TERMINAL_H
#include <stdbool.h>

/* Returns the width of text written to file descriptor fd: COLUMNS of the environment, or else the terminal's, or else
 * 80. Always at least 20. */
int terminal_columns(int fd);
/* Whether file descriptor fd is a terminal that can show colours, and NO_COLOR is not set. */
bool terminal_has_colours(int fd);
#endif
