/* serve/base/settings.h - settings of the server, and library options for its models, from files, environment and
 * flags. */
#ifndef SERVE_SETTINGS_H
#define SERVE_SETTINGS_H
#include "inlay/inlay.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum {
#define SETTING(name, kind, default_value, min, max, doc) SET_##name,
#include "serve/base/settings.def"
#undef SETTING
    SETTING_COUNT
};

/* A flag that sets a library option; applied for each model. */
typedef struct library_flag {
    char *name, *value, *flag;
} library_flag;

struct settings {
    char *text[SETTING_COUNT]; /* NULL = the default */
    uint32_t source[SETTING_COUNT];
    const char *models; /* the argument MODELS */
    const char *config_file, *serve_config;
    bool no_config, verbose;
    uint32_t stop; /* atomic; 1: abandon loads in progress */
    library_flag *flags;
    uint32_t flag_count;
};

/* Reads all sources. An error ends the process with a message and exit code 2; --help and --version end it with 0. */
void settings_parse(struct settings *settings, int argc, char **argv);
void settings_deinit(struct settings *settings);
/* Why requests are refused at the start and at the end of the server, in every protocol. */
#define SERVER_LOADING "models are being loaded"
#define SERVER_ENDING "the server is shutting down"

/* Whether the server is shutting down. Any thread. */
bool settings_stopped(const struct settings *settings);
const char *settings_text(const struct settings *settings, int setting);
int64_t settings_int(const struct settings *settings, int setting);
/* Bytes of models_memory, or the part of this process in the memory of the machine or container; 0 = no limit. */
uint64_t settings_models_memory(const struct settings *settings);
/* Bytes that the runs of all models together may use, by default; 0 = no limit. */
uint64_t settings_runs_memory(const struct settings *settings);
/* Opens a file that a setting names; messages begin with its name. INLAY_INVALID_ARGUMENT: the setting, or the
 * permissions of the file, are wrong. */
INLAY_NODISCARD inlay_status settings_open(const char *setting, const char *path, FILE **out_file, inlay_diag *diag);
/* Creates the library options for one model. */
INLAY_NODISCARD inlay_status settings_options(const struct settings *settings, inlay_options **out_options,
                                              inlay_diag *diag);
#endif
