/* config/load.h - settings from files and from the environment: inlay_options_load() with an explicit user. */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H
#include "config/dirs.h"
#include "config/options.h"

#define CONFIG_SYSTEM_FILE "/etc/inlay/inlay.yaml"

/* Applies the settings in the text as values of the given source (INLAY_SOURCE_*), or none of them if the text has a
 * mistake. path is the name of the text in messages; relative paths in the text start at the folder of path. */
inlay_status config_load_text(inlay_options *options, const char *text, size_t bytes, const char *path, uint32_t source,
                              const config_user *user, inlay_diag *diag);
/* config_load_text() for a file. user->home is the folder for ~/ in paths. */
inlay_status config_load_file(inlay_options *options, const char *path, uint32_t source, const config_user *user,
                              inlay_diag *diag);
/* Applies the standard files, if they exist: system_file, then the user's. */
inlay_status config_load_standard(inlay_options *options, const char *system_file, const config_user *user,
                                  inlay_diag *diag);
/* Returns the value of a variable, NULL if it is not set. */
typedef const char *(*config_variable_fn)(const char *name);
/* Applies the settings in the variables INLAY_<NAME> and INLAY_OPTION. */
inlay_status config_load_environment(inlay_options *options, config_variable_fn variable, const config_user *user,
                                     inlay_diag *diag);
/* Logs a warning for each INLAY_<NAME> of the environment ("NAME=VALUE", the last entry is NULL) whose name is one edit
 * from that of an option. Other programs have variables with the prefix, too. */
void config_warn_of_slips(const inlay_options *options, char *const *environment);

/* The functions of inlay.h, without the prefix. */
INLAY_NODISCARD inlay_status options_load(inlay_options *options, const char *path, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_load_environment(inlay_options *options, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_standard_file(uint32_t index, char *text, size_t bytes);
#endif
