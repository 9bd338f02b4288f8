#include "base/nearest.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME_BYTES = 64 };

static int folded(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Edit distance (optimal string alignment); three rows of its table are enough. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t rows[3][MAX_NAME_BYTES + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > MAX_NAME_BYTES || nb > MAX_NAME_BYTES)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *two_before = rows[(i + 1) % 3];

        now[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            uint32_t replace = before[j - 1] + (folded(a[i - 1]) != folded(b[j - 1]));

            now[j] = least(replace, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]))
                now[j] = least(now[j], two_before[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

const char *nearest_name(const char *wanted, nearest_name_fn name_at, const void *ctx, uint32_t count)
{
    const char *best = NULL;
    uint32_t fewest = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        const char *name = name_at(ctx, i);
        uint32_t edits = distance(wanted, name);

        if (edits < fewest && edits <= (strlen(name) + 2) / 3) {
            fewest = edits;
            best = name;
        }
    }
    return best;
}

void nearest_hint(char out[NEAREST_HINT_BYTES], const char *otherwise, const char *wanted, nearest_name_fn name_at,
                  const void *ctx, uint32_t count)
{
    const char *name = nearest_name(wanted, name_at, ctx, count);

    if (name != NULL)
        (void)snprintf(out, NEAREST_HINT_BYTES, "; did you mean '%s'?", name);
    else
        (void)snprintf(out, NEAREST_HINT_BYTES, "%s", otherwise);
}

bool nearest_slip(char out[NEAREST_SLIP_BYTES], const char *entry, nearest_name_fn name_at, const void *ctx,
                  uint32_t count)
{
    static const char prefix[] = "INLAY_";
    const char *given = entry + sizeof prefix - 1, *nearest;
    char name[MAX_NAME_BYTES + 2];

    if (strncmp(entry, prefix, sizeof prefix - 1) != 0)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    nearest = nearest_name(name, name_at, ctx, count);
    if (nearest == NULL || distance(name, nearest) != 1)
        return false;
    (void)snprintf(out, NEAREST_SLIP_BYTES, "the environment variable INLAY_%s has no effect; did you mean INLAY_%s?",
                   name, nearest);
    for (char *letter = strrchr(out, ' '); *letter != '\0'; letter++)
        *letter = (char)toupper((unsigned char)*letter);
    return true;
}
