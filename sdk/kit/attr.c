/* Access to the attributes of a node. */
#include "inlay/graph_view.h"
#include "inlay/kit_node.h"
#include <string.h>

const inlay_attr_info *kit_attr(const inlay_node_info *node, const char *name)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const inlay_attr_info *a = INLAY_AT(inlay_attr_info, node->attrs, node->attr_stride, i);
        if (a->name.bytes == bytes && memcmp(a->name.data, name, bytes) == 0)
            return a;
    }
    return NULL;
}

int64_t kit_attr_int(const inlay_node_info *node, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = kit_attr(node, name);
    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

double kit_attr_float(const inlay_node_info *node, const char *name, double otherwise)
{
    const inlay_attr_info *a = kit_attr(node, name);
    return a != NULL && a->kind == INLAY_ATTR_FLOAT ? a->f : otherwise;
}

const char *kit_attr_string(const inlay_node_info *node, const char *name, const char *otherwise)
{
    const inlay_attr_info *a = kit_attr(node, name);
    return a != NULL && a->kind == INLAY_ATTR_STRING ? a->s.data : otherwise;
}

const int64_t *kit_attr_ints(const inlay_node_info *node, const char *name, uint32_t *out_count)
{
    const inlay_attr_info *a = kit_attr(node, name);
    bool has = a != NULL && a->kind == INLAY_ATTR_INTS;
    *out_count = has ? a->count : 0;
    return has ? a->ints : NULL;
}
