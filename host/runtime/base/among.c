#include "base/among.h"
#include <stddef.h>
#include <string.h>

bool is_among(const char *word, const char *words)
{
    const size_t bytes = strlen(word);

    if (bytes == 0 || strchr(word, ' ') != NULL)
        return false;
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += bytes)
        if ((at == words || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

bool is_choice(const char *text, const char *choices)
{
    const size_t bytes = strlen(text);

    for (const char *choice = choices; choice != NULL && *choice != '\0';) {
        const size_t choice_bytes = strcspn(choice, "|");

        if (bytes > 0 && choice_bytes == bytes && memcmp(choice, text, bytes) == 0)
            return true;
        choice += choice_bytes;
        choice += *choice == '|';
    }
    return false;
}
