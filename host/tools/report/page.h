/* report/page.h - HTML pages of the verbs, without references to other files, and curves in them. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H
#include "inlay/inlay.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The frame of a page: everything up to the heading, in the style of document.css; and the end. */
void page_begin(FILE *to, const char *title);
void page_end(FILE *to);

/* Pages that a script draws from JSON. The script for graphs reads the JSON of `inlay explain`, of model_json(), or two
 * models as {"a", "b"}. */
enum { PAGE_PARTS = 2 };
typedef struct page_script {
    const char *title;
    const char *member; /* a member that the JSON must have; other files are refused */
    /* In addition to theme.css and words.js, which all pages have; unused parts are NULL. */
    const char *styles[PAGE_PARTS], *bodies[PAGE_PARTS], *scripts[PAGE_PARTS];
} page_script;
extern const page_script page_explain, page_inspect, page_diff, page_profile;

/* The page of a script: the part before the JSON, and the part after it. */
void page_script_begin(FILE *to, const page_script *page);
void page_script_end(FILE *to, const page_script *page);
/* Ends the JSON of page_profile and begins that of `inlay explain` about the same session, for its graph; optional. */
void page_script_graph(FILE *to);
/* Writes a piece of JSON from any source; to is the FILE. An inlay_write_fn. */
void page_script_json(void *to, const char *json, size_t bytes);
/* Writes the page to the file `path`, from JSON, or from the JSON in the file `from`. */
INLAY_NODISCARD inlay_status page_script_write(const page_script *page, const json_t *facts, const char *path,
                                               inlay_diag *diag);
INLAY_NODISCARD inlay_status page_script_convert(const page_script *page, const char *from, const char *path,
                                                 inlay_diag *diag);

/* Writes text to HTML or SVG: '<', '>', '&' and quotes as entities, control characters as '?'. At most `columns` bytes
 * and an ellipsis; 0 = all. */
void page_text(FILE *to, const char *text, size_t columns);

/* Curves over one axis, drawn as SVG. */
typedef struct page_point {
    double x, y, low, high; /* low == high: no interval */
    bool marked;
} page_point;
typedef struct page_curve {
    char name[192];     /* the names of two axes of inlay bench --sweep, with values */
    page_point *points; /* [count] sorted by x */
    uint32_t count;
} page_curve;
/* log_x: the axis has powers of two. */
void page_curves(FILE *to, const char *title, const char *x_name, const char *y_name, const page_curve *curves,
                 uint32_t count, bool log_x);
#endif
