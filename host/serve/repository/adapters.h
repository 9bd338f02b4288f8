/* serve/repository/adapters.h - LoRA adapters that requests have loaded and unloaded, in addition to those of the
 * models' folders. They end with the server. */
#ifndef SERVE_REPOSITORY_ADAPTERS_H
#define SERVE_REPOSITORY_ADAPTERS_H
#include "inlay/inlay.h"
#include "serve/repository/folder.h"

typedef enum adapter_action {
    ADAPTER_AS_FOLDER, /* loaded if the model's folder has it */
    ADAPTER_LOADED,
    ADAPTER_UNLOADED
} adapter_action;

/* What requests have last done with an adapter of a model. */
struct adapter_change {
    char *model, *adapter;
    char *path; /* of ADAPTER_LOADED: its folder; else NULL */
    adapter_action action;
};

/* Zeroed: none. One thread at a time. */
struct adapter_changes {
    struct adapter_change *items; /* [count] owned */
    uint32_t count;
};

void adapter_changes_deinit(struct adapter_changes *changes);
/* Exchanges what was last done with the adapter for *action and *path, which is owned by the list or by the caller. */
INLAY_NODISCARD inlay_status adapter_changes_swap(struct adapter_changes *changes, const char *model,
                                                  const char *adapter, adapter_action *action, char **path,
                                                  inlay_diag *diag);
/* Changes the list of the model's adapters, as folder_adapters_find() has filled it. */
INLAY_NODISCARD inlay_status adapter_changes_apply(const struct adapter_changes *changes, const char *model,
                                                   struct folder_adapters *adapters, inlay_diag *diag);
#endif
