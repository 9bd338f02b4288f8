/* fnmatch.h: patterns with '*', '?' and '[...]', without flags; in libc.c. */
#ifndef WINDOWS_FNMATCH_H
#define WINDOWS_FNMATCH_H

#define FNM_NOMATCH 1

int fnmatch(const char *pattern, const char *text, int flags);
#endif
