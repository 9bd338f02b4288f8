/* Loads a model again with other LoRA adapters, on request. */
#include "serve/repository/repository_internal.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Resolves the path of an adapter's folder, which must be inside the folder of models: the names of other files of the
 * machine are none of a client's business. The caller frees *out_path. */
static inlay_status resolve(const char *models, const char *path, char **out_path, inlay_diag *diag)
{
    char joined[PATH_MAX], *root = realpath(models, NULL), *found = NULL;
    size_t bytes = root != NULL ? strlen(root) : 0;
    inlay_status status = INLAY_OK;

    (void)snprintf(joined, sizeof joined, path[0] == '/' ? "%.0s%s" : "%s/%s", models, path);
    if (root != NULL)
        found = realpath(joined, NULL);
    if (found == NULL || strncmp(found, root, bytes) != 0 || found[bytes] != '/')
        status = inlay_fail(diag, found == NULL && errno == ENOMEM ? INLAY_OUT_OF_MEMORY : INLAY_INVALID_ARGUMENT,
                            "lora_path '%.300s' is no folder inside the folder of models", path);
    free(root);
    if (status != INLAY_OK) {
        free(found);
        found = NULL;
    }
    *out_path = found;
    return status;
}

static bool has_adapter(const struct model *model, const char *adapter)
{
    for (uint32_t i = 0; i < model->decoding.adapter_count; i++)
        if (strcmp(model->decoding.adapters[i], adapter) == 0)
            return true;
    return false;
}

/* Whether the latest version of the model has the adapter; fails unless it is a loaded model that generates texts. */
static inlay_status look_up(struct repository *repository, const char *name, const char *adapter, bool *out_has,
                            inlay_diag *diag)
{
    struct model *model = repository_find(repository, name, strlen(name), 0);
    inlay_status status = INLAY_OK;

    if (model == NULL || model->text == NULL || model->text->decode.logits == INLAY_NONE)
        status = inlay_fail(diag, INLAY_NOT_FOUND, "no model '%s' that generates texts is loaded", name);
    else
        *out_has = has_adapter(model, adapter);
    model_unref(model);
    return status;
}

static inlay_status swap(struct repository *repository, const char *name, const char *adapter, adapter_action *action,
                         char **path, inlay_diag *diag)
{
    inlay_status status;

    (void)pthread_mutex_lock(&repository->loading);
    status = adapter_changes_swap(&repository->adapters, name, adapter, action, path, diag);
    (void)pthread_mutex_unlock(&repository->loading);
    return status;
}

inlay_status repository_change_adapter(struct repository *repository, const char *name, const char *adapter,
                                       const char *path, bool replaces, inlay_diag *diag)
{
    adapter_action action = path != NULL ? ADAPTER_LOADED : ADAPTER_UNLOADED;
    char *resolved = NULL;
    bool has = false, swapped = false;
    inlay_status status;

    INLAY_TRY(look_up(repository, name, adapter, &has, diag));
    if (path == NULL && !has)
        INLAY_TRY(inlay_fail(diag, INLAY_NOT_FOUND, "model '%s' has no adapter '%s'", name, adapter));
    if (path != NULL && has && !replaces)
        INLAY_TRY(inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                             "model '%s' has an adapter '%s'; with load_inplace, it is replaced", name, adapter));
    if (path != NULL && !folder_is_name(adapter, strlen(adapter)))
        INLAY_TRY(inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                             "lora_name '%.100s': a name has letters, digits, '.', '_' and '-'", adapter));
    if (path != NULL)
        INLAY_TRY(resolve(repository->settings->models, path, &resolved, diag));
    INLAY_TRY(swap(repository, name, adapter, &action, &resolved, diag));
    swapped = true;
    INLAY_TRY(repository_load(repository, name, diag));
    INLAY_TRY(look_up(repository, name, adapter, &has, diag));
    if (has != (path != NULL))
        INLAY_TRY(inlay_fail(diag, INLAY_BUSY, "a rollout of model '%s' is in progress; try again later", name));
done:
    if (status != INLAY_OK && swapped)
        (void)swap(repository, name, adapter, &action, &resolved, NULL); /* cannot fail: the item exists */
    free(resolved);
    return status;
}
