/* config/options.h - the settings of a session, checked when they are set. Each value has a source, which decides
 * what may replace it, and an origin, a text for users. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H
#include "base/memory_file.h"
#include "base/setting.h"
#include "inlay/inlay.h"
#include <stdbool.h>

enum {
#define OPTION(name, kind, default_value, min, max, doc) OPTION_##name,
#include "config/options.def"
#undef OPTION
    OPTION_COUNT
};

/* The kinds of options, see options.def. */
enum {
    KIND_TEXT = INLAY_SETTING_TEXT,
    KIND_INT = INLAY_SETTING_INT,
    KIND_NAMES = INLAY_SETTING_NAMES,
    KIND_PATH = INLAY_SETTING_PATH,
    KIND_PATHS = INLAY_SETTING_PATHS,
    KIND_LIST = INLAY_SETTING_LIST,
    KIND_PAIRS = INLAY_SETTING_PAIRS,
    KIND_ENUM = INLAY_SETTING_ENUM
};

enum { OPTIONS_MAX_ITEMS = 4096 }; /* items of one list */

typedef struct option_value {
    char *text;
    char *origin;
    uint32_t source; /* INLAY_SOURCE_* */
} option_value;

/* The values that were set: at most one, or the items of a list. */
typedef struct option_values {
    option_value *items; /* [count] */
    uint32_t count;
    /* The last setting that emptied the list; its text is NULL. origin is NULL if no setting emptied the list. */
    option_value emptied;
} option_values;

struct inlay_options {
    option_values values[OPTION_COUNT]; /* empty = default */
    provider_setting *settings;         /* [setting_count] name is "provider.option" */
    option_value *setting_marks;        /* [setting_count] their sources and origins; text is NULL */
    uint32_t setting_count;
    inlay_log_fn log;
    void *log_user;
    inlay_progress_fn progress;
    void *progress_user;
    inlay_allocator allocator; /* alloc NULL: malloc */
    memory_file *files;        /* [file_count] external data in memory; locations are owned, data is borrowed */
    uint32_t file_count;
};

/* The value, or the default; options may be NULL. */
const char *options_text(const inlay_options *options, uint32_t option);
int64_t options_int(const inlay_options *options, uint32_t option);
/* Whether an option that has the choice 0 has another value. */
bool options_on(const inlay_options *options, uint32_t option);

/* The source of the value, INLAY_SOURCE_*; for a list, the source of its first item. */
uint32_t options_source(const inlay_options *options, uint32_t option);

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
/* Option dim: is the size only for estimates of costs (NAME~=N)? */
static inline bool option_dim_is_estimate(const option_pair *pair)
{
    return pair->key[pair->key_bytes - 1] == '~';
}

/* The number of the option with that name; OPTION_COUNT if unknown. */
uint32_t options_find(const char *name);
/* The option whose name is nearest to an unknown name; NULL if none is near. */
const char *options_nearest(const char *name);
/* The name of option i; a nearest_name_fn. */
const char *options_name_at(const void *ctx, uint32_t i);
uint32_t options_kind(uint32_t option); /* KIND_* */

/* The bytes of the first item of a list of a LIST or PAIRS option, up to the comma after it. */
size_t options_item_bytes(uint32_t option, const char *list);
/* Checks whether inlay_options_set would accept the value; sets nothing. */
inlay_status options_check(const char *name, const char *value, inlay_diag *diag);
/* inlay_options_set() for a source (INLAY_SOURCE_*); origin is copied. A value from a later source is kept; the new
 * value is checked nevertheless. */
inlay_status options_set_as(inlay_options *options, const char *name, const char *value, uint32_t source,
                            const char *origin, inlay_diag *diag);
/* options_set() for a value, or one item of a list, which is not split at its commas. */
INLAY_NODISCARD inlay_status options_set_item(inlay_options *options, const char *name, const char *value,
                                              inlay_diag *diag);

INLAY_NODISCARD inlay_status options_create(inlay_options **out_options, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_copy(const inlay_options *options, inlay_options **out_copy, inlay_diag *diag);
void options_destroy(inlay_options *options);
INLAY_NODISCARD inlay_status options_set_from(inlay_options *options, const char *name, const char *value,
                                              const char *origin, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_set(inlay_options *options, const char *name, const char *value, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_set_int(inlay_options *options, const char *name, int64_t value, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_get(const inlay_options *options, const char *name, char *text, size_t bytes,
                                         size_t *out_bytes, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_describe(uint32_t index, inlay_option_doc *out_doc);
INLAY_NODISCARD inlay_status options_setting(const inlay_options *options, uint32_t index, inlay_setting *out_setting);
void options_set_log(inlay_options *options, inlay_log_fn log, void *user);
void options_set_progress(inlay_options *options, inlay_progress_fn progress, void *user);
INLAY_NODISCARD inlay_status options_set_file(inlay_options *options, const char *location, const void *data,
                                              uint64_t bytes, inlay_diag *diag);
INLAY_NODISCARD inlay_status options_set_allocator(inlay_options *options, const inlay_allocator *allocator,
                                                   inlay_diag *diag);
#endif
