/* cli/terminal.h - the size of the terminal. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

/* Width for the text that goes to file descriptor fd: COLUMNS of the environment, or else the terminal's, or else 80.
 * Always at least 20. */
int terminal_columns(int fd);
#endif
