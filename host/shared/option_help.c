#include "shared/option_help.h"
#include "shared/terminal.h"
#include <string.h>
#include <unistd.h>

enum { READABLE = 100 /* columns of a paragraph on a wide terminal */, INDENT = 2, GAP = 2, MAX_NAME = 160 };

help_sheet help_sheet_of(FILE *to)
{
    const int width = terminal_columns(fileno(to));

    return (help_sheet){ to, isatty(fileno(to)) && width > READABLE ? READABLE : width };
}

void help_print_wrapped(const help_sheet *sheet, const char *text, const char *end, int left, int at)
{
    bool first = true;

    while (text < end) {
        const size_t word = strcspn(text, " \v\n");
        const size_t bytes = word < (size_t)(end - text) ? word : (size_t)(end - text);

        if (bytes > 0 && !first && at + 1 + (int)bytes > sheet->width) {
            (void)fprintf(sheet->to, "\n%*s", left, "");
            at = left;
            first = true;
        }
        if (bytes > 0) {
            const bool joined = first || text[0] == ';'; /* details that continue the sentence */

            (void)fprintf(sheet->to, "%s%.*s", joined ? "" : " ", (int)bytes, text);
            at += (int)bytes + (joined ? 0 : 1);
            first = false;
        }
        text += bytes + (text + bytes < end);
    }
    (void)fputc('\n', sheet->to);
}

/* The last blank of a command line at which its first `room` columns can end: not within quotes, and before an option
 * if there is one; 0: none. */
static size_t break_of(const char *line, size_t bytes, size_t room)
{
    size_t at = 0, option_at = 0;
    char quote = '\0';

    for (size_t i = 0; i < bytes && i <= room; i++) {
        if (quote != '\0')
            quote = line[i] == quote ? '\0' : quote;
        else if (line[i] == '\'' || line[i] == '"')
            quote = line[i];
        else if (line[i] == ' ' && i > INDENT && line[i - 1] != ' ')
            at = i;
        if (at == i && at > 0 && i + 1 < bytes && line[i + 1] == '-')
            option_at = i;
    }
    return option_at > 0 ? option_at : at;
}

/* Prints a command; a long one is continued after a backslash, so that it can be pasted. */
static void print_command(const help_sheet *sheet, const char *line, size_t bytes)
{
    const size_t room = (size_t)sheet->width;
    const char *continuation = "";

    while (strlen(continuation) + bytes > room) {
        const size_t at = break_of(line, bytes, room - strlen(continuation) - 2);

        if (at == 0)
            break;
        (void)fprintf(sheet->to, "%s%.*s \\\n", continuation, (int)at, line);
        line += at + 1;
        bytes -= at + 1;
        continuation = "      ";
    }
    (void)fprintf(sheet->to, "%s%.*s\n", continuation, (int)bytes, line);
}

/* Prints an indented line as it is; a wide one is wrapped at the column of its second part ("  NAME    what it is"). */
static void print_row(const help_sheet *sheet, const char *line, const char *end)
{
    const char *part = line;

    if (end - line <= sheet->width)
        part = end;
    while (part < end && *part == ' ')
        part++;
    while (part < end && (part[0] != ' ' || part[1] != ' '))
        part++;
    while (part < end && *part == ' ')
        part++;
    (void)fprintf(sheet->to, "%.*s", (int)(part - line), line);
    help_print_wrapped(sheet, part, end, (int)(part - line), (int)(part - line));
}

void help_print_text(const help_sheet *sheet, const char *text, const char *end, bool commands)
{
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;

        if (commands && text[0] == ' ')
            print_command(sheet, text, (size_t)(stop - text));
        else if (text[0] == ' ')
            print_row(sheet, text, stop);
        else
            help_print_wrapped(sheet, text, stop, 0, 0);
        text = stop + (newline != NULL);
    }
}

/* The text of an option as on the command line: "-o, --output=FILE". */
static void name_of(const struct argp_option *option, char name[MAX_NAME])
{
    const bool has_short = option->key > ' ' && option->key < 0x7f;
    const bool is_optional = (option->flags & OPTION_ARG_OPTIONAL) != 0;

    (void)snprintf(name, MAX_NAME, "%.*s--%s%s%s%s%s", has_short ? 4 : 0,
                   (char[]){ '-', has_short ? (char)option->key : ' ', ',', ' ', '\0' }, option->name,
                   is_optional ? "[" : "", option->arg != NULL ? "=" : "", option->arg != NULL ? option->arg : "",
                   is_optional ? "]" : "");
}

static int text_column(const help_sheet *sheet, const struct argp_option *options)
{
    const int most = sheet->width * 3 / 8;
    char name[MAX_NAME];
    int column = 0;

    for (; options->name != NULL; options++) {
        int used;

        if ((options->flags & OPTION_HIDDEN) != 0)
            continue;
        name_of(options, name);
        used = INDENT + (int)strlen(name) + GAP;
        column = used > column && used <= most ? used : column;
    }
    return column > 0 ? column : most;
}

void help_print_options(const help_sheet *sheet, const char *title, const struct argp_option *options, bool all)
{
    int column;

    if (options == NULL || options->name == NULL)
        return;
    column = text_column(sheet, options);
    (void)fputc('\n', sheet->to);
    help_print_wrapped(sheet, title, title + strlen(title), 0, 0);
    for (; options->name != NULL; options++) {
        size_t bytes;
        char name[MAX_NAME];

        if ((options->flags & OPTION_HIDDEN) != 0)
            continue;
        bytes = all ? strlen(options->doc) : strcspn(options->doc, "\v");
        name_of(options, name);
        (void)fprintf(sheet->to, "%*s%s", INDENT, "", name);
        if (INDENT + (int)strlen(name) + GAP > column)
            (void)fprintf(sheet->to, "\n%*s", column, "");
        else
            (void)fprintf(sheet->to, "%*s", column - INDENT - (int)strlen(name), "");
        help_print_wrapped(sheet, options->doc, options->doc + bytes, column, column);
    }
}
