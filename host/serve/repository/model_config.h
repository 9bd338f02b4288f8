/* serve/repository/model_config.h - NAME/config.yaml: how one model is served.
 *
 *     max_batch: 32          # the server's settings of the same names, for this model
 *     batch_delay_us: 500
 *     batch_target_us: 20000
 *     instances: 2
 *     max_queue: 100
 *     warmup: 1
 *     priority: 2            # of requests without a priority: 1 = first, 3 = last
 *     versions: latest       # or all, or numbers: 1,3
 *     options: [precision=fast, assume=batch=8]    # library options, for this model
 *
 * Options that bring code or files into the process (plugin_dirs and similar) are allowed for the whole server only. */
#ifndef SERVE_MODEL_CONFIG_H
#define SERVE_MODEL_CONFIG_H
#include "serve/model/model.h"

enum { CONFIG_MAX_VERSIONS = 64 };

typedef struct model_config {
    model_settings settings;
    bool all_versions;
    uint32_t version_count; /* 0 and not all_versions: the latest */
    uint64_t versions[CONFIG_MAX_VERSIONS];
    char **options; /* [option_count] "name=value"; owned */
    uint32_t option_count;
    bool requests_batching; /* the file sets max_batch above 1 */
} model_config;

/* Reads the file into *config, which holds the server's settings. A missing file changes nothing. */
INLAY_NODISCARD inlay_status model_config_read(const char *path, model_config *config, inlay_diag *diag);
void model_config_deinit(model_config *config);
/* Sets the options. */
INLAY_NODISCARD inlay_status model_config_apply(const model_config *config, inlay_options *options, inlay_diag *diag);
#endif
