/* serve/repository/changes.h - reloads models whose files change while the server runs. */
#ifndef SERVE_CHANGES_H
#define SERVE_CHANGES_H
#include "serve/repository/repository.h"

/* The state of the files that was last applied. Starts as {0}. */
struct changes {
    struct seen_model *models; /* [count] owned */
    uint32_t count;
};

/* Records the current state of the folder as loaded. */
void changes_note(struct changes *changes, const struct settings *settings);
/* Reads the folder, loads models that are new or changed, and unloads models that were deleted. A change is applied
 * once two consecutive calls see the same state, so that a file that is still being copied is not loaded. A model that
 * cannot be loaded is reported on stderr; this does not try it again until its files change, see repository_retry(). */
void changes_poll(struct changes *changes, struct repository *repository, const struct settings *settings);
void changes_deinit(struct changes *changes);
#endif
