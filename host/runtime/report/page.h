/* report/page.h - the files of explain/page/ and profile/page/ as texts; embed.cmake makes page.c of them. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

extern const char page_css[];
extern const char page_html[]; /* the body, without scripts */
extern const char page_js[];   /* all scripts, in the order in which they need each other */
extern const char profile_page_css[];
extern const char profile_page_js[];
#endif
