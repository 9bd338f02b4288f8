/* words.h - where a word of a text ends, for tokenizers that encode word by word. */
#ifndef GENERATE_WORDS_H
#define GENERATE_WORDS_H
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* WORDS_NONE: all of it is one. */
enum { WORDS_NONE, WORDS_GPT2, WORDS_CL100K };

typedef struct words_rule {
    locale_t locale; /* which says what letters are */
    uint32_t cut;    /* WORDS_* */
    uint32_t digits; /* of WORDS_CL100K: so many in one word */
} words_rule;

/* Bytes of the word that the text, of at least one byte, begins with. */
size_t words_first(const words_rule *rule, const char *text, size_t bytes);

/* The character at s, of at most `bytes` bytes; *size: how many it has. Bytes that are none are one each, as U+FFFD. */
uint32_t words_char(const char *s, size_t bytes, size_t *size);
#endif
