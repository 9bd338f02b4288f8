/* explain/text.h - shared by the files that write text; private to this folder. */
#ifndef EXPLAIN_TEXT_H
#define EXPLAIN_TEXT_H
#include "tables/table.h"
#include "explain/internal.h"

/* The text that is being written. */
struct text_page {
    const struct facts *facts;
    const explain_sink *sink;
    bool all;
    bool measured;
    uint32_t source; /* common source of all prices; INLAY_NONE: the sources differ */
};

/* Writes the table in lines of the page, and releases it. */
static inline void text_table(const struct text_page *page, struct table *table)
{
    table_write(table, page->sink);
    table_deinit(table);
}
/* The table of stretches, including those of bodies. */
void text_stretches(const struct text_page *page);
/* The table of times on other numbers of threads. */
void text_scaling(const struct text_page *page, const facts_scale *scales);
/* The expected time of each module; nothing if the file names no modules. */
void text_modules(const struct text_page *page);

/* measured / predicted: "1.07x", or "-" if one of them is zero or unknown. */
static inline const char *text_ratio(double measured, double predicted, char text[FORMATTED_BYTES])
{
    if (measured > 0 && measured / 999 >= predicted)
        (void)snprintf(text, FORMATTED_BYTES, ">999x");
    else if (measured > 0 && predicted > 0)
        (void)snprintf(text, FORMATTED_BYTES, measured / predicted < 9.995 ? "%.2fx" : "%.0fx", measured / predicted);
    else
        (void)snprintf(text, FORMATTED_BYTES, "-");
    return text;
}
#endif
