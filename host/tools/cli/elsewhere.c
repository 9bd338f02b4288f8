#include "cli/elsewhere.h"
#include <stddef.h>
#include <string.h>

const char *elsewhere_answer(const char *word)
{
    static const char *const rows[][2] = {
#define ELSEWHERE(words, answer) { words, answer },
#include "cli/elsewhere.def"
#undef ELSEWHERE
    };
    const size_t bytes = strlen(word);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (const char *at = rows[i][0]; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
            if (strcspn(at, " ") == bytes && strncmp(at, word, bytes) == 0)
                return rows[i][1];
    return NULL;
}
