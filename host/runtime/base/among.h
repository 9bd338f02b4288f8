/* base/among.h - tests whether a short list contains a word. */
#ifndef BASE_AMONG_H
#define BASE_AMONG_H
#include <stdbool.h>

/* words: separated by single blanks ("Add Sub Mul"). False for "" and for a word that contains a blank. */
bool is_among(const char *word, const char *words);

/* choices: "auto|always|never", or NULL: none. Returns true if text is one of these words; "" is not a word. */
bool is_choice(const char *text, const char *choices);
#endif
