/* explain/text.h - what the files of the text share; private to this folder. */
#ifndef EXPLAIN_TEXT_H
#define EXPLAIN_TEXT_H
#include "explain/internal.h"

/* The page that is being written. */
struct page {
    const struct facts *facts;
    const explain_sink *sink;
    int columns;
    int names; /* width of providers' names */
    bool all;
    bool measured;
    uint32_t source; /* where all prices come from; INLAY_NONE: from here and there */
};

/* The table of stretches, of bodies too. */
void text_stretches(const struct page *page);

/* "1.07x", "-" when one of the two is nothing. */
static inline const char *text_ratio(double measured, double predicted, char text[NICE_BYTES])
{
    if (measured > 0 && measured / 999 >= predicted)
        (void)snprintf(text, NICE_BYTES, ">999x");
    else if (measured > 0 && predicted > 0)
        (void)snprintf(text, NICE_BYTES, measured / predicted < 9.995 ? "%.2fx" : "%.0fx", measured / predicted);
    else
        (void)snprintf(text, NICE_BYTES, "-");
    return text;
}
#endif
