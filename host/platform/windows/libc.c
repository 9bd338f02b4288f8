/* Functions of the C libraries of POSIX systems that need nothing of the system. */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

char *strndup(const char *text, size_t bytes)
{
    const size_t length = strnlen(text, bytes);
    char *copy = malloc(length + 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *strchrnul(const char *text, int letter)
{
    const char *found = strchr(text, letter);

    return (char *)(uintptr_t)(found != NULL ? found : text + strlen(text));
}

char *strcasestr(const char *text, const char *part)
{
    const size_t bytes = strlen(part);

    for (; strlen(text) >= bytes; text++)
        if (strncasecmp(text, part, bytes) == 0)
            return (char *)(uintptr_t)text;
    return NULL;
}

char *strsep(char **text, const char *separators)
{
    char *word = *text, *end;

    if (word == NULL)
        return NULL;
    end = word + strcspn(word, separators);
    *text = *end != '\0' ? end + 1 : NULL;
    *end = '\0';
    return word;
}

void *memrchr(const void *data, int byte, size_t bytes)
{
    const unsigned char *first = data;

    while (bytes-- > 0)
        if (first[bytes] == (unsigned char)byte)
            return (void *)(uintptr_t)(first + bytes);
    return NULL;
}

void *memmem(const void *data, size_t bytes, const void *part, size_t part_bytes)
{
    const char *first = data;

    for (size_t i = 0; part_bytes <= bytes && i <= bytes - part_bytes; i++)
        if (memcmp(first + i, part, part_bytes) == 0)
            return (void *)(uintptr_t)(first + i);
    return NULL;
}

char *secure_getenv(const char *name)
{
    return getenv(name);
}

int setenv(const char *name, const char *value, int overwrite)
{
    if (!overwrite && getenv(name) != NULL)
        return 0;
    return _putenv_s(name, value) == 0 ? 0 : -1;
}

int unsetenv(const char *name)
{
    return _putenv_s(name, "") == 0 ? 0 : -1;
}

/* The bracket expression at pattern, behind '[': *end gets what follows it. */
static bool is_in_brackets(const char *pattern, char letter, const char **end)
{
    const bool negated = *pattern == '!' || *pattern == '^';
    bool found = false;

    pattern += negated;
    for (bool first = true; *pattern != '\0' && (first || *pattern != ']'); first = false) {
        if (pattern[1] == '-' && pattern[2] != ']' && pattern[2] != '\0') {
            found |= letter >= pattern[0] && letter <= pattern[2];
            pattern += 3;
        } else {
            found |= *pattern++ == letter;
        }
    }
    *end = *pattern == ']' ? pattern + 1 : NULL;
    return found != negated;
}

int fnmatch(const char *pattern, const char *text, int flags)
{
    for (; *pattern != '\0'; text++) {
        const char *end;

        if (*pattern == '*') {
            for (;; text++) {
                if (fnmatch(pattern + 1, text, flags) == 0)
                    return 0;
                if (*text == '\0')
                    return FNM_NOMATCH;
            }
        }
        if (*text == '\0')
            return FNM_NOMATCH;
        if (*pattern == '[') {
            const bool fits = is_in_brackets(pattern + 1, *text, &end);

            if (end != NULL) {
                if (!fits)
                    return FNM_NOMATCH;
                pattern = end;
                continue;
            }
        }
        if (*pattern == '\\' && pattern[1] != '\0')
            pattern++;
        else if (*pattern == '?') {
            pattern++;
            continue;
        }
        if (*pattern++ != *text)
            return FNM_NOMATCH;
    }
    return *text == '\0' ? 0 : FNM_NOMATCH;
}

locale_t newlocale(int mask, const char *name, locale_t base)
{
    (void)mask, (void)base;
    return name;
}

double strtod_l(const char *text, char **end, locale_t locale)
{
    const locale_t before = uselocale(locale);
    const double number = strtod(text, end);

    (void)uselocale(before);
    return number;
}

locale_t uselocale(locale_t locale)
{
    static _Thread_local char names[2][256];
    static _Thread_local unsigned turn;
    const char *now;
    char *before = names[turn++ % 2];

    (void)_configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    now = setlocale(LC_ALL, NULL);
    (void)strncpy(before, now != NULL ? now : "C", sizeof names[0] - 1);
    if (locale != NULL && strcmp(locale, before) != 0)
        (void)setlocale(LC_ALL, locale);
    return before;
}
