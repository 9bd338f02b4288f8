/* base/among.h - membership in a short list of words. */
#ifndef BASE_AMONG_H
#define BASE_AMONG_H
#include <stdbool.h>

/* words: separated by single blanks ("Add Sub Mul"). False for "" and for a word that contains a blank. */
bool is_among(const char *word, const char *words);
#endif
