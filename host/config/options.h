/* config/options.h - the settings of a session, checked when they are set. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H
#include "inlay/inlay.h"
#include "plugin/plugin.h"

enum {
#define OPTION(name, kind, otherwise, min, max, doc) OPTION_##name,
#include "config/options.def"
#undef OPTION
    OPTION_COUNT
};

typedef struct option_dim {
    char *name;
    int64_t size;
} option_dim;

struct inlay_options {
    char *text[OPTION_COUNT];  /* NULL = default */
    option_dim *dims;          /* [dim_count] */
    uint32_t dim_count;
    provider_setting *settings; /* [setting_count] name is "provider.option" */
    uint32_t setting_count;
    inlay_log_fn log;
    void *log_user;
    inlay_progress_fn progress;
    void *progress_user;
};

/* The value, or the default; options may be NULL. */
const char *options_text(const inlay_options *options, uint32_t option);
int64_t options_int(const inlay_options *options, uint32_t option);
#endif
