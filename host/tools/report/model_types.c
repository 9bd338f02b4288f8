#include "report/model_types.h"
#include <string.h>

bool model_types_init(model_types *types, const struct graph *typed)
{
    *types = (model_types){ .typed = typed };
    for (uint32_t value = 0; typed != NULL && value < typed->value_count; value++)
        if (!names_add(&types->values, typed->values[value].info.name.data, typed->values[value].info.name.bytes, value,
                       NULL)) {
            model_types_deinit(types);
            return false;
        }
    return true;
}

void model_types_deinit(model_types *types)
{
    names_deinit(&types->values);
    *types = (model_types){ 0 };
}

const graph_value *model_types_find(const model_types *types, const struct graph *graph, uint32_t value,
                                    const graph_model **out_model)
{
    const graph_value *found = &graph->values[value];
    const uint32_t at =
        types->typed != NULL ? names_find(&types->values, found->info.name.data, found->info.name.bytes) : NAMES_NONE;

    *out_model = graph->model;
    if (!found->declared && at != NAMES_NONE) {
        found = &types->typed->values[at];
        *out_model = types->typed->model;
    }
    return found->declared || found->info.dtype != INLAY_UNDEFINED ? found : NULL;
}

const struct graph *model_types_body(const model_types *types, const graph_node *node, uint32_t index)
{
    for (uint32_t i = 0; types->typed != NULL && i < types->typed->node_count; i++) {
        const graph_node *other = types->typed->nodes[i];

        if (strcmp(other->info.name.data, node->info.name.data) == 0 && other->body_count == node->body_count &&
            strcmp(other->bodies[index].attr, node->bodies[index].attr) == 0)
            return other->bodies[index].graph;
    }
    return NULL;
}
