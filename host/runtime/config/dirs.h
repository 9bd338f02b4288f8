/* config/dirs.h - the folders of a user: where caches lie and where settings are read from. */
#ifndef CONFIG_DIRS_H
#define CONFIG_DIRS_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* What a process says about its user. A privileged one (AT_SECURE: set-user-ID, file capabilities) must not let its
 * caller choose files, so for it nothing here counts. Any text may be NULL. */
typedef struct config_user {
    const char *home;        /* HOME */
    const char *cache_home;  /* XDG_CACHE_HOME */
    const char *config_home; /* XDG_CONFIG_HOME */
    bool privileged;
} config_user;
/* That of this process; borrowed from its environment. */
config_user config_user_of_process(void);

/* Joins a folder and a name, which may be "", into text; false (text is "") when they do not fit. */
bool config_join(char *text, size_t bytes, const char *dir, const char *name);

/* Folder "inlay" in *xdg*, or else in home/fallback, into text; false (text is "") when there is none: the user is
 * privileged, neither is an absolute path, or it does not fit. */
bool config_user_dir(const config_user *user, const char *xdg, const char *fallback, char *text, size_t bytes);

/* The cache folder of a session into text: option cache_dir, or for "auto" $XDG_CACHE_HOME/inlay or ~/.cache/inlay.
 * false (text is "") when there is none: cache_dir is "", or for "auto" no such folder can be found or made. The folder
 * need not exist yet. options may be NULL (defaults). Any thread. */
bool config_cache_dir(const inlay_options *options, char *text, size_t bytes);

/* Folder name in the cache folder, made where it is missing, into text; "" as the name means the cache folder itself.
 * false (text is "") when it cannot be made or must not be used: it belongs to somebody else, or others may write. */
bool config_cache_folder(const inlay_options *options, const char *name, char *text, size_t bytes);

/* Where compiled blobs go, into text: cache_dir as the user gave it; "compiled" in the cache folder, made where it is
 * missing, where he did not. false (text is ""): nowhere. */
bool config_blob_dir(const inlay_options *options, char *text, size_t bytes);
#endif
