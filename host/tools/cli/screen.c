#include "cli/screen.h"
#include "shared/terminal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void screen_wrap(const char *text, size_t bytes, int width, FILE *to)
{
    const explain_sink sink = { say_to_file, to, width, false };
    const char *end = text + bytes;

    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;

        if (text_columns(text, (size_t)(stop - text)) > width)
            say_line(&sink, text, (size_t)(stop - text), 0);
        else
            (void)fprintf(to, "%.*s\n", (int)(stop - text), text);
        text = stop + 1;
    }
}

static int collected = -1; /* the file behind descriptor 1 while output is collected */
static int real = -1;      /* the descriptor that it replaced */
static int columns;        /* 0: of any number */
static bool coloured;

explain_sink screen_sink(void)
{
    return (explain_sink){ say_to_file, stdout, columns, coloured };
}

void screen_restore(void)
{
    if (real >= 0)
        (void)dup2(real, STDOUT_FILENO);
}

void screen_flush(void)
{
    off_t bytes;
    char *text;

    (void)fflush(stdout);
    bytes = collected >= 0 ? lseek(collected, 0, SEEK_END) : 0;
    if (bytes <= 0)
        return;
    text = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, collected, 0);
    screen_restore();
    if (text != MAP_FAILED) {
        screen_wrap(text, (size_t)bytes, columns, stdout);
        (void)munmap(text, (size_t)bytes);
    }
    (void)fflush(stdout);
    (void)!ftruncate(collected, 0);
    (void)lseek(collected, 0, SEEK_SET);
    (void)dup2(collected, STDOUT_FILENO);
}

void screen_end(void)
{
    screen_flush();
    screen_restore();
    if (collected >= 0)
        (void)close(collected);
    if (real >= 0)
        (void)close(real);
    collected = real = -1;
}

void screen_begin(void)
{
    if (collected >= 0 || (getenv("COLUMNS") == NULL && !isatty(STDOUT_FILENO)))
        return;
    columns = terminal_columns(STDOUT_FILENO);
    coloured = terminal_has_colours(STDOUT_FILENO);
    collected = memfd_create("stdout", MFD_CLOEXEC);
    real = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (collected < 0 || real < 0 || fflush(stdout) != 0 || dup2(collected, STDOUT_FILENO) < 0 ||
        atexit(screen_end) != 0) {
        screen_restore();
        collected = -1;
    }
}
