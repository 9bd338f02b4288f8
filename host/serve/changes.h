/* serve/changes.h - models that come, change and go in the folder while the server runs. */
#ifndef SERVE_CHANGES_H
#define SERVE_CHANGES_H
#include "serve/repository.h"

/* What the files looked like when they were last acted upon. Starts as {0}. */
struct changes {
    struct seen_model *models; /* [count] owned */
    uint32_t count;
};

/* Remembers the folder as it is: what is loaded now. */
void changes_note(struct changes *changes, const char *path);
/* Looks at the folder: loads what is new or different, and unloads what is gone. A change counts once two looks in a
 * row see the same, so that a file that is being copied is left alone. What cannot be loaded is a line on stderr, and
 * is not tried again before it changes. */
void changes_look(struct changes *changes, struct repository *repository, const char *path);
void changes_deinit(struct changes *changes);
#endif
