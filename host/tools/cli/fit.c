#include "cli/fit.h"
#include "base/terminal.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAX_LINE = 4096,    /* columns; longer lines are wrapped, not part of a table */
    MAX_SEGMENTS = 512, /* columns of a table */
    LEAST_CELL = 12,    /* columns to which texts are shortened at most ... */
    LEAST_NAME = 24,    /* ... and those of the widest column, usually names */
    SENTENCE = 6,       /* words of a text that is wrapped, not shortened */
    HANGING = 2         /* more indentation of a continued line */
};

static const char CUT[] = "..";
static const char ESCAPE = '\033';
static const char BOLD[] = "\033[1m", PLAIN[] = "\033[0m";

/* A line without its newline. */
typedef struct fit_line {
    const char *text;
    size_t bytes;
} fit_line;

/* Columns of UTF-8 text: continuation bytes have none, nor have the sequences of colours, ESC [ ... m. */
static int columns_of(const char *text, size_t bytes)
{
    bool escape = false;
    int count = 0;

    for (size_t i = 0; i < bytes; i++) {
        escape = escape || text[i] == ESCAPE;
        count += !escape && ((unsigned char)text[i] & 0xc0) != 0x80;
        escape = escape && text[i] != 'm';
    }
    return count;
}

/* Writes the words of a line from byte `at` on, which is at `column`; further lines begin at column `left`. */
static void wrap_words(fit_line line, size_t at, int column, int left, int width, FILE *to)
{
    while (at < line.bytes) {
        size_t blanks = 0, word = 0;

        while (at + blanks < line.bytes && line.text[at + blanks] == ' ')
            blanks++;
        while (at + blanks + word < line.bytes && line.text[at + blanks + word] != ' ')
            word++;
        if (column > left && column + (int)blanks + columns_of(line.text + at + blanks, word) > width) {
            (void)fprintf(to, "\n%*s", left, "");
            column = left;
        } else {
            (void)fprintf(to, "%*s", (int)blanks, "");
            column += (int)blanks;
        }
        (void)fwrite(line.text + at + blanks, 1, word, to);
        column += columns_of(line.text + at + blanks, word);
        at += blanks + word;
    }
}

/* Continues at column `left`; 0: after the indentation. */
static void wrap(fit_line line, int left, int width, FILE *to)
{
    size_t lead = 0;

    while (lead < line.bytes && line.text[lead] == ' ')
        lead++;
    left = left > 0 ? left : (int)lead + HANGING;
    left = left < width / 2 ? left : HANGING;
    (void)fprintf(to, "%.*s", (int)lead, line.text);
    wrap_words(line, lead, (int)lead, left, width, to);
}

/* A part of all lines of a table between columns that are blank in each of them. */
struct segment {
    int begin, end;
    int width; /* to print */
    int gap;   /* blanks before it */
    int head;  /* columns before the cut of a shortened text */
};

struct table {
    const fit_line *lines;
    size_t count;
    struct segment segments[MAX_SEGMENTS];
    uint32_t segment_count;
    int gaps;   /* of the first line */
    bool wraps; /* the last column is wrapped */
};

static int longest(const fit_line *lines, size_t count)
{
    size_t most = 0;

    for (size_t i = 0; i < count; i++)
        most = lines[i].bytes > most ? lines[i].bytes : most;
    return (int)most;
}

/* Which columns of some lines have text, and which are in a gap of at least one of them. */
struct ruler {
    bool used[MAX_LINE + 1], gap[MAX_LINE + 1];
};

/* The parts between blank columns; a blank between words of all lines that is no gap of any separates nothing. */
static uint32_t split(const struct ruler *ruler, struct segment segments[MAX_SEGMENTS])
{
    uint32_t count = 0;
    bool separated = true;

    for (int column = 0; column < MAX_LINE; column++) {
        separated = separated || (!ruler->used[column] && ruler->gap[column]);
        if (ruler->used[column] && separated) {
            if (count == MAX_SEGMENTS)
                break;
            segments[count] =
                (struct segment){ .begin = column, .gap = column - (count > 0 ? segments[count - 1].end : 0) };
            count++;
            separated = false;
        }
        if (ruler->used[column])
            segments[count - 1].end = column + 1;
    }
    return count;
}

/* The next gap between two parts of a line, from column *at on: at least two blanks. *at and *end are its columns. */
static bool next_gap(fit_line line, int *at, int *end)
{
    int column = *at;

    if (column == 0) /* the indentation is no gap */
        while (column < (int)line.bytes && line.text[column] == ' ')
            column++;
    for (; column < (int)line.bytes; column = *end) {
        while (column < (int)line.bytes && line.text[column] != ' ')
            column++;
        *at = *end = column;
        while (*end < (int)line.bytes && line.text[*end] == ' ')
            ++*end;
        if (*end - *at >= 2 && *end < (int)line.bytes)
            return true;
    }
    return false;
}

/* Adds a line. Returns how many gaps it has; -1: a gap is where other lines have text. */
static int mark(fit_line line, struct ruler *ruler)
{
    int count = 0, at = 0, end = 0;

    for (int column = 0; column < (int)line.bytes; column++)
        ruler->used[column] = ruler->used[column] || line.text[column] != ' ';
    for (; next_gap(line, &at, &end); at = end) {
        bool blank = false;

        for (int column = at; column < end; column++) {
            blank = blank || !ruler->used[column];
            ruler->gap[column] = true;
        }
        if (!blank)
            return -1;
        count++;
    }
    return count;
}

static bool is_plain(fit_line line)
{
    for (size_t i = 0; i < line.bytes; i++)
        if ((unsigned char)line.text[i] >= 0x80 || line.text[i] == ESCAPE)
            return false;
    return line.bytes <= MAX_LINE;
}

/* How many of the lines, from the first, form a table: lines whose gaps are blank in all of them, and which together
 * have most of the columns of the first one. 1: none. */
static size_t table_lines(const fit_line *lines, size_t count, struct table *out)
{
    static struct ruler ruler, next;
    size_t rows = 0;

    ruler = (struct ruler){ { false }, { false } };
    *out = (struct table){ .lines = lines };
    while (rows < count && lines[rows].bytes > 0 && is_plain(lines[rows])) {
        int gaps;

        next = ruler;
        gaps = mark(lines[rows], &next);
        if (gaps < 1 || (rows > 0 && (int)split(&next, out->segments) * 5 < (out->gaps + 1) * 3))
            break;
        out->gaps = rows == 0 ? gaps : out->gaps;
        ruler = next;
        rows++;
    }
    out->count = rows;
    out->segment_count = split(&ruler, out->segments);
    return rows > 1 ? rows : 1;
}

static int total_width(const struct table *table)
{
    int total = 0;

    for (uint32_t i = 0; i < table->segment_count; i++)
        total += table->segments[i].gap + table->segments[i].width;
    return total;
}

/* Whether a column has words below its title, which can be shortened; numbers and their units cannot. */
static bool has_texts(const struct table *table, const struct segment *segment)
{
    enum { WORD = 4 };

    for (size_t i = 1; i < table->count; i++) {
        const fit_line line = table->lines[i];
        int letters = 0;

        for (int column = segment->begin; column < segment->end && column < (int)line.bytes; column++) {
            letters = isalpha((unsigned char)line.text[column]) ? letters + 1 : 0;
            if (letters == WORD)
                return true;
        }
    }
    return false;
}

/* The part of a line in a segment, without blanks around it. */
static fit_line cell_of(fit_line line, const struct segment *segment)
{
    int begin = segment->begin, end = segment->end;

    end = end > (int)line.bytes ? (int)line.bytes : end;
    while (begin < end && line.text[begin] == ' ')
        begin++;
    while (begin < end && line.text[end - 1] == ' ')
        end--;
    return (fit_line){ line.text + (begin < end ? begin : 0), begin < end ? (size_t)(end - begin) : 0 };
}

/* Whether the last column has sentences, such as reasons. They are wrapped; names are shortened. */
static bool has_sentences(const struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const fit_line cell = cell_of(table->lines[i], &table->segments[table->segment_count - 1]);
        int words = 0;

        for (size_t k = 0; k < cell.bytes; k++)
            words += isalpha((unsigned char)cell.text[k]) && (k == 0 || cell.text[k - 1] == ' ');
        if (words >= SENTENCE)
            return true;
    }
    return false;
}

/* The widest column of texts that are longer than `least`; NULL: none. */
static struct segment *widest_texts(struct table *table, const struct segment *except, int least)
{
    struct segment *widest = NULL;

    for (uint32_t i = 0; i < table->segment_count; i++) {
        struct segment *segment = &table->segments[i];

        if (segment != except && !(table->wraps && i + 1 == table->segment_count) && segment->width > least &&
            (widest == NULL || segment->width > widest->width) && has_texts(table, segment))
            widest = segment;
    }
    return widest;
}

static void choose_widths(struct table *table, int width)
{
    struct segment *names;

    for (uint32_t i = 0; i < table->segment_count; i++)
        table->segments[i].width = table->segments[i].end - table->segments[i].begin;
    while (total_width(table) > width) {
        struct segment *far = &table->segments[0];

        for (uint32_t i = 1; i < table->segment_count; i++)
            far = far == &table->segments[0] || table->segments[i].gap > far->gap ? &table->segments[i] : far;
        if (far == &table->segments[0] || far->gap <= 1)
            break;
        far->gap--;
    }
    if (table->wraps && total_width(table) > width) {
        struct segment *last = &table->segments[table->segment_count - 1];
        const int room = width - (total_width(table) - last->width);

        last->width = room > LEAST_NAME ? room : LEAST_NAME < last->width ? LEAST_NAME : last->width;
    }
    names = widest_texts(table, NULL, 0);
    while (total_width(table) > width) {
        struct segment *widest = widest_texts(table, names, LEAST_CELL);

        if (names != NULL && names->width > LEAST_NAME && (widest == NULL || names->width > widest->width))
            names->width--;
        else if (widest != NULL)
            widest->width--;
        else if (table->segment_count > 1 && !table->wraps)
            table->segment_count--;
        else
            break;
    }
}

/* Writes a text in `width` columns: with a cut after `head` columns if it is longer. Returns its width. */
static int shorten(fit_line cell, int width, int head, char *out)
{
    if ((int)cell.bytes <= width) {
        memcpy(out, cell.text, cell.bytes);
        return (int)cell.bytes;
    }
    while ((int)cell.bytes > width && cell.text[0] == '.') { /* it was shortened before */
        cell.text++;
        cell.bytes--;
    }
    while ((int)cell.bytes > width && cell.text[cell.bytes - 1] == '.')
        cell.bytes--;
    memcpy(out, cell.text, (size_t)head);
    memcpy(out + head, CUT, strlen(CUT));
    memcpy(out + head + strlen(CUT), cell.text + cell.bytes - ((size_t)(width - head) - strlen(CUT)),
           (size_t)(width - head) - strlen(CUT));
    return width;
}

/* How many texts look like the text above, although they differ from it. */
static uint32_t count_alike(const struct table *table, const struct segment *segment, int head)
{
    uint32_t count = 0;

    for (size_t i = 1; i < table->count; i++) {
        const fit_line above = cell_of(table->lines[i - 1], segment), below = cell_of(table->lines[i], segment);
        char texts[2][MAX_LINE];
        const int widths[2] = { shorten(above, segment->width, head, texts[0]),
                                shorten(below, segment->width, head, texts[1]) };

        count += widths[0] == widths[1] && memcmp(texts[0], texts[1], (size_t)widths[0]) == 0 &&
                 (above.bytes != below.bytes || memcmp(above.text, below.text, above.bytes) != 0);
    }
    return count;
}

/* Cuts in the middle, unless texts then look the same and another place of the cut keeps more of them apart. */
static void choose_cut(const struct table *table, struct segment *segment)
{
    static const int eighths[] = { 4, 5, 3, 6, 2, 7, 1 };
    const int room = segment->width - (int)strlen(CUT);
    uint32_t fewest = UINT32_MAX;

    for (size_t i = 0; i < sizeof eighths / sizeof eighths[0] && fewest > 0; i++) {
        const uint32_t alike = count_alike(table, segment, room * eighths[i] / 8);

        if (alike < fewest) {
            segment->head = room * eighths[i] / 8;
            fewest = alike;
        }
    }
}

/* Prints a cell; *at is the column of the cursor. */
static void print_cell(fit_line line, const struct segment *segment, int left, int *at, FILE *to)
{
    const fit_line cell = cell_of(line, segment);
    const int begin = (int)(cell.text - line.text), end = begin + (int)cell.bytes;
    char text[MAX_LINE];
    int shown, space;

    if (cell.bytes == 0)
        return;
    shown = shorten(cell, segment->width, segment->head, text);
    space = segment->width - shown;
    if (end == segment->end && begin > segment->begin) /* at the right edge */
        left += space;
    else
        left += begin - segment->begin < space ? begin - segment->begin : space;
    (void)fprintf(to, "%*s%.*s", left - *at, "", shown, text);
    *at = left + shown;
}

/* Prints the last cell of a line with as many lines as it needs; at is the column of the cursor. */
static void print_sentence(fit_line line, const struct segment *segment, int left, int at, FILE *to)
{
    const fit_line cell = cell_of(line, segment);

    if (cell.bytes == 0)
        return;
    (void)fprintf(to, "%*s", left - at, "");
    wrap_words(cell, 0, left, left, left + segment->width, to);
}

static void print_table(struct table *table, int width, bool colours, FILE *to)
{
    uint32_t sentences; /* that column */

    table->wraps = has_sentences(table);
    choose_widths(table, width);
    if (table->wraps && total_width(table) > width) {
        table->wraps = false;
        choose_widths(table, width);
    }
    sentences = table->wraps ? table->segment_count - 1 : UINT32_MAX;
    for (uint32_t k = 0; k < table->segment_count; k++)
        if (k != sentences && table->segments[k].width < table->segments[k].end - table->segments[k].begin)
            choose_cut(table, &table->segments[k]);
    for (size_t i = 0; i < table->count; i++) {
        int left = 0, at = 0;

        (void)fputs(colours && i == 0 ? BOLD : "", to);
        for (uint32_t k = 0; k < table->segment_count; k++) {
            left += table->segments[k].gap;
            if (k == sentences)
                print_sentence(table->lines[i], &table->segments[k], left, at, to);
            else
                print_cell(table->lines[i], &table->segments[k], left, &at, to);
            left += table->segments[k].width;
        }
        (void)fprintf(to, "%s\n", colours && i == 0 ? PLAIN : "");
    }
}

static fit_line *lines_of(const char *text, size_t bytes, size_t *out_count)
{
    const char *end = text + bytes;
    size_t count = 0;
    fit_line *lines;

    for (const char *c = text; c < end; c++)
        count += *c == '\n';
    lines = calloc(count + 1, sizeof *lines);
    *out_count = 0;
    while (lines != NULL && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;

        lines[(*out_count)++] = (fit_line){ text, (size_t)(stop - text) };
        text = stop + 1;
    }
    return lines;
}

/* Whether the lines are names with texts that can be wrapped, not a table. */
static bool is_list(const struct table *table)
{
    return table->gaps == 1 && has_texts(table, &table->segments[table->segment_count - 1]);
}

/* The colour of a line that begins with the result of a check; "" = none. */
static const char *colour_of(fit_line line)
{
    static const struct {
        const char *word, *colour;
    } results[] = { { "PASS ", "\033[32m" }, { "FAIL ", "\033[31m" }, { "WARN ", "\033[33m" } };

    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (line.bytes > strlen(results[i].word) && memcmp(line.text, results[i].word, strlen(results[i].word)) == 0)
            return results[i].colour;
    return "";
}

static void print_line(fit_line line, int left, int width, const char *colour, FILE *to)
{
    (void)fputs(colour, to);
    if (columns_of(line.text, line.bytes) > width)
        wrap(line, left, width, to);
    else
        (void)fprintf(to, "%.*s", (int)line.bytes, line.text);
    (void)fprintf(to, "%s\n", colour[0] != '\0' ? PLAIN : "");
}

void fit_text(const char *text, size_t bytes, int width, bool colours, FILE *to)
{
    size_t count = 0;
    fit_line *lines = lines_of(text, bytes, &count);

    if (lines == NULL) { /* no memory: unchanged */
        (void)fwrite(text, 1, bytes, to);
        return;
    }
    for (size_t i = 0, rows; i < count; i += rows) {
        static struct table found;

        rows = table_lines(&lines[i], count - i, &found);
        if (rows > 1 && !is_list(&found) && longest(&lines[i], rows) > width) {
            print_table(&found, width, colours, to);
            continue;
        }
        for (size_t k = i; k < i + rows; k++)
            print_line(lines[k], rows > 1 ? found.segments[1].begin : 0, width,
                       !colours                                 ? ""
                       : k == i && rows > 1 && !is_list(&found) ? BOLD
                                                                : colour_of(lines[k]),
                       to);
    }
    free(lines);
}

static int collected = -1; /* the file behind descriptor 1 while output is collected */
static int real = -1;      /* the descriptor that it replaced */
static int columns;
static bool coloured;

int fit_columns(void)
{
    return columns;
}

void fit_restore(void)
{
    if (real >= 0)
        (void)dup2(real, STDOUT_FILENO);
}

void fit_flush(void)
{
    off_t bytes;
    char *text;

    (void)fflush(stdout);
    bytes = collected >= 0 ? lseek(collected, 0, SEEK_END) : 0;
    if (bytes <= 0)
        return;
    text = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, collected, 0);
    fit_restore();
    if (text != MAP_FAILED) {
        fit_text(text, (size_t)bytes, columns, coloured, stdout);
        (void)munmap(text, (size_t)bytes);
    }
    (void)fflush(stdout);
    (void)!ftruncate(collected, 0);
    (void)lseek(collected, 0, SEEK_SET);
    (void)dup2(collected, STDOUT_FILENO);
}

static void finish(void)
{
    fit_flush();
    fit_restore();
}

void fit_begin(void)
{
    if (collected >= 0 || (getenv("COLUMNS") == NULL && !isatty(STDOUT_FILENO)))
        return;
    columns = terminal_columns(STDOUT_FILENO);
    coloured = terminal_has_colours(STDOUT_FILENO);
    collected = memfd_create("stdout", MFD_CLOEXEC);
    real = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (collected < 0 || real < 0 || fflush(stdout) != 0 || dup2(collected, STDOUT_FILENO) < 0 || atexit(finish) != 0) {
        fit_restore();
        collected = -1;
    }
}
