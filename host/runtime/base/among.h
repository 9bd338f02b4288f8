/* base/among.h - whether a word is one of a few. */
#ifndef BASE_AMONG_H
#define BASE_AMONG_H
#include <stdbool.h>

/* words: "Add Sub Mul", one blank between two; a word with a blank is none of them, nor is "". */
bool is_among(const char *word, const char *words);
#endif
