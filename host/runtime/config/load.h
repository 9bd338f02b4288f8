/* config/load.h - settings from files and from the environment; what inlay_options_load() does, with the user given. */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H
#include "config/dirs.h"
#include "config/options.h"

#define CONFIG_SYSTEM_FILE "/etc/inlay/inlay.yaml"

/* Sets what the text has, as source, or nothing if there is a mistake in it. path names it in messages, and is what
 * paths in it are relative to. */
inlay_status config_load_text(inlay_options *options, const char *text, size_t bytes, const char *path, uint32_t source,
                              const config_user *user, inlay_diag *diag);
/* Sets what the file has, as source (INLAY_SOURCE_*), or nothing if there is a mistake in it. ~/ in paths is user's. */
inlay_status config_load_file(inlay_options *options, const char *path, uint32_t source, const config_user *user,
                              inlay_diag *diag);
/* The standard files, where they exist: system_file, then the user's. */
inlay_status config_load_standard(inlay_options *options, const char *system_file, const config_user *user,
                                  inlay_diag *diag);
/* The value of a variable, NULL if it is not set. */
typedef const char *(*config_variable_fn)(const char *name);
inlay_status config_load_environment(inlay_options *options, config_variable_fn variable, const config_user *user,
                                     inlay_diag *diag);
/* The user's file into text; false (text is "") when there is none, see config_user_dir(). */
bool config_user_file(const config_user *user, char *text, size_t bytes);

/* What inlay.h has, without the prefix. */
INLAY_NODISCARD inlay_status options_load(inlay_options *options, const char *path, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_load_environment(inlay_options *options, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_standard_file(uint32_t index, char *text, size_t bytes);
#endif
