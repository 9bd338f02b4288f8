#include "cli/terminal.h"
#include <stdlib.h>
#include <sys/ioctl.h>

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
