#include "cli/help.h"
#include "cli/terminal.h"
#include <string.h>
#include <unistd.h>

enum { READABLE = 100 /* columns of a paragraph on a wide terminal */, INDENT = 2, GAP = 2, MAX_NAME = 160 };

/* Where the text goes. */
typedef struct help_sheet {
    FILE *to;
    int width;
} help_sheet;

static int page_width(FILE *to)
{
    const int width = terminal_columns(fileno(to));

    return isatty(fileno(to)) && width > READABLE ? READABLE : width;
}

/* Prints [text, end) in lines that begin at column `left`; the cursor is at column `at`. */
static void print_wrapped(const help_sheet *sheet, const char *text, const char *end, int left, int at)
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
            (void)fprintf(sheet->to, "%s%.*s", first ? "" : " ", (int)bytes, text);
            at += (int)bytes + (first ? 0 : 1);
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
    print_wrapped(sheet, part, end, (int)(part - line), (int)(part - line));
}

/* Prints [text, end): indented lines are commands, or stay as they are; others are paragraphs. */
static void print_text(const help_sheet *sheet, const char *text, const char *end, bool commands)
{
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;

        if (commands && text[0] == ' ')
            print_command(sheet, text, (size_t)(stop - text));
        else if (text[0] == ' ')
            print_row(sheet, text, stop);
        else
            print_wrapped(sheet, text, stop, 0, 0);
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

static void print_options(const help_sheet *sheet, const char *title, const struct argp_option *options, bool all)
{
    int column;

    if (options == NULL || options->name == NULL)
        return;
    column = text_column(sheet, options);
    (void)fputc('\n', sheet->to);
    print_wrapped(sheet, title, title + strlen(title), 0, 0);
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
        print_wrapped(sheet, options->doc, options->doc + bytes, column, column);
    }
}

void help_print_usage(const help_page *page, FILE *to)
{
    const char *words = page->verb->words != NULL ? page->verb->words : "";
    const char *lead = "Usage:";

    do {
        const size_t bytes = strcspn(words, "\n");

        (void)fprintf(to, "%s %s [OPTION...]%s%.*s\n", lead, page->name, bytes > 0 ? " " : "", (int)bytes, words);
        words += bytes + (words[bytes] == '\n');
        lead = "  or: ";
    } while (*words != '\0');
}

static uint32_t count_of(const struct argp_option *options)
{
    uint32_t count = 0;

    while (options != NULL && options[count].name != NULL)
        count++;
    return count;
}

/* What --help leaves out, and where it is. */
static void print_rest(const help_sheet *sheet, const help_page *help)
{
    char text[512];
    int used = 0;

    if (help->common != NULL)
        used += snprintf(text, sizeof text, "Also: --json, --quiet, --verbose");
    if (help->session != NULL)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         ", and %u session options such as --providers, --dim and --intra-threads",
                         count_of(help->session));
    used += snprintf(text + used, sizeof text - (size_t)used, "%sEverything: `%s --help-all`.", used > 0 ? ". " : "",
                     help->name);
    (void)fputc('\n', sheet->to);
    print_wrapped(sheet, text, text + used, 0, 0);
}

void help_print(const help_page *help, bool all, FILE *to)
{
    static const char examples_title[] = "Examples:\n";
    const help_sheet sheet = { to, page_width(to) };
    const char *about = help->verb->doc, *details = strchr(about, '\v'), *end = about + strlen(about);
    const char *about_end = details != NULL ? details : end;
    const char *examples, *examples_end;

    details = details != NULL ? details + 1 : end;
    examples = strstr(details, examples_title);
    examples = examples != NULL ? examples : end;
    examples_end = strstr(examples, "\n\n");
    examples_end = examples_end != NULL ? examples_end + 1 : end;

    help_print_usage(help, to);
    (void)fputc('\n', to);
    print_text(&sheet, about, about_end, false);
    (void)fputc('\n', to);
    print_text(&sheet, examples, examples_end, true);
    if (all && examples > details) {
        (void)fputc('\n', to);
        print_text(&sheet, details, examples - (examples[-1] == '\n' && examples - 1 > details), false);
    }
    if (all && examples_end < end)
        print_text(&sheet, examples_end, end, false);
    print_options(&sheet, "Options:", help->own, all);
    if (all)
        print_options(&sheet, "Common options:", help->common, all);
    if (all)
        print_options(&sheet,
                      "Session options (also in inlay.yaml, and as INLAY_<NAME> in the environment):", help->session,
                      all);
    if (!all)
        print_rest(&sheet, help);
}
