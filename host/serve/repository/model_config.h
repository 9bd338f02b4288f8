/* serve/repository/model_config.h - config.yaml or config.pbtxt, in the folder NAME of the model or of its package: how
 * one model is served. config.yaml:
 *
 *     max_batch: 32          # the server's settings of the same names, for this model
 *     batch_delay_us: 500
 *     batch_target_us: 20000
 *     instances: 2
 *     max_queue: 100
 *     warmup: 1
 *     priority: 2            # of requests without a priority: 1 = first, 3 = last
 *     rollout: canary        # and rollout_percent ...: how a new version begins, see serve/base/rollout.h
 *     versions: latest       # or all, or numbers: 1,3
 *     options: [precision=fast, dim=batch~=8]    # library options, for this model
 *     draft_hidden: hidden_states.2,hidden_states.9    # outputs that draft/model.onnx reads, if it is a head
 *
 * config.pbtxt has Triton's form, see serve/grpc/model_config.proto and config_text.c.
 *
 * Options that bring code or files into the process (plugin_dirs and similar) are allowed for the whole server only. */
#ifndef SERVE_MODEL_CONFIG_H
#define SERVE_MODEL_CONFIG_H
#include "codecs/pbtxt.h"
#include "serve/model/model.h"

enum { CONFIG_MAX_VERSIONS = 64 };

typedef struct model_config {
    model_settings settings;
    bool all_versions;
    uint32_t version_count; /* 0 and not all_versions: the latest ones */
    uint32_t latest_count;  /* how many; 0 = 1 */
    uint64_t versions[CONFIG_MAX_VERSIONS];
    char **options; /* [option_count] "name=value"; owned */
    uint32_t option_count;
    char *draft_hidden;     /* outputs of the model that a head reads, see text_head_find(); owned; NULL: not given */
    bool requests_batching; /* the file sets max_batch above 1 */
    bool is_ensemble;       /* of config.pbtxt */
    struct pbtxt text;      /* of config.pbtxt; without a message: none */
} model_config;

/* Reads the file in the folder of model `name` into *config, which holds the server's settings. Without a file, nothing
 * changes. */
INLAY_NODISCARD inlay_status model_config_read(const char *folder, const char *name, model_config *config,
                                               inlay_diag *diag);
void model_config_deinit(model_config *config);
/* Whether the folder has one of these files. */
bool model_config_exists(const char *folder);
/* Appends a library option; origin, of the setting, is the beginning of messages. */
INLAY_NODISCARD inlay_status model_config_add_option(model_config *config, const char *origin, const char *name,
                                                     size_t name_bytes, const char *value, inlay_diag *diag);
/* Sets the options. */
INLAY_NODISCARD inlay_status model_config_apply(const model_config *config, inlay_options *options, inlay_diag *diag);

/* Whether the folder's config.pbtxt is that of an ensemble. */
bool model_config_is_ensemble(const char *folder);

/* config_ensemble.c: builds the ensemble of config->text, and limits the settings to those of its models. find()
 * returns a reference to a loaded model (version 0 = the latest), or NULL. */
typedef struct model *(*ensemble_find_fn)(void *user, const char *name, uint64_t version);
INLAY_NODISCARD inlay_status config_ensemble(const model_config *config, ensemble_find_fn find, void *user,
                                             model_settings *settings, struct ensemble **out_ensemble,
                                             inlay_diag *diag);

/* config_text.c */
/* Takes the settings of config->text. */
INLAY_NODISCARD inlay_status config_text_take(const char *name, model_config *config, inlay_diag *diag);
/* Compares the inputs and outputs of config->text with those of the loaded model, and writes the model's complete
 * configuration to model->config, as the protocol reports it. */
INLAY_NODISCARD inlay_status config_text_complete(const model_config *config, struct model *model, inlay_diag *diag);
#endif
