#include "shared/elsewhere.h"
#include <ctype.h>
#include <string.h>

static int folded(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

/* Whether the words of a row, separated by blanks, contain word. */
static bool has_word(const char *words, const char *word)
{
    while (*words != '\0') {
        size_t same = 0;

        while (word[same] != '\0' && words[same] == folded(word[same]))
            same++;
        if (word[same] == '\0' && (words[same] == ' ' || words[same] == '\0'))
            return true;
        words += strcspn(words, " ");
        words += *words == ' ';
    }
    return false;
}

/* Whether the program has all options of an answer that begins with an option. */
static bool applies(const char *answer, elsewhere_has_fn has, const void *ctx)
{
    if (has == NULL || strncmp(answer, "--", 2) != 0)
        return true;
    for (const char *at = answer; (at = strstr(at, "--")) != NULL;) {
        size_t bytes;

        at += 2;
        bytes = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        if (!has(ctx, at, bytes))
            return false;
    }
    return true;
}

const char *elsewhere_answer(const char *word, elsewhere_has_fn has, const void *ctx)
{
    static const char *const rows[][2] = {
#define ELSEWHERE(words, answer) { words, answer },
#include "shared/elsewhere.def"
#undef ELSEWHERE
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (has_word(rows[i][0], word) && applies(rows[i][1], has, ctx))
            return rows[i][1];
    return NULL;
}
