/* report/page.h - pages of the verbs: HTML that needs nothing else, and what is drawn in it. */
#ifndef MODELKIT_PAGE_H
#define MODELKIT_PAGE_H
#include "inlay/inlay.h"
#include <stdbool.h>
#include <stdio.h>

/* The frame: everything up to the heading, in the style of document.css; and the end. */
void page_begin(FILE *to, const char *title);
void page_end(FILE *to);

/* Pages that a script of their own draws from the JSON that libinlay writes. */
typedef struct page_script {
    const char *title;
    const char *member;                /* the JSON has it; other files are refused */
    const char *style, *body, *script; /* besides theme.css and words.js, which all have */
} page_script;
extern const page_script page_explain, page_profile;

/* Such a page up to the JSON, and what follows it. */
void page_script_begin(FILE *to, const page_script *page);
void page_script_end(FILE *to, const page_script *page);
/* A piece of the JSON, whoever wrote it; to is the FILE. An inlay_write_fn. */
void page_script_json(void *to, const char *json, size_t bytes);
/* The whole page in the file `path`, from the JSON in the file `from`. */
INLAY_NODISCARD inlay_status page_script_convert(const page_script *page, const char *from, const char *path,
                                                 inlay_diag *diag);

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
