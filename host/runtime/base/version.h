/* base/version.h - the order of version numbers. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* Compares two version texts: < 0 if a is lower, 0 if they are equal, > 0 if a is higher. The rules are those of Debian
 * and of semantic versions where they agree: numbers compare by value, so 1.10 is higher than 1.9; letters are lower
 * than other characters, and characters of one kind compare as bytes; a leading "v" is skipped; "~", and "-" before a
 * letter, start a pre-release, which is lower than the version without it, so 2.0-rc1 is lower than 2.0. An empty text
 * is lower than every other one. */
int version_compare(const char *a, const char *b);
#endif
