/* modelkit/page.h - pages of the verbs: HTML that needs nothing else, and what is drawn in it. */
#ifndef MODELKIT_PAGE_H
#define MODELKIT_PAGE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The frame: everything up to <body>, with the style of `inlay profile --html`; and the end. */
void page_begin(FILE *to, const char *title);
void page_end(FILE *to);
/* Text in HTML or SVG: '<', '>', '&' and quotes as entities, control characters as '?'. At most `columns` bytes and an
 * ellipsis; 0 = all. */
void page_text(FILE *to, const char *text, size_t columns);

/* Curves over one axis, as an SVG. */
typedef struct page_point {
    double x, y, low, high; /* low == high: no interval is drawn */
    bool marked;
} page_point;
typedef struct page_curve {
    char name[64];
    page_point *points; /* [count] by x */
    uint32_t count;
} page_curve;
/* log_x: powers of two along the axis. */
void page_curves(FILE *to, const char *title, const char *x_name, const char *y_name, const page_curve *curves,
                 uint32_t count, bool log_x);
#endif
