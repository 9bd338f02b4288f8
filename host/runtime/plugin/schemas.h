/* plugin/schemas.h - the schemas of operators for plugins: the host's extension inlay.schemas/1. */
#ifndef PLUGIN_SCHEMAS_H
#define PLUGIN_SCHEMAS_H
#include "inlay/extensions.h"

/* See inlay_ext_schemas.find. */
inlay_status schema_find(void *ctx, const char *domain, const char *op_type, int64_t opset,
                         void (*receive)(void *user, const inlay_schema *schema), void *user, inlay_diag *diag);
#endif
