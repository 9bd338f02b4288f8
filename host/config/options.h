/* config/options.h - the settings of a session, checked when they are set. Each value remembers where it came from:
 * its layer, which decides what may replace it, and its origin, a text for people. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H
#include "inlay/inlay.h"
#include "plugin/plugin.h"
#include <stdbool.h>

enum {
#define OPTION(name, kind, otherwise, min, max, doc) OPTION_##name,
#include "config/options.def"
#undef OPTION
    OPTION_COUNT
};

/* Later layers replace what earlier ones set, whatever the order of the calls. */
typedef enum option_layer {
    LAYER_DEFAULT,
    LAYER_SYSTEM, /* /etc/inlay/inlay.yaml */
    LAYER_USER,   /* ~/.config/inlay/inlay.yaml */
    LAYER_FILE,   /* a file that somebody named */
    LAYER_ENVIRONMENT,
    LAYER_CALLER /* inlay_options_set, hence flags */
} option_layer;

typedef struct option_source {
    option_layer layer;
    const char *origin; /* "inlay.yaml:7", "INLAY_POLICY", "--policy"; copied */
} option_source;

typedef struct option_value {
    char *text;
    char *origin;
    option_layer layer;
} option_value;

/* The values that were set: at most one, or the items of a list. */
typedef struct option_values {
    option_value *items; /* [count] */
    uint32_t count;
} option_values;

struct inlay_options {
    option_values values[OPTION_COUNT]; /* none = default */
    provider_setting *settings;         /* [setting_count] name is "provider.option" */
    option_value *setting_marks;        /* [setting_count] their sources; text is NULL */
    uint32_t setting_count;
    inlay_log_fn log;
    void *log_user;
    inlay_progress_fn progress;
    void *progress_user;
};

/* The value, or the default; options may be NULL. */
const char *options_text(const inlay_options *options, uint32_t option);
int64_t options_int(const inlay_options *options, uint32_t option);

/* The i-th item of an option of kind LIST or PAIRS, NULL past the last; options may be NULL. */
const char *options_list(const inlay_options *options, uint32_t option, uint32_t i);

/* An item KEY=VALUE of an option of kind PAIRS, split at its last '='. Both borrow from the options. */
typedef struct option_pair {
    const char *key; /* [key_bytes], not terminated */
    size_t key_bytes;
    const char *value;
} option_pair;
/* The i-th pair; false past the last. */
bool options_pair(const inlay_options *options, uint32_t option, uint32_t i, option_pair *out_pair);

/* inlay_options_set() from a layer. What a later layer has set stays; the value is checked all the same. */
inlay_status options_set_from(inlay_options *options, const char *name, const char *value, option_source source,
                              inlay_diag *diag);
#endif
