/* config/dirs.h - the folders of a user: for caches and for settings files. */
#ifndef CONFIG_DIRS_H
#define CONFIG_DIRS_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* The user's environment. A privileged process (AT_SECURE: set-user-ID, file capabilities) must not let its caller
 * choose files, so it ignores all fields. Any text may be NULL. */
typedef struct config_user {
    const char *home;        /* HOME */
    const char *cache_home;  /* XDG_CACHE_HOME */
    const char *config_home; /* XDG_CONFIG_HOME */
    bool privileged;
} config_user;
/* The environment of this process; borrowed. */
config_user config_user_of_process(void);

/* Joins a folder and a name, which may be "", into text. False (text is "") if they do not fit. */
bool config_join(char *text, size_t bytes, const char *dir, const char *name);

/* Writes the path of folder "inlay" in xdg, or else in home/fallback, into text. False (text is ""): the user is
 * privileged, neither is an absolute path, or it does not fit. */
bool config_user_dir(const config_user *user, const char *xdg, const char *fallback, char *text, size_t bytes);

/* Writes the cache folder of a session into text: option cache_dir, or for "auto" $XDG_CACHE_HOME/inlay or
 * ~/.cache/inlay. False (text is ""): cache_dir is "", or for "auto" no such folder exists or can be created. The
 * folder need not exist yet. options may be NULL (defaults). Any thread. */
bool config_cache_dir(const inlay_options *options, char *text, size_t bytes);

/* Writes the path of folder name in the cache folder into text and creates it if missing; name "" is the cache
 * folder itself. False (text is ""): it cannot be created or must not be used, because it belongs to another user or
 * others may write to it. */
bool config_cache_folder(const inlay_options *options, const char *name, char *text, size_t bytes);

/* Writes the folder for compiled blobs into text: cache_dir as the user gave it, otherwise "compiled" in the cache
 * folder, created if missing. False (text is ""): no folder. */
bool config_blob_dir(const inlay_options *options, char *text, size_t bytes);
#endif
