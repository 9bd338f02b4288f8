/* shared/option_help.h - prints the options of a program for --help. argp parses options, but its own printer misplaces
 * blanks and ends of lines in long texts. */
#ifndef SHARED_OPTION_HELP_H
#define SHARED_OPTION_HELP_H
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

/* Where help texts are printed, and how wide. */
typedef struct help_sheet {
    FILE *to;
    int width; /* columns */
} help_sheet;

/* A sheet as wide as the terminal, or as COLUMNS. */
help_sheet help_sheet_of(FILE *to);
/* Prints [text, end) in lines that begin at column `left`; the cursor is at column `at`. */
void help_print_wrapped(const help_sheet *sheet, const char *text, const char *end, int left, int at);
/* Prints [text, end): indented lines are commands, or are printed unchanged; others are paragraphs. */
void help_print_text(const help_sheet *sheet, const char *text, const char *end, bool commands);
/* Prints a title and the options, a list that ends with {0}; NULL or empty: nothing. all: also what follows '\v' in
 * their texts. */
void help_print_options(const help_sheet *sheet, const char *title, const struct argp_option *options, bool all);
#endif
