#include "shared/terminal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_COLUMNS = 80, LEAST_COLUMNS = 20, MOST_COLUMNS = 1 << 20 };

int terminal_columns(int fd)
{
    const char *text = getenv("COLUMNS");
    struct winsize size;
    long columns = text != NULL ? strtol(text, NULL, 10) : 0;

    if (columns <= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns <= 0)
        columns = USUAL_COLUMNS;
    return columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns > MOST_COLUMNS ? MOST_COLUMNS : (int)columns;
}

bool terminal_has_colours(int fd)
{
    const char *term = getenv("TERM"), *without = getenv("NO_COLOR");

    return isatty(fd) && term != NULL && strcmp(term, "dumb") != 0 && (without == NULL || without[0] == '\0');
}
