/* report/page.h - the files of page/, here and in profile/, as texts; embed.cmake makes page.c of them. They are
 * written in pairs: a byte from 0x80 on stands for two others, which halves them (the library's size has a limit). */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const char page_css[];
extern const char page_html[]; /* the body, without scripts */
extern const char page_js[];   /* all scripts, in the order in which they need each other */
extern const char profile_page_css[];
extern const char profile_page_js[];
extern const unsigned char page_pairs[128][2]; /* pairs.txt */

typedef void (*page_write)(void *user, const char *data, size_t bytes);

/* The frame of every page, piece by piece: up to the title, which the caller writes next, and from there to what lies
 * within <body>. Whatever a model's names say, nothing is fetched and nothing is sent; without `scripts` nothing runs.
 */
void page_head(bool scripts, page_write write, void *user);
void page_body(const char *css, page_write write, void *user);

/* A page whose scripts read JSON: to be called before and behind it. The JSON has no '<' and no '&' in it. */
void page_data_begin(const char *title, const char *css, const char *body, page_write write, void *user);
void page_data_end(const char *js, page_write write, void *user);
#endif
