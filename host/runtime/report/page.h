/* report/page.h - the files of page/, here and in profile/, as texts; embed.cmake makes page.c of them. They are
 * written in pairs: a byte from 0x80 on stands for two others, which halves them (the library's size has a limit). */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H
#include <stddef.h>
#include <stdint.h>

extern const char page_css[];
extern const char page_html[]; /* the body, without scripts */
extern const char page_js[];   /* all scripts, in the order in which they need each other */
extern const char profile_page_css[];
extern const char profile_page_js[];
extern const unsigned char page_pairs[128][2]; /* pairs.txt */

/* Writes one of these texts, piece by piece. */
void page_put(const char *text, void (*write)(void *user, const char *data, size_t bytes), void *user);
#endif
