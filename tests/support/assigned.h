/* assigned.h - which providers run something in a session. */
#ifndef COSTS_ASSIGNED_H
#define COSTS_ASSIGNED_H
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline void append(void *user, const char *text, size_t bytes)
{
    char *all = user;
    size_t used = strlen(all);

    if (used + bytes < 65536)
        (void)snprintf(all + used, 65536 - used, "%.*s", (int)bytes, text);
}

/* The explanation as JSON without spaces; the next call overwrites it. */
static inline const char *explained(const inlay_session *session)
{
    static char text[65536];

    text[0] = '\0';
    assert_int_equal(inlay_session_explain(
                         session,
                         &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .format = "json" },
                         append, text, NULL),
                     INLAY_OK);
    for (char *from = text, *to = text;; from++) {
        if (*from != ' ' && *from != '\n')
            *to++ = *from;
        if (*from == '\0')
            return text;
    }
}

/* Does the provider run a region of the main graph? */
static inline bool runs_on(const inlay_session *session, const char *provider)
{
    char wanted[64];

    (void)snprintf(wanted, sizeof wanted, "\"provider\":\"%s\",\"nodes\":[", provider);
    return strstr(explained(session), wanted) != NULL;
}
#endif
