#include "serve/repository/adapters.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

void adapter_changes_deinit(struct adapter_changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        free(changes->items[i].model);
        free(changes->items[i].adapter);
        free(changes->items[i].path);
    }
    free(changes->items);
    *changes = (struct adapter_changes){ .items = NULL };
}

/* The item of the adapter, which is added if missing; NULL: out of memory. */
static struct adapter_change *item_of(struct adapter_changes *changes, const char *model, const char *adapter)
{
    struct adapter_change new = { .action = ADAPTER_AS_FOLDER };

    for (uint32_t i = 0; i < changes->count; i++)
        if (strcmp(changes->items[i].model, model) == 0 && strcmp(changes->items[i].adapter, adapter) == 0)
            return &changes->items[i];
    new.model = strdup(model);
    new.adapter = strdup(adapter);
    if (new.model == NULL || new.adapter == NULL || !LIST_GROW(changes->items, changes->count)) {
        free(new.model);
        free(new.adapter);
        return NULL;
    }
    changes->items[changes->count] = new;
    return &changes->items[changes->count++];
}

inlay_status adapter_changes_swap(struct adapter_changes *changes, const char *model, const char *adapter,
                                  adapter_action *action, char **path, inlay_diag *diag)
{
    struct adapter_change *item = item_of(changes, model, adapter), old;

    if (item == NULL)
        return no_memory(diag, "for the adapters of model '%s'", model);
    old = *item;
    item->action = *action;
    item->path = *path;
    *action = old.action;
    *path = old.path;
    return INLAY_OK;
}

inlay_status adapter_changes_apply(const struct adapter_changes *changes, const char *model,
                                   struct folder_adapters *adapters, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < changes->count; i++) {
        const struct adapter_change *change = &changes->items[i];

        if (change->action == ADAPTER_AS_FOLDER || strcmp(change->model, model) != 0)
            continue;
        folder_adapters_remove(adapters, change->adapter);
        if (change->action == ADAPTER_LOADED && !folder_adapters_add(adapters, change->adapter, change->path))
            status = no_memory(diag, "for the adapters of model '%s'", model);
    }
    return status;
}
