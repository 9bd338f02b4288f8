#include "cli/help.h"
#include "shared/option_help.h"
#include <string.h>

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

    for (; options != NULL && options->name != NULL; options++)
        count += (options->flags & OPTION_HIDDEN) == 0;
    return count;
}

/* The options that --help omits, and where they are listed. */
static void print_rest(const help_sheet *sheet, const help_page *help)
{
    char text[512];
    int used = 0;

    if (help->common != NULL)
        used += snprintf(text, sizeof text, "Also: --json, --quiet, --verbose");
    if (help->session != NULL)
        used += snprintf(text + used, sizeof text - (size_t)used, ", and %u session options%s", count_of(help->session),
                         help->has_all_session ? " such as --providers, --dim and --intra-threads" : "");
    used += snprintf(text + used, sizeof text - (size_t)used, "%sEverything: `%s --help-all`.", used > 0 ? ". " : "",
                     help->name);
    (void)fputc('\n', sheet->to);
    help_print_wrapped(sheet, text, text + used, 0, 0);
}

void help_print(const help_page *help, bool all, FILE *to)
{
    static const char examples_title[] = "Examples:\n";
    const help_sheet sheet = help_sheet_of(to);
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
    help_print_text(&sheet, about, about_end, false);
    (void)fputc('\n', to);
    help_print_text(&sheet, examples, examples_end, true);
    if (all && examples > details) {
        (void)fputc('\n', to);
        help_print_text(&sheet, details, examples - (examples[-1] == '\n' && examples - 1 > details), false);
    }
    if (all && examples_end < end)
        help_print_text(&sheet, examples_end, end, false);
    help_print_options(&sheet, "Options:", help->own, all);
    if (all)
        help_print_options(&sheet, "Common options:", help->common, all);
    if (all)
        help_print_options(&sheet,
                           help->has_all_session
                               ? "Session options (also in inlay.yaml, and as INLAY_<NAME> in the environment):"
                               : "Its session options (also in inlay.yaml, and as INLAY_<NAME> in the environment):",
                           help->session, all);
    if (!all)
        print_rest(&sheet, help);
}
